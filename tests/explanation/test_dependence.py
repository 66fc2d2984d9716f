"""Dependence against numbers: outputs are probed at random points, derivatives by differences."""

import numpy as np
import pytest

import fdiff
from fdiff.errors import StrictError
from fdiff.transforms.activity import depends
from fdiff.transforms.linearity import Degree, Dependence

RNG = np.random.default_rng(11)
MATRIX = RNG.normal(size=(4, 4))
NEAR = 1e-9  # of values of the order of one


def of(f, *args):
    """The dependence of a function's outputs on all of its arguments."""
    return Dependence(fdiff.make_tape(f, *args), range(len(args)))


def degrees(f, *args):
    return [[degree.value for degree in row] for row in of(f, *args).matrix()]


# What is said of each function with arguments (x, y), and the same told by numbers.
CASES = {
    "constant": (lambda x, y: np.ones(4), "none none"),
    "one of them": (lambda x, y: 3.0 * y - 1.0, "none linear"),
    "product": (lambda x, y: x * y, "linear linear"),
    "matrix": (lambda x, y: MATRIX @ x + np.cumsum(y)[::-1], "linear linear"),
    "squares": (lambda x, y: np.sum((MATRIX @ x - y) ** 2), "quadratic quadratic"),
    "energy": (lambda x, y: x @ MATRIX @ x + y @ x, "quadratic linear"),
    "functions": (lambda x, y: np.sin(x) * np.exp(y), "nonlinear nonlinear"),
    "quotient": (lambda x, y: x / (2.0 + y**2), "linear nonlinear"),
    "kink": (lambda x, y: np.abs(x) + np.maximum(y, 0.0), "nonlinear nonlinear"),
    "kink and square": (lambda x, y: np.abs(x) + x**2 + y, "nonlinear linear"),
    "steps": (lambda x, y: np.floor(3.0 * x) + np.sign(y), "steps steps"),
    "branch": (lambda x, y: np.where(x > 0.0, x, y), "nonlinear linear"),
    "order": (lambda x, y: np.sort(x) + y[np.argmax(x)], "nonlinear linear"),
    "system": (lambda x, y: np.linalg.solve(MATRIX, x * y), "linear linear"),
    "spectrum": (lambda x, y: np.fft.fft(x + y).real, "linear linear"),
    "cube": (lambda x, y: x**3 + y, "nonlinear linear"),
}


def probed(f, k):
    """The degree in argument `k`, from values at random points on random lines."""
    for _ in range(20):
        point = [RNG.normal(size=4), RNG.normal(size=4)]
        step = RNG.normal(size=4)

        def at(t, point=point, step=step):
            moved = [x + t * step if i == k else x for i, x in enumerate(point)]
            return np.asarray(f(*moved))

        values = np.array([at(t) for t in (-2.0, -1.0, 0.0, 1.0, 2.0)])
        yield [float(np.max(np.abs(np.diff(values, n, axis=0)))) for n in (1, 2, 3)]


@pytest.mark.parametrize("name", CASES)
def test_degrees_are_those_of_values(name):
    f, wanted = CASES[name]
    x = RNG.normal(size=4)
    assert degrees(f, x, x) == [wanted.split()]
    for k, degree in enumerate(wanted.split()):
        first, second, third = np.max(list(probed(f, k)), axis=0)
        zero = {"none": first, "linear": second, "quadratic": third}.get(degree)
        assert zero is None or zero < NEAR
        moving = {"linear": first, "quadratic": second, "nonlinear": third, "steps": first}
        assert degree == "none" or moving[degree] > 1e-3


def test_dependence_is_that_of_the_graph():
    x = np.ones(3)
    assert degrees(lambda x: x - x + 1.0, x) == [["linear"]]
    assert degrees(lambda x: (x + 1.0) ** 2 - x**2, x) == [["quadratic"]]
    assert degrees(lambda x: fdiff.stop_gradient(x) * 2.0, x) == [["steps"]]


def test_outputs_and_inputs_are_told_by_name_or_number():
    def f(x, y):
        return {"a": np.sin(x), "b": (y, 2.0)}

    found = fdiff.explain(f, np.ones(2), np.ones(3)).dependence
    assert found.inputs == ("x", "y")
    assert found["out0", "x"] is found[0, 0] is found[-3, -2] is Degree.NONLINEAR
    assert found["out1", "y"] == "linear"
    assert found["out2", 1] == "none"
    with pytest.raises(KeyError, match="there is no input 'z'; there are x, y"):
        found["out0", "z"]
    with pytest.raises(KeyError, match="there is no output 3"):
        found[3, 0]


def test_captured_data_counts_as_an_input():
    offset = np.ones(3)
    found = fdiff.explain(lambda x: np.sin(x) * offset, np.ones(3)).dependence
    assert found["out0", "offset"] == "linear"


def differences(f, x, step=1e-3):
    """The Jacobian and whether it moves with each entry, by central differences."""
    jacobian = lambda x: np.stack(
        [(f(x + e) - f(x - e)) / (2 * step) for e in step * np.eye(x.size)], axis=-1
    )
    slopes = jacobian(x)
    moves = np.stack(
        [np.abs(jacobian(x + e) - slopes).max(axis=-1) > 1e-6 for e in 0.3 * np.eye(x.size)],
        axis=-1,
    )
    return np.abs(slopes) > 1e-9, moves


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[1:] * x[:-1],
        lambda x: np.concatenate([3.0 * x[:2], np.exp(x[2:])]),
        lambda x: x**2 + x[::-1],
        lambda x: np.stack([np.sum(x[:3]), x[3] * x[4]]),
    ],
    ids=["products", "halves", "squares", "sums"],
)
def test_entries_are_those_of_values(f):
    x = RNG.uniform(0.5, 2.0, size=5)
    told = of(f, x).entries(0, 0)
    there, moves = differences(f, x)
    assert told.shape == there.shape
    np.testing.assert_array_equal(told != "none", there)
    np.testing.assert_array_equal(told == "nonlinear", moves)


def test_entries_know_steps_and_what_is_not_told():
    x = RNG.normal(size=3)
    told = of(lambda x: np.stack([np.floor(x[0]), np.abs(x[1]), 2.0 * x[2]]), x).entries(0, 0)
    assert told.tolist() == [
        ["steps", "none", "none"],
        ["none", "nonlinear", "none"],
        ["none", "none", "linear"],
    ]
    assert of(lambda x: np.fft.fft(x).real, x).entries(0, 0) is None


def test_strict_asks_the_same():
    """``strict=True`` refuses what `Dependence` says does not depend, and nothing else."""
    x = np.ones(4)
    for f, _ in CASES.values():
        found = of(f, x, x)
        refused = False
        try:
            fdiff.jacobian(f, (x, x), strict=True)
        except StrictError:
            refused = True
        flat = [d for row in found.matrix() for d in row]
        assert refused == any(d in ("none", "steps") for d in flat)
        tape = fdiff.make_tape(f, x, x)
        assert found.differentiable == depends(tape, (0, 1))
