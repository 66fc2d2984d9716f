"""What a derivative is where there is none, or several: the policy of docs/kinks.md, row by row.

Each row: the function, the point, the gradient of its sum. Both modes must give it; where a second
row of numbers stands, it is the diagonal of the Hessian, forward over reverse.
"""

import numpy as np
import pytest
from tapes import floating, tape_of, values

from fdiff.tape import verify
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp

NAN, INF = np.nan, np.inf


def two_branches(x):
    root = np.sqrt(x)
    return np.where(x > 0, root, 0.0) + np.where(x > 4, root, 0.0)


ROWS = [
    # name, function, point, gradient
    ("abs(0)", np.abs, 0.0, 0),
    ("abs(-0.0)", np.abs, -0.0, 0),
    ("abs(nan)", np.abs, NAN, NAN),
    ("fabs(0)", np.fabs, 0.0, 0),
    ("sqrt(0)", np.sqrt, 0.0, INF),
    ("x sqrt(x) at 0", lambda x: x * np.sqrt(x), 0.0, NAN),
    ("sqrt(x)**2 at 0", lambda x: np.sqrt(x) ** 2, 0.0, NAN),
    ("cbrt(0)", np.cbrt, 0.0, INF),
    ("x**0 at 0", lambda x: x**0, 0.0, 0),
    ("x**0.0 at 0", lambda x: x**0.0, 0.0, 0),
    ("x**[0., 1., 2.] at 0", lambda x: x ** np.array([0.0, 1.0, 2.0]), [0.0, 0.0, 0.0], [0, 1, 0]),
    ("pow(x, y) at (0, 0), base", lambda x: np.power(x[0], x[1]), [0.0, 0.0], [0, 0]),
    ("0**y at 0", lambda y: 0.0**y, 0.0, 0),
    ("0**y at 2", lambda y: 0.0**y, 2.0, 0),
    ("(-2)**y at 2", lambda y: (-2.0) ** y, 2.0, NAN),
    ("0**y at 2, traced base", lambda x: np.power(x[0], x[1]), [0.0, 2.0], [0, 0]),
    ("maximum(x, 0) at 0", lambda x: np.maximum(x, 0), 0.0, 0.5),
    ("maximum tie", lambda x: np.maximum(x[0], x[1]), [1.5, 1.5], [0.5, 0.5]),
    ("minimum(x, 0) at 0", lambda x: np.minimum(x, 0), 0.0, 0.5),
    ("minimum tie", lambda x: np.minimum(x[0], x[1]), [1.5, 1.5], [0.5, 0.5]),
    ("fmax(x, 0) at 0", lambda x: np.fmax(x, 0), 0.0, 0.5),
    ("fmax tie", lambda x: np.fmax(x[0], x[1]), [2.0, 2.0], [0.5, 0.5]),
    ("fmin tie", lambda x: np.fmin(x[0], x[1]), [2.0, 2.0], [0.5, 0.5]),
    ("fmax(x, nan)", lambda x: np.fmax(x[0], x[1]), [2.0, NAN], [1, 0]),
    ("fmin(nan, x)", lambda x: np.fmin(x[0], x[1]), [NAN, 2.0], [0, 1]),
    ("clip at the lower bound", lambda x: np.clip(x, 0, 1), 0.0, 1),
    ("clip at the upper bound", lambda x: np.clip(x, 0, 1), 1.0, 1),
    ("clip beyond", lambda x: np.clip(x, 0, 1), [-0.1, 1.1], [0, 0]),
    ("clip, traced bound, tie", lambda x: np.clip(x[0], x[1], None), [1.0, 1.0], [1, 0]),
    ("max of equal entries", np.max, [3.0, 3.0, 1.0, 3.0], [1 / 3, 1 / 3, 0, 1 / 3]),
    ("min of equal entries", np.min, [1.0, 3.0, 1.0, 3.0], [0.5, 0, 0.5, 0]),
    (
        "max along an axis",
        lambda x: np.max(x, axis=1),
        [[1.0, 1.0], [2.0, 0.0]],
        [[0.5, 0.5], [1, 0]],
    ),
    ("fmax.reduce of equal entries", np.fmax.reduce, [3.0, NAN, 3.0], [0.5, 0, 0.5]),
    ("norm at 0", np.linalg.norm, [0.0, 0.0], [0, 0]),
    ("Frobenius norm at 0", np.linalg.norm, [[0.0, 0.0]], [[0, 0]]),
    (
        "norms of rows, one of them 0",
        lambda x: np.linalg.norm(x, axis=1),
        [[0.0, 0.0], [3.0, 4.0]],
        [[0, 0], [0.6, 0.8]],
    ),
    ("norm of order 3 at 0", lambda x: np.linalg.norm(x, 3), [0.0, 0.0], [0, 0]),
    ("norm of order 1 at a zero entry", lambda x: np.linalg.norm(x, 1), [0.0, -2.0], [0, -1]),
    ("norm of order inf, tie", lambda x: np.linalg.norm(x, INF), [2.0, -2.0], [0.5, -0.5]),
    ("sqrt(sum(x * x)) at 0", lambda x: np.sqrt(np.sum(x * x)), [0.0, 0.0], [NAN, NAN]),
    ("std of equal values", np.std, [2.0, 2.0, 2.0], [0, 0, 0]),
    ("std of one value", np.std, [2.0], [0]),
    ("nanstd of equal values", np.nanstd, [2.0, NAN, 2.0], [0, 0, 0]),
    ("hypot at the origin", lambda x: np.hypot(x[0], x[1]), [0.0, 0.0], [0, 0]),
    ("arctan2 at the origin", lambda x: np.arctan2(x[0], x[1]), [0.0, 0.0], [0, 0]),
    (
        "arctan2 of tiny numbers",
        lambda x: np.arctan2(x[0], x[1]),
        [1e-200, 1e-200],
        [5e199, -5e199],
    ),
    (
        "arctan2 of huge numbers",
        lambda x: np.arctan2(x[0], x[1]),
        [1e200, 1e200],
        [5e-201, -5e-201],
    ),
    ("prod with one zero", np.prod, [2.0, 0.0, 3.0], [0, 6, 0]),
    ("prod with two zeros", np.prod, [0.0, 2.0, 0.0], [0, 0, 0]),
    ("prod of two axes with a zero", np.prod, [[2.0, 0.0], [3.0, 5.0]], [[0, 30], [0, 0]]),
    ("cumprod with a zero", np.cumprod, [2.0, 0.0, 3.0], [1, 2 + 6, 0]),
    ("cumprod with two zeros", np.cumprod, [0.0, 0.0, 3.0], [1, 0, 0]),
    ("sinc(0)", np.sinc, 0.0, 0),
    ("sinc near 0", np.sinc, 1e-9, -(np.pi**2) / 3 * 1e-9),
    ("det of diag(0, 2)", np.linalg.det, [[0.0, 0.0], [0.0, 2.0]], [[2, 0], [0, 0]]),
    (
        "det of rank n - 2",
        np.linalg.det,
        [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        np.zeros((3, 3)),
    ),
    (
        "where(x > 0, sqrt(x), 0) at 0",
        lambda x: np.where(x > 0, np.sqrt(x), 0),
        [0.0, 4.0],
        [0, 0.25],
    ),
    (
        "where(x > 0, log(x), 0) at -1",
        lambda x: np.where(x > 0, np.log(x), 0),
        [-1.0, 2.0],
        [0, 0.5],
    ),
    (
        "where(x > 0, x log(x), 0) at 0",
        lambda x: np.where(x > 0, x * np.log(x), 0.0),
        [0.0, 1.0],
        [0, 1],
    ),
    (
        "where(x != 0, sin(x) / x, 1) at 0",
        lambda x: np.where(x != 0, np.sin(x) / x, 1.0),
        [0.0],
        [0],
    ),
    (
        "where through slices and sums",
        lambda x: np.where(x[1:] > 0, np.sqrt(x)[1:] + np.log(x[1:]), 1.0),
        [5.0, 0.0, 1.0],
        [0, 0, 1.5],
    ),
    (
        "where of a broadcast scalar",
        lambda x: np.where(np.array([True, False]), 1.0, np.sqrt(x)),
        4.0,
        0.25,
    ),
    (
        "one value in two branches",
        two_branches,
        [0.0, 1.0, 9.0],
        [0, 0.5, 1 / 3],
    ),
    (
        "where in where",
        lambda x: np.where(x > 0, np.where(x > 1, np.sqrt(x - 1), 1 / x), 0.0),
        [0.0, 1.0, 2.0],
        [0, -1, 0.5],
    ),
    ("copysign(x, -1) at 0", lambda x: np.copysign(x, -1.0), 0.0, 0),
    ("sign", np.sign, [0.0, 2.0], [0, 0]),
    ("floor", np.floor, [1.0, 1.5], [0, 0]),
    ("ceil, trunc, rint", lambda x: np.ceil(x) + np.trunc(x) + np.rint(x), [1.0, 1.5], [0, 0]),
    ("round", lambda x: np.round(x, 1), [0.25, 1.0], [0, 0]),
    ("nan_to_num", np.nan_to_num, [NAN, INF, -INF, 1.0], [0, 0, 0, 1]),
    ("maximum.accumulate tie", np.maximum.accumulate, [1.0, 2.0, 2.0], [1, 1, 1]),
    ("maximum.accumulate, later tie", np.maximum.accumulate, [2.0, 2.0, 1.0], [1, 2, 0]),
    ("minimum.accumulate, later tie", np.minimum.accumulate, [1.0, 1.0, 2.0], [1, 2, 0]),
    ("heaviside at 0", lambda x: np.heaviside(x, 0.5), 0.0, 0),
    ("logaddexp of equal infinities", lambda x: np.logaddexp(x[0], x[1]), [-INF, -INF], [0, 0]),
    ("logaddexp with -inf", lambda x: np.logaddexp(x[0], x[1]), [-INF, 1.0], [0, 1]),
    ("logaddexp with inf", lambda x: np.logaddexp(x[0], x[1]), [INF, 1.0], [1, 0]),
    ("logaddexp.reduce with -inf", np.logaddexp.reduce, [-INF, 0.0, 0.0], [0, 0.5, 0.5]),
    ("remainder on a rounded quotient", lambda x: np.remainder(1.0, x), 0.1, -9),
    ("fmod on a rounded quotient", lambda x: np.fmod(1.0, x), 0.1, -9),
    ("nansum, nanmean", lambda x: np.nansum(x) + np.nanmean(x), [NAN, 1.0, 2.0], [0, 1.5, 1.5]),
    ("nanmax", np.nanmax, [NAN, 1.0, 2.0], [0, 0, 1]),
    ("nanprod", np.nanprod, [NAN, 3.0, 2.0], [0, 2, 3]),
    ("ptp of equal values", np.ptp, [1.0, 1.0], [0, 0]),
    ("x * nan * 0", lambda x: x * NAN * 0.0, 1.0, NAN),
]
SECOND = [
    # name, function, point, diagonal of the Hessian of the sum
    ("abs(0)", np.abs, [0.0], [0]),
    ("x**2.0 at 0", lambda x: x**2.0, [0.0], [2]),
    ("x**[2., 3.] at 0", lambda x: x ** np.array([2.0, 3.0]), [0.0, 0.0], [2, 0]),
    (
        "where(x > 0, sqrt(x), 0) at 0",
        lambda x: np.where(x > 0, np.sqrt(x), 0),
        [0.0, 4.0],
        [0, -1 / 32],
    ),
    (
        "where(x > 0, log(x), 0) at -1",
        lambda x: np.where(x > 0, np.log(x), 0),
        [-1.0, 2.0],
        [0, -0.25],
    ),
    (
        "where(x > 0, x log(x), 0) at 0",
        lambda x: np.where(x > 0, x * np.log(x), 0.0),
        [0.0, 2.0],
        [0, 0.5],
    ),
    (
        "where through a slice",
        lambda x: np.where(x[1:] > 0, np.sqrt(x)[1:], 1.0),
        [5.0, 0.0, 1.0],
        [0, 0, -0.25],
    ),
    ("sinc at 0 and near", np.sinc, [0.0, 1e-6], [-(np.pi**2) / 3, -(np.pi**2) / 3]),
    ("prod with two zeros", np.prod, [0.0, 2.0, 0.0], [0, 0, 0]),
    ("logaddexp of equals", lambda x: np.logaddexp(x, 0.0), [0.0], [0.25]),
    ("logaddexp2 of equals", lambda x: np.logaddexp2(x, 0.0), [0.0], [np.log(2) / 4]),
    ("norm at 0", np.linalg.norm, [0.0, 0.0], [0, 0]),
    ("hypot at the origin", lambda x: np.hypot(x[:1], x[1:]), [0.0, 0.0], [0, 0]),
    ("std of equal values", np.std, [1.0, 1.0], [0, 0]),
    ("clip at a bound", lambda x: np.clip(x * x, 0, 4), [2.0, 3.0], [2, 0]),
    ("maximum tie", lambda x: np.maximum(x * x, 4.0), [2.0, 3.0, 1.0], [1, 2, 0]),
]


def ids(rows):
    return pytest.mark.parametrize(
        ("f", "x", "expected"), [pytest.param(*row[1:], id=row[0]) for row in rows]
    )


def reverse(tape):
    return verify(vjp(tape, floating(tape)))


@ids(ROWS)
def test_gradient_backwards(f, x, expected):
    x = np.asarray(x, float)
    tape = tape_of(f, x)
    ones = [np.ones(t.shape) for t in tape.output_types]
    got = values(reverse(tape), x, *ones)[1]
    np.testing.assert_allclose(got, np.broadcast_to(expected, x.shape), rtol=1e-14, atol=1e-300)


@ids(ROWS)
def test_gradient_forwards(f, x, expected):
    """Column by column; a NaN column may come through where the others are NaN too."""
    x = np.asarray(x, float)
    tape = tape_of(f, x)
    pushed = verify(jvp(tape, [0]))
    columns = [np.sum(values(pushed, x, e.reshape(x.shape))[1]) for e in np.eye(x.size)]
    np.testing.assert_allclose(
        np.reshape(columns, x.shape), np.broadcast_to(expected, x.shape), rtol=1e-14, atol=1e-300
    )


def second_order(f, x):
    tape = tape_of(f, x)
    ones = [np.ones(t.shape) for t in tape.output_types]
    return reverse(tape), [x, *ones]


@ids(SECOND)
def test_second_derivative_forward_over_reverse(f, x, expected):
    x = np.asarray(x, float)
    gradient, given = second_order(f, x)
    pushed = verify(jvp(gradient, [0]))
    rows = [values(pushed, *given, e)[len(gradient.outputs) + 1] for e in np.eye(x.size)]
    np.testing.assert_allclose(np.diag(rows), expected, rtol=1e-10, atol=1e-13)


@ids(SECOND)
def test_second_derivative_reverse_over_reverse(f, x, expected):
    x = np.asarray(x, float)
    gradient, given = second_order(f, x)
    pulled = verify(vjp(gradient, [0]))
    zeros = [np.zeros(t.shape) for t in gradient.output_types[:-1]]
    rows = [values(pulled, *given, *zeros, e)[-1] for e in np.eye(x.size)]
    np.testing.assert_allclose(np.diag(rows), expected, rtol=1e-10, atol=1e-13)


@ids(SECOND)
def test_second_derivative_reverse_over_forward(f, x, expected):
    x = np.asarray(x, float)
    tape = tape_of(f, x)
    pulled = verify(vjp(verify(jvp(tape, [0])), [0]))
    shape = tape.output_types[0].shape
    rows = [values(pulled, x, e, np.zeros(shape), np.ones(shape))[-1] for e in np.eye(x.size)]
    np.testing.assert_allclose(np.diag(rows), expected, rtol=1e-10, atol=1e-13)


def test_nan_of_the_branch_not_taken_stays_out_of_a_batch():
    from fdiff.transforms.batch import batch

    tape = reverse(tape_of(lambda x: np.where(x > 0, np.sqrt(x), 0.0), np.float64(1.0)))
    got = values(
        verify(batch(tape, [True, False], 3)), np.array([0.0, 4.0, -1.0]), np.float64(1.0)
    )[1]
    np.testing.assert_array_equal(got, [0, 0.25, 0])
