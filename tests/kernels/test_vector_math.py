"""The elementary functions of kernels: to 2 ulp of mpmath, exact in special cases, vectorised."""

import ast
import re
from ctypes import CFUNCTYPE, c_int64, c_void_p
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy import special as sc
from tapes import tape_of, values

import fdiff
from fdiff import kernels
from fdiff.kernels.ir.operation_costs import INLINED
from fdiff.kernels.llvm import machine
from fdiff.kernels.llvm.loop_hints import calls_in
from fdiff.kernels.llvm.text_to_module import module_of
from fdiff.kernels.runtime.maths.trigonometric import REACH
from fdiff.kernels.runtime.maths.value import fused

ULP = 2.0
COUNT = 20_000
WITH_FUSED = pytest.mark.skipif(
    not fused(), reason="without fused operations scalar functions of the C library are called"
)
DTYPES = (np.float64, np.float32)


def normal(x):
    """The normal distribution; SciPy's rounds x / sqrt(2), which costs x**2 / 2 ulp."""
    with mpmath.workprec(120):
        found = [float(mpmath.ncdf(v)) for v in np.clip(x, -50.0, 50.0).astype(float)]
    return np.array(found).astype(x.dtype)


UNARY = {
    "exp": (mpmath.exp, np.exp),
    "exp2": (lambda x: mpmath.mpf(2) ** x, np.exp2),
    "expm1": (mpmath.expm1, np.expm1),
    "log": (mpmath.log, np.log),
    "log1p": (mpmath.log1p, np.log1p),
    "log2": (lambda x: mpmath.log(x) / mpmath.ln2, np.log2),
    "log10": (mpmath.log10, np.log10),
    "sin": (mpmath.sin, np.sin),
    "cos": (mpmath.cos, np.cos),
    "tan": (mpmath.tan, np.tan),
    "sinh": (mpmath.sinh, np.sinh),
    "cosh": (mpmath.cosh, np.cosh),
    "tanh": (mpmath.tanh, np.tanh),
    "asin": (mpmath.asin, np.arcsin),
    "acos": (mpmath.acos, np.arccos),
    "atan": (mpmath.atan, np.arctan),
    "asinh": (mpmath.asinh, np.arcsinh),
    "acosh": (mpmath.acosh, np.arccosh),
    "atanh": (mpmath.atanh, np.arctanh),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), np.cbrt),
    "expit": (lambda x: 1 / (1 + mpmath.exp(-x)), sc.expit),
    "erf": (mpmath.erf, sc.erf),
    "erfc": (mpmath.erfc, sc.erfc),
    "ndtr": (mpmath.ncdf, normal),
}
BINARY = {
    "atan2": (mpmath.atan2, np.arctan2),
    "hypot": (mpmath.hypot, np.hypot),
    "power": (lambda x, y: x**y, np.power),
}
SUMS = {"logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2}  # compared with their terms
WILD = ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "expit", "erf", "erfc", "ndtr")
PERIODIC = ("sin", "cos", "tan")
DOMAINS = {
    "log": (0.0, np.inf),
    "log2": (0.0, np.inf),
    "log10": (0.0, np.inf),
    "log1p": (-1.0, np.inf),
    "acosh": (1.0, np.inf),
    "atanh": (-1.0, 1.0),
    "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0),
}
# Where formulas change or results leave the range; samples lie closely around each.
EDGES = [
    0.0, 1e-300, 2.2250738585072014e-308, 1e-40, 1.1754944e-38, 2.0**-54, 2.0**-28, 2.0**-25,
    2.0**-13, 0.17328679513998632, 0.34657359027997264, 0.5, 0.55, 0.7071067811865476, 1.0,
    1.0397207708399179, 1.4142135623730951, 2.0, 9.0, 22.0, 44.0, 87.33655, 88.72284, 89.416,
    103.972, 127.0, 128.0, 149.0, 708.3964185322641, 709.782712893384, 710.4758600739439,
    745.1332191019412, 1022.0, 1024.0, 1074.0, 3.4e38, 1.7e308,
]  # fmt: skip
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, -2.0, 3.0, -3.0, 1e-45, -1e-45, 5e-324, -5e-324,
    1e-40, 1e-310, 1e10, -1e10, 1e38, 1e300, -1e300, 2.0**53, 2.0**53 - 1.0, np.inf, -np.inf,
    np.nan,
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FDIFF_CACHE_DIR", str(tmp_path_factory.mktemp("kernels") / "cache"))
        yield


