"""Loops over trips on a GPU: a thread for each entry, which runs all trips."""

import numpy as np
import pytest
from running import TUNING, program_of, run_on_device
from tapes import floating, like, tape_of, values

import fdiff
from fdiff import kernels
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

_RNG = np.random.default_rng(3)
X, P = 0.3 * _RNG.normal(size=(2, 70))
ROWS = 0.3 * _RNG.normal(size=(5, 70))


def scanned(body, *carries, rows=ROWS, reverse=False):
    last, outs = fdiff.scan(body, carries, rows, reverse=reverse)
    return last if outs is None else (*last, outs)


LOOPS = {
    "entries": lambda x, p: fdiff.fori_loop(0, 7, lambda i, y: y + 0.1 * np.sin(y * p) * i, x),
    "from another bound": lambda x, p: fdiff.fori_loop(2, 9, lambda i, y: y * p + i, x),
    "rows": lambda x, p: scanned(lambda c, r: ((c[0] * p + r,), c[0] * r), x),
    "rows from the last": lambda x, p: scanned(lambda c, r: ((c[0] * p + r,), r), x, reverse=True),
    "carries that swap": lambda x, p: scanned(lambda c, r: ((c[1], c[0] + r), None), x, p),
    "carry that stays": lambda x, p: scanned(lambda c, r: ((c[0], c[1] + r), c[0]), x, p),
    "a number beside": lambda x, p: scanned(
        lambda c, r: ((c[0] * c[1] + r, 0.9 * c[1]), c[1]), x, 1.0
    ),
    "numbers that swap": lambda x, p: scanned(
        lambda c, r: ((c[1], c[0] * p[0] + r), c[0]), 0.1, 0.2, rows=ROWS[:, 0]
    ),
    "truth values": lambda x, p: scanned(lambda c, r: ((c[0] ^ (r > p),), c[0]), x > 0),
    "whole numbers": lambda x, p: scanned(
        lambda c, r: ((c[0] + r,), c[0] * 2), np.arange(70), rows=np.arange(5)
    ),
    "axes": lambda x, p: scanned(
        lambda c, r: ((c[0] * np.reshape(p, (7, 10)) + r,), c[0]),
        np.reshape(x, (7, 10)), rows=np.reshape(ROWS, (5, 7, 10)),
    ),
    "float32": lambda x, p: scanned(
        lambda c, r: ((c[0] * np.float32(0.5) + r,), c[0]),
        x.astype(np.float32), rows=ROWS.astype(np.float32),
    ),
    "no trips": lambda x, p: scanned(lambda c, r: ((c[0] * p + r,), c[0]), x, rows=ROWS[:0]),
    "no entries": lambda x, p: scanned(
        lambda c, r: ((c[0] * c[1] + r, 0.5 * c[1]), c[1]), x[:0], 2.0, rows=ROWS[:, :0]
    ),
    "constants": lambda x, p: scanned(lambda c, r: ((c[0] * CONSTANT + r,), None), x),
}  # fmt: skip
CONSTANT = np.linspace(0.0, 1.0, 70)


def check(tape, rng, *given):
    """Kernels of a GPU give what NumPy gives."""
    assert kernels.missing_on_cuda(tape) == []
    given = [*given, *like(rng, tape.input_types[len(given) :])]
    single = any(t.dtype == np.float32 for node in tape.nodes for t in node.types)
    for got, want in zip(run_on_device(tape, *given), values(tape, *given), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-5 if single else 1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LOOPS)
def test_values_and_tangents(name, rng):
    tape = simplify(tape_of(LOOPS[name], X, P))
    check(tape, rng, X, P)
    check(simplify(jvp(tape, floating(tape))), rng, X, P)


@pytest.mark.parametrize("name", ["entries", "rows", "rows from the last", "carries that swap"])
def test_cotangents(name, rng):
    tape = simplify(tape_of(LOOPS[name], X, P))
    check(simplify(vjp(tape, floating(tape))), rng, X, P)


def test_one_kernel_runs_all_trips_of_all_entries():
    tape = fdiff.make_tape(fdiff.vmap(lambda x, p: LOOPS["entries"](x, p)), X, P)
    program, *_ = program_of(tape, tuning=TUNING)
    assert len(program.steps) <= 3


