"""An LLVM function under construction: its local variables, blocks and stack.

A local variable that is assigned once is an SSA value. A variable that is assigned again has a slot
on the stack; LLVM's pass "mem2reg" turns slots into SSA values.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import compress
from typing import Protocol

from llvmlite import ir

from ...foreign_errors import contextmanager
from ...named_tuples import NamedTuple
from .arithmetic import UnknownWordError
from .builder_choice import new_builder
from .types import WORD, TypedValue, convert, llvm_type

# A call of a word of the language: ``rt.exp(x)`` is ``library(builder, "rt", "exp", [x])``.
Library = Callable[["FunctionBuilder", str, str, list[TypedValue]], TypedValue]
Hint = Callable[[ir.ConditionalBranch], None]  # given the branch that closes a loop


def stack_slot(code: ir.IRBuilder, type_: ir.Type, count: int | None = None) -> ir.Value:
    """The address of memory on the stack, taken once where the function begins."""
    with code.goto_entry_block():
        return code.alloca(type_, count)


def declare(
    module: ir.Module, name: str, out: ir.Type, types: list[ir.Type], attributes: str = "nounwind",
    *, internal: bool = False,
) -> ir.Function:  # fmt: skip
    """A function without a body, so far; only its own module can call an `internal` one."""
    function = ir.Function(module, ir.FunctionType(out, types), name)
    function.linkage = "internal" if internal else ""
    for attribute in attributes.split():
        function.attributes.add(attribute)
    return function


def add_alias_attributes(arguments: Sequence[ir.Argument], unshared: Iterable[bool]) -> None:
    """Tell LLVM for each pointer that is `unshared` that no other pointer leads to its memory.

    Source: LLVM Language Reference, section "Parameter Attributes", ``noalias``.
    """
    for argument in compress(arguments, unshared):
        argument.add_attribute("noalias")


def parameters_of(
    node: ast.FunctionDef, types: Sequence[str], function: ir.Function
) -> dict[str, TypedValue]:
    """The parameters of a function by their names in its text; others of LLVM's may follow."""
    names = [a.arg for a in node.args.args]
    values = zip(names, types, function.args, strict=False)
    return {name: TypedValue(type_, value) for name, type_, value in values}


class Callees(Protocol):
    """Functions of the same text, which are compiled for the arguments of each call."""

    def __contains__(self, name: str) -> bool: ...

    def call(self, to: FunctionBuilder, name: str, nodes: list[ast.expr]) -> list[TypedValue]:
        """The results of a call of `name` with these arguments."""
        ...


class _Loop(NamedTuple):
    """The targets of ``continue`` and ``break``."""

    latch: ir.Block
    end: ir.Block


class FunctionBuilder:
    """The function under construction; `code` appends instructions to the current block.

    `result_type` is the type of the result; a function with several results has a word for each at
    `results`.
    """

    def __init__(
        self, function: ir.Function, library: Library, result_type: str = "",
        results: ir.Value | None = None,
    ) -> None:  # fmt: skip
        self.library = library
        self.callees: Callees | None = None
        self.assignments: Counter[str] = Counter()  # how often each local is assigned
        self.result_type = result_type
        self.results = results
        self.strict = False  # whether a local may be assigned no value of another type
        self.result_types: list[str] = []  # of several results, known after the return statement
        self.on_loop: Callable[[list[ast.stmt]], Hint] | None = None  # given a loop's statements
        self.once = False  # whether the statements are not needed afterwards
        self.in_bounds = False  # whether integers are positions in memory, which never overflow
        self._function = function
        self._values: dict[str, TypedValue] = {}
        self._slots: dict[str, TypedValue] = {}
        self._loops: list[_Loop] = []
        self._words: dict[int, ir.Value] = {}
        # The entry block holds stack slots alone: LLVM expects them there.
        self._entry = function.append_basic_block("entry")
        self._begin = function.append_basic_block("begin")
        self.code = new_builder(self._begin)

    def finish(self) -> None:
        """Close the last block, and lead from the stack slots to the function's first one."""
        if not self.code.block.is_terminated:
            self.code.unreachable()
        ir.IRBuilder(self._entry).branch(self._begin)

    @property
    def module(self) -> ir.Module:
        """The module of the function."""
        return self._function.module

    def block(self) -> ir.Block:
        """A new block, to be filled."""
        return self._function.append_basic_block()

    def words(self, count: int) -> ir.Value:
        """A stack slot of at least `count` words; each call returns the same slot."""
        size = 1 << max(count - 1, 0).bit_length()
        if size not in self._words:
            self._words[size] = stack_slot(self.code, WORD, size)
        return self._words[size]

    # --- local variables ----------------------------------------------------------------------

    def read(self, name: str) -> TypedValue:
        """The value of a local."""
        if name in self._values:
            return self._values[name]
        if name not in self._slots:
            raise UnknownWordError(name)
        type_, slot = self._slots[name]
        return TypedValue(type_, self.code.load(slot))

    def assign(self, name: str, x: TypedValue) -> None:
        """Make `x` the value of a local, which keeps the type of its first value."""
        if self.assignments[name] == 1:
            self._values[name] = x
            return
        if name not in self._slots:
            self._slots[name] = TypedValue(x.type, stack_slot(self.code, llvm_type(x.type)))
        type_, slot = self._slots[name]
        if self.strict and x.type != type_:
            raise UnknownWordError(f"{name} is {type_} and becomes {x.type}")
        self.code.store(convert(self.code, x, type_).value, slot)

    @contextmanager
    def bound(self, name: str, x: TypedValue) -> Generator[None]:
        """A loop's variable, within the loop."""
        old = self._values.get(name)
        self._values[name] = x
        yield
        if old is None:
            del self._values[name]
        else:
            self._values[name] = old

    # --- loops --------------------------------------------------------------------------------

    @contextmanager
    def loop(self, latch: ir.Block, end: ir.Block) -> Generator[None]:
        """The body of a loop."""
        self._loops.append(_Loop(latch, end))
        yield
        self._loops.pop()

    @property
    def innermost(self) -> _Loop:
        """The innermost loop around the current block."""
        return self._loops[-1]
