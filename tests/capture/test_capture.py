# ruff: noqa: PLC3002, ICN001 - the odd ways of users are what is tested
"""Private copies of functions: what `f` reads, and that a change of it is never missed."""

import dataclasses
import enum
import functools
import gc
import importlib
import math
import operator
import sys
import threading
import traceback
import types
import typing
import warnings
import weakref
from fractions import Fraction

import numpy as np
import pytest

from fdiff.capture import Capture

A = np.array([1.0, 2.0, 3.0])
B = np.array([4.0, 5.0, 6.0])


class Handle:
    """A traced array, as far as this module knows of one."""

    __fdiff_traced__ = True

    def __init__(self, array):
        self.array = array


def run(f, *args, answers=None, **kwargs):
    capture = Capture(Handle, lambda value: (answers or {}).get(id(value), value))
    result = capture.private(f)(*args, **kwargs)
    return result, capture.finish()


def arrays(reads, f):
    """The captured arrays now, or None; the second look, at the same places, says the same."""
    found = reads.refresh(f)
    again = reads.refresh(f)
    assert (found is None) == (again is None)
    assert found is None or all(map(operator.is_, found, again))
    return found


def module(source, name="userland", **values):
    """A module of the user, importable as `name`."""
    made = types.ModuleType(name)
    made.__dict__.update(values)
    exec(source, made.__dict__)
    sys.modules[name] = made
    return made


@pytest.fixture(autouse=True)
def _forget_modules():
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("userland"):
            del sys.modules[name]


# ------------------------------------------------------------------- every way to change a number

BOX = """
class Box:
    k = DATA
    def __init__(self, w): self.w = w
"""


def rebound_global():
    m = module("def f(): return data", data=A)
    return m.f, lambda value: setattr(m, "data", value)


def cell():
    data = A

    def f():
        return data

    def change(value):
        nonlocal data
        data = value

    return f, change


def cell_contents():
    f, _ = cell()
    return f, lambda value: setattr(f.__closure__[0], "cell_contents", value)


def default():
    def f(data=A):
        return data

    return f, lambda value: setattr(f, "__defaults__", (value,))


def keyword_default():
    def f(*, data=A):
        return data

    return f, lambda value: operator.setitem(f.__kwdefaults__, "data", value)


def function_attribute():
    m = module("def f(): return f.data")
    m.f.data = A
    return m.f, lambda value: setattr(m.f, "data", value)


def dict_item():
    d = {"data": A}

    def f():
        return d["data"]

    return f, lambda value: d.update(data=value)


def dict_get():
    d = {"data": A}

    def f():
        return d.get("data")

    return f, lambda value: d.update(data=value)


def dict_values():
    d = {"data": A}

    def f():
        return next(iter(d.values()))

    return f, lambda value: d.update(data=value)


def dict_unpacked():
    d = {"data": A}

    def f():
        return (lambda data: data)(**d)

    return f, lambda value: d.update(data=value)


def list_item():
    items = [1, A]

    def f():
        return items[1]

    return f, lambda value: operator.setitem(items, 1, value)


def nested_item():
    d = {"a": [0, ({"b": [A]}, 1)]}

    def f():
        return d["a"][1][0]["b"][0]

    return f, lambda value: operator.setitem(d["a"][1][0]["b"], 0, value)


def namespace():
    p = types.SimpleNamespace(data=A, n=3)

    def f():
        return p.data

    return f, lambda value: setattr(p, "data", value)


@dataclasses.dataclass(frozen=True)
class Frozen:
    data: object
    n: int = 3


@dataclasses.dataclass
class Mutable:
    data: object
    n: int = 3


class Named(typing.NamedTuple):
    data: object
    n: int = 3


def frozen_dataclass():
    d = {"p": Frozen(A)}

    def f():
        return d["p"].data

    return f, lambda value: d.update(p=Frozen(value))


def mutable_dataclass():
    p = Mutable(A)

    def f():
        return p.data

    return f, lambda value: setattr(p, "data", value)


def named_tuple():
    p = Named(A)

    def f():
        return p.data

    def change(value):
        nonlocal p
        p = Named(value)

    return f, change


def helper_global():
    m = module("def helper(): return data", data=A)
    n = module("def f(): return helper()", "userland2", helper=m.helper)
    return n.f, lambda value: setattr(m, "data", value)


def helper_through_module():
    m = module("def helper(): return data", data=A)
    n = module("import userland\ndef f(): return userland.helper()", "userland2")
    return n.f, lambda value: setattr(m, "data", value)


def module_attribute():
    m = module("", data=A)
    n = module("import userland\ndef f(): return userland.data", "userland2")
    return n.f, lambda value: setattr(m, "data", value)


def global_from_import():
    module("", data=A)
    n = module("from userland import data\ndef f(): return data", "userland2")
    return n.f, lambda value: setattr(n, "data", value)


def import_inside():
    m = module("def helper(): return data", data=A)

    def f():
        import userland

        return userland.helper()

    return f, lambda value: setattr(m, "data", value)


