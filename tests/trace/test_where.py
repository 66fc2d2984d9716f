"""`where` keeps the branch that is not taken out of derivatives of every order, whatever is there.

Each case is a function of an array and of `mind`: ``mind(x, ok)`` is `x` itself in the function
under test, and `x` with ones where not `ok` in the reference, whose every intermediate value is
finite (the idiom by which users of other tools protect themselves). Both have the same value, so
all their derivatives must agree; those of the reference never meet a NaN or an infinity.
"""

import numpy as np
import pytest
from tapes import floating, tape_of, values

import fdiff
from fdiff import kernels
from fdiff.tape import verify
from fdiff.transforms.batch import batch
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

# As in plain code: the arms that are not taken are computed, and warn.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning"),
    pytest.mark.usefixtures("one_interpreter"),
]

A = np.array([[1.0, -2.0, 0.5], [0.3, 1.0, 1.5], [2.0, 0.1, -1.0]])


def mapped(x, mind):
    return np.where(x > 0, np.sqrt(mind(x, x > 0)), 0.0)


def logarithm(x, mind):
    return np.where(x > 0, np.log(mind(x, x > 0)) * x, x * x)


def quotient(x, mind):
    return np.where(x != 0, np.sin(x) / mind(x, x != 0), 1.0)


def power(x, mind):
    return np.where(x > 0, mind(x, x > 0) ** 1.5 + mind(x, x > 0) ** x, -x)


def nested(x, mind):
    inner = np.where(x > 1, np.sqrt(mind(x - 1, x > 1)), 1 / mind(x, x != 0))
    return np.where(x > 0, inner, x**3)


def two_users(x, mind):
    root = np.sqrt(mind(x, x > 0))
    return np.where(x > 0, root, 0.0) + np.where(x > 1, root * x, x)


def hidden_use(x, mind):
    root = np.sqrt(mind(x, x > 0))
    return np.where(x > 0, root, 0.0) * np.where(x > 1.5, 1 / mind(root, x > 0), 2 * x)


def in_a_sum(x, mind):
    return np.sum(mapped(x, mind)) ** 2 + np.mean(logarithm(x, mind) ** 2)


def of_a_sum(x, mind):
    fine = np.all(x > 5)
    return np.where(fine, np.sum(np.log(mind(x, fine))), np.sum(x**3))


def of_rows(x, mind):
    rows = np.stack([x, x * x + 1.0])
    fine = np.all(rows > 0, axis=1)
    return np.where(fine, np.sum(np.log(mind(rows, fine[:, None])), axis=1), np.prod(rows, axis=1))


def extrema(x, mind):
    fine = np.all(x > 5)
    y = np.log(mind(x, fine))
    return np.where(fine, np.max(y) * np.min(y) + np.ptp(y), np.sum(x * x))


def products(x, mind):
    fine = np.all(x > 5)
    y = np.sqrt(mind(x, fine))
    return np.where(fine, np.prod(y) + np.sum(np.cumprod(y)) + np.cumsum(y)[-1], np.prod(x))


def scans(x, mind):
    y = np.log(mind(x, x > 0))
    fine = np.cumsum(x <= 0) == 0
    return np.where(fine, np.cumsum(np.log(mind(x, fine))), x * x) + np.where(x > 0, y, 0.0)


def after_slices(x, mind):
    y = np.log(mind(x, x > 0))
    return np.where(x[1:] > 0, y[1:], x[1:] ** 2) + np.where(x[:-1] > 0, y[:-1], x[1:])


def after_gathers(x, mind):
    at = np.array([2, 0, 0, 3, 1])
    y = np.sqrt(mind(x, x > 0))
    return np.where(x[at] > 0, y[at] * x[at], 0.0)


def moved_about(x, mind):
    y = np.sqrt(mind(x, x > 0))
    wide = np.broadcast_to(np.concatenate([y, y[::-1]]).reshape(2, 4).T, (3, 4, 2))
    keep = np.broadcast_to(np.concatenate([x, x[::-1]]).reshape(2, 4).T, (3, 4, 2)) > 0
    return np.where(keep, np.transpose(wide, (1, 0, 2)).swapaxes(0, 1), 1.0)


def after_a_product(x, mind):
    y = A @ x[:3]
    return np.where(y > 0, np.log(mind(y, y > 0)) * y, y**2)


def of_a_product(x, mind):
    fine = np.all(x > 5)
    y = np.log(mind(x[:3], fine))
    return np.where(fine, A @ y, A @ (x[:3] ** 2)) + np.where(fine, np.dot(y, y), 0.0)


def of_a_product_of_rows(x, mind):
    rows = np.stack([x, x * x + 1.0])
    fine = np.all(rows > 0, axis=1)
    y = np.sqrt(mind(rows, fine[:, None]))
    return np.where(fine[:, None], y @ A[[0, 1, 2, 0]], rows[:, :3] ** 2)


