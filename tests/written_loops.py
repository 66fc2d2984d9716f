"""Thirty programs more with loops in the style of public code: functions of three numbers.

They were written without a look at the others.
"""

import numpy as np

rng = np.random.default_rng(77)
DATA = rng.normal(size=48)
TABLE = rng.uniform(0.1, 1.0, size=(20, 5))
KERNEL = rng.normal(size=(5, 5)) * 0.3
EVENTS = [(k, 0.1 * k) for k in range(0, 40, 7)]


def stormer_verlet(x, steps=40):
    pos, old, dt = x[0], x[0] - 0.02 * x[1], 0.02
    for _ in range(steps):
        new = 2 * pos - old - dt * dt * np.sin(pos) * x[2]
        old, pos = pos, new
    return pos + 0.5 * (pos - old) / dt


def exponential_smoothing_with_trend(x):
    level, trend, loss = DATA[0], 0.0, 0.0
    for y in DATA[1:]:
        error = y - level - trend
        loss += error**2
        before = level
        level = level + trend + x[0] * error
        trend = trend + x[1] * (level - before - trend) * x[2]
    return loss / len(DATA)


def garch(x):
    variance, total = 1.0 + 0 * x[0], 0.0
    for r in DATA:
        total = total + 0.5 * (np.log(variance) + r**2 / variance)
        variance = 0.1 * x[0] + 0.2 * x[1] * r**2 + 0.7 * x[2] * variance
    return total


def alpha_beta_filter(x):
    pos, vel, dt, out = 0.0, 0.0, 0.1, np.zeros(len(DATA))
    for k in range(len(DATA)):
        pos = pos + dt * vel
        residual = DATA[k] - pos
        pos = pos + x[0] * residual
        vel = vel + x[1] / dt * residual * 0.1
        out[k] = pos
    return np.sum(out**2) * x[2]


def square_root_information(x):
    P, q = np.eye(2) * x[0], np.array([[0.01, 0.0], [0.0, 0.02]]) * x[1]
    A = np.array([[1.0, 0.1], [-0.1, 0.95]])
    trace = 0.0
    for _ in range(30):
        P = A @ P @ A.T + q
        s = P[0, 0] + x[2]
        k = P[:, 0] / s
        P = P - np.outer(k, P[0])
        trace += P[0, 0] + P[1, 1]
    return trace


def wave_on_a_string(x, steps=40):
    u = np.sin(np.linspace(0.0, 3.0, 12)) * x[0]
    v = np.zeros(12)
    for _ in range(steps):
        acc = np.zeros(12)
        acc[1:-1] = x[1] * (u[2:] - 2 * u[1:-1] + u[:-2])
        v += 0.1 * (acc - 0.1 * x[2] * v)
        u = u + 0.1 * v
    return np.sum(u**2)


def ising_mean_field(x, sweeps=30):
    m = np.full(5, 0.1)
    J = KERNEL + KERNEL.T
    for _ in range(sweeps):
        m = 0.5 * m + 0.5 * np.tanh(x[0] * (J @ m) + x[1])
    return np.sum(m) * x[2]


def coupled_map_lattice(x, steps=30):
    s = np.linspace(0.2, 0.7, 10) * x[0]
    for _ in range(steps):
        f = (1.5 + x[1]) * s * (1 - s)
        s = (1 - 0.3 * x[2]) * f + 0.15 * x[2] * (np.roll(f, 1) + np.roll(f, -1))
    return np.mean(s)


def queue_with_two_servers(x):
    free = np.zeros(2)
    clock, waited = 0.0, 0.0
    for k in range(40):
        clock = clock + x[0] * (0.6 + 0.3 * np.sin(k))
        first = np.minimum(free[0], free[1])
        second = np.maximum(free[0], free[1])
        start = np.maximum(first, clock)
        waited = waited + start - clock
        free = np.stack([second, start + x[1] * (1.1 + 0.2 * np.cos(3 * k))])
    return waited * x[2]


def age_structured_population(x, years=35):
    n = np.array([10.0, 8.0, 5.0])
    births = np.array([0.0, 1.2, 0.8]) * x[0]
    log = []
    for _ in range(years):
        new = births @ n / (1 + 0.01 * np.sum(n))
        n = np.stack([new, x[1] * n[0], 0.7 * x[2] * n[1] + 0.2 * n[2]])
        log.append(np.sum(n))
    return np.log(log[-1]) + 0.01 * log[3]


