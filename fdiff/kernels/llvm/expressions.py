"""Expressions of kernel texts as instructions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from .types import Term, common, constant, convert, is_pointer, unified, whole, width

if TYPE_CHECKING:
    from .statements import Writer

_REAL = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_WHOLE = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_BITS = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_TESTS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
# dtypes as texts spell them
DTYPES = {
    "bool_": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1",
    "uint16": "u2", "uint32": "u4", "uint64": "u8", "float32": "f4", "float64": "f8",
}  # fmt: skip


class UnknownWordError(Exception):
    """A text says what this language has no word for."""


def expression(to: Writer, node: ast.expr) -> Term:
    """The value of an expression."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise UnknownWordError(ast.unparse(node))
    return handler(to, node)


def truth(to: Writer, node: ast.expr) -> ir.Value:
    """An expression as a condition."""
    return convert(to.code, expression(to, node), "b1").at


def address(to: Writer, node: ast.Subscript) -> tuple[str, ir.Value]:
    """The kind of an entry and where it is; arithmetic on places never overflows."""
    base = expression(to, node.value)
    if not is_pointer(base.kind):
        raise UnknownWordError(ast.unparse(node))
    place = position(to, node.slice)
    return base.kind[:-1], to.code.gep(base.at, [place.at], inbounds=True)


def position(to: Writer, node: ast.expr) -> Term:
    """A place in memory, or a bound of a loop."""
    outer, to.places = to.places, True
    found = convert(to.code, expression(to, node), "i8")
    to.places = outer
    return found


def loaded(to: Writer, kind: str, place: ir.Value) -> Term:
    """The entry at `place`."""
    found = to.code.load(place, align=width(kind))
    if kind != "b1":
        return Term(kind, found)
    return Term(kind, to.code.icmp_unsigned("!=", found, ir.Constant(found.type, 0)))


def _name(to: Writer, node: ast.Name) -> Term:
    return to.read(node.id)


def _constant(to: Writer, node: ast.Constant) -> Term:
    value = node.value
    if isinstance(value, bool):
        return constant(value, "b1")
    if isinstance(value, str):  # one character, as `rt.fortran` takes them
        return constant(ord(value), "i1")
    return whole(value) if isinstance(value, int) else constant(value, "f8")  # type: ignore[arg-type] - a literal of Python is one or the other


def _attribute(to: Writer, node: ast.Attribute) -> Term:
    """``np.inf`` and ``np.nan``."""
    if node.attr not in ("inf", "nan"):
        raise UnknownWordError(ast.unparse(node))
    return constant(float(node.attr), "f8")


def _subscript(to: Writer, node: ast.Subscript) -> Term:
    return loaded(to, *address(to, node))


def _unary(to: Writer, node: ast.UnaryOp) -> Term:
    if isinstance(node.op, ast.Not):
        return Term("b1", to.code.not_(truth(to, node.operand)))
    term, code = expression(to, node.operand), to.code
    if isinstance(node.op, ast.Invert):
        return Term(term.kind, code.not_(term.at))
    if not isinstance(node.op, ast.USub):
        raise UnknownWordError(ast.unparse(node))
    if isinstance(term.at, ir.Constant):
        return constant(-term.at.constant, term.kind)
    if term.kind[0] == "f":
        return Term(term.kind, code.fneg(term.at))
    term = convert(code, term, common(term.kind, term.kind))
    return Term(term.kind, code.neg(term.at))


def _binary(to: Writer, node: ast.BinOp) -> Term:
    a, b = expression(to, node.left), expression(to, node.right)
    return binary(to, type(node.op), a, b)


