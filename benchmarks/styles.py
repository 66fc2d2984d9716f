"""One function written in several styles, as users write it: plain NumPy and SciPy.

`python -m benchmarks.spellings` compares the derivatives of all with one hand-written kernel.
"""

import numpy as np
from scipy.special import expit, logsumexp


def lse(s, axis=1):
    top = np.max(s, axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.sum(np.exp(s - top), axis=axis))


def factors(logs, low):
    d = logs.shape[1]
    return np.tril(low, -1) + np.exp(logs)[:, :, None] * np.eye(d)


def big_product(alphas, means, logs, low, x):
    (n, d), k = x.shape, alphas.shape[0]
    m = factors(logs, low)
    y = (x @ m.reshape(k * d, d).T).reshape(n, k, d) - np.einsum("kij,kj->ki", m, means)
    s = alphas + np.sum(logs, axis=1) - 0.5 * np.sum(y**2, axis=2)
    return np.sum(lse(s)) - n * lse(alphas, 0)


def einsum(alphas, means, logs, low, x):
    diff = x[:, None, :] - means[None, :, :]
    y = np.einsum("kij,nkj->nki", factors(logs, low), diff)
    s = alphas[None, :] + np.sum(logs, axis=1) - 0.5 * np.einsum("nki,nki->nk", y, y)
    return np.sum(logsumexp(s, axis=1)) - x.shape[0] * logsumexp(alphas)


def batched(alphas, means, logs, low, x):
    diff = x[None] - means[:, None]
    y = diff @ np.swapaxes(factors(logs, low), 1, 2)
    s = (alphas + logs.sum(1))[:, None] - 0.5 * np.sum(y * y, axis=-1)
    return logsumexp(s, axis=0).sum() - len(x) * logsumexp(alphas)


def columns(alphas, means, logs, low, x):
    diff = x[:, None, :] - means
    y = (factors(logs, low) @ diff[..., None])[..., 0]
    s = alphas + np.sum(logs, axis=1) - 0.5 * np.sum(y**2, axis=-1)
    return np.sum(lse(s)) - x.shape[0] * lse(alphas, 0)


def loop(alphas, means, logs, low, x):
    m = factors(logs, low)
    s = []
    for k in range(len(alphas)):
        y = (x - means[k]) @ m[k].T
        s.append(alphas[k] + np.sum(logs[k]) - 0.5 * np.sum(y**2, axis=1))
    return np.sum(lse(np.stack(s, axis=1))) - len(x) * lse(alphas, 0)


def stores(alphas, means, logs, low, x):
    """The loop, into an array that is there."""
    m = factors(logs, low)
    s = np.empty((len(x), len(alphas)))
    for k in range(len(alphas)):
        y = (x - means[k]) @ m[k].T
        s[:, k] = alphas[k] + np.sum(logs[k]) - 0.5 * np.sum(y**2, axis=1)
    return np.sum(lse(s)) - len(x) * lse(alphas, 0)


def precision(alphas, means, logs, low, x):
    m = factors(logs, low)
    p = np.einsum("kij,kil->kjl", m, m)
    diff = x[:, None, :] - means
    s = alphas + np.sum(logs, axis=1) - 0.5 * np.einsum("nki,kij,nkj->nk", diff, p, diff)
    return np.sum(logsumexp(s, axis=1)) - x.shape[0] * logsumexp(alphas)


FULL = [big_product, einsum, batched, columns, loop, stores, precision]


def diag_broadcast(alphas, means, logs, x):
    z = (x[:, None, :] - means) * np.exp(logs)
    s = alphas + np.sum(logs, axis=1) - 0.5 * np.sum(z * z, axis=2)
    return np.sum(lse(s)) - x.shape[0] * lse(alphas, 0)


def diag_ratio(alphas, means, logs, x):
    sigma = np.exp(-logs)
    z = ((x[:, None, :] - means[None]) / sigma[None]) ** 2
    s = alphas[None] - np.sum(np.log(sigma), axis=1)[None] - 0.5 * z.sum(axis=-1)
    return logsumexp(s, axis=1).sum() - x.shape[0] * logsumexp(alphas)


def diag_products(alphas, means, logs, x):
    p = np.exp(2 * logs)
    q = (x * x) @ p.T - 2.0 * (x @ (means * p).T) + np.sum(means * means * p, axis=1)
    s = alphas + np.sum(logs, axis=1) - 0.5 * q
    return np.sum(logsumexp(s, axis=1)) - x.shape[0] * logsumexp(alphas)


def diag_loop(alphas, means, logs, x):
    s = [
        alphas[k] + np.sum(logs[k]) - 0.5 * np.sum(((x - means[k]) * np.exp(logs[k])) ** 2, axis=1)
        for k in range(len(alphas))
    ]
    return np.sum(lse(np.array(s), 0)) - len(x) * lse(alphas, 0)


DIAG = [diag_broadcast, diag_ratio, diag_products, diag_loop]


def r_slices(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def r_two_sums(x):
    return 100.0 * np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum((1.0 - x[:-1]) ** 2)


def r_named(x):
    a, b = x[:-1], x[1:]
    return np.sum(100.0 * np.square(b - a * a) + np.square(1 - a))


def r_dot(x):
    r = 10.0 * (x[1:] - x[:-1] ** 2)
    s = 1.0 - x[:-1]
    return r @ r + np.dot(s, s)


def r_concat(x):
    r = np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])
    return np.sum(r**2)


def r_arange(x):
    i = np.arange(len(x) - 1)
    return np.sum(100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2)


def r_roll(x):
    t = 100.0 * (np.roll(x, -1) - x**2) ** 2 + (1.0 - x) ** 2
    return np.sum(t[:-1])


def r_mean(x):
    return (100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0).sum()


def r_diff(x):
    return np.sum(100.0 * (np.diff(x) + x[:-1] * (1 - x[:-1])) ** 2 + (1.0 - x[:-1]) ** 2)


ROSEN = [r_slices, r_two_sums, r_named, r_dot, r_concat, r_arange, r_roll, r_mean, r_diff]


def l_log1p(w, x, y):
    return np.mean(np.log1p(np.exp(-y * (x @ w)))) + 0.005 * np.sum(w * w)


def l_logaddexp(w, x, y):
    return np.mean(np.logaddexp(0.0, -y * (x @ w))) + 0.005 * (w @ w)


def l_where(w, x, y):
    z = y * (x @ w)
    return np.mean(
        np.where(z > 0, np.log1p(np.exp(-np.abs(z))), -z + np.log1p(np.exp(-np.abs(z))))
    ) + 0.005 * np.dot(w, w)


def l_expit(w, x, y):
    return -np.mean(np.log(expit(y * np.dot(x, w)))) + 0.005 * np.sum(w**2)


def l_cross(w, x, y):
    t = (y + 1) / 2
    p = 1.0 / (1.0 + np.exp(-x.dot(w)))
    return -np.mean(t * np.log(p) + (1 - t) * np.log(1 - p)) + 0.005 * np.sum(w**2)


def l_softplus(w, x, y):
    t = (y + 1) / 2
    z = np.einsum("ij,j->i", x, w)
    return np.mean(np.maximum(z, 0) - z * t + np.log1p(np.exp(-np.abs(z)))) + 0.005 * np.sum(w**2)


def l_broadcast(w, x, y):
    return np.mean(np.log(1.0 + np.exp(-y * np.sum(x * w, axis=1)))) + 0.005 * np.sum(w**2)


LOGI = [l_log1p, l_logaddexp, l_where, l_expit, l_cross, l_softplus, l_broadcast]
