"""Plans of several kernels as one kernel, called by C functions and by code of Numba."""

import ctypes
import dataclasses

import numba
import numpy as np
import pytest

import fdiff
from fdiff.dispatch.fast_paths import recorded_plans
from fdiff.errors import UnsupportedError
from fdiff.functional.operators import dense_modes
from fdiff.tree import flatten
from tests.functional.test_c_functions import WITH_CC, Both, compiled

X = np.linspace(0.1, 1.0, 7)
Y = np.array([[1.0, -2.0], [0.5, 3.0]])


def curve(x):
    return np.sin(x) * np.cumsum(x**2)


def surface(x, y):
    return np.sum(np.sin(x)[:, None] * x[::-1, None] ** 2 * np.sum(y, axis=0)) + np.prod(y)


def integers(x, y):
    return x * np.sum(y), np.floor(x).astype(int)


def single(x, y):
    return (np.float32(2.0) * x[:3] * x[1:4]).astype(np.float32), x[0] * y


PLANS = {
    "rows": (fdiff.jacrev(curve, chunk_size=2), (X,)),
    "rows of several arguments": (fdiff.jacrev(single, argnums=(0, 1), chunk_size=3), (X, Y)),
    "columns": (fdiff.jacfwd(curve, chunk_size=3), (X,)),
    "one column at a time": (fdiff.jacfwd(single, argnums=(0, 1), chunk_size=1), (X, Y)),
    "zeros": (fdiff.jacobian(integers, chunk_size=2), (X, Y)),
    "Hessian": (fdiff.hessian(surface, argnums=(0, 1), chunk_size=2), (X, Y)),
    "dictionary": (fdiff.hessian(lambda d: surface(d["x"], d["y"]), chunk_size=4),
                   ({"x": X, "y": Y},)),
    "scalars": (fdiff.jacobian(lambda x, t: (np.sum(x) * t, x * t), argnums=(0, 1), chunk_size=2),
                (X, 2.0)),
}  # fmt: skip
each = pytest.mark.parametrize("name", PLANS)


def by_c(c, args):
    """The leaves of the result of a C function."""
    made = [np.full(one.shape, 7, one.dtype) for one in c._declared.signature.made]
    c.ctypes(*flatten(args)[0], *made)
    c.check()
    return made


@each
@Both
def test_a_c_function_runs_chunks(name, misses):
    prepared, args = PLANS[name]
    c = fdiff.cfunc(prepared, *args, misses=misses)
    for got, want in zip(by_c(c, args), flatten(prepared(*args))[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("name", [name for name in PLANS if name != "dictionary"])
def test_code_of_numba_runs_chunks(name):
    prepared, args = PLANS[name]
    f = fdiff.njit(prepared, *args)
    call = numba.njit(lambda *args: f(*args))
    for given in (args, tuple([a[:5] if np.ndim(a) == 1 else a for a in args])):
        pairs = zip(flatten(call(*given))[0], flatten(prepared(*given))[0], strict=True)
        for got, want in pairs:
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)


@Both
def test_branches_are_checked_by_a_kernel_of_their_own(misses):
    def bent(x):
        return x**3 if x[0] > 0.5 else np.linalg.solve(np.diag(x + 1.0), np.sin(x))

    prepared, out = fdiff.jacobian(bent, chunk_size=2), np.empty((7, 7))
    c = fdiff.cfunc(prepared, X, misses=misses)
    for x in (X, X + 1.0, X, -np.ones(7)):
        c.ctypes(x, out)
        if x[0] < -0.5:
            assert np.isnan(out).all()
            with pytest.raises(np.linalg.LinAlgError):
                c.check()
        elif x[0] > 0.5 and misses == "raise":
            assert np.isnan(out).all()
            with pytest.raises(fdiff.errors.InputError):
                c.check()
        else:
            np.testing.assert_allclose(out, prepared(x), rtol=1e-13)
            c.check()


@Both
def test_huge_angles_and_captured_arrays_with_strides(misses):
    weights = np.arange(14.0).reshape(2, 7).T
    prepared = fdiff.hessian(lambda x: np.sum(np.sin(x) * weights[:, 0] * x[0]), chunk_size=3)
    c, out = fdiff.cfunc(prepared, X, misses=misses), np.empty((7, 7))
    for x in (X, 1e13 * X, X):
        c.ctypes(x, out)
        c.check()
        np.testing.assert_allclose(out, prepared(x), rtol=1e-12)
    weights[:] *= 2.0
    c.ctypes(X, out)
    np.testing.assert_allclose(out, prepared(X), rtol=1e-12)


def test_chunks_that_the_budget_asks_for(monkeypatch):
    monkeypatch.setattr(dense_modes, "BUDGET", 100)
    seen = []
    sequence = recorded_plans.kernels.kernel_sequence
    monkeypatch.setattr(
        recorded_plans.kernels,
        "kernel_sequence",
        lambda steps, *rest: seen.append(len(steps)) or sequence(steps, *rest),
        raising=False,
    )
    prepared = fdiff.jacobian(lambda x: np.linalg.inv(np.outer(x, x) + np.eye(7))[0])
    c, out = fdiff.cfunc(prepared, X), np.empty((7, 7))
    assert seen == [14]  # a row at a time: a kernel and a copy
    c.ctypes(X, out)
    np.testing.assert_allclose(out, fdiff.jacfwd(prepared.__wrapped__)(X), rtol=1e-12, atol=1e-13)


NEWTON = """
HEADER
double newton(jacobian_residual f, const double *x) {
    double slope[3][3], trace = 0.0;
    f(x, &slope[0][0]);
    for (int k = 0; k < 3; k++) trace += slope[k][k];
    return trace;
}
"""


@WITH_CC
def test_c_code_calls_chunks(tmp_path):
    def residual(x):
        return x**2 * np.sum(x)

    prepared, x = fdiff.jacobian(residual, chunk_size=2), np.array([1.0, 2.0, 3.0])
    c = fdiff.cfunc(prepared, x, misses="raise")
    run = compiled(NEWTON.replace("HEADER", c.header), tmp_path).newton
    run.restype, run.argtypes = ctypes.c_double, [ctypes.c_void_p] * 2
    np.testing.assert_allclose(run(c.address, x.ctypes.data), np.trace(prepared(x)), rtol=1e-14)


@dataclasses.dataclass
class Computed:
    value: object

    def __post_init__(self):
        self.value = self.value * 2.0


def test_results_that_python_computes_are_refused():
    with pytest.raises(
        UnsupportedError, match="built by code of Python that computes with outputs"
    ):
        fdiff.cfunc(fdiff.jit(lambda x: Computed(x * x)), X)


def test_asking_for_kernels_makes_those_of_chunks():
    prepared = fdiff.hessian(surface, chunk_size=3).compile(X, Y)
    assert "compiled" in repr(prepared)
    assert "not run" not in repr(prepared)
