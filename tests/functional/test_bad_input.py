"""What fdiff refuses, and in which words.

Every message names the public call with its function, shows the user's line, states the fact and
offers the way out. Nothing is refused in the words of the machinery, and no derivative is dropped.
"""

import array
import cmath
import collections
import concurrent.futures
import contextlib
import copy
import decimal
import functools
import hashlib
import inspect
import io
import itertools
import linecache
import math
import pickle
import queue
import re
import statistics

import numba
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.signal

import fdiff
import fdiff.autograd
import fdiff.profiler
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


class Box:
    """An object of a user's class: what `f` reaches through it is seen."""

    def __init__(self):
        self.buffer = np.zeros(2)
        self.sin, self.exp = math.sin, cmath.exp
        self.compiled = numba.njit(lambda a: a[0] * a[1])


BOX = Box()
# What `f` reaches through a container of a library, no private copy of a function sees.
HIDDEN = collections.deque([np.zeros(2), math.sin, cmath.exp, numba.njit(lambda a: a[0] * a[1])])

# --- what f may not do with a traced value --------------------------------------------------------
# One row a mistake: the function, and the fact and the way out its message must hold.


def takes_float64(x):
    return np.float64(x[0]) * np.sum(x)  # here


def takes_float32(x):
    return np.float32(x[0]) * np.sum(x)  # here


def takes_sin(x):
    return HIDDEN[1](x[0])  # here


def takes_cmath(x):
    return abs(HIDDEN[2](1j * x[0]))  # here


def takes_packed_array(x):
    return sum(array.array("d", x))  # here


def takes_text(x):
    return float(str(x[0])) * np.sum(x)  # here


def takes_formatted_text(x):
    return float(f"{x[0]:.3f}") * np.sum(x)  # here


def takes_density(x):
    return statistics.NormalDist().pdf(x[0])  # here


def takes_statistics(x):
    return statistics.mean(x)  # here


def takes_decimal(x):
    return float(decimal.Decimal(x[0]))  # here


def takes_memory(x):
    return memoryview(x)[0]  # here


def takes_buffer(x):
    return np.frombuffer(x)[0]  # here


def takes_buffer_of_stored(x):
    a = np.zeros(2)
    a[:] = x
    return np.frombuffer(a)[0]  # here


def takes_bytes(x):
    return np.frombuffer(x.tobytes()).sum()  # here


def takes_digest(x):
    return int(hashlib.sha256(x.tobytes()).hexdigest(), 16) * x[0]  # here


def takes_iterator_over_memory(x):
    return sum(v * v for v in np.nditer(x))  # here


def takes_compiled(x):
    return HIDDEN[3](x)  # here


def takes_random(x):
    return np.random.default_rng(0).normal(x[0], 1.0)  # here


def permutes(x):
    return np.sum(np.random.permutation(x))  # noqa: NPY002 - as users write it # here


def shuffles_rows(x):
    rows = np.stack([x, 2.0 * x, 3.0 * x])
    np.random.default_rng(0).shuffle(rows)  # here
    return np.sum(rows[0])


def takes_bracket(x):
    return scipy.optimize.bracket(lambda t: (t - x[0]) ** 2)[0]  # here


def takes_minimum(x):
    return scipy.optimize.fminbound(lambda t: (t - x[0]) ** 2, 0, 10)  # here


def pickles(x):
    return pickle.loads(pickle.dumps(x)).sum()  # here


def saves(x):
    np.save(io.BytesIO(), x)  # here
    return np.sum(x)


def saves_text(x):
    np.savetxt(io.StringIO(), x)  # here
    return np.sum(x)


def views_bits(x):
    return np.sum(x.view(np.int64)) * 1.0  # here


FLOAT = "turned a traced array into a Python float, which would drop its derivative"
CONCRETE = "turned into a concrete float64 array, which would drop its derivative"
ASTYPE = (
    "Leave the dtype out, or use `.astype`; where it was stored into an array, store into a copy"
)
NUMPY = "Use numpy functions (numpy.sin for math.sin), f-strings, or fdiff.stop_gradient."
MEETS = "a traced array met code that takes numbers or memory alone"

VALUES = {
    takes_float64: (CONCRETE, ASTYPE),
    takes_float32: (CONCRETE.replace("64", "32"), ASTYPE),
    takes_sin: (FLOAT, NUMPY),
    takes_cmath: (FLOAT.replace("float", "complex"), NUMPY),
    takes_packed_array: (FLOAT, NUMPY),
    takes_text: ("a number was read from the text of a traced value", "Use numpy.round to round"),
    takes_formatted_text: ("a number was read from the text of a traced", "numpy.round to round"),
    takes_density: (FLOAT, NUMPY),
    takes_statistics: (
        "float64.as_integer_ratio has no derivative rule",
        "Write it with supported",
    ),
    takes_decimal: (MEETS, "Use numpy functions; or return the value (has_aux=True)"),
    takes_memory: (MEETS, "Use numpy functions; or return the value (has_aux=True)"),
    takes_buffer: ("numpy.frombuffer was given a traced array", "Use the array itself"),
    takes_buffer_of_stored: ("numpy.frombuffer was given a traced array", "Use the array itself"),
    takes_bytes: ("numpy.frombuffer was given a traced array", "Use the array itself"),
    takes_digest: ("the bytes of a differentiated array were read", "Look up `x.tobytes()`"),
    takes_iterator_over_memory: ("numpy.nditer was given a traced array", "numpy.ndindex(x.shape)"),
    takes_compiled: ("compiled code was given a traced array", "Reach it by a name, or call its"),
    takes_random: (CONCRETE, "transform standard ones: `a + b * rng.standard_normal(n)`"),
    permutes: (
        "numpy.may_share_memory was given a traced array, which has no memory; `permutation`",
        "For rng.permutation(x) write x[rng.permutation(len(x))], which draws the same order.",
    ),
    takes_bracket: ("scipy.optimize.bracket has no derivative rule", "supported NumPy functions"),
    takes_minimum: ("scipy.optimize.fminbound has no derivative rule", "supported NumPy functions"),
    pickles: ("a traced array was pickled", "Pickle what the differentiated function returns."),
    saves: ("numpy.save", ""),
    saves_text: ("numpy.savetxt", ""),
    views_bits: ("a traced array was viewed as another dtype or class", "Use `.astype`."),
}


