"""Matrix routines for many small matrices: each thread has matrices of its own.

What is done for one matrix are the texts that CPUs run (`runtime.linalg_routines`,
`runtime.triangular`); here stands what gives a thread its matrices. Scratch memory is in global
memory, because arrays of a thread are no faster.
"""

from __future__ import annotations

from ....named_tuples import NamedTuple
from ...runtime import linalg_routines
from ...runtime.macros import NUMPY_NAMES, expand
from ...runtime.status_errors import ROUTINE_STATUS
from ...runtime.triangular import TRIANGULAR

# The head of each: `first` is the number of the thread, `count` how many threads there are. Scratch
# memory is `lu`, a matrix in double precision for each matrix, and `rows`, two rows of integers.
_HEAD = """
def {name}_each({parameters}, lu, rows, stack, n, {columns}status, first, count):
    s = first
    while s < stack:
        at = s * n * n
        mine = rt.offset(lu, at)
        order = rt.offset(rows, 2 * s * n)
        place = rt.offset(rows, (2 * s + 1) * n)
{body}
        s = s + count
"""

_SOLVE = """
copy(rt.offset(a, at), mine, n)
if factor_small(mine, order, n) == 0:
    status[0] = SINGULAR
else:
    right = s * n * columns
    substitute(mine, order, rt.offset(b, right), rt.offset(x, right), n, columns)
"""
_INV = """
copy(rt.offset(a, at), mine, n)
if factor_small(mine, order, n) == 0:
    status[0] = SINGULAR
else:
    found = rt.offset(x, at)
    for i in range(n):
        place[i] = i
        for j in range(n):
            found[i * n + j] = 1.0 if order[i] == j else 0.0
    substitute(mine, place, found, found, n, n)
"""
_DET = """
copy(rt.offset(a, at), mine, n)
value = np.float64(factor_small(mine, order, n))
for i in range(n):
    value = value * mine[i * n + i]
x[s] = value
"""
_SLOGDET = """
copy(rt.offset(a, at), mine, n)
sign = np.float64(factor_small(mine, order, n))
total = np.float64(0) if sign != 0 else np.float64(-np.inf)
if sign != 0:
    for i in range(n):
        pivot = mine[i * n + i]
        sign = sign * (1.0 if pivot > 0 else -1.0 if pivot < 0 else np.nan)
        total = total + rt.log(abs(pivot))
signs[s] = sign
logs[s] = total
"""
_CHOLESKY = """
if cholesky_small(rt.offset(a, at), rt.offset(x, at), n) != 0:
    status[0] = INDEFINITE
"""
_COFACTOR = """
copy(rt.offset(a, at), mine, n)
found = rt.offset(x, at)
scale = np.float64(factor_fully(mine, order, place, n))
for i in range(n - 1):
    scale = scale * mine[i * n + i]
column = rt.offset(y, s * n)
for j in range(n):
    adjugate_column(mine, column, j, scale, n)
    for i in range(n):
        found[order[j] * n + place[i]] = column[i]
"""
_TRIANGULAR = """
here = rt.offset(a, at)
right = s * n * columns
found = rt.offset(x, right)
CHECK
for i in range(n * columns):
    found[i] = b[right + i]
ROWS(here, found, n, columns)
"""
# Without right-hand sides nothing is solved, so nothing fails.
_CHECK = """for i in range(n if columns > 0 else 0):
    if here[i * n + i] == 0:
        status[0] = ZERO_AT + i
        break"""
_CHOLESKY_BAR = """
found = rt.offset(x, at)
for i in range(n * n):
    found[i] = b[at + i]
bar_rows(rt.offset(a, at), found, n, n)
for i in range(n):
    for j in range(i + 1, n):
        found[i * n + j] = 0
"""


class EachMatrix(NamedTuple):
    """A routine of many matrices: its text, and the function that a kernel calls."""

    text: str
    name: str
    buffers: int  # how many buffers of a call it takes: operands and results
    row: bool = False  # whether it needs one more row of doubles a matrix


def each_matrix(name: str, dtype: str) -> EachMatrix | None:
    """The text of a routine, such as ``solve``; None if there is none."""
    texts = _ROUTINES.get(name) or _triangular(name)
    if texts is None:
        return None
    parameters, body, helpers = texts
    columns = "columns, " if "columns" in body else ""
    lines = "\n".join(" " * 8 + line for line in body.strip().split("\n"))
    own = _HEAD.format(name=name, parameters=parameters, columns=columns, body=lines)
    words = {"ENTRY": dtype, "REAL": NUMPY_NAMES[dtype], **ROUTINE_STATUS}
    text = expand("".join((*helpers, own)), words)
    count = len([p for p in parameters.split(", ") if p != "y"])
    return EachMatrix(text.lstrip("\n"), f"{name}_each", count, "y" in parameters.split(", "))


def _triangular(name: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Triangular systems; their texts begin with the loops for one and for several columns."""
    if name not in TRIANGULAR or not name.startswith("triangular"):
        return None
    rows = TRIANGULAR[name][1]
    way = "forward_rows" if "def forward_rows" in rows else "backward_rows"
    check = _CHECK if name.endswith("checked") else ""
    body = _TRIANGULAR.replace("CHECK", check).replace("ROWS", way)
    return "a, b, x", body, (rows,)


_FACTORED = (linalg_routines.COPY, linalg_routines.FACTOR_SMALL)
_ROUTINES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "solve": ("a, b, x", _SOLVE, (*_FACTORED, linalg_routines.SUBSTITUTE)),
    "inv": ("a, x", _INV, (*_FACTORED, linalg_routines.SUBSTITUTE)),
    "det": ("a, x", _DET, _FACTORED),
    "slogdet": ("a, signs, logs", _SLOGDET, _FACTORED),
    "cholesky": ("a, x", _CHOLESKY, (linalg_routines.CHOLESKY_SMALL,)),
    "cofactor": (
        "a, x, y",
        _COFACTOR,
        (linalg_routines.COPY, linalg_routines.FACTOR_FULLY, linalg_routines.ADJUGATE_COLUMN),
    ),
    "cholesky_bar": ("a, b, x", _CHOLESKY_BAR, TRIANGULAR["cholesky_bar"][:1]),
}  # fmt: skip
