"""The symbol table of a kernel's text: meanings of names, spellings of routines and memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.loops import Call
from ..kernel_source import IntegerTable
from ..runtime.routines import parameters
from .lines import LineKind, TextLine, comment, deeper, leave


@dataclass(frozen=True)
class SymbolTable:
    """The symbols to which names in a kernel's text refer.

    `routines` are the matrix routines, whose addresses lie in the `table` of integers. `truths` is
    the memory that holds truth values: bytes, of which each is 0 or 1.
    """

    routines: tuple[str, ...]
    table: IntegerTable
    truths: frozenset[str]

    def entry(self, name: str, at: str) -> str:
        """The value of an entry of memory."""
        return f"{name}[{at}] != 0" if name in self.truths else f"{name}[{at}]"

    def operand(self, name: str, at: str) -> str:
        """The value of an entry of memory, in brackets where an expression needs them."""
        return f"({self.entry(name, at)})" if name in self.truths else self.entry(name, at)

    def legend(self) -> list[TextLine]:
        """Comments that tell which routines are called by address, and with what."""
        return [
            comment(f"ints[{k}]: {routine}({', '.join(parameters(routine))})")
            for k, routine in enumerate(self.routines, self.table.numbers)
        ]

    def call(self, item: Call, *, part: bool) -> list[TextLine]:
        """The call of a routine. The address of the table of BLAS follows the routines' addresses.

        A parallel loop uses the next table, of functions that start no threads.
        """
        address = self.table.numbers + self.routines.index(item.routine)
        blas = self.table.blas + part
        begins = item.begins or ("",) * len(item.buffers)
        buffers = [
            f"rt.offset({name}, {begin})" if begin else name
            for name, begin in zip(item.buffers, begins, strict=True)
        ]
        arguments = (*buffers, *item.sizes, f"ints[{blas}]")
        called = f"status = {call_text(f'ints[{address}]', *arguments)}"
        return [
            comment(item.comment),
            TextLine(called, LineKind.LEAVE, "status"),
            TextLine("if status != 0:"),
            *deeper([leave("status")]),
        ]


def call_text(address: str, *arguments: str) -> str:
    """The call of a function at an address; the word for it has the number of its arguments."""
    return f"rt.call{len(arguments)}({', '.join((address, *arguments))})"
