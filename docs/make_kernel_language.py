# ruff: noqa: INP001, T201 - a script, which prints
"""The tables of docs/kernel-language.md, from the code: constructs, types, words and their values.

    python docs/make_kernel_language.py            # print the page with these tables
    python docs/make_kernel_language.py --write    # and write it

Values at NaN, infinities and zeros are those that compiled words give. What stands between the
tables is written by hand. tests/project/test_documents.py compares.
"""

from __future__ import annotations

import ast
import ctypes
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from fdiff.kernels.ir.word_table import COUNTED, DTYPES, OF_GPUS, WORDS, Word
from fdiff.kernels.llvm import expressions, machine, statements
from fdiff.kernels.llvm.arithmetic import UnknownWordError
from fdiff.kernels.llvm.text_to_module import function_of
from fdiff.kernels.llvm.types import common

PAGE = Path(__file__).parent / "kernel-language.md"
_TABLE = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_C = {"f8": ctypes.c_double, "b1": ctypes.c_bool}

CONSTRUCTS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Assign: (
        "`v = x`, `p[i] = x`, `a, b = f(x)`",
        "to names, entries of memory, or the results of a function of the same text",
    ),
    ast.AugAssign: ("`v |= x`", "as `v = v | x`, with any binary operator"),
    ast.If: ("`if`, `elif`, `else`", ""),
    ast.For: (
        "`for i in range(a, b, c)`",
        "`c` is a literal; the loop's variable is an `i8` and is not assigned",
    ),
    ast.While: ("`while`", ""),
    ast.Break: ("`break`", ""),
    ast.Continue: ("`continue`", ""),
    ast.Pass: ("`pass`", ""),
    ast.Return: ("`return x`", "of several values in an outlined function alone"),
    ast.Expr: ("`f(x)`", "a call whose result is not used; a docstring"),
    ast.Name: ("`v`", "a name that is assigned before on every way to here"),
    ast.Constant: (
        "`1`, `2.5`, `True`, `'n'`",
        "`i8`, `f8`, `b1`; one character, which only `rt.fortran` takes",
    ),
    ast.Subscript: ("`p[i]`", "an entry of memory; nothing checks `i`"),
    ast.UnaryOp: ("`-x`, `~x`, `not x`", ""),
    ast.BinOp: (
        "`+ - * / // % << >> & | ^`",
        "`//`, `%`, shifts and bits of integers alone; `x // 0` and `x % 0` are 0",
    ),
    ast.Compare: ("`a < b <= c`", "with NaN only `!=` is true"),
    ast.BoolOp: ("`and`, `or`", "of truth values; the second operand is evaluated if it matters"),
    ast.IfExp: ("`a if c else b`", "only one of both is evaluated where one reads memory or calls"),
    ast.Call: ("`rt.word(x)`, `f(x)`", "a word, or a function that stands before in the same text"),
    ast.Attribute: ("`np.inf`, `np.nan`", ""),
}
LETTERS = {
    "f": "a real number", "n": "a number or truth value", "i": "an integer of 64 bits",
    "b": "a truth value", "p": "memory", "v": "a vector", "k": "a literal",
    "*": "any number of arguments",
}  # fmt: skip


