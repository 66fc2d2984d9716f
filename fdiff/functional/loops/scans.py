"""Loops and branches on traced values, as nodes of the tape: `scan` and `fori_loop`.

Source: J. Bradbury et al., JAX, 2018: entries ``jax.lax.scan`` and ``jax.lax.fori_loop``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...errors import InputError, called, failure, flag, shown
from ...ops.control.loop import LOOP
from ...ops.entrywise.kink_marks import kink_search
from ...ops.shapes.gather_scatter import iota
from ...ops.shapes.shaping import traced
from ...trace import TracedArray, apply, apply_many, private, tracing
from ...trace.handler_arguments import resolve
from ...tracebacks import public
from ...tree import Spec, flatten, unflatten
from ..operators.jit_programs import jit
from ..options import check_callable
from ..rules.ruled_call import OutputLeaf
from .branches import traced_while
from .loop_bodies import LoopBody, as_kinds, handles, pair_of, settled_body, with_extras_before
from .plain_loops import Rows, plain_scan

C = TypeVar("C")
SCALAR = OutputLeaf(None, scalar=True)  # what has no axes is a scalar


@public
def scan(
    f: Callable[[C, Any], tuple[C, Any]],
    init: C,
    xs: object = None,
    length: int | None = None,
    reverse: bool = False,  # noqa: FBT001, FBT002 - the signature of ``lax.scan``
) -> tuple[C, Any]:
    """Run ``carry, y = f(carry, x)`` for each row of `xs`; the last carry, and the rows of `y`.

    In a traced function, the loop is one node of the tape, whose body is traced once: tracing and
    compiling take the same time for any number of trips.

    Parameters
    ----------
    f : callable
        A function of the carry and of a row that returns a pair: the next carry, and an output.
        It may read anything from outside; it may store into its arguments, which are its own.
    init : array or nested structure of arrays
        The first carry. What `f` returns must have the same structure, shapes and dtypes. A Python
        number takes the dtype that `f` gives.
    xs : array or nested structure of arrays, optional
        Arrays of one length along axis 0. A trip gets an entry of each.
    length : int, optional
        The number of trips, where `xs` is None.
    reverse : bool
        Whether to begin with the last row.

    Returns
    -------
    carry
        As `init`.
    ys
        What `f` returned as its output, stacked along axis 0.

    Raises
    ------
    InputError
        If `f` does not return a pair, or a carry of another structure, or a leaf is no number.
    ShapeError, DtypeError
        If a leaf of the carry has another shape or dtype after a trip, or `xs` are of different
        lengths.
    TraceError
        If `f` branches on a value that the loop carries, or stores into an array from outside.

    Notes
    -----
    In reverse mode the values that the pullback reads are kept for each trip. Outside of traced
    functions, this is a plain Python loop.

    References
    ----------
    ``jax.lax.scan``, whose arguments and meaning it has.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> def step(total, x):
    ...     return total + x * x, total
    >>> def f(x):
    ...     return fdiff.scan(step, 0.0, x)[0]
    >>> fdiff.value_and_grad(f)(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """
    check_callable(f, "scan")
    call = called("scan", f)
    reverse = flag(reverse, "reverse", call)
    rows = Rows(xs, length, call)
    if not tracing() and not rows.length:
        return jit(lambda: scan(f, init, xs, length, reverse))()
    own, run = _body_and_loop(f, rows.length)
    return cast("tuple[C, object]", run(LoopBody(call, f), own, init, rows, reverse=reverse))


@public
def fori_loop(lower: int, upper: int, body: Callable[[Any, C], C], init: C) -> C:
    """Run ``value = body(i, value)`` for `i` from `lower` to ``upper - 1``, beginning with `init`.

    Parameters
    ----------
    lower, upper : int
        The bounds, as `range` has them: there is no trip where `upper` is not above `lower`. They
        may be traced, in reverse mode too.
    body : callable
        A function of the index and of the value that returns the next value. In a traced function
        the index is traced: it may index arrays, but Python cannot branch on it.
    init : array or nested structure of arrays
        The first value, as in `scan`.

    Returns
    -------
    value
        As `init`.

    Raises
    ------
    TypeError
        If a bound is not an int.
    InputError, ShapeError, DtypeError, TraceError
        As in `scan`.

    References
    ----------
    ``jax.lax.fori_loop``.

    Examples
    --------
    >>> import fdiff
    >>> fdiff.grad(lambda x: fdiff.fori_loop(0, 3, lambda i, y: x * y, 1.0))(2.0)
    np.float64(12.0)
    """
    check_callable(body, "fori_loop")
    call = called("fori_loop", body)
    lower, upper = cast("int", resolve(lower)), cast("int", resolve(upper))
    for bound, name in ((lower, "lower"), (upper, "upper")):
        if np.shape(bound) or getattr(bound, "dtype", np.asarray(bound).dtype).kind not in "iu":
            fact = f"{name} must be an int, not {shown(bound)}."
            raise failure(InputError, call, fact, "Use ints, as for range.")
    if not kink_search.on and any(isinstance(x, TracedArray) for x in (lower, upper)):
        return cast("C", _traced_bounds(call, traced(lower), traced(upper), body, init))
    count = max(0, int(upper) - int(lower))
    if not tracing() and not count:
        return jit(lambda: fori_loop(lower, upper, body, init))()
    own, run = _body_and_loop(body, count)
    first = int(lower)
    if run is _traced_scan:  # where no array is made
        index: object = apply(iota, size=count)
        index = index + first if first else index
    else:
        index = np.arange(first, first + count)
    rows = Rows(index, None, call)
    step = lambda value, i: (own(i, value), None)  # noqa: E731 - a line
    return cast("C", run(LoopBody(call, body), step, init, rows)[0])


def _traced_bounds(
    call: str, lower: TracedArray, upper: TracedArray, body: Callable[..., object], init: object
) -> object:
    """The loop between bounds that are traced: it runs while its index is below the upper one."""
    own, name = private(body), LoopBody(call, body)
    bound: object = lower
    start = bound.astype(np.int64)
    step = lambda pair: (pair[0] + 1, own(pair[0], pair[1]))  # noqa: E731 - a line
    below = lambda pair: pair[0] < upper  # noqa: E731 - a line
    return traced_while(name, name, below, step, (handles([start], [SCALAR])[0], init), None)[1]


def _body_and_loop(
    function: Callable[..., object], trips: int
) -> tuple[Callable[..., object], Callable[..., tuple[object, object]]]:
    """The function that runs in place of a body, and the function that runs the loop."""
    if not tracing():
        return function, plain_scan
    # A search for kinks looks at each trip.
    return private(function), plain_scan if kink_search.on and trips else _traced_scan


def _traced_scan(
    body: LoopBody,
    f: Callable[..., object],
    init: object,
    rows: Rows,
    *,
    reverse: bool = False,
) -> tuple[object, object]:
    """The loop as a node of the trace under way."""
    leaves, spec = body.leaves(init, "init")
    table = [traced(x) for x in body.leaves(rows.leaves, "xs")[0]]
    entries = [OutputLeaf(ArrayType(x.shape[1:], x.dtype), scalar=x.ndim == 1) for x in table]
    count = len(leaves)
    specs: list[Spec] = []

    def run(arguments: list[object]) -> object:
        carry = unflatten(spec, arguments[:count])
        state, out = pair_of(body, f(carry, unflatten(rows.spec, arguments[count:])))
        specs[:] = [flatten(state)[1], flatten(out)[1]]
        return state, out

    traced_body, kinds = settled_body(body, leaves, entries, run, specs, spec)
    tape = with_extras_before(traced_body, len(table))
    state = as_kinds(leaves, kinds)
    results: Sequence[TracedArray] = ()
    if tape.outputs:
        results = apply_many(
            LOOP, np.asarray(rows.length), *state, *traced_body.extras, *table, body=tape,
            carries=count, length=rows.length, reverse=reverse, rows=len(table),
        )  # fmt: skip
    outs = [x._replace(scalar=False) for x in traced_body.outs[count:]]
    outputs = handles(results, [*traced_body.outs[:count], *outs])
    return unflatten(spec, outputs[:count]), unflatten(specs[1], outputs[count:])
