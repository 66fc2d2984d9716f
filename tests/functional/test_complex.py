"""Complex numbers: values on the way, complex inputs and outputs, and Fourier transforms.

The references are torch and JAX, whose conventions differ by a conjugate, published closed forms,
and differences (`tests/tapes.py`), none of which shares a rule with fdiff. What torch gave is kept
in `tests/golden/torch_complex.json` (torch 2.13.0); run with ``FDIFF_GOLDEN=write`` in the
environment these tests ask it again.
"""

import cmath
import json
import math
import os
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapes import check_derivatives, floating, pull, push, tape_of, values

import fdiff
from fdiff.errors import DtypeError, InputError, VectorError
from fdiff.primitive import UFUNCS
from fdiff.tape import verify
from fdiff.transforms.reverse import vjp

jax.config.update("jax_enable_x64", True)

Z = np.array([0.7 - 1.2j, -0.4 + 0.9j, 1.3 + 0.2j])
X = np.array([0.3, -1.1, 0.8])
BOTH = ("forward", "reverse")
GOLDEN = Path(__file__).parents[1] / "golden" / "torch_complex.json"


def close(a, b, rtol=1e-12):
    b = np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.max(np.abs(b), initial=1.0))


# --- every ufunc that NumPy defines for complex numbers -----------------------------------------

COMPLEX = sorted(
    {
        u.__name__: u
        for u in vars(np).values()
        if isinstance(u, np.ufunc) and any("D" in t.split("->")[0] for t in u.types)
    }.items()
)
MATRICES = ("matmul", "matvec", "vecmat", "vecdot")


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize(("name", "ufunc"), COMPLEX, ids=[name for name, _ in COMPLEX])
def test_every_complex_ufunc(name, ufunc, dtype, rng):
    assert ufunc in UFUNCS
    shape = (3, 3) if name in MATRICES else (2, 3)
    parts = lambda k: k + rng.uniform(0.2, 0.3, shape)  # away from jumps and ties
    signs = rng.choice([-1, 1], shape)
    arrays = [(parts(k) + 1j * signs * parts(k)).astype(dtype) for k in range(ufunc.nin)]
    expected = ufunc(*arrays)
    tape = tape_of(ufunc, *arrays)
    (out,) = values(tape, *arrays)
    assert out.dtype == expected.dtype
    close(out, expected, 1e-13 if dtype == np.complex128 else 2e-6)
    if expected.dtype.kind in "fc":
        check_derivatives(tape, arrays, rng)
        if dtype == np.complex128:
            pulled = verify(vjp(tape, floating(tape)))
            check_derivatives(pulled, [*arrays, expected + 0.5], rng)


# --- complex inputs -------------------------------------------------------------------------------

# The same function by three names: NumPy's, JAX's and torch's.
COMMON = """
abs angle real imag conj exp log log2 log10 log1p expm1 sqrt sin cos tan arcsin arccos arctan
arcsinh arctanh sinh cosh tanh square reciprocal negative sum prod mean var std cumsum cumprod
"""
SPECTRAL = "fft ifft hfft irfft fft2 ifft2 fftn ifftn irfft2 irfftn fftshift ifftshift"
WITH_AXIS = ("cumsum", "cumprod")


def by_name(name):
    """The function of NumPy and of JAX."""
    if name in SPECTRAL.split():
        return getattr(np.fft, name), getattr(jnp.fft, name)
    ours, theirs = getattr(np, name), getattr(jnp, name)
    if name in WITH_AXIS:
        return (lambda z: ours(z, -1)), (lambda z: theirs(z, -1))
    return ours, theirs


def of_torch(name, z, torch):
    """The function of that name at `z`."""
    if name in SPECTRAL.split():
        return getattr(torch.fft, name)(z)
    if name in ("var", "std"):
        return getattr(torch, name)(z, correction=0)
    if name == "energy":
        w = z * torch.exp(1j * torch.abs(z)) + torch.conj(z) ** 2
        return torch.sum(torch.abs(w) ** 2) + torch.angle(z[0]) * z[1].imag
    return getattr(torch, name)(z, -1) if name in WITH_AXIS else getattr(torch, name)(z)


def torch_vjp(name, z, v):
    """Value and vector-Jacobian product of torch, as they were written down."""
    known = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if os.environ.get("FDIFF_GOLDEN") == "write":
        import torch

        x = torch.tensor(z, requires_grad=True)
        out = of_torch(name, x, torch)
        (grad,) = torch.autograd.grad(out, x, torch.tensor(np.asarray(v)).to(out.dtype))
        found = [out.detach().resolve_conj().numpy(), grad.resolve_conj().numpy()]
        known[name] = [written(np.asarray(a)) for a in (z, v, *found)]
        GOLDEN.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    at, along, out, grad = map(read, known[name])
    close(at, z)
    close(along, v)
    return out, grad


