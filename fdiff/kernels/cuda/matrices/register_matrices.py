"""Matrix routines for very small matrices: each thread keeps the entries of a matrix in registers.

Texts are unrolled for one order, because registers have no addresses: entry (i, j) is the variable
``a{i}_{j}``. A row that is found at run time (a pivot) is therefore exchanged by selections: with
each row that it may be, one of which is it. The steps follow the texts for CPUs
(`runtime.linalg_routines`, `runtime.triangular`), which name their sources; sums are in double
precision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain, product

from ....named_tuples import NamedTuple
from ...codegen.unrolled_steps import (
    Matrix,
    factorise,
    pull_back_factor,
    substitute,
    transposed,
)
from ...ir.expression_names import renamed
from ...ir.loops import NUMPY
from ...runtime.status_errors import INDEFINITE, SINGULAR, ZERO_AT

Lines = list[str]
_ASSIGNED = re.compile(r"( *)([a-z]\w*) = ")
_SINGULAR = f"status[0] = {SINGULAR}"


class RegisterRoutine(NamedTuple):
    """A routine of many matrices of one order: its text, and the function that a kernel calls."""

    text: str
    name: str
    buffers: int  # how many buffers of a call it takes: operands and results


@lru_cache(maxsize=256)
def register_routine(name: str, dtype: str, n: int) -> RegisterRoutine | None:
    """The text of a routine such as ``solve`` for matrices of order `n`; None without one."""
    texts = _ROUTINES.get(name)
    if texts is None or n > _MOST.get(name, n):
        return None
    parameters, body, columns = texts
    head = f"{name}_in_registers{n}"
    parameter_names = [*parameters.split(", "), "stack", *(["columns"] if columns else [])]
    lines = [
        f"def {head}({', '.join(parameter_names)}, status, first, count):",
        "    s = first",
        "    while s < stack:",
        f"        at = s * {n * n}",
        *_deeper(_assigned_once(body(n, _Entries(NUMPY[dtype]))), 2),
        "        s = s + count",
    ]
    return RegisterRoutine("\n".join(lines) + "\n", head, len(parameters.split(", ")))


def _assigned_once(lines: Lines) -> Lines:
    """The lines with a new name for each assignment to a variable: static single assignment.

    That is right because no branch or loop changes what lines outside of it use. Numba would do
    the same by a pass over all lines for each variable, which takes longer than all else.
    """
    current: dict[str, str] = {}
    count: dict[str, int] = {}
    out: Lines = []
    for line in lines:
        target = _ASSIGNED.match(line)
        used = renamed(line[target.end() :] if target else line, current)
        if target:
            name = target[2]
            number = count[name] = count.get(name, -1) + 1
            current[name] = f"{name}_{number}" if number else name
            used = f"{target[1]}{current[name]} = {used}"
        out.append(used)
    return out


class _Entries(NamedTuple):
    """How entries in memory, of dtype `real`, become numbers in registers, and these entries."""

    real: str

    def load(self, name: str, source: str, n: int, *, upper: bool = True) -> Lines:
        """A matrix, or what of it is not above the diagonal."""
        return [
            f"{name}{i}_{j} = np.float64({source}[at + {i * n + j}])"
            for i, j in product(range(n), repeat=2)
            if upper or j <= i
        ]

    def store(self, low: Matrix, to: str) -> Lines:
        """A lower triangular matrix, with zeros above."""
        n = len(low)
        return [
            f"{to}[at + {i * n + j}] = {self.real}({low[i][j] if j <= i else 0})"
            for i, j in product(range(n), repeat=2)
        ]

    def column(self, source: str, n: int) -> Lines:
        """Column `c` of the right-hand sides, in ``b0, b1, ...``."""
        return [f"b{i} = np.float64({source}[right + {i} * columns + c])" for i in range(n)]

    def put(self, column: Matrix, to: str) -> Lines:
        """One column of a matrix as column `c` of the solutions."""
        return [
            f"{to}[right + {i} * columns + c] = {self.real}({b})" for i, (b,) in enumerate(column)
        ]


class _Steps:
    """The lines of `unrolled_steps`: each expression has a variable of its own."""

    def __init__(self) -> None:
        self.lines: Lines = []

    def let(self, text: str) -> str:
        """A new variable."""
        name = f"u{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name


Body = Callable[[int, _Entries], Lines]


def _square(name: str, n: int) -> Matrix:
    """The variables that are the entries of a matrix."""
    return [[f"{name}{i}_{j}" for j in range(n)] for i in range(n)]


def _deeper(lines: Iterable[str], levels: int = 1) -> Lines:
    return ["    " * levels + line for line in lines]


def _minus(target: str, x: str, y: str) -> str:
    return f"{target} = {target} - {x} * {y}"


def _exchanged(test: str, pairs: Iterable[tuple[str, str]]) -> Lines:
    """The variables of each pair exchanged where a test holds."""
    out = [f"hit = {test}"]
    for x, y in pairs:
        out += [
            f"kept = {x}",
            f"{x} = rt.select(hit, {y}, kept)",
            f"{y} = rt.select(hit, kept, {y})",
        ]
    return out


def _eliminated(k: int, n: int) -> Lines:
    """Column `k` eliminated below the pivot: ``P A = L U`` in place of A."""
    out: Lines = []
    for i in range(k + 1, n):
        out.append(f"a{i}_{k} = a{i}_{k} / pivot")
        out += [_minus(f"a{i}_{j}", f"a{i}_{k}", f"a{k}_{j}") for j in range(k + 1, n)]
    return out


# --- systems of equations and determinants -----------------------------------------------------


def _factored(n: int) -> Lines:
    """``P A = L U`` with partial pivoting: row k goes to `p{k}`; `sign` is 0 of a singular A."""
    out = ["sign = np.int64(1)"]
    for k in range(n):
        out += [f"p{k} = np.int64({k})", f"most = abs(a{k}_{k})"]
        for i in range(k + 1, n):
            out += [
                f"size = abs(a{i}_{k})",
                "hit = size > most",
                "most = rt.select(hit, size, most)",
                f"p{k} = rt.select(hit, {i}, p{k})",
            ]
        out.append(f"sign = rt.select(p{k} == {k}, sign, -sign)")
        for i in range(k + 1, n):
            rows = [(f"a{k}_{j}", f"a{i}_{j}") for j in range(n)]
            out += _exchanged(f"p{k} == {i}", rows)
        out += [
            f"zero = a{k}_{k} == 0",
            "sign = rt.select(zero, 0, sign)",
            f"pivot = rt.select(zero, 1.0, a{k}_{k})",  # there is nothing to eliminate then
        ]
        out += _eliminated(k, n)
    return out


def _solution(n: int, entries: _Entries) -> Lines:
    """``b0, b1, ...`` from a right-hand side to the solution of ``L U x = P b``, stored in `x`."""
    exchanges: Lines = []
    for k, i in product(range(n), repeat=2):
        if i > k:
            exchanges += _exchanged(f"p{k} == {i}", [(f"b{k}", f"b{i}")])
    steps, column = _Steps(), [[f"b{i}"] for i in range(n)]
    substitute(_square("a", n), column, steps.let, upper=False, unit=True)
    substitute(_square("a", n), column, steps.let, upper=True)
    return [*exchanges, *steps.lines, *entries.put(column, "x")]


def _regular(lines: Lines) -> Lines:
    """These lines for a regular matrix, the status of a singular one."""
    return ["if sign == 0:", f"    {_SINGULAR}", "else:", *_deeper(lines)]


def _columns(n: int, lines: Lines) -> Lines:
    """These lines for each column of the right-hand sides."""
    return [f"right = s * {n} * columns", "for c in range(columns):", *_deeper(lines)]


def _solve(n: int, entries: _Entries) -> Lines:
    each = [*entries.column("b", n), *_solution(n, entries)]
    return [*entries.load("a", "a", n), *_factored(n), *_regular(_columns(n, each))]


def _inv(n: int, entries: _Entries) -> Lines:
    unit = [f"b{i} = 1.0 if c == {i} else 0.0" for i in range(n)]
    each = [f"columns = {n}", *_columns(n, [*unit, *_solution(n, entries)])]
    return [*entries.load("a", "a", n), *_factored(n), *_regular(each)]


def _det(n: int, entries: _Entries) -> Lines:
    products = [f"value = value * a{i}_{i}" for i in range(n)]
    out = [*entries.load("a", "a", n), *_factored(n), "value = np.float64(sign)", *products]
    return [*out, f"x[s] = {entries.real}(value)"]


def _slogdet(n: int, entries: _Entries) -> Lines:
    out = [*entries.load("a", "a", n), *_factored(n)]
    out += ["signed = np.float64(sign)", "total = np.float64(0)"]
    for i in range(n):
        out.append(f"signed = signed * rt.sign(a{i}_{i})")
        out.append(f"total = total + rt.log(abs(a{i}_{i}))")
    return [
        *out,
        f"signs[s] = {entries.real}(rt.select(sign == 0, 0.0, signed))",
        f"logs[s] = {entries.real}(rt.select(sign == 0, -np.inf, total))",
    ]


# --- cofactors -----------------------------------------------------------------------------------


def _factored_fully(n: int) -> Lines:
    """``P A Q = L U`` with complete pivoting: pivot k comes from row `r{k}`, column `q{k}`."""
    out = ["sign = np.float64(1)"]
    out += [f"{name}{k} = np.int64({k})" for name in "rq" for k in range(n)]
    for k in range(n):
        out += [f"row = np.int64({k})", f"column = np.int64({k})", f"most = abs(a{k}_{k})"]
        for i, j in product(range(k, n), repeat=2):
            if (i, j) != (k, k):
                out += [
                    f"size = abs(a{i}_{j})",
                    "hit = size > most",
                    "most = rt.select(hit, size, most)",
                    f"row = rt.select(hit, {i}, row)",
                    f"column = rt.select(hit, {j}, column)",
                ]
        out += [f"sign = rt.select(row == {k}, sign, -sign)"]
        out += [f"sign = rt.select(column == {k}, sign, -sign)"]
        for i in range(k + 1, n):
            rows = [(f"a{k}_{j}", f"a{i}_{j}") for j in range(n)]
            columns = [(f"a{j}_{k}", f"a{j}_{i}") for j in range(n)]
            out += _exchanged(f"row == {i}", [*rows, (f"r{k}", f"r{i}")])
            out += _exchanged(f"column == {i}", [*columns, (f"q{k}", f"q{i}")])
        out.append(f"pivot = rt.select(a{k}_{k} == 0, 1.0, a{k}_{k})")
        out += _eliminated(k, n)
    return out


def _cofactor(n: int, entries: _Entries) -> Lines:
    """Column `c` of adj(U) inv(L) at a time, as `runtime.linalg_routines` explains."""
    last = n - 1
    each = [f"b{i} = 1.0 if c == {i} else 0.0" for i in range(n)]
    each += [_minus(f"b{i}", f"a{i}_{k}", f"b{k}") for i in range(n) for k in range(i)]
    for i in reversed(range(last)):
        each.append(f"b{i} = a{last}_{last} * b{i} - a{i}_{last} * b{last}")
        each += [_minus(f"b{i}", f"a{i}_{k}", f"b{k}") for k in range(i + 1, last)]
        each.append(f"b{i} = b{i} / a{i}_{i}")
    each.append("row = r0")
    each += [f"row = rt.select(c == {i}, r{i}, row)" for i in range(1, n)]
    each += [f"b{i} = rt.select(scale == 0, scale, b{i} * scale)" for i in range(n)]
    each += [f"x[at + row * {n} + q{i}] = {entries.real}(b{i})" for i in range(n)]
    out = [*entries.load("a", "a", n), *_factored_fully(n), "scale = sign"]
    out += [f"scale = scale * a{i}_{i}" for i in range(last)]
    return [*out, f"for c in range({n}):", *_deeper(each)]


# --- symmetric and triangular matrices ---------------------------------------------------------


def _cholesky(n: int, entries: _Entries) -> Lines:
    steps, low = _Steps(), _square("a", n)

    def check(pivot: str) -> None:
        steps.lines.append(f"fails = rt.select({pivot} > 0, fails, 1)")

    factorise(low, steps.let, check)
    out = [*entries.load("a", "a", n, upper=False), "fails = np.int64(0)", *steps.lines]
    stored = _deeper(entries.store(low, "x"))
    return [*out, "if fails:", f"    status[0] = {INDEFINITE}", "else:", *stored]


def _cholesky_bar(n: int, entries: _Entries) -> Lines:
    steps, bar = _Steps(), _square("b", n)
    pull_back_factor(_square("a", n), bar, steps.let, "np.float64")
    loads = [line for name in "ab" for line in entries.load(name, name, n, upper=False)]
    return [*loads, *steps.lines, *entries.store(bar, "x")]


def _triangular(*, flip: bool, unit: bool = False, checked: bool = False) -> Body:
    """``low x = b``, or with the transpose of `low`; a zero on its diagonal may be an error."""

    def lines(n: int, entries: _Entries) -> Lines:
        out = entries.load("a", "a", n, upper=False)
        steps, column = _Steps(), [[f"b{i}"] for i in range(n)]
        matrix = transposed(_square("a", n)) if flip else _square("a", n)
        substitute(matrix, column, steps.let, upper=flip, unit=unit)
        if checked:  # without right-hand sides nothing is solved, so nothing fails
            tests = ((f"if columns > 0 and a{i}_{i} == 0:", f"    status[0] = {ZERO_AT + i}")
                     for i in reversed(range(n)))  # fmt: skip
            out += chain.from_iterable(tests)
        each = [*entries.column("b", n), *steps.lines, *entries.put(column, "x")]
        return [*out, *_columns(n, each)]

    return lines


_ROUTINES: dict[str, tuple[str, Body, bool]] = {  # buffers, body, whether there are columns
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
