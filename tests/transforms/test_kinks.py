"""What a derivative is where there is none, or several: the policy of docs/kinks.md, row by row.

Each row: the function, the point, the gradient of its sum, and whether ``kinks("raise")`` refuses
it. Both modes and both tiers must give it; the rows of `SECOND` hold the diagonal of the Hessian.
``FDIFF_GOLDEN=write pytest tests/transforms/test_kinks.py`` writes the page, compared here.
"""

import inspect
import os
import threading
from contextvars import copy_context
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from extremes import BINARY, UNARY
from extremes_special import SLOPES
from tapes import floating, tape_of, values
from tolerances import CURVATURE, LOST, LOST_SPECIAL, SLOPE, SPECIAL

import fdiff
from fdiff import kernels
from fdiff.errors import FdiffError, InputError, KinkError
from fdiff.primitive import PRIMITIVES
from fdiff.tape import verify
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # plain code warns there, too

NAN, INF = np.nan, np.inf
KINK, SMOOTH = True, False  # whether the derivative does not exist there


def two_branches(x):
    root = np.sqrt(x)
    return np.where(x > 0, root, 0.0) + np.where(x > 4, root, 0.0)


def unit_rotation(x):
    return np.nan_to_num(x / np.sqrt(x * x))


def distances(x):
    out = np.abs(x[:, None] - x)
    out = np.sqrt(out)
    np.fill_diagonal(out, np.inf)
    return 1 / out


def inverse_where_positive(x):
    out = np.zeros_like(x)
    mask = np.array([False, True])
    out[mask] = 1 / x[mask]
    return out


def stored_after(x):
    out = 1 / x
    out[x == 0] = 0.0
    return out


