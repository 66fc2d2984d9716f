"""Argument registers: how the entry stub unpacks the arguments of a call.

The stub numbers the arguments of a call, then the items of tuples, lists, dicts and dataclasses
among them: each object has a register. A sample call determines the unpackings, the comparisons on
the way, and the register of each leaf.
"""

from __future__ import annotations

from dataclasses import is_dataclass

import fdiff.intact_numpy as np

from ...kernels import CallSignature, Unpack
from ...tree import flatten, is_registered, node_parts
from ..arguments import NUMERIC, STATIC, fixed


class NoFastPathError(Exception):
    """The call needs something that the entry stub cannot do."""


class ArgumentRegisters:
    """The register of each leaf of a call, and the comparisons that the stub makes on the way.

    `registers` are the registers of the `leaves`, which are in the tree `spec`. The value of
    ``out`` is not an argument; its register is `out`. `before` objects stand before the arguments.
    """

    def __init__(
        self, args: tuple[object, ...], kwargs: dict[str, object], *, before: int = 0, out: bool
    ) -> None:
        self._unpacks: list[Unpack] = []
        self.registers: list[int] = []
        self._arguments, self._keywords = before + len(args), tuple(kwargs)
        self._next = self._arguments + len(kwargs)
        self.out: int | None = None
        registers = iter(range(before, self._next))
        for value, register in zip(args, registers, strict=False):
            self._open(value, register)
        for name, value in kwargs.items():
            register = self._arguments + self._keywords.index(name)
            if out and name == "out":
                self.out = register
            else:
                self._open(value, register)
        rest = {k: v for k, v in kwargs.items() if not (out and k == "out")}
        self.kwargs = rest
        self.leaves, self.spec = flatten((args, rest))
        if len(self.leaves) != len(self.registers):
            raise NoFastPathError

    @property
    def given(self) -> CallSignature:
        """The call as the stub has it."""
        return CallSignature(self._arguments, self._keywords, tuple(self._unpacks))

    def children(self, value: object, register: int) -> list[tuple[object, int]] | None:
        """The children of a node of the tree, each with its new register; None for a leaf."""
        parts = node_parts(value)
        if parts is None:
            return None
        kind, (names, parts_inside) = type(value), parts
        if is_registered(kind):
            raise NoFastPathError
        if kind is dict:
            how = "DICT"
        elif kind is list or (isinstance(value, tuple) and kind.__iter__ is tuple.__iter__):  # type: ignore[attr-defined] - a tuple has it
            how = "SEQUENCE"
        elif is_dataclass(value):
            how = "FIELDS"
        else:
            raise NoFastPathError
        self._unpacks.append(Unpack(how, register, kind, len(parts_inside), names))
        begin = self._next
        self._next += len(parts_inside)
        return list(zip(parts_inside, range(begin, self._next), strict=True))

    def same(self, value: object, register: int) -> None:
        """The object in a register must be the one it was."""
        self._unpacks.append(Unpack("EQUAL", register, type(value), 0, (value,)))

    def _open(self, value: object, register: int) -> None:
        if value is None:
            self.same(value, register)
            return
        below = None if type(value) in STATIC else self.children(value, register)
        if below is None:
            if not numeric(value):
                if isinstance(value, np.ndarray) or not fixed(value):
                    raise NoFastPathError
                self.same(value, register)
            self.registers.append(register)
            return
        for child, place in below:
            self._open(child, place)


def numeric(leaf: object) -> bool:
    """Whether a leaf is an array or a number that a kernel can read where it lies."""
    if type(leaf) is np.ndarray:
        return leaf.dtype.kind in NUMERIC
    return type(leaf) in (float, complex, np.float64, np.float32, np.complex128, np.complex64)
