"""Tests with solvers of other packages: `make test-solvers`, or where these are installed."""

import os
from importlib.util import find_spec

NEEDS = {
    "test_sundials.py": {"sksundae"},
    "knitro_stand_in.py": {"ipyopt"},
    "test_ipopt.py": {"ipyopt"},
    "test_problem_ipopt.py": {"ipyopt"},
    "test_examples_with_solvers.py": {"sksundae", "ipyopt"},
    "test_solver_pages.py": {"sksundae", "ipyopt", "nlopt", "pounce", "unopy"},
}
# With FDIFF_SOLVER_TESTS set they fail without the packages, instead of being left out.
if not os.environ.get("FDIFF_SOLVER_TESTS"):
    missing = {name for name in set().union(*NEEDS.values()) if not find_spec(name)}
    collect_ignore = [file for file, packages in NEEDS.items() if packages & missing]
