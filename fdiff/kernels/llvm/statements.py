"""Statements of kernel texts as blocks of LLVM instructions.

The language has assignments to names and entries, ``for`` over ranges, ``while``, ``if``,
``break``, ``continue``, ``return`` and calls. Source: A. V. Aho, M. S. Lam, R. Sethi, J. D. Ullman,
Compilers, 2nd ed., Addison-Wesley 2007, section 6.6.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable

from llvmlite import ir

from ...process.background import checkpoint
from .arithmetic import UnknownWordError, binary
from .expressions import address, expression, position, results, truth
from .function_builder import FunctionBuilder
from .types import WORD, TypedValue, convert, llvm_type, stored_type, width


def write(to: FunctionBuilder, body: list[ast.stmt], arguments: dict[str, TypedValue]) -> None:
    """The whole function: its statements, with the arguments as locals."""
    to.assignments = _assignments(body)
    to.assignments.update(list(arguments))
    for name, x in arguments.items():
        to.assign(name, x)
    _statements(to, body)
    to.finish()


def _statements(to: FunctionBuilder, body: list[ast.stmt]) -> None:
    """The statements in order; statements after a jump are never reached."""
    for k, statement in enumerate(body):
        checkpoint()
        if to.code.block.is_terminated:
            return
        handler = _HANDLERS.get(type(statement))
        if handler is None:
            raise UnknownWordError(ast.unparse(statement))
        handler(to, statement)
        if to.once:  # a long kernel's statements take as much memory as its instructions
            body[k] = ast.Pass()


def _block(to: FunctionBuilder, body: list[ast.stmt], following: ir.Block) -> None:
    """Statements in the current block, then on to the `following` one unless they jump."""
    _statements(to, body)
    if not to.code.block.is_terminated:
        to.code.branch(following)


# --- assignments ------------------------------------------------------------------------------


def _assignments(body: list[ast.stmt]) -> Counter[str]:
    """How often each name is assigned; a name that is updated counts as assigned twice."""
    count: Counter[str] = Counter()
    inside = body
    while inside:
        for node in inside:
            if isinstance(node, ast.Assign):
                targets = [t for target in node.targets for t in _targets(target)]
                count.update([t.id for t in targets if isinstance(t, ast.Name)])
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                count[node.target.id] += 2
        blocks = [n for n in inside if isinstance(n, ast.For | ast.While | ast.If)]
        inside = [s for n in blocks for s in (*n.body, *n.orelse)]
    return count


def _targets(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _store(to: FunctionBuilder, target: ast.expr, x: TypedValue) -> None:
    """An assignment to a name or to an entry of memory."""
    if isinstance(target, ast.Name):
        to.assign(target.id, x)
        return
    if not isinstance(target, ast.Subscript):
        raise UnknownWordError(ast.unparse(target))
    type_, where = address(to, target)
    value = convert(to.code, x, type_).value
    if type_ == "b1":
        value = to.code.zext(value, stored_type(type_))
    to.code.store(value, where, align=width(type_))


def _assign(to: FunctionBuilder, node: ast.Assign) -> None:
    """One value to one or more targets, or each result of a call to a target of its own."""
    if isinstance(node.targets[0], ast.Tuple):
        values = results(to, node.value)
        for target, x in zip(node.targets[0].elts, values, strict=True):
            _store(to, target, x)
        return
    x = expression(to, node.value)
    for target in node.targets:
        _store(to, target, x)


def _update(to: FunctionBuilder, node: ast.AugAssign) -> None:
    """``x += y`` as ``x = x + y``."""
    read = ast.parse(ast.unparse(node.target), mode="eval").body
    old, other = expression(to, read), expression(to, node.value)
    _store(to, node.target, binary(to.code, type(node.op), old, other))


# --- control flow -----------------------------------------------------------------------------


def _if(to: FunctionBuilder, node: ast.If) -> None:
    """``if``, ``elif`` and ``else``; an ``elif`` lies inside the ``else`` before it."""
    end = to.block()
    rest: list[ast.stmt] = [node]
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        node, rest = rest[0], rest[0].orelse
        then, other = to.block(), to.block() if rest else end
        to.code.cbranch(truth(to, node.test), then, other)
        to.code.position_at_end(then)
        _block(to, node.body, end)
        to.code.position_at_end(other)
    if rest:
        _block(to, rest, end)
        to.code.position_at_end(end)


def _for(to: FunctionBuilder, node: ast.For) -> None:
    """``for i in range(...)`` as a rotated loop: the test is at the end of each iteration."""
    if not isinstance(node.target, ast.Name) or not isinstance(node.iter, ast.Call):
        raise UnknownWordError(ast.unparse(node))
    bounds = node.iter.args
    start = position(to, bounds[0]) if len(bounds) > 1 else TypedValue("i8", WORD(0))
    stop = position(to, bounds[min(1, len(bounds) - 1)])
    step = int(ast.literal_eval(bounds[2])) if len(bounds) > 2 else 1
    sign, name, code = "<" if step > 0 else ">", node.target.id, to.code
    body, latch, end = to.block(), to.block(), to.block()
    before, hint = code.block, to.on_loop and to.on_loop(node.body)
    code.cbranch(code.icmp_signed(sign, start.value, stop.value), body, end)
    code.position_at_end(body)
    i = code.phi(WORD)
    i.add_incoming(start.value, before)
    with to.bound(name, TypedValue("i8", i)), to.loop(latch, end):
        _block(to, node.body, latch)
    code.position_at_end(latch)
    following = code.add(i, WORD(step), flags=("nsw",))
    i.add_incoming(following, latch)
    back = code.cbranch(code.icmp_signed(sign, following, stop.value), body, end)
    if hint is not None:
        hint(back)
    code.position_at_end(end)


def _while(to: FunctionBuilder, node: ast.While) -> None:
    test, body, end = to.block(), to.block(), to.block()
    to.code.branch(test)
    to.code.position_at_end(test)
    to.code.cbranch(truth(to, node.test), body, end)
    to.code.position_at_end(body)
    with to.loop(test, end):
        _block(to, node.body, test)
    to.code.position_at_end(end)


def _break(to: FunctionBuilder, node: ast.Break) -> None:
    to.code.branch(to.innermost.end)


def _continue(to: FunctionBuilder, node: ast.Continue) -> None:
    to.code.branch(to.innermost.latch)


def _return(to: FunctionBuilder, node: ast.Return) -> None:
    """The result of the function, or each of several into a word of its own."""
    if to.results is None:
        assert node.value is not None
        to.code.ret(convert(to.code, expression(to, node.value), to.result_type).value)
        return
    values = [expression(to, value) for value in _targets(node.value)] if node.value else []
    for k, (type_, value) in enumerate(values):
        word = to.code.gep(to.results, [WORD(k)])
        to.code.store(value, to.code.bitcast(word, llvm_type(type_).as_pointer()))
    to.result_types = [x.type for x in values]
    to.code.ret_void()


def _call(to: FunctionBuilder, node: ast.Expr) -> None:
    """A call whose result is not used; a docstring is skipped."""
    if isinstance(node.value, ast.Constant):
        return
    function = node.value.func if isinstance(node.value, ast.Call) else None
    if isinstance(function, ast.Name) and to.callees is not None and function.id in to.callees:
        results(to, node.value)
    else:
        expression(to, node.value)


_HANDLERS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Assign: _assign, ast.AugAssign: _update, ast.If: _if, ast.For: _for, ast.While: _while,
    ast.Break: _break, ast.Continue: _continue, ast.Return: _return, ast.Expr: _call,
    ast.Pass: lambda to, node: None,
}  # fmt: skip
