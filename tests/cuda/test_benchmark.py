"""The command for a GPU: its parts run on the simulator, with small arrays and no times."""

import subprocess
import sys

import numpy as np

from benchmarks import cuda


def test_parts_of_the_benchmark(monkeypatch):
    monkeypatch.setattr(cuda, "SIZE", 400)
    monkeypatch.setattr(cuda, "seconds_of", lambda call: float(call() is None) + 1.0)
    bandwidth = cuda.copied()
    assert bandwidth == 2 * 400 * 8
    for name, f in cuda.REDUCTIONS[:1]:
        assert cuda.reduction(name, f, bandwidth)["of a copy"] == 0.5
    for row in cuda.ROWS[:5]:
        found = cuda.measured(row, bandwidth)
        assert found["error"] < 1e-12
        assert found["error of value"] < 1e-12
    names = [name for name, _, _ in cuda.op_tapes()]
    assert len(names) > 400
    _, tape, arrays = next(cuda.op_tapes())
    assert cuda.compared(tape, arrays) is None


def test_a_wrong_value_is_found():
    _, tape, arrays = next(cuda.op_tapes())
    honest = cuda.evaluate

    def wrong(*args):
        return [np.asarray(v) + 1 for v in honest(*args)]

    cuda.evaluate = wrong
    try:
        assert cuda.compared(tape, arrays) == "values differ from NumPy's"
    finally:
        cuda.evaluate = honest


def test_without_a_gpu_it_says_so():
    command = [sys.executable, "-m", "benchmarks.cuda"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no GPU here, so nothing is measured" in done.stderr
    assert not done.stdout
