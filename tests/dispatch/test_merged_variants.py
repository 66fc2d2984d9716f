"""Functions with a few paths: exact whichever path a call takes, and traced a few times.

Each arm has its value, slope and curvature written by hand. Where one arm is taken, others have no
value: logarithms and roots of negative numbers, quotients by zero.
"""

import warnings

import numpy as np
import pytest

import fdiff
from fdiff.dispatch import program as programs
from fdiff.dispatch.merged_variants import merge

F4, F8 = np.float32, np.float64
RUNS = [(t, d) for t in ("interpret", "evaluate", "compile", "") for d in (F8, F4)]
RUNS.remove(("evaluate", F4))  # bytecode has no numbers of single precision
OPERATORS = ["value", "grad", "value_and_grad", "jacfwd", "jvp", "hessian"]
CALLS = 160


def piecewise(x):
    r = 0.0
    for i in range(len(x)):
        if x[i] > 2.0:
            r += np.log(x[i] - 2.0) * (i + 1.0)
        elif x[i] > 0.0:
            r += np.sqrt(x[i]) * x[i]
        elif x[i] == 0.0:
            r += 3.0 * x[i]
        else:
            r += 1.0 / x[i] + x[i] ** 2
    return r


def by_hand(x):
    """Value, gradient, diagonal of the Hessian (which has no other entries)."""
    value, slope, curve = 0.0, np.zeros(len(x)), np.zeros(len(x))
    for i, t in enumerate(map(float, x)):
        if t > 2.0:
            own = (np.log(t - 2.0) * (i + 1), (i + 1) / (t - 2.0), -(i + 1) / (t - 2.0) ** 2)
        elif t > 0.0:
            own = (t**1.5, 1.5 * t**0.5, 0.75 * t**-0.5)
        elif t == 0.0:
            own = (0.0, 3.0, 0.0)
        else:
            own = (1.0 / t + t * t, -1.0 / t**2 + 2.0 * t, 2.0 / t**3 + 2.0)
        value, slope[i], curve[i] = value + own[0], own[1], own[2]
    return value, slope, curve


def points(count, dtype):
    """Points of all four arms, ends among them; 16 paths for two entries."""
    rng = np.random.default_rng(5)
    choices = [lambda: rng.uniform(2.5, 4), lambda: rng.uniform(0.2, 1.9)]
    choices += [lambda: 0.0, lambda: rng.uniform(-2, -0.3)]
    return [np.array([choices[k]() for k in rng.integers(0, 4, 2)], dtype) for _ in range(count)]


def prepared(operator, f):
    """The operator's function, and what it must give."""
    if operator == "value":
        return fdiff.jit(f), lambda x: by_hand(x)[:1]
    if operator == "value_and_grad":
        return fdiff.value_and_grad(f), lambda x: by_hand(x)[:2]
    if operator == "hessian":
        return fdiff.hessian(f), lambda x: [np.diag(by_hand(x)[2])]
    if operator == "jvp":
        direction = np.array([1.0, -2.0])
        run = lambda x: fdiff.jvp(f, x, direction.astype(x.dtype))
        return run, lambda x: [by_hand(x)[0], by_hand(x)[1] @ direction]
    return getattr(fdiff, operator)(f), lambda x: by_hand(x)[1:2]


def variants():
    """The traces that are kept, of the function called last."""
    (kept,) = list(programs._programs.values())[-1].variants.values()
    return kept


