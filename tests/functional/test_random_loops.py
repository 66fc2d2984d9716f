"""Random programs of `scan`, `while_loop`, `cond` and the like: values, both modes, two orders.

They are compared with plain loops over numbers that carry exact derivatives, with complex steps,
and with JAX.
"""

import random
import re

import hypothesis
import jax
import numpy as np
import pytest
from faults_support import LONG
from hypothesis import strategies as st
from loop_ways import TOLERANCE, error
from random_loop_nodes import PLAIN, program, put
from random_loops import point
from second_order_numbers import complex_step, exact, functions_of

import fdiff

jax.config.update("jax_enable_x64", True)
OURS = {"put": put} | {name: getattr(fdiff, name) for name in PLAIN if name != "put"}
THEIRS = {"put": lambda a, i, row: a.at[i].set(row), "np": jax.numpy, "vmap": jax.vmap}
THEIRS |= {name: getattr(jax.lax, name) for name in PLAIN if name not in THEIRS}
DIRECTION = np.array([1.0, -0.5, 0.3])
BLOCK, PROGRAMS = 5, 3000 if LONG else 300


def program_of(seed):
    choices = random.Random(seed)
    return program(choices), point(choices)


def ours(text):
    return functions_of(text, "f", None, OURS)["f"]


def frugal(f, x, size):
    """The gradient within a budget; where that is too small, within the one that is said to do."""
    try:
        with fdiff.memory_budget(size):
            return fdiff.jit(fdiff.grad(f))(x)
    except fdiff.errors.InputError as refused:
        (least,) = re.findall(r"Give a budget of ([\d,]+) bytes or more", str(refused))
        assert int(least.replace(",", "")) > size
        return frugal(f, x, int(least.replace(",", "")))


def right(text, x):
    """Assert that all ways of fdiff to values and derivatives are exact to rounding."""
    f, (expected, sizes) = ours(text), exact(text, "f", x, PLAIN)
    value, slope, curvature = expected
    step = complex_step(text, "f", x, DIRECTION, PLAIN)
    assert abs(step - slope @ DIRECTION) <= TOLERANCE * max(sizes[1], 1.0)
    other = 0.8 * x + 0.0431  # where other branches may be taken
    elsewhere = exact(text, "f", other, PLAIN)
    gradient = fdiff.jit(fdiff.grad(f))
    mapped = fdiff.vmap(fdiff.value_and_grad(f))(np.stack([x, other]))
    for tier in ("compile", "interpret"):  # their bits may differ, and the clock chooses otherwise
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FDIFF_TIER", tier)
            np.testing.assert_array_equal(frugal(f, x, 300), gradient(x))
    found = {
        "outside of a trace": error([f(x), slope, curvature], expected, sizes),
        "traced": error([fdiff.jit(f)(x), gradient(x), fdiff.hessian(f)(x)], expected, sizes),
        "otherwise": error(
            [value, fdiff.jacfwd(f)(x), fdiff.jacrev(fdiff.grad(f))(x)], expected, sizes
        ),
        "elsewhere": error([elsewhere[0][0], gradient(other)], *elsewhere),
        "in a batch": error([part[0] for part in mapped], expected, sizes),
        "second of a batch": error([part[1] for part in mapped], *elsewhere),
    }
    assert max(found.values()) <= TOLERANCE, found


@pytest.mark.slow
@pytest.mark.parametrize("block", range(PROGRAMS // BLOCK))
def test_programs_of_a_seed(block):
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        right(*program_of(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, PROGRAMS, 1 if LONG else BLOCK))
def test_programs_beside_jax(seed):
    text, x = program_of(seed)
    space = dict(THEIRS)
    exec(text.replace("import numpy as np\n", ""), space)
    f = space["f"]
    gradient = jax.jacfwd(f)
    theirs = jax.jit(lambda x: (f(x), gradient(x), jax.jacfwd(gradient)(x)))(x)
    g, (expected, sizes) = ours(text), exact(text, "f", x, PLAIN)
    assert error(theirs, expected, sizes) <= TOLERANCE
    assert error([g(x), fdiff.grad(g)(x), fdiff.hessian(g)(x)], theirs, sizes) <= TOLERANCE


@pytest.mark.parametrize("seed", range(0, PROGRAMS, BLOCK))
def test_single_precision(seed):
    text, x = program_of(seed)
    x = x.astype(np.float32)
    f, (expected, sizes) = ours(text), exact(text, "f", x.astype(float), PLAIN)
    found = f(x), fdiff.grad(f)(x), fdiff.hessian(f)(x)
    assert {np.asarray(part).dtype for part in found} == {np.dtype(np.float32)}
    assert error(found, expected, sizes) <= 2e-5


@pytest.mark.slow
def test_programs_that_hypothesis_finds_and_makes_smaller():
    @hypothesis.settings(
        max_examples=PROGRAMS // 2 if LONG else 1,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.randoms(use_true_random=False))
    def check(choices):
        text, x = program(choices), point(choices)
        hypothesis.note(text)
        right(text, x)

    check()
