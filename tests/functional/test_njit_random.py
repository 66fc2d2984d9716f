"""Random calls from ``@njit`` code: operators, shapes, dtypes, layouts; against Python."""

import numpy as np
import pytest
from test_njit import in_njit

import fdiff

WEIGHTS = np.linspace(0.5, 1.5, 12)


def one(x, s):
    return np.sum(np.sin(x) * s) * np.sum(x * x)


def several(x, s):
    return np.tanh(x.reshape(-1)[:1] * s) * WEIGHTS, np.sum(np.exp(-x * x), axis=0)


def branching(x, s):
    if np.sum(x) > 0.0:
        return np.sum(x**3) * s
    return np.sum(np.cos(x)) - s


def integers(x, s, k):
    return np.sum(x.reshape(-1)[k] ** 2) * s


OPERATORS = {
    "grad": lambda f: fdiff.grad(f, argnums=(0, 1)),
    "value_and_grad": fdiff.value_and_grad,
    "jit": fdiff.jit,
    "hessian": fdiff.hessian,
    "jacobian": lambda f: fdiff.jacobian(f, argnums=(0, 1)),
    "jacfwd": fdiff.jacfwd,
    "vjp": fdiff.vjp,
    "jvp": fdiff.jvp,
    "hvp": fdiff.hvp,
}
FUNCTIONS = {
    "grad": (one, branching), "value_and_grad": (one, branching, integers),
    "hessian": (one, branching), "jit": (one, several, branching, integers),
    "jacobian": (several,), "jacfwd": (several,), "vjp": (one, branching),
    "jvp": (one, several, branching), "hvp": (one, branching),
}  # fmt: skip
PAIRS = [(name, f) for name, functions in FUNCTIONS.items() for f in functions]


def array(rng, shape, dtype):
    """An array of a random layout."""
    x = rng.normal(size=shape).astype(dtype)
    how = rng.integers(4)
    if how == 1:
        return np.asfortranarray(x)
    if how == 2:
        return np.repeat(x, 2, axis=-1)[..., ::2]
    return x[..., ::-1] if how == 3 else x


def arguments(rng, name, f, rank, dtype):
    """Random arguments of a call."""
    shape = tuple(rng.integers(1, 6, size=rank))
    scale = dtype(rng.normal()) if dtype is np.float32 else float(rng.normal())
    x = array(rng, shape, dtype)
    given = [x, scale]
    if f is integers:
        given.append(rng.integers(0, x.size, size=rng.integers(1, 4)))
    if name == "vjp":
        given.insert(1, scale)
    if name in ("jvp", "hvp"):
        given.insert(1, array(rng, shape, dtype))
    return given


def leaves(value):
    return (
        [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f8", "f4"])
@pytest.mark.parametrize(("name", "f"), PAIRS, ids=lambda v: getattr(v, "__name__", v))
def test_random_calls_are_those_from_python(name, f, dtype):
    rng = np.random.default_rng(len(name) + 7 * len(f.__name__))
    prepared = OPERATORS[name](f)
    for rank in (3,) if dtype is np.float64 else (1,):
        example = arguments(rng, name, f, rank, dtype)
        call = in_njit(fdiff.njit(prepared, *example), len(example))
        for _ in range(3):
            given = arguments(rng, name, f, rank, dtype)
            found, wanted = leaves(call(*given)), leaves(prepared(*given))
            assert len(found) == len(wanted)
            for a, b in zip(found, wanted, strict=True):
                assert np.shape(a) == np.shape(b)
                assert np.ndim(b) == 0 or a.dtype == b.dtype
                tolerance = 2e-5 if dtype is np.float32 else 1e-12
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