def from_import_inside():
    m = module("", data=A)

    def f():
        from userland import data

        return data

    return f, lambda value: setattr(m, "data", value)


def submodule():
    package, m = module("", "userland"), module("", "userland.sub", data=A)
    package.__path__ = []
    package.sub = m

    def f():
        import userland.sub as s

        return s.data

    return f, lambda value: setattr(m, "data", value)


def partial_argument():
    def g(d, k):
        return d["data"]

    d = {"data": A}
    return functools.partial(g, d, k=2), lambda value: d.update(data=value)


def partial_keyword():
    def g(*, data):
        return data

    p = functools.partial(g, data=A)
    return (lambda: p()), lambda value: p.keywords.update(data=value)


def function_in_dict():
    m = module("MODELS = {'a': lambda: data, 'b': None}\ndef f(): return MODELS['a']()", data=A)
    return m.f, lambda value: setattr(m, "data", value)


def rebound_function():
    m = module("def g(): return a\ndef h(): return b\ndef f(): return g()", a=A, b=B)
    m2 = module("", "userland2")

    def change(value):
        m2.c = value
        m.g = types.FunctionType((lambda: c).__code__, m2.__dict__)  # noqa: F821 - a global of `m2`

    return m.f, change


def new_code():
    m = module("def f(): return a", a=A)

    def change(value):
        m.b = value
        m.f.__code__ = (lambda: b).__code__  # noqa: F821 - a global of `m`

    return m.f, change


def closure_of_closure():
    def outer(d):
        def middle():
            def inner():
                return d[0]

            return inner

        return middle()

    d = [A]
    inner = outer(d)

    def f():
        return inner()

    return f, lambda value: operator.setitem(d, 0, value)


def wrapped():
    d = {"data": A}

    def twice(function):
        @functools.wraps(function)
        def call(*args):
            function(*args)
            return function(*args)

        return call

    @twice
    def f():
        return d["data"]

    return f, lambda value: d.update(data=value)


def static_method():
    d = {"data": A}
    s = staticmethod(lambda: d["data"])
    return (lambda: s()), lambda value: d.update(data=value)


def nested_def_reads_global():
    m = module("def f():\n    def g(): return [data for _ in range(2)][1]\n    return g()", data=A)
    return m.f, lambda value: setattr(m, "data", value)


def class_body_reads_global():
    m = module("def f():\n    class C:\n        k = data\n    return C.k", data=A)
    return m.f, lambda value: setattr(m, "data", value)


def generator_reads_global():
    m = module("def g():\n    yield data\ndef f(): return next(g())", data=A)
    return m.f, lambda value: setattr(m, "data", value)


def numba_function():
    import numba

    m = module("def g(): return data", data=A)
    m.g = numba.njit(m.g)
    n = module("def f(): return g()", "userland2", g=m.g)
    return n.f, lambda value: setattr(m, "data", value)


def bound_to_dict():
    d = {"data": A}
    get = d.get
    return (lambda: get("data")), lambda value: d.update(data=value)


def shadowed_builtin():
    m = module("def f(): return max")
    return m.f, lambda value: setattr(m, "max", value)


def object_attribute():
    m = module(BOX, DATA=A)
    box = m.Box(A)
    return (lambda: box.w), lambda value: setattr(box, "w", value)


def class_attribute():
    m = module(BOX + "\ndef f(): return Box.k", DATA=A)
    return m.f, lambda value: setattr(m.Box, "k", value)


def instance_class_attribute():
    m = module(BOX, DATA=A)
    box = m.Box(A)
    return (lambda: box.k), lambda value: setattr(m.Box, "k", value)


def bound_method():
    m = module("class M:\n    def __init__(self, w): self.w = w\n    def f(self): return self.w")
    model = m.M(A)
    return model.f, lambda value: setattr(model, "w", value)


def callable_object():
    m = module(
        "class M:\n    def __init__(self, w): self.w = w\n    def __call__(self): return self.w"
    )
    model = m.M(A)
    return model, lambda value: setattr(model, "w", value)


def method_reads_global():
    source = "class M:\n    def f(self): return data\nmodel = M()\ndef f(): return model.f()"
    m = module(source, data=A)
    return m.f, lambda value: setattr(m, "data", value)


def large_list():
    items = [A] * 1000
    return (lambda: items[5]), lambda value: operator.setitem(items, 5, value)


def large_dict_iterated():
    d = dict.fromkeys(range(1000), A)
    return (lambda: list(d.values())[5]), lambda value: d.update({5: value})


def dict_subclass():
    class D(dict):
        pass

    d = D(data=A)
    return (lambda: d["data"]), lambda value: d.update(data=value)


def cached_function():
    box = [A]
    g = functools.lru_cache(lambda: box[0])

    def change(value):
        box[0] = value
        g.cache_clear()

    return (lambda: g()), change


def decorated_by_errstate():
    d = {"data": A}

    @np.errstate(all="ignore")
    def g():
        return d["data"]

    return (lambda: g()), lambda value: d.update(data=value)


def decorated_by_contextmanager():
    import contextlib

    d = {"data": A}

    @contextlib.contextmanager
    def manager():
        yield d["data"]

    def f():
        with manager() as value:
            return value

    return f, lambda value: d.update(data=value)