def binary(to: Writer, op: type[ast.operator], a: Term, b: Term) -> Term:
    """Two numbers combined in the kind in which they meet."""
    code = to.code
    if "u" in (a.kind[0], b.kind[0]):
        a, b = _written(code, a, b), _written(code, b, a)
    kind = "f8" if op is ast.Div and "f" not in a.kind + b.kind else common(a.kind, b.kind)
    if op in _BITS:
        kind = "b1" if a.kind == b.kind == "b1" else kind
        x, y = convert(code, a, kind).at, convert(code, b, kind).at
        return Term(kind, getattr(code, _BITS[op])(x, y))
    x, y = convert(code, a, kind).at, convert(code, b, kind).at
    if kind[0] == "f" and op in _REAL:
        return Term(kind, getattr(code, _REAL[op])(x, y))
    if op in _WHOLE and kind[0] != "f":
        flags = ("nsw",) if to.places else ()
        return Term(kind, getattr(code, _WHOLE[op])(x, y, flags=flags))
    if kind[0] != "f" and op in (ast.LShift, ast.RShift):
        shift = code.shl if op is ast.LShift else code.ashr if kind[0] == "i" else code.lshr
        return Term(kind, shift(x, y))
    if kind[0] != "f" and op in (ast.FloorDiv, ast.Mod):
        return Term(kind, _floored(code, x, y, kind, quotient=op is ast.FloorDiv))
    raise UnknownWordError(op.__name__)


def _floored(
    code: ir.IRBuilder, x: ir.Value, y: ir.Value, kind: str, *, quotient: bool
) -> ir.Value:
    """``x // y`` or ``x % y`` of whole numbers as Python rounds them; division by zero gives 0."""
    zero, one = ir.Constant(x.type, 0), ir.Constant(x.type, 1)
    nothing = code.icmp_unsigned("==", y, zero)
    y = code.select(nothing, one, y)
    if kind[0] == "u":
        out = code.udiv(x, y) if quotient else code.urem(x, y)
        return code.select(nothing, zero, out)
    minus = ir.Constant(x.type, -1)  # the least number divided by it overflows, which traps
    turned = code.icmp_unsigned("==", y, minus)
    by = code.select(turned, one, y)
    q, r = code.sdiv(x, by), code.srem(x, by)
    apart = code.and_(
        code.icmp_unsigned("!=", r, zero),
        code.icmp_signed("<", code.xor(r, y), zero),
    )
    if quotient:
        out = code.select(turned, code.neg(x), code.select(apart, code.sub(q, one), q))
    else:
        out = code.select(apart, code.add(r, y), r)
    return code.select(nothing, zero, out)


def _compare(to: Writer, node: ast.Compare) -> Term:
    left = expression(to, node.left)
    out: ir.Value | None = None
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = expression(to, right_node)
        test = compared(to.code, _TESTS[type(op)], left, right)
        out = test if out is None else to.code.and_(out, test)
        left = right
    assert out is not None
    return Term("b1", out)


def compared(code: ir.IRBuilder, sign: str, a: Term, b: Term) -> ir.Value:
    """A test of two numbers; only ``!=`` holds of NaN."""
    if a.kind != b.kind and "f" not in (a.kind[0], b.kind[0]):
        a, b = _written(code, a, b), _written(code, b, a)
    kind = a.kind if a.kind == b.kind else common(a.kind, b.kind)
    x, y = convert(code, a, kind).at, convert(code, b, kind).at
    if kind[0] == "f":
        return (code.fcmp_unordered if sign == "!=" else code.fcmp_ordered)(sign, x, y)
    return (code.icmp_signed if kind[0] == "i" else code.icmp_unsigned)(sign, x, y)


def _written(code: ir.IRBuilder, a: Term, b: Term) -> Term:
    """A whole number that is written out, as one of the kind it meets."""
    plain = isinstance(a.at, ir.Constant) and a.kind == "i8" and a.at.constant >= 0
    plain = plain and b.kind[0] in "iu"
    return convert(code, a, b.kind) if plain else a


def _both(to: Writer, node: ast.BoolOp) -> Term:
    """``and`` and ``or``: the second is only asked where that matters, if it reads memory."""
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
    return Term("b1", out)


