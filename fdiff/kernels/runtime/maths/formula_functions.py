"""Formulas on values as functions for kernels: docs/decisions/elementary-functions.md."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextvars import ContextVar

from llvmlite import ir

from ....foreign_errors import contextmanager
from ...ir.operation_costs import INLINED
from ...llvm.builder_choice import new_builder
from ...llvm.machine import has, target
from .value import F8, TRUTH, Formula, Value, fused
from .value_and_slope import SPLIT

_many_calls: ContextVar[bool] = ContextVar("many_calls", default=False)


@contextmanager
def expecting(calls: int) -> Generator[None]:
    """A context in which a kernel with `calls` calls of elementary functions is compiled."""
    before = _many_calls.get()
    try:
        _many_calls.set(calls > INLINED)
        yield
    finally:
        _many_calls.set(before)


def call(builder: ir.IRBuilder, formula: Formula, args: list[ir.Value], out: ir.Type) -> ir.Value:
    """A call of the function that `formula` describes."""
    module, kinds = builder.module, [a.type for a in args]
    if out == TRUTH or not (_many_calls.get() and fused()):
        function = _inlined(module, formula, kinds, out)
    else:
        parts = SPLIT.get(formula.__name__) if kinds == [F8.real] else None
        function = _vectorisable(module, parts.called if parts else formula, kinds)
        if parts:
            called = Value(builder, builder.call(function, args))
            return parts.rest(called, Value(builder, args[0])).at
    return builder.call(function, args)


def _defined(
    module: ir.Module, name: str, formula: Formula, kinds: Sequence[ir.Type], out: ir.Type
) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(out, kinds), name)
    function.attributes.add("nounwind")
    function.attributes.add("readnone")
    builder = new_builder(function.append_basic_block())
    builder.ret(formula(*(Value(builder, a) for a in function.args)).at)
    return function


def _name(formula: Formula, kind: ir.Type) -> str:
    return f"fdiff_{formula.__name__}_{'f8' if kind == F8.real else 'f4'}"


def _inlined(
    module: ir.Module, formula: Formula, kinds: list[ir.Type], out: ir.Type
) -> ir.Function:
    """The function as one that is inlined wherever it is called."""
    name = _name(formula, kinds[0])
    if name not in module.globals:
        function = _defined(module, name, formula, kinds, out)
        function.linkage = "linkonce_odr"
        function.attributes.add("alwaysinline")
    return module.globals[name]


def _vectorisable(module: ir.Module, formula: Formula, kinds: list[ir.Type]) -> ir.Function:
    """The function, not inlined, and its variants for vectors, which the vectoriser of LLVM finds.

    The names of variants follow the vector function ABI (LLVM Language Reference, section "Call
    Site Attributes", vector-function-abi-variant).
    """
    name = _name(formula, kinds[0]) + "_outlined"
    if name in module.globals:
        return module.globals[name]
    scalar = _defined(module, name, formula, kinds, kinds[0])
    scalar.linkage = "linkonce_odr"
    scalar.attributes.add("noinline")
    variants: list[str] = []
    for count in _widths(kinds[0]):
        wide = [ir.VectorType(kind, count) for kind in kinds]
        vector = _defined(module, f"{name}_{count}", formula, wide, wide[0])
        vector.linkage = "weak_odr"  # kept although nothing calls it before the loop is a vector's
        vector.attributes.add("noinline")
        variants.append(f"_ZGV_LLVM_N{count}{'v' * len(kinds)}_{name}({name}_{count})")
    # llvmlite knows no attributes of this form and prints what is there
    set.add(scalar.attributes, f'"vector-function-abi-variant"="{",".join(variants)}"')
    return scalar


def _widths(kind: ir.Type) -> tuple[int, ...]:
    """How many numbers LLVM puts in a vector; it uses half the width on Intel's AVX-512.

    Loops that add single-precision numbers in double precision have vectors of as many doubles.
    """
    doubles = 8 if has("avx512f") and target().cpu.startswith("znver") else 4 if has("avx") else 2
    return (doubles,) if kind == F8.real else (doubles, 2 * doubles)
