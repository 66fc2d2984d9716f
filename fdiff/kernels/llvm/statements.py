"""Statements of kernel texts as blocks of instructions.

There are assignments to names and entries, ``for`` over ranges, ``while``, ``if``, ``break``,
``continue``, ``return`` and calls. A name that is assigned once is a value; one that is assigned
again, a place on the stack, of which LLVM makes values.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from llvmlite import ir

from ...process.background import checkpoint
from .expressions import UnknownWordError, address, binary, expression, position, truth
from .types import WORD, Term, convert, llvm_type, stored_type, width

Library = Callable[["Writer", str, str, list[Term]], Term]


class Callees(Protocol):
    """Functions that take what stands in the text of a call."""

    @property
    def texts(self) -> Mapping[str, ast.FunctionDef]:
        """The functions by name."""
        ...

    def call(self, to: Writer, name: str, nodes: list[ast.expr]) -> Term:
        """The first result; all of them are `to.results`."""
        ...


class _Loop(NamedTuple):
    latch: ir.Block
    end: ir.Block


class Writer:
    """One function under construction."""

    def __init__(
        self, function: ir.Function, body: list[ast.stmt], out: str, library: Library,
        gives: ir.Value | None = None,
    ) -> None:  # fmt: skip
        self.code = ir.IRBuilder(function.append_basic_block("entry"))
        self.places = False  # whether an expression is a place in memory
        self.steps: Callees | None = None  # functions of the same text
        self.results: list[Term] = []  # of the last call of one of those
        self.given: list[str] = []  # the kinds of what this function gives, where there are several
        self.turned: Callable[[ir.ConditionalBranch, int], None] | None = None  # sees ends of turns
        self._function = function
        self._out = out
        self._gives = gives  # a word for each of several results
        self._library = library
        self._known: dict[str, Term] = {}
        self._slots: dict[str, Term] = {}
        self._loops: list[_Loop] = []
        self._words: dict[int, ir.Value] = {}
        self._room = ir.IRBuilder(self.code.block)
        begin = function.append_basic_block("begin")
        self._room_end = begin
        self.code.position_at_end(begin)
        self._count = _assigned(body)
        self._body = body

    def write(self, given: dict[str, Term]) -> None:
        """The whole function, of these arguments."""
        self._count.update(list(given))
        for name, term in given.items():
            self._assign(name, term)
        self.statements(self._body)
        if not self.code.block.is_terminated:
            self.code.unreachable()
        self._room.branch(self._room_end)

    def block(self) -> ir.Block:
        """A new block, to be filled."""
        return self._function.append_basic_block()

    def place(self, kind: str) -> ir.Value:
        """A place on the stack for one value."""
        return self._room.alloca(llvm_type(kind))

    def words(self, count: int) -> ir.Value:
        """So many words on the stack at least, the same ones each time."""
        size = 1 << max(count - 1, 0).bit_length()
        if size not in self._words:
            self._words[size] = self._room.alloca(WORD, size)
        return self._words[size]

    @property
    def module(self) -> ir.Module:
        return self._function.module

    def read(self, name: str) -> Term:
        """What a name stands for here."""
        if name in self._known:
            return self._known[name]
        if name not in self._slots:
            raise UnknownWordError(name)
        kind, place = self._slots[name]
        return Term(kind, self.code.load(place))

    def function(self, home: str, name: str, args: list[Term]) -> Term:
        """A call of ``home.name``."""
        return self._library(self, home, name, args)

    def intrinsic(self, name: str, args: list[Term]) -> Term:
        """A function that LLVM knows, of numbers of one kind."""
        kind = args[0].kind
        values = [convert(self.code, a, kind).at for a in args]
        type_ = ir.FunctionType(values[0].type, [v.type for v in values])
        function = self.module.declare_intrinsic(name, [values[0].type], type_)
        return Term(kind, self.code.call(function, values))

    # --- statements ---------------------------------------------------------------------------

    def statements(self, body: list[ast.stmt]) -> None:
        """One after the other; what follows a jump is never reached."""
        for statement in body:
            checkpoint()
            if self.code.block.is_terminated:
                return
            handler = _HANDLERS.get(type(statement))
            if handler is None:
                raise UnknownWordError(ast.unparse(statement))
            handler(self, statement)

    def _assign(self, name: str, term: Term) -> None:
        if self._count[name] == 1:
            self._known[name] = term
            return
        if name not in self._slots:
            self._slots[name] = Term(term.kind, self.place(term.kind))
        kind, place = self._slots[name]
        self.code.store(convert(self.code, term, kind).at, place)

    def store(self, target: ast.expr, term: Term) -> None:
        """An assignment to a name or an entry."""
        if isinstance(target, ast.Name):
            self._assign(target.id, term)
            return
        if not isinstance(target, ast.Subscript):
            raise UnknownWordError(ast.unparse(target))
        kind, place = address(self, target)
        value = convert(self.code, term, kind).at
        if kind == "b1":
            value = self.code.zext(value, stored_type(kind))
        self.code.store(value, place, align=width(kind))

    def assign(self, node: ast.Assign) -> None:
        """One value to one or more targets, or each result of a call to one."""
        term = expression(self, node.value)
        for target in node.targets:
            if isinstance(target, ast.Tuple):
                for part, result in zip(target.elts, self.results, strict=True):
                    self.store(part, result)
            else:
                self.store(target, term)

    def augment(self, node: ast.AugAssign) -> None:
        """``x += y`` as ``x = x + y``."""
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        old, other = expression(self, read), expression(self, node.value)
        self.store(node.target, binary(self, type(node.op), old, other))

    def branch(self, node: ast.If) -> None:
        """``if``, ``elif`` and ``else``; an ``elif`` lies inside the ``else`` before it."""
        end = self.block()
        rest: list[ast.stmt] = [node]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            node, rest = rest[0], rest[0].orelse
            then, other = self.block(), self.block() if rest else end
            self.code.cbranch(truth(self, node.test), then, other)
            self.code.position_at_end(then)
            self._close_with(node.body, end)
            self.code.position_at_end(other)
        if rest:
            self._close_with(rest, end)
            self.code.position_at_end(end)

    def _close_with(self, body: list[ast.stmt], end: ir.Block) -> None:
        self.statements(body)
        if not self.code.block.is_terminated:
            self.code.branch(end)

    def loop(self, node: ast.For) -> None:
        """``for i in range(...)``, with the test at the end of each turn."""
        if not isinstance(node.target, ast.Name) or not isinstance(node.iter, ast.Call):
            raise UnknownWordError(ast.unparse(node))
        bounds = node.iter.args
        start = position(self, bounds[0]) if len(bounds) > 1 else Term("i8", WORD(0))
        stop = position(self, bounds[min(1, len(bounds) - 1)])
        step = int(ast.literal_eval(bounds[2])) if len(bounds) > 2 else 1
        sign, name, code = "<" if step > 0 else ">", node.target.id, self.code
        turn, latch, end = self.block(), self.block(), self.block()
        before = code.block
        code.cbranch(code.icmp_signed(sign, start.at, stop.at), turn, end)
        code.position_at_end(turn)
        i = code.phi(WORD)
        i.add_incoming(start.at, before)
        with self._bound(name, Term("i8", i)), self._within(latch, end):
            self.statements(node.body)
        self._close(latch)
        following = code.add(i, WORD(step), flags=("nsw",))
        i.add_incoming(following, latch)
        back = code.cbranch(code.icmp_signed(sign, following, stop.at), turn, end)
        if self.turned is not None:
            self.turned(back, len(node.body))
        code.position_at_end(end)

    def repeat(self, node: ast.While) -> None:
        """``while``."""
        test, turn, end = self.block(), self.block(), self.block()
        self.code.branch(test)
        self.code.position_at_end(test)
        self.code.cbranch(truth(self, node.test), turn, end)
        self.code.position_at_end(turn)
        with self._within(test, end):
            self.statements(node.body)
        if not self.code.block.is_terminated:
            self.code.branch(test)
        self.code.position_at_end(end)

    def _close(self, latch: ir.Block) -> None:
        if not self.code.block.is_terminated:
            self.code.branch(latch)
        self.code.position_at_end(latch)

    @contextmanager
    def _bound(self, name: str, term: Term) -> Generator[None]:
        """A loop's variable, which stands for nothing else within."""
        old = self._known.get(name)
        self._known[name] = term
        yield
        if old is None:
            del self._known[name]
        else:
            self._known[name] = old

    @contextmanager
    def _within(self, latch: ir.Block, end: ir.Block) -> Generator[None]:
        self._loops.append(_Loop(latch, end))
        yield
        self._loops.pop()

    def leave(self, node: ast.Break) -> None:
        """Out of the innermost loop."""
        self.code.branch(self._loops[-1].end)

    def go_on(self, node: ast.Continue) -> None:
        """To the next turn of the innermost loop."""
        self.code.branch(self._loops[-1].latch)

    def give(self, node: ast.Return) -> None:
        """The result of the function, or its results."""
        if self._gives is not None:
            self._put(node.value)
            return
        assert node.value is not None
        self.code.ret(convert(self.code, expression(self, node.value), self._out).at)

    def _put(self, value: ast.expr | None) -> None:
        """Each result into a word of its own."""
        nodes = value.elts if isinstance(value, ast.Tuple) else [value] if value is not None else []
        terms = [expression(self, node) for node in nodes]
        assert self._gives is not None
        for k, (kind, found) in enumerate(terms):
            word = self.code.gep(self._gives, [WORD(k)])
            self.code.store(found, self.code.bitcast(word, llvm_type(kind).as_pointer()))
        self.given = [term.kind for term in terms]
        self.code.ret_void()

    def call(self, node: ast.Expr) -> None:
        """A call for its effect; words about the function are skipped."""
        if not isinstance(node.value, ast.Constant):
            expression(self, node.value)


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _assigned(body: list[ast.stmt]) -> Counter[str]:
    """How often each name is assigned."""
    count: Counter[str] = Counter()
    inside = body
    while inside:
        for node in inside:
            if isinstance(node, ast.Assign):
                targets = [t for target in node.targets for t in _parts(target)]
                count.update([t.id for t in targets if isinstance(t, ast.Name)])
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                count[node.target.id] += 2
        blocks = [n for n in inside if isinstance(n, ast.For | ast.While | ast.If)]
        inside = [s for n in blocks for s in (*n.body, *n.orelse)]
    return count


_HANDLERS: dict[type[ast.stmt], Callable[[Writer, ast.stmt], None]] = {
    ast.Assign: Writer.assign, ast.AugAssign: Writer.augment, ast.If: Writer.branch,
    ast.For: Writer.loop, ast.While: Writer.repeat, ast.Break: Writer.leave,
    ast.Continue: Writer.go_on, ast.Return: Writer.give, ast.Expr: Writer.call,
    ast.Pass: lambda to, node: None,
}  # type: ignore[dict-item] - methods of one class, each for one kind of node  # fmt: skip
