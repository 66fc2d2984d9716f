# ruff: noqa: E712, FURB136, FURB192 - the ways in which users decide are what is tested
"""Python decides by traced values: the branch taken is that of NumPy, the derivative that of it.

Values are those of plain NumPy. Derivatives are those of differences at points away from kinks, so
that the branch is the same all around; second ones are differences of gradients that were checked.
"""

import bisect
import collections
import functools
import heapq
import itertools
import math
import sys

import numpy as np
import pytest
import scipy.linalg

import fdiff

X = np.array([4.2, -5.1, 1.3])
POINTS = (X, -X, np.abs(X))

runs = []  # one entry for each run of a body that calls `sys.audit`: C code, which no capture sees
sys.addaudithook(lambda event, _: runs.append(event) if event == "test_branches" else None)


def differences(f, x):
    """Derivative along each entry: central differences, extrapolated twice."""
    columns = []
    for e in np.eye(x.size):
        rows = [
            (np.asarray(f(x + h * e)) - np.asarray(f(x - h * e))) / (2 * h)
            for h in (4e-3, 2e-3, 1e-3)
        ]
        for factor in (4.0, 16.0):
            rows = [(factor * b - a) / (factor - 1) for a, b in itertools.pairwise(rows)]
        columns.append(rows[0])
    return np.stack(columns, axis=-1)


# --- the ways to decide ---------------------------------------------------------------------------
# Each function is called at several points, in turn: what was decided before must not stick.

CASES = {}


def case(*points):
    """Decorator: a function and the points it is tested at."""

    def enter(f):
        CASES[f.__name__] = f, points or POINTS
        return f

    return enter


@case()
def if_else(x):
    return x[0] * x[1] if x[0] > 0 else x[2] ** 2


@case(X, 3 * X, X / 20)
def while_loop(x):
    n = 0
    while np.sum(x * x) > 1:
        x = x / 2
        n += 1
    return np.sum(x**3) * (n + 1)


@case(X, X / 10)
def break_and_else(x):
    total = 0.0
    for i in range(10):
        total += x[i % 3] ** 2
        if total > 40:
            break
    else:
        total *= 3
    return total


@case()
def skipped_by_continue(x):
    total = 0.0
    for v in x:
        if v < 0:
            continue
        total += v * v
    return total


@case(X, np.array([2.0, 1.0, 0.5]), np.array([9.0, 1.0, 0.5]))
def chained_comparison(x):
    return x[0] ** 2 if -1 < x[1] < x[0] < 7 else x[1] ** 3 * x[2]


@case()
def and_or_not(x):
    both = x[0] and x[1]
    either = (x[0] > 5 or x[1]) * x[0]
    return both + either if not x[2] > 0 else both * either


@case()
def bitwise_truth(x):
    if (x[0] > 0) & (x[1] < 0) | ~(x[2] > 0):
        return x[0] * x[1]
    return x[1] if (x[0] > 0) ^ (x[1] < 0) else x[2] ** 2


@case()
def early_return(x):
    if x[0] < 0:
        return x[1] ** 2
    if x[1] < 0:
        return x[2] * x[0]
    return x[0]


@case(X, 3 * X)
def recursion(x, depth=0):
    return np.sum(x * x) * depth if x[0] < 1 else recursion(x / 2, depth + 1)


@case(X, np.abs(X))
def newton(x):
    a = abs(x[0]) + x[2] ** 2
    t = a
    while abs(t * t - a) > 1e-13 * a:
        t -= (t * t - a) / (2 * t)
    return t * x[1]


@case()
def bisection(x):
    low, high = 0.0, 10.0
    while high - low > 2:
        middle = (low + high) / 2
        low, high = (middle, high) if middle < np.sum(x * x) % 7 else (low, middle)
    return low * np.sum(x**3)


@case()
def ternary_in_array(x):
    return np.sum(np.array([v if v > 0 else v * v for v in x]) * np.arange(3.0))


@case()
def assertion(x):
    assert x[0] != 0
    return x[0] ** 2


@case()
def compared_with_true(x):
    return x[1] if (x[0] > 0) == True else x[2]


