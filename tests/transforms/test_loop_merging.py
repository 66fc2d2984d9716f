"""Loops that carry the same values run as one, in tapes that are about to run."""

import numpy as np
import pytest

import fdiff
from fdiff.ops.control.loop import LOOP
from fdiff.tape import ITEM
from fdiff.transforms.loops import loops_within_budget
from fdiff.transforms.loops.loop_merging import merge_loops

X = np.array([0.3, -0.8, 1.1])


def loops(tape):
    return [node for node in tape.nodes if node.primitive is LOOP]


def spiral(x):
    def step(_, y):
        return y + 0.1 * np.stack([np.sin(y[1]), y[0] * x[2], y[2] * y[1]])

    return np.sum(fdiff.fori_loop(0, 30, step, x) ** 2)


def driven(x):
    """Rows are read and given; the loop runs backwards."""

    def step(carry, row):
        state, total = carry
        new = np.tanh(state * row + x)
        return (new, total + new * row), new * new

    rows = np.linspace(-1.0, 1.0, 60).reshape(20, 3)
    (state, total), outs = fdiff.scan(step, (x, np.zeros(3)), rows, reverse=True)
    return np.sum(state * total) + np.sum(outs * rows)


def nested(x):
    def inner(_, y):
        return np.sin(y) * x

    def outer(_, y):
        return fdiff.fori_loop(0, 4, inner, y) + 0.5 * y

    return np.sum(fdiff.fori_loop(0, 6, outer, x) ** 3)


def windowed(x):
    """Stores and reads at places that the number of the trip tells."""

    def step(k, y):
        return fdiff.fori_loop(0, 2, lambda j, z: z * np.cos(x[j]), y) + y[k % 3]

    return np.sum(fdiff.fori_loop(0, 9, step, 0.1 * x) * x)


PROGRAMS = {f.__name__: f for f in (spiral, driven, nested, windowed)}
OPERATORS = {
    "hessian": lambda f: fdiff.hessian(f)(X),
    "hvp": lambda f: fdiff.hvp(f)(X, np.array([1.0, -2.0, 0.5])),
    "jvp": lambda f: fdiff.jvp(f)(X, np.array([1.0, -2.0, 0.5])),
    "third": lambda f: fdiff.jacobian(fdiff.hessian(f))(X),
    "batch": lambda f: fdiff.vmap(fdiff.hessian(f))(np.stack([X, 2.0 * X])),
}


CASES = [("interpret", operator) for operator in OPERATORS]


