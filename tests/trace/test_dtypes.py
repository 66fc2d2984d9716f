"""NumPy's dtypes are kept: every ufunc for every pair of dtypes, reductions, and all operators."""

import itertools
import warnings

import numpy as np
import pytest
from tapes import values

import fdiff
from fdiff import kernels
from fdiff.arraytype import type_of
from fdiff.primitive import UFUNC_METHODS, UFUNCS
from fdiff.tape import verify
from fdiff.trace import ArgumentSpec, record
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp

DTYPES = {
    name: np.dtype(name)
    for name in ("?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c8", "c16")
}
OPERANDS = [*DTYPES, "int", "float"]  # the last two are Python numbers
FLOATS = ["f2", "f4", "f8"]
# Entry by entry; generalised ufuncs such as matmul are tested with the products, and SciPy's, which
# are there where another test has loaded them, in test_special.py.
BY_ENTRY = {
    u.__name__: u
    for u in UFUNCS
    if isinstance(u, np.ufunc) and u.signature is None and vars(np).get(u.__name__) is u
}
each_ufunc = pytest.mark.parametrize("ufunc", BY_ENTRY.values(), ids=list(BY_ENTRY))
# NumPy's own accuracy: one rounding of the result's dtype where both compute in the same loop.
ROUNDING = {np.dtype(k): 4 * float(np.finfo(k).eps) for k in (*FLOATS, "g", "c8", "c16", "G")}


def operand(kind):
    if kind in DTYPES:
        return np.array([[1, 0], [1, 1]]).astype(DTYPES[kind])
    return 1 if kind == "int" else 0.5


def combinations(ufunc, kinds=OPERANDS):
    """Operands of every choice of dtypes with at least one array."""
    for chosen in itertools.product(kinds, repeat=ufunc.nin):
        given = [operand(kind) for kind in chosen]
        if any(isinstance(x, np.ndarray) for x in given):
            yield " ".join(chosen), given


