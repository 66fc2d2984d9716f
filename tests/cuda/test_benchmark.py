"""The command for a GPU: its parts run on the simulator, with small arrays and no times."""

import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import cuda, cuda_table


@pytest.fixture
def small(monkeypatch):
    """Small arrays, and one second for each call, to which what it does is put down."""
    monkeypatch.setattr(cuda_table, "SIZE", 400)
    monkeypatch.setattr(cuda_table, "CALLS", 2)
    monkeypatch.setattr(cuda_table, "ROUNDS", 1)
    monkeypatch.setattr(cuda_table, "seconds_of", lambda call: float(call() is None) + 1.0)


def test_parts_of_the_benchmark(small):
    bandwidth = cuda_table.copied()
    assert bandwidth == 2 * 400 * 8
    for name, f in cuda_table.REDUCTIONS[:1]:
        assert cuda_table.reduction(name, f, bandwidth)["of a copy"] == 0.5
    for row in cuda_table.ROWS[:5]:
        found = cuda_table.measured(row, bandwidth)
        assert found["error"] < 1e-12
        assert found["error of value"] < 1e-12
    names = [name for name, _, _ in cuda.op_tapes()]
    assert len(names) > 400
    _, tape, arrays = next(cuda.op_tapes())
    assert cuda.compared(tape, arrays) is None
    (graph, *_) = cuda_table.GRAPHS
    call = cuda_table.small_call(graph._replace(arguments=lambda: (np.ones((5, 6)),)))
    assert call["seconds with a graph"] > 0
    assert call["seconds one by one"] > 0
    assert call["launches"] >= 1
    calls = cuda.public_calls()
    assert calls.pop("seconds of a small call") > 0
    assert len(calls) == 2
    assert all(calls.values())


def test_results_are_written_as_they_come_whatever_fails(small, tmp_path, monkeypatch, capsys):
    """Each part that fails is named, and the others go on."""

    def broken(*_):
        raise OSError("no such thing")

    def apart(name, seconds, copy=None):
        return broken() if name.startswith("rows") else {"part": name, "bandwidth": copy}

    monkeypatch.setattr(cuda, "machine", broken)
    monkeypatch.setattr(cuda, "apart", apart)
    monkeypatch.setattr(cuda_table, "by_peer", lambda peer, seconds: iter([{"name": peer}]))
    monkeypatch.setattr(cuda, "suite", lambda seconds: {"wrong": []})
    monkeypatch.setattr(cuda.shutil, "which", lambda _: None)
    file = tmp_path / "cuda.json"
    assert cuda.everything(cuda.Report(file)) == 1
    found = json.loads(file.read_text())
    assert "OSError: no such thing" in found["machine"]["fault"]
    parts = [f"reductions:{n}" for n, _ in cuda_table.REDUCTIONS]
    assert [row["part"] for row in found["reductions"]] == parts
    assert all("no such thing" in row["fault"] for row in found["rows"])
    assert [row["part"] for row in found["graphs"]] == [
        f"graphs:{r.name}" for r in cuda_table.GRAPHS
    ]
    assert found["jax"] == [{"name": "jax"}]
    assert len(capsys.readouterr().out.splitlines()) > 10


def test_no_row_is_begun_when_the_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "SECONDS", 0.0)
    report = cuda.Report(tmp_path / "cuda.json")
    assert report.row("rows", "first", lambda: 1 / 0) is None
    assert report.parts == {}


def test_peers_without_a_gpu_say_so():
    (first, *_) = cuda_table.peer_rows("jax")
    assert "no GPU in this installation of JAX" in first["fault"]


def test_peers_that_take_too_long_are_stopped():
    (last,) = cuda_table.by_peer("jax", 0.01)
    assert last["fault"] == "stopped after 0 s"


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
