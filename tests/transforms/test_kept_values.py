"""What loops keep for their reverse: the fewest bytes, overwritten entries, nothing twice."""

import itertools

import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError
from fdiff.interpret import evaluate
from fdiff.ops.control.loop import LOOP
from fdiff.trace import Trace
from fdiff.transforms import kept_stages
from fdiff.transforms.loops.kept_values import kept_values
from fdiff.transforms.loops.loop_systems import systems
from fdiff.transforms.loops.minimum_cut import SINK, SOURCE, FlowGraph
from fdiff.transforms.pipeline import RUN, derive

N, TRIPS = 12, 20


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_is_the_least_and_the_nearest(seed):
    """Of random graphs, beside all of their cuts."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(4, 9))
    pairs = [p for p in itertools.permutations(range(nodes), 2) if rng.random() < 0.5]
    capacities = rng.integers(0, 6, len(pairs)).tolist()
    graph = FlowGraph(nodes)
    for (a, b), capacity in zip(pairs, capacities, strict=True):
        graph.connect(a, b, capacity)
    side = {i for i, level in enumerate(graph.source_side()) if level >= 0}
    assert SOURCE in side
    assert SINK not in side

    def cost(some):
        across = [a in some and b not in some for a, b in pairs]
        return sum(c for c, cut in zip(capacities, across, strict=True) if cut)

    others = [i for i in range(nodes) if i not in (SOURCE, SINK)]
    every = [
        {SOURCE, *some}
        for k in range(len(others) + 1)
        for some in itertools.combinations(others, k)
    ]
    least = min(map(cost, every))
    assert cost(side) == least
    assert all(side <= other for other in every if cost(other) == least)


def stored(y, i):
    y[i % N] = np.sin(y[i % N] * y[(i + 1) % N])
    return y


def energies(i, carry):
    """The whole array is read in each trip, and one entry stored over."""
    y, total = carry
    total = total + np.sum(np.sin(y) * y)
    return stored(y, i), 0.1 * total


def sliced(i, carry):
    y, total = carry
    total = total + np.sum(np.sin(y) * y)
    y[2:4] *= 0.5 + 0.1 * y[5]
    y[3] += y[2] * i
    return y, 0.1 * total


def solved(i, y):
    return np.linalg.solve(np.eye(N) * 4.0 + np.outer(y, y), np.cos(y) + i)


def nested(i, y):
    return fdiff.fori_loop(0, 5, lambda j, z: z + 0.1 * np.sin(z * j) / (1.0 + np.exp(z)), y)


def pivoted(i, carry):
    """The place of the store depends on what is stored."""
    y, total = carry
    total = total + np.sum(y * np.cos(y))
    y[np.argmax(y)] *= 0.7
    return y, 0.1 * total


# A body, what it starts with, and the bytes that are kept of a trip.
BODIES = {
    "carries": (lambda i, y: y + 0.1 * np.sin(y) * i, 8 * N),
    "masks": (lambda i, y: np.where(y > 0.2, 0.5 * y, 1.1 * y), N),
    "linear": (lambda i, y: 0.9 * y + i, 0),
    "a number": (lambda i, y: 0.9 * y + 0.01 * np.sin(np.sum(y)), 8),
    "entries that are read": (lambda i, y: stored(y, i), 8),
    "entries that are stored over": (energies, 8),
    "slices that are stored over": (sliced, 24),
    "places that differ": (pivoted, 8 * N),
    "a solution": (solved, 16 * N),
    "a loop in the loop": (nested, 40 * N),
    "an unchanged carry": (lambda i, c: (c[0], np.tanh(c[0] * c[1])), 8 * N),
}
PAIRS = ("entries that are stored over", "slices that are stored over", "places that differ")


def function(name, loop=fdiff.fori_loop):
    body = BODIES[name][0]

    def f(x):
        if name in PAIRS:
            y, total = loop(0, TRIPS, body, (x, x[0]))
            return np.sum(y * y) + total
        if name == "an unchanged carry":
            return np.sum(loop(0, TRIPS, body, (x, 2.0 * x))[1])
        return np.sum(loop(0, TRIPS, body, x) ** 2)

    return f


def unrolled(lower, upper, body, value):
    for i in range(lower, upper):
        value = body(i, value)
    return value


def bytes_of_a_trip(tape, trips=TRIPS):
    """What the first loop of a tape gives to others as rows."""
    loops = [n for n in tape.nodes if n.primitive is LOOP]
    rows = [t for n in loops[:1] for t in n.types[n.param("carries") :]]
    return sum(t.nbytes for t in rows) // trips


@pytest.mark.parametrize("name", BODIES)
def test_what_is_kept(name, rng):
    x = rng.normal(size=N) / 2
    f, expected = function(name), BODIES[name][1]
    assert bytes_of_a_trip(fdiff.make_tape(fdiff.grad(f), x)) == expected


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("name", BODIES)
def test_derivatives_of_what_is_kept(name, tier, monkeypatch, rng):
    """Beside the unrolled loop, at both orders, and within a small budget."""
    monkeypatch.setenv("FDIFF_TIER", tier)
    x, v = rng.normal(size=N) / 2, rng.normal(size=N)
    f, plain = function(name), function(name, unrolled)

    def turned(f):
        return fdiff.grad(lambda x: np.sum(fdiff.grad(f)(x) * v))

    expected = fdiff.grad(plain)(x)
    gradient = fdiff.jit(fdiff.grad(f))(x)
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(gradient, expected, rtol=1e-11, atol=1e-12 * scale)
    with fdiff.memory_budget(2000):
        np.testing.assert_array_equal(fdiff.jit(fdiff.grad(f))(x), gradient)
    expected = turned(plain)(x)
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(turned(f)(x), expected, rtol=1e-10, atol=1e-11 * scale)


def test_gauss_seidel_keeps_what_it_reads_alone():
    """18,000 updates of 9 KB, where nothing is read, and where one number is."""
    n = 34

    def f(x, power):
        def update(k, u):
            i, j = 1 + k // (n - 2) % (n - 2), 1 + k % (n - 2)
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] ** power + u[i, j + 1])
            return u

        return np.sum(fdiff.fori_loop(0, 18_000, update, x))

    x = np.zeros((n, n))
    for power, expected in ((1, 0), (2, 8 * 18_000)):
        tape = fdiff.make_tape(fdiff.grad(lambda x, p=power: f(x, p)), x)
        loops = [node for node in tape.nodes if node.primitive is LOOP]
        rows = [t for node in loops for t in node.types[node.param("carries") :]]
        assert sum(t.nbytes for t in rows) == expected


def runge_kutta(trips):
    def slope(y, c, x):
        return np.stack([y[1] * y[2], -y[0] * y[2] * c[0], y[0] * x - c[1] * y[2]])

    def f(y, c, xs):
        def step(y, x):
            k1 = slope(y, c, x)
            k2 = slope(y + 0.005 * k1, c, x)
            k3 = slope(y + 0.005 * k2, c, x)
            return y + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + 0.01 * k3, c, x)), y[0] * y[1]

        last, products = fdiff.scan(step, y, xs)
        return np.sum(last) + np.sum(products)

    return f, (np.array([1.0, 0.5, 0.25]), np.array([0.5, 0.25]), np.cos(np.arange(trips)))


@pytest.mark.parametrize(
    ("trips", "budget", "expected"),
    [(1000, 1 << 30, 96), (5000, 1 << 30, 24), (1000, 100_000, 96), (1000, 90_000, 24)],
)
def test_stages_are_kept_where_they_stay_in_a_cache(trips, budget, expected, monkeypatch):
    """And in the budget. Those of second derivatives are not: they keep the fewest bytes."""
    monkeypatch.setattr(kept_stages, "CACHE", 1 << 18)
    f, arguments = runge_kutta(trips)
    slope = fdiff.grad(f, argnums=(0, 1, 2))
    whole = fdiff.make_tape(slope, *arguments)
    assert bytes_of_a_trip(whole, trips) == 24
    with fdiff.memory_budget(budget):
        tape = derive(RUN, whole)
        assert bytes_of_a_trip(tape, trips) == expected
        for a, b in zip(evaluate(tape, *arguments), evaluate(whole, *arguments), strict=True):
            np.testing.assert_array_equal(a, b)
    before, after = (
        [len(n.param("body")) for n in t.nodes if n.primitive is LOOP] for t in (whole, tape)
    )
    assert (after[1] < before[1]) == (expected > 24)  # which computes less
    second = fdiff.make_tape(fdiff.hessian(f), *arguments)
    kept = [sum(system.rows for system in systems(t)) for t in (derive(RUN, second), second)]
    assert kept[0] == kept[1] > 0


@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_stages_change_no_bit(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    f, arguments = runge_kutta(300)
    gradients = []
    for budget in (1 << 30, 15_000, 3000):  # all stages, the fewest bytes, and segments
        with fdiff.memory_budget(budget):
            gradients.append(fdiff.jit(fdiff.grad(f, argnums=(0, 1, 2)))(*arguments))
    for other in gradients[1:]:
        for a, b in zip(gradients[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [12, 70])
def test_loops_that_are_vectors_keep_few_arrays(count, rng):
    w = rng.normal(size=(count, 5))

    def f(x):
        def step(i, y):
            for k in range(count):
                y = np.exp(-((w[k] * y) ** 2)) + y * np.exp(y)
            return y

        return np.sum(fdiff.fori_loop(0, TRIPS, step, x))

    whole = fdiff.make_tape(fdiff.grad(f), rng.normal(size=5))
    assert (derive(RUN, whole) is whole) == (count == 70)


def test_nothing_is_kept_for_what_nobody_reads():
    with Trace("test", lines=False) as trace:
        x = trace.input(trace.builder.nodes[trace.lift(np.ones(3))].type)
        tape = trace.builder.finish([(x * 2.0).id, x.id])
    kept = kept_values(tape, 1, (), (), ())
    assert kept == ((), ())


@pytest.mark.slow
def test_cut_loops_of_restored_arrays(rng):
    """Segments and snapshots carry the restored array on."""
    x = rng.normal(size=N) / 2
    f = function("entries that are stored over")
    whole = fdiff.make_tape(fdiff.grad(f), x)
    assert any(n.primitive is LOOP and n.param("carries") == 3 for n in whole.nodes)
    with fdiff.memory_budget(8 * TRIPS - 1), pytest.raises(InputError):
        derive(RUN, whole)  # where the snapshots would take more
    many = lambda x: np.sum(fdiff.fori_loop(0, 2000, energies, (x, x[0]))[0])
    whole = fdiff.make_tape(fdiff.grad(many), x)
    expected = evaluate(whole, x)
    for budget in (6 * 8 * N, 20 * 8 * N, 90 * 8 * N):
        with fdiff.memory_budget(budget):
            cut = derive(RUN, whole)
        assert cut is not whole
        np.testing.assert_array_equal(evaluate(cut, x), expected)