@pytest.fixture(autouse=True)
def forgotten():
    fdiff.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(("tier", "dtype"), RUNS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_way_is_exact(operator, tier, dtype, monkeypatch):
    if tier:
        monkeypatch.setenv("FDIFF_TIER", tier)
    else:
        monkeypatch.delenv("FDIFF_TIER", raising=False)
    run, want = prepared(operator, lambda x: piecewise(x))
    tolerance = 1e-12 if dtype == np.float64 else 3e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no warning of an arm that is not taken
        for x in points(CALLS, dtype):
            found = run(x)
            found = found if type(found) is tuple else (found,)
            for one, other in zip(found, want(x), strict=True):
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
                assert np.asarray(one).dtype == dtype
    assert any(v.paths for v in variants())


def test_ways_end_as_one_variant_and_are_traced_once_each():
    traced = []
    slope = fdiff.grad(piecewise)
    plain = programs.Program.trace

    def counted(*args, **kwargs):
        traced.append(kwargs.get("eager", False))
        return plain(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs.Program, "trace", counted)
        for x in points(600, np.float64):
            slope(x)
    (kept,) = variants()
    assert len(kept.paths) == 16
    assert len(kept.conditions.inner) == 1  # what the paths have read, compared once
    assert traced.count(False) <= 17  # the first path is traced once more where its kernel rounds
    assert traced.count(True) < 150  # until it was seen that paths recur


def test_a_warning_of_the_way_taken_is_given():
    slope = fdiff.grad(lambda x: np.log(x[0]) if x[1] > 0 else np.sqrt(x[0]) if x[1] < -1 else x[0])
    for k in range(60):
        slope(np.array([1.5, (1.0, -0.5, -2.0)[k % 3]]))
    assert any(v.paths for v in variants())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert slope(np.array([-1.0, -0.5]))[0] == 1.0
    with pytest.warns(RuntimeWarning, match="invalid value"):
        slope(np.array([-1.0, -2.0]))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        slope(np.array([0.0, 1.0]))


SCALE = {"low": 2.0, "high": 3.0}


def scaled(x):
    if x[0] > 1.0:
        return SCALE["high"] * x[1]
    return SCALE["low"] * x[1] if x[0] > 0.0 else x[1]


def test_what_any_way_read_is_compared(monkeypatch):
    slope = fdiff.grad(scaled)
    starts = (2.0, 0.5, -1.0)
    for k in range(90):
        assert slope(np.array([starts[k % 3], 1.0]))[1] == (3.0, 2.0, 1.0)[k % 3]
    assert any(v.paths for v in variants())
    monkeypatch.setitem(SCALE, "low", 5.0)
    for k in range(90):
        assert slope(np.array([starts[k % 3], 1.0]))[1] == (3.0, 5.0, 1.0)[k % 3]


def test_functions_of_one_code_have_their_own_cells():
    def made(factor):
        def f(x):
            return factor * x[0] if x[1] > 0 else x[0] if x[1] > -1 else -factor * x[0]

        return f

    for factor in (2.0, 3.0, 4.0):
        slope = fdiff.grad(made(factor))
        for k in range(60):
            x = np.array([1.0, (1.0, -0.5, -2.0)[k % 3]])
            assert slope(x)[0] == (factor, 1.0, -factor)[k % 3]


@pytest.mark.parametrize(
    "arm",
    [
        lambda x: np.linalg.solve(np.array([[x[0], 0.0], [0.0, 1.0]]), x[:2])[0],
        lambda x: np.sum(np.arange(200.0) * x[0]),
    ],
    ids=["may raise an error", "is large"],
)
def test_what_may_raise_or_is_large_is_not_merged(arm):
    f = lambda x: arm(x) if x[1] > 0 else x[0] if x[1] > -1 else -x[0]
    slope = fdiff.grad(f)
    for k in range(60):
        slope(np.array([1.5, (1.0, -0.5, -2.0)[k % 3]]))
    assert not any(len(v.paths) > 2 for v in variants())
    assert merge([v for v in variants() if v.conditions.guards == 1], f, at_once=True) is None


def test_results_of_other_kinds_stay_apart():
    run = fdiff.jit(lambda x: x[0] if x[1] > 0 else x if x[1] > -1 else (x[0], x))
    for k in range(60):
        found = run(np.array([1.5, (1.0, -0.5, -2.0)[k % 3]]))
        kinds = "scalar", "array", "tuple"
        kind = "tuple" if type(found) is tuple else "array" if np.ndim(found) else "scalar"
        assert kind == kinds[k % 3]
    assert not any(v.paths for v in variants())


def test_functions_of_the_user_are_called_where_plain_code_calls_them():
    called = []

    def root(t):
        called.append(float(t))
        return np.sqrt(t)

    own = fdiff.primitive(root, partials=lambda _, out: (0.5 / out,))
    slope = fdiff.grad(lambda x: own(x[0]) if x[1] > 0 else x[0] if x[1] > -1 else -x[0])
    for k in range(90):
        x = np.array([1.0 + k, (1.0, -0.5, -2.0)[k % 3]])
        np.testing.assert_allclose(slope(x)[0], (0.5 / np.sqrt(1.0 + k), 1.0, -1.0)[k % 3])
    assert {(t - 1.0) % 3 for t in called} == {0.0}
