"""The bytecode tier: when the bytecode interpreter (`fdiff.kernels.bytecode`) runs a tape.

The tier stands between NumPy, at about a microsecond per node, and kernels, which must be compiled
for each tape. The rule of `tiered_execution` applies with two costs: encoding, which each tape
pays, and loading or compiling the bytecode interpreter, which all tapes of the process share.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ... import kernels
from ...errors import UnsupportedError, failure
from ...foreign_errors import is_foreign
from ...process import background, interruptible
from ...process.forking import no_fork
from ...process.progress import Stage
from ...tape import Tape
from .compiler_defects import Defect

if TYPE_CHECKING:
    from ...kernels import BytecodeExecutable

START_SECONDS = 0.05  # LLVM, where it is not loaded yet
LOAD_SECONDS = 0.005  # machine code from the disk cache
EARLY = 0.25  # of the break-even time, after which machine code is made in the background
ENCODE_SECONDS = 1e-5  # for each node, to encode it as bytecode
LONG = 1000  # nodes: a longer tape is encoded in the background
TRIALS = 3  # calls after which bytecode must have been faster than NumPy

encoder_loaded = [False]  # whether the modules that encode tapes are imported, which takes 0.3 s
waited = [0.0]  # seconds spent in NumPy by tapes waiting for the bytecode interpreter


_ENCODED_IN_BACKGROUND = "it is encoded as bytecode in the background"


class BytecodeTier:
    """The bytecode of one tape: encoded when that pays off, dropped if NumPy turns out to be
    faster.

    `reason` says in words why the tape runs as bytecode or does not; `refused` says that it never
    will. `interpreted` is the number of seconds of the fastest call by NumPy.
    """

    __slots__ = (
        "_background", "_calls", "_encoded_tape", "_executable", "_fastest", "_price", "_priced_at",
        "interpreted", "reason", "refused", "tape",
    )  # fmt: skip

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.reason = "bytecode does not pay yet"
        self.refused = False
        self.interpreted = math.inf
        self._executable: BytecodeExecutable | None = None
        self._encoded_tape: BytecodeExecutable | None = None
        self._background = background.Task()  # if it fails, a call tries again and reports that
        self._fastest, self._calls = math.inf, 0
        self._price, self._priced_at = 0.0, 0.0  # until it can run, and when to find that out again

    def choose(self, spent: float, *, forced: bool) -> BytecodeExecutable | None:
        """The executable of the tape, once `spent` seconds have paid for it; None before."""
        if self._executable is not None and not self.refused:
            return self._executable
        if not forced and (self.refused or spent < ENCODE_SECONDS * len(self.tape)):
            return None
        if self._encoded_tape is not None and self._encoded_tape.superseded:
            self._encoded_tape, self._priced_at = None, 0.0
        if not forced and self._encoded_tape is None:
            import_waits = not encoder_loaded[0] and self._may_wait()
            if self._long() or import_waits:
                self.reason = _ENCODED_IN_BACKGROUND
                self._background.start(self._encode, lambda: math.inf)
                return None
        waiting = self._encoded_tape or self._encode_now(forced=forced)
        if waiting is None or not (forced or self._is_paid(waiting, spent)):
            return None
        self.reason = f"as {len(waiting.program.code):,} instructions"
        self._executable = waiting
        return waiting

    def _is_paid(self, waiting: BytecodeExecutable, spent: float) -> bool:
        """Whether the interpreter is loaded, or may be by the call under way, which then waits.

        Where there is a background thread, no call waits. Elsewhere the tape itself must have
        spent a good part of the price: a short function is done before that.
        """
        price = self._price_of(waiting, spent)
        if price and self._may_wait():
            if waited[0] >= price * (EARLY if background.allowed() else 1.0):
                self._background.start(self._make_interpreter, lambda: waited[0])
        elif not price or (waited[0] >= price and spent >= EARLY * price):
            waited[0] -= price
            return True
        self.reason = "the bytecode interpreter has to be compiled, which does not pay yet"
        if self._background.under_way:
            self.reason = "the bytecode interpreter is compiled in the background"
        return False

    def _price_of(self, waiting: BytecodeExecutable, spent: float) -> float:
        """The price, for which the disk is asked again once the tape has spent a quarter more."""
        if waiting.loaded:
            return 0.0
        if spent >= self._priced_at:
            self._price, self._priced_at = price_of(waiting), 1.25 * spent
        return self._price

    def _make_interpreter(self) -> None:
        """Load the interpreter, or compile one for all tapes that wait for one by now."""
        self._encode()
        assert self._encoded_tape is not None, "it has just been encoded"
        price = price_of(self._encoded_tape)
        self._encoded_tape.load()
        waited[0] = max(0.0, waited[0] - price)

    def _long(self) -> bool:
        """Whether the tape is so long that it is encoded in the background."""
        return len(self.tape) >= LONG and self._may_wait()

    def _may_wait(self) -> bool:
        """Whether there may be a background thread, which has not failed yet."""
        error = self._background.error
        return (error is None or is_foreign(error)) and background.possible()

    def goes_first(self) -> bool:
        """Whether a long tape is encoded before its kernel is compiled, which takes longer."""
        if self._executable is not None or self.refused or not self._long():
            return False
        if self._encoded_tape is None and not self._background.under_way:
            self.reason = _ENCODED_IN_BACKGROUND
            self._background.start(self._encode, lambda: math.inf)
        return True

    def start(self) -> None:
        """Have the tape run as bytecode soon, because its kernel is asked for and takes long."""
        if self._encoded_tape is None and not self.refused and self._may_wait():
            self._background.start(self._make_interpreter, lambda: math.inf)

    def _encode(self) -> None:
        with no_fork:  # NumPy imports some of itself where it is first used
            self._encoded_tape = kernels.encode(self.tape)
        encoder_loaded[0] = True

    def _encode_now(self, *, forced: bool) -> BytecodeExecutable | None:
        try:
            length = len(self.tape)
            with Stage("encoding", size=length, seconds=ENCODE_SECONDS * length):
                self._encode()
        except kernels.RefusedError as error:
            self.refused, self.reason = True, f"it cannot be bytecode, {error}"
            if forced:
                way = "Leave FDIFF_TIER unset, or set it to interpret or compile."
                call = "FDIFF_TIER=evaluate"
                raise failure(UnsupportedError, call, f"{error}.", way) from None
        except Exception as error:  # noqa: BLE001 - whatever it is, a user cannot have caused it
            self._failed(error, forced=forced)
        return self._encoded_tape

    def load(self, *, forced: bool) -> bool:
        """Load or compile the bytecode interpreter; False if it fails to compile."""
        assert self._executable is not None, "`choose` has returned it"
        try:
            with Stage("compiling bytecode for", seconds=self._executable.seconds):
                self._executable.load()
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error, forced=forced)
            return False
        return True

    def _failed(self, error: Exception, *, forced: bool) -> None:
        """Leave the tape to NumPy and warn the user, or raise if the tier is fixed."""
        if is_foreign(error):
            raise error
        defect = Defect("bytecode", self.tape, error)
        self.refused, self.reason = True, defect.state
        if forced:
            raise defect.error("FDIFF_TIER=evaluate") from None
        defect.warn()

    @property
    def is_long(self) -> bool:
        """Whether exceptions of signal handlers are to end the wait for a call.

        Until two calls have shown how long they take, it is said by NumPy's, if there was one.
        """
        seconds = self._fastest if self._calls > 1 else self.interpreted
        return seconds > interruptible.LONG

    def account(self, seconds: float) -> None:
        """Account for a call run as bytecode; the first includes loading, and does not count."""
        self._calls += 1
        if 1 < self._calls <= TRIALS + 1:
            self._fastest = min(self._fastest, seconds)
            if self._calls == TRIALS + 1 and self._fastest > self.interpreted:
                self.refused = True
                self.reason = "NumPy is faster than bytecode, for its arrays are large"


def price_of(executable: BytecodeExecutable) -> float:
    """Seconds until it can run: the bytecode interpreter is loaded, on disk, or not compiled."""
    if executable.loaded:
        return 0.0
    start = 0.0 if kernels.started() else START_SECONDS
    return start + (LOAD_SECONDS if executable.at_hand else executable.seconds)
