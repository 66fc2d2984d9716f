# ruff: noqa: INP001, T201 - a script, which prints
"""Every name of the page of torch.autograd, and fdiff's; writes docs/coming-from-torch.md.

    python docs/make_torch_names.py          # check the table, and print what is wrong with it
    python docs/make_torch_names.py --write  # and write docs/coming-from-torch.md

The rows are those of docs/torch_names.txt and docs/torch_differences.txt. Each name of fdiff must
be there, each test too, and where torch is installed each name of torch
(tests/project/test_documents.py, tests/torch).
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
PAGE = DOCS / "coming-from-torch.md"
ROWS = DOCS / "torch_names.txt"
TESTS = DOCS.parent / "tests"
NEWER = {"graph.node_creation_hook"}  # on the page, and not in the torch that is compared with
HEAD = """# Coming from torch.autograd

This page lists every name on the documentation page of `torch.autograd`, in the same order, with
its counterpart in fdiff and a test that shows it. Programs for torch work on *recorded arrays*
([recorded arrays](autograd.md)): `fdiff.autograd.tensor` makes them, and `RecordedArray` in the
table stands for their class, `fdiff.autograd.RecordedArray`.

`docs/make_torch_names.py` writes the page. The tests are in `tests/`. `make test-torch` runs the
same programs in torch and in fdiff.
"""

DIFFERENCES = """
## Differences that stay

A program that runs in both libraries sees these differences. The tests compare everything else.

| in torch | in fdiff | reason |
| --- | --- | --- |
"""


class Row(NamedTuple):
    """A name of torch's, fdiff's (empty: none; `planned`: not there yet), a test, a remark."""

    section: str
    torch: str
    fdiff: str
    planned: bool
    test: str
    remark: str


def rows() -> list[Row]:
    """The rows of docs/torch_names.txt."""
    found: list[Row] = []
    section = ""
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line and not line.startswith("#"):
            theirs, ours, test, remark = (part.strip() for part in f"{line} ".split(" ::"))
            planned = ours.startswith("~")
            ours = "" if ours == "-" else ours.removeprefix("~")
            found.append(Row(section, theirs, ours, planned, test.removeprefix("~"), remark))
    return found


def page() -> str:
    """The page: a table for each section."""
    text, section = [HEAD], ""
    for row in rows():
        if row.section != section:
            section = row.section
            text.append(
                f"\n## {section}\n\n| torch | fdiff | test | remark |\n| --- | --- | --- | --- |\n"
            )
        ours = (
            f"`{row.fdiff}`"
            if row.fdiff and not row.planned
            else "not yet"
            if row.fdiff
            else "none"
        )
        test = f"`{row.test}`" if row.test else ""
        text.append(f"| `{full(row.torch)}` | {ours} | {test} | {row.remark} |\n")
    lines = (DOCS / "torch_differences.txt").read_text(encoding="utf-8").splitlines()
    rest = [f"| {line.replace(' :: ', ' | ')} |\n" for line in lines if line and line[0] != "#"]
    return "".join([*text, DIFFERENCES, *rest])


def full(name: str) -> str:
    """The whole name of something of torch's."""
    return name if name.startswith("torch.") else f"torch.autograd.{name}"


def found(name: str) -> bool:
    """Whether a dotted name is there: a module, and attributes of it."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        try:
            functools.reduce(getattr, parts[count:], module)
        except AttributeError:
            continue
        return True
    return False


@functools.cache
def tests_in(file: str) -> frozenset[str]:
    """Names of the tests of a file."""
    body = ast.parse((TESTS / file).read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


def faults() -> list[str]:
    """What is wrong with the table, apart from names of torch's."""
    wrong: list[str] = []
    for row in rows():
        ours = row.fdiff.replace("RecordedArray.", "fdiff.autograd.RecordedArray.", 1)
        ours = ours if row.fdiff.startswith("RecordedArray.") else row.fdiff
        if row.fdiff and not row.planned and not found(ours):
            wrong.append(f"{row.torch}: there is no {row.fdiff}")
        if row.test:
            file, test = row.test.split(": ")
            if not (TESTS / file).exists() or test not in tests_in(file):
                wrong.append(f"{row.torch}: there is no test {row.test}")
        if not row.fdiff and not row.remark:
            wrong.append(f"{row.torch}: no name, and no reason")
        if row.planned and found(ours):
            print(f"is there by now: {row.fdiff}")
    return wrong


def missing_in_torch() -> list[str]:
    """Names of torch's that torch does not have; torch is imported."""
    return [row.torch for row in rows() if row.torch not in NEWER and not found(full(row.torch))]


if __name__ == "__main__":
    for fault in faults():
        print(fault)
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
