"""Kernels made by a thread while the interpreter answers, and who has no such thread.

What depends on the clock runs in processes of its own, with a cache of its own.
"""

import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import fdiff
from fdiff import kernels
from fdiff.dispatch.tiers import break_even, bytecode_tier, tiered_execution
from fdiff.errors import CompileError, DefectWarning, InputError
from fdiff.kernels import machine_code
from fdiff.kernels.bytecode import execution
from fdiff.process import background, environment

fails = {"__name__": "fdiff.kernels"}  # an error of fdiff's own: others are no defects of kernels
exec("def fail(*_):\n    raise RuntimeError('no kernel today')", fails)
X = np.linspace(0.1, 1.0, 40)
FUNCTIONS = """
import numpy as np, fdiff, warnings
from fdiff import kernels
from fdiff.dispatch.tiers import break_even, tiered_execution
from fdiff.process import background
X = np.linspace(0.1, 1.0, 40)
def made(k):
    names = {"np": np}
    lines = [f"    y = np.sin(y) * {1 + k / 7} + np.exp(-y * y)" for _ in range(1 + k % 5)]
    last = f"    return np.sum(y[{k % 3}:] * y[:{-(k % 3) or None}])"
    exec("\\n".join(["def f(x):", "    y = x", *lines, last]), names)
    return names["f"]
def called_until(g, x, seconds=240.0):
    import time
    first, end = g(x), time.monotonic() + seconds
    while "compiled after" not in repr(g):
        assert time.monotonic() < end, repr(g)
        found = g(x)
        for a, b in zip(first, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    return g(x)
"""


@pytest.fixture
def on(monkeypatch):
    """The background in this process, on however many cores it runs."""
    monkeypatch.setenv(background.VARIABLE, "1")
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    monkeypatch.setattr(background, "cores", lambda: 2)
    monkeypatch.setattr(break_even, "PATIENCE", 1e-9)
    monkeypatch.setattr(execution, "_functions", {})  # no bytecode interpreter of another test
    monkeypatch.setattr(execution, "_families", {})
    fdiff.cache_clear()
    yield
    background.worker.wait()
    fdiff.cache_clear()


@pytest.fixture
def cold(on, monkeypatch, tmp_path):
    """The same, with nothing on disk."""
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path))


def paid(run):
    """The runner with enough spent for any kernel."""
    run.account.spent = 10.0
    return run


def run_script(text, tmp_path, **environment):
    settings = {"FDIFF_BACKGROUND": "1", "FDIFF_CACHE_DIR": str(tmp_path / "cache"), **environment}
    given = {k: v for k, v in os.environ.items() if not k.startswith("FDIFF_")}
    text = (
        "import os\nos.sched_getaffinity = lambda _: {0, 1}\n" + FUNCTIONS + textwrap.dedent(text)
    )
    file = tmp_path / "script.py"
    file.write_text(text)
    return subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        env={**given, **settings}, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def finished(text, tmp_path, **environment):
    done = run_script(text, tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.slow
def test_calls_go_on_until_the_kernel_is_there(tmp_path):
    text = """
    g = fdiff.value_and_grad(made(3))
    g(X); assert "interpreted" in repr(g)
    called_until(g, X)
    background.worker.wait()
    print(fdiff.cache_info().compiled)
    """
    assert finished(text, tmp_path).split() == ["1"]


def test_no_call_imports_the_passes_on_one_core(tmp_path):
    text = """
    import sys, threading
    os.sched_getaffinity = lambda _: {0}
    class Watch:
        def find_spec(self, name, path, target=None):
            if name == "fdiff.kernels.codegen.source_generation":
                print(threading.current_thread() is threading.main_thread())
    sys.meta_path.insert(0, Watch())
    called_until(fdiff.value_and_grad(made(3)), X)
    """
    assert finished(text, tmp_path).split() == ["False"]


def test_a_single_call_starts_nothing(on):
    run = tiered_execution.Runner(fdiff.make_tape(lambda x: np.sum(np.sin(x)), X))
    run([X])
    assert run.tier == "interpret"
    assert background.worker._thread is None


@pytest.mark.parametrize("said", ["0", "1"])
def test_short_calls_count_where_nobody_waits(cold, monkeypatch, said):
    """Calls take some milliseconds in all, the kernel is said to take a second."""
    monkeypatch.setenv(background.VARIABLE, said)
    monkeypatch.setattr(kernels, "predict_seconds", lambda *_: 1.0)
    monkeypatch.setattr(break_even, "CALL", 2.0 / break_even.OFTEN)
    run = tiered_execution.runner(fdiff.make_tape(lambda x: np.sum(np.cos(x) * x), X[:3]))
    for _ in range(break_even.OFTEN + 1):
        run([X[:3]])
    assert (run.account.spent >= 2.0) is (said == "1")
    background.worker.wait()
    assert run.compiled() is (said == "1")


@pytest.mark.parametrize("said", ["0", "1"])
def test_the_switch(cold, monkeypatch, said):
    monkeypatch.setenv(background.VARIABLE, said)
    # of kernels that nothing else makes: one in memory may be there before the next line asks
    own = {"0": lambda x: np.sum(np.cosh(np.sin(x))), "1": lambda x: np.sum(np.sin(np.cosh(x)))}[
        said
    ]
    run = paid(tiered_execution.runner(fdiff.make_tape(own, X)))
    want = own(X)
    np.testing.assert_allclose(run([X])[0], want)
    assert run.tier == ("compile" if said == "0" else "interpret")
    background.worker.wait()
    np.testing.assert_allclose(run([X])[0], want)
    assert run.state().startswith("compiled")


def test_equal_outputs_are_no_obstacle(on):
    run = paid(tiered_execution.runner(fdiff.make_tape(lambda x: (np.sin(x), np.sin(x)), X)))
    run([X])
    background.worker.wait()
    assert run.compiled()
    np.testing.assert_allclose(run([X]), [np.sin(X), np.sin(X)])


def test_a_switch_that_is_neither(on, monkeypatch):
    monkeypatch.setenv(background.VARIABLE, "yes")
    run = paid(tiered_execution.runner(fdiff.make_tape(lambda x: np.sum(np.sin(x)), X)))
    with pytest.raises(InputError, match="'yes' is neither 0 nor 1"):
        run([X])


def test_one_core_has_no_background(on, monkeypatch):
    monkeypatch.setattr(background, "cores", lambda: 1)
    assert not background.allowed()


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "max 100000"}, sys.maxsize),
        ({"cpu.max": "150000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "400000 100000"}, 4),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, sys.maxsize),
        ({"cpu.cfs_quota_us": "200000\n", "cpu.cfs_period_us": "100000\n"}, 2),
        ({}, sys.maxsize),
    ],
)
def test_what_a_control_group_grants(tmp_path, files, cores):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert environment._quota(tmp_path) == cores


