"""The statements that stand in place of a loop whose body becomes a function.

``for t in rows: body`` becomes::

    outs = driver(rows, names, body, cells)
    if outs is None:
        for t in rows: body
    else:
        t, *names = outs

where ``body(t, *names)`` gives the values that the names have after one iteration. Values are
handed over as functions without arguments, since a name may have none. A ``break`` is one more
variable, which is true from then on: later trips leave all variables as they are. So is an error
that is raised, and a ``return``, whose value is one more variable. The condition of a ``while`` is
asked by its body, which leaves the loop if it does not hold.

Rows of a ``for`` are a range, or a tuple of what ``enumerate`` and ``zip`` take, of which a trip
gets its number and an entry each.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from ...named_tuples import NamedTuple
from ...syntax_trees import GenericVisit, copied, walk
from .object_attributes import ObjectAttributes
from .returns import ResultVariables, is_endless

OWN = "__fdiff_"  # how the names begin that are ours
LEFT = OWN + "left"  # how the name begins of whether a trip has left a loop
RAISED = OWN + "raised"  # the same, of whether it has raised an error
RETURNED = OWN + "returned"  # the same, of whether it has returned
DRIVER, UNBOUND_NAME = OWN + "driver", OWN + "unbound"  # constants in whose place objects are put


class LoopNames(NamedTuple):
    """The variables of the function in place of a loop, and which kind of loop it is."""

    carried: tuple[str, ...]  # passed into a trip, and from it to the next one
    stored: frozenset[str]  # of the carried ones: trips store into the arrays that they hold
    grown: tuple[tuple[str, int], ...] = ()  # lists appended to; how many last elements are read
    displayed: frozenset[str] = frozenset()  # of the lists: elements are made where appended
    objects: ObjectAttributes = ObjectAttributes()  # objects whose attributes the loop uses
    counter: str = ""  # holds the number of the last trip, if that number is carried
    is_while: bool = False
    is_statement: bool = False  # a statement outside of loops, which is run once
    to_function_end: bool = False  # the rest of a function from a statement on
    in_loop_body: bool = False  # a statement in a loop: a node if that loop has many paths
    simple: bool = True  # without loops in it
    branches: bool = True  # if not, it is a node in the body of another loop alone
    unshared: frozenset[str] = frozenset()  # arrays that no other name holds
    replaced: frozenset[str] = frozenset()  # of the stored ones: assigned, too
    dead: frozenset[str] = frozenset()  # nothing after the loop reads them

    @property
    def raises(self) -> bool:
        """Whether a trip may raise an error."""
        return any(name.startswith(RAISED) for name in self.carried)


class Iteration(NamedTuple):
    """The rows of a ``for``, the loop's iterable made of them, and the variables of a trip."""

    rows: ast.expr
    plain: ast.expr
    entries: ast.expr


def iteration(node: ast.expr, builtin: Callable[[str], object], number: int) -> Iteration:
    """The iteration of a ``for``, where `builtin` says which builtin function a name is."""
    rows, each = f"{OWN}rows{number}", f"{OWN}each{number}"
    if _calls(node, range, builtin):
        return Iteration(node, _name(rows), _name(each))
    sequences: list[ast.expr] = []

    def apart(part: ast.expr) -> tuple[ast.expr, ast.expr]:
        if isinstance(part, ast.Call) and _calls(part, enumerate, builtin) and len(part.args) == 1:
            plain, entry = apart(part.args[0])
            pair = ast.Tuple([_entry(each, 0), entry], ast.Load())
            return ast.Call(part.func, [plain], []), pair
        if isinstance(part, ast.Call) and _calls(part, zip, builtin) and part.args:
            pairs = [apart(p) for p in part.args]
            plain = ast.Call(part.func, [p for p, _ in pairs], part.keywords)
            return plain, ast.Tuple([entry for _, entry in pairs], ast.Load())
        sequences.append(part)
        return _entry(rows, len(sequences) - 1), _entry(each, len(sequences))

    plain, entries = apart(node)
    return Iteration(ast.Tuple(sequences, ast.Load()), plain, entries)


def _calls(node: ast.expr, function: object, builtin: Callable[[str], object]) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    whole = not any(isinstance(a, ast.Starred) for a in node.args)
    loose = all(
        k.arg == "strict" and getattr(k.value, "value", None) is False for k in node.keywords
    )
    return whole and loose and builtin(node.func.id) is function


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _entry(name: str, place: int) -> ast.expr:
    return ast.Subscript(_name(name), ast.Constant(place), ast.Load())


