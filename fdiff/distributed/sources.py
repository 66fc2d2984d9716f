"""What partitions are made of: dask collections, or lists of tuples, loaders and futures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import fdiff.intact_numpy as np

from ..errors import InputError, failure
from .cluster import dask_module
from .sending import message_of
from .tasks import entry, joined

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
        sources = [*map(_checked, data, range(len(data)))]
    elif arrays and all(hasattr(a, "to_delayed") for a in arrays):
        sources = _blocks(arrays) if hasattr(arrays[0], "chunks") else _frames(arrays)
    else:
        numpy = any(isinstance(a, np.ndarray) for a in arrays)
        kind = "arrays of NumPy" if numpy else f"data of type {type(data).__name__}"
        way = f"{_SPLIT} {FORMS}" if numpy else FORMS
        raise failure(InputError, CALL, f"{kind} are no partitions.", way)
    if not sources:
        raise failure(InputError, CALL, "there are no partitions.", FORMS)
    return sources


def is_lazy(source: Source) -> bool:
    """Whether Dask knows how to make a partition: a Future or a Delayed."""
    return hasattr(source, "__dask_graph__") or type(source).__module__.startswith("distributed")


def _checked(source: Source, number: int) -> Source:
    if isinstance(source, (tuple, list)) or callable(source) or is_lazy(source):
        return source
    kind = type(source).__name__
    fact = f"partition {number} is of type {kind}."
    way = (
        f"{FORMS} Write `[(X, y)]` for one partition of two arrays, `[(a,), (b,)]` for two of one."
    )
    raise failure(InputError, CALL, fact, way)


def loaders_sent(sources: Sequence[Source]) -> list[Source]:
    """Sources of a group, with loaders as messages: workers need not have the module."""
    return [message_of(s, CALL) if callable(s) and not is_lazy(s) else s for s in sources]


def loaded(source: Source) -> object:
    """A partition in this process."""
    if hasattr(source, "__dask_graph__"):
        return source.compute(scheduler="synchronous")
    if is_lazy(source):
        return source.result()
    return source() if callable(source) else source


def _frames(arrays: Sequence[Any]) -> list[Source]:
    if len(arrays) == 1:
        return list(arrays[0].to_delayed())
    counts = [a.npartitions for a in arrays]
    if len(set(counts)) > 1:
        fact = f"the tables have {counts} partitions."
        raise failure(InputError, CALL, fact, "Repartition them alike.")
    return _together([a.to_delayed() for a in arrays])


def _blocks(arrays: Sequence[Any]) -> list[Source]:
    rows = arrays[0].chunks[0]
    for k, a in enumerate(arrays):
        if any(len(sizes) > 1 for sizes in a.chunks[1:]):
            fact = f"array {k} is cut along another axis than its rows."
            raise failure(InputError, CALL, fact, "Write `x.rechunk({1: -1})`.")
        has_lengths = not any(map(math.isnan, (*rows, *a.chunks[0])))
        if len(a.chunks[0]) != len(rows) or (has_lengths and a.chunks[0] != rows):
            fact = f"array {k} has rows in chunks of {_few(a.chunks[0])}, array 0 of {_few(rows)}."
            raise failure(InputError, CALL, fact, "Write `y.rechunk({0: x.chunks[0]})`.")
    return _together([a.to_delayed().ravel() for a in arrays])


def dask_arrays(groups: Sequence[Any], known: Sequence[Any] | None) -> Any:
    """Partitions as chunks of rows; `known` tells shapes and dtypes of what lies on workers."""
    da, delayed = dask_module("dask.array"), dask_module("dask").delayed
    columns = list[list[Any]]()
    for g, group in enumerate(groups):
        for p, part in enumerate(group if known is None else known[g]):
            columns = columns or [[] for _ in part]
            for k, a in enumerate(part):
                block = a if known is None else delayed(entry, pure=False)(group, p, k)
                make = da.from_array if known is None else da.from_delayed
                columns[k].append(make(block) if known is None else make(block, *a))
    arrays = [da.concatenate(column) for column in columns]
    return tuple(arrays) if len(arrays) > 1 else arrays[0]


def _few(sizes: Sequence[float]) -> str:
    return ", ".join(map(str, sizes[:4])) + (", ..." if len(sizes) > 4 else "")


def _together(columns: Sequence[Any]) -> list[Source]:
    together = dask_module("dask").delayed(joined, pure=False)
    return [together(*blocks) for blocks in zip(*columns, strict=True)]
