"""How a tape is executed: interpreted at once, evaluated or compiled when that pays.

The switch is the ski-rental rule (Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching",
Algorithmica 3, 1988): compile when the time spent on a slower tier, plus the next call, reaches
what compiling is expected to cost. Never worse than twice the best choice. `FDIFF_TIER` set to
``interpret``, ``evaluate`` or ``compile`` fixes the tier.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from . import kernels
from .errors import InputError, message
from .evaluated import LOAD_SECONDS, START_SECONDS, Evaluated, waited
from .interpret import Plan
from .tape import CONSTANT, Tape

if TYPE_CHECKING:
    from .kernels import Executable, Parts

PATIENCE = 0.02  # interpreting less than this in all is not worth asking what a kernel costs
ASK_FIRST = 2.0  # a kernel predicted to compile longer than this is compiled only when asked for
LOOK_SECONDS = 1e-5  # a node, to see whether its kernel is on disk
WRITE_SECONDS = 1e-4  # a node, for the text that the price is read from; compiling takes longer
NAMED = 3  # ops that are named where there is no kernel
COPY_BELOW = 65536  # bytes: a strided input up to here is copied, not worth a kernel of its own
PLAIN = 0x101  # ndarray.flags: C-contiguous and aligned
VARIABLE = "FDIFF_TIER"
KEPT = 512  # runners remembered, the least recently used dropped first


class Runner:
    """One tape made executable; equal tapes share their runner.

    `tier` is what ran it last, `state` tells what would run it now and why.
    """

    __slots__ = (
        "_due", "_evaluated", "_fast", "_kernels", "_plan", "_price", "_slots", "asked", "spent",
        "tape", "tier",
    )  # fmt: skip

    def __init__(self, tape: Tape) -> None:
        unique = tuple(dict.fromkeys(tape.outputs))
        self.tape = Tape(tape.nodes, tape.inputs, unique, tape.lines)
        self._slots = None if unique == tape.outputs else [unique.index(o) for o in tape.outputs]
        self._plan: Plan | None = None
        self._kernels: dict[tuple[str, ...], Executable] = {}
        self._fast: Executable | None = None
        self._evaluated = Evaluated(self.tape)
        self._due: dict[tuple[str, ...], float] = {}  # seconds that pay for a kernel
        self._price = math.nan  # what the last kernel asked for is expected to cost
        self.spent = 0.0
        self.asked = False
        self.tier = ""

    def __call__(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Outputs at `arrays`: fresh, writable, the caller's own."""
        for array in arrays:
            if array.__class__ is np.ndarray and array.flags.num & PLAIN != PLAIN:
                return self._strided(arrays)
        if self._fast is not None:
            outs = self._fast(*arrays)
        else:
            outs = self._slow(arrays, ("C",) * len(arrays))
        return outs if self._slots is None else self._spread(outs)

    def parts(self) -> Parts | None:
        """The kernel for plain arrays, taken apart; None while there is none."""
        return None if self._fast is None else self._fast.parts

    def slots(self) -> Sequence[int]:
        """Which output of the kernel each output of the tape is."""
        return range(len(self.tape.outputs)) if self._slots is None else self._slots

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
        tier = fixed_tier()
        if tier == "interpret":  # whatever that costs, nothing is to be decided by it
            self.tier = tier
            return self._interpret(arrays)
        if self._worth(layouts, tier):
            return self._compiled(layouts)(*arrays)
        evaluated = self._evaluated
        run_it = None
        if tier in ("", "evaluate"):
            run_it = evaluated.choose(self.spent, forced=tier == "evaluate")
        start = perf_counter()
        outs = self._interpret(arrays) if run_it is None else run_it(arrays)
        seconds = perf_counter() - start
        self.spent += seconds
        if run_it is None:
            evaluated.interpreted = min(evaluated.interpreted, seconds)
            waited[0] += 0.0 if evaluated.refused else seconds
        else:
            evaluated.took(seconds)
        self.tier = "interpret" if run_it is None else "evaluate"
        return outs

    def _compiled(self, layouts: tuple[str, ...]) -> Executable:
        run = self._kernels[layouts] = kernels.compile(self.tape, layouts)
        if all(kind == "C" for kind in layouts):
            self._fast = run
        self.tier = "compile"
        return run

    def compile(self) -> None:
        """Make the kernel for plain arrays now; `state` says why there is none."""
        self.asked = True
        layouts = ("C",) * len(self.tape.inputs)
        if self._fast is None and self._worth(layouts, fixed_tier()):
            self._compiled(layouts)

    def lacking(self) -> str:
        """What there is no kernel for, in words; empty if there is one for all of the tape."""
        found = kernels.missing(self.tape)
        return ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more" * (len(found) > NAMED))

    def state(self) -> str:
        """Which tier runs the tape for plain arrays, and why, in words."""
        if self._fast is not None:
            words = "compiled" if self.asked else f"compiled after {_words(self.spent)}"
            return words + self._fast.note
        tier = os.environ.get(VARIABLE, "")
        if not self.tier:
            return f"not run yet, FDIFF_TIER={tier}" if tier else "not run yet"
        now = {"interpret": "interpreted", "evaluate": "evaluated", "compile": "compiled"}[
            self.tier
        ]
        if tier and tier != "compile":
            return f"{now}, FDIFF_TIER={tier}"
        return f"{now}, {self._evaluated.reason}; {self._no_kernel()}"

    def _no_kernel(self) -> str:
        """Why there is no kernel."""
        lacking = self.lacking()
        if lacking:
            return f"there is no kernel for {lacking}"
        due = self._due.get(("C",) * len(self.tape.inputs))
        if due is None or (math.isnan(self._price) and due < math.inf):
            return f"{_words(self.spent)} so far are too few to think of a kernel"
        if due == math.inf:
            return f"a kernel is compiled when asked for: it would take {_words(self._price)}"
        return f"{_words(self.spent)} so far, a kernel is expected to take {_words(due)}"

    def _interpret(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self._plan is None:
            self._plan = Plan(self.tape)
        return self._own(self._plan(*arrays), arrays)

    def _worth(self, layouts: tuple[str, ...], tier: str) -> bool:
        """Whether a kernel is asked for, or has been paid for."""
        if tier == "compile" or self.asked:
            return tier not in ("interpret", "evaluate") and kernels.supported(self.tape)
        if tier or self.spent < self._due.get(layouts, PATIENCE + LOOK_SECONDS * len(self.tape)):
            return False
        self._due[layouts] = self._cost(layouts) if kernels.supported(self.tape) else math.inf
        return self.spent >= self._due[layouts]

    def _cost(self, layouts: tuple[str, ...]) -> float:
        """Seconds that pay for a kernel, or for asking again what it costs."""
        if kernels.on_disk(self.tape, layouts):
            price = LOAD_SECONDS
        else:
            price = WRITE_SECONDS * len(self.tape)
            if self.spent < PATIENCE + price:
                return PATIENCE + price
            price = kernels.predict_seconds(self.tape, layouts) if price <= ASK_FIRST else price
        self._price = price
        start = 0.0 if kernels.started() else START_SECONDS
        return price + start if price <= ASK_FIRST else math.inf

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


def _words(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 1 else f"{1e3 * seconds:.2g} ms"


def plain(array: np.ndarray) -> np.ndarray:
    """`array`, copied where it is small or unaligned."""
    if array.__class__ is not np.ndarray or (array.nbytes > COPY_BELOW and array.flags.aligned):
        return array
    return np.array(array, order="C") if not array.flags.aligned else np.ascontiguousarray(array)


def fixed_tier() -> str:
    """The tier that the environment fixes, or an empty string."""
    tier = os.environ.get(VARIABLE, "")
    if tier not in ("", "interpret", "evaluate", "compile"):
        raise InputError(
            message(
                VARIABLE,
                f"{tier!r} is no tier.",
                "Set it to interpret, evaluate or compile, or leave it unset.",
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
