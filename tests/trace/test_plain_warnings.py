"""NumPy's floating-point warnings: those of plain code, in every tier and under every operator."""

import warnings

import numpy as np
import pytest

import fdiff
from fdiff.dispatch import numpy_warnings
from fdiff.dispatch.inspection.inspector import Inspector, NodeRun
from fdiff.process.float_flags import OFTEN, Doubts, error_state, noted

TIERS = ("interpret", "evaluate", "compile")
NEAR = [0.2, 0.3]  # where every function below is as it should be

# What is computed, and where that is not what it should be.
TABLE = {
    "log of a negative number": (lambda x: np.sum(np.log(x)), -1.0),
    "log of zero": (lambda x: np.sum(np.log(x)), 0.0),
    "log2": (lambda x: np.sum(np.log2(x)), -1.0),
    "log10": (lambda x: np.sum(np.log10(x)), 0.0),
    "log1p": (lambda x: np.sum(np.log1p(x)), -3.0),
    "log1p at its pole": (lambda x: np.sum(np.log1p(x)), -1.0),
    "sqrt": (lambda x: np.sum(np.sqrt(x)), -1.0),
    "quotient": (lambda x: np.sum(1.0 / x), 0.0),
    "nothing by nothing": (lambda x: np.sum(x / x), 0.0),
    "exp": (lambda x: np.sum(np.exp(x)), 1000.0),
    "exp2": (lambda x: np.sum(np.exp2(x)), 2000.0),
    "expm1": (lambda x: np.sum(np.expm1(x)), 1000.0),
    "sinh": (lambda x: np.sum(np.sinh(x)), 1000.0),
    "cosh": (lambda x: np.sum(np.cosh(x)), 1000.0),
    "arcsin": (lambda x: np.sum(np.arcsin(x)), 2.0),
    "arccos": (lambda x: np.sum(np.arccos(x)), 2.0),
    "arctanh": (lambda x: np.sum(np.arctanh(x)), 2.0),
    "arctanh at its pole": (lambda x: np.sum(np.arctanh(x)), 1.0),
    "root of a negative number": (lambda x: np.sum(x**2.5), -1.0),
    "negative power of zero": (lambda x: np.sum(x**-1.5), 0.0),
    "square": (lambda x: np.sum(x * x), 1e200),
    "infinity less infinity": (lambda x: np.sum(x - np.sqrt(x * x)), np.inf),
    "sin": (lambda x: np.sum(np.sin(x)), np.inf),
    "fmod": (lambda x: np.sum(np.fmod(x, x - 1.0)), 1.0),
    "scalars": (lambda x: x[1] / (x[0] - 1.0) + np.log(x[2]), 1.0),
    "composed": (lambda x: np.mean(x) / np.prod(x - 1.0), 1.0),
}
FEW = ("log of zero", "sqrt", "quotient", "exp")
OPERATORS = {
    "jit": fdiff.jit,
    "value_and_grad": fdiff.value_and_grad,
    "grad": fdiff.grad,
    "jacobian": fdiff.jacobian,
    "hessian": fdiff.hessian,
}


