# ruff: noqa: INP001, T201 - a script, which prints
"""The error catalogue: code that makes each error, its message, the cure; writes docs/errors.md.

    python docs/make_errors.py            # run every example, print the page
    python docs/make_errors.py --write    # and write docs/errors.md

An example is a block of docs/errors.txt: a title, an empty line, code that raises, ``# cure``,
code that does not, and a line of dashes. tests/project/test_documents.py compares both.
"""

from __future__ import annotations

import linecache
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fdiff
from fdiff import errors

DOCS = Path(__file__).parent
PAGE = DOCS / "errors.md"
FILE = "model.py"  # what messages call the examples
HEAD = """# Errors

Written by `docs/make_errors.py`, which runs every example. A message names the call, shows your
line, states the fact and offers a way out. Every error is a subclass of `fdiff.errors.FdiffError`
and of the built-in class that NumPy or torch would raise. Tracebacks show your frames and one of
fdiff; `FDIFF_TRACEBACK=full` in the environment shows all. The examples begin with
`import numpy as np` and `import fdiff`.
"""
TAIL = """
## Faults of fdiff

`CompileError` and `TapeError` tell of a defect of fdiff, never of your code, and are raised only
where you asked for a kernel (`jit`, `compile`, a fixed tier). Nobody else sees them: the function
stays interpreted, which a `DefectWarning` says once. All three say what to report. `ForkError`:
a child was forked while a thread of its parent compiled, and cannot compile itself; start workers
by "spawn" or "forkserver", or compile before the fork. `LeakError`: a traced array was kept where
fdiff does not see it, in a thread or by code written in C, and was used after its trace.

`DeviceError` depends on the machine: ``device="cuda"`` was asked for, and there is no GPU, no
driver, one older than the toolkit, or no package for it, as the message says ([GPUs](cuda.md)).
"""


class Example(NamedTuple):
    """A title, code that raises, and code that does not."""

    title: str
    code: str
    cure: str


def examples() -> list[Example]:
    """The blocks of docs/errors.txt."""
    found: list[Example] = []
    for block in (DOCS / "errors.txt").read_text(encoding="utf-8").split("\n---\n"):
        title, _, rest = block.strip().partition("\n\n")
        code, _, cure = rest.partition("\n# cure\n")
        found.append(Example(title, code, cure))
    return found


def run(code: str) -> Exception | None:
    """What the code raises, warnings included."""
    linecache.cache[FILE] = len(code), None, code.splitlines(keepends=True), FILE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            exec(compile(code, FILE, "exec"), {"np": np, "fdiff": fdiff, "__name__": "model"})  # noqa: S102 - our own examples
        except (errors.FdiffError, errors.RetraceWarning, errors.DtypeWarning) as error:
            return error
    return None


def section(example: Example, error: Exception) -> str:
    """The example as it stands on the page."""
    return "\n".join([
        f"\n### {example.title}\n",
        f"```python\n{example.code.strip()}\n```\n",
        f"```text\n{type(error).__name__}: {error}\n```\n",
        f"The cure:\n\n```python\n{example.cure.strip()}\n```",
    ])  # fmt: skip


def page() -> str:
    """The whole page: a chapter for each class of errors."""
    fdiff.cache_clear()  # a warning comes once for each function
    by_class: dict[str, list[str]] = {}
    for example in examples():
        error = run(example.code)
        if error is None:
            raise SystemExit(f"nothing is raised by:\n{example.code}")
        by_class.setdefault(type(error).__name__, []).append(section(example, error))
    chapters = [HEAD]
    for name, texts in by_class.items():
        doc = " ".join((getattr(errors, name).__doc__ or "").split())
        chapters += [f"\n## {name}\n\n{doc}\n", *(text + "\n" for text in texts)]
    return "".join([*chapters, TAIL])


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
