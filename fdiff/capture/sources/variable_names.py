"""The names of variables that statements assign, store into, and read.

Definitions and uses: A. V. Aho, M. S. Lam, R. Sethi, J. D. Ullman, Compilers, 2nd ed.,
Addison-Wesley 2007, section 9.2.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import cast

from ...syntax_trees import children, walk

COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp)
_SKIPS = (ast.Continue, ast.Break, ast.Raise, ast.Return)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def is_read(tree: ast.AST, loop: ast.stmt, name: str) -> bool:
    """Whether a name is read outside of a loop, and of other loops whose variable it is."""
    for child in children(tree):
        if child is loop:
            continue
        own = isinstance(child, (ast.For, ast.AugAssign)) and name in assigned([child.target])
        if own and isinstance(child, ast.For):
            read = name in loaded(child.iter)
        else:
            read = own or (isinstance(child, ast.Name) and name in loaded(child))
            read = read or is_read(child, loop, name)
        if read:
            return True
    return False


def outside(tree: ast.AST, statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a function that are not in a statement, nor in the body of a loop."""
    for child in children(tree):
        yield child
        if child is not statement:
            yield from outside(child, statement)
        elif isinstance(child, (ast.For, ast.While)):
            yield from walk(child.iter if isinstance(child, ast.For) else child.test)


def assigned(statements: Sequence[ast.AST]) -> Iterator[str]:
    """The names that statements assign; comprehensions and functions have names of their own."""
    waiting: list[ast.AST] = [*statements]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        if not isinstance(node, (*COMPREHENSIONS, ast.FunctionDef, ast.Lambda)):
            waiting += children(node)


def elements_of_lists(statements: Sequence[ast.AST]) -> dict[str, str]:
    """The variables that hold elements of a list and nothing else, with the list's variable."""
    values = dict[str, set[str]]()
    own = set[ast.AST]()
    for node in (n for s in statements for n in walk(s)):
        if isinstance(node, (ast.For, ast.comprehension)):
            target, rows = node.target, node.iter
            numbered = isinstance(rows, ast.Call) and getattr(rows.func, "id", "") == "enumerate"
            if numbered and isinstance(target, ast.Tuple):
                target, rows = target.elts[-1], [*cast("ast.Call", rows).args, rows][0]
            if isinstance(target, ast.Name) and isinstance(rows, ast.Name):
                values.setdefault(target.id, set()).add(rows.id)
                own.add(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in own:
            values.setdefault(node.id, set()).add("")
    return {n: lists.pop() for n, lists in values.items() if len(lists) == 1 and "" not in lists}


def root(node: ast.Subscript) -> ast.expr:
    """What is read or stored into by one key or several."""
    return root(node.value) if isinstance(node.value, ast.Subscript) else node.value


def unbound_reads(statements: Sequence[ast.stmt], bound: set[str]) -> tuple[set[str], set[str]]:
    """The names that are bound after statements, and those that may be read before they are."""
    bound, read = {*bound}, set[str]()
    for s in statements:
        if isinstance(s, (ast.If, ast.Try)):
            arms = [s.body, s.orelse] if isinstance(s, ast.If) else [[*s.body, *s.orelse]]
            arms += [h.body for h in s.handlers] if isinstance(s, ast.Try) else []
            read |= loaded(s.test) - bound if isinstance(s, ast.If) else set()
            parts = [unbound_reads(part, bound) for part in arms]
            paths = zip(parts, arms, strict=True)
            ends = [end for (end, _), part in paths if not _skips(part)]
            read |= set[str]().union(*[names for _, names in parts])
            bound = set.intersection(*ends) if ends else bound
        elif isinstance(s, (ast.For, ast.While)):
            each = {*assigned([s.target])} if isinstance(s, ast.For) else set[str]()
            read |= loaded(s.iter if isinstance(s, ast.For) else s.test) - bound
            read |= unbound_reads(s.body, bound | each)[1]
        elif not isinstance(s, ast.Raise):
            target = s.target if isinstance(s, ast.AugAssign) else s
            read |= (loaded(s) | ({*assigned([target])} if target is not s else set())) - bound
            bound |= {*assigned([s])}
    return bound, read


def _skips(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements after these are left out."""
    return bool(statements) and isinstance(statements[-1], _SKIPS)


def loaded(node: ast.AST) -> set[str]:
    """The names that a node reads, and functions that it defines from around them."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        return set[str]().union(free_names(node), *map(loaded, defaults(node)))
    return set[str]().union(*map(loaded, children(node)))


def free_names(function: FunctionNode) -> set[str]:
    """The names that a function reads from around it."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    return set[str]().union(*map(loaded, body)) - own_names(function)


def own_names(function: FunctionNode) -> set[str]:
    """The parameters and variables of a function."""
    names = parameters(function)
    return names if isinstance(function, ast.Lambda) else names | {*assigned(function.body)}


def parameters(function: FunctionNode) -> set[str]:
    """The parameters of a function."""
    kinds = function.args
    each = [*kinds.posonlyargs, *kinds.args, *kinds.kwonlyargs, kinds.vararg, kinds.kwarg]
    return {a.arg for a in each if a is not None}


def assigned_values(function: ast.FunctionDef) -> dict[str, list[ast.expr | None]]:
    """The values that a function assigns to its variables; None for parts of other values."""
    values: dict[str, list[ast.expr | None]] = {n: [None] for n in parameters(function)}
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            own = node.value if len(node.targets) == 1 else None
            for name in assigned(node.targets):
                values.setdefault(name, []).append(own)
        elif not isinstance(node, (ast.AugAssign, *COMPREHENSIONS, ast.FunctionDef, ast.Lambda)):
            for name in assigned([node]) if isinstance(node, (ast.Name, ast.FunctionDef)) else ():
                values.setdefault(name, []).append(None)
            waiting += children(node)
        elif isinstance(node, ast.FunctionDef):
            values.setdefault(node.name, []).append(None)
    return values


def defaults(function: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    """The values of parameters that a definition computes."""
    return [d for d in (*function.args.defaults, *function.args.kw_defaults) if d is not None]


def without_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in a node but for what functions do that it defines."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
        for child in children(node):
            yield from without_functions(child)