def written(array):
    return [array.shape, array.real.ravel().tolist(), array.imag.ravel().tolist()]


def read(kept):
    shape, real, imag = kept
    return (np.array(real) + 1j * np.array(imag)).reshape(shape)


@pytest.mark.parametrize("name", f"{COMMON} {SPECTRAL}".split())
def test_vjp_is_that_of_torch(name, rng):
    ours, theirs = by_name(name)
    z = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    out = ours(z)
    v = rng.normal(size=out.shape) + 1j * rng.normal(size=out.shape)
    v = v if np.iscomplexobj(out) else v.real
    value, grad = fdiff.vjp(ours, z, v)
    close(value, out, 1e-13)
    expected, by_torch = torch_vjp(name, z, v)
    close(value, expected)
    close(grad, by_torch)
    _, jax_pull = jax.vjp(theirs, jnp.asarray(z))
    close(grad, np.conj(jax_pull(jnp.asarray(np.conj(v)))[0]))
    assert grad.dtype == complex


@pytest.mark.parametrize("name", f"{COMMON} {SPECTRAL}".split())
def test_jvp_is_that_of_jax(name, rng):
    ours, theirs = by_name(name)
    z, v = (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)) for _ in range(2))
    value, tangent = fdiff.jvp(ours, z, v)
    expected = jax.jvp(theirs, (jnp.asarray(z),), (jnp.asarray(v),))
    close(value, expected[0])
    close(tangent, expected[1])


@pytest.mark.parametrize("name", ["sgn", "arccosh"])
def test_what_jax_has_otherwise_is_that_of_torch(name):
    """JAX takes the slope of `sign` to be 0, and that of `arccosh` wrong by a sign left of 0."""
    ours = np.sign if name == "sgn" else np.arccosh
    v = np.array([1.0 - 0.5j, 0.3j, -2.0])
    close(fdiff.vjp(ours, Z, v)[1], torch_vjp(name, Z, v)[1])


def energy(z):
    """A real function of complex numbers, holomorphic nowhere."""
    w = z * np.exp(1j * np.abs(z)) + np.conj(z) ** 2
    return np.sum(np.abs(w) ** 2) + np.angle(z[0]) * z[1].imag


def test_gradient_of_a_real_function_is_that_of_torch():
    _, expected = torch_vjp("energy", Z, 1.0)
    slope = fdiff.grad(energy, complex_inputs="conjugate")
    value, again = fdiff.value_and_grad(energy, complex_inputs="conjugate")(Z)
    for found in (slope(Z), again, fdiff.vjp(energy, Z)[1]):
        close(found, expected)
    close(value, energy(Z))
    for mode in BOTH:
        close(fdiff.jacobian(energy, Z, mode=mode, complex_inputs="conjugate"), expected)
    step = 1e-6
    for k in range(3):
        e = np.eye(3)[k] * step
        re = (energy(Z + e) - energy(Z - e)) / (2 * step)
        im = (energy(Z + 1j * e) - energy(Z - 1j * e)) / (2 * step)
        close(slope(Z)[k], re + 1j * im, 1e-8)


def test_steepest_descent_descends():
    """The gradient points uphill: z - t * grad goes down, z - t * conj(grad) would not."""
    target = np.array([1 + 1j, -2j, 0.5])
    miss = lambda z: np.sum(np.abs(z**2 - target) ** 2)
    slope = fdiff.grad(miss, complex_inputs="conjugate")
    z = Z.copy()
    for _ in range(600):
        z = z - 0.02 * slope(z)
    close(z**2, target, 1e-8)


@pytest.mark.parametrize(
    "f",
    [
        lambda np, z: z**3 + 2j * z,
        lambda np, z: np.exp(1j * z) / (1 + z * z),
        lambda np, z: np.stack([np.sin(z), z[::-1] * z, np.ones(3) * z[0]]),
        lambda np, z: np.fft.fft(np.log(z)) * np.arctan(z[1]),
        lambda np, z: np.cumprod(np.sqrt(z)) @ np.outer(z, z),
        lambda np, z: np.linalg.solve(np.outer(z, z) + 3 * np.eye(3), z),
        lambda np, z: np.linalg.det(np.outer(z, z[::-1]) + np.diag(z)),
        lambda np, z: np.linalg.inv(np.outer(z, z) + 2j * np.eye(3)) ** 2,
    ],
)
def test_holomorphic_jacobians_are_those_of_jax(f):
    expected = jax.jacfwd(lambda z: f(jnp, z), holomorphic=True)(jnp.asarray(Z))
    ours = lambda z: f(np, z)
    for mode in BOTH:
        for chunk in ("auto", 2):
            close(
                fdiff.jacobian(ours, Z, mode=mode, chunk_size=chunk, complex_inputs="holomorphic"),
                expected,
            )
    for make in (fdiff.jacrev, fdiff.jacfwd):
        close(make(ours, complex_inputs="holomorphic")(Z), expected)


