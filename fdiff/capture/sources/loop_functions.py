"""Loops whose bodies are functions: the code of a function, compiled anew.

``for t in rows: body`` becomes::

    outs = driver(rows, names, body, cells)
    if outs is None:
        for t in rows: body
    else:
        t, *names = outs

where ``body(t, *names)`` gives the values that the names have after one iteration. Values are
handed over as functions without arguments, since a name may have none. The driver may refuse. A
``break`` is one more variable, which is true from then on: later trips leave all variables as they
are. This is done where a body has no effect but on variables and on arrays in them
(`source_effects.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from ...bounded_cache import keep
from .definitions import Definition, compiled, definition
from .source_effects import EffectError, Scope, check

_OWN = "__fdiff_"  # how the names begin that are ours
LEFT = _OWN + "left"  # whether a trip has left a loop by ``break``
_DRIVER, _UNBOUND = _OWN + "driver", _OWN + "unbound"  # constants in whose place objects are put
_LOOKS = frozenset(("locals", "vars", "eval", "exec", "dir", "super", "globals", "__class__"))
_MOST = 256  # definitions that are kept
_definitions: dict[CodeType, Definition | None] = {}


class Unbound:
    """Stands for the value of a variable that has none."""


UNBOUND = Unbound()


class LoopNames(NamedTuple):
    """The variables of a loop: `carried` are handed over, arrays in the `stored` stored into."""

    carried: tuple[str, ...]
    stored: frozenset[str]


def with_loop_functions(
    fn: FunctionType, driver: Callable[..., object], refusals: dict[str, str]
) -> CodeType | None:
    """The code of a function whose loops that branch ask a driver first, but for `refusals`."""
    code = fn.__code__
    if code in _definitions:
        whole = _definitions[code]
    else:
        whole = keep(_definitions, code, definition(code), _MOST)
    if whole is None or any(map(_looks, ast.walk(whole.function))):
        return None
    tree = deepcopy(whole.function)
    rewriting = _Rewriting(tree, Scope(fn), refusals)
    tree.body = rewriting.block(tree.body)
    if not rewriting.loops:
        return None
    new = compiled(whole._replace(function=tree), code)
    if new is None or new.co_freevars != code.co_freevars:
        return None
    return _with_objects(new, {_DRIVER: driver, _UNBOUND: UNBOUND, **rewriting.loops})


def _looks(node: ast.AST) -> bool:
    """Whether code may look at its own variables, or is no plain function."""
    name = getattr(node, "id", getattr(node, "attr", None))
    if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
        return True
    others = ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr
    return name in _LOOKS or isinstance(node, others)


def _with_objects(code: CodeType, objects: dict[str, object]) -> CodeType:
    """A code with objects in place of constants that name them."""
    constants = []
    for c in code.co_consts:
        new = objects.get(c, c) if isinstance(c, str) else c
        constants.append(_with_objects(new, objects) if isinstance(new, CodeType) else new)
    return code.replace(co_consts=tuple(constants))


class _Rewriting:
    """The rewriting of the loops of one function; `loops` are their variables, by constant."""

    def __init__(self, tree: ast.FunctionDef, scope: Scope, refusals: dict[str, str]) -> None:
        self.tree, self.scope, self.refusals = tree, scope, refusals
        self.loops: dict[str, object] = {}

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements with their outermost loops rewritten that can be."""
        new: list[ast.stmt] = []
        for statement in statements:
            if isinstance(statement, ast.For):
                try:
                    new += self._loop(statement)
                except EffectError as refusal:
                    place = f"{self.scope.code.co_filename}:{statement.lineno}"
                    self.refusals[place] = str(refusal)
                    statement.body = self.block(statement.body)
                    new.append(statement)
                continue
            if isinstance(statement, (ast.If, ast.While, ast.With, ast.Try)):
                statement.body = self.block(statement.body)
            if isinstance(statement, (ast.If, ast.While)):
                statement.orelse = self.block(statement.orelse)
            new.append(statement)
        return new

    def _loop(self, loop: ast.For) -> list[ast.stmt]:
        if not isinstance(loop.target, ast.Name) or loop.orelse or not _branches(loop):
            raise EffectError("no such loop")
        check(loop.body, self.scope)
        check([ast.Expr(ast.Constant(0)), loop.iter], self.scope)
        target, stored = loop.target.id, frozenset(_stored(loop.body))
        assigned = {*_assigned(loop.body)}
        if target in assigned | stored or not assigned | stored:
            raise EffectError("its variable is assigned")
        leaves = _leaves(loop.body)
        if leaves and (_is_read(self.tree, loop, target) or target in _loaded(loop.iter)):
            raise EffectError("the number of the trip that it is left in is read behind it")
        loaded = {n.id for n in _outside(self.tree, loop) if isinstance(n, ast.Name)}
        read = _unbound_reads(loop.body, {target})[1]
        carried = sorted(name for name in assigned | stored if name in loaded | read | stored)
        carried += [LEFT] * leaves
        key = f"{_OWN}{len(self.loops)}"
        self.loops[key] = LoopNames(tuple(carried), stored)
        return _rewritten(loop, carried, key)


