"""Routines of up to four rows, all entries locals: docs/decisions/small-systems-written-out.md.

What they compute, and in which order they round, is what `runtime.linalg_routines` and
`runtime.triangular` do for small matrices; pivots are chosen and rows exchanged by selection. LLVM
keeps all of it in registers, where the call of a routine takes longer than its arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from ..ir.loops import NUMPY, Call
from ..runtime.status_errors import INDEFINITE, SINGULAR, ZERO_AT
from .lines import TextLine, comment, deeper, leave, let, loop_head, store
from .unrolled_steps import Matrix, factorise, pull_back_factor, substitute, transposed


def emit_inline(call: Call) -> list[TextLine]:
    """The lines of a call for literal sizes, without the lines of the stack."""
    text = _InlineText(call)
    _WRITERS[call.name](text)
    stack = call.sizes[0]
    several = [loop_head(text.stacked, stack), *deeper(text.lines)]
    return [comment(call.comment), *(text.lines if stack == "1" else several)]


class _InlineText:
    """Lines so far; results are stored by `store`, in numbers of the call's dtype."""

    def __init__(self, call: Call) -> None:
        self.call, self.lines = call, list[TextLine]()
        self.order = int(call.sizes[1])
        self.columns = int(call.sizes[-1]) if len(call.sizes) > 2 else self.order
        self.real = NUMPY[call.dtype]
        self.prefix = f"{next(b for b in call.buffers[1:] if b[0] in 'tou')}e"
        self.stacked = f"{self.prefix}s"

    def let(self, text: str) -> str:
        """A new local."""
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(let(name, text))
        return name

    def rounded(self, text: str) -> str:
        """An expression in the dtype of the results, where factors have 64 bits."""
        return text if self.real == "np.float64" else f"{self.real}({text})"

    def let_rounded(self, text: str) -> str:
        """A new local in the dtype of the results."""
        return self.let(self.rounded(text))

    def matrix(self, operand: int, columns: int, *, wide: bool = False) -> Matrix:
        """The entries of an operand, of 64 bits if it is `wide`."""
        at = [self._entry(operand, self.order * columns, e) for e in range(self.order * columns)]
        entries = [self.let(f"np.float64({a})" if wide else a) for a in at]
        return [entries[i : i + columns] for i in range(0, len(entries), columns)]

    def store(self, values: Sequence[str], buffer: int = -1) -> None:
        """Store the entries of a result."""
        for e, value in enumerate(values):
            self.lines.append(store(self._entry(buffer, len(values), e), value))

    def store_lower(self, low: Matrix) -> None:
        """Store a lower triangular matrix, with zeros above its diagonal."""
        pairs = product(range(self.order), repeat=2)
        self.store([low[i][j] if j <= i else "0.0" for i, j in pairs])

    def _entry(self, buffer: int, entries: int, e: int) -> str:
        begins = self.call.begins or ("",) * len(self.call.buffers)
        first = f"{self.stacked} * {entries}" if self.call.sizes[0] != "1" else ""
        terms = [t for t in (begins[buffer], first, str(e) if e else "") if t]
        return f"{self.call.buffers[buffer]}[{' + '.join(terms) or '0'}]"

    def ends(self, condition: str, status: int) -> None:
        """The kernel ends with a status where the condition is true."""
        self.lines += [TextLine(f"if {condition}:"), *deeper([leave(status)])]


# --- elimination with partial pivoting ----------------------------------------------------------


def _eliminated(text: _InlineText, rows: Matrix, *, may_fail: bool) -> tuple[Matrix, str]:
    """Upper rows by elimination, and the sign of the exchange; rows may be longer than the matrix.

    It ends the kernel where the matrix is singular if it `may_fail`; else the sign is 0 there.
    """
    n, sign = text.order, "1.0"
    for k in range(n):
        if k < n - 1:
            rows, exchanged = _pivoted(text, rows, k)
            sign = text.let(f"-{sign} if {exchanged} else {sign}")
        pivot, below = rows[k][k], list[TextLine]()
        for row in rows[k + 1 :]:
            part = f"{row[k]}p"
            below.append(let(part, f"{row[k]} / {pivot}"))
            for j, entry in enumerate(row[k + 1 :], k + 1):
                rest = f"{entry} - {part} * {rows[k][j]}"
                below.append(let(entry, rest if j < n else text.rounded(rest)))
        if may_fail:
            text.ends(f"{pivot} == 0", SINGULAR)
            text.lines += below
        else:
            sign = text.let(f"0.0 if {pivot} == 0 else {sign}")
            text.lines += [TextLine(f"if {pivot} != 0:"), *deeper(below)] if below else []
    return rows, sign


