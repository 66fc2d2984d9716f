"""Values that functions of arrays are seldom written for, each made anew when it is asked for."""

import array
import collections
import dataclasses
import decimal
import enum
import fractions
import functools
import io
import threading
import types
import typing
import weakref

import numpy as np
import scipy.sparse

import fdiff
import fdiff.autograd

X = np.array([0.25, 0.5, 0.75])


@dataclasses.dataclass
class Fields:
    left: object
    right: object


class Pair(typing.NamedTuple):
    first: object
    second: object


class Colour(enum.Enum):
    RED = 1


class Sub(np.ndarray):
    """A subclass of arrays that adds nothing."""


class Refuses:
    """Whatever Python asks of it raises."""

    def __eq__(self, other):
        raise ZeroDivisionError("eq")

    __hash__ = object.__hash__

    def __bool__(self):
        raise ZeroDivisionError("bool")

    def __len__(self):
        raise ZeroDivisionError("len")

    def __iter__(self):
        raise ZeroDivisionError("iter")

    def __float__(self):
        raise ZeroDivisionError("float")

    def __index__(self):
        raise ZeroDivisionError("index")

    def __repr__(self):
        raise ZeroDivisionError("repr")


class NoHash(dict):
    __hash__ = None


class HasArray:
    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0, 3.0])


class HasBadArray:
    def __array__(self, dtype=None, copy=None):
        raise ZeroDivisionError("array")


class Overrides:
    """Its operations with arrays are its own."""

    __array_ufunc__ = None


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Wave:
    def __call__(self, x):
        return np.sum(np.sin(x))


def itself(kind):
    """A container that contains itself."""
    if kind is dict:
        value = {"x": X.copy()}
        value["again"] = value
    elif kind is tuple:
        inner = [X.copy()]
        value = (inner, X.copy())
        inner.append(value)
    elif kind is Fields:
        value = Fields(X.copy(), None)
        value.right = value
    else:
        value = kind([X.copy()])
        value.append(value)
    return value


def nested(levels, wrap):
    value = X.copy()
    for _ in range(levels):
        value = wrap(value)
    return value


def overlapping():
    return np.lib.stride_tricks.as_strided(np.arange(4.0) / 8, (3, 2), (8, 8))


def wide():
    """Entries a terabyte apart, of which there is only one."""
    return np.lib.stride_tricks.as_strided(np.array([0.5]), (1, 1), (2**40, -(2**41)))


def unaligned():
    return np.frombuffer(b"." + X.tobytes(), np.float64, 3, 1)


def read_only():
    value = X.copy()
    value.flags.writeable = False
    return value


def leaked():
    kept = []
    fdiff.make_tape(lambda x: kept.append(x) or np.sum(x), X)
    return kept[0]


def doubled(value, times):
    """A tree whose parts are shared, so that it is far larger than its memory."""
    for _ in range(times):
        value = [value, value]
    return value


