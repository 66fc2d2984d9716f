"""Messages name a cell of a notebook as the notebook does: ``In [8]:3``, not a temporary file."""

import json
import os
import subprocess
import sys

import pytest

from fdiff.user_lines import file_label, interactive_shell

CELLS = [
    """import sys, numpy as np, fdiff
from fdiff.process.loop_progress import place_of
from fdiff.user_lines import file_label
label, x = lambda place: f"{file_label(place.file)}:{place.line}", np.ones(3)""",
    "def f(x):\n    y = np.sum(x * x)\n    return y.view(np.int64)\nfdiff.grad(f)(x)",
    """def g(x):
    return np.sum(np.log(x))
print(fdiff.make_tape(g, x), "at", label(place_of(sys._getframe())))""",
    "def r(x):\n    return np.sum(x) + sys._getframe().f_lineno\nfdiff.grad(r)(x);",
    """def h(x):
    return np.sum(np.sqrt(x) * 0.0)
with fdiff.autograd.detect_anomaly():
    fdiff.grad(h)(0 * x)""",
    """with fdiff.profiler.profile(with_stack=True) as p:
    fdiff.grad(h)(x)
print([e.stack for e in p.function_events if e.stack], repr(fdiff.grad(h)))""",
    "fdiff.gradient",
]
CELLS += [CELLS[1]]  # a cell run again has the number of its last run
SHELL = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from IPython.core.compilerop import CachingCompiler
from IPython.core.interactiveshell import InteractiveShell
from ipykernel.compiler import XCachingCompiler
from traitlets.config import Config

class Shell(InteractiveShell):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.said = None

    def showtraceback(self, *_, **__):
        print(sys.exc_info()[1], *getattr(sys.exc_info()[1], "__notes__", ()), sep="\\n")

told = {}
for kind in (CachingCompiler, XCachingCompiler):
    Shell.clear_instance()
    shell = Shell.instance(compiler_class=kind, config=Config(HistoryManager={"enabled": False}))
    told[kind.__name__] = outputs = []
    for cell in json.load(open(sys.argv[1])):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            shell.run_cell(cell, store_history=True)
        outputs.append(out.getvalue())
print("TOLD", json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the cells print, in a shell of IPython and with the file names of Jupyter's kernel."""
    folder = tmp_path_factory.mktemp("cells")
    (folder / "cells.json").write_text(json.dumps(CELLS))
    given = {**os.environ, "IPYTHONDIR": str(folder), "FDIFF_CACHE_DIR": "off"}
    given["PYTHONWARNINGS"] = "default"  # printed, whatever this process makes of warnings
    call = [sys.executable, "-c", SHELL, str(folder / "cells.json")]
    ran = subprocess.run(call, env=given, text=True, capture_output=True, check=False)
    assert "TOLD" in ran.stdout, ran.stderr
    return json.loads(ran.stdout.partition("TOLD ")[2])


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["CachingCompiler", "XCachingCompiler"])
def test_every_message_names_the_cell(told, shell):
    nothing, error, tape, warning, anomaly, profile, near, again = told[shell]
    assert not nothing
    assert "\n    In [2]:3:  return y.view(np.int64)" in error
    assert "# In [3]:2:  return np.sum(np.log(x))" in tape
    assert tape.endswith(" at In [3]:3\n")
    assert warning.startswith("In [4]:2: RetraceWarning: grad(r): traced again at each call")
    assert "\n    In [4]:2:  return np.sum(x) + sys._getframe().f_lineno\n" in warning
    assert warning.endswith("\n  return np.sum(x) + sys._getframe().f_lineno\n")
    assert "In [5]:2:  return np.sum(np.sqrt(x) * 0.0)" in anomaly
    assert "In [5](2): h" in profile
    assert "<fdiff.grad of h, In [5]:1: (x) -> gradient, like x" in profile
    assert "has no attribute 'gradient'" in near
    assert "\n    In [8]:3:  return y.view(np.int64)" in again
    assert not [out for out in told[shell] if "ipykernel_" in out or "ipython-input" in out]


@pytest.mark.parametrize(("name", "label"), [
    ("/t/ipykernel_123/2493513771.py", "a notebook cell"),
    ("C:\\Users\\me\\Temp\\ipykernel_123\\2493513771.py", "a notebook cell"),
    ("<ipython-input-7-5fbd10e3a1b2>", "In [7]"),
    ("/t/ipython-input-12-2829571632.py", "In [12]"),
    ("/data/ipykernel_tools/2493.py", "2493.py"),
    ("/data/ipykernel_2/model.py", "model.py"),
    ("<string>", "<string>"),
])  # fmt: skip
def test_cells_of_other_processes_are_told_by_their_names(name, label):
    assert interactive_shell() is None
    assert file_label(name) == label