@case()
def mathematics_of_truth(x):
    return x[0] * (x[1] < 0) + x[2] ** 2 * bool(x[1] >= 0) + int(x[0] > 0) * x[1]


@case()
def float_in_between(x):
    a = float(x[0])
    return math.sin(a) * x[1] if a > 0 else a * a * float(np.sum(x))


@case()
def numbers_of_python(x):
    a, (b, c) = x.item(0), x.tolist()[1:]
    z = complex(a, b) * 2
    powers = np.fromiter((v * v for v in x), float)
    return z.real * math.fsum(x) + z.imag * math.hypot(a, c) + np.sum(powers) * math.exp(c / 5)


@case()
def vectorized_by_numpy(x):
    powers = np.vectorize(lambda v: v * v if v > 0 else v**3)(x)
    halves = np.vectorize(lambda v: math.floor(v) * v, otypes=[float])(x)
    rows = np.apply_along_axis(lambda v: v * np.sum(v) if v[0] > 0 else v, 0, np.outer(x, x))
    return np.sum(powers * halves) + np.sum(rows * np.arange(3.0))


@case()
def piecewise_by_numpy(x):
    parts = np.piecewise(x, [x < 0, x >= 0], [lambda v: v * v, lambda v: v])
    return np.sum(parts * np.select([x < 0, x > 3], [x * x, x], default=2 * x)) * np.clip(
        x[0], -1, 2
    )


# extrema and order


@case()
def min_and_max(x):
    return max(x[0], x[1], 2.0) * min(x) * max(x, key=lambda v: -v)


@case(X, -np.abs(X))
def max_with_default(x):
    return max((v * v for v in x if v > 0), default=0.5) * x[2]


@case()
def sorted_values(x):
    return sum((i + 1) * v for i, v in enumerate(sorted(x)))


@case()
def sorted_by_key(x):
    order = sorted(range(3), key=lambda i: abs(x[i]), reverse=True)
    return x[order[0]] * 2 + x[order[1]] ** 2 + sorted(zip(x, order, strict=True))[0][1] * x[2]


@case()
def list_sort(x):
    values = list(x)
    values.sort()
    return values[0] * values[1] + values[2]


@case()
def bubble_sort(x):
    x = list(x)
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return sum((i + 1) * v * v for i, v in enumerate(x))


@case()
def insertion_into_array(x):
    out = np.zeros(3)
    for i, v in enumerate(x):
        j = i
        while j > 0 and out[j - 1] > v:
            out[j] = out[j - 1]
            j -= 1
        out[j] = v * 1.5
    return np.sum(out * np.arange(3.0))


@case()
def heap(x):
    return heapq.nsmallest(2, x)[1] ** 2


@case()
def numpy_sort(x):
    return np.sum(np.sort(x) * np.arange(3.0)) + np.sum(x[np.argsort(-x)] ** 2 * np.arange(3.0))


@case()
def folded(x):
    return functools.reduce(lambda a, b: a if a > b else b, x) ** 2


@case()
def filtered(x):
    return sum(filter(lambda v: v > 0, x), 0.0) * x[1] + sum(
        itertools.takewhile(lambda v: v > 0, x), 0.0
    )


# truth of arrays


@case()
def any_and_all(x):
    if np.any(x < -4.5) and not (x > 0).all():
        return np.prod(x)
    return np.sum(x) if all(v > 0 for v in x) or any(x > 5) else np.sum(x * x)


@case()
def array_comparisons(x):
    if np.array_equal(np.sign(x), [1, -1, 1]):
        return x[0] ** 2
    return x[1] if np.allclose(x, np.abs(X), atol=0.1) else x[2] ** 3


@case(X, np.array([1.0, np.nan, 2.0]))
def nan_predicates(x):
    if x[1] != x[1]:
        return x[0] * x[2]
    return x[0] if np.isnan(x[1]) or math.isnan(x[0]) or not np.isfinite(x).all() else x[2] ** 2


@case(np.array([1.0, np.nan, 2.0]), X, np.array([1.0, 2.0, np.inf]))
def comparisons_with_nan(x):
    value = x[0] * 2 if x[1] > 0 else x[0] * 3
    return value if not x[1] <= 0 else value**2


