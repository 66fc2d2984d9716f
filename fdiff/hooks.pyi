# What each hook takes and gives: `hooks.py` cannot import the classes of higher floors.

from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import fdiff.intact_numpy as np

from .dispatch.tiers.tiered_execution import Runner
from .distributed.sums import SumOver
from .functional.call.prepared import Origin
from .functional.derivative_checks.checked_functions import FunctionUnderCheck
from .functional.rules.custom_derivatives import CustomFunction
from .ops.scipy_entry_points import EntryPoint
from .tape import Tape
from .trace.recorder import Recorder
from .trace.traced_array import TracedArray
from .trace.user_calls import UserCalls

Function: TypeAlias = Callable[..., Any]
Args: TypeAlias = tuple[object, ...]
Named: TypeAlias = dict[str, object]
Arrays: TypeAlias = list[TracedArray]

class InOrder(Protocol):
    # `x`, or a copy of it, with the memory order asked for
    def __call__(
        self, x: TracedArray, order: str | None, *, copy: bool | None = None
    ) -> TracedArray: ...

class BodyRules(NamedTuple):
    jvp: Function
    vjp: Function
    batch: Function

class HookTable:
    # of `fdiff.ops`
    fill_out: Callable[[object, object, object, str], object]  # stores a result into ``out=``
    ufunc_at: Callable[[np.ufunc], Callable[..., None]]
    pick: Callable[[TracedArray, int, TracedArray], TracedArray]  # entries by a mask of some axes
    computed_part: Callable[[np.ufunc, Args], TracedArray | None]  # of entries by a mask
    select: Callable[[TracedArray, FrameType], bool | None]  # records a branch as a select
    in_order: InOrder
    vectorized: Callable[[object, Function, Sequence[object], Named], object]  # Numba's ufuncs
    # of `fdiff.trace.looping`: what is called gets a gate, where calls are logged
    gate: Callable[[object], Any] | None = None
    method_gate: Callable[[Function], Function] | None = None
    log_ufunc: Callable[[UserCalls, np.ufunc, str, Args, Named], object]  # a call that is logged
    # of `fdiff.transforms`
    slope: Callable[[Tape, int], Tape]  # of a function of numbers in one argument
    enter_body_rules: Callable[[], None]  # imports what fills `BODY_RULES`
    within_budget: Callable[[Tape, int | None], Tape]  # loops that keep so many bytes
    # of `fdiff.dispatch` and `fdiff.functional`
    runner: Callable[[Tape], Runner]
    vmap: Callable[[Function, tuple[int | None, ...]], Function]
    # a tape, its inputs, which of these carry the elements, how many there are, and the trace
    batching_rules: (
        Callable[[Tape, Arrays, list[bool], int, Recorder], tuple[Tape, Arrays, list[bool]]] | None
    ) = None
    # of `fdiff.autograd`: calls on recorded arrays; None stands for a call without any
    recorded_library: Callable[[EntryPoint, Args, Named], tuple[object] | None]
    # the operator that calls itself, its name, and the function; the result is in a tuple
    recorded_operator: (
        Callable[[Function, str, Function, Args, Named], tuple[object] | None] | None
    ) = None
    recorded_rules: Callable[[CustomFunction[..., Any], Args, Named], Any] | None = None
    recorded_checkpoint: Callable[[Function, Args, Named], Any] | None = None
    recorded_function: Callable[[Function, object, str, str], FunctionUnderCheck | None] | None = (
        None
    )
    detached: Callable[[object], object] | None = None
    torch_method: Callable[[str], Function | None] | None = None
    # of `fdiff.distributed`
    over_partitions: Callable[[object, Origin], SumOver | None] | None = None
    joined_sums: Callable[[Tape], Tape] | None = None

hooks: Final[HookTable]
BODY_RULES: Final[dict[str, BodyRules]]  # by the name of the op