def stores_into_a_hidden_array(x):
    HIDDEN[0][0] = x[0]  # here
    return np.sum(HIDDEN[0])


def stores_a_slice_into_a_hidden_array(x):
    HIDDEN[0][:] = x  # here
    return np.sum(HIDDEN[0])


def adds_to_a_hidden_array(x):
    a = HIDDEN[0]
    a += x  # here
    return np.sum(a)


def stores_into_an_array_of_an_enclosing_function(x):
    a = np.zeros(2)
    a[0] = x[0]

    def inner(y):
        a[1] = y[0]  # here
        return np.sum(a) * y[0]

    return fdiff.grad(inner)(x)[0]


def stores_into_an_argument_of_an_enclosing_function(x):
    def inner(y):
        x[1] = y[0]  # here
        return np.sum(x) * y[0]

    return fdiff.grad(inner)(x.copy())[0]


UNSEEN = "a traced value was stored into an array"
ENCLOSING = "an array of an enclosing function was written to while a function inside was traced."
STORED = "Store into a copy made in the function: `a = np.array(a)`."

STORES = {
    stores_into_a_hidden_array: (UNSEEN, STORED),
    stores_a_slice_into_a_hidden_array: (CONCRETE, ASTYPE),
    adds_to_a_hidden_array: (UNSEEN, STORED),
    stores_into_an_array_of_an_enclosing_function: (ENCLOSING, "Write to a copy, and return it."),
    stores_into_an_argument_of_an_enclosing_function: (ENCLOSING, "Write to a copy"),
}


def sets_shape(x):
    x.shape = (2, 1)  # here
    return np.sum(x)


def sets_dtype(x):
    x.dtype = np.int64  # here
    return np.sum(x) * 1.0


def sets_strides(x):
    x.strides = (0,)  # here
    return np.sum(x)


def sets_flag(x):
    x.flags.writeable = False  # here
    return np.sum(x)


def sets_shape_of_stored(x):
    a = np.zeros(2)
    a[:] = x
    a.shape = (1, 2)  # here
    return np.sum(a)


def resizes_made(x):
    a = np.zeros(2)
    a.resize(3)  # here
    return np.sum(a) * x[0]


MEMORY = {
    sets_shape: ("the shape of a traced array was set in place", "Write `x = x.reshape(shape)`."),
    sets_dtype: ("the dtype of a traced array was set in place", "Use `.astype`."),
    sets_strides: ("the strides of a traced array were set in place", "as_strided"),
    sets_flag: ("the flag 'writeable' of a traced array was set", "Leave the line out"),
    sets_shape_of_stored: ("the shape of a traced array was set", "Write `x = x.reshape(shape)`."),
    resizes_made: ("an array made in the function was resized in place", "np.concatenate"),
}


def calls_raw_qr(x):
    return np.sum(np.linalg.qr(np.outer(x, x), mode="raw")[1])  # here


def calls_lfilter(x):
    return scipy.signal.lfilter([1.0, 0.5], [1.0], x).sum()  # here


def calls_data(x):
    return x.data[0]  # here


def calls_resize(x):
    x.resize((3,))  # here
    return np.sum(x)


def calls_tofile(x):
    x.tofile("x")  # here
    return np.sum(x)


def calls_ctypes(x):
    return float(x.ctypes.data)  # here


def calls_setflags(x):
    x.setflags(write=False)  # here
    return np.sum(x)


def calls_is_integer(x):
    return np.sum(x) if x[0].is_integer() else 0.0  # here


def calls_frompyfunc(x):
    return np.sum(np.frompyfunc(lambda v: v * v, 1, 1)(x))  # here


def calls_signature(x):
    return np.sum(np.vectorize(lambda v: v * np.sum(v), signature="(n)->(n)")(x))  # here


UNSUPPORTED = {
    calls_raw_qr: "numpy.linalg.qr with mode='raw' has no derivative rule in fdiff yet",
    calls_lfilter: "scipy.signal.lfilter has no derivative rule in fdiff yet",
    calls_data: "ndarray.data has no derivative rule in fdiff yet",
    calls_resize: "ndarray.resize has no derivative rule in fdiff yet",
    calls_tofile: "ndarray.tofile has no derivative rule in fdiff yet",
    calls_ctypes: "ndarray.ctypes has no derivative rule in fdiff yet",
    calls_setflags: "ndarray.setflags has no derivative rule in fdiff yet",
    calls_is_integer: "float64.is_integer has no derivative rule in fdiff yet",
    calls_frompyfunc: "(vectorized) has no derivative rule in fdiff yet",
    calls_signature: "numpy.vectorize with signature= has no derivative rule in fdiff yet",
}

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


