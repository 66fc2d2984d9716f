"""`while_loop`, `cond` and `switch`: loops and branches that depend on traced values.

Source: J. Bradbury et al., JAX, 2018: entries ``jax.lax.while_loop``, ``jax.lax.cond``,
``jax.lax.switch``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import fdiff.intact_numpy as np

from ...arraytype import BOOL, ArrayType
from ...dispatch.arguments import Function, traceable
from ...errors import DtypeError, InputError, ShapeError, called, failure, shown
from ...ops.control.switch import SWITCH
from ...ops.control.while_loop import WHILE
from ...ops.entrywise.kink_marks import kink_search
from ...ops.shapes.shaping import traced
from ...tape import Tape
from ...trace import Trace, TracedArray, apply_many, constant_value, private, splice, tracing
from ...trace.handler_arguments import resolve
from ...tracebacks import public
from ...transforms.loops.bodies import rearranged
from ...tree import Spec, flatten, paths, unflatten
from ..options import check_callable, is_int
from ..rules.ruled_call import OutputLeaf
from .loop_bodies import (
    LoopBody,
    TracedBody,
    as_kinds,
    handles,
    leaf_kind,
    settled_body,
    trace_body,
)
from .plain_loops import plain_while

C = TypeVar("C")
R = TypeVar("R")


@public
def while_loop(
    cond: Callable[[C], object], body: Callable[[C], C], init: C, *, limit: int | None = None
) -> C:
    """Run ``value = body(value)`` as long as ``cond(value)`` holds, beginning with `init`.

    Parameters
    ----------
    cond : callable
        A function of the value that returns one truth value. It has no derivative.
    body : callable
        A function of the value that returns the next value.
    init : array or nested structure of arrays
        The first value, as in `scan`.
    limit : int, optional
        The most trips there may be.

    Returns
    -------
    value
        As `init`.

    Raises
    ------
    ConvergenceError
        If the condition still holds after `limit` trips.
    ShapeError
        If `cond` does not return one truth value.
    InputError, DtypeError, TraceError
        As in `scan`.

    Notes
    -----
    Every operator works, in both modes: in reverse the values of each trip are computed again and
    kept, in memory that the run allocates. Under `vmap` the loop runs until all elements are done;
    those that are stay as they are.

    References
    ----------
    ``jax.lax.while_loop``, which has no reverse mode.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> def root(a):  # Newton's method
    ...     return fdiff.while_loop(
    ...         lambda x: np.abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), 1.0
    ...     )
    >>> fdiff.grad(root)(4.0).round(9)
    np.float64(0.25)
    """
    check_callable(cond, "while_loop")
    check_callable(body, "while_loop")
    call = called("while_loop", body)
    if limit is not None and (not is_int(limit) or limit < 1):
        fact = f"limit must be a number of trips, not {shown(limit)}."
        raise failure(InputError, call, fact, "Give an int above 0.")
    if not tracing() or kink_search.on:
        own = (cond, body) if not tracing() else (private(cond), private(body))
        return cast("C", plain_while(LoopBody(call, body), *own, init, limit))
    pair = LoopBody(call, cond), LoopBody(call, body)
    return traced_while(*pair, private(cond), private(body), init, limit)


def traced_while(
    test: LoopBody, body: LoopBody, cond: Function, function: Function, init: C, limit: int | None
) -> C:
    """The loop as a node of the trace under way."""
    leaves, spec = body.leaves(init, "init")
    specs: list[Spec] = []

    def run(arguments: list[object]) -> object:
        out = function(unflatten(spec, arguments))
        specs[:] = [flatten(out)[1]]
        return out

    body_tape, kinds = settled_body(body, leaves, (), run, specs, spec)
    asked = trace_body(test, kinds, lambda args: cond(unflatten(spec, args)))
    if [out.type.shape for out in asked.outs if out.type] != [()]:
        listed = ", ".join(str(t) for t in asked.types)
        fact = f"{test.name} must return one truth value, not {listed or None}."
        raise test.error(ShapeError, fact, "Use numpy.all or numpy.any.")
    count, extras = len(leaves), joined_extras([body_tape, asked])
    types = [cast("ArrayType", k.type) for k in kinds]
    tapes = [with_extras(part, types, extras) for part in (body_tape, asked)]
    results = apply_many(
        WHILE, *as_kinds(leaves, kinds), *extras, body=tapes[0], carries=count,
        cond=as_truth(tapes[1]), limit=limit or 0,
    )  # fmt: skip
    return unflatten(spec, handles(results[:count], body_tape.outs))


@public
def cond(
    pred: Any, true_fun: Callable[..., R], false_fun: Callable[..., R], *operands: object
) -> R:
    """Call one of two functions: ``true_fun(*operands)`` where `pred` holds.

    Parameters
    ----------
    pred : bool
        One truth value. Where it is known, that function alone is called.
    true_fun, false_fun : callable
        Functions of the operands, which may read anything from outside. What they return must have
        one structure, and the same shapes and dtypes.
    *operands
        Arrays, or nested structures of arrays.

    Returns
    -------
    result
        Of the function that was chosen. Only that one is computed, but under `vmap` with a `pred`
        that is mapped: then both are, and the one that was not chosen has no part in derivatives.

    Raises
    ------
    ShapeError
        If `pred` has axes, or the results have different shapes.
    InputError, DtypeError
        If the results have different structures, or dtypes.

    References
    ----------
    ``jax.lax.cond``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> f = lambda x: fdiff.cond(x > 0, np.sqrt, lambda x: 0.0 * x, x)
    >>> fdiff.vmap(fdiff.grad(f))(np.array([-1.0, 0.0, 4.0]))
    array([0.  , 0.  , 0.25])
    """
    check_callable(true_fun, "cond")
    check_callable(false_fun, "cond")
    call = called("cond", true_fun)
    pred = resolve(pred)
    if not traceable(pred) and not hasattr(pred, "dtype"):
        fact = f"pred must be one truth value, not {shown(pred)}."
        raise failure(InputError, call, fact, "Compare values.")
    if np.shape(pred):
        raise failure(ShapeError, call, f"pred has shape {np.shape(pred)}.", "Use numpy.where.")
    if (value := _untraced_value(pred)) is not None:
        return (true_fun if value else false_fun)(*operands)
    truth = traced(pred)
    index = truth.astype(bool).astype(np.int64)
    return cast("R", _traced_switch(call, index, (false_fun, true_fun), operands))


@public
def switch(index: int, branches: Sequence[Callable[..., R]], *operands: object) -> R:
    """Call one of several functions: ``branches[index](*operands)``.

    Parameters
    ----------
    index : int
        Which function; below 0 it is the first, and beyond the last the last.
    branches : sequence of callables
        Functions of the operands, as in `cond`.
    *operands
        Arrays, or nested structures of arrays.

    Returns
    -------
    result
        Of the function that was chosen, as by `cond`.

    Raises
    ------
    ShapeError
        If `index` has axes, or the results have different shapes.
    InputError, DtypeError
        If `index` is no int, there is no branch, or the results have different structures or
        dtypes.

    References
    ----------
    ``jax.lax.switch``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> f = lambda x: fdiff.switch(np.argmax(x), [np.sum, np.prod], x)
    >>> fdiff.grad(f)(np.array([2.0, 3.0]))
    array([3., 2.])
    """
    branches = tuple(branches)
    for branch in branches:
        check_callable(branch, "switch")
    call = called("switch", branches[0] if branches else None)
    index = cast("Any", resolve(index))
    if not branches:
        raise failure(InputError, "switch", "there are no branches.", "Give a list of functions.")
    if np.shape(index):
        raise failure(ShapeError, call, f"index has shape {np.shape(index)}.", "Use numpy.choose.")
    if getattr(index, "dtype", np.asarray(index).dtype).kind not in "iub":
        raise failure(InputError, call, f"index must be an int, not {shown(index)}.", "Use an int.")
    if (value := _untraced_value(index)) is not None:
        return branches[min(max(int(cast("int", value)), 0), len(branches) - 1)](*operands)
    number: object = traced(index)
    number = number.astype(np.int64)
    return cast("R", _traced_switch(call, number, branches, operands))


def _untraced_value(value: object) -> object:
    """The value that decides between branches; None where it is traced."""
    if not isinstance(value, TracedArray):
        return np.asarray(value)[()]
    if kink_search.on:  # which looks at the branch that is taken
        return bool(value) if value.dtype == BOOL else int(value)
    constant = constant_value(value)
    return None if constant is None else constant[()]


def _traced_switch(
    call: str,
    index: object,
    functions: Sequence[Callable[..., object]],
    operands: tuple[object, ...],
) -> object:
    """The branches as a node of the trace under way."""
    bodies = [LoopBody(call, f) for f in functions]
    leaves, spec = flatten(operands)
    leaves = [*map(resolve, leaves)]
    places = [k for k, x in enumerate(leaves) if isinstance(x, (np.ndarray, TracedArray))]
    kinds = [leaf_kind(leaves[k]) for k in places]

    def traced_branch(body: LoopBody) -> TracedBody:
        function = private(body.function)

        def run(arguments: list[TracedArray]) -> object:
            values = [*leaves]
            for k, x in zip(places, arguments, strict=True):
                values[k] = x
            return function(*unflatten(spec, values))

        return trace_body(body, kinds, run)

    traced_bodies = [traced_branch(body) for body in bodies]
    outs = traced_bodies[0].outs
    for body, other in zip(bodies[1:], traced_bodies[1:], strict=True):
        outs = _common(bodies[0], body, traced_bodies[0].spec, other.spec, outs, other.outs)
    extras = joined_extras(traced_bodies)
    types = [cast("ArrayType", k.type) for k in kinds]
    tapes = [with_extras(branch, types, extras, outs) for branch in traced_bodies]
    results: Sequence[TracedArray] = ()
    if outs:
        values = [traced(leaves[k]) for k in places]
        results = apply_many(SWITCH, index, *values, *extras, branches=tuple(tapes))
    return unflatten(traced_bodies[0].spec, handles(results, outs))


def _common(
    first: LoopBody, second: LoopBody, spec: Spec, other: Spec,
    outs: Sequence[OutputLeaf], others: Sequence[OutputLeaf],
) -> list[OutputLeaf]:  # fmt: skip
    """The types of two branches' results; a Python number takes the dtype of the other."""
    names = f"{first.name} and {second.name}"
    if spec != other:
        fact = f"{names} return different structures."
        raise first.error(InputError, fact, "Return results that are built alike.")
    common = []
    for path, a, b in zip(paths(spec), outs, others, strict=True):
        mine, theirs = cast("ArrayType", a.type), cast("ArrayType", b.type)
        fact = f"the result{path} is {mine} of {first.name}, and {theirs} of {second.name}."
        if mine.shape != theirs.shape:
            raise first.error(
                ShapeError, fact, "Return arrays of one shape, by numpy.broadcast_to."
            )
        if mine.dtype != theirs.dtype and not a.weak and not b.weak:
            raise first.error(DtypeError, fact, "Convert one: .astype(...).")
        common.append(b if a.weak else a)
    return common


