"""Expressions of kernel texts as LLVM instructions.

Source: A. V. Aho, M. S. Lam, R. Sethi, J. D. Ullman, Compilers, 2nd ed., Addison-Wesley 2007,
section 6.4.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from llvmlite import ir

from ...syntax_trees import walk
from .arithmetic import UnknownWordError, binary, compared, negated
from .function_builder import FunctionBuilder
from .types import (
    TypedValue,
    constant,
    convert,
    integer,
    is_pointer,
    unified,
    width,
)

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def expression(to: FunctionBuilder, node: ast.expr) -> TypedValue:
    """The value of an expression."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise UnknownWordError(ast.unparse(node))
    return handler(to, node)


def truth(to: FunctionBuilder, node: ast.expr) -> ir.Value:
    """The truth value of an expression."""
    return convert(to.code, expression(to, node), "b1").value


def address(to: FunctionBuilder, node: ast.Subscript) -> tuple[str, ir.Value]:
    """Type and address of an entry of memory."""
    base = expression(to, node.value)
    if not is_pointer(base.type):
        raise UnknownWordError(ast.unparse(node))
    index = position(to, node.slice)
    return base.type[:-1], to.code.gep(base.value, [index.value], inbounds=True)


def position(to: FunctionBuilder, node: ast.expr) -> TypedValue:
    """A position in memory, or a bound of a loop: an integer whose arithmetic never overflows."""
    outer, to.in_bounds = to.in_bounds, True
    index = convert(to.code, expression(to, node), "i8")
    to.in_bounds = outer
    return index


def _name(to: FunctionBuilder, node: ast.Name) -> TypedValue:
    return to.read(node.id)


def _constant(to: FunctionBuilder, node: ast.Constant) -> TypedValue:
    value = node.value
    if isinstance(value, bool):
        return constant(value, "b1")
    if isinstance(value, str):  # one character, an option of a BLAS or LAPACK routine
        return constant(ord(value), "i1")
    assert isinstance(value, (int, float)), "kernels hold no other literals"
    return integer(value) if isinstance(value, int) else constant(value, "f8")


def _attribute(to: FunctionBuilder, node: ast.Attribute) -> TypedValue:
    """``np.inf`` and ``np.nan``."""
    if node.attr not in ("inf", "nan"):
        raise UnknownWordError(ast.unparse(node))
    return constant(float(node.attr), "f8")


def _subscript(to: FunctionBuilder, node: ast.Subscript) -> TypedValue:
    type_, where = address(to, node)
    value = to.code.load(where, align=width(type_))
    if type_ == "b1":
        value = to.code.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
    return TypedValue(type_, value)


def _unary(to: FunctionBuilder, node: ast.UnaryOp) -> TypedValue:
    if isinstance(node.op, ast.Not):
        return TypedValue("b1", to.code.not_(truth(to, node.operand)))
    x = expression(to, node.operand)
    if isinstance(node.op, ast.Invert):
        return TypedValue(x.type, to.code.not_(x.value))
    if isinstance(node.op, ast.USub):
        return negated(to.code, x)
    raise UnknownWordError(ast.unparse(node))


def _binary(to: FunctionBuilder, node: ast.BinOp) -> TypedValue:
    a, b = expression(to, node.left), expression(to, node.right)
    return binary(to.code, type(node.op), a, b, wraps=not to.in_bounds)


def _compare(to: FunctionBuilder, node: ast.Compare) -> TypedValue:
    """One comparison, or a chain such as ``a < b < c``."""
    left = expression(to, node.left)
    out: ir.Value | None = None
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = expression(to, right_node)
        test = compared(to.code, _COMPARISONS[type(op)], left, right)
        out = test if out is None else to.code.and_(out, test)
        left = right
    assert out is not None
    return TypedValue("b1", out)


def _and_or(to: FunctionBuilder, node: ast.BoolOp) -> TypedValue:
    """``and`` and ``or``: a later operand is behind a branch if it reads memory or calls."""
    out = truth(to, node.values[0])
    for later in node.values[1:]:
        combine = to.code.and_ if isinstance(node.op, ast.And) else to.code.or_
        if not _reads(later):
            out = combine(out, truth(to, later))
            continue
        first, decided = to.code.block, out
        more, end = to.block(), to.block()
        branch = (more, end) if isinstance(node.op, ast.And) else (end, more)
        to.code.cbranch(decided, *branch)
        to.code.position_at_end(more)
        value = truth(to, later)
        last = to.code.block
        to.code.branch(end)
        to.code.position_at_end(end)
        out = _phi(to, [(decided, first), (value, last)])
    return TypedValue("b1", out)


def _conditional(to: FunctionBuilder, node: ast.IfExp) -> TypedValue:
    """``a if test else b``: a selection, or a branch if one of them reads memory or calls."""
    test, code = truth(to, node.test), to.code
    if not (_reads(node.body) or _reads(node.orelse)):
        a, b = expression(to, node.body), expression(to, node.orelse)
        type_ = unified(a.type, b.type)
        a, b = convert(code, a, type_), convert(code, b, type_)
        return TypedValue(type_, code.select(test, a.value, b.value))
    ways, end = (to.block(), to.block()), to.block()
    code.cbranch(test, *ways)
    branches: list[TypedValue] = []
    blocks: list[ir.Block] = []
    for block, value in zip(ways, (node.body, node.orelse), strict=True):
        code.position_at_end(block)
        branches.append(expression(to, value))
        blocks.append(code.block)
    type_ = unified(branches[0].type, branches[1].type)
    pairs: list[tuple[ir.Value, ir.Block]] = []
    for x, block in zip(branches, blocks, strict=True):
        code.position_at_end(block)
        pairs.append((convert(code, x, type_).value, block))
        code.branch(end)
    code.position_at_end(end)
    return TypedValue(type_, _phi(to, pairs))


def _reads(node: ast.expr) -> bool:
    """Whether an expression reads memory or calls: anything more than arithmetic."""
    return any(isinstance(part, (ast.Subscript, ast.Call)) for part in walk(node))


def _phi(to: FunctionBuilder, pairs: list[tuple[ir.Value, ir.Block]]) -> ir.Value:
    out = to.code.phi(pairs[0][0].type)
    for value, block in pairs:
        out.add_incoming(value, block)
    return out


# --- calls ------------------------------------------------------------------------------------


def _call(to: FunctionBuilder, node: ast.Call) -> TypedValue:
    function = node.func
    if isinstance(function, ast.Name):
        if to.callees is not None and function.id in to.callees:
            return results(to, node)[0]
        return to.library(to, "", function.id, [expression(to, a) for a in node.args])
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        raise UnknownWordError(ast.unparse(node))
    args = [expression(to, a) for a in node.args]
    return to.library(to, function.value.id, function.attr, args)


def results(to: FunctionBuilder, node: ast.expr) -> list[TypedValue]:
    """The results of a call of another function of the same text."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and to.callees):
        raise UnknownWordError(ast.unparse(node))
    return to.callees.call(to, node.func.id, node.args)


_HANDLERS: dict[type[ast.expr], Callable[..., TypedValue]] = {
    ast.Name: _name, ast.Constant: _constant, ast.Subscript: _subscript, ast.UnaryOp: _unary,
    ast.BinOp: _binary, ast.Compare: _compare, ast.BoolOp: _and_or, ast.IfExp: _conditional,
    ast.Call: _call, ast.Attribute: _attribute,
}  # fmt: skip