def test_holomorphic_gradient():
    f = lambda z: np.sum(np.sin(z) * z)
    slope = fdiff.grad(f, complex_inputs="holomorphic")
    close(slope(Z), np.cos(Z) * Z + np.sin(Z), 1e-14)
    value, again = fdiff.value_and_grad(f, complex_inputs="holomorphic")(Z)
    assert value == f(Z)
    close(again, slope(Z), 1e-15)
    second = fdiff.jacobian(slope, Z, complex_inputs="holomorphic")
    close(second, np.diag(2 * np.cos(Z) - Z * np.sin(Z)), 1e-14)


@pytest.mark.parametrize(
    ("f", "word"),
    [
        (lambda z: z * np.conj(z), "conjugate"),
        (lambda z: np.exp(z.real) * 1j, "real"),
        (lambda z: 1j * z.imag + z, "imag"),
        (lambda z: z / np.abs(z), "(real|conjugate)"),
        (np.sign, "(real|conjugate)"),
        (lambda z: np.fft.irfft(z) + 0j, "irdft"),
        (lambda z: z + 1j * np.angle(z), "(real|imag)"),
    ],
)
def test_what_is_not_holomorphic_is_refused(f, word):
    for call in (
        lambda: fdiff.jacobian(f, Z, complex_inputs="holomorphic"),
        lambda: fdiff.grad(lambda z: np.sum(f(z)), complex_inputs="holomorphic")(Z),
    ):
        with pytest.raises(DtypeError, match=rf"complex differentiable, and this one.*\({word}\)"):
            call()


def test_a_conjugate_of_what_does_not_move_is_no_hindrance():
    w = Z + 1
    f = lambda z: np.sum(np.conj(w) * z) + np.abs(w[0])
    close(fdiff.grad(f, complex_inputs="holomorphic")(Z), np.conj(w), 1e-15)


UNCHOSEN = "are not supported without a choice of convention.*'conjugate'.*'holomorphic'"
NOT_BOTH = "complex inputs .complex128. are not supported with complex outputs .*'holomorphic'"
SECOND = "complex {} .complex128. are not supported for second derivatives"


def test_refusals_say_what_to_do():
    def product(z, x):
        return np.sum(z * x)

    cases = [
        (lambda: fdiff.grad(energy)(Z), UNCHOSEN),
        (lambda: fdiff.jacobian(np.sin, Z), rf"jacobian\(sin\): complex inputs.*{UNCHOSEN}"),
        (lambda: fdiff.jacrev(np.sin, complex_inputs="conjugate")(Z), NOT_BOTH),
        (lambda: fdiff.grad(np.sum, complex_inputs="conjugate")(Z), NOT_BOTH),
        (
            lambda: fdiff.jacfwd(np.abs, complex_inputs="holomorphic")(Z),
            "a real output .float64. of complex inputs is not holomorphic",
        ),
        (
            lambda: fdiff.grad(lambda x: np.sum(x) * 1j)(X),
            "complex outputs .complex128. are not supported with real inputs",
        ),
        (
            lambda: fdiff.grad(product, (0, 1), complex_inputs="holomorphic")(Z, X),
            "with real inputs",
        ),
        (lambda: fdiff.hessian(energy, Z), SECOND.format("inputs")),
        (lambda: fdiff.hvp(energy, Z, Z), SECOND.format("inputs")),
        (lambda: fdiff.vhp(lambda x: x[0] * 1j, X, X), SECOND.format("outputs")),
        (lambda: fdiff.vjp(np.abs, Z, Z), "v must hold real numbers, not complex128"),
    ]
    for call, words in cases:
        with pytest.raises(DtypeError, match=f"(?s){words}"):
            call()
    for make in (fdiff.grad, fdiff.value_and_grad, fdiff.jacrev, fdiff.jacfwd, fdiff.jacobian):
        with pytest.raises(InputError, match="complex_inputs must be 'error', 'conjugate' or"):
            make(np.sum, complex_inputs=True)
    with pytest.raises(VectorError, match=r"v has invalid size: should be \(3,\)"):
        fdiff.vjp(np.sin, Z, Z[:2])


