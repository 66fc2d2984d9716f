"""An eager trace: an eager recorder that hands out traced arrays, and scalars that cost little.

A ufunc enters the nodes of a template kept from earlier calls, a single entry of an array enters
its node directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...device_arrays import DeviceArray
from ...error_state import plain_errstate
from ...foreign_errors import Suppressed
from ...process.float_flags import noting
from ...tape import INPUT, Tape
from ..array_links import CapturedLink, PendingStores, ViewLink, root_of
from ..ordinary_trace import Trace
from ..traced_array import TracedArray
from .eager_recorder import NUMBER, STORE, EagerRecorder
from .eager_scalars import ENTRIES, EagerScalar, class_of, of_class
from .operation_templates import of_entry, of_ufunc


class EagerTrace(EagerRecorder, Trace):
    """A trace whose nodes have values from the start."""

    def __init__(self, call: str) -> None:
        super().__init__(call)
        self._quiet: np.errstate | None = None
        self._entries: dict[int, dict[int, EagerScalar]] = {}  # what was read, by node and position

    depth = 2

    def __enter__(self) -> Self:
        super().__enter__()
        self._quiet = noting(plain_errstate)  # not for a ``with`` statement
        self._quiet.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        if error[0] is not None:
            self.release()

    def close(self) -> None:
        if self._quiet is not None:
            with Suppressed(TypeError, RuntimeError):  # it was not entered, or is left already
                self._quiet.__exit__(None, None, None)
            self._quiet = None
        super().close()

    def begin(self) -> None:
        builder = self.builder
        for i in builder.inputs:
            builder.values[i] = np.asarray(self.guards.given[i])[()]
            builder.active[i] = i in self.guards.active

    def release(self) -> None:
        """Drop all nodes and values once the results are there, so that no cycle stays."""
        self.builder.clear()
        self._entries.clear()
        self._index_nodes.clear()
        self.guards.release()

    def input(self, type_: ArrayType, *, scalar: bool = False, weak: bool = False) -> TracedArray:
        array = super().input(type_, scalar=scalar, weak=weak)
        kind = class_of(type_, weak=weak) if scalar else None
        return array if kind is None else of_class(kind, self, array.node)

    def capture(self, array: np.ndarray | DeviceArray) -> TracedArray:
        assert isinstance(array, np.ndarray), "nothing is differentiated eagerly on a device"
        traced = super().capture(array)
        native = array if array.dtype.isnative else array.astype(traced.dtype)
        self.builder.values[traced.node] = native[()]
        return traced

    # ------------------------------------------------------------------------------ templates

    def ufunc(self, ufunc: np.ufunc, operands: tuple[object, ...]) -> object:
        """``ufunc(*operands)``, as the last time for operands of these types."""
        return of_ufunc(self, ufunc, operands)

    def entry(self, x: TracedArray, key: object, getitem: Callable[..., object]) -> object:
        """``x[key]``: single entries are scalars, other keys of integers go by their templates."""
        type_ = x.type
        kind = ENTRIES.get(type_.dtype)
        spot = None if kind is None else _flat_position(type_.shape, key)
        if spot is None or kind is None:
            return of_entry(self, x, key, getitem)
        link = x.link
        if type(link) is PendingStores:
            node = link.entries.get(spot)
            if node is not None:
                return of_class(kind, self, node)
            source = x.node
        elif link is None or link.__class__ is CapturedLink:
            source = x.node
        elif link.__class__ is ViewLink and root_of(x).link.__class__ is not PendingStores:
            source = x.id
        else:
            return of_entry(self, x, key, getitem)
        entries_of = self._entries.get(source)
        if entries_of is None:
            entries_of = self._entries[source] = {}
        scalar = entries_of.get(spot)
        if scalar is None:
            scalar = entries_of[spot] = of_class(kind, self, self.read(source, spot))
        return scalar

    def put(self, x: TracedArray, key: object, value: object) -> bool:
        """Store a number of the same dtype in one entry; False for any other `key` or `value`."""
        link = x.link
        if not (link is None or type(link) is PendingStores) or x.scalar or x.weak:
            return False
        dtype = x.type.dtype
        flat = _flat_position(x.type.shape, key)
        if flat is None or dtype.kind != "f":
            return False
        if isinstance(value, EagerScalar):
            if value.home is not self or value.type.dtype != dtype:
                return False
            node = value.node
        elif value.__class__ is float or value.__class__ is dtype.type:
            node = self.builder.number(value, dtype)
        else:
            return False
        if link is None:
            x.link = link = PendingStores(None)
        link.entries[flat] = node
        return True


def _flat_position(shape: tuple[int, ...], key: Any) -> int | None:
    """The flat position of the entry that Python's integers name; None for any other key."""
    if key.__class__ is int:
        if len(shape) != 1:
            return None
        n = shape[0]
        return key if 0 <= key < n else key + n if -n <= key < 0 else None
    if key.__class__ is not tuple or len(key) != len(shape) or not shape:
        return None
    flat = 0
    for k, n in zip(key, shape, strict=True):
        if k.__class__ is not int or not -n <= k < n:
            return None
        flat = flat * n + (k if k >= 0 else k + n)
    return flat


def to_ordinary_tape(trace: EagerTrace, outputs: Sequence[int]) -> Tape:
    """The tape of an eager trace, with ordinary nodes in place of nodes for eager traces."""
    builder, plain = trace.builder, Trace(trace.call, lines=False)
    inputs = set(builder.inputs)
    ids: list[int] = []
    for i, (op, args) in enumerate(zip(builder.ops, builder.args, strict=True)):
        operands = tuple([ids[a] for a in args])
        if op.primitive is INPUT and i in inputs:
            ids.append(plain.builder.input(op.types[0]))
        elif op.primitive is NUMBER:
            ids.append(plain.builder.constant(np.array(builder.values[i], op.types[0].dtype)))
        elif op.primitive is STORE:
            places: tuple[int, ...] = op.params[0][1]
            entries = dict(zip(places, operands[1:], strict=True))
            ids.append(plain.store(operands[0], op.types[0], entries))
        else:
            ids.append(plain.builder.add(op.primitive, operands, op.params))
    return plain.builder.finish([ids[o] for o in outputs])
