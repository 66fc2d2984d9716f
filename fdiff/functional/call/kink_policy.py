"""Kinks, points without derivative: the policy in force (`kinks`), and the search for such points.

Under the policy "raise" each call first traces the function anew, and evaluates a tape that says
where the derivative does not exist. Inside another trace the results are marked instead, and the
search runs when that trace has ended.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast

import fdiff.intact_numpy as np

from ...dispatch.variant import Variant
from ...errors import KinkError, choice, message
from ...foreign_errors import contextmanager
from ...interpret import evaluate
from ...ops.entrywise.kink_marks import kink_search, mark_now
from ...process.forking import late
from ...tape import Tape
from ...trace import TracedArray, current, splice
from ...trace.derived_lines import in_trips, trips_of_line
from ...trace.trace_stack import occupied
from ...transforms.pipeline import GRADIENT, INLINE_CHECKPOINTS, derive
from ...tree import flatten, unflatten

if TYPE_CHECKING:
    from ...transforms.kinks import Check
    from .operator_call import OperatorCall

POLICIES = ("table", "raise")
WAY_OUT = 'fdiff.kinks("table"), the default, gives the value stated in docs/kinks.md.'

find_kinks = late("kinks", "fdiff.transforms", "find_kinks")  # few programs look for them
policy: ContextVar[str] = ContextVar("fdiff.kinks", default="table")


ASKED = "kinks"  # a key of `occupied`, which stays there after the first use of "raise"


def kinks(policy: str) -> AbstractContextManager[None]:
    """Choose what happens at points without a derivative.

    Parameters
    ----------
    policy : {"table", "raise"}
        ``"table"``, the default, returns the value that docs/kinks.md lists for each function.
        ``"raise"`` looks for such points before each derivative, and raises an error. Use it to
        find faults: each call traces and interprets the function once more.

    Returns
    -------
    context manager
        It applies to the calls inside, in this thread (or asynchronous task). It may be nested, and
        may decorate a function.

    Raises
    ------
    KinkError
        Inside, at a point without derivative that contributes to the result. A branch that
        `numpy.where` does not take does not contribute.
    InputError
        If there is no such policy.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, chapter 14.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> with fdiff.kinks("raise"):
    ...     print(fdiff.grad(np.abs)(2.0))
    1.0
    """
    way = "Write fdiff.kinks('raise') to be told of kinks."
    return _in_force(choice(policy, POLICIES, "policy", "kinks", way))


@contextmanager
def _in_force(name: str) -> Generator[None]:
    before = policy.get()
    if name == "raise":  # a context may be copied, and outlive its ``with``
        occupied[ASKED] = None
    try:
        policy.set(name)
        yield
    finally:
        policy.set(before)


def refuse_kinks(call: OperatorCall) -> object:
    """Return the call, or raise if the derivative does not exist at its arguments.

    The function is traced anew. In this trace, functions made of several operations mark their own
    kinks.
    """
    kink_search.on = True
    try:
        variant, inputs, _ = call.traced_anew()
    finally:
        kink_search.on = False
    for tape, wrt, of in _differentiated(variant):
        kink_tape, checks = find_kinks(tape, wrt, of)
        if not checks:
            continue
        with np.errstate(all="ignore"):
            values = evaluate(kink_tape, *cast("Sequence[np.ndarray]", inputs))
        for check in checks:
            hit = np.asarray(values[check.first])
            if hit.any():
                raise _error(variant.traced.call, check, hit, np.asarray(values[check.first + 1]))
    return call


def mark_kinks(result: object, variant: Variant, inputs: Sequence[object]) -> object:
    """The result of an operator inside another trace, marked with conditions for its kinks.

    The conditions are evaluated when that trace is done; until then no value is known.
    """
    for tape, wrt, of in _differentiated(variant):
        kink_tape, checks = find_kinks(tape, wrt, of)
        trace = current()
        operands = [
            TracedArray(trace, trace.lift(value, type_.dtype), type_)
            for value, type_ in zip(inputs, kink_tape.input_types, strict=True)
        ]
        values = splice(kink_tape, operands, trace)
        for check in checks:
            leaves, spec = flatten(result)
            some = np.any(values[check.first])
            result = unflatten(spec, [_faulty(x, some, check, variant.traced.call) for x in leaves])
    return result


def _faulty(leaf: object, condition: object, check: Check, call: str) -> object:
    """A result marked so that its use raises where the condition holds, with the user's line."""
    if not isinstance(leaf, TracedArray):
        return leaf
    inner = check.function if check.fault else call
    point = check.point if check.fault else f"{check.function} has no derivative at {check.point}"
    out = mark_now(leaf, condition, inner, point, always=True)
    if check.line is not None:
        out.home.builder.lines[out.id] = (check.line,)
    return out


def _differentiated(variant: Variant) -> list[tuple[Tape, Sequence[int], Sequence[int]]]:
    """The tapes that are differentiated, each with its differentiated inputs and outputs.

    These are the function itself, and for second derivatives its gradient. A program without
    derivatives of its own may call operators that differentiate.
    """
    plan, traced = variant.plan, variant.traced
    tape, count = derive((INLINE_CHECKPOINTS,), traced.tape), len(traced.tape.outputs)
    of = range(count) if plan.of is None else plan.of
    tapes: list[tuple[Tape, Sequence[int], Sequence[int]]] = [
        (tape, traced.wrt if plan.order else (), of)
    ]
    if plan.order > 1:
        last = count + len(traced.wrt)
        slope = derive(GRADIENT, tape, wrt=traced.wrt, keep=range(last))
        tapes.append((slope, traced.wrt, range(count, last)))
    return tapes


def _error(call: str, check: Check, hit: np.ndarray, value: np.ndarray) -> KinkError:
    """The error for the first point where a derivative does not exist."""
    if check.fault:
        fact = f"in {check.function}, {check.point}{in_trips(trips_of_line(check.line))}."
        return KinkError(message(call, fact, WAY_OUT, check.line))
    entry = tuple(int(k) for k in np.argwhere(hit)[0])
    where = f" in entry {entry[0] if len(entry) == 1 else entry}" if entry else ""
    fact = f"{check.function} has no derivative at {check.point}"
    if check.argument is not None and value.shape == hit.shape:
        fact += f": argument {check.argument} is {value[entry]!s}"
    where += in_trips(trips_of_line(check.line))
    return KinkError(message(call, f"{fact}{where}.", WAY_OUT, check.line))
