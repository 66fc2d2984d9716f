"""Conversions that leave the graph: recorded arrays to numbers, plain arrays and text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from opcode import opmap
from operator import attrgetter
from types import FrameType
from typing import TYPE_CHECKING, Any, cast, overload

import fdiff.intact_numpy as np

from ...errors import UnsupportedError, failure, warn
from ...foreign_errors import noting
from ...trace.trace_stack import stack
from ...user_lines import scipy_call
from ..thread_state import MetRecorded, state

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from .array_kinds import ArrayKind
    from .array_types import ArrayTypes
else:
    ArrayTypes = object

AS_OF = "As of `numpy.ndarray`."


class Size(int):
    """The number of entries, as in NumPy; when called, the shape or the length of an axis, as in
    torch.
    """

    shape: tuple[int, ...]

    @overload
    def __call__(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def __call__(self, dim: int) -> int: ...
    def __call__(self, dim: int | None = None) -> int | tuple[int, ...]:
        return self.shape if dim is None else self.shape[dim]


class Conversions(ArrayTypes):
    """The conversions of a recorded array: `RecordedArray` is derived from this class."""

    __slots__ = ()

    if TYPE_CHECKING:
        value: Any
        kind: ArrayKind
        requires_grad: Any
        grad_fn: Any

    shape: tuple[int, ...] = cast("tuple[int, ...]", property(attrgetter("value.shape"), doc=AS_OF))
    dtype: np.dtype = cast("np.dtype", property(attrgetter("value.dtype"), doc=AS_OF))
    ndim: int = cast("int", property(attrgetter("value.ndim"), doc=AS_OF))
    size = property(cast("Callable[[object], Size]", attrgetter("value.size")), doc=AS_OF)

    @property
    @noting
    def __fdiff_constant__(self) -> np.ndarray | None:
        """The constant that traced functions read in place of the array; None if it has a gradient.

        It is read-only, so that no store in there passes by the version counter.
        """
        if self.requires_grad:
            return None
        for trace in stack.traces:
            trace.ported = True
        array = np.asarray(self.value).view()
        array.flags.writeable = False
        return array

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The numbers as a plain array, which shares memory.

        Raises an error if the array requires a gradient, unless nothing is recorded, as under
        `no_grad`.

        With `force`, a copy without a gradient.
        """
        if force:
            return np.array(self.value)
        if self.requires_grad and state.grad_enabled:
            raise _needs_detach()
        return np.asarray(self.value)

    def item(self, *args: object) -> Any:
        """One entry as a Python number, without its gradient."""
        self._leave_scipy()
        return self.value.item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python numbers, without gradients."""
        self._leave_scipy()
        return self.value.tolist()

    def __array__(
        self,
        dtype: DTypeLike | None = None,
        copy: bool | None = None,  # noqa: FBT001 - NumPy calls it by position
    ) -> np.ndarray:
        if self.requires_grad and state.grad_enabled:
            if state.solving:  # where it is traced, this is no error
                raise MetRecorded
            self._leave_scipy()
            raise _made_by_numpy()
        return np.array(self.value, dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        return self.value.__index__()

    def _number(self) -> Any:
        if self.kind.requires_grad:
            if state.grad_enabled and _assigns(sys._getframe(2)):
                raise stored_into_plain()
            self._leave_scipy()
            warn(
                "Converting an array with requires_grad=True to a scalar may lead to unexpected"
                " behavior. Consider using .detach() first.",
                UserWarning,
            )
        return self.value

    def _leave_scipy(self) -> None:
        """Refuse to be a number of SciPy's own code, whose results would lose the gradient."""
        if self.kind.requires_grad and state.grad_enabled and (name := scipy_call()) is not None:
            if state.solving:
                raise MetRecorded
            fact = (
                f"{name} took the number out of an array that requires a gradient, which would be"
                " lost: there is no derivative rule for this call."
            )
            way = (
                "Use what docs/coverage.md lists, or pass `array.detach()`; functions that are"
                " given to SciPy may return `array.item()`."
            )
            raise failure(UnsupportedError, "fdiff.autograd", fact, way)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __repr__(self) -> str:
        text = np.array2string(np.asarray(self.value), separator=", ", prefix="tensor(")
        dtype = self.value.dtype
        named = "" if dtype in (np.float64, np.int64, np.bool_) else f", dtype={dtype}"
        grad_fn = self.grad_fn
        if grad_fn is not None:
            return f"tensor({text}{named}, grad_fn=<{grad_fn.name()}>)"
        return f"tensor({text}{named}{', requires_grad=True' * self.kind.requires_grad})"

    __str__ = __repr__


def _assigns(frame: FrameType) -> bool:
    """Whether a frame is executing ``target[key] = value``.

    NumPy asks for a number there just as ``float(x)`` does; only the instruction tells them apart.
    """
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap["STORE_SUBSCR"]


def stored_into_plain() -> RuntimeError:
    return RuntimeError(
        "Can't call numpy() on an array that requires grad: it was stored into a plain array, which"
        " would lose its gradient. Make the target recorded, by np.zeros_like(x) or"
        " fdiff.autograd.tensor(data), or store array.detach().numpy()."
    )


def _made_by_numpy() -> RuntimeError:
    return RuntimeError(
        "Can't call numpy() on an array that requires grad: NumPy was making a plain array of it,"
        " which would lose its gradient. Use array.detach().numpy() for the numbers alone, np.stack"
        " to make one array of several, np.broadcast_to to fill a shape."
    )


def _needs_detach() -> RuntimeError:
    return RuntimeError(
        "Can't call numpy() on an array that requires grad. Use array.detach().numpy() instead."
    )
