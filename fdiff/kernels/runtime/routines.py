"""Matrix routines such as ``solve_f8``, as kernel texts: docs/decisions/matrix-routines.md.

Their texts have macros (`macros`) for what depends on the dtype: ``ENTRY`` is the type of entries,
``REAL`` its name in NumPy, ``GETRF`` and others are entries of the table of BLAS and LAPACK
functions (`blas_lapack_addresses`). The rest are status codes and the numbers below.
"""

from __future__ import annotations

import re
from functools import lru_cache

from .blas_lapack_addresses import places
from .linalg_routines import DECOMPOSITIONS
from .macros import NUMPY_NAMES, expand
from .matrix_products import PRODUCTS
from .status_errors import ROUTINE_STATUS
from .triangular import TRIANGULAR

# By the name on the record of an op (`kernel_rule.Routine`): the functions it calls, itself last.
TEXTS = {**DECOMPOSITIONS, **PRODUCTS, **TRIANGULAR}
_NUMBERS = {
    **ROUTINE_STATUS,
    "PLAIN": f"np.int8({ord('n')})",  # a matrix as BLAS finds it, or transposed
    "TURNED": f"np.int8({ord('t')})",
    "FEW": 20,  # rows from which LAPACK is faster: det 28, inv 24, solve 16, cholesky 14
    "PANEL": 16384,  # entries of columns that are copied to lie next to one another
    "BLOCK": 32,  # columns at a time
    "SAFE": 1e6,  # condition number up to which cofactors come from the inverse
    "BLAS_FROM": 100,  # multiplications from which BLAS is faster: at 5 x 5 it is, at 4 x 4 not
}

_HEAD = re.compile(r"^def (\w+)\(([^)]*)\):", re.MULTILINE)


@lru_cache(maxsize=64)
def parameters(routine: str) -> tuple[str, ...]:
    """The names of a routine's arguments, for readers of kernels."""
    name, _ = routine.rsplit("_", 1)
    _, text = _HEAD.findall(TEXTS[name][-1])[-1]
    return tuple(re.findall(r"(\w+):", text))


def has_vectors(routine: str) -> bool:
    """Whether the text of a routine has vectors of its own."""
    return routine.rsplit("_", 1)[0] in PRODUCTS


@lru_cache(maxsize=64)
def routine_text(routine: str, vector: int = 64) -> str:
    """The routine, after the functions that it calls, for vectors of `vector` bytes."""
    name, dtype = routine.rsplit("_", 1)
    words = {"ENTRY": dtype, "REAL": NUMPY_NAMES[dtype], "LANES": vector // int(dtype[1])}
    words |= {**_NUMBERS, **places(dtype)}
    return expand("".join(TEXTS[name]), words)