def test_mixed_inputs_and_outputs():
    """Each pair of input and output has the derivative of its kind."""

    def f(z, x):
        return np.sum(np.abs(z) ** 2 * x)

    slope, real = fdiff.grad(f, (0, 1), complex_inputs="conjugate")(Z, X)
    close(slope, 2 * Z * X, 1e-14)
    close(real, np.abs(Z) ** 2, 1e-14)
    assert (slope.dtype, real.dtype) == (complex, float)
    for mode in BOTH:
        rows = fdiff.jacobian(lambda x: (np.exp(1j * x), np.sum(x * x)), X, mode=mode)
        close(rows[0], np.diag(1j * np.exp(1j * X)), 1e-15)
        close(rows[1], 2 * X, 1e-15)
        assert [r.dtype for r in rows] == [complex, float]
        by_z, by_x = fdiff.jacobian(
            lambda z, x: z**2 * x, (Z, X), mode=mode, complex_inputs="holomorphic"
        )
        close(by_z, np.diag(2 * Z * X), 1e-14)
        close(by_x, np.diag(Z**2), 1e-14)


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("chunk", ["auto", 1, 2])
def test_complex_outputs_of_real_inputs(mode, chunk):
    def f(np, x):
        phase = np.exp(1j * np.outer(np.arange(1.0, 5.0), x))
        return phase @ (x + 0.5j) / np.abs(phase[:, 0] + 2)

    expected = jax.jacfwd(lambda x: f(jnp, x))(jnp.asarray(X))
    found = fdiff.jacobian(lambda x: f(np, x), X, mode=mode, chunk_size=chunk)
    close(found, expected)
    assert found.dtype == complex


def test_dtypes_of_single_precision():
    x, z = X.astype(np.float32), Z.astype(np.complex64)
    for mode in BOTH:
        assert fdiff.jacobian(lambda x: x * 1j, x, mode=mode).dtype == np.complex64
        assert fdiff.jacobian(lambda x: x * np.complex128(1j), x, mode="forward").dtype == complex
        assert (
            fdiff.jacobian(np.abs, z, mode=mode, complex_inputs="conjugate").dtype == np.complex64
        )
        assert (
            fdiff.jacobian(np.sin, z, mode=mode, complex_inputs="holomorphic").dtype == np.complex64
        )
    assert (
        fdiff.grad(lambda z: np.sum(np.abs(np.fft.fft(z))), complex_inputs="conjugate")(z).dtype
        == np.complex64
    )
    assert fdiff.grad(lambda x: np.sum(np.abs(np.fft.rfft(x))))(x).dtype == np.float32
    out, slope = fdiff.vjp(np.fft.rfft, x, np.ones(2, np.complex64))
    assert (out.dtype, slope.dtype) == (np.complex64, np.float32)


def test_scalars():
    """Python's complex numbers and NumPy's, differentiated and not."""
    slope = fdiff.grad(lambda z: z**3, complex_inputs="holomorphic")
    for z in (1 + 2j, np.complex128(1 + 2j)):
        out = slope(z)
        assert isinstance(out, np.complex128)
        close(out, 3 * z**2, 1e-15)
    assert isinstance(slope(np.complex64(1 + 2j)), np.complex64)
    close(fdiff.grad(abs, complex_inputs="conjugate")(3 + 4j), 0.6 + 0.8j, 1e-15)
    _, tangent = fdiff.jvp(lambda z: z * np.ones(2, np.complex64), 1 + 2j, 1j)
    assert tangent.dtype == np.complex64  # a Python number takes the dtype of its partner
    f = fdiff.grad(lambda x, z: (x * z).real + x * abs(z))
    for z in (3 + 4j, np.complex128(3 - 4j), 1j):
        close(f(2.0, z), z.real + abs(z), 1e-15)
    assert fdiff.jit(lambda z: z * 2)(1j) == 2j


def test_complex_zeros_and_masks():
    """At 0 the slope of `abs`, `angle` and `sign` is 0; a branch not taken contributes nothing."""
    z = np.array([0j, 3 + 4j])
    for f in (np.abs, np.angle, np.sign):
        for found in (
            fdiff.vjp(f, z, np.array([1.0, 0.0]))[1],
            fdiff.jvp(f, z, np.array([1.0, 0.0]))[1],
        ):
            assert not np.any(found)
    safe = lambda z: np.sum(np.where(z != 0, np.abs(np.log(z)), 0.0))
    with np.errstate(divide="ignore"):
        slope = fdiff.grad(safe, complex_inputs="conjugate")(z)
    assert slope[0] == 0
    assert np.isfinite(slope[1])
    part = fdiff.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x + 0j).real, 0.0)))
    np.testing.assert_array_equal(part(np.array([0.0, 4.0])), [0.0, 0.25])


