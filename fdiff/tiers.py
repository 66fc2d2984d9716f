"""How a tape is executed: interpreted at once, compiled when that pays.

The switch is the ski-rental rule (Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching",
Algorithmica 3, 1988): compile when the time spent interpreting, plus the next call, reaches what
compiling is expected to cost. Never worse than twice the best choice. `FDIFF_TIER` set to
``interpret`` or ``compile`` fixes the tier.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from . import kernels
from .errors import InputError, message
from .interpret import Plan
from .tape import CONSTANT, Tape

if TYPE_CHECKING:
    from .kernels import Executable, Parts

START_SECONDS = 0.05  # LLVM, where it is not loaded yet
LOAD_SECONDS = 0.005  # a kernel from the disk cache
PATIENCE = 0.02  # interpreting less than this in all is not worth asking what a kernel costs
ASK_FIRST = 2.0  # a kernel predicted to compile longer than this is compiled only when asked for
COPY_BELOW = 65536  # bytes: a strided input up to here is copied, not worth a kernel of its own
PLAIN = 0x101  # ndarray.flags: C-contiguous and aligned
KEPT = 512  # runners remembered, the least recently used dropped first


class Runner:
    """One tape made executable; equal tapes share their runner."""

    __slots__ = ("_fast", "_kernels", "_plan", "_price", "_slots", "asked", "spent", "tape")

    def __init__(self, tape: Tape) -> None:
        unique = tuple(dict.fromkeys(tape.outputs))
        self.tape = Tape(tape.nodes, tape.inputs, unique, tape.lines)
        self._slots = None if unique == tape.outputs else [unique.index(o) for o in tape.outputs]
        self._plan: Plan | None = None
        self._kernels: dict[tuple[str, ...], Executable] = {}
        self._fast: Executable | None = None
        self._price: dict[tuple[str, ...], float] = {}
        self.spent = 0.0
        self.asked = False

    def __call__(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Outputs at `arrays`: fresh, writable, the caller's own."""
        for array in arrays:
            if array.__class__ is np.ndarray and array.flags.num & PLAIN != PLAIN:  # type: ignore[comparison-overlap]
                return self._strided(arrays)
        if self._fast is not None:
            outs = self._fast(*arrays)
        else:
            outs = self._slow(arrays, ("C",) * len(arrays))
        return outs if self._slots is None else self._spread(outs)

    def parts(self) -> Parts | None:
        """The kernel for plain arrays, taken apart; None where there is more to a call."""
        return None if self._fast is None or self._slots is not None else self._fast.parts

    def _strided(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        arrays = [plain(a) for a in arrays]
        layouts = tuple(
            ["A" if a.__class__ is np.ndarray and not a.flags.c_contiguous else "C" for a in arrays]
        )
        run = self._fast if "A" not in layouts else self._kernels.get(layouts)
        outs = run(*arrays) if run is not None else self._slow(arrays, layouts)
        return outs if self._slots is None else self._spread(outs)

    def _spread(self, outs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs that are one node of the tape, as arrays of their own."""
        return [np.array(outs[k]) for k in self._slots or ()]

    def _slow(self, arrays: Sequence[np.ndarray], layouts: tuple[str, ...]) -> Sequence[np.ndarray]:
        """One call by the tier that is right now; the kernel is kept for the next ones."""
        if self._worth(layouts):
            run = kernels.compile(self.tape, layouts)
            self._kernels[layouts] = run
            if all(kind == "C" for kind in layouts):
                self._fast = run
            return run(*arrays)
        start = perf_counter()
        if self._plan is None:
            self._plan = Plan(self.tape)
        outs = self._own(self._plan(*arrays), arrays)
        self.spent += perf_counter() - start
        return outs

    def _worth(self, layouts: tuple[str, ...]) -> bool:
        tier = fixed_tier()
        forced = tier == "compile" or self.asked
        if tier == "interpret" or (self.spent < PATIENCE and not forced):
            return False
        if not kernels.supported(self.tape):
            return False
        if forced:
            return True
        price = self._price.get(layouts)
        if price is None:
            price = self._price[layouts] = self._cost(layouts)
        start = 0.0 if kernels.started() else START_SECONDS
        return price <= ASK_FIRST and self.spent >= price + start

    def _cost(self, layouts: tuple[str, ...]) -> float:
        seconds = kernels.predict_seconds(self.tape, layouts)
        return (
            LOAD_SECONDS
            if seconds <= ASK_FIRST and kernels.on_disk(self.tape, layouts)
            else seconds
        )

    def _own(self, outs: Sequence[object], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Interpreted results as arrays that alias neither an input, a constant nor each other."""
        tape = self.tape
        owned: list[np.ndarray] = []
        for node, value in zip(tape.outputs, outs, strict=True):
            array = np.asarray(value)
            shared = not array.flags.owndata or not array.flags.writeable or node in tape.inputs
            shared = shared or tape.nodes[node].primitive is CONSTANT
            owned.append(np.array(array) if shared or any(array is a for a in arrays) else array)
        return owned


def plain(array: np.ndarray) -> np.ndarray:
    """`array`, copied where it is small or unaligned."""
    if array.__class__ is not np.ndarray or (array.nbytes > COPY_BELOW and array.flags.aligned):  # type: ignore[comparison-overlap]
        return array
    return np.array(array, order="C") if not array.flags.aligned else np.ascontiguousarray(array)


def fixed_tier() -> str:
    """The tier that the environment fixes, or an empty string."""
    tier = os.environ.get("FDIFF_TIER", "")
    if tier not in ("", "interpret", "compile"):
        raise InputError(
            message(
                "FDIFF_TIER",
                f"{tier!r} is no tier.",
                "Set it to interpret or compile, or leave it unset.",
            )
        )
    return tier


_runners: OrderedDict[Tape, Runner] = OrderedDict()


def runner(tape: Tape) -> Runner:
    """The runner of `tape`, one for all equal tapes."""
    found = _runners.get(tape)
    if found is None:
        found = _runners[tape] = Runner(tape)
        if len(_runners) > KEPT:
            _runners.popitem(last=False)
    else:
        _runners.move_to_end(tape)
    return found


def forget() -> None:
    """Drop every runner, so that programs start over on the interpreter."""
    _runners.clear()
