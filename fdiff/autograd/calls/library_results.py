"""Results of SciPy functions, split into arrays, objects and plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import fdiff.intact_numpy as np

from ...ops.entrywise.composite_functions import stop_gradient
from ...trace import TracedArray
from ...trace.handler_arguments import resolve
from ..arrays.recorded_array import RecordedArray

_DATA = (str, bytes, int, float, complex, bool, type(None), np.generic, np.dtype, type)


class Opened(NamedTuple):
    """A result: its `leaves`, the `arrays` among them, and how it is assembled again."""

    leaves: list[Any]
    places: list[int]
    objects: frozenset[int]
    refused: list[str]
    build: Callable[[Iterator[Any]], Any]
    named: bool

    @property
    def arrays(self) -> list[Any]:
        """The arrays among the leaves; those whose derivative is refused have none."""
        arrays = [self.leaves[k] for k in self.places]
        pairs = zip(arrays, self.refused, strict=True)
        return [stop_gradient(x) if refused else x for x, refused in pairs]

    @property
    def numbers(self) -> list[Any]:
        """The leaves that arrays under trace stand for: arrays, and floats that SciPy gives."""
        return [x for x in self.leaves if isinstance(x, np.ndarray | np.inexact | float | complex)]

    @property
    def only_arrays(self) -> bool:
        """Whether there is nothing but arrays and plain data, in tuples and lists."""
        return not (self.objects or self.named or any(self.refused))

    def closed(self, arrays: Sequence[Any], object_at: Callable[[int], Any]) -> Any:
        """The result with these arrays in place of its own, and with other objects."""
        leaves = [object_at(k) if k in self.objects else x for k, x in enumerate(self.leaves)]
        for k, x in zip(self.places, arrays, strict=True):
            flag = len(leaves) > 1 and not x.shape and x.dtype.kind in "biu"
            leaves[k] = x.value.item() if flag else x
        return self.build(iter(leaves))


@dataclass(frozen=True)
class PartOf:
    """A function that returns one leaf of another function's result."""

    what: Callable[..., Any]
    place: int

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return opened(self.what(*args, **kwargs)).leaves[self.place]


def opened(result: Any) -> Opened:
    """Take a result apart."""
    leaves: list[Any] = []
    named: list[bool] = []
    build = _build(result, leaves, named)
    leaves[:] = [resolve(x) for x in leaves]
    places = [
        k for k, x in enumerate(leaves) if isinstance(x, TracedArray | np.ndarray | RecordedArray)
    ]
    objects = {k for k, x in enumerate(leaves) if k not in places and not isinstance(x, _DATA)}
    refused = [_refused(leaves[k]) for k in places]
    return Opened(leaves, places, frozenset(objects), refused, build, any(named))


def _build(tree: Any, leaves: list[Any], named: list[bool]) -> Callable[[Iterator[Any]], Any]:
    """Enter the leaves of a tree; gives what builds it of others."""
    kind = type(tree)
    if kind is dict or hasattr(kind, "__fdiff_fields__"):  # the result of a solver under trace
        make, fields = (dict, tree) if kind is dict else tree.__fdiff_fields__()
        parts = {k: _build(x, leaves, named) for k, x in fields.items()}
        named.append(True)
        return lambda values: make({k: part(values) for k, part in parts.items()})
    if kind is tuple or kind is list or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        entries = [_build(x, leaves, named) for x in tree]
        if kind is tuple or kind is list:
            return lambda values: kind([part(values) for part in entries])
        return lambda values: kind(*[part(values) for part in entries])
    leaves.append(tree)
    return next


def _refused(x: Any) -> str:
    """The field of a result whose derivative is refused; empty for any other array."""
    builder: Any = x.home.builder if isinstance(x, TracedArray) else None  # of an eager trace
    op = None if builder is None else builder.ops[x.id]
    return str(dict(op.params)["field"]) if op is not None and op.primitive.rules.refuses else ""
