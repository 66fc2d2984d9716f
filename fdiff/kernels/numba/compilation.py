"""A text compiled by Numba: object code of one function with C's calling convention.

Numba compiles the text, types and code generation included, and optimises it. What is added is a
function that calls Numba's, whose own convention has a pointer for the result and one for an
exception. So machine code needs nothing of Numba when it runs, and may be kept on disk.
"""

from __future__ import annotations

import ast

import numba
from llvmlite import ir
from numba.core import config
from numba.core.errors import NumbaError

from ...errors import InputError, TapeError, failure
from ...generated_text import Namespace, code_of
from ...named_tuples import NamedTuple
from ..ir.word_table import NAMES
from ..llvm import machine
from ..llvm.calling_convention import TABLES, WORKER, Location, location
from ..llvm.loop_hints import MANY_CALLS, calls_in
from ..llvm.types import BYTE, is_pointer, llvm_type
from ..runtime import maths
from .numba_types import CPU
from .pipelines import ManyCallsCompiler, NoAliasCompiler, OutlinedCompiler
from .words import words_of

# No Python is called, an integer divided by zero is no exception.
_OPTIONS: Namespace = {
    "nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
_ENTRY = "entry"


class _Signature(NamedTuple):
    """Types of the arguments and of the result, as texts spell them."""

    types: list[str]
    result: str


def kernel_code(text: str) -> bytes:
    """Object code of ``def kernel``, which has the symbol ``kernel`` and the calling convention of
    `calling_convention`; outlined functions stand before it.
    """
    kernel = _functions(text)[-1]
    tables = [*TABLES, *(WORKER for a in kernel.args.args if location(a).table == WORKER)]
    whole = f"{text}\n\n{_entry(kernel, tables)}"
    types = ["f8*" if table == "floats" else "i8*" for table in tables]
    return _object_code(whole, kernel.name, _Signature(types, "i8"), noalias=True)


def function_code(text: str) -> bytes:
    """Object code of the last function of a text, whose annotations say its types."""
    last = _functions(text)[-1]
    signature = _signature(last)
    return _object_code(text, last.name, signature, noalias=False)


def _signature(function: ast.FunctionDef) -> _Signature:
    annotations = [str(ast.literal_eval(a.annotation)) for a in function.args.args if a.annotation]
    result = str(ast.literal_eval(function.returns)) if function.returns else "i8"
    return _Signature([words.split()[0] for words in annotations], result)


def _functions(text: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def _entry(kernel: ast.FunctionDef, tables: list[str]) -> str:
    """The text of a function of tables that loads the kernel's parameters and calls it."""
    at = [location(a) for a in kernel.args.args]
    workspace = 1 + max((x.entry for x in at if x.table == "data"), default=-1)
    arguments = ", ".join(_argument(x, workspace) for x in at)
    return f"def {_ENTRY}({', '.join(tables)}):\n    return {kernel.name}({arguments})\n"


def _argument(at: Location, workspace: int) -> str:
    """An argument of the kernel, read from the tables."""
    if at.entry < 0:
        return at.table
    stored = "u1" if at.type == "b1" else at.type.removesuffix("*")
    where = f"data[{workspace}] + ints[{at.entry}]" if at.table == "work" else f"data[{at.entry}]"
    memory = f"rt.{NAMES[stored]}({where})"
    if is_pointer(at.type):
        return memory
    return f"{memory}[0] != 0" if at.type == "b1" else f"{memory}[0]"


def _object_code(text: str, name: str, signature: _Signature, *, noalias: bool) -> bytes:
    """Object code of the last function of a text, as the symbol `name`."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined] - Numba makes it of its variables
        fact = "Numba compiles nothing where NUMBA_DISABLE_JIT is set."
        raise failure(InputError, "FDIFF_COMPILER=numba", fact, "Unset one of both.")
    *others, last = functions = _functions(text)
    space: Namespace = {"__name__": "fdiff_kernel", **words_of(functions)}
    exec(code_of(text, name), space)
    for node in others:
        inner = _pipeline(node, kernel=others[-1] if noalias else None)
        space[node.name] = numba.njit(**_OPTIONS, **inner)(space[node.name])
    args = tuple(map(CPU.of, signature.types))
    try:
        with maths.expecting(calls_in(functions)):
            dispatcher = numba.njit(CPU.of(signature.result)(*args), **_OPTIONS)(space[last.name])
    except NumbaError as error:
        said = " ".join(str(error).split())
        raise TapeError(f"Numba does not compile a text of fdiff's: {said}\n{text}") from None
    native = dispatcher.overloads[args].fndesc.llvm_func_name
    return machine.wrapped_code(
        dispatcher.inspect_llvm(args), _wrapper(native, name, signature), name
    )


def _pipeline(node: ast.FunctionDef, kernel: ast.FunctionDef | None) -> Namespace:
    """The option of ``njit`` that says which passes compile a function of a text.

    In the text of a `kernel` functions before it are outlined.
    """
    if kernel is not None and node is not kernel:
        return {"pipeline_class": OutlinedCompiler}
    if kernel is not None and calls_in(node.body) >= MANY_CALLS:
        return {"pipeline_class": ManyCallsCompiler}
    noalias = kernel is not None or "* noalias" in ast.unparse(node.args)
    return {"pipeline_class": NoAliasCompiler} if noalias else {}


def _wrapper(native: str, name: str, signature: _Signature) -> ir.Module:
    """A function of C's calling convention that calls one of Numba's.

    Numba's takes the addresses of the result and of an exception before its arguments, and returns
    a status, which tells of an exception; no text raises one.
    """
    module = ir.Module(name)
    types = [llvm_type(t) for t in signature.types]
    result = llvm_type(signature.result or "i8")
    native_types = [result.as_pointer(), BYTE.as_pointer().as_pointer(), *types]
    callee = ir.Function(module, ir.FunctionType(ir.IntType(32), native_types), native)
    out = result if signature.result else ir.VoidType()
    function = ir.Function(module, ir.FunctionType(out, types), name)
    code = ir.IRBuilder(function.append_basic_block())
    slots = [code.alloca(result), code.alloca(BYTE.as_pointer())]
    code.call(callee, [*slots, *function.args])
    if signature.result:
        code.ret(code.load(slots[0]))
    else:
        code.ret_void()
    return module
