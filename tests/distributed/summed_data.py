"""A logistic regression in partitions of different lengths, for tests of sums over them."""

import numpy as np

from fdiff.distributed.partitionings import Partitions

D = 4
W = np.linspace(-1.0, 1.0, D)


def loss(w, X, y):
    z = X @ w
    return np.sum(np.logaddexp(0.0, z) - y * z)


def chunk(k, rows=60):
    rng = np.random.default_rng([1, k])
    return rng.standard_normal((rows + k, D)), (rng.random(rows + k) < 0.5) * 1.0


PARTS = [chunk(k) for k in range(9)]
X, Y = (np.concatenate([part[i] for part in PARTS]) for i in (0, 1))


def here(parts):
    """The partitions in this process, whatever client there is."""
    return Partitions(parts)


def leaves(result):
    """The arrays of a result."""
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)]


def bits(result):
    return [(a.dtype, a.shape, a.tobytes()) for a in leaves(result)]
