"""The opcodes, elementwise ones from the op tables: docs/decisions/bytecode-interpreter.md.

An instruction is a row of eight 32-bit integers: opcode, ``count``, ``target``, operands ``a``,
``b``, ``c``, ``steps``, and ``row``, the place of further numbers in a table. Places are
counted in slots of eight bytes, one for each entry of whatever dtype.

An elementwise op has an opcode for each list of dtypes it takes and for each *form*: ``S`` for
single entries, ``X`` for `count` entries, operands stepping by 0 or 1 (a bit each of `steps`), of
numbers, where it can be vectorised, one with a ``V`` or ``S`` for each operand: vectors of `count`
times eight entries, the last of which may be garbage, or single entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import fdiff.intact_numpy as np

from ...arraytype import BOOL, F8, INT, ArrayType, loop_dtypes
from ...foreign_errors import not_foreign
from ...kernel_rule import Kind
from ...named_tuples import NamedTuple
from ...primitive import PRIMITIVES, Primitive
from ..ir.loops import NUMPY
from ..ir.operation_costs import formula_facts
from ..ir.word_table import with_periodic_of_libm
from .complex_opcodes import forms
from .opcode_bodies import ROUTINES

DTYPES = {"f8": F8, "i8": INT, "b1": BOOL}
PADDED = 8  # entries that a vector form takes at a time, whether there are so many or not
Key = tuple[str, tuple[str, ...], str]  # name of the op, dtypes of operands and result, form
ALWAYS = ""
# What every interpreter has: of numbers, these operations; and these instructions.
_COMMON = (Kind.ADD, Kind.SUBTRACT, Kind.MULTIPLY, Kind.DIVIDE, Kind.NEGATIVE)
_COMMON_ROUTINES = ("fill", "move", "move padded", "copy", "sum f8")
# Words of few instructions; a call of any other is no line of a loop over vectors.
_SHORT = {"abs", "min", "max", "rt.floor", "rt.ceil", "rt.trunc", *NUMPY.values()}


@dataclass(frozen=True, eq=False)
class OpcodeTable:
    """All opcodes: the lines of each, the family it belongs to, and its number by what it is."""

    lines: tuple[tuple[str, ...], ...]
    families: tuple[str, ...]
    numbers: Mapping[Key, int]

    def of(self, families: Collection[str]) -> list[int]:
        """The opcodes of these families, in order."""
        return [k for k, family in enumerate(self.families) if family in families]


class _Entry(NamedTuple):
    """An elementwise op on operands of these dtypes: `text` in ``{0}``, ..., and ``{T}``."""

    name: str
    reads: tuple[str, ...]
    gives: str
    text: str
    common: bool


def table() -> OpcodeTable:
    """The opcodes of all ops there are by now; SciPy's are there once it has been met."""
    return _table(
        tuple(p for p in PRIMITIVES.values() if _textual(p) or p.lowering.complex_formulas)
    )


@lru_cache(maxsize=4)
def _table(primitives: tuple[Primitive, ...]) -> OpcodeTable:
    lines: list[tuple[str, ...]] = []
    families: list[str] = []
    numbers: dict[Key, int] = {}
    for primitive in primitives:
        for entry in _entries(primitive):
            for form, text in _forms(entry):
                numbers[entry.name, (*entry.reads, entry.gives), form] = len(lines)
                lines.append(tuple(text))
                families.append(_family(entry))
    for primitive in primitives:
        for formula in primitive.lowering.complex_formulas:
            for form, text in forms(formula):
                numbers[primitive.name, (*formula.reads, formula.gives), form] = len(lines)
                lines.append(tuple(text))
                families.append(f"complex {primitive.name} {' '.join(formula.reads)}")
    for name, text in ROUTINES.items():
        numbers[name, (), ""] = len(lines)
        lines.append(text)
        families.append(ALWAYS if name in _COMMON_ROUTINES else name)
    return OpcodeTable(tuple(lines), tuple(families), numbers)


def _family(entry: _Entry) -> str:
    """The family of an opcode: an interpreter has `ALWAYS` and the families that a tape needs."""
    if entry.common and set(entry.reads) == {"f8"}:
        return ALWAYS
    return f"{entry.name} {' '.join(entry.reads)} {entry.gives}"


