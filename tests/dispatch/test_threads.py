"""Large loops that several threads share: the same numbers for any number of them."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tapes import like, tape_of
from test_kernel_random import program, step
from thread_counts import ask_for_threads

import fdiff
from fdiff import kernels
from fdiff.errors import InputError
from fdiff.interpret import evaluate
from fdiff.kernels import source_cache
from fdiff.kernels.thread_pool import pool, threads
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

GOLDEN = Path(__file__).parents[1] / "golden" / "shared.py.txt"
FOUR = 4


@pytest.fixture(autouse=True)
def four(monkeypatch):
    ask_for_threads(monkeypatch, FOUR)


def chain(x):
    return np.sum(np.sin(x) * np.exp(-(x**2)) + np.log1p(x**2) * np.tanh(x))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def logistic(w, a):
    """Products with rows, a sum over them, and a gradient that every part adds to."""
    z = a @ w
    return np.sum(np.logaddexp(0.0, z) - z * a[:, 0])


def softmax(x):
    """Blocks of rows whose temporaries are a thread's own."""
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum(np.log(np.sum(e, axis=1)) * np.tanh(x[:, 0]))


def layers(x, a):
    """A matrix that each block of rows adds a product to."""
    return np.sum(np.tanh(np.tanh(x @ a) @ a))


def bonds(x, i, j):
    """Places found at run time, read and added to."""
    d = x[i] - x[j]
    return np.sum(np.exp(-d * d) + np.cos(d))


def extremes(x):
    y = np.exp(-x * x)
    return np.max(y) + 0.5 * np.min(y * x) + np.prod(1.0 + 1e-9 * y)


def mixed(x):
    """What one thread does for all, a scan and a system of equations; then a loop that needs it."""
    s = np.cumsum(np.sin(x)) / x.size
    a = np.array([[3.0, 1.0], [1.0, 2.0]]) * (1.0 + np.mean(x * x))
    b = np.linalg.solve(a, np.array([np.sum(s), 1.0]))
    return np.sum(np.exp(-s * s) * b[0] + np.tanh(x) * b[1])


def narrow(x):
    return np.sum(np.exp(-x * x) * np.float32(0.5))


def points(n, dtype=np.float64):
    return np.random.default_rng(7).normal(size=n).astype(dtype)


PAIRS = np.random.default_rng(3).integers(0, 500, size=(2, 150_000))
LARGE = {
    "chain": (chain, points(200_003)),
    "rosenbrock": (rosenbrock, points(1_500_000)),
    "logistic": (logistic, points(20), points((40_000, 20))),
    "softmax": (softmax, points((20_000, 30))),
    "layers": (layers, points((3_000, 60)), 0.1 * points((60, 60))),
    "bonds": (bonds, points(500), *PAIRS),
    "extremes": (extremes, points(300_000)),
    "mixed": (mixed, points(500_000)),
    "narrow": (narrow, points(400_000, np.float32)),
}


def gradient(name):
    """Value and gradient as a tape, and its inputs."""
    f, x, *rest = LARGE[name]
    fixed = [np.asarray(r) for r in rest]
    tape = tape_of(lambda x: f(x, *fixed), x)
    return simplify(vjp(tape, [0])), (x, np.ones((), x.dtype)[()])


def compiled(tape):
    return kernels.compile(tape, ("C",) * len(tape.inputs))


def is_shared(kernel):
    return "worker" in kernel.source


def same(a, b):
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


# ------------------------------------------------------------------------------------- the numbers


@pytest.mark.parametrize("name", LARGE)
def test_threads_give_what_one_thread_gives(name, monkeypatch):
    tape, arrays = gradient(name)
    several = compiled(tape)
    ask_for_threads(monkeypatch, 1)
    one = compiled(tape)
    assert is_shared(several)
    assert not is_shared(one)
    tight = 1e-5 if arrays[0].dtype == np.float32 else 1e-11
    for got, want, told in zip(
        several(*arrays), one(*arrays), evaluate(tape, *arrays), strict=True
    ):
        scale = np.max(np.abs(want))
        np.testing.assert_allclose(got, want, rtol=tight, atol=tight * scale)
        np.testing.assert_allclose(got, told, rtol=tight, atol=tight * scale)


