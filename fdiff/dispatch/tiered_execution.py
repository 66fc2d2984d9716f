"""Tiered execution: a tape is interpreted at once, and run as bytecode or compiled when that pays.

`runner(tape)` gives the `Runner` of a tape: arrays in, arrays out, by the tier that is right now.

The switch is the ski-rental rule (Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching",
Algorithmica 3, 1988): compile at the break-even point, where the time spent on a slower tier, plus
the next call, reaches what compiling is expected to cost. That is never worse than twice the best
choice. Where a second core is free, kernels are compiled in the background, so that nobody waits,
and already at a quarter of the break-even point. A program that is called once is not compiled, nor
one that is predicted to take more than two seconds, because a process waits at its end for the
kernel under way.

`FDIFF_TIER` set to ``interpret``, ``evaluate`` or ``compile`` fixes the tier.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from .. import kernels
from ..bounded_cache import keep_recent
from ..errors import CompileError, InputError
from ..interpret import Interpreter
from ..process import background, observation
from ..process.forking import no_fork
from ..process.progress import Stage
from ..tape import Tape
from .bytecode_tier import EARLY, LOAD_SECONDS, START_SECONDS, BytecodeTier, waited
from .compiler_defects import Defect
from .contiguous_arrays import PLAIN, contiguous, owned
from .fixed_tier import VARIABLE, fixed_tier

if TYPE_CHECKING:
    from ..kernels import CallParts, Executable

PATIENCE = 0.02  # seconds of interpreting before anybody asks what a kernel costs
ASK_FIRST = 2.0  # seconds: a kernel predicted to take longer is compiled only on request
LOOK_SECONDS = 1e-5  # for each node, to see whether the kernel is on disk
WRITE_SECONDS = 1e-4  # for each node, to generate the source from which the cost is estimated
NAMED = 3  # ops that are named where there is no kernel
_RUN_BY = {"interpret": "interpreted", "evaluate": "evaluated", "compile": "compiled"}
KEPT = 512  # runners remembered, the least recently used dropped first


T = TypeVar("T")
Layouts = tuple[str, ...]  # of the inputs of a kernel, by which kernels are kept


class Runner:
    """One tape made executable; equal tapes share their runner.

    `tier` is what ran it last, `spent` the seconds that slower tiers took, `asked` whether the user
    asked for a kernel, `compiler` which one he asked for. Kernels are kept by the layouts of their
    inputs: "C" for contiguous arrays, "A" for any strides.
    """

    __slots__ = (
        "_background", "_break_even", "_bytecode", "_defects", "_fast", "_kernels", "_plan",
        "_price", "_slots", "_workspace", "asked", "call", "compiler", "spent", "tape", "tier",
    )  # fmt: skip

    def __init__(self, tape: Tape, compiler: str = "") -> None:
        self.compiler = compiler
        unique = tuple(dict.fromkeys(tape.outputs))
        self.tape = Tape(tape.nodes, tape.inputs, unique, tape.lines)
        self._slots = None if unique == tape.outputs else [unique.index(o) for o in tape.outputs]
        self._plan: Interpreter | None = None
        self._kernels: dict[Layouts, Executable] = {}
        self._fast: Executable | None = None
        self._defects: dict[Layouts, Defect] = {}  # where fdiff failed to compile
        self._bytecode = BytecodeTier(self.tape)
        self._break_even: dict[Layouts, float] = {}  # the `spent` at which to compile
        self._background: dict[Layouts, background.Task] = {}  # kernels that are compiled there
        self._workspace: int | None = None  # bytes of the kernel's workspace, once known
        self._price = math.nan  # expected seconds of compiling, once estimated
        self.call = ""  # the public call that uses it, for messages
        self.spent = 0.0
        self.asked = False
        self.tier = ""

    def __call__(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Outputs of the tape at `arrays`: new arrays, which nobody else holds."""
        for array in arrays:
            if array.__class__ is np.ndarray and array.flags.num & PLAIN != PLAIN:
                return self._strided(arrays)
        if self._fast is None:
            outs = self._slow(arrays, ("C",) * len(arrays))
        elif observation.observer is None:
            try:
                outs = self._fast(*arrays)
            except CompileError as error:
                outs = self._after_late_failure(error, arrays)
        else:
            outs = self._run(self._fast, arrays)
        return outs if self._slots is None else self._copied_where_shared(outs)

    def parts(self) -> CallParts | None:
        """The kernel for contiguous arrays, as the fast path needs it; None if there is none."""
        return None if self._fast is None else self._fast.parts()

    def quick(self) -> Callable[..., Sequence[np.ndarray] | None] | None:
        """What calls the kernel without looking at its arguments; None if there is no such thing.

        It gives None for arrays that it cannot take, and where the kernel reports a fault.
        """
        fast = self._fast
        return None if fast is None or self._slots is not None else fast.quick

    def by(self, compiler: str) -> Runner:
        """The runner of the same tape with kernels by another compiler."""
        tape = self.tape
        outputs = tuple([tape.outputs[k] for k in self.slots()])
        return runner(Tape(tape.nodes, tape.inputs, outputs, tape.lines), compiler)

    def compiled(self) -> bool:
        """Whether there is a kernel for contiguous arrays."""
        return self._fast is not None

    def slots(self) -> Sequence[int]:
        """Which output of the kernel each output of the tape is."""
        return range(len(self.tape.outputs)) if self._slots is None else self._slots

    def _strided(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        arrays = [contiguous(a) for a in arrays]
        layouts = tuple(
            ["A" if a.__class__ is np.ndarray and not a.flags.c_contiguous else "C" for a in arrays]
        )
        run = self._fast if "A" not in layouts else self._kernels.get(layouts)
        outs = self._slow(arrays, layouts) if run is None else self._run(run, arrays)
        return outs if self._slots is None else self._copied_where_shared(outs)

    def _copied_where_shared(self, outs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of the tape, of which several are one output of the kernel, as copies."""
        return [np.array(outs[k]) for k in self._slots or ()]

    def _slow(self, arrays: Sequence[np.ndarray], layouts: Layouts) -> Sequence[np.ndarray]:
        """One call without a kernel at hand: compile it if it is due, else take a slower tier."""
        tier = fixed_tier()
        if tier == "interpret":  # what is fixed needs no account of its time
            self.tier = tier
            return self._interpret(arrays)
        run = self._kernel(layouts, tier)
        if run is not None:
            return self._run(run, arrays)
        bytecode = self._bytecode
        run_it = None
        if tier in ("", "evaluate"):
            run_it = bytecode.choose(self.spent, forced=tier == "evaluate")
        start = perf_counter()
        if run_it is not None and not bytecode.load(forced=tier == "evaluate"):
            run_it = None
        if run_it is None:
            outs = self._interpret(arrays)
        elif observation.observer is None:
            outs = run_it(arrays)
        else:
            with no_fork:
                from .observed_kernels import observed_bytecode  # noqa: PLC0415 - profiles alone need it

            outs = observed_bytecode(self.tape, self.call, run_it, arrays)
        seconds = perf_counter() - start
        self.spent += seconds
        if run_it is None:
            bytecode.interpreted = min(bytecode.interpreted, seconds)
            waited[0] += 0.0 if bytecode.refused else seconds
        else:
            bytecode.account(seconds)
        self.tier = "interpret" if run_it is None else "evaluate"
        return outs

    def _run(self, run: Executable, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The kernel's results; for huge angles it may compile another one, which may fail."""
        try:
            if observation.observer is None:
                return run(*arrays)
            with no_fork:
                from .observed_kernels import observed_kernel  # noqa: PLC0415 - profiles alone need it

            return observed_kernel(self.tape, self.call, run, arrays)
        except CompileError as error:
            return self._after_late_failure(error, arrays)

    def _after_late_failure(
        self, error: CompileError, arrays: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Interpret a call whose kernel failed to compile while it ran."""
        defect = Defect("kernel", self.tape, error)
        self._report_defect(defect, fixed_tier())
        return self._interpret(arrays)

    def _kernel(self, layouts: Layouts, tier: str, call: str = "") -> Executable | None:
        """The kernel if the user asked for it or it breaks even, else None.

        If it fails to compile, the user gets an error if he asked for it, else a warning.
        """
        run = self._unless_defect(
            layouts, lambda: self._compile(layouts) if self._breaks_even(layouts, tier) else None
        )
        if (defect := self._defects.get(layouts)) is not None and tier in ("", "compile"):
            self._report_defect(defect, tier, call)
        return run

    def _unless_defect(self, layouts: Layouts, make: Callable[[], T]) -> T | None:
        """What `make` finds out about a kernel; None if that fails, now or in an earlier call."""
        if layouts in self._defects:
            return None
        try:
            return make()
        except InputError:  # a variable of the environment that is set to what it cannot be
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, a user cannot have caused it
            self._defects[layouts] = Defect("kernel", self.tape, error)
            return None

    def _report_defect(self, defect: Defect, tier: str, call: str = "") -> None:
        """Raise an error if the user asked for a kernel, else warn."""
        if tier == "compile" or (self.asked and not tier):
            raise defect.error(call or (f"{VARIABLE}={tier}" if tier else "jit")) from None
        defect.warn()

    def _compile(self, layouts: Layouts) -> Executable:
        with self._scheduling():
            run = self._kernels[layouts] = kernels.compile(self.tape, layouts, self.compiler)
        if all(kind == "C" for kind in layouts):
            self._fast = run
        self.tier = "compile"
        return run

    def _scheduling(self) -> Stage:
        """The stage, for progress reports, in which the kernel's source is generated."""
        length = len(self.tape)
        return Stage("scheduling", self.call, size=length, seconds=WRITE_SECONDS * length)

    def compile(self, call: str) -> None:
        """Compile the kernel for contiguous arrays now, because the public call `call` asks."""
        self.asked = True
        if self._fast is None:
            self._kernel(self._plain, fixed_tier(), call)

    @property
    def _plain(self) -> Layouts:
        """The layouts of contiguous arrays."""
        return ("C",) * len(self.tape.inputs)

    def fits(self, limit: int) -> bool:
        """Whether a kernel exists or breaks even, and holds at most `limit` bytes of intermediates.

        A tiled kernel holds one tile of rows where the interpreter holds whole arrays.
        """
        layouts = self._plain

        def workspace() -> int | None:
            if self._fast is None and not self._breaks_even(layouts, fixed_tier()):
                return None
            if self._workspace is None:
                with self._scheduling():
                    self._workspace = kernels.workspace(self.tape, layouts)
            return self._workspace

        held = self._unless_defect(layouts, workspace)  # the next call reports a defect
        return held is not None and held <= limit

    def lacking(self) -> str:
        """The operations or dtypes that have no kernel, in words; empty if all have one."""
        found = self._unless_defect(self._plain, lambda: kernels.missing(self.tape)) or []
        return ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more" * (len(found) > NAMED))

    def price(self) -> float:
        """The seconds on slower tiers at which a kernel is compiled unasked; infinity for never.

        Where a second core compiles in the background, a quarter of it is enough.
        """
        found = self._unless_defect(self._plain, lambda: self._cost(self._plain, math.inf))
        return math.inf if found is None else max(PATIENCE, found)

    def state(self) -> str:
        """Which tier runs the tape now, and why, in words: a line of the `repr` of a function."""
        if self._fast is not None:
            by = " by Numba" if self._fast.compiler == "numba" else ""
            after = "" if self.asked else f" after {_words(self.spent)}"
            return f"compiled{by}{after}{self._fast.note}"
        tier = os.environ.get(VARIABLE, "")
        if (defect := self._defects.get(self._plain)) is not None:
            return f"{_RUN_BY.get(self.tier, 'not run')}, {defect.state}"
        if not self.tier:
            return f"not run yet, FDIFF_TIER={tier}" if tier else "not run yet"
        now = _RUN_BY[self.tier]
        if tier and tier != "compile":
            return f"{now}, FDIFF_TIER={tier}"
        return f"{now}, {self._bytecode.reason}; {self._no_kernel()}"

    def _no_kernel(self) -> str:
        """Why there is no kernel."""
        lacking = self.lacking()
        if lacking:
            return f"there is no kernel for {lacking}"
        if (task := self._background.get(self._plain)) is not None and task.under_way:
            return f"after {_words(self.spent)} a kernel is made in the background"
        due = self._break_even.get(self._plain)
        if due is None or (math.isnan(self._price) and due < math.inf):
            return f"{_words(self.spent)} so far are too few to think of a kernel"
        if due == math.inf:
            return f"a kernel is compiled when asked for: it would take {_words(self._price)}"
        return f"{_words(self.spent)} so far, a kernel is expected to take {_words(due)}"

    def _interpret(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self._plan is None:
            self._plan = Interpreter(self.tape)
        if observation.observer is None:
            return owned(self.tape, self._plan(*arrays), arrays)
        with no_fork:
            from .observed_runs import interpreted  # noqa: PLC0415 - profiles alone need it

        return owned(self.tape, interpreted(self.tape, self._plan, arrays), arrays)

    def _breaks_even(self, layouts: Layouts, tier: str) -> bool:
        """Whether to compile a kernel now: the user asked for it, or it breaks even.

        Where there is a background thread, the kernel is handed to that, and the answer is no. What
        failed there is raised here.
        """
        if tier == "compile" or self.asked:
            return tier not in ("interpret", "evaluate") and kernels.supported(self.tape)
        task = self._background.get(layouts)
        if task is not None and task.error is not None and not tier:
            del self._background[layouts]
            raise task.error
        if tier or self.spent < self._break_even.get(layouts, PATIENCE):
            return False
        if background.allowed():
            if not self._bytecode.goes_first():
                task = self._background.setdefault(layouts, background.Task())
                task.start(partial(self._make_in_background, layouts), lambda: self.spent)
            return False
        self._break_even[layouts] = self._cost(layouts, self.spent)
        return self.spent >= self._break_even[layouts]

    def _make_in_background(self, layouts: Layouts) -> None:
        """Compile the kernel if it is due by now; later calls use it as soon as it is there."""
        if _runners.get((self.tape, self.compiler)) is self and layouts not in self._kernels:
            self._break_even[layouts] = EARLY * self._cost(layouts, self.spent / EARLY)
            if self.spent >= self._break_even[layouts]:
                self._compile(layouts)

    def _cost(self, layouts: Layouts, spent: float) -> float:
        """The `spent` at which to compile a kernel, or to ask again, because asking takes time too.

        First the cost is bounded by the tape's length; a tape too long to be compiled unasked is
        not looked at further, unless a kernel of this length exists. Then the disk is searched, and
        last the source is generated and its cost predicted.
        """
        length = len(self.tape)
        price, looked = WRITE_SECONDS * length, PATIENCE + LOOK_SECONDS * length
        near = kernels.seen(self.tape)
        if near and spent < looked:
            return looked
        if (near or price <= ASK_FIRST) and not kernels.supported(self.tape):
            return math.inf
        if near and kernels.on_disk(self.tape, layouts, self.compiler):
            price = LOAD_SECONDS
        elif spent < PATIENCE + price <= PATIENCE + ASK_FIRST:
            return PATIENCE + price
        elif price <= ASK_FIRST:
            with self._scheduling():
                price = kernels.predict_seconds(self.tape, layouts, self.compiler)
        self._price = price
        start = 0.0 if kernels.started() else START_SECONDS
        return price + start if price <= ASK_FIRST else math.inf


def _words(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 1 else f"{1e3 * seconds:.2g} ms"


_runners: OrderedDict[tuple[Tape, str], Runner] = OrderedDict()


def runner(tape: Tape, compiler: str = "") -> Runner:
    """The runner of `tape` by a compiler, one for all equal tapes."""
    key = tape, compiler
    found = _runners.get(key)
    if found is None:
        found = keep_recent(_runners, key, Runner(tape, compiler), KEPT)
    else:
        _runners.move_to_end(key)
    return found


def forget() -> None:
    """Drop every runner, so that programs start over on the interpreter."""
    _runners.clear()
