"""How a tape is executed: interpreted at once, evaluated or compiled when that pays.

The switch is the ski-rental rule (Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching",
Algorithmica 3, 1988): compile when the time spent on a slower tier, plus the next call, reaches
what compiling is expected to cost. Never worse than twice the best choice. The evaluator executes a
tape as data: what it costs a tape is its encoding, and what the evaluator itself costs all tapes
pay together. `FDIFF_TIER` set to ``interpret``, ``evaluate`` or ``compile`` fixes the tier.
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
from .errors import InputError, UnsupportedError, message
from .interpret import Plan
from .tape import CONSTANT, Tape

if TYPE_CHECKING:
    from .kernels import Executable, Parts
    from .kernels.evaluator import Evaluation

START_SECONDS = 0.05  # LLVM, where it is not loaded yet
LOAD_SECONDS = 0.005  # a kernel from the disk cache
PATIENCE = 0.02  # interpreting less than this in all is not worth asking what a kernel costs
ASK_FIRST = 2.0  # a kernel predicted to compile longer than this is compiled only when asked for
ENCODE_SECONDS = 5e-6  # encoding a node for the evaluator
TRIALS = 3  # calls after which the evaluator has to have been faster than NumPy
COPY_BELOW = 65536  # bytes: a strided input up to here is copied, not worth a kernel of its own
PLAIN = 0x101  # ndarray.flags: C-contiguous and aligned
KEPT = 512  # runners remembered, the least recently used dropped first


_interpreted = [0.0]  # seconds that tapes waiting for an evaluator spent on the interpreter


class Evaluated:
    """The middle tier of one tape: encoded when that pays, dropped if NumPy turns out to be faster.

    `reason` says in words why the tape is evaluated or is not.
    """

    __slots__ = ("_best", "_calls", "_run", "_waiting", "interpreted", "reason", "refused", "tape")

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.reason = "interpreted for too short a time to be encoded"
        self.refused = False
        self.interpreted = math.inf  # the fastest call of the interpreter
        self._run: Evaluation | None = None
        self._waiting: Evaluation | None = None
        self._best, self._calls = math.inf, 0

    def choose(self, spent: float, *, forced: bool) -> Evaluation | None:
        """What evaluates the tape, once `spent` seconds have paid for it."""
        if self._run is not None and not self.refused:
            return self._run
        if not forced and (self.refused or spent < ENCODE_SECONDS * len(self.tape)):
            return None
        waiting = self._waiting or self._encoded(forced=forced)
        if waiting is None:
            return None
        if not forced:
            price = _price_of(waiting)
            if _interpreted[0] < price:
                self.reason = "the evaluator has to be compiled first, which does not pay yet"
                return None
            _interpreted[0] -= price
        self.reason = f"encoded as {len(waiting.program.code)} instructions"
        self._run = waiting
        return waiting

    def _encoded(self, *, forced: bool) -> Evaluation | None:
        from .kernels import evaluator  # noqa: PLC0415 - imported when the first tape is encoded

        try:
            self._waiting = evaluator.prepare(self.tape)
        except evaluator.RefusedError as error:
            self.refused, self.reason = True, str(error)
            if forced:
                way = "Leave FDIFF_TIER unset, or set it to interpret or compile."
                raise UnsupportedError(message("FDIFF_TIER=evaluate", f"{error}.", way)) from None
        return self._waiting

    def took(self, seconds: float) -> None:
        """Account for an evaluated call; the first loads the evaluator and is not compared."""
        self._calls += 1
        if 1 < self._calls <= TRIALS + 1:
            self._best = min(self._best, seconds)
            if self._calls == TRIALS + 1 and self._best > self.interpreted:
                self.refused, self.reason = True, "NumPy is faster, for its arrays are large"


def _price_of(evaluation: Evaluation) -> float:
    """Seconds until it could run: the evaluator is loaded, on disk, or not compiled yet."""
    if evaluation.loaded:
        return 0.0
    start = 0.0 if kernels.started() else START_SECONDS
    return start + (LOAD_SECONDS if evaluation.at_hand else evaluation.seconds)


class Runner:
    """One tape made executable; equal tapes share their runner.

    `tier` is what ran it last, `reason` why it was not a faster one, in words.
    """

    __slots__ = (
        "_due", "_evaluated", "_fast", "_kernels", "_plan", "_slots", "asked", "reason", "spent",
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
        self.spent = 0.0
        self.asked = False
        self.tier = "interpret"
        self.reason = "it has not run yet"

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
        tier = fixed_tier()
        if self._worth(layouts, tier):
            run = kernels.compile(self.tape, layouts)
            self._kernels[layouts] = run
            if all(kind == "C" for kind in layouts):
                self._fast = run
            self.tier, self.reason = "compile", "a kernel has paid, or was asked for"
            return run(*arrays)
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
            _interpreted[0] += 0.0 if evaluated.refused else seconds
        else:
            evaluated.took(seconds)
        self.tier = "interpret" if run_it is None else "evaluate"
        self.reason = f"FDIFF_TIER={tier}" if tier == self.tier else evaluated.reason
        return outs

    def _interpret(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self._plan is None:
            self._plan = Plan(self.tape)
        return self._own(self._plan(*arrays), arrays)

    def _worth(self, layouts: tuple[str, ...], tier: str) -> bool:
        """Whether a kernel is asked for, or has been paid for."""
        if tier == "compile" or self.asked:
            return tier not in ("interpret", "evaluate") and kernels.supported(self.tape)
        if tier or self.spent < self._due.get(layouts, PATIENCE):
            return False
        if not kernels.supported(self.tape):
            self._due[layouts] = math.inf
            return False
        price = self._cost(layouts)
        start = 0.0 if kernels.started() else START_SECONDS
        due = self._due[layouts] = price + start if price <= ASK_FIRST else math.inf
        return self.spent >= due

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
    if tier not in ("", "interpret", "evaluate", "compile"):
        raise InputError(
            message(
                "FDIFF_TIER",
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
