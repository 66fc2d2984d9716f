"""Entries by a traced mask: stores and reads that do not depend on their number are no guards."""

import numpy as np
import pytest
from loop_ways import WAYS, agrees, loops_on_tape
from random_masked_programs import BEGIN, END, POINT, program

import fdiff
from fdiff.errors import TraceError
from fdiff.interpret import evaluate


def names(f, *args):
    return [node.primitive.name for node in fdiff.make_tape(f, *args).nodes]


def add_to_column(x):
    a = np.outer(x, x)
    a[x > 0, 1] -= 3.0 * x[0]
    return a


def along_rows(x):
    a = np.outer(x, x)
    a[x > 0] *= np.array([1.0, 2.0, 3.0, 4.0])
    a[x < 0] += x
    return a


def of_two_arrays(x):
    y = np.sin(x)
    outside = x > 0
    y[outside] = 0.5 * y[outside] - x[outside] / 3.0
    return y


def of_all_axes(x):
    a = np.outer(x, x)
    a[a > 0.1] = -a[a > 0.1]
    return a


def behind_other_axes(x):
    a = np.outer(x, x)
    a[:, x > 0] += 1.5
    a[1, x < 0.5] *= x[2]
    a[None, x > 0.5, 2:] = 0.25
    return a


def kept(x):
    """The part holds what was there when it was read."""
    y = x * x
    mask = x > 0
    part = y[mask]
    y *= 2.0
    mask[0] = ~mask[0]
    part -= 1.0
    y[x > 0] = part
    return y


def through_a_view(x):
    y = x * x
    v = y[1:]
    v[x[1:] > 0] *= 3.0
    return y


def numbers_of_numpy(x):
    y = x * x
    y[x > 0] = np.float64(3.0) * y[x > 0] + np.float64(0.5)
    return y


def beside_local_arrays(x):
    a, row = np.outer(x, x), np.zeros(4, x.dtype)
    row[0] = x[1]
    a[x > 0] = a[x > 0] * row + row
    row[:] = 7.0
    a[x < 0] -= np.zeros(4) + 0.5
    return a


def in_functions_inside(x):
    """The mask and one of the arrays belong to the trace around."""
    mask = x > 0

    def inner(z):
        y = z * x
        y[mask] = y[mask] - x[mask] * 2.0
        return y

    return fdiff.jit(inner)(x) if isinstance(x, np.ndarray) and x.dtype == float else inner(x)


NO_GUARDS = [
    add_to_column, along_rows, of_two_arrays, of_all_axes, behind_other_axes, kept, through_a_view,
    numbers_of_numpy, beside_local_arrays, in_functions_inside,
]  # fmt: skip


@pytest.mark.parametrize("f", NO_GUARDS, ids=lambda f: f.__name__)
def test_no_guards(f):
    """One trace serves all masks: also none of whose entries hold, and all."""
    tape = fdiff.make_tape(f, POINT)
    assert "gather" not in names(f, POINT)
    points = [POINT, -POINT, np.abs(POINT), -np.abs(POINT) - 1.0]
    for x in points:
        np.testing.assert_allclose(evaluate(tape, x)[0], f(x), rtol=1e-15)
        slopes = [fdiff.jacrev(f)(x), fdiff.jacfwd(f)(x)]
        expected = np.stack([by_step(f, x, e) for e in np.eye(4)], -1)
        for slope in slopes:
            np.testing.assert_allclose(slope, expected, rtol=1e-13, atol=1e-14)


def by_step(f, x, direction):
    """A derivative by a complex step; comparisons of complex numbers are those of real parts."""
    return f(x + 1e-30j * direction).imag / 1e-30


def squares(x):
    return np.sum(x[x > 0] ** 2)


def counted(x):
    part = x[x > 0]
    return np.sum(part * 2.0) * len(part)


def returned(x):
    return 2.0 * x[x > 0] + 1.0


def read_later(x):
    """The sizes are asked for after entries have changed."""
    y = x * x
    part = y[x > 0] * 3.0
    y[:] = 0.0
    return np.append(part, part.shape[0] * x[0])


def of_other_masks(x):
    y = x * x
    y[x > 0] = y[np.sort(x) > 0] * 2.0
    return y


def beside_arrays(x):
    part = x[x > 0]
    return part * np.arange(part.size) + np.exp(part)


def many_times(x):
    part = x[x > 0.5]
    for _ in range(40):
        part = 0.9 * part + 0.1
    return part


def by_rows_of_integers(x):
    counts = np.arange(4)
    counts[x > 0] += 2
    return counts * x


GUARDED = [
    squares, counted, returned, read_later, of_other_masks, beside_arrays, many_times,
    by_rows_of_integers,
]  # fmt: skip


