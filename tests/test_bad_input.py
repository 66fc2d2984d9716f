"""What fdiff refuses, and in which words.

Every message names the public call with its function, shows the user's line, states the fact and
offers the way out. Nothing is refused in the words of the machinery, and no derivative is dropped.
"""

# ruff: noqa: PLW0108 - a lambda is what users write: it is the code under test

import copy
import itertools
import linecache
import math
import re

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import fdiff
from fdiff.errors import (
    DtypeError,
    FdiffError,
    InputError,
    LeakError,
    RetraceWarning,
    TraceError,
    UnsupportedError,
)

X = np.array([4.0, 5.0])
Y = np.zeros(3)

# --- what f may not do with a traced value --------------------------------------------------------
# One row a mistake: the function, and the fact and the way out its message must hold.


def takes_float(x):
    return float(x[0]) * np.sum(x)  # here


def takes_math(x):
    return math.sin(x[0])  # here


def takes_fsum(x):
    return math.fsum(x)  # here


def takes_branch(x):
    return x[0] if x[0] > 0 else x[1]  # here


def takes_while(x):
    while np.sum(x) > 1:  # here
        x = x / 2
    return np.sum(x)


def takes_and(x):
    return x[0] and x[1]  # here


def takes_max(x):
    return max(x[0], 0.0)  # here


def takes_sorted(x):
    return sorted(x)[0]  # noqa: FURB192 # here


def takes_in(x):
    return np.sum(x) if 4.0 in x else 0.0  # here


def takes_int(x):
    return int(x[0]) * np.sum(x)  # here


def takes_round(x):
    return round(x[0]) * np.sum(x)  # here


def takes_complex(x):
    return complex(x[0]).real  # here


def takes_index(x):
    return [1.0, 2.0][x[0]]  # here


def takes_range(x):
    return sum(range(x[0]))  # here


def takes_percent(x):
    return len("%f" % x[0]) * np.sum(x)  # noqa: UP031 # here


def takes_float64(x):
    return np.float64(x[0]) * np.sum(x)  # here


def takes_cython(x):
    return np.fromiter((v * v for v in x), float).sum()  # here


def takes_expm(x):
    return scipy.linalg.expm(np.outer(x, x)).sum()  # here


VALUES = {
    takes_float: "turned a traced array into a Python float, which would drop its derivative",
    takes_math: "turned a traced array into a Python float, which would drop its derivative",
    takes_fsum: "turned a traced array into a Python float, which would drop its derivative",
    takes_branch: "decided a Python branch on a traced value",
    takes_while: "decided a Python branch on a traced value",
    takes_and: "decided a Python branch on a traced value",
    takes_max: "decided a Python branch on a traced value",
    takes_sorted: "decided a Python branch on a traced value",
    takes_in: "decided a Python branch on a traced value",
    takes_int: "turned a traced array into a Python int, which would drop its derivative",
    takes_round: "turned a traced array into a Python float, which would drop its derivative",
    takes_complex: "turned a traced array into a Python complex",
    takes_index: "used a traced value as a Python index",
    takes_range: "used a traced value as a Python index",
    takes_percent: "turned a traced array into a Python float, which would drop its derivative",
    takes_float64: "turned into a concrete float64 array, which would drop its derivative",
    takes_cython: "stored into an array of numbers, which would drop its derivative",
    takes_expm: "would drop its derivative",
}


def stores(x):
    x[0] = 1.0  # here
    return np.sum(x)


def adds_to(x):
    x += 1  # here
    return np.sum(x)


def adds_traced(x):
    y = np.ones(2)
    y += x  # here
    return np.sum(y)


def writes_out(x):
    return np.sum(np.multiply(x, x, out=np.zeros(2)))  # here


def writes_sum_out(x):
    return np.sum(x, out=np.zeros(()))  # here


def fills(x):
    x.fill(0.0)  # here
    return np.sum(x)


def sorts(x):
    x.sort()  # here
    return np.sum(x)


def copies_to(x):
    np.copyto(np.zeros(2), x)  # here
    return np.sum(x)


