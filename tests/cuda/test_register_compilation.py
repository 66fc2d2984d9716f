"""Routines of very small matrices compiled for GPUs: matrices lie in registers, all of them."""

import pytest
from compiling import CAPABILITIES, ptx_of, usage_of

from fdiff.kernels.cuda.cuda_program import CudaKernel, Parameter
from fdiff.kernels.cuda.matrices.register_matrices import _MOST, _ROUTINES, register_routine

MOST_REGISTERS = 255


def kernel_of(name, n):
    """A kernel that calls a routine for matrices of order `n`."""
    buffers, _, columns = _ROUTINES[name]
    routine = register_routine(name, "f8", n)
    memory = [Parameter(p, "f8", address=True) for p in buffers.split(", ")]
    numbers = [Parameter(p, "i8", address=False) for p in ["stack", *["columns"] * columns]]
    parameters = (*memory, *numbers, Parameter("status", "i8", address=True))
    names = ", ".join(p.name for p in parameters)
    threads = "np.int64(cuda.grid(1)), np.int64(cuda.gridsize(1))"
    call = f"def kernel0({names}):\n    {routine.name}({names}, {threads})\n"
    return CudaKernel("kernel0", f"{routine.text}\n\n{call}", parameters)


@pytest.mark.parametrize("name", _ROUTINES)
@pytest.mark.parametrize("n", [3, 6])
def test_matrices_are_in_registers(name, n, tmp_path):
    check(name, min(n, _MOST.get(name, n)), tmp_path)


@pytest.mark.parametrize("name", ["solve", "slogdet", "cholesky_bar"])
def test_the_largest_matrices_are_in_registers(name, tmp_path):
    check(name, 8, tmp_path)


def check(name, n, folder):
    ptx = ptx_of(kernel_of(name, n), (7, 5))
    assert ".local" not in ptx
    for capability in CAPABILITIES:
        usage = usage_of(ptx, capability, folder)
        assert usage.stack == usage.spills == 0
        assert usage.registers <= MOST_REGISTERS
