"""Arrays into which a traced value was stored follow NumPy in all that an ndarray can do.

The names are those of ndarray itself: one that is neither in `USES` nor in a list of names that are
refused or mean nothing for values fails a test.
"""

import copy
import itertools
import operator

import numpy as np
import pytest

import fdiff
from fdiff.dispatch.tiers import tiered_execution
from fdiff.errors import FdiffError

pytestmark = pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
X = np.array([0.5, 1.0, 2.0])


def words(text):
    return text.split()


def floats(x):
    y = np.zeros(3)
    y[1] = x[0]
    return y


def rows(x):
    y = np.ones((3, 3))
    y[1] = x
    return y


def integers(x):
    y = np.array([3, 1, 2])
    y[1] = np.argmax(x)
    return y


def truths(x):
    y = np.zeros(3, bool)
    y[1] = x[0] > 0
    return y


def complexes(x):
    y = np.zeros(3, complex)
    y[1] = x[0] + 2j * x[1]
    return y


ARRAYS = (floats, rows, integers, truths, complexes)
OTHERS = (0, 0.5, True, 1j, None, X, np.float64(0.5), np.array(2), [0.0, 0.5, 0.0], (1, 0, 1), "y")


# --- operators -----------------------------------------------------------------------------------

BINARY = words(
    """eq ne lt le gt ge add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift
    iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift"""
)


def outcome(f, *args):
    """The result, or the class of the error."""
    with np.errstate(all="ignore"):
        try:
            return f(*args)
        except (FdiffError, TypeError, ValueError, IndexError, AttributeError) as error:
            return type(error)


def agree(found, wanted):
    if isinstance(wanted, type):  # an error: which of several comes first may differ
        assert isinstance(found, type)
        assert not issubclass(found, FdiffError)
        return
    if wanted is None or isinstance(wanted, np.dtype):
        assert found == wanted
        return
    if isinstance(wanted, (tuple, list)):
        assert type(found) is type(wanted)
        for a, b in zip(found, wanted, strict=True):
            agree(a, b)
        return
    assert np.shape(found) == np.shape(wanted)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("make", ARRAYS, ids=lambda make: make.__name__)
def test_operators(make, name, monkeypatch):
    monkeypatch.setenv(tiered_execution.VARIABLE, "interpret")
    operate = getattr(operator, name)
    for other, swap in itertools.product(OTHERS, (False, True)):
        if other is None and name not in {"eq", "ne"}:
            continue

        def f(x, other=other, swap=swap):
            y = make(x)
            z = make(x * 2) if isinstance(other, str) else copy.copy(other)
            return operate(z, y) if swap else operate(y, z)

        agree(outcome(fdiff.jit(f), X), outcome(f, X))


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("name", words("""eq ne lt le gt ge"""))
def test_comparisons_choose_and_are_differentiated(name, tier, monkeypatch):
    monkeypatch.setenv(tiered_execution.VARIABLE, tier)
    compare = getattr(operator, name)

    def f(x):
        y = np.zeros(3)
        y[1] = x[0]
        return np.sum(np.where(compare(y, 0.5), x, x**2) + np.where(compare(0, y), y, 3 * x))

    def slopes(x):
        y = np.array([0.0, x[0], 0.0])
        found = np.where(compare(y, 0.5), 1.0, 2 * x) + np.where(compare(0, y), 0.0, 3.0)
        found[0] += np.sum(np.where(compare(0, y), [0.0, 1.0, 0.0], 0.0))
        return found

    np.testing.assert_array_equal(fdiff.jit(f)(X), f(X))
    np.testing.assert_allclose(fdiff.grad(f)(X), slopes(X))
    np.testing.assert_allclose(fdiff.jacobian(f)(X), slopes(X))
    np.testing.assert_allclose(fdiff.hvp(f)(X, X), fdiff.hessian(f)(X) @ X)
    stack = np.stack([X, X + 1])
    np.testing.assert_allclose(fdiff.vmap(f)(stack), [f(row) for row in stack])
    np.testing.assert_allclose(fdiff.vmap(fdiff.grad(f))(stack), [slopes(row) for row in stack])


# --- names of ndarray ----------------------------------------------------------------------------


def method(*args, then=None):
    def use(y, name):
        out = getattr(y, name)(*args)
        return out if then is None else then(y)

    return use


def attribute(y, name):
    return getattr(y, name)


def special(function):
    return lambda y, name: function(y)