def test_infinite_slopes_stay_in_their_part():
    """The real part of sqrt(0) has an infinite slope; nothing turns it into NaN on the way."""
    tape = tape_of(lambda x: (np.sqrt(x).astype(complex)).real, np.zeros(1))
    assert pull(tape, [np.zeros(1)], [np.ones(1)])[0] == np.inf
    assert push(tape, [np.zeros(1)], [np.ones(1)])[0] == np.inf


# --- real numbers that are complex on the way ----------------------------------------------------


def unitary(np, x):
    """|<a|exp(-iH)|b>|^2 of a small Hamiltonian, by a product formula."""
    state = np.array([1.0 + 0j, 0.0, 0.0])
    for k in range(3):
        state = np.exp(-1j * x * (k + 1)) * state
        state = np.fft.fft(state, norm="ortho")
    return np.abs(state[1]) ** 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "f",
    [
        unitary,
        lambda np, x: np.sum(np.real(np.exp(1j * x) * np.log(x + 2j)) ** 2),
        lambda np, x: np.angle(np.prod(x + 1j * x[::-1])),
        lambda np, x: np.var((x + 1j * x**2) * (1 + 0.3j)),
        lambda np, x: np.vdot(np.exp(1j * x), x * (1 + 1j)).imag,
        lambda np, x: np.abs(np.linalg.det(np.outer(x, 1j * x**2) + np.diag(x + 1j))),
        lambda np, x: np.sum(np.abs(np.fft.rfft(np.sin(x))) ** 3),
        lambda np, x: np.sum(np.fft.irfft(np.fft.rfft(x) ** 2, 3) ** 2),
        lambda np, x: np.linalg.solve(np.diag(x + 1j) + 0.1, x * 1j)[0].real,
        lambda np, x: np.sum(np.abs(np.cumprod(x + 1j)) * x),
    ],
)
def test_real_functions_through_complex_numbers_to_second_order(f, rng):
    ours, theirs = (lambda x: f(np, x)), (lambda x: f(jnp, x))
    x = jnp.asarray(X)
    slope, hessian = jax.jit(lambda x: (jax.grad(theirs)(x), jax.hessian(theirs)(x)))(x)
    close(fdiff.grad(ours)(X), slope)
    close(fdiff.hessian(ours, X), hessian, 1e-11)
    for mode in BOTH:
        close(fdiff.jacobian(fdiff.grad(ours), X, mode=mode), hessian, 1e-11)
    v = rng.normal(size=3)
    close(fdiff.hvp(ours, X, v)[1], hessian @ v, 1e-11)
    assert fdiff.gradcheck(ours, X)
    assert fdiff.gradgradcheck(ours, X)


def test_nested_operators():
    def slope(z):
        return fdiff.grad(lambda w: np.sum(np.abs(w) ** 4), complex_inputs="conjugate")(z)

    f = lambda x: np.sum(slope(x * (1 + 2j)).real)  # of 4 |z|^2 z
    close(fdiff.grad(f)(X), 60 * X**2, 1e-14)
    inner = lambda x: fdiff.jacobian(lambda y: np.exp(1j * y * x), x)
    close(
        fdiff.jacobian(lambda x: np.diagonal(inner(x)), X),
        np.diag((1j - X**2) * np.exp(1j * X * X)) + np.diag(-(X**2) * np.exp(1j * X * X)),
    )


def test_mapped_compiled_and_captured():
    data = Z.copy()
    f = lambda x: np.sum(np.abs(data * x + 1j) ** 2)
    slope = fdiff.grad(f)
    expect = lambda: 2 * (np.conj(data) * (data * X + 1j)).real
    close(slope(X), expect(), 1e-14)
    data[:] = data * 1j  # a captured complex array is read anew
    close(slope(X), expect(), 1e-14)
    rows = np.stack([X, 2 * X])
    close(fdiff.vmap(slope)(rows)[1], fdiff.grad(f)(2 * X), 1e-14)
    close(fdiff.vmap(np.fft.fft)(np.stack([Z, Z * 2]))[1], 2 * np.fft.fft(Z), 1e-14)
    close(fdiff.jit(slope)(X), expect(), 1e-14)
    close(fdiff.jit(lambda z: np.exp(z) * data)(Z), np.exp(Z) * data, 1e-15)