def recorded(call, *args):
    """The warnings of a call: category, words, file and line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(*args)
    return [(w.category, str(w.message), w.filename, w.lineno) for w in found]


def points(x):
    return np.array([x, *NEAR]), np.array([0.5, *NEAR])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("operator", ["jit", "value_and_grad"])
def test_warnings_are_those_of_plain_code(monkeypatch, tier, operator):
    monkeypatch.setenv("FDIFF_TIER", tier)
    wrong = {}
    for name in (
        TABLE if tier != "evaluate" else FEW
    ):  # a bytecode interpreter takes long to compile
        f, x = TABLE[name]
        bad, good = points(x)
        wanted, g = recorded(f, bad), OPERATORS[operator](f)
        assert wanted, name
        assert not recorded(f, good), name
        for turn in range(4):  # the first ones trace, compile and make the shortcut
            if recorded(g, bad) != wanted or recorded(g, good):
                wrong[name, turn] = recorded(g, bad), wanted
    assert not wrong


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("operator", ["grad", "jacobian", "hessian"])
def test_derivatives_warn_of_what_they_compute(monkeypatch, tier, operator):
    monkeypatch.setenv("FDIFF_TIER", tier)
    for name in FEW:
        f, x = TABLE[name]
        bad, good = points(x)
        wanted, g = recorded(f, bad), OPERATORS[operator](f)
        for _ in range(4):
            assert recorded(g, bad) == wanted, name
            assert recorded(g, good) == [], name


@pytest.mark.parametrize("tier", TIERS)
def test_errstate_is_that_of_the_call(monkeypatch, tier):
    monkeypatch.setenv("FDIFF_TIER", tier)
    f, x = TABLE["log of zero"]
    g, (bad, good) = fdiff.value_and_grad(f), points(x)
    heard = []
    for _ in range(4):
        with np.errstate(all="raise"):
            with pytest.raises(FloatingPointError) as caught:
                g(bad)
            assert str(caught.value) == "divide by zero encountered in log"
            g(good)
        with np.errstate(divide="ignore"):
            assert recorded(g, bad) == []
        with np.errstate(divide="call", call=lambda *args: heard.append(args)):
            assert recorded(g, bad) == []
        with np.errstate(over="raise", invalid="raise"):  # of another kind
            assert recorded(g, bad) == recorded(f, bad)
    assert heard == [("divide by zero", 1)] * 4


def silent(x):
    with np.errstate(divide="ignore"):
        return np.sum(1.0 / x)


def strict(x):
    with np.errstate(divide="raise"):
        return np.sum(1.0 / x)


@pytest.mark.parametrize("tier", TIERS)
def test_errstate_inside_the_function(monkeypatch, tier):
    monkeypatch.setenv("FDIFF_TIER", tier)
    bad, good = points(0.0)
    quiet, loud = fdiff.value_and_grad(silent), fdiff.value_and_grad(strict)
    for _ in range(4):
        assert recorded(quiet, bad) == []
        loud(good)
        with pytest.raises(FloatingPointError) as caught:
            loud(bad)
        assert str(caught.value) == "divide by zero encountered in divide"
        with np.errstate(all="ignore"), pytest.raises(FloatingPointError):
            loud(bad)


# Plain code is silent; formulas of slopes, arms not taken and comparisons with NaN set flags.
SILENT = {
    "slope of a root at zero": (lambda x: np.sum(np.sqrt(x)), 0.0),
    "norm at zero": (lambda x: np.sqrt(x[0] * x[0]) + x[1], 0.0),
    "arm not taken": (lambda x: np.sum(np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), x)), -1.0),
    "nan comes, nan goes": (lambda x: np.sum(np.maximum(x, 2.0 * x) + np.exp(x)), np.nan),
    "infinity": (lambda x: np.sum(np.exp(-x)), np.inf),
    "underflow": (lambda x: np.sum(np.exp(-x * x)), 100.0),
    "tanh": (lambda x: np.sum(np.tanh(x)), 1e3),
}


@pytest.mark.parametrize("tier", TIERS)
def test_hints_at_nothing_do_not_warn(monkeypatch, tier):
    monkeypatch.setenv("FDIFF_TIER", tier)
    for name in SILENT if tier != "evaluate" else ["slope of a root at zero"]:
        f, x = SILENT[name]
        bad, _ = points(x)
        assert recorded(f, bad) == [], name
        for operator in ("jit", "value_and_grad", "hessian"):
            g = OPERATORS[operator](f)
            for _ in range(4):
                assert recorded(g, bad) == [], (name, operator)


def test_hints_at_nothing_are_soon_left_alone(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    asked = []
    warned_of = numpy_warnings.warned_of
    counting = lambda *args: asked.append(1) or warned_of(*args)
    monkeypatch.setattr(numpy_warnings, "warned_of", counting)
    f, x = SILENT["slope of a root at zero"]
    g, (bad, _) = fdiff.grad(f), points(x)
    for _ in range(1000):
        g(bad)
    assert 4 <= len(asked) < 16


def test_once_for_each_line_as_filters_have_it():
    f, x = TABLE["exp"]
    g, (bad, _) = fdiff.value_and_grad(f), points(x)
    with warnings.catch_warnings(record=True) as found:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        for _ in range(50):
            g(bad)
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="overflow encountered in exp"):
            g(bad)


def test_what_has_no_line_warns_at_the_line_of_the_call():
    x = np.array([0.0, 1.0])
    found = recorded(lambda: fdiff.jacobian(np.log, x))
    line = recorded.__code__.co_firstlineno
    assert [(text, file) for _, text, file, _ in found] == [
        ("divide by zero encountered in log", __file__)
    ]
    assert found[0][3] > line


def branching(x):
    if x[0] > 0.5:
        return np.sum(np.log(x - 0.25))
    return np.sum(np.log(x))


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_eager_traces_and_branches(tier, monkeypatch):
    """Bytecode may hint for lanes behind the last entry, and later hints are looked into rarely."""
    monkeypatch.setenv("FDIFF_TIER", tier)
    rng = np.random.default_rng(0)

    def wandering(x):
        y = x * 1.0
        for k in range(12):
            if y[k] > 0.5:
                y[k] = y[k] - 0.25
        return np.sum(np.log(y))

    for f in (branching, wandering):
        g = fdiff.value_and_grad(f)
        for turn in range(60):
            x = rng.uniform(0.01, 1.0, 12)
            if turn % 3 == 0:
                x[5] = 0.0
            assert recorded(g, x) == recorded(f, x)


def test_mapped_functions_warn_as_a_loop_does():
    rows = np.array([[0.5, 1.0], [0.0, 1.0]])
    f = lambda x: np.sum(np.log(x))
    mapped = fdiff.vmap(f)
    for _ in range(3):
        assert recorded(mapped, rows) == recorded(f, rows[1])


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_functions_with_effects_are_not_called_again():
    seen = []

    def f(x):
        seen.append(np.random.default_rng().normal())
        return np.sum(np.log(x))

    g = fdiff.grad(f)
    bad, _ = points(0.0)
    for turn in range(1, 4):
        found = recorded(g, bad)
        assert [(text, file) for _, text, file, _ in found if "encountered" in text] == [
            ("divide by zero encountered in log", __file__)
        ]
        assert len(seen) == turn


def test_arguments_are_not_written_to():
    def f(x):
        x[1] = 1.0 / x[0]
        return np.sum(x)

    bad, _ = points(0.0)
    g = fdiff.grad(f)
    for _ in range(4):
        assert recorded(g, bad) == recorded(f, bad.copy())
        assert np.array_equal(bad, [0.0, *NEAR])


def test_flags_of_other_threads_of_a_kernel(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    f = lambda x: np.log(x)
    g, x = fdiff.jit(f), np.ones(1 << 21)
    g(x)
    for k in (0, x.size // 3, x.size - 1):
        bad = x.copy()
        bad[k] = -1.0
        for _ in range(2):
            assert recorded(g, bad) == recorded(f, bad)
    assert recorded(g, x) == []


def test_python_floats_are_numbers_of_numpy():
    f = lambda x: 1.0 / x
    g = fdiff.value_and_grad(f)
    for _ in range(4):
        assert recorded(g, 0.0) == recorded(f, np.float64(0.0))


def test_nothing_is_asked_of_a_clean_call(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    f, _ = TABLE["log of zero"]
    g, (_, good) = fdiff.value_and_grad(f), points(0.0)
    g(good)
    g(good)
    for _ in range(4):
        noted.hint = False
        g(good)
        assert not noted.hint


def test_hints_that_come_to_nothing_are_left_while_nothing_changes():
    """Lanes of a kernel that are masked may hint at each call."""
    doubts = Doubts()
    assert not doubts.idle()
    doubts.false, doubts.state, doubts.filters = OFTEN + 1, error_state(), [*warnings.filters]
    assert [k for k in range(1, 40) if not (doubts.idle() or doubts.rare())] == []
    doubts.count = 40
    assert doubts.idle()
    with np.errstate(all="raise"):
        assert not doubts.idle()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert not doubts.idle()
    doubts.count = 63
    assert not doubts.idle()  # of those that are asked about all the same


MANY = 400  # trips: more than NumPy is asked to run again


def divides(x):
    """In one trip."""
    step = lambda y, k: (np.where(k == 333, y / (x - x), 0.5 * y + x), None)
    return fdiff.scan(step, x, np.arange(MANY))[0]


def roots(x):
    """In a loop within the trips, and backwards."""

    def step(y, row):
        inner = fdiff.fori_loop(0, 3, lambda i, z: z + x * np.sqrt(row - i), 0.0 * x)
        return 0.5 * y + inner, None

    rows = np.full(MANY, 5.0)
    rows[70] = 1.5
    return fdiff.scan(step, x, rows, reverse=True)[0]


def grows(x):
    return np.sum(fdiff.fori_loop(0, MANY, lambda i, y: y * 7.0, x * np.ones(3)))


def behind(x):
    """Not in the loop at all."""
    return np.log(x - x) + 0.0 * fdiff.fori_loop(0, MANY, lambda i, y: 0.5 * y, x)


def slope(x):
    """Only the derivative divides by zero: there is nothing to warn of."""
    return fdiff.fori_loop(0, MANY, lambda i, y: 0.5 * np.sqrt(y), x - x) + x


@pytest.mark.parametrize("f", [divides, roots, grows, behind, slope])
def test_loops_of_many_trips_warn_at_their_lines(f, monkeypatch):
    """As plain code does, once for each line."""
    monkeypatch.setattr(numpy_warnings, "_MOST_TRIPS", 300)
    found = dict.fromkeys(recorded(f, np.array(1.5)))
    assert bool(found) == (f is not slope)
    for operator in (fdiff.jit, fdiff.grad):
        call = operator(f)
        for _ in range(3):
            assert recorded(call, np.array(1.5)) == [*found]
    if found:
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="encountered in"):
            call(np.array(1.5))
    with np.errstate(all="ignore"):
        assert recorded(call, np.array(1.5)) == []


def chooses(x):
    return fdiff.cond(x > 0, lambda x: x / (x - 1.5), lambda x: x, x)


def repeats(x):
    """Until a condition fails: nobody knows how many trips that are."""
    step = lambda s: (0.5 * s[0] + x / np.abs(s[1] - 33.0), s[1] + 1)
    return fdiff.while_loop(lambda s: s[1] < 50, step, (x, 0))[0]


def ends_at_a_root(x):
    """The condition itself warns."""
    return fdiff.while_loop(lambda s: np.sqrt(4.5 - s) > 0.0, lambda s: s + 1.0, 0.0 * x - 1.0)


def iterates(x):
    """A loop of Python's that becomes one node."""
    y = x
    for k in range(MANY + 600):
        y = 0.5 * y + x / np.abs(k - 33.0)
    return y


