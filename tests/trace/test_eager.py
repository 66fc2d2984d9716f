"""Gradients taken eagerly, where a function takes another way at each call: as any gradient."""

import numpy as np
import pytest
import test_branches
import test_functions
import test_simulators
import test_stores
import test_where
from extremes import UNARY, exact, points
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tails import check
from tolerances import LOST, SLOPE

import fdiff
from fdiff.dispatch.branch_stability import ALTERNATIVES, FEW, MOST_PATHS, SETTLED, BranchStability
from fdiff.dispatch.program import Program
from fdiff.errors import RetraceWarning


def eagerly(call, *args, **kwargs):
    """The result of a call in which every function is taken to go another way each time."""

    def find(program, f, args, kwargs, *, sure=False):
        assert program.eager
        variant, inputs = program.trace(f, args, kwargs, eager=True)
        assert not variant.conditions.cacheable
        return variant, inputs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "find", find)
        return call(*args, **kwargs)


def same(found, wanted, accuracy=1e-12):
    """Equal, up to rounding of the largest entry, in type and dtype too."""
    for a, b in zip(test_functions.parts(found), test_functions.parts(wanted), strict=True):
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        largest = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
        np.testing.assert_allclose(a, b, rtol=accuracy, atol=accuracy * largest)


@pytest.mark.parametrize("case", test_functions.DIFFERENTIABLE)
def test_every_function(case):
    """At two points in turn: the second goes by the templates and rules of the first."""
    _, xs, names, fixed, chosen = test_functions.smooth(case)
    moving = [k for k, x in enumerate(xs) if x.dtype.kind in "fc"]
    choice = "conjugate" if any(x.dtype.kind == "c" for x in xs) else "error"

    def total(*args):
        out = test_functions.parts(
            test_functions.run(case, {**dict(zip(names, args, strict=True)), **fixed})
        )
        weigh = lambda part: np.sum(part * np.cos(np.arange(np.size(part))).reshape(np.shape(part)))
        return sum(weigh(np.real(out[k])) + 2 * weigh(np.imag(out[k])) for k in chosen)

    options = {"argnums": tuple(moving), "complex_inputs": choice}
    for scale in (1.0, 0.99):
        point = [x * x.dtype.type(scale) if x.dtype.kind in "fc" else x for x in xs]
        both = fdiff.value_and_grad(total, **options)
        (value, slopes), (found, pulled) = both(*point), eagerly(both, *point)
        same(found, value)
        same(pulled, slopes)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("name", test_branches.CASES)
def test_branches_on_values(name):
    f, points = test_branches.CASES[name]
    for x in (*points, *points):
        both = fdiff.value_and_grad(f)
        same(eagerly(both, x), both(x))


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("name", test_branches.CASES)
def test_every_operator(name):
    f, points = test_branches.CASES[name]
    v, bar = np.array([0.3, -1.1, 0.7]), np.array([1.5, -0.5])
    pair = lambda x: np.stack([f(x), np.sum(x) * f(1.0 * x)])
    for x in points:
        for call in (fdiff.jit(pair), fdiff.jacrev(pair), fdiff.jacfwd(pair), fdiff.hessian(f)):
            same(eagerly(call, x), call(x), 1e-11)
        for call in (fdiff.jvp(pair), fdiff.hvp(f), fdiff.vhp(f)):
            same(eagerly(call, x, v), call(x, v), 1e-11)
        same(eagerly(fdiff.vjp(pair), x, bar), fdiff.vjp(pair)(x, bar), 1e-11)


@pytest.mark.parametrize("case", test_functions.DIFFERENTIABLE[::4])
def test_every_kind_of_rule(case):
    """Batched, entered as nodes, and forwards."""
    _, xs, names, fixed, chosen = test_functions.smooth(case)
    moving = tuple(k for k, x in enumerate(xs) if x.dtype.kind == "f")
    if any(x.dtype.kind == "c" for x in xs):
        return  # of complex arguments the tape is derived as ever

    def parts(*args):
        out = test_functions.parts(
            test_functions.run(case, {**dict(zip(names, args, strict=True)), **fixed})
        )
        return [np.real(out[k]) for k in chosen]

    def total(*args):
        return sum(np.sum(part**2) for part in parts(*args))

    for derive in (fdiff.jacrev, fdiff.jacfwd):
        call = derive(parts, moving)
        for found, wanted in zip(eagerly(call, *xs), call(*xs), strict=True):
            same(found, wanted)
    second = fdiff.hessian(total, argnums=moving)
    for found, wanted in zip(eagerly(second, *xs), second(*xs), strict=True):
        same(found, wanted, 1e-11)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # plain code warns of that branch, too