def test_what_fails_is_raised_where_a_compile_would_have_failed(on, monkeypatch):
    run = paid(tiered_execution.runner(fdiff.make_tape(lambda x: np.sum(np.cos(x)), X)))
    with monkeypatch.context() as patch:
        patch.setattr(machine_code, "make_kernel", fails["fail"])
        np.testing.assert_allclose(run([X])[0], np.sum(np.cos(X)))
        background.worker.wait()
        (task,) = run._kernels._background.values()
        assert task.error is not None
        assert not task.under_way
    with pytest.raises(RuntimeError, match="no kernel today"):
        run._kernels._decision(("C",), "")
    assert not run._kernels._background


def test_a_stub_that_fails_is_told_once_and_calls_go_through_python(on, monkeypatch):
    monkeypatch.setattr(machine_code, "_stubs", {})
    monkeypatch.setattr(machine_code, "_stub_failures", {False: RuntimeError("no stub today")})
    monkeypatch.setattr(machine_code, "_stub_warned", set())
    made = kernels.compile(fdiff.make_tape(np.cos, X), ("C",))
    np.testing.assert_allclose(made(X)[0], np.cos(X))
    with pytest.warns(DefectWarning, match="no stub today.*report"):
        np.testing.assert_allclose(made(X)[0], np.cos(X))
    np.testing.assert_allclose(made(X)[0], np.cos(X))
    assert made.parts() is None


def test_the_stub_is_made_in_the_background(tmp_path):
    text = """
    import time
    tape = fdiff.make_tape(lambda x: np.sum(np.sin(x)), X)
    made = kernels.compile(tape, ("C",))
    for _ in range(2):
        np.testing.assert_allclose(made(X)[0], np.sum(np.sin(X)))
    assert made.parts() is None and background.worker._thread is not None
    background.worker.wait()
    assert made.parts() is not None
    np.testing.assert_allclose(made(X)[0], np.sum(np.sin(X)))
    """
    finished(text, tmp_path)


@pytest.mark.parametrize("when", [0.0, 0.05, 0.2, 0.5])
def test_the_end_of_a_process_while_a_kernel_is_made(tmp_path, when):
    text = f"""
    import time
    for k in range(8):
        run = tiered_execution.runner(fdiff.make_tape(fdiff.grad(made(k)), X))
        run.account.spent = 10.0
        run([X])
    assert background.worker._thread is not None
    time.sleep({when})
    print("end")
    """
    begin = time.monotonic()
    assert finished(text, tmp_path) == "end\n"
    assert time.monotonic() < begin + 120


