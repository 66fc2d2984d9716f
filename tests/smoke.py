"""What is installed works: its metadata, README's first example, a kernel, a kernel from the disk.

Run it with the Python in which fdiff is installed, from any folder: `python tests/smoke.py`. It needs
fdiff and what fdiff depends on, nothing else, and nothing of the clone.
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
KEPT = "import smoke; smoke.check_a_kernel(compiled=0, loaded=1)"  # in the second process


def check_that_it_is_the_installed_one():
    assert not Path(fdiff.__file__).is_relative_to(CLONE), f"{fdiff.__file__} is the clone's"
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


def main():
    check_that_it_is_the_installed_one()
    check_the_first_example()
    with tempfile.TemporaryDirectory() as kernels:
        os.environ["FDIFF_CACHE_DIR"] = kernels
        check_a_kernel(compiled=1, loaded=0)
        again = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
        subprocess.run([sys.executable, "-c", KEPT], env=again, check=True)
    print(
        f"fdiff {fdiff.__version__} works: Python {sys.version.split()[0]}, NumPy {np.__version__}"
    )


if __name__ == "__main__":
    main()
