"""Programs as scientists write them: loops, branches, masks and stores in place, unmodified.

Values are NumPy's; first derivatives, in both modes, are the complex step's; second derivatives
those of extrapolated differences of complex-step gradients (references.py).
"""

import copy
import functools
import os
from dataclasses import dataclass

import numpy as np
import pytest
import references
from user_code import (
    beam,
    binomial_tree,
    convolution,
    dtw,
    ekf_slam,
    euler,
    gray_scott,
    heat,
    hmm,
    kalman,
    kepler,
    lattice_boltzmann,
    lennard_jones,
    levinson,
    nbody,
    pagerank,
    riemann,
    sir,
    truss,
    zernike,
)

import fdiff

FIRST = 1e-12  # relative to the largest entry of a Jacobian: complex steps are right to rounding
SECOND_ORDER = 1e-10  # ... of a Hessian: its reference takes differences


@dataclass(frozen=True)
class Case:
    """A function of a program, its arguments, and which of them is differentiated."""

    function: object
    args: tuple
    argnum: int = 0
    hessian: bool = False
    compiled: bool = False  # its tape compiles within a few seconds
    step: float = 1e-2  # of the differences for second derivatives
    label: str = ""

    @property
    def name(self):
        module = self.function.__module__.rpartition(".")[2]
        of = self.function.__code__.co_varnames[self.argnum]
        return f"{module}-{self.function.__name__}-{of}{self.label}"


# ---------------------------------------------------------------------------------------- inputs


def nbody_cases():
    rng = np.random.default_rng(1)
    pos, vel = rng.normal(size=(4, 3)), 0.3 * rng.normal(size=(4, 3))
    mass = rng.uniform(0.5, 2.0, 4)
    run = (pos, vel, mass, 0.1, 0.02, 3)
    yield Case(nbody.simulate, run, 0)
    yield Case(nbody.simulate, run, 2)
    yield Case(nbody.simulate, run, 3)
    yield Case(nbody.energy, run[:4], 0, hessian=True, compiled=True)
    yield Case(nbody.closest_approach, (mass, pos, vel, 0.1, 0.2, 4), 0, hessian=True)


def lattice_boltzmann_cases():
    rng = np.random.default_rng(2)
    rho = 1.0 + 0.05 * rng.normal(size=(6, 5))
    ux = 0.1 + 0.02 * rng.normal(size=(6, 5))
    obstacle = np.zeros((6, 5), dtype=bool)
    obstacle[2:4, 1:3] = True
    yield Case(lattice_boltzmann.run, (rho, ux, 0.8, obstacle, 3), 1)
    yield Case(lattice_boltzmann.run, (rho, ux, 0.8, obstacle, 3), 2)
    yield Case(lattice_boltzmann.enstrophy, (0.8, rho, ux, obstacle, 4), 0, hessian=True)
    yield Case(lattice_boltzmann.enstrophy, (0.8, rho, ux, obstacle, 2), 2)


def euler_cases():
    n = 8
    x = (np.arange(n) + 0.5) / n
    rho = 1.0 + 0.3 * np.sin(5 * x) + 0.1 * np.cos(11 * x)
    u = 0.4 * np.cos(4 * x + 0.3)
    p = 1.0 + 0.2 * np.sin(7 * x + 1.0)
    p[5:] *= 0.3  # a shock tube's membrane
    yield Case(euler.advance, (rho, u, p, 1 / n, 0.05), 0)
    yield Case(euler.advance, (rho, u, p, 1 / n, 0.05), 2)
    yield Case(euler.advance, (rho, u + 1.7, p, 1 / n, 0.03), 1, label="-supersonic")
    yield Case(euler.rusanov_upwind, (rho, u, p, 1 / n, 0.02, 3), 1, hessian=True, step=2e-3)


def kalman_cases():
    rng = np.random.default_rng(4)
    y = np.cumsum(rng.normal(size=12)) + rng.normal(size=12)
    y[[3, 7, 8]] = np.nan
    noise, x0 = np.array([-0.5, 0.3]), np.array([0.2, -0.1])
    yield Case(kalman.filter, (noise, x0, y, 0.7), 0)
    yield Case(kalman.filter, (noise, x0, y, 0.7), 1)
    yield Case(kalman.log_likelihood, (noise, x0, y, 0.7), 0, hessian=True)
    yield Case(kalman.log_likelihood, (noise, x0, y, 0.7), 3, hessian=True)
    yield Case(kalman.rts_smoother, (noise, x0, y, 0.7), 0)


