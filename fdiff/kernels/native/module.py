"""The text of a kernel to an LLVM module with two functions: the kernel, and its entry.

Parameters of a text say where they come from::

    def kernel(x0: "f8* data[0]", x1: "f8 data[1]", r0: "u1* work[6]", ints: "i8* ints", ...)

`entry(data, strides, ints, floats)` hands them over. The last pointer in `data` is the workspace,
if there is one, and ``work[6]`` the part of it that begins ``ints[6]`` bytes from its start. No two
pointers lead to the same memory, unless nothing there is written to.
"""

from __future__ import annotations

import ast

from llvmlite import ir

from ...errors import TapeError
from ..runtime import maths
from .expressions import UnknownWordError
from .functions import call, local
from .kinds import BYTE, WORD, Term, convert, is_pointer, llvm_type, stored_type
from .statements import Writer
from .steps import Steps

_TABLES = {"ints": 2, "floats": 3, "strides": 1}


def module_of(text: str, name: str, calls: int = 0) -> ir.Module:
    """The module of ``def kernel``, with an entry called `name`, and of the steps before it.

    `calls` tells how many calls of elementary functions there are, as many of them are not inlined.
    """
    *steps, node = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    known = {step.name: step for step in steps if isinstance(step, ast.FunctionDef)}
    module = ir.Module(name)
    parameters = [(a.arg, *_spoken(a)) for a in node.args.args]
    kinds = [kind for _, kind, _ in parameters]
    inner = ir.Function(module, ir.FunctionType(WORD, [llvm_type(k) for k in kinds]), f"{name}_")
    inner.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        inner.attributes.add(attribute)
    for argument, kind in zip(inner.args, kinds, strict=True):
        if is_pointer(kind):
            argument.add_attribute("noalias")
    try:
        with maths.expecting(calls):
            writer = Writer(inner, node.body, "i8", Steps(known))
            names = [p[0] for p in parameters]
            given = zip(names, kinds, inner.args, strict=True)
            writer.write({n: Term(kind, value) for n, kind, value in given})
    except UnknownWordError as error:
        raise TapeError(f"fdiff made a kernel that does not compile ({error}):\n{text}") from None
    _enter(module, name, inner, [(kind, source) for _, kind, source in parameters])
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


def _spoken(argument: ast.arg) -> tuple[str, str]:
    """Kind and source of a parameter."""
    assert isinstance(argument.annotation, ast.Constant)
    kind, source = str(argument.annotation.value).split()
    return kind, source


def _enter(
    module: ir.Module, name: str, inner: ir.Function, parameters: list[tuple[str, str]]
) -> None:
    """The function that Python calls: everything by four addresses."""
    memory, word = BYTE.as_pointer(), WORD.as_pointer()
    types = [memory.as_pointer(), word, word, llvm_type("f8*")]
    entry = ir.Function(module, ir.FunctionType(WORD, types), name)
    entry.attributes.add("nounwind")
    code = ir.IRBuilder(entry.append_basic_block())
    count = 1 + max([_place(s) for _, s in parameters if s.startswith("data")], default=-1)
    values = [_handed(code, entry, kind, source, count) for kind, source in parameters]
    code.ret(code.call(inner, values))


def _place(source: str) -> int:
    return int(source[source.index("[") + 1 : -1])


def _handed(code: ir.IRBuilder, entry: ir.Function, kind: str, source: str, count: int) -> ir.Value:
    """One argument of the kernel."""
    if source in _TABLES:
        return entry.args[_TABLES[source]]
    k = count if source.startswith("work") else _place(source)
    begin = code.load(code.gep(entry.args[0], [WORD(k)]))
    if source.startswith("work"):
        offset = code.load(code.gep(entry.args[2], [WORD(_place(source))]))
        begin = code.gep(begin, [offset])
    stored = stored_type(kind.removesuffix("*"))
    pointer = code.bitcast(begin, stored.as_pointer())
    if is_pointer(kind):
        return pointer
    value = code.load(pointer)
    return convert(code, Term("u1", value), kind).at if kind == "b1" else value
