"""Levinson-Durbin recursion, autoregressive spectrum."""
import numpy as np


def autocorrelation(x, order):
    n = len(x)
    r = np.zeros(order + 1)
    for lag in range(order + 1):
        r[lag] = np.sum(x[:n - lag] * x[lag:]) / n
    return r


def levinson_durbin(r, order):
    a = np.zeros(order + 1)
    a[0] = 1.0
    k = np.zeros(order)
    err = r[0]
    for m in range(1, order + 1):
        acc = r[m]
        for i in range(1, m):
            acc += a[i] * r[m - i]
        k[m - 1] = -acc / err
        prev = a.copy()
        for i in range(1, m):
            a[i] = prev[i] + k[m - 1] * prev[m - i]
        a[m] = k[m - 1]
        err *= 1 - k[m - 1]**2
    return a, k, err


def spectrum(x, order, freqs):
    a, k, err = levinson_durbin(autocorrelation(x, order), order)
    S = np.zeros(len(freqs))
    for i, f in enumerate(freqs):
        re, im = 0.0, 0.0
        for m in range(order + 1):
            re += a[m] * np.cos(2 * np.pi * f * m)
            im -= a[m] * np.sin(2 * np.pi * f * m)
        S[i] = err / (re**2 + im**2)
    return S


def prediction_error(x, order):
    return np.log(levinson_durbin(autocorrelation(x, order), order)[2])