class Loop:
    """Statements in a loop over arrays, compiled as kernels are."""

    def __init__(self, count, dtype, calls, *statements):
        kind = f"f{np.dtype(dtype).itemsize}*"
        names = [*"xy"[:count], "out"]
        given = [f'{name}: "{kind} data[{k}]"' for k, name in enumerate(names)]
        body = "".join(f"        {line}\n" for line in statements)
        text = (
            f"def kernel({', '.join(given)}, ints: 'i8* ints'):\n"
            f"    for i in range(ints[0]):\n{body}    return 0\n"
        )
        module = module_of(text, "loop", calls)
        self.ir = machine.optimised(module)
        self.code = machine.Loaded(machine.object_code(module), "loop")
        self.entry = CFUNCTYPE(c_int64, *[c_void_p] * 4)(self.code.address)

    def __call__(self, *arrays):
        out = np.empty_like(arrays[0])
        whole = [np.ascontiguousarray(a) for a in arrays]
        data = np.array([a.ctypes.data for a in (*whole, out)])
        assert self.entry(data.ctypes.data, None, np.array([out.size]).ctypes.data, None) == 0
        return out


@cache
def compiled(name, count, dtype):
    """One function of so many arguments."""
    arguments = ["x[i]", "y[i]"][:count]
    return Loop(count, dtype, 1, f"out[i] = rt.{name}({', '.join(arguments)})")


def run(name, *arrays):
    return compiled(name, len(arrays), arrays[0].dtype.type)(*arrays)


def numbers(name, dtype, rng):
    """Of any exponent, of everyday size, and around edges; within the domain of the function."""
    whole = np.dtype(f"u{np.dtype(dtype).itemsize}")
    n = COUNT // 5
    any_bits = rng.integers(0, np.iinfo(whole).max, n, whole, endpoint=True).view(dtype)
    everyday = rng.normal(size=n) * rng.choice([1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 40.0, 300.0], n)
    by_one = 1.0 + rng.normal(size=n) * 10.0 ** rng.uniform(-15, 0, n)
    with np.errstate(over="ignore"):
        edges = (rng.choice(EDGES, n) * rng.choice([1.0, -1.0], n)).astype(dtype)
        edges = edges + np.spacing(edges) * rng.integers(-20, 21, n)
        turns = np.rint(np.exp2(rng.uniform(0.0, np.log2(reach(dtype) / 2.0), n)))
        found = [any_bits, everyday, by_one, edges, turns * (np.pi / 2.0)]
        x = np.concatenate([np.asarray(part).astype(dtype) for part in found])
    low, high = DOMAINS.get(name, (-np.inf, np.inf))
    x = x[np.isfinite(x) & (x >= low) & (x <= high)]
    return x[np.abs(x) <= reach(dtype)] if name in PERIODIC else x


def reach(dtype):
    return REACH[0] if dtype is np.float64 else REACH[1]


def ulps(got, exact, dtype):
    """Distances from the exact values in units of the last place; where both overflow, 0."""
    near, rest = [], []
    for value in exact:
        near.append(float(value))
        rest.append(float(value - near[-1]) if np.isfinite(near[-1]) else 0.0)
    near, rest = np.array(near), np.array(rest)
    with np.errstate(over="ignore", invalid="ignore"):
        unit = np.spacing(np.abs(near).astype(dtype)).astype(np.float64)
        distance = np.abs((got.astype(np.float64) - near) - rest) / unit
        return np.where(np.isinf(got) & np.isinf(near.astype(dtype)), 0.0, distance)