def single_dispatch():
    d = {"data": A}

    @functools.singledispatch
    def g(x):
        return d["data"]

    return (lambda: g(1)), lambda value: d.update(data=value)


def private_class_attribute():
    m = module("from typing import NamedTuple\nclass P(NamedTuple):\n    n: int")
    m.P._data = A
    p = m.P(1)
    return (lambda: p._data), lambda value: setattr(m.P, "_data", value)


def class_attribute_of_dataclass():
    m = module(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    n: object = 1.0"
    )
    m.P.n = A
    return (lambda: m.P.n), lambda value: setattr(m.P, "n", value)


def vectorized():
    box = [A]
    v = np.vectorize(lambda x: box[0][0])
    return (lambda: v), lambda value: operator.setitem(box, 0, value)


def dataclass_that_is_a_dict():
    m = module("from dataclasses import dataclass\n@dataclass\nclass P(dict):\n    n: int = 1")
    p = m.P()
    p["data"] = A
    return (lambda: p["data"]), lambda value: p.update(data=value)


def bound_to_object():
    import random

    return (lambda gauss=random.gauss: gauss and None), lambda value: None


def masked_array():
    d = {"data": np.ma.masked_array(A)}
    return (lambda: d["data"]), lambda value: d.update(data=np.ma.masked_array(value))


def object_array():
    data = np.array([A, None], dtype=object)
    return (lambda: data[0]), lambda value: operator.setitem(data, 0, value)


def computed_module_attribute():
    m = module(
        "def __getattr__(name):\n"
        "    if name == 'data': return box[0]\n"
        "    raise AttributeError(name)",
        box=[A],
    )
    n = module("import userland\ndef f(): return userland.data", "userland2")
    return n.f, lambda value: operator.setitem(m.box, 0, value)


def through_descriptor():
    m = module("class M:\n    @property\n    def data(self): return box[0]\nmodel = M()", box=[A])
    model = m.model
    return (lambda: model.data), lambda value: operator.setitem(m.box, 0, value)


def reassigned_module():
    module("", data=A)

    def f():
        import userland

        return userland.data

    return f, lambda value: module("", data=value)


def attribute_of_frozen_with_method():
    m = module(
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n    w: object\n"
        "    def get(self): return data\np = P(1)\ndef f(): return p.get()",
        data=A,
    )
    return m.f, lambda value: setattr(m, "data", value)


def python_ufunc():
    box = [A]
    u = np.frompyfunc(lambda _: box[0], 1, 1)
    return (lambda: u(1)), lambda value: operator.setitem(box, 0, value)


def iterator():
    values = iter([A] * 10)

    def change(value):
        nonlocal values
        values = iter([value])

    return (lambda: next(values)), change


TRACKED = [
    rebound_global, cell, cell_contents, default, keyword_default, function_attribute,
    dict_item, dict_get, dict_values, dict_unpacked, list_item, nested_item, namespace,
    frozen_dataclass, mutable_dataclass, named_tuple, helper_global, helper_through_module,
    module_attribute, global_from_import, import_inside, from_import_inside, submodule,
    partial_argument, partial_keyword, function_in_dict, closure_of_closure, wrapped,
    static_method, nested_def_reads_global, class_body_reads_global, generator_reads_global,
    numba_function, bound_to_dict, cached_function, decorated_by_errstate,
    decorated_by_contextmanager, object_attribute, class_attribute, instance_class_attribute,
    bound_method, callable_object, method_reads_global, class_attribute_of_dataclass,
    through_descriptor, attribute_of_frozen_with_method, single_dispatch,
]  # fmt: skip
COMPARED = [  # any change: again
    rebound_function, new_code, shadowed_builtin, reassigned_module, masked_array,
]  # fmt: skip
OPAQUE = [
    large_list, large_dict_iterated, dict_subclass,
    private_class_attribute, vectorized, bound_to_object, dataclass_that_is_a_dict, object_array,
    computed_module_attribute, python_ufunc, iterator,
]  # fmt: skip


def by_name(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.__name__)


@by_name(TRACKED)
def test_a_captured_array_is_a_handle_and_its_successor_is_found(case):
    f, change = case()
    result, reads = run(f)
    assert isinstance(result, Handle)
    assert result.array is A
    assert not reads.opaque
    assert not reads.traced
    assert reads.slots == 1
    assert arrays(reads, f)[0] is A
    change(B)
    assert arrays(reads, f)[0] is B
    assert np.array_equal(f(), B)
    change(np.ones(4))  # of another shape
    assert arrays(reads, f) is None
    change(B.astype(np.float32))
    assert arrays(reads, f) is None
    change(2.0)
    assert arrays(reads, f) is None
    change(A)
    assert arrays(reads, f)[0] is A


