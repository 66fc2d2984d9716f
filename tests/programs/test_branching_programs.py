"""Fifty programs that branch, as users write them: called at many points, beside plain code.

Loops and statements take their ways in random order. Values, types, printed text, errors, and what
a call leaves in globals and objects are those of plain Python; derivatives are those of central
differences, where these have the same slope on both sides. `branching_programs.txt` holds the
programs, which are loaded from files, as modules of users are.
"""

import contextlib
import importlib.util
import io
import itertools
import re
import types
from pathlib import Path

import numpy as np
import pytest

import fdiff

TEXT = (Path(__file__).parents[1] / "data" / "branching_programs.txt").read_text(encoding="utf-8")
PROGRAMS = dict(part.split("\n", 1) for part in re.split(r"^#### ", TEXT, flags=re.MULTILINE)[1:])
STEP = 1e-6
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?|nan|inf")
copies = itertools.count()


def module_of(path):
    """A new copy of the module, with a state of its own."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{next(copies)}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def points_of(module, seed=4):
    """Random arguments; one pair again, some where values are equal, and one that is not finite."""
    rng = np.random.default_rng(seed)
    draw = getattr(module, "at", lambda rng: (rng.uniform(-2, 2, size=3),))
    points = [draw(rng)[0] for _ in range(7)]
    tied = [np.round(points[k] * 2) / points[k].dtype.type(2) for k in (1, 3)]
    infinite = np.array(points[2])
    infinite[0] = np.inf
    return [*points, points[1], *tied, np.full_like(points[4], points[4][0]), infinite, points[0]]


def described(value, met):
    """What a value holds, with the classes of all its parts, and which of them are one object."""
    kind = type(value)
    if kind in (bool, int, float, str, type(None)) or isinstance(value, np.generic):
        return value
    if isinstance(value, types.FunctionType | types.ModuleType | types.BuiltinFunctionType):
        return kind.__name__
    if id(value) in met:
        return ("again", met[id(value)])
    if kind is not tuple:
        met[id(value)] = len(met)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, type):
        return (value.__name__, [v for v in vars(value).values() if type(v) in (int, float)])
    items = vars(value) if hasattr(value, "__dict__") else value
    if isinstance(items, dict):
        return (kind.__name__, [(k, described(v, met)) for k, v in items.items()])
    return (kind.__name__, [described(v, met) for v in items])


def outcome_of(module, call):
    """Result or error of a call, printed text, and the state of the module after it."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), np.errstate(all="ignore"):
        try:
            result = ("value", call())
        except (ArithmeticError, LookupError, NameError, RuntimeError, ValueError) as error:
            result = ("error", type(error).__name__, str(error))
        except module.Diverged as error:
            result = ("error", "Diverged", str(error))
    met = {}
    places = [(k, v) for k, v in vars(module).items() if not k.startswith("__")]
    state = [(k, described(v, met)) for k, v in places]
    return result, shown.getvalue(), state


def assert_same(result, expected):
    """The same classes, and numbers up to the order of sums."""
    if isinstance(expected, float) and isinstance(result, float):  # `jit` gives NumPy's
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)
        return
    assert type(result) is type(expected), (result, expected)
    if isinstance(expected, np.ndarray | np.generic):
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        tolerance = 1e-4 if expected.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * 1e-3)
    elif isinstance(expected, dict):
        assert [*result] == [*expected]
        assert_same([*result.values()], [*expected.values()])
    elif isinstance(expected, list | tuple):
        assert len(result) == len(expected), (result, expected)
        for a, b in zip(result, expected, strict=True):
            assert_same(a, b)
    elif isinstance(expected, str):
        assert NUMBER.sub("#", result) == NUMBER.sub("#", expected)
        numbers = [[*map(float, NUMBER.findall(text))] for text in (result, expected)]
        np.testing.assert_allclose(*numbers, rtol=1e-6)
    else:
        assert result == expected


def numbers_of(result):
    """The numbers and arrays of a result, in order; None for others."""
    if isinstance(result, dict):
        result = [*result.values()]
    if isinstance(result, list | tuple):
        return [leaf for item in result for leaf in numbers_of(item)]
    numeric = isinstance(result, bool | int | float | np.generic | np.ndarray)
    return [np.asarray(result, float) if numeric else None]


def assert_slopes(path, points, k, derivative, center):
    """Compare with central differences, where the slopes to both sides agree."""

    def at(x):
        module = module_of(path)
        for earlier in points[:k]:
            outcome_of(module, lambda x=earlier: module.f(x.copy()))
        result = outcome_of(module, lambda: module.f(x))[0]
        return numbers_of(result[1]) if result[0] == "value" else []

    x, base, slopes = points[k], numbers_of(center), numbers_of(derivative)
    for i, unit in enumerate(np.eye(len(x)) * STEP):
        above, below = at(x + unit), at(x - unit)
        if not len(above) == len(below) == len(base) == len(slopes):
            continue
        for a, b, c, slope in zip(above, below, base, slopes, strict=True):
            if c is None or not a.shape == b.shape == c.shape:
                continue
            right, left = (a - c) / STEP, (c - b) / STEP
            if slope.shape == (*c.shape, len(x)) and np.allclose(right, left, rtol=1e-3, atol=1e-3):
                np.testing.assert_allclose(slope[..., i], (left + right) / 2, rtol=4e-3, atol=4e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")  # short loops become nodes, too
    path = tmp_path / f"{name}.py"
    path.write_text(
        "import numpy as np\n\nclass Diverged(Exception):\n    pass\n\n" + PROGRAMS[name]
    )
    plain, ours, other = (module_of(path) for _ in range(3))
    function, derivative = fdiff.jit(ours.f), fdiff.jacrev(other.f)
    points = points_of(plain)
    for k, x in enumerate(points):
        expected = outcome_of(plain, lambda x=x: plain.f(x.copy()))
        result = outcome_of(ours, lambda x=x: function(x))
        assert_same(list(result), list(expected))
        (kind, *slopes), text, state = outcome_of(other, lambda x=x: derivative(x))
        assert kind == expected[0][0]
        assert_same([text, state], [*expected[1:]])
        if kind == "value" and np.isfinite(x).all() and x.dtype == float:
            assert_slopes(path, points, k, slopes[0], expected[0][1])