def _pivoted(text: _InlineText, rows: Matrix, k: int) -> tuple[Matrix, str]:
    """The rows with the one first of which entry `k` is largest, and whether two were exchanged."""
    top, largest = rows[k], text.let(f"abs({rows[k][k]})")
    larger: list[str] = []
    for row in rows[k + 1 :]:
        size = text.let(f"abs({row[k]})")
        larger.append(text.let(f"{size} > {largest}"))
        largest = text.let(f"{size} if {larger[-1]} else {largest}")
    first, others, later = top, rows[k + 1 :], ""
    for row, is_larger in zip(others, larger, strict=True):
        first = _selected(text, is_larger, row, first, k)
    for i in reversed(range(len(others))):
        taken = text.let(f"{larger[i]} and not {later}") if later else larger[i]
        later = text.let(f"{larger[i]} or {later}") if later else larger[i]
        others[i] = _selected(text, taken, top, others[i], k)
    return [*rows[:k], first, *others], later


def _selected(
    text: _InlineText, which: str, row: list[str], other: list[str], first: int
) -> list[str]:
    """One of two rows, from entry `first` on."""
    pairs = zip(row[first:], other[first:], strict=True)
    return [*other[:first], *(text.let(f"{a} if {which} else {b}") for a, b in pairs)]


def _solved(text: _InlineText, right: Matrix) -> None:
    """Store what solves the equations of the first operand's matrix."""
    n = text.order
    both = [[*a, *b] for a, b in zip(text.matrix(0, n, wide=True), right, strict=True)]
    upper, _ = _eliminated(text, both, may_fail=True)
    solution = [row[n:] for row in upper]
    substitute([row[:n] for row in upper], solution, text.let_rounded, upper=True)
    text.store([entry for row in solution for entry in row])


def _solve(text: _InlineText) -> None:
    _solved(text, text.matrix(1, text.columns))


def _inv(text: _InlineText) -> None:
    order = range(text.order)
    _solved(text, [[text.let(f"{text.real}({float(i == j)})") for j in order] for i in order])


def _diagonal(text: _InlineText) -> tuple[list[str], str]:
    """The pivots of the first operand, and the sign of the exchange of its rows."""
    rows, sign = _eliminated(text, text.matrix(0, text.order, wide=True), may_fail=False)
    return [rows[k][k] for k in range(text.order)], sign


def _det(text: _InlineText) -> None:
    pivots, sign = _diagonal(text)
    text.store([" * ".join([sign, *pivots])], 1)


def _slogdet(text: _InlineText) -> None:
    pivots, sign = _diagonal(text)
    signs = [f"(1.0 if {p} > 0 else -1.0 if {p} < 0 else np.nan)" for p in pivots]
    total = " + ".join(f"rt.log(abs({p}))" for p in pivots)
    text.store([f"{sign} if {sign} == 0 else {' * '.join([sign, *signs])}"], 1)
    text.store([f"-np.inf if {sign} == 0 else {total}"], 2)


def _cofactor(text: _InlineText) -> None:
    if text.order == 1:
        return text.store(["1.0"], 1)
    (a, b), (c, d) = text.matrix(0, 2)
    return text.store([d, f"-{c}", f"-{b}", a], 1)


# --- triangular matrices --------------------------------------------------------------------------


def _cholesky(text: _InlineText) -> None:
    low = text.matrix(0, text.order)
    factorise(low, text.let, lambda pivot: text.ends(f"not {pivot} > 0", INDEFINITE))
    text.store_lower(low)


def _triangular(
    *, flip: bool, unit: bool = False, check: bool = False
) -> Callable[[_InlineText], None]:
    """A writer of the solution of systems with a lower matrix, or with its transpose."""

    def write(text: _InlineText) -> None:
        low, solution = text.matrix(0, text.order), text.matrix(1, text.columns)
        for k in range(text.order if check else 0):
            text.ends(f"{low[k][k]} == 0", ZERO_AT + k)
        matrix = transposed(low) if flip else low
        substitute(matrix, solution, text.let, upper=flip, unit=unit)
        text.store([entry for row in solution for entry in row])

    return write


def _cholesky_bar(text: _InlineText) -> None:
    low, bar = text.matrix(0, text.order), text.matrix(1, text.order)
    pull_back_factor(low, bar, text.let, text.real)
    text.store_lower(bar)


_WRITERS: dict[str, Callable[[_InlineText], None]] = {
    "solve": _solve,
    "inv": _inv,
    "det": _det,
    "slogdet": _slogdet,
    "cofactor": _cofactor,
    "cholesky": _cholesky,
    "cholesky_bar": _cholesky_bar,
    "triangular0": _triangular(flip=False),
    "triangular1": _triangular(flip=True),
    "triangular0checked": _triangular(flip=False, check=True),
    "triangular1checked": _triangular(flip=True, check=True),
    "triangular0unit": _triangular(flip=False, unit=True),
    "triangular1unit": _triangular(flip=True, unit=True),
}