# --- tapes of several functions with the same inputs ----------------------------------------------


def joined_extras(bodies: Sequence[TracedBody]) -> list[TracedArray]:
    """The values that any of the functions reads from outside, each once."""
    return [*{(id(x.home), x.id): x for body in bodies for x in body.extras}.values()]


def with_extras(
    body: TracedBody, types: Sequence[ArrayType], extras: Sequence[TracedArray],
    outs: Sequence[OutputLeaf] | None = None,
) -> Tape:  # fmt: skip
    """The tape of a function that takes all `extras`, with outputs of the types of `outs`."""
    with Trace("branch", lines=False) as trace:
        inputs = [trace.input(t) for t in types]
        place = {(id(x.home), x.id): trace.input(x.type) for x in extras}
        handles_of = [*inputs, *[place[id(x.home), x.id] for x in body.extras]]
        results = splice(body.tape, handles_of, trace)
        kinds = body.outs if outs is None else outs
        pairs = zip(results, kinds, strict=True)
        return trace.builder.finish(
            [trace.lift(x, cast("ArrayType", k.type).dtype) for x, k in pairs]
        )


def as_truth(tape: Tape) -> Tape:
    """The tape of one number as the tape of a truth value."""
    if tape.output_types[0].dtype == BOOL:
        return rearranged(tape, tape.inputs, tape.outputs)
    with Trace("while_loop", lines=False) as trace:
        out: Any = splice(tape, [trace.input(t) for t in tape.input_types], trace)[0]
        return trace.builder.finish([trace.lift(out != 0)])
