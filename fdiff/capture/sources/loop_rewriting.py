"""Loops whose bodies are functions: the code of a function, compiled anew.

`loop_frames.py` says what stands in place of a loop. This is done where a body has no effect but on
variables, and on arrays, lists and objects in them (`source_effects.py`). A loop in such a body is
rewritten, too: it becomes a node in the body of the node. From the first statement on that may
return in the middle, a function is such a body itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType, FunctionType

from ...syntax_trees import READS_VARIABLES, copied, walk
from ..value_kinds import MISSING
from .definitions import compiled, definition, note_rewritten
from .else_of_loops import without_else
from .grown_lists import displayed, grown_lists
from .loop_frames import (
    DRIVER,
    LEFT,
    OWN,
    RAISED,
    RETURNED,
    UNBOUND_NAME,
    LoopNames,
    frame,
    iteration,
)
from .name_scopes import Scope
from .object_attributes import ObjectAttributes
from .returns import ResultVariables, ends, first_returning, result_of, returns
from .shared_variables import share, shared_names
from .source_effects import EffectError, check
from .statement_kinds import (
    counter_of,
    ends_trip,
    first_uneven,
    head_of,
    is_decision,
    leaves_by,
    may_branch,
)
from .unshared_names import unshared_names
from .variable_names import (
    assigned,
    free_names,
    is_read,
    loaded,
    outside,
    own_names,
    parameters,
    unbound_reads,
    without_functions,
)
from .varying_ranges import with_waiting_loops

_LOOKS = READS_VARIABLES | {"super", "globals", "__class__"}
_FUNCTIONS = (ast.FunctionDef, ast.Lambda)


class Unbound:
    """Stands for the value of a variable that has none."""


UNBOUND = Unbound()


def with_loop_functions(
    fn: FunctionType, driver: Callable[..., object], refusals: dict[str, str]
) -> CodeType | None:
    """Code in which each branching loop asks a driver before it runs.

    Loops in `refusals` stay as they are.
    """
    code = fn.__code__
    whole = definition(code)
    if whole is None or any(map(_looks, walk(whole.function))):
        return None
    tree = copied(whole.function)
    if isinstance(tree, ast.Lambda):
        return None
    tree = without_else(tree)
    unshared = unshared_names(tree)
    rewriting = _Rewriting(tree, Scope(fn), refusals)
    tree.body = rewriting.whole(tree.body)
    if not rewriting.loops:
        return None
    new = compiled(whole._replace(function=tree), code)
    if new is None or new.co_freevars != code.co_freevars:
        return None
    loops = {
        key: names._replace(unshared=unshared) if isinstance(names, LoopNames) else names
        for key, names in rewriting.loops.items()
    }
    new = _with_objects(new, {DRIVER: driver, UNBOUND_NAME: UNBOUND, **loops})
    note_rewritten(code, new)
    return new


def _looks(node: ast.AST) -> bool:
    """Whether code may look at its own variables, or is no plain function."""
    name = getattr(node, "id", getattr(node, "attr", None))
    if isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr.endswith("__"):
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
        self.tree, self.own = tree, own_names(tree)
        self.scope, self.refusals = scope, refusals
        self.loops: dict[str, object] = {}
        self.result: ResultVariables = result_of(tree)
        self.tries = 0  # around the statement that is rewritten

    def whole(self, statements: Sequence[ast.stmt], *, returning: bool = False) -> list[ast.stmt]:
        """All statements of the function; those from the first that may return on become one.

        If an arm of a statement leaves a variable unchanged, that statement and all after it also
        become one, unless they contain a loop or `returning` is set.
        """
        first = first_returning(statements)
        uneven = None if returning else first_uneven(statements)
        begins = [k for k in (uneven, first) if k is not None and (first is None or k <= first)]
        for begin in begins:
            before, tail = statements[:begin], statements[begin:]
            functions = (n for s in before for n in walk(s) if isinstance(n, _FUNCTIONS))
            shared = set[str]().union(*map(free_names, functions))
            try:
                behind = self._tail([*map(copied, tail)], shared, returning=begin == first)
            except EffectError:  # its parts may be rewritten
                continue
            return [*self.block(before, outermost=True), *behind]
        return self.block(statements, outermost=True)

    def _tail(
        self, statements: list[ast.stmt], shared: set[str], *, returning: bool
    ) -> list[ast.stmt]:
        """The statements up to the end of the function, as one that is run once.

        Functions from before it read the `shared` names.
        """
        objects = check(statements, self.scope)
        if grown_lists(statements) or objects.stored:
            raise EffectError("it appends to a list, or changes an object")
        number, arrays = len(self.loops), self._stored(objects)
        changed, read = {*assigned(statements)} | arrays, unbound_reads(statements, set())[1]
        if not shared.isdisjoint(changed):
            raise EffectError("a function reads what it assigns")
        carried = [*sorted(changed & read), *self.result.names]
        if _raises(statements):
            carried += [f"{LEFT}{number}", f"{RAISED}{number}"]
        names = LoopNames(
            (*carried,), arrays, objects=objects, is_statement=True, to_function_end=True
        )
        self.loops[f"{OWN}{number}"] = names
        parts = partial(self.block, outermost=True)
        parts = parts if returning else partial(self.whole, returning=True)
        plain = self._apart([*map(copied, statements)], parts)
        own = self._apart(statements, partial(self.block, inner=True, outermost=True))
        own += [] if ends(own) else [ast.Return(None)]
        return frame(plain, None, own, names, number, self.result)

    def _apart(
        self, statements: list[ast.stmt], rewrite: Callable[[list[ast.stmt]], list[ast.stmt]]
    ) -> list[ast.stmt]:
        """Statements up to the end of the function, rewritten as if they were all of it."""
        tree, self.tree = self.tree, copied(self.tree)
        self.tree.body = [*statements]
        try:
            return rewrite(statements)
        finally:
            self.tree = tree

    def block(
        self, statements: Sequence[ast.stmt], *, inner: bool = False, outermost: bool = False
    ) -> list[ast.stmt]:
        """Statements with the loops rewritten that can be; `inner` stand in the body of one.

        The `outermost` stand in no loop: they are rewritten, too, if they branch. In a body, none
        of their loops is left as it is.
        """
        new: list[ast.stmt] = []
        for statement in statements:
            if isinstance(statement, (ast.For, ast.While)):
                try:
                    new += self._loop(statement, inner=inner, once=outermost and not inner)
                except EffectError as refusal:
                    if inner and outermost:
                        raise
                    place = f"{self.scope.code.co_filename}:{statement.lineno}"
                    self.refusals[place] = str(refusal)
                    statement.body = self.block(statement.body, inner=inner)
                    new.append(statement)
                continue
            if (outermost or (inner and not ends_trip(statement))) and (
                is_decision(statement) or (inner and self._calls_user(statement))
            ):
                try:
                    new += self._decision(statement, inner=inner, in_loop_body=not outermost)
                except EffectError:
                    pass  # its parts may be rewritten
                else:
                    continue
            if isinstance(statement, ast.FunctionDef) and (outermost or not inner):
                self._function(statement)
            if isinstance(statement, (ast.If, ast.With, ast.Try)):
                own = outermost and isinstance(statement, ast.If)
                self.tries += isinstance(statement, ast.Try)
                statement.body = self.block(statement.body, inner=inner, outermost=own)
                self.tries -= isinstance(statement, ast.Try)
            if isinstance(statement, ast.If):
                orelse = self.block(statement.orelse, inner=inner, outermost=outermost)
                statement.orelse = orelse
            new.append(statement)
        return new

    def _calls_user(self, statement: ast.stmt) -> bool:
        """Whether a simple statement calls methods or functions of the user, which may branch."""
        simple = isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign))
        nodes = walk(statement) if simple else ()
        called = [self.scope.resolved(n.func) for n in nodes if isinstance(n, ast.Call)]
        return any(f is MISSING or isinstance(f, FunctionType) for f in called)

    def _function(self, function: ast.FunctionDef) -> None:
        """Rewrite the loops of a function in the function that is called alone."""
        nodes = [*walk(self.tree)]
        reads = [n for n in nodes if isinstance(n, ast.Name) and n.id == function.name]
        called = [n.func for n in nodes if isinstance(n, ast.Call)]
        if function.decorator_list or not all(n in called for n in reads):
            return
        scope = self.scope.inside(function)
        scope.depth = 0
        inner = _Rewriting(function, scope, self.refusals)
        inner.loops = self.loops
        function.body = inner.whole(function.body)

    def _decision(self, statement: ast.stmt, *, inner: bool, in_loop_body: bool) -> list[ast.stmt]:
        """A statement that branches, as a loop of one trip; so are statements in its arms."""
        objects = check([statement], self.scope)
        if any(returns([statement])):
            raise EffectError("return")
        number, raises = len(self.loops), leaves_by([statement], ast.Raise)
        if grown_lists([statement]):
            raise EffectError("it appends to a list")
        others = objects.outer | parameters(self.tree)
        if not (in_loop_body or others.isdisjoint(objects.targets)):
            raise EffectError("it stores an attribute of an argument: a trace of each path does")
        changed, arrays = {*assigned([statement])}, self._stored(objects)
        changes = changed | arrays or objects.stored or (in_loop_body and objects.called)
        if not changes or changed & (objects.owners | objects.listed):
            raise EffectError("it assigns nothing")
        others = {n.id for n in outside(self.tree, statement) if isinstance(n, ast.Name)}
        read = unbound_reads([statement], set())[1]
        carried = sorted(n for n in changed | arrays if n in others | read | arrays)
        carried += [f"{LEFT}{number}", f"{RAISED}{number}"] * raises
        names = LoopNames(
            tuple(carried), arrays, objects=objects, is_statement=True, in_loop_body=in_loop_body,
            replaced=arrays & changed,
        )  # fmt: skip
        self.loops[f"{OWN}{number}"] = names
        plain, own = copied(statement), statement
        if in_loop_body and isinstance(own, ast.If):
            arms = (self.block(arm, inner=True) for arm in (own.body, own.orelse))
            own = ast.copy_location(ast.If(own.test, *arms), own)
        new = frame(plain, None, [own], names, number, self.result, inner=inner)
        return share(new, number, shared_names(self.tree, statement) & {*carried})

    def _loop(self, loop: ast.For | ast.While, *, inner: bool, once: bool) -> list[ast.stmt]:
        """The statements in place of a loop, which is entered `once` if it stands in no other."""
        branches, plain = may_branch(loop), copied(loop)
        if not (branches or inner):
            raise EffectError("no such loop")
        objects = check([*loop.body, head_of(loop)], self.scope, [loop])
        try:
            if not inner:
                moving = {*assigned([loop])}
                loop.body = with_waiting_loops(loop.body, moving, self.scope.value)
            return self._as_node(loop, plain, objects, inner=inner, branches=branches, once=once)
        except EffectError:
            loop.body = copied(plain).body
            raise

    def _as_node(
        self, loop: ast.For | ast.While, plain: ast.For | ast.While, objects: ObjectAttributes, *,
        inner: bool, branches: bool, once: bool,
    ) -> list[ast.stmt]:  # fmt: skip
        number = len(self.loops)
        names = self._names(loop, number, objects, inner=inner)._replace(branches=branches)
        if once:
            dead = {n for n in names.carried if not is_read(self.tree, loop, n)}
            names = names._replace(dead=frozenset(self.own & dead))
        self.loops[f"{OWN}{number}"] = names
        over = None
        if isinstance(loop, ast.For):
            over = iteration(loop.iter, self.scope.value, number)
        shared = shared_names(self.tree, loop)
        if inner:  # Python may run it, over objects
            own, loop.body = loop.body, [*map(copied, loop.body)]
            plain.body, loop.body = self.block(loop.body, inner=True), own
        body = self.block(loop.body, inner=True)
        new = frame(plain, over, body, names, number, self.result, inner=inner)
        return share(new, number, shared & {*names.carried, *assigned([loop])})

    def _stored(self, objects: ObjectAttributes) -> frozenset[str]:
        """The variables of the function that are stored into; EffectError for others."""
        if not objects.changed <= self.own:
            raise EffectError("a store into what is no variable of the function")
        return objects.changed

    def _names(
        self, loop: ast.For | ast.While, number: int, objects: ObjectAttributes, *, inner: bool
    ) -> LoopNames:
        """The variables of a loop; EffectError where they cannot be handed over."""
        body, is_while = loop.body, isinstance(loop, ast.While)
        targets = set[str]() if isinstance(loop, ast.While) else {*assigned([loop.target])}
        grown = grown_lists([*body, head_of(loop)])
        own = all(self.scope.value(n) is MISSING for n in grown)
        if None in grown.values() or not own or {*grown} & shared_names(self.tree, loop):
            raise EffectError("it appends to a list, and does something else with that")
        changed, arrays = {*assigned(body)}, self._stored(objects) | {*grown}
        if (changed | targets | {*grown}) & (objects.owners | objects.listed):
            raise EffectError("an attribute of what the loop assigns")
        ended, counter = any(returns(body)), ""
        changes = changed | arrays or ended or objects.stored or objects.called
        if not targets.isdisjoint(changed | arrays) or not changes:
            raise EffectError("its variable is assigned")
        if ended and self.tries:
            raise EffectError("return in a try")
        raises = _raises(body)
        leaves = is_while or raises or ended or leaves_by(body, ast.Break)
        if leaves and targets:
            behind = {t for t in targets if is_read(self.tree, loop, t)}
            counter = counter_of(loop) if behind else ""
            if behind - {counter} or not targets.isdisjoint(loaded(head_of(loop))):
                raise EffectError("the number of its last trip is read after it")
        if leaves and grown and inner:
            raise EffectError("it appends to a list, whose length depends on when it is left")
        others = {n.id for n in outside(self.tree, loop) if isinstance(n, ast.Name)}
        read = unbound_reads([loop] if is_while else body, targets)[1]
        carried = sorted(n for n in changed | arrays if n in others | read | arrays)
        carried += [counter] if counter else []
        carried += [*self.result.names, f"{RETURNED}{number}"] if ended else []
        carried += [f"{LEFT}{number}"] * leaves + [f"{RAISED}{number}"] * raises
        loops = (n for s in body for n in walk(s) if isinstance(n, (ast.For, ast.While)))
        simple = not any(loops)
        lists = tuple([(name, lag or 0) for name, lag in grown.items()])
        return LoopNames(
            tuple(carried), arrays, lists, displayed(body), objects, counter, is_while=is_while,
            simple=simple, replaced=arrays & changed,
        )  # fmt: skip


def _raises(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements raise errors, apart from functions that they define."""
    return any(isinstance(n, ast.Raise) for s in statements for n in without_functions(s))
