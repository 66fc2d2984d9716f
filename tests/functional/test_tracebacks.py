"""Errors show the user's frames and one of fdiff; warnings point at the user's line."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff.errors import RetraceWarning
from fdiff.generated_text import defined
from fdiff.user_lines import is_own

X = np.ones(3)
PACKAGE = str(Path(fdiff.__file__).parent)


def helper(x):
    return x @ np.ones(7)


def faulty(x):
    y = np.sin(x)
    return np.sum(helper(y))


def missing(x):
    return np.sum(x) + {}["k"]


def chained(x):
    try:
        return helper(x)
    except ValueError as error:
        raise RuntimeError("no such model") from error


def leaves(x):
    return np.sum(x) * np.asarray(x, dtype=object)


CALLS = {
    "grad": lambda f: fdiff.grad(f)(X),
    "value_and_grad": lambda f: fdiff.value_and_grad(f)(X),
    "jacobian": lambda f: fdiff.jacobian(f)(X),
    "jacobian now": lambda f: fdiff.jacobian(f, X),
    "hessian now": lambda f: fdiff.hessian(f, X),
    "vjp": lambda f: fdiff.vjp(f)(X, 1.0),
    "vjp now": lambda f: fdiff.vjp(f, X, 1.0),
    "jvp now": lambda f: fdiff.jvp(f, X, X),
    "hvp": lambda f: fdiff.hvp(f)(X, X),
    "hvp now": lambda f: fdiff.hvp(f, X, X),
    "vhp now": lambda f: fdiff.vhp(f, X, X),
    "jacfwd": lambda f: fdiff.jacfwd(f)(X),
    "jit": lambda f: fdiff.jit(f)(X),
    "vmap": lambda f: fdiff.vmap(f)(np.ones((2, 3))),
    "nested": lambda f: fdiff.grad(lambda x: np.sum(fdiff.grad(f)(x)))(X),
    "compile": lambda f: fdiff.grad(f).compile(X),
    "make_tape": lambda f: fdiff.make_tape(f, X),
    "source": lambda f: fdiff.source(f, X),
    "gradcheck": lambda f: fdiff.gradcheck(f, X),
    "argnums": lambda f: fdiff.grad(f, argnums="a"),
    "axes": lambda f: fdiff.vmap(f, in_axes="a"),
    "no function": lambda f: fdiff.jacobian(3, X),
    "no point": lambda f: fdiff.hessian(f, None),
}  # fmt: skip


def frames(error):
    return [f.filename for f in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("f", [faulty, missing, chained, leaves])
def test_one_frame_of_fdiff(f, call):
    with pytest.raises(Exception) as caught:
        CALLS[call](f)
    files = frames(caught.value)
    assert sum(name.startswith(PACKAGE) for name in files) == 1
    if (
        f is faulty
        and "arg" not in call
        and "no" not in call.split()
        and call not in ("axes", "gradcheck")
    ):
        assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][-2:] == [
            "faulty",
            "helper",
        ]


def test_causes_are_trimmed_and_kept():
    with pytest.raises(RuntimeError, match="no such model") as caught:
        fdiff.grad(chained)(X)
    assert isinstance(caught.value.__cause__, ValueError)
    assert not any(name.startswith(PACKAGE) for name in frames(caught.value.__cause__))
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count(PACKAGE) == 1


def test_all_frames_on_demand(monkeypatch):
    monkeypatch.setenv("FDIFF_TRACEBACK", "full")
    with pytest.raises(ValueError, match="mismatch") as caught:
        fdiff.grad(faulty)(X)
    assert sum(name.startswith(PACKAGE) for name in frames(caught.value)) > 5


def test_errors_in_kernels_and_later_calls():
    solve = fdiff.grad(lambda a: np.sum(np.linalg.solve(a, np.ones(2))))
    for _ in range(40):
        solve(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError) as caught:
        solve(np.zeros((2, 2)))
    assert sum(name.startswith(PACKAGE) for name in frames(caught.value)) == 1


ENDLESS = """
import numpy as np, fdiff, sys
def f(x):
    print("begun", flush=True)
    while True:
        pass
fdiff.grad(f)(1.0)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are sent as POSIX has them")
def test_an_interrupt_is_as_short(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with subprocess.Popen([sys.executable, str(script)], stdout=-1, stderr=-1, text=True) as child:
        try:
            assert child.stdout.readline() == "begun\n"
            time.sleep(0.2)
            child.send_signal(signal.SIGINT)
            text = child.communicate(timeout=60)[1]
        finally:
            child.kill()
    assert "KeyboardInterrupt" in text
    assert text.count(PACKAGE) == 1


def test_warnings_point_at_the_users_line_once_for_each_function(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("2.0")

    def reads(x):
        return x * float(path.read_text())

    def reads_too(x):
        return x - float(path.read_text())

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for f in (reads, reads_too):
            slope = fdiff.grad(f)
            for _ in range(3):
                slope(1.0)
    assert [(w.category, w.filename) for w in caught] == [(RetraceWarning, __file__)] * 2
    first = reads.__code__.co_firstlineno
    assert caught[0].lineno == first + 1


def test_numpys_warnings_point_there_too():
    def f(x):
        return np.sum((x * 1j).astype(float))

    with pytest.warns(np.exceptions.ComplexWarning) as caught:
        fdiff.grad(f)(X)
    assert caught[0].filename == __file__


def test_another_thread():
    found = []

    def run():
        try:
            fdiff.grad(faulty)(X)
        except ValueError as error:
            found.append(frames(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert sum(name.startswith(PACKAGE) for name in found[0]) == 1


def test_an_instruction_without_a_line_raises_what_it_raised():
    """A signal handler may raise at one; `tb_lineno` is None there."""

    def f(x):
        raise KeyError(x.ndim)

    f.__code__ = f.__code__.replace(co_linetable=b"")
    with pytest.raises(KeyError, match="1") as caught:
        fdiff.grad(f)(np.ones(3))
    assert caught.value.__traceback__ is not None


def test_generated_functions_show_their_lines_as_files_of_fdiff():
    text = "def halve(x):\n    y = x + 1\n    return y / 0\n"
    with pytest.raises(ZeroDivisionError) as caught:
        defined("halve", text, {})(2)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.line, last.name, is_own(last.filename)) == ("return y / 0", "halve", True)
    assert defined("halve", text, {}).__code__ is defined("halve", text.split("\n"), {}).__code__
