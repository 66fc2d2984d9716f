"""Children of a process whose other threads import or compile: none hangs, all of them work."""

import ast
import contextlib
import gc
import importlib
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import forked
import pytest
from test_layout import MODULES, TREES, fresh_process

import fdiff
from fdiff.errors import ForkError
from fdiff.lazy_attributes import cached_property
from fdiff.process import forking
from fdiff.process.garbage_collection import collector_paused

SCRIPT = Path(__file__).parents[1] / "forked.py"
WAYS = ["fork", "events", "forkserver", "spawn"] if hasattr(os, "fork") else ["spawn"]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on this system")


def children(way, seed, tries, folder):
    """What became of children made while a thread differentiates for the first time."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FDIFF_")}
    paths = [str(Path(fdiff.__file__).parents[1]), kept.get("PYTHONPATH", "")]
    kept |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "FDIFF_CACHE_DIR": str(folder)}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(SCRIPT), way]
    running = subprocess.Popen(
        [*command, str(seed), str(tries)],
        env=kept,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, said = running.communicate(timeout=250)
    except subprocess.TimeoutExpired:  # the parent itself hangs: it shows where, and ends
        running.send_signal(forked.SHOW_STACKS)
        time.sleep(1.0)
        running.kill()
        raise AssertionError(running.communicate()[1]) from None
    assert running.returncode == 0, said
    assert "hangs" not in out, said
    return out.split()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_children_at_any_moment(way, tmp_path):
    tries = 6 if way in ("fork", "events") else 2
    assert children(way, 1, tries, tmp_path) == ["good"] * tries


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("way", WAYS)
def test_two_hundred_children_at_any_moment(way, seed, tmp_path):
    tries = 8 if way in ("fork", "events") else 2
    folder = "off" if seed % 3 == 2 else tmp_path
    assert children(way, seed, tries, folder) == ["good"] * tries
    if not seed % 3:  # kernels are on disk now
        assert children(way, seed + 10, tries, folder) == ["good"] * tries


def lazy_imports(tree):
    """Imports in functions, each with whether it is inside ``with no_fork``."""

    def walk(node, *, inside, held):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom) and inside:
                yield child.lineno, held
            named = child.func if isinstance(child, ast.Call) else None
            if getattr(named, "id", getattr(named, "attr", "")) in {"import_module", "exec_module"}:
                yield child.lineno, held
            with_it = isinstance(child, ast.With) and "no_fork" in ast.unparse(child.items[0])
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from walk(child, inside=inside or function, held=held or with_it)

    return walk(tree, inside=False, held=False)


@pytest.mark.slow
def test_whatever_is_imported_late_is_imported_where_nothing_forks():
    """Modules that are imported with `fdiff` itself are waited for, too."""
    found = {
        f"{module}:{line}": held
        for module, tree in TREES.items()
        if module != "fdiff.process.forking"
        for line, held in lazy_imports(tree)
    }
    assert sum(found.values()) > 10
    assert [where for where, held in found.items() if not held] == []


def test_nothing_of_ours_computes_attributes_under_a_lock():
    """Python 3.11's `functools.cached_property` does. `capture` serves those of users."""
    named = [
        module
        for module, path in MODULES.items()
        if not module.startswith("fdiff.capture.")
        and "cached_property" in path.read_text(encoding="utf-8")
        and "lazy_attributes import cached_property" not in path.read_text(encoding="utf-8")
    ]
    assert named == ["fdiff.lazy_attributes"]


def test_attributes_are_computed_once():
    class Square:
        """What it says."""

        def __init__(self, side):
            self.side, self.times = side, 0

        @cached_property
        def area(self):
            """Of the square."""
            self.times += 1
            return self.side**2

    one, other = Square(2), Square(3)
    assert (one.area, other.area, one.area) == (4, 9, 4)
    assert (one.times, other.times) == (1, 1)
    assert isinstance(Square.area, cached_property)
    assert Square.area.__doc__ == "Of the square."


def in_child(function):
    """The exit status of a forked child that runs `function`: 0 if it gives something true."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if function() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def region():
    """A region of its own: what happens to it happens to nobody else."""
    return forking.NoFork()


def test_threads_enter_together_and_a_fork_waits_for_all(region):
    region.__enter__()
    inside, leave, log = threading.Barrier(3), threading.Event(), []

    def work():
        with region, region:
            inside.wait()
            leave.wait()
            log.append("left")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    threading.Timer(0.05, leave.set).start()
    region.before()  # although this thread is inside
    assert log == ["left", "left"]
    region.after_in_parent()
    region.__exit__()


def test_nobody_enters_while_a_thread_forks(region):
    region.before()
    log = []

    def work():
        with region:
            log.append("entered")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.05)
    assert log == []
    region.after_in_parent()
    thread.join()
    assert log == ["entered"]


def test_handlers_run_while_nobody_is_inside(region):
    log = []
    region.at_fork(*(lambda word=word: log.append(word) for word in ("before", "parent", "child")))
    region.before()
    region.after_in_parent()
    region.before()
    region.after_in_child()
    assert log == ["before", "parent", "before", "child"]


def importing(body, tmp_path, monkeypatch):
    """A thread that imports a module with this body, as one of those that fdiff needs."""
    (tmp_path / "slow_module.py").write_text(body, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(forking, "_NEEDED", frozenset(["slow_module"]))
    monkeypatch.delitem(sys.modules, "slow_module", raising=False)
    thread = threading.Thread(target=importlib.import_module, args=["slow_module"])
    thread.start()
    while not hasattr(sys.modules.get("slow_module"), "begun"):
        time.sleep(0.001)
    return thread


def test_an_import_may_enter_while_a_fork_waits_for_it(region, tmp_path, monkeypatch):
    """A thread that imports what fdiff needs, for its own code, does not wait for whom it keeps."""
    monkeypatch.setattr(forking, "no_fork", region)
    body = """