STORES = {
    stores: ("a traced array was written to in place", "numpy.stack"),
    adds_to: ("a traced array was changed in place", "Write `x = x + y` instead of `x += y`"),
    adds_traced: ("asked to write a traced value into an existing array", "Write `a = a + b`"),
    writes_out: ("asked to write a traced value into an existing array", "Write `a = a + b`"),
    writes_sum_out: ("asked to write into an existing array", ""),
    fills: ("ndarray.fill has no derivative rule", "Write it with supported NumPy functions"),
    sorts: ("ndarray.sort has no derivative rule", "Write it with supported NumPy functions"),
    copies_to: ("numpy.copyto has no derivative rule", "Write it with supported NumPy functions"),
}


def calls_raw_qr(x):
    return np.sum(np.linalg.qr(np.outer(x, x), mode="raw")[1])  # here


def calls_elliprf(x):
    return np.sum(scipy.special.elliprf(x, 1.0, 2.0))  # here


def calls_tolist(x):
    return x.tolist()[0]  # here


def calls_data(x):
    return x.data[0]  # here


def calls_frompyfunc(x):
    return np.sum(np.frompyfunc(lambda v: v * v, 1, 1)(x))  # here


UNSUPPORTED = {
    calls_raw_qr: "numpy.linalg.qr with mode='raw' has no derivative rule in fdiff yet",
    calls_elliprf: "scipy.special.elliprf has no derivative rule in fdiff yet",
    calls_tolist: "ndarray.tolist has no derivative rule in fdiff yet",
    calls_data: "ndarray.data has no derivative rule in fdiff yet",
    calls_frompyfunc: "(vectorized) has no derivative rule in fdiff yet",
}


def masks(x):
    return np.sum(x[x > 4.5])  # here


def nonzeros(x):
    return np.sum(x[np.nonzero(x)])  # here


def uniques(x):
    return np.sum(np.unique(x))  # here


def wheres(x):
    return np.sum(x[np.where(x > 4.5)])  # here


SHAPES = (masks, nonzeros, uniques, wheres)

CALLS = {
    "grad": lambda f: fdiff.grad(f)(X),
    "value_and_grad": lambda f: fdiff.value_and_grad(f)(X),
    "jacobian": lambda f: fdiff.jacobian(f, X),
    "hessian": lambda f: fdiff.hessian(f, X),
    "vjp": lambda f: fdiff.vjp(f, X),
    "jvp": lambda f: fdiff.jvp(f, X, X),
    "hvp": lambda f: fdiff.hvp(f, X, X),
    "vhp": lambda f: fdiff.vhp(f, X, X),
    "jacrev": lambda f: fdiff.jacrev(f)(X),
    "jacfwd": lambda f: fdiff.jacfwd(f)(X),
}


def here(f):
    """`file:line:  text` of the line of `f` that is marked."""
    code = f.__code__
    lines = linecache.getlines(code.co_filename)
    for number, line in enumerate(lines[code.co_firstlineno - 1 :], code.co_firstlineno):
        if line.endswith("# here\n"):
            return f"test_bad_input.py:{number}:  {line.strip()}"
    raise AssertionError(f"no marked line in {f.__name__}")


def refused(name, f, kind=TraceError):
    """The message with which the public call `name` refuses `f`."""
    with pytest.raises(kind) as caught:
        CALLS[name](f)
    text = str(caught.value)
    assert text.startswith(f"{name}({f.__name__}): ")
    assert here(f) in text
    return text


@pytest.mark.parametrize("f", VALUES, ids=lambda f: f.__name__)
def test_a_value_taken_out_of_numpy_is_refused(f):
    text = refused("grad", f)
    assert VALUES[f] in text
    assert re.search(r"\n(Use numpy functions|Leave the dtype out|Build the array)", text)


@pytest.mark.parametrize("name", CALLS)
def test_the_public_call_is_named_as_it_was_typed(name):
    text = refused(name, takes_math)
    assert "turned a traced array into a Python float" in text
    assert "numpy.sin for math.sin" in text
    refused(name, stores)
    refused(name, calls_raw_qr, UnsupportedError)
    refused(name, masks)


