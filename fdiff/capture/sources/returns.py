"""The result of a function whose statements return in the middle, as variables."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from ...named_tuples import NamedTuple
from ...syntax_trees import children, copied
from .variable_names import without_functions

RESULT = "__fdiff_result"  # how the variables begin that hold a result


Tree = str | tuple["Tree", ...]


class ResultVariables(NamedTuple):
    """The variables of a result: one, or one for each entry of tuples, as in `tree`.

    A variable that always gets a constant of the source, and not always an int or truth value,
    holds the place of the constant among its `constants`.
    """

    tree: Tree
    constants: Mapping[str, list[ast.expr]] = {}

    @property
    def names(self) -> list[str]:
        return [*_leaves(self.tree)]

    def assigned(self, value: ast.expr | None) -> list[ast.stmt]:
        """The statements that give the variables a value that is returned."""
        own = value
        while isinstance(own, (ast.Tuple, ast.Subscript)):
            own = own.slice if isinstance(own, ast.Subscript) else next(iter(own.elts), None)
        if isinstance(own, ast.Name) and own.id in self.names:  # they have it
            return []
        whole = self._coded(self.tree, value or ast.Constant(None))
        return [ast.Assign([_expression(self.tree, ast.Store())], whole)]

    def _coded(self, tree: Tree, value: ast.expr) -> ast.expr:
        """A value that is returned, with the places of constants."""
        if isinstance(tree, tuple) and isinstance(value, ast.Tuple):
            parts = zip(tree, value.elts, strict=True)
            return ast.Tuple([self._coded(*part) for part in parts], ast.Load())
        if not isinstance(tree, str) or tree not in self.constants:
            return value
        texts = [ast.unparse(constant) for constant in self.constants[tree]]
        return ast.Constant(texts.index(ast.unparse(value)))

    def expression(self) -> ast.expr:
        """The result that the variables hold."""
        return self._loaded(self.tree)

    def _loaded(self, tree: Tree) -> ast.expr:
        if isinstance(tree, tuple):
            return ast.Tuple([*map(self._loaded, tree)], ast.Load())
        if tree not in self.constants:
            return ast.Name(tree, ast.Load())
        table = ast.Tuple([*map(copied, self.constants[tree])], ast.Load())
        return ast.Subscript(table, ast.Name(tree, ast.Load()), ast.Load())


def _leaves(tree: Tree) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
        return
    for part in tree:
        yield from _leaves(part)


def _expression(tree: Tree, context: ast.expr_context) -> ast.expr:
    if isinstance(tree, str):
        return ast.Name(tree, context)
    return ast.Tuple([_expression(part, context) for part in tree], context)


def result_of(function: ast.FunctionDef) -> ResultVariables:
    """The variables of a function's result: of each entry, where all results are such tuples."""
    numbers, values = count(), dict[str, list[ast.expr]]()

    def named(value: ast.expr | None) -> Tree:
        parts = value.elts if isinstance(value, ast.Tuple) else []
        if parts and not any(map(_is_starred, parts)):
            return (*map(named, parts),)
        name = f"{RESULT}{next(numbers)}"
        values.setdefault(name, []).append(value or ast.Constant(None))
        return name

    trees = set[Tree]()
    for node in returns(function.body):
        numbers = count()
        trees.add(named(node.value))
    if len(trees) != 1 or not ends(function.body):
        return ResultVariables(RESULT)
    pairs = [(name, _constants(each)) for name, each in values.items()]
    return ResultVariables(trees.pop(), {name: each for name, each in pairs if each})


def _constants(values: Iterable[ast.expr]) -> list[ast.expr]:
    """The constants that all values are; none where all are ints, or truth values."""
    constants = {ast.unparse(value): value for value in values}
    kinds = {*map(_kind_of_constant, constants.values())}
    if len(constants) < 2 or None in kinds or kinds in ({int}, {bool}):
        return []
    return [*constants.values()]


def _kind_of_constant(value: ast.expr) -> type | None:
    """The type of a constant; None of other values."""
    negative = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)
    part = value.operand if isinstance(value, ast.UnaryOp) and negative else value
    return type(part.value) if isinstance(part, ast.Constant) else None


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def returns(statements: Iterable[ast.AST]) -> Iterator[ast.Return]:
    """The statements that return."""
    nodes = (n for s in statements for n in without_functions(s))
    return (node for node in nodes if isinstance(node, ast.Return))


def first_returning(statements: Sequence[ast.stmt]) -> int | None:
    """The place of the first statement of several that may return; None if there is none."""
    for k, s in enumerate(statements):
        if any(returns([s])):
            return None if isinstance(s, ast.Return) else k
    return None


def ends(statements: Sequence[ast.stmt]) -> bool:
    """Whether no statement after these is run, as far as their form tells."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return ends(last.body) and ends(last.orelse)
    return isinstance(last, (ast.Return, ast.Raise)) or is_endless(last)


def is_endless(loop: ast.stmt) -> bool:
    """Whether a loop is left by a ``return`` or an error alone."""
    test = loop.test if isinstance(loop, ast.While) else None
    constant = isinstance(test, ast.Constant) and bool(test.value)
    return constant and isinstance(loop, ast.While) and not _breaks(loop.body)


def _breaks(statements: Iterable[ast.AST]) -> bool:
    """Whether statements in the body of a loop end the loop."""
    kinds = (ast.For, ast.While, ast.FunctionDef, ast.expr)
    return any(
        isinstance(s, ast.Break) or (not isinstance(s, kinds) and _breaks(children(s)))
        for s in statements
    )
