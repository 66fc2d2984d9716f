"""Sources of partitions: dask collections, or lists of tuples, loaders and futures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import fdiff.intact_numpy as np

from ..errors import InputError, failure
from .cluster import dask_module
from .messages import Message
from .worker_tasks import together

CALL = "fdiff.distributed.partitions"
FORMS = (
    "Give dask arrays with equal chunks of rows, `(X, y)`, a dask dataframe, or a list of"
    " partitions: tuples of arrays, functions without arguments that load one, Futures or Delayed."
)
_SPLIT = "Split it: `list(zip(np.array_split(X, 16), np.array_split(y, 16)))`."
Source = Any  # a tuple of arrays, a loader, a Future or a Delayed


def sources_of(data: object) -> list[Source]:
    """One source for each partition."""
    arrays = data if isinstance(data, tuple) else (data,)
    if isinstance(data, list):
        sources = [*map(_checked_source, data, range(len(data)))]
    elif arrays and all(hasattr(a, "to_delayed") for a in arrays):
        sources = _blocks(arrays)
    else:
        numpy = any(isinstance(a, np.ndarray) for a in arrays)
        kind = "arrays of NumPy" if numpy else f"data of type {type(data).__name__}"
        way = f"{_SPLIT} {FORMS}" if numpy else FORMS
        raise failure(InputError, CALL, f"{kind} are not partitions.", way)
    if not sources:
        raise failure(InputError, CALL, "there are no partitions.", FORMS)
    return sources


def _is_lazy(source: Source) -> bool:
    """Whether Dask knows how to make a partition: a Future or a Delayed."""
    return is_delayed(source) or type(source).__module__.startswith("distributed")


def is_delayed(source: Source) -> bool:
    return hasattr(source, "__dask_graph__")


def _checked_source(source: Source, number: int) -> Source:
    if isinstance(source, (tuple, list)) or callable(source) or _is_lazy(source):
        return source
    fact = f"partition {number} is of type {type(source).__name__}."
    way = (
        f"{FORMS} Write `[(X, y)]` for one partition of two arrays, `[(a,), (b,)]` for two of one."
    )
    raise failure(InputError, CALL, fact, way)


def as_sent(source: Source) -> Source:
    """A source, a loader as a message: workers need not have the module."""
    return Message.of(source) if callable(source) and not _is_lazy(source) else source


def loaded(source: Source) -> object:
    """A partition in this process."""
    if is_delayed(source):
        return source.compute(scheduler="synchronous")
    if _is_lazy(source):
        return source.result()
    return source() if callable(source) else source


def _blocks(arrays: Sequence[Any]) -> list[Source]:
    """Delayed tuples of the blocks of dask arrays, or of tables."""
    chunks, first = list[Any](), arrays[0]
    for k, a in enumerate(arrays):
        if any(len(sizes) > 1 for sizes in getattr(a, "chunks", ((),))[1:]):
            fact = f"array {k} is cut along another axis than its rows."
            raise failure(InputError, CALL, fact, "Write `x.rechunk({1: -1})`.")
        chunks.append(a.chunks[0] if hasattr(a, "chunks") else (math.nan,) * a.npartitions)
        finite = not any(map(math.isnan, (*chunks[0], *chunks[k])))
        if len(chunks[k]) != len(chunks[0]) or (finite and chunks[k] != chunks[0]):
            fact = f"array {k} has rows in {_spelled(chunks[k])}, array 0 in {_spelled(chunks[0])}."
            raise failure(InputError, CALL, fact, "Write `y.rechunk({0: x.chunks[0]})`.")
    columns = [np.ravel(np.asarray(a.to_delayed(), dtype=object)) for a in arrays]
    if len(columns) == 1 and not hasattr(first, "chunks"):
        return [*columns[0]]
    join = dask_module("dask").delayed(together, pure=False)
    return [join(*blocks) for blocks in zip(*columns, strict=True)]


def _spelled(sizes: Sequence[float]) -> str:
    few = ", ".join(map(str, sizes[:4])) + (", ..." if len(sizes) > 4 else "")
    return f"{len(sizes)} chunks of {few}"


def dask_arrays(parts: Iterable[Sequence[tuple[object, tuple[int, ...], object]]]) -> object:
    """Partitions as chunks of rows: of each array what makes it, its shape and its dtype."""
    da = dask_module("dask.array")
    columns = zip(*[[da.from_delayed(*array) for array in part] for part in parts], strict=True)
    arrays = [da.concatenate(column) for column in columns]
    return tuple(arrays) if len(arrays) > 1 else arrays[0]