def hmm_cases():
    rng = np.random.default_rng(5)
    logits, means = rng.normal(size=(3, 3)), np.array([-1.0, 0.4, 2.0])
    args = (logits, means, np.array([-0.2, 0.1, -0.4]), rng.normal(size=6) + 0.5)
    yield Case(hmm.forward, args, 0)
    yield Case(hmm.log_likelihood, args, 0, hessian=True)
    yield Case(hmm.log_likelihood, args, 1, hessian=True)
    yield Case(hmm.log_likelihood, args, 3)
    yield Case(hmm.starting_state, args, 0, hessian=True)
    yield Case(hmm.viterbi_score, args, 2, hessian=True)


def kepler_cases():
    t = np.linspace(0.0, 30.0, 9)
    params = np.array([11.2, 3.4, 0.63, 0.8, 2.1, -0.5])
    v = kepler.radial_velocity(params * 1.03, t) + 0.2 * np.cos(9 * t)
    yield Case(kepler.eccentric_anomaly, (t / 5 - 1.0, 0.63), 0)
    yield Case(kepler.eccentric_anomaly, (t / 5 - 1.0, 0.63), 1)
    yield Case(kepler.radial_velocity, (params, t), 0)
    yield Case(kepler.chi2, (params, t, v, 0.3), 0, hessian=True, step=2e-3)


def gray_scott_cases():
    rng = np.random.default_rng(6)
    U0, V0 = 1 - 0.3 * rng.uniform(size=(5, 6)), 0.4 * rng.uniform(size=(5, 6))
    rates = np.array([0.16, 0.08, 0.035, 0.06])
    yield Case(gray_scott.simulate, (U0, V0, *rates.tolist(), 4), 0)
    yield Case(gray_scott.simulate, (U0, V0, *rates.tolist(), 4), 4)
    yield Case(gray_scott.mismatch, (rates, U0, V0, V0[::-1].copy(), 4), 0, hessian=True)
    yield Case(gray_scott.mismatch, (rates, U0, V0, V0[::-1].copy(), 1), 2, compiled=True)


def slam_cases():
    controls = [(1.0, 0.9), (1.2, 0.0), (0.8, 2.5), (1.0, 2.0)]
    observations = [
        [(0, 2.1, 0.4), (1, 3.0, 2.9)],
        [(0, 1.7, 0.9)],
        [(1, 3.4, 1.2), (0, 2.0, 0.1)],
        [(1, 3.1, 0.3)],
    ]
    start, noise = np.array([0.1, -0.2, 1.5]), np.array([0.02, 0.03, 0.01, 0.1, 0.05])
    yield Case(ekf_slam.run, (start, noise, controls, observations, 2), 0)
    yield Case(ekf_slam.run, (start, noise, controls, observations, 2), 1)
    yield Case(
        ekf_slam.uncertainty, (noise, start, controls, observations, 2), 0, hessian=True, step=2e-3
    )


def zernike_cases():
    rng = np.random.default_rng(8)
    x, y = rng.uniform(-0.8, 0.8, size=(2, 7))
    c = rng.normal(size=21)
    yield Case(zernike.kintner, (5, 1, np.abs(x)), 2)
    yield Case(zernike.wavefront, (c, x, y), 0)
    yield Case(zernike.wavefront, (c, x, y), 1)
    yield Case(zernike.rms, (c, x, y), 2, hessian=True, step=2e-3)


def riemann_cases():
    x = np.linspace(-0.5, 0.5, 9) + 0.013
    tests = {  # Toro, table 4.1
        "-1": ((1.0, 0.0, 1.0), (0.125, 0.0, 0.1), 0.25),
        "-2": ((1.0, -2.0, 0.4), (1.0, 2.0, 0.4), 0.15),
        "-3": ((1.0, 0.0, 1000.0), (1.0, 0.0, 0.01), 0.012),
        "-4": ((1.0, 0.0, 0.01), (1.0, 0.0, 100.0), 0.035),
        "-5": ((5.99924, 19.5975, 460.894), (5.99242, -6.19633, 46.0950), 0.035),
    }
    for label, (left, right, t) in tests.items():
        left, right = np.array(left), np.array(right)  # noqa: PLW2901 - as arrays
        yield Case(riemann.solution, (left, right, x, t), 0, label=label)
        yield Case(riemann.solution, (left, right, x, t), 1, label=label)
    sod = np.concatenate([tests["-1"][0], tests["-1"][1]])
    yield Case(riemann.star_pressure, (sod,), 0, hessian=True, step=2e-3)


