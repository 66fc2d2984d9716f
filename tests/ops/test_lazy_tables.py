"""Tables that are imported late: each function is in the table that is imported for it."""

import subprocess
import sys

import pytest

PROGRAM = """
from importlib import import_module
import fdiff
from fdiff.primitive import FUNCTIONS, LAZY_TABLES

for name in list(LAZY_TABLES):
    import_module(name)
    before = set(FUNCTIONS)
    LAZY_TABLES.pop(name)()
    for function in set(FUNCTIONS) - before:
        home = ".".join(function.__module__.split(".")[:2])
        if home != name:
            print(function, "is looked for in the table of", home, "and is in that of", name)
"""


@pytest.mark.slow
def test_each_function_is_in_the_table_of_its_module():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert not run.stdout


@pytest.mark.parametrize(
    "imports", ["fdiff, scipy.sparse, fdiff.autograd", "fdiff.autograd, scipy.sparse.linalg"]
)
def test_modules_of_scipy_may_be_imported_in_any_order(imports):
    run = subprocess.run(
        [sys.executable, "-c", f"import {imports}"], capture_output=True, text=True, check=False
    )
    assert not run.stderr
