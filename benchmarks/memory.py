"""Peak memory of a compiled value and gradient: `python -m benchmarks.memory`, one line of JSON.

The peak of the resident set (VmHWM of Linux) is reset once the kernel is compiled and the argument
exists, so what it grows by is what the call needs: the gradient it returns, and all temporaries.
"""

from __future__ import annotations

import json

import numpy as np

import fdiff

from . import problems
from .inputs import point
from .resident import grown

N = 10_000_000


def main() -> None:
    both = fdiff.value_and_grad(problems.chain)
    both(point(1000))
    x = np.empty(N)
    x[:] = np.resize(point(1000), N)
    kept = []
    size = grown(lambda: kept.extend(both(x)))
    value, slope = kept
    compiled = fdiff.cache_info()
    assert compiled.compiled + compiled.loaded == 1, "interpreted, or compiled more than once"
    assert np.isfinite(value)
    assert slope.shape == x.shape
    print(json.dumps({"arrays": size / x.nbytes}))


if __name__ == "__main__":
    main()
