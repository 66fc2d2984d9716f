"""What a selection leaves out, or a store overwrites, has no part in a derivative.

Each function has a bad point: its value or slope there is infinite or NaN. Each selection takes or
keeps good entries alone. Derivatives of the good entries must be those at points where the others
are harmless (there by complex steps, which divide nothing away), and 0 for the others: in every
mode, order and tier, and on recorded arrays.
"""

import itertools
import operator

import numpy as np
import pytest
from test_eager import eagerly

import fdiff
from fdiff import autograd

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # plain code warns there, too

SIZE = 6
GOOD = np.array([0.3, 0.45, 0.62, 0.27, 0.71, 0.55])
WEIGHTS = np.array([1.3, -0.7, 0.4, 2.1, -1.1, 0.9])

# Of a point, entry by entry; the bad point, and whether it is one for real numbers alone.
FUNCTIONS = {
    "sqrt": (lambda x: np.sqrt(x), 0.0),
    "reciprocal": (lambda x: 1 / x, 0.0),
    "log": (lambda x: np.log(x), 0.0),
    "log of a negative number": (lambda x: np.log(x), -1.0),
    "power": (lambda x: x**0.5, 0.0),
    "negative power": (lambda x: x**-1.5, 0.0),
    "variable power": (lambda x: x**x, 0.0),
    "arccos": (lambda x: np.arccos(x), 1.0),
    "arctanh": (lambda x: np.arctanh(x), 1.0),
    "product with infinity": (lambda x: x * x * np.sin(x), np.inf),
    "overflow": (lambda x: np.exp(np.exp(x)), 1e3),
    "quotient of two": (lambda x: np.sin(x) / x, 0.0),
    "chain": (lambda x: np.log(np.sqrt(x * x)) * x, 0.0),
    "powers of a quotient": (lambda x: (x / 0.7) ** 1.7, np.inf),
    "row sums": (lambda x: np.sum(np.sqrt(x[:, None] * np.ones(3)), axis=1), 0.0),
    "rows of a product": (lambda x: np.log(x[:, None] * np.ones(2)) @ np.array([1.0, 2.0]), 0.0),
    "scan along rows": (lambda x: np.cumsum(1 / x[:, None] * np.ones(2), axis=1)[:, 1], 0.0),
    "broadcast": (lambda x: np.sqrt(np.broadcast_to(x, (2, SIZE))).sum(0), 0.0),
    "concatenated": (lambda x: np.concatenate([np.sqrt(x[:3]), 1 / x[3:]]), 0.0),
    "two roots": (lambda x: np.roll(np.sqrt(np.roll(x, 1)), -1) * np.sqrt(x), 0.0),
}  # fmt: skip


def stored(store):
    """A selection that stores into a copy of the array and gives that."""

    def select(y, ok):
        out = y * 1.0
        store(out, ok)
        return out

    return select


def each(places):
    return lambda y, ok: sum(WEIGHTS[i] * y[i] for i in places)


def unpacked(y, ok):
    _, a, b, _, c, _ = y
    return a * b + c


def filled(y, ok):
    table = y * np.ones((SIZE, 1))
    np.fill_diagonal(table, 1.0)
    return table[[0, 3], [0, 3]] * table[1, 1]


def looped(y, ok):
    out = np.zeros_like(y)
    for i in (1, 2, 4):
        out[i] = y[i] * out[i - 1] + y[i]
    return out


def overwritten(y, ok):
    out = np.zeros_like(y)
    out[:] = y
    out[:4] = out[4]
    out[5] = 2.0
    return out


def matrix(select):
    return lambda y, ok: select(y.reshape(2, 3))


