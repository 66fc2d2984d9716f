"""What effects read is what a plain walk over the operands finds, which stands beside it."""

import numpy as np
import pytest

import fdiff
from fdiff.kernels.passes.fuse import memory_reads

RNG = np.random.default_rng(3)
X, A = RNG.normal(size=6), RNG.normal(size=(6, 6))


def stored(x, a):
    y = np.zeros(8)
    y[1:7] = np.exp(x) * a[0]
    y[2:4] += y[1:3] * x[:2]
    return np.sum(y * y)


PROGRAMS = {
    "a chain": lambda x, a: np.sum(np.tanh(np.sin(x) * np.exp(x))),
    "sums read twice": lambda x, a: np.sum(x * np.sum(x)) / np.sum(a @ x),
    "gathers": lambda x, a: np.sum(x[[0, 2, 2, 4]] * np.exp(a[1, :4])),
    "products and scans": lambda x, a: np.sum(np.cumsum(a @ x) * x),
    "stores": stored,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_reads_are_those_of_the_textbook(name, monkeypatch):
    fast, compared = memory_reads._below, []

    def both(plan, top):
        reads = fast(plan, top)
        assert reads == memory_reads.textbook_reads(plan, top)
        compared.append(top)
        return reads

    monkeypatch.setattr(memory_reads, "_below", both)
    f = fdiff.value_and_grad(PROGRAMS[name], argnums=(0, 1))
    assert "nest over" in fdiff.source(f, X, A, stage="fuse")
    assert compared
