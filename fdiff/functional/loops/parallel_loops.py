"""`map` and `associative_scan`: loops whose trips can run in parallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import fdiff.intact_numpy as np

from ... import kernels
from ...device_arrays import CPU
from ...errors import InputError, ShapeError, called, failure, flag, shown
from ...ops.entrywise.kink_marks import kink_search
from ...ops.shapes.shaping import traced
from ...trace import Array, TracedArray, tracing
from ...trace.handler_arguments import resolve
from ...trace.trace_stack import stack
from ...tracebacks import public
from ...tree import flatten, paths, unflatten
from ..operators.vectorized_map import vmap
from ..options import check_callable, is_int
from .plain_loops import Rows
from .scans import scan

A = TypeVar("A")
Combine = Callable[[list[Array], list[Array]], list[Array]]
FEW_THREADS, LARGE = 2, 1 << 18  # above both, threads share what is combined


@public
def map(f: Callable[[Any], A], xs: object, *, batch_size: int | None = None) -> A:  # noqa: A001 - the name of ``lax.map``
    """Apply `f` to each row of `xs`, and stack the results.

    Parameters
    ----------
    f : callable
        A function of one row.
    xs : array or nested structure of arrays
        Arrays of one length along axis 0.
    batch_size : int, optional
        How many rows are computed at once, as by `vmap`; by default all. Fewer need less memory.

    Returns
    -------
    ys
        What `f` returns, stacked along axis 0.

    Raises
    ------
    ShapeError
        If `xs` are of different lengths.
    InputError
        If `batch_size` is no number of rows.

    References
    ----------
    ``jax.lax.map``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.map(lambda row: np.sum(row**2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([ 5., 25.])
    """
    check_callable(f, "map")
    call = called("map", f)
    rows = Rows(xs, None, call)
    if batch_size is not None and (not is_int(batch_size) or batch_size < 1):
        fact = f"batch_size must be a number of rows, not {shown(batch_size)}."
        raise failure(InputError, call, fact, "Give an int above 0.")
    if not tracing() or not rows.length:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    size = rows.length if batch_size is None else min(batch_size, rows.length)
    if size == rows.length:
        return vmap(f)(xs)
    whole = rows.length // size * size
    leaves = [traced(resolve(x)) for x in rows.leaves]
    pieces = [x[:whole].reshape((-1, size, *x.shape[1:])) for x in leaves]
    results = scan(lambda _, x: (None, vmap(f)(x)), None, unflatten(rows.spec, pieces))[1]
    parts, spec = flatten(results)
    flat = [np.reshape(x, (whole, *np.shape(x)[2:])) for x in cast("list[Array]", parts)]
    if whole < rows.length:
        rest = flatten(vmap(f)(unflatten(rows.spec, [x[whole:] for x in leaves])))[0]
        pairs = zip(flat, cast("list[Array]", rest), strict=True)
        flat = [np.concatenate(pair) for pair in pairs]
    return unflatten(spec, flat)


@public
def associative_scan(
    f: Callable[[Any, Any], object],
    xs: A,
    reverse: bool = False,  # noqa: FBT001, FBT002 - the signature of ``lax.associative_scan``
    axis: int = 0,
) -> A:
    """All partial results of an associative function: ``x0, f(x0, x1), f(f(x0, x1), x2), ...``.

    Parameters
    ----------
    f : callable
        An associative function of two arrays, or of two structures of them, which hold several
        entries along `axis`: it computes entry by entry there.
    xs : array or nested structure of arrays
        Arrays of one length along `axis`.
    reverse : bool
        Whether to begin at the last entry: ``xn, f(xn, xm), ...``.
    axis : int
        The axis along which the entries are combined.

    Returns
    -------
    ys
        As `xs`.

    Raises
    ------
    ShapeError
        If `xs` are of different lengths, or `f` gives other shapes.

    Notes
    -----
    Outside of traced functions, on a GPU, and for more than 262,144 numbers that more than two
    threads share, it takes about ``2 * log2(n)`` calls of `f`, on arrays of half the length each
    time. Else it is a loop, with half the work, and `f` is called with arrays of one entry. Results
    agree up to rounding.

    References
    ----------
    G. E. Blelloch, "Prefix sums and their applications", CMU-CS-90-190, 1990, section 1.2;
    ``jax.lax.associative_scan``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.associative_scan(np.multiply, np.array([1.0, 2.0, 3.0, 4.0]))
    array([ 1.,  2.,  6., 24.])
    """
    check_callable(f, "associative_scan")
    call = called("associative_scan", f)
    leaves, spec = flatten(xs)
    arrays = [_array(x) for x in leaves]
    for array, path in zip(arrays, paths(spec), strict=True):
        _check_axis(axis, array, f"xs{path}", call)
    moved: list[Array] = [np.moveaxis(x, axis, 0) for x in arrays]
    rows = Rows(unflatten(spec, moved), None, call)
    if flag(reverse, "reverse", call):
        moved = [x[::-1] for x in moved]

    def combined(a: list[Any], b: list[Any]) -> list[Array]:
        pair = [unflatten(spec, [np.moveaxis(x, 0, axis) for x in side]) for side in (a, b)]
        out, built = flatten(f(*pair))
        results: list[Array] = [np.moveaxis(_array(x), axis, 0) for x in out]
        if built != spec or any(
            np.shape(x) != np.shape(y) for x, y in zip(results, a, strict=True)
        ):
            fact = "the function gives arrays of another structure or shape than it is given."
            raise failure(ShapeError, call, fact, "Compute entry by entry along the axis.")
        return results

    partial_results = _by_loop if _one_by_one(moved) else _partial_results
    results = partial_results(combined, moved, rows.length)
    if reverse:
        results = [x[::-1] for x in results]
    return unflatten(spec, [np.moveaxis(x, 0, axis) for x in results])


def _check_axis(axis: object, x: Array, name: str, call: str) -> None:
    if not is_int(axis):
        fact = f"axis must be an int, not {shown(axis)}."
        raise failure(InputError, call, fact, "Give one axis.")
    if not -x.ndim <= axis < x.ndim:
        fact = f"axis {axis} is out of bounds for {name}, which has {x.ndim} axes."
        raise failure(ShapeError, call, fact, "Axes go from -n to n - 1.")


def _array(x: object) -> Any:
    x = resolve(x)
    return x if isinstance(x, TracedArray) or hasattr(x, "dtype") else np.asarray(x)


def _one_by_one(xs: list[Array]) -> bool:
    """Whether entries are combined one after another: half the work, and one short kernel."""
    here = tracing() and stack.device in (CPU, None) and not kink_search.on
    return here and (kernels.threads() <= FEW_THREADS or sum(x.size for x in xs) < LARGE)


def _by_loop(f: Combine, xs: list[Array], count: int) -> list[Array]:
    """The partial results, by a loop whose carry is the latest result."""
    if count < 2:
        return xs
    kept = [x.dtype for x in f([x[:1] for x in xs], [x[1:2] for x in xs])]
    if kept != [x.dtype for x in xs]:  # results of other dtypes are no carry
        return _partial_results(f, xs, count)

    def step(carry: list[Array], row: list[Array]) -> tuple[list[Array], list[Array]]:
        new = [x[0] for x in f([x[None] for x in carry], [x[None] for x in row])]
        return new, new

    rows = scan(step, [x[0] for x in xs], [x[1:] for x in xs])[1]
    return [np.concatenate([x[:1], y]) for x, y in zip(xs, rows, strict=True)]


def _partial_results(f: Combine, xs: list[Array], count: int) -> list[Array]:
    """Combine neighbours, find the partial results of those, and fill in every second one."""
    if count < 2:
        return xs
    half = count // 2
    odd = _partial_results(f, f([x[0 : 2 * half : 2] for x in xs], [x[1::2] for x in xs]), half)
    last = (count - 1) // 2
    first = [x[:1] for x in xs]
    if not last:
        return [np.concatenate(pair) for pair in zip(first, odd, strict=True)]
    even = f([x[:last] for x in odd], [x[2::2] for x in xs])
    return [_woven(a, o, e, count) for a, o, e in zip(first, odd, even, strict=True)]


def _woven(first: Array, odd: Array, even: Array, count: int) -> Array:
    """Entries at even and odd places as one array."""
    evens = np.concatenate([first, even])
    if count % 2:  # one more at even places
        odd = np.concatenate([odd, odd[:1]])
    pairs = np.stack([evens, odd], axis=1)
    return np.reshape(pairs, (-1, *np.shape(pairs)[2:]))[:count]