# Of values and of where they are good: the entries taken, or those that are left after a store. The
# numbers are the bad entries.
SELECTIONS = {
    "slice": (lambda y, ok: y[1:4], (0, 5)),
    "two slices": (lambda y, ok: y[1:3] * y[3:5], (0, 5)),
    "slice by steps": (lambda y, ok: y[1::2], (0, 2, 4)),
    "slice backwards": (lambda y, ok: y[4:0:-2], (0, 1, 3)),
    "slice of a slice": (lambda y, ok: y[1:][2:], (0, 1, 2)),
    "slices of a matrix": (matrix(lambda y: y[1:, :2]), (0, 2, 5)),
    "row": (matrix(lambda y: y[1]), (0, 2)),
    "entry": (lambda y, ok: y[2], (0, 1)),
    "entries one by one": (each((1, 2, 4)), (0, 3)),
    "unpacked": (unpacked, (0, 3)),
    "list": (lambda y, ok: y[[1, 2, 2, 4]], (0, 3)),
    "nested list": (lambda y, ok: y[np.array([[1, 2], [4, -4]])], (0, 3)),
    "list of a matrix": (matrix(lambda y: y[:, [1, 2]]), (0, 3)),
    "pairs of indices": (matrix(lambda y: y[[0, 1], [1, 2]]), (0, 3)),
    "index that moves": (lambda y, ok: y[np.argsort(ok * np.arange(1, 7))[2:]], (0, 3)),
    "mask": (lambda y, ok: y[ok], (0, 3)),
    "mask of the shape": (lambda y, ok: y.reshape(2, 3)[ok.reshape(2, 3)], (0, 3)),
    "mask known before": (lambda y, ok: y[np.arange(SIZE) % 3 > 0], (0, 3)),
    "flatnonzero": (lambda y, ok: y[np.flatnonzero(ok)], (0, 3)),
    "nonzero": (lambda y, ok: y[np.nonzero(ok)], (0, 3)),
    "take": (lambda y, ok: np.take(y, [1, 2]), (0, 3)),
    "take by clipped indices": (lambda y, ok: np.take(y, [9, 2], mode="clip"), (0, 3)),
    "take_along_axis": (lambda y, ok: np.take_along_axis(y, np.array([1, 4]), 0), (0, 3)),
    "compress": (lambda y, ok: np.compress(np.arange(SIZE) % 3 > 0, y), (0, 3)),
    "extract": (lambda y, ok: np.extract(np.arange(SIZE) % 3 > 0, y), (0, 3)),
    "compress by a traced mask": (lambda y, ok: np.compress(ok, y), (0, 3)),
    "extract by a traced mask": (lambda y, ok: np.extract(ok, y), (0, 3)),
    "delete": (lambda y, ok: np.delete(y, [0, 3]), (0, 3)),
    "delete one": (lambda y, ok: np.delete(y, 2), (2,)),
    "split": (lambda y, ok: np.split(y, [2, 4])[1], (0, 5)),
    "array_split": (lambda y, ok: np.array_split(y, 4)[1], (0, 5)),
    "diff": (lambda y, ok: np.diff(y)[1:-1], (0, 5)),
    "roll": (lambda y, ok: np.roll(y, 1)[2:4], (0, 3)),
    "flip": (lambda y, ok: np.flip(y)[1:4], (0, 1)),
    "pad": (lambda y, ok: np.pad(y, 1)[2:5], (0, 5)),
    "repeat": (lambda y, ok: np.repeat(y, 2)[2:5], (0, 4)),
    "tile": (lambda y, ok: np.tile(y, 2)[7:9], (0, 3)),
    "stack": (lambda y, ok: np.stack([y, y * y])[:, 1:3], (0, 3)),
    "scan": (lambda y, ok: np.cumsum(y[::-1])[:2], (0, 3)),
    "diagonal": (matrix(lambda y: np.diagonal(y)), (1, 2, 3, 5)),
    "diag": (matrix(lambda y: np.diag(y)), (1, 3)),
    "trace": (matrix(lambda y: np.trace(y)), (1, 3)),
    "triu": (matrix(lambda y: np.triu(y)), (3,)),
    "tril": (matrix(lambda y: np.tril(y)), (1, 2)),
    "triu_indices": (matrix(lambda y: y[np.triu_indices(2, 1, 3)]), (0, 3)),
    "where": (lambda y, ok: np.where(ok, y, 0.0), (0, 3)),
    "select": (lambda y, ok: np.select([ok], [y], 0.5), (0, 3)),
    "choose": (lambda y, ok: np.choose(ok * 1, [np.zeros(SIZE), y]), (0, 3)),
    "piecewise": (lambda y, ok: np.piecewise(y, [ok, ~ok], [lambda t: t * t, 0.5]), (0, 3)),
    "reduce over a mask": (lambda y, ok: np.add.reduce(y, where=ok), (0, 3)),
    "largest over a mask": (lambda y, ok: np.max(y, where=ok, initial=-99.0), (0, 3)),
    "sum over a mask": (lambda y, ok: np.sum(y, where=ok), (0, 3)),
    "mean over a mask": (lambda y, ok: np.mean(y, where=ok), (0, 3)),
    "product over a mask": (lambda y, ok: np.prod(y, where=ok), (0, 3)),
    "store by indices": (stored(lambda y, ok: operator.setitem(y, [0, 3], 0.0)), (0, 3)),
    "store of an entry": (stored(lambda y, ok: operator.setitem(y, 2, 1.0)), (2,)),
    "store of a slice": (stored(lambda y, ok: operator.setitem(y, slice(1, 3), 0.2)), (1, 2)),
    "store by a mask": (stored(lambda y, ok: operator.setitem(y, ~ok, 0.0)), (0, 3)),
    "store of values by a mask": (
        stored(lambda y, ok: operator.setitem(y, np.arange(SIZE) % 3 == 0, np.ones(2))), (0, 3)),
    "store of another entry": (stored(lambda y, ok: operator.setitem(y, [0, 3], y[1:3])), (0, 3)),
    "store into a view": (stored(lambda y, ok: operator.setitem(y[2:], 1, 0.5)), (3,)),
    "store everywhere": (overwritten, (0, 1, 2, 3, 5)),
    "stores in a loop": (looped, (0, 3, 5)),
    "put": (stored(lambda y, ok: np.put(y, [0, 3], [0.5])), (0, 3)),
    "place": (stored(lambda y, ok: np.place(y, np.arange(SIZE) % 3 == 0, [0.5])), (0, 3)),
    "putmask": (stored(lambda y, ok: np.putmask(y, ~ok, 0.5)), (0, 3)),
    "copyto": (stored(lambda y, ok: np.copyto(y, 0.5, where=~ok)), (0, 3)),
    "copy into another": (
        lambda y, ok: (out := np.zeros(SIZE) * y[1], np.copyto(out, y, where=ok))[0], (0, 3)),
    "fill_diagonal": (filled, ()),
    "ufunc into another": (
        lambda y, ok: np.multiply(y, y, out=np.zeros(SIZE) * y[1], where=ok), (0, 3)),
}  # fmt: skip