def _rewritten(loop: ast.For, carried: Sequence[str], key: str) -> list[ast.stmt]:
    assert isinstance(loop.target, ast.Name), "other loops are left as they are"
    target = loop.target.id
    rows, outs, body = f"{_OWN}rows", f"{_OWN}outs", f"{_OWN}body"
    cells = "".join([f"lambda: {n}, " for n in (target, *carried)])
    text = f"""
{rows} = 0
{_DRIVER} = {_DRIVER!r}
{_UNBOUND} = {_UNBOUND!r}
{LEFT} = False
def {body}({", ".join((target, *carried))}):
    pass
    return ({cells})
{outs} = {_DRIVER}({rows}, {key!r}, {body}, ({cells}))
if {outs} is None:
    pass
else:
    ({", ".join((target, *carried))},) = {outs}
"""
    frame: list[Any] = ast.parse(text).body
    for node in frame:
        for part in ast.walk(node):
            if isinstance(part, (ast.stmt, ast.expr, ast.arg)):
                part.lineno = part.end_lineno = loop.lineno
    assign, _, _, _, function, _, choice = frame
    assign.value = loop.iter
    back = function.body[1]
    bound: list[ast.stmt] = []
    for name in carried:
        bound += ast.parse(f"if {name} is {_UNBOUND}: del {name}").body
    own = [_Returning(back).visit(deepcopy(statement)) for statement in loop.body]
    if LEFT in carried:
        bound.append(ast.If(ast.Name(LEFT, ast.Load()), [deepcopy(back)], []))
    function.body = [*bound, *own, back]
    plain = ast.For(loop.target, ast.Name(rows, ast.Load()), loop.body, [])
    choice.body = [ast.copy_location(plain, loop)]
    return frame


class _Returning(ast.NodeTransformer):
    """Puts a ``return`` in place of each ``continue`` and ``break`` of a loop."""

    def __init__(self, back: ast.stmt) -> None:
        self.back = back

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return ast.copy_location(deepcopy(self.back), node)

    def visit_Break(self, node: ast.Break) -> list[ast.AST]:
        left = ast.Assign([ast.Name(LEFT, ast.Store())], ast.Constant(True))
        return [ast.copy_location(n, node) for n in (left, deepcopy(self.back))]

    def visit_For(self, node: ast.For) -> ast.AST:
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        return node


def _branches(loop: ast.For) -> bool:
    """Whether something in a loop may branch."""
    kinds = ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.Call
    return any(isinstance(node, kinds) for s in loop.body for node in ast.walk(s))


def _leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements leave the loop around."""
    return any(
        isinstance(s, ast.Break)
        or (isinstance(s, ast.If) and (_leaves(s.body) or _leaves(s.orelse)))
        for s in statements
    )


def _is_read(tree: ast.AST, loop: ast.For, name: str) -> bool:
    """Whether a name is read outside of a loop, and of other loops whose variable it is."""
    for child in ast.iter_child_nodes(tree):
        inner = isinstance(child, ast.For) and getattr(child.target, "id", "") == name
        read = isinstance(child, ast.Name) and child.id == name and isinstance(child.ctx, ast.Load)
        if read or (child is not loop and not inner and _is_read(child, loop, name)):
            return True
    return False


def _outside(tree: ast.AST, loop: ast.For) -> Iterator[ast.AST]:
    """The nodes of a function that are not in the body of a loop."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if child is loop:
            yield from ast.walk(loop.iter)
        else:
            yield from _outside(child, loop)


def _assigned(statements: Sequence[ast.AST]) -> Iterator[str]:
    """The names that statements assign; comprehensions have names of their own."""
    waiting: list[ast.AST] = [*statements]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, ast.ListComp):
            waiting += ast.iter_child_nodes(node)


def _stored(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """The names of what is stored into by key."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                assert isinstance(node.value, ast.Name)
                yield node.value.id


def _unbound_reads(statements: Sequence[ast.stmt], bound: set[str]) -> tuple[set[str], set[str]]:
    """The names that are bound behind statements, and those that may be read before they are."""
    bound, read = {*bound}, set[str]()
    for s in statements:
        if isinstance(s, ast.If):
            read |= _loaded(s.test) - bound
            parts = [_unbound_reads(part, bound) for part in (s.body, s.orelse)]
            ways = zip(parts, (s.body, s.orelse), strict=True)
            ends = [end for (end, _), part in ways if not _skips(part)]
            read |= parts[0][1] | parts[1][1]
            bound = set.intersection(*ends) if ends else bound
        elif isinstance(s, (ast.For, ast.While)):
            each = {*_assigned([s.target])} if isinstance(s, ast.For) else set()
            read |= _loaded(s.iter if isinstance(s, ast.For) else s.test) - bound
            read |= _unbound_reads(s.body, bound | each)[1]
        else:
            target = s.target if isinstance(s, ast.AugAssign) else s
            read |= (_loaded(s) | ({*_assigned([target])} if target is not s else set())) - bound
            bound |= {*_assigned([s])}
    return bound, read


def _skips(statements: Sequence[ast.stmt]) -> bool:
    """Whether what comes behind statements is left out."""
    return bool(statements) and isinstance(statements[-1], (ast.Continue, ast.Break))


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
