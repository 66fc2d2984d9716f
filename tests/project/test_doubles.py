"""Nothing is written twice: no two blocks of the package are the same but for their names."""

import ast
import collections
import re

from package_trees import PACKAGE, nodes_of, tree_of

SHORTEST = 5  # lines: a loop of two statements is an idiom
# Operators of recorded arrays look their call up themselves: one more call would slow them.
FOR_SPEED = {"autograd/arrays/array_methods.py"}
NAME = re.compile(r"Name\(id='(\w+)'")


def blocks(tree):
    """Bodies of functions, loops and branches, docstrings apart, with their lines."""
    for node in nodes_of(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or isinstance(node, ast.Module | ast.ClassDef):
            continue
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        if body and body[-1].end_lineno - body[0].lineno + 1 >= SHORTEST:
            yield body


def shape(body):
    """A text that is the same for blocks that differ in names alone: these become numbers."""
    numbers = {}
    text = "\n".join(map(ast.dump, body))
    return NAME.sub(lambda match: f"Name({numbers.setdefault(match[1], len(numbers))}", text)


def test_no_block_is_written_twice():
    places = collections.defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for body in blocks(tree_of(path)):
            places[shape(body)].append((path.relative_to(PACKAGE).as_posix(), body[0].lineno))
    assert len(places) > 5_000
    doubles = [where for where in places.values() if len(where) > 1]
    assert [where for where in doubles if {name for name, _ in where} != FOR_SPEED] == []
