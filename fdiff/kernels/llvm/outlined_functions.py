"""Functions that stand before a kernel in its text: each is written where it is first called.

The kinds of their parameters are those of the call, and what they give is stored into words of the
caller. No two pointers they are given lead to the same memory. A kernel may call them hundreds of
times with hundreds of arguments each, most of which lie in its tables: of those a call hands over
the places, as one list, and a function between the two looks them up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from llvmlite import ir

from .calling_convention import TABLES, Place, Tables, looked_up
from .expressions import expression
from .machine import has
from .statements import Library, Writer
from .types import WORD, Term, is_pointer, llvm_type
from .words import local

_ENOUGH = 24  # lines of a loop in which there is enough to do in one turn
_WORDS = WORD.as_pointer()
_LISTED = ir.IntType(32)


class _Step(NamedTuple):
    """A function and the kinds of its parameters and results."""

    function: ir.Function
    kinds: tuple[str, ...]
    results: tuple[str, ...]


@dataclass
class Steps:
    """The functions of a kernel's text, by name, and what of the kernel lies in its `tables`."""

    texts: dict[str, ast.FunctionDef]
    places: dict[str, Place]
    tables: Tables
    library: Library
    _written: dict[tuple[str, ...], _Step] = field(default_factory=dict)
    _between: dict[tuple[str, ...], ir.Function] = field(default_factory=dict)

    def call(self, to: Writer, name: str, nodes: list[ast.expr]) -> Term:
        """The step called `name`; its results are `to.results`, the first is given."""
        places = [self.places.get(n.id) if isinstance(n, ast.Name) else None for n in nodes]
        direct = [
            expression(to, node) for node, place in zip(nodes, places, strict=True) if not place
        ]
        others = iter(direct)
        kinds = tuple(place.kind if place else next(others).kind for place in places)
        step = self._step(to.module, name, kinds)
        function = self._looking_up(to.module, step, places)
        words = to.words(len(step.results))
        numbers = _list(to.module, [place.entry for place in places if place])
        values = [*self.tables.values, numbers, words, *(term.at for term in direct)]
        to.code.call(function, values)
        to.results = []
        for k, kind in enumerate(step.results):
            word = to.code.gep(words, [WORD(k)])
            place = to.code.bitcast(word, llvm_type(kind).as_pointer())
            to.results.append(Term(kind, to.code.load(place)))
        return to.results[0] if to.results else Term("", WORD(0))

    def _step(self, module: ir.Module, name: str, kinds: tuple[str, ...]) -> _Step:
        """The function for arguments of these kinds."""
        key = (name, *kinds)
        if key not in self._written:
            node = self.texts[name]
            symbol = f"{local(name)}_{len(self._written)}"
            function = _function(module, symbol, [*map(llvm_type, kinds), _WORDS])
            *values, words = function.args
            for value, kind in zip(function.args, (*kinds, "i8*"), strict=True):
                if is_pointer(kind):
                    value.add_attribute("noalias")
            writer = Writer(function, node.body, "", self.library, words)
            writer.turned = _one_at_a_time
            names = [a.arg for a in node.args.args]
            given = zip(names, kinds, values, strict=True)
            writer.write({n: Term(kind, value) for n, kind, value in given})
            self._written[key] = _Step(function, kinds, tuple(writer.given))
        return self._written[key]

    def _looking_up(
        self, module: ir.Module, step: _Step, places: list[Place | None]
    ) -> ir.Function:
        """The function that calls a step with what lies at a list of places."""
        key = (step.function.name, *(place.table if place else "" for place in places))
        if key in self._between:
            return self._between[key]
        pairs = zip(step.kinds, places, strict=True)
        direct = [llvm_type(kind) for kind, place in pairs if not place]
        types = [*(v.type for v in self.tables.values), _LISTED.as_pointer(), _WORDS, *direct]
        symbol = f"{step.function.name}_of_{len(self._between)}"
        function = self._between[key] = _function(module, symbol, types)
        code = ir.IRBuilder(function.append_basic_block())
        numbers, words, *others = function.args[len(TABLES) :]
        tables_here = self.tables.at(function.args[: len(TABLES)])
        given, k = iter(others), 0
        values: list[ir.Value] = []
        for kind, place in zip(step.kinds, places, strict=True):
            if place is None:
                values.append(next(given))
                continue
            number = code.zext(code.load(code.gep(numbers, [WORD(k)])), WORD)
            values.append(looked_up(code, tables_here, kind, place.table, number))
            k += 1
        code.call(step.function, [*values, words])
        code.ret_void()
        return function


def _one_at_a_time(back: ir.ConditionalBranch, lines: int) -> None:
    """Have LLVM make vectors of the turns of a long loop, but not several of these side by side.

    It would where a sum is formed, four times as much code to compile for nothing. Where entries of
    vectors can be left out, the last turns are such a vector, too, and not done one by one.
    """
    if lines < _ENOUGH:
        return
    wishes: list[tuple[str, *tuple[ir.Constant, ...]]] = [
        ("interleave.count", ir.Constant(_LISTED, 1)), ("unroll.disable",),
    ]  # fmt: skip
    if has("avx512f"):
        wishes.append(("vectorize.predicate.enable", ir.Constant(ir.IntType(1), 1)))
    module = back.module
    nodes = [
        module.add_metadata([ir.MetaDataString(module, f"llvm.loop.{name}"), *values])
        for name, *values in wishes
    ]
    loop = ir.MDValue(module, nodes, name=str(len(module.metadata)))
    loop.operands = (loop, *nodes)  # what says something about a loop begins with itself
    back.set_metadata("llvm.loop", loop)


def _function(module: ir.Module, symbol: str, types: list[ir.Type]) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), symbol)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    return function


def _list(module: ir.Module, numbers: list[int]) -> ir.Value:
    """The address of these numbers."""
    type_ = ir.ArrayType(_LISTED, len(numbers))
    found = ir.GlobalVariable(module, type_, module.get_unique_name("places"))
    found.linkage, found.global_constant = "internal", True
    found.initializer = ir.Constant(type_, [_LISTED(n) for n in numbers])
    return found.bitcast(_LISTED.as_pointer())


def only_handed(body: Iterable[ast.stmt], steps: set[str]) -> set[str]:
    """The names that are nothing but arguments of steps in what a kernel does."""
    handed: dict[str, int] = {}
    count: dict[str, int] = {}
    for statement in body if steps else ():
        for part in ast.walk(statement):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                count[part.id] = count.get(part.id, 0) + 1
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
                for a in part.args if part.func.id in steps else ():
                    if isinstance(a, ast.Name):
                        handed[a.id] = handed.get(a.id, 0) + 1
    return {name for name, times in handed.items() if times == count[name]}
