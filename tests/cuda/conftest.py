"""Which tests for CUDA can run in this process: `make test-cuda` runs each part in its own.

Numba reads ``NUMBA_ENABLE_CUDASIM`` when it is imported. With it, kernels run on the simulator
(values), without it on a GPU (values too, where there is one), or they are compiled to PTX, where
numba-cuda is installed (compilation). ``FDIFF_WITHOUT_CUPY=1`` hides CuPy from these tests.
"""

import os
import sys

import pytest

PARTS = {
    "values": (
        "test_values.py", "test_device_calls.py", "test_benchmark.py", "test_large_angles.py",
        "test_long_programs.py", "test_loop_kernels.py", "test_random_nests.py",
        "test_register_matrices.py", "test_scans.py",
    ),
    "compilation": (
        "test_compilation.py", "test_gpu_calls.py", "test_kernel_binaries.py",
        "test_register_compilation.py", "test_numba_speedups.py",
    ),
}  # fmt: skip
if os.environ.get("FDIFF_WITHOUT_CUPY"):
    sys.modules["cupy"] = None
part = os.environ.get("FDIFF_CUDA_TESTS", "")
collect_ignore = [name for key, names in PARTS.items() if key != part for name in names]
if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") in ("", "0"):
    collect_ignore.append("test_benchmark.py")  # what it says where there is no GPU
collect_ignore += ["stubbed_gpu.py", "cupy_stub.py"]  # programs of test_gpu_calls.py
# What tests share, which imports numba-cuda or its simulator as they do.
collect_ignore += [] if part == "values" else ["running.py", "checked_launches.py"]
collect_ignore += [] if part == "compilation" else ["compiling.py"]


@pytest.fixture(autouse=True)
def loops_of_a_gpu(monkeypatch):
    """Tapes are traced here without a device; functions for a GPU have their loops unrolled."""
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")
