"""Outlined functions: functions before a kernel in its text, compiled where they are first called.

Their parameters have the types of the call's arguments; they store their results into words of the
caller. No two of their pointer parameters point to the same memory. A kernel may call them hundreds
of times with hundreds of arguments each, most of which lie in its tables. Such arguments are passed
as one list of indices, and a *trampoline* between kernel and function loads them: LLVM takes much
longer for a thousand loads in the kernel.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from functools import partial

from llvmlite import ir

from ...named_tuples import NamedTuple
from ...syntax_trees import walk
from .calling_convention import TABLES, ArgumentTables, Location
from .expressions import expression
from .function_builder import FunctionBuilder, Library, add_alias_attributes, declare, parameters_of
from .llvm_words import local
from .loop_hints import hint_long_loop
from .statements import write
from .types import WORD, TypedValue, is_pointer, llvm_type

_WORD_POINTER = WORD.as_pointer()
_INDEX = ir.IntType(32)


class _Compiled(NamedTuple):
    """A function and the types of its parameters and results."""

    function: ir.Function
    types: tuple[str, ...]
    results: tuple[str, ...]


class OutlinedFunctions:
    """The functions of a kernel's text by name, and the `locations` of names in its `tables`."""

    def __init__(
        self, nodes: dict[str, ast.FunctionDef], locations: dict[str, Location],
        tables: ArgumentTables, library: Library,
    ) -> None:  # fmt: skip
        self._nodes = nodes
        self._locations = locations
        self._tables = tables
        self._library = library
        self._compiled: dict[tuple[str, ...], _Compiled] = {}
        self._trampolines: dict[tuple[str, ...], ir.Function] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def call(self, to: FunctionBuilder, name: str, nodes: list[ast.expr]) -> list[TypedValue]:
        """The results of a call with these arguments."""
        locations = [self._locations.get(n.id) if isinstance(n, ast.Name) else None for n in nodes]
        direct = [expression(to, node) for node, at in zip(nodes, locations, strict=True) if not at]
        others = iter(direct)
        types = tuple(at.type if at else next(others).type for at in locations)
        callee = self._function(to.module, name, types)
        trampoline = self._trampoline(to.module, callee, locations)
        words = to.words(len(callee.results))
        indices = _constants(to.module, [at.entry for at in locations if at])
        values = [*self._tables.values, indices, words, *(x.value for x in direct)]
        to.code.call(trampoline, values)
        results: list[TypedValue] = []
        for k, type_ in enumerate(callee.results):
            word = to.code.gep(words, [WORD(k)])
            slot = to.code.bitcast(word, llvm_type(type_).as_pointer())
            results.append(TypedValue(type_, to.code.load(slot)))
        return results

    def _function(self, module: ir.Module, name: str, types: tuple[str, ...]) -> _Compiled:
        """The function for arguments of these types."""
        key = (name, *types)
        if key not in self._compiled:
            node = self._nodes[name]
            symbol = f"{local(name)}_{len(self._compiled)}"
            function = _declare(module, symbol, [*map(llvm_type, types), _WORD_POINTER])
            add_alias_attributes(function.args, map(is_pointer, (*types, "i8*")))
            to = FunctionBuilder(function, self._library, results=function.args[-1])
            to.on_loop = lambda body: partial(hint_long_loop, lines=len(body))
            to.strict = True
            write(to, node.body, parameters_of(node, types, function))
            self._compiled[key] = _Compiled(function, types, tuple(to.result_types))
        return self._compiled[key]

    def _trampoline(
        self, module: ir.Module, callee: _Compiled, locations: list[Location | None]
    ) -> ir.Function:
        """The function that loads arguments by their indices and calls the outlined one."""
        key = (callee.function.name, *(at.table if at else "" for at in locations))
        if key in self._trampolines:
            return self._trampolines[key]
        pairs = zip(callee.types, locations, strict=True)
        direct = [llvm_type(type_) for type_, at in pairs if not at]
        types = [
            *(v.type for v in self._tables.values),
            _INDEX.as_pointer(),
            _WORD_POINTER,
            *direct,
        ]
        symbol = f"{callee.function.name}_of_{len(self._trampolines)}"
        function = self._trampolines[key] = _declare(module, symbol, types)
        code = ir.IRBuilder(function.append_basic_block())
        indices, words, *others = function.args[len(TABLES) :]
        tables = self._tables.within(function.args[: len(TABLES)])
        remaining, k = iter(others), 0
        values: list[ir.Value] = []
        for at in locations:
            if at is None:
                values.append(next(remaining))
                continue
            index = code.zext(code.load(code.gep(indices, [WORD(k)])), WORD)
            values.append(tables.load(code, at, index))
            k += 1
        code.call(callee.function, [*values, words])
        code.ret_void()
        return function


def _declare(module: ir.Module, symbol: str, types: list[ir.Type]) -> ir.Function:
    return declare(module, symbol, ir.VoidType(), types, "noinline nounwind", internal=True)


def _constants(module: ir.Module, numbers: list[int]) -> ir.Value:
    """The address of these numbers in the module."""
    type_ = ir.ArrayType(_INDEX, len(numbers))
    table = ir.GlobalVariable(module, type_, module.get_unique_name("places"))
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(type_, [_INDEX(n) for n in numbers])
    return table.bitcast(_INDEX.as_pointer())


def only_arguments(body: Iterable[ast.stmt], outlined: set[str]) -> set[str]:
    """The names that a kernel's `body` reads only as arguments of `outlined` functions."""
    as_argument: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for part in (n for statement in body if outlined for n in walk(statement)):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            count[part.id] += 1
        elif isinstance(part, ast.Call) and _called(part) in outlined:
            as_argument.update(a.id for a in part.args if isinstance(a, ast.Name))
    return {name for name, times in as_argument.items() if times == count[name]}


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""