def called(ufunc, given):
    """NumPy's results, or the class of its error."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = ufunc(*given)
    except (TypeError, ValueError) as error:
        return next(kind for kind in (TypeError, ValueError) if isinstance(error, kind))
    return [np.asarray(x) for x in (out if isinstance(out, tuple) else (out,))]


def taped(function, given):
    """The tape of `function` where every array is an argument; the arrays."""
    arrays = [x for x in given if isinstance(x, np.ndarray)]

    def run(trace, arguments):
        rest = iter(arguments)
        out = function(*[next(rest) if isinstance(x, np.ndarray) else x for x in given])
        return list(out) if isinstance(out, tuple) else [out]

    return verify(record(run, [ArgumentSpec(type_of(x)) for x in arrays], "test").tape), arrays


@each_ufunc
def test_ufuncs_give_the_dtypes_and_errors_of_numpy(ufunc):
    for names, given in combinations(ufunc):
        expected = called(ufunc, given)
        if isinstance(expected, type):
            with pytest.raises(expected):
                taped(ufunc, given)
            continue
        tape, arrays = taped(ufunc, given)
        for out, want in zip(values(tape, *arrays), expected, strict=True):
            assert (out.dtype, out.shape) == (want.dtype, want.shape), (ufunc.__name__, names)
            rtol = ROUNDING.get(want.dtype, 0.0)
            np.testing.assert_allclose(out, want, rtol=rtol, atol=rtol, err_msg=names)
        assert tape.output_types == tuple(type_of(want) for want in expected)


@each_ufunc
def test_derivatives_have_the_dtypes_of_inputs_and_outputs(ufunc):
    """Tangents those of the outputs, cotangents those of the inputs, for each pair with a float."""
    for names, given in combinations(ufunc, ["i4", *FLOATS, "c16", "int", "float"]):
        if isinstance(called(ufunc, given), type):
            continue
        tape, _ = taped(ufunc, given)
        moving = [k for k, t in enumerate(tape.input_types) if t.floating]
        if not moving or not any(t.floating for t in tape.output_types):
            continue
        count = len(tape.outputs)
        pushed = verify(jvp(tape, moving)).output_types[count:]
        for tangent, out in zip(pushed, tape.output_types, strict=True):
            assert tangent == out or not out.floating, (ufunc.__name__, names)
        pulled = verify(vjp(tape, moving)).output_types[count:]
        assert pulled == tuple(tape.input_types[k] for k in moving), (ufunc.__name__, names)


# ------------------------------------------------------------------------------------ reductions

REDUCTIONS = {
    name: getattr(np, name)
    for name in (
        "sum", "prod", "mean", "var", "std", "max", "min", "ptp", "cumsum", "cumprod", "nansum",
        "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nancumsum", "nancumprod", "median",
        "average", "any", "all", "argmax", "count_nonzero", "trace", "trapezoid",
    )
}  # fmt: skip
# NumPy 2.4 with AVX-512 reduces with arctan2 wrongly: the last two entries alone.
METHODS = {
    f"{u.__name__}.{method}": (u, method)
    for u, method in UFUNC_METHODS
    if u in BY_ENTRY.values() and u is not np.arctan2
}


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_accumulate_in_the_dtypes_of_numpy(name, kind):
    x = (np.arange(12).reshape(3, 4) % 5 + 1).astype(DTYPES[kind])
    for arguments in ({}, {"axis": 0}) if name not in {"trace", "argmax"} else ({},):
        expected = called(lambda x, kw=arguments: REDUCTIONS[name](x, **kw), [x])
        if isinstance(expected, type):
            with pytest.raises(expected):
                taped(lambda x, kw=arguments: REDUCTIONS[name](x, **kw), [x])
            continue
        tape, arrays = taped(lambda x, kw=arguments: REDUCTIONS[name](x, **kw), [x])
        for out, want in zip(values(tape, *arrays), expected, strict=True):
            assert (out.dtype, out.shape) == (want.dtype, want.shape)
            rtol = 4 * ROUNDING.get(want.dtype, 0.0)
            np.testing.assert_allclose(out, want, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", METHODS)
def test_ufunc_methods_give_the_dtypes_of_numpy(name, kind):
    ufunc, method = METHODS[name]
    x = (np.arange(6) % 3 + 1).astype(DTYPES[kind])
    more = {"reduceat": ([0, 2, 4],), "at": None, "outer": (x[:2],)}.get(method, ())
    if more is None:  # writes in place: tested with the other in-place operations
        return
    run = lambda x: getattr(ufunc, method)(x, *more)
    expected = called(run, [x])
    if isinstance(expected, type):
        with pytest.raises(expected):
            taped(run, [x])
        return
    tape, arrays = taped(run, [x])
    for out, want in zip(values(tape, *arrays), expected, strict=True):
        assert (out.dtype, out.shape) == (want.dtype, want.shape)
        rtol = 8 * ROUNDING.get(want.dtype, 0.0)
        np.testing.assert_allclose(out, want, rtol=rtol, atol=rtol)


def test_the_mean_of_halves_does_not_overflow():
    """NumPy sums float16 in float32 for a mean, though not for a sum."""
    x = np.full(1000, 100.0, np.float16)
    assert fdiff.jit(np.mean)(x) == np.mean(x) == 100.0
    assert fdiff.jit(np.mean)(x).dtype == np.float16
    assert fdiff.jit(lambda x: np.sum(x / np.float16(4)))(x) == np.sum(x / np.float16(4))
    slope = fdiff.grad(np.mean)(x)
    assert slope.dtype == np.float16
    np.testing.assert_allclose(slope, np.full(1000, 1e-3), rtol=1e-3)


# ------------------------------------------------------------------------------------- operators


def model(x):
    """A bit of everything, Python numbers among it."""
    y = np.sin(x) * 2 + np.exp(-x) / 3.0 + np.where(x > 0, x**2, x / (1 + x * x))
    return np.sum(np.tanh(y[1:] * y[:-1])) + np.max(y) + 0.5 * np.mean(y) ** 2


OPERATORS = {
    "jit": fdiff.jit(model),
    "value_and_grad": fdiff.value_and_grad(model),
    "jacobian": fdiff.jacobian(np.tanh),
    "jacfwd": fdiff.jacfwd(np.tanh),
    "hessian": fdiff.hessian(model),
    "jvp": lambda x: fdiff.jvp(model, x, x),
    "vjp": lambda x: fdiff.vjp(np.cos, x, x),
    "hvp": lambda x: fdiff.hvp(model, x, x),
    "vmap": lambda x: fdiff.vmap(fdiff.grad(model))(np.stack([x, x + x])),
    "captured": lambda x: fdiff.grad(lambda s: np.sum(np.sin(s * x)))(x[0]),
}


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_the_dtype(name, kind, tier, monkeypatch):
    """float16 has no kernels: the interpreter answers, also where kernels are asked for."""
    monkeypatch.setenv("FDIFF_TIER", tier)
    point = np.array([0.25, -0.75, 1.5, 0.5])
    got, exact = OPERATORS[name](point.astype(kind)), OPERATORS[name](point)
    pairs = zip(got, exact, strict=True) if isinstance(got, tuple) else [(got, exact)]
    for out, want in pairs:
        assert out.dtype == DTYPES[kind]
        assert np.shape(out) == np.shape(want)
        scale = float(np.max(np.abs(want)))
        bound = 128 * float(np.finfo(kind).eps)  # second derivatives, of a few dozen operations
        np.testing.assert_allclose(out, want, rtol=bound, atol=bound * scale)


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize(("a", "b"), list(itertools.product(FLOATS, FLOATS)))
def test_mixed_precision_gives_each_argument_its_own(a, b, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    x, w = np.array([0.5, -0.25], a), np.array([1.5, 0.75], b)
    f = lambda x, w: np.sum(np.sin(x) * w + 2 * x)
    value, (x_bar, w_bar) = fdiff.value_and_grad(f, (0, 1))(x, w)
    assert value.dtype == f(x, w).dtype
    assert (x_bar.dtype, w_bar.dtype) == (x.dtype, w.dtype)
    bound = 8 * float(max(np.finfo(a).eps, np.finfo(b).eps))
    np.testing.assert_allclose(x_bar, np.cos(x.astype(float)) * w + 2, rtol=bound)
    np.testing.assert_allclose(w_bar, np.sin(x.astype(float)), rtol=bound)
    assert fdiff.jvp(f, (x, w), (x, w))[1].dtype == f(x, w).dtype


@pytest.mark.parametrize("kind", ["?", "i1", "i4", "i8", "u1", "u8"])
@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_integers_beside_what_is_differentiated_promote_as_in_numpy(kind, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    n = np.array([1, 0, 1, 1]).astype(kind)
    for x in (np.array([0.5, 1.0, -2.0, 3.0], k) for k in FLOATS):
        f = lambda x, n: x * n + n * 2 + np.sqrt(x * x + n)
        out, slope = fdiff.vjp(lambda x: f(x, n), x, np.ones(4, f(x, n).dtype))
        assert out.dtype == f(x, n).dtype
        assert slope.dtype == x.dtype
        np.testing.assert_allclose(out, f(x, n), rtol=4 * float(np.finfo(x.dtype).eps))


def test_half_precision_is_interpreted():
    tape = fdiff.make_tape(np.sin, np.ones(3, np.float16))
    assert not kernels.supported(tape)
    assert kernels.supported(fdiff.make_tape(np.sin, np.ones(3, np.float32)))
