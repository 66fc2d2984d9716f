"""Thirty programs with loops in the style of public code, each a function of three numbers.

Time stepping, filters, lattice models, queues, epidemics, dynamic programming, bodies that attract
one another, recurrent networks over lists, adaptive steps.
"""

import numpy as np

rng = np.random.default_rng(12)
NOISE = rng.normal(size=60)
ROWS = rng.normal(size=(50, 4))
WEIGHTS = rng.normal(size=(4, 4)) * 0.4
INPUTS = [rng.normal(size=4) for _ in range(40)]


# --- time stepping --------------------------------------------------------------------------------


def pendulum_euler(x, steps=60):
    theta, omega, dt = x[0], x[1], 0.05
    for _ in range(steps):
        theta, omega = theta + dt * omega, omega - dt * (9.81 * x[2] * np.sin(theta) + 0.1 * omega)
    return theta**2 + omega**2


def van_der_pol_rk4(x, steps=40):
    def rhs(t, y):
        return np.array([y[1], x[0] * (1 - y[0] ** 2) * y[1] - y[0] + 0.1 * np.cos(t)])

    y, t, h = np.array([x[1], x[2]]), 0.0, 0.05
    for _ in range(steps):
        k1 = rhs(t, y)
        k2 = rhs(t + h / 2, y + h / 2 * k1)
        k3 = rhs(t + h / 2, y + h / 2 * k2)
        k4 = rhs(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t += h
    return np.sum(y**2)


def leapfrog_with_trajectory(x, steps=50):
    q, p, dt = x[0], x[1], 0.1
    path = []
    for _ in range(steps):
        p = p - 0.5 * dt * x[2] * q
        q = q + dt * p
        p = p - 0.5 * dt * x[2] * q
        path.append((q, p))
    return sum(a * a for a, _ in path) / steps + path[-1][1]


def adams_bashforth(x, steps=40):
    f = lambda y: x[0] * y * (1 - y / (1 + x[1]))
    y, h = [0.1 + 0 * x[2], 0.1 + 0.1 * x[2]], 0.1
    for k in range(1, steps):
        y.append(y[k] + h * (1.5 * f(y[k]) - 0.5 * f(y[k - 1])))
    return y[-1] + y[10]


def heat_explicit(x, steps=40):
    u = np.sin(np.linspace(0, np.pi, 16)) * x[0]
    for _ in range(steps):
        u[1:-1] = u[1:-1] + 0.2 * x[1] * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0], u[-1] = x[2] * 0.1, 0.0
    return np.sum(u**2)


def advection_upwind(x, steps=40):
    u = np.exp(-((np.arange(20) - 6.0) ** 2) * 0.2) * x[0]
    c = 0.5 * x[1]
    for _ in range(steps):
        new = u.copy()
        for_inner = u[1:] - u[:-1]
        new[1:] = u[1:] - c * for_inner
        new[0] = x[2] * 0.01
        u = new
    return np.sum(u * np.arange(20)) / np.sum(u)


def adaptive_euler(x):
    t, y, h, steps = 0.0, x[0], 0.1, 0
    while t < 2.0:
        full = y + h * (-x[1] * y + np.sin(t))
        half = y + 0.5 * h * (-x[1] * y + np.sin(t))
        two = half + 0.5 * h * (-x[1] * half + np.sin(t + 0.5 * h))
        if abs(two - full) < 1e-3 or h < 1e-3:
            t, y, steps = t + h, two, steps + 1
            h = min(h * 1.4, 0.25, max(2.0 - t, 1e-9))
        else:
            h = 0.5 * h
    return y + 0.01 * x[2] * steps


def stiff_implicit_euler(x, steps=25):
    y, h = np.array([x[0], x[1]]), 0.1
    A = np.array([[-5.0, 1.0], [2.0, -1.0]]) * x[2]
    for k in range(steps):
        y = np.linalg.solve(np.eye(2) - h * A, y + h * np.array([np.sin(0.1 * k), 0.2]))
    return np.sum(y)


