"""The references of test_simulators.py, against differences and against JAX.

The JAX ports are written anew, without a single store. Where there is another way to the same
number the port takes it: dense solves for the Thomas and Levinson recursions, one joint density for
the Kalman filter, the sum over all paths for the hidden Markov model.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
from jax.scipy.special import logsumexp
from test_simulators import (
    CASES,
    SECOND_ORDER,
    assert_close,
    by_name,
    direction,
    expected,
    expected_hessian,
    named,
)

jax.config.update("jax_enable_x64", True)


def nbody_simulate(pos, vel, mass, eps, dt, steps):
    def acceleration(pos):
        d = pos[None] - pos[:, None]
        r2 = jnp.sum(d**2, -1) + eps**2
        return jnp.sum(mass[None, :, None] * d * r2[..., None] ** -1.5, 1)

    for _ in range(steps):
        half = vel + 0.5 * dt * acceleration(pos)
        pos = pos + dt * half
        vel = half + 0.5 * dt * acceleration(pos)
    return pos, vel


def nbody_energy(pos, vel, mass, eps):
    i, j = np.tril_indices(len(mass), -1)
    r = jnp.sqrt(jnp.sum((pos[i] - pos[j]) ** 2, -1) + eps**2)
    return 0.5 * jnp.sum(mass * jnp.sum(vel**2, -1)) - jnp.sum(mass[i] * mass[j] / r)


def lattice_boltzmann_enstrophy(tau, rho, ux, obstacle, steps):
    c = np.array(
        [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)], float
    )
    w = np.array([16, 4, 4, 4, 4, 1, 1, 1, 1]) / 36
    back = [int(np.flatnonzero((c == -one).all(1))[0]) for one in c]

    def equilibrium(rho, u):
        cu = jnp.einsum("id,dxy->ixy", c, u)
        return w[:, None, None] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * jnp.sum(u**2, 0))

    f = equilibrium(rho, jnp.stack([ux, 0 * ux]))
    for _ in range(steps):
        f = jnp.stack(
            [jnp.roll(g, (int(x), int(y)), (0, 1)) for g, (x, y) in zip(f, c, strict=True)]
        )
        rho = f.sum(0)
        u = jnp.where(obstacle, 0.0, jnp.einsum("id,ixy->dxy", c, f) / rho)
        f = jnp.where(obstacle, f[jnp.array(back)], f + (equilibrium(rho, u) - f) / tau)
    curl = (
        jnp.roll(u[0], -1, 1) - jnp.roll(u[0], 1, 1) - jnp.roll(u[1], -1, 0) + jnp.roll(u[1], 1, 0)
    )
    return jnp.mean(jnp.where(obstacle, 0.0, curl) ** 2)


def kalman_log_likelihood(log_noise, x0, y, dt):
    """The observations are jointly normal: no filter at all. The first row of F^k is (1, k dt)."""
    q, r = jnp.exp(log_noise)
    n = len(y)
    t = np.arange(n)
    start = jnp.stack([jnp.ones(n), (t + 1) * dt], 1)
    ahead = jnp.stack([np.ones((n, n)), (t[:, None] - t) * dt], 2) * np.tri(n)[:, :, None]
    Q = q * jnp.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
    S = 2.0 * start @ start.T + jnp.einsum("tui,ij,suj->ts", ahead, Q, ahead) + r * jnp.eye(n)
    seen = np.flatnonzero(~np.isnan(y))
    S, v = S[np.ix_(seen, seen)], y[seen] - (start @ x0)[seen]
    return -0.5 * (v @ jnp.linalg.solve(S, v) + jnp.linalg.slogdet(2 * np.pi * S)[1])


def hmm_log_likelihood(logits, means, log_sigma, obs):
    """Sum over all paths."""
    logA = logits - logsumexp(logits, axis=1, keepdims=True)
    z = (obs[:, None] - means) / jnp.exp(log_sigma)
    logB = -0.5 * z**2 - log_sigma - 0.5 * np.log(2 * np.pi)
    n, k = logB.shape
    paths = np.stack(np.meshgrid(*[np.arange(k)] * n, indexing="ij"), -1).reshape(-1, n)
    score = jnp.sum(logB[np.arange(n), paths], 1) + jnp.sum(logA[paths[:, :-1], paths[:, 1:]], 1)
    return logsumexp(score) - np.log(k)


def kepler_chi2(params, t, v, sigma):
    period, K, e, omega, t0, gamma = params
    M = 2 * np.pi * (t - t0) / period

    def newton(_, E):
        return E - (E - e * jnp.sin(E) - M) / (1 - e * jnp.cos(E))

    E = jax.lax.stop_gradient(jax.lax.fori_loop(0, 40, newton, M + e * jnp.sin(M)))
    E = newton(0, newton(0, E))  # a step from the root gives each order of the derivatives
    c, s = jnp.cos(E), jnp.sin(E)
    cos_f, sin_f = (c - e) / (1 - e * c), jnp.sqrt(1 - e**2) * s / (1 - e * c)
    model = gamma + K * (cos_f * jnp.cos(omega) - sin_f * jnp.sin(omega) + e * jnp.cos(omega))
    return jnp.sum(((v - model) / sigma) ** 2)


def gray_scott_mismatch(rates, U0, V0, target, steps):
    Du, Dv, F, k = rates

    def laplacian(z):
        return sum(jnp.roll(z, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * z

    u, v = U0, V0
    for _ in range(steps):
        eaten = u * v * v
        # v's rate uses the concentrations before the step, as u's does.
        u, v = (
            u + Du * laplacian(u) - eaten + F * (1 - u),
            v + Dv * laplacian(v) + eaten - (F + k) * v,
        )
    return 0.5 * jnp.sum((v - target) ** 2)


def heat_misfit(kappa, T, measured, dx, dt, steps):
    face = 2 * kappa[1:] * kappa[:-1] / (kappa[1:] + kappa[:-1])
    D = np.diff(np.eye(len(T)), axis=0)
    A = (D.T @ (face[:, None] * D) * (0.5 * dt / dx**2)) * np.r_[0.0, np.ones(len(T) - 1)][:, None]
    one = np.eye(len(T))
    for _ in range(steps):
        T = jnp.linalg.solve(one + A, (one - A) @ T)
    return 0.5 * jnp.sum((T - measured) ** 2)


def truss_compliance(areas, nodes, members, E, loads, fixed):
    i, j = np.array(members).T
    d = nodes[j] - nodes[i]
    L = jnp.sqrt(jnp.sum(d**2, 1))
    ends = np.eye(len(nodes))[j] - np.eye(len(nodes))[i]
    B = (ends[:, :, None] * (d / L[:, None])[:, None, :]).reshape(len(areas), -1)
    free = np.setdiff1d(np.arange(len(loads)), fixed)
    K = (B.T @ ((E * areas / L)[:, None] * B))[np.ix_(free, free)]
    return loads[free] @ jnp.linalg.solve(K, loads[free])


def levinson_prediction_error(x, order):
    r = jnp.stack([jnp.sum(x[: len(x) - lag] * x[lag:]) / len(x) for lag in range(order + 1)])
    lags = np.abs(np.subtract.outer(np.arange(order + 1), np.arange(order + 1)))
    R = r[lags]
    return jnp.linalg.slogdet(R)[1] - jnp.linalg.slogdet(R[:-1, :-1])[1]


def sir_deviance(theta, y0, counts):
    beta, sigma, gamma, reduction = theta

    def rate(y, locked):
        S, E, I, _ = y  # noqa: E741 - the infectious
        new = beta * jnp.where(locked, reduction, 1.0) * S * I / y.sum()
        return jnp.stack([-new, new - sigma * E, sigma * E - gamma * I, gamma * I])

    def half_day(y, half):
        # The lockdown begins at day 5: of the step before, its last stage alone is in it.
        first, last = half >= 10, half + 1 >= 10
        k1 = rate(y, first)
        k2 = rate(y + k1 / 4, first)
        k3 = rate(y + k2 / 4, first)
        k4 = rate(y + k3 / 2, last)
        return y + (k1 + 2 * k2 + 2 * k3 + k4) / 12, y[0]

    halves = jnp.arange(2 * len(counts) + 1)
    _, susceptible = jax.lax.scan(half_day, jnp.array(y0), halves)
    mu = -jnp.diff(susceptible[::2])
    n = np.array(counts)
    return 2 * jnp.sum(mu - n + jnp.where(n > 0, n * jnp.log(np.maximum(n, 1) / mu), 0.0))


def riemann_star_pressure(states):
    """Newton's method on Toro's equation 4.5, both waves at once by `where`."""
    d, u, p = states.reshape(2, 3).T
    c = jnp.sqrt(1.4 * p / d)
    star = jnp.mean(p)

    def velocity_jump(star):
        shock = (star - p) * jnp.sqrt((2 / 2.4 / d) / (star + p * 0.4 / 2.4))
        rarefaction = 2 * c / 0.4 * ((star / p) ** (0.4 / 2.8) - 1)
        return jnp.sum(jnp.where(star > p, shock, rarefaction)) + u[1] - u[0]

    def newton(_, star):
        value, slope = jax.value_and_grad(velocity_jump)(star)
        return star - value / slope

    star = jax.lax.stop_gradient(jax.lax.fori_loop(0, 30, newton, star))
    return newton(0, newton(0, star))  # a step from the root gives each order of the derivatives


def binomial_price(S, K, r, sigma, T, n, kind, american):
    """European: the sum over the leaves."""
    assert kind == "call"
    assert not american
    dt = T / n
    u = jnp.exp(sigma * jnp.sqrt(dt))
    p = (jnp.exp(r * dt) - 1 / u) / (u - 1 / u)
    ups = np.arange(n + 1)
    ways = np.cumprod(np.r_[1.0, (n - ups[:-1]) / (ups[:-1] + 1)])
    leaves = jnp.maximum(S * u ** (2.0 * ups - n) - K, 0)
    return jnp.exp(-r * T) * jnp.sum(ways * p**ups * (1 - p) ** (n - ups) * leaves)


def soft_dtw(a, b, temperature):
    D = {(0, 0): 0.0}
    D |= {(0, j): 1e3 for j in range(1, len(b) + 1)} | {(i, 0): 1e3 for i in range(1, len(a) + 1)}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            before = jnp.stack(
                [jnp.asarray(D[k]) for k in ((i - 1, j), (i, j - 1), (i - 1, j - 1))]
            )
            best = -temperature * logsumexp(-before / temperature)
            D[i, j] = (a[i - 1] - b[j - 1]) ** 2 + best
    return D[len(a), len(b)]


PORTS = {
    "nbody-simulate-pos": nbody_simulate,
    "nbody-simulate-mass": nbody_simulate,
    "nbody-simulate-eps": nbody_simulate,
    "nbody-energy-pos": nbody_energy,
    "lattice_boltzmann-enstrophy-tau": lattice_boltzmann_enstrophy,
    "lattice_boltzmann-enstrophy-ux": lattice_boltzmann_enstrophy,
    "kalman-log_likelihood-log_noise": kalman_log_likelihood,
    "kalman-log_likelihood-dt": kalman_log_likelihood,
    "hmm-log_likelihood-logits": hmm_log_likelihood,
    "hmm-log_likelihood-means": hmm_log_likelihood,
    "kepler-chi2-params": kepler_chi2,
    "gray_scott-mismatch-rates": gray_scott_mismatch,
    "gray_scott-mismatch-V0": gray_scott_mismatch,
    "heat-misfit-kappa": heat_misfit,
    "truss-compliance-areas": truss_compliance,
    "truss-compliance-nodes": truss_compliance,
    "levinson-prediction_error-x": levinson_prediction_error,
    "sir-deviance-theta": sir_deviance,
    "riemann-star_pressure-states": riemann_star_pressure,
    "binomial_tree-price-sigma-call": binomial_price,
    "dtw-soft_dtw-a": soft_dtw,
    "dtw-soft_dtw-temperature": soft_dtw,
}


SECOND = {  # compiling a Hessian takes JAX seconds: these share the reference with all others
    "nbody-energy-pos",
    "hmm-log_likelihood-means",
    "kepler-chi2-params",
    "sir-deviance-theta",
    "binomial_tree-price-sigma-call",
}


def compiled(function):
    """Compiled fast rather than into fast code: XLA's fusion of unrolled stencils takes minutes."""
    options = {"xla_backend_optimization_level": 0, "xla_disable_hlo_passes": "fusion"}
    return jax.jit(function, compiler_options=options)