@pytest.mark.parametrize("f", STORES, ids=lambda f: f.__name__)
def test_writing_in_place_is_refused(f):
    fact, way_out = STORES[f]
    before = X.copy()
    text = refused("grad", f)
    assert fact in text
    assert way_out in text
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("f", UNSUPPORTED, ids=lambda f: f.__name__)
def test_an_unsupported_function_is_named(f):
    text = refused("grad", f, UnsupportedError)
    assert UNSUPPORTED[f] in text
    assert "Write it with supported NumPy functions, or compute it outside" in text


@pytest.mark.parametrize("f", SHAPES, ids=lambda f: f.__name__)
def test_a_shape_that_depends_on_values_is_refused(f):
    text = refused("grad", f)
    assert re.search("shape (that )?depends on traced values", text)
    assert "numpy.where" in text


def stores_an_entry(x):
    y = np.zeros(3)
    y[0] = x[0]  # here
    return np.sum(y)


def stores_a_slice(x):
    y = np.zeros(3)
    y[:2] = x  # here
    return np.sum(y)


def stores_into_a_global(x):
    Y[0] = x[0]  # here
    return np.sum(Y)


@pytest.mark.parametrize("f", [stores_an_entry, stores_a_slice, stores_into_a_global])
def test_a_traced_value_stored_into_a_plain_array_is_refused_or_differentiated(f):
    # NumPy asks for a float and says "setting an array element with a sequence" when refused
    try:
        slope = fdiff.grad(f)(X)
    except TraceError as error:
        text = str(error)
        assert text.startswith(f"grad({f.__name__}): ")
        assert here(f) in text
        assert "sequence" not in text
    else:
        np.testing.assert_array_equal(slope, [1.0, f is stores_a_slice])
    np.testing.assert_array_equal(Y, np.zeros(3))


def test_a_refusal_that_f_catches_is_still_a_refusal():
    # plain code would have got the value, and gone another way
    def f(x):
        try:
            scale = float(x[0])
        except TypeError:
            scale = 1.0
        return np.sum(x) * scale

    with pytest.raises(
        TraceError, match=r"grad\(f\): `f` turned a traced array into a Python float"
    ):
        fdiff.grad(f)(X)

    def g(x):  # this one raises in plain NumPy too
        try:
            return float(x)
        except TypeError:
            return np.sum(x)

    np.testing.assert_array_equal(fdiff.grad(g)(X), [1.0, 1.0])


def test_numpy_raises_what_numpy_raises_of_arrays():
    for f, words in [
        (lambda x: 1.0 if x else 0.0, "truth value of an array with more than one element"),
        (lambda x: 1.0 if x > 0 else 0.0, "truth value of an array with more than one element"),
    ]:
        with pytest.raises(ValueError, match=words):
            fdiff.grad(f)(X)
    for f in (float, int, complex):
        with pytest.raises(TypeError) as caught:
            fdiff.grad(lambda x, f=f: np.sum(x) * f(x))(X)
        assert not isinstance(caught.value, FdiffError)


def test_values_that_are_not_differentiated_may_be_looked_at():
    def f(x, k, data):
        return np.sum(x) * float(k) * (1.0 if data[0] > 0 else -1.0) * math.sin(data[1])

    slope = fdiff.grad(f)
    for k, d in itertools.product([2.0, 3.0], [1.0, -1.0, 2.0]):
        wanted = k * math.copysign(1.0, d) * math.sin(d)
        np.testing.assert_allclose(slope(X, k, np.array([d, d])), [wanted, wanted])


def test_printing_always_works(capsys):
    def f(x):
        print("x is", x, x[0], f"{x[0]:.2f} {x!r} {x.sum():>30}", "{:10.3e}".format(x[1]), "%s" % x)  # noqa: UP031, UP032
        return np.sum(x)

    np.testing.assert_array_equal(fdiff.grad(f)(X), [1.0, 1.0])
    assert capsys.readouterr().out.startswith("x is Traced<f8[2]> Traced<f8[]> ")


