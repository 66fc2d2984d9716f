"""Tiered execution: a tape is interpreted at once, and run as bytecode or compiled when that pays
off.

`runner(tape)` returns the `Runner` of a tape: arrays in, arrays out, by the tier that is fastest
now.

The switch is the ski-rental rule (Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching",
Algorithmica 3, 1988): compile at the break-even point, where the time spent on a slower tier, plus
the next call, reaches the expected cost of compiling. That is never worse than twice the best
choice. Where a second core is free, kernels are compiled in the background, so that nobody waits,
and already at a quarter of the break-even point. A program that is called once is not compiled, nor
is a program whose compilation is predicted to take more than ten seconds. A kernel that the user
requests is compiled at once; if that takes longer than a second, in the background, and slower
tiers answer meanwhile. `break_even` estimates the cost; `kernel_tier` and `bytecode_tier` keep the
compiled code.

`FDIFF_TIER` set to ``interpret``, ``evaluate`` or ``compile`` fixes the tier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import fdiff.intact_numpy as np

from ...bounded_cache import WeakValues, keep_recent
from ...errors import CompileError
from ...foreign_errors import environment_value
from ...hooks import hooks
from ...interpret import LONG, Interpreter
from ...process import observed_spans
from ...process.forking import late
from ...process.interruptible import interruptibly_without_lock
from ...process.progress import Stage
from ...tape import CONSTANT, Tape
from .break_even import Account, Layouts, in_words
from .bytecode_tier import BytecodeTier, waited
from .fixed_tier import VARIABLE, fixed_tier
from .kernel_tier import KernelTier

if TYPE_CHECKING:
    from ...kernels import BytecodeExecutable, CallParts, Executable
    from .tape_parts import TapeParts

_RUN_BY = {"interpret": "interpreted", "evaluate": "evaluated", "compile": "compiled"}
KEPT = 256  # runners remembered, the least recently used dropped first
COPY_BELOW = 65536  # bytes: smaller strided inputs are copied; larger ones get a kernel
PLAIN = 0x101  # ndarray.flags: C-contiguous and aligned
LARGE = 1 << 18  # bytes of arrays of a tape, beyond which its runner is not remembered


# Imported by the first loop whose body has no kernel, or by the first profile.
has_parts = late("tape_parts", __package__, "has_parts")
tape_parts = late("tape_parts", __package__, "TapeParts")
interpreted = late("inspection.profiled_tapes", "fdiff.dispatch", "interpreted")
observed_bytecode = late("profiled_kernels", __package__, "observed_bytecode")
observed_kernel = late("profiled_kernels", __package__, "observed_kernel")


class Runner:
    """An executable tape; equal tapes share their runner.

    `account` is the record of its use, `compiler` the compiler that the user named.
    """

    __slots__ = (
        "__weakref__", "_bytecode", "_interpreter", "_kernels", "_last_tier", "_parts", "_slots",
        "account", "compiler", "tape",
    )  # fmt: skip

    def __init__(self, tape: Tape, compiler: str = "") -> None:
        self.compiler = compiler
        unique = tuple(dict.fromkeys(tape.outputs))
        self.tape = Tape(tape.nodes, tape.inputs, unique, tape.lines)
        self._slots = None if unique == tape.outputs else [unique.index(o) for o in tape.outputs]
        self.account = Account()
        self._interpreter: Interpreter | None = None
        self._parts: TapeParts | Literal[False] | None = None  # False where it is run as a whole
        self._bytecode = BytecodeTier(self.tape)
        self._kernels = KernelTier(
            self.tape, compiler, self.account, self._bytecode, partial(_is_kept, (tape, compiler))
        )
        self._last_tier = ""  # that ran it, other than the kernel for contiguous arrays

    def __call__(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Outputs of the tape at `arrays`: new arrays, which nobody else holds."""
        for array in arrays:
            if array.__class__ is np.ndarray and array.flags.num & PLAIN != PLAIN:
                return self._strided(arrays)
        kernel = self._kernels.contiguous
        if kernel is None:
            outs = self._slow(arrays, ("C",) * len(arrays))
        elif observed_spans.observer is None:
            try:
                outs = kernel(*arrays)
            except CompileError as error:
                outs = self._after_late_failure(error, arrays)
        else:
            outs = self._run(kernel, arrays)
        return outs if self._slots is None else self._copied_where_shared(outs)

    @property
    def tier(self) -> str:
        """Which tier ran the last call, or ``compile``; empty before the first call."""
        return self._last_tier if self._kernels.contiguous is None else "compile"

    def parts(self) -> CallParts | None:
        """The kernel for contiguous arrays, as the fast path needs it; None if there is none."""
        kernel = self._kernels.contiguous
        return None if kernel is None else kernel.parts()

    def parts_by_libm(self) -> CallParts | None:
        """The kernel for angles that are out of range; None unless such calls have been met."""
        kernel = self._kernels.contiguous
        return None if kernel is None else kernel.parts_by_libm()

    def quick(self) -> Callable[..., Sequence[np.ndarray] | None] | None:
        """The call of the kernel without checks of arguments; None if there is none.

        It gives None for arrays that it cannot take, and where the kernel reports a fault.
        """
        kernel = self._kernels.contiguous
        return None if kernel is None or self._slots is not None else kernel.quick

    def with_compiler(self, compiler: str) -> Runner:
        """The runner of the same tape with kernels by another compiler."""
        return runner(self.whole_tape(), compiler)

    def whole_tape(self) -> Tape:
        """The tape as it was given: `tape` has outputs that are one node once."""
        tape = self.tape
        outputs = tuple([tape.outputs[k] for k in self.slots()])
        return Tape(tape.nodes, tape.inputs, outputs, tape.lines)

    def compile(self, call: str) -> None:
        """Compile the kernel for contiguous arrays now, because the public call `call` asks."""
        self.account.asked = True
        self._kernels.compile_contiguous(call)

    def compiled(self) -> bool:
        """Whether there is a kernel for contiguous arrays."""
        return self._kernels.contiguous is not None

    def kernel_after(self, seconds: float) -> Executable | None:
        """The kernel for contiguous arrays, if it is due once others have run the tape so long."""
        self.account.enter(seconds)
        if self._kernels.contiguous is None:
            self._kernels.choose(("C",) * len(self.tape.inputs), fixed_tier())
        return self._kernels.contiguous

    def kernel_fits(self, limit: int) -> bool:
        """Whether a kernel exists or breaks even, and holds at most `limit` bytes."""
        return self._kernels.fits(limit)

    def compiles_meanwhile(self) -> bool:
        """Whether a kernel that is asked for takes so long that slower tiers answer meanwhile."""
        return self._kernels.compiles_meanwhile()

    def missing_kernels(self) -> str:
        """The operations or dtypes that have no kernel, in words; empty if all have one."""
        return self._kernels.missing()

    def is_in_parts(self) -> bool:
        """Whether parts of the tape are run by runners of their own."""
        return self._in_parts() is not None

    def break_even_seconds(self) -> float:
        """The seconds on slower tiers at which a kernel is compiled unasked; infinity for never."""
        return self._kernels.break_even_seconds()

    def slots(self) -> Sequence[int]:
        """Which output of the kernel each output of the tape is."""
        return range(len(self.tape.outputs)) if self._slots is None else self._slots

    def state(self) -> str:
        """Which tier runs the tape now, and why, in words: a line of the `repr` of a function."""
        kernel = self._kernels.contiguous
        if kernel is not None:
            by = " by Numba" if kernel.compiler == "numba" else ""
            after = "" if self.account.asked else f" after {in_words(self.account.spent)}"
            return f"compiled{by}{after}{kernel.note}"
        fixed = environment_value(VARIABLE) or ""
        if (defect := self._kernels.defect()) is not None:
            return f"{_RUN_BY.get(self.tier, 'not run')}, {defect.state}"
        if not self.tier:
            return f"not run yet, FDIFF_TIER={fixed}" if fixed else "not run yet"
        now = _RUN_BY[self.tier]
        if fixed and fixed != "compile":
            return f"{now}, FDIFF_TIER={fixed}"
        if (parts := self._in_parts()) is not None:
            return f"run in {len(parts.tapes)} parts, which are compiled when that pays"
        return f"{now}, {self._bytecode.reason}; {self._kernels.reason()}"

    def _strided(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        arrays = [contiguous(a) for a in arrays]
        layouts = tuple(
            ["A" if a.__class__ is np.ndarray and not a.flags.c_contiguous else "C" for a in arrays]
        )
        kernel = self._kernels.at_hand(layouts)
        outs = self._slow(arrays, layouts) if kernel is None else self._run(kernel, arrays)
        return outs if self._slots is None else self._copied_where_shared(outs)

    def _copied_where_shared(self, outs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of the tape, of which several are one output of the kernel, as copies."""
        return [np.array(outs[k]) for k in self._slots or ()]

    def _slow(self, arrays: Sequence[np.ndarray], layouts: Layouts) -> Sequence[np.ndarray]:
        """One call without a kernel at hand: compile it if it is due, else take a slower tier."""
        tier = fixed_tier()
        if tier == "interpret":  # what is fixed needs no account of its time
            self._last_tier = tier
            return self._interpret(arrays)
        if (parts := self._in_parts()) is not None and observed_spans.observer is None:
            self._last_tier = "interpret"
            return owned(self.tape, parts(*arrays), arrays)
        kernel = self._kernels.choose(layouts, tier)
        if kernel is not None:
            self._last_tier = "compile"
            return self._run(kernel, arrays)
        forced = tier == "evaluate"
        run = (
            self._bytecode.choose(self.account.spent, forced=forced)
            if tier in ("", "evaluate")
            else None
        )
        start = perf_counter()
        if run is not None and not self._bytecode.load(forced=forced):
            run = None
        outs = self._interpret(arrays) if run is None else self._evaluate(run, arrays)
        self._count(perf_counter() - start, interpreted=run is None)
        return outs

    def _in_parts(self) -> TapeParts | None:
        """The runner of the tape in parts with tiers of their own; None if it runs as a whole."""
        if self._parts is None:
            parts: TapeParts | Literal[False] = False
            if next(self.tape.bodies(), None) is not None and has_parts(self.tape):
                parts = tape_parts(self.tape, partial(runner, compiler=self.compiler))
            self._parts = parts
        return self._parts or None

    def _count(self, seconds: float, *, interpreted: bool) -> None:
        """Enter a call by a slower tier into the accounts, which pay for faster tiers."""
        self.account.enter(seconds)
        bytecode = self._bytecode
        if interpreted:
            bytecode.interpreted = min(bytecode.interpreted, seconds)
            waited[0] += 0.0 if bytecode.refused else seconds
        else:
            bytecode.account(seconds)
        self._last_tier = "interpret" if interpreted else "evaluate"

    def _interpret(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs by NumPy."""
        if self._interpreter is None:
            self._interpreter = Interpreter(self.tape)
        if observed_spans.observer is None:
            if self._interpreter.size < LONG:
                return owned(self.tape, self._interpreter(*arrays), arrays)
            steps = iter(self._interpreter.steps)
            with Stage("running", self.account.call, counter=steps, category=""):
                return owned(self.tape, self._interpreter.run(arrays, steps), arrays)
        return owned(self.tape, interpreted(self.tape, self._interpreter, arrays), arrays)

    def _evaluate(
        self, run: BytecodeExecutable, arrays: Sequence[np.ndarray]
    ) -> Sequence[np.ndarray]:
        """The outputs by bytecode."""
        if observed_spans.observer is not None:
            return observed_bytecode(self.tape, self.account.call, run, arrays)
        if self._bytecode.is_long:
            return interruptibly_without_lock(partial(run, arrays))
        return run(arrays)

    def _run(self, kernel: Executable, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The outputs by a kernel; for huge angles it may compile another one, which may fail."""
        try:
            if observed_spans.observer is None:
                return kernel(*arrays)
            return observed_kernel(self.tape, self.account.call, kernel, arrays)
        except CompileError as error:
            return self._after_late_failure(error, arrays)

    def _after_late_failure(
        self, error: CompileError, arrays: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Interpret a call whose kernel failed to compile while it ran."""
        self._kernels.report_late_failure(error)
        return self._interpret(arrays)


_runners: dict[tuple[Tape, str], Runner] = {}
# Of tapes with operations that the user made, or with large arrays, by the hash of what is equal in
# those that share one: they are freed with the last plan that runs them.
_transient: WeakValues[int, Runner] = WeakValues()


def runner(tape: Tape, compiler: str = "") -> Runner:
    """The runner of `tape` by a compiler, one for all equal tapes."""
    key = tape, compiler
    latest = _runners.get(key)
    if latest is None and (tape.transient or tape.constant_bytes > LARGE):
        kept = _of_transient(key)
        if kept is None:
            kept = _transient[hash(key)] = Runner(tape, compiler)
        return kept
    return keep_recent(_runners, key, latest or Runner(tape, compiler), KEPT)


hooks.runner = runner


def _of_transient(key: tuple[Tape, str]) -> Runner | None:
    kept = _transient.get(hash(key))
    return kept if kept is not None and (kept.whole_tape(), kept.compiler) == key else None


def _is_kept(key: tuple[Tape, str], kernels: KernelTier) -> bool:
    """Whether these kernels belong to the runner that later calls find."""
    runner = _runners.get(key) or _of_transient(key)
    return runner is not None and runner._kernels is kernels


def forget_runners() -> None:
    """Drop every runner, so that programs start over on the interpreter."""
    _runners.clear()
    _transient.clear()


def contiguous(array: np.ndarray) -> np.ndarray:
    """`array`, copied into a contiguous one if it is small or unaligned."""
    if array.__class__ is not np.ndarray or (array.nbytes > COPY_BELOW and array.flags.aligned):
        return array
    return np.array(array, order="C") if not array.flags.aligned else np.asarray(array, order="C")


def owned(tape: Tape, outs: Sequence[object], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Interpreted results, copied where they alias an input, a constant or each other."""
    copies: list[np.ndarray] = []
    for node, value in zip(tape.outputs, outs, strict=True):
        array = np.asarray(value)
        shared = not array.flags.owndata or not array.flags.writeable or node in tape.inputs
        shared = shared or tape.nodes[node].primitive is CONSTANT
        shared = shared or any(array is a for a in (*arrays, *copies))
        copies.append(np.array(array) if shared else array)
    return copies
