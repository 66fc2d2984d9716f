"""Memory of a process, from Linux's own counters."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from pathlib import Path

PROCESS = Path("/proc/self")


def status(field: str) -> int:
    """A size from /proc/self/status, in bytes."""
    text = (PROCESS / "status").read_text(encoding="ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return 1024 * int(found.group(1))


def peak() -> int:
    """The largest size that this process ever had, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def grown(call: Callable[[], object]) -> int:
    """By how much the resident set grows at most during a call, in bytes; the peak is forgotten."""
    (PROCESS / "clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    call()
    return status("VmHWM") - before