# --- filters and statistics -----------------------------------------------------------------------


def kalman_in_place(x, n=50):
    F, H = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    m, P, nll = np.zeros(2), np.eye(2), 0.0
    Q, R = np.exp(x[0]) * 0.1 * np.eye(2), np.array([[np.exp(x[1])]])
    for k in range(n):
        m[:] = F @ m
        P[:] = F @ P @ F.T + Q
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        r = NOISE[k] * x[2] - H @ m
        m += K @ r
        P -= K @ H @ P
        nll += 0.5 * (np.log(S[0, 0]) + r[0] ** 2 / S[0, 0])
    return nll


def ewma_and_volatility(x, n=60):
    mu, var, out = 0.0, 1.0, np.zeros(n)
    a, b = 0.1 + 0.2 * x[0], 0.8 * x[1]
    for t in range(n):
        r = NOISE[t] - mu
        var = a * r**2 + b * var + 0.05 * x[2]
        mu = 0.95 * mu + 0.05 * NOISE[t]
        out[t] = 0.5 * (np.log(var) + r**2 / var)
    return np.mean(out)


def arma_residuals(x, n=60):
    e = np.zeros(n)
    for t in range(n):
        e[t] = NOISE[t] - x[2] * 0.1
        if t >= 1:
            e[t] -= x[0] * NOISE[t - 1] * 0.5 + x[1] * 0.4 * e[t - 1]
    return np.sum(e**2)


def exponential_smoothing_season(x, period=4, n=48):
    level, trend, season = 0.0, 0.0, [0.1, -0.1, 0.2, -0.2]
    sse = 0.0
    for t in range(n):
        s = season[t % period]
        err = NOISE[t] - (level + trend + s)
        old = level
        level = x[0] * (NOISE[t] - s) + (1 - x[0]) * (level + trend)
        trend = x[1] * (level - old) + (1 - x[1]) * trend
        season[t % period] = x[2] * (NOISE[t] - level) + (1 - x[2]) * s
        sse = sse + err**2
    return sse


def filter_with_gaps(x, n=50):
    m, v, ll = 0.0, 1.0, 0.0
    for t in range(n):
        v = v + x[0]
        if t % 9 != 4:
            gain = v / (v + x[1])
            ll = ll - 0.5 * np.log(v + x[1]) - 0.5 * (NOISE[t] - m) ** 2 / (v + x[1])
            m = m + gain * (NOISE[t] - m)
            v = (1 - gain) * v
    return ll * x[2]


def particles_of_a_filter(x, n=30):
    z, logw = ROWS[:, 0][:12] * x[0], np.zeros(12)
    for t in range(n):
        z = np.tanh(x[1] * z) + 0.3 * np.roll(ROWS[:, 1][:12], t)
        logw = logw - 0.5 * (NOISE[t] - z) ** 2 * x[2]
        logw = logw - np.log(np.sum(np.exp(logw)))
    return np.sum(np.exp(logw) * z)


def online_regression(x, n=50):
    w, P = np.zeros(4), np.eye(4) * (1 + x[0])
    for row, y in zip(ROWS, NOISE, strict=False):
        g = P @ row / (x[1] + row @ P @ row)
        w = w + g * (y * x[2] - w @ row)
        P = (P - np.outer(g, row @ P)) / (0.9 + 0.1 * x[1])
    return np.sum(w**2)


# --- lattice models, epidemics, queues ------------------------------------------------------------


def ising_mean_field(x, sweeps=6, n=15):
    m = np.full(n, 0.1) * x[0]
    for _ in range(sweeps):
        for i in range(n):
            m[i] = np.tanh(x[1] * (m[(i - 1) % n] + m[(i + 1) % n]) + 0.1 * x[2])
    return np.sum(m) / n


