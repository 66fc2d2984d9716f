"""The middle tier: whether a tape is run by the evaluator, by the rule of `tiers`.

What the evaluator costs a tape is its encoding; what the evaluator itself costs, all tapes pay
together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import kernels
from ..errors import UnsupportedError, message, user_line
from ..process import background
from ..process.forking import no_fork
from ..process.progress import Stage
from ..tape import Tape
from .compiler_defects import Defect

if TYPE_CHECKING:
    from ..kernels import Evaluation

START_SECONDS = 0.05  # LLVM, where it is not loaded yet
LOAD_SECONDS = 0.005  # machine code from the disk cache
EARLY = 0.25  # of what machine code costs has to be spent before it is made in the background
ENCODE_SECONDS = 1e-5  # encoding a node for the evaluator
LONG = 1000  # nodes from which on a tape is encoded in the background
TRIALS = 3  # calls after which the evaluator has to have been faster than NumPy

waited = [0.0]  # seconds that tapes waiting for an evaluator spent on the interpreter


class Evaluated:
    """The middle tier of one tape: encoded when that pays, dropped if NumPy turns out to be faster.

    `reason` says in words why the tape is evaluated or is not.
    """

    __slots__ = (
        "_background_failed", "_best", "_calls", "_handed", "_run", "_waiting", "interpreted",
        "reason", "refused", "tape",
    )  # fmt: skip

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.reason = "the evaluator does not pay yet"
        self.refused = False
        self.interpreted = math.inf  # the fastest call of the interpreter
        self._run: Evaluation | None = None
        self._waiting: Evaluation | None = None
        self._handed = self._background_failed = False
        self._best, self._calls = math.inf, 0

    def choose(self, spent: float, *, forced: bool) -> Evaluation | None:
        """What evaluates the tape, once `spent` seconds have paid for it."""
        if self._run is not None and not self.refused:
            return self._run
        if not forced and (self.refused or spent < ENCODE_SECONDS * len(self.tape)):
            return None
        if not forced and self._waiting is None and self._long():
            return None
        waiting = self._waiting or self._encoded(forced=forced)
        if waiting is None:
            return None
        if not forced:
            price = price_of(waiting)
            paid = waited[0] >= price
            if price and not self._background_failed and background.allowed():
                paid = False
                if waited[0] >= EARLY * price:
                    self._hand_over(waiting)
            if not paid:
                self.reason = "the evaluator has to be compiled first, which does not pay yet"
                if self._handed:
                    self.reason = "the evaluator is compiled in the background"
                return None
            waited[0] -= price
        self.reason = f"as {len(waiting.program.code):,} instructions"
        self._run = waiting
        return waiting

    def _long(self) -> bool:
        """Whether the tape is encoded in the background, because that takes half a second."""
        return len(self.tape) >= LONG and not self._background_failed and background.allowed()

    def first(self) -> bool:
        """Whether a long tape is to be evaluated before its kernel is made, which takes longer."""
        if self._run is not None or self.refused or not self._long():
            return False
        if self._waiting is None and not self._handed:
            self._handed = True
            self.reason = "it is encoded for the evaluator in the background"
            background.worker.submit(background.Job(self._encode_in_background, lambda: math.inf))
        return True

    def _encode_in_background(self) -> None:
        """Have the tape encoded; if that fails, it fails once more where calls decide."""
        try:
            with no_fork:
                self._waiting = kernels.encode(self.tape)
        except Exception:  # noqa: BLE001 - as below
            self._background_failed = True
        self._handed = False

    def _hand_over(self, waiting: Evaluation) -> None:
        """Have the evaluator compiled while calls go on."""
        if not self._handed:
            self._handed = True
            job = background.Job(lambda: self._load_in_background(waiting), lambda: waited[0])
            background.worker.submit(job)

    def _load_in_background(self, waiting: Evaluation) -> None:
        """Have it in memory; if that fails, it fails once more where calls decide."""
        try:
            waiting.load()
        except Exception:  # noqa: BLE001 - the next call meets it itself
            self._background_failed = True
        self._handed = False

    def _encoded(self, *, forced: bool) -> Evaluation | None:
        try:
            # NumPy imports some of itself where it is first used
            length = len(self.tape)
            with Stage("encoding", size=length, seconds=ENCODE_SECONDS * length), no_fork:
                self._waiting = kernels.encode(self.tape)
        except kernels.RefusedError as error:
            self.refused, self.reason = True, f"the evaluator refuses it, {error}"
            if forced:
                way = "Leave FDIFF_TIER unset, or set it to interpret or compile."
                where = user_line()
                raise UnsupportedError(
                    message("FDIFF_TIER=evaluate", f"{error}.", way, where)
                ) from None
        except Exception as error:  # noqa: BLE001 - whatever it is, a user cannot have caused it
            self._failed(error, forced=forced)
        return self._waiting

    def load(self, *, forced: bool) -> bool:
        """Have the evaluator in memory; False if fdiff fails to make it."""
        assert self._run is not None, "what evaluates the tape has been chosen"
        try:
            with Stage("compiling the evaluator for", seconds=self._run.seconds):
                self._run.load()
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error, forced=forced)
            return False
        return True

    def _failed(self, error: Exception, *, forced: bool) -> None:
        """Leave the tape to the interpreter, and tell the user: an error if the tier is fixed."""
        defect = Defect("evaluator", self.tape, error)
        self.refused, self.reason = True, defect.state
        if forced:
            raise defect.error("FDIFF_TIER=evaluate") from None
        defect.warn()

    def took(self, seconds: float) -> None:
        """Account for an evaluated call; the first loads the evaluator and is not compared."""
        self._calls += 1
        if 1 < self._calls <= TRIALS + 1:
            self._best = min(self._best, seconds)
            if self._calls == TRIALS + 1 and self._best > self.interpreted:
                self.refused = True
                self.reason = "NumPy is faster than the evaluator, for its arrays are large"


def price_of(evaluation: Evaluation) -> float:
    """Seconds until it could run: the evaluator is loaded, on disk, or not compiled yet."""
    if evaluation.loaded:
        return 0.0
    start = 0.0 if kernels.started() else START_SECONDS
    return start + (LOAD_SECONDS if evaluation.at_hand else evaluation.seconds)