def rate(x):
    if isinstance(x, np.ndarray):
        return 1.0 if x.ndim else 2.0
    if isinstance(x, float) or np.isscalar(x):
        return 3.0 if type(x) is not int else 4.0
    return 5.0


@pytest.mark.parametrize("x", [X, np.array(2.0), 2.0, np.float64(2.0), np.float32(2.0)], ids=repr)
def test_code_that_asks_for_the_class_of_a_traced_value_hears_that_of_its_value(x):
    wanted = rate(x)
    np.testing.assert_array_equal(
        fdiff.grad(lambda x: np.sum(x) * rate(x))(x), np.full_like(x, wanted)
    )
    slope = fdiff.grad(lambda x: np.sum(x) * rate(np.sum(x)))(x)
    np.testing.assert_array_equal(slope, np.full_like(x, 3.0))
    slope = fdiff.grad(lambda x, y: np.sum(x) * rate(y))(x, x)
    np.testing.assert_array_equal(slope, np.full_like(x, wanted))


# --- leaks ----------------------------------------------------------------------------------------

KEPT = []


def keeps_argument(x):
    KEPT.append(x)
    return np.sum(x)


def keeps_product(x):
    KEPT.append(x * 2)  # here
    return np.sum(x)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: np.sin(x),
        lambda x: x[0],
        lambda x: float(x[0]),
        lambda x: bool(np.sum(x) > 0),
        lambda x: np.asarray(x, float),
        lambda x: np.array([x[0]]),
        lambda x: fdiff.grad(lambda y: np.sum(y * x))(X),
        lambda x: fdiff.jit(lambda y: x)(X),
        lambda x: fdiff.vmap(lambda y: y * x[0])(X),
    ],
)
def test_a_traced_array_that_outlives_its_trace_says_where_it_was_made(use):
    for f, where in [(keeps_argument, "It is an argument of the function."), (keeps_product, None)]:
        KEPT.clear()
        fdiff.grad(f)(X)
        with pytest.raises(LeakError) as caught:
            use(KEPT[0])
        text = str(caught.value)
        assert text.startswith(
            f"grad({f.__name__}): a traced array was used after its trace had ended"
        )
        assert (where or f"It was made here:\n    {here(f)}") in text
        assert "It was used here:\n    test_bad_input.py:" in text
        assert "Return it from the function instead of storing it." in text
        assert "Traced<f8[2]>" in f"{KEPT[0]}"


# --- arguments ------------------------------------------------------------------------------------