def loss(picked):
    """A sum of cubes, with weights."""
    flat = np.ravel(picked)
    return np.sum(flat**3 * np.cos(np.arange(flat.size) + 1.0))


def program(function, selection):
    """What is selected, as a function of all entries; a point; and where it is bad and left out."""
    f, bad = FUNCTIONS[function]
    select, places = SELECTIONS[selection]
    x = GOOD.copy()
    x[list(places)] = bad
    return lambda x: select(f(x), x != bad), x, np.isin(np.arange(SIZE), places)


def harmless(function, selection):
    """The same function for points that are harmless where entries are left out."""
    f, _ = FUNCTIONS[function]
    select, places = SELECTIONS[selection]
    ok = ~np.isin(np.arange(SIZE), places)
    return lambda x: select(f(x), ok)


def gradient(function, selection):
    """By complex steps, and 0 for what is left out."""
    g, (_, _, out) = harmless(function, selection), program(function, selection)
    steps = GOOD + 1e-30j * np.diag(~out)
    return np.array([loss(g(x)).imag / 1e-30 for x in steps])


def second(function, selection):
    """The Hessian at a harmless point, and 0 for what is left out."""
    _, _, out = program(function, selection)
    wanted = fdiff.hessian(lambda x: loss(harmless(function, selection)(x)))(GOOD)
    return np.where(out | out[:, None], 0.0, wanted)


def check(found, wanted, out):
    """Equal, and exactly 0 in the columns of what is left out."""
    found = np.asarray(found)
    assert (found[..., out] == 0).all(), f"{found} is not 0 at {out}"
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10 * np.abs(wanted).max(initial=0))


def every(step):
    """Pairs of functions and selections, one of `step` of each."""
    pairs = itertools.product(enumerate(FUNCTIONS), enumerate(SELECTIONS))
    chosen = [(f, s) for (i, f), (k, s) in pairs if (i + k) % step == 0]
    return pytest.mark.parametrize(("function", "selection"), chosen)


