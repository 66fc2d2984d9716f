"""What a profiler sees of a program on a GPU: a span for each kernel that is launched."""

from __future__ import annotations

from collections.abc import Sequence

from ....process import observation
from ....process.observation import KERNEL, span
from .device import CudaDevice, Prepared


def observed_steps(
    device: CudaDevice, steps: Sequence[Prepared], names: Sequence[str], addresses: Sequence[int]
) -> None:
    """Run the steps of a program; the host waits for each, where somebody wants to know its time.

    Without that, launches return before the kernels are done, and a span has the time of a launch.
    """
    seen = observation.observer
    wait = seen is not None and seen.device
    if wait:
        device.wait()  # for what came before
    for step, name in zip(steps, names, strict=True):
        with span(name, KERNEL, device=device.name, waited=wait):
            step(addresses)
            if wait:
                device.wait()
