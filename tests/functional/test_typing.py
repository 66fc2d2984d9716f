"""Type checkers: what users write with fdiff, and the code of the documents, has no errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_the_code_of_the_documents(tmp_path):
    """In pyright's basic mode, as an editor checks it; each document is one program."""
    (tmp_path / "fdiff").symlink_to(ROOT / "fdiff")
    # SciPy has no types, and what is inferred from its defaults is wrong: `jac` is no str alone.
    (tmp_path / "pyrightconfig.json").write_text('{"useLibraryCodeForTypes": false}')
    for document in DOCUMENTS:
        blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
        (tmp_path / f"{document.stem}_code.py").write_text("\n".join(blocks), encoding="utf-8")
    written = [str(path) for path in tmp_path.glob("*_code.py")]
    check("pyright", "--project", str(tmp_path), "--pythonpath", sys.executable, *written)