def worst(name, arrays, exact):
    got = run(name, *arrays)
    distance = ulps(got, exact, arrays[0].dtype.type)
    assert not np.any(np.isnan(distance))
    at = int(np.argmax(distance))
    # Without fused operations erfc and cbrt are the C library's, for which glibc says 4 ulp.
    ulp = ULP if fused() or name not in {"cbrt", "erfc", "ndtr"} else 4.0
    assert distance[at] <= ulp, (name, [float(a[at]) for a in arrays], float(got[at]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number_are_within_two_ulp(name, dtype, rng):
    x = numbers(name, dtype, rng)
    with mpmath.workprec(120), np.errstate(over="ignore"):
        cut = 1500.0  # beyond it exponentials are 0 or infinite in both formats
        x = x[np.abs(x) < cut] if name in WILD else x
        x = x[x != 0.0] if name.startswith("log") and name != "log1p" else x[np.abs(x) != 1.0]
        worst(name, [x], [UNARY[name][0](mpmath.mpf(float(v))) for v in x])


def pairs(name, dtype, rng):
    x, y = (rng.permutation(numbers(name, dtype, rng))[: COUNT // 2] for _ in range(2))
    n = min(x.size, y.size)
    x, y = x[:n], y[:n]
    if name != "power":
        return x, y
    x = np.abs(x)
    with np.errstate(all="ignore"):  # results over the whole range, whatever the base
        wanted = rng.uniform(-160, 140, n) * (7.7 if dtype is np.float64 else 1.0)
        y = np.where(rng.random(n) < 0.8, wanted / np.log2(x), y).astype(dtype)
        exponent = np.abs(y.astype(np.float64) * np.log2(x.astype(np.float64)))
    usable = (x > 0.0) & np.isfinite(y) & (exponent < 1200.0)
    return x[usable], y[usable]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers_are_within_two_ulp(name, dtype, rng):
    x, y = pairs(name, dtype, rng)
    with mpmath.workprec(120):
        exact = [
            BINARY[name][0](mpmath.mpf(float(a)), mpmath.mpf(float(b)))
            for a, b in zip(x, y, strict=True)
        ]
        worst(name, [x, y], exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SUMS)
def test_log_of_sums_are_as_good_as_their_terms(name, dtype, rng):
    """log(e**x + e**y) loses digits next to 0, in NumPy as here: the terms are the measure."""
    x, y = (rng.permutation(numbers(name, dtype, rng))[: COUNT // 2] for _ in range(2))
    n = min(x.size, y.size)
    x, y = x[:n], y[:n]
    with np.errstate(all="ignore"):
        want = SUMS[name](x.astype(np.longdouble), y.astype(np.longdouble))
        assert np.max(np.abs(run(name, x, y) - want) / unit_of(x, y, want)) <= ULP


def unit_of(x, y, out):
    """A unit of the last place of the largest."""
    sizes = [np.where(np.isfinite(v), np.abs(v), 0.0).astype(x.dtype) for v in (x, y, out)]
    return np.spacing(np.max(sizes, axis=0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*UNARY, *BINARY, *SUMS])
def test_special_values_are_numpys(name, dtype):
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL).astype(dtype)
        x = x[~np.isfinite(x) | (np.abs(x) <= reach(dtype))] if name in PERIODIC else x
        both = [a.ravel() for a in np.meshgrid(x, x)]
        arrays = [x] if name in UNARY else both
        reference = {**{k: v[1] for k, v in {**UNARY, **BINARY}.items()}, **SUMS}[name]
        got, want = run(name, *arrays), reference(*arrays)
        if name == "expit" and dtype is np.float32:  # SciPy's float32 gives 0 below -88
            want = reference(*(a.astype(np.float64) for a in arrays)).astype(dtype)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        exact = ~np.isfinite(want) | (want == 0.0) | (np.abs(want) == 1.0)
        np.testing.assert_array_equal(got[exact], want[exact])
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))
        # NumPy's own functions are off by up to 4 ulp
        unit = unit_of(*arrays, want) if name in SUMS else np.spacing(np.abs(want))
        close = np.abs(got - want) <= 5 * unit
        assert np.all(close | exact)


@WITH_FUSED
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*UNARY, *BINARY, *SUMS])
def test_loops_are_vectorised_and_give_what_single_calls_give(name, dtype, rng):
    count = 1 if name in UNARY else 2
    loop = compiled(name, count, dtype)
    text = loop.ir
    assert f"x {'double' if dtype is np.float64 else 'float'}>" in text
    assert "call double @" not in text.replace("call double @llvm", "")
    assert "call float @" not in text.replace("call float @llvm", "")
    arrays = [rng.uniform(0.05, 0.95, 77).astype(dtype) for _ in range(count)]
    single = np.concatenate([loop(*(a[i : i + 1] for a in arrays)) for i in range(77)])
    np.testing.assert_array_equal(loop(*arrays), single)


@WITH_FUSED
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp", "cos", "atan2"])
def test_many_calls_are_calls_of_a_vector_function(name, dtype, rng):
    count, calls = 1 + (name == "atan2"), INLINED + 1
    arrays = [rng.uniform(-1.0, 1.0, 77).astype(dtype) for _ in range(count)]
    half = dtype(0.5)
    steps = [f"v0 = rt.{name}(x[i]{', y[i]' * (count - 1)})"]
    for k in range(1, calls):
        argument = f"v{k - 1} * np.{dtype.__name__}(0.5)"
        steps.append(f"v{k} = rt.{name}({', '.join([argument] * count)})")
    loop = Loop(count, dtype, calls, *steps, f"out[i] = v{calls - 1}")
    want = run(name, *arrays)
    for _ in range(1, calls):
        want = run(name, *[want * half] * count)
    np.testing.assert_array_equal(loop(*arrays), want)
    assert re.search(rf"= (tail )?call <\d+ x \w+> @fdiff_{name}_f\d_outlined_\d+", loop.ir)


def sines(x, count):
    out = 0.5 * x
    for k in range(count):
        out = out + np.sin(x * (k + 1.0))
    return out


@WITH_FUSED
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, INLINED, INLINED + 2])
@pytest.mark.parametrize("order", ["value", "gradient"])
def test_loops_that_look_for_huge_angles_are_vectorised(order, count, dtype):
    """Up to `INLINED` calls have no call left; more are calls of vector functions."""
    x = np.linspace(-1.0, 1.0, 77).astype(dtype)
    f = (lambda x: sines(x, count)) if order == "value" else gradient_of_sines(count)
    text = fdiff.source(f, x)
    module = module_of(text, "kernel")
    ir = machine.optimised(module)
    kernel = ir[ir.index("@kernel_(") :].split("\n}\n", maxsplit=1)[0]
    assert text.count("rt.out_of_range(") == count
    assert re.search(rf"store <\d+ x {'double' if dtype is np.float64 else 'float'}>", kernel)
    assert "freeze" not in kernel
    called = re.findall(r"call (<\d+ x \w+>) @fdiff_\w+_outlined_\d+", kernel)
    assert bool(called) == (calls_in(ast.parse(text).body) > INLINED)


