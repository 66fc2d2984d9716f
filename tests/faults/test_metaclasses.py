"""What a metaclass or an exception class computes, or holds, is seen when it changes."""

import abc
import dataclasses
import enum
import types
import typing

import numpy as np
import pytest
from faults_support import LONG

import fdiff

pytestmark = pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
X = np.array([0.3, 0.7])
FACTOR = {"now": 2.0}
OFFSET = 1.0


def now():
    return FACTOR["now"]


class Descriptor:
    def __get__(self, instance, owner=None):
        return now()


class Property(type):
    scale = property(lambda cls: now())


class Attribute(type):
    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return now()


class Greedy(type):
    """Answers every question, even those that Python asks."""

    def __getattr__(cls, name):
        return now()


class Described(type):
    scale = Descriptor()


class Data(type):
    scale = 2.0


class Abstract(abc.ABCMeta):
    @property
    def scale(cls):
        return now()


class OfEnum(enum.EnumMeta):
    @property
    def scale(cls):
        return now()


class Container(type):
    def __call__(cls):
        return now()

    def __getitem__(cls, index):
        return now()

    def __len__(cls):
        return int(now())

    def __iter__(cls):
        return iter([now()])

    def __contains__(cls, value):
        return now() > 3.0

    def __add__(cls, other):
        return other + now()

    def __instancecheck__(cls, value):
        return now() > 3.0

    def __subclasscheck__(cls, kind):
        return now() > 3.0

    def __hash__(cls):
        return int(now())

    def __eq__(cls, other):
        return now() > 3.0

    def __bool__(cls):
        return now() > 3.0


def empty(metaclass, *bases):
    return metaclass("Made", bases, {})


P, A, G, D, V, B, C = map(
    empty, (Property, Attribute, Greedy, Described, Data, Abstract, Container)
)


class Colour(enum.Enum, metaclass=OfEnum):
    RED = 1


@dataclasses.dataclass
class Record(metaclass=Property):
    v: float = 1.0


@dataclasses.dataclass(frozen=True)
class Frozen(metaclass=Property):
    v: float = 1.0


Pair = typing.NamedTuple("Pair", [("a", float), ("b", float)])  # noqa: UP014 - a base below


class Named(Pair, metaclass=Property):
    __slots__ = ()


Dataclass = dataclasses.make_dataclass("Dataclass", ["v"], namespace={"scale": 2.0})
New = types.new_class("New", (), {}, lambda namespace: namespace.update(scale=2.0))
Abstractly = abc.ABCMeta("Abstractly", (), {"scale": 2.0})


class WithMethod(metaclass=Property):
    def get(self):
        return type(self).scale


class Derived(empty(Property)):
    pass


class Error(Exception):
    scale = 2.0
    _hidden = 2.0


class DerivedError(Error):
    pass


class MetaError(Exception, metaclass=Property):
    pass


class ComputingError(ValueError):
    def __init__(self, x):
        super().__init__("computed")
        self.value = x * now()


class PlainError(ValueError):
    def __init__(self, x):
        super().__init__("plain")
        self.value = x * 2.0


class ListError(ValueError):
    factors = [2.0]  # noqa: RUF012 - as users write it


def caught(kind, x):
    try:
        raise kind(x)
    except ValueError as error:
        return np.sum(error.value)


RECORD, FROZEN, NAMED, OBJECT = Record(), Frozen(), Named(1.0, 2.0), WithMethod()


def set_now(value):
    FACTOR["now"] = value


def set_data(value):
    Data.scale = value


def set_made(value):
    Dataclass.scale = New.scale = Abstractly.scale = value


def set_error(value):
    Error.scale = Error._hidden = value


def set_list(value):
    ListError.factors[0] = value