import time
from fdiff.process.forking import no_fork
begun = True
time.sleep(0.05)
with no_fork:
    done = True
"""
    thread = importing(body, tmp_path, monkeypatch)
    region.before()
    assert sys.modules["slow_module"].done
    assert not region._torn
    region.after_in_parent()
    thread.join()


def test_an_import_may_log_while_a_fork_waits_for_it(region, tmp_path, monkeypatch):
    """`logging` takes its lock before a fork, and before we wait if it was imported after us."""
    body = "import logging, time; begun = True; time.sleep(0.05); logging.getLogger('slow_module')"
    with logging._lock:
        thread = importing(body, tmp_path, monkeypatch)
        region.before()
        assert logging._lock._is_owned()
        assert not thread.is_alive()
    assert not region._torn
    region.after_in_parent()


def test_an_import_that_waits_for_the_thread_that_forks_does_not_hold_it_up(
    region, tmp_path, monkeypatch
):
    monkeypatch.setattr(forking, "STANDSTILL", 0.05)
    monkeypatch.setattr(forking, "free", free := threading.Lock(), raising=False)
    with free:
        body = "from fdiff.process.forking import free\nbegun = True\nwith free: pass"
        thread = importing(body, tmp_path, monkeypatch)
        region.before()
        assert region._torn
        region.after_in_parent()
    thread.join()
    region.before()
    assert not region._torn


def test_a_fork_starts_over_if_an_import_began_meanwhile(region, monkeypatch):
    answers, log = [set(), {("numpy", 1)}, {("numpy.linalg", 1)}, set(), set()], []
    monkeypatch.setattr(forking, "_importers", lambda: answers.pop(0))
    region.at_fork(*(lambda word=word: log.append(word) for word in ("before", "parent", "child")))
    region.before()
    region.after_in_parent()
    assert log == ["before", "parent", "before", "parent"]
    assert answers == []


def test_threads_enter_again_if_a_handler_fails(region):
    def fail():
        raise OSError("as it is")

    region.at_fork(lambda: None, fail, lambda: None)
    region.before()
    with pytest.raises(OSError, match="as it is"):
        region.after_in_parent()
    with region:
        pass
    region.before()
    assert region._forkers == {0: threading.get_ident()}


@contextlib.contextmanager
def inside_elsewhere(region, leave):
    """Another thread is inside until `leave` is set."""
    inside = threading.Event()

    def stay():
        with region:
            inside.set()
            leave.wait()

    other = threading.Thread(target=stay)
    other.start()
    inside.wait()
    yield other
    other.join()


def test_a_child_forgets_other_threads(region):
    leave = threading.Event()
    with region, inside_elsewhere(region, leave) as other:
        assert other.ident in region._inside
        region.after_in_child()
        assert list(region._inside) == [threading.get_ident()]
        leave.set()
    assert region._inside == {}


def test_a_fork_that_cannot_wait_any_longer_tells_its_child(region, monkeypatch):
    monkeypatch.setattr(forking, "PATIENCE", 0.02)
    leave = threading.Event()
    with inside_elsewhere(region, leave):
        region.before()
        region.after_in_parent()
        with region:
            pass  # the parent goes on
        region.before()
        region.after_in_child()
        leave.set()
    with pytest.raises(ForkError, match="nothing can be compiled here"):
        region.__enter__()


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings(r"ignore:os.fork\(\) was called:RuntimeWarning")  # JAX's own threads
def test_the_collector_runs_in_a_child_of_a_thread_that_did_not_pause_it():
    paused, leave = threading.Event(), threading.Event()

    def work():
        with collector_paused():
            paused.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    paused.wait()
    assert not gc.isenabled()
    assert in_child(gc.isenabled) == 0
    leave.set()
    thread.join()
    assert gc.isenabled()
    with collector_paused():
        assert in_child(lambda: not gc.isenabled()) == 0
    gc.disable()
    assert in_child(lambda: not gc.isenabled()) == 0
    gc.enable()


def test_kernels_that_are_dropped_are_released_where_llvm_is_free():
    """A thread that drops one may do so while another is in LLVM, or is forking."""
    code = """
import numpy as np, fdiff
from fdiff import kernels
from fdiff.kernels.llvm import machine
kernel = kernels.compile(fdiff.make_tape(lambda x: np.sin(x) * 2.5, np.ones(3)), ("C",))
kernel(np.ones(3))
before = len(machine._dropped)
fdiff.cache_clear()
del kernel
dropped = len(machine._dropped)
fdiff.jit(np.tanh)(np.ones(3))
print(before, dropped > 0, len(machine._dropped))
"""
    assert fresh_process(code) == "0 True 0"
