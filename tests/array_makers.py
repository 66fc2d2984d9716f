"""A module of a user: makes arrays and writes into those it is given (see test_creation.py)."""

import numpy  # noqa: ICN001 - as users write it
import numpy as np
from numpy import *  # noqa: F403 - as users write it

SHARED = np.arange(3.0)
make = np.zeros


def make_zeros(n):
    return zeros(n)  # noqa: F405 - by the import above


def make_full(n, value=0):
    return numpy.full(n, 1.0 * value)


def put(array_, place, value):
    array_[place] = value
    return array_


def with_default(value, buffer=np.zeros(2)):  # noqa: B008 - as users write it
    """Stores into a copy of its default, as a careful user does."""
    own = buffer.copy()
    own[0] = value
    return own


class Accumulator:
    """Collects values in arrays of its own."""

    def __init__(self, n):
        self.row = np.zeros(n)
        self.table = zeros((n, n))  # noqa: F405 - by the import above

    def add(self, i, value):
        self.row[i] += value
        self.table[i, i] = value
        return self

    def total(self):
        return self.row.sum() + np.trace(self.table)
