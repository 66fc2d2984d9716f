"""Long work says what it does, how far it is and how to stop it; pipes are silent."""

import fcntl
import io
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import threading
import time
import types
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import fdiff
from fdiff import errors
from fdiff.interpret import Interpreter
from fdiff.process import background, progress, progress_display
from fdiff.process.loop_progress import place_of, trips_of
from fdiff.process.progress import Stage
from fdiff.process.progress_display import VARIABLE, Report, Terminal
from fdiff.user_lines import user_line

BOUND = 60.0  # seconds after which something hangs
X = np.linspace(0.1, 1.0, 5)


def until(true):
    end = time.monotonic() + BOUND
    while not true():
        assert time.monotonic() < end
        user_line()  # as where operations are recorded
        time.sleep(0.005)


def watched(seconds):
    """Be at a line for so long, as where operations are recorded."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() > end)


def watchers():
    return [] if progress._watcher._thread is None else [progress._watcher._thread]


@pytest.fixture
def soon(monkeypatch):
    """What takes 20 ms is long."""
    progress._watcher.stop()
    monkeypatch.setattr(progress, "SECONDS", 0.02)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    monkeypatch.setattr(progress._watcher, "next_try", 0.0)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    yield
    until(lambda: not watchers())
    assert not progress._under_way
    progress._watcher.next_try = 0.0


class Screen:
    """A terminal: what was written to it, and what it shows."""

    def __init__(self, columns=120):
        self.master, slave = os.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stream = os.fdopen(slave, "w", buffering=1)
        self.written = ""

    def close(self):
        self.stream.close()
        os.close(self.master)

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.written += os.read(self.master, 65536).decode()
        return self.written

    def rows(self):
        """The rows on the screen."""
        rows, column = [""], 0
        for letter in self.read():
            if letter == "\n":
                rows.append("")
            elif letter == "\r":
                column = 0
            else:
                rows[-1] = rows[-1][:column].ljust(column) + letter + rows[-1][column + 1 :]
                column += 1
        return [row.rstrip() for row in rows]

    def wait(self, text):
        until(lambda: text in self.read())


@pytest.fixture
def screen(soon, monkeypatch):
    found = Screen()
    # pytest sets standard error itself before it runs a test
    seen = types.SimpleNamespace(stderr=found.stream, modules=sys.modules)
    monkeypatch.setattr(progress_display, "sys", seen)
    yield found
    found.close()


# --- the words --------------------------------------------------------------------------------

WORK = ("compiling", "grad(model)", "11,813 operations", "")
TRACE = ("tracing", "grad(american_put)", "step 341 of 1,000", "at pricing.py:31")
LONG = ("deriving", "value_and_grad(penalised_likelihood)", "2,010,582 operations",
        "at generalised_linear_models.py:1031")  # fmt: skip


@pytest.mark.parametrize(
    ("words", "elapsed", "expected", "width", "line"),
    [
        (WORK, 4.7, 12.0, 100,
         "compiling grad(model), 11,813 operations: 4 of about 12 s (39%). Ctrl-C stops."),
        (WORK, 4.7, 12.0, 79,
         "compiling grad(model), 11,813 operations: 4 of about 12 s. Ctrl-C stops."),
        (WORK, 4.7, 0.0, 100, "compiling grad(model), 11,813 operations: 4 s. Ctrl-C stops."),
        (WORK, 0.3, 0.4, 100,
         "compiling grad(model), 11,813 operations: 1 of about 1 s (75%). Ctrl-C stops."),
        (WORK, 14.2, 12.0, 100,
         "compiling grad(model), 11,813 operations: 14 s instead of 12 s (99%). Ctrl-C stops."),
        (WORK, 4.7, 12.0, 60, "compiling grad(model): 4 of about 12 s. Ctrl-C stops."),
        (WORK, 4.7, 12.0, 34, "compiling: 4 of about 12 s."),
        (WORK, 4.7, 12.0, 30, None),
        (WORK, 4.7, 12.0, 5, ""),
        (TRACE, 12.0, 35.0, 120,
         ("tracing grad(american_put), step 341 of 1,000, at pricing.py:31: 12 of about 35 s (34%)."
          " Ctrl-C stops.")),
        (TRACE, 12.0, 35.0, 79,
         "tracing grad(american_put), at pricing.py:31: 12 of about 35 s (34%)."),
        (TRACE, 150.0, 600.0, 79,
         "tracing, at pricing.py:31: 2 min 30 s of about 10 min 0 s. Ctrl-C stops."),
        (LONG, 30.0, 0.0, 79,
         "deriving, at generalised_linear_models.py:1031: 30 s. Ctrl-C stops."),
    ],
)  # fmt: skip
def test_a_line_keeps_stage_line_and_time_whatever_the_width(words, elapsed, expected, width, line):
    found = Report(*words, elapsed, expected, True, None).line(" Ctrl-C stops.", width)
    assert found == ("4 of about 12 s." if line is None else line and f"fdiff: {line}")
    assert len(found) <= width


@pytest.mark.parametrize("words", [WORK, TRACE, LONG])
@pytest.mark.parametrize("expected", [0.0, 12.0, 3e3])
def test_no_word_is_cut_at_any_width(words, expected):
    """What is left out is left out whole: each word of the line is one of the longest line's."""
    report = Report(*words, 30.0, expected, True, None)
    whole = set(report.line(" Ctrl-C stops.").replace(",", "").replace(":", "").split())
    for width in range(120):
        line = report.line(" Ctrl-C stops.", width)
        assert len(line) <= width
        assert {w.rstrip(".") for w in line.replace(",", "").replace(":", "").split()} <= {
            w.rstrip(".") for w in whole
        }


