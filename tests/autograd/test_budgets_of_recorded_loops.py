"""Loops in recorded graphs, within functions that are traced, keep to the budget of each pass."""

import tracemalloc

import numpy as np
import pytest

import fdiff
from fdiff.autograd import tensor

TRIPS, ENTRIES = 50, 4000


@fdiff.jit
def swing(x):
    def step(y, _):
        return y + 0.01 * np.sin(y) * y[::-1], None

    return np.sum(fdiff.scan(step, x, None, length=TRIPS)[0] ** 2)


def passed(budget, way):
    """The gradient of a recorded loop, and the most memory that its pass took."""
    with fdiff.memory_budget(budget):
        x = tensor(np.linspace(0.1, 0.5, ENTRIES), requires_grad=True)
        out = swing(x)
        tracemalloc.start()
        way(out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return np.asarray(x.grad), peak


def hooked(out):
    """A pass node by node."""
    out.register_hook(lambda bar: bar)
    out.backward()


@pytest.mark.parametrize("way", [lambda out: out.backward(), hooked], ids=["whole", "by nodes"])
def test_passes_keep_to_the_budget(way):
    """Whatever the budget of passes before, and with the same bits."""
    peaks: dict[int, list[int]] = {1 << 30: [], 250_000: []}
    gradients = []
    for _ in range(2):
        for budget, found in peaks.items():
            gradient, peak = passed(budget, way)
            gradients.append(gradient)
            found.append(peak)
    for gradient in gradients[1:]:
        np.testing.assert_array_equal(gradient, gradients[0])
    assert max(peaks[250_000]) < 1_000_000
    assert min(peaks[1 << 30]) > 8 * ENTRIES * TRIPS
