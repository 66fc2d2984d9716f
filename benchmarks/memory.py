"""Peak memory of a compiled value and gradient: `python -m benchmarks.memory`, one line of JSON.

The peak of the resident set (VmHWM of Linux) is reset once the kernel is compiled and the argument
exists, so what it grows by is what the call needs: the gradient it returns, and all temporaries.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

import fdiff

from . import problems
from .cases import point

N = 10_000_000


def status(field: str) -> int:
    """A size from /proc/self/status, in bytes."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return 1024 * int(found.group(1))


def main() -> None:
    both = fdiff.value_and_grad(problems.chain)
    both(point(1000))
    x = np.empty(N)
    x[:] = np.resize(point(1000), N)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    value, slope = both(x)
    grown = status("VmHWM") - before
    compiled = fdiff.cache_info()
    assert compiled.compiled + compiled.loaded == 1, "interpreted, or compiled more than once"
    assert np.isfinite(value)
    assert slope.shape == x.shape
    print(json.dumps({"arrays": grown / x.nbytes}))


if __name__ == "__main__":
    main()