def refused(name, f, kind=TraceError, function=""):
    """The message with which the public call `name` refuses `f`, or a `function` inside it."""
    with pytest.raises(kind) as caught:
        CALLS[name](f)
    text = str(caught.value)
    assert text.startswith(f"{name}({function or f.__name__}): ")
    assert here(f) in text
    return text


@pytest.fixture
def unchanged():
    """What lies outside of `f` is after the test as it was before."""
    mine = [X, BOX.buffer, HIDDEN[0]]
    before = copy.deepcopy(mine)
    yield
    for array_, was in zip(mine, before, strict=True):
        np.testing.assert_array_equal(array_, was)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("f", [*VALUES, *STORES, *MEMORY], ids=lambda f: f.__name__)
def test_what_would_drop_a_derivative_is_refused(f):
    fact, way_out = {**VALUES, **STORES, **MEMORY}[f]
    text = refused("grad", f, function="inner" if fact is ENCLOSING else f.__name__)
    assert fact in text
    assert way_out in text.partition("# here\n")[2]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", CALLS)
def test_the_public_call_is_named_as_it_was_typed(name):
    text = refused(name, takes_sin)
    assert "turned a traced array into a Python float" in text
    assert "numpy.sin for math.sin" in text
    refused(name, stores_into_a_hidden_array)
    refused(name, stores_a_slice_into_a_hidden_array)
    refused(name, calls_raw_qr, UnsupportedError)


@pytest.mark.parametrize("f", UNSUPPORTED, ids=lambda f: f.__name__)
def test_an_unsupported_function_is_named(f):
    text = refused("grad", f, UnsupportedError)
    assert UNSUPPORTED[f] in text
    assert "Write it with supported NumPy functions, or compute it outside" in text


def test_functions_and_arrays_reached_through_objects_are_seen():
    def f(x):
        return BOX.sin(x[0]) * BOX.compiled(x) + abs(BOX.exp(1j * x[0] + x[1])) + BOX.buffer @ x

    BOX.buffer[:] = 2.0, 3.0
    for x in (X, X / 3):
        (a, b), wave = x, np.exp(x[1])
        value, slope = fdiff.value_and_grad(f)(x)
        np.testing.assert_allclose(value, np.sin(a) * a * b + wave + 2 * a + 3 * b)
        wanted = [np.cos(a) * a * b + np.sin(a) * b + 2, np.sin(a) * a + wave + 3]
        np.testing.assert_allclose(slope, wanted)
    BOX.buffer[:] = 0.0


def test_a_refusal_that_f_catches_is_still_a_refusal():
    # plain code would have got the value, and gone another way
    def f(x):
        try:
            scale = HIDDEN[1](x[0])
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
        print("x is", x, x[0], f"{x[0]:.2f} {x!r} {x.sum():>30}", "{:10.3e}".format(x[1]), "%s" % x)  # noqa: UP031, UP032 - as users write it
        return np.sum(x)

    f(X)
    plain = capsys.readouterr().out
    with pytest.warns(RetraceWarning, match="what `print` shows cannot be"):
        np.testing.assert_array_equal(fdiff.grad(f)(X), [1.0, 1.0])
    assert capsys.readouterr().out == plain
    fdiff.grad(f)(2 * X)  # as plain code does, at each call
    assert capsys.readouterr().out.startswith("x is [ 8. 10.] 8.0 8.00 ")
    fdiff.vmap(f)(np.stack([X]))
    assert capsys.readouterr().out == plain


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

KEPT = queue.SimpleQueue()  # written in C: nobody sees what is in it


def keeps_argument(x):
    KEPT.put(x)
    return np.sum(x)


def keeps_product(x):
    KEPT.put(x * 2)  # here
    return np.sum(x)


def keeps_array_it_stored_into(x):
    a = np.zeros(2)
    KEPT.put(a)
    a[:] = x * 2  # here
    return np.sum(a)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: np.sin(x),
        lambda x: x[0],
        lambda x: x[x > 4],
        lambda x: float(x[0]),
        lambda x: list(x),
        lambda x: x.sum(),
        lambda x: x.tolist(),
        lambda x: bool(np.sum(x) > 0),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.fill(1.0),
        lambda x: x.__iadd__(1.0),
        lambda x: np.add(x, 1.0, out=np.zeros(2)),
        lambda x: np.copyto(x, 1.0),
        lambda x: np.linalg.norm(x),
        lambda x: pickle.dumps(x),
        lambda x: np.array([x[0]]),
        lambda x: fdiff.grad(lambda y: np.sum(y * x))(X),
        lambda x: fdiff.jit(lambda y: x)(X),
        lambda x: fdiff.vmap(lambda y: y * x[0])(X),
    ],
)
def test_a_traced_array_that_outlives_its_trace_says_where_it_was_made(use):
    for f in keeps_argument, keeps_product, keeps_array_it_stored_into:
        where = "It is an argument of the function." if f is keeps_argument else None
        fdiff.grad(f)(X)
        kept = KEPT.get()
        with pytest.raises(LeakError) as caught:
            use(kept)
        text = str(caught.value)
        assert text.startswith(
            f"grad({f.__name__}): a traced array was used after its trace had ended"
        )
        assert (where or f"It was made here:\n    {here(f)}") in text
        assert "It was used here:\n    test_bad_input.py:" in text
        assert "Return it from the function instead of storing it." in text
        assert "Traced<f8[2]>" in f"{kept}"


