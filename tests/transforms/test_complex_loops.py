"""Loops on complex numbers compute with real and imaginary parts, in kernels."""

import jax
import numpy as np
import pytest

import fdiff
from fdiff.interpret import evaluate
from fdiff.kernels.ir.graph_of_tape import missing
from fdiff.transforms.pipeline import RUN, derive

jax.config.update("jax_enable_x64", True)

P = np.array([0.5, 0.3, 0.2])


def ladder(p, scan, np=np):
    def step(z, k):
        series = p[0] + 1j * p[1] * (1 + 0.01 * k)
        z = series + z / (1 + 1j * p[2] * z)
        return z, np.abs(z)

    z, sizes = scan(step, 1.0 + 0j, np.arange(7.0))
    return np.abs(z) ** 2 + np.sum(sizes)


def films(p, scan, np=np):
    def step(m, d):
        c, s = np.cos(p[0] * d) + 0j, 1j * np.sin(p[1] * d) * np.exp(1j * p[2] * d)
        t = np.stack([np.stack([c, s / (1 + p[0] * 1j)]), np.stack([s * p[2], c])])
        return m @ t, t[0, 1]

    m, outs = scan(step, np.eye(2) + 0j, np.linspace(0.1, 1, 7))
    return np.real(m[0, 0] * np.conj(m[1, 0])) + np.sum(np.abs(outs) ** 2)


def waves(p, scan, np=np):
    x = np.linspace(0, 1, 6)

    def step(u, v):
        bent = np.roll(u, 1) + np.roll(u, -1) - 2 * u
        u = u + 0.01j * (bent * p[0] - v * u * np.abs(u) ** 2 * p[1])
        u = np.where(np.real(u) > 0.7, u * 0.5, u)
        return u, np.real(np.sum(u * np.conj(u)))

    u, sums = scan(step, np.exp(1j * x * p[2]), np.ones(7))
    return np.sum(np.abs(u) ** 2 * x) + np.sum(sums)


def places(p, scan, np=np):
    def step(u, k):
        w = np.concatenate([u[2:], u[:2]]) * np.exp(1j * p[0])
        u = np.concatenate([u[:1] * p[2], w[:3] * (p[1] + 2j), u[4:]])
        return u / np.sqrt(np.sum(np.abs(u) ** 2)), u[::-1]

    u, outs = scan(step, (np.arange(5.0) + 1) * (1 + 1j * p[2]), np.arange(7.0))
    return np.sum(np.real(u) * np.imag(u[::-1])) + np.sum(np.real(outs))


def nested(p, scan, np=np):
    def step(z, k):
        w, sizes = scan(
            lambda w, j: (w * (p[0] + 1j * p[1]) + z / (j + 1), np.abs(w) * z),
            z * 0,
            np.arange(4.0),
        )
        return z + 0.1 * w + np.sum(sizes), k

    return np.abs(scan(step, p[2] + 1j, np.arange(7.0))[0]) ** 2


def unrolled(f, carry, xs):
    outs = []
    for x in xs:
        carry, out = f(carry, x)
        outs.append(out)
    return carry, np.stack(outs)


def has_complex(tape):
    types = [t for node in tape.nodes for t in node.types]
    below = [has_complex(body) for _, _, body in tape.bodies()]
    return any(t.dtype.kind == "c" for t in types) or any(below)


