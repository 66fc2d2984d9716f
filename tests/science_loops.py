"""Fifteen kinds of loops that science needs, each a function of three numbers."""

import numpy as np
from scipy.linalg import solve_banded

rng = np.random.default_rng(33)
DATA = rng.normal(size=80)
SAMPLES = rng.normal(size=(45, 3))
OBSERVED = {4, 9, 10, 23, 31, 38, 52, 57}
SIGNALS = [rng.normal(size=3) for _ in range(40)]
MIX = rng.normal(size=(3, 3)) * 0.4


def chain_with_observations(x, n=60):
    c, misfit, count = np.array([1.0, 0.0, 0.0]), 0.0, 0
    for i in range(n):
        fast, slow = x[0] * c[0], x[1] * c[1] * c[1]
        c = c + 0.05 * np.array([-fast, fast - slow, 0.5 * slow])
        if i in OBSERVED:
            count += 1
            misfit = misfit + (c[1] * x[2] - 0.05 * count) ** 2
    return misfit


def embedded_pair_with_control(x, end=1.5):
    def rhs(y):
        return np.array([y[1], -x[0] * y[0] - 0.2 * x[1] * y[1]])

    y, t, h = np.array([1.0 + x[2], 0.0]), 0.0, 0.1
    while t < end - 1e-12:
        k1 = rhs(y)
        k2 = rhs(y + 0.5 * h * k1)
        k3 = rhs(y + 0.75 * h * k2)
        new = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
        k4 = rhs(new)
        error = h * np.max(np.abs(-5 * k1 / 72 + k2 / 12 + k3 / 9 - k4 / 8))
        scale = float(error) / 1e-5
        if scale <= 1:
            y, t = new, t + h
        h = min(end - t, h * min(3.0, max(0.3, 0.9 * (scale + 1e-30) ** (-1 / 3))))
    return y[0] + y[1] ** 2


def relaxation_by_rows(x, sweeps=6, n=14):
    u, b = np.zeros((n + 2, n)), np.outer(np.sin(np.arange(n)), np.cos(np.arange(n)))
    for _ in range(sweeps):
        for i in range(1, n + 1):
            u[i] = 0.25 * x[1] * (u[i - 1] + u[i + 1] + np.roll(u[i], 1) + x[0] * b[i - 1])
    return np.sum(u**2) * x[2]


def sigma_points(x, n=30):
    m, P, ll = np.zeros(2), np.eye(2) * (0.5 + x[0]), 0.0
    for z in DATA[:n]:
        low = np.linalg.cholesky(2 * P)
        X = np.concatenate((m[:, None] + low, m[:, None] - low), axis=1)
        Y = np.stack((X[0] + 0.1 * X[1], X[1] - 0.1 * x[1] * np.sin(X[0])))
        m = np.sum(Y, axis=1) / 4
        D = Y - m[:, None]
        P = D @ D.T / 4 + 0.1 * np.eye(2)
        H = np.sin(Y[0])
        mean = np.sum(H) / 4
        s = np.sum((H - mean) ** 2) / 4 + x[2]
        K = D @ (H - mean) / 4 / s
        m = m + K * (z - mean)
        P = P - np.outer(K, K) * s
        ll = ll - 0.5 * (np.log(s) + (z - mean) ** 2 / s)
    return ll


def hidden_states_in_a_table(x, T=50):
    A = np.exp(np.outer(x, np.array([0.3, -0.2, 0.5])))
    A = A / np.sum(A, axis=1, keepdims=True)
    alpha, scale = np.zeros((T, 3)), np.zeros(T)
    alpha[0] = np.exp(-0.5 * (DATA[0] - x) ** 2) / 3
    scale[0] = np.sum(alpha[0])
    alpha[0] /= scale[0]
    for t in range(1, T):
        alpha[t] = (alpha[t - 1] @ A) * np.exp(-0.5 * (DATA[t] - x) ** 2)
        scale[t] = np.sum(alpha[t])
        alpha[t] /= scale[t]
    return np.sum(np.log(scale))


def populations_of_a_lattice(x, n=16, steps=30):
    tau = 0.7 + 0.5 * x[0]
    rho = 1 + x[1] * 0.1 * np.exp(-(((np.arange(n) - n / 2) / 3) ** 2))
    f = [rho * w for w in (2 / 3, 1 / 6, 1 / 6)]
    for _ in range(steps):
        rho = f[0] + f[1] + f[2]
        u = (f[1] - f[2]) / rho
        for k, (w, c) in enumerate(((2 / 3, 0), (1 / 6, 1), (1 / 6, -1))):
            f[k] = f[k] - (f[k] - w * rho * (1 + 3 * c * u + 4.5 * (c * u) ** 2)) / tau
        f[1], f[2] = np.roll(f[1], 1), np.roll(f[2], -1)
    return np.sum((f[1] - f[2]) ** 2) * 100 * x[2]