@pytest.mark.parametrize("name", LARGE)
def test_the_number_of_threads_changes_no_bit(name, monkeypatch):
    tape, arrays = gradient(name)
    first = compiled(tape)(*arrays)
    for count in (2, 3, FOUR):
        ask_for_threads(monkeypatch, count)
        kernel = compiled(tape)
        assert is_shared(kernel)
        assert all(same(kernel(*arrays), first) for _ in range(5))


def test_a_kernel_left_alone_by_the_threads_gives_the_same_bits():
    tape, arrays = gradient("softmax")
    kernel = compiled(tape)
    first = kernel(*arrays)
    assert pool.stop()
    assert not any(t.name.startswith("fdiff-") for t in threading.enumerate())
    assert same(kernel(*arrays), first)


def test_threads_of_the_user_call_at_once():
    names = ("chain", "softmax", "bonds")
    made = {name: (compiled(tape), arrays) for name in names for tape, arrays in [gradient(name)]}
    wanted = {name: kernel(*arrays) for name, (kernel, arrays) in made.items()}

    def call(k):
        kernel, arrays = made[names[k % len(names)]]
        return same(kernel(*arrays), wanted[names[k % len(names)]])

    with ThreadPoolExecutor(6) as users:
        assert all(users.map(call, range(90)))


@pytest.mark.slow
@settings(max_examples=12)
@given(st.lists(step, min_size=2, max_size=8), st.sampled_from([2, 5, 13]))
def test_random_programs_of_which_all_loops_are_shared(steps, parts):
    """There may be more parts than turns, and what each adds to memory has a copy."""
    rng = np.random.default_rng(len(steps))
    x = rng.normal(size=(3, 4))
    tape = simplify(vjp(tape_of(program(steps, [0]), x), [0]))
    arrays = [x, *like(rng, tape.output_types[:1])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_cache, "parts_for_threads", lambda kernel, sizes: parts)
        patch.setattr(source_cache, "shared_items", lambda kernel, sizes: frozenset(range(99)))
        kernel = compiled(tape)
    assert is_shared(kernel)
    for got, want in zip(kernel(*arrays), evaluate(tape, *arrays), strict=True):
        scale = max(1.0, float(np.max(np.abs(want))))
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * scale)


def test_small_loops_have_one_thread():
    assert not is_shared(compiled(simplify(vjp(tape_of(chain, points(1000)), [0]))))


def test_the_text_of_what_is_shared_is_as_reviewed():
    text = compiled(gradient("layers")[0]).source
    if os.environ.get("FDIFF_GOLDEN") == "write":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


# -------------------------------------------------------------------------------------- the errors


def test_an_index_out_of_bounds_in_any_part():
    x = points(500)
    tape = tape_of(lambda x, i: np.exp(x[i]) * np.tanh(x[i]), x, PAIRS[0])
    kernel = compiled(tape)
    assert is_shared(kernel)
    wanted = kernel(x, PAIRS[0])
    for place in (0, 70_000, 149_999):
        wrong = PAIRS[0].copy()
        wrong[place] = 500
        with pytest.raises(IndexError):
            kernel(x, wrong)
    assert same(kernel(x, PAIRS[0]), wanted)


def test_a_huge_angle_in_any_part():
    tape, (x, one) = gradient("chain")
    kernel = compiled(tape)
    for place in (0, 100_000, x.size - 1):
        far = x.copy()
        far[place] = 1e15
        for got, want in zip(kernel(far, one), evaluate(tape, far, one), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-9)


def test_a_branch_that_goes_the_other_way(monkeypatch):
    """The guard is a sum over all parts, which the kernel compares itself."""
    monkeypatch.setenv("FDIFF_TIER", "compile")

    def f(x):
        y = np.tanh(x) if np.sum(np.exp(-x * x)) > 0.0 else np.sin(x)
        return np.sum(y * y) if np.sum(x) > 0.0 else np.sum(y)

    x = np.abs(points(200_000))
    gradient = fdiff.grad(f)
    slope = 1.0 - np.tanh(x) ** 2
    for _ in range(4):
        np.testing.assert_allclose(gradient(x), 2.0 * np.tanh(x) * slope, rtol=1e-12)
        np.testing.assert_allclose(gradient(-x), slope, rtol=1e-11)


