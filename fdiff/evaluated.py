"""The middle tier: whether a tape is run by the evaluator, by the rule of `tiers`.

What the evaluator costs a tape is its encoding; what the evaluator itself costs, all tapes pay
together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from . import kernels
from .errors import UnsupportedError, message, user_line
from .forking import no_fork
from .tape import Tape

if TYPE_CHECKING:
    from .kernels.evaluator import Evaluation

START_SECONDS = 0.05  # LLVM, where it is not loaded yet
LOAD_SECONDS = 0.005  # machine code from the disk cache
ENCODE_SECONDS = 1e-5  # encoding a node for the evaluator
TRIALS = 3  # calls after which the evaluator has to have been faster than NumPy

waited = [0.0]  # seconds that tapes waiting for an evaluator spent on the interpreter


class Evaluated:
    """The middle tier of one tape: encoded when that pays, dropped if NumPy turns out to be faster.

    `reason` says in words why the tape is evaluated or is not.
    """

    __slots__ = ("_best", "_calls", "_run", "_waiting", "interpreted", "reason", "refused", "tape")

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.reason = "the evaluator does not pay yet"
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
            price = price_of(waiting)
            if waited[0] < price:
                self.reason = "the evaluator has to be compiled first, which does not pay yet"
                return None
            waited[0] -= price
        self.reason = f"as {len(waiting.program.code):,} instructions"
        self._run = waiting
        return waiting

    def _encoded(self, *, forced: bool) -> Evaluation | None:
        with no_fork:
            from .kernels import evaluator  # noqa: PLC0415 - imported when the first tape is encoded

        try:
            with no_fork:  # NumPy imports some of itself where it is first used
                self._waiting = evaluator.prepare(self.tape)
        except evaluator.RefusedError as error:
            self.refused, self.reason = True, f"the evaluator refuses it, {error}"
            if forced:
                way = "Leave FDIFF_TIER unset, or set it to interpret or compile."
                where = user_line()
                raise UnsupportedError(
                    message("FDIFF_TIER=evaluate", f"{error}.", way, where)
                ) from None
        return self._waiting

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