class Stars:
    def __init__(self, mass):
        self.mass, self.t, self.log = mass, 0.0, []
        self.pos = np.array([[0.0, 0.2], [1.0, 0.1], [0.3, 1.1]])
        self.vel = np.zeros((3, 2))
        self.acc = self.forces()

    def forces(self):
        d = self.pos[None, :, :] - self.pos[:, None, :]
        r2 = np.sum(d**2, axis=2) + 0.2
        return np.sum(self.mass[None, :, None] * d / r2[:, :, None] ** 1.5, axis=1)

    def step(self, dt):
        self.vel = self.vel + 0.5 * dt * self.acc
        self.pos = self.pos + dt * self.vel
        self.acc = self.forces()
        self.vel = self.vel + 0.5 * dt * self.acc
        self.t += dt


def stars_with_a_log(x, steps=40):
    stars = Stars(x)
    for k in range(steps):
        stars.step(0.03)
        if k % 10 == 0:
            stars.log.append(np.sum(stars.pos**2))
    return sum(stars.log) + np.sum(stars.vel**2)


def crank_nicolson(x, n=10, steps=20):
    u, a, ab = np.sin(np.linspace(0, 3, n)) * x[0], x[1] * 0.3, np.zeros((3, n))
    ab[0, 1:], ab[1], ab[2, :-1] = -a, 1 + 2 * a, -a
    for _ in range(steps):
        right = u + a * (np.concatenate((u[1:], [0.0])) - 2 * u + np.concatenate(([0.0], u[:-1])))
        u = solve_banded((1, 1), ab, right) + 0.01 * x[2]
    return np.sum(u**2)


def newton_in_each_step(x, steps=20):
    y, h = np.array([1.0, 0.5]), 0.1
    for _ in range(steps):
        z, trips = y, 0
        while trips < 15:
            F = (
                z
                - y
                - h * np.array([x[1] * z[1] ** 2 - x[0] * z[0], x[0] * z[0] - x[2] * z[1] ** 3])
            )
            if np.max(np.abs(F)) < 1e-13:
                break
            J = np.array(
                [[1 + h * x[0], -2 * h * x[1] * z[1]], [-h * x[0], 1 + 3 * h * x[2] * z[1] ** 2]]
            )
            z, trips = z - np.linalg.solve(J, F), trips + 1
        y = z
    return np.sum(y**2)


def consumption_and_saving(x, n=12, T=40):
    grid, V = np.linspace(0.1, 2.0, n), np.zeros(n)
    spent = np.maximum(grid[:, None] * 1.05 + x[0] - grid[None, :], 1e-3)
    for _ in range(T):
        V = np.max(np.log(spent) * x[1] + 0.9 * V[None, :], axis=1)
    return np.mean(V) * x[2]


def network_over_a_list(x):
    h, outs = np.zeros(3), []
    for z in SIGNALS:
        h = np.tanh((MIX * x[0]) @ h + x * z)
        outs.append(h)
    return np.sum(np.stack(outs) ** 2)


def running_moments(x):
    m, s, n = 0.0, 0.0, 0
    for z in SAMPLES:
        n = n + 1
        density = -0.5 * np.sum((z - x) ** 2) * np.exp(x[2]) + 1.5 * x[2]
        d = density - m
        m = m + d / n
        s = s + d * (density - m)
    return m + 0.1 * s


def lyapunov_exponent(x, steps=40):
    Q, total, z = np.eye(2), 0.0, np.array([0.1, 0.2])
    for _ in range(steps):
        z = np.array([1 - (0.3 + 0.2 * x[0]) * z[0] ** 2 + z[1], 0.3 * x[1] * z[0]])
        J = np.array([[-2 * (0.3 + 0.2 * x[0]) * z[0], 1.0], [0.3 * x[1], 0.0]])
        Q = J @ Q
        size = np.sqrt(np.sum(Q[:, 0] ** 2))
        Q, total = Q / size, total + np.log(size)
    return total / steps * x[2]


def option_tree(x, n=30):
    dt = 1 / n
    u = np.exp((0.2 + x[1]) * np.sqrt(dt))
    q = (np.exp(0.05 * x[2] * dt) - 1 / u) / (u - 1 / u)
    S = x[0] * u ** np.arange(-n, n + 1, 2.0)
    V = np.maximum(0.72 - S, 0)
    for _ in range(n - 1, -1, -1):
        V = np.exp(-0.05 * x[2] * dt) * (q * V[1:] + (1 - q) * V[:-1])
        S = S[1:] / u
        V = np.maximum(V, 0.72 - S)
    return V[0]


def two_step_waves(x, steps=40):
    before = now = np.sin(np.linspace(0, 6.28, 20)) * x[0]
    energy = 0.0
    for _ in range(steps):
        lap = np.roll(now, 1) - 2 * now + np.roll(now, -1)
        before, now = now, 2 * now - before + (0.3 * x[1]) ** 2 * lap
        energy = energy + np.sum(now**2) / steps
    return energy * x[2]
