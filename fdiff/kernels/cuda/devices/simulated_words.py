"""The words of kernel texts as functions of Python, for Numba's simulator of CUDA.

A word is what the op that is made of it computes in NumPy, or its text, which is Python: the
simulator checks what kernels do, not how elementary functions are computed.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba import cuda
from scipy import special

from ....generated_text import Namespace, defined
from ....primitive import PRIMITIVES, load_tables
from ...ir.word_table import Word, word_of
from ...llvm.arithmetic import UnknownWordError
from ...runtime import scalar
from ..cuda_program import CudaKernel

WARP = 2  # lanes of a warp: threads of the simulator are slow
_PATIENCE = 60.0  # seconds: lanes that wait for longer wait for one that has failed
_lock = threading.Lock()


def function_of(kernel: CudaKernel) -> Callable[..., None]:
    """The Python function of a kernel, which warns of nothing, as a GPU does."""
    space: dict[str, object] = {"cuda": cuda, "np": np, "WARP": WARP, "rt": _RT, "math": _MATH}
    text = kernel.text + _QUIET.format(kernel.name)
    return defined("quiet", text, space)


# Each thread of the simulator has warnings of its own to switch off.
_QUIET = """

def quiet(*args):
    with np.errstate(all="ignore"):
        {}(*args)
"""


# --- threads and memory -----------------------------------------------------------------------


def _exchange(value: object, reach: int) -> object:
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


def _atomic_sum(memory: np.ndarray, at: int, value: float) -> None:
    with _lock:
        memory[at] += value


class Offset:
    """Memory from a position on."""

    def __init__(self, memory: np.ndarray | Offset, begin: int) -> None:
        inside = isinstance(memory, Offset)
        self._memory: np.ndarray = memory._memory if inside else memory
        self._begin: int = memory._begin + begin if inside else begin

    def __getitem__(self, at: int) -> object:
        return self._memory[self._begin + at]

    def __setitem__(self, at: int, value: object) -> None:
        self._memory[self._begin + at] = value


# --- numbers ----------------------------------------------------------------------------------


class _Home:
    """The module for ``rt`` or ``math``: words are made when a kernel first calls them."""

    def __init__(self, name: str, **words: Callable[..., object]) -> None:
        self._name = name
        vars(self).update(words)

    def replaced(self, **words: Callable[..., object]) -> _Home:
        """Return the module of words with other functions for some of them."""
        return _Home(self._name, **{**vars(self), **words})

    def __getattr__(self, name: str) -> Callable[..., object]:
        word = word_of(f"{self._name}.{name}")
        if word is None:
            raise AttributeError(f"{self._name}.{name} is no word")
        vars(self)[name] = _typed(word, name)
        return vars(self)[name]


@cache
def _typed(word: Word, name: str) -> Callable[..., object]:
    """A word on numbers, which gives the type that its row says."""
    evaluate, letters = _OWN.get(word.name) or _reference(word, name), word.parameters

    def typed(*values: object) -> object:
        numbers = [np.asarray(x)[()] for x in values]
        dtype, text = numbers[0].dtype, None
        if dtype.kind == "f":
            pairs = zip(numbers, letters, strict=True)
            numbers = [x.astype(dtype) if letter == letters[0] else x for x, letter in pairs]
        else:
            text = _text(name, dtype.kind)
        out = np.dtype(word.result([x.dtype.str[1:] for x in numbers]))
        return np.asarray((text or evaluate)(*numbers)).astype(out)[()]

    return typed


def _reference(word: Word, name: str) -> Callable[..., object]:
    """NumPy's function for the op whose text is a call of this word alone."""
    load_tables("scipy.special")
    operands = ", ".join(f"{{{k}}}" for k in range(len(word.parameters)))
    texts = f"rt.{name}({operands})", f"math.{name}({operands})"
    for op in PRIMITIVES.values():
        if op.lowering.kernel is not None and op.lowering.kernel.text in texts:
            return op.rules.evaluate
    raise UnknownWordError(word.name)


@lru_cache(maxsize=256)
def _text(name: str, family: str) -> Callable[..., object] | None:
    """The text of a word for a family of dtypes, which is Python; None if there is none."""
    for families, text in scalar.TEXTS.get(name, ()):
        if family in families:
            space: Namespace = {"rt": _RT, "math": _MATH}
            exec(text, space)
            return space[name]
    return None


_OWN: dict[str, Callable[..., object]] = {  # words that are no op's
    "rt.add": operator.add,
    "rt.multiply": operator.mul,
    "rt.frem": np.fmod,
    "rt.bits": lambda x: 8 * x.itemsize,
    "math.lgamma": special.gammaln,
    "math.tgamma": special.gamma,
    "math.pow": np.power,
}
_RT = _Home(
    "rt",
    exchange=_exchange,
    atomic_sum=_atomic_sum,
    offset=Offset,
    quotient=operator.floordiv,
    select=lambda test, x, y: x if test else y,
    fma=lambda x, y, z: x * y + z,
)
_MATH = _Home("math")
