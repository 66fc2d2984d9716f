"""Each status code of a kernel stands for one error, or for none."""

import pytest
from numpy.linalg import LinAlgError

from fdiff.errors import ConvergenceError
from fdiff.kernels.runtime import status_errors

ERRORS = {
    "OUT_OF_BOUNDS": (IndexError, "index is out of bounds"),
    "SINGULAR": (LinAlgError, "Singular matrix"),
    "INDEFINITE": (LinAlgError, "Matrix is not positive definite"),
    "ZERO_AT": (LinAlgError, "singular matrix: resolution failed at diagonal 0"),
    "NOT_CONVERGED": (ConvergenceError, "0"),
}
# By another kernel, by an exception, by the status of another part.
ANSWERED_BY_CALLERS = {"OUT_OF_RANGE", "STOPPED", "ABANDONED"}


def codes():
    return {name: n for name, n in vars(status_errors).items() if name.isupper() and type(n) is int}


def test_every_code_is_listed_here():
    assert codes().keys() == ERRORS.keys() | ANSWERED_BY_CALLERS
    assert len(set(codes().values())) == len(codes())


@pytest.mark.parametrize("name", ERRORS)
def test_a_code_is_the_error_that_numpy_and_scipy_raise(name):
    kind, words = ERRORS[name]
    error = status_errors.error_of(codes()[name])
    assert type(error) is kind
    assert words in str(error)


def test_codes_that_count_tell_the_number():
    assert "at diagonal 7" in str(status_errors.error_of(status_errors.ZERO_AT + 7))
    assert "1,000" in str(status_errors.error_of(status_errors.NOT_CONVERGED - 1000)).replace(
        "1000", "1,000"
    )


@pytest.mark.parametrize("code", [*map(codes().get, sorted(ANSWERED_BY_CALLERS)), 0, 4, 6, 15, -2])
def test_a_code_that_is_no_error_is_not_taken_for_one(code):
    with pytest.raises(AssertionError, match=f"status {code}"):
        status_errors.error_of(code)
