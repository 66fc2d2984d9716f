"""The words of kernel texts for NVVM: each an ``@intrinsic`` with the formula of the CPU.

A builder that knows NVVM's instructions lowers the formulas of `fdiff.kernels.llvm.llvm_words`; the
formulas of sine, cosine and tangent take any angle. Words of GPUs alone have their formulas here.
Numba is imported here, so that only programs for CUDA import this module.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import numpy as np
from llvmlite import ir
from numba import cuda
from numba.cuda.extending import intrinsic

from ....generated_text import Namespace
from ....process.forking import no_fork
from ...ir.word_table import OF_GPUS, word_of
from ...llvm.arithmetic import UnknownWordError
from ...llvm.builder_choice import building_by
from ...llvm.llvm_words import Formula, formula_of
from ...llvm.types import TypedValue, convert, llvm_type
from ...numba.numba_types import NumbaTypes
from ...numba.words import typing_of, words_called
from ...runtime import maths
from ..cuda_program import CudaKernel
from ..large_angles import FAR
from ..nvvm_builder import NvvmBuilder

WARP = 32
with no_fork:
    _TYPES = NumbaTypes(import_module("numba.cuda.types"))  # Numba's own, old target has others
_STORED = {"b1": "u1"}


def function_of(kernel: CudaKernel) -> Callable[..., None]:
    """The Python function of a kernel, to be compiled for `signature`."""
    tree = ast.parse(kernel.text)
    space: Namespace = {**_words_of(tree), "cuda": cuda, "np": np, "WARP": WARP}
    for node in tree.body:
        assert isinstance(node, ast.FunctionDef)
        if node.name == kernel.name:
            code = ast.Module([node], [])
            exec(compile(code, f"<kernel for CUDA {kernel.name}>", "exec"), space)
        else:
            space[node.name] = _helper(node, space)
    return space[kernel.name]


def signature(kernel: CudaKernel) -> tuple[object, ...]:
    """The types of a kernel's parameters: pointers to entries, and numbers of 64 bits."""
    return tuple(
        _TYPES.of(f"{_STORED.get(p.dtype, p.dtype)}*" if p.address else p.dtype)
        for p in kernel.parameters
    )


def _helper(node: ast.FunctionDef, space: Namespace) -> object:
    """A function that kernels call, inlined for the types of each call."""
    code = compile(ast.Module([node], []), f"<helper for CUDA {node.name}>", "exec")
    exec(code, space)
    options: Namespace = {"device": True, "inline": "always"}
    return cuda.jit(**options)(space[node.name])


# --- words ------------------------------------------------------------------------------------


def _words_of(tree: ast.Module) -> dict[str, ModuleType]:
    """Modules for ``rt`` and ``math`` in a text, in which Numba looks up names."""
    for home, name in words_called([tree], _HOMES):
        if not hasattr(_HOMES[home], name):
            setattr(_HOMES[home], name, _intrinsic(f"{home}.{name}"))
    return _HOMES


def _intrinsic(name: str) -> object:
    """A word as a function of Numba."""
    word = OF_GPUS.get(name) or word_of(name)
    if word is None:
        raise UnknownWordError(name)
    formula = _FORMULAS.get(name) or formula_of(word)
    typing = typing_of(word, formula, len(word.parameters), _TYPES)

    def typed(context: object, *kinds: object) -> object:
        with building_by(NvvmBuilder):
            typed_call = typing(context, *kinds)
        return None if typed_call is None else (typed_call[0], _by_nvvm(typed_call[1]))

    vars(typed)["__signature__"] = vars(typing)["__signature__"]
    typed.__name__ = typed.__qualname__ = typing.__name__
    return intrinsic(typed)


def _by_nvvm(lowering: Callable[..., object]) -> Callable[..., object]:
    """The code of a call, written by a builder that knows what NVVM takes."""

    def lowered(
        context: object, code: ir.IRBuilder, signature: object, args: tuple[object, ...]
    ) -> object:
        builder = NvvmBuilder(code.block)
        with building_by(NvvmBuilder):
            out = lowering(context, builder, signature, args)
        code.position_at_end(builder.block)
        return out

    return lowered