# --- arguments ------------------------------------------------------------------------------------


class Subclass(np.ndarray):
    pass


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
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
    wrong = [takes_packed_array, stores_into_a_hidden_array, calls_raw_qr, pickles, sets_shape]
    for f in wrong:
        with pytest.raises(TraceError):
            fdiff.grad(f)(X)
        with pytest.raises(TraceError):
            fdiff.grad(lambda x, f=f: fdiff.grad(f)(x)[0])(X)
        np.testing.assert_array_equal(fdiff.grad(np.sum)(X), [1.0, 1.0])
        with pytest.raises(LeakError):
            fdiff.trace.current()
    assert copy.deepcopy(X).tolist() == [4.0, 5.0]


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "hvp", "vhp"])
def test_none_as_the_point_is_a_mistake(name):
    """Only a point that is left out gives the prepared function."""
    operator = getattr(fdiff, name)
    words = rf"(?s){name}\(.*has type NoneType.*leave inputs out: {name}\(f\)"
    calls = [((None,), {}), ((), {"inputs": None}), ((None,), {"argnums": 1})]
    if name not in {"jacobian", "hessian"}:
        calls += [((None, None), {}), ((None, np.ones(3)), {})]
    for args, kwargs in calls:
        with pytest.raises(InputError, match=words):
            operator(lambda x: np.sum(x**2), *args, **kwargs)
    assert callable(operator(lambda x: np.sum(x**2)))
    assert "inputs: 'object' = <left out>" in str(inspect.signature(operator))


@pytest.mark.parametrize("name", ["vjp", "jvp", "hvp", "vhp"])
def test_a_vector_that_is_none_is_one_left_out(name):
    """As in torch: of one element the vector may be left out, of more it is missing."""
    operator = getattr(fdiff, name)
    f, x = (lambda x: np.sum(x**2)), np.array([3.0])
    expected = 2.0 if name in {"hvp", "vhp"} else 6.0
    for result in (operator(f, x), operator(f, x, None), operator(f, inputs=x, v=None)):
        assert result[1] == expected
    if name != "vjp":
        with pytest.raises(fdiff.errors.VectorError):
            operator(f, np.ones(3), None)
    with pytest.raises(InputError, match="v is given without inputs"):
        operator(f, v=np.ones(3))


# --- errors in the words of others ---------------------------------------------------------------
# They keep their type and their words; a note adds the public call, the line and the way out.


def adds_shapes(x):
    return np.sum(x + np.ones(3))  # here


def multiplies_matrices(x):
    return np.sum(np.ones((3, 3)) @ x)  # here


def takes_dot(x):
    return np.dot(x, np.ones(3))  # here


def reshapes(x):
    return np.sum(x.reshape(3, 2))  # here


def reads_beyond(x):
    return x[7]  # here


def sums_along_a_missing_axis(x):
    return np.sum(x, axis=2)  # here


def stores_too_much(x):
    a = np.zeros(3)
    a[:] = x  # here
    return np.sum(a)


def stacks_shapes(x):
    return np.sum(np.stack([x, np.ones(3)]))  # here


def solves(x):
    return np.sum(np.linalg.solve(np.ones((2, 3)), x))  # here


WORDS_OF_OTHERS = {
    adds_shapes: (ValueError, "could not be broadcast", "lengths must be equal, or one of them 1"),
    multiplies_matrices: (ValueError, "core dimension", "as long as the second's last but one"),
    takes_dot: (ValueError, "not aligned", "as long as the second's last but one"),
    reshapes: (ValueError, "cannot reshape", "needs as many entries as the old one"),
    reads_beyond: (IndexError, "out of bounds", "Positions go from -n to n - 1"),
    sums_along_a_missing_axis: (ValueError, "out of bounds", "Positions go from -n to n - 1"),
    stores_too_much: (ValueError, "could not broadcast", "lengths must be equal, or one of them 1"),
    stacks_shapes: (ValueError, "must have the same shape", "Call `stacks_shapes` itself"),
    solves: (np.linalg.LinAlgError, "must be square", "Call `solves` itself"),
}
CALLERS = {
    "grad": lambda f: fdiff.grad(f)(X),
    "jit": lambda f: fdiff.jit(f)(X),
    "vmap": lambda f: fdiff.vmap(f)(np.stack([X, X])),
    "hessian": lambda f: fdiff.hessian(f, X),
    "jacobian": lambda f: fdiff.jacobian(f, X),
    "vjp": lambda f: fdiff.vjp(f, X),
    "jvp": lambda f: fdiff.jvp(f, X, X),
    "hvp": lambda f: fdiff.hvp(f, X, X),
    "make_tape": lambda f: fdiff.make_tape(f, X),
    "source": lambda f: fdiff.source(f, X),
    "gradcheck": lambda f: fdiff.gradcheck(f, X),
    "explain": lambda f: fdiff.explain(fdiff.grad(f), X),
}


def note_of(error, call):
    """The only note of an error, which names the public call."""
    (note,) = error.__notes__
    assert note.startswith(f"{call}: this line raised the error:")
    return note


