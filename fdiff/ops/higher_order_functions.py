"""Functions that call functions: along axes, entry by entry, one entry after the other; and grids by index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

import numpy as np

from ..arraytype import INT, promote
from ..primitive import UFUNC_METHODS, UFUNCS
from ..tape import CONSTANT, INPUT
from ..trace import TracedArray, current, implements, look, replaces, unsupported
from ..trace.views import View
from .creation import array as array_call
from .cumulative import cumsum_call
from .data_dependent_shapes import reduceat, seen
from .families import kind_of, refuse
from .joining_and_splitting import concatenate_call
from .reductions import as_scalar, given
from .sampled_functions import linspace
from .shaping import broadcast_to, fresh, normal_axis, traced, with_axes
from .third_party_functions import holds_traced, replaces_if_traced

# --- one entry after the other ------------------------------------------------------------------


def _fold(ufunc: np.ufunc) -> Callable[..., object]:
    """``ufunc.reduce`` from the first entry to the last, as NumPy defines it."""

    def reduce(x: object, axis: object = 0, dtype: object = None, keepdims: bool = False, initial: object = None, where: object = True) -> object:
        refuse(ufunc, {"where": where})
        array = _loop_typed(ufunc, x, dtype)
        axes = [axis] if not isinstance(axis, tuple) else list(axis)
        if axis is None:
            array, axes = array.reshape(-1) if keepdims is not True else array.reshape((-1, *(1,) * (array.ndim - 1))), [0]
        if len(axes) != 1 or (axis is None and np.ndim(x) > 1):
            raise ValueError(f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified")
        at = normal_axis(axes[0], array.ndim)
        rows = list(np.moveaxis(array, at, 0))
        start = [traced(initial).astype(array.dtype)] if given(initial) else rows[:1]
        if not start:
            if ufunc.identity is None:
                raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
            start = [np.full((*array.shape[:at], *array.shape[at + 1 :]), ufunc.identity, array.dtype)]
        out = start[0]
        for row in rows if given(initial) else rows[1:]:
            out = ufunc(out, row)
        out = traced(out)
        return np.expand_dims(out, at) if keepdims is True else as_scalar(TracedArray(out.home, out.id, out.type))

    return reduce


def _loop_typed(ufunc: np.ufunc, x: object, dtype: object) -> TracedArray:
    """`x` in the dtype in which NumPy accumulates."""
    array = traced(x)
    return array.astype(dtype if dtype is not None else ufunc.reduce(np.ones(1, array.dtype)).dtype)


def _accumulate(ufunc: np.ufunc) -> Callable[..., TracedArray]:
    def accumulate(x: object, axis: int = 0, dtype: object = None) -> TracedArray:
        array = _loop_typed(ufunc, x, dtype)
        at = normal_axis(axis, array.ndim)
        rows = list(np.moveaxis(array, at, 0))
        for k in range(1, len(rows)):
            rows[k] = ufunc(rows[k - 1], rows[k])
        return np.stack(rows, axis=at) if rows else TracedArray(array.home, array.id, array.type)

    return accumulate


def _first_less_the_rest(x: object, axis: int = 0, dtype: object = None) -> TracedArray:
    """``subtract.accumulate``: the first entry, less the running sum of the others."""
    array = traced(x) if dtype is None else traced(x).astype(dtype)
    at = normal_axis(axis, array.ndim)
    before = (slice(None),) * at
    first, others = array[(*before, slice(0, 1))], array[(*before, slice(1, None))]
    return concatenate_call([first, first - cumsum_call(others, at, array.dtype)], at)


_HOMOGENEOUS = {"dd->d", "ll->l", "qq->q"}  # the result can be the next operand
for _ufunc in list(UFUNCS):
    if _ufunc.nin == 2 and _ufunc.nout == 1 and _ufunc.signature is None and (_HOMOGENEOUS & set(_ufunc.types) or _ufunc.__name__.startswith("logical")):
        for _method, _make in (("reduce", _fold), ("accumulate", _accumulate), ("reduceat", reduceat)):
            if (_ufunc, _method) not in UFUNC_METHODS:
                UFUNC_METHODS[_ufunc, _method] = _make(_ufunc)
UFUNC_METHODS[np.subtract, "accumulate"] = _first_less_the_rest

# --- along axes, and entry by entry -------------------------------------------------------------


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., object], axis: int, arr: object, *args: object, **kwargs: object) -> TracedArray:
    """`func1d` of each line along an axis; its results stand where the line stood."""
    array = traced(arr)
    at = normal_axis(axis, array.ndim)
    lines = np.moveaxis(array, at, -1)
    lead = lines.shape[:-1]
    if not prod(lead):
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    flat = lines.reshape((prod(lead), lines.shape[-1]))
    outs = [array_call(func1d(line, *args, **kwargs)) for line in flat]
    stacked = np.stack([traced(out) for out in outs])
    shape = stacked.shape[1:]
    whole = stacked.reshape((*lead, *shape))
    order = (*range(at), *range(len(lead), len(lead) + len(shape)), *range(at, len(lead)))
    return np.transpose(whole, order)


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., object], a: object, axes: object) -> object:
    """`func` over one axis after the other, which stay with length one."""
    value = traced(a)
    for axis in np.ravel(axes).tolist():
        out = traced(func(value, normal_axis(axis, np.ndim(a))))
        if out.ndim != value.ndim:
            out = np.expand_dims(out, normal_axis(axis, np.ndim(a)))
            if out.ndim != value.ndim:
                raise ValueError("function is not returning an array of the correct shape")
        value = out
    return value


def _entrywise(nodes: Sequence[object]) -> bool:
    """Whether all of these nodes work entry by entry."""
    return all(n.primitive in (CONSTANT, INPUT) or n.primitive.family == "elementwise" or n.primitive.name == "broadcast_to" for n in nodes)


@implements(np.piecewise)
def piecewise(x: object, condlist: object, funclist: Sequence[object], *args: object, **kw: object) -> TracedArray:
    """One function for each condition.

    A function that works entry by entry is taken of all entries, and chosen from; any other of the
    entries its condition picks, which are then looked at.
    """
    array = traced(x)
    conditions, functions = _conditions(condlist, array), list(funclist)
    if len(functions) == len(conditions) + 1:
        rest = ~np.any(np.stack([traced(c) for c in conditions]), axis=0)
        conditions = [rest, *conditions]
        functions = [functions[-1], *functions[:-1]]
    elif len(functions) != len(conditions):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    out: object = np.zeros(array.shape, array.dtype)
    for condition, function in zip(conditions, functions, strict=True):
        out = _chosen(array, condition, function, out, args, kw)
    return traced(out).astype(array.dtype)


def _conditions(condlist: object, array: TracedArray) -> list[object]:
    single = np.isscalar(condlist) or not np.ndim(condlist) or (array.ndim and not np.ndim(condlist[0]))
    return [condlist if not isinstance(condlist, (list, tuple)) else np.asarray(condlist)] if single else list(condlist)


def _chosen(x: TracedArray, condition: object, function: object, out: object, args: tuple[object, ...], kw: dict[str, object]) -> object:
    held = traced(condition).astype(bool)
    if not callable(function):
        return np.where(held, traced(function).astype(x.dtype), out)
    nodes = current().builder.nodes
    before = len(nodes)
    value = function(x, *args, **kw)
    if _entrywise(nodes[before:]):
        return np.where(held, traced(value).astype(x.dtype), out)
    places = np.flatnonzero(np.broadcast_to(seen(held, "gave numpy.piecewise a function that does not work entry by entry"), x.shape))
    picked = traced(function(x.reshape(-1)[places], *args, **kw)).astype(x.dtype)
    full = broadcast_to(picked, places.shape)
    ranks = np.zeros(x.size, INT)
    ranks[places] = np.arange(places.size)
    spread = full[ranks].reshape(x.shape) if places.size else out
    return np.where(held, spread, out)


@replaces(np.vectorize)
class TracedVectorize:
    """``np.vectorize`` whose calls with traced values take the function of each entry."""

    def __init__(self, pyfunc: object = np._NoValue, otypes: object = None, doc: str | None = None, excluded: object = None, cache: bool = False, signature: str | None = None) -> None:
        keywords = {"otypes": otypes, "doc": doc, "excluded": excluded, "cache": cache, "signature": signature}
        self._plain = np.vectorize(pyfunc, **keywords)
        self.pyfunc, self.signature = pyfunc, signature
        self.excluded = set(excluded or ())
        self.__doc__ = self._plain.__doc__

    def __call__(self, *args: object, **kwargs: object) -> object:
        if self.pyfunc is np._NoValue:  # used as a decorator with arguments
            self.__init__(*args, self._plain.otypes, self.__doc__, self.excluded, self._plain.cache, self.signature)
            return self
        if not (holds_traced(args) or any(map(holds_traced, kwargs.values()))):
            return self._plain(*args, **kwargs)
        return self._each(args, kwargs)

    def _each(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if self.signature is not None:
            raise unsupported("numpy.vectorize with signature=")
        spots: list[object] = [k for k in range(len(args)) if k not in self.excluded] + [k for k in kwargs if k not in self.excluded]
        arrays = [traced(array_call(args[k] if isinstance(k, int) else kwargs[k])) for k in spots]
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        flat = [broadcast_to(a, shape).reshape(-1) for a in arrays]
        if not prod(shape):
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        outs = []
        for k in range(prod(shape)):
            entry = dict(zip(spots, (f[k] for f in flat), strict=True))
            outs.append(self.pyfunc(*(entry.get(j, a) for j, a in enumerate(args)), **{n: entry.get(n, v) for n, v in kwargs.items()}))
        if isinstance(outs[0], tuple):
            return tuple(self._stacked(column, shape, j) for j, column in enumerate(zip(*outs, strict=True)))
        return self._stacked(outs, shape, 0)

    def _stacked(self, entries: Sequence[object], shape: tuple[int, ...], j: int) -> TracedArray:
        """Results in the dtype of the first of them, or of `otypes`, as NumPy has it."""
        given_types = self._plain.otypes
        kind = np.dtype(given_types[j]) if given_types else traced(entries[0]).dtype
        return np.stack([traced(e).astype(kind) for e in entries]).reshape(shape)


@replaces_if_traced(np.frompyfunc)
def frompyfunc(func: object, /, nin: int, nout: int, **keywords: object) -> object:
    raise unsupported("numpy.frompyfunc")


# --- grids by index, and what goes out of arrays --------------------------------------------------


def _range_of(key: slice) -> object:
    """What a slice means to ``np.r_``: a range, or with an imaginary step so many points."""
    start = 0 if key.start is None else key.start
    if isinstance(key.step, complex):
        return linspace(start, key.stop, int(abs(key.step))) if holds_traced((start, key.stop)) else np.linspace(start, key.stop, int(abs(key.step)))
    return arange(start, key.stop, 1 if key.step is None else key.step)


class TracedConcatenator:
    """``np.r_`` and ``np.c_``: the real one joins, with counters in place of what is traced."""

    def __init__(self, plain: object) -> None:
        self.plain = plain

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: object) -> object:
        parts = list(key) if isinstance(key, tuple) else [key]
        if not any(holds_traced((p.start, p.stop, p.step)) if isinstance(p, slice) else holds_traced(p) for p in parts):
            return self.plain[key]
        parts = [p if isinstance(p, str) else _range_of(p) if isinstance(p, slice) else p for p in parts]
        values = [p if isinstance(p, str) else traced(array_call(p)) for p in parts]
        kinds = [kind_of(p) for p in parts if not isinstance(p, str)] if all(np.ndim(p) == 0 for p in parts) else [v.dtype for v in values if not isinstance(v, str)]
        counters, stored, size = [], [], 0
        for value in values:
            if isinstance(value, str):
                counters.append(value)
                continue
            count = np.arange(size, size + value.size).reshape(value.shape)
            counters.append(count if value.ndim else int(count))
            stored.append(value.reshape(-1).astype(promote(*kinds)))
            size += value.size
        places = np.asarray(self.plain[tuple(counters)])
        return concatenate_call(stored)[places]


class TracedGrid:
    """``np.mgrid`` and ``np.ogrid`` with traced ends."""

    def __init__(self, plain: object, *, sparse: bool) -> None:
        self.plain, self.sparse = plain, sparse

    def __getitem__(self, key: object) -> object:
        slices = key if isinstance(key, tuple) else (key,)
        if not any(holds_traced((s.start, s.stop, s.step)) for s in slices):
            return self.plain[key]
        lines = [traced(_range_of(s)) for s in slices]
        common = promote(*(line.dtype for line in lines))
        if not isinstance(key, tuple):
            return lines[0]
        grids = np.meshgrid(*(line.astype(common) for line in lines), indexing="ij", sparse=self.sparse)
        return tuple(grids) if self.sparse else np.stack(grids)


replaces(np.r_)(TracedConcatenator(np.r_))
replaces(np.c_)(TracedConcatenator(np.c_))
replaces(np.mgrid)(TracedGrid(np.mgrid, sparse=False))
replaces(np.ogrid)(TracedGrid(np.ogrid, sparse=True))


def _length(start: object, stop: object, step: object) -> int:
    count = np.ceil((traced(stop) - start) / step)
    return max(int(look(traced(count), "made a range whose length depends on traced values")), 0)


@replaces_if_traced(np.arange)
def arange(start: object, stop: object = None, step: object = 1, dtype: object = None, **_: object) -> object:
    """``start + k step``: the values are traced, their number is looked at."""
    begin, end = (0, start) if stop is None else (start, stop)
    if not holds_traced((begin, end, step)):
        return np.arange(begin, end, step, dtype)
    kind = promote(*(kind_of(v) for v in (begin, end, step))) if dtype is None else np.dtype(dtype)
    count = np.arange(_length(begin, end, step), dtype=kind)
    return (count * traced(step).astype(kind) + traced(begin).astype(kind)).astype(kind)


@replaces_if_traced(np.full)
def full(shape: object, fill_value: object, dtype: object = None, order: str = "C", **_: object) -> TracedArray:
    value = traced(array_call(fill_value))
    model = np.empty(shape, bool, order)
    out = broadcast_to(value if dtype is None else value.astype(dtype), model.shape)
    return with_axes(out, list(range(out.ndim))[:: 1 if model.flags.c_contiguous else -1])


@replaces_if_traced(np.asarray_chkfinite)
def asarray_chkfinite(a: object, dtype: object = None, order: object = None) -> object:
    """The array, whose finiteness is looked at."""
    out = array_call(a, dtype)
    if out.dtype.kind in "fc" and not seen(np.all(np.isfinite(out)), "asked whether all entries are finite"):
        raise ValueError("array must not contain infs or NaNs")
    return a if isinstance(a, TracedArray) and dtype is None else out


@replaces(np.fromiter)
def fromiter(iter: object, dtype: object, count: int = -1, **keywords: object) -> object:  # noqa: A002 - NumPy's name
    entries = list(iter)
    if not holds_traced(entries):
        return np.fromiter(entries, dtype, count, **keywords)
    if len(entries) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(entries)} items.")
    return array_call(entries if count < 0 else entries[:count], dtype)


@implements(np.array_repr, np.array_str, np.array2string)
def array_text(a: object, *_: object, **__: object) -> str:
    """What printing a traced array gives."""
    return repr(a)


@implements(np.common_type)
def common_type(*arrays: object) -> type:
    return np.common_type(*(np.empty(0, traced(a).dtype) for a in arrays))


@implements(np.einsum_path)
def einsum_path(*operands: object, optimize: object = "greedy", einsum_call: bool = False) -> object:
    """The order of a product, which goes by the shapes alone."""
    shapes = [np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, TracedArray) else x for x in operands]
    return np.einsum_path(*shapes, optimize=optimize)


@replaces_if_traced(np.require)
def require(a: object, dtype: object = None, requirements: Iterable[object] | None = None, **_: object) -> TracedArray:
    """The array, or a copy of it that lies in memory as asked for."""
    wanted = {str(r)[0].upper() for r in requirements or ()}
    if wanted >= {"C", "F"}:
        raise ValueError('Cannot specify both "C" and "F" order')
    out = array_call(a, dtype, copy=None, order=next(iter(wanted & {"C", "F"}), "A"))
    return fresh(out) if "O" in wanted and isinstance(out.link, View) else out
