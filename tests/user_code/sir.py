"""SEIR epidemic with a lockdown, classical Runge-Kutta, fitted to daily cases."""
import numpy as np


def rhs(t, y, p):
    S, E, I, R = y
    beta = p["beta"]
    if t >= p["t_lock"]:
        beta = beta * p["reduction"]
    N = y.sum()
    dy = np.zeros(4)
    infections = beta * S * I / N
    dy[0] = -infections
    dy[1] = infections - p["sigma"] * E
    dy[2] = p["sigma"] * E - p["gamma"] * I
    dy[3] = p["gamma"] * I
    return dy


def integrate(p, y0, days, per_day=2):
    h = 1.0 / per_day
    y = np.array(y0)
    out = np.empty((days + 1, 4))
    out[0] = y
    t = 0.0
    for day in range(days):
        for _ in range(per_day):
            k1 = rhs(t, y, p)
            k2 = rhs(t + h / 2, y + h / 2 * k1, p)
            k3 = rhs(t + h / 2, y + h / 2 * k2, p)
            k4 = rhs(t + h, y + h * k3, p)
            y += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            t += h
        out[day + 1] = y
    return out


def daily_cases(theta, y0, days):
    p = dict(beta=theta[0], sigma=theta[1], gamma=theta[2], reduction=theta[3], t_lock=5)
    y = integrate(p, y0, days)
    cases = y[:-1, 0] - y[1:, 0]
    cases[cases < 0] = 0
    return cases


def deviance(theta, y0, counts):
    mu = daily_cases(theta, y0, len(counts))
    total = 0.0
    for n, m in zip(counts, mu):
        total += m - n
        if n > 0:
            total += n * np.log(n / m)
    return 2 * total
