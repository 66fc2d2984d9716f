"""Matrix routines for very small matrices: each thread keeps the entries of a matrix in registers.

Texts are unrolled for one order, because registers have no addresses: an entry is a variable. A row
that is found at run time (a pivot) is therefore exchanged by selections: with each row that it may
be, one of which is it. The steps follow the texts for CPUs (`runtime.linalg_routines`,
`runtime.triangular`), which name their sources; sums are in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from itertools import product

from ....foreign_errors import contextmanager
from ....named_tuples import NamedTuple
from ...codegen.unrolled_steps import (
    Matrix,
    factorise,
    pull_back_factor,
    substitute,
    transposed,
)
from ...ir.loops import NUMPY
from ...runtime.status_errors import INDEFINITE, SINGULAR, ZERO_AT


class RegisterRoutine(NamedTuple):
    """A routine of many matrices of one order: its text, and the function that a kernel calls."""

    text: str
    name: str
    buffers: int  # how many buffers of a call it takes: operands and results


@lru_cache(maxsize=256)
def register_routine(name: str, dtype: str, n: int) -> RegisterRoutine | None:
    """The text of a routine such as ``solve`` for matrices of order `n`; None without one."""
    if name not in _ROUTINES or n > _MOST.get(name, n):
        return None
    parameters, write, columns = _ROUTINES[name]
    head = f"{name}_in_registers{n}"
    parameter_names = [*parameters.split(", "), "stack", *(["columns"] if columns else [])]
    text = _RegisterText(n, NUMPY[dtype])
    text.line(f"def {head}({', '.join(parameter_names)}, status, first, count):")
    with text.inside():
        text.line("s = first")
        with text.inside("while s < stack:"):
            text.line(f"at = s * {n * n}")
            write(text)
            text.line("s = s + count")
    return RegisterRoutine("\n".join(text.lines) + "\n", head, len(parameters.split(", ")))


class _RegisterText:
    """Lines for matrices of order `n`, whose entries in memory have the dtype `real`.

    Each expression has a variable of its own: static single assignment. Numba would rename
    variables by a pass over all lines for each, which takes longer than all else.
    """

    def __init__(self, n: int, real: str) -> None:
        self.n, self.real = n, real
        self.lines: list[str] = []
        self._depth = self._variables = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def inside(self, head: str = "") -> Generator[None]:
        """In this context lines stand in a block, below its head."""
        if head:
            self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def let(self, text: str) -> str:
        """A new variable."""
        self._variables += 1
        self.line(f"v{self._variables} = {text}")
        return f"v{self._variables}"

    def select(self, test: str, x: object, y: object) -> str:
        return self.let(f"rt.select({test}, {x}, {y})")

    def matrix(self, source: str, *, upper: bool = True) -> Matrix:
        """A matrix in memory, or what of it is not above the diagonal."""
        order = range(self.n)
        return [
            [
                self.let(f"np.float64({source}[at + {i * self.n + j}])") if upper or j <= i else ""
                for j in order
            ]
            for i in order
        ]

    def store_lower(self, low: Matrix) -> None:
        """Store a lower triangular matrix, with zeros above its diagonal."""
        for i, j in product(range(self.n), repeat=2):
            self.line(f"x[at + {i * self.n + j}] = {self.real}({low[i][j] if j <= i else 0})")

    def column(self) -> Matrix:
        """Column `c` of the right-hand sides."""
        rows = range(self.n)
        return [[self.let(f"np.float64(b[right + {i} * columns + c])")] for i in rows]

    def unit(self) -> Matrix:
        """Column `c` of the identity."""
        return [[self.let(f"1.0 if c == {i} else 0.0")] for i in range(self.n)]

    def store_column(self, column: Matrix) -> None:
        """Store column `c` of the solutions."""
        for i, (entry,) in enumerate(column):
            self.line(f"x[right + {i} * columns + c] = {self.real}({entry})")

    @contextmanager
    def each_column(self) -> Generator[None]:
        """In this context lines are for each column of the right-hand sides."""
        self.line(f"right = s * {self.n} * columns")
        with self.inside("for c in range(columns):"):
            yield

    def exchange(self, test: str, x: list[str], y: list[str]) -> None:
        """Exchange two rows where a test holds."""
        hit = self.let(test)
        for j, (a, b) in enumerate(zip(x, y, strict=True)):
            x[j], y[j] = self.select(hit, b, a), self.select(hit, a, b)

    def eliminate(self, a: Matrix, k: int, pivot: str) -> None:
        """Eliminate column `k` below the pivot: ``P A = L U`` in place of A."""
        for row in a[k + 1 : self.n]:
            row[k] = self.let(f"{row[k]} / {pivot}")
            for j in range(k + 1, self.n):
                row[j] = self.let(f"{row[j]} - {row[k]} * {a[k][j]}")


# --- systems of equations and determinants -----------------------------------------------------


def _factored(text: _RegisterText) -> tuple[Matrix, list[str], str]:
    """``P A = L U`` with partial pivoting, which rows became pivots, and the sign of P.

    The sign is 0 of a singular A.
    """
    a, places, sign = text.matrix("a"), list[str](), text.let("np.int64(1)")
    for k in range(text.n):
        place, most = text.let(f"np.int64({k})"), text.let(f"abs({a[k][k]})")
        for i in range(k + 1, text.n):
            size = text.let(f"abs({a[i][k]})")
            hit = text.let(f"{size} > {most}")
            most, place = text.select(hit, size, most), text.select(hit, i, place)
        sign = text.select(f"{place} == {k}", sign, f"-{sign}")
        for i in range(k + 1, text.n):
            text.exchange(f"{place} == {i}", a[k], a[i])
        zero = text.let(f"{a[k][k]} == 0")
        sign = text.select(zero, 0, sign)
        text.eliminate(a, k, text.select(zero, 1.0, a[k][k]))  # there is nothing to eliminate then
        places.append(place)
    return a, places, sign


def _solved(text: _RegisterText, right: Callable[[], Matrix]) -> None:
    """Store what solves the equations, column by column of the right-hand sides."""
    a, places, sign = _factored(text)
    with text.inside(f"if {sign} == 0:"):
        text.line(f"status[0] = {SINGULAR}")
    with text.inside("else:"), text.each_column():
        column = right()
        for k, i in product(range(text.n), repeat=2):
            if i > k:
                text.exchange(f"{places[k]} == {i}", column[k], column[i])
        substitute(a, column, text.let, upper=False, unit=True)
        substitute(a, column, text.let, upper=True)
        text.store_column(column)


def _solve(text: _RegisterText) -> None:
    _solved(text, text.column)


def _inv(text: _RegisterText) -> None:
    text.line(f"columns = {text.n}")
    _solved(text, text.unit)


def _det(text: _RegisterText) -> None:
    a, _, sign = _factored(text)
    value = text.let(f"np.float64({sign})")
    for k in range(text.n):
        value = text.let(f"{value} * {a[k][k]}")
    text.line(f"x[s] = {text.real}({value})")


def _slogdet(text: _RegisterText) -> None:
    a, _, sign = _factored(text)
    signed, total = text.let(f"np.float64({sign})"), text.let("np.float64(0)")
    for k in range(text.n):
        signed = text.let(f"{signed} * rt.sign({a[k][k]})")
        total = text.let(f"{total} + rt.log(abs({a[k][k]}))")
    text.line(f"signs[s] = {text.real}(rt.select({sign} == 0, 0.0, {signed}))")
    text.line(f"logs[s] = {text.real}(rt.select({sign} == 0, -np.inf, {total}))")


# --- cofactors -----------------------------------------------------------------------------------


def _factored_fully(text: _RegisterText) -> tuple[Matrix, Sequence[str], Sequence[str], str]:
    """``P A Q = L U`` with complete pivoting, the rows and columns of the pivots, the sign of P Q.

    The numbers of rows and columns stand beside and below the matrix, and move with its entries.
    """
    n, sign = text.n, text.let("np.float64(1)")
    numbers = [text.let(f"np.int64({k})") for k in range(n)]
    a = [*([*row, number] for row, number in zip(text.matrix("a"), numbers, strict=True)), numbers]
    for k in range(n):
        row, column, most = numbers[k], numbers[k], text.let(f"abs({a[k][k]})")
        for i, j in product(range(k, n), repeat=2):
            if (i, j) != (k, k):
                size = text.let(f"abs({a[i][j]})")
                hit = text.let(f"{size} > {most}")
                most, row = text.select(hit, size, most), text.select(hit, i, row)
                column = text.select(hit, j, column)
        for place in (row, column):
            sign = text.select(f"{place} == {k}", sign, f"-{sign}")
        for i in range(k + 1, n):
            text.exchange(f"{row} == {i}", a[k], a[i])
            below = transposed([line[:n] for line in a])
            text.exchange(f"{column} == {i}", below[k], below[i])
            for line, new in zip(a, transposed(below), strict=True):
                line[:n] = new
        text.eliminate(a, k, text.select(f"{a[k][k]} == 0", 1.0, a[k][k]))
    return [line[:n] for line in a[:n]], [line[n] for line in a[:n]], a[n], sign


def _cofactor(text: _RegisterText) -> None:
    """Column `c` of adj(U) inv(L) at a time, as `runtime.linalg_routines` explains."""
    a, rows, columns, scale = _factored_fully(text)
    last = text.n - 1
    for k in range(last):
        scale = text.let(f"{scale} * {a[k][k]}")
    with text.inside(f"for c in range({text.n}):"):
        column = text.unit()
        substitute(a, column, text.let, upper=False, unit=True)
        (end,) = column[last]
        top = [[text.let(f"{a[last][last]} * {b} - {a[i][last]} * {end}")]
               for i, (b,) in enumerate(column[:last])]  # fmt: skip
        substitute([line[:last] for line in a[:last]], top, text.let, upper=True)
        row = rows[0]
        for k in range(1, text.n):
            row = text.select(f"c == {k}", rows[k], row)
        for (b,), place in zip([*top, [end]], columns, strict=True):
            value = text.select(f"{scale} == 0", scale, f"{b} * {scale}")
            text.line(f"x[at + {row} * {text.n} + {place}] = {text.real}({value})")


# --- symmetric and triangular matrices ---------------------------------------------------------


def _cholesky(text: _RegisterText) -> None:
    low, fails = text.matrix("a", upper=False), list[str]()
    factorise(low, text.let, lambda pivot: fails.append(f"not {pivot} > 0"))
    with text.inside(f"if {' or '.join(fails)}:"):
        text.line(f"status[0] = {INDEFINITE}")
    with text.inside("else:"):
        text.store_lower(low)


def _cholesky_bar(text: _RegisterText) -> None:
    low, bar = text.matrix("a", upper=False), text.matrix("b", upper=False)
    pull_back_factor(low, bar, text.let, "np.float64")
    text.store_lower(bar)


def _triangular(*, flip: bool, unit: bool = False, checked: bool = False) -> Writer:
    """``low x = b``, or with the transpose of `low`; a zero on its diagonal may be an error."""

    def write(text: _RegisterText) -> None:
        low = text.matrix("a", upper=False)
        for i in reversed(range(text.n if checked else 0)):
            # Without right-hand sides nothing is solved, so nothing fails.
            with text.inside(f"if columns > 0 and {low[i][i]} == 0:"):
                text.line(f"status[0] = {ZERO_AT + i}")
        with text.each_column():
            column = text.column()
            substitute(transposed(low) if flip else low, column, text.let, upper=flip, unit=unit)
            text.store_column(column)

    return write


Writer = Callable[[_RegisterText], None]
_ROUTINES: dict[str, tuple[str, Writer, bool]] = {  # buffers, body, whether there are columns
    "solve": ("a, b, x", _solve, True),
    "inv": ("a, x", _inv, False),
    "det": ("a, x", _det, False),
    "slogdet": ("a, signs, logs", _slogdet, False),
    "cofactor": ("a, x", _cofactor, False),
    "cholesky": ("a, x", _cholesky, False),
    "cholesky_bar": ("a, b, x", _cholesky_bar, False),
    "triangular0": ("a, b, x", _triangular(flip=False), True),
    "triangular1": ("a, b, x", _triangular(flip=True), True),
    "triangular0checked": ("a, b, x", _triangular(flip=False, checked=True), True),
    "triangular1checked": ("a, b, x", _triangular(flip=True, checked=True), True),
    "triangular0unit": ("a, b, x", _triangular(flip=False, unit=True), True),
    "triangular1unit": ("a, b, x", _triangular(flip=True, unit=True), True),
}  # fmt: skip
_MOST = {"cofactor": 5}  # orders up to which texts have fewer than a thousand lines