@case()
def closeness(x):
    if math.isclose(x[0], 4.0, rel_tol=0.1):
        return x[1] ** 2
    return x[0] if np.isclose(x[2], -1.3, 0.1) else x[2] ** 2


# integers


@case()
def argmax_as_integer(x):
    return x[int(np.argmax(x))] ** 2 * x[np.argmin(x)] + x[: np.argmax(x) + 1].sum()


@case(X, 2 * X, -X)
def range_of_value(x):
    return sum((x[1] ** 2 for _ in range(int(x[0]))), 0.0) + x[2]


@case(X, 2 * X, -X)
def index_of_value(x):
    return x[int(x[0]) % 3] ** 2 + x[x.astype(int) % 3].sum() * x[-int(x[2] > 0)]


@case()
def indices_into_constants(x):
    table = np.array([1.0, 2.0, 3.0, 5.0])
    return table[np.searchsorted([0.0, 2.0, 4.0], x)] @ x + table[bisect.bisect([-1.0, 3.0], x[0])]


@case()
def rounding(x):
    a = x[0] - math.floor(x[0]) + x[1] * math.ceil(x[0]) + math.trunc(x[2]) * x[2]
    return a + round(x[0]) * x[1] + int(x[0]) * x[2] + np.floor(x[1]) * x[0]