@pytest.mark.parametrize(("tier", "operator"), [*CASES, ("compile", "hessian"), ("compile", "jvp")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_separate_loops(name, tier, operator, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    scale = 1.5 if tier == "compile" else 2.5  # another program: programs are shared
    f, evaluated, merges = PROGRAMS[name], OPERATORS[operator], []

    def watched(tape):
        merged = merge_loops(tape)
        merges.append(len(loops(tape)) - len(loops(merged)))
        return merged

    monkeypatch.setattr(loops_within_budget, "merge_loops", watched)
    together = evaluated(lambda x: scale * f(x))
    assert any(merges)
    monkeypatch.setattr(loops_within_budget, "merge_loops", lambda tape: tape)
    separate = evaluated(lambda x: f(x) * scale)  # another tape, with a kernel of its own
    parts = (together, separate) if isinstance(together, tuple) else ((together,), (separate,))
    for a, b in zip(*parts, strict=True):
        # Kernels add up and vectorise in the order that suits their text.
        np.testing.assert_allclose(a, b, rtol=1e-13 if tier == "compile" else 0.0)


def traced(f, *examples):
    return fdiff.make_tape(f, *examples)


def repeated(step, other, *, trips=(7, 7), starts=(1.0, 1.0)):
    """Two loops beside each other: of one carry, and of two, of which the first may be the same."""

    def f(x):
        small = fdiff.fori_loop(0, trips[0], lambda k, y: step(y, x), starts[0] * x)
        pair = fdiff.fori_loop(
            0, trips[1], lambda k, c: (other(c[0], x), c[1] * c[0]), (starts[1] * x, x)
        )
        return small, pair[0], pair[1]

    return f


def slope(y, x):
    return np.sin(y) * x


def test_equal_carries_are_merged():
    tape = traced(repeated(slope, slope), 0.4)
    merged = merge_loops(tape)
    assert (len(loops(tape)), len(loops(merged))) == (2, 1)
    y, w = 0.4, 0.4
    for _ in range(7):
        y, w = slope(y, 0.4), w * y
    out = fdiff.jit(repeated(slope, slope))(0.4)
    np.testing.assert_allclose(out, (y, y, w), rtol=1e-15)


@pytest.mark.parametrize(
    "f",
    [
        repeated(slope, lambda y, x: np.sin(y) * x + 1.0),
        repeated(slope, lambda y, x: np.sin(x) * y),
        repeated(slope, slope, trips=(7, 8)),
        repeated(slope, slope, starts=(1.0, 2.0)),
    ],
    ids=["another update", "operands exchanged", "trips", "starts"],
)
def test_other_carries_are_not_merged(f):
    tape = traced(f, 0.4)
    assert len(loops(tape)) == 2
    assert merge_loops(tape) is tape


def test_a_loop_that_waits_for_the_other_is_not_merged():
    def f(x):
        first = fdiff.fori_loop(0, 7, lambda k, y: slope(y, x), x)
        second = fdiff.fori_loop(0, 7, lambda k, c: (slope(c[0], x), c[1] * first), (x, x))
        return first, *second

    tape = traced(f, 0.4)
    assert len(loops(tape)) == 2
    assert merge_loops(tape) is tape


def test_readers_of_the_first_loop_stand_behind():
    """What is computed between the two loops reads the first one, or is read by the second one."""

    def f(x):
        first = fdiff.fori_loop(0, 7, lambda k, y: slope(y, x), x)
        between, start = np.exp(first), np.exp(x)
        second = fdiff.fori_loop(0, 7, lambda k, c: (slope(c[0], x), c[1] * c[0]), (x, start))
        return first, between, *second

    merged = merge_loops(traced(f, 0.4))
    (place,) = [i for i, node in enumerate(merged.nodes) if node.primitive is LOOP]
    assert all(node.args[0] == place for node in merged.nodes if node.primitive is ITEM)
    y, w = 0.4, np.exp(0.4)
    for _ in range(7):
        y, w = slope(y, 0.4), w * y
    np.testing.assert_allclose(fdiff.jit(f)(0.4), (y, np.exp(y), y, w), rtol=1e-15)


def test_carries_that_only_one_of_them_has():
    """The carries that are not shared are carried along; what begins as one may change apart."""

    def f(x):
        small = fdiff.fori_loop(
            0, 7, lambda k, c: (slope(c[0], x), c[1] + 1.0, c[2] * c[0]), (x, x, x)
        )
        pair = fdiff.fori_loop(0, 7, lambda k, c: (slope(c[0], x), c[1] * c[0] + 2.0), (x, x))
        return *small, *pair

    tape = traced(f, 0.4)
    assert (len(loops(tape)), len(loops(merge_loops(tape)))) == (2, 1)
    y, a, b, c = (0.4,) * 4
    for _ in range(7):
        y, a, b, c = slope(y, 0.4), a + 1.0, b * y, c * y + 2.0
    np.testing.assert_allclose(fdiff.jit(f)(0.4), (y, a, b, y, c), rtol=1e-15)


def test_loops_that_share_a_counter_alone_stay_two():
    def f(x):
        def step(c):
            return c[0] + 1.0, np.exp(np.sin(c[1]) * x)

        def other(c):
            return c[0] + 1.0, np.cos(np.tanh(c[1]) + x)

        start = 0.0 * x, x
        first = fdiff.fori_loop(0, 7, lambda k, c: step(c), start)
        return *first, *fdiff.fori_loop(0, 7, lambda k, c: other(c), start)

    tape = traced(f, 0.4)
    assert len(loops(tape)) == 2
    assert merge_loops(tape) is tape


def random_scan(seed):
    """A sum over what a loop of random operations on one to three carries gives."""
    rng = np.random.default_rng(seed)
    carries, rows, length = rng.integers(1, 4), rng.normal(size=(5, 3)), int(rng.integers(1, 6))
    functions = (np.sin, np.cos, np.tanh, lambda v: 0.5 * v, lambda v: v * v)
    updates = [
        (functions[rng.integers(5)], *rng.integers(carries + 2, size=2), rng.integers(3))
        for _ in range(carries + 2)
    ]
    starts = [float(rng.integers(3)) for _ in range(carries)]
    read, reverse = rng.integers(2, size=carries + 2), bool(rng.integers(2))

    def f(x):
        def step(state, row):
            values = [*state, row, x]
            new = []
            for function, a, b, way in updates:
                v, w = function(values[a]), values[b]
                new.append((v + 0.3 * w, v * w, v - np.roll(w, 1))[way])
            return tuple(new[:carries]), tuple(new[carries:])

        state, outs = fdiff.scan(
            step, tuple([s * x for s in starts]), rows[:length], reverse=reverse
        )
        return sum(np.sum(np.sin(v)) for v, r in zip((*state, *outs), read, strict=True) if r)

    return f if any(read) else spiral


@pytest.mark.parametrize("seed", range(12))
def test_random_loops_give_the_bits_of_separate_loops(seed, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    f = random_scan(seed)
    with monkeypatch.context() as patched:
        patched.setattr(loops_within_budget, "merge_loops", lambda tape: tape)
        separate = [evaluated(lambda x: f(x) * 2.0) for evaluated in OPERATORS.values()]
    together = [evaluated(lambda x: 2.0 * f(x)) for evaluated in OPERATORS.values()]
    for own, others in zip(together, separate, strict=True):
        np.testing.assert_array_equal(np.asarray(own), np.asarray(others))