@pytest.mark.parametrize("f", GUARDED, ids=lambda f: f.__name__)
def test_sizes_that_are_asked_for(f):
    for x in (POINT, POINT[::-1].copy(), 0.9 * POINT):
        np.testing.assert_allclose(fdiff.jit(f)(x), f(x), rtol=1e-15)
        slope = fdiff.jacobian(f)(x)
        expected = np.stack([by_step(f, x, e) for e in np.eye(4)], -1)
        np.testing.assert_allclose(slope, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    "store",
    [
        lambda y, m: y.__setitem__(m, y[m][:1]),
        lambda y, m: y.__setitem__(m, y[m] + np.ones(7)),
        lambda y, m: y.__setitem__(m[:2], 1.0),
        lambda y, m: y.__setitem__((m, 0), 1.0),
        lambda y, m: y[m[:3]],
        lambda y, m: y.__setitem__(m, y[m] + "a"),
        lambda y, m: y[m].__isub__(1j),
    ],
    ids=["one", "sum", "short", "axes", "read", "text", "complex"],
)
def test_errors_of_numpy(store):
    def f(x):
        y = x * x
        store(y, x > 0.2)
        return y

    try:
        f(POINT)
    except (ValueError, IndexError, TypeError) as error:
        kinds = [kind for kind in (ValueError, IndexError, TypeError) if isinstance(error, kind)]
        with pytest.raises(kinds[0]):
            fdiff.jit(f)(POINT)
    else:
        np.testing.assert_array_equal(fdiff.jit(f)(POINT), f(POINT))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.complex128])
@pytest.mark.parametrize("number", [2, 0.5, np.float64(0.5), np.float32(1.5)], ids=repr)
def test_dtypes(dtype, number):
    def f(x, y):
        y = y.copy()
        mask = x > 0
        y[mask] = y[mask] * number
        z = y.copy()
        if np.can_cast(np.result_type(z, number), dtype, "same_kind"):
            z[mask] += number
        return y, z

    y = np.arange(1, 5).astype(dtype)
    for ours, theirs in zip(fdiff.jit(f)(POINT, y), f(POINT, y), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_entries_left_out_take_no_part():
    """Infinities and NaNs that the mask leaves out reach no derivative."""

    def f(x, c):
        y = np.log(x)
        y[x > 0] *= c[0]
        y[x <= 0] = 0.0
        y[c > 9.0] *= c[c > 9.0]
        return np.sum(y)

    x, c = np.array([2.0, 0.0, 3.0]), np.array([2.0, np.inf, 1.0])
    with np.errstate(all="ignore"):
        of_x, of_c = fdiff.grad(f, argnums=(0, 1))(x, c)
    np.testing.assert_allclose(of_x, [1.0, 0.0, 2.0 / 3.0])
    np.testing.assert_allclose(of_c[::2], [np.log(6.0), 0.0])


def test_no_warnings_of_entries_left_out(recwarn):
    def f(x):
        y = x.copy()
        y[x < 1e300] *= 10.0
        return np.sum(np.where(x < 1e300, y, 0.0))

    for _ in range(3):
        fdiff.value_and_grad(f)(np.array([1.0, 1.5e308]))
    assert not recwarn.list


def test_batches():
    """Each element has a mask of its own."""

    def f(x):
        y = np.sin(x)
        y[x > 0] = 3.0 * y[x > 0] + x[0]
        return y

    points = np.stack([POINT, -POINT, POINT[::-1]])
    np.testing.assert_allclose(fdiff.vmap(f)(points), [f(x) for x in points], rtol=1e-15)


STEP = "for k in range(60):\n  u = np.sin(u) + 0.1 * x\n  m = u > 0.3\n"
ROLLED = {
    "box": "for k in range(60):\n  u = u + 0.1 * x\n  m = u > 1.0\n  u[m] -= 1.5\n",
    "columns": "for k in range(60):\n  w = w + 0.05 * x[:, None]\n  for d in range(3):\n"
    "    m = w[:, d] > 1.0\n    w[m, d] -= 1.5\n    m = w[:, d] < 0\n    w[m, d] += 0.9\n",
    "two arrays": STEP + "  u[m] = 0.5 * u[m] + 0.1 * x[m]\n",
    "behind the loop": STEP + "  p = 2.0 * u[m]\n  u[m] = 0.9 * u[m]\nu[m] = p\n",
    "list": f"parts = []\n{STEP}  parts.append(u[m] * s)\n"
    "u[0] += np.sum(parts[-1]) + np.sum(parts[-2]) + len(parts[7])\n",
    "inner loops": "for k in range(20):\n  u = np.sin(u) + 0.1 * x\n  for j in range(14):\n"
    "    m = u > 0.3\n    u[m] *= 0.97\n",
    "asked": f"{STEP}  u[m] *= 0.97\n  if u[0] > 0.4:\n    u[m] -= 0.1\n",
}


def looping(name):
    body = "".join(f"    {line}\n" for line in ROLLED[name].splitlines())
    return BEGIN + body + END


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ROLLED)
def test_loops(name, way, monkeypatch):
    text = looping(name)
    agrees(text, "f", POINT, way, monkeypatch)
    if way == "check":
        assert loops_on_tape(text, "f", POINT, way, monkeypatch)


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed, monkeypatch):
    for way in WAYS:
        agrees(program(seed), "f", POINT, way, monkeypatch)


@pytest.mark.parametrize("other", ["a", object()], ids=["text", "object"])
@pytest.mark.parametrize("entries", [lambda x: x, lambda x: x[x > 0]], ids=["array", "part"])
def test_what_no_entries_combine_with_is_refused_with_call_and_line(entries, other):
    """A TypeError named a class of fdiff's, where the same error of an array names the call."""
    with pytest.raises(TraceError, match=r"grad\(.*TracedArray(?s:.*)test_masked_parts.py:"):
        fdiff.grad(lambda x: np.sum(entries(x) + other))(np.array([0.3, -0.2, 0.7]))
