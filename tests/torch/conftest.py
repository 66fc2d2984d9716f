"""Tests beside torch: collected where torch is installed, and always by `make test-torch`.

Asked of the installed packages, not by an import: while pytest runs, this folder itself would be
found as a package of that name where there is no other.
"""

import os
from importlib.metadata import PackageNotFoundError, version


def installed(package):
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


# With FDIFF_TORCH_TESTS set they fail without torch, instead of being left out.
if not (installed("torch") or os.environ.get("FDIFF_TORCH_TESTS")):
    collect_ignore_glob = ["*.py"]
