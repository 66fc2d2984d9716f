# ruff: noqa: FURB136, PLR1704, PLR1730 - the ways in which users decide are what is tested
"""Arms of ``if`` that store one entry are recorded as selects; all others are guards as ever."""

import sys

import numpy as np
import pytest
from american_put import american_put

import fdiff
from fdiff.trace.branching.if_conversion import arm_at

pytestmark = pytest.mark.usefixtures("one_interpreter")

LIMIT = 0.25


# --- arms, by the bytecode of this version of Python ----------------------------------------------

ARMS, OTHERS = {}, {}


def arm(f):
    ARMS[f.__name__] = f
    return f


def other(f):
    OTHERS[f.__name__] = f
    return f


@arm
def one_store(a, v, i):
    if a > v[i]:
        v[i] = a
    return v[0] * 2


@arm
def at_the_end_of_a_loop(a, v, i):
    for i in range(3):
        if a > v[i]:
            v[i] = a
    return v[0] * 2


@arm
def in_the_middle_of_a_loop(a, v, i):
    for i in range(3):
        if a > v[i]:
            v[i] = -a * 2.0 + v[i] - 3 * v[i]
        v[i] = v[i] * a
    return v[0] * 2


@arm
def negated(a, v, i):
    for i in range(3):
        if not a > v[i]:
            v[i] = LIMIT
    return v[0] * 2


@arm
def in_place(a, v, i):
    if a > v[i]:
        v[i + 1] += 2.0 * a
    return v[0] * 2


@arm
def by_a_name(a, v, i):
    wanted = a > v[i]
    if wanted:
        v[i - 1] = LIMIT * 2.0**2
    return v[0] * 2


@arm
def passed(a, v, i):
    if a > v[i]:
        v[i] = v[i] - a
    else:
        pass
    return v[0] * 2


@arm
def second_of_two(a, v, i):
    if i == 0 and a > v[i]:
        v[i] = a * a
    return v[0] * 2


@other
def both_arms(a, v, i):
    if a > v[i]:
        v[i] = a
    else:
        v[i] = 2 * a
    return v[0] * 2


@other
def a_call(a, v, i):
    if a > v[i]:
        v[i] = np.sin(a)
    return v[0] * 2


@other
def a_local_name(a, v, i):
    if a > v[i]:
        a = v[i]
    return a * v[0]


@other
def two_stores(a, v, i):
    if a > v[i]:
        v[i] = a
        v[i + 1] = a
    return v[0] * 2


@other
def a_return(a, v, i):
    if a > v[i]:
        v[i] = a
        return v[i] * 3
    return v[0] * 2


@other
def a_break(a, v, i):
    for i in range(3):
        if a > v[i]:
            v[i] = a
            break
    return v[0] * 2


@other
def a_continue(a, v, i):
    for i in range(3):
        if a > v[i]:
            v[i] = a
            continue
        v[i] = v[i] * a
    return v[0] * 2


@other
def a_while(a, v, i):
    while a > v[i]:
        v[i] = v[i] + 0.5
    return v[0] * 2


@other
def an_expression(a, v, i):
    v[i] = a if a > v[i] else v[i]
    return v[0] * 2


@other
def a_division(a, v, i):
    if a > v[i]:
        v[i] = 1 / a
    return v[0] * 2


@other
def a_slice(a, v, i):
    if a > v[i]:
        v[i : i + 2] = a
    return v[0] * 2


class Asked:
    """A condition that notes the arm of the branch that asks for it."""

    found: list = []  # noqa: RUF012 - one list for all

    def __init__(self, truth):
        self.truth = truth

    def __bool__(self):
        frame = sys._getframe(1)
        self.found.append(arm_at(frame.f_code, frame.f_lasti))
        return bool(self.truth)


class Compared(float):
    def __gt__(self, other):
        return Asked(float(self) > other)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*ARMS, *(n for n in OTHERS if n not in ("a_division", "a_slice"))]
)
def test_arms_are_found_in_the_bytecode(name):
    Asked.found.clear()
    (ARMS.get(name) or OTHERS[name])(Compared(0.5), [0.1, 0.2, 0.3], 0)
    assert Asked.found
    for found in Asked.found:
        assert (found is not None) == (name in ARMS)
        if found is not None:
            assert found.when == (name != "negated")


POINTS = [
    np.array(p) for p in ([0.5, 0.1, 0.9], [0.1, 0.5, 0.9], [0.5, 0.5, 0.5], [-1.0, 2.0, 0.3])
]


def of_array(body):
    def f(x):
        v = np.zeros_like(x)
        v[:] = 1.1 * x
        return body(x[0], v, 0)

    return f


def variants_of(f, name):
    (kept,) = getattr(fdiff, name)(f).program.variants.values()
    return kept


