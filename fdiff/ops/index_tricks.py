"""The indexed objects `numpy.r_`, `c_`, `mgrid` and `ogrid`, with traced values between the brackets."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ..arraytype import promote
from ..trace import replaces
from ..trace.local_arrays import holds_traced
from .creation import array as array_call
from .families import kind_of
from .joining_and_splitting import concatenate_call
from .ranges import arange
from .shaping import traced


def _range_of(key: slice) -> object:
    """What a slice means in ``np.r_``: a range; with an imaginary step, that number of points."""
    start = 0 if key.start is None else key.start
    if isinstance(key.step, complex):
        return np.linspace(start, key.stop, int(abs(key.step)))
    return arange(start, key.stop, 1 if key.step is None else key.step)


class TracedConcatenator:
    """``np.r_`` and ``np.c_``: NumPy's own object joins arrays of positions, and the result is a gather."""

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