@by_name(TRACKED)
def test_a_captured_number_is_compared_by_value(case):
    f, change = case()
    change(2.5)
    result, reads = run(f)
    assert result == 2.5
    assert type(result) is float
    assert not reads.opaque
    assert arrays(reads, f) == []
    change(float("2.5"))  # an equal object
    assert arrays(reads, f) == []
    for other in (3.5, np.float64(2.5), "2.5", A, None):
        change(other)
        assert arrays(reads, f) is None
    change(2.5)
    assert arrays(reads, f) == []


@by_name(COMPARED)
def test_another_function_or_module_is_noticed(case):
    f, change = case()
    _, reads = run(f)
    assert not reads.opaque
    assert arrays(reads, f) is not None
    change(B)
    assert arrays(reads, f) is None


@by_name(OPAQUE)
def test_what_cannot_be_compared_is_said_and_never_used_again(case):
    f, _ = case()
    result, reads = run(f)
    assert len(reads.opaque) >= 1
    assert arrays(reads, f) is None
    result = getattr(result, "array", result)
    assert result is A or result is None or callable(result) or np.array_equal(result, A)


def test_writing_into_a_captured_array_keeps_the_program():
    data = A.copy()
    f = lambda: data
    result, reads = run(f)
    data[:] = 5
    assert arrays(reads, f)[0] is data is result.array
    data.resize(2, refcheck=False)
    assert arrays(reads, f) is None


# ----------------------------------------------------------------------------- scalars and leaves

NAN = float("nan")


@pytest.mark.parametrize(
    ("old", "equal", "other"),
    [
        (NAN, float("nan"), 1.0),
        (0.0, 0.0, -0.0),
        (1.0, 1.0, 1),
        (1, 1, True),
        (10**30, 10**30, 10**30 + 1),
        (1 + 2j, 1 + 2j, complex(1, -2)),
        (complex(0.0, 0.0), complex(0.0, 0.0), complex(0.0, -0.0)),
        ("abc", "".join("abc"), "abd"),
        (b"abc", bytes(bytearray(b"abc")), "abc"),
        (None, None, 0),
        (..., ..., None),
        (slice(1, 2), slice(1, 2), slice(1, 2, 1)),
        (range(0), range(0), range(1, 1)),
        (np.float64(1), np.float64(1), np.float32(1)),
        (np.int32(1), np.int32(1), np.int64(1)),
        (np.float64(0.0), np.float64(0.0), np.float64(-0.0)),
        (np.dtype("f8"), np.dtype("<f8"), np.dtype("f4")),
        (np.float64, np.float64, np.float32),
        (Fraction(1, 3), Fraction(2, 6), Fraction(1, 2)),
        ((1, (2.0, "a")), (1, (2.0, "".join("a"))), (1, (2, "a"))),
        (frozenset({1, 2}), frozenset({2, 1}), frozenset({1, 3})),
        ({1, 2}, {2, 1}, {1.0, 2}),
        ({1: 2.0}, {1: 2.0}, {1: 3.0}),
        ([1, [2, 3]], [1, [2, 3]], [1, [2, 3, 4]]),
        ([0.0], [0.0], [-0.0]),
        (np.sin, np.sin, np.cos),
        (math.sin, math.sin, math.cos),
        (int, int, float),
        (ValueError, ValueError, TypeError),
        (list[int], list[int], list[float]),
    ],
    ids=repr,
)
def test_immutable_values_are_compared_by_type_and_value(old, equal, other):
    box = {"v": old}

    def f():
        v = box["v"]
        return list(v.values()) if isinstance(v, dict) else v

    result, reads = run(f)
    assert not reads.opaque
    assert type(result) is type(f())
    assert arrays(reads, f) == []
    if not isinstance(old, types.GenericAlias):  # by identity only
        box["v"] = equal
        assert arrays(reads, f) == []
    box["v"] = other
    assert arrays(reads, f) is None


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def test_members_of_an_enumeration_are_told_apart():
    mode = Colour.RED
    f = lambda: mode is Colour.RED
    result, reads = run(f)
    assert result is True
    assert not reads.opaque
    assert arrays(reads, f) == []
    mode = Colour.BLUE
    assert arrays(reads, f) is None


def test_an_item_that_was_not_read_may_change():
    d = {"a": A, "b": object(), "c": 1}
    f = lambda: d["a"]
    _, reads = run(f)
    assert not reads.opaque
    d["c"], d["b"] = 2, None
    assert arrays(reads, f)[0] is A


def test_a_missing_key_and_the_keys_are_logged():
    d = {"a": 1}
    by_key = lambda: d.get("b", 0)
    by_in = lambda: "b" in d
    by_length = lambda: len(d)
    by_keys = lambda: list(d)
    seen = [(f, *run(f)) for f in (by_key, by_in, by_length, by_keys)]
    assert [result for _, result, _ in seen] == [0, False, 1, ["a"]]
    assert all(arrays(reads, f) == [] for f, _, reads in seen)
    d["b"] = 7
    assert all(arrays(reads, f) is None for f, _, reads in seen)
    del d["b"]
    assert all(arrays(reads, f) == [] for f, _, reads in seen)