def recomputes(x):
    return fdiff.checkpoint(lambda x: x / (x - 1.5))(x)


def refuses_infinities(x):
    with np.errstate(all="raise"):
        return fdiff.fori_loop(0, 50, lambda i, y: y / np.abs(i - 3.0), x)


def recomputes_a_loop(x):
    step = lambda i, y: 0.5 * y + x / np.abs(i - 33.0)
    return fdiff.checkpoint(lambda x: fdiff.fori_loop(0, 500, step, x))(x)


def switches(x):
    return fdiff.switch(1, [lambda x: x, lambda x: x / (x - 1.5)], x)


def chooses_in_a_loop(x):
    def step(i, y):
        return fdiff.cond(i == 3, lambda y: y / np.abs(x - 1.5), lambda y: 0.5 * y, y)

    return fdiff.fori_loop(0, 400, step, x)


def accumulates(x):
    return np.sum(fdiff.associative_scan(lambda a, b: a + x / np.abs(b - 1.0), np.arange(5.0)))


def maps_loops(x):
    step = lambda i, y, k: 0.5 * y + x / np.abs(i - k)
    each = fdiff.vmap(lambda k: fdiff.fori_loop(0, 9, lambda i, y: step(i, y, k), x))
    return np.sum(each(np.arange(3.0)))


