"""Methods of torch's tensors that NumPy arrays lack: each is a call of NumPy.

Recorded arrays have them, and so do traced arrays where an operator is called with recorded arrays:
functions written for recorded arrays then run either way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

import fdiff.intact_numpy as np
from fdiff import intact_scipy

from ...errors import DeviceError, failure
from ...foreign_errors import noting
from ...hooks import hooks
from ...ops.entrywise.composite_functions import stop_gradient
from ...trace import TracedArray
from ...trace.trace_stack import stack
from ..calls.recording import record
from ..thread_state import state
from .conversions import Size
from .recorded_array import Recordable, RecordedArray

Method = Callable[..., object]

_ELEMENTWISE = (
    "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "ceil", "cos", "cosh",
    "exp", "exp2", "expm1", "floor", "log", "log10", "log1p", "log2", "reciprocal", "sign", "sin",
    "sinh", "sqrt", "square", "tan", "tanh",
)  # fmt: skip


def _scaled(operate: Method) -> Method:
    """An operation whose second operand may be multiplied by `alpha`."""

    def method(x: object, other: Recordable, *, alpha: float = 1) -> object:
        return operate(x, other if alpha == 1 else np.multiply(alpha, other))

    return method


def _stored(name: str, operate: Method) -> Method:
    """An operation that stores into its array, and gives that."""

    def method(x: object, *args: object, **kwargs: object) -> object:
        if operate(x, *args, **kwargs) is not x:
            raise TypeError(
                f"{name}() stores into its array, and a NumPy scalar cannot be stored into. Write"
                f" x = x.{name[:-1]}(...), or make an array of it by numpy.asarray."
            )
        return x

    return method


def _onto(ufunc: np.ufunc) -> Method:
    """A function of one array whose results are stored there."""
    store = lambda x: ufunc(x, out=x)  # noqa: E731 - of this function

    def method(x: RecordedArray) -> object:
        if not np.ndim(x):
            return None
        if type(x) is RecordedArray:
            return record(store, ufunc.__name__, (x,), {}, stores=True)
        return store(x)

    return method


def _filled(x: RecordedArray, value: object) -> object:
    if np.ndim(x) or getattr(x, "value", x).__class__ is np.ndarray:
        x[...] = value
        return x
    return None


def _relu(x: RecordedArray) -> object:
    return np.where(x <= 0, 0.0 * x, x)  # with slope 0 at 0, as in torch; NaN stays


def _sigmoid(x: object) -> object:
    return intact_scipy.special.expit(x)


def _to(x: Recordable, *args: object, **kwargs: object) -> object:
    """``x.to(dtype)`` and ``x.to(other)``; the device can only be the CPU."""
    kwargs = {key: value for key, value in kwargs.items() if key not in ("copy", "non_blocking")}
    for target in (*args, *kwargs.values()):
        if isinstance(target, str) and target.startswith(("cuda", "mps", "xpu")):
            fact = f"recorded arrays are in the memory of the host, not on {target}."
            way = 'Leave it out, or give device="cuda" to an operator such as fdiff.grad.'
            raise failure(DeviceError, "fdiff.autograd.RecordedArray.to", fact, way)
        if isinstance(target, RecordedArray | TracedArray | np.ndarray):
            x = x.astype(target.dtype)
        elif target is not None and target != "cpu":
            x = x.astype(target)
    return x


_OPERATORS = {
    "add": (np.add, operator.iadd), "sub": (np.subtract, operator.isub),
    "mul": (np.multiply, operator.imul), "div": (np.divide, operator.itruediv),
    "pow": (np.power, operator.ipow),
}  # fmt: skip
METHODS: dict[str, Method] = {
    **{name: getattr(np, name) for name in _ELEMENTWISE},
    **{name: _scaled(pair[0]) for name, pair in _OPERATORS.items()},
    **{f"{name}_": _stored(f"{name}_", _scaled(pair[1])) for name, pair in _OPERATORS.items()},
    **{f"{name}_": _stored(f"{name}_", _onto(getattr(np, name))) for name in _ELEMENTWISE},
    "zero_": _stored("zero_", partial(_filled, value=0)),
    "fill_": _stored("fill_", _filled),
    "copy_": _stored("copy_", _filled),
    "matmul": np.matmul,
    "neg": np.negative,
    "relu": _relu,
    "sigmoid": _sigmoid,
    "to": _to,
    "unsqueeze": lambda x, dim: np.expand_dims(x, dim),  # noqa: PLW0108 - the name of the axis
}
_OF_RECORDED = {"detach": stop_gradient, "clone": np.copy}  # which the class has itself


def _view(self: RecordedArray, *shape: Recordable, **kwargs: object) -> Recordable:
    """The entries in another shape; with a dtype, as `numpy.ndarray.view`."""
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    if not sizes or not all(isinstance(n, int | np.integer) for n in sizes):
        return _dtype_view(self, *shape, **kwargs)
    out = self.reshape(sizes)
    if not np.may_share_memory(out.value, self.value):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one"
            " dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return out


def _size(self: RecordedArray) -> Size:
    """The number of entries; ``x.size(0)`` is ``x.shape[0]``."""
    size = Size(self.value.size)
    size.shape = self.value.shape
    return size


def _named(name: str, call: Method) -> Method:
    def method(self: RecordedArray, *args: object, **kwargs: object) -> object:
        return call(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As ``torch.Tensor.{name}``."
    return method


_dtype_view: Method = RecordedArray.view
for _name, _call in METHODS.items():
    setattr(RecordedArray, _name, _named(_name, _call))
RecordedArray.view = _view  # in place of NumPy's method
RecordedArray.size = property(noting(_size))


def method_of_traced(name: str) -> Method | None:
    """A method of torch's, where the function that is traced has, or reads, recorded arrays."""
    if not (state.ported or any(trace.ported for trace in stack.traces)):
        return None
    return _OF_RECORDED.get(name) or METHODS.get(name)


hooks.torch_method = method_of_traced
