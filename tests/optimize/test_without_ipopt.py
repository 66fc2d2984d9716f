"""What is said where a package is missing, and that nothing is imported before it is used."""

import subprocess
import sys

import numpy as np
import pytest

from fdiff.errors import InputError
from fdiff.optimize import Problem


def test_without_ipopt_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cyipopt", None)
    monkeypatch.setitem(sys.modules, "ipyopt", None)
    with pytest.raises(ImportError, match="pip install ipyopt") as caught:
        Problem(lambda x: x @ x).ipopt(np.ones(2))
    assert "cyipopt" in str(caught.value)


def test_without_tqdm_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(InputError, match="pip install tqdm"):
        Problem(lambda x: x @ x).minimize(np.ones(2), progress="tqdm")


def test_solvers_are_imported_when_they_are_used():
    code = (
        "import sys, fdiff; assert 'fdiff.optimize' not in sys.modules; fdiff.optimize;"
        "assert not {'cyipopt', 'ipyopt', 'tqdm', 'scipy.optimize'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
