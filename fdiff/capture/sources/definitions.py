"""The definition of a function in its source, where the function's code is what it compiles to."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Iterable, Iterator
from types import CodeType

from ...bounded_cache import keep
from ...foreign_errors import not_foreign
from ...named_tuples import NamedTuple
from ...source_lines import source_lines
from ...syntax_trees import walk, with_locations

_MOST = 256  # definitions that are kept
_LAMBDA = "<lambda>"
_NESTED = 0x10  # the flag of a function in a function
_FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
_SAME = (
    "co_name", "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags",
)  # fmt: skip


class Definition(NamedTuple):
    """The definition of a function, and the imports of its module, on which its code depends."""

    function: ast.FunctionDef | ast.Lambda
    imports: list[ast.stmt]


_definitions: dict[CodeType, Definition | None] = {}


def definition(code: CodeType) -> Definition | None:
    """The definition of a function; None where there is none, or where it says something else."""
    if code in _definitions:
        return _definitions[code]
    return keep(_definitions, code, _definition(code), _MOST)


def note_rewritten(code: CodeType, new: CodeType) -> None:
    """Note the definitions of a function whose code is rewritten, and of functions in it."""
    named = [c for c in (code, *codes_in(code)) if not c.co_name.startswith("<")]
    before_of = {(c.co_name, c.co_firstlineno): c for c in named}
    for own in (new, *codes_in(new)):
        before = before_of.get((own.co_name, own.co_firstlineno))
        if before is not None and before != own:
            keep(_definitions, own, definition(before), _MOST)


def _definition(code: CodeType) -> Definition | None:
    text = "".join(source_lines(code.co_filename))
    try:
        tree = ast.parse(text)
    except not_foreign(SyntaxError, ValueError):
        return None
    imports = [*_imports(tree.body)]
    for node in walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)) or not _begins(node, code):
            continue
        whole = Definition(node, imports)
        own = compiled(whole, code)
        if own is not None and _is_same(own, code):
            return whole
    return None


def _begins(node: ast.FunctionDef | ast.Lambda, code: CodeType) -> bool:
    """Whether a definition begins where the function of a code does, and has its name."""
    if isinstance(node, ast.Lambda):
        return (_LAMBDA, node.lineno) == (code.co_name, code.co_firstlineno)
    first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
    return (node.name, first) == (code.co_name, code.co_firstlineno)


def _is_same(own: CodeType, code: CodeType) -> bool:
    """Whether codes do the same; 1 and 1.0 are other constants, and so are 0.0 and -0.0."""
    constants = own.co_consts, code.co_consts
    if any(getattr(own, n) != getattr(code, n) for n in _SAME) or len({*map(len, constants)}) > 1:
        return False
    return all(
        _is_same(a, b)
        if isinstance(a, CodeType) and isinstance(b, CodeType)
        else type(a) is type(b) and repr(a) == repr(b)
        for a, b in zip(*constants, strict=True)
    )


def _imports(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            if getattr(statement, "module", None) != "__future__":
                yield statement
        elif isinstance(statement, (ast.If, ast.Try)):
            yield from _imports([*statement.body, *statement.orelse])


def compiled(whole: Definition, code: CodeType) -> CodeType | None:
    """The code of a definition that stands where the function of a code does."""
    function = whole.function
    own_statement = ast.Expr(function) if isinstance(function, ast.Lambda) else function
    around = code.co_qualname.rpartition(".")[0].rpartition(".")[2]
    if around.isidentifier():  # a class, on which private names and `super` depend
        own_statement = ast.ClassDef(around, [], [], [own_statement], [])
    statements: list[ast.stmt] = [own_statement]
    if code.co_flags & _NESTED:
        outer = ast.parse("def outer(): pass").body[0]
        assert isinstance(outer, ast.FunctionDef)
        free = [ast.Name(n, ast.Store()) for n in code.co_freevars if n != "__class__"]
        cells: list[ast.stmt] = [ast.Assign([name], ast.Constant(None)) for name in free]
        outer.body = [*cells, own_statement]
        statements = [outer]
    module = with_locations(ast.Module([*whole.imports, *statements], []))
    flags = code.co_flags & _FUTURES
    try:
        unit = compile(module, code.co_filename, "exec", flags, dont_inherit=True)
    except not_foreign(SyntaxError, ValueError):
        return None
    own = next((c for c in codes_in(unit) if _is_of(c, code)), None)
    return None if own is None else own.replace(co_qualname=code.co_qualname)


def _is_of(own: CodeType, code: CodeType) -> bool:
    return (own.co_name, own.co_firstlineno) == (code.co_name, code.co_firstlineno)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The codes of the functions in a function."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)
