"""Sine, cosine and tangent as GPUs compute them, run on this processor and held against mpmath.

The formulas are written for NVVM; what they take of libdevice is defined here.
"""

import ctypes

import mpmath
import numpy as np
import pytest
from llvmlite import binding, ir

from fdiff.kernels.cuda.large_angles import FAR
from fdiff.kernels.cuda.nvvm_builder import NvvmBuilder
from fdiff.kernels.llvm.builder_choice import building_by
from fdiff.kernels.runtime import maths

LIBDEVICE = """
define i64 @__nv_umul64hi(i64 %x, i64 %y) {
  %a = zext i64 %x to i128
  %b = zext i64 %y to i128
  %p = mul i128 %a, %b
  %h = lshr i128 %p, 64
  %r = trunc i128 %h to i64
  ret i64 %r
}
define double @__nv_dmul_rn(double %x, double %y) {
  %r = fmul double %x, %y
  ret double %r
}
define float @__nv_fmul_rn(float %x, float %y) {
  %r = fmul float %x, %y
  ret float %r
}
"""
MOST_ULPS = 2.0


@pytest.fixture(scope="module")
def compiled():
    """The functions for doubles and for single precision, by name and dtype."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = ir.Module("far")
    for name, formula in FAR.items():
        for dtype, type_ in (("f8", ir.DoubleType()), ("f4", ir.FloatType())):
            function = ir.Function(module, ir.FunctionType(type_, [type_]), f"{name}_{dtype}")
            builder = NvvmBuilder(function.append_basic_block())
            with building_by(NvvmBuilder):
                builder.ret(maths.call(builder, formula, list(function.args), type_))
    text = str(module)
    for declaration in ('i64 @"__nv_umul64hi"', 'double @"__nv_dmul_rn"', 'float @"__nv_fmul_rn"'):
        text = "\n".join(line for line in text.split("\n") if f"declare {declaration}" not in line)
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(text + LIBDEVICE), machine)
    engine.finalize_object()
    types = {"f8": ctypes.c_double, "f4": ctypes.c_float}
    yield {
        (name, dtype): ctypes.CFUNCTYPE(type_, type_)(
            engine.get_function_address(f"{name}_{dtype}")
        )
        for name in FAR
        for dtype, type_ in types.items()
    }
    engine.close()


def angles(dtype):
    """Angles near and far, next to multiples of pi/2, and the largest ones."""
    rng = np.random.default_rng(0)
    most = {np.float64: 1023, np.float32: 127}[dtype]
    sizes = rng.uniform(-3, most, 400)
    drawn = rng.uniform(1.0, 2.0, 400) * np.exp2(np.floor(sizes))
    quarters = [float(mpmath.mpf(k) * mpmath.pi / 2) for k in (1, 2, 3, 10**6, 10**12 + 1, 10**15)]
    # of all doubles, the one nearest to a multiple of pi/2 (Muller, section 11.3.2)
    worst = 6381956970095103 * 2.0**797
    out = np.array([0.0, *drawn, *-drawn[:50], *quarters, worst, np.finfo(dtype).max])
    with np.errstate(over="ignore"):
        out = out.astype(dtype)
    return out[np.isfinite(out)]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_any_angle_to_two_ulps(name, dtype, compiled):
    function = compiled[name, np.dtype(dtype).str[1:]]
    with mpmath.workprec(1400):
        for x in angles(dtype):
            exact = getattr(mpmath, name)(mpmath.mpf(float(x)))
            got, want = dtype(function(x)), dtype(float(exact))
            if np.isinf(want) or want == 0:
                assert got == want
                continue
            error = abs(mpmath.mpf(float(got)) - exact) / float(np.spacing(np.abs(want)))
            assert error <= MOST_ULPS, (name, x, got, want)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("x", [np.inf, -np.inf, np.nan])
def test_no_angle_gives_nan(name, x, compiled):
    assert np.isnan(compiled[name, "f8"](x))
    assert np.isnan(compiled[name, "f4"](x))
