"""Times, shares and amounts of memory as text, as torch.autograd.profiler writes them."""

from __future__ import annotations

import math

_MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0}
_BYTES = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


def time_text(microseconds: float, unit: str | None = None) -> str:
    """``12.345ms``: in the unit asked for, or the largest that leaves a number of at least 1."""
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / _MICROSECONDS[unit]:.3f}{unit}"


def share_text(part: float, whole: float) -> str:
    """A part in percent; of nothing, ``NaN``."""
    return f"{part * 100.0 / whole:.2f}%" if whole else "NaN"


def memory_text(count: int) -> str:
    """An amount of memory; negative where more was freed than allocated."""
    for unit, size in _BYTES:
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def flops_scale(least: int) -> tuple[float, str]:
    """The unit in which `least` operations are a number of at least 1: its factor and name."""
    step = min(int(math.log10(least) / 3), len(_FLOPS) - 1)
    return 10.0 ** (-3 * step), _FLOPS[step]
