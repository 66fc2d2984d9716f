"""Kernels of in-place programs: the interpreter's values, no copy that is not needed."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tapes import floating, like, tape_of, values

import fdiff
from fdiff import kernels
from fdiff.arraytype import type_of
from fdiff.ops.shapes.gather_scatter import scatter_set
from fdiff.ops.shapes.view_ops import update
from fdiff.tape import Builder, verify
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify


@pytest.fixture(autouse=True, scope="module")
def no_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FDIFF_CACHE_DIR", "off")
        yield


def run(tape, *arrays, layouts=None):
    assert kernels.supported(tape)
    return kernels.compile(tape, layouts or ("C",) * len(arrays))(*arrays)


def check(tape, *arrays, layouts=None, rtol=1e-12, atol=1e-13):
    for got, want in zip(run(tape, *arrays, layouts=layouts), values(tape, *arrays), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def pulled(tape):
    return simplify(vjp(tape, floating(tape)))


def check_both(f, *arrays, rng, layouts=None, rtol=1e-11, atol=1e-12):
    """Values and cotangents of a program; NumPy itself says what the values are."""
    tape = tape_of(f, *arrays)
    out = f(*[a.copy() for a in arrays])
    expected = out if isinstance(out, tuple) else (out,)
    for got, want in zip(run(tape, *arrays, layouts=layouts), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    bars = like(rng, tape.output_types)
    wide = None if layouts is None else (*layouts, *["C"] * len(bars))
    check(pulled(tape), *arrays, *bars, layouts=wide, rtol=rtol, atol=atol)


def text(f, *arrays):
    tape = tape_of(f, *arrays)
    return kernels.source(tape, ("C",) * len(tape.inputs))


def nests(source):
    """Loops that lie in no other, those around a hole apart."""
    return len(re.findall(r"^    for i0 ", source, re.MULTILINE))


# --- the two ops: every rank, step, dtype and layout ------------------------------------------


def node(op, *arrays, **params):
    """Tape of one node of which all arguments are inputs."""
    builder = Builder()
    ids = tuple([builder.input(type_of(a)) for a in arrays])
    return verify(builder.finish([builder.add(op, ids, tuple(sorted(params.items())))]))


UPDATES = {
    "a whole array": ((4, 3), (4, 3), (0, 0), (1, 1)),
    "a block": ((5, 6), (3, 2), (1, 3), (1, 1)),
    "a row": ((5, 6), (1, 6), (4, 0), (1, 1)),
    "a column": ((5, 6), (5, 1), (0, 2), (1, 1)),
    "an entry": ((5, 6), (1, 1), (2, 5), (1, 1)),
    "turned": ((5, 6), (5, 6), (4, 5), (-1, -1)),
    "turned block": ((5, 6), (3, 2), (3, 2), (-1, -1)),
    "turned and by steps": ((7, 6), (3, 3), (6, 0), (-3, 2)),
    "rows apart": ((7, 2), (4, 2), (0, 0), (2, 1)),
    "nothing": ((5, 6), (0, 6), (3, 0), (1, 1)),
    "nothing of a row": ((5, 6), (5, 0), (0, 4), (1, 1)),
    "nothing, turned": ((5,), (0,), (4,), (-1,)),
    "nothing at the end": ((5,), (0,), (5,), (1,)),
    "into nothing": ((0, 3), (0, 2), (0, 1), (1, 1)),
    "one entry of one": ((1,), (1,), (0,), (1,)),
    "a scalar": ((), (), (), ()),
    "of size one inside": ((4, 1, 3), (2, 1, 3), (1, 0, 0), (1, 1, 1)),
    "three axes": ((4, 5, 3), (2, 3, 2), (1, 2, 0), (1, 1, 1)),
    "three axes, the middle": ((4, 5, 3), (4, 2, 3), (0, 1, 0), (1, 1, 1)),
    "four axes": ((2, 3, 4, 5), (1, 2, 2, 3), (1, 0, 3, 4), (1, 1, -2, -2)),
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "b1", "u1"])
@pytest.mark.parametrize("case", UPDATES)
def test_update(case, dtype, rng):
    shape, inner, starts, steps = UPDATES[case]
    x, part = (np.asarray(rng.integers(0, 99, s)).astype(dtype) for s in (shape, inner))
    tape = node(update, x, part, starts=starts, steps=steps)
    given_ = [a if a.ndim else a[()] for a in (x, part)]
    check(tape, *given_)
    if shape:
        turned = [np.asfortranarray(a) for a in (x, part)]
        check(tape, *turned, layouts=("A", "A"))


@pytest.mark.parametrize("case", UPDATES)
def test_cotangents_of_update(case, rng):
    shape, inner, starts, steps = UPDATES[case]
    x, part = rng.normal(size=shape), rng.normal(size=inner)
    tape = pulled(node(update, np.asarray(x), np.asarray(part), starts=starts, steps=steps))
    bar = rng.normal(size=shape)
    check(tape, *[a if np.ndim(a) else np.float64(a) for a in (x, part, bar)])


SETS = {
    "entries": ((6,), (4,), ([0, 5, -2, 0],)),
    "rows": ((4, 3), (3, 3), ([2, 0, -2],)),
    "pairs": ((4, 3), (3,), ([1, 1, -1], [0, 2, -3])),
    "a table of rows": ((4, 3), (2, 2, 3), ([[0, 1], [3, 0]],)),
    "nothing": ((4, 3), (0, 3), ([],)),
    "one": ((4,), (1,), ([2],)),
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
@pytest.mark.parametrize("case", SETS)
def test_scatter_set(case, dtype, rng):
    shape, inner, indices = SETS[case]
    x, new = (rng.integers(0, 99, s).astype(dtype) for s in (shape, inner))
    arrays = (x, new, *[np.array(i, int) for i in indices])
    tape = node(scatter_set, *arrays)
    check(tape, *arrays)
    check(tape, *[np.repeat(a, 2, axis=-1)[..., ::2] for a in arrays], layouts=("A",) * len(arrays))
    if dtype == "f8":
        check(pulled(tape), *arrays, rng.normal(size=shape))


def test_an_index_out_of_bounds_is_an_error():
    x, new = np.zeros(4), np.ones(2)
    kernel = kernels.compile(node(scatter_set, x, new, np.array([0, 1])), ("C",) * 3)
    assert kernel(x, new, np.array([3, -4]))[0].tolist() == [1, 0, 0, 1]
    for index in ([0, 4], [-5, 0]):
        with pytest.raises(IndexError, match="index is out of bounds"):
            kernel(x, new, np.array(index))


def test_one_kernel_for_all_sizes_starts_and_steps(rng):
    """Start, size and step are numbers of a table: 40 programs, one text."""
    texts = set()
    for n, start, step in itertools.product((7, 12), (0, 1, 2), (2, 3)):
        count = (n - start + step - 1) // step
        x, part = rng.normal(size=n), rng.normal(size=count)
        tape = node(update, x, part, starts=(start,), steps=(step,))
        check(tape, x, part)
        texts.add(kernels.source(tape, ("C", "C")))
    assert len(texts) == 1


# --- programs -----------------------------------------------------------------------------------


def reaction(u, v):
    """Gray-Scott, explicit Euler in place (Pearson, Science 261, 1993)."""
    u, v = u.copy(), v.copy()
    for _ in range(3):
        c, w = u[1:-1, 1:-1], v[1:-1, 1:-1]
        lu = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * c
        lv = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * w
        r = c * w * w
        u[1:-1, 1:-1] += 0.5 * (0.16 * lu - r + 0.035 * (1 - c))
        v[1:-1, 1:-1] += 0.5 * (0.08 * lv + r - 0.095 * w)
    return u, v


def walls(u):
    """Diffusion whose ends follow their neighbours: three stores a step."""
    u = u.copy()
    for _ in range(3):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[:1] = u[1:2]
        u[-1:] = 0.5 * u[-2:-1]
    return u


def rows(x):
    """Each row made of the one before."""
    a = np.outer(x, x) * 0.0
    a[0] = x
    for i in range(1, x.size):
        a[i] = np.sin(a[i - 1]) * 2 + x
    return a


def overlapping(x):
    y = x * 2.0
    y[1:] = y[:-1]
    y[:-1] += y[1:]
    y[::2] = y[::-1][::2] * 3
    return y


def halves(x):
    """Odd entries from even ones and back: Gauss-Seidel by colours."""
    y = np.sin(x)
    for _ in range(2):
        y[1:-1:2] = 0.5 * (y[:-2:2] + y[2::2])
        y[2:-1:2] = 0.5 * (y[1:-2:2] + y[3::2])
    return y


def picked(x):
    y = np.cos(x)
    y[np.array([0, 2, 0])] = y[np.array([1, 1, 3])] * 2
    y[np.array([1, 3])] += y[np.array([3, 1])]
    return y, y[1:] * 2


def before_and_after(x):
    """What was read before a store is what was there then."""
    y = x + 1.0
    first = np.exp(y)
    entry = y[2] * 3
    y[1:] = x[:-1]
    tail = y[2:] * entry
    y[0] = tail.sum()
    return first * y, tail, y


def through_views(x):
    y = (x * 2.0).reshape(-1, 2)
    y.T[0] = y[:, 1] ** 2
    y[1, 1] = y[0, 0]
    flat = y.reshape(-1)
    flat[::3] *= 2.0
    return y, flat


def forked(x):
    """Two arrays made of one: only one of them can have its memory."""
    y = np.tanh(x)
    a, b = y.copy(), y.copy()
    a[0], b[-1] = 1.0, 2.0
    return a, b * y


def summed(x):
    """Stores between reductions and scans."""
    y = np.cumsum(x)
    y[1:] -= y[:-1] * 0.5
    y[0] = y.sum()
    z = np.cumsum(y)
    z[-1] = y.max()
    return z


VECTORS = {
    f.__name__: f
    for f in (
        walls,
        rows,
        overlapping,
        halves,
        picked,
        before_and_after,
        through_views,
        forked,
        summed,
    )
}


@pytest.mark.parametrize("n", [8, 14])
@pytest.mark.parametrize("name", VECTORS)
def test_program(name, n, rng):
    check_both(VECTORS[name], rng.normal(size=n), rng=rng)


@pytest.mark.parametrize("name", VECTORS)
def test_program_of_strided_inputs(name, rng):
    x = np.repeat(rng.normal(size=8), 2)[::2]
    check_both(VECTORS[name], x, rng=rng, layouts=("A",))


@pytest.mark.parametrize("name", VECTORS)
def test_program_in_single_precision(name, rng):
    tape = tape_of(VECTORS[name], rng.normal(size=8).astype("f4"))
    x = rng.normal(size=8).astype("f4")
    check(tape, x, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_gray_scott(rng):
    u, v = np.asfortranarray(rng.random((6, 7))), rng.random((6, 7))
    check_both(reaction, u, v, rng=rng, layouts=("A", "C"))


@pytest.mark.parametrize("name", VECTORS)
def test_one_text_for_all_sizes(name):
    if name == "rows":  # as many stores as there are rows
        return
    assert len({text(VECTORS[name], np.ones(n)) for n in (8, 10, 64)}) == 1


# --- copies ---------------------------------------------------------------------------------------


def test_a_chain_of_stores_initialises_once_and_copies_nothing():
    def f(x):
        y = np.sin(x)
        for k in range(5):
            y[k : k + 3] = y[k + 1 : k + 4].sum() * x[:3]
        return y

    source = text(f, np.ones(9))
    assert nests(source) == 11  # sin; then for each store a sum and the store
    assert "work" not in source


def test_small_pieces_are_saved_and_not_the_whole_array():
    """A piece made of another piece: a loop that makes it, a loop that stores it."""

    def f(x):
        y = np.sin(x)
        for k in range(5):
            y[k : k + 3] = y[k + 1 : k + 4] * x[:3]
        return y

    source = text(f, np.ones(40))
    assert nests(source) == 11
    assert source.count("range(n0)") == 1  # n0: the size of x, which nothing else runs over
    tape = pulled(tape_of(f, np.ones(40)))
    back = kernels.source(tape, ("C", "C"))
    assert back.count("range(n0)") == 2  # the values with a copy of the cotangent; the gradient
    assert {text(f, np.ones(n)) for n in (40, 100)} == {source}


def test_a_filled_array_is_filled_once(rng):
    def f(x):
        y = np.broadcast_to(x[0] * 0.0 + 1.0, (4, x.size)).copy()
        z = np.full_like(y, 7.5)
        for k in range(3):
            y[k], z[k] = x, np.sin(x)
        return y, z

    source = text(f, np.ones(5))
    check_both(f, rng.normal(size=5), rng=rng)
    assert nests(source) == 2  # the rows are stored in one loop: they are known to be apart
    assert "work" not in source


def test_steps_take_turns_in_two_arrays():
    """Two arrays a field, the frame copied once into each by one loop, and one loop a step."""
    source = text(reaction, np.ones((6, 7)), np.ones((6, 7)))
    assert len(re.findall(r"= r\d", source)) == 2
    assert nests(source) == 1 + 3


def test_the_reverse_sweep_clears_in_place():
    """The cotangent of a chain of stores: each takes its piece out and clears it."""

    def f(x, a, b):
        y = x * 2.0
        y[1:4] = y[0:3].sum() + a
        y[2:5] = y[3:6].sum() + b
        return y

    tape = pulled(tape_of(f, np.ones(9), np.ones(3), np.ones(3)))
    source = kernels.source(tape, ("C",) * 4)
    check(tape, *map(np.sin, (np.arange(9.0), np.arange(3.0), np.arange(3.0), np.arange(9.0))))
    assert len(re.findall(r"= r\d", source)) <= 3


def test_what_is_returned_is_not_written_over(rng):
    def f(x):
        y = np.exp(x)
        z = y.copy()
        z[0] = 1.0
        return y, z, z[1:]

    check_both(f, rng.normal(size=5), rng=rng)


def test_inputs_are_never_written_to(rng):
    def f(x):
        y = x.copy()
        y[0] = 1.0
        return y

    x = rng.normal(size=5)
    kept = x.copy()
    run(tape_of(f, x), x)
    assert np.array_equal(x, kept)


# --- scalars ------------------------------------------------------------------------------------


def stack(x):
    return np.stack([np.sin(x[i]) * x[i + 1] for i in range(x.size - 1)])


def test_stacked_scalars_are_straight_code(rng):
    source = text(stack, np.ones(40))
    assert "for" not in source
    assert "out0[38] = " in source
    check_both(stack, rng.normal(size=40), rng=rng)


def test_the_gradient_of_stacked_scalars_has_one_loop():
    tape = pulled(tape_of(stack, np.ones(40)))
    source = kernels.source(tape, ("C", "C"))
    assert source.count("for i") == 1  # zeros
    assert "rt.add" not in source
    assert source.count("\n") < 40 * 17


def test_a_matrix_of_scalars_lies_in_place_for_a_solver(rng):
    def f(x):
        a = np.stack([x[i] * x[j] + 3.0 * (i == j) for i in range(3) for j in range(3)])
        return np.linalg.solve(a.reshape(3, 3), x)

    source = text(f, np.ones(3))
    assert "for" not in source
    check_both(f, rng.normal(size=3), rng=rng)


# --- programs at random -------------------------------------------------------------------------

STEPS = (
    lambda u, v, k: u.__setitem__(k, v[k - 1] * 2.0),
    lambda u, v, k: u[1:-1, 1:-1].__iadd__(0.1 * (v[2:, 1:-1] - u[1:-1, :-2])),
    lambda u, v, k: u.__setitem__((slice(None), k), v[:, k - 1] * u[:, 0]),
    lambda u, v, k: u.__setitem__((k, k), v[0, k] + u[0, 0]),
    lambda u, v, k: u.__setitem__(slice(None, None, 2), v[::2] * 0.5),
    lambda u, v, k: u.__setitem__(slice(1, None), v[:-1]),
    lambda u, v, k: u.__setitem__(np.array([k, 0, k]), v[np.array([0, 1, 2])] * 1.5),
    lambda u, v, k: u.__setitem__((slice(None, None, -1),) * 2, np.tanh(v + u)),
    lambda u, v, k: u.T.__setitem__(k, v.T[0] ** 2 * 0.1),
    lambda u, v, k: u[k:].__imul__(0.7),
    lambda u, v, k: u.__setitem__(slice(None), np.cumsum(v, axis=0) * 0.3),
    lambda u, v, k: u.__setitem__((0, slice(None)), np.sum(v, axis=0) * 0.1),
)  # fmt: skip


def at_random(steps, results):
    def f(x):
        made = [x * 1.0, np.sin(x), x.copy()]
        for which, a, b, k, fresh in steps:
            u = made[a % len(made)]
            u = u.copy() if fresh else u
            STEPS[which](u, made[b % len(made)], k)
            made.append(u)
        return (*[made[-1 - r % len(made)] for r in results], made[0][1:])

    return f


step = st.tuples(
    st.integers(0, len(STEPS) - 1),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 3),
    st.booleans(),
)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_whole_store_leaves_nothing_on_the_tape(order):
    """Nor does the layout that the array keeps: it tells what is a view, and no kernel minds."""
    x = np.asarray(np.arange(12.0).reshape(3, 4), order=order)

    def f(x):
        b = np.empty_like(x)
        b[:] = np.copy(x, "C") * 2.0
        b[...] = np.sin(np.copy(b, "F"))
        b *= 3.0
        return np.sum(b)

    ops = [n.primitive.name for n in simplify(tape_of(f, x)).nodes]
    assert ops == ["input", "constant", "multiply", "sin", "constant", "multiply", "sum"]


@pytest.mark.slow
@settings(max_examples=12)
@given(
    st.lists(step, min_size=2, max_size=6),
    st.lists(st.integers(0, 3), min_size=1, max_size=2),
    st.booleans(),
)
def test_a_random_program_and_its_gradient(steps, results, strided):
    rng = np.random.default_rng(len(steps))
    x = rng.normal(size=(4, 5))
    layouts = ("A",) if strided else ("C",)
    f = at_random(steps, results)
    check_both(
        f, np.asfortranarray(x) if strided else x, rng=rng, layouts=layouts, rtol=1e-9, atol=1e-8
    )


# --- element loops --------------------------------------------------------------------------------


def gauss_seidel(x):
    """Each entry from two that have just been stored."""
    a = x.copy()
    for i in range(1, x.shape[0]):
        for j in range(1, x.shape[1]):
            a[i, j] = 0.25 * (a[i - 1, j] + a[i, j - 1]) + x[i, j]
    return a


def three_entries(x):
    a = x.copy()
    a[1, 1] += 2 * a[0, 1]
    a[1, 2] += 2 * a[0, 2]
    a[2, 1] += 2 * a[1, 1]
    return a


def a_sum_and_a_row(x):
    a = x.copy()
    a[2] += np.sum(a)
    a[0] = a[1]
    return a * np.cos(x)


def entries_handed_on(x):
    """One entry under many names: stored, read through views, stored again."""
    a = x * 1.0
    a[0, 0] = a[1, 1]
    a[0, 1] = a[0, 0]
    v = a[0]
    v[2] = v[1]
    a[2] = v[::-1]
    a[1, 0] = a[2, 0] * a[0, 2]
    return a


ELEMENTS = (gauss_seidel, three_entries, a_sum_and_a_row, entries_handed_on)


@pytest.mark.parametrize("shape", [(3, 3), (4, 4), (5, 5), (8, 8), (3, 5)])
@pytest.mark.parametrize("f", ELEMENTS)
def test_element_loops(f, shape, rng):
    """An entry that is a local is known by it under each of the views it is read through."""
    check_both(f, rng.normal(size=shape), rng=rng)


def test_a_scatter_that_is_spread_is_added_as_a_whole(rng):
    """Along the axis of a batch, which the scattered sum has not."""

    def f(x):
        a = x.copy()
        v = a[1]
        v[-2] += np.sum(a) * 0.25
        a[[0, 1, 2]] += np.sin(v[:, None])
        return np.sum(v)

    rows = rng.normal(size=(2, 3, 3))
    slopes = fdiff.vmap(fdiff.grad(f))
    want = slopes(rows)
    got = fdiff.jit(slopes)(rows)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(got[1], fdiff.grad(f)(rows[1]), rtol=1e-13, atol=1e-14)
