"""The kernel tier: the kernels of one tape, compiled when they pay off or on request.

Where a second core is free, kernels are compiled in the background. A failure is a defect of fdiff:
the slower tiers keep running the tape, and the user is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ... import kernels
from ...errors import CompileError, InputError
from ...foreign_errors import is_foreign
from ...process import background
from ...tape import Tape
from .break_even import Account, BreakEven, Layouts, in_words, scheduling
from .bytecode_tier import EARLY, BytecodeTier
from .compiler_defects import Defect
from .fixed_tier import VARIABLE, fixed_tier

if TYPE_CHECKING:
    from ...kernels import Executable

NAMED = 3  # ops that are named where there is no kernel
NOW, BACKGROUND, LATER = "now", "in the background", "later"  # when a kernel is compiled

T = TypeVar("T")


class KernelTier:
    """The kernels of one tape, by the layouts of their inputs.

    `contiguous` is the kernel for contiguous arrays, or None before it exists. `bytecode` is the
    tier whose time counts against this one. A kernel that is due in the background is compiled
    there if the tier `is_kept` at that time.
    """

    __slots__ = (
        "_account", "_background", "_break_even", "_bytecode", "_defects", "_is_kept", "_kernels",
        "_workspace", "compiler", "contiguous", "tape",
    )  # fmt: skip

    def __init__(
        self,
        tape: Tape,
        compiler: str,
        account: Account,
        bytecode: BytecodeTier,
        is_kept: Callable[[KernelTier], bool],
    ) -> None:
        self.tape, self.compiler = tape, compiler
        self.contiguous: Executable | None = None
        self._account, self._bytecode, self._is_kept = account, bytecode, is_kept
        self._break_even = BreakEven(tape, compiler, account)
        self._kernels: dict[Layouts, Executable] = {}
        self._defects: dict[Layouts, Defect] = {}  # where fdiff failed to compile
        self._background: dict[Layouts, background.Task] = {}  # kernels that are compiled there
        self._workspace: int | None = None  # bytes of the kernel's workspace, once known

    def at_hand(self, layouts: Layouts) -> Executable | None:
        """The kernel for these layouts, if it is compiled."""
        return self._kernels.get(layouts)

    def choose(self, layouts: Layouts, tier: str, call: str = "") -> Executable | None:
        """The kernel, compiled now if the user asked for it or it breaks even; else None.

        `tier` is the one that is fixed. `call` is the public call that is for compiling alone, so
        that it waits for the kernel. If that fails to compile, a user who asked for it gets an
        error, else a warning.
        """
        run = self._unless_defect(layouts, lambda: self._compile_if_due(layouts, tier, call))
        if (defect := self._defects.get(layouts)) is not None and tier in ("", "compile"):
            self._report(defect, tier, call)
        return run

    def compile_contiguous(self, call: str) -> None:
        """Compile the kernel for contiguous arrays now, because the public call `call` asks."""
        if self.contiguous is None:
            self.choose(self._plain, fixed_tier(), call)

    def report_late_failure(self, error: CompileError) -> None:
        """A kernel failed to compile another one, which it needed while it ran."""
        self._report(Defect("kernel", self.tape, error), fixed_tier())

    def fits(self, limit: int) -> bool:
        """Whether a kernel exists or breaks even, and holds at most `limit` bytes of intermediates.

        A tiled kernel holds one tile of rows where the interpreter holds whole arrays.
        """
        held = self._unless_defect(self._plain, self._bytes_held)  # the next call reports a defect
        return held is not None and held <= limit

    def missing(self) -> str:
        """The operations or dtypes that have no kernel, in words; empty if all have one."""
        return names_of(self._unless_defect(self._plain, lambda: kernels.missing(self.tape)) or [])

    def break_even_seconds(self) -> float:
        """The seconds on slower tiers at which a kernel is compiled unasked; infinity for never.

        Where a second core compiles in the background, a quarter of it is enough.
        """
        seconds = self._unless_defect(self._plain, lambda: self._break_even.point(self._plain))
        return math.inf if seconds is None else seconds

    def compiles_meanwhile(self) -> bool:
        """Whether a kernel that is asked for takes so long that slower tiers answer meanwhile."""
        tries = self._unless_defect(self._plain, lambda: self._tries_patience(self._plain))
        return tries is True

    def defect(self) -> Defect | None:
        """Why there is no kernel for contiguous arrays, if it failed to compile."""
        return self._defects.get(self._plain)

    def reason(self) -> str:
        """Why there is no kernel for contiguous arrays, in words."""
        if missing := self.missing():
            return f"there is no kernel for {missing}"
        if (task := self._background.get(self._plain)) is not None and task.under_way:
            after = "" if self._account.asked else f"after {in_words(self._account.spent)} "
            return f"{after}a kernel is made in the background"
        return self._break_even.words(self._plain)

    @property
    def _plain(self) -> Layouts:
        """The layouts of contiguous arrays."""
        return ("C",) * len(self.tape.inputs)

    def _decision(self, layouts: Layouts, tier: str, call: str = "") -> str:
        """When to compile a kernel: `NOW` if the user asked for it, or it breaks even; or `LATER`.

        Where there is a background thread, a kernel that breaks even is compiled in the
        `BACKGROUND`; one that was asked for only if it takes long, and not in a `call` for
        compiling, and none where the trips of a loop would take longer. What failed there is
        raised here.
        """
        if tier in ("interpret", "evaluate"):
            return LATER
        if tier == "compile" or call:
            return NOW if kernels.supported(self.tape) else LATER
        task = self._background.get(layouts)
        if task is not None and (error := task.error) is not None:
            del self._background[layouts]
            if not is_foreign(error):  # what lacked memory is tried again
                raise error
        if self._account.asked:
            if not kernels.supported(self.tape):
                return LATER
            return BACKGROUND if self._tries_patience(layouts) else NOW
        if self._break_even.is_worth_waiting(layouts):
            return NOW
        if self._break_even.is_ahead(layouts):
            return LATER
        if not background.allowed():
            idle = not kernels.compiler_is_busy()
            return NOW if idle and self._break_even.is_reached(layouts) else LATER
        return LATER if self._bytecode.goes_first() else BACKGROUND

    def _compile_if_due(self, layouts: Layouts, tier: str, call: str) -> Executable | None:
        """The kernel, if it is due now; if it is due in the background, its task is started."""
        decision = self._decision(layouts, tier, call)
        if decision == BACKGROUND:
            if self._account.asked:
                self._bytecode.start()
            task = self._background.setdefault(layouts, background.Task())
            task.start(lambda: self._compile_in_background(layouts), lambda: self._account.spent)
        return self._compile(layouts) if decision == NOW else None

    def _tries_patience(self, layouts: Layouts) -> bool:
        """Whether a kernel that was asked for takes so long that other tiers answer meanwhile."""
        under_way = layouts in self._background
        return under_way or (background.possible() and self._break_even.tries_patience(layouts))

    def _compile_in_background(self, layouts: Layouts) -> None:
        """Compile the kernel if it is due by now; later calls use it as soon as it is there."""
        wanted = self._is_kept(self) and layouts not in self._kernels
        if wanted and (self._account.asked or self._break_even.is_reached(layouts, EARLY)):
            self._compile(layouts)

    def _compile(self, layouts: Layouts) -> Executable:
        with scheduling(self.tape, self._account.call):
            run = self._kernels[layouts] = kernels.compile(self.tape, layouts, self.compiler)
        if all(kind == "C" for kind in layouts):
            self.contiguous = run
        return run

    def _bytes_held(self) -> int | None:
        """Bytes of the workspace of a kernel that exists or is due; None if it is not."""
        if self.contiguous is None and self._decision(self._plain, fixed_tier()) != NOW:
            return None
        if self._workspace is None:
            with scheduling(self.tape, self._account.call):
                self._workspace = kernels.workspace(self.tape, self._plain)
        return self._workspace

    def _unless_defect(self, layouts: Layouts, ask: Callable[[], T]) -> T | None:
        """The result of `ask` about a kernel; None if that fails now or failed before."""
        if layouts in self._defects:
            return None
        try:
            return ask()
        except InputError:  # a variable of the environment that is set to what it cannot be
            raise
        except Exception as error:
            if is_foreign(error):
                raise
            self._defects[layouts] = Defect("kernel", self.tape, error)
            return None

    def _report(self, defect: Defect, tier: str, call: str = "") -> None:
        """Raise an error if the user asked for a kernel, else warn."""
        if tier == "compile" or (self._account.asked and not tier):
            raise defect.error(call or (f"{VARIABLE}={tier}" if tier else "jit")) from None
        defect.warn()


def names_of(names: list[str]) -> str:
    """The first few of these names, and how many more there are."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" * (len(names) > NAMED))
