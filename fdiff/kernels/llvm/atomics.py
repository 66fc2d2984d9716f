"""Words in memory that several threads read and write: ``rt.fresh``, ``rt.swap`` and their kin.

All are sequentially consistent: what a thread wrote before is seen by whoever sees the word.
"""

from __future__ import annotations

from llvmlite import ir

from .machine import target
from .statements import Writer
from .types import Term, convert


def _place(to: Writer, memory: Term, place: Term) -> ir.Value:
    return to.code.gep(memory.at, [convert(to.code, place, "i8").at], inbounds=True)


def fresh(to: Writer, args: list[Term]) -> Term:
    """What a word is now: memory, place."""
    place = _place(to, args[0], args[1])
    return Term("i8", to.code.load_atomic(place, "seq_cst", 8))


def swap(to: Writer, args: list[Term]) -> Term:
    """What a word was, which is another from now on: memory, place, value."""
    return _exchanged(to, "xchg", args)


def take(to: Writer, args: list[Term]) -> Term:
    """What a word was, to which a number is added: memory, place, number."""
    return _exchanged(to, "add", args)


def change(to: Writer, args: list[Term]) -> Term:
    """Whether a word was as expected, and is another now: memory, place, expected, value."""
    place = _place(to, args[0], args[1])
    old, new = (convert(to.code, a, "i8").at for a in args[2:])
    pair = to.code.cmpxchg(place, old, new, "seq_cst", "seq_cst")
    return Term("b1", to.code.extract_value(pair, 1))


def _exchanged(to: Writer, how: str, args: list[Term]) -> Term:
    value = convert(to.code, args[2], "i8").at
    return Term("i8", to.code.atomic_rmw(how, _place(to, args[0], args[1]), value, "seq_cst"))


def pause(to: Writer, args: list[Term]) -> Term:
    """Nothing, for as long as a processor thinks right between two looks at a word."""
    type_ = ir.FunctionType(ir.VoidType(), [])
    if target().is_x86:
        pause = to.module.declare_intrinsic("llvm.x86.sse2.pause", (), type_)
        return Term("", to.code.call(pause, []))
    nothing = ir.InlineAsm(type_, "", "~{memory}", side_effect=True)
    return Term("", to.code.call(nothing, []))