def heat_cases():
    n = 8
    x = np.linspace(0, 1, n)
    T, kappa = np.sin(3 * x) + 1, 1 + 0.5 * x**2
    yield Case(heat.crank_nicolson, (T, kappa, 0.1, 0.02, 3), 0)
    yield Case(heat.crank_nicolson, (T, kappa, 0.1, 0.02, 3), 1)
    yield Case(heat.misfit, (kappa, T, x, 0.1, 0.02, 2), 0, hessian=True)
    few = (kappa[:3], T[:3], x[:3], 0.1, 0.02, 1)
    yield Case(heat.misfit, few, 1, compiled=True, label="-few")
    a, b, c, d = np.full(n, -1.0), 2.5 + x, -1.0 + 0.2 * x, np.cos(x)
    for argnum in range(4):  # b and d are the caller's own
        yield Case(heat.thomas, (a, b, c, d), argnum)


def lennard_jones_cases():
    rng = np.random.default_rng(10)
    grid = np.stack(np.meshgrid([0.2, 1.6], [0.3, 1.7], [0.1, 1.5]), -1).reshape(-1, 3)
    pos = grid[:6] + 0.1 * rng.normal(size=(6, 3))
    vel = rng.normal(size=(6, 3))
    yield Case(lennard_jones.forces, (pos, 3.0, 1.6, 1.0, 1.1), 0)
    yield Case(lennard_jones.verlet, (pos, vel, 3.0, 1.6, 1.0, 1.1, 0.01, 3), 1)
    yield Case(lennard_jones.verlet, (pos, vel, 3.0, 1.6, 1.0, 1.1, 0.01, 3), 4)
    potential = np.array([1.0, 1.1])
    yield Case(lennard_jones.pressure, (potential, pos, 3.0, 1.6), 0, hessian=True, step=2e-3)
    yield Case(lennard_jones.pressure, (potential, pos[:4], 3.0, 1.6), 1, hessian=True, step=2e-3)


def binomial_tree_cases():
    market = (36.0, 40.0, 0.06, 0.2, 1.0, 9)
    for argnum in (0, 1, 2, 3, 4):
        yield Case(binomial_tree.price, market, argnum, hessian=argnum == 3, step=1e-3)
    call = (*market, "call", False)
    yield Case(binomial_tree.price, call, 0, label="-call")
    yield Case(binomial_tree.price, call, 4, hessian=True, label="-call")
    yield Case(binomial_tree.price, call, 3, hessian=True, compiled=True, label="-call")
    yield Case(binomial_tree.implied_volatility, (4.0, *market[:3], 1.0, 6), 0)
    yield Case(binomial_tree.implied_volatility, (4.0, *market[:3], 1.0, 6), 1)


def truss_cases():
    nodes = np.array([[0.0, 0.0], [1.0, 0.1], [2.0, 0.0], [0.6, 1.0], [1.5, 0.9]])
    members = [(0, 1), (1, 2), (0, 3), (1, 3), (1, 4), (2, 4), (3, 4), (0, 4)]
    areas = np.array([1.0, 1.1, 0.8, 0.9, 1.2, 0.7, 1.0, 0.6])
    loads = np.zeros(10)
    loads[[7, 9, 8]] = -1.0, -2.0, 0.5
    fixed = [0, 1, 5]
    rest = (members, areas, 10.0, loads, fixed)
    yield Case(truss.solve, (nodes, *rest), 0)
    yield Case(truss.member_forces, (nodes, *rest), 0)
    yield Case(truss.member_forces, (nodes, *rest), 2)
    yield Case(truss.member_forces, (nodes, *rest), 4)
    yield Case(truss.compliance, (areas, nodes, members, 10.0, loads, fixed), 0, hessian=True)
    yield Case(
        truss.compliance, (areas, nodes, members, 10.0, loads, fixed), 1, hessian=True, step=4e-3
    )


def dtw_cases():
    rng = np.random.default_rng(13)
    a, b = np.sin(np.arange(6.0)), np.cos(np.arange(7.0)) + 0.1 * rng.normal(size=7)
    yield Case(dtw.dtw, (a, b, 3), 0, hessian=True)
    yield Case(dtw.dtw, (a, b, 3), 1)
    yield Case(dtw.soft_dtw, (a[:4], b[:4], 0.3), 0, hessian=True)
    yield Case(dtw.soft_dtw, (a[:4], b[:4], 0.3), 2, hessian=True)
    scores = rng.normal(size=(5, 6)) + 0.2
    yield Case(dtw.smith_waterman, (scores, 0.4), 0)
    yield Case(dtw.smith_waterman, (scores, 0.4), 1)


