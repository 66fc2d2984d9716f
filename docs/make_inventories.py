# ruff: noqa: INP001 - a script beside the pages
"""Inventories of NumPy, SciPy and Numba for links to their pages, made without a network.

Sphinx's intersphinx reads a file that names the page of each object. NumPy and SciPy have a page
for each public name at a fixed address, so that the files follow from the installed packages.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "build" / "inventories"
SITES = {
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "numba": "https://numba.readthedocs.io/en/stable/",
}
NAMESPACES = {
    "numpy": ("numpy", "numpy.fft", "numpy.linalg", "numpy.random"),
    "scipy": (
        *("scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.ndimage"),
        *("scipy.optimize", "scipy.signal", "scipy.sparse", "scipy.spatial", "scipy.special"),
        "scipy.stats",
    ),
}
NUMBA = {
    "numba.njit": "reference/jit-compilation.html#numba.jit",
    "numba.jit": "reference/jit-compilation.html#numba.jit",
    "numba.cfunc": "reference/jit-compilation.html#numba.cfunc",
    "numba.vectorize": "reference/jit-compilation.html#numba.vectorize",
    "numba.prange": "user/parallel.html#explicit-parallel-loops",
    "numba.cuda": "cuda/index.html",
}


def entries(project: str) -> Iterator[tuple[str, str]]:
    """Names, and their pages below the address of the project."""
    if project == "numba":
        yield from NUMBA.items()
        return
    for namespace in NAMESPACES[project]:
        module = importlib.import_module(namespace)
        for name in getattr(module, "__all__", dir(module)):
            if not name.startswith("_") and callable(getattr(module, name, None)):
                full = f"{namespace}.{name}"
                yield full, f"reference/generated/{full}.html"


def inventory(project: str) -> bytes:
    """A file of intersphinx, version 2."""
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    lines = [f"{name} py:function 1 {page} -\n" for name, page in sorted({*entries(project)})]
    return head.encode() + zlib.compress("".join(lines).encode())


def mapping() -> dict[str, tuple[str, str]]:
    """Write the inventories; what `intersphinx_mapping` holds."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for project in SITES:
        (FOLDER / f"{project}.inv").write_bytes(inventory(project))
    return {project: (site, str(FOLDER / f"{project}.inv")) for project, site in SITES.items()}
