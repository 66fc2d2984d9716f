"""One kernel for one structure: in memory, on disk, in another process and in many threads."""

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tapes import tape_of, values

from fdiff import kernels
from fdiff.kernels import cache
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "cache"))
    kernels.cache_clear()
    return tmp_path / "cache"


def run(tape, *arrays):
    return kernels.compile(tape, ("C",) * len(arrays))(*arrays)


def compiled():
    return kernels.cache_info().compiled


def program(n, m, start, step, a, b):
    """Value and gradient of something with sizes, slices and constants of every kind."""

    def f(x, y):
        left = x[start : start + 2 * step : step]
        return np.sum(a * np.exp(-x[:, None] * y) * (y > b)) + np.sum(left * left) + b

    x, y = np.linspace(0.1, 1.0, n), np.linspace(0.2, 0.9, m)
    tape = simplify(vjp(tape_of(f, x, y), [0, 1]))
    return tape, x, y, np.float64(1.3)


@given(
    st.integers(20, 60), st.integers(61, 90), st.integers(1, 5), st.integers(2, 6),
    st.floats(3.1, 90.0), st.floats(0.11, 0.4),
)  # fmt: skip
def test_one_kernel_for_all_sizes_and_constants(n, m, start, step, a, b):
    tape, *arrays = program(n, m, start, step, a, b)
    before = kernels.cache_info()
    outs = run(tape, *arrays)
    assert kernels.cache_info().entries <= max(before.entries, 1)
    for got, want in zip(outs, values(tape, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_no_factor_has_a_kernel_of_its_own():
    """Not even one that also stands elsewhere in the program, as 2 does in this derivative."""
    x = np.linspace(0.1, 1.0, 7)
    for a in (4.25, 0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 0.5, np.inf):

        def f(x, a=a):
            return np.sum(a * x * x * x + (x - a) ** 2)

        tape = vjp(tape_of(f, x), [0])
        for got, want in zip(run(tape, x, 1.0), values(tape, x, 1.0), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
        assert kernels.cache_info().entries == 1


def test_equal_structures_share_a_kernel_and_different_ones_do_not():
    x = np.arange(1.0, 6.0)
    run(tape_of(lambda x: np.sin(x) * 4.5, x), x)
    before = compiled()
    run(tape_of(lambda y: np.sin(y) * -7.25, x[:3]), x[:3])
    assert compiled() == before
    run(tape_of(lambda x: np.sin(x) + 4.5, x), x)
    assert compiled() == before + 1
    assert kernels.cache_info().hits > 0


def test_the_order_in_which_nodes_were_made_does_not_matter():
    x = np.arange(1.0, 6.0)

    def first(x):
        a, b = np.sin(x), np.cos(x)
        return a - b

    def second(x):
        b, a = np.cos(x), np.sin(x)
        return a - b

    layouts = ("C",)
    assert kernels.source(tape_of(first, x), layouts) == kernels.source(tape_of(second, x), layouts)


def test_a_constant_is_never_taken_for_another():
    x = np.arange(4.0)
    for a in (2.0, 5.0, 2.0, -0.0, 0.0, np.inf):
        tape = tape_of(lambda x, a=a: (x * a, x + a, x / (a + 1.0)), x)
        for got, want in zip(run(tape, x), values(tape, x), strict=True):
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


SCRIPT = """
import sys
import numpy as np
from tapes import tape_of
from fdiff import kernels
x = np.arange(5.0)
tape = tape_of(lambda x: np.sum(np.sin(x) * 3.25) + np.linalg.det(x[:4].reshape(2, 2)), x)
here = kernels.on_disk(tape, ("C",))
assert "numba" not in sys.modules
value = kernels.compile(tape, ("C",))(x)[0]
info = kernels.cache_info()
print(here, float(value), info.compiled, info.loaded)
"""


def process():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", "."])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_second_process_compiles_nothing():
    first, second = process(), process()
    assert first[0] == "False"
    assert first[2:] == ["1", "0"]
    assert second[0] == "True"
    assert second[2:] == ["0", "1"]
    assert first[1] == second[1]


@pytest.mark.parametrize(
    "harm",
    [
        lambda b: b"",
        lambda b: b[: len(b) // 2],
        lambda b: b[:-1] + bytes([b[-1] ^ 1]),
        lambda b: b"x" + b,
    ],
)
def test_a_broken_entry_is_compiled_anew(folder, harm):
    x = np.arange(5.0)
    tape = tape_of(lambda x: x * 3.5, x)
    run(tape, x)
    (entry,) = folder.glob("*.kernel")
    entry.write_bytes(harm(entry.read_bytes()))
    kernels.cache_clear()
    before = compiled()
    np.testing.assert_array_equal(run(tape, x)[0], x * 3.5)
    assert compiled() == before + 1
    kernels.cache_clear()
    run(tape, x)
    assert compiled() == before + 1


def test_an_edited_helper_makes_another_name(monkeypatch):
    name = cache.name_of("text")
    assert cache.name_of("text") == name
    assert cache.name_of("other text") != name
    monkeypatch.setattr(cache, "_installed", lambda: "other helpers")
    assert cache.name_of("text") != name


def test_the_directory_is_private(folder):
    assert cache.directory() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert cache.directory() is None


@pytest.mark.parametrize("value", ["off", ""])
def test_the_disk_cache_can_be_switched_off(monkeypatch, value):
    monkeypatch.setenv("FDIFF_CACHE_DIR", value)
    x = np.arange(3.0)
    np.testing.assert_array_equal(run(tape_of(lambda x: x * 9.5, x), x)[0], x * 9.5)
    assert cache.directory() is None


def test_a_directory_that_cannot_be_made_costs_nothing_but_the_cache(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "file" / "below"))
    x = np.arange(3.0)
    np.testing.assert_array_equal(run(tape_of(lambda x: x - 9.5, x), x)[0], x - 9.5)


def test_the_default_directory_follows_the_users_settings(monkeypatch, tmp_path):
    monkeypatch.delenv("FDIFF_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.directory() == tmp_path / "xdg" / "fdiff"
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.directory() == tmp_path / ".cache" / "fdiff"


def test_clearing_the_disk(folder):
    x = np.arange(3.0)
    run(tape_of(lambda x: x * 1.5, x), x)
    kernels.cache_clear(disk=True)
    assert not list(folder.glob("*.kernel"))
    assert kernels.cache_info().entries == 0


def test_eight_threads_call_one_kernel():
    x = np.linspace(0.0, 1.0, 4096)
    tape = tape_of(lambda x: (np.sum(np.sin(x)), np.cumsum(x * x)), x)
    start = threading.Barrier(8)

    def work(k):
        start.wait()
        kernel = kernels.compile(tape, ("C",))
        return [kernel(x * k)[0] for _ in range(50)]

    before = compiled()
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(work, range(8)))
    assert compiled() <= before + 1
    for k, row in enumerate(rows):
        np.testing.assert_allclose(row, np.sum(np.sin(x * k)), rtol=1e-12)


FORK = """
import os
import numpy as np
import fdiff

x = np.arange(4.0)
known = fdiff.jit(lambda x: x * 2.5)
known(x)
child = os.fork()
if child == 0:
    good = np.array_equal(known(x), x * 2.5)
    os._exit(0 if good and np.allclose(fdiff.jit(np.tanh)(x), np.tanh(x)) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), fdiff.cache_info().compiled)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_calls_and_compiles(tmp_path):
    # In a process of its own: libraries that other tests load (JAX) refuse to be forked.
    kept = {k: v for k, v in os.environ.items() if k != "FDIFF_TIER"}
    kept["FDIFF_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-c", FORK]
    done = subprocess.run(command, env=kept, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]


def test_predictions_grow_with_the_program_and_vanish_once_compiled():
    x = np.arange(4.0)
    small, large = (
        tape_of(lambda x: x * 2.5, x),
        tape_of(lambda x: [x := np.sin(x) * x for _ in range(40)][-1], x),
    )
    assert 0.0 < kernels.predict_seconds(small, ("C",)) < kernels.predict_seconds(large, ("C",))
    run(small, x)
    assert kernels.predict_seconds(small, ("C",)) == 0.0


def test_complex_numbers_are_not_supported_yet():
    assert not kernels.supported(tape_of(lambda x: x + 1.0, np.ones(2, np.complex128)))
    assert kernels.supported(tape_of(lambda x: x + 1.0, np.ones(2)))