ROWS = [
    # name, function, point, gradient, whether there is none
    ("abs(0)", np.abs, 0.0, 0, KINK),
    ("abs(-0.0)", np.abs, -0.0, 0, KINK),
    ("abs(nan)", np.abs, NAN, NAN, SMOOTH),
    ("fabs(0)", np.fabs, 0.0, 0, KINK),
    ("sqrt(0)", np.sqrt, 0.0, INF, KINK),
    ("x sqrt(x) at 0", lambda x: x * np.sqrt(x), 0.0, NAN, KINK),
    ("sqrt(x)**2 at 0", lambda x: np.sqrt(x) ** 2, 0.0, NAN, KINK),
    ("cbrt(0)", np.cbrt, 0.0, INF, KINK),
    ("x**0 at 0", lambda x: x**0, 0.0, 0, SMOOTH),
    ("x**0.0 at 0", lambda x: x**0.0, 0.0, 0, SMOOTH),
    (
        "x**[0., 1., 2.] at 0",
        lambda x: x ** np.array([0.0, 1.0, 2.0]),
        [0.0, 0.0, 0.0],
        [0, 1, 0],
        SMOOTH,
    ),
    ("pow(x, y) at (0, 0), base", lambda x: np.power(x[0], x[1]), [0.0, 0.0], [0, 0], KINK),
    ("0**y at 0", lambda y: 0.0**y, 0.0, 0, KINK),
    ("0**y at 2", lambda y: 0.0**y, 2.0, 0, SMOOTH),
    ("(-2)**y at 2", lambda y: (-2.0) ** y, 2.0, NAN, KINK),
    ("0**y at 2, traced base", lambda x: np.power(x[0], x[1]), [0.0, 2.0], [0, 0], SMOOTH),
    ("maximum(x, 0) at 0", lambda x: np.maximum(x, 0), 0.0, 0.5, KINK),
    ("maximum tie", lambda x: np.maximum(x[0], x[1]), [1.5, 1.5], [0.5, 0.5], KINK),
    ("minimum(x, 0) at 0", lambda x: np.minimum(x, 0), 0.0, 0.5, KINK),
    ("minimum tie", lambda x: np.minimum(x[0], x[1]), [1.5, 1.5], [0.5, 0.5], KINK),
    ("fmax(x, 0) at 0", lambda x: np.fmax(x, 0), 0.0, 0.5, KINK),
    ("fmax tie", lambda x: np.fmax(x[0], x[1]), [2.0, 2.0], [0.5, 0.5], KINK),
    ("fmin tie", lambda x: np.fmin(x[0], x[1]), [2.0, 2.0], [0.5, 0.5], KINK),
    ("fmax(x, nan)", lambda x: np.fmax(x[0], x[1]), [2.0, NAN], [1, 0], SMOOTH),
    ("fmin(nan, x)", lambda x: np.fmin(x[0], x[1]), [NAN, 2.0], [0, 1], SMOOTH),
    ("clip at the lower bound", lambda x: np.clip(x, 0, 1), 0.0, 1, KINK),
    ("clip at the upper bound", lambda x: np.clip(x, 0, 1), 1.0, 1, KINK),
    ("clip beyond", lambda x: np.clip(x, 0, 1), [-0.1, 1.1], [0, 0], SMOOTH),
    ("clip, traced bound, tie", lambda x: np.clip(x[0], x[1], None), [1.0, 1.0], [1, 0], KINK),
    ("max of equal entries", np.max, [3.0, 3.0, 1.0, 3.0], [1 / 3, 1 / 3, 0, 1 / 3], KINK),
    ("min of equal entries", np.min, [1.0, 3.0, 1.0, 3.0], [0.5, 0, 0.5, 0], KINK),
    (
        "max along an axis",
        lambda x: np.max(x, axis=1),
        [[1.0, 1.0], [2.0, 0.0]],
        [[0.5, 0.5], [1, 0]],
        KINK,
    ),
    ("fmax.reduce of equal entries", np.fmax.reduce, [3.0, NAN, 3.0], [0.5, 0, 0.5], KINK),
    ("norm at 0", np.linalg.norm, [0.0, 0.0], [0, 0], KINK),
    ("Frobenius norm at 0", np.linalg.norm, [[0.0, 0.0]], [[0, 0]], KINK),
    (
        "norms of rows, one of them 0",
        lambda x: np.linalg.norm(x, axis=1),
        [[0.0, 0.0], [3.0, 4.0]],
        [[0, 0], [0.6, 0.8]],
        KINK,
    ),
    ("norm of order 3 at 0", lambda x: np.linalg.norm(x, 3), [0.0, 0.0], [0, 0], KINK),
    ("norm of order 1 at a zero entry", lambda x: np.linalg.norm(x, 1), [0.0, -2.0], [0, -1], KINK),
    ("norm of order inf, tie", lambda x: np.linalg.norm(x, INF), [2.0, -2.0], [0.5, -0.5], KINK),
    ("sqrt(sum(x * x)) at 0", lambda x: np.sqrt(np.sum(x * x)), [0.0, 0.0], [NAN, NAN], KINK),
    ("std of equal values", np.std, [2.0, 2.0, 2.0], [0, 0, 0], KINK),
    ("std of one value", np.std, [2.0], [0], SMOOTH),
    ("nanstd of equal values", np.nanstd, [2.0, NAN, 2.0], [0, 0, 0], KINK),
    ("hypot at the origin", lambda x: np.hypot(x[0], x[1]), [0.0, 0.0], [0, 0], KINK),
    ("arctan2 at the origin", lambda x: np.arctan2(x[0], x[1]), [0.0, 0.0], [0, 0], KINK),
    (
        "arctan2 of tiny numbers",
        lambda x: np.arctan2(x[0], x[1]),
        [1e-200, 1e-200],
        [5e199, -5e199],
        SMOOTH,
    ),
    (
        "arctan2 of huge numbers",
        lambda x: np.arctan2(x[0], x[1]),
        [1e200, 1e200],
        [5e-201, -5e-201],
        SMOOTH,
    ),
    ("prod with one zero", np.prod, [2.0, 0.0, 3.0], [0, 6, 0], SMOOTH),
    ("prod with two zeros", np.prod, [0.0, 2.0, 0.0], [0, 0, 0], SMOOTH),
    ("prod of two axes with a zero", np.prod, [[2.0, 0.0], [3.0, 5.0]], [[0, 30], [0, 0]], SMOOTH),
    ("cumprod with a zero", np.cumprod, [2.0, 0.0, 3.0], [1, 2 + 6, 0], SMOOTH),
    ("cumprod with two zeros", np.cumprod, [0.0, 0.0, 3.0], [1, 0, 0], SMOOTH),
    ("sinc(0)", np.sinc, 0.0, 0, SMOOTH),
    ("sinc near 0", np.sinc, 1e-9, -(np.pi**2) / 3 * 1e-9, SMOOTH),
    ("det of diag(0, 2)", np.linalg.det, [[0.0, 0.0], [0.0, 2.0]], [[2, 0], [0, 0]], SMOOTH),
    (
        "det of rank n - 2",
        np.linalg.det,
        [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        np.zeros((3, 3)),
        SMOOTH,
    ),
    (
        "where(x > 0, sqrt(x), 0) at 0",
        lambda x: np.where(x > 0, np.sqrt(x), 0),
        [0.0, 4.0],
        [0, 0.25],
        SMOOTH,
    ),
    (
        "where(x > 0, log(x), 0) at -1",
        lambda x: np.where(x > 0, np.log(x), 0),
        [-1.0, 2.0],
        [0, 0.5],
        SMOOTH,
    ),
    (
        "where(x > 0, x log(x), 0) at 0",
        lambda x: np.where(x > 0, x * np.log(x), 0.0),
        [0.0, 1.0],
        [0, 1],
        SMOOTH,
    ),
    (
        "where(x != 0, sin(x) / x, 1) at 0",
        lambda x: np.where(x != 0, np.sin(x) / x, 1.0),
        [0.0],
        [0],
        SMOOTH,
    ),
    (
        "where through slices and sums",
        lambda x: np.where(x[1:] > 0, np.sqrt(x)[1:] + np.log(x[1:]), 1.0),
        [5.0, 0.0, 1.0],
        [0, 0, 1.5],
        SMOOTH,
    ),
    (
        "where of a broadcast scalar",
        lambda x: np.where(np.array([True, False]), 1.0, np.sqrt(x)),
        4.0,
        0.25,
        SMOOTH,
    ),
    (
        "one value in two branches",
        two_branches,
        [0.0, 1.0, 9.0],
        [0, 0.5, 1 / 3],
        SMOOTH,
    ),
    (
        "where in where",
        lambda x: np.where(x > 0, np.where(x > 1, np.sqrt(x - 1), 1 / x), 0.0),
        [0.0, 1.0, 2.0],
        [0, -1, 0.5],
        SMOOTH,
    ),
    ("sqrt(x)[1:] at [0, 4]", lambda x: np.sqrt(x)[1:], [0.0, 4.0], [0, 0.25], SMOOTH),
    ("sqrt(x)[mask]", lambda x: np.sqrt(x)[np.array([False, True])], [0.0, 4.0], [0, 0.25], SMOOTH),
    ("1 / x, then zeros stored at x == 0", stored_after, [0.0, 2.0], [0, -0.25], SMOOTH),
    ("e[mask] = 1 / x[mask]", inverse_where_positive, [0.0, 2.0], [0, -0.25], SMOOTH),
    ("1 / d after fill_diagonal(d, inf)", distances, [0.0, 4.0], [0.125, -0.125], SMOOTH),
    (
        "x * [1, inf], the first",
        lambda x: (x * np.array([1.0, INF]))[:1],
        [1.0, 1.0],
        [1, 0],
        SMOOTH,
    ),
    ("copysign(x, -1) at 0", lambda x: np.copysign(x, -1.0), 0.0, 0, KINK),
    ("sign", np.sign, [0.0, 2.0], [0, 0], KINK),
    ("floor", np.floor, [1.0, 1.5], [0, 0], KINK),
    (
        "ceil, trunc, rint",
        lambda x: np.ceil(x) + np.trunc(x) + np.rint(x),
        [1.0, 1.5],
        [0, 0],
        KINK,
    ),
    ("round", lambda x: np.round(x, 1), [0.25, 1.0], [0, 0], KINK),
    ("nan_to_num", np.nan_to_num, [NAN, INF, -INF, 1.0], [0, 0, 0, 1], KINK),
    ("nan_to_num of numbers", np.nan_to_num, [0.0, 1.0], [1, 1], SMOOTH),
    ("nan_to_num(x / sqrt(x * x)) at 0", unit_rotation, [0.0, 2.0], [0, 0], KINK),
    ("nan_to_num, an entry left out", lambda x: unit_rotation(x)[1:], [0.0, 2.0], [0, 0], SMOOTH),
    ("maximum.accumulate tie", np.maximum.accumulate, [1.0, 2.0, 2.0], [1, 1, 1], KINK),
    ("maximum.accumulate, later tie", np.maximum.accumulate, [2.0, 2.0, 1.0], [1, 2, 0], KINK),
    ("minimum.accumulate, later tie", np.minimum.accumulate, [1.0, 1.0, 2.0], [1, 2, 0], KINK),
    ("heaviside at 0", lambda x: np.heaviside(x, 0.5), 0.0, 0, KINK),
    (
        "logaddexp of equal infinities",
        lambda x: np.logaddexp(x[0], x[1]),
        [-INF, -INF],
        [0, 0],
        SMOOTH,
    ),
    ("logaddexp with -inf", lambda x: np.logaddexp(x[0], x[1]), [-INF, 1.0], [0, 1], SMOOTH),
    ("logaddexp with inf", lambda x: np.logaddexp(x[0], x[1]), [INF, 1.0], [1, 0], SMOOTH),
    ("logaddexp.reduce with -inf", np.logaddexp.reduce, [-INF, 0.0, 0.0], [0, 0.5, 0.5], SMOOTH),
    ("remainder on a rounded quotient", lambda x: np.remainder(1.0, x), 0.1, -9, SMOOTH),
    ("fmod on a rounded quotient", lambda x: np.fmod(1.0, x), 0.1, -9, SMOOTH),
    (
        "nansum, nanmean",
        lambda x: np.nansum(x) + np.nanmean(x),
        [NAN, 1.0, 2.0],
        [0, 1.5, 1.5],
        SMOOTH,
    ),
    ("nanmax", np.nanmax, [NAN, 1.0, 2.0], [0, 0, 1], SMOOTH),
    ("nanprod", np.nanprod, [NAN, 3.0, 2.0], [0, 2, 3], SMOOTH),
    ("ptp of equal values", np.ptp, [1.0, 1.0], [0, 0], KINK),
    ("x * nan * 0", lambda x: x * NAN * 0.0, 1.0, NAN, SMOOTH),
    # further points without derivative
    ("log(0)", np.log, 0.0, INF, KINK),
    ("log1p(-1)", np.log1p, -1.0, INF, KINK),
    ("1 / x at 0", lambda x: 1.0 / x, 0.0, -INF, KINK),
    ("x / 0", lambda x: x / 0.0, 1.0, INF, KINK),
    ("reciprocal(0)", np.reciprocal, 0.0, -INF, KINK),
    ("x**0.5 at 0", lambda x: x**0.5, 0.0, INF, KINK),
    ("x**-1.0 at 0", lambda x: x**-1.0, 0.0, -INF, KINK),
    ("x**1.5 at 0", lambda x: x**1.5, 0.0, 0, SMOOTH),
    ("arcsin(1)", np.arcsin, 1.0, INF, KINK),
    ("arccos(-1)", np.arccos, -1.0, -INF, KINK),
    ("arccosh(1)", np.arccosh, 1.0, INF, KINK),
    ("arctanh(1)", np.arctanh, 1.0, INF, KINK),
    ("arctan2(y, -1) at 0", lambda y: np.arctan2(y, -1.0), 0.0, -1, KINK),
    ("arctan2(y, 1) at 0", lambda y: np.arctan2(y, 1.0), 0.0, 1, SMOOTH),
    ("remainder at a multiple", lambda x: np.remainder(x, 2.0), 4.0, 1, KINK),
    ("fmod at a multiple", lambda x: np.fmod(x, 2.0), 4.0, 1, KINK),
    ("fmod at 0", lambda x: np.fmod(x, 2.0), 0.0, 1, SMOOTH),
    ("floor_divide at a multiple", lambda x: np.floor_divide(x, 2.0), 4.0, 0, KINK),
    ("modf at a whole number", lambda x: np.modf(x)[0], 2.0, 1, KINK),
    ("frexp at a power of two", lambda x: np.frexp(x)[0], 2.0, 0.25, KINK),
    ("trunc(0)", np.trunc, 0.0, 0, SMOOTH),
    ("copysign(1, y) at 0", lambda y: np.copysign(1.0, y), 0.0, 0, KINK),
    ("sort with ties", lambda x: np.sort(x) * [1.0, 2.0, 4.0], [2.0, 1.0, 2.0], [2, 1, 4], KINK),
    ("sort, a tie elsewhere", lambda x: np.sort(x)[0], [2.0, 1.0, 2.0], [0, 1, 0], SMOOTH),
    ("partition with ties", lambda x: np.partition(x, 1)[1], [2.0, 1.0, 1.0], [0, 0, 1], KINK),
    ("median with ties", np.median, [1.0, 5.0, 1.0], [0, 0, 1], KINK),
    ("singular values of the identity", np.linalg.svdvals, np.eye(2), np.eye(2), SMOOTH),
    ("eigenvalues of the identity", np.linalg.eigvalsh, np.eye(2), np.eye(2), SMOOTH),
    # what does not take part in the result
    ("where at a tie of its condition", lambda x: np.where(x > 0, x, 2 * x), 0.0, 2, SMOOTH),
    ("maximum(abs(x), 5) at 0", lambda x: np.maximum(np.abs(x), 5.0), 0.0, 0, SMOOTH),
    (
        "norm of order inf, another entry 0",
        lambda x: np.linalg.norm(x, INF),
        [0.0, 3.0],
        [0, 1],
        SMOOTH,
    ),
    (
        "norm of order 3, another entry 0",
        lambda x: np.linalg.norm(x, 3),
        [0.0, 3.0],
        [0, 1],
        SMOOTH,
    ),
    ("floor(abs(x) + 0.5) at 0", lambda x: np.floor(np.abs(x) + 0.5), 0.0, 0, SMOOTH),
    ("an entry cut away", lambda x: np.abs(x)[1:], [0.0, 1.0], [0, 1], SMOOTH),
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
    ("sqrt(x)[1:] at [0, 4]", lambda x: np.sqrt(x)[1:], [0.0, 4.0], [0, -1 / 32]),
    ("1 / x, then zeros stored at x == 0", stored_after, [0.0, 2.0], [0, 0.25]),
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
        ("f", "x", "expected"), [pytest.param(*row[1:4], id=row[0]) for row in rows]
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


# ----------------------------------------------------------------------------------- compiled tier


def together(rows):
    """One tape for many rows, so that one kernel is compiled: a function of all their points."""
    points = [np.asarray(x, float) for _, _, x, *_ in rows]
    tape = tape_of(lambda *xs: [row[1](x) for row, x in zip(rows, xs, strict=True)], *points)
    return tape, points, [np.ones(t.shape) for t in tape.output_types]


def compilable(rows):
    return [row for row in rows if kernels.supported(together([row])[0])]


def check_compiled(tape, given):
    tape = simplify(tape)
    assert kernels.supported(tape)
    compiled = kernels.compile(tape, ("C",) * len(tape.inputs))(*given)
    for out, expected in zip(compiled, values(tape, *given), strict=True):
        np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-300)


def slices(rows, size):
    parts = [slice(k, k + size) for k in range(0, len(rows), size)]
    return pytest.mark.parametrize("part", parts, ids=lambda part: str(part.start))


@slices(ROWS, 18)
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_kernels_give_what_the_interpreter_gives(part, mode):
    tape, points, ones = together(compilable(ROWS[part]))
    every = range(len(points))
    if mode == "reverse":
        check_compiled(vjp(tape, every), [*points, *ones])
    else:
        check_compiled(jvp(tape, every), [*points, *(np.full(x.shape, 0.5) for x in points)])


def test_most_rows_are_compiled():
    assert len(compilable(ROWS)) > 0.8 * len(ROWS)


@slices(SECOND, 6)
def test_kernels_give_what_the_interpreter_gives_in_second_order(part):
    tape, points, ones = together(compilable(SECOND[part]))
    gradient = vjp(tape, range(len(points)))
    given = [*points, *ones, *(np.full(x.shape, 0.5) for x in points)]
    check_compiled(jvp(gradient, range(len(points))), given)


# ----------------------------------------------------------------------------- kinks that raise

first_order = pytest.mark.parametrize(
    ("f", "x", "kink"), [pytest.param(row[1], row[2], row[4], id=row[0]) for row in ROWS]
)


@first_order
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_raised_where_there_is_no_derivative(f, x, kink, mode):
    jacobian = fdiff.jacobian(lambda x: np.sum(f(x)), mode=mode)
    with fdiff.kinks("raise"):
        if kink:
            with pytest.raises(KinkError, match="has no derivative at"):
                jacobian(np.asarray(x, float))
        else:
            jacobian(np.asarray(x, float))
    jacobian(np.asarray(x, float))


@pytest.mark.parametrize(("f", "x"), [pytest.param(*row[1:3], id=row[0]) for row in SECOND])
def test_raised_in_second_order_where_the_first_has_a_kink(f, x):
    """Every row of SECOND is smooth, or has a kink in its first derivative already."""
    names = {row[0] for row in SECOND if row[1] is f}
    kinked = {"abs(0)", "norm at 0", "hypot at the origin", "std of equal values"}
    kinked |= {"clip at a bound", "maximum tie"}
    with fdiff.kinks("raise"):
        if names & kinked:
            with pytest.raises(KinkError):
                fdiff.hessian(lambda x: np.sum(f(x)))(np.asarray(x))
        else:
            fdiff.hessian(lambda x: np.sum(f(x)))(np.asarray(x))


ONE_AND_A_HALF = lambda x: x**1.5  # smooth once, not twice, at 0
TWICE = {
    "hessian": fdiff.hessian(ONE_AND_A_HALF),
    "hvp": lambda x: fdiff.hvp(ONE_AND_A_HALF, x, x),
    "vhp": lambda x: fdiff.vhp(ONE_AND_A_HALF, x, x),
    "grad of grad": fdiff.grad(fdiff.grad(ONE_AND_A_HALF)),
    "jvp of grad": lambda x: fdiff.jvp(fdiff.grad(ONE_AND_A_HALF), x, x),
    "jacfwd of jacfwd": fdiff.jacfwd(fdiff.jacfwd(ONE_AND_A_HALF)),
}
INSIDE = {
    "jit": lambda f: fdiff.jit(fdiff.grad(f)),
    "vmap": lambda f: lambda x: fdiff.vmap(fdiff.grad(f))(np.stack([x, x + 1.0])),
    "grad": lambda f: fdiff.grad(lambda x: x + fdiff.grad(f)(x)),
    "value": lambda f: fdiff.grad(lambda x: x * fdiff.grad(lambda y: y * f(x))(x)),
    "jacobian": lambda f: lambda x: fdiff.jacobian(lambda y: fdiff.grad(f)(y) * y, x),
    "value_and_grad": fdiff.value_and_grad,
    "has_aux": fdiff.grad,
    "jacrev": fdiff.jacrev,
    "gradcheck": lambda f: lambda x: fdiff.gradcheck(f, x),
}


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_look_at_the_first_ones(name):
    with fdiff.kinks("raise"):
        TWICE[name](np.array(0.5))
        fdiff.grad(ONE_AND_A_HALF)(np.array(0.0))
        with pytest.raises(KinkError, match="power has no derivative at a base of 0"):
            TWICE[name](np.array(0.0))


@pytest.mark.parametrize("name", INSIDE)
def test_raised_by_every_operator_and_through_others(name):
    def bent(x):
        return np.maximum(x, 1.0)  # the kink

    run = INSIDE[name](bent)
    with fdiff.kinks("raise"):
        run(np.array(2.5))
        with pytest.raises(KinkError, match="maximum has no derivative at a tie") as error:
            run(np.array(1.0))
    assert "return np.maximum(x, 1.0)  # the kink" in str(error.value)


def test_branches_not_taken_of_inner_derivatives_do_not_raise():
    slope = fdiff.grad(np.abs)
    with fdiff.kinks("raise"):
        got = fdiff.grad(lambda x: np.where(x > 0, x * slope(x), 2.0 * x))(np.array(0.0))
    assert got == 2.0


def test_auxiliary_results_and_fixed_arguments_do_not_raise():
    with fdiff.kinks("raise"):
        fdiff.grad(lambda x: (x * x, np.abs(x)), has_aux=True)(0.0)
        fdiff.grad(lambda x, y: x * np.abs(y))(1.0, 0.0)
        fdiff.grad(lambda x: x * np.abs(fdiff.stop_gradient(x)))(0.0)
        fdiff.grad(lambda x: np.where(np.sqrt(x) > 1.0, x, 2 * x))(0.0)
        fdiff.jit(np.abs)(0.0)


def test_only_entries_that_are_multiplied_count():
    rows = np.array([[0.0, 1.0], [1.0, 1.0]])
    with fdiff.kinks("raise"):
        taken = lambda x: np.sum(np.where(x[:, :1] > 0, np.sqrt(x) @ np.ones((2, 2)), 0.0))
        fdiff.grad(taken)(rows)
        with pytest.raises(KinkError, match=r"argument 0 is 0.0 in entry \(0, 0\)"):
            fdiff.grad(lambda x: np.sum(np.where(x[:, 1:] > 0, np.sqrt(x) @ np.ones((2, 2)), 0.0)))(
                rows
            )


def test_the_message_names_line_function_and_argument():
    def model(x):
        y = np.hypot(x[0], x[1])  # the line at fault
        return np.sum(y)

    expected = (
        "grad(model): numpy.hypot has no derivative at the origin: argument 0 is 0.0 in entry 1.\n"
        "    test_kinks.py:{line}:  y = np.hypot(x[0], x[1])  # the line at fault\n"
        'fdiff.kinks("table"), the default, gives the value stated in docs/kinks.md.'
    )
    with pytest.raises(KinkError) as error, fdiff.kinks("raise"):
        fdiff.grad(model)(np.array([[1.0, 0.0], [1.0, 0.0]]))
    line = inspect.getsourcelines(model)[1] + 1
    assert str(error.value) == expected.format(line=line)
    assert isinstance(error.value, FdiffError)
    assert isinstance(error.value, ArithmeticError)


def test_programs_traced_before_and_after_are_the_same():
    slope = fdiff.grad(np.linalg.norm)
    with (
        fdiff.kinks("raise"),
        pytest.raises(KinkError, match=r"numpy\.linalg\.norm has no derivative at 0"),
    ):
        slope(np.zeros(2))
    np.testing.assert_array_equal(slope(np.zeros(2)), [0, 0])
    names = {n.primitive.name for n in fdiff.make_tape(slope, np.zeros(2)).nodes}
    assert "mark" not in names
    with fdiff.kinks("raise"):
        np.testing.assert_allclose(slope(np.array([3.0, 4.0])), [0.6, 0.8])


def raises():
    try:
        fdiff.grad(np.abs)(0.0)
    except KinkError:
        return True
    return False


def test_the_policy_nests_and_ends_with_its_block():
    assert not raises()
    with fdiff.kinks("raise"):
        assert raises()
        with fdiff.kinks("table"):
            assert not raises()
            with fdiff.kinks("raise"):
                assert raises()
        assert raises()
    with pytest.raises(ZeroDivisionError), fdiff.kinks("raise"):
        raise ZeroDivisionError
    assert not raises()
    assert fdiff.kinks("raise")(raises)()
    assert not raises()


def test_the_policy_belongs_to_the_thread():
    seen = []
    with fdiff.kinks("raise"):
        inherited = copy_context()
        thread = threading.Thread(target=lambda: seen.append(raises()))
        thread.start()
        thread.join()
    assert seen == [False]
    assert inherited.run(raises)


@pytest.mark.parametrize("policy", ["warn", "", None, True, 0, np.zeros(2)], ids=str)
def test_unknown_policies_are_refused_at_once(policy):
    with pytest.raises(InputError, match="kinks: policy must be 'table' or 'raise', not"):
        fdiff.kinks(policy)


# ----------------------------------------------------------------------------------------- the page

PAGE = Path(__file__).parents[2] / "docs" / "kinks.md"
INTRODUCTION = """# Kinks: what a derivative is where there is none

This page lists the value that fdiff returns where a function has no derivative, or another one on
each side. The value is the same in forward and reverse mode, interpreted and compiled. Inside
`fdiff.kinks("raise")`, such a point raises an error instead:

```python
import numpy as np
import fdiff

print(fdiff.grad(np.abs)(0.0))

try:
    with fdiff.kinks("raise"):
        fdiff.grad(np.abs)(0.0)
except fdiff.errors.KinkError as error:
    print(str(error).splitlines()[0])
```

```text
0.0
grad(absolute): numpy.absolute has no derivative at 0: argument 0 is 0.0.
```

The error names the function, the argument and your line. `kinks("raise")` applies to the calls
inside the block, in this thread or task. Each call then traces and interprets `f` once more: use
it to find faults.

**Entries without influence.** Some entries take no part in the result: the branch that a
`numpy.where` does not take, entries that a slice, an index or a mask leaves out, and entries that
a store overwrites. They add nothing to derivatives of any order, even where their slope is
infinite or NaN, and they do not raise. The same holds for an entry that is not the maximum. fdiff
decides this from the operations and not from the numbers: where 0 is multiplied by an infinite
slope, as in `x * numpy.sqrt(x)` at 0 or for a weight of 0, the derivative is NaN.

**Equal eigenvalues and singular values** do not raise. Their sum has a derivative, and so has
every other symmetric function of them, and a function of a symmetric matrix, ``V f(w) V'``.
Eigenvectors and singular vectors of equal values have no derivative: they raise, and their
derivatives are NaN. Values count as equal if they differ by at most `n` units in the last place
of the largest value.

`tests/transforms/test_kinks.py` writes this page and checks every row.
"""

ENDS = """## At ends of domains and supports

At the end of a domain, fdiff returns the derivatives from within the domain, of every order. They
are infinite where they grow without bound. Examples are `betainc` at 0 and 1, `xlogy`, and powers
of a base of 0.

The same holds for densities, distribution functions and quantiles of `scipy.stats` at the ends of
a support, with two exceptions. There fdiff returns 0, the derivative from outside:

- the distribution functions (not the densities) of `f`, `chi`, `nakagami`, `maxwell`, `lognorm`,
  `invweibull`, `invgamma`, `levy` and `truncnorm`;
- `logcdf` and `logsf` where they are -inf.

A density that is a power of x at 0, such as the density of `gamma` with shape 1, follows the row
`0**y` at 0 above.

The derivative is NaN, although it exists, where a parameter of 0 meets an argument at an end: for
derivatives of `gdtr(0, b, 0)` with respect to x if b is at most 1, and from the second on of
`betainc(0, b, 1)` and `betainc(a, 0, 0)`.

At (0, 0), `rel_entr` and `kl_div` have no gradient. They have a derivative along each line into the
first quadrant: for `rel_entr` it is `a log(a / b)` in the direction `(a, b)`, which is not linear.
fdiff returns NaN for the derivative with respect to the first argument. In the same way
`pseudo_huber` has a gradient of 0 there and no Hessian. Its mixed second derivative is NaN.

`tests/ops/test_rules_at_points.py` checks every function of NumPy, `scipy.special` and
`scipy.stats` that has a derivative, to the third order, at 0, 1, -1, at ends and at equal
arguments.
"""

TAILS = f"""## Digits in the tails

At extreme points (subnormal, tiny, near branch points, huge), first derivatives are within
{SLOPE:g} units in the last place of the exact ones, and second derivatives are within
{CURVATURE:g}. This also holds for subnormal derivatives, interpreted and compiled, in double and
in single precision. `tests/ops/test_tails.py` checks {len(UNARY)} functions of one number and
{len(BINARY)} of two against mpmath. The table below lists the functions with larger errors, in
units in the last place; "inf" means that no digit is right at some point.

Two kinds of derivatives are less accurate in general:

- A slope that is a multiple of the function's value has the digits of that value: few where the
  value is subnormal, none where it is infinite. This concerns `exp2`, `exp10`, `power` in its
  exponent and `divide` in its denominator.
- A sum of terms that you write yourself, such as `x - sin(x)`, has derivatives that cancel as its
  terms do.

fdiff recognises one form that would cancel: a term divided by a sum or difference that contains
it. Examples are `x / (1 + x)`, `x * x / (c + x * x)` and `exp(x) / (1 + exp(x))`, also in
programs that are traced at each call. It does not recognise `v * x / (c + x)`: write
`v * (x / (c + x))`. Each part of such a form must be representable: the derivative of
`1 / (1 + 1 / x)` at 1e-200 is NaN, because ``1 / x**2`` is infinite there.
"""

SPECIAL_TAILS = f"""
First derivatives of SciPy's functions are within {SPECIAL:g} units in double precision:
`tests/ops/test_tails_special.py` checks {len(SLOPES)} functions at the same points. These
have larger errors:

| function | first derivative | why |
|---|---|---|"""


def number(x):
    return {np.inf: "inf", -np.inf: "-inf"}.get(x, "nan" if np.isnan(x) else f"{x:.6g}")


def shown(x):
    array = np.asarray(x, float)
    return number(array.item()) if not array.ndim else f"[{', '.join(map(shown, array))}]"


def page():
    lines = [
        INTRODUCTION,
        "## At a point",
        "",
        '| function and point | gradient | `kinks("raise")` |',
        "|---|---|---|",
    ]
    for name, _, x, slope, kink in ROWS:
        full = shown(np.broadcast_to(slope, np.shape(x)))
        lines.append(f"| {name.replace('|', '')} | {full} | {'raises' if kink else ''} |")
    lines += [
        "",
        "## Second derivatives",
        "",
        "| function and point | diagonal of the Hessian |",
        "|---|---|",
    ]
    lines += [f"| {name} | {shown(slope)} |" for name, _, _, slope in SECOND]
    lines += [
        "",
        '## Where `kinks("raise")` raises, by operation',
        "",
        "| operation | no derivative at |",
        "|---|---|",
    ]
    kinks = {
        name: op.rules.kink for name, op in PRIMITIVES.items() if op.rules.kink and name != "mark"
    }
    lines += [f"| {name} | {kink.point} |" for name, kink in sorted(kinks.items())]
    lines += [
        "",
        ENDS,
        TAILS,
        "| function | first derivative | second | why |",
        "|---|---|---|---|",
    ]
    for name, (slope, curvature, why) in LOST.items():
        lines.append(f"| {name} | {number(slope)} | {number(curvature)} | {why} |")
    lines.append(SPECIAL_TAILS)
    for name, (slope, why) in LOST_SPECIAL.items():
        lines.append(f"| {name} | {number(slope)} | {why} |")
    return "\n".join(lines) + "\n"


def test_the_page_is_as_tested():
    if os.environ.get("FDIFF_GOLDEN") == "write":
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page())
    assert page() == PAGE.read_text()


def test_no_row_stands_twice():
    names = sorted(row[0] for row in ROWS)
    assert all(a != b for a, b in pairwise(names))