def test_real_if_close_looks_at_values():
    near = Z.real + 1e-17j
    assert fdiff.grad(lambda x, z: np.sum(np.real_if_close(z) * x).real)(X, near).dtype == float
    out = fdiff.jit(np.real_if_close)
    np.testing.assert_array_equal(out(near), np.real_if_close(near))
    np.testing.assert_array_equal(out(Z), Z)


def test_a_cast_to_real_warns_as_numpy_does():
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        out = fdiff.grad(lambda x: np.sum((x * (2 + 1j)).astype(float)))(X)
    np.testing.assert_array_equal(out, [2.0, 2.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fdiff.grad(lambda x: np.sum(x.astype(complex).real))(X)


@pytest.mark.parametrize(("s", "axes"), [((2, 2), None), ((None, 2), (0, 1))])
def test_lengths_of_fourier_transforms_that_numpy_deprecates(s, axes, rng):
    x = rng.normal(size=(3, 4))
    transform = lambda x: np.fft.fftn(x, s, axes)
    with pytest.warns(DeprecationWarning, match="in NumPy 2.0"):
        expected = transform(x)
    with pytest.warns(DeprecationWarning, match="in NumPy 2.0"):
        close(fdiff.jit(transform)(x), expected)


# --- as scientists write it -----------------------------------------------------------------------


def black_scholes(spot, vol, strike=100.0, rate=0.03, time=0.75):
    """Price, delta, vega and gamma of a call in closed form (Black and Scholes 1973)."""
    root = vol * math.sqrt(time)
    d1 = (math.log(spot / strike) + (rate + vol * vol / 2) * time) / root
    cdf = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))
    density = math.exp(-d1 * d1 / 2) / math.sqrt(2 * math.pi)
    price = spot * cdf(d1) - strike * math.exp(-rate * time) * cdf(d1 - root)
    return price, cdf(d1), spot * density * math.sqrt(time), density / (spot * root)


def cos_price(p, strike=100.0, rate=0.03, time=0.75, terms=256):
    """Put by the COS method and parity: Fang and Oosterlee, SIAM J. Sci. Comput. 31(2), 2008."""
    spot, vol = p[0], p[1]
    a, b = -3.0, 3.0
    k = np.arange(terms)
    w = k * np.pi / (b - a)
    x = np.log(spot / strike)
    phi = np.exp(1j * w * (rate - 0.5 * vol**2) * time - 0.5 * vol**2 * w**2 * time)
    grow = np.cos(-w * a) * 1.0 - np.exp(a) * np.cos(0 * w) + w * np.sin(-w * a)
    chi = grow / (1 + w**2)
    psi = np.where(k == 0, -a, np.sin(-w * a) / np.where(k == 0, 1.0, w))
    payoff = 2.0 / (b - a) * strike * (psi - chi)
    terms_ = np.real(phi * np.exp(1j * w * (x - a))) * payoff
    terms_ = np.where(k == 0, 0.5 * terms_, terms_)
    put = np.exp(-rate * time) * np.sum(terms_)
    return put + spot - strike * np.exp(-rate * time)


def gil_pelaez_price(p, strike=100.0, rate=0.03, time=0.75):
    """Two inversion integrals of the characteristic function: Gil-Pelaez, Biometrika 38, 1951."""
    spot, vol = p
    u = np.linspace(1e-8, 60.0, 6001)

    def phi(u):
        mean = np.log(spot) + (rate - vol**2 / 2) * time
        return np.exp(1j * u * mean - 0.5 * vol**2 * u**2 * time)

    shift = np.exp(-1j * u * np.log(strike)) / (1j * u)
    above = 0.5 + np.trapezoid((shift * phi(u)).real, u) / np.pi
    stock = 0.5 + np.trapezoid((shift * phi(u - 1j) / phi(-1j)).real, u) / np.pi
    return spot * stock - strike * np.exp(-rate * time) * above


@pytest.mark.parametrize(("price", "rtol"), [(cos_price, 1e-10), (gil_pelaez_price, 1e-8)])
def test_greeks_from_characteristic_functions(price, rtol):
    p = np.array([104.0, 0.23])
    expected = black_scholes(*p)
    value, slope = fdiff.value_and_grad(price)(p)
    close(value, expected[0], rtol)
    close(slope, expected[1:3], rtol)
    close(fdiff.hessian(price, p)[0, 0], expected[3], 10 * rtol)


