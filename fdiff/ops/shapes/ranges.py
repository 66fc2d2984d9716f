"""Arrays made of few traced numbers or of an iterator: `arange`, `full`, `fromiter`, `require`; and `np.r_`, `c_`, `mgrid`, `ogrid`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...arraytype import promote
from ...trace import Operand, TracedArray, guarded_value, replaces
from ...trace.array_links import ViewLink
from ...trace.local_arrays import holds_traced
from ..along_axes.data_dependent_shapes import look_if_traced
from ..entrywise.families import kind_of
from ..scipy_functions import replaces_if_traced
from .creation import array as array_call
from .joining_and_splitting import concatenate_call
from .shaping import broadcast_to, fresh, traced, with_axes

if TYPE_CHECKING:
    from _typeshed import SupportsGetItem


def _length(start: object, stop: object, step: object) -> int:
    count = np.ceil((traced(stop) - start) / step)
    return max(int(guarded_value(traced(count), "made a range whose length depends on traced values")), 0)


@replaces_if_traced(np.arange)
def arange(start: object, stop: object = None, step: Operand = 1, dtype: object = None, **_: object) -> object:
    """``start + k step``: the values are traced, and their number is looked at."""
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
    """The array, after a look at whether all entries are finite."""
    out = array_call(a, dtype)
    if out.dtype.kind in "fc" and not look_if_traced(np.all(np.isfinite(out)), "asked whether all entries are finite"):
        raise ValueError("array must not contain infs or NaNs")
    return a if isinstance(a, TracedArray) and dtype is None else out


@replaces(np.fromiter)
def fromiter(iter: object, dtype: object, count: int = -1, **keywords: object) -> object:
    entries = list(iter)
    if not holds_traced(entries):
        return np.fromiter(entries, dtype, count, **keywords)
    if len(entries) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(entries)} items.")
    return array_call(entries if count < 0 else entries[:count], dtype)


@replaces_if_traced(np.require)
def require(a: object, dtype: object = None, requirements: Iterable[object] | None = None, **_: object) -> object:
    """The array, or a copy in the memory order asked for."""
    wanted = {str(r)[0].upper() for r in requirements or ()}
    if wanted >= {"C", "F"}:
        raise ValueError('Cannot specify both "C" and "F" order')
    out = array_call(a, dtype, copy=None, order=next(iter(wanted & {"C", "F"}), "A"))
    return fresh(out) if "O" in wanted and isinstance(out.link, ViewLink) else out


# --- the indexed objects, with traced values between the brackets ----------------------------------------------------------


def _range_of(key: slice) -> object:
    """The range of a slice in ``np.r_``; an imaginary step is a number of points."""
    start = 0 if key.start is None else key.start
    if isinstance(key.step, complex):
        return np.linspace(start, key.stop, int(abs(key.step)))
    return arange(start, key.stop, 1 if key.step is None else key.step)


class TracedConcatenator:
    """``np.r_`` and ``np.c_``: NumPy's own object joins arrays of positions, and the result is a gather."""

    def __init__(self, plain: SupportsGetItem[object, object]) -> None:
        self.plain = plain

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: object) -> object:
        parts = list(key) if isinstance(key, tuple) else [key]
        if not any(holds_traced((p.start, p.stop, p.step)) if isinstance(p, slice) else holds_traced(p) for p in parts):
            return self.plain[key]
        parts = [p if isinstance(p, str) else _range_of(p) if isinstance(p, slice) else p for p in parts]
        values = [p if isinstance(p, str) else traced(array_call(p)) for p in parts]
        kinds = (
            [kind_of(p) for p in parts if not isinstance(p, str)]
            if all(np.ndim(p) == 0 for p in parts)
            else [v.dtype for v in values if not isinstance(v, str)]
        )
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

    def __init__(self, plain: SupportsGetItem[object, object], *, sparse: bool) -> None:
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
