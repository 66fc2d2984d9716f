"""Exceptions of signal handlers come out of walks over trees, and of what reads source lines."""

import ast
import linecache
import sys

import pytest

from fdiff.source_lines import source_line, source_lines
from fdiff.syntax_trees import GenericVisit, children, copied, walk, with_locations

TEXT = """
@decorated(a, *b, k=1, **c)
def f(x, /, y: int = 2, *z, w=3, **v) -> None:
    for i, (j, k) in enumerate([x, y]):
        while x[i:j, ::2] < 3 <= y or not z:
            x[0].a += f"{y!r:>{w}} {x}" if z else lambda q: [q for q in z if q]
    try:
        raise ValueError from None
    except (KeyError, OSError) as e:
        del e
    match x:
        case {"a": [1, *rest], **others} | A(b=2) as whole:
            return {1: 2, **x}, {3}, -1j, ...
"""


class Doubled(ast.NodeTransformer):
    """Puts a list, nothing, or another node in place of nodes."""

    def visit_Name(self, node):
        return ast.Name(node.id * 2, node.ctx)

    def visit_Raise(self, node):
        return [node, node]

    def visit_Delete(self, _):
        return None

    def visit_arg(self, node):
        return None if node.arg == "z" else node


class OursDoubled(GenericVisit, Doubled):
    pass


def dumped(tree):
    return ast.dump(tree, include_attributes=True)


def test_walks_are_those_of_ast():
    tree = ast.parse(TEXT)
    assert [*walk(tree)] == [*ast.walk(tree)]
    assert [*children(tree.body[0])] == [*ast.iter_child_nodes(tree.body[0])]
    new = copied(tree)
    assert dumped(new) == dumped(tree)
    own = (n for n in walk(new) if not isinstance(n, ast.expr_context | ast.operator))
    assert {*map(id, own)}.isdisjoint(map(id, walk(tree)))
    assert dumped(OursDoubled().visit(new)) == dumped(Doubled().visit(copied(tree)))


def test_locations_are_those_of_ast():
    def without():
        tree = ast.parse(TEXT)
        for number, node in enumerate(walk(tree)):
            if number % 3 and "lineno" in node._attributes:
                del node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
        return tree

    assert dumped(with_locations(without())) == dumped(ast.fix_missing_locations(without()))


def raised_and_seen(call, kind):
    """How often an exception was raised at a line below a call, and how often it came out."""
    place, raised, seen = 0, 0, 0
    while True:
        left = place

        def trace(frame, event, _):
            nonlocal left, raised
            if event == "line":
                left -= 1
                if left == -1:
                    raised += 1
                    raise kind
            return trace

        before = raised
        sys.settrace(trace)
        try:
            call()
        except kind:
            seen += 1
        finally:
            sys.settrace(None)
        if raised == before:
            return raised, seen
        place += 1


@pytest.mark.parametrize("kind", [AttributeError, KeyError, TypeError, MemoryError])
def test_what_arrives_in_a_walk_comes_out(kind):
    tree = ast.parse("x = f(y)[0]")
    calls = [lambda: [*walk(tree)], lambda: copied(tree), lambda: with_locations(tree)]
    for call in [*calls, lambda: OursDoubled().visit(copied(tree))]:
        raised, seen = raised_and_seen(call, kind)
        assert raised == seen > 10


@pytest.mark.parametrize("text", ["x = 1\ny = 2", "x = 1\n", "", "# coding: latin-1\n", "\xe9"])
def test_lines_are_those_of_linecache(text, tmp_path):
    file = str(tmp_path / "a.py")
    (tmp_path / "a.py").write_bytes(text.encode("latin-1"))
    lines, entry = [*source_lines(file)], linecache.cache.get(file)
    assert source_line(file, 1) == linecache.getline(file, 1)
    assert source_line(file, 0) == source_line(file, 9) == ""
    linecache.cache.pop(file, None)
    assert lines == linecache.getlines(file)
    assert entry == linecache.cache.get(file)


def test_lines_of_what_is_no_file():
    assert source_lines("nothing.py") == source_lines("<string>") == []
    names = {"__name__": "a", "__loader__": type("Loader", (), {"get_source": lambda *_: "z = 3"})}
    try:
        assert source_lines("/inside.zip/a.py", names) == ["z = 3\n"]
    finally:
        linecache.cache.pop("/inside.zip/a.py", None)


# What comes at the end of a ``with`` statement comes before `__exit__`.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [OSError, TimeoutError, ValueError, MemoryError])
def test_what_arrives_while_lines_are_read_comes_out(kind, tmp_path):
    file = str(tmp_path / "a.py")
    (tmp_path / "a.py").write_text("x = 1\n")

    def read():
        linecache.cache.pop(file, None)
        assert source_lines(file) == ["x = 1\n"]

    raised, seen = raised_and_seen(read, kind)
    assert raised == seen > 10
