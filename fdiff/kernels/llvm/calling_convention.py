"""The calling convention of kernels: the addresses of four tables, which hold all values.

`data` holds the addresses of arrays, the last of which is the workspace; `strides`, `ints` and
`floats` hold numbers. A kernel that several threads run has a fifth argument, the thread's
knowledge of itself and of the others.

A parameter of a text is annotated with its type and location. ``x0: "f8* data[0]"`` is an array,
``x1: "f8 data[1]"`` the number at an address, ``r0: "u1* work[6]"`` the part of the workspace that
begins ``ints[6]`` bytes from its start, and ``ints: "i8* ints"`` a whole table.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from llvmlite import ir

from ...named_tuples import NamedTuple
from .types import BYTE, WORD, TypedValue, convert, is_pointer, llvm_type, stored_type

TABLES = ("data", "strides", "ints", "floats")
TYPES = (BYTE.as_pointer().as_pointer(), WORD.as_pointer(), WORD.as_pointer(), llvm_type("f8*"))
WORKER = "worker"  # the fifth argument
_ENTRIES = {"ints": "i8", "strides": "i8", "floats": "f8"}


class Location(NamedTuple):
    """The location of a typed value: an entry of a table, by number; -1 is the table itself."""

    type: str
    table: str
    entry: int


class ArgumentTables(NamedTuple):
    """The tables as arguments of a function; in `data`, `arrays` come before the workspace."""

    values: tuple[ir.Value, ...]
    arrays: int

    def within(self, values: Sequence[ir.Value]) -> ArgumentTables:
        """These tables as arguments of another function."""
        return self._replace(values=tuple(values))

    def load(self, code: ir.IRBuilder, at: Location, index: ir.Value) -> ir.Value:
        """Load the entry of number `index` at a location."""
        if at.table in _ENTRIES:
            return code.load(code.gep(self.values[TABLES.index(at.table)], [index]))
        work = at.table == "work"
        begin = code.load(code.gep(self.values[0], [WORD(self.arrays) if work else index]))
        if work:
            begin = code.gep(begin, [code.load(code.gep(self.values[2], [index]))])
        pointer = code.bitcast(begin, stored_type(at.type.removesuffix("*")).as_pointer())
        if is_pointer(at.type):
            return pointer
        value = code.load(pointer)
        return convert(code, TypedValue("u1", value), "b1").value if at.type == "b1" else value


def location(parameter: ast.arg) -> Location:
    """Where a parameter lies, by its annotation."""
    assert isinstance(parameter.annotation, ast.Constant)
    type_, source = str(parameter.annotation.value).split()
    table, _, rest = source.partition("[")
    return Location(type_, table, int(rest[:-1]) if rest else -1)


def table_read(statement: ast.stmt) -> tuple[str, Location] | None:
    """Name and location, if a statement does nothing but read an entry of a table."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Subscript):
        return None
    (target,), entry = statement.targets, statement.value
    if not (isinstance(target, ast.Name) and isinstance(entry.value, ast.Name)):
        return None
    type_, index = _ENTRIES.get(entry.value.id), entry.slice
    if type_ is None or not (isinstance(index, ast.Constant) and isinstance(index.value, int)):
        return None
    return target.id, Location(type_, entry.value.id, index.value)
