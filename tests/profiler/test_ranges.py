"""Files of nvprof, and ranges for the profilers of NVIDIA and Intel."""

import ctypes
import errno
import sys
import types
from types import SimpleNamespace

import numpy as np
import nvprof_file
import pytest

import fdiff
from fdiff.errors import DeviceError, InputError
from fdiff.profiler import DeviceKernel, emit_itt, emit_nvtx, load_nvprof, profile_ranges

RANGES = [("grad(f)", 1_000, 90_000), ("sin", 2_000, 30_000), ("multiply", 40_000, 80_000)]
LAUNCHES = [
    (3_000, 4_000, "sin_kernel", 5_000, 25_000),
    (41_000, 42_000, "mul_kernel", 50_000, 60_000),
    (43_000, 44_000, "mul_kernel", 61_000, 66_000),
    (95_000, 96_000, "outside", 97_000, 99_000),
]


def test_a_file_of_nvprof(tmp_path):
    path = tmp_path / "trace.prof"
    nvprof_file.write(path, RANGES, LAUNCHES)
    events = load_nvprof(path)
    assert [e.name for e in events] == ["grad(f)", "sin", "multiply"]
    whole, sine, product = events
    assert sine.time_range == (2.0, 30.0)
    assert whole.cpu_children == [sine, product]
    assert sine.kernels == [DeviceKernel("sin_kernel", 0, 20.0)]
    assert [k.duration for k in product.kernels] == [10.0, 5.0]
    assert whole.kernels == []
    assert whole.device_time_total == 35.0
    assert whole.self_cpu_time_total == 89.0 - 28.0 - 40.0
    table = events.key_averages().table(sort_by="self_cuda_time_total")
    for text in ("Self CUDA", "CUDA total", "CUDA time avg", "Self CUDA time total: 35.000us"):
        assert text in table
    assert table.index(" sin ") < table.index(" multiply ") < table.index(" grad(f) ")


def test_a_file_that_is_not_nvprof(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        load_nvprof(tmp_path / "nowhere.prof")
    (tmp_path / "text.prof").write_text("no database" * 100)
    with pytest.raises(InputError, match="is not a file of nvprof: file is not a database"):
        load_nvprof(tmp_path / "text.prof")
    nvprof_file.write(tmp_path / "twice.prof", RANGES, [])
    with nvprof_file.sqlite3.connect(tmp_path / "twice.prof") as found:
        found.execute("UPDATE CUPTI_ACTIVITY_KIND_MARKER SET id = 0")
    found.close()
    with pytest.raises(InputError, match="marker 0 stands there twice"):
        load_nvprof(tmp_path / "twice.prof")


@pytest.fixture
def emitted():
    return []


@pytest.fixture
def nvtx(emitted, monkeypatch):
    """A package with the functions of `nvtx` that are used."""
    package = types.ModuleType("nvtx")
    package.push_range = emitted.append
    package.pop_range = lambda: emitted.append(None)
    monkeypatch.setitem(sys.modules, "nvtx", package)


@pytest.mark.usefixtures("nvtx")
def test_every_event_is_a_range(emitted, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    with emit_nvtx(record_shapes=True) as emitter:
        fdiff.grad(lambda x: np.sum(np.sin(x)))(np.ones(3))
    fdiff.grad(lambda x: np.sum(np.sin(x)))(np.ones(3))
    assert emitted[0] == "grad(<lambda>), sizes = [[3]]"
    assert "cos, sizes = [[3]]" in emitted
    depth = np.cumsum([-1 if name is None else 1 for name in emitted])
    assert min(depth) == depth[-1] == 0
    with pytest.raises(RuntimeError, match="NVTX annotation context manager is not reentrant"):
        emitter.__enter__()


@pytest.mark.usefixtures("nvtx")
def test_ranges_that_are_not_enabled(emitted):
    with emit_nvtx(enabled=False):
        fdiff.grad(np.sum)(np.ones(3))
    assert emitted == []


def test_ranges_by_the_library_where_there_is_no_package(emitted, monkeypatch):
    def push(text):
        emitted.append(text)
        return len(emitted)

    library = SimpleNamespace(nvtxRangePushA=push, nvtxRangePop=lambda: emitted.append(None))
    library.nvtxRangePop = types.SimpleNamespace()
    pops = []

    class Pop:
        argtypes = restype = None

        def __call__(self):
            pops.append(1)

    class Push(Pop):
        def __call__(self, text):
            emitted.append(text)

    library = SimpleNamespace(nvtxRangePushA=Push(), nvtxRangePop=Pop())
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    with emit_nvtx():
        fdiff.grad(np.sum)(np.ones(3))
    assert emitted[0] == b"grad(sum)"
    assert len(pops) == len(emitted)
    assert library.nvtxRangePushA.argtypes == [ctypes.c_char_p]


def test_what_is_missing_is_named(monkeypatch):
    def no_library(name):
        raise OSError(errno.ENOENT, name)  # the system's own

    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.setitem(sys.modules, "ittapi", None)
    monkeypatch.setattr(profile_ranges.ctypes, "CDLL", no_library)
    with pytest.raises(DeviceError, match="neither a package nvtx nor a library"), emit_nvtx():
        pass
    with pytest.raises(DeviceError, match="pip install ittapi"), emit_itt():
        pass


def test_tasks_of_itt(emitted, monkeypatch):
    """The calls that the package ittapi 1.2 takes: a domain, and a handle of the name."""
    package = types.ModuleType("ittapi")
    package.domain = lambda name: f"domain {name}"
    package.string_handle = lambda name: f"handle {name}"
    package.task_begin = lambda *given: emitted.append(given)
    package.task_end = lambda *given: emitted.append(given)
    monkeypatch.setitem(sys.modules, "ittapi", package)
    with emit_itt():
        fdiff.grad(np.sum)(np.ones(3))
    assert emitted[0] == ("domain fdiff", "handle grad(sum)")
    assert emitted[-1] == ("domain fdiff",)