REFUSED = {
    "neighbours": lambda x, p: fdiff.fori_loop(0, 3, lambda i, y: y + np.roll(y, 1), x),
    "sums": lambda x, p: fdiff.fori_loop(0, 3, lambda i, y: y / np.sum(y), x),
    "the first entry": lambda x, p: fdiff.fori_loop(0, 3, lambda i, y: y * y[0], x),
    "in reverse order": lambda x, p: fdiff.fori_loop(0, 3, lambda i, y: y[::-1] * p, x),
    "an entry at an index": lambda x, p: fdiff.fori_loop(0, 3, lambda i, y: y * y[i], x),
    "a store at an index": lambda x, p: fdiff.fori_loop(0, 3, stored, x),
    "systems": lambda x, p: fdiff.fori_loop(
        0, 3, lambda i, y: np.linalg.solve(np.diag(p[:6]), y), x[:6]
    ),
    "a loop in a loop": lambda x, p: fdiff.fori_loop(
        0, 3, lambda i, y: fdiff.fori_loop(0, 2, lambda j, z: z * p, y), x
    ),
}  # fmt: skip


def stored(i, y):
    y[i] = 0.0
    return y


@pytest.mark.parametrize("name", REFUSED)
def test_entries_that_depend_on_others_are_refused(name):
    tape = tape_of(REFUSED[name], X, P)
    assert kernels.missing_on_cuda(tape) == ["loop"]


# --- random loops ---------------------------------------------------------------------------------

SHAPES = ((), (6,), (3,), (6, 3), (2, 5))
OPERATORS = (
    lambda a, b: a + b,
    lambda a, b: 0.3 * a * b,
    lambda a, b: np.sin(a),
    lambda a, b: a - 0.5 * b,
    lambda a, b: np.where(a > b, a, 0.5 * b),
    lambda a, b: a / (1.0 + b * b),
)


def formula(rng, terms, depth):
    """A random expression of some of the terms."""
    if depth == 0 or rng.random() < 0.15:
        return terms[rng.integers(len(terms))]
    a, b = (formula(rng, terms, depth - 1) for _ in range(2))
    return OPERATORS[rng.integers(len(OPERATORS))](a, b)


def random_loop(seed):
    """A function that is one loop, whose entries and numbers are mixed, and its arguments."""
    rng = np.random.default_rng(seed)
    shape, trips = SHAPES[rng.integers(len(SHAPES))], int(rng.integers(5))
    counts = rng.integers([1, 0, 0], [4, 3, 3])  # carries, rows, invariants
    shapes = [[shape if rng.random() < 0.75 else () for _ in range(n)] for n in counts]
    carried, rows, fixed = shapes
    outs, reverse = int(rng.integers(3)), bool(rng.integers(2))

    def f(*args):
        first, end = len(carried), len(carried) + len(rows)

        def step(c, r):
            drawn = np.random.default_rng(seed)
            terms, new = [*c, *(r or ()), *args[end:], 1.0], []
            for own in carried:
                alike = [j for j, other in enumerate(carried) if other == own]
                fitting = [t for t in terms if own or np.shape(t) == ()]
                value = 0.5 * formula(drawn, fitting, 3) + np.zeros(own)
                swapped = c[alike[drawn.integers(len(alike))]]
                new.append(swapped if drawn.random() < 0.3 else value)
            return tuple(new), tuple([formula(drawn, terms, 2) + 0.0 * c[0] for _ in range(outs)])

        given = tuple(args[:first]), tuple(args[first:end]) or None
        last, found = fdiff.scan(step, *given, length=trips, reverse=reverse)
        return (*last, *found)

    shapes = [*carried, *((trips, *s) for s in rows), *fixed]
    return f, [0.5 * rng.normal(size=s) for s in shapes]


@pytest.mark.parametrize("seed", range(24))
def test_random_loops(seed, rng):
    """Values, tangents and cotangents, but for sums over entries, which are refused."""
    f, given = random_loop(seed)
    tape = simplify(tape_of(f, *given))
    check(tape, rng, *given)
    for derived in (jvp(tape, floating(tape)), vjp(tape, floating(tape))):
        if not kernels.missing_on_cuda(simplify(derived)):
            check(simplify(derived), rng, *given)
