"""Exceptions that leave `f` hold the numbers and arrays that plain code puts into them."""

import numpy as np
import pytest

import fdiff


class DivergedError(Exception):
    def __init__(self, step, value):
        super().__init__(f"diverged at step {step}")
        self.step, self.value, self.history = step, value, [value, {"last": value}]


class TooLargeError(Exception):
    pass


def attributes(x):
    s = x[0]
    for k in range(5):
        s = 1.5 * s + 0.01 * x[1]
        if s > 3:
            raise DivergedError(k, s)
    return s


def arguments_of_a_long_loop(x):
    s = x[0]
    for k in range(300):
        s = 1.02 * s + 0.01 * x[1]
        if s > 3:
            raise TooLargeError("far", k, s, x)
    return s


def cause(x):
    try:
        return arguments_of_a_long_loop(x)
    except TooLargeError as error:
        raise ValueError(error.args[2]) from error


def containers(x):
    if x[0] > 1:
        raise ValueError("large", 2 * x[0], [x[1]], {"x": x}, (x[0], 1))
    return x[0] * x[1]


def report(f, x):
    try:
        f(x)
    except (DivergedError, TooLargeError, ValueError) as error:
        held = {k: v for k, v in vars(error).items() if k != "__notes__"}
        return repr((type(error), error.args, held, str(error))), repr(error.__cause__)
    return None


PROGRAMS = [attributes, arguments_of_a_long_loop, cause, containers]


@pytest.mark.parametrize("operator", [fdiff.jit, fdiff.value_and_grad, fdiff.hessian])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_exceptions_hold_plain_values(f, operator):
    prepared, raised = operator(f), 0
    for x in ([0.1, 0.2], [1.5, 0.3], [-1.2, -0.2], [0.2, 0.1], [1.5, 0.3]):
        expected = report(f, np.array(x))
        result = report(prepared, np.array(x))
        raised += expected is not None
        assert result == expected
    assert raised > 1


def test_a_function_inside_of_another():
    inner = lambda z: fdiff.grad(containers)(z)[0]
    with pytest.raises(ValueError, match="large") as raised:
        fdiff.grad(inner)(np.array([2.0, 1.0]))
    assert raised.value.args[1] == 4.0
    assert type(raised.value.args[3]["x"]) is np.ndarray