@fdiff.custom_jvp
def ruled(x):
    return fdiff.fori_loop(0, 9, lambda i, y: 0.5 * y + x / np.abs(i - 3.0), x)


ruled.defjvp(lambda primals, tangents: (ruled(*primals), 0.5 * tangents[0] / primals[0]))
NODES = (
    divides, roots, grows, slope, chooses, repeats, ends_at_a_root, iterates, recomputes,
    recomputes_a_loop, switches, chooses_in_a_loop, accumulates, maps_loops,
)  # fmt: skip


@pytest.mark.parametrize("f", NODES)
def test_loops_and_branches_warn_as_plain_code_does(f):
    expected = dict.fromkeys(recorded(f, np.array(1.5)))
    assert bool(expected) == (f is not slope)
    for operator in (fdiff.jit, fdiff.grad):
        call = operator(f)
        for _ in range(3):
            assert dict.fromkeys(recorded(call, np.array(1.5))) == expected
    if expected:
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="encountered in"):
            call(np.array(1.5))
    with np.errstate(all="ignore"):
        assert recorded(call, np.array(1.5)) == []


def test_loops_of_functions_with_rules_warn():
    """A derivative alone does not compute the value."""
    expected = dict.fromkeys(recorded(ruled, np.array(1.5)))
    assert expected
    for call in (fdiff.jit(lambda x: ruled(x)), fdiff.value_and_grad(lambda x: ruled(x))):
        for _ in range(3):
            assert dict.fromkeys(recorded(call, np.array(1.5))) == expected


