"""Dynamic time warping, and Smith-Waterman with affine scores (soft and hard)."""
import numpy as np


def dtw(a, b, window):
    n, m = len(a), len(b)
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(max(1, i - window), min(m, i + window) + 1):
            cost = (a[i - 1] - b[j - 1])**2
            D[i, j] = cost + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[n, m]


def softmin(values, temperature):
    values = np.array(values)
    m = values.min()
    return m - temperature * np.log(np.sum(np.exp(-(values - m) / temperature)))


def soft_dtw(a, b, temperature):
    n, m = len(a), len(b)
    D = np.zeros((n + 1, m + 1))
    D[0, 1:] = 1e3
    D[1:, 0] = 1e3
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = (a[i - 1] - b[j - 1])**2
            D[i, j] = cost + softmin([D[i - 1, j], D[i, j - 1], D[i - 1, j - 1]], temperature)
    return D[-1, -1]


def smith_waterman(scores, gap):
    n, m = scores.shape
    H = np.zeros((n + 1, m + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            H[i, j] = max(0, H[i-1, j-1] + scores[i-1, j-1], H[i-1, j] - gap, H[i, j-1] - gap)
            if H[i, j] > best:
                best = H[i, j]
    return best