def gradient_of_sines(count):
    return fdiff.value_and_grad(lambda x: np.sum(sines(x, count)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [np.sin, np.cos, np.tan], ids=lambda f: f.__name__)
def test_huge_angles_are_served_by_kernels(function, dtype):
    x = np.array([0.5, 1e5, 1e10, 1e22, -3e30, 3.0e38, np.pi, 1.0], dtype)
    tape = tape_of(lambda x: (function(x), np.sum(function(2.0 * x[:3]))), x)
    kernel = kernels.compile(tape, ("C",))
    for y in (x, x[::-1].copy(), np.linspace(-3.0, 3.0, 8).astype(dtype)):
        for got, want in zip(kernel(y), values(tape, y), strict=True):
            # the sum of three sines is as good as its terms
            np.testing.assert_allclose(
                got, want, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps
            )
    with np.errstate(invalid="ignore"):
        assert np.isnan(kernel(np.full(8, np.inf, dtype))[0]).all()


def test_whole_numbers_are_raised_to_powers():
    x, y = np.arange(-4, 5), np.linspace(-4.0, 3.0, 9)
    tape = tape_of(lambda y: np.power(x, 3 * (y > 0.0).astype(int)), y)
    assert np.array_equal(values(tape, y)[0], x ** (3 * (y > 0.0)))
    kernel = kernels.compile(tape, ("C",) * len(tape.inputs))
    arrays = [y, x] if len(tape.inputs) == 2 else [y]
    np.testing.assert_array_equal(kernel(*arrays)[0], x ** (3 * (y > 0.0)))