@pytest.mark.parametrize("f", WORDS_OF_OTHERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ["grad", "vmap"])
def test_an_error_of_numpy_gets_the_call_the_line_and_the_way_out(f, name):
    kind, words, way_out = WORDS_OF_OTHERS[f]
    with pytest.raises(kind, match=words) as caught:
        CALLERS[name](f)
    note = note_of(caught.value, f"{name}({f.__name__})")
    assert "# here" in note
    assert way_out in note


@pytest.mark.parametrize("name", CALLERS)
def test_every_public_call_is_named(name):
    with pytest.raises(ValueError, match="could not be broadcast") as caught:
        CALLERS[name](adds_shapes)
    assert "# here" in note_of(caught.value, f"{name}(adds_shapes)")


def test_rows_that_compiled_code_swaps_are_refused():
    # NumPy's `shuffle` would store the views of rows one after the other, and one row twice.
    with (
        pytest.warns(UserWarning, match="shuffling a 'TracedArray'"),
        pytest.raises(TraceError, match="compiled code stored a row") as caught,
    ):
        fdiff.grad(shuffles_rows)(X)
    text = str(caught.value)
    assert "# here" in text
    assert "write x = x[rng.permutation(len(x))], which draws the same order." in text


def test_a_point_without_an_inverse_has_a_way_out():
    with pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
        fdiff.grad(lambda a: np.sum(np.linalg.inv(a)))(np.ones((2, 2)))
    assert "Differentiate at another point" in note_of(caught.value, "grad(<lambda>)")


def test_arguments_that_do_not_fit_have_a_way_out():
    def two(x, y, *, scale):
        return scale * np.sum(x * y)

    for args, kwargs in [((X,), {}), ((X, X), {}), ((X, X, X), {"scale": 1.0})]:
        with pytest.raises(TypeError, match=r"two\(\)") as caught:
            fdiff.grad(two)(*args, **kwargs)
        assert "Pass what `two` takes" in note_of(caught.value, "grad(two)")
    with pytest.raises(TypeError, match="unexpected keyword") as caught:
        fdiff.grad(two, direction="up")
    assert "It is called as grad(f, argnums=0, *, has" in note_of(caught.value, "grad(two)")


# Calls with too few arguments, too many, or unknown ones: how each is called.
NOT_CALLED_SO = {
    "doctor()": lambda: fdiff.doctor(1),
    "cache_info()": lambda: fdiff.cache_info(1),
    "cache_clear(*, disk=False)": lambda: fdiff.cache_clear(True),
    "vmap(f, in_axes=0, out_axes=0, *, ": lambda: fdiff.vmap(),
    "custom_vjp(fun, nondiff_argnums=())": lambda: fdiff.custom_vjp(),
    "custom_jvp(fun, nondiff_argnums=())": lambda: fdiff.custom_jvp(),
    "debug_nans()": lambda: fdiff.debug_nans(3),
    "detect_anomaly(check_nan=True)": lambda: fdiff.autograd.detect_anomaly(nan=True),
    "set_detect_anomaly(mode, check_nan=True)": lambda: fdiff.autograd.set_detect_anomaly(),
    "set_grad_enabled(mode)": lambda: fdiff.autograd.set_grad_enabled(),
    "register_hook(hook)": lambda: leaf().register_hook(),
    "grad(outputs, inputs, grad_outputs=None, ": lambda: fdiff.autograd.grad(),
    "saved_tensors_hooks(pack_hook, unpack_hook)": (
        lambda: fdiff.autograd.graph.saved_tensors_hooks(print)
    ),
    "save_on_disk(directory=None, smallest=16384)": (
        lambda: fdiff.autograd.graph.save_on_disk(folder=".")
    ),
    "GradientEdge(node, output_nr)": lambda: fdiff.autograd.graph.GradientEdge(),
    "UnpackedDualTensor(primal, tangent)": (lambda: fdiff.autograd.forward_ad.UnpackedDualTensor()),
    "profile(enabled=True, *, use_cuda=False, ": lambda: fdiff.profiler.profile(shapes=True),
    "record_function(name, args=None)": lambda: fdiff.profiler.record_function(),
    "emit_nvtx(enabled=True, record_shapes=False)": lambda: fdiff.profiler.emit_nvtx(1, 2, 3),
    "load_nvprof(path)": lambda: fdiff.profiler.load_nvprof(),
    "FunctionEvent(id, name, thread, time_range, ": lambda: fdiff.profiler.FunctionEvent(),
    "Interval(start, end)": lambda: fdiff.profiler.Interval(),
    "DeviceKernel(name, device, duration)": lambda: fdiff.profiler.DeviceKernel("sin"),
}


@pytest.mark.parametrize("form", NOT_CALLED_SO)
def test_how_a_public_name_is_called_is_said(form):
    with pytest.raises(TypeError, match="argument") as caught:
        NOT_CALLED_SO[form]()
    note = note_of(caught.value, form.partition("(")[0])
    assert f"It is called as {form}" in note
    assert "\n    test_bad_input.py:" in note


