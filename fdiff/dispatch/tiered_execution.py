"""How a tape is executed: interpreted at once, evaluated or compiled when that pays.

The switch is the ski-rental rule (Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching",
Algorithmica 3, 1988): compile when the time spent on a slower tier, plus the next call, reaches
what compiling is expected to cost. Never worse than twice the best choice. Where a kernel can be
made in the background, nobody waits for it, and it is started at a quarter of that: what may be in
vain is work of a core that had none. No kernel is made for a program that is called once, and none
that is predicted to take more than two seconds: the process waits at its end for the kernel under
way.
`FDIFF_TIER` set to ``interpret``, ``evaluate`` or ``compile`` fixes the tier.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from .. import kernels
from ..errors import CompileError, InputError, message
from ..interpret import Plan
from ..process import background
from ..process.progress import Stage
from ..tape import CONSTANT, Tape
from .bytecode_tier import EARLY, LOAD_SECONDS, START_SECONDS, Evaluated, waited
from .compiler_defects import Defect

if TYPE_CHECKING:
    from ..kernels import Executable, Parts

PATIENCE = 0.02  # interpreting less than this in all is not worth asking what a kernel costs
ASK_FIRST = 2.0  # a kernel predicted to compile longer than this is compiled only when asked for
LOOK_SECONDS = 1e-5  # a node, to see whether its kernel is on disk
WRITE_SECONDS = 1e-4  # a node, for the text that the price is read from; compiling takes longer
NAMED = 3  # ops that are named where there is no kernel
COPY_BELOW = 65536  # bytes: a strided input up to here is copied, not worth a kernel of its own
PLAIN = 0x101  # ndarray.flags: C-contiguous and aligned
VARIABLE = "FDIFF_TIER"
_RUN_BY = {"interpret": "interpreted", "evaluate": "evaluated", "compile": "compiled"}
KEPT = 512  # runners remembered, the least recently used dropped first


class Runner:
    """One tape made executable; equal tapes share their runner.

    `tier` is what ran it last, `state` tells what would run it now and why.
    """

    __slots__ = (
        "_defects", "_due", "_evaluated", "_failures", "_fast", "_handed", "_held", "_kernels",
        "_plan", "_price", "_slots", "asked", "call", "spent", "tape", "tier",
    )  # fmt: skip

    def __init__(self, tape: Tape) -> None:
        unique = tuple(dict.fromkeys(tape.outputs))
        self.tape = Tape(tape.nodes, tape.inputs, unique, tape.lines)
        self._slots = None if unique == tape.outputs else [unique.index(o) for o in tape.outputs]
        self._plan: Plan | None = None
        self._kernels: dict[tuple[str, ...], Executable] = {}
        self._fast: Executable | None = None
        self._defects: dict[tuple[str, ...], Defect] = {}  # by layouts, where fdiff failed
        self._evaluated = Evaluated(self.tape)
        self._due: dict[tuple[str, ...], float] = {}  # seconds that pay for a kernel
        self._held: int | None = None  # bytes of the kernel's workspace, once asked for
        self._handed: set[tuple[str, ...]] = set()  # what is made in the background
        self._failures: dict[tuple[str, ...], Exception] = {}  # what was raised there
        self._price = math.nan  # what the last kernel asked for is expected to cost
        self.call = ""  # the public call that uses it, for messages
        self.spent = 0.0
        self.asked = False
        self.tier = ""

    def __call__(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Outputs at `arrays`: fresh, writable, the caller's own."""
        for array in arrays:
            if array.__class__ is np.ndarray and array.flags.num & PLAIN != PLAIN:
                return self._strided(arrays)
        if self._fast is not None:
            try:
                outs = self._fast(*arrays)
            except CompileError as error:
                outs = self._without(error, arrays)
        else:
            outs = self._slow(arrays, ("C",) * len(arrays))
        return outs if self._slots is None else self._spread(outs)

    def parts(self) -> Parts | None:
        """The kernel for plain arrays, taken apart; None while there is none."""
        return None if self._fast is None else self._fast.parts()

    def compiled(self) -> bool:
        """Whether there is a kernel for plain arrays."""
        return self._fast is not None

    def slots(self) -> Sequence[int]:
        """Which output of the kernel each output of the tape is."""
        return range(len(self.tape.outputs)) if self._slots is None else self._slots

    def _strided(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        arrays = [plain(a) for a in arrays]
        layouts = tuple(
            ["A" if a.__class__ is np.ndarray and not a.flags.c_contiguous else "C" for a in arrays]
        )
        run = self._fast if "A" not in layouts else self._kernels.get(layouts)
        outs = self._slow(arrays, layouts) if run is None else self._run(run, arrays)
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
        run = self._kernel(layouts, tier)
        if run is not None:
            return self._run(run, arrays)
        evaluated = self._evaluated
        run_it = None
        if tier in ("", "evaluate"):
            run_it = evaluated.choose(self.spent, forced=tier == "evaluate")
        start = perf_counter()
        if run_it is not None and not evaluated.load(forced=tier == "evaluate"):
            run_it = None
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

    def _run(self, run: Executable, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The kernel's results; arguments that need another kernel may find that it fails."""
        try:
            return run(*arrays)
        except CompileError as error:
            return self._without(error, arrays)

    def _without(self, error: CompileError, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A call for which fdiff failed to make a kernel while it ran."""
        defect = Defect("kernel", self.tape, error)
        self._told(defect, fixed_tier())
        return self._interpret(arrays)

    def _kernel(self, layouts: tuple[str, ...], tier: str, call: str = "") -> Executable | None:
        """The kernel if it is asked for or has been paid for; None where there is none.

        If fdiff fails to make it, `call` is told if it asked for one; others are warned.
        """
        found = self._made(layouts, tier)
        if isinstance(found, Defect):
            self._told(found, tier, call)
            return None
        return found

    def _made(self, layouts: tuple[str, ...], tier: str) -> Executable | Defect | None:
        """The same, or why fdiff failed: known for good once it did, and never raised here."""
        if (defect := self._defects.get(layouts)) is not None:
            return defect if tier in ("", "compile") else None
        try:
            return self._compiled(layouts) if self._worth(layouts, tier) else None
        except InputError:  # a variable of the environment that is set to what it cannot be
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, a user cannot have caused it
            defect = self._defects[layouts] = Defect("kernel", self.tape, error)
            return defect

    def _told(self, defect: Defect, tier: str, call: str = "") -> None:
        """An error for who asked for a kernel, a warning for anybody else."""
        if tier == "compile" or (self.asked and not tier):
            raise defect.error(call or (f"{VARIABLE}={tier}" if tier else "jit")) from None
        defect.warn()

    def _compiled(self, layouts: tuple[str, ...]) -> Executable:
        with self._scheduling():
            run = self._kernels[layouts] = kernels.compile(self.tape, layouts)
        if all(kind == "C" for kind in layouts):
            self._fast = run
        self.tier = "compile"
        return run

    def _scheduling(self) -> Stage:
        """The stage in which the kernel's text is made; compiling it is a stage of its own."""
        length = len(self.tape)
        return Stage("scheduling", self.call, size=length, seconds=WRITE_SECONDS * length)

    def compile(self, call: str) -> None:
        """Make the kernel for plain arrays now, as `call` asks; `state` says why there is none."""
        self.asked = True
        if self._fast is None:
            self._kernel(self._plain, fixed_tier(), call)

    @property
    def _plain(self) -> tuple[str, ...]:
        """The layouts of plain arrays."""
        return ("C",) * len(self.tape.inputs)

    def fits(self, limit: int) -> bool:
        """Whether a kernel for plain arrays is there or worth compiling, and holds no more bytes.

        A kernel of blocks of rows holds a block of what the interpreter holds all of.
        """
        layouts = self._plain
        if layouts in self._defects:
            return False
        try:
            if self._fast is None and not self._worth(layouts, fixed_tier()):
                return False
            if self._held is None:
                with self._scheduling():
                    self._held = kernels.workspace(self.tape, layouts)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - as for kernels themselves; the next call tells
            self._defects[layouts] = Defect("kernel", self.tape, error)
            return False
        return self._held <= limit

    def lacking(self) -> str:
        """What there is no kernel for, in words; empty if there should be one for the tape."""
        try:
            found = kernels.missing(self.tape)
        except Exception as error:  # noqa: BLE001 - as for kernels themselves
            self._defects.setdefault(self._plain, Defect("kernel", self.tape, error))
            return ""
        return ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more" * (len(found) > NAMED))

    def state(self) -> str:
        """Which tier runs the tape for plain arrays, and why, in words."""
        if self._fast is not None:
            words = "compiled" if self.asked else f"compiled after {_words(self.spent)}"
            return words + self._fast.note
        tier = os.environ.get(VARIABLE, "")
        if (defect := self._defects.get(self._plain)) is not None:
            return f"{_RUN_BY.get(self.tier, 'not run')}, {defect.state}"
        if not self.tier:
            return f"not run yet, FDIFF_TIER={tier}" if tier else "not run yet"
        now = _RUN_BY[self.tier]
        if tier and tier != "compile":
            return f"{now}, FDIFF_TIER={tier}"
        return f"{now}, {self._evaluated.reason}; {self._no_kernel()}"

    def _no_kernel(self) -> str:
        """Why there is no kernel."""
        lacking = self.lacking()
        if lacking:
            return f"there is no kernel for {lacking}"
        if self._plain in self._handed:
            return f"after {_words(self.spent)} a kernel is made in the background"
        due = self._due.get(self._plain)
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
        """Whether a kernel is asked for, or has been paid for and has to be made at once.

        What failed in the background is raised here, where it would have been raised without one.
        """
        if tier == "compile" or self.asked:
            return tier not in ("interpret", "evaluate") and kernels.supported(self.tape)
        if tier or self.spent < self._due.get(layouts, PATIENCE):
            return False
        if layouts in self._failures:
            raise self._failures.pop(layouts)
        if background.allowed():
            if not self._evaluated.first():
                self._hand_over(layouts)
            return False
        self._due[layouts] = self._cost(layouts, self.spent)
        return self.spent >= self._due[layouts]

    def _hand_over(self, layouts: tuple[str, ...]) -> None:
        """Have the kernel made, or at least its price known, while calls go on."""
        if layouts not in self._handed:
            self._handed.add(layouts)
            make = partial(self._make_in_background, layouts)
            background.worker.submit(background.Job(make, lambda: self.spent))

    def _make_in_background(self, layouts: tuple[str, ...]) -> None:
        """Make the kernel if it is paid for by now; calls go by it as soon as it is there."""
        if _runners.get(self.tape) is self and layouts not in self._kernels:
            try:
                self._due[layouts] = EARLY * self._cost(layouts, self.spent / EARLY)
                if self.spent >= self._due[layouts]:
                    self._compiled(layouts)
            except Exception as error:  # noqa: BLE001 - it is raised where calls decide
                self._failures[layouts], self._due[layouts] = error, 0.0
        self._handed.discard(layouts)  # a job that was interrupted starts over, and never gets here

    def _cost(self, layouts: tuple[str, ...], spent: float) -> float:
        """Seconds that pay for a kernel, or for asking again what it costs; so many are `spent`.

        For what is too long ever to be compiled unasked nothing is looked at but its length, unless
        there is a kernel of this length somewhere.
        """
        length = len(self.tape)
        price, looked = WRITE_SECONDS * length, PATIENCE + LOOK_SECONDS * length
        near = kernels.seen(self.tape)
        if near and spent < looked:
            return looked
        if (near or price <= ASK_FIRST) and not kernels.supported(self.tape):
            return math.inf
        if near and kernels.on_disk(self.tape, layouts):
            price = LOAD_SECONDS
        elif spent < PATIENCE + price <= PATIENCE + ASK_FIRST:
            return PATIENCE + price
        elif price <= ASK_FIRST:
            with self._scheduling():
                price = kernels.predict_seconds(self.tape, layouts)
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
