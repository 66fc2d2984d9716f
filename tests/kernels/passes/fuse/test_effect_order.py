"""Long programs: the order of effects against a transitive closure, and a price that is linear."""

import random
import time

import neuron
import numpy as np
import pytest

import fdiff
from fdiff.kernels.passes.fuse import effect_order, in_place_updates
from fdiff.kernels.passes.fuse.effect_order import EffectOrder

TIMES = 3.0  # as much a node may 12,000 nodes take at most, compared with 1,200


def reachable(needs, later, earlier):
    """Whether a path leads from `earlier` to `later`, by looking at all of them."""
    stack, met = [later], set()
    while stack:
        k = stack.pop()
        if k not in met:
            met.add(k)
            stack.extend(needs[k])
    return earlier in met


@pytest.mark.parametrize("seed", range(40))
def test_paths_are_those_of_the_closure(seed):
    rng = random.Random(seed)
    count = rng.randint(2, 30)
    needs = [set(rng.sample(range(k), min(k, rng.randint(0, 2)))) for k in range(count)]
    order = EffectOrder(needs)
    for _ in range(60):
        a, b = rng.sample(range(count), 2)
        assert order.may_need(a, b) == reachable(needs, a, b)
        behind = order.behind([a], [b])
        assert (b in behind) == (a == b or reachable(needs, b, a))
        assert all(reachable(needs, k, a) for k in behind)
        if rng.random() < 0.3 and not order.may_need(a, b):
            order.put_before(a, b)
            needs[b].add(a)
    ranks = [order._rank[k] for k in range(count)]
    assert sorted(ranks) == list(range(count))
    assert all(ranks[p] < ranks[k] for k in range(count) for p in needs[k])


@pytest.mark.parametrize("seed", range(10))
def test_a_search_that_gives_up_says_that_there_may_be_a_path(seed, monkeypatch):
    """Then a store keeps its copy, which is never wrong."""
    monkeypatch.setattr(effect_order, "_VISITED", 3)
    rng = random.Random(seed)
    needs = [set(rng.sample(range(k), min(k, 2))) for k in range(40)]
    order = EffectOrder(needs)
    gave_up = 0
    for a in range(40):
        for b in range(40):
            if a != b:
                path = reachable(needs, a, b)
                assert order.may_need(a, b) or not path
                gave_up += order.may_need(a, b) and not path
    assert gave_up


@pytest.mark.parametrize("spelling", neuron.SPELLINGS)
def test_values_do_not_depend_on_where_a_search_gives_up(spelling, monkeypatch):
    f = neuron.SPELLINGS[spelling](6)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    value, slope = fdiff.value_and_grad(f)(neuron.PARAMETERS)
    np.testing.assert_allclose(value, f(neuron.PARAMETERS), rtol=1e-13)
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.setattr(effect_order, "_VISITED", 2)
    fdiff.cache_clear()
    found, found_slope = fdiff.value_and_grad(f)(neuron.PARAMETERS)
    np.testing.assert_allclose(found, value, rtol=1e-12)
    np.testing.assert_allclose(found_slope, slope, rtol=1e-11)


def milliseconds_a_node(spelling, steps):
    """To generate the text of value and gradient: tracing, transforms, passes, code generation."""
    f = fdiff.value_and_grad(neuron.SPELLINGS[spelling](steps))
    nodes = len(fdiff.make_tape(f, neuron.PARAMETERS))
    fdiff.cache_clear()
    begin = time.process_time()
    fdiff.source(f, neuron.PARAMETERS)
    return 1e3 * (time.process_time() - begin) / nodes


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["an array of states", "a list of results"])
def test_the_price_of_a_kernel_is_linear_in_the_nodes(spelling, monkeypatch):
    monkeypatch.setenv("FDIFF_VERIFY", "0")  # which has a price of its own
    short = min(milliseconds_a_node(spelling, 7) for _ in range(2))
    assert milliseconds_a_node(spelling, 68) < TIMES * short


def table_of_each_step(x):
    u = x * 1.0
    for _ in range(120):
        a = np.zeros_like(u)
        a[:1] += u[1:]
        u = 0.5 * u + 0.1 * a
    return np.sum(u)


@pytest.mark.slow
def test_values_to_save_are_looked_for_until_one_is_too_large(monkeypatch):
    """120 steps took 100 seconds: each store asked all readers of its array for all they read."""
    asked = []
    look = in_place_updates._StoresInPlace._is_written_later

    def counted(self, *arguments):
        asked.append(1)
        return look(self, *arguments)

    monkeypatch.setattr(in_place_updates._StoresInPlace, "_is_written_later", counted)
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")
    x = np.array([0.3, -0.4])
    slope = fdiff.grad(table_of_each_step)
    assert "kernel" in str(fdiff.explain(slope, x))
    assert 0 < len(asked) < 60_000
    monkeypatch.setenv("FDIFF_TIER", "compile")
    step = [table_of_each_step(x + 1e-30j * e).imag / 1e-30 for e in np.eye(2)]
    np.testing.assert_allclose(slope(x), step, rtol=1e-12)
