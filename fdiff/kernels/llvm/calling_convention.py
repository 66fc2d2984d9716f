"""What a kernel is handed: four addresses, of tables in which everything else is looked up.

They are the addresses of arrays (`data`, of which the last is the workspace), and the tables of
strides, whole numbers and real numbers. ``work[6]`` is the part of the workspace that begins
``ints[6]`` bytes from its start.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from .types import BYTE, WORD, Term, convert, is_pointer, llvm_type, stored_type

TABLES = ("data", "strides", "ints", "floats")
TYPES = (BYTE.as_pointer().as_pointer(), WORD.as_pointer(), WORD.as_pointer(), llvm_type("f8*"))
CREW = "crew"  # a fifth address, where several threads run a kernel: what they share
_ENTRIES = {"ints": "i8", "strides": "i8", "floats": "f8"}


class Place(NamedTuple):
    """Where a value of some kind lies: a table and the number of an entry there."""

    kind: str
    table: str
    entry: int


class Tables(NamedTuple):
    """The tables as values of a function; so many `arrays` come before the workspace."""

    values: tuple[ir.Value, ...]
    arrays: int

    def at(self, values: Sequence[ir.Value]) -> Tables:
        """The same tables in another function."""
        return self._replace(values=tuple(values))


def spoken(argument: ast.arg) -> Place:
    """Where a parameter comes from; a table itself has no entry."""
    assert isinstance(argument.annotation, ast.Constant)
    kind, source = str(argument.annotation.value).split()
    table, _, rest = source.partition("[")
    return Place(kind, table, int(rest[:-1]) if rest else -1)


def read_at(statement: ast.stmt) -> tuple[str, Place] | None:
    """The name and the place, where a statement does nothing but read an entry of a table."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Subscript):
        return None
    (target,), entry = statement.targets, statement.value
    if not (isinstance(target, ast.Name) and isinstance(entry.value, ast.Name)):
        return None
    kind, number = _ENTRIES.get(entry.value.id), entry.slice
    if kind is None or not (isinstance(number, ast.Constant) and isinstance(number.value, int)):
        return None
    return target.id, Place(kind, entry.value.id, number.value)


def looked_up(
    code: ir.IRBuilder, tables: Tables, kind: str, table: str, number: ir.Value
) -> ir.Value:
    """What lies at a place."""
    if table in _ENTRIES:
        return code.load(code.gep(tables.values[TABLES.index(table)], [number]))
    work = table == "work"
    begin = code.load(code.gep(tables.values[0], [WORD(tables.arrays) if work else number]))
    if work:
        begin = code.gep(begin, [code.load(code.gep(tables.values[2], [number]))])
    pointer = code.bitcast(begin, stored_type(kind.removesuffix("*")).as_pointer())
    if is_pointer(kind):
        return pointer
    value = code.load(pointer)
    return convert(code, Term("u1", value), kind).at if kind == "b1" else value