def test_a_public_class_is_what_it_was():
    edge = fdiff.autograd.graph.GradientEdge(None, 1)
    assert (edge, edge._replace(output_nr=0)) == ((None, 1), (None, 0))
    assert pickle.loads(pickle.dumps(fdiff.profiler.Interval(1.0, 2.0))).elapsed_us() == 1.0
    assert list(inspect.signature(fdiff.custom_vjp).parameters) == ["fun", "nondiff_argnums"]
    with pytest.raises(TypeError) as caught:
        fdiff.profiler.EventList(3)  # fails inside, not at the call
    assert not hasattr(caught.value, "__notes__")


def test_what_a_user_raises_on_purpose_stays_as_it_is():
    def careful(x):
        if x.shape != (3,):
            raise ValueError("three numbers are needed")
        return np.sum(x)

    def nested(x):
        return np.sum(fdiff.grad(careful)(x))

    def asserts(x):
        assert x.shape == (3,)
        return np.sum(x)

    for f in (careful, nested, asserts):
        with pytest.raises((ValueError, AssertionError)) as caught:
            fdiff.grad(f)(X)
        assert not hasattr(caught.value, "__notes__")


def test_the_innermost_call_is_the_one_that_is_named():
    def outer(x):
        return np.sum(fdiff.grad(adds_shapes)(x))

    with pytest.raises(ValueError, match="broadcast") as caught:
        fdiff.grad(outer)(X)
    note_of(caught.value, "grad(adds_shapes)")


# --- options, and calls beside the operators -----------------------------------------------------