def coupled_map_lattice(x, steps=30):
    u = 0.5 + 0.1 * np.sin(np.arange(12)) * x[0]
    eps = 0.2 * x[1]
    for _ in range(steps):
        f = (2.8 + 0.2 * x[2]) * u * (1 - u)
        u = (1 - eps) * f + 0.5 * eps * (np.roll(f, 1) + np.roll(f, -1))
    return np.sum(u**2)


def sir_with_interventions(x, days=60):
    s, i, r, peak = 0.99, 0.01, 0.0, 0.0
    policy = {20: 0.5, 40: 0.8}
    beta = 0.6 * x[0] + 0.3
    for day in range(days):
        if day in policy:
            beta = beta * policy[day]
        new, out = beta * s * i, (0.1 + 0.1 * x[1]) * i
        s, i, r = s - new, i + new - out, r + out
        peak = peak + i**2
    return peak * x[2] + r


class Compartments:
    def __init__(self, rates):
        self.rates, self.state, self.day = rates, [0.97, 0.02, 0.01, 0.0], 0
        self.history = {"infected": []}

    def flows(self):
        s, e, i, _ = self.state
        return self.rates[0] * s * i, self.rates[1] * e, self.rates[2] * i

    def advance(self):
        a, b, c = self.flows()
        s, e, i, r = self.state
        self.state = [s - a, e + a - b, i + b - c, r + c]
        self.day += 1
        self.history["infected"].append(self.state[2])


def seir_class(x, days=45):
    model = Compartments(0.3 * x + 0.1)
    for _ in range(days):
        model.advance()
    return np.sum(np.stack(model.history["infected"]) ** 2) * 100 + model.state[3]


def waiting_times(x, customers=60):
    wait, total = 0.0, 0.0
    for k in range(customers):
        service, gap = x[0] * (1 + 0.3 * NOISE[k]), 0.4 * x[1] + 0.2 * (k % 3)
        wait = np.maximum(wait + service - gap, 0.0)
        total = total + wait
    return total * x[2] / customers


def tandem_queue(x, jobs=40):
    free = np.zeros(3)
    for j in range(jobs):
        ready = 0.3 * j * x[0]
        for k in range(3):
            start = np.maximum(ready, free[k])
            ready = start + x[k] * (0.4 + 0.01 * (j % 5))
            free[k] = ready
    return free[2] * 0.1


def predator_prey_grid(x, steps=20):
    prey, hunters = np.full((4, 4), 0.5), np.full((4, 4), 0.2)
    prey[1, 2] = x[0]
    for _ in range(steps):
        spread = np.roll(prey, 1, axis=0) + np.roll(prey, -1, axis=1) - 2 * prey
        eaten = x[1] * prey * hunters
        prey = prey + 0.1 * (prey - eaten + 0.3 * spread)
        hunters = hunters + 0.1 * (0.5 * eaten - x[2] * hunters)
    return np.sum(prey * hunters)


# --- dynamic programming --------------------------------------------------------------------------


def soft_edit_distance(x, n=12, m=13):
    D = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        D[i, 0] = D[i - 1, 0] + x[0]
    for j in range(1, m + 1):
        D[0, j] = D[0, j - 1] + x[1]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = x[2] * abs(NOISE[i] - NOISE[j + 20])
            D[i, j] = cost - np.log(
                np.exp(-D[i - 1, j] - x[0]) + np.exp(-D[i, j - 1] - x[1]) + np.exp(-D[i - 1, j - 1])
            )
    return D[n, m]


def forward_algorithm(x, n=40):
    A = np.array([[0.9, 0.1], [0.2, 0.8]])
    alpha, ll = np.array([0.5, 0.5]), 0.0
    means = np.array([x[0], -x[1]])
    for t in range(n):
        b = np.exp(-0.5 * (NOISE[t] - means) ** 2 * (0.5 + x[2]))
        alpha = b * (alpha @ A)
        c = np.sum(alpha)
        ll, alpha = ll + np.log(c), alpha / c
    return ll


