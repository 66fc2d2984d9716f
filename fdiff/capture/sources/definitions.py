"""The definition of a function in its source, where the function's code is what it compiles to."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import NamedTuple

from ...foreign_errors import not_foreign
from ...source_lines import source_lines
from ...syntax_trees import walk, with_locations

_NESTED = 0x10  # the flag of a function in a function
_FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
_SAME = (
    "co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags",
)  # fmt: skip


class Definition(NamedTuple):
    """The definition of a function, and the imports of its module, on which its code depends."""

    function: ast.FunctionDef
    imports: list[ast.stmt]


def definition(code: CodeType) -> Definition | None:
    """The definition of a function; None where there is none, or where it says something else."""
    text = "".join(source_lines(code.co_filename))
    try:
        tree = ast.parse(text)
    except not_foreign(SyntaxError, ValueError):
        return None
    imports = [*_imports(tree.body)]
    for node in walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
            continue
        first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
        if first == code.co_firstlineno:
            whole = Definition(node, imports)
            own = compiled(whole, code)
            same = own is not None and all(getattr(own, n) == getattr(code, n) for n in _SAME)
            return whole if same else None
    return None


def _imports(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            if getattr(statement, "module", None) != "__future__":
                yield statement
        elif isinstance(statement, (ast.If, ast.Try)):
            yield from _imports([*statement.body, *statement.orelse])


def compiled(whole: Definition, code: CodeType) -> CodeType | None:
    """The code of a definition that stands where the function of a code does."""
    statements: list[ast.stmt] = [whole.function]
    if code.co_flags & _NESTED:
        outer = ast.parse("def outer(): pass").body[0]
        assert isinstance(outer, ast.FunctionDef)
        free = [ast.Name(name, ast.Store()) for name in code.co_freevars]
        cells: list[ast.stmt] = [ast.Assign([name], ast.Constant(None)) for name in free]
        outer.body = [*cells, whole.function]
        statements = [outer]
    module = with_locations(ast.Module([*whole.imports, *statements], []))
    flags = code.co_flags & _FUTURES
    try:
        unit = compile(module, code.co_filename, "exec", flags, dont_inherit=True)
    except not_foreign(SyntaxError, ValueError):
        return None
    own = next((c for c in _codes(unit) if _is_of(c, code)), None)
    return None if own is None else own.replace(co_qualname=code.co_qualname)


def _is_of(own: CodeType, code: CodeType) -> bool:
    return (own.co_name, own.co_firstlineno) == (code.co_name, code.co_firstlineno)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
