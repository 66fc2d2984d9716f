"""The words of kernel texts as functions of Python, for Numba's simulator of CUDA.

They have the meaning that `fdiff.kernels.llvm.words` states, by NumPy and SciPy instead of by our
formulas: the simulator checks what kernels do, not how elementary functions are computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import cuda
from scipy import special

from .program import CudaKernel

WARP = 2  # lanes of a warp: threads of the simulator are slow
_PATIENCE = 60.0  # seconds: lanes that wait for longer wait for one that has failed
_lock = threading.Lock()


def function_of(kernel: CudaKernel) -> Callable[..., None]:
    """The Python function of a kernel, which warns of nothing, as a GPU does."""
    space: dict[str, Any] = {"cuda": cuda, "np": np, "WARP": WARP, "rt": _RT, "math": _MATH}
    text = kernel.text + _QUIET.format(kernel.name)
    exec(compile(text, f"<kernel for CUDA {kernel.name}>", "exec"), space)
    return space["quiet"]


# Each thread of the simulator has warnings of its own to switch off.
_QUIET = """

def quiet(*args):
    with np.errstate(all="ignore"):
        {}(*args)
"""


# --- threads and memory -----------------------------------------------------------------------


def _exchange(value: Any, reach: int) -> Any:
    """The value of the lane whose number differs in the bits of `reach`."""
    thread: Any = threading.current_thread()
    block, number = thread._manager.__dict__, int(thread.thread_id)
    with _lock:
        slots, warps = block.setdefault("exchanged", {}), block.setdefault("warps", {})
        lanes = min(WARP, int(np.prod(block["_block_dim"])) - number // WARP * WARP)
        barrier = warps.setdefault(number // WARP, threading.Barrier(lanes, timeout=_PATIENCE))
    slots[number] = value
    barrier.wait()
    out = slots.get(number ^ int(reach), value)
    barrier.wait()
    return out


def _atomic_sum(memory: Any, at: int, value: Any) -> None:
    with _lock:
        memory[at] += value


class Offset:
    """Memory from a position on."""

    def __init__(self, memory: Any, begin: int) -> None:
        inside = isinstance(memory, Offset)
        self._memory: Any = memory._memory if inside else memory
        self._begin: int = memory._begin + begin if inside else begin

    def __getitem__(self, at: int) -> Any:
        return self._memory[self._begin + at]

    def __setitem__(self, at: int, value: Any) -> None:
        self._memory[self._begin + at] = value


# --- numbers ----------------------------------------------------------------------------------


def _typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a result of the dtype of its first argument."""

    @wraps(function)
    def typed(x: Any, *others: Any) -> Any:
        dtype = np.asarray(x).dtype
        if dtype == np.bool_:
            return np.bool_(function(x, *others))
        return dtype.type(function(x, *others))

    return typed


def _quotient(over: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A quotient by a length, 0 at the origin."""
    return lambda x, y: np.float64(0) if x == 0 and y == 0 else over(x, y)


def _power(x: Any, y: Any) -> Any:
    dtype = np.asarray(x).dtype
    if dtype.kind != "f" and y < 0:
        return dtype.type(1)
    return np.power(x, dtype.type(y))


def _share(base: float) -> Callable[[Any, Any], Any]:
    def share(x: Any, y: Any) -> Any:
        d = np.float64(x) - np.float64(y)
        d = 0.0 if x == y else d
        return special.expit(d * np.log(base))

    return share


def _shift(left: bool) -> Callable[[Any, Any], Any]:  # noqa: FBT001 - private
    def shifted(x: Any, n: Any) -> Any:
        dtype = np.asarray(x).dtype
        bits = 8 * dtype.itemsize
        if 0 <= n < bits:
            return np.left_shift(x, dtype.type(n)) if left else np.right_shift(x, dtype.type(n))
        return dtype.type(-1 if not left and x < 0 else 0)

    return shifted


def _ldexp(x: Any, n: Any) -> Any:
    return np.ldexp(x, np.int32(max(-(1 << 30), min(1 << 30, int(n)))))


_SUMS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fma": lambda x, y, z: x * y + z,
}
_UFUNCS = (
    "floor", "ceil", "trunc", "rint", "sign", "heaviside", "isnan", "isinf", "isfinite", "signbit",
    "spacing", "nextafter", "fmod", "remainder", "floor_divide", "gcd", "lcm", "exp", "exp2",
    "expm1", "sinh", "cosh", "tanh", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2",
    "sin", "cos", "tan", "cbrt", "hypot",
)  # fmt: skip
_OTHER_NAMES = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "invert": np.invert,
    "frem": np.fmod, "erf": special.erf, "erfc": special.erfc, "ndtr": special.ndtr,
    "expit": special.expit,
}  # fmt: skip
_FORMULAS: dict[str, Callable[..., Any]] = {
    "exp_product": lambda x, y: np.exp(x * y),
    "exp_minus_square": lambda x: np.exp(-x * x),
    "sech_squared": lambda x: 1 / np.cosh(x) ** 2,
    "logistic_slope": lambda x: special.expit(x) * special.expit(-x),
    "first_share": _share(np.e),
    "second_share": lambda x, y: _share(np.e)(y, x),
    "first_share2": _share(2.0),
    "second_share2": lambda x, y: _share(2.0)(y, x),
    "power": _power,
    "power_sum": lambda x, y, z: np.power(x, y + z),
    "power_slope": lambda x, y, z: y * np.power(x, y + z),
    "first_direction": _quotient(lambda x, y: x / np.hypot(x, y)),
    "second_direction": _quotient(lambda x, y: y / np.hypot(x, y)),
    "first_angle_slope": lambda x, y: x / np.hypot(x, y) / np.hypot(x, y),
    "second_angle_slope": lambda x, y: y / np.hypot(x, y) / np.hypot(x, y),
    "over_one_plus_square": lambda x: 1 / (1 + x * x),
    "over_root_one_plus_square": lambda x: 1 / np.hypot(1, x),
    "left_shift": _shift(left=True),
    "right_shift": _shift(left=False),
    "ldexp": _ldexp,
}
_RT = SimpleNamespace(
    exchange=_exchange,
    atomic_sum=_atomic_sum,
    offset=Offset,
    quotient=lambda n, by: n // by,
    select=lambda test, x, y: x if test else y,
    bits=lambda x: 8 * np.asarray(x).dtype.itemsize,
    **_SUMS,
    **{name: getattr(np, name) for name in _UFUNCS},
    **{name: _typed(function) for name, function in {**_OTHER_NAMES, **_FORMULAS}.items()},
)
_MATH = SimpleNamespace(
    sqrt=np.sqrt,
    copysign=np.copysign,
    lgamma=_typed(special.gammaln),
    tgamma=_typed(special.gamma),
    pow=np.power,
    **{name: getattr(np, name) for name in _UFUNCS},
    **{name: _typed(function) for name, function in _OTHER_NAMES.items()},
)
