"""What workers see of the caller: what `f` reads, errors, warnings, floating-point states."""

import importlib
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from summed_data import PARTS, W, loss

import fdiff
from fdiff.distributed import partitions, sum_over
from fdiff.distributed.sums import SumOver

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


def test_nothing_is_left_of_calls(client, rows):
    total = fdiff.value_and_grad(sum_over(loss, rows))
    for _ in range(5):
        total(W)
    keys = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
    for _ in range(30):
        total(W)
    assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) <= keys + 4
    assert isinstance(sum_over(loss, rows), SumOver)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no MPI")
def test_the_example_for_mpi():
    pytest.importorskip("mpi4py")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable]
    done = subprocess.run(
        [*command, str(ROOT / "examples" / "mpi_sum.py")], check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout.startswith("2 ranks")
