"""Machine code of CUDA kernels, made and stored without a driver."""

import pytest

from fdiff.errors import CompileError
from fdiff.kernels import disk_cache
from fdiff.kernels.cuda.cuda_program import CudaKernel, Parameter
from fdiff.kernels.cuda.devices import adapter, kernel_binaries
from fdiff.kernels.cuda.devices.strided_copies import _kernel

TWICE = """def twice(x, out, n0):
    for i in range(cuda.grid(1), n0, cuda.gridsize(1)):
        out[i] = x[i] * 2.0
"""
PARAMETERS = tuple(
    [Parameter(*p) for p in (("x", "f8", True), ("out", "f8", True), ("n0", "i8", False))]
)
KERNEL = CudaKernel("twice", TWICE, PARAMETERS)
ELF = b"\x7fELF"


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """An empty cache on disk, nothing in memory."""
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "cache"))
    kernel_binaries.forget()
    yield
    kernel_binaries.forget()


@pytest.fixture
def no_compiler(monkeypatch):
    names = {"__name__": "fdiff.kernels"}  # an error of fdiff's own: others are no failures
    exec("def refused(*_):\n    raise AssertionError('compiled')", names)
    return lambda: monkeypatch.setattr(adapter, "compile_ptx", names["refused"])


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0), (10, 0)])
def test_machine_code_is_made_for_a_capability(capability):
    made = kernel_binaries.binary(KERNEL, capability)
    assert made.code.startswith(ELF)
    assert "twice" in made.entry
    assert made.entry.encode() in made.code


def test_a_second_process_reads_what_the_first_made(no_compiler):
    made = kernel_binaries.binary(KERNEL, (8, 0))
    kernel_binaries.forget()
    no_compiler()
    assert kernel_binaries.binary(KERNEL, (8, 0)) == made
    assert kernel_binaries.binary(KERNEL, (8, 0)) is kernel_binaries.binary(KERNEL, (8, 0))


def test_names_depend_on_all_that_the_code_depends_on(monkeypatch):
    halves = tuple(p._replace(dtype="f4") if p.address else p for p in PARAMETERS)
    others = [
        (KERNEL, (9, 0)),
        (KERNEL._replace(text=TWICE.replace("2.0", "3.0")), (8, 0)),
        (KERNEL._replace(parameters=halves), (8, 0)),
    ]
    names = {kernel_binaries._name(*key) for key in [(KERNEL, (8, 0)), *others]}
    monkeypatch.setattr(adapter, "versions", lambda: "numba-cuda 99")
    names.add(kernel_binaries._name(KERNEL, (8, 0)))
    assert len(names) == 5


def test_what_is_stored_is_sealed(no_compiler):
    kernel_binaries.binary(KERNEL, (8, 0))
    path = disk_cache.path_of(kernel_binaries._name(KERNEL, (8, 0)))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    kernel_binaries.forget()
    no_compiler()
    with pytest.raises(CompileError, match="the CUDA kernel twice failed to compile"):
        kernel_binaries.binary(KERNEL, (8, 0))


def test_a_kernel_that_fails_is_a_fault_of_fdiff():
    broken = KERNEL._replace(text=TWICE.replace("x[i] *", "missing[i] *"))
    with pytest.raises(CompileError, match="the CUDA kernel twice failed to compile: "):
        kernel_binaries.binary(broken, (8, 0))


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("unit", [1, 2, 4, 8])
def test_copies_of_strided_arrays_compile_without_local_memory(rank, unit):
    assert ".local" not in adapter.compile_ptx(_kernel(rank, unit), (8, 0))
