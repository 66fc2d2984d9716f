"""Random programs by every way of sharing: values beside NumPy's, and each access checked."""

import random

import numpy as np
import pytest
from checked_launches import Memory, launch, run_checked
from programs import PROGRAMS
from random_nests import Drawn
from running import program_of
from tapes import floating, like, values

import fdiff
from fdiff.kernels.cuda import kernel_text
from fdiff.kernels.cuda.devices.launch_sizes import SIMULATOR
from fdiff.kernels.cuda.nests import shared_rows
from fdiff.kernels.ir.graph_of_tape import supported
from fdiff.kernels.passes.fuse import recomputation
from fdiff.kernels.passes.tile import loop_distribution
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

CHOICES = {
    "lanes": (2, 4), "light": (1, 20, 200), "kernel_lines": (20, 60, 500),
    "entry_blocks": (1, 2, 3), "partial_blocks": (1, 2, 3, 5), "tile_blocks": (2, 3),
    "busy_threads": (4, 24, 100),
    "shared_terms": (1, 3, 4, 8), "warp_terms": (2, 12, 40), "warp_rows": (2, 6, 20),
    "block_lines": (1, 3, 10), "tiles": (1, 2, 4), "tile_rows": (1, 2, 4),
}  # fmt: skip
# Sizes from which on programs are lowered in another way: (where, what, sizes, how often).
LIMITS = (
    (loop_distribution, ("MOST_HELD", "PIECE_HELD", "LEAST_HELD"), (1, 3, 8), 0.25),
    (shared_rows, ("MOST_BYTES",), (200, 1000, 4000), 0.3),
    (recomputation, ("LONG",), (5, 20), 0.25),
    (kernel_text, ("_MOST_BY_VALUE",), (1,), 0.1),
)


def checked(tape, args, tuning, *, deterministic=False, order=1):
    """Run a tape on the checked launches, and compare its outputs with NumPy's."""
    program, constants, numbers = program_of(tape, deterministic=deterministic, tuning=tuning)
    args = args[: len(tape.inputs)]
    found = run_checked(program, constants, numbers, args, warp=tuning.lanes, order=order)
    single = any(t.dtype == np.float32 for t in tape.input_types)
    tolerance = 1e-4 if single else 1e-12  # of sums of some thousand terms in another order
    for got, want in zip(found, values(tape, *args), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        scale = np.max(np.abs(want[np.isfinite(want)]), initial=1.0)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)


def of_seed(seed, monkeypatch):
    """A tape with arguments and the sizes by which its work is shared, all drawn by a seed."""
    draw, f = random.Random(seed), Drawn(seed)
    args = [*f.args, f.places]
    kind = draw.choice(("values", "gradient", "pulled back"))
    tape = simplify(fdiff.make_tape(f.loss if kind == "gradient" else f, *args))
    if kind != "values":
        tape = simplify(vjp(tape, floating(tape)))
        args += like(np.random.default_rng(seed), tape.input_types[len(args) :])
    tuning = SIMULATOR._replace(**{name: draw.choice(some) for name, some in CHOICES.items()})
    for where, names, sizes, often in LIMITS:
        if draw.random() < often:
            for name in names:
                monkeypatch.setattr(where, name, draw.choice(sizes))
    return tape, args, tuning._replace(threads=tuning.lanes * draw.choice((1, 2)))


# Seeds that found something: updates of one array at several places, in one order (75) and by
# several nests of a tile loop (481).
@pytest.mark.parametrize("seed", [*range(16), 75, 481])
def test_a_random_program(seed, monkeypatch):
    tape, args, tuning = of_seed(seed, monkeypatch)
    assert supported(tape)
    checked(tape, args, tuning, deterministic=seed % 3 == 0, order=(-1, 1)[seed % 2])


@pytest.mark.parametrize("name", ["logistic", "softmax", "mixture", "bratu", "scatter", "product"])
def test_accesses_of_a_program(name):
    """No race, nothing outside, nothing read before it is written."""
    f, args = PROGRAMS[name]
    checked(simplify(fdiff.make_tape(f, *args)), args, SIMULATOR)


@pytest.mark.parametrize("points", [9, 40])
def test_running_sums_of_rows_of_a_tile(points, rng):
    """Blocks take tiles of rows, and of each row pieces, whose loops count by themselves."""

    def quantiles(x):
        e = np.exp(x)
        return np.cumsum(e / np.sum(e, axis=1, keepdims=True), axis=1)

    x = rng.normal(size=(points, 8))
    checked(fdiff.make_tape(quantiles, x), [x], SIMULATOR)


FAULTS = {
    "outside": ("out[thread - 1] = 1.0", "is outside of"),
    "not written": ("out[thread] = t[thread]", "is read before it is written"),
    "race": ("out[thread] = 1.0\n    t[0] = out[3 - thread]", "with no barrier in between"),
    "lost sum": ("out[0] = out[0] + 1.0", "with no barrier in between"),
    "blocks": ("t[thread] = 1.0 * cuda.blockIdx.x", "of block 0 writes, with no barrier"),
    "divergent": ("if thread < 2:\n        cuda.syncthreads()", "threads that wait for each other"),
    "lanes": ("if thread < 1:\n        rt.exchange(thread, 1)", "threads that wait for each other"),
}
HARMLESS = {
    "own entries": "t[thread] = 1.0\n    out[thread] = t[thread]",
    "the same value": "out[0] = 1.0",
    "atomic": "rt.atomic_sum(out, 0, 1.0)",
    "barrier": "t[thread] = 1.0\n    cuda.syncthreads()\n    out[thread] = t[3 - thread]",
}


def run_lines(lines, blocks):
    text = f"def kernel(out, t):\n    thread = cuda.threadIdx.x\n    {lines}\n"
    out, t = Memory("out", np.zeros(4), known=True), Memory.garbage("t", 4, "f8")
    launch(text, "kernel", (blocks, 4), [out, t])


@pytest.mark.parametrize(("lines", "words"), FAULTS.values(), ids=FAULTS)
def test_faults_of_kernels_are_seen(lines, words):
    with pytest.raises(AssertionError, match=words):
        run_lines(lines, blocks=2)


@pytest.mark.parametrize("lines", HARMLESS.values(), ids=HARMLESS)
def test_what_is_harmless_is_let_through(lines):
    run_lines(lines, blocks=1)