@pytest.mark.parametrize("name", [*ARMS, *OTHERS])
def test_derivatives_in_every_operator(name):
    fdiff.cache_clear()
    body = ARMS.get(name) or OTHERS[name]
    f = of_array(body)
    both, hessian, jvp = fdiff.value_and_grad(f), fdiff.hessian(f), fdiff.jvp(f)
    forwards, batch = fdiff.jacfwd(f), fdiff.vmap(f)
    for x in POINTS:
        value, slope = both(x)
        assert value == f(x)
        wanted = differences(f, x)
        np.testing.assert_allclose(slope, wanted, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(forwards(x), slope, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(jvp(x, x)[1], slope @ x, rtol=1e-13)
        h = 1e-6
        rows = [(both(x + h * e)[1] - both(x - h * e)[1]) / (2 * h) for e in np.eye(3)]
        np.testing.assert_allclose(hessian(x), rows, atol=1e-7)
    rows = np.stack(POINTS)
    np.testing.assert_allclose(batch(rows), [f(x) for x in POINTS], rtol=1e-14)
    kept = variants_of(f, "value_and_grad")
    if name in ARMS:
        assert len(kept) == 1
        assert kept[0].traced.check is None
    elif name != "a_continue":
        assert kept[0].traced.check is not None


def differences(f, x, h=1e-6):
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size)])


# --- what an arm may do ---------------------------------------------------------------------------


def test_an_entry_that_is_not_there_is_an_error_where_the_arm_is_taken():
    def f(x):
        v = x * 1.0
        if v[0] > 0:
            v[3] = x[1]
        return np.sum(v)

    def caught(x):
        try:
            return f(x)
        except IndexError:
            return x[0] * x[1]

    for _ in range(2):
        np.testing.assert_array_equal(fdiff.grad(f)(-POINTS[0]), np.ones(3))
        with pytest.raises(IndexError, match="index 3 is out of bounds"):
            fdiff.grad(f)(POINTS[0])
        np.testing.assert_array_equal(fdiff.grad(caught)(POINTS[0]), [0.1, 0.5, 0.0])
        np.testing.assert_array_equal(fdiff.grad(caught)(-POINTS[0]), np.ones(3))


def test_numbers_that_warn_do_so_where_the_arm_is_taken():
    big = np.float64(1e308)

    def f(x):
        v = x * 1.0
        if v[0] > 0:
            v[1] = big * 10.0
        if v[0] > 0:
            v[2] = 1.0 / (big - big)
        return np.sum(v)

    np.testing.assert_array_equal(fdiff.grad(f)(-POINTS[0]), np.ones(3))
    with pytest.warns(RuntimeWarning, match="overflow|divide"):
        fdiff.grad(f)(POINTS[0])


def test_arrays_outside_are_written_to_where_the_arm_is_taken():
    data = np.arange(3.0)

    def captured(x):
        if x[0] > 0:
            data[0] = x[1]
        return np.sum(x * data)

    for x in (-POINTS[0], POINTS[0], -POINTS[0]):
        before = data.copy()
        plain, slope = captured(x), fdiff.grad(captured)
        data[:] = before
        found = slope(x)
        np.testing.assert_array_equal(data, [x[1] if x[0] > 0 else before[0], 1.0, 2.0])
        want = data.copy()
        want[1] += x[0] * (x[0] > 0)
        np.testing.assert_allclose(found, want)
        assert plain == np.sum(x * data)


def test_arrays_that_may_not_be_written_to_are_errors_where_the_arm_is_taken():

    def read_only(x):
        v = np.broadcast_to(x[:1] * 1.0, (3,))
        if x[0] > 0:
            v[0] = x[1]
        return np.sum(v * x)

    for _ in range(2):
        slope = fdiff.grad(read_only)(-POINTS[0])
        np.testing.assert_allclose(slope, differences(read_only, -POINTS[0]), rtol=1e-7, atol=1e-8)
        with pytest.raises(ValueError, match="read-only"):
            fdiff.grad(read_only)(POINTS[0])


def test_views_arguments_lists_and_integers():
    heights = [0.3, 0.2]

    def views(x):
        v = np.zeros(4)
        w = v[::2]
        if x[0] > x[1]:
            w[1] = x[0] * heights[1]
        return v[2] + v[-1]

    def arguments(x):
        if x[0] > x[1]:
            x[-1] = x[0] * 3
        return np.sum(x * x)

    def integers(x):
        n = np.zeros(2, int)
        if x[0] > x[1]:
            n[0] = 2
        return x[0] ** 2 if n[0] == 2 else x[1]

    def lists(x):
        v = [x[0], x[1]]
        if x[0] > x[1]:
            v[0] = x[1]
        return v[0] * x[2]

    def objects(x):
        v = {"a": x[0]}
        if x[0] > x[1]:
            v["a"] = x[1]
        return v["a"] * x[2]

    for f in (views, arguments, integers, lists, objects):
        for x in (POINTS[0], POINTS[1], POINTS[0]):
            kept = x.copy()
            wanted = differences(lambda x, f=f: f(x.copy()), x)
            np.testing.assert_allclose(fdiff.grad(f)(x), wanted, rtol=1e-6, atol=1e-8)
            np.testing.assert_array_equal(x, kept)


