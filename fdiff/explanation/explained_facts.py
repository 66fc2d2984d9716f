"""The facts of an explanation, as plain records; `text` and `html` show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..arraytype import ArrayType
from ..lazy_attributes import cached_property
from ..named_tuples import NamedTuple
from ..tape import Tape
from ..transforms.linearity import Dependence

if TYPE_CHECKING:
    from ..dispatch.tiers.tier_forecast import TierForecast
    from ..kernels import Fusion, KernelForecast


class InputFact(NamedTuple):
    """An array that the function takes or reads: its name, type, and what it is.

    `role` is "differentiated", "argument" or "captured"; `fixed` says in words what of it must stay
    as it is for the trace to hold: nothing, its values, or its memory layout.
    """

    name: str
    type: ArrayType
    role: str
    fixed: str = ""


class Cost(NamedTuple):
    """Counted and predicted costs of one derivative in one mode.

    `nodes`, `operations`, `flops` and `moved` are sums over all `sweeps` (runs of a tape).
    `numpy_memory` and `kernel_memory` are bytes at the peak, with results. `seconds` and
    `numpy_seconds` are the times of one call by a kernel and by NumPy (None: no prediction).
    `uncounted` lists operations without a count. `refused` says why there is no such derivative;
    all figures are then zero. `picked` tells whether fdiff chooses this mode by itself. `result` is
    the size of a dense result in bytes.
    """

    what: str
    mode: str
    sweeps: int = 0
    nodes: int = 0
    operations: int = 0
    flops: int = 0
    moved: int = 0
    numpy_memory: int = 0
    kernel_memory: int | None = None
    numpy_seconds: float | None = None
    seconds: float | None = None
    compile_seconds: float | None = None
    uncounted: tuple[str, ...] = ()
    picked: bool = False
    note: str = ""
    refused: str = ""
    result: int = 0


@dataclass(frozen=True)
class StepFact:
    """One tape that the call runs: its tier, its kernel, and what the passes made of it.

    `kernel` and `fusion` are None where there is no kernel, or its text would take long to write.
    """

    tape: Tape
    tier: TierForecast
    compiler: str
    kernel: KernelForecast | None
    fusion: Fusion | None


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything that is known of a call before it runs.

    `call` is the explained call, `tape` the recorded function. `inputs` and `outputs` are its
    arrays, `guards` the user's lines that branch on values, `loops` the lines where his
    loops begin and what became of them, `steps` the tapes that the call runs. `costs` and
    `dependence` are computed when they are first read.
    """

    call: str
    device: str
    tape: Tape
    inputs: tuple[InputFact, ...]
    outputs: tuple[tuple[str, ArrayType], ...]
    guards: tuple[str, ...]
    loops: tuple[tuple[str, str], ...]
    steps: tuple[StepFact, ...]
    dependence: Dependence
    notes: tuple[str, ...]
    find_costs: Callable[[], tuple[Cost, ...]] = field(repr=False)

    @cached_property
    def costs(self) -> tuple[Cost, ...]:
        """The costs of value, gradient, Jacobian and Hessian, a row for each mode."""
        return self.find_costs()

    def cost(self, what: str, mode: str = "") -> Cost:
        """The row of a derivative in a mode; without a mode, the one that fdiff picks.

        Raises
        ------
        KeyError
            If there is no such row.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff
        >>> explained = fdiff.explain(lambda x: np.sum(x * x), np.ones(100))
        >>> explained.cost("gradient").mode
        'reverse'
        """
        for row in self.costs:
            if row.what == what and (row.mode == mode if mode else row.picked):
                return row
        choices = ", ".join(
            f"{row.what} ({row.mode})" if row.mode else row.what for row in self.costs
        )
        raise KeyError(f"there is no cost of {what!r} {mode!r}; there are {choices}")