def sir_cases():
    theta = np.array([0.9, 0.4, 0.25, 0.3])
    y0 = np.array([990.0, 6.0, 4.0, 0.0])
    counts = [3, 0, 6, 8, 5, 9, 4]
    yield Case(sir.daily_cases, (theta, y0, 7), 0)
    yield Case(sir.daily_cases, (theta, y0, 7), 1)
    yield Case(sir.deviance, (theta, y0, counts), 0, hessian=True, step=4e-3)


def levinson_cases():
    rng = np.random.default_rng(15)
    x = rng.normal(size=10)
    yield Case(levinson.levinson_durbin, (levinson.autocorrelation(x, 3), 3), 0)
    yield Case(levinson.spectrum, (x, 3, np.linspace(0, 0.5, 5)), 0)
    yield Case(levinson.prediction_error, (x, 3), 0, hessian=True, compiled=True)


def pagerank_cases():
    rng = np.random.default_rng(16)
    weights = rng.uniform(size=(5, 5)) * (rng.uniform(size=(5, 5)) > 0.4)
    weights[3] = 0.0
    yield Case(pagerank.pagerank, (weights + 0.1, 0.6, 1e-7), 0, label="-full")
    yield Case(pagerank.pagerank, (weights, 0.6, 1e-7), 1)
    yield Case(pagerank.entropy, (0.6, weights), 0, hessian=True, step=1e-3)


def convolution_cases():
    rng = np.random.default_rng(17)
    image = rng.uniform(size=(5, 6))
    kernel = np.array([[1.0, 0.2, -1.0], [2.0, 0.1, -2.1], [0.9, 0.0, -1.0]])
    yield Case(convolution.convolve, (image, kernel), 0)
    yield Case(convolution.convolve, (image, kernel), 1)
    yield Case(convolution.edges, (image, kernel), 0)
    args = (np.array([0.3, 0.6]), image, rng.uniform(size=(5, 6)))
    yield Case(convolution.registration, args, 0, hessian=True)
    yield Case(convolution.registration, args, 1)


def beam_cases():
    x = np.linspace(0.0, 2.0, 12)
    loads = ([(1.0, 0.7), (-0.4, 1.5)], [(0.6, 0.3, 1.2)])
    yield Case(beam.bending_moment, (x, 2.0, *loads), 0)
    yield Case(beam.bending_moment, (x, 2.0, *loads), 1)
    yield Case(beam.deflection, (x, 2.0, 3.0, *loads), 2)
    design = np.array([1.0, 0.7, 0.6, 0.3, 3.0])
    yield Case(beam.largest_deflection, (design, x, 2.0), 0, hessian=True, step=4e-3)


BUILDERS = [
    nbody_cases,
    lattice_boltzmann_cases,
    euler_cases,
    kalman_cases,
    hmm_cases,
    kepler_cases,
    gray_scott_cases,
    slam_cases,
    zernike_cases,
    riemann_cases,
    heat_cases,
    lennard_jones_cases,
    binomial_tree_cases,
    truss_cases,
    dtw_cases,
    sir_cases,
    levinson_cases,
    pagerank_cases,
    convolution_cases,
    beam_cases,
]
CASES = [case for build in BUILDERS for case in build()]
SECOND = [case for case in CASES if case.hessian]


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


# --------------------------------------------------------------------------------- what is right


def fresh(case):
    """The arguments, for a program that may overwrite them."""
    return copy.deepcopy(case.args)


@functools.cache
def expected(name):
    case = by_name(name)
    return references.jacobian(case.function, case.args, case.argnum)


@functools.cache
def expected_hessian(name):
    case = by_name(name)
    return references.hessian(case.function, case.args, case.argnum, case.step)


@functools.cache
def by_name(name):
    (found,) = [case for case in CASES if case.name == name]
    return found


def assert_close(found, right, accuracy=FIRST):
    """Equal up to `accuracy` of the largest entry."""
    assert found.shape == right.shape
    assert np.all(np.isfinite(found))
    assert np.max(np.abs(found - right)) <= accuracy * np.max(np.abs(right))


@pytest.mark.skipif("FDIFF_LONG_TESTS" not in os.environ, reason="takes minutes")
@named(CASES)
def test_sparse_derivatives(case):
    """The entries that structure names are those of the dense result, and there are no others."""
    for mode in ("forward", "reverse"):
        settings = {"argnums": case.argnum, "mode": mode}
        found = fdiff.jacobian(case.function, sparse=True, **settings)(*fresh(case))
        right = fdiff.jacobian(case.function, **settings)(*fresh(case))
        for mine, block in zip(parts(found), parts(right), strict=True):
            assert_close(mine.toarray(), np.reshape(block, mine.shape), 1e-10)
    if case.hessian:
        found = fdiff.hessian(case.function, argnums=case.argnum, sparse=True)(*fresh(case))
        right = fdiff.hessian(case.function, argnums=case.argnum)(*fresh(case))
        assert_close(found.toarray(), np.reshape(right, found.shape), 1e-9)


