"""Complex gradients of recorded arrays beside torch: its convention, wherever users see them."""

from typing import ClassVar

import numpy as np
import pytest
import torch

import fdiff
import fdiff.autograd as ours

Z = np.array([0.3 - 1.2j, -0.7 + 0.4j, 1.1 + 0.9j, 0.5 - 0.2j])
R = np.array([0.9, -1.3, 0.4, 2.1])

# For each function its results for a complex and a real array: by NumPy, and by torch.
FUNCTIONS = {
    "abs": (lambda z, r: np.abs(z) * r, lambda z, r: z.abs() * r),
    "angle": (lambda z, r: np.angle(z) * r, lambda z, r: z.angle() * r),
    "exp": (lambda z, r: np.exp(z * r), lambda z, r: torch.exp(z * r)),
    "power": (lambda z, r: (z**2.5).imag * r, lambda z, r: (z**2.5).imag * r),
    "real_power": (lambda z, r: z**r, lambda z, r: z**r),
    "power_of_real": (
        lambda z, r: np.abs(np.power(2.0, z)) * r,
        lambda z, r: torch.pow(2.0, z).abs() * r,
    ),
    "log": (lambda z, r: np.log(z) * r, lambda z, r: torch.log(z) * r),
    "sqrt": (lambda z, r: np.sqrt(z) * r, lambda z, r: torch.sqrt(z) * r),
    "divide": (lambda z, r: r / z, lambda z, r: r / z),
    "conjugate": (lambda z, r: z.conj() * z * r, lambda z, r: z.conj() * z * r),
    "fft": (lambda z, r: np.fft.fft(z * r), lambda z, r: torch.fft.fft(z * r)),
    "tanh": (lambda z, r: np.tanh(z) * r, lambda z, r: torch.tanh(z) * r),
    "cumprod": (lambda z, r: np.cumprod(z) * r, lambda z, r: torch.cumprod(z, 0) * r),
    "vdot": (lambda z, r: np.vdot(z, z * r + 1j), lambda z, r: torch.vdot(z, z * r + 1j)),
    "outer": (lambda z, r: np.outer(z, r), lambda z, r: torch.outer(z, r + 0j)),
    "norm": (lambda z, r: np.linalg.norm(z * r), lambda z, r: torch.linalg.norm(z * r)),
    "sign": (lambda z, r: np.sign(z) * r, lambda z, r: torch.sgn(z) * r),
    "matmul": (
        lambda z, r: z.reshape(2, 2) @ r.reshape(2, 2),
        lambda z, r: z.reshape(2, 2) @ (r.reshape(2, 2) + 0j),
    ),
}


def _ours(x):
    return ours.tensor(x, requires_grad=True)


def _torch(x):
    return torch.tensor(x, requires_grad=True)


def _values(found):
    return [
        np.asarray(g.detach().resolve_conj() if torch.is_tensor(g) else g.detach().numpy())
        for g in found
    ]


def _same(found, expected):
    for one, other in zip(_values(found), _values(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_for_complex_cotangents(name):
    f, g = FUNCTIONS[name]
    x, y = (_ours(Z), _ours(R)), (_torch(Z), _torch(R))
    out, expected = f(*x), g(*y)
    bar = np.asarray(np.cos(np.arange(out.size)).reshape(out.shape))
    if out.dtype.kind == "c":
        bar = bar * (0.6 - 0.8j)
    out.backward(bar)
    expected.backward(torch.tensor(bar))
    _same([a.grad for a in x], [a.grad for a in y])


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("sign", "angle", "norm")])
def test_gradients_of_gradients(name):
    found = []
    for lib, make, f in zip((ours, torch.autograd), (_ours, _torch), FUNCTIONS[name], strict=True):
        x = make(Z), make(R)
        out = f(*x)
        loss = (out * (0.3 + 0.2j)).real.sum() + (out * out.conj()).real.sum()
        first = lib.grad(loss, x, create_graph=True)
        total = (first[0] * first[0] * (0.5 - 1j)).imag.sum() + (first[1] * first[1]).sum()
        found.append([a.detach() for a in first] + list(lib.grad(total, x)))
    _same(*found)


def _play(lib, make, multiply):
    """What hooks of all sorts see, and what comes of the gradients that they give."""
    z, seen = make(Z), []
    y = z * (2 - 1j)
    w = multiply(y)
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g) or g * (1 + 1j))
    w.grad_fn.register_hook(lambda gi, go: seen.extend([gi[0], go[0]]))
    w.grad_fn.register_prehook(lambda go: seen.append(go[0]) or (go[0] * 1j,))
    z.register_hook(lambda g: seen.append(g) or g * (3 - 2j))
    (w * w.conj() * (1 + 0j)).real.sum().backward(retain_graph=True)
    inner = lib.grad(w, [z], make(Z) * (1j - 2), retain_graph=True)
    return [*seen, y.grad, z.grad, *inner]


def test_hooks_and_kept_gradients():
    _same(_play(ours, _ours, lambda y: y * y), _play(torch.autograd, _torch, lambda y: y * y))


def _cube(base):
    class Cube(base):
        seen: ClassVar = []

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, bar):
            (x,) = ctx.saved_tensors
            Cube.seen.append(bar.detach())
            return bar * (3 * x * x).conj()

    return Cube


@pytest.mark.parametrize("create", [False, True])
def test_rules_of_functions_see_what_they_see_in_torch(create):
    found = []
    for lib, make, base in (
        (ours, _ours, ours.Function),
        (torch.autograd, _torch, torch.autograd.Function),
    ):
        cube, z = _cube(base), make(Z)
        out = cube.apply(z * (1 + 2j)) * (0.5 - 1j)
        (first,) = lib.grad((out * out.conj()).real.sum(), z, create_graph=create)
        more = list(lib.grad((first * first).imag.sum(), z)) if create else []
        found.append([*cube.seen, first.detach(), *more])
    _same(*found)


def test_second_derivatives_of_a_rule_that_is_no_derivative():
    """A recorded call is one node at every order, as a `Function` is in torch."""

    @fdiff.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, bar: (np.clip(bar, -1.0, 1.0),))

    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, bar):
            return bar.clip(-1.0, 1.0)

    found = []
    for lib, make, f in ((ours, _ours, clipped), (torch.autograd, _torch, Clipped.apply)):
        x = make(np.array([0.3, 1.7]))
        (first,) = lib.grad((3.0 * x * f(x)).sum(), x, create_graph=True)
        found.append([first, *lib.grad(first[0] - 2.0 * first[1], x)])
    _same(*found)


def test_accumulation_and_cotangents_in_batches():
    found = []
    for lib, make in ((ours, _ours), (torch.autograd, _torch)):
        z = make(Z)
        for _ in range(2):
            (z * z * 1j).real.sum().backward()
        bars = make(np.stack([Z, Z * 1j])).detach()
        found.append([z.grad, *lib.grad(z * z, z, bars, is_grads_batched=True)])
    _same(*found)