def frame(
    loop: ast.stmt | Sequence[ast.stmt], over: Iteration | None, own: Sequence[ast.stmt],
    names: LoopNames, number: int, result: ResultVariables, *, inner: bool = False,
) -> list[ast.stmt]:  # fmt: skip
    """The statements in place of a loop: `own` is the rewritten body, `over` a ``for``'s iteration.

    In place of other statements, `loop` are these. The `number` tells the names of the loop from
    names of other loops. After an `inner` loop, the body around raises its errors.
    """
    plain = [loop] if isinstance(loop, ast.stmt) else [*loop]
    each, left, raised = (f"{name}{number}" for name in (f"{OWN}each", LEFT, RAISED))
    returned = f"{RETURNED}{number}"
    statements = _skeleton((each, *names.carried), number, plain[0].lineno)
    rows, _, _, _, function, _, choice = statements
    back = function.body[1]
    first: list[ast.stmt] = []
    for name in names.carried:
        first += ast.parse(f"if {name} is {UNBOUND_NAME}{number}: del {name}").body
    leaving = _Leaving(back, names, (left, raised, returned), result)
    if left in names.carried:
        first.append(ast.If(_name(left), [copied(back)], []))
    if isinstance(loop, ast.While):
        first.append(ast.If(loop.test, [ast.Pass()], leaving.left(loop)))
        choice.body = [ast.copy_location(ast.While(loop.test, loop.body, []), loop)]
    elif not isinstance(loop, ast.For):
        choice.body = plain
    else:
        assert over is not None, "a `for` runs over something"
        rows.value = over.rows
        bind = ast.Assign([loop.target], over.entries)
        if left not in names.carried:
            choice.orelse.append(copied(bind))
        first.append(bind)
        choice.body = [ast.copy_location(ast.For(loop.target, over.plain, loop.body, []), loop)]
    function.body = [*first, *leaving.block(own), back]
    if inner and raised in names.carried:
        choice.orelse.append(ast.If(_name(raised), [ast.Raise(None, None)], []))
    end: ast.stmt = ast.Return(result.expression())
    if names.to_function_end or is_endless(plain[-1]):
        choice.orelse.append(end)
    elif returned in names.carried:
        choice.orelse.append(ast.If(_name(returned), [end], []))
    return statements


def _skeleton(variables: Sequence[str], number: int, line: int) -> list[Any]:
    """The statements in place of a loop, without its body; its variables begin with a trip's."""
    rows, outs, body = (f"{OWN}{part}{number}" for part in ("rows", "outs", "body"))
    driver, cells = f"{DRIVER}{number}", "".join([f"lambda: {n}, " for n in variables])
    text = f"""
{rows} = {variables[0]} = None
{driver} = {DRIVER!r}
{UNBOUND_NAME}{number} = {UNBOUND_NAME!r}
{LEFT}{number} = {RAISED}{number} = {RETURNED}{number} = False
def {body}({", ".join(variables)}):
    pass
    return ({cells})
{outs} = {driver}({rows}, {OWN + str(number)!r}, {body}, ({cells}))
if {outs} is None:
    pass
else:
    ({", ".join(variables)},) = {outs}
"""
    statements: list[Any] = ast.parse(text).body
    for statement in statements:
        for part in walk(statement):
            if isinstance(part, (ast.stmt, ast.expr, ast.arg)):
                part.lineno = part.end_lineno = line
    return statements


class _Leaving(GenericVisit, ast.NodeTransformer):
    """Puts a ``return`` in place of what ends a trip: ``continue``, ``break``, and in loops in it,
    too, ``raise`` and ``return``.
    """

    def __init__(
        self, back: ast.stmt, names: LoopNames, flags: tuple[str, str, str], result: ResultVariables
    ) -> None:
        self._back, self._names, self._result = back, names, result
        self._left, self._raised, self._returned = flags
        self._depth = 0

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements of the body, which are left as they are."""
        module = self.visit(ast.Module([*map(copied, statements)], []))
        return module.body

    def left(self, node: ast.stmt, *flags: str) -> list[ast.stmt]:
        """The statements that leave the loop where a node stands."""
        names: list[ast.expr] = [
            ast.Name(n, ast.Store()) for n in (self._left, *flags) if n in self._names.carried
        ]
        left: list[ast.stmt] = [ast.Assign(names, ast.Constant(value=True))] if names else []
        return [ast.copy_location(n, node) for n in (*left, copied(self._back))]

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return node if self._depth else ast.copy_location(copied(self._back), node)

    def visit_Break(self, node: ast.Break) -> ast.AST | list[ast.stmt]:
        return node if self._depth else self.left(node)

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        return self.left(node, self._raised)

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        assigned = [ast.copy_location(n, node) for n in self._result.assigned(node.value)]
        return [*assigned, *self.left(node, self._returned)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def _loop(self, node: ast.For | ast.While) -> ast.AST:
        self._depth += 1
        try:
            return self.generic_visit(node)
        finally:
            self._depth -= 1

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._loop(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._loop(node)
