"""Calls on a GPU, down to the driver, for which a stub stands in (driver_stub.c).

The libraries between fdiff and the driver are the real ones: numba-cuda compiles, nvJitLink links,
cuda.core allocates, loads and launches. Kernels are run by Python, in the place of the GPU.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
CC = shutil.which("cc")
X = np.linspace(0.1, 1.0, 6)

pytestmark = pytest.mark.skipif(CC is None, reason="the stub of a driver is written in C")


@pytest.fixture(scope="module", params=["", "cupy"], ids=["without CuPy", "with CuPy"])
def seen(request, tmp_path_factory):
    """What the driver saw, and what was found, in one process that made some calls."""
    folder = tmp_path_factory.mktemp("driver")
    stub = folder / "libcuda.so.1"
    build = [str(CC), "-shared", "-fPIC", f"-Wl,-soname,{stub.name}", "-o", str(stub)]
    subprocess.run([*build, str(HERE / "driver_stub.c"), "-ldl"], check=True)
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "FDIFF_CACHE_DIR": str(folder / "cache"),
    }
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    run = [sys.executable, str(HERE / "stubbed_gpu.py"), str(stub), request.param]
    output = subprocess.run(run, check=True, capture_output=True, text=True, env=environment).stdout
    return {**json.loads(output), "cupy": bool(request.param)}


def events(seen, case):
    """The events of a case, but for those of the driver's pool, which CuPy's replaces."""
    return [e for e in seen[case]["events"] if not e.startswith("allocate")]


def launch(seen):
    """A launch on the stream where work belongs: CuPy's current one, else the default stream."""
    return "launch stream 77" if seen["cupy"] else "launch stream 1"


def test_arrays_of_numpy_go_there_and_back(seen):
    assert np.allclose(seen["arrays_of_numpy"]["found"], 2 * X, rtol=1e-15)
    back = ["to_host 48", "wait_on_host"]
    assert events(seen, "arrays_of_numpy") == ["load", "to_device 48", launch(seen), *back]


def test_a_second_call_loads_nothing(seen):
    assert np.allclose(seen["again"]["found"], 2 * (X + 1.0), rtol=1e-15)
    assert events(seen, "again") == ["to_device 48", launch(seen), "to_host 48", "wait_on_host"]


def test_with_device_arrays_nothing_is_copied_and_the_host_does_not_wait(seen):
    kind, found = seen["device_arrays"]["found"]
    assert kind == ("cupy_stub" if seen["cupy"] else "numba.cuda.cudadrv.devicearray")
    assert np.allclose(found, 2 * X, rtol=1e-15)
    assert events(seen, "device_arrays") == [launch(seen)]


def test_another_stream_is_waited_for_on_the_device(seen):
    assert np.allclose(seen["another_stream"]["found"], 2 * X, rtol=1e-15)
    ours = launch(seen).split()[-1]
    waits = ["record stream 4711", f"wait stream {ours}"]
    assert events(seen, "another_stream") == [*waits, launch(seen)]


def test_strided_arrays_are_copied_on_the_device(seen):
    assert np.allclose(seen["strided"]["found"], 2 * X[::-1], rtol=1e-15)
    assert events(seen, "strided") == ["load", launch(seen), launch(seen)]


def test_arrays_come_by_dlpack(seen):
    found, asked = seen["dlpack"]["found"]
    assert np.allclose(found, 2 * X, rtol=1e-15)
    assert asked == [int(launch(seen).split()[-1])]  # the stream that is to wait
    assert events(seen, "dlpack") == [launch(seen)]
    assert np.allclose(seen["strided_dlpack"]["found"], 2 * X, rtol=1e-15)


def test_out_is_written_on_the_device(seen):
    if seen["cupy"]:
        assert seen["into_arrays_of_the_caller"]["found"] is None
        return
    wanted = np.zeros(12)
    wanted[::2] = 2 * X
    assert np.allclose(seen["into_arrays_of_the_caller"]["found"], wanted, rtol=1e-15)
    assert events(seen, "into_arrays_of_the_caller") == [launch(seen), launch(seen)]


def test_equal_results_are_copied_by_the_driver(seen):
    assert np.allclose(seen["twice_the_same"]["found"], 2 * X, rtol=1e-15)
    assert "copy 48" in events(seen, "twice_the_same")


def test_launches_that_come_again_are_a_graph(seen):
    again, others, most, left = seen["graphs"]["found"]
    assert np.allclose(again, X, rtol=1e-15)
    assert np.allclose(others, X, rtol=1e-15)
    graph = launch(seen).replace("launch", "graph of 2")
    once = [launch(seen), launch(seen)]
    first = events(seen, "graphs")
    start = first.index(launch(seen))
    assert first[start : start + 7] == [*once, "record", graph, graph, *once]
    assert most == 4
    assert left == 0


def test_calls_by_graphs(seen):
    found, off, few, several = seen["graphs_of_calls"]["found"]
    assert all(np.allclose(one, 3 * X, rtol=1e-15) for one in found)
    assert (off, few, several) == (False, False, True)


def test_threads_make_the_device_current(seen):
    assert np.allclose(seen["another_thread"]["found"], 2 * X, rtol=1e-15)


def test_captured_arrays_are_copied(seen):
    assert np.allclose(seen["captured"]["found"], X + np.arange(6.0), rtol=1e-15)
    assert events(seen, "captured") == ["load", "to_device 48", launch(seen)]


def test_no_entries_take_no_memory(seen):
    assert seen["no_entries"]["found"] == [0, 1 << 40]


def test_libraries_do_large_matrices(seen):
    found = seen["libraries"]["found"]
    assert len(found) == (7 if seen["cupy"] else 0)
    assert all(off <= 1e-14 for off in dict(found).values())


def test_the_gpu_is_named(seen):
    assert seen["how_it_runs"]["found"].endswith("compiled, 1 CUDA kernel on Stub>")


def test_memory_is_given_back(seen):
    allocated = [e for case in seen.values() if isinstance(case, dict) for e in case["events"]]
    assert any(e.startswith("allocate") for e in allocated) is not seen["cupy"]
    assert seen["live"] == 0
