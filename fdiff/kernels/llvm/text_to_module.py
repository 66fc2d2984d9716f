"""From a text to an LLVM module: a kernel and its entry, or functions that kernels call.

Python calls the entry, which has the `calling_convention` of kernels: it loads the kernel's
parameters and passes them on. No two pointers point to the same memory (``noalias``), unless that
memory is only read.
"""

from __future__ import annotations

import ast
import re
from functools import partial
from itertools import compress, pairwise

from llvmlite import ir

from ...errors import TapeError
from ..runtime import maths
from .arithmetic import UnknownWordError
from .calling_convention import (
    TABLES,
    TYPES,
    WORKER,
    ArgumentTables,
    Location,
    location,
    table_read,
)
from .function_builder import FunctionBuilder, add_alias_attributes, declare, parameters_of
from .llvm_words import call, local
from .loop_hints import MANY_CALLS, calls_in, hint_many_calls
from .outlined_functions import OutlinedFunctions, only_arguments
from .statements import write
from .types import WORD, TypedValue, is_pointer, llvm_type


def module_of(text: str, name: str, calls: int = 0) -> ir.Module:
    """The module of ``def kernel`` and of the outlined functions before it; its entry is `name`.

    If there are many calls of elementary functions, as many as `calls` at least, none is inlined.
    """
    *others, node = nodes = _functions(text)
    calls = max(calls, calls_in(nodes))
    outlined = {n.name: n for n in others}
    reads = [*map(table_read, node.body)]
    passed_on = only_arguments(compress(node.body, [r is None for r in reads]), set(outlined))
    locations = {a.arg: location(a) for a in node.args.args}
    # A pointer that the kernel uses itself is a parameter, and outlined functions are given that:
    # in each function one name leads to an array.
    parameters = {n: at for n, at in locations.items() if n not in passed_on or n in TABLES}
    module = ir.Module(name)
    inner = _inner(module, f"{name}_", parameters, tables=bool(outlined))
    values = inner.args[len(inner.args) - len(parameters) :]
    count = 1 + max((at.entry for at in locations.values() if at.table == "data"), default=-1)
    try:
        with maths.expecting(calls):
            kept = [read is None or read[0] not in passed_on for read in reads]
            node.body = [*compress(node.body, kept)]
            to = FunctionBuilder(inner, call, "i8")
            to.strict = to.once = True
            if calls >= MANY_CALLS:
                to.on_loop = lambda body: partial(hint_many_calls, calls=calls_in(body))
            if outlined:
                others = {n: at for n, at in locations.items() if n not in parameters}
                others |= dict(read for read in reads if read is not None)
                tables = ArgumentTables(tuple(inner.args[: len(TABLES)]), count)
                to.callees = OutlinedFunctions(outlined, others, tables, call)
            pairs = zip(parameters.items(), values, strict=True)
            write(to, node.body, {n: TypedValue(at.type, value) for (n, at), value in pairs})
    except UnknownWordError as error:
        raise TapeError(f"fdiff made a kernel that does not compile ({error}):\n{text}") from None
    _add_entry(module, name, inner, list(parameters.values()), count)
    return module


def _functions(text: str) -> list[ast.FunctionDef]:
    """The functions of a kernel's text; a long text is parsed piece by piece.

    Python's parser lets no other thread run: 80 ms, for a text of 6,000 lines.
    """
    if text.count("\n") <= _PIECE:
        return [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    functions: list[ast.FunctionDef] = []
    for function in re.split(r"\n(?=def )", text):
        header, *lines = function.splitlines()
        begins = [k for k, line in enumerate(lines) if _STATEMENT.match(line)]
        cuts = [*begins[::_PIECE], len(lines)]
        pieces = ["\n".join((header, *lines[a:b])) for a, b in pairwise(cuts)]
        (whole,), *rest = [ast.parse(piece).body for piece in pieces]
        assert isinstance(whole, ast.FunctionDef)
        for (more,) in rest:
            assert isinstance(more, ast.FunctionDef)
            whole.body += more.body
        functions.append(whole)
    return functions


_PIECE = 250  # statements that are parsed at once
_STATEMENT = re.compile(r" {4}(?!#|else\b|elif\b)\S")


def _inner(
    module: ir.Module, name: str, parameters: dict[str, Location], *, tables: bool
) -> ir.Function:
    """The kernel's function, still empty; if `tables` says so, these come before its parameters."""
    types = [*TYPES] * tables + [llvm_type(at.type) for at in parameters.values()]
    inner = declare(module, name, WORD, types, "noinline nounwind", internal=True)
    values = inner.args[len(types) - len(parameters) :]
    add_alias_attributes(values, [is_pointer(at.type) for at in parameters.values()])
    return inner


def _add_entry(
    module: ir.Module, name: str, inner: ir.Function, parameters: list[Location], count: int
) -> None:
    """The function that Python calls: it loads each parameter from the tables."""
    types = [*TYPES, *[WORD.as_pointer() for at in parameters if at.table == WORKER]]
    entry = declare(module, name, WORD, types)
    code = ir.IRBuilder(entry.append_basic_block())
    tables = ArgumentTables(tuple(entry.args), count)
    values: list[ir.Value] = list(entry.args) if len(inner.args) > len(parameters) else []
    for at in parameters:
        if at.entry < 0:
            values.append(entry.args[(*TABLES, WORKER).index(at.table)])
        else:
            values.append(tables.load(code, at, WORD(at.entry)))
    code.ret(code.call(inner, values))


def function_of(text: str) -> ir.Module:
    """The module of one function of numbers and memory with C's calling convention.

    It is the last one of the text; those before it are internal, each for those after it. Glue code
    has those "inline" that are annotated so (``-> "i8 inline"``).
    """
    nodes = ast.parse(text).body
    module = ir.Module()
    for node in nodes:
        assert isinstance(node, ast.FunctionDef)
        _define(module, node, internal=node is not nodes[-1])
    return module


def _define(module: ir.Module, node: ast.FunctionDef, *, internal: bool) -> None:
    """One function, with the types that its annotations say."""
    annotations = [str(ast.literal_eval(a.annotation)) for a in node.args.args if a.annotation]
    types = [words.split()[0] for words in annotations]
    out, *inline = str(ast.literal_eval(node.returns)).split() if node.returns else ["i8"]
    name = local(node.name) if internal else node.name
    attributes = "nounwind"
    if internal:  # compiled once, not at each call, where the text does not ask for that
        attributes = "alwaysinline nounwind" if inline else "noinline nounwind"
    parameters = [llvm_type(t) for t in types]
    function = declare(module, name, llvm_type(out), parameters, attributes, internal=internal)
    add_alias_attributes(function.args, [words.endswith(" noalias") for words in annotations])
    write(FunctionBuilder(function, call, out), node.body, parameters_of(node, types, function))