def test_no_estimate_claims_the_end():
    for elapsed in (0.0, 1.0, 9.99, 10.0, 10.01, 1e6):
        report = Report("compiling", "f", "", "", elapsed, 10.0, True, None)
        assert report.fraction <= 0.99
        assert "100%" not in report.line("")
    assert Report("tracing", "f", "", "", 3.0, 0.0, True, None).fraction is None


def test_only_the_main_thread_is_told_of_an_interrupt():
    report = Report("tracing", "f", "", "", 3.0, 0.0, False, None)
    assert "Ctrl-C" not in report.line(" Ctrl-C stops.")


# --- estimates --------------------------------------------------------------------------------


def told(stage, seconds, frame=None):
    """What is said of a stage after so many seconds, in which the user's code came to `frame`."""
    if frame is not None:
        stage.read(frame, stage._begin + seconds)
    return stage.report(stage._begin + seconds, threading.get_ident())


def looped(n, xs, look):
    total = 0.0
    for step in range(2 * n):
        for k, x in enumerate(xs):
            total += x
            look(step, k)
    return total


def test_the_end_of_a_loop_follows_from_its_trips():
    """By a clock that advances 1 s a trip of the inner loop, of which there are 60."""
    seen = []

    def look(step, k):
        report = told(stage, 1.0 + step * 3 + k, sys._getframe(1))
        seen.append((report.amount, report.expected, report.place))

    stage = Stage("tracing", "grad(looped)", shows_line=True)
    with stage:
        looped(10, [1.0, 2.0, 3.0], look)
    assert [count for count, _, _ in seen[::3]] == [f"step {k} of 20" for k in range(1, 21)]
    assert seen[0][1] == 0.0  # a guess
    assert all(abs(expected - 60.0) <= 30.0 for _, expected, _ in seen[3:])
    assert all(abs(expected - 60.0) <= 6.0 for _, expected, _ in seen[12:])
    line = looped.__code__.co_firstlineno + 5
    assert {place for _, _, place in seen} == {f"at test_progress.py:{line}"}