@test_where.each_case
def test_the_branch_of_a_where_that_is_not_taken(case):
    bare, guarded = (
        test_where.weighted(kind(case)) for kind in (test_where.bare, test_where.guarded)
    )
    for derive in (fdiff.grad, fdiff.hessian, fdiff.jacfwd, fdiff.jacrev):
        found = eagerly(derive(bare), test_where.POINT)
        test_where.same(found, derive(guarded)(test_where.POINT))


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(test_stores.steps, min_size=2, max_size=14), st.sampled_from(["C", "F"]))
def test_random_programs_of_views_and_stores(program, order):
    assert_same_as_traced(program, order)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(test_stores.steps, min_size=2, max_size=14), st.sampled_from(["C", "F"]))
def test_many_random_programs_of_views_and_stores(program, order):
    assert_same_as_traced(program, order)


def assert_same_as_traced(program, order):
    x = np.asarray(np.random.default_rng(len(program)).uniform(0.2, 1.4, (4, 3)), order=order)

    def f(x):
        out = test_stores.play(x, program)[1]
        return np.sum(out * np.cos(np.arange(out.size)))

    both = fdiff.value_and_grad(f)
    same(eagerly(both, x), both(x), 1e-11)


@test_simulators.named(test_simulators.SECOND)
def test_simulators_of_user_code(case):
    args = test_simulators.fresh(case)

    def total(moving):
        given = (*args[: case.argnum], moving, *args[case.argnum + 1 :])
        out = case.function(*given)
        return sum(np.sum(part) for part in test_simulators.parts(out))

    rows = test_simulators.expected(case.name)
    found = eagerly(fdiff.grad(total), args[case.argnum])
    test_simulators.assert_close(np.ravel(found), np.sum(rows, axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_and_structures(dtype):
    def f(p, scale, *, k):
        if p["a"][0] > scale:
            return np.sum(p["a"] ** k) * p["b"]
        return np.sum(p["a"][::-2]) + p["b"] ** 2

    point = {"a": np.array([1.5, -2.0, 3.0], dtype), "b": dtype(0.5)}
    for scale in (0.0, 2.0):
        slope = fdiff.grad(f)
        found, wanted = eagerly(slope, point, scale, k=3), slope(point, scale, k=3)
        same([found["a"], found["b"]], [wanted["a"], wanted["b"]])


def test_constants_of_the_same_type_are_not_mixed_up():
    def f(x, constants):
        total = 0.0
        for c in constants:
            total = total + x[0] ** c + c * x[1] - np.power(x[1], np.float64(c)) * -0.0
        return total

    for constants in ([2.0, 3.0, 0.5, 0.0], [1.0, -1.0, 7.0, -0.0]):
        x = np.array([1.3, 0.7])
        both = fdiff.value_and_grad(f)
        same(eagerly(both, x, constants), both(x, constants))


QUOTIENTS = [name for name in UNARY if "/ (" in name]


@pytest.mark.filterwarnings("ignore:overflow")  # of exp(-x), as in plain code
@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_term_over_its_sum_keeps_its_digits(name):
    """After a quotient of the same types that is none, and the other way round."""
    plain = fdiff.grad(lambda x: np.sum(np.sin(x) / (2.0 + np.cos(x))))
    slope = fdiff.grad(lambda x: np.sum(UNARY[name].call(x)))
    x = points(name, np.float64)
    want = [exact(UNARY[name].slope, v) for v in x]
    for _ in range(2):
        same(eagerly(plain, x), plain(x))
        check(eagerly(slope, x), want, [x], LOST.get(name, (SLOPE,))[0])


def test_a_term_over_its_sum_in_programs_that_read_the_world(tmp_path):
    """Of other shapes and written twice, too: eager traces enter each term anew."""
    path = tmp_path / "k.txt"
    path.write_text("2.0")

    def f(x):
        k = float(path.read_text())
        rate = np.sum(x / (np.array([[k], [1.0]]) + x))
        return rate + x[0] ** 2 / (x[0] ** 2 + k)

    x = np.array([1e16, 2e16])
    with pytest.warns(RetraceWarning):
        first = fdiff.grad(f)(x)
    want = np.array([3.0, 3.0]) / x**2 + np.array([4.0, 0.0]) / x**3
    call = fdiff.grad(f)
    for found in (first, *(call(x) for _ in range(4)), eagerly(call, x)):
        np.testing.assert_allclose(found, want, rtol=1e-15)


def test_operands_that_are_one_array_are_not_taken_for_two():
    def f(x):
        return np.sum(x * x) + np.sum(x * x[::-1]) + np.hypot(x[0], x[0]) * np.hypot(x[0], x[1])

    x = np.array([1.3, 0.7, -2.0])
    both = fdiff.value_and_grad(f)
    same(eagerly(both, x), both(x))


def test_cotangents_of_slices_are_added_in_place_to_nothing_shared():
    def f(x):
        y = x * 2.0
        z = y + x  # y and x get the very same cotangent, then parts of it
        return np.sum(z**2) + np.sum(y[1:] * x[:-1]) + y[0] * x[2] + np.sum(x[::-1][:2])

    x = np.array([1.3, 0.7, -2.0])
    both = fdiff.value_and_grad(f)
    same(eagerly(both, x), both(x))


def test_functions_that_settle_leave_the_eager_path():
    stability = BranchStability()
    for _ in range(ALTERNATIVES):  # of few guards, as many as are kept
        assert not stability.unstable()
        stability.miss(FEW)
    assert stability.unstable()
    stability = BranchStability()
    stability.miss(FEW + 1)
    assert not stability.unstable()
    stability.miss(FEW + 1)
    assert stability.unstable()  # from the second miss on
    for k in range(10 * MOST_PATHS):  # a way of its own each time, or one of too many
        stability.took(k % (MOST_PATHS + 1), 0.0)
        assert stability.unstable()
    calls = 0
    while stability.unstable():  # three ways in turn
        stability.took(100 + calls % 3, 0.0)
        calls += 1
    assert calls == 3 + SETTLED
    for _ in range(3):  # each of them may be traced
        stability.miss(FEW + 1)
        assert not stability.unstable()
    stability.miss(FEW + 1)
    assert stability.unstable()


def ways_of(program):
    """The traces of a program, those that were merged among them."""
    return [way for kept in program.variants.values() for v in kept for way in v.paths or (v,)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_calls_until_settled(count):
    """A function of so many ways, taken in turn, is soon answered by kept traces."""

    def f(x):
        for k in range(10):
            if x[0] > k:
                many = k
        return x[0] ** 2 * int(x[0]) + x[1] + 0.0 * many

    fdiff.cache_clear()
    slope = fdiff.grad(f)
    program = fdiff.grad(f).program
    traced = []
    for call in range(80):
        x = np.array([call % count + 1.5, 1.0])
        before = ways_of(program)
        np.testing.assert_allclose(slope(x), [2 * x[0] * int(x[0]), 1.0])
        traced += [call] * (len(ways_of(program)) - len(before))
    assert len(traced) == count
    assert traced[-1] <= 2 + count + max(SETTLED, 2 * count) + count
    (stability,) = program.stability.values()
    assert not stability.unstable()


def test_a_program_goes_to_the_eager_path_and_comes_back():
    def f(x):
        return x[0] ** 2 * int(x[0]) + x[1]

    slope = fdiff.grad(f)
    for k in range(1, 30):
        np.testing.assert_allclose(slope(np.array([k + 0.5, 1.0])), [2 * (k + 0.5) * k, 1.0])
    program = fdiff.grad(f).program
    (stability,) = program.stability.values()
    assert stability.unstable()
    assert len(ways_of(program)) == ALTERNATIVES
    for _ in range(SETTLED + 4):
        np.testing.assert_allclose(slope(np.array([7.5, 1.0])), [105.0, 1.0])
    assert not stability.unstable()
    assert program.steady


def test_a_guard_that_a_kernel_rounds_the_other_way_is_decided_by_the_check(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    rng = np.random.default_rng(0)
    for n in (100, 1000, 1001):
        x = rng.normal(size=n)
        tie = float(np.sum(x))
        slope = fdiff.value_and_grad(lambda x: np.sum(x * x) if np.sum(x) >= tie else np.sum(x))
        for _ in range(3):
            value, found = slope(x)
            np.testing.assert_allclose(value, x @ x, rtol=1e-13)
            np.testing.assert_array_equal(found, 2 * x)
