"""The text of a kernel to an LLVM module with two functions: the kernel, and its entry.

Parameters of a text say where they come from::

    def kernel(x0: "f8* data[0]", x1: "f8 data[1]", r0: "u1* work[6]", ints: "i8* ints", ...)

`entry(data, strides, ints, floats)` hands them over; a text for several threads has a parameter
``crew: "i8* crew"``, and so has its entry. The last pointer in `data` is the workspace,
if there is one, and ``work[6]`` the part of it that begins ``ints[6]`` bytes from its start. No two
pointers lead to the same memory, unless nothing there is written to.
"""

from __future__ import annotations

import ast

from llvmlite import ir

from ...errors import TapeError
from ..runtime import maths
from .calling_convention import CREW, TABLES, TYPES, Place, Tables, looked_up, read_at, spoken
from .expressions import UnknownWordError
from .outlined_functions import Steps, only_handed
from .statements import Writer
from .types import WORD, Term, is_pointer, llvm_type
from .words import call, local


def module_of(text: str, name: str, calls: int = 0) -> ir.Module:
    """The module of ``def kernel``, with an entry called `name`, and of the steps before it.

    `calls` tells how many calls of elementary functions there are, as many of them are not inlined.
    """
    *nodes, node = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    steps = {step.name: step for step in nodes if isinstance(step, ast.FunctionDef)}
    reads = [(statement, read_at(statement)) for statement in node.body]
    handed = only_handed((s for s, read in reads if read is None), set(steps))
    every = {a.arg: spoken(a) for a in node.args.args}
    given = {n: place for n, place in every.items() if n not in handed or n in TABLES}
    module = ir.Module(name)
    types = [*TYPES] * bool(steps) + [llvm_type(place.kind) for place in given.values()]
    inner = ir.Function(module, ir.FunctionType(WORD, types), f"{name}_")
    inner.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        inner.attributes.add(attribute)
    values = inner.args[len(types) - len(given) :]
    for argument, place in zip(values, given.values(), strict=True):
        if is_pointer(place.kind):
            argument.add_attribute("noalias")
    count = 1 + max((p.entry for p in every.values() if p.table == "data"), default=-1)
    tables = Tables(tuple(inner.args[: len(TABLES)]), count)
    try:
        with maths.expecting(calls):
            body = [s for s, read in reads if read is None or read[0] not in handed]
            writer = Writer(inner, body, "i8", call)
            if steps:
                # what is a parameter here is handed on as such: memory has one way to it
                others = {n: place for n, place in every.items() if n not in given}
                found = dict(read for _, read in reads if read is not None)
                writer.steps = Steps(steps, others | found, tables, call)
            pairs = zip(given.items(), values, strict=True)
            writer.write({n: Term(place.kind, value) for (n, place), value in pairs})
    except UnknownWordError as error:
        raise TapeError(f"fdiff made a kernel that does not compile ({error}):\n{text}") from None
    _enter(module, name, inner, list(given.values()), count)
    return module


def function_of(text: str) -> ir.Module:
    """The module of one function of numbers and memory, as C would call it.

    It is the last in the text; the functions before it are its own, each for those after it.
    """
    nodes = ast.parse(text).body
    module = ir.Module()
    for node in nodes:
        assert isinstance(node, ast.FunctionDef)
        _define(module, node, own=node is not nodes[-1])
    return module


def _define(module: ir.Module, node: ast.FunctionDef, *, own: bool) -> None:
    """One function; what its parameters and result are is said by their annotations."""
    spoken = [str(ast.literal_eval(a.annotation)) for a in node.args.args if a.annotation]
    kinds = [words.split()[0] for words in spoken]
    out = str(ast.literal_eval(node.returns)) if node.returns else "i8"
    type_ = ir.FunctionType(llvm_type(out), [llvm_type(k) for k in kinds])
    function = ir.Function(module, type_, local(node.name) if own else node.name)
    function.linkage = "internal" if own else ""
    function.attributes.add("nounwind")
    if own:
        function.attributes.add("noinline")  # compiled once, however often it is called
    for argument, words in zip(function.args, spoken, strict=True):
        if words.endswith(" noalias"):
            argument.add_attribute("noalias")
    writer = Writer(function, node.body, out, call)
    names = [a.arg for a in node.args.args]
    values = zip(names, kinds, function.args, strict=True)
    writer.write({n: Term(kind, value) for n, kind, value in values})


def _enter(
    module: ir.Module, name: str, inner: ir.Function, parameters: list[Place], count: int
) -> None:
    """The function that Python calls: everything by four addresses."""
    types = [*TYPES, *[WORD.as_pointer() for place in parameters if place.table == CREW]]
    entry = ir.Function(module, ir.FunctionType(WORD, types), name)
    entry.attributes.add("nounwind")
    code = ir.IRBuilder(entry.append_basic_block())
    tables = Tables(tuple(entry.args), count)
    values: list[ir.Value] = list(entry.args) if len(inner.args) > len(parameters) else []
    for place in parameters:
        if place.entry < 0:
            values.append(entry.args[(*TABLES, CREW).index(place.table)])
        else:
            values.append(looked_up(code, tables, place.kind, place.table, WORD(place.entry)))
    code.ret(code.call(inner, values))