def test_spectral_derivative():
    """d/dx by rfft, in an energy whose variational derivative is known: -2 u'' + 4 u^3."""
    n = 32
    grid = 2 * np.pi * np.arange(n) / n
    k = np.fft.rfftfreq(n, 1.0 / n)
    k[-1] = 0.0  # the sawtooth mode has no odd derivative

    def action(u):
        slope = np.fft.irfft(1j * k * np.fft.rfft(u), n)
        return (np.sum(slope**2) + np.sum(u**4)) * 2 * np.pi / n

    u = np.sin(grid) + 0.3 * np.cos(3 * grid)
    second = -np.sin(grid) - 2.7 * np.cos(3 * grid)
    close(fdiff.grad(action)(u), (-2 * second + 4 * u**3) * 2 * np.pi / n)
    jac = fdiff.jacobian(lambda u: np.fft.irfft(1j * k * np.fft.rfft(u), n), u)
    close(jac @ u, np.cos(grid) - 0.9 * np.sin(3 * grid))
    close(jac, -jac.T)


def spectra(np, x):
    """A power spectrum, its logarithm and cepstrum, and the envelope of the analytic signal."""
    n = x.shape[0]
    power = np.abs(np.fft.fft(x)) ** 2 / n
    logs = np.log(np.abs(np.fft.rfft(x * np.hanning(n))) ** 2 + 1e-3)
    cepstrum = np.fft.irfft(logs, n)
    weights = np.array([1.0] + [2.0] * (n // 2 - 1) + [1.0] + [0.0] * (n // 2 - 1))
    analytic = np.fft.ifft(np.fft.fft(x) * weights)
    return power, cepstrum, np.abs(analytic), np.angle(analytic)


@pytest.mark.parametrize("k", range(4), ids=["power", "cepstrum", "envelope", "phase"])
def test_spectra_of_a_signal(k, rng):
    x = rng.normal(size=16)
    expected = jax.jit(jax.jacrev(lambda x: spectra(jnp, x)[k]))(jnp.asarray(x))
    for mode in BOTH:
        close(fdiff.jacobian(lambda x: spectra(np, x)[k], x, mode=mode), expected, 1e-11)


def test_parseval():
    """sum |x|^2 = sum |X|^2 / n, and so do the gradients (2 x) and the Hessians (2 I)."""
    for transform in (np.fft.fft, np.fft.ifft):
        energy = lambda x, f=transform: np.sum(np.abs(f(x, norm="ortho")) ** 2)
        close(fdiff.grad(energy)(X), 2 * X, 1e-14)
        close(fdiff.hessian(energy, X), 2 * np.eye(3), 1e-14)
        close(fdiff.grad(energy, complex_inputs="conjugate")(Z), 2 * Z, 1e-14)


def split_step(np, potential, steps=8):
    """A wave packet in a potential, by Strang splitting; how much of it is on the right."""
    n = 32
    x = np.linspace(-8.0, 8.0, n, endpoint=False)
    k = 2 * np.pi * np.fft.fftfreq(n, 0.5)
    psi = np.exp(-((x + 2.0) ** 2) / 2 + 1.5j * x)
    for _ in range(steps):
        psi = np.exp(-0.05j * potential) * psi
        psi = np.fft.ifft(np.exp(-0.05j * k**2) * np.fft.fft(psi))
        psi = np.exp(-0.05j * potential) * psi
    return np.sum(np.where(x > 0, np.abs(psi) ** 2, 0.0)) / np.sum(np.abs(psi) ** 2)


def test_wave_packet():
    v = np.exp(-(np.linspace(-8.0, 8.0, 32) ** 2))
    expected = jax.jit(jax.grad(lambda v: split_step(jnp, v)))(jnp.asarray(v))
    close(fdiff.grad(lambda v: split_step(np, v))(v), expected, 1e-11)


def test_impedance_of_a_circuit():
    """|Z| of R + L || C over frequencies: sensitivities by parts against complex algebra."""
    w = np.linspace(0.5, 3.0, 20)

    def impedance(p):
        ohm, henry, farad = p
        return ohm + 1 / (1 / (1j * w * henry) + 1j * w * farad)

    p = np.array([0.3, 1.2, 0.4])
    jac = fdiff.jacobian(impedance, p)
    y = 1 / (1j * w * p[1]) + 1j * w * p[2]
    close(jac, np.stack([np.ones(20), 1 / (y**2 * 1j * w * p[1] ** 2), -1j * w / y**2], axis=1))
    z = impedance(p)[:, None]
    sizes = fdiff.jacobian(lambda p: np.abs(impedance(p)), p)
    close(sizes, (np.conj(z) * jac).real / np.abs(z))


def test_squared_absolute_values_are_smooth():
    """|z|^2 has the Hessian 2 I everywhere, at 0 too, where |z| has none."""
    zero = np.zeros(2)
    for square in (lambda r: r**2, np.square, lambda r: np.power(r, 2), lambda r: r**2.0):
        by_parts = lambda x, f=square: f(np.abs(x[0] + 1j * x[1]))
        for x in (zero, np.array([0.3, -0.4])):
            close(fdiff.hessian(by_parts, x), 2 * np.eye(2), 1e-15)
            close(fdiff.value_and_grad(by_parts)(x)[1], 2 * x, 1e-15)
        close(fdiff.hessian(lambda x, f=square: np.sum(f(np.abs(x))), zero), 2 * np.eye(2))
    flat = np.ones(4)  # every bin but the first is exactly 0
    power = lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2)
    close(fdiff.hessian(power, flat), 8 * np.eye(4), 1e-14)
    odd = np.array([np.nan + 1j * np.inf, complex(np.inf, 0), 1e200 + 0j, 1e-170j])
    with np.errstate(all="ignore"):
        expected = np.abs(odd) ** 2
        found = fdiff.jit(lambda z: np.abs(z) ** 2)(odd)
    np.testing.assert_array_equal(found, expected)
    weak = fdiff.jit(lambda x: np.ones(2, np.float32) * abs(1j * x) ** 2)
    assert weak(2.0).dtype == np.float32


# --- Python's own complex numbers -----------------------------------------------------------------


RENAMED = {"phase": "angle"}


def by_cmath(name):
    return lambda x: getattr(cmath, name)(complex(x[0], x[1]))


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, f in vars(cmath).items()
        if callable(f) and hasattr(np, RENAMED.get(name, name)) and not name.startswith(("is", "_"))
    ],
)
def test_functions_of_cmath(name):
    x = np.array([0.7, -0.4])
    f = by_cmath(name)
    ufunc = getattr(np, RENAMED.get(name, name))
    close(fdiff.jit(f)(x), f(x), 1e-15)
    close(fdiff.jacobian(f, x), fdiff.jacobian(lambda x: ufunc(x[0] + 1j * x[1]), x), 1e-15)
    for values_ in (
        fdiff.jit(lambda x: getattr(cmath, name)(x + 0.0))(0.3),
        fdiff.jit(f)([0.3, 0.0]),
    ):
        close(values_, getattr(cmath, name)(0.3), 1e-15)