def test_a_dict_behaves_as_one():
    d = {"a": 1, "b": [2]}

    def f():
        assert isinstance(d, dict)
        assert d == {"a": 1, "b": [2]}
        assert {**d} == dict(d) == d.copy() == d
        assert d | {"c": 3} == {"a": 1, "b": [2], "c": 3}
        assert {"c": 3} | d == {"c": 3, "a": 1, "b": [2]}
        assert sorted(d) == ["a", "b"]
        assert list(reversed(d)) == ["b", "a"]
        assert repr(d) == "{'a': 1, 'b': [2]}"
        assert d
        with pytest.raises(KeyError, match="'x'"):
            d["x"]
        import copy

        assert type(copy.deepcopy(d)) is dict
        assert "{a}".format_map(d) == "1"
        match d:
            case {"a": one}:
                return one

    assert run(f)[0] == 1


def test_the_type_of_a_container_counts():
    box = {"v": [1, 2]}
    f = lambda: box["v"]
    _, reads = run(f)
    box["v"] = (1, 2)
    assert arrays(reads, f) is None


# ------------------------------------------------------------------------- arrays met twice, order


def test_handles_come_once_an_array_in_the_order_of_reading():
    a, b = A.copy(), B.copy()
    d = {"x": b, "y": [b, a]}

    def g():
        return a

    def f():
        return d["x"], d["y"], g()

    (x, (y0, y1), z), reads = run(f)
    assert x is y0
    assert y1 is z
    assert {*map(id, arrays(reads, f))} == {id(a), id(b)}
    assert reads.slots == 2
    d["x"] = c = b.copy()
    assert arrays(reads, f) is None  # the two paths no longer lead to one array
    d["y"][0] = c
    found = arrays(reads, f)
    assert {id(array) for array in found} == {id(a), id(c)}


def test_two_arrays_may_become_one():
    d = {"x": A, "y": B}
    f = lambda: (d["x"], d["y"])
    _, reads = run(f)
    d["y"] = A
    assert arrays(reads, f)[0] is arrays(reads, f)[1] is A


# -------------------------------------------------------------------------------- fresh functions


def make(data, k, helper=None):
    return lambda: (data, k, helper and helper())


def test_a_fresh_lambda_with_the_same_code_is_compared_through_its_cells():
    f = make(A, 2.0)
    _, reads = run(f)
    assert arrays(reads, make(A, 2.0))[0] is A
    assert arrays(reads, make(B, 2.0))[0] is B
    assert arrays(reads, f)[0] is A
    assert arrays(reads, make(B, 3.0)) is None
    assert arrays(reads, make(1.0, 2.0)) is None
    assert arrays(reads, lambda: A) is None
    assert arrays(reads, 3) is None


def test_a_fresh_helper_is_compared_through_its_own_cells():
    _, reads = run(make(A, 2.0, make(B, 1)))
    assert reads.slots == 2
    C = B + 1
    assert any(array is C for array in arrays(reads, make(A, 2.0, make(C, 1))))
    assert arrays(reads, make(A, 2.0, make(B, 2))) is None
    assert arrays(reads, make(A, 2.0, None)) is None
    assert arrays(reads, make(A, 2.0, lambda: 1)) is None


def test_a_fresh_partial_and_a_fresh_default():
    def g(data, k):
        return data

    _, reads = run(functools.partial(g, A, k=1))
    assert arrays(reads, functools.partial(g, B, k=1))[0] is B
    assert arrays(reads, functools.partial(g, B, k=2)) is None
    assert arrays(reads, functools.partial(g, B)) is None

    def fresh(value):
        def f(x=value):
            return x

        return f

    _, reads = run(fresh(A))
    assert arrays(reads, fresh(B))[0] is B
    assert arrays(reads, fresh(1)) is None


def test_the_same_code_in_another_namespace_is_another_function():
    m = module("def f(): return data", data=A)
    _, reads = run(m.f)
    other = types.FunctionType(m.f.__code__, {"data": B})
    assert arrays(reads, other) is None


def test_a_module_that_was_executed_again_with_equal_code(tmp_path):
    source = "def g(): return data\ndef f(): return g()"
    m = module(source, data=A)
    f = m.f
    _, reads = run(f)
    exec(source, m.__dict__)
    m.data = B
    assert arrays(reads, m.f)[0] is B
    exec(source.replace("return data", "return 2 * data"), m.__dict__)
    assert arrays(reads, m.f) is None


# ------------------------------------------------------------------------------ how functions run


def test_recursion():
    m = module(
        "def even(n): return True if n == 0 else odd(n - 1)\n"
        "def odd(n): return False if n == 0 else even(n - 1)\n"
    )
    result, reads = run(m.even, 10)
    assert result is True
    assert arrays(reads, m.even) == []

    def outer():
        def fact(n):
            return 1 if n == 0 else n * fact(n - 1)

        return fact

    fact = outer()
    result, reads = run(fact, 5)
    assert result == 120
    assert arrays(reads, fact) == []
    assert arrays(reads, outer()) == []


def test_functions_that_share_a_cell_still_do():
    def outer():
        n = 0

        def up():
            nonlocal n
            n += 1

        def get():
            return n

        return up, get, lambda: (up(), get())[1]

    _, get, f = outer()
    result, reads = run(f)
    assert result == 1
    assert get() == 1  # carried over
    assert "`n`" in reads.opaque[0]