def _rows(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([cell.replace("|", "\\|") for cell in row] for row in lines)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def constructs() -> str:
    """Every kind of syntax that the compiler has a handler for."""
    kinds = [*statements._HANDLERS, *expressions._HANDLERS]
    return _rows(("syntax", "meaning"), (CONSTRUCTS[kind] for kind in kinds))


def types() -> str:
    """Dtypes, and what two of them are combined in."""
    spelt = sorted(DTYPES.values())
    names = {dtype: name for name, dtype in DTYPES.items()}
    rows = ((f"`{a}`", f"`{names[a]}`", *(f"`{common(a, b)}`" for b in spelt)) for a in spelt)
    return _rows(("type", "NumPy", *(f"with `{b}`" for b in spelt)), rows)


def letters() -> str:
    """What the letters in the types of words stand for."""
    return "; ".join(f"`{letter}` is {meaning}" for letter, meaning in LETTERS.items()) + ".\n"


def words() -> str:
    """Every word of a processor's kernels: what it takes and gives, and its meaning."""
    return _listed([*WORDS.values(), *COUNTED.values()])


def of_gpus() -> str:
    """The same of the words that kernels for GPUs have beside these."""
    return _listed(OF_GPUS.values())


def _listed(words: Iterable[Word]) -> str:
    rows = ((_call(word), word.types.replace("->", "→").strip(), word.meaning) for word in words)
    return _rows(("word", "types", "meaning"), rows)


def _call(word: Word) -> str:
    return f"`{word.name}0`, `{word.name}1`, ..." if word.name in COUNTED else f"`{word.name}`"


def one() -> str:
    """Values of functions of one real number."""
    points = (math.nan, -math.inf, -0.0, 0.0, math.inf)
    return _values([(x,) for x in points], [_number(x) for x in points])


def two() -> str:
    """Values of functions of two real numbers."""
    inf, nan = math.inf, math.nan
    points = [
        (nan, 1.0), (1.0, nan), (-inf, 1.0), (inf, 1.0), (1.0, inf), (inf, inf), (0.0, -0.0),
        (-0.0, 0.0),
    ]  # fmt: skip
    return _values(points, [", ".join(map(_number, point)) for point in points])


def _values(points: Sequence[tuple[float, ...]], heads: Sequence[str]) -> str:
    return _rows(("word at", *heads), _value_rows(points))


def _value_rows(points: Sequence[tuple[float, ...]]) -> Iterator[Sequence[str]]:
    """The words of as many real numbers as a point has, with their values at each point."""
    count = len(points[0])
    for word in WORDS.values():
        numbers = len(word.parameters) == count and set(word.parameters) <= {"f", "n"}
        if not numbers or not word.name.startswith(("rt.", *_OWN)):
            continue
        with suppress(UnknownWordError):  # of integers alone
            function = _function(word)
            yield f"`{word.name}`", *(_value(word, function, point) for point in points)


def _value(word: Word, function: Callable[..., float], point: tuple[float, ...]) -> str:
    """The value at a point, as text."""
    if word.name in _EITHER_ZERO and point[0] == point[1] == 0.0:
        return "0 or -0"
    return _number(function(*point))


_EITHER_ZERO = ("rt.fmax", "rt.fmin")  # which of two zeros it is depends on the processor


_OWN = ("abs", "math.sqrt", "math.copysign")  # others of `math` are the C library's


def _function(word: Word) -> Callable[..., float]:
    """A word as a compiled function of Python floats."""
    count = len(word.parameters)
    names = "xyz"[:count]
    out = word.result(["f8"] * count)
    parameters = ", ".join(f'{name}: "f8"' for name in names)
    result = f"np.float64({word.name}({', '.join(names)}))"
    text = f'def f({parameters}) -> "f8":\n    return {result}\n'
    loaded = machine.Loaded(machine.object_code(function_of(text)), "f")
    found = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * count)(loaded.address)

    def function(*args: float) -> float:
        value, _ = found(*args), loaded  # which stays in memory
        return bool(value) if out == "b1" else value

    return function


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value)
    return f"{value:.4g}".replace("nan", "NaN").replace("-NaN", "NaN")


TABLES = {
    "constructs": constructs,
    "types": types,
    "letters": letters,
    "words": words,
    "of_gpus": of_gpus,
    "one": one,
    "two": two,
}


def page() -> str:
    """The page with its tables as the code says."""
    text = PAGE.read_text(encoding="utf-8")
    return _TABLE.sub(lambda m: f"{m[1]}\n{TABLES[m[2]]()}\n{m[3]}", text)


if __name__ == "__main__":
    found = page()
    if "--write" in sys.argv:
        PAGE.write_text(found, encoding="utf-8")
    else:
        print(found, end="")