VALUES = {
    "list in itself": lambda: itself(list),
    "dict in itself": lambda: itself(dict),
    "tuple in itself": lambda: itself(tuple),
    "dataclass in itself": lambda: itself(Fields),
    "list of 150": lambda: nested(150, lambda v: [v]),
    "list of 5000": lambda: nested(5000, lambda v: [v]),
    "tuple of 300": lambda: nested(300, lambda v: (v,)),
    "dict of 300": lambda: nested(300, lambda v: {"k": v}),
    "dict of 5000": lambda: nested(5000, lambda v: {"k": v}),
    "dataclass of 300": lambda: nested(300, lambda v: Fields(v, 1.0)),
    "numbers of 70": lambda: nested(70, lambda v: [v if isinstance(v, list) else 0.5]),
    "shared parts": lambda: doubled(X.copy(), 6),
    "33 axes": lambda: np.full((1,) * 33, 0.5),
    "64 axes": lambda: np.full((1,) * 64, 0.5),
    "objects": lambda: np.array([0.5, 0.25], object),
    "mixed objects": lambda: np.array([0.5, None, "a"], object),
    "texts": lambda: np.array(["a", "b"]),
    "bytes array": lambda: np.array([b"a"]),
    "dates": lambda: np.array(["2020-01-01"], "M8[D]"),
    "time differences": lambda: np.array([1, 2], "m8[s]"),
    "no time": lambda: np.array(["NaT"], "M8[ns]"),
    "records": lambda: np.array([(1, 0.5)], [("n", "i4"), ("x", "f8")]),
    "recarray": lambda: np.rec.array([(1, 0.5)], [("n", "i4"), ("x", "f8")]),
    "void": lambda: np.zeros(2, "V8"),
    "variable texts": lambda: np.array(["a", "bc"], np.dtypes.StringDType()),
    "truth values": lambda: np.array([True, False]),
    "int8": lambda: np.array([1, 0], np.int8),
    "uint64": lambda: np.array([2**64 - 1], np.uint64),
    "float16": lambda: X.astype(np.float16),
    "long double": lambda: X.astype(np.longdouble),
    "complex64": lambda: X.astype(np.complex64),
    "complex128": lambda: X + 1j,
    "long complex": lambda: X.astype(np.clongdouble),
    "big-endian": lambda: X.astype(">f8"),
    "masked": lambda: np.ma.array(X.copy(), mask=[0, 1, 0]),
    "masked constant": lambda: np.ma.masked,
    "matrix": lambda: np.ones((2, 2)).view(np.matrix),
    "subclass": lambda: X.copy().view(Sub),
    "chararray": lambda: np.char.array(["a"]),
    "read-only": read_only,
    "overlapping": overlapping,
    "broadcast": lambda: np.broadcast_to(0.5, (3, 2)),
    "reversed": lambda: X.copy()[::-1],
    "strided": lambda: np.linspace(0, 1, 12)[::3],
    "huge strides": wide,
    "unaligned": unaligned,
    "Fortran": lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3) / 8),
    "no entries": lambda: np.zeros(0),
    "no rows": lambda: np.zeros((0, 3)),
    "no columns": lambda: np.zeros((3, 0)),
    "huge and empty": lambda: np.zeros((0, 2**40)),
    "no axes": lambda: np.array(0.5),
    "nan": lambda: float("nan"),
    "nans": lambda: np.array([np.nan, 0.5]),
    "infinity": lambda: float("inf"),
    "infinities": lambda: np.array([np.inf, -np.inf]),
    "minus zero": lambda: -0.0,
    "zero": lambda: 0,
    "one": lambda: 1,
    "minus one": lambda: -1,
    "minus two": lambda: -2,
    "large int": lambda: 2**63,
    "huge int": lambda: 10**400,
    "fraction of one": lambda: 0.5,
    "True": lambda: True,
    "False": lambda: False,
    "NumPy's True": lambda: np.True_,
    "NumPy's int": lambda: np.int64(0),
    "NumPy's float32": lambda: np.float32(0.5),
    "NumPy's long double": lambda: np.longdouble(0.5),
    "NumPy's complex": lambda: np.complex128(0.5 + 1j),
    "complex": lambda: 0.5 + 1j,
    "Fraction": lambda: fractions.Fraction(1, 2),
    "Decimal": lambda: decimal.Decimal("0.5"),
    "subclass of int": lambda: Whole(0),
    "None": lambda: None,
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "text": lambda: "text",
    "empty text": lambda: "",
    "subclass of str": lambda: Text("auto"),
    "bytes": lambda: b"bytes",
    "bytearray": lambda: bytearray(b"b"),
    "memoryview": lambda: memoryview(X.copy()),
    "array.array": lambda: array.array("d", [0.5]),
    "set": lambda: {0.5, 0.25},
    "frozenset": lambda: frozenset({0.5}),
    "generator": lambda: (v for v in (0.25, 0.5)),
    "iterator": lambda: iter([0.25, 0.5]),
    "range": lambda: range(3),
    "slice": lambda: slice(None),
    "empty tuple": lambda: (),
    "empty list": list,
    "empty dict": dict,
    "ragged list": lambda: [[0.5], [0.5, 0.25]],
    "list of numbers": lambda: [0.25, 0.5],
    "list of Nones": lambda: [None, None],
    "list of texts": lambda: ["a"],
    "list of an array and a text": lambda: [X.copy(), "a"],
    "tuple of arrays": lambda: (X.copy(), X.copy()),
    "tuple of ints": lambda: (0, 0),
    "tuple of an int too many": lambda: (0, 5),
    "dict of an array": lambda: {"x": X.copy()},
    "dict by ints": lambda: {1: X.copy(), "a": X.copy()},
    "OrderedDict": lambda: collections.OrderedDict(x=X.copy()),
    "defaultdict": lambda: collections.defaultdict(float, x=0.5),
    "deque": lambda: collections.deque([0.5]),
    "Counter": lambda: collections.Counter("ab"),
    "ChainMap": lambda: collections.ChainMap({"x": 0.5}),
    "mappingproxy": lambda: types.MappingProxyType({"x": 0.5}),
    "namedtuple": lambda: Pair(X.copy(), 0.5),
    "dataclass": lambda: Fields(X.copy(), 0.5),
    "object": object,
    "refuses everything": Refuses,
    "has no hash": NoHash,
    "has an array": HasArray,
    "has no array after all": HasBadArray,
    "has its own operations": Overrides,
    "class": lambda: type("Kind", (), {}),
    "module": lambda: np,
    "function": lambda: lambda: 0.5,
    "function of two": lambda: lambda a, b: np.sum(a),
    "partial": lambda: functools.partial(np.sum, axis=0),
    "builtin": lambda: len,
    "builtin without a signature": lambda: max,
    "ufunc": lambda: np.sin,
    "dtype": lambda: np.dtype("f8"),
    "callable object": Wave,
    "enum": lambda: Colour.RED,
    "exception": lambda: ValueError("value"),
    "lock": threading.Lock,
    "weak reference": lambda: weakref.ref(Fields),
    "file": lambda: io.BytesIO(b"x"),
    "namespace": lambda: types.SimpleNamespace(x=X.copy()),
    "sparse matrix": lambda: scipy.sparse.csr_array(np.eye(2)),
    "random generator": lambda: np.random.default_rng(0),
    "leaked tracer": leaked,
    "recorded array": lambda: fdiff.autograd.tensor(X, requires_grad=True),
    "prepared function": lambda: fdiff.grad(lambda x: np.sum(x)),
}