def test_globals_and_closures_that_change_are_seen(monkeypatch):
    factor = [2.0]

    def outer(level):
        def f(x):
            v = x * 1.0
            if v[0] > 0.25:
                v[0] = level * factor[0] * LIMIT
            return v[0] * x[1]

        return f

    x = POINTS[0]
    for level, limit in ((1.0, 0.25), (1.0, 2.0), (3.0, 2.0), (3.0, 0.1)):
        monkeypatch.setitem(globals(), "LIMIT", limit)
        for factor[0] in (2.0, 5.0):
            f = outer(level)
            np.testing.assert_allclose(fdiff.grad(f)(x), differences(f, x), rtol=1e-7, atol=1e-9)


def test_single_precision_and_not_a_number():
    def f(x):
        v = x * np.float32(1.0)
        if v[0] > v[1]:
            v[1] = v[0] * 0.1
        if not v[2] > 0:
            v[2] = 0
        return np.sum(v)

    for x in (np.array([2, 1, 3], np.float32), np.array([1, 2, np.nan], np.float32)):
        value, slope = fdiff.value_and_grad(f)(x)
        assert value == f(x)
        assert slope.dtype == np.float32
        first = [np.float32(1.1), 0] if x[0] > x[1] else [1, 1]
        np.testing.assert_allclose(slope, [*first, x[2] > 0], rtol=1e-6)


def test_nan_of_an_arm_that_is_not_taken_stays_there():
    def f(x):
        v = x * 1.0
        w = np.sqrt(x)
        for i in range(3):
            if x[i] > 0:
                v[i] = w[i]
        return np.sum(v)

    with np.errstate(invalid="ignore", divide="ignore"):
        np.testing.assert_allclose(fdiff.grad(f)(np.array([4.0, -1.0, 0.0])), [0.25, 1.0, 1.0])


# --- programs -------------------------------------------------------------------------------------

CONDITIONS = ("{a} > {b}", "not {a} < {b}", "{a} <= {c}", "{a} * {a} > {b}", "{c} < {a}")
BODIES = (
    "v[i] = {y}", "v[i] += {y}", "v[i - 1] = {y} * v[i] - {x}", "w[i] = -{y}", "v[-1] *= {x}",
    "v[i] = {k}", "w[i], v[i] = v[i], w[i]", "t = t + {y}", "w[i] = np.sin({y})", "v[1:] = {y}",
)  # fmt: skip


def program(rng):
    """The text of a function with random branches."""
    lines = ["def f(x):", "    v, w, t = 0.7 * x, np.zeros_like(x), x[0]"]
    for _ in range(6):
        names = {n: f"{rng.choice(['v', 'w', 'x'])}[i]" for n in "xyab"}
        names |= {"c": f"{rng.normal():.2f}", "k": f"{rng.normal():.2f}"}
        real = {n: f"R({names[n]})" for n in "ab"} | {"c": names["c"]}
        lines += [
            "    for i in range(3):",
            f"        if {str(rng.choice(CONDITIONS)).format(**real)}:",
            f"            {str(rng.choice(BODIES)).format(**names)}",
        ]
    return "\n".join([*lines, "    return np.sum(v * w) + t * np.sum(v) + w[0]"])


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    text = program(rng)
    plain, bare = {"np": np, "R": lambda value: value}, {"np": np, "R": np.real}
    exec(text, plain)
    exec(text, bare)
    f = plain["f"]
    both = fdiff.value_and_grad(f)
    for x in rng.normal(size=(3, 3)):
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13, err_msg=text)
        wanted = [bare["f"](x + 1e-30j * e).imag / 1e-30 for e in np.eye(3)]
        np.testing.assert_allclose(slope, wanted, rtol=1e-12, atol=1e-13, err_msg=text)


def test_the_american_put_is_one_trace_without_guards():
    put = lambda s: american_put(s, steps=20)
    both = fdiff.value_and_grad(put)
    points = 0.8 + 0.05 * np.arange(8)
    for s in points:
        value, slope = both(s)
        np.testing.assert_allclose(value, put(s), rtol=1e-13)
        h = 1e-7
        wanted = (put(s + h) - put(s - h)) / (2 * h)
        np.testing.assert_allclose(slope, wanted, rtol=1e-5)
    (kept,) = variants_of(put, "value_and_grad")
    assert kept.traced.check is None
    np.testing.assert_allclose(fdiff.vmap(put)(points), [put(s) for s in points])