def bellman_with_table(x, T=30, n=8):
    V = np.zeros((T + 1, n))
    V[T] = x[0] * np.sqrt(np.arange(1.0, n + 1))
    for t in range(T - 1, -1, -1):
        stay, move = 0.9 * V[t + 1] + x[1], 0.95 * np.roll(V[t + 1], 1) + x[2] * 0.5
        V[t] = np.log(np.exp(stay) + np.exp(move)) - 0.3
    return np.mean(V[0])


def american_option(x, n=30):
    dt = 1.0 / n
    up, r = np.exp((0.2 + 0.1 * x[0]) * np.sqrt(dt)), 0.03 * x[1]
    q = (np.exp(r * dt) - 1 / up) / (up - 1 / up)
    price = (1 + 0.1 * x[2]) * up ** np.arange(-n, n + 1, 2.0)
    value = np.maximum(1.08 - price, 0.0)
    for _ in range(n):
        value = np.exp(-r * dt) * (q * value[1:] + (1 - q) * value[:-1])
        price = price[1:] / up
        value = np.maximum(value, 1.08 - price)
    return value[0]


# --- bodies, networks, iterations -----------------------------------------------------------------


class Bodies:
    def __init__(self, masses):
        self.m, self.log, self.time = masses, [], 0.0
        self.q = np.array([[0.0, 0.1], [1.0, 0.0], [0.0, 1.3]])
        self.v = np.array([[0.1, 0.0], [0.0, 0.4], [-0.4, 0.0]])

    def acceleration(self):
        a = np.zeros((3, 2))
        for i in range(3):
            for j in range(3):
                if i != j:
                    d = self.q[j] - self.q[i]
                    a[i] += self.m[j] * d / (d @ d + 0.1) ** 1.5
        return a

    def step(self, dt):
        self.v += 0.5 * dt * self.acceleration()
        self.q += dt * self.v
        self.v += 0.5 * dt * self.acceleration()
        self.time += dt


def planets(x, steps=20):
    bodies = Bodies(x)
    for k in range(steps):
        bodies.step(0.05)
        if k % 5 == 0:
            bodies.log.append(0.5 * np.sum(bodies.v**2))
    return sum(bodies.log) + np.sum(bodies.q**2)


def recurrent_network(x):
    h, outs = np.zeros(4), []
    W = WEIGHTS * x[0]
    for z in INPUTS:
        h = np.tanh(W @ h + x[1] * z + 0.1 * x[2])
        outs.append(h)
    return np.mean(np.stack(outs) ** 2)


def gated_network(x):
    h, c = np.zeros(4), np.zeros(4)
    loss = 0.0
    sigmoid = lambda z: 1 / (1 + np.exp(-z))
    for t, z in enumerate(INPUTS[:-1]):
        gates = WEIGHTS @ (z * x[0]) + x[1] * h
        c = sigmoid(gates) * c + sigmoid(-gates) * np.tanh(z + x[2])
        h = sigmoid(h + z) * np.tanh(c)
        loss = loss + np.sum((h - INPUTS[t + 1]) ** 2)
    return loss / len(INPUTS)


def power_iteration(x, steps=30):
    A = WEIGHTS @ WEIGHTS.T + np.diag([1.0, 0.5, 0.2, 0.1]) * x[0]
    v = np.ones(4) + x[1] * np.arange(4)
    for _ in range(steps):
        v = A @ v
        v = v / np.linalg.norm(v)
    return v @ A @ v + x[2] * v[0]


def gradient_descent_with_momentum(x, steps=40):
    w, velocity = np.array([1.0, -1.0]), np.zeros(2)
    for k in range(steps):
        g = np.array([2 * w[0] * x[0] + w[1], 4 * w[1] * x[1] + w[0]]) / (1 + 0.1 * k)
        velocity *= 0.5
        velocity -= 0.1 * x[2] * g
        w = w + velocity
    return np.sum(w**2)
