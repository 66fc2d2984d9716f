"""ADBench's hand tracking, as users wrote it, against the Jacobians ADBench publishes."""

import json
from pathlib import Path

import numpy as np
import pytest
import references
from user_code import hand, loaders

import fdiff

# The loader leaves the closing of its files to the collector, and stays unmodified.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

ADBENCH = Path(__file__).parents[1] / "data" / "adbench"
PUBLISHED = json.loads((ADBENCH / "expected_published.json").read_text())["hand"]
ACCEPTED = 1e-8  # relative to the larger of the value and 1: what ADBench itself accepts
ACCURACY = 1e-12  # against the complex step, relative to the largest entry

MODEL = ("parents", "base_rel", "inv_abs", "base_pos", "weights")


def problem(file, *, complicated):
    """The objective, its arguments, and which of them are differentiated."""
    d = loaders.read_hand(ADBENCH / "hand" / "model", ADBENCH / "hand" / file, complicated)
    if complicated:
        names = ("us", "theta", *MODEL, "triangles", "corr", "points")
        return hand.objective_complicated, [d[k] for k in names], (0, 1)
    names = ("theta", *MODEL, "corr", "points")
    return hand.objective_simple, [d[k] for k in names], (0,)


def published(kind, what):
    objective = f"{kind}_objective_calculation_correctness.expected_objective"
    slope = f"{kind}_jacobian_calculation_correctness.expected_jacobian"
    return np.array(PUBLISHED[objective if what == "objective" else slope], dtype=float)


def as_adbench(blocks):
    """Columns of a Jacobian: a point's own two barycentric coordinates, then the pose.

    Residuals of other points do not depend on them.
    """
    *by_us, by_theta = blocks
    if not by_us:
        return by_theta
    (by_us,) = by_us
    rows = np.arange(len(by_us))
    own = by_us[rows, rows // 3]
    others = by_us.copy()
    others[rows, rows // 3] = 0.0
    assert not others.any()
    return np.concatenate([own, by_theta], axis=1)


def assert_published(found, right):
    assert found.shape == right.shape
    assert np.max(np.abs(found - right) / np.maximum(np.abs(right), 1.0)) < ACCEPTED


CASES = [("simple", "test.txt"), ("complicated", "hand_complicated_test.txt")]
kinds = pytest.mark.parametrize(("kind", "file"), CASES, ids=["simple", "complicated"])
modes = pytest.mark.parametrize("mode", ["forward", "reverse"])


@kinds
def test_the_program_gives_the_published_residuals(kind, file):
    objective, args, _ = problem(file, complicated=kind == "complicated")
    assert_published(objective(*args), published(kind, "objective"))


@kinds
def test_the_complex_step_gives_the_published_jacobian(kind, file):
    objective, args, argnums = problem(file, complicated=kind == "complicated")
    blocks = [references.jacobian(objective, args, k) for k in argnums]
    blocks = [b.reshape(len(b), *args[k].shape) for b, k in zip(blocks, argnums, strict=True)]
    assert_published(as_adbench(blocks), published(kind, "jacobian"))


@modes
@kinds
def test_jacobians_are_the_published_ones(kind, file, mode, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    objective, args, argnums = problem(file, complicated=kind == "complicated")
    blocks = fdiff.jacobian(objective, argnums=argnums, mode=mode)(*args)
    assert_published(as_adbench(blocks), published(kind, "jacobian"))


@kinds
def test_products_and_values(kind, file, monkeypatch, rng):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    objective, args, argnums = problem(file, complicated=kind == "complicated")
    k = len(argnums)
    point = tuple(args[:k])
    of_point = lambda *x: objective(*x, *args[k:])
    right = published(kind, "jacobian")
    v = tuple(rng.normal(size=x.shape) for x in point)
    value, pushed = fdiff.jvp(of_point, point, v)
    assert_published(value, published(kind, "objective"))
    expected = right[:, -26:] @ v[-1]
    if k == 2:
        expected = expected + np.sum(right[:, :2] * np.repeat(v[0], 3, axis=0), axis=1)
    assert_published(pushed, expected)
    w = rng.normal(size=value.shape)
    value, pulled = fdiff.vjp(of_point, point, w)
    assert_published(value, published(kind, "objective"))
    assert_published(pulled[-1], w @ right[:, -26:])
    if k == 2:
        assert_published(pulled[0], (w[:, None] * right[:, :2]).reshape(-1, 3, 2).sum(axis=1))


@pytest.mark.slow
@modes
@pytest.mark.parametrize("kind", ["simple", "complicated"])
def test_jacobian_of_192_correspondences(kind, mode, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    file = f"{kind}_small/hand2_t26_c192.txt"
    objective, args, argnums = problem(file, complicated=kind == "complicated")
    blocks = fdiff.jacobian(objective, argnums=argnums, mode=mode)(*args)
    theta = argnums[-1]
    right = references.jacobian(objective, args, theta)
    assert np.max(np.abs(blocks[-1] - right)) <= ACCURACY * np.max(np.abs(right))
    assert as_adbench(blocks).shape == (576, 26 + 2 * (kind == "complicated"))


@pytest.mark.slow
def test_second_derivatives_of_the_sum_of_squares(monkeypatch, rng):
    """Gauss-Newton leaves out half of this; the reference differences complex-step Jacobians."""
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    objective, (theta, *rest), _ = problem("test.txt", complicated=False)
    v = rng.normal(size=theta.shape)

    def slope(theta):
        return objective(theta, *rest) @ references.jacobian(objective, [theta, *rest], 0)

    found = fdiff.hvp(lambda theta: 0.5 * np.sum(objective(theta, *rest) ** 2))(theta, v)
    right = references.extrapolated(lambda t: slope(theta + t * v), 1e-2)
    assert np.max(np.abs(found - right)) <= 1e-10 * np.max(np.abs(right))
