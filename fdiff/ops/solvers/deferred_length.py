"""The steps of an integrator as an array whose length is looked at as late as possible.

The number of steps differs from call to call, and a tape is for one number of them. Most code reads the last step
alone (``sol.y[:, -1]``), which exists whatever their number.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from types import MemberDescriptorType

import fdiff.intact_numpy as np

from ...foreign_errors import hiding
from ...trace import Array, TracedArray
from ...trace.recorder import Handle
from ..shapes.indexing import getitem

_node = vars(Handle)["node"]
_made = vars(Handle)["made"]
_type = vars(Handle)["type"]


class DeferredLength(TracedArray):
    """The first ``count + 1`` rows of `padded` along `axis`; later rows repeat the last one."""

    __slots__ = ("_axis", "_count", "_padded")

    def __init__(self, padded: TracedArray, count: TracedArray, axis: int) -> None:
        self.home, self.born, self.link = padded.home, padded.born, None
        self.scalar = self.weak = False
        self._padded: TracedArray | None = padded
        self._count, self._axis = count, axis

    def _settle(self) -> None:
        """Look at the number of steps, which becomes a guard, and slice."""
        if self._padded is not None:
            many = slice(int(self._count) + 1)
            whole = getitem(self._padded, (*(slice(None),) * self._axis, many))
            self._padded = None
            _node.__set__(self, whole.id)
            _made.__set__(self, whole.id)
            _type.__set__(self, whole.type)

    def _read(self, slot: MemberDescriptorType) -> object:
        self._settle()
        return slot.__get__(self)

    node = property(hiding(lambda self: self._read(_node)), _node.__set__)
    made = property(hiding(lambda self: self._read(_made)), _made.__set__)
    type = property(hiding(lambda self: self._read(_type)), _type.__set__)

    @property
    @hiding
    def T(self) -> Array:  # noqa: N802 - NumPy's name
        if self._padded is None:
            return np.transpose(self)
        return DeferredLength(np.transpose(self._padded), self._count, self._padded.ndim - 1 - self._axis)

    def __getitem__(self, key: object) -> TracedArray:
        keys: tuple[object, ...] = key if isinstance(key, tuple) else (key,)
        if self._padded is not None and all(isinstance(k, (int, slice)) for k in keys):
            if len(keys) <= self._axis:
                return DeferredLength(getitem(self._padded, keys), self._count, self._axis - sum(isinstance(k, int) for k in keys))
            if keys[self._axis] == -1:
                return getitem(self._padded, keys)
        return getitem(self, key)