def parts(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def flat_jacobian(found, case):
    """Blocks of a Jacobian one below the other, of shape (outputs, entries of the argument)."""
    size = np.size(case.args[case.argnum])
    return np.concatenate([np.reshape(block, (-1, size)) for block in parts(found)])


def direction(case):
    rng = np.random.default_rng(19)
    v = rng.normal(size=np.shape(case.args[case.argnum]))
    return v if v.ndim else float(v)


def weights_of(outputs):
    rng = np.random.default_rng(20)
    drawn = tuple(rng.normal(size=np.shape(part)) for part in parts(outputs))
    drawn = tuple(w if w.ndim else float(w) for w in drawn)
    return drawn if isinstance(outputs, tuple) else drawn[0]


# ----------------------------------------------------------------------------------------- tests


@pytest.fixture
def tier(request, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", request.param)
    return request.param


def on_tiers(cases):
    """Each case interpreted, and compiled where its tape compiles within seconds."""
    runs = [(case, "interpret") for case in cases]
    runs += [(case, "compile") for case in cases if case.compiled]
    ids = [f"{case.name}-{tier}" for case, tier in runs]
    return pytest.mark.parametrize(("case", "tier"), runs, ids=ids, indirect=["tier"])


@on_tiers(CASES)
def test_forward_mode(case, tier):
    args = fresh(case)
    before = copy.deepcopy(args)
    found = fdiff.jacobian(case.function, argnums=case.argnum, mode="forward")(*args)
    assert_close(flat_jacobian(found, case), expected(case.name))
    for now, then in zip(args, before, strict=True):  # the caller's arrays are the caller's
        np.testing.assert_equal(now, then)


@on_tiers(CASES)
def test_reverse_mode(case, tier):
    found = fdiff.jacobian(case.function, argnums=case.argnum, mode="reverse")(*fresh(case))
    assert_close(flat_jacobian(found, case), expected(case.name))


@on_tiers(CASES)
def test_products_and_values(case, tier):
    """`jvp` and `vjp` give NumPy's own values, and the Jacobian's products."""
    values = case.function(*fresh(case))
    v, w = direction(case), weights_of(values)
    right = {
        fdiff.jvp: expected(case.name) @ np.ravel(v),
        fdiff.vjp: references.flat(w) @ expected(case.name),
    }
    for transform, seed in ((fdiff.jvp, v), (fdiff.vjp, w)):
        args = fresh(case)
        point = args[case.argnum]
        rest = args[: case.argnum] + args[case.argnum + 1 :]
        out, product = transform(case.function, argnums=case.argnum)(point, seed, *rest)
        assert type(out) is type(values)
        for one, other in zip(parts(out), parts(values), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13 * np.max(np.abs(other)))
        assert_close(references.flat(product), right[transform])


@on_tiers(SECOND)
def test_second_derivatives(case, tier):
    found = fdiff.hessian(case.function, argnums=case.argnum)(*fresh(case))
    size = np.size(case.args[case.argnum])
    assert_close(np.reshape(found, (size, size)), expected_hessian(case.name), SECOND_ORDER)


@named(SECOND)
def test_gradients_of_scalar_programs(case, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    value, slope = fdiff.value_and_grad(case.function, argnums=case.argnum)(*fresh(case))
    np.testing.assert_allclose(value, case.function(*fresh(case)), rtol=1e-12)
    assert_close(np.reshape(slope, (1, -1)), expected(case.name))


def scaled(x, rng):
    """Floating arguments some way off, so that branches, masks and iteration counts differ."""
    if isinstance(x, float):
        return x * rng.uniform(0.9, 1.15)
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        return x * rng.uniform(0.9, 1.15, x.shape)
    return x


@on_tiers(CASES)
def test_one_prepared_function_at_three_points(case, tier):
    """Guards: what was recorded where branches went one way is not used where they go another."""
    prepared = fdiff.jacobian(case.function, argnums=case.argnum)
    points = [case.args]
    for seed in (21, 22):
        rng = np.random.default_rng(seed)
        points.append(tuple(scaled(x, rng) for x in case.args))
    rights = [references.jacobian(case.function, args, case.argnum) for args in points]
    for k in (0, 1, 2, 0):
        found = prepared(*copy.deepcopy(points[k]))
        assert_close(flat_jacobian(found, case), rights[k])