@case()
def division_with_remainder(x):
    quotient, rest = divmod(x[0], 1.7)
    return rest * divmod(x[1], 2)[0] + (x[2] // 0.4) * x[1] + x[2] % 1.1 + quotient


@case()
def text_of_value(x):
    return x[1] ** 2 if f"{x[0]:.0f}" == "4" else x[2]


@case()
def sizes_of_value(x):
    n = int(abs(x[0]))
    return np.ones(n).reshape(2, -1).sum() * x[1] + len("a" * n) * x[2] + sum([x[1]] * n)


@case()
def ranges_of_value(x):
    line = np.linspace(x[0], x[1], int(abs(x[2])) + 2)
    return np.arange(abs(x[0])).sum() * x[1] + np.arange(x[0], 8.0).sum() + line.prod()


@case()
def repetitions(x):
    return np.sum(np.repeat(x, x.astype(int) % 3) ** 2) * x[0]


# containers


@case()
def membership(x):
    return x[1] ** 2 if int(x[0]) in [1, 4] else x[0] * [1, 2, -4, 4].index(int(x[0]))


@case()
def dict_by_integers(x):
    table = {4: x[1], -4: x[2]}
    counted = collections.Counter(int(v) for v in x)
    return table[int(x[0])] ** 2 * counted[int(x[2])] + {int(v): v for v in x}[int(x[1])]


@case()
def dict_by_floats(x):
    return {v: v * v for v in x}[x[0]] + len({v for v in x}) * x[1]  # noqa: C416 - as users write it


@case()
def match_values(x):
    match int(np.sign(x[0])):
        case 1:
            return x[1] ** 2
        case -1:
            return x[2] ** 3
        case _:
            return 0.0


@case()
def match_guards(x):
    match (x[0], x[1]):
        case (a, b) if a > b:
            return a * a * b
        case (float(a), b):
            return b * b + a
        case _:
            return 0.0


@case()
def classes(x):
    value = x[0] if isinstance(x, np.ndarray) else x[1]
    scalar = type(x[0]) is np.float64 and type(float(x[0])) is float
    return value * (type(x) is np.ndarray) + x[2] ** 2 * scalar


# masks and places


@case(*POINTS, -np.abs(X))
def mask_index(x):
    square = np.outer(x, x + 1)
    of_two_axes = np.sum(square[x > 0] ** 2) + np.sum(square[x < 0, 1]) + np.sum(square[square > 9])
    return np.sum(x[x > 0] ** 2) + of_two_axes + len(x[x > 0])


@case(*POINTS, -np.abs(X))
def mask_store(x):
    y = x * x
    y[x > 0] = -1.0
    z = np.zeros(3)
    z[x > 0] = x[x > 0] * 3
    z[x < 0] += x[x < 0] ** 2
    z[~(x > 0)] *= 2
    return y @ np.arange(3.0) + z @ x


@case(X, -X)
def few_masks(x):
    y = x * x
    y[x > 0] *= 3.0
    return np.sum(y) + np.sum(x[x < 0] ** 3)


@case(*POINTS, -np.abs(X))
def mask_mean(x):
    return x[x > 0].mean() ** 2 if (x > 0).any() else 0.25 * x[0]


@case(*POINTS)
def nonzero_places(x):
    total = np.sum(x[np.nonzero(x > 0)] ** 2) + np.sum(x[np.where(x < 0)] ** 3)
    rows, columns = np.where(np.outer(x, x) > 0)
    return total + np.sum(x[rows] * columns) + np.sum(x[np.flatnonzero(x > 0)])


@case(*POINTS)
def argwhere_places(x):
    places = np.argwhere(x > 0)
    return np.sum(x[places] ** 2) * len(places) + np.count_nonzero(x > 0) * x[0]


@case(*POINTS)
def unique_values(x):
    values, inverse, counts = np.unique(
        np.concatenate([x, x, -x]), return_inverse=True, return_counts=True
    )
    return np.sum(values**2 * counts * np.arange(values.size)) + np.sum(inverse * values[0])


@case(*POINTS)
def picked(x):
    return np.sum(np.compress(x > 0, x)) * x[0] + np.sum(np.extract(x < 1, x**2))


@case(*POINTS)
def threshold_by_statistics(x):
    return np.sum(x[x > np.median(x) - 0.1] ** 2) + x[x < x.mean()].size * x[0]


@case(*POINTS)
def pivoting(x):
    a = np.array([[x[0], x[1], 1.0], [x[2], 2.0, x[0]], [1.0, x[1], x[2]]])
    det = 1.0
    for k in range(3):
        p = k + int(np.argmax(np.abs(a[k:, k])))
        if p != k:
            a[[k, p]] = a[[p, k]]
            det = -det
        det *= a[k, k]
        a[k + 1 :] -= np.outer(a[k + 1 :, k] / a[k, k], a[k])
    return det


@case(*POINTS)
def linear_algebra(x):
    m = np.outer(x, x) + np.diag([3.0, 4.0, 5.0])
    rank = np.linalg.matrix_rank(m)
    return np.linalg.det(m) if np.linalg.cond(m) > 3 else scipy.linalg.det(m) * rank


# exceptions

MATRICES = np.array([4.0, 1.0, 2.0]), np.array([4.0, 5.0, 2.0]), np.array([-3.0, 0.5, 2.0])


@case(*MATRICES)
def jitter_until_it_factors(x):
    covariance = np.array([[x[0], x[1]], [x[1], x[2]]])
    jitter = 1e-3
    while True:
        try:
            factor = np.linalg.cholesky(covariance + jitter * np.eye(2))
        except np.linalg.LinAlgError:
            jitter *= 10
        else:
            return np.sum(np.log(np.diag(factor))) * x[2]


@case(*MATRICES)
def fall_back_from_cholesky(x):
    covariance = np.array([[x[0], x[1]], [x[1], x[2]]])
    try:
        return np.sum(np.linalg.cholesky(covariance) ** 3)
    except np.linalg.LinAlgError:
        return np.sum(np.abs(np.linalg.eigvalsh(covariance)))


@case(*POINTS)
def errors_of_lists_and_dicts(x):
    try:
        value = x[int(x[0])]
    except IndexError:
        value = x[1] ** 2
    try:
        low, high = [v for v in x if v > 1.5]
    except ValueError:
        low, high = x[0], x[2] ** 2
    try:
        return {4: value, -4: low}[int(x[0])] * high
    except KeyError:
        return value
    finally:
        value = None


@case(*POINTS, np.array([400.0, -30.0, 2.0]), np.array([-3.0, 200.0, 4.0]))
def domains_of_mathematics(x):
    try:
        value = math.sqrt(x[0]) * math.log(x[0] - 1)
    except ValueError:
        value = x[1] ** 2
    try:
        value += math.pow(x[1], 0.5) + math.exp(x[0] * 2) * math.acos(x[2] / 5)
    except (ValueError, OverflowError) as error:
        value *= 2 if isinstance(error, OverflowError) else 3
    return value


@case(*POINTS)
def first_that_fits(x):
    return next((v * v for v in x if v > 3), x[0] * 2) * x[1]


# Those whose kernels are compiled too: each way of looking once.
COMPILED = (
    *("if_else", "while_loop", "break_and_else", "and_or_not", "float_in_between", "min_and_max"),
    *("sorted_values", "insertion_into_array", "any_and_all", "nan_predicates", "rounding"),
    *("argmax_as_integer", "range_of_value", "dict_by_integers", "match_guards", "few_masks"),
    *("fall_back_from_cholesky", "domains_of_mathematics"),
)
TIERS = [("interpret", name) for name in CASES] + [("compile", name) for name in COMPILED]
each_tier = pytest.mark.parametrize(("tier", "name"), TIERS)


@each_tier
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_values_and_slopes_are_those_of_the_branch_taken(tier, name, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    f, points = CASES[name]
    both, value, forward = fdiff.value_and_grad(f), fdiff.jit(f), fdiff.jvp(f)
    for x in (*points, *points):  # there and back again
        given = x.copy()
        wanted, slope = f(x.copy()), differences(f, x)
        got, gradient = both(x)
        np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(value(x), wanted, rtol=1e-13, atol=1e-13)
        v = np.array([0.3, -1.1, 0.7])
        got, tangent = forward(x, v)
        np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(tangent, gradient @ v, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(x, given)


@each_tier
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_second_derivatives_are_those_of_the_branch_taken(tier, name, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    f, points = CASES[name]
    second, slope = fdiff.hessian(f), fdiff.grad(f)
    stretched = fdiff.grad(lambda s, x: fdiff.grad(lambda t: f(t * x))(s), argnums=0)
    for x in points:
        wanted = differences(slope, x)
        np.testing.assert_allclose(second(x), wanted, rtol=1e-7, atol=1e-7)
        if tier == "interpret" and np.isfinite(x).all():
            np.testing.assert_allclose(stretched(1.0, x), x @ wanted @ x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("tier", "name"), [t for t in TIERS if t[1] != "text_of_value"])
def test_a_batch_whose_elements_go_different_ways_is_split(tier, name, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    f, points = CASES[name]
    rows = np.stack([*points, *points[::-1], 1.01 * points[0]])
    np.testing.assert_allclose(fdiff.vmap(f)(rows), [f(x) for x in rows], rtol=1e-12, atol=1e-12)
    slopes = fdiff.vmap(fdiff.grad(f))(rows)
    np.testing.assert_allclose(slopes, [differences(f, x) for x in rows], rtol=1e-7, atol=1e-7)
    if tier == "interpret":
        weights = np.arange(len(rows))
        turned = fdiff.grad(lambda r: np.sum(fdiff.vmap(f)(r) * weights))(rows)
        np.testing.assert_allclose(turned, slopes * weights[:, None], rtol=1e-12, atol=1e-12)


# --- traces and variants --------------------------------------------------------------------------


def test_each_branch_is_traced_once_and_kept():
    def f(x):
        sys.audit("test_branches")
        if x[0] > 0:
            return x[0] * x[1]
        return x[1] ** 2 if x[1] > 0 else x[2] ** 3

    calls = fdiff.grad(f), fdiff.jit(f), fdiff.hessian(f), fdiff.jvp(f)
    points = [s * x for x in POINTS for s in (1.0, 0.5, -1.0, -2.0, 3.0)]
    for call in calls:
        runs.clear()
        for _ in range(3):
            for x in points:
                call(x, x) if call is calls[-1] else call(x)
        assert len(runs) == 3  # one trace a branch, whatever the order
        np.testing.assert_allclose(fdiff.grad(f)(points[0]), differences(f, points[0]), rtol=1e-8)


def test_a_loop_is_traced_for_two_numbers_of_turns_and_then_for_all():
    def f(x):
        sys.audit("test_branches")
        while x[0] > 1:
            x = x / 2
        return np.sum(x**3)

    slope = fdiff.grad(f)
    points = [X * 2.0**k / 4.2 * 1.1 for k in range(5)]
    runs.clear()
    slopes = [slope(x) for _ in range(2) for x in points]
    assert len(runs) == 3 < len(points)
    wanted = [differences(f, x) for _ in range(2) for x in points]
    np.testing.assert_allclose(slopes, wanted, rtol=1e-7)


def test_past_the_bound_of_variants_results_are_still_right():
    def f(x):
        sys.audit("test_branches")
        return x[0] ** 2 * int(x[0]) + x[1]

    slope = fdiff.grad(f)
    runs.clear()
    for _ in range(2):
        for k in range(1, 40):
            np.testing.assert_array_equal(slope(np.array([k + 0.5, 1.0])), [2 * (k + 0.5) * k, 1.0])
    assert 39 < len(runs) <= 2 * 39
    program = fdiff.grad(f).program
    kept = [v for variants in program.variants.values() for v in variants]
    assert len(kept) <= fdiff.dispatch.branch_stability.ALTERNATIVES


def test_guards_are_checked_in_the_order_of_the_program():
    # the second decision cannot be taken where the first would go the other way
    def f(x, n):
        if n[0] < len(x) and x[n[0]] > 0:
            return x[n[0]] ** 2
        return np.sum(x)

    slope = fdiff.grad(f)
    slopes = {0: [8.4, 0, 0], 1: [1, 1, 1], 2: [0, 0, 2.6], 7: [1, 1, 1]}
    for n in (0, 7, 1, 2, 7, 0):
        np.testing.assert_allclose(slope(X, np.array([n])), slopes[n])


def test_a_decision_that_raises_where_another_branch_was_taken_is_a_miss():
    def f(x):
        if x[0] > 0:
            return np.log(x[0]) * int(1 / x[0] + 0.5)
        return x[1] ** 2

    slope = fdiff.grad(f)
    for x in np.array([[0.3, 1.0], [0.0, 1.0], [-1.0, 3.0], [0.3, 2.0]]):
        wanted = [3 / 0.3, 0.0] if x[0] > 0 else [0.0, 2 * x[1]]
        np.testing.assert_allclose(slope(x), wanted)


# --- what is not differentiated -------------------------------------------------------------------


def test_branches_on_captured_data_that_changes():
    data, index, limits = np.array([1.0, -2.0]), np.array([0, 1]), {"low": np.array(0.0)}

    def f(x):
        y = x * data
        if data[0] > limits["low"] and y[index[0]] > 0:
            return np.sum(y**2)
        return y[index[1]] * int(data[1])

    slope = fdiff.grad(f)
    x = np.array([1.5, 2.5])

    def check():
        np.testing.assert_allclose(slope(x), differences(f, x), rtol=1e-8, atol=1e-8)

    check()
    for change in (
        lambda: data.__setitem__(0, -1.0),
        lambda: data.__setitem__(1, 3.0),
        lambda: data.__setitem__(0, 2.0),
        lambda: index.__setitem__(slice(None), 1),
        lambda: limits.__setitem__("low", np.array(2.5)),
        lambda: limits.__setitem__("low", -1),
        lambda: data.__setitem__(slice(None), [-4.0, 0.5]),
    ):
        change()
        check()
        check()


@pytest.mark.parametrize(
    "kind", [float, np.float64, np.array, np.float32], ids=lambda k: k.__name__
)
def test_branches_on_arguments_that_are_not_differentiated(kind):
    def f(x, t, limit):
        if t > limit:
            return np.sum(x**2) * t
        return np.sum(x) * math.sin(t) if int(t) % 2 else np.prod(x) * t

    slope = fdiff.grad(f)
    for t in (0.5, 1.5, 2.5, 3.5, 0.5, 2.5):
        t, limit = kind(t), kind(2.75)  # noqa: PLW2901 - as numbers of that kind
        wanted = differences(lambda x, t=t, limit=limit: f(x, float(t), limit), X)
        rtol = 1e-6 if kind is np.float32 else 1e-8
        np.testing.assert_allclose(slope(X, t, limit), wanted, rtol=rtol)


def test_a_branch_on_both_kinds_of_arguments_in_a_nested_derivative():
    def inner(x, t):
        return x[0] ** 3 * t if x[1] > t else x[1] ** 2 * x[0]

    def outer(x, t):
        slope = fdiff.grad(inner)(x, t)
        return slope[0] * x[2] if slope[0] > 5 else slope[1] ** 2

    def plain(x, t):
        slope = [3 * x[0] ** 2 * t, 0.0] if x[1] > t else [x[1] ** 2, 2 * x[1] * x[0]]
        return slope[0] * x[2] if slope[0] > 5 else slope[1] ** 2

    for x in (X, -X, np.array([1.0, 2.0, 3.0]), np.array([0.1, 2.0, 3.0]), X):
        for t in (1.5, 0.25, -7.0):
            got, slope = fdiff.value_and_grad(outer)(x, t)
            np.testing.assert_allclose(got, plain(x, t), rtol=1e-13)
            wanted = differences(lambda x, t=t: plain(x, t), x)
            np.testing.assert_allclose(slope, wanted, rtol=1e-7, atol=1e-7)


def test_batches_within_derivatives_and_derivatives_within_batches():
    def f(v, w):
        return v**2 * w if v * w > 1 else v * w[()] ** 3

    def both(x):
        return np.sum(fdiff.vmap(f, in_axes=(0, None))(x, x[0]) * np.arange(1.0, 4.0))

    def plain(x):
        return sum(f(v, x[0]) * (k + 1.0) for k, v in enumerate(x))

    for x in POINTS:
        np.testing.assert_allclose(both(x), plain(x))
        np.testing.assert_allclose(fdiff.grad(both)(x), differences(plain, x), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            fdiff.hessian(both, x), differences(fdiff.grad(both), x), rtol=1e-7, atol=1e-7
        )
    rows = np.stack(POINTS)
    np.testing.assert_allclose(
        fdiff.vmap(fdiff.hessian(plain))(rows), [fdiff.hessian(plain, x) for x in rows], atol=1e-12
    )


def test_results_of_different_kinds_in_different_branches():
    def f(x):
        if x[0] > 0:
            return {"a": x[0] ** 2, "b": x}
        return x[1] ** 3, "other"

    value = fdiff.jit(f)
    for _ in range(2):
        out = value(X)
        assert sorted(out) == ["a", "b"]
        assert out["a"] == X[0] ** 2
        assert value(-X) == ((-X[1]) ** 3, "other")
    rows = np.stack([X, -X])
    for g, words in [
        (f, "different structures for different elements"),
        (lambda x: x if x[0] > 0 else x[1:], "arrays of different shapes for different elements"),
        (lambda x: (x, "up" if x[0] > 0 else "down"), "different objects that are not numbers"),
        (lambda x: x[1] if x[0] > 0 else "down", "different objects that are not numbers"),
    ]:
        with pytest.raises(fdiff.errors.InputError, match=words):
            fdiff.vmap(g)(rows)
    doubled, name = fdiff.vmap(lambda x: (2 * x if x[0] > 0 else x, "same"))(rows)
    np.testing.assert_array_equal(doubled, [2 * X, -X])
    assert name == "same"


def test_a_batch_that_is_split_by_a_sum_ends():
    # a batch may sum in another order than one element does: the sums differ in their last bits
    rows = np.random.default_rng(0).normal(size=(5, 1000))
    out = fdiff.vmap(lambda x: {s: 2 * s for s in [np.sum(np.sin(x))]}[np.sum(np.sin(x))])(rows)
    np.testing.assert_allclose(out, 2 * np.sin(rows).sum(axis=1))


def test_an_error_of_one_branch_is_raised_there_alone():
    def f(x):
        if x[0] < 0:
            raise ValueError(f"negative: {x[0]:.1f}")
        return x[0] ** 2

    slope = fdiff.grad(f)
    for _ in range(2):
        np.testing.assert_allclose(slope(X), [8.4, 0.0, 0.0])
        with pytest.raises(ValueError, match=r"^negative: -4\.2$"):
            slope(-X)


def test_a_solver_that_goes_its_own_way_at_each_call():
    import scipy.optimize as scipy_optimize

    def cost(x):
        r = np.abs(x - np.array([1.0, -2.0, 3.0]))
        return np.sum([v**2 / 2 if v < 0.5 else 0.5 * (v - 0.25) for v in r])  # Huber's

    found = scipy_optimize.minimize(fdiff.value_and_grad(cost), np.zeros(3), jac=True, tol=1e-12)
    np.testing.assert_allclose(found.x, [1.0, -2.0, 3.0], atol=1e-8)