@pytest.mark.slow
def test_forked_children_while_kernels_are_made(tmp_path):
    """They have no background, and compile for themselves."""
    text = """
    import os, time
    functions = [made(k) for k in range(12)]
    for turn in range(12):
        run = tiered_execution.runner(fdiff.make_tape(fdiff.grad(functions[turn]), X))
        run.account.spent = 10.0
        want = run([X])[0]
        time.sleep(0.02 * turn)
        child = os.fork()
        if not child:
            assert not background.allowed()
            found = fdiff.jit(fdiff.grad(functions[turn]))(X)
            os._exit(0 if np.allclose(found, want, rtol=1e-12, atol=1e-12) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, turn
    background.worker.wait()
    for f in functions:  # the parent goes on
        run = tiered_execution.runner(fdiff.make_tape(fdiff.grad(f), X))
        assert run.state().startswith("compiled")
    """
    finished(text, tmp_path)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_have_none(tmp_path, method):
    text = f"""
    import multiprocessing
    def allowed(_):
        return background.allowed()
    if __name__ == "__main__":
        assert background.allowed()
        with multiprocessing.get_context({method!r}).Pool(1) as pool:
            print(pool.map(allowed, [0]))
    """
    assert finished(text, tmp_path) == "[False]\n"


@pytest.mark.slow
def test_many_functions_in_many_threads(tmp_path):
    """Traces, interpreted calls and kernels at once; results are those of the interpreter."""
    text = """
    import threading
    errors = []
    def work(j):
        try:
            for k in range(6):
                f = made(4 * k + j)
                want = [np.array(a) for a in fdiff.value_and_grad(f)(X)]
                g = fdiff.value_and_grad(lambda x, f=f: f(x))
                found = called_until(g, X) if k < 2 else g(X)
                h = fdiff.hessian(f)(X[:5])
                for a, b in zip(want, found):
                    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
                np.testing.assert_allclose(h, h.T, atol=1e-9)
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=work, args=(j,)) for j in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not errors, errors
    background.worker.wait()
    """
    finished(text, tmp_path)


@pytest.mark.parametrize("count", [1, 2])
def test_jit_does_not_wait_for_a_kernel_that_takes_long(cold, monkeypatch, count):
    """Also with one core: NumPy and bytecode answer until it is there."""
    monkeypatch.setattr(background, "cores", lambda: count)
    monkeypatch.setattr(break_even, "JIT_PATIENCE", 0.0)
    function = (np.arcsin, np.arccos)[count - 1]  # kernels of their own
    f = fdiff.jit(lambda x: np.sum(function(x) / (1.0 + np.exp(x))))
    want = np.sum(function(X) / (1.0 + np.exp(X)))
    np.testing.assert_allclose(f(X), want)
    assert "interpreted" in repr(f)
    assert "a kernel is made in the background" in repr(f)
    background.worker.wait()
    np.testing.assert_allclose(f(X), want)
    assert ": compiled" in repr(f)


def test_jit_waits_for_any_other_kernel(cold):
    f = fdiff.jit(lambda x: np.sum(np.tan(x) / (1.0 + np.exp(x))))
    f(X)
    assert ": compiled" in repr(f)


def test_compile_waits_for_every_kernel(cold, monkeypatch):
    monkeypatch.setattr(break_even, "JIT_PATIENCE", 0.0)
    f = fdiff.jit(lambda x: np.sum(np.cos(x) / (1.0 + np.exp(x))))
    f.compile(X)
    assert ": compiled" in repr(f)


def test_what_fails_behind_jit_is_raised_at_the_next_call(cold, monkeypatch):
    monkeypatch.setattr(break_even, "JIT_PATIENCE", 0.0)
    monkeypatch.setattr(machine_code, "make_kernel", fails["fail"])
    f = fdiff.jit(lambda x: np.sum(np.tanh(x) / (1.0 + np.exp(x))))
    f(X)
    background.worker.wait()
    with pytest.raises(CompileError, match="no kernel today"):
        f(X)


@pytest.mark.parametrize("count", [1, 2])
def test_no_call_waits_for_the_bytecode_interpreter(cold, monkeypatch, count):
    """However long tapes have waited for one; once it is there, it runs them."""
    monkeypatch.setattr(background, "cores", lambda: count)
    monkeypatch.setattr(bytecode_tier, "waited", [100.0])
    monkeypatch.setattr(break_even, "PATIENCE", 10.0)  # no kernels
    threads, load = [], execution._load

    def noted(text):
        threads.append(background.worker.runs_here())
        return load(text)

    monkeypatch.setattr(execution, "_load", noted)
    run = tiered_execution.runner(fdiff.make_tape(lambda x: np.sum(np.sinh(x) * x), X))
    for _ in range(6):
        np.testing.assert_allclose(run([X])[0], np.sum(np.sinh(X) * X))
        background.worker.wait()
    assert run.tier == "evaluate"
    assert threads == [True]
    assert bytecode_tier.waited[0] < 100.0