itself = lambda y: y
USES = {
    **dict.fromkeys(
        words("T dtype imag itemsize mT nbytes ndim real shape size strides"), attribute),
    **dict.fromkeys(
        words("""all any argmax argmin argsort conj conjugate copy cumprod cumsum diagonal flatten
    max mean min prod ravel squeeze std sum tolist trace transpose var view"""),
        method(),
    ),
    "argpartition": method(1), "astype": method(np.float32), "choose": method([X, X * 2, X, X]),
    "clip": method(0, 1), "compress": method([True, False, True]), "dot": method(X),
    "fill": method(2, then=itself), "flags": special(lambda y: y.flags.c_contiguous),
    "flat": special(lambda y: list(y.flat)), "item": method(1), "partition": method(1, then=itself),
    "put": method([0, 2], [1, 0], then=itself), "repeat": method(2), "reshape": method(-1),
    "round": method(), "searchsorted": method(1), "sort": method(then=itself),
    "swapaxes": method(0, -1), "take": method([0, 1]),
    "__abs__": special(abs), "__neg__": special(operator.neg), "__pos__": special(operator.pos),
    "__invert__": special(operator.invert), "__len__": special(len),
    "__getitem__": method(1), "__setitem__": method(0, 1, then=itself),
    "__delitem__": method(0), "__contains__": special(lambda y: 0.5 in y),
    "__iter__": special(list), "__copy__": method(), "__deepcopy__": method({}),
    "__divmod__": method(2), "__rdivmod__": method(2),
    "__bool__": special(lambda y: bool(y.ravel()[1])),
    "__int__": special(lambda y: int(y.ravel()[1].real)), "__index__": special(lambda y: X[y[1]]),
    "__float__": special(lambda y: float(y.ravel()[1].real)),
    "__complex__": special(lambda y: float(complex(y.ravel()[0]).real)),
    "__array__": special(np.asarray), "__hash__": special(hash),
    "__repr__": special(lambda y: len(repr(y).split("\n"))),
    "__str__": special(lambda y: len(str(y).split("\n"))),
    "__format__": special(lambda y: len(f"{y}")),
}  # fmt: skip
OPERATORS = {f"__{b.strip('_')}__" for b in BINARY} | {
    f"__r{b.strip('_')}__" for b in BINARY if not b.startswith("i")
}
# Memory, files and buffers: a traced array has none that could be handed out.
REFUSED = [
    "base",
    "byteswap",
    "ctypes",
    "data",
    "dump",
    "dumps",
    "getfield",
    "resize",
    "setfield",
    "setflags",
    "tobytes",
    "tofile",
    "to_device",
    "device",
    "__reduce__",
    "__reduce_ex__",
    "__setstate__",
]
# What Python, or NumPy's protocols, ask an object about itself.
PROTOCOLS = [
    "__array_finalize__",
    "__array_function__",
    "__array_interface__",
    "__array_namespace__",
    "__array_priority__",
    "__array_struct__",
    "__array_ufunc__",
    "__array_wrap__",
    "__class__",
    "__class_getitem__",
    "__delattr__",
    "__dir__",
    "__dlpack__",
    "__dlpack_device__",
    "__doc__",
    "__getattribute__",
    "__getstate__",
    "__init__",
    "__init_subclass__",
    "__new__",
    "__setattr__",
    "__sizeof__",
    "__subclasshook__",
    "ptp",
    "newbyteorder",
    "itemset",
    "tostring",
    "nonzero",
    "__buffer__",
    "__release_buffer__",
]


def test_every_name_of_ndarray_is_known():
    known = {*USES, *OPERATORS, *REFUSED, *PROTOCOLS, "__eq__", "__ne__", "__lt__", "__le__"}
    private = {n for n in dir(np.ndarray) if n.startswith("_") and not n.startswith("__")}
    assert {*dir(np.ndarray)} - known - private == set()


# NumPy rounds truth values to float16, which tapes do not have: they stay what they are.
METHODS = [
    (make, name)
    for make, name in itertools.product(ARRAYS, USES)
    if hasattr(np.ndarray, name) and (make, name) != (truths, "round")
]


@pytest.mark.parametrize(("make", "name"), METHODS)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_attributes_and_methods(make, name, monkeypatch):
    monkeypatch.setenv(tiered_execution.VARIABLE, "interpret")

    def f(x):
        return USES[name](make(x), name)

    wanted = outcome(f, X)
    agree(outcome(fdiff.jit(f), X), wanted)


@pytest.mark.parametrize("name", [n for n in REFUSED if hasattr(np.ndarray, n)])
def test_what_reads_memory_is_refused(name):
    def f(x):
        found = getattr(floats(x), name)
        return found(1) if callable(found) else found

    assert issubclass(outcome(fdiff.grad(f), X), (FdiffError, TypeError))


# --- ufuncs and functions ------------------------------------------------------------------------

FUNCTIONS = {
    **{name: getattr(np, name) for name in words("equal not_equal less greater_equal add maximum")},
    "array_equal": np.array_equal, "allclose": np.allclose, "isclose": np.isclose,
    "where": lambda y, z: np.where(y == z, y, 2.0 * z), "searchsorted": lambda y, z: np.sum(y != z),
    "count_nonzero": lambda y, z: np.count_nonzero(y == z), "isin": lambda y, z: np.any(y == z),
    "concatenate": lambda y, z: np.concatenate([y, z]) == 0, "min": lambda y, z: np.min(y * z),
    "select": lambda y, z: np.select([y == 0, z == 0], [y, z], 1.0),
    "stack": lambda y, z: np.stack([y, z]),
    "mask": lambda y, z: np.sum((y == 0) * z), "all": lambda y, z: np.all(y == y) & np.any(z != y),
}  # fmt: skip


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, tier, monkeypatch):
    monkeypatch.setenv(tiered_execution.VARIABLE, tier)
    for other in (lambda x: X, lambda x: floats(x * 2), lambda x: np.zeros(3), lambda x: x):

        def f(x, other=other):
            return FUNCTIONS[name](floats(x), other(x))

        agree(outcome(fdiff.jit(f), X), outcome(f, X))