def test_an_empty_cell():
    def outer(fill):
        def f():
            try:
                return later
            except NameError:
                return "empty"

        if fill:
            later = 1
        return f

    result, reads = run(outer(fill=False))
    assert result == "empty"
    assert arrays(reads, outer(fill=False)) == []
    assert arrays(reads, outer(fill=True)) is None


def test_names_that_do_not_exist_and_then_do():
    m = module("def f():\n    try: return missing\n    except NameError as e: return str(e)")
    result, reads = run(m.f)
    assert result == m.f() == "name 'missing' is not defined"
    assert arrays(reads, m.f) == []
    m.missing = 1
    assert arrays(reads, m.f) is None


def test_attributes_of_modules_that_do_not_exist_and_then_do():
    m = module("")
    n = module("import userland\ndef f(): return hasattr(userland, 'x')", "userland2")
    result, reads = run(n.f)
    assert result is False
    assert not reads.opaque
    assert arrays(reads, n.f) == []
    m.x = 1
    assert arrays(reads, n.f) is None


def test_an_exception_shows_the_user_s_file_and_lines(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("def g(x):\n    raise ValueError(f'bad {x}')\n\n\ndef f(x):\n    return g(x)\n")
    m = module("")
    exec(compile(path.read_text(), str(path), "exec"), m.__dict__)
    with pytest.raises(ValueError, match="bad 3") as caught:
        run(m.f, 3)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [(f.filename, f.lineno) for f in frames[-2:]] == [(str(path), 6), (str(path), 2)]
    assert [f.line for f in frames[-2:]] == ["return g(x)", "raise ValueError(f'bad {x}')"]


def test_the_copy_looks_like_the_function():
    def f(a, b=1, *, c: int = 2) -> float:
        """Documented."""
        return (a, b, c)

    f.tag = "x"
    g = Capture(Handle).wrap(f, "f")[0]
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "tag"):
        assert getattr(g, name) == getattr(f, name)
    assert g.__code__ is f.__code__
    assert g(0) == (0, 1, 2)
    assert g(0, 5, c=6) == (0, 5, 6)


def test_functions_as_keys_and_members():
    m = module(
        "def g(): return 1\ndef h(): return 2\n"
        "TABLE = {g: 'g', h: 'h'}\nALL = {g, h}\nPAIRS = {('a', g): 3}\n"
        "def f(): return TABLE[g], g in TABLE, g in ALL, PAIRS['a', g], [k() for k in TABLE]"
    )
    result, reads = run(m.f)
    assert result == m.f() == ("g", True, True, 3, [1, 2])
    assert not reads.opaque
    assert arrays(reads, m.f) == []


def test_functions_iterated_as_keys_run_as_copies():
    m = module(
        "def g(): return data\nTABLE = {g: 1}\ndef f(): return [k() for k in TABLE][0]", data=A
    )
    result, reads = run(m.f)
    assert isinstance(result, Handle)
    m.data = B
    assert arrays(reads, m.f)[0] is B


def test_containers_that_hold_themselves():
    items = [1]
    items.append(items)
    f = lambda: items[1][1][0]
    result, reads = run(f)
    assert result == 1
    assert reads.opaque or arrays(reads, f) is not None
    p = types.SimpleNamespace(k=1)
    p.me = p
    g = lambda: p.me.me.k
    result, reads = run(g)
    assert result == 1
    assert arrays(reads, g) == []
    p.k = 2
    assert arrays(reads, g) is None


def test_library_functions_run_as_they_are():
    from functools import reduce

    m = module("def f(): return reduce(add, [1, 2, 3]) + int(np.linalg.norm([3.0, 4.0]))")
    m.__dict__.update(reduce=reduce, add=operator.add, np=np)
    result, reads = run(m.f)
    assert result == 11
    assert not reads.opaque


def test_a_cached_function_is_called_with_traced_values_past_its_cache():
    d = {"data": A}

    @functools.lru_cache
    def g(x, y=1):
        return (x, d["data"], y)

    h = Handle(B)
    result, reads = run(lambda: g(h, 2))
    assert result[0] is h
    assert isinstance(result[1], Handle)
    assert g.cache_info().currsize == 0
    f = lambda: (g("a"), g("a", 3), g.cache_info().hits)
    result, reads = run(f)
    assert isinstance(result[0][1], Handle)
    assert len(arrays(reads, f)) == 1
    d["data"] = B
    assert arrays(reads, f)[0] is A  # so does Python
    assert f()[0][1] is A
    g.cache_clear()
    assert arrays(reads, f)[0] is B


def test_a_function_made_by_a_run_works_after_it():
    cache = {}
    m = module(
        "def f():\n    if 'g' not in cache: cache['g'] = lambda: data\n    return cache['g']()",
        data=A, cache=cache,
    )  # fmt: skip
    result, reads = run(m.f)
    assert isinstance(result, Handle)
    assert reads.opaque
    assert cache["g"]() is A
    result, reads = run(m.f)
    assert isinstance(result, Handle)
    assert not reads.opaque
    m.data = B
    assert arrays(reads, m.f)[0] is B