def test_without_a_background_a_tape_waits_after_it_has_spent_as_much(cold, monkeypatch):
    """A short function gets its kernel before, and never waits for an interpreter."""
    monkeypatch.setenv(background.VARIABLE, "0")
    monkeypatch.setattr(bytecode_tier, "waited", [100.0])
    tier = bytecode_tier.BytecodeTier(fdiff.make_tape(lambda x: np.sum(np.cosh(x) * x), X))
    assert tier.choose(0.05, forced=False) is None
    price = bytecode_tier.price_of(tier._encoded_tape)
    assert tier.choose(bytecode_tier.EARLY * price, forced=False) is not None
    assert bytecode_tier.waited[0] == 100.0 - price


def test_calls_that_wait_for_an_interpreter_seldom_look_for_it_on_disk(cold, monkeypatch):
    asked, price_of = [], bytecode_tier.price_of
    monkeypatch.setenv(background.VARIABLE, "0")
    monkeypatch.setattr(bytecode_tier, "waited", [0.0])
    monkeypatch.setattr(bytecode_tier, "price_of", lambda tape: asked.append(1) or price_of(tape))
    tier = bytecode_tier.BytecodeTier(fdiff.make_tape(lambda x: np.sum(np.cosh(x) * x), X))
    for spent in np.linspace(1e-3, 1.0, 1000):
        assert tier.choose(spent, forced=False) is None
    assert 10 < len(asked) < 40
    monkeypatch.setattr(execution, "_functions", {tier._encoded_tape.text: None})
    assert tier.choose(1.0, forced=False) is tier._encoded_tape


def test_one_interpreter_serves_all_tapes_that_wait(cold, monkeypatch):
    monkeypatch.setattr(execution, "_families", {})
    monkeypatch.setattr(execution, "_wanted", set())
    functions = [lambda x: np.sum(np.sinh(x)), lambda x: np.sum(np.cosh(x) - x)]
    one, other = (kernels.encode(fdiff.make_tape(f, X)) for f in functions)
    assert one.program.needed < other.program.families
    monkeypatch.setattr(execution, "_load", lambda _: None)
    other.load()
    assert one.superseded
    assert not execution._wanted & one.program.needed
    again = kernels.encode(fdiff.make_tape(functions[0], X))
    assert again.text == other.text


@pytest.mark.slow
def test_interpreters_on_disk_are_known_to_later_processes(tmp_path):
    text = """
    functions = (lambda x: np.sum(np.sinh(x)), lambda x: np.sum(np.cosh(x) - x))
    tapes = [fdiff.make_tape(f, X) for f in functions]
    """
    first = """
    print(len([kernels.encode(t).load() for t in reversed(tapes)]))
    """
    later = """
    made = [kernels.encode(t) for t in tapes]
    print([m.at_hand for m in made], len({m.text for m in made}), any(m.loaded for m in made))
    """
    assert finished(textwrap.dedent(text) + textwrap.dedent(first), tmp_path) == "2\n"
    assert (
        finished(textwrap.dedent(text) + textwrap.dedent(later), tmp_path)
        == "[True, True] 2 False\n"
    )


def test_forgotten_programs_are_not_compiled(on):
    gate = threading.Event()
    background.worker.submit(background.Job(gate.wait, lambda: np.inf))
    run = paid(tiered_execution.runner(fdiff.make_tape(lambda x: np.sum(np.tan(x)), X)))
    run([X])
    fdiff.cache_clear()
    gate.set()
    background.worker.wait()
    assert fdiff.cache_info().entries == 0


def test_jobs_start_over_after_a_pause(on):
    begun, runs = threading.Event(), []

    def job():
        runs.append(None)
        begun.set()
        while len(runs) == 1:
            background.checkpoint()

    background.worker.submit(background.Job(job, lambda: 0.0))
    begun.wait()
    background.worker.pause()
    assert background.worker._thread is None
    background.worker.resume()
    background.worker.wait()
    assert len(runs) == 2


def test_the_most_urgent_comes_first(on):
    gate, order = threading.Event(), []
    background.worker.submit(background.Job(gate.wait, lambda: np.inf))
    for k in (1, 3, 2):
        job = background.Job(lambda k=k: order.append(k), lambda k=k: k)
        background.worker.submit(job)
    gate.set()
    background.worker.wait()
    assert order == [3, 2, 1]
