"""Atomic operations on words of memory: ``rt.atomic_load``, ``rt.atomic_exchange`` and others.

All of them are sequentially consistent: a thread that sees a word written by another thread sees
everything that the other thread wrote before it.
"""

from __future__ import annotations

from llvmlite import ir

from .instructions import opaque
from .machine import target
from .types import TypedValue, convert


def _address(code: ir.IRBuilder, memory: TypedValue, index: TypedValue) -> ir.Value:
    return code.gep(memory.value, [convert(code, index, "i8").value], inbounds=True)


def load(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    return TypedValue("i8", code.load_atomic(_address(code, args[0], args[1]), "seq_cst", 8))


def exchange(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    return _modified(code, "xchg", args)


def add(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    return _modified(code, "add", args)


def _modified(code: ir.IRBuilder, how: str, args: list[TypedValue]) -> TypedValue:
    value = convert(code, args[2], "i8").value
    where = _address(code, args[0], args[1])
    return TypedValue("i8", code.atomic_rmw(how, where, value, "seq_cst"))


def compare_exchange(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    where = _address(code, args[0], args[1])
    old, new = (convert(code, a, "i8").value for a in args[2:])
    pair = code.cmpxchg(where, old, new, "seq_cst", "seq_cst")
    return TypedValue("b1", code.extract_value(pair, 1))


def pause(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    """The processor's hint that a thread spins, where there is one."""
    if not target().is_x86:
        return opaque(code, args)
    signature = ir.FunctionType(ir.VoidType(), [])
    hint = code.module.declare_intrinsic("llvm.x86.sse2.pause", (), signature)
    return TypedValue("", code.call(hint, []))