def _choice(to: Writer, node: ast.IfExp) -> Term:
    """A conditional expression: a selection where both are at hand, else a branch."""
    test, code = truth(to, node.test), to.code
    if not (_reads(node.body) or _reads(node.orelse)):
        a, b = expression(to, node.body), expression(to, node.orelse)
        kind = unified(a.kind, b.kind)
        return Term(kind, code.select(test, convert(code, a, kind).at, convert(code, b, kind).at))
    ways, end = (to.block(), to.block()), to.block()
    code.cbranch(test, *ways)
    found: list[Term] = []
    blocks: list[ir.Block] = []
    for block, value in zip(ways, (node.body, node.orelse), strict=True):
        code.position_at_end(block)
        found.append(expression(to, value))
        blocks.append(code.block)
    kind = unified(found[0].kind, found[1].kind)
    pairs: list[tuple[ir.Value, ir.Block]] = []
    for term, block in zip(found, blocks, strict=True):
        code.position_at_end(block)
        pairs.append((convert(code, term, kind).at, block))
        code.branch(end)
    code.position_at_end(end)
    return Term(kind, _phi(to, pairs))


def _reads(node: ast.expr) -> bool:
    """Whether there is more to it than arithmetic."""
    return any(isinstance(part, (ast.Subscript, ast.Call)) for part in ast.walk(node))


def _phi(to: Writer, pairs: list[tuple[ir.Value, ir.Block]]) -> ir.Value:
    out = to.code.phi(pairs[0][0].type)
    for value, block in pairs:
        out.add_incoming(value, block)
    return out


# --- calls ------------------------------------------------------------------------------------


def _call(to: Writer, node: ast.Call) -> Term:
    function = node.func
    if isinstance(function, ast.Name):
        if to.steps is not None and function.id in to.steps.texts:
            return to.steps.call(to, function.id, node.args)
        args = [expression(to, a) for a in node.args]
        plain = _PLAIN.get(function.id)
        return to.function("", function.id, args) if plain is None else plain(to, args)
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        raise UnknownWordError(ast.unparse(node))
    home, name = function.value.id, function.attr
    if home == "np" and name in DTYPES:
        return convert(to.code, expression(to, node.args[0]), DTYPES[name])
    return to.function(home, name, [expression(to, a) for a in node.args])


def _absolute(to: Writer, args: list[Term]) -> Term:
    (x,) = args
    if x.kind[0] == "f":
        return to.intrinsic("llvm.fabs", [x])
    if x.kind[0] in "ub":
        return x
    negative = to.code.icmp_signed("<", x.at, ir.Constant(x.at.type, 0))
    return Term(x.kind, to.code.select(negative, to.code.neg(x.at), x.at))


def _extreme(sign: str) -> Callable[[Writer, list[Term]], Term]:
    def function(to: Writer, args: list[Term]) -> Term:
        out = args[0]
        for other in args[1:]:
            kind = unified(out.kind, other.kind)
            a, b = convert(to.code, out, kind), convert(to.code, other, kind)
            out = Term(kind, to.code.select(compared(to.code, sign, b, a), b.at, a.at))
        return out

    return function


_PLAIN: dict[str, Callable[[Writer, list[Term]], Term]] = {
    "abs": _absolute, "min": _extreme("<"), "max": _extreme(">"),
}  # fmt: skip

_HANDLERS: dict[type[ast.expr], Callable[[Writer, ast.expr], Term]] = {
    ast.Name: _name, ast.Constant: _constant, ast.Subscript: _subscript, ast.UnaryOp: _unary,
    ast.BinOp: _binary, ast.Compare: _compare, ast.BoolOp: _both, ast.IfExp: _choice,
    ast.Call: _call, ast.Attribute: _attribute,
}  # type: ignore[dict-item] - methods of one class, each for one kind of node  # fmt: skip