def epidemic_with_delay(x, days=40):
    s, infected, delay = 0.99, 0.01, 3
    new = [0.01 + 0 * x[0]] * delay
    for _ in range(days):
        cases = x[0] * s * infected
        s = s - cases
        infected = infected + cases - x[1] * new[-delay]
        new.append(cases)
    return infected + x[2] * sum(new[-5:])


def edit_cost(x, n=7, m=6):
    cost = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        cost[i, 0] = i * x[0]
    for j in range(1, m + 1):
        cost[0, j] = j * x[1]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            change = cost[i - 1, j - 1] + x[2] * abs(DATA[i] - DATA[j + 9])
            cost[i, j] = min(cost[i - 1, j] + x[0], cost[i, j - 1] + x[1], change)
    return cost[n, m]


def soft_shortest_path(x):
    reach = np.zeros(5)
    for row in TABLE:
        step = row[:, None] * x[0] + reach[None, :] * x[1]
        low = np.sum(step, axis=1)
        reach = -np.log(np.sum(np.exp(-step), axis=1)) + 0.1 * low * x[2]
    return np.sum(reach)


class Body:
    def __init__(self, mass, position, velocity):
        self.mass, self.position, self.velocity = mass, position, velocity
        self.log = []

    def move(self, force, dt):
        self.velocity = self.velocity + dt * force / self.mass
        self.position = self.position + dt * self.velocity
        self.log.append(self.position)


def two_bodies_and_a_spring(x, steps=40):
    a = Body(1.0 + x[0], np.array([0.0, 0.0]), np.array([0.1, 0.0]))
    b = Body(2.0, np.array([1.0, 0.2]), np.array([0.0, 0.1]) * x[1])
    for _ in range(steps):
        d = b.position - a.position
        force = x[2] * d * (1 - 1 / np.sqrt(np.sum(d * d)))
        a.move(force, 0.05)
        b.move(-force, 0.05)
    return np.sum((a.log[-1] - b.log[-1]) ** 2) + a.log[5][0]


def minimal_gated_unit(x):
    h = np.zeros(5)
    states = [h]
    for row in TABLE:
        gate = 1 / (1 + np.exp(-(KERNEL @ row * x[0] + h)))
        candidate = np.tanh(row + x[1] * (KERNEL @ (gate * h)))
        h = (1 - gate) * h + gate * candidate
        states.append(h)
    return np.sum(states[-1] ** 2) + x[2] * np.sum(states[4])


def stacked_layers(x):
    hidden = [np.zeros(5), np.zeros(5)]
    loss = 0.0
    for t in range(len(TABLE) - 1):
        inp = TABLE[t]
        for layer in range(2):
            hidden[layer] = np.tanh(x[layer] * (KERNEL @ inp) + 0.5 * hidden[layer])
            inp = hidden[layer]
        loss += np.sum((inp * x[2] - TABLE[t + 1]) ** 2)
    return loss


def step_size_by_error(x):
    t, y, h = 0.0, x[0], 0.1
    while t < 2.0:
        k1 = x[1] * np.cos(t) - y
        k2 = x[1] * np.cos(t + h) - (y + h * k1)
        error = abs(0.5 * h * (k2 - k1))
        if error < 1e-3:
            y = y + 0.5 * h * (k1 + k2)
            t = t + h
        h = h * 0.9 * np.sqrt(1e-3 / (error + 1e-12)) if error > 1e-12 else 2 * h
        h = min(max(h, 0.02), 0.2)
    return y * x[2]


def fixed_number_of_newton_steps(x):
    z, total = 1.0 + x[0], 0.0
    for k in range(24):
        target = x[1] + 0.05 * k
        for _ in range(3):
            z = z - (z * z * z + z - target) / (3 * z * z + 1)
        total = total + z
    return total * x[2]


def impulses_at_events(x, steps=40):
    v, w = 0.1 * x[0], 0.0
    times = dict(EVENTS)
    for k in range(steps):
        if k in times:
            v = v + x[1] * times[k]
        v, w = v + 0.05 * (v - v**3 / 3 - w), w + 0.05 * x[2] * (v - 0.5 * w)
    return v + w


def conjugate_gradients(x, steps=12):
    A = KERNEL @ KERNEL.T + np.eye(5) * (1 + x[0])
    b = np.ones(5) * x[1] + np.arange(5) * x[2]
    z, r = np.zeros(5), b
    p, rr = r, b @ b
    for _ in range(steps):
        q = A @ p
        a = rr / (p @ q + 1e-9)
        z = z + a * p
        r = r - a * q
        new = r @ r
        p = r + new / (rr + 1e-9) * p
        rr = new
    return np.sum(z)


