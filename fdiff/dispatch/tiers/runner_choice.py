"""The runner of a tape on a device: the tiers of the CPU, or a `CudaRunner`."""

from __future__ import annotations

from ...bounded_cache import keep_recent
from ...device_arrays import CPU
from ...tape import Tape
from ...transforms.pipeline import RUN, derive
from .cuda_runner import CudaRunner
from .tiered_execution import KEPT, Runner, runner

_cuda_runners: dict[Tape, CudaRunner] = {}


def runner_on(device: str, tape: Tape) -> Runner:
    """The runner of `tape` on a device, shared by equal tapes."""
    tape = derive(RUN, tape)
    if device == CPU:
        return runner(tape)
    return keep_recent(_cuda_runners, tape, _cuda_runners.get(tape) or CudaRunner(tape), KEPT)


def forget_cuda_runners() -> None:
    """Drop every program on a device."""
    _cuda_runners.clear()