def rows(x, look):
    for _i in range(x.shape[0]):
        look()
    for _i in range(1, len(x) - 1, 2):
        look()
    while len(x):
        for _i in range(3):
            look()
        break
    for _i in x:
        look()
    for _i in range(10**30):  # more than `len` counts
        look()
        break


def test_loops_that_do_not_tell_give_no_estimate():
    seen = []

    def look():
        seen.append(trips_of([place_of(sys._getframe(1))]))

    rows(X, look)
    shapes, odd, inside, values = seen[:5], seen[5:7], seen[7:10], seen[10:]
    assert [(t.done, t.total, t.fraction) for t in shapes] == [(k, 5, k / 5) for k in range(5)]
    assert [(t.done, t.total) for t in odd] == [(0, 2), (1, 2)]
    assert inside + values == [None] * 9


def triangle(n, look):
    for step in range(n):
        for i in range(n - step):
            look(step, i)


@pytest.mark.parametrize("n", [20, 300])
def test_trips_weigh_as_much_as_the_loop_inside_of_them(n):
    """As of an American put: what is left of a triangle is not what is left of its rows."""
    seen, done, whole = [], 0, n * (n + 1) // 2

    def look(step, i):
        nonlocal done
        if not done % (n // 4):
            seen.append((trips_of([place_of(sys._getframe(1))]), step, done / whole))
        done += 1

    triangle(n, look)
    assert all((t.done, t.total) == (step, n) for t, step, _ in seen)
    assert all(abs(t.fraction - share) < 0.03 for t, _, share in seen)


def test_loops_around_the_call_do_not_count(screen):
    """Those of the script that calls fdiff, and those of a function that has been left."""

    def call():
        with Stage("tracing", "grad(model)", shows_line=True):
            screen.wait("fdiff: tracing grad(model)")

    for _ in range(2):
        call()
    assert "step" not in screen.read()


def test_a_stage_of_parts_tells_how_many_are_done():
    stage = Stage("running", "hessian(model)", total=200, category="")
    with stage:
        assert (told(stage, 3.0).amount, told(stage, 3.0).expected) == ("0 of 200 sweeps", 0.0)
        stage._begin -= 3.0
        stage.advance(50)
        for seconds in (3.0, 5.0):  # until more are done, the estimate stays
            assert told(stage, seconds).amount == "50 of 200 sweeps"
            assert told(stage, seconds).expected == pytest.approx(12.0, rel=0.01)


@pytest.mark.parametrize(
    ("busy", "expected"), [(5.0, 12.0), (1.0, 60.0), (9.0, 12.0), (0.0, 240.0)]
)
def test_other_programs_beside_make_a_prediction_longer(monkeypatch, busy, expected):
    """5 s have gone, of which the processor has worked so many for this process."""
    monkeypatch.setattr(progress, "process_time", lambda: 100.0)
    stage = Stage("compiling", "grad(model)", seconds=12.0)
    with stage:
        monkeypatch.setattr(progress, "process_time", lambda: 100.0 + busy)
        assert told(stage, 0.5).expected == 12.0
        assert told(stage, 5.0).expected == pytest.approx(expected)


def test_an_interpreted_tape_tells_its_node():
    """The iterator over its steps says how many are left."""
    seen = []

    def looks(x):
        seen.append(told(stage, 1.0).amount)
        return x

    interpreter = Interpreter(fdiff.make_tape(lambda x: np.sin(np.cos(np.tanh(x))), X))
    steps = iter([(looks, *rest) for _, *rest in interpreter.steps])
    stage = Stage("running", "jit(f)", counter=steps, category="")
    with stage:
        interpreter.run([X], steps)
    assert seen == [f"{k} of 3 operations" for k in (1, 2, 3)]


def test_the_seconds_of_a_plan_follow_from_the_length_of_the_trace():
    deriving = lambda operator: operator(np.sum).program.effort.stage("", 1_000_000)
    assert deriving(fdiff.grad).seconds == pytest.approx(29.0)
    assert deriving(fdiff.hvp).seconds == pytest.approx(70.0)
    assert deriving(fdiff.hessian).seconds == 0.0


def test_the_end_of_a_plan_follows_from_its_sweep(monkeypatch):
    """A sweep begins after 2 s and takes 4 s a tenth. Before it begins, 3 s are predicted."""

    def swept():
        seen.append((plan.what, told(sweep, 0.0).expected))
        for done in order:
            report = told(sweep, 4.0 * done)
            seen.append((report.what, report.expected))

    monkeypatch.setattr(Stage, "_predicted", lambda stage, elapsed: stage._learned or 3.0)
    seen, plan = [], Stage("deriving", "hvp(f)", sweeps=2.0)
    with plan:
        order = iter(range(1, 11))
        sweep = Stage(counter=order)
        with sweep:
            sweep._begin = plan._begin + 2.0
            swept()
    assert {what for what, _ in seen} == {"deriving"}
    weighed = [3.0, 0.4 * 82.0 + 0.6 * 3.0, 0.8 * 82.0 + 0.2 * 3.0, *[82.0] * 8]
    assert [expected for _, expected in seen] == pytest.approx(weighed)


# --- where it is shown ------------------------------------------------------------------------


def test_a_terminal_shows_one_line_and_is_blank_in_the_end(screen):
    with Stage("preparing", "grad(model)"):
        with Stage("compiling", size=11813, seconds=100.0):
            screen.wait("fdiff: compiling grad(model), 11,813 operations: 1 of about 100 s")
        nodes = [0] * 1234
        with Stage("tracing", nodes=nodes, shows_line=True):
            screen.wait("fdiff: tracing grad(model), 1,234 operations so far, at test_progress.py:")
        assert len(screen.rows()) == 1
        assert screen.rows()[0].endswith("Ctrl-C stops.")
    assert screen.rows() == [""]


def test_a_stage_within_a_generator_is_shown(screen):
    @contextmanager
    def solving():
        with Stage("solving", "minimize"):
            yield

    with solving():
        screen.wait("fdiff: solving minimize: 1 s.")
    assert screen.rows() == [""]


def test_a_line_is_never_wider_than_the_terminal():
    screen = Screen(columns=50)
    line = Terminal(screen.stream)
    for elapsed in range(1, 2000, 100):
        line.show(Report(*WORK, float(elapsed), 0.0, True, None))
        assert len(screen.rows()) == 1
        assert len(screen.rows()[0]) < 50
    line.erase()
    assert screen.rows() == [""]
    screen.close()


@pytest.mark.parametrize("kind", ["warning", "error"])
def test_what_is_said_meanwhile_has_a_line_of_its_own(screen, monkeypatch, kind):
    def work():
        with Stage("compiling", "grad(model)"):
            screen.wait("compiling")
            if kind == "error":
                raise ValueError("said meanwhile")
            errors.warn("said meanwhile", UserWarning)
            until(lambda: screen.rows()[-1].startswith("fdiff: compiling"))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(
            warnings, "showwarning", lambda text, *_, **__: screen.stream.write(f"{text}\n")
        )
        try:
            work()
        except ValueError as error:
            screen.stream.write(f"{error}\n")
    assert screen.rows() == ["said meanwhile", ""]


def test_when_asked_for_pipes_get_a_line_for_each_stage(soon, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Stage("preparing", "grad(model)"):
        with Stage("tracing", shows_line=True):
            watched(0.2)
        with Stage("compiling", size=7, seconds=100.0):
            time.sleep(0.2)
    found = sys.stderr.getvalue()
    assert "\r" not in found
    tracing, compiling = [line for line in found.splitlines() if "preparing" not in line]
    assert tracing.startswith("fdiff: tracing grad(model), at test_progress.py:")
    assert compiling.startswith("fdiff: compiling grad(model), 7 operations: 1 of about 100 s")


class Fake:
    """A kernel of Jupyter, as far as fdiff looks at it."""

    def __init__(self, monkeypatch):
        self.shown = []
        names = ("IPython", "IPython.display")
        ipython, display = (types.ModuleType(name) for name in names)
        shell = types.SimpleNamespace(kernel=object())
        ipython.get_ipython, ipython.display, display.display = lambda: shell, display, self.display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, data, *, raw, display_id, update):
        assert raw
        self.shown.append((display_id, update, data))


def test_jupyter_shows_a_bar_and_clears_it(soon, monkeypatch):
    fake = Fake(monkeypatch)
    with Stage("compiling", "grad(<lambda>)", seconds=0.05):
        until(lambda: len(fake.shown) > 2)
        until(lambda: 'value="0.99"' in fake.shown[-1][2]["text/html"])
    assert len({name for name, _, _ in fake.shown}) == 1
    assert [update for _, update, _ in fake.shown] == [False] + [True] * (len(fake.shown) - 1)
    *shown, last = [data for _, _, data in fake.shown]
    assert last == {"text/plain": "", "text/html": ""}
    for data in shown:
        assert data["text/plain"].startswith("fdiff: compiling grad(<lambda>): ")
        assert data["text/plain"].endswith("Interrupt the kernel to stop.")
        assert data["text/html"].startswith('<progress value="')
        assert "&lt;lambda&gt;" in data["text/html"]


def test_what_cannot_be_shown_does_not_disturb_the_work(soon, monkeypatch):
    fake, tried = Fake(monkeypatch), []

    def fails(*_, **__):
        tried.append(1)
        raise RuntimeError("no connection")

    monkeypatch.setattr(sys.modules["IPython.display"], "display", fails)
    with Stage("compiling", "grad(model)"):
        until(lambda: tried)
        time.sleep(0.05)
    assert len(tried) == 1
    assert not fake.shown


# --- where nothing is shown -------------------------------------------------------------------


@pytest.mark.parametrize("how", ["pipe", "closed", "none", "off", "dumb"])
def test_nothing_is_shown_and_no_thread_started(soon, monkeypatch, how):
    screen = Screen()
    stream = io.StringIO() if how in ("pipe", "closed") else screen.stream
    if how == "closed":
        stream.close()
    monkeypatch.setattr(sys, "stderr", None if how == "none" else stream)
    if how == "off":
        monkeypatch.setenv(VARIABLE, "0")
    if how == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    with Stage("compiling", "grad(model)"):
        time.sleep(0.1)
        assert not watchers()
    assert how != "pipe" or not stream.getvalue()
    assert not screen.read()
    screen.close()


def test_quick_work_shows_nothing_and_the_thread_ends(screen, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 1.0)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    for _ in range(20):
        with Stage("tracing", "grad(model)"):
            fdiff.grad(lambda x: np.sum(x * x))(X)
    assert len(watchers()) <= 1
    until(lambda: not watchers())
    assert not screen.read()


def test_jobs_in_the_background_show_nothing(screen):
    inside = []

    def job():
        with Stage("compiling", "grad(model)"), Stage("scheduling"):
            time.sleep(0.1)
            inside.append(dict(progress._under_way))

    background.worker.submit(background.Job(job, lambda: 0.0))
    background.worker.wait()
    assert inside == [{}]
    assert not screen.read()


def test_another_value_of_the_variable_is_refused(soon, monkeypatch):
    monkeypatch.setenv(VARIABLE, "yes")
    with pytest.raises(errors.InputError, match="FDIFF_PROGRESS: 'yes' is neither 0 nor 1"):
        fdiff.grad(lambda x: np.sum(x * x * x))(X)
    assert not progress._under_way


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX, which other tests import, warns of it
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_is_silent_and_its_parent_goes_on(screen):
    with Stage("compiling", "grad(parent)"):
        screen.wait("compiling grad(parent)")
        child = os.fork()
        if not child:
            try:
                with Stage("compiling", "grad(child)"), Stage("scheduling"):
                    time.sleep(0.2)
                    good = not watchers()
                os._exit(0 if good else 1)
            finally:
                os._exit(2)
        count = screen.read().count("\r")
        until(lambda: screen.read().count("\r") > count)
        assert os.waitpid(child, 0)[1] == 0
    assert "grad(child)" not in screen.read()
    assert screen.rows() == [""]


def test_a_stage_whose_statement_was_never_entered_is_forgotten(screen):
    def interrupted():
        Stage("compiling", "grad(model)").__enter__()

    interrupted()
    until(lambda: not progress._under_way)
    assert not screen.rows()[-1]


# --- what is a stage --------------------------------------------------------------------------


def begun(monkeypatch):
    """The words of every stage that begins."""
    found, enter = [], Stage.__enter__

    def spied(stage):
        enter(stage)
        chain = [*stage.chain()]
        what = next((s.what for s in chain if s.what), "")
        found.append(f"{what} {next((s.of for s in chain if s.of), '')}")

    monkeypatch.setattr(Stage, "__enter__", spied)
    return found


OPERATORS = {
    "grad": "deriving",
    "jacobian": "deriving",
    "hessian": "deriving",
    "hvp": "deriving",
    "vmap": "preparing",
}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_step_of_the_way_to_a_kernel_is_a_stage(monkeypatch, name):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.setenv("FDIFF_CACHE_DIR", "off")
    fdiff.cache_clear()
    words = begun(monkeypatch)

    def model(x):
        return np.sum(np.cos(x) * x) * len(name)

    given = (X, X) if name == "hvp" else (X[:, None],) if name == "vmap" else (X,)
    getattr(fdiff, name)(model)(*given)
    call = f"{name}(model)"
    for what in ("tracing", OPERATORS[name], "preparing", "scheduling", "compiling"):
        assert f"{what} {call}" in words
    assert not [w for w in words if not w.endswith(call)]


def test_a_call_that_is_taken_again_begins_no_stage(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    slope = fdiff.grad(lambda x: np.sum(np.tanh(x)))
    slope(X)
    words = begun(monkeypatch)
    slope(X)
    assert not words


# --- interrupts -------------------------------------------------------------------------------

SCRIPT = """
import sys, numpy as np, fdiff
from fdiff.process import progress
progress.SECONDS = progress.INTERVAL = 0.001
def model(x):
    for _ in range(BUSY):
        pass
    for k in range(60):
        x = np.sin(x) + 0.1 * x[::-1] * x[k % 5]
    return np.sum(x)
x = np.linspace(0.1, 1.0, 6)
g = fdiff.jit(fdiff.grad(model))
try:
    g(x)
    print("finished")
except KeyboardInterrupt:
    print("interrupted")
BUSY = 0
e = np.eye(6)[2] * 1e-6
slope = (model(x + e) - model(x - e)) / 2e-6
print("right" if abs(g(x)[2] - slope) < 1e-6 * abs(slope) + 1e-6 else "wrong")
"""


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["tracing", "scheduling", "compiling"])
def test_an_interrupt_stops_the_stage_and_breaks_nothing(tmp_path, stage):
    file = tmp_path / "script.py"
    busy = 10**9 if stage == "tracing" else 0
    file.write_text(f"BUSY = {busy}\n" + textwrap.dedent(SCRIPT))
    screen = Screen()
    given = {**os.environ, VARIABLE: "", "FDIFF_CACHE_DIR": "off", "TERM": "xterm"}
    call, ends = [sys.executable, str(file)], {"stderr": screen.stream, "stdout": subprocess.PIPE}
    with subprocess.Popen(call, env=given, text=True, **ends) as process:
        screen.wait(f"fdiff: {stage} ")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
    assert out == "interrupted\nright\n", screen.read()
    assert not screen.rows()[-1]
    screen.close()