def test_a_matrix_that_is_not_positive_definite():
    def f(x, a):
        factor = np.linalg.cholesky(a)
        return np.sum(np.exp(-x * x) * np.tanh(x * factor[0, 0]))

    x = points(200_000)
    kernel = compiled(tape_of(f, x, np.eye(2)))
    assert is_shared(kernel)
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            kernel(x, -np.eye(2))
    np.testing.assert_allclose(kernel(x, np.eye(2))[0], np.sum(np.exp(-x * x) * np.tanh(x)))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers on this system")
def test_an_interrupt_is_raised_after_the_call():
    tape, arrays = gradient("rosenbrock")
    kernel = compiled(tape)
    wanted = kernel(*arrays)

    def forever():
        while True:
            kernel(*arrays)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(5):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                forever()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert same(kernel(*arrays), wanted)


def test_a_number_of_threads_that_is_none(monkeypatch):
    tape, _ = gradient("chain")
    for text in ("0", "-1", "all", "²"):
        ask_for_threads(monkeypatch, text)
        with pytest.raises(InputError, match="is not a number of threads"):
            compiled(tape)


def test_how_many_threads(monkeypatch):
    assert threads() == FOUR
    ask_for_threads(monkeypatch, None, "3,2")
    assert threads() == 3
    ask_for_threads(monkeypatch, None)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads() == cores


AFTERWARDS = """
import os
import fdiff
from fdiff.kernels.thread_pool import threads
before = threads()
os.environ.update(OMP_NUM_THREADS="1", FDIFF_NUM_THREADS="1")  # as a LocalCluster of Dask does
print(before, threads())
"""


@pytest.mark.parametrize("name", ["FDIFF_NUM_THREADS", "OMP_NUM_THREADS"])
def test_what_is_set_after_the_import_is_for_other_processes(name):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", AFTERWARDS],
        env={**environment, name: "3"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.split() == ["3", "3"]


# ---------------------------------------------------------------------------------- other processes

COMMON = """
import os, sys, threading
import numpy as np
import fdiff
from fdiff.kernels.thread_pool import pool

def chain(x):
    return np.sum(np.sin(x) * np.exp(-x**2) + np.log1p(x**2) * np.tanh(x))

def ours():
    return len(pool._threads)

x = np.linspace(0.0, 1.0, 200_003)
gradient = fdiff.grad(chain)
"""

FORK = """
wanted = gradient(x)
assert ours() == 3
child = os.fork()
if child == 0:
    good = ours() == 0 and np.array_equal(gradient(x), wanted)
    fresh = fdiff.grad(lambda x: np.sum(np.exp(-x) * np.tanh(x) * np.sin(x)))(x)
    os._exit(0 if good and ours() == 0 and np.isfinite(fresh).all() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert ours() == 3 and np.array_equal(gradient(x), wanted)
"""

FORK_AT_WORK = """
wanted = gradient(x)
done = False

def work():
    while not done:
        gradient(x)

user = threading.Thread(target=work)
user.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(gradient(x), wanted) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
done = True
user.join()
assert np.array_equal(gradient(x), wanted)
"""

WORKERS = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

def task(k):
    return ours(), gradient(x), ours()

if __name__ == "__main__":
    wanted = gradient(x)
    for way in ("fork", "spawn"):
        with ProcessPoolExecutor(2, mp_context=get_context(way)) as workers:
            for before, found, after in workers.map(task, range(4)):
                assert before == after == 0, (way, before, after)
                np.testing.assert_allclose(found, wanted, rtol=1e-13)
    assert ours() == 3
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on this system")
@pytest.mark.parametrize("text", [FORK, FORK_AT_WORK, WORKERS], ids=["fork", "at work", "workers"])
def test_other_processes_have_no_threads(text, tmp_path):
    file = tmp_path / "script.py"
    file.write_text(COMMON + text)
    environment = {**os.environ, "FDIFF_TIER": "compile", "FDIFF_NUM_THREADS": str(FOUR)}
    paths = [str(Path(fdiff.__file__).parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
    command = [sys.executable, str(file)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
