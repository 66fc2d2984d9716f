"""Rules of ops are short: of derivatives, batching, structure and lowering, for all ops."""

import ast
import dataclasses
import functools
import inspect
import textwrap

from tapes import load_every_table

import fdiff.functional  # noqa: F401 - higher floors set the hooks that facets call
from fdiff.primitive import PRIMITIVES

LONGEST_RULE = 15  # lines, the head and the docstring apart
RULES = ("rules", "structure", "lowering")  # the facets of an op that hold rules

load_every_table()


def fields(record):
    """The fields of a record: a dataclass or a named tuple."""
    if dataclasses.is_dataclass(record):
        return [(f.name, getattr(record, f.name, None)) for f in dataclasses.fields(record)]
    return [(name, getattr(record, name)) for name in getattr(record, "_fields", ())]


def rules(record, place):
    """The functions in a record, with where they are entered; those of partial calls, too."""
    for name, value in fields(record):
        inner = value
        while isinstance(inner, functools.partial):
            inner = inner.func
        if inspect.isfunction(inner):
            yield f"{place}.{name}", inner
        elif not inspect.isclass(inner):
            yield from rules(inner, f"{place}.{name}")


def lines_of(function):
    """The lines of a function's body; those of a lambda stand in a row, which the layout bounds."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if not isinstance(node, ast.FunctionDef):
        return 1
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_no_rule_is_longer_than_fifteen_lines():
    entered = {
        rule.__code__: (place, rule)
        for op in PRIMITIVES.values()
        for facet in RULES
        for place, rule in rules(getattr(op, facet), f"{op.name}.{facet}")
        if rule.__name__ != "<lambda>" and rule.__module__.startswith("fdiff.")
    }
    assert len(entered) > 150
    lengths = {place: lines_of(rule) for place, rule in entered.values()}
    assert {place: n for place, n in lengths.items() if n > LONGEST_RULE} == {}
