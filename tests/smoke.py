"""What is installed works: its metadata, README's first example, a kernel, a kernel from the disk.

Run it from any folder: `python tests/smoke.py`, with the Python in which fdiff is installed. It
needs what fdiff depends on, and nothing of the clone.
"""

import contextlib
import importlib.metadata
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import fdiff

CLONE = Path(__file__).resolve().parents[1]
EXAMPLE = re.compile(r"^```python\n(.*?)^```\s+^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECOND = "second"  # the argument of the process that finds the kernel of the first


def check_that_it_is_the_installed_one():
    assert Path(fdiff.__file__).parent != CLONE / "fdiff", f"{fdiff.__file__} is the clone's"
    assert importlib.metadata.version("numba-fdiff") == fdiff.__version__


def check_the_first_example():
    """README is the long description in the metadata of the package."""
    text = importlib.metadata.metadata("numba-fdiff").get_payload()
    code, shown = EXAMPLE.findall(text)[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == shown, printed.getvalue()


def check_a_kernel(*, compiled, loaded):
    slope = fdiff.jit(fdiff.grad(lambda x: np.sum(np.sin(x) * x)))
    x = np.linspace(-2.0, 2.0, 1001)
    assert np.allclose(slope(x), np.cos(x) * x + np.sin(x), rtol=1e-14, atol=0)
    info = fdiff.cache_info()
    assert (info.compiled, info.loaded) == (compiled, loaded), info


def check_two_processes():
    with tempfile.TemporaryDirectory() as kernels:
        os.environ["FDIFF_CACHE_DIR"] = kernels
        check_a_kernel(compiled=1, loaded=0)
        subprocess.run([sys.executable, __file__, SECOND], check=True)


def main():
    check_that_it_is_the_installed_one()
    if sys.argv[1:] == [SECOND]:
        check_a_kernel(compiled=0, loaded=1)
        return
    check_the_first_example()
    check_two_processes()
    print(
        f"fdiff {fdiff.__version__} works: Python {sys.version.split()[0]}, NumPy {np.__version__}"
    )


if __name__ == "__main__":
    main()
