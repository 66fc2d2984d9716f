"""Data that is not an array of numbers: tables, sparse matrices, structured arrays, arrays of text.

Such data is used directly, without a proxy, and its content is compared before each call, so that
nothing is traced again while it is unchanged. Data of more than `LIMIT` bytes is not compared.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import fdiff.intact_numpy as np

from ..errors import InputError, failure
from .revalidation import Revalidation
from .value_kinds import leaf_key, library_class, module_name

LIMIT = 1 << 26  # bytes of one object that are compared
# Advice on collections that Dask has not computed yet.
TAKE_VALUES = (
    "Pass its values: `numpy.asarray(x)`, `x.compute()`, or `x.result()` of a Future. Where they do"
    " not fit into memory, sum over their partitions: `fdiff.distributed.sum_over(f, x)`."
)
_DASK = ("dask.", "distributed.")
_LAZY = ("dask.array.", "dask.bag.", "dask.dataframe.", "dask.delayed.", "distributed.")


class Content:
    """Compares data (a table, a date and the like) with its class and content at the time of the
    read.
    """

    __slots__ = ("key", "kind")

    def __init__(self, value: object, key: Hashable) -> None:
        self.kind = type(value)
        self.key = key

    def holds(self, value: object, walk: Revalidation) -> bool:
        if type(value) is not self.kind or data_key(value) != self.key:
            return False
        walk.data.append(partial(self.same, value))
        return True

    def same(self, value: object) -> bool:
        """Whether data has this content still."""
        return data_key(value) == self.key


def is_table(value: object) -> bool:
    """Whether `value` is a Series, a DataFrame or an Index of pandas."""
    return hasattr(type(value), "__pandas_priority__") and not _ours(type(value))


def lazy_words(value: object) -> str:
    """The name of a lazy collection of Dask; "" for any other value.

    Dask's functions and classes count, because code makes collections by them. Nothing is computed.
    """
    if "dask" not in sys.modules:
        return ""
    kind = type(value)
    module = value.__module__ if isinstance(value, FunctionType | type) else _own_module(value)
    if isinstance(module, str) and f"{module}.".startswith(_LAZY):
        name = getattr(value, "__name__", kind.__name__)
        return f"`{module}.{name}`, which makes what Dask computes later"
    mine = f"{module_name(kind)}.".startswith(_DASK)
    if not (mine and any(base.__name__.endswith("Future") for base in kind.__mro__)):
        graph = getattr(kind, "__dask_graph__", None)
        if graph is None or not (mine or graph(value) is not None):
            return ""
    whose = f"a Dask {kind.__name__}" if mine else f"a {kind.__name__} of Dask arrays"
    return f"{whose}, whose values are not known yet"


def refuse_lazy(value: object, call: str, place: str) -> None:
    """Refuse a collection that Dask has not computed yet; `place` is the user's name for it."""
    if words := lazy_words(value):
        raise failure(InputError, call, f"{place} is {words}.", TAKE_VALUES)


def _own_module(value: object) -> object:
    """The ``__module__`` in an object's own namespace, as functions and wrappers have it."""
    own = getattr(value, "__dict__", None)
    return own.get("__module__") if isinstance(own, dict) else None


def data_key(value: object) -> Hashable | None:
    """The key by which data is compared; None if it cannot be compared or is no data."""
    kind = type(value)
    if isinstance(value, np.ndarray):
        return _array_key(value) if library_class(kind) else None
    if module_name(kind).startswith("scipy.sparse.") and hasattr(value, "format"):
        return _sparse_key(vars(value))
    if is_table(value):
        return _table_key(value)
    return None


def _array_key(value: np.ndarray) -> Hashable | None:
    if value.dtype.hasobject or value.nbytes > LIMIT:
        return None
    key: tuple[Hashable, ...] = type(value), value.dtype, value.shape, np.asarray(value).tobytes()
    if isinstance(value, np.ma.MaskedArray):
        key = *key, np.ma.getmaskarray(value).tobytes(), repr(vars(value).get("_fill_value"))
    return key


def _sparse_key(attributes: Mapping[str, object]) -> Hashable | None:
    """The key of a sparse matrix, which has arrays, tuples of arrays, and a shape."""
    parts: list[Hashable] = []
    for name, value in sorted(attributes.items()):
        items: Iterable[object] = value if isinstance(value, tuple) else (value,)
        for item in items:
            key = _array_key(item) if isinstance(item, np.ndarray) else (leaf_key(item),)
            if key is None or (not isinstance(item, np.ndarray) and isinstance(item, dict)):
                return None
            if not name.startswith(("_has", "has_")):  # flags about the order of entries
                parts.append((name, key))
    return tuple(parts)


def _table_key(value: Any) -> Hashable | None:
    """Columns, labels and names of an object of pandas."""
    if value.ndim == 2:
        if int(value.memory_usage().sum()) > LIMIT:
            return None
        columns = [value.iloc[:, k] for k in range(value.shape[1])]
        keys = (data_key(value.columns), data_key(value.index), *map(_column_key, columns))
    else:
        index = getattr(value, "index", None)
        if value.nbytes > LIMIT:
            return None
        keys = (index is None or data_key(index), (leaf_key(value.name),), _column_key(value))
    return None if None in keys else (type(value), keys)


def _column_key(column: Any) -> Hashable | None:
    dtype = column.dtype
    array = column.to_numpy()
    if array.dtype.hasobject:
        keys = tuple(map(leaf_key, array.ravel().tolist()))
        return None if None in keys else (str(dtype), keys)
    return str(dtype), array.dtype, array.shape, array.tobytes()


def _ours(kind: type) -> bool:
    return getattr(kind, "__fdiff_traced__", False) is True