PROGRAMS = [ladder, films, waves, places, nested]
OPERATORS = {"value": lambda f: f, "grad": fdiff.grad, "hessian": fdiff.hessian}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_parts_are_as_complex_numbers(f, name, monkeypatch):
    ours, plain = (
        OPERATORS[name](lambda p: f(p, fdiff.scan)),
        OPERATORS[name](lambda p: f(p, unrolled)),
    )
    tape = derive(RUN, fdiff.make_tape(ours, P))
    assert has_complex(fdiff.make_tape(ours, P))
    assert not has_complex(tape)
    assert not [*missing(tape)]  # ops without a kernel
    expected = plain(P)
    np.testing.assert_allclose(evaluate(tape, P)[-1], expected, rtol=1e-12, atol=1e-13)
    for tier in ("interpret", "compile"):
        monkeypatch.setenv("FDIFF_TIER", tier)
        np.testing.assert_allclose(fdiff.jit(ours)(P), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_beside_jax(f):
    slope = jax.grad(lambda p: f(p, jax.lax.scan, jax.numpy))(P)
    found = fdiff.jit(fdiff.grad(lambda p: f(p, fdiff.scan)))(P)
    np.testing.assert_allclose(found, slope, rtol=1e-10, atol=1e-12)
    batch = fdiff.vmap(fdiff.grad(lambda p: f(p, fdiff.scan)))(np.stack([0.9 * P, P]))
    np.testing.assert_allclose(batch[1], slope, rtol=1e-10, atol=1e-12)


def test_complex_arguments_and_results():
    def f(z, w):
        last, outs = fdiff.scan(lambda c, r: (c * w + r / (2 + c), c * r), z[0], z)
        return last, outs

    z, w = np.exp(1j * np.arange(5.0)), 0.3 - 0.2j
    tape = derive(RUN, fdiff.make_tape(f, z, w))
    (loop,) = [node for node in tape.nodes if node.primitive.name == "loop"]
    assert not has_complex(loop.param("body"))
    last, outs = fdiff.jit(f)(z, w)
    c, rows = z[0], []
    for r in z:
        rows.append(c * r)
        c = c * w + r / (2 + c)
    np.testing.assert_allclose(last, c, rtol=1e-14)
    np.testing.assert_allclose(outs, rows, rtol=1e-14)


SPECIAL = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-320, 1e100, 709.5])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_special_numbers_are_those_of_numpy(tier, monkeypatch):
    """A carry that is read keeps the loop from becoming a batch."""
    monkeypatch.setenv("FDIFF_TIER", tier)
    x = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL])
    y = np.roll(x, 37)

    def step(c, row):
        a, b = np.where(c < 2.0, row[0], 1.0), row[1]
        return 0.5 * c, (
            a + b,
            a - b,
            a * b,
            a / b,
            np.exp(a),
            -a,
            np.conj(a),
            np.abs(a),
            a.real,
            a.imag,
        )

    f = lambda x, y: fdiff.scan(step, 1.0, (x, y))[1]
    (loop,) = [n for n in derive(RUN, fdiff.make_tape(f, x, y)).nodes if n.primitive.name == "loop"]
    assert not has_complex(loop.param("body"))
    expected = step(1.0, (x, y))[1]
    for found, value in zip(fdiff.jit(f)(x, y), expected, strict=True):
        np.testing.assert_allclose(found.real, value.real, rtol=2e-15)
        np.testing.assert_allclose(found.imag, value.imag, rtol=2e-15)
        for part in (np.real, np.imag):
            # C99 leaves the signs of exp(-inf + inf i) open.
            known = ~np.isnan(part(value)) & np.isfinite(x.imag)
            assert (np.signbit(part(found)) == np.signbit(part(value)))[known].all()


def test_what_has_no_formula_stays_complex():
    def f(p):
        step = lambda u, _: (np.fft.ifft(np.fft.fft(u) * np.exp(1j * p[0] * np.arange(8.0))), None)
        u = fdiff.scan(step, np.exp(1j * p[1] * np.arange(8.0)), None, length=7)[0]
        return np.sum(np.abs(u) ** 2 * np.arange(8.0))

    tape = fdiff.make_tape(fdiff.grad(f), P)
    assert has_complex(derive(RUN, tape))
    numeric = [(f(P + h) - f(P - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(fdiff.grad(f)(P), numeric, rtol=1e-6, atol=1e-7)


def test_a_plain_loop_of_impedances_is_one_kernel():
    def f(p, trips=200):
        z = 1.0 + 0j
        for k in range(trips):
            z = p[0] + 1j * p[1] * (1 + 0.01 * k) + z / (1 + 1j * p[2] * z)
        return np.abs(z) ** 2

    tape = derive(RUN, fdiff.make_tape(fdiff.grad(f), P))
    assert any(node.primitive.name == "loop" for node in tape.nodes)
    assert not has_complex(tape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FDIFF_LOOPS", "unroll")
        expected = fdiff.grad(lambda p: f(p, 200))(P)
    np.testing.assert_allclose(fdiff.jit(fdiff.grad(f))(P), expected, rtol=1e-11)