def test_errstate_inside_the_function_silences_its_loops():
    def ends(x):
        with np.errstate(all="ignore"):
            more, step = lambda c: c[1] < 5, lambda c: (np.log(c[0] * 0.0), c[1] + 1)
            return fdiff.while_loop(more, step, (x, 0))[0]

    def counts(x):
        with np.errstate(all="ignore"):
            return fdiff.fori_loop(0, 20, lambda k, c: np.log(c * 0.0), x)

    for f in (ends, counts):
        for operator in (fdiff.jit, fdiff.grad):
            call = operator(f)
            for _ in range(3):
                assert recorded(call, np.array(1.5)) == []


def test_errors_that_a_function_asks_for_come_out_of_its_loops():
    for operator in (fdiff.jit, fdiff.grad):
        with pytest.raises(FloatingPointError, match="divide by zero"):
            operator(refuses_infinities)(np.array(1.5))


def test_derivatives_of_many_trips_that_overflow_do_not_warn(monkeypatch):
    """Nor where another operator is around: the values of the function are all finite."""
    monkeypatch.setattr(numpy_warnings, "_MOST_TRIPS", 300)
    step = lambda i, y: np.sin(1e3 * y)
    f = lambda x: fdiff.fori_loop(0, MANY, step, x)
    assert np.isfinite(f(np.array(0.3)))
    for call in (fdiff.grad(f), fdiff.jit(fdiff.grad(f))):
        for _ in range(3):
            assert recorded(call, np.array(0.3)) == []
    assert not np.isfinite(call(np.array(0.3)))


def test_a_line_of_a_loop_is_shown_once(monkeypatch):
    """By default, as NumPy's own warnings are."""
    monkeypatch.setattr(numpy_warnings, "_MOST_TRIPS", 300)
    call = fdiff.jit(lambda x: grows(x))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(5):
            call(np.array(1.5))
    assert len(found) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_the_search_for_a_trip_goes_on_behind_false_alarms(reverse, monkeypatch):
    """Lanes that a kernel masks may set flags that NumPy does not warn of."""
    monkeypatch.setattr(numpy_warnings, "_MOST_TRIPS", 300)
    values, arguments = Inspector.values, []

    def watched(self, arrays, watcher):
        arguments.append(arrays)
        return values(self, arrays, NodeRun.value if len(arguments) == 2 else watcher)

    def f(x, ks):
        step = lambda y, k: (0.5 * y + x / np.abs((k - 100.0) * (k - 333.0)), None)
        return fdiff.scan(step, x, ks, reverse=reverse)[0]

    monkeypatch.setattr(Inspector, "values", watched)
    found = recorded(fdiff.jit(f), np.array(1.5), np.arange(MANY))
    assert [words for _, words, _, _ in found] == ["divide by zero encountered in divide"]
    places = [int(arrays[-1]) for arrays in arguments[1:]]
    assert places == ([333, 100] if reverse else [100, 333])
