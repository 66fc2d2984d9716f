"""Lists that statements of a loop append to, and read from their ends alone."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...syntax_trees import children, walk


def appended(node: ast.AST) -> tuple[str, ast.expr] | None:
    """The list that a statement appends to, by its name, and what it appends.

    Of ``extend`` of a display (``xs.extend([a, b])``), that is a tuple of the elements.
    """
    call = node.value if isinstance(node, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not isinstance(function, ast.Attribute):
        return None
    plain = len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)
    name = function.value
    if not plain or not isinstance(name, ast.Name) or function.attr not in ("append", "extend"):
        return None
    value = call.args[0]
    if function.attr == "append":
        return name.id, value
    whole = isinstance(value, (ast.List, ast.Tuple))
    return (name.id, ast.Tuple(value.elts, ast.Load())) if whole and _is_flat(value) else None


def _is_flat(display: ast.List | ast.Tuple) -> bool:
    return bool(display.elts) and not any(isinstance(e, ast.Starred) for e in display.elts)


def grown_lists(statements: Sequence[ast.AST]) -> dict[str, int | None]:
    """The lists that statements append to, with how many of their last elements are read.

    None where a list is read otherwise than by the places of elements from its end.
    """
    reads, lists, others = dict[str, int](), set[str](), set[str]()
    waiting: list[ast.AST] = [*statements]
    while waiting:
        node = waiting.pop()
        if (append := appended(node)) is not None:
            lists.add(append[0])
            waiting.append(append[1])
        elif (read := _last(node)) is not None:
            reads[read[0]] = max(reads.get(read[0], 0), read[1])
        else:
            if isinstance(node, ast.Name):
                others.add(node.id)
            waiting += children(node)
    return {name: None if name in others else reads.get(name, 0) for name in sorted(lists)}


def displayed(statements: Sequence[ast.AST]) -> frozenset[str]:
    """The lists to which displays of lists and dicts (``[t, x]``) are appended, and nothing else.

    Such an element has no other name.
    """
    appends = [each for s in statements for node in walk(s) if (each := appended(node))]
    others = {name for name, value in appends if not isinstance(value, (ast.List, ast.Dict))}
    return frozenset(name for name, _ in appends) - others


def _last(node: ast.AST) -> tuple[str, int] | None:
    """The list that a node reads an element or all of from a place that is counted from the end."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    place: ast.expr | None = node.slice
    if isinstance(place, ast.Slice):
        place = None if place.upper or place.step else place.lower
    negative = isinstance(place, ast.UnaryOp) and isinstance(place.op, ast.USub)
    number: object = getattr(getattr(place, "operand", None), "value", None)
    if not negative or type(number) is not int or not number or isinstance(node.ctx, ast.Store):
        return None
    return node.value.id, number