def successive_over_relaxation(x, sweeps=14):
    u = np.zeros((6, 5))
    u[0] = x[0]
    for _ in range(sweeps):
        for i in range(1, 5):
            u[i, 1:-1] += 0.3 * x[1] * (u[i - 1, 1:-1] + u[i + 1, 1:-1] - 2 * u[i, 1:-1])
    return np.sum(u**2) * x[2]


def running_moments(x):
    mean, m2 = 0.0, 0.0
    for k, value in enumerate(DATA * x[0] + x[1]):
        delta = value - mean
        mean = mean + delta / (k + 1)
        m2 = m2 + delta * (value - mean)
    return m2 / len(DATA) + x[2] * mean


def upwind_with_two_buffers(x, steps=40):
    old, new = np.cos(np.linspace(0, 2, 9)) * x[0], np.zeros(9)
    for _ in range(steps):
        new[1:] = old[1:] - 0.3 * x[1] * (old[1:] - old[:-1])
        new[0] = 0.9 * old[0] + 0.01 * x[2]
        old, new = new, old
    return np.sum(old**2)


def horner_over_rows(x):
    total = 0.0
    for row in TABLE:
        p = 0.0
        for c in row:
            p = p * x[0] + c
        total = total + x[1] * np.sin(p) + x[2] * p
    return total


def beam_by_transfer_matrices(x, elements=25):
    state = np.array([1.0, 0.0, 0.0, 0.0]) * x[0]
    for k in range(elements):
        L = 0.1 + 0.01 * k
        T = np.array(
            [[1, L, L**2 / 2, L**3 / 6], [0, 1, L, L**2 / 2], [0, 0, 1, L], [0, 0, 0, 1.0]]
        )
        state = T @ state + np.array([0.0, 0.0, 0.01, 0.02]) * x[1]
    return state[0] * x[2]


def value_iteration(x, sweeps=25):
    V = np.zeros(5)
    P = np.abs(KERNEL) / np.sum(np.abs(KERNEL), axis=1, keepdims=True)
    for _ in range(sweeps):
        keep = TABLE[0] * x[0] + 0.8 * (P @ V)
        change = TABLE[1] * x[1] + 0.8 * (P.T @ V)
        V = np.maximum(keep, change) + 0.01 * x[2]
    return np.sum(V)


def stochastic_volatility(x):
    log_variance, price = 0.1 * x[0], 1.0
    path = np.empty(len(DATA) // 2)
    for k in range(0, len(DATA), 2):
        log_variance = 0.9 * log_variance + 0.1 * x[1] * DATA[k]
        price = price * np.exp(0.1 * np.exp(0.5 * log_variance) * DATA[k + 1] - 0.005)
        path[k // 2] = price
    return np.maximum(np.mean(path) - 0.9 * x[2], 0.0)


def tridiagonal_sweeps(x, n=30):
    b, d = 2.0 + x[0] + np.zeros(n), np.sin(np.arange(n)) * x[1]
    for k in range(1, n):
        w = -1.0 / b[k - 1]
        b[k] = b[k] + w
        d[k] = d[k] - w * d[k - 1]
    y = d[-1] / b[-1]
    total = y
    for k in range(n - 2, -1, -1):
        y = (d[k] + y) / b[k]
        total = total + y
    return total * x[2]


def bank_of_filters(x):
    taps = [np.zeros(3) for _ in range(2)]
    out = 0.0
    for value in DATA[:40]:
        for k in range(2):
            taps[k] = np.concatenate([np.array([value * x[k]]), taps[k][:-1]])
        out = out + np.sum(taps[0] * taps[1]) ** 2
    return out * x[2]


def belief_propagation_on_a_chain(x, n=25):
    messages = [np.ones(3) / 3]
    psi = np.exp(x[0] * np.eye(3) - x[1] * 0.1)
    for k in range(n):
        phi = np.exp(x[2] * np.sin(np.arange(3) + k))
        m = psi.T @ (phi * messages[-1])
        messages.append(m / np.sum(m))
    return np.log(messages[-1][0]) + messages[7][1]


def forces_in_a_table(x, steps=20):
    """Forces added up in an array that each step makes, by stores into its rows."""
    pos, vel = np.array([[0.0, 0.1], [1.0, 0.0], [0.2, 1.1]]) * x[0], np.zeros((3, 2))
    for _ in range(steps):
        force = np.zeros((3, 2))
        for i in range(3):
            for j in range(3):
                if i != j:
                    d = pos[j] - pos[i]
                    force[i] = force[i] + x[1] * d / (np.sum(d * d) + 0.5)
        vel = vel + 0.02 * force
        pos = pos + 0.02 * vel * x[2]
    return np.sum(pos**2)
