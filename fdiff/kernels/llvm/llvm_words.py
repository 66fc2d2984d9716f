"""LLVM code of the words that kernel texts may call (`fdiff/kernels/ir/word_table.py`).

Formulas take an `llvmlite.ir.IRBuilder` and typed values and nothing else, so that another compiler
over llvmlite can build the same code from them.
"""

from __future__ import annotations

import ast
from functools import cache, lru_cache

from llvmlite import ir

from ..ir.word_table import DTYPES, Word, word_of
from ..runtime import maths, scalar
from . import fast_math, processor_words
from . import word_instructions as do
from .arithmetic import UnknownWordError
from .function_builder import FunctionBuilder, declare, parameters_of
from .statements import write
from .types import Formula, TypedValue, convert, is_real, llvm_type


def call(to: FunctionBuilder, home: str, name: str, args: list[TypedValue]) -> TypedValue:
    """``home.name(*args)``; without a `home`, a word of Python or a function of the same text."""
    word = word_of(f"{home}.{name}" if home else name)
    if word is not None:
        return formula_of(word)(to.code, args)
    if not home:
        return _local(to, name, args)
    raise UnknownWordError(f"{home}.{name}")


@cache
def formula_of(word: Word) -> Formula:
    """The function that builds the code of a word."""
    if word.name in _INSTRUCTIONS:
        return _INSTRUCTIONS[word.name]
    home, _, name = word.name.partition(".")
    if home == "math":
        return do.libm(name)
    return _elementary(word, maths.FORMULAS[name]) if name in maths.FORMULAS else _scalar(word)


# --- words that are formulas or texts ---------------------------------------------------------


def _elementary(word: Word, of: maths.Formula) -> Formula:
    """A formula of `runtime.maths`; integers are for a text, where there is one."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        type_ = args[0].type
        if not is_real(type_):
            return _scalar(word)(code, args)
        values = [convert(code, a, type_).value for a in args]
        out = word.result([type_])
        return TypedValue(out, maths.call(code, of, values, llvm_type(out)))

    return formula


def _scalar(word: Word) -> Formula:
    """A text of `runtime.scalar`, compiled once a module for each combination of types."""
    name = word.name.removeprefix("rt.")

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        node = _parsed(name, args[0].type[0])
        types = [a.type for a in args]
        out = word.result(types)
        symbol = f"fdiff_{name}_{'_'.join(types)}"
        function = code.module.globals.get(symbol)
        if function is None:
            parameters = [llvm_type(t) for t in types]
            attributes = "alwaysinline nounwind"
            function = declare(
                code.module, symbol, llvm_type(out), parameters, attributes, internal=True
            )
            to = FunctionBuilder(function, call, out)
            write(to, node.body, parameters_of(node, types, function))
        return TypedValue(out, code.call(function, [a.value for a in args]))

    return formula


@lru_cache(maxsize=256)
def _parsed(name: str, family: str) -> ast.FunctionDef:
    """The text for a family of dtypes."""
    for families, text in scalar.TEXTS.get(name, ()):
        if family in families:
            (function,) = ast.parse(text).body
            assert isinstance(function, ast.FunctionDef)
            return function
    raise UnknownWordError(f"rt.{name} of {family}")


def local(name: str) -> str:
    """The symbol of a function that only the text it stands in can call."""
    return f"local_{name}"


_TYPES = {str(llvm_type(type_)): type_ for type_ in ("i8", "i4", "f8", "f4")}


def _local(to: FunctionBuilder, name: str, args: list[TypedValue]) -> TypedValue:
    """A call of an earlier function of the same text."""
    function = to.module.globals.get(local(name))
    if function is None:
        raise UnknownWordError(name)
    values: list[ir.Value] = []
    for x, parameter in zip(args, function.ftype.args, strict=True):
        values.append(convert(to.code, x, _TYPES.get(str(parameter), x.type)).value)
    return TypedValue(_TYPES[str(function.ftype.return_type)], to.code.call(function, values))


# --- words that are instructions --------------------------------------------------------------

_INSTRUCTIONS: dict[str, Formula] = {
    "abs": do.absolute,
    "min": do.first_extremum("<"),
    "max": do.first_extremum(">"),
    "rt.floor": do.rounding("llvm.floor"),
    "rt.ceil": do.rounding("llvm.ceil"),
    "rt.trunc": do.rounding("llvm.trunc"),
    "rt.rint": do.rounding("llvm.rint"),
    "math.copysign": do.real("llvm.copysign"),
    "rt.maximum": do.extremum("llvm.maximum", ">"),
    "rt.minimum": do.extremum("llvm.minimum", "<"),
    "rt.fmax": do.extremum("llvm.maxnum", ">"),
    "rt.fmin": do.extremum("llvm.minnum", "<"),
    "rt.ldexp": do.ldexp,
    "rt.add": fast_math.reorderable("fadd", "add"),
    "rt.multiply": fast_math.reorderable("fmul", "mul"),
    "rt.frem": do.remainder,
    "rt.bits": do.bits,
    "rt.part_begin": do.share,
    "math.sqrt": do.real("llvm.sqrt"),
    "rt.load_vector": do.load_vector,
    "rt.store_vector": do.store_vector,
    "rt.broadcast": do.broadcast,
    "rt.sum_vector": fast_math.total,
    "rt.offset": do.offset,
    "rt.address": do.address,
    "rt.stack": do.stack_words,
    "rt.atomic_load": processor_words.atomic_load,
    "rt.atomic_exchange": processor_words.atomic_exchange,
    "rt.atomic_add": processor_words.atomic_add,
    "rt.compare_exchange": processor_words.compare_exchange,
    "rt.pause": processor_words.pause,
    "rt.flags": processor_words.flags,
    "rt.clear_flags": processor_words.clear_flags,
    "rt.raise_flag": processor_words.raise_flag,
    "rt.ticks": processor_words.ticks,
    "rt.keep_scalar": do.opaque,
    "rt.call": do.call,
    "rt.double": do.double,
    "rt.fortran": do.fortran,
    **{f"np.{name}": do.conversion(dtype) for name, dtype in DTYPES.items()},
    **{f"rt.{name}": do.pointer(f"{dtype}*") for name, dtype in DTYPES.items() if dtype != "b1"},
}
