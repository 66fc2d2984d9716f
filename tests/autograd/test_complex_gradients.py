"""Complex gradients of recorded arrays: those of `fdiff.vjp`, in every kind of pass."""

import numpy as np
import pytest

import fdiff
from fdiff.autograd import RecordedArray, forward_ad, grad, tensor

Z = np.array([0.3 - 1.2j, -0.7 + 0.4j, 1.1 + 0.9j])
BAR = np.array([0.2 + 0.5j, -1.0 + 0.1j, 0.4 - 0.8j])
FUNCTIONS = {
    "square": lambda z: z * z,
    "conjugate": lambda z: np.conj(z) * np.exp(z),
    "norm": lambda z: z / np.abs(z),
    "fft": lambda z: np.fft.fft(z * z),
    "solve": lambda z: np.linalg.solve(np.outer(z, z.conj()) + np.eye(3), z),
    "store": lambda z: _stored(z),
}


def _stored(z):
    out = z * 1
    out[1:] *= z[:2] * (1 - 2j)
    out[0] = z[1] * z[2]
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_vjp(name):
    f = FUNCTIONS[name]
    expected = fdiff.vjp(f, Z, BAR)[1]
    z = tensor(Z, requires_grad=True)
    compiled, recorded = grad(f(z), z, BAR), grad(f(z), z, BAR, create_graph=True)
    y = z * 1
    y.register_hook(lambda g: None)  # node by node
    hooked = grad(f(y), z, BAR)
    for (found,) in (compiled, recorded, hooked):
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck_of_recorded_arrays(name):
    assert fdiff.gradcheck(FUNCTIONS[name], (tensor(Z, requires_grad=True),))


def test_descent_goes_down():
    z = np.array([1 + 2j])
    for _ in range(5):
        x = tensor(z, requires_grad=True)
        np.sum(np.abs(x) ** 2).backward()
        z = z - 0.1 * x.grad.numpy()
    np.testing.assert_allclose(z, 0.8**5 * (1 + 2j), rtol=1e-12)


def test_tangents_stay_what_they_are():
    """Forward mode is the transpose of the transpose, and knows no convention."""
    for f in FUNCTIONS.values():
        with forward_ad.dual_level():
            out = f(forward_ad.make_dual(tensor(Z, requires_grad=True), tensor(BAR)))
            found = forward_ad.unpack_dual(out).tangent
        assert isinstance(found, RecordedArray)
        np.testing.assert_allclose(found.detach(), fdiff.jvp(f, Z, BAR)[1], rtol=1e-12)
