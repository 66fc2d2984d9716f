"""American and European options on a Cox-Ross-Rubinstein tree."""
import numpy as np


def price(S, K, r, sigma, T, n, kind="put", american=True):
    dt = T / n
    u = np.exp(sigma * np.sqrt(dt))
    d = 1 / u
    p = (np.exp(r * dt) - d) / (u - d)
    disc = np.exp(-r * dt)
    sign = 1 if kind == "call" else -1

    prices = np.zeros(n + 1)
    prices[0] = S * d**n
    for i in range(1, n + 1):
        prices[i] = prices[i - 1] * u / d
    values = np.maximum(sign * (prices - K), 0)
    for step in range(n - 1, -1, -1):
        values[:-1] = disc * (p * values[1:] + (1 - p) * values[:-1])
        values = values[:-1]
        prices = prices[:-1] * u
        if american:
            exercise = sign * (prices - K)
            early = exercise > values
            values[early] = exercise[early]
    return values[0]


def implied_volatility(market, S, K, r, T, n):
    """Newton iterations with a bumped vega."""
    sigma = 0.2
    for _ in range(40):
        value = price(S, K, r, sigma, T, n, kind="call", american=False)
        vega = (price(S, K, r, sigma + 1e-4, T, n, kind="call", american=False) - value) / 1e-4
        step = (value - market) / vega
        sigma -= step
        if abs(step) < 1e-10:
            break
    return sigma
