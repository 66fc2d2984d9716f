"""What workers see of the caller: what `f` reads, errors, warnings, floating-point states."""

import importlib
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from summed_data import PARTS, W

import fdiff
from fdiff.distributed import cluster, partitions, sum_over
from fdiff.distributed.partitionings import Partitions
from fdiff.process import progress

ROOT = Path(__file__).parents[2]
SCALE = 1.0
MODULE = """import numpy as np
FACTOR = {factor}
def f(w, X, y):
    if w[0] > 5.0:
        raise ValueError("too large")  # here
    return {factor}.0 * FACTOR * np.sum(w) * len(y)
"""


@pytest.fixture
def rows(client):
    return partitions(PARTS, client)


def test_captured_arrays_globals_and_modules_are_seen_as_they_are(rows, tmp_path, monkeypatch):
    scale, count = np.ones(4), sum(len(y) for _, y in PARTS)
    total = fdiff.grad(sum_over(lambda w, X, y: SCALE * np.sum(scale * w) * len(y), rows))
    np.testing.assert_allclose(total(W), count * np.ones(4))
    scale[1] = 100.0
    np.testing.assert_allclose(total(W), count * scale)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    np.testing.assert_allclose(total(W), 3.0 * count * scale)
    path = tmp_path / "edited_model.py"
    path.write_text(MODULE.format(factor=2))
    monkeypatch.syspath_prepend(tmp_path)
    import edited_model

    summed = fdiff.grad(sum_over(lambda w, X, y: edited_model.f(w, X, y), rows))
    np.testing.assert_allclose(summed(W), 4.0 * count)
    edited_model.FACTOR = 5.0
    np.testing.assert_allclose(summed(W), 10.0 * count)
    path.write_text(MODULE.format(factor=30))
    importlib.invalidate_caches()
    importlib.reload(edited_model)
    np.testing.assert_allclose(summed(W), 900.0 * count)
    with pytest.raises(ValueError, match="too large") as caught:
        summed(np.full(4, 9.0))
    (note,) = [n for n in caught.value.__notes__ if "partition 0 of 9" in n]
    assert 'edited_model.py:5:  raise ValueError("too large")  # here' in note
    assert "(60, 4), (60,)" in note


def test_the_error_of_the_lowest_partition_is_raised(rows):
    def bad(w, X, y):
        if len(y) in {63, 67}:
            raise KeyError(len(y))
        return np.sum(X @ w)

    for f in (bad, fdiff.grad(bad)):
        with pytest.raises(KeyError, match="63") as caught:
            sum_over(f, rows)(W)
        assert any("test_fresh_sums.py" in note for note in caught.value.__notes__)
        assert any("partition 3 of 9" in note for note in caught.value.__notes__)

    def stopped(w, X, y):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sum_over(stopped, rows)(W)


def test_notes_name_the_line_that_raised_and_no_other(rows):
    def absent(w, X, y):
        return np.sum(X @ w) * y.absent

    for data in (rows, Partitions([*PARTS])):
        for f in (absent, fdiff.grad(absent)):
            with pytest.raises(AttributeError, match="absent") as caught:
                sum_over(f, data)(W)
            (note,) = [n for n in caught.value.__notes__ if "this line raised the error" in n]
            assert "return np.sum(X @ w) * y.absent" in note
            assert any(n.startswith("in partition 0 of 9") for n in caught.value.__notes__)


def test_error_states_and_warnings(rows):
    def f(w, X, y):
        return np.sum(np.log(w - 10.0))

    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        sum_over(f, rows)(W)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert np.isnan(sum_over(f, rows)(W))
        assert [(w.category, Path(w.filename).name) for w in caught] == [
            (RuntimeWarning, "test_fresh_sums.py")
        ]
    with fdiff.kinks("raise"), pytest.raises(fdiff.errors.KinkError):
        sum_over(fdiff.grad(lambda w, X, y: np.sum(np.abs(w - w))), rows)(W)


CELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from ipykernel.compiler import XCachingCompiler
from traitlets.config import Config

shell = InteractiveShell.instance(
    compiler_class=XCachingCompiler, config=Config(HistoryManager={"enabled": False})
)
shell.run_cell("1", store_history=True)
shell.run_cell(open("script.py").read(), store_history=True)
"""
SCRIPT = """import sys, distributed, numpy as np, fdiff
from fdiff.distributed import partitions, sum_over

def helper(w, x):
    return w[3] * np.sum(x)  # of the user

def bad(w, x):
    return np.sum(x.view(np.int64)) + w[0]  # of fdiff

with distributed.Client(ADDRESS) as client:
    rows = partitions([(np.ones(2),), (np.ones(3),)])
    for f in (lambda w, x: helper(w, x), fdiff.grad(lambda w, x: helper(w, x)),
              fdiff.grad(bad, argnums=1)):
        try:
            sum_over(f, rows)(np.ones(2))
        except Exception as error:
            print(f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ()))
            print("---")
"""


@pytest.mark.parametrize("origin", ["script.py", pytest.param("In [2]", marks=pytest.mark.slow)])
def test_errors_name_the_line_of_a_script_and_of_a_cell(session_client, origin, tmp_path):
    if origin == "In [2]":
        pytest.importorskip("ipykernel", reason="needs ipykernel, an extra")
    address = session_client.scheduler.address
    (tmp_path / "script.py").write_text(SCRIPT.replace("ADDRESS", repr(address)))
    call = ["script.py"] if origin == "script.py" else ["-c", CELL]
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *call], cwd=tmp_path, env=environment, text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    said = done.stdout.split("---\n")
    assert len(said) == 4, done.stdout + done.stderr
    for message, kind in zip(said[:2], ("IndexError", "IndexError"), strict=True):
        assert f"{kind}: index 3 is out of bounds" in message
        assert f"{origin}:5:  return w[3] * np.sum(x)  # of the user" in message
        assert "partition 0 of 2" in message
    assert f"{origin}:8:  return np.sum(x.view(np.int64)) + w[0]  # of fdiff" in said[2]
    assert "dynamic-code" not in done.stdout


@pytest.mark.slow
def test_the_progress_line_counts_partitions(client, monkeypatch):
    lines = []
    display = SimpleNamespace(show=lambda r: lines.append(r.line("")), erase=lambda: None)
    progress._watcher.stop()
    monkeypatch.setattr(progress, "find_display", lambda worker: display)
    monkeypatch.setattr(progress, "SECONDS", 0.2)
    monkeypatch.setattr(progress._watcher, "next_try", 0.0)
    monkeypatch.setattr(cluster, "LOOK", 0.1)

    def waiting(w, X, y):
        time.sleep(0.5)
        return w[0]

    sum_over(waiting, partitions(PARTS, client))(W)
    counts = [line.split(", ")[1] for line in lines if "adding waiting" in line]
    counts = [int(count.split(" of 9 partitions")[0]) for count in counts]
    assert counts == sorted(counts), lines
    assert len({*counts}) > 1, lines
    progress._watcher.next_try = 0.0


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no MPI")
def test_the_example_for_mpi():
    pytest.importorskip("mpi4py", reason="needs MPI, which is no Python package")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable]
    done = subprocess.run(
        [*command, str(ROOT / "examples" / "mpi_sum.py")], check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout.startswith("2 ranks")