def of_an_einsum(x, mind):
    rows = np.stack([x, x * x + 1.0])
    fine = np.all(rows > 0, axis=1)
    y = np.log(mind(rows, fine[:, None]))
    return np.where(fine, np.einsum("ij,jk,ik->i", y, np.ones((4, 3)), y[:, 1:]), 0.0)


def of_both_operands(x, mind):
    rows = np.stack([x, x * x + 1.0])
    fine = np.all(rows > 0, axis=1)
    y = 1 / mind(np.stack([x, x]) * (1 - fine)[:, None] + fine[:, None], fine[:, None])
    return np.where(fine[:, None], (y * rows) @ (rows.T), 0.0)


def in_a_loop(x, mind):
    state = x
    for _ in range(3):
        state = np.where(state > 0.5, np.sqrt(mind(state - 0.5, state > 0.5)), state**2 + 0.1)
    return state


def recursion_of_scalars(x, mind):
    total = 0.0
    for value in x:
        total = np.where(value > 0, total + np.log(mind(value, value > 0)), total * 0.5 + value)
    return total


def distance(x, mind):
    r2 = x * x + x[::-1] * x[::-1] * (x != 0)
    r = np.sqrt(mind(r2, r2 > 0))
    return np.where(r2 > 0, x / r + r, 0.0)


def angles(x, mind):
    y = mind(x, np.abs(x) < 1)
    return np.where(np.abs(x) < 1, np.arcsin(y) + np.arctanh(y), x)


def masked_reductions(x, mind):
    y = np.log(mind(x, x > 0))
    return np.sum(y, where=x > 0) + np.mean(y, where=x > 0) + np.max(y, where=x > 0, initial=-9.0)


def selected(x, mind):
    y = mind(x, x > 0)
    return np.select([x > 1, x > 0], [np.log(y), np.sqrt(y)], 0.0)


def passed_over(x, mind):
    holed = np.where(x > 0, np.log(mind(x, x > 0)), np.nan)
    return np.nansum(holed) * np.nanmean(holed) + np.nanvar(holed) + np.nanmax(holed)


def sorted_out(x, mind):
    fine = np.all(x > 5)
    y = np.log(mind(x, fine))
    return np.where(fine, np.sort(y) * x, x**2)


def overflow(x, mind):
    return np.where(x < 0.5, np.exp(mind(1e4 * x, x < 0.5) / 1e4), np.log(mind(x, x >= 0.5)))


CASES = [
    mapped, logarithm, quotient, power, nested, two_users, hidden_use, in_a_sum, of_a_sum, of_rows,
    extrema, products, scans, after_slices, after_gathers, moved_about, after_a_product,
    of_a_product, of_a_product_of_rows, of_an_einsum, of_both_operands, in_a_loop,
    recursion_of_scalars, distance, angles, masked_reductions, selected, passed_over, sorted_out,
    overflow,
]  # fmt: skip
POINT = np.array([0.0, 2.0, -1.0, 0.25])
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)


def bare(case):
    return lambda x: case(x, lambda value, ok: value)


def guarded(case):
    return lambda x: case(x, lambda value, ok: np.where(ok, value, 1.0))


def weighted(f):
    """A scalar of all entries, each with a weight of its own."""

    def total(x):
        y = f(x)
        return np.sum(y * np.cos(np.arange(np.size(y), dtype=float).reshape(np.shape(y))))

    return total


def same(got, expected, rtol=1e-12):
    got, expected = np.asarray(got), np.asarray(expected)
    assert np.all(np.isfinite(expected))
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected)))


V = np.array([1.0, -0.5, 2.0, 0.7])


def by_entries(prepared):
    return lambda x: prepared(x).toarray()