@pytest.fixture
def tier(request, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", request.param)
    return request.param


def assert_gradient(function, selection):
    f, x, out = program(function, selection)
    check(fdiff.grad(lambda x: loss(f(x)))(x), gradient(function, selection), out)


def assert_modes(function, selection):
    """Jacobians in both modes, tangents, batches, and second derivatives in all compositions."""
    f, x, out = program(function, selection)
    total = lambda x: loss(f(x))
    first, hessian = gradient(function, selection), second(function, selection)
    rows = fdiff.jacobian(harmless(function, selection))(GOOD)
    rows[..., out] = 0
    check(fdiff.jacobian(f, mode="reverse")(x), rows, out)
    v = np.where(out, 0.0, WEIGHTS)
    tangent = fdiff.jvp(f, x, v)[1]
    np.testing.assert_allclose(tangent, rows @ v, rtol=1e-9, atol=1e-12)
    check(fdiff.vmap(fdiff.grad(total))(np.stack([x, x])), [first, first], out)
    batched = fdiff.grad(lambda xs: np.sum(fdiff.vmap(total)(xs)))(np.stack([x, x]))
    check(batched, [first, first], out)
    check(fdiff.hessian(total)(x), hessian, out)
    check(fdiff.jacobian(fdiff.grad(total), mode="reverse")(x), hessian, out)
    check(fdiff.hvp(total, x, v)[1], hessian @ v, out)
    check(fdiff.grad(lambda x: fdiff.grad(total)(x) @ v)(x), hessian @ v, out)
    check(fdiff.grad(lambda x: fdiff.jvp(total, x, v)[1])(x), hessian @ v, out)


def assert_eager(function, selection):
    f, x, out = program(function, selection)
    total = lambda x: loss(f(x))
    check(eagerly(fdiff.grad(total), x), gradient(function, selection), out)
    v = np.where(out, 0.0, WEIGHTS)
    found = eagerly(fdiff.grad(lambda x: fdiff.grad(total)(x) @ v), x)
    check(found, second(function, selection) @ v, out)


def assert_recorded(function, selection):
    f, x, out = program(function, selection)
    wanted = gradient(function, selection)
    for _ in range(2):
        z = autograd.tensor(x, requires_grad=True)
        loss(f(z)).backward()
        check(z.grad.numpy(), wanted, out)
    z = autograd.tensor(x, requires_grad=True)
    (g,) = autograd.grad(loss(f(z)), z, create_graph=True)
    check(g.detach().numpy(), wanted, out)
    v = np.where(out, 0.0, WEIGHTS)
    (h,) = autograd.grad(np.sum(g * v), z)
    check(h.numpy(), second(function, selection) @ v, out)


@every(7)
def test_gradients(function, selection):
    assert_gradient(function, selection)


@every(59)
def test_modes_and_orders(function, selection):
    assert_modes(function, selection)


@pytest.mark.parametrize("tier", ["evaluate", "compile"], indirect=True)
@every(61)
def test_compiled(function, selection, tier):
    assert_gradient(function, selection)


@every(23)
def test_eager(function, selection):
    assert_eager(function, selection)


@every(23)
def test_recorded(function, selection):
    assert_recorded(function, selection)


@every(67)
def test_checkpoints(function, selection):
    """A mask passes into what is computed again, and out of it."""
    f, bad = FUNCTIONS[function]
    select, _ = SELECTIONS[selection]
    _, x, out = program(function, selection)
    outside = lambda x: loss(fdiff.checkpoint(lambda y: select(y, x != bad))(f(x)))
    inside = lambda x: loss(select(fdiff.checkpoint(f)(x), x != bad))
    for total in (outside, inside):
        check(fdiff.grad(total)(x), gradient(function, selection), out)
        v = np.where(out, 0.0, WEIGHTS)
        check(fdiff.hvp(total, x, v)[1], second(function, selection) @ v, out)


def test_steps_have_no_part():
    """What has no derivative anywhere has none on recorded arrays either, beside what has one."""
    f = lambda x: np.sum(np.floor(1 / x) + (1 / x)[1:].sum())
    x = np.array([0.0, 0.3, 2.0])
    wanted = [0.0, -3 / 0.09, -3 / 4]
    np.testing.assert_allclose(fdiff.grad(f)(x), wanted, rtol=1e-14)
    for _ in range(2):
        z = autograd.tensor(x, requires_grad=True)
        f(z).backward()
        np.testing.assert_allclose(z.grad.numpy(), wanted, rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("way", [assert_gradient, assert_modes, assert_eager, assert_recorded])
def test_every_function(selection, way):
    for function in FUNCTIONS:
        way(function, selection)