class Subclass(np.ndarray):
    pass


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
        (np.arange(3), DtypeError, "only floating-point inputs can be differentiated, not int64"),
        (
            np.array([True]),
            DtypeError,
            "only floating-point inputs can be differentiated, not bool",
        ),
        (
            X.astype(object),
            DtypeError,
            "only floating-point inputs can be differentiated, not object",
        ),
        (np.array(["a"]), DtypeError, "only floating-point inputs can be differentiated, not <U1"),
        (np.zeros(2, "M8[s]"), DtypeError, "can be differentiated, not datetime64"),
        (
            np.zeros(2, [("a", float)]),
            DtypeError,
            "only floating-point inputs can be differentiated",
        ),
        (X * 1j, DtypeError, "complex inputs (complex128) are not supported"),
        (1j, DtypeError, "complex inputs (complex128) are not supported"),
        (np.ma.array(X), InputError, "arrays of type MaskedArray are not supported"),
        (X.view(Subclass), InputError, "arrays of type Subclass are not supported"),
        (memoryview(X), InputError, "value of type memoryview"),
        ("text", InputError, "value of type str"),
        ({1.0, 2.0}, InputError, "value of type set"),
        (iter([1.0]), InputError, "value of type list_iterator"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_differentiated_is_refused(bad, kind, words):
    for name in ("grad", "jacobian", "hessian", "jacrev", "hvp"):
        call = getattr(fdiff, name)(np.sum)
        with pytest.raises(kind) as caught:
            call(bad, X) if name == "hvp" else call(bad)  # here too
        text = str(caught.value)
        assert text.startswith(f"{name}(sum): ")
        assert words in text
        assert "test_bad_input.py:" in text
        assert "call(bad)  # here too" in text


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_matrices_are_refused():
    with pytest.raises(InputError, match=r"grad\(sum\): arrays of type matrix are not supported"):
        fdiff.grad(np.sum)(np.matrix([[1.0, 2.0]]))
    with pytest.raises(InputError, match="arrays of type matrix are not supported"):
        fdiff.grad(lambda x, m: np.sum(x))(X, np.matrix([[1.0, 2.0]]))


def test_memory_maps_are_arrays(tmp_path):
    for order in "<", ">":
        x = np.memmap(tmp_path / "x", f"{order}f8", "w+", shape=(2,))
        x[:] = X
        for _ in range(2):
            slope = fdiff.grad(lambda x: np.sum(x * x))(x)
            assert type(slope) is np.ndarray
            np.testing.assert_array_equal(slope, 2 * X)


@pytest.mark.parametrize(
    ("other", "read"),
    [
        (np.array(["up", "down"]), lambda o: 1.0 if o[0] == "up" else 2.0),
        (np.array(["2020-01-01"], "M8[D]"), lambda o: float(o[0].astype(int))),
        (np.ones(2, [("a", float), ("b", int)]), lambda o: float(o["a"].sum())),
        (b"bytes", lambda o: float(len(o))),
        (np.arange(3), lambda o: float(o[1])),
        (3, lambda o: o + 0.5),
        (None, lambda o: 4.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arguments_that_hold_no_floats_are_handed_over_as_they_are(other, read):
    f = fdiff.grad(lambda x, o: np.sum(x) * read(o))
    for _ in range(2):
        np.testing.assert_allclose(f(X, other), np.full(2, read(other)))
    if isinstance(other, np.ndarray) and other.dtype.kind == "U":
        np.testing.assert_array_equal(f(X, other[::-1]), [2.0, 2.0])  # compared by value
        other[0] = "down"
        np.testing.assert_array_equal(f(X, other), [2.0, 2.0])


def test_objects_are_never_stale_and_said_to_be_slow():
    f = fdiff.grad(lambda x, o: np.sum(x) * o[0])
    objects = np.array([2.0, None], object)
    with pytest.warns(RetraceWarning, match="an argument of type ndarray cannot be compared"):
        np.testing.assert_array_equal(f(X, objects), [2.0, 2.0])
    objects[0] = 3.0
    np.testing.assert_array_equal(f(X, objects), [3.0, 3.0])


def test_mixing_with_what_is_no_number():
    with pytest.raises(TypeError):
        fdiff.grad(lambda x: x + "a")(X)
    with pytest.raises(TypeError):
        fdiff.grad(lambda x: x * None)(X)
    with pytest.raises(TraceError, match="an object array met a traced array"):
        fdiff.grad(lambda x: np.sum(x * np.array([1, 2], object)))(X)
    with pytest.raises(AttributeError, match=r"'numpy\.ndarray' object has no attribute 'foo'"):
        fdiff.grad(lambda x: x.foo)(X)
    with pytest.raises(DtypeError, match="complex outputs"):
        fdiff.hessian(lambda x: np.sum(x * 1j), X)


def test_an_error_leaves_nothing_behind():
    wrong = [takes_float, stores, calls_raw_qr, masks]
    for f in wrong:
        with pytest.raises(TraceError):
            fdiff.grad(f)(X)
        with pytest.raises(TraceError):
            fdiff.grad(lambda x, f=f: fdiff.grad(f)(x)[0])(X)
        np.testing.assert_array_equal(fdiff.grad(np.sum)(X), [1.0, 1.0])
        with pytest.raises(LeakError):
            fdiff.trace.current()
    assert copy.deepcopy(X).tolist() == [4.0, 5.0]
