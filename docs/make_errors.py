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

This page shows an example of each error, its message and the corrected code. A message names the
call, shows your line, states the fact and suggests a way out. Each error is a subclass of
`fdiff.errors.FdiffError` and of the built-in class that NumPy or torch would raise. Tracebacks show
your frames and one frame of fdiff; `FDIFF_TRACEBACK=full` in the environment shows all frames. The
examples begin with `import numpy as np` and `import fdiff`. `docs/make_errors.py` runs every
example and writes this page.
"""
TAIL = """
## Faults of fdiff

`CompileError` and `TapeError` report a defect of fdiff, never of your code. They are raised only
if you asked for a kernel (`jit`, `compile`, a fixed tier). Otherwise the function stays
interpreted, and a `DefectWarning` says so once. The messages say what to report.

`ForkError`: a thread of the parent was compiling when the process was forked, so the child
cannot compile. Start workers by "spawn" or "forkserver", or compile before the fork.

`LeakError`: a traced array was kept where fdiff does not see it, in a thread or by code written
in C, and was used after its trace.

`DeviceError`: you asked for ``device="cuda"``, and this machine has no GPU, no driver, a driver
that is older than the toolkit, or no package for it. The message says which ([GPUs](cuda.md)).

`WorkerError`: workers of a cluster died of a call, or are gone, or data is lost that they alone
had. The message names the partitions ([More than one machine](distributed.md)).
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
        except (
            errors.FdiffError, errors.RetraceWarning, errors.DtypeWarning, errors.RankWarning
        ) as error:  # fmt: skip
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