@named(CASES)
def test_complex_step_agrees_with_differences_of_the_untouched_program(case):
    v = direction(case)
    found = references.directional(case.function, case.args, case.argnum, np.asarray(v))
    # A short step, not to cross a kink, costs digits.
    assert_close(found, expected(case.name) @ np.ravel(v), accuracy=1e-7)


@named([case for case in CASES if case.hessian])
def test_second_derivatives_of_the_references_are_symmetric(case):
    found = expected_hessian(case.name)
    assert_close(found, found.T, accuracy=2e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", PORTS)
def test_complex_steps_agree_with_jax(name):
    case = by_name(name)
    port = PORTS[name]

    def of_one(x):
        return port(*case.args[: case.argnum], x, *case.args[case.argnum + 1 :])

    x = case.args[case.argnum]
    value = case.function(*references.copies(case.args))
    np.testing.assert_allclose(references.flat(of_one(x)), references.flat(value), rtol=1e-11)
    if name in SECOND:
        found = np.reshape(compiled(jax.hessian(of_one))(jnp.asarray(x)), (np.size(x), -1))
        assert_close(found, expected_hessian(name), SECOND_ORDER)
    blocks = jax.tree.leaves(compiled(jax.jacobian(of_one))(jnp.asarray(x)))
    found = np.concatenate([np.reshape(block, (-1, np.size(x))) for block in blocks])
    assert_close(found, expected(name), accuracy=1e-11)