def _textual(primitive: Primitive) -> bool:
    """Whether the table of ops has an expression for it; a mere copy needs none."""
    rule = primitive.lowering.kernel
    return rule is not None and rule.kind.is_elementwise and rule.text != "{0}"


def short_name(primitive: Primitive, value: float) -> str:
    """Name of the op with that constant as second operand."""
    return f"{primitive.name} {value:g}"


# --- which dtypes an op takes -------------------------------------------------------------------


def _entries(primitive: Primitive) -> Iterator[_Entry]:
    rule = primitive.lowering.kernel
    if rule is None or not _textual(primitive):
        return
    text, common = rule.text, rule.kind in _COMMON
    if rule.kind is Kind.CONVERT:
        for source, target in product(DTYPES, repeat=2):
            if source != target:
                yield _Entry(primitive.name, (source,), target, text, common)
        return
    for reads in product(DTYPES, repeat=formula_facts(text).operands):
        gives = _result(primitive, reads)
        if gives is not None:
            yield _Entry(primitive.name, reads, gives, text, common)
            if reads == ("f8", "f8"):
                for value, short in rule.constants:
                    yield _Entry(short_name(primitive, value), ("f8",), gives, short, common=False)


def _result(primitive: Primitive, reads: tuple[str, ...]) -> str | None:
    """Dtype of the result; None if the op is of other dtypes, to which a tape converts.

    Whole numbers that NumPy checks, such as negative exponents, are left to NumPy.
    """
    dtypes = tuple(DTYPES[name] for name in reads)
    if (
        primitive.lowering.kernel is not None
        and primitive.lowering.kernel.checks_whole
        and "f8" not in reads
    ):
        return None
    function = primitive.rules.evaluate
    try:
        if (
            isinstance(function, np.ufunc)
            and loop_dtypes(function, dtypes)[: len(dtypes)] != dtypes
        ):
            return None
        out = primitive.rules.infer(*(ArrayType((), dtype) for dtype in dtypes))[0].dtype
    except not_foreign(TypeError):
        return None
    return next((name for name, dtype in DTYPES.items() if dtype == out), None)


# --- their lines --------------------------------------------------------------------------------


def _forms(entry: _Entry) -> Iterator[tuple[str, list[str]]]:
    numbers = {*entry.reads, entry.gives} == {"f8"}
    calls = any(word.name not in _SHORT for word in formula_facts(entry.text).words)
    if numbers and not calls:
        yield "S", _loop(entry, "")
    else:
        yield "X", _loop(entry, "X")
    if not numbers or (calls and len(entry.reads) > 1):
        return
    for kinds in product("VS", repeat=len(entry.reads)):
        if "V" in kinds:
            yield "".join(kinds), _loop(entry, "".join(kinds))


def _loop(entry: _Entry, form: str) -> list[str]:
    """Single entries stand before the loop, the others in it."""
    before: list[str] = []
    inside: list[str] = []
    for k, dtype in enumerate(entry.reads):
        kind = form[k : k + 1] if form != "X" else "X"
        place = "abc"[k]
        if kind == "V":
            place += " + i"
        elif kind == "X":
            before.append(f"step{k} = (steps >> {k}) & 1")
            place += f" + step{k} * i"
        target = before if kind in ("S", "") else inside
        target.append(f"{dtype[0]}{k} = {_load(dtype, place)}")
    names = [f"{dtype[0]}{k}" for k, dtype in enumerate(entry.reads)]
    inside.append(_store(entry, names, "target + i" if form else "target"))
    if not form:
        return [*before, *inside]
    count = "count" if form == "X" else f"{PADDED} * count"
    return [*before, f"for i in range({count}):", *("    " + line for line in inside)]


def _load(dtype: str, place: str) -> str:
    if dtype == "f8":
        return f"floats[{place}]"
    return f"ints[{place}]" if dtype == "i8" else f"ints[{place}] != 0"


def _store(entry: _Entry, names: list[str], place: str) -> str:
    """Angles are taken by libm, which serves the largest ones too."""
    text = entry.text.replace("{T}", NUMPY[entry.gives]).format(*names)
    text = with_periodic_of_libm(text)
    if entry.gives == "f8":
        return f"floats[{place}] = {text}"
    if entry.gives == "b1" and "b1" in entry.reads:
        text = f"np.bool_({text})"  # Numba adds and multiplies truth values as whole numbers
    return f"ints[{place}] = np.int64({text})"