def _any_angle(name: str) -> Formula:
    """Sine, cosine or tangent of any angle."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        type_ = args[0].type
        value = maths.call(code, FAR[name], [args[0].value], llvm_type(type_))
        return TypedValue(type_, value)

    return formula


def _exchange(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    """The value of the lane whose number differs in the bits of the second argument."""
    (type_, value), reach = args[0], convert(code, args[1], "i4")
    whole = convert(code, args[0], "i8").value if type_[0] in "biu" else None
    if whole is None:
        whole = code.bitcast(value, ir.IntType(8 * int(type_[1])))
    lane = ir.IntType(32)
    parts = [whole]
    if type_ != "f4":
        parts = [code.trunc(whole, lane), code.trunc(code.lshr(whole, whole.type(32)), lane)]
    moved = [_shuffled(code, part, reach.value) for part in parts]
    out = moved[0]
    if len(moved) > 1:
        high = code.shl(code.zext(moved[1], whole.type), whole.type(32))
        out = code.or_(code.zext(moved[0], whole.type), high)
    if type_[0] == "f":
        return TypedValue(type_, code.bitcast(out, llvm_type(type_)))
    return convert(code, TypedValue("i8", out), type_)


def _shuffled(code: ir.IRBuilder, part: ir.Value, reach: ir.Value) -> ir.Value:
    """A word of 32 bits from another lane; all lanes of the warp take part."""
    lane, truth = ir.IntType(32), ir.IntType(1)
    pair = ir.LiteralStructType((lane, truth))
    function = ir.FunctionType(pair, (lane, lane, lane, lane, lane))
    name = "llvm.nvvm.shfl.sync.i32"
    shuffle = code.module.globals.get(name) or ir.Function(code.module, function, name)
    butterfly, all_lanes, last = lane(3), lane(-1), lane(31)
    return code.extract_value(code.call(shuffle, [all_lanes, butterfly, part, reach, last]), 0)


def _atomic_sum(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    """Adds a value to an entry of memory; threads may do so at once. Gives the value."""
    pointer, type_ = args[0].value, args[0].type[:-1]
    place = code.gep(pointer, [convert(code, args[1], "i8").value], inbounds=True)
    value = convert(code, args[2], type_).value
    if type_[0] in "iu":
        code.atomic_rmw("add", place, value, "monotonic")
        return TypedValue(type_, value)
    letter, kind = ("d", "f64") if type_ == "f8" else ("f", "f32")
    form = ir.FunctionType(ir.VoidType(), [place.type, value.type])
    # No name of an intrinsic function for it is known to all releases of NVVM.
    text = f"red.add.{kind} [$0], $1;"
    reduce = ir.InlineAsm(form, text, f"l,{letter},~{{memory}}", side_effect=True)
    code.call(reduce, [place, value])
    return TypedValue(type_, value)


def _quotient(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    """``n // by`` of integers that are not negative, nor is `by` zero: nothing is checked."""
    n, by = (convert(code, a, "i8").value for a in args)
    return TypedValue("i8", code.udiv(n, by))


def _select(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    """The second argument where the first is true, else the third: without a branch."""
    test, x, y = args
    return TypedValue(x.type, code.select(test.value, x.value, convert(code, y, x.type).value))


def _fma(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    """``x * y + z`` rounded once."""
    values = [a.value for a in args]
    name = f"llvm.fma.{'f64' if args[0].type == 'f8' else 'f32'}"
    kind = ir.FunctionType(values[0].type, [v.type for v in values])
    function = code.module.globals.get(name) or ir.Function(code.module, kind, name)
    return TypedValue(args[0].type, code.call(function, values))


_HOMES = {"rt": ModuleType("rt"), "math": ModuleType("math")}
_FORMULAS: dict[str, Formula] = {
    **{f"rt.{name}": _any_angle(name) for name in FAR},
    "rt.exchange": _exchange,
    "rt.atomic_sum": _atomic_sum,
    "rt.quotient": _quotient,
    "rt.select": _select,
    "rt.fma": _fma,
}