def test_random_numbers_are_opaque():
    f = lambda: np.random.rand()  # noqa: NPY002 - as users write it
    _, reads = run(f)
    assert "numpy.random" in reads.opaque[0]
    assert arrays(reads, f) is None
    g = lambda: np.sin(0.0)
    assert not run(g)[1].opaque


def test_a_file_named_like_a_module_of_python_is_the_user_s(tmp_path, monkeypatch):
    (tmp_path / "this.py").write_text("k = 1\ndef g(): return k\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "this", raising=False)
    this = importlib.import_module("this")
    f = lambda: this.g()
    _, reads = run(f)
    this.k = 2
    assert arrays(reads, f) is None
    monkeypatch.delitem(sys.modules, "this")


# -------------------------------------------------------------------------------------- stand-ins


def test_answers_are_found_wherever_the_function_is_read():
    def array(*args):
        return "ours"

    def size(*args):
        return 7

    module("", m=math)
    answers = {id(np.array): array, id(math.sin): np.sin, id(len): size}
    d = {"sin": math.sin}
    array_, sin_ = np.array, math.sin

    def f(default=math.sin):
        from math import sin

        import numpy
        import numpy as other
        import userland

        got = [np.array([1]), numpy.array([1]), other.array([1]), array_([1])]
        sines = [math.sin, sin, d["sin"], sin_, default, userland.m.sin]
        return got, all(s is np.sin for s in sines), len([])

    for _ in range(2):
        (got, sines, length), reads = run(f, answers=answers)
        assert got == ["ours"] * 4
        assert sines
        assert length == 7
        assert not reads.opaque
        assert arrays(reads, f) == []
    assert run(lambda: np.array([1]))[0].shape == (1,)  # others are not told


def test_modules_look_like_modules():
    m = module("", x=1)
    n = module("import userland\ndef f(): return userland, np, np.linalg", "userland2", np=np)
    (u, numpy_, linalg), _ = run(n.f)
    assert isinstance(u, types.ModuleType)
    assert isinstance(numpy_, types.ModuleType)
    assert numpy_.__name__ == "numpy"
    assert linalg.norm is np.linalg.norm
    assert "sin" in dir(numpy_)
    assert u is not m
    assert numpy_.__version__ == np.__version__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        numpy_.nothing  # noqa: B018 - the lookup is what raises


def test_isinstance_of_a_module_s_class():
    f = lambda: isinstance(A, np.ndarray) or isinstance(1.0, np.floating | float)
    assert run(f)[0] is True


def test_traced_values_pass_and_are_noted():
    outer = Handle(A)
    f = lambda: outer
    result, reads = run(f)
    assert result is outer
    assert reads.traced
    assert arrays(reads, f) is None


def test_functions_of_an_enclosing_run_pass_as_they_are():
    d = {"data": A}
    g = lambda: d["data"]

    def f():
        inner = Capture(Handle)
        result = inner.private(g)()
        return result, inner.finish()

    (result, inner), reads = run(f)
    assert isinstance(result, Handle)
    assert not inner.slots
    assert not inner.traced
    assert reads.slots == 1


def test_functions_of_fdiff_pass_as_they_are():
    call = types.FunctionType(
        (lambda: 1).__code__, {"__name__": "fdiff.functional.operators.products"}
    )
    f = lambda: call
    result, reads = run(f)
    assert result is call
    assert not reads.opaque

    @functools.wraps(call)
    def mine():
        return data

    mine.__fdiff__ = "grad"  # what wraps() copies does not make it one of ours
    data = A
    result, reads = run(lambda: mine())
    assert isinstance(result, Handle)


# ------------------------------------------------------------------------------------------ writes


def test_a_global_that_f_writes_is_carried_over():
    m = module(
        "n = 1\ndef f():\n    global n, new\n    n += 1\n    new = data\n    return n", data=A
    )
    result, reads = run(m.f)
    assert result == m.n == 2
    assert m.new is A  # not the handle
    assert any("`n`" in words for words in reads.opaque)
    assert arrays(reads, m.f) is None


def test_a_global_that_f_deletes_is_gone():
    m = module("n = 1\ndef f():\n    global n\n    n\n    del n")
    run(m.f)
    assert not hasattr(m, "n")


@pytest.mark.parametrize(
    "body",
    [
        "d['k'] = 2",
        "d.update(k=2)",
        "d.pop('a')",
        "d.setdefault('k', 2)",
        "del d['a']",
        "d.clear()",
    ],
)
def test_writes_to_a_dict_go_through(body):
    m, expected = (
        module(f"d = {{'a': 1}}\ndef f(): {body}"),
        module(f"d = {{'a': 1}}\ndef f(): {body}"),
    )
    expected.f()
    _, reads = run(m.f)
    assert m.d == expected.d
    assert "write to the dict `d`" in reads.opaque[0]


def test_writes_to_other_containers_are_carried_over():
    items, members, p, q = [1], {1}, types.SimpleNamespace(k=1), Mutable(A)

    def f():
        items.append(A)
        members.add(2)
        p.k, p.new = 5, 6
        q.n = 9
        f.calls = 1

    f.calls = 0
    _, reads = run(f)
    assert items[0] == 1
    assert items[1] is A
    assert members == {1, 2}
    assert vars(p) == {"k": 5, "new": 6}
    assert (q.data is A, q.n) == (True, 9)
    assert f.calls == 1
    assert len(reads.opaque) == 6


def test_writes_to_a_module_are_carried_over():
    m = module("k = 1\ndef get(): return k")
    n = module(
        "import userland\ndef f():\n    userland.k = 2\n    return userland.get()", "userland2"
    )
    result, reads = run(n.f)
    assert result == m.k == 2
    assert "userland.k" in reads.opaque[0]


def test_traced_values_that_are_kept_may_be_settled():
    m = module("class C:\n    pass\nobj = C()\ndef f(x): global k; k = obj.k = [x]")
    capture = Capture(Handle, settle=lambda value: value.array)
    capture.private(m.f)(Handle(A))
    capture.finish()
    assert m.k is m.obj.k
    assert m.k[0] is A


def test_writes_are_kept_when_f_raises():
    m = module("n = 1\ndef f():\n    global n\n    n = 2\n    raise ValueError")
    capture = Capture(Handle)
    with pytest.raises(ValueError):
        capture.private(m.f)()
    capture.finish()
    assert m.n == 2


def test_warnings_are_shown_once_a_line_as_ever():
    m = module("import warnings\ndef f(): warnings.warn('odd', UserWarning)")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            _, reads = run(m.f)
            assert not reads.opaque
    assert len(seen) == 1


# ---------------------------------------------------------------------------- nothing else notices


def test_other_threads_see_nothing():
    m = module("def f(wait): wait(); return data, np.array([1])", data=A, np=np)
    started, go, seen = threading.Event(), threading.Event(), []

    def wait():
        started.set()
        go.wait(10)

    thread = threading.Thread(
        target=lambda: seen.append(run(m.f, wait, answers={id(np.array): len}))
    )
    thread.start()
    started.wait(10)
    data, made = m.f(lambda: None)
    assert data is A
    assert made.shape == (1,)
    go.set()
    thread.join()
    (data, made), _ = seen[0]
    assert isinstance(data, Handle)
    assert made == 1


def test_the_user_s_objects_are_as_they_were():
    m = module("def g(): return data\ndef f(): return g(), np.pi, len([])", data=A, np=np)
    before, names = dict(m.__dict__), set(vars(np))
    run(m.f)
    assert m.__dict__ == before
    assert set(vars(np)) == names


def test_a_value_changed_while_f_runs_is_not_taken_for_the_one_read():
    m = module("k = 1\ndef f(change):\n    seen = k\n    change()\n    return seen")
    result, reads = run(m.f, lambda: setattr(m, "k", 2))
    assert result == 1
    assert arrays(reads, m.f) is None


def test_refresh_from_many_threads():
    d = {"data": A}
    f = lambda: d["data"]
    _, reads = run(f)
    wrong = []

    def look():
        wrong.extend(
            1 for _ in range(2000) if (got := reads.refresh(f)) is None or got[0] not in pair
        )

    class Either:
        def __contains__(self, array):
            return array is A or array is B

    pair = Either()
    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(2000):
        d["data"] = (A, B)[k % 2]
    for thread in threads:
        thread.join()
    assert not wrong


def test_nothing_of_the_run_is_kept_alive():
    kept = []

    class Mine(Handle):
        def __init__(self, array):
            super().__init__(array)
            kept.append(weakref.ref(self))

    m = module("def g(): return data\ndef f():\n    g()\n    return np.sin(0.0)", data=A, np=np)
    gc.collect()
    gc.disable()
    try:
        capture = Capture(Mine)
        capture.private(m.f)()
        reads = capture.finish()
        del capture
        assert kept[0]() is None
    finally:
        gc.enable()
    assert reads.slots == 1


# -------------------------------------------------------------------------------- real user code


def test_real_code_of_users_is_read_whole():
    from user_code import gmm, nist

    d = {"x": np.array([1.0, 2.0]), "y": np.array([1.0, 2.0])}
    result, reads = run(lambda: nist.MODELS["Misra1a"](np.ones(2), 1.0))
    assert result == pytest.approx(1 - np.exp(-1.0))
    assert not reads.opaque
    result, reads = run(lambda: nist.residuals(np.ones(4), "Misra1a", {"x": 1.0, "y": 0.0}))
    assert not reads.opaque
    f = lambda: d["x"]
    assert arrays(run(f)[1], f)[0] is d["x"]
    rng = np.random.default_rng(0)
    args = [rng.normal(size=s) for s in [(2,), (2, 2), (2, 3), (5, 2)]]
    result, reads = run(gmm.objective, *args, 1.0, 0)
    assert result == gmm.objective(*args, 1.0, 0)
    assert not reads.opaque
    assert arrays(reads, gmm.objective) == []
