"""The tier that would run a tape at its next call, the reason, and when the tier would change."""

from __future__ import annotations

import math

from ...named_tuples import NamedTuple
from ...process import background
from .bytecode_tier import EARLY
from .cuda_runner import CudaRunner
from .fixed_tier import VARIABLE, fixed_tier
from .tiered_execution import Runner

NUMPY, BYTECODE, KERNEL, CUDA = "NumPy", "bytecode", "kernel", "CUDA kernels"


class TierForecast(NamedTuple):
    """The tier of the next call, and `why` in words.

    Once slower tiers have taken `due` seconds (`spent` so far), a kernel is compiled: the
    break-even point of the ski-rental rule (`tiered_execution`). `due` is 0 where the next call
    compiles, and infinity where only a request does.
    """

    tier: str
    why: str
    due: float
    spent: float


def tier_forecast(runner: Runner, *, asked: bool = False) -> TierForecast:
    """The forecast for a runner; makes it without running or compiling.

    `asked`: whether the call asks for a kernel, as a call of `jit` does.
    """
    spent = runner.account.spent
    if isinstance(runner, CudaRunner):
        return TierForecast(CUDA, 'device="cuda" was asked for', 0.0, spent)
    if runner.compiled():
        why = (
            "it is compiled"
            if runner.account.asked
            else "it is compiled: slower calls had paid for it"
        )
        return TierForecast(KERNEL, why, 0.0, spent)
    fixed = fixed_tier()
    missing = runner.missing_kernels()
    if fixed in ("interpret", "evaluate"):
        tier = NUMPY if fixed == "interpret" else BYTECODE
        return TierForecast(tier, f"{VARIABLE}={fixed}", math.inf, spent)
    if missing:
        why = f"there is no kernel for {missing}"
        return TierForecast(_slow(runner), why, math.inf, spent)
    if asked or runner.account.asked or fixed == "compile":
        if not fixed and runner.compiles_meanwhile():
            why = "jit has a kernel that takes long made in the background"
            return TierForecast(_slow(runner), why, 0.0, spent)
        why = f"{VARIABLE}=compile" if fixed else "jit compiles at the first call"
        return TierForecast(KERNEL, why, 0.0, spent)
    return _unasked(runner, spent)


def _unasked(runner: Runner, spent: float) -> TierForecast:
    """The forecast where a kernel is compiled when it pays."""
    due = runner.break_even_seconds()
    if due == math.inf:
        why = "its kernel would take long to compile, and is made when it is asked for"
        return TierForecast(_slow(runner), why, due, spent)
    due *= EARLY if background.allowed() else 1.0
    if spent >= due and not background.allowed():
        return TierForecast(KERNEL, "slower calls have paid for it", 0.0, spent)
    return TierForecast(_slow(runner), "a kernel does not pay yet", due, spent)


def _slow(runner: Runner) -> str:
    return BYTECODE if runner.tier == "evaluate" else NUMPY
