"""Functions of NumPy's that call a method a second time after a TypeError are not called."""

import numpy as np
import pytest

from fdiff import intact_numpy


class Alarmed:
    """A number whose first operation raises a TypeError, as a signal handler may."""

    def __init__(self):
        self.calls = 0

    def __add__(self, other):
        self.calls += 1
        if self.calls == 1:
            raise TypeError("alarm")
        return other

    def rint(self):
        return self + 1

    def __lt__(self, other):
        return not self + True

    __radd__ = __add__
    __gt__ = __ge__ = __le__ = __lt__

    def __bool__(self):
        return self + True


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cumsum", ()), ("argsort", ()), ("argmax", ()), ("argmin", ()), ("nonzero", ()),
        ("round", ()), ("clip", (0, 1)), ("searchsorted", (1,)), ("argpartition", (1,)),
    ],
)  # fmt: skip
def test_a_type_error_that_arrives_in_a_function_of_numpys_comes_out(name, arguments):
    getattr(np, name)(
        np.array([Alarmed()] * 2, object), *arguments
    )  # NumPy's own function drops it
    with pytest.raises(TypeError, match="alarm"):
        getattr(intact_numpy, name)(np.array([Alarmed()] * 2, object), *arguments)


CALLS = [
    ("reshape", ((3, -1),), {}), ("transpose", (), {}), ("transpose", ((1, 0),), {}),
    ("swapaxes", (0, 1), {}), ("repeat", (2,), {"axis": 1}), ("take", ([0, 1],), {"axis": 1}),
    ("cumsum", (), {"axis": 0}), ("cumprod", (1,), {}), ("argsort", (), {"kind": "stable"}),
    ("argmax", (), {"axis": 1, "keepdims": True}), ("argmin", (), {}), ("nonzero", (), {}),
    ("round", (1,), {}), ("around", (), {"decimals": 1}), ("clip", (0.0, 2.0), {}),
    ("clip", (), {"min": 0.0}), ("argpartition", (1,), {"axis": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "keywords"), CALLS)
def test_functions_that_call_a_method_once_do_as_numpys(name, arguments, keywords):
    a = np.array([[3.0, 1.0, 2.0], [0.5, -1.0, 4.0]])
    for values in (a, a.T, a.tolist(), a.astype(np.float32), np.ma.masked_array(a, a > 2)):
        if np.ma.isMaskedArray(values) and name == "argpartition":
            continue  # it warns that it does not read the mask
        ours = getattr(intact_numpy, name)(values, *arguments, **keywords)
        numpys = getattr(np, name)(values, *arguments, **keywords)
        assert type(ours) is type(numpys)
        np.testing.assert_array_equal(ours, numpys)


def test_scalars_lists_and_wrong_arguments_are_as_numpys():
    assert intact_numpy.round(np.float32(1.26), 1) == np.round(np.float32(1.26), 1)
    assert intact_numpy.round(1.26, 1) == 1.3
    assert intact_numpy.choose([1, 0], np.eye(2)).tolist() == [0.0, 0.0]
    assert intact_numpy.compress([True, False], [1, 2]).tolist() == [1]
    assert intact_numpy.searchsorted(np.arange(3.0), 1.5) == 2
    for calling in (intact_numpy.reshape, np.reshape):
        with pytest.raises(TypeError):
            calling(np.eye(2), (4,), order=-1)
        with pytest.raises(ValueError, match="cannot reshape"):
            calling(np.eye(2), (3,))


def calls_twice(function):
    code = getattr(getattr(function, "__wrapped__", None), "__code__", None)
    return code is not None and "_wrapfunc" in code.co_names


def test_every_function_of_numpys_that_calls_a_method_twice_is_replaced():
    calling_twice = [function for function in vars(np).values() if calls_twice(function)]
    assert len(calling_twice) >= 18
    ours = list(vars(intact_numpy).values())
    assert not any(value is function for value in ours for function in calling_twice)
    numpys = [intact_numpy.numpy_function(f) for f in ours if hasattr(f, "__wrapped__")]
    assert all(any(value is function for value in numpys) for function in calling_twice)