class Doubled(fdiff.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2.0 * x

    @staticmethod
    def backward(ctx, bar):
        return bar, bar


def leaf():
    return fdiff.autograd.tensor([1.0, 2.0], requires_grad=True)


def square(x):
    return np.sum(x**2)


def profiled(**options):
    with fdiff.profiler.profile(**options) as profile:
        fdiff.grad(square)(X)
    return profile


MISTAKES = {
    "jacobian(square): mode must be": lambda: fdiff.jacobian(square, X, mode="up"),
    "jacobian(square): chunk_size must": lambda: fdiff.jacobian(square, X, chunk_size=0),
    "jacobian(square): complex_inputs": lambda: fdiff.jacobian(square, X, complex_inputs="up"),
    "kinks: policy must be": lambda: fdiff.kinks("up"),
    "gradcheck(square): eps must": lambda: fdiff.gradcheck(square, X, eps=0.0),
    "gradcheck(square): atol must": lambda: fdiff.gradcheck(square, X, atol="small"),
    "gradgradcheck(square): nondet_tol": lambda: fdiff.gradgradcheck(square, X, nondet_tol=-1.0),
    "gradgradcheck(square): grad_outputs": lambda: fdiff.gradgradcheck(square, X, np.ones(5)),
    "check_grads(square): order must": lambda: fdiff.check_grads(square, (X,), 0),
    "check_grads(square): modes must": lambda: fdiff.check_grads(square, (X,), 1, modes=("up",)),
    "gradcheck(<lambda>): Jacobian mismatch": lambda: fdiff.gradcheck(
        lambda x: np.sum(x * fdiff.stop_gradient(x)), X
    ),
    "vjp(square): The v given to vjp": lambda: fdiff.vjp(square, X, "up"),
    "record_function: the label must": lambda: fdiff.profiler.record_function(3),
    "profile: use_device must": lambda: profiled(use_device="tpu"),
    "profile: there are no events": lambda: fdiff.profiler.profile().key_averages(),
    "load_nvprof: there is no file": lambda: fdiff.profiler.load_nvprof("nowhere"),
    "load_nvprof: path must be a path, not int": lambda: fdiff.profiler.load_nvprof(3),
    "export_chrome_trace: path must": lambda: profiled().export_chrome_trace(3),
    "export_stacks: path must": lambda: profiled(with_stack=True).export_stacks(None),
    "table: time_unit must": lambda: profiled().key_averages().table(time_unit="day"),
    "fdiff.autograd.set_grad_enabled: the mode": lambda: fdiff.autograd.set_grad_enabled("yes"),
    "checkpoint: expects a function": lambda: fdiff.autograd.checkpoint(3, leaf()),
    "grad: this line raised": lambda: fdiff.autograd.grad(leaf() * 2.0, leaf()),
    "backward: this line raised": lambda: fdiff.autograd.backward(leaf() * 2.0, np.ones(5)),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_wrong_option_is_refused_with_a_way_out(words):
    with pytest.raises((FdiffError, RuntimeError)) as caught:
        MISTAKES[words]()
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    found = text[text.index(words) :]
    assert "\n    test_bad_input.py:" in found
    assert found.splitlines()[-1].strip()
    assert "test_bad_input.py:" not in found.splitlines()[-1]


# Options that are on or off: each call takes the value of one.
FLAGS = {
    "jacobian": lambda on, role: fdiff.jacobian(square, X, **{role: on}),
    "hessian": lambda on, role: fdiff.hessian(square, X, **{role: on}),
    "vjp": lambda on, role: fdiff.vjp(square, X, **{role: on}),
    "jvp": lambda on, role: fdiff.jvp(square, X, X, **{role: on}),
    "hvp": lambda on, role: fdiff.hvp(square, X, X, **{role: on}),
    "vhp": lambda on, role: fdiff.vhp(square, X, X, **{role: on}),
    "grad": lambda on, role: fdiff.grad(lambda x: (x @ x, x), **{role: on}),
    "cache_clear": lambda on, role: fdiff.cache_clear(**{role: on}),
    "gradcheck": lambda on, role: fdiff.gradcheck(square, X, **{role: on}),
    "gradgradcheck": lambda on, role: fdiff.gradgradcheck(square, X, **{role: on}),
    "fdiff.autograd.tensor": lambda on, role: fdiff.autograd.tensor(X, **{role: on}),
    "fdiff.autograd.grad": lambda on, role: fdiff.autograd.grad(
        np.sum(a := leaf()), a, **{role: on}
    ),
    "fdiff.autograd.backward": lambda on, role: np.sum(leaf()).backward(**{role: on}),
    "fdiff.autograd.inference_mode": lambda on, _: fdiff.autograd.inference_mode(on),
    "fdiff.autograd.detect_anomaly": lambda on, _: fdiff.autograd.detect_anomaly(on),
    "fdiff.autograd.graph.save_on_cpu": lambda on, _: fdiff.autograd.graph.save_on_cpu(on),
    "profile": lambda on, role: profiled(**{role: on}),
    "emit_nvtx": lambda on, role: fdiff.profiler.emit_nvtx(**{role: on}),
    "key_averages": lambda on, _: profiled().key_averages(on),
    "table": lambda on, role: profiled().table(**{role: on}),
}
ROLES = {
    "jacobian": ("strict", "create_graph", "vectorize"),
    "hessian": ("strict", "create_graph", "vectorize"),
    "vjp": ("strict", "create_graph"),
    "jvp": ("strict", "create_graph"),
    "hvp": ("strict", "create_graph"),
    "vhp": ("strict", "create_graph"),
    "grad": ("has_aux",),
    "cache_clear": ("disk",),
    "gradcheck": ("raise_exception", "check_undefined_grad", "check_forward_ad", "fast_mode"),
    "gradgradcheck": ("gen_non_contig_grad_outputs", "check_rev_over_rev"),
    "fdiff.autograd.tensor": ("requires_grad",),
    "fdiff.autograd.grad": ("retain_graph", "create_graph", "allow_unused", "materialize_grads"),
    "fdiff.autograd.backward": ("retain_graph", "create_graph"),
    "fdiff.autograd.inference_mode": ("the mode",),
    "fdiff.autograd.detect_anomaly": ("check_nan",),
    "fdiff.autograd.graph.save_on_cpu": ("pin_memory",),
    "profile": ("enabled", "record_shapes", "with_flops", "profile_memory", "with_stack"),
    "emit_nvtx": ("enabled", "record_shapes"),
    "key_averages": ("group_by_input_shapes",),
    "table": ("top_level_events_only",),
}


@pytest.mark.parametrize(("call", "role"), [(call, role) for call in ROLES for role in ROLES[call]])
def test_what_is_neither_on_nor_off_is_refused(call, role):
    for value, shown in (("no", "'no'"), (2, "2"), (1.0, "1.0"), ([], "list"), (X, "ndarray")):
        with pytest.raises(InputError) as caught:
            FLAGS[call](value, role)
        fact, line, way = str(caught.value).splitlines()
        assert fact.startswith(call)
        assert fact.endswith(f": {role} must be True or False, not {shown}.")
        assert line.startswith("    test_bad_input.py:")
        assert way


@pytest.mark.parametrize("value", [True, np.True_, 1, np.int8(1), False, np.False_, 0])
def test_truth_values_and_0_and_1_switch_options(value):
    for call in ("vjp", "hvp", "jacobian", "hessian", "gradcheck", "fdiff.autograd.backward"):
        for role in ROLES[call]:
            FLAGS[call](value, role)
    assert fdiff.autograd.tensor(X, value).requires_grad is bool(value)
    with pytest.raises(fdiff.errors.StrictError) if value else contextlib.nullcontext():
        fdiff.jacobian(lambda x: np.ones(2), X, strict=value)


def with_rules(forward, backward):
    f = fdiff.custom_vjp(lambda x: 2.0 * x)
    f.defvjp(forward, backward)
    return lambda x: np.sum(f(x))


def with_primitive(**rule):
    p = fdiff.primitive(lambda x: 2.0 * x, **rule)
    return lambda x: np.sum(p(x))


def with_slopes(*slopes):
    f = fdiff.custom_jvp(lambda x: 2.0 * x)
    f.defjvps(*slopes)
    return lambda x: np.sum(f(x))


class Plain:
    value = 1.0


def with_masked(x):
    return np.sum(np.ma.log(x))


def in_threads(x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: x[0] * 2.0).result()


def solving(**options):
    def f(p):
        return scipy.integrate.solve_ivp(lambda t, y: -p * y, (0.0, 1.0), [1.0], **options).y[0, -1]

    return f


# What is met by those who use fdiff for the first time: the call, the fact and the way out.
FIRST_STEPS = {
    "point": (lambda: fdiff.grad(square, X), "argnums must be", r"write grad\(f\)\(point\)"),
    "name": (lambda: fdiff.grad(np.sum, "axis"), "not 'axis'", "argnums=1 for 'axis'"),
    "other": (lambda: fdiff.grad(square, "y"), "not 'y'", "Write argnums=0"),
    "None": (lambda: fdiff.grad(lambda x: None)(X), "not NoneType", "is a `return` missing"),
    "text": (lambda: fdiff.grad(lambda x: "a")(X), "not str", "Return a number"),
    "list": (
        lambda: fdiff.grad(lambda x: [x @ x])(X),
        "not list",
        "number in it, or use fdiff.jac",
    ),
    "object": (lambda: fdiff.grad(square)(Plain()), "of type Plain", "by an array, or a tuple"),
    "mapping": (
        lambda: fdiff.grad(square)(collections.defaultdict(float, a=1.0)),
        "of type defaultdict",
        r"Pass dict\(x\)",
    ),
    "objects": (lambda: fdiff.grad(square)(X.astype(object)), "not object", "if it holds numbers"),
    "texts": (lambda: fdiff.grad(square)(np.array(["a"])), "not <U1", "by an array"),
    "inside": (lambda: fdiff.grad(square)({"a": X, "b": "c"}), "0\\['b'\\]", "Leave it out"),
    "masked": (lambda: fdiff.grad(with_masked)(X), "numpy.ma met a traced", "numpy.where"),
    "thread": (lambda: fdiff.grad(in_threads)(X), "in another thread", "thread of the function"),
    "scalar": (lambda: fdiff.grad(np.float64)(X), "concrete float64", r"write float\(x\)"),
    "dense": (lambda: fdiff.grad(solving(dense_output=True))(1.0), "dense_output=", "t_eval="),
    "events": (lambda: fdiff.grad(solving(events=lambda t, y: y[0]))(1.0), "events=", "brentq"),
    "numbers": (lambda: fdiff.vmap(np.sin)([1.0, 2.0]), "axis 0 of", r"numpy.array\(x\)"),
    "number": (lambda: fdiff.vmap(np.sin)(1.0), "axis 0 of", r"pass it whole\.$"),
    "axes": (lambda: fdiff.grad(square).compile("f8[:]"), "spells out no type", "'f8\\[10,3\\]'"),
    "call": (
        lambda: fdiff.njit(fdiff.grad(square), "float64(3)"),
        "no type",
        "a dtype and a shape",
    ),
    "numba": (
        lambda: fdiff.njit(fdiff.grad(square), numba.float64[:]),
        "type array.* of Numba",
        "a dtype and a shape",
    ),
    "C": (
        lambda: fdiff.cfunc(fdiff.grad(square), X)(X),
        "was called",
        r"c\.ctypes\(...\), or call grad",
    ),
    "C shape": (
        lambda: fdiff.cfunc(fdiff.grad(square), X).ctypes(np.ones(3), X),
        r"the shape \(3,\), where the C function takes double\[2\]",
        "what the examples were like",
    ),
}


@pytest.mark.parametrize("name", FIRST_STEPS)
def test_first_steps_are_told_the_way_out(name):
    call, fact, way = FIRST_STEPS[name]
    with pytest.raises(FdiffError, match=fact) as caught:
        call()
    *_, line, last = str(caught.value).splitlines()
    assert re.search(way, last)
    assert "test_bad_input.py:" in line


def test_texts_that_spell_no_type_are_arguments():
    def f(x, how):
        return np.sum(x) * len(how)

    for how in ("sin", "f(x)", "first [0]"):
        assert "compiled" in repr(fdiff.grad(f).compile("f8[2]", how))


# Rules with other parameters than they are called with.
NOT_RULES = {
    "forward(*args)": lambda: with_rules(lambda: 1, print),
    "backward(residuals, bar)": lambda: with_rules(lambda x: (2.0 * x, ()), lambda bar: (bar,)),
    "rule(dot, out, *args)": lambda: with_slopes(lambda dot: dot),
    "vjp(bar, out, *args)": lambda: with_primitive(vjp=lambda bar: (2.0 * bar,)),
    "jvp(dots, out, *args)": lambda: with_primitive(jvp=lambda dots: dots[0]),
    "partials(*args, out)": lambda: with_primitive(partials=lambda x: (2.0,)),
}


@pytest.mark.parametrize("form", NOT_RULES)
def test_how_a_rule_is_called_is_said(form):
    with pytest.raises(InputError) as caught:
        fdiff.grad(NOT_RULES[form]())(X)
    fact, line, way = str(caught.value).splitlines()
    assert f"called as {form}, and does not take that: " in fact
    assert "given" in fact
    assert "test_bad_input.py:" in line
    assert way == f"Define it as {form}."


def test_a_type_error_inside_a_rule_stays_as_it_is():
    f = with_primitive(vjp=lambda bar, out, x: ("a" + 1,))
    with pytest.raises(TypeError, match="can only concatenate str") as caught:
        fdiff.grad(f)(X)
    assert not isinstance(caught.value, InputError)


def test_the_rule_of_a_primitive_is_named_as_the_user_names_it():
    def pulled(scale, bar, out, x):
        return scale * bar

    for rule in (functools.partial(pulled, 2.0), lambda bar, out, x: pulled(2.0, bar, out, x)):
        with pytest.raises(InputError) as caught:
            fdiff.grad(with_primitive(vjp=rule))(X)
        name = "pulled" if isinstance(rule, functools.partial) else "<lambda>"
        assert f"the backward rule `{name}` must return a tuple" in str(caught.value)
        assert "test_bad_input.py:" in str(caught.value)


def test_a_rule_of_a_function_that_is_wrong_is_named_with_a_way_out():
    with pytest.raises(RuntimeError, match=r"expected 1, got 2") as caught:
        np.sum(Doubled.apply(leaf())).backward()
    assert "Return one for each argument of forward" in note_of(caught.value, "backward")
