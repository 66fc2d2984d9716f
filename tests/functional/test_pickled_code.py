"""Functions that cloudpickle sends to other processes: errors there name file, line and text."""

import json
import os
import pickle
import subprocess
import sys
import textwrap

import cloudpickle
import numpy as np
import pytest

import fdiff

SENDER = """import sys, cloudpickle, functools, numpy as np, fdiff

def helper(x):
    return np.sum(x).view(np.int64)  # in a helper

def plain(x):
    y = 2.0 * x
    return helper(y)

class Model:
    def __call__(self, x):
        return self.inner(x)

    def inner(self, x):
        return np.sum(x.view(np.int64))  # in a method

def maker(factor):
    def nested(x):
        return np.sum((lambda z: (factor * z).view(np.int64))(x))  # in a lambda
    return nested

def weighted(k, x):
    return np.sum(k * x.view(np.int64))  # in a partial

def raising(x):
    if x[0] > 0.0:
        raise ValueError("mine")  # of the user

def warning(x):
    return np.sum(x) + sys._getframe().f_lineno  # read at each call

@fdiff.grad
def decorated(x):
    return np.sum(x.view(np.int64))  # under a decorator

def calling(x):
    return decorated(x)

functions = [
    fdiff.grad(plain), fdiff.grad(Model()), fdiff.jit(Model().inner), fdiff.hessian(maker(2.0)),
    fdiff.grad(functools.partial(weighted, 3.0)), fdiff.grad(fdiff.grad(plain)), decorated, calling,
    fdiff.njit(fdiff.grad(maker(2.0))), fdiff.grad(raising), fdiff.grad(warning),
]
sent = [cloudpickle.dumps(functions), *map(cloudpickle.dumps, functions)]
open("payload", "wb").write(cloudpickle.dumps(sent))
"""
WHERE = [  # a comment of the line that is to be named
    "in a helper", "in a method", "in a method", "in a lambda", "in a partial", "in a helper",
    "under a decorator", "under a decorator", "in a lambda", "of the user", "read at each call",
]  # fmt: skip
READER = """
import json, pickle, sys, traceback, warnings
import numpy as np

def said(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            function(np.ones(2))
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            return [str(error), *getattr(error, "__notes__", ())], trace
    return [str(w.message) for w in caught], "".join(warnings.formatwarning(
        w.message, w.category, w.filename, w.lineno) for w in caught)

together, *single = pickle.loads(open("payload", "rb").read())
every = [*pickle.loads(together), *map(pickle.loads, single)]
print("SAID", json.dumps(list(map(said, every))))
"""
CELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from ipykernel.compiler import XCachingCompiler
from traitlets.config import Config

shell = InteractiveShell.instance(
    compiler_class=XCachingCompiler, config=Config(HistoryManager={"enabled": False})
)
shell.run_cell("1", store_history=True)
assert shell.run_cell(open(sys.argv[1]).read(), store_history=True).success
"""


def run(folder, *call):
    environment = {**os.environ, "IPYTHONDIR": str(folder), "PYTHONWARNINGS": "default"}
    done = subprocess.run(
        [sys.executable, *call], cwd=folder, env=environment, text=True, capture_output=True,
        check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("origin", ["model.py", "<string>", "In [2]"])
def test_errors_in_another_process_name_the_line_of_the_sender(origin, tmp_path):
    source = tmp_path / "model.py"
    source.write_text(SENDER)
    run(tmp_path, *{
        "model.py": ("model.py",),
        "<string>": ("-c", SENDER),
        "In [2]": ("-c", CELL, "model.py"),
    }[origin])  # fmt: skip
    source.unlink()
    said = json.loads(run(tmp_path, "-c", READER).partition("SAID ")[2])
    lines = SENDER.split("\n")
    shown = origin != "<string>"  # which has a text in some versions of Python
    assert len(said) == 2 * len(WHERE)
    assert said.pop() == [[], ""]  # a warning is given once
    for where, (messages, trace) in zip(2 * WHERE, said, strict=False):
        number = next(k for k, line in enumerate(lines, 1) if line.endswith(f"# {where}"))
        text = lines[number - 1].strip()
        if where != "of the user":  # whose message is the user's own
            begin = f"\n    {origin}:{number}"
            lines_of = [f"{begin}:  {text}\n", *([] if shown else [f"{begin}\n"])]
            assert any(line in "\n".join([*messages, ""]) for line in lines_of)
        assert f"line {number}, in" in trace or f"{origin}:{number}" in trace
        assert not shown or text in trace
        assert "dynamic-code" not in f"{messages}{trace}"


def model(scale):
    def loss(x):
        return np.sum(scale * x**2)

    return loss


def test_many_functions_cost_what_single_ones_do():
    one = len(cloudpickle.dumps([fdiff.grad(model(0.5))]))
    every = cloudpickle.dumps([fdiff.grad(model(float(k))) for k in range(400)])
    assert len(every) < 400 * one / 4  # the text once; in the square of their number, 80 times
    slopes = pickle.loads(every)
    assert [g(1.0) for g in slopes[:3]] == [0.0, 2.0, 4.0]
    files = {g.__wrapped__.__code__.co_filename for g in slopes}
    assert files == {model.__code__.co_filename}


def test_functions_that_are_sent_by_name_keep_their_code():
    def tripled(x):
        return np.sum(x * len(textwrap.dedent("  abc")))

    code = textwrap.dedent.__code__
    again = cloudpickle.loads(cloudpickle.dumps(fdiff.grad(tripled)))
    np.testing.assert_array_equal(again(np.ones(2)), [3.0, 3.0])
    assert textwrap.dedent.__code__ is code
    for f in (np.sin, np.linalg.norm, run):
        assert cloudpickle.loads(cloudpickle.dumps(fdiff.jit(f))).__wrapped__ is f