# Python 3.14 deprecates what it computes as before.
@pytest.mark.filterwarnings("ignore:complex.. argument .* must be a real:DeprecationWarning")
def test_python_complex_numbers():
    def f(x):
        z = complex(x[0], imag=x[1])
        r, phi = cmath.polar(z * complex(x[1]))
        w = cmath.rect(r, 2 * phi) + cmath.log(z, 2) + complex(imag=r) * complex(z, z)
        big = 1.0 if cmath.isfinite(w) and not cmath.isnan(w) and isinstance(w, complex) else 0.0
        big *= 1.0 if cmath.isclose(w, w + 1e-12) and not cmath.isclose(w, 1j * w) else 0.0
        out = np.zeros(2, complex)
        out[0] = w
        return big * abs(out[0]) ** 2 + cmath.exp(1j).real

    def same(x):
        z = x[0] + 1j * x[1]
        r, phi = np.abs(z * x[1]), np.angle(z * x[1])
        w = r * np.exp(2j * phi) + np.log(z) / np.log(2) + 1j * r * (z + 1j * z)
        return np.abs(w) ** 2 + np.cos(1.0)

    x = np.array([0.7, -0.4])
    close(f(x), same(x), 1e-14)
    close(fdiff.value_and_grad(f)(x)[0], f(x), 1e-14)
    close(fdiff.grad(f)(x), fdiff.grad(same)(x), 1e-13)
    with pytest.raises(TypeError, match="can be converted to Python scalars"):
        fdiff.grad(lambda x: abs(complex(x)))(x)


def escape(p):
    """How far an orbit of z -> z^2 + c gets, by a loop whose length depends on values."""
    c, z, steps = complex(p[0], p[1]), 0j, 0
    while abs(z) < 2 and steps < 50:
        z, steps = z * z + c, steps + 1
    return abs(z)


def test_a_loop_that_ends_by_an_absolute_value():
    for p in (np.array([0.4, 0.5]), np.array([-0.8, 0.4]), np.array([0.3, 0.6])):
        step = 1e-7 * np.eye(2)
        measured = [(escape(p + h) - escape(p - h)) / 2e-7 for h in step]
        close(fdiff.grad(escape)(p), measured, 1e-6)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_polynomials_of_zeros_in_conjugate_pairs_have_the_precision_of_the_zeros(dtype):
    zeros = np.array([1 + 2j, 1 - 2j, 3], dtype)
    found, expected = fdiff.jit(np.poly)(zeros), np.poly(zeros)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=10 * np.finfo(dtype).eps)
