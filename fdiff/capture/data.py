"""Data that is no array of numbers: tables, sparse matrices, structured arrays, arrays of texts.

Such data is used as it is, without a proxy, and compared by its content before each call, so that
nothing is traced again while it is unchanged. Data of more than `LIMIT` bytes is not compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import fdiff.intact_numpy as np

from .revalidation import Revalidation
from .value_kinds import leaf_key, library_class, module_name

LIMIT = 1 << 26  # bytes of one object that are compared


class Content:
    """Compares data (a table, a date and the like) with the class and content it had when read."""

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


def data_key(value: object) -> Hashable | None:
    """What data is compared by; None of anything else, and of data that cannot be compared."""
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
        masked = cast("np.ma.MaskedArray[Any, Any]", value)
        key = *key, np.ma.getmaskarray(masked).tobytes(), repr(vars(masked).get("_fill_value"))
    return key


def _sparse_key(attributes: Mapping[str, object]) -> Hashable | None:
    """Arrays, and tuples of arrays, are all there is to a sparse matrix beside its shape."""
    parts: list[Hashable] = []
    for name, value in sorted(attributes.items()):
        items: Iterable[object] = value if isinstance(value, tuple) else (value,)
        for item in items:
            key = _array_key(item) if isinstance(item, np.ndarray) else (leaf_key(item),)
            if key is None or (not isinstance(item, np.ndarray) and isinstance(item, dict)):
                return None
            if not name.startswith(("_has", "has_")):  # what is known of the order of entries
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