CASES = {
    "property": (lambda x: np.sum(x) * P.scale, set_now),
    "getattr": (lambda x: np.sum(x) * A.scale, set_now),
    "greedy getattr": (lambda x: np.sum(x) * G.scale, set_now),
    "descriptor": (lambda x: np.sum(x) * D.scale, set_now),
    "data": (lambda x: np.sum(x) * V.scale, set_data),
    "abstract": (lambda x: np.sum(x) * B.scale, set_now),
    "derived": (lambda x: np.sum(x) * Derived.scale, set_now),
    "enum": (lambda x: np.sum(x) * Colour.scale, set_now),
    "member of an enum": (lambda x: np.sum(x) * type(Colour.RED).scale, set_now),
    "class of a record": (lambda x: np.sum(x) * type(RECORD).scale, set_now),
    "class of a frozen record": (lambda x: np.sum(x) * FROZEN.__class__.scale, set_now),
    "record class": (lambda x: np.sum(x) * Record.scale, set_now),
    "named tuple": (lambda x: np.sum(x) * type(NAMED).scale, set_now),
    "method": (lambda x: np.sum(x) * OBJECT.get(), set_now),
    "call": (lambda x: np.sum(x) * C(), set_now),
    "item": (lambda x: np.sum(x) * C[0], set_now),
    "length": (lambda x: np.sum(x) * len(C), set_now),
    "iteration": (lambda x: np.sum(x) * sum(C), set_now),
    "membership": (lambda x: np.sum(x) * (2.0 if 1 in C else 5.0), set_now),
    "operator": (lambda x: np.sum(x) * (C + 1.0), set_now),
    "isinstance": (lambda x: np.sum(x) * (2.0 if isinstance(1, C) else 5.0), set_now),
    "issubclass": (lambda x: np.sum(x) * (2.0 if issubclass(int, C) else 5.0), set_now),
    "hash": (lambda x: np.sum(x) * hash(C), set_now),
    "equality": (lambda x: np.sum(x) * (2.0 if C == 3 else 5.0), set_now),
    "truth": (lambda x: np.sum(x) * (2.0 if C else 5.0), set_now),
    "made dataclass": (lambda x: np.sum(x) * Dataclass.scale, set_made),
    "made class": (lambda x: np.sum(x) * New.scale, set_made),
    "made abstract class": (lambda x: np.sum(x) * Abstractly.scale, set_made),
    "exception": (lambda x: np.sum(x) * Error.scale, set_error),
    "private name of an exception": (lambda x: np.sum(x) * Error._hidden, set_error),
    "derived exception": (lambda x: np.sum(x) * DerivedError.scale, set_error),
    "exception with a metaclass": (lambda x: np.sum(x) * MetaError.scale, set_now),
    "exception that computes": (lambda x: caught(ComputingError, x), set_now),
    "exception that is plain": (lambda x: caught(PlainError, x), set_now),
    "exception with a list": (lambda x: np.sum(x) * ListError.factors[0], set_list),
}


@pytest.fixture(autouse=True)
def as_before():
    yield
    set_now(2.0)
    set_data(2.0)
    set_error(2.0)
    set_made(2.0)
    set_list(2.0)


def by_differences(f):
    return np.array([(f(X + h) - f(X - h)) / 2e-5 for h in 1e-5 * np.eye(2)])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("operator", [fdiff.grad, lambda f: fdiff.jit(fdiff.grad(f))])
def test_what_a_class_computes_is_what_it_computes_now(case, operator, monkeypatch):
    monkeypatch.setenv("FDIFF_BACKGROUND", "0")
    f, change = CASES[case]
    gradient = operator(f)
    for value in (2.0, 4.0, 7.0, 2.0, *[3.0, 5.0] * 5 * LONG):
        change(value)
        wanted = by_differences(f)
        for _ in range(5):
            np.testing.assert_allclose(gradient(X), wanted, rtol=1e-7)


def test_plain_metaclasses_and_exceptions_cost_no_trace(recwarn):
    """They hold nothing that could change, and calls are compiled once."""

    class Plain(type):
        """Nothing but a name."""

    kind = Plain("Made", (), {})

    def f(x):
        if not isinstance(x, kind) and issubclass(DerivedError, Error):
            return caught(PlainError, x)
        raise PlainError(x)

    gradient = fdiff.jit(fdiff.grad(f))
    for _ in range(10):
        np.testing.assert_allclose(gradient(X), 2.0)
    assert "compiled" in repr(gradient)
    assert not [w for w in recwarn if issubclass(w.category, fdiff.errors.RetraceWarning)]