FIRST = {
    "grad": lambda f: fdiff.grad(weighted(f)),
    "jacrev": fdiff.jacrev,
    "jacfwd": fdiff.jacfwd,
    "jvp": lambda f: lambda x: fdiff.jvp(f, x, V)[1],
    "vmap of grad": lambda f: lambda x: fdiff.vmap(fdiff.grad(weighted(f)))(np.stack([x, x[::-1]])),
    "vmap of jacfwd": lambda f: lambda x: fdiff.vmap(fdiff.jacfwd(f))(np.stack([x, x[::-1]])),
    "grad of vmap": lambda f: fdiff.grad(
        lambda x: np.sum(fdiff.vmap(weighted(f))(np.stack([x, x[::-1]])))
    ),
    "sparse forward": lambda f: by_entries(fdiff.jacobian(f, sparse=True, mode="forward")),
    "sparse reverse": lambda f: by_entries(fdiff.jacobian(f, sparse=True, mode="reverse")),
}
SECOND = {
    "hessian": lambda f: fdiff.hessian(weighted(f)),
    "sparse hessian": lambda f: by_entries(fdiff.hessian(weighted(f), sparse=True)),
    "hvp": lambda f: lambda x: fdiff.hvp(weighted(f), x, V)[1],
    "vhp": lambda f: lambda x: fdiff.vhp(weighted(f), x, V)[1],
    "jvp of vjp": lambda f: lambda x: fdiff.jvp(lambda x: fdiff.vjp(weighted(f), x)[1], x, V)[1],
    "jacfwd of jacfwd": lambda f: fdiff.jacfwd(fdiff.jacfwd(weighted(f))),
    "jacrev of jacfwd": lambda f: fdiff.jacrev(fdiff.jacfwd(weighted(f))),
    "jacrev of jacrev": lambda f: fdiff.jacrev(fdiff.jacrev(weighted(f))),
    "vmap of hessian": lambda f: (
        lambda x: fdiff.vmap(fdiff.hessian(weighted(f)))(np.stack([x, x[::-1]]))
    ),
}


@each_case
@pytest.mark.parametrize("way", FIRST)
def test_first_derivatives(case, way):
    same(FIRST[way](bare(case))(POINT), FIRST[way](guarded(case))(POINT))


@each_case
@pytest.mark.parametrize("way", SECOND)
def test_second_derivatives(case, way):
    same(SECOND[way](bare(case))(POINT), SECOND[way](guarded(case))(POINT))


@each_case
def test_the_reference_is_a_reference(case):
    """The same values as NumPy's, and derivatives as measured where there is no kink."""
    away = POINT + np.array([-0.013, 0.011, -0.007, 0.004])
    with np.errstate(all="ignore"):
        same(weighted(guarded(case))(away), weighted(bare(case))(away))
        step = 1e-6
        slope = [
            (weighted(guarded(case))(away + d) - weighted(guarded(case))(away - d)) / (2 * step)
            for d in step * np.eye(4)
        ]
    same(fdiff.grad(weighted(guarded(case)))(away), slope, rtol=2e-7)


@each_case
def test_kinks_of_the_branch_not_taken_do_not_raise(case):
    with fdiff.kinks("raise"):
        fdiff.grad(weighted(bare(case)))(np.array([0.0, 2.0, -1.0, 0.3]))


@pytest.mark.parametrize("cases", [CASES[k::5] for k in range(5)], ids=range(5))
@pytest.mark.parametrize("way", ["vjp", "jvp", "jvp of vjp", "batched vjp"])
def test_kernels(cases, way):
    """Several cases in one kernel, each with an input of its own."""
    cases = [c for c in cases if kernels.supported(tape_of(weighted(bare(c)), POINT))]
    points = [POINT] * len(cases)
    tape = tape_of(
        lambda *xs: [weighted(bare(case))(x) for case, x in zip(cases, xs, strict=True)], *points
    )
    pulled = vjp(tape, floating(tape))
    one = np.float64(1.0)
    given = [*points, *[one] * len(cases)]
    made = {
        "vjp": lambda: (pulled, given),
        "jvp": lambda: (jvp(tape, floating(tape)), [*points, *[V] * len(cases)]),
        "jvp of vjp": lambda: (jvp(pulled, range(len(points))), [*given, *[V] * len(cases)]),
        "batched vjp": lambda: (
            batch(pulled, [True] * len(points) + [False] * len(cases), 2),
            [*[np.stack([POINT, POINT[::-1]])] * len(cases), *[one] * len(cases)],
        ),
    }
    derived, arrays = made[way]()
    derived = simplify(verify(derived))
    assert kernels.supported(derived)
    outs = kernels.compile(derived, ("C",) * len(derived.inputs))(*arrays)
    for out, expected in zip(outs, values(derived, *arrays), strict=True):
        same(out, expected)


def test_most_cases_are_compiled():
    fit = [c for c in CASES if kernels.supported(tape_of(weighted(bare(c)), POINT))]
    assert len(fit) > 0.8 * len(CASES)


def test_raw_data_with_nan_in_rows_that_are_masked():
    data = np.array([[1.0, 2.0], [np.nan, 3.0], [0.5, np.inf]])
    keep = np.array([True, False, False])[:, None]
    w = np.array([[0.3, -0.2], [0.1, 0.5]])
    loss = lambda w, x: np.sum(np.where(keep, np.tanh(x @ w) @ w, 0.0) ** 2)
    clean = np.where(keep, data, 0.0)
    for order in (fdiff.grad, fdiff.hessian):
        same(order(loss)(w, data), order(loss)(w, clean))
    same(fdiff.grad(loss, argnums=1)(w, data), fdiff.grad(loss, argnums=1)(w, clean))
