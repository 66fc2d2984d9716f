"""PageRank by power iteration until the change is small, with dangling pages."""
import numpy as np


def pagerank(weights, damping=0.85, tol=1e-12):
    n = weights.shape[0]
    P = np.zeros((n, n))
    for i in range(n):
        total = weights[i].sum()
        if total > 0:
            P[i] = weights[i] / total
        else:
            P[i, :] = 1.0 / n
    rank = np.ones(n) / n
    for iteration in range(200):
        new = np.full(n, (1 - damping) / n)
        for i in range(n):
            new += damping * rank[i] * P[i]
        change = np.abs(new - rank).sum()
        rank[:] = new
        if change < tol:
            break
    return rank


def entropy(damping, weights):
    rank = pagerank(weights, damping, tol=1e-8)
    h = 0.0
    for r in rank:
        if r > 0:
            h -= r * np.log(r)
    return h
