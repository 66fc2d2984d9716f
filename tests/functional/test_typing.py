"""Type checkers: what users write with fdiff, and the code of the documents, has no errors."""

import ast
import inspect
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fdiff.autograd import RecordedArray
from fdiff.autograd.arrays import array_types, conversions, recorded_array

ROOT = Path(__file__).parents[2]
USES = ROOT / "tests" / "typing" / "uses.py"
WRONG = {"errors.md"}  # most of its code is wrong, which is its point
DOCUMENTS = [
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "docs").glob("*.md") if p.name not in WRONG),
]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def check(*command):
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_in_strict_mode():
    check("pyright", "--pythonpath", sys.executable, str(USES))


@pytest.mark.slow  # half a minute: NumPy's types are read
def test_mypy_in_strict_mode():
    check("mypy", "--strict", "--python-executable", sys.executable, str(USES))


COMPLETED = """
import numpy as np
import fdiff
from fdiff.autograd import tensor

def f(x, scale=1.0):
    return np.sum(x**3)

x, t = np.ones(3), tensor([1.0, 2.0], requires_grad=True)
("""
EXPRESSIONS = {  # and one name that an editor offers after a point
    "t**2": "backward",
    "t @ t": "backward",
    "t.sum()": "backward",
    "t.exp().reshape(2, 1)[0]": "backward",
    "t.grad": "zero_",
    "fdiff.grad(f)": "compile",
    "fdiff.vmap(f)(x)": "reshape",
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_completion_by_jedi(expression):
    """As in IPython and Jupyter, from the text alone."""
    import jedi  # which IPython brings

    names = [c.name for c in jedi.Script(f"{COMPLETED}{expression}).").complete()]
    assert EXPRESSIONS[expression] in names


def test_what_recorded_arrays_have_is_what_type_checkers_are_shown():
    """Methods are entered from tables, and their types stand in a module of their own."""
    kinds = (array_types.ArrayTypes, conversions.Conversions, recorded_array.RecordedArray)
    shown = {name for kind in kinds for name in _defined(kind)}
    there = {name for name in dir(RecordedArray) if not name.startswith("_")}
    assert there - shown == set()
    missing = [name for name in shown - there if not hasattr(RecordedArray, name)]
    assert [name for name in missing if not name.startswith("_")] == []


def _defined(kind):
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    for part in tree.body:
        targets = [part.target] if isinstance(part, ast.AnnAssign) else getattr(part, "targets", ())
        yield from (target.id for target in targets)
        if isinstance(part, ast.FunctionDef):
            yield part.name


def test_the_code_of_the_documents(tmp_path):
    """In pyright's basic mode, as an editor checks it; each document is one program."""
    (tmp_path / "fdiff").symlink_to(ROOT / "fdiff")
    # SciPy has no types, and what is inferred from its defaults is wrong: `jac` is no str alone.
    # Solvers that pages show need not be installed.
    settings = {"useLibraryCodeForTypes": False, "reportMissingImports": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    for document in DOCUMENTS:
        blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
        (tmp_path / f"{document.stem}_code.py").write_text("\n".join(blocks), encoding="utf-8")
    written = [str(path) for path in tmp_path.glob("*_code.py")]
    check("pyright", "--project", str(tmp_path), "--pythonpath", sys.executable, *written)
