"""Every form of call by its shortcut: the results of the general way, and no reference lost."""

import enum
import functools
import gc
import math
import pickle
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest
from undisturbed import undisturbed

import fdiff
from fdiff.dispatch.fast_paths.fast_path import FastPath
from fdiff.errors import InputError
from fdiff.functional.call import invocation
from fdiff.trace.trace_stack import occupied

X, Y = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.5, 2.5])
SCALE = [2.0]
DATA = {"w": np.array([1.0, 0.5, 0.25])}
Pair = namedtuple("Pair", "x y")  # noqa: PYI024 - as users write it


class Other(Pair):
    """A named tuple of another class, built alike."""


@dataclass
class Params:
    w: Any
    b: Any = 1.0


@dataclass
class Settled:
    """A dataclass that makes arrays of what it is given."""

    w: Any
    b: Any = field(default=1.0)

    def __post_init__(self):
        self.w = np.asarray(self.w)


class Kind(enum.IntEnum):
    ONE = 1
    TWO = 2


class Sub(np.ndarray):
    """An array of a class of its own."""


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.delitem(occupied, "kinks", raising=False)


@pytest.fixture
def general(monkeypatch):
    """How often the general way was gone."""
    found = []
    old = invocation.result_of_call
    monkeypatch.setattr(invocation, "result_of_call", lambda *a: found.append(a) or old(*a))
    return found


def leaves(tree):
    """Leaves with a number for the place of each, so that a change of structure tells."""
    if isinstance(tree, dict):
        return [(len(key) + n, x) for key, v in tree.items() for n, x in leaves(v)]
    if isinstance(tree, (list, tuple)):
        return [(k + n, x) for k, v in enumerate(tree) for n, x in leaves(v)]
    if isinstance(tree, (Params, Settled)):
        return [(7 + n, x) for n, x in leaves((tree.w, tree.b))]
    return [(1, tree)]


def model(*args, **kwargs):
    total = SCALE[0] * np.sum(DATA["w"])
    for k, (n, x) in enumerate(leaves((args, kwargs))):
        if x is None or isinstance(x, (str, bytes, bool, int, np.integer, np.bool_, Fraction)):
            total = total + len(repr(x)) * n
        else:
            total = total + (k + n) * np.sum(x * x) + np.sum(np.sin(x))
    return total


def with_aux(*args, **kwargs):
    value = model(*args, **kwargs)
    return value, {"half": 0.5 * value, "tag": ("a", 1, None), "count": [len(args), len(kwargs)]}


def rows(*args, **kwargs):
    return X * model(*args, **kwargs)


def another(text):
    """An equal string that is another object."""
    return text.encode().decode()


def dicts(rng):
    a, b = rng.normal(size=3), rng.normal(size=3)
    return [
        (({"w": a, "b": 2.0},), {}), (({"b": 2.0, "w": a},), {}), (({"w": a, "bb": 2.0},), {}),
        (({"w": a, "b": b},), {}), (({"w": a},), {}), (({"w": a, "b": np.float64(2.0)},), {}),
        ((OrderedDict(w=a, b=2.0),), {}), (({another("weights"): a},), {}), (({"weights": a},), {}),
        (({"w": {"u": a}, "b": [b, a]},), {}), (({"w": {"u": a}, "b": (b, a)},), {}),
        (({"w": a[::-1], "b": -1.0},), {}), (({"w": a.astype(np.float32), "b": 2.0},), {}),
    ]  # fmt: skip


def sequences(rng):
    a, b = rng.normal(size=3), rng.normal(size=3)
    return [
        (([a, b],), {}), (((a, b),), {}), (([a, b, a],), {}), (([a],), {}), (([b, [a]],), {}),
        ((Pair(a, b),), {}), ((Other(a, b),), {}), ((Params(a, b),), {}), ((Params(a),), {}),
        ((Settled(a, b),), {}), (([a, 0.5],), {}), (([a, np.array(0.5)],), {}), (([],), {}),
        (([a, np.arange(6.0)[::2]],), {}), ((np.array([a, b]),), {}),
    ]  # fmt: skip


def numbers(rng):
    t = float(rng.normal())
    return [
        ((t,), {}), ((np.float64(t),), {}), ((np.float32(t),), {}), ((np.array(t),), {}),
        ((np.array([t]),), {}), ((np.array(t, np.float32),), {}), ((t, 3), {}), ((t, True), {}),
        ((t, 1), {}), ((t, "one"), {}), ((t, another("one")), {}), ((t, None), {}),
        ((t, 10**30), {}), ((t, 10 ** int("30")), {}), ((t, np.float64(t)), {}), ((t, 2j), {}),
        ((np.array(t).astype(">f8"),), {}), ((t, 1.0), {}), ((t, np.True_), {}),
        ((t, Kind.ONE), {}), ((t, Kind.TWO), {}), ((t, np.int64(3)), {}), ((t, b"one"), {}),
        ((t, Fraction(1, 2)), {}),
    ]  # fmt: skip


def keywords(rng):
    a, b = rng.normal(size=3), rng.normal(size=3)
    return [
        ((a,), {"y": b}), ((a, b), {}), ((a,), {"y": b, "z": 2.0}), ((a,), {"z": 2.0, "y": b}),
        ((a,), {"z": b}), ((a,), {"y": np.float64(1.5)}), ((a,), {"y": "text"}),
        ((a,), {"y": b[::-1]}), ((a,), {"y": {"u": b}}), ((a,), {another("yy"): b}),
        ((a,), {"yy": b}),
        ((pickle.loads(pickle.dumps(a)),), {"y": b}), ((a.view(Sub),), {"y": b}),
        ((np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(float),), {"y": b}),
        ((a.astype(">f8"),), {"y": b}), ((a,), {}), ((a, a), {}),
    ]  # fmt: skip


FORMS = {"dicts": dicts, "sequences": sequences, "numbers": numbers, "keywords": keywords}
OPERATORS = {
    "jit": (fdiff.jit, model),
    "grad": (fdiff.grad, model),
    "value_and_grad": (fdiff.value_and_grad, model),
    "has_aux": (functools.partial(fdiff.value_and_grad, has_aux=True), with_aux),
    "jit(value_and_grad)": (lambda f: fdiff.jit(fdiff.value_and_grad(f)), model),
    "jacrev": (fdiff.jacrev, rows),
}


def outcome(call, args, kwargs):
    """What a call gives, or the error it raises."""
    try:
        return call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - errors must be the same ones too
        return type(error), str(error)


def equal(a, b):
    """Whether two results are the same to the last bit, and of the same classes."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, (Params, Settled)):
        return equal(a.w, b.w) and equal(a.b, b.b)
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return a == b


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("form", FORMS)
def test_forms_in_any_order_give_what_the_general_way_gives(form, operator, monkeypatch):
    rng = np.random.default_rng([*form.encode(), *operator.encode()])
    make, f = OPERATORS[operator]
    quick, slow = make(f), make(f)
    still, old = [], FastPath.seek
    monkeypatch.setattr(FastPath, "seek", lambda *a: None if still else old(*a))
    given = FORMS[form](rng)
    for turn in range(120):
        args, kwargs = given[rng.integers(len(given))]
        for _ in range(rng.integers(1, 4)):  # so that what was just used is used again
            found = outcome(quick, args, kwargs)
        still.append(turn)
        wanted = outcome(slow, args, kwargs)
        still.clear()
        assert equal(found, wanted), (turn, args, kwargs)
        _disturb(rng, args)
    SCALE[0], DATA["w"] = 2.0, np.array([1.0, 0.5, 0.25])
    assert isinstance(quick.implementation, BuiltinFunctionType)
    assert not isinstance(slow.implementation, BuiltinFunctionType)


def _disturb(rng, args):
    """Something that a call reads changes: in its arguments, or outside of them."""
    what = rng.integers(8)
    if what == 0:
        SCALE[0] = float(rng.integers(1, 4))
    elif what == 1:
        DATA["w"] = DATA["w"] + 1.0
    elif what == 2:
        DATA["w"][0] = 7.0
    tree = args[0]
    if what == 3 and isinstance(tree, list) and len(tree) > 1:
        tree.append(tree.pop(0))
    elif what == 4 and isinstance(tree, dict):
        key = next(iter(tree))
        tree[key] = tree.pop(key)  # now the last
    elif what == 5 and isinstance(tree, Params):
        tree.w = tree.w[::-1]
    elif what == 6 and isinstance(tree, np.ndarray) and tree.ndim and tree.flags.writeable:
        tree[0] = 0.25


def several(x):
    twice, total = 2.0 * x, np.sum(x)
    return twice, [twice, total], {"both": (total, twice)}, x * total


HOT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "array": (fdiff.value_and_grad(model), (X,), {}),
    "jit of grad": (fdiff.jit(fdiff.grad(model)), (X,), {}),
    "vmap of grad": (fdiff.vmap(fdiff.grad(model)), (np.ones((4, 3)),), {}),
    "vmap of jacobian": (fdiff.vmap(fdiff.jacobian(np.sin)), (np.ones((4, 3)),), {}),
    "dict": (fdiff.grad(model), ({"w": X, "b": 2.0},), {}),
    "nested": (fdiff.value_and_grad(model), ({"a": {"w": X}, "b": [Y, (X, 0.5)]},), {}),
    "list": (fdiff.grad(model), ([X, Y],), {}),
    "named tuple": (fdiff.grad(model), (Pair(X, Y),), {}),
    "dataclass": (fdiff.grad(model), (Params(X, Y),), {}),
    "settled": (fdiff.grad(model), (Settled(X, Y),), {}),
    "aux": (fdiff.value_and_grad(with_aux, has_aux=True), (X,), {}),
    "keywords": (fdiff.grad(model), (X,), {"y": Y, "option": "text"}),
    "options": (fdiff.grad(model), (X, 3, True, None, "text"), {}),
    "an enumeration": (fdiff.grad(model), (X, Kind.TWO), {}),
    "np.float64": (fdiff.grad(model), (np.float64(0.5),), {}),
    "np.float32": (fdiff.grad(model), (np.float32(0.5),), {}),
    "without axes": (fdiff.grad(model), (np.array(0.5),), {}),
    "argnums": (fdiff.grad(model, (1, 0)), (X, [Y, Y]), {}),
    "vjp of two": (fdiff.vjp(rows, argnums=(0, 1)), ((X, Y), X), {}),
    "hvp": (fdiff.hvp(model), (X, Y), {}),
    "outputs at several places": (fdiff.jit(several), (X,), {}),
    "immediate": (lambda x, y: fdiff.jacobian(rows, (x, y)), (X, Y), {}),
    "immediate with a vector": (lambda x, v: fdiff.hvp(model, x, v), (X, Y), {}),
    "out": (fdiff.grad(model), (X,), {"out": np.zeros(3)}),
    "out in a tuple": (fdiff.grad(model, (0, 1)), (X, Y), {"out": (np.zeros(3), None)}),
    "out in a dict": (fdiff.grad(model), ({"w": X, "b": Y},), {"out": {"w": X + 1, "b": None}}),
}


@pytest.mark.parametrize("name", HOT)
def test_a_hot_form_loses_no_reference_and_keeps_none(name, general):
    call, args, kwargs = HOT[name]
    wanted = call(*args, **kwargs)
    for _ in range(5):
        call(*args, **kwargs)
    general.clear()
    assert equal(call(*args, **kwargs), wanted)
    assert not general, "no shortcut"
    watched = [x for _, x in leaves((args, kwargs))] + [args, None, np.dtype(float), X, "text"]
    watched += [x for x in args if not isinstance(x, np.ndarray)]
    turns = range(25_000)
    gc.collect()
    call(*args, **kwargs)

    def measure():
        counts, blocks = [*map(sys.getrefcount, watched)], sys.getallocatedblocks()
        pages = resident()
        for _ in turns:
            call(*args, **kwargs)
        grown = sys.getallocatedblocks() - blocks
        assert [*map(sys.getrefcount, watched)] == pytest.approx(counts, abs=50)
        assert abs(grown) < 500
        assert resident() - pages < 64  # of 4 KiB: 10 bytes a call

    undisturbed(measure)
    assert not general


def resident():
    """Pages of memory this process has."""
    path = Path("/proc/self/statm")
    return int(path.read_text(encoding="ascii").split()[1]) if path.exists() else 0


@pytest.mark.parametrize("name", HOT)
def test_results_of_a_hot_form_are_the_callers_own(name):
    call, args, kwargs = HOT[name]
    for _ in range(5):
        call(*args, **kwargs)
    first, second = call(*args, **kwargs), call(*args, **kwargs)
    given = {id(x) for _, x in leaves(kwargs.get("out", ()))}
    mine = [x for x in arrays(first) if id(x) not in given]
    others = [*arrays(second), *arrays((args, kwargs))]
    assert not any(np.shares_memory(a, b) for a in mine for b in others)
    assert all(a.flags.writeable and a.flags.owndata for a in mine)


def arrays(tree):
    return [x for _, x in leaves(tree) if isinstance(x, np.ndarray)]


def test_out_is_written_only_where_nothing_else_lies(general):
    call, memory = fdiff.grad(lambda x, y: np.sum(np.sin(x) * y)), np.arange(12.0)
    for _ in range(6):
        call(memory[:3], memory[3:6], out=memory[6:9])
    general.clear()
    wanted = np.cos(memory[:3]) * memory[3:6]
    assert call(memory[:3], memory[3:6], out=memory[6:9]).base is memory
    np.testing.assert_array_equal(memory[6:9], wanted)
    assert not general
    for lo in range(7):  # over an argument, and beside it
        memory = np.arange(12.0)
        wanted = np.cos(memory[:3]) * memory[3:6]
        found = call(memory[:3], memory[3:6], out=memory[lo : lo + 3])
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(memory[lo : lo + 3], wanted)
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    with pytest.raises(InputError, match="read-only"):
        call(X, Y, out=read_only)


def test_other_threads_may_change_what_was_unpacked():
    import threading

    params = {"w": X.copy(), "b": 2.0}
    call = fdiff.grad(lambda p: np.sum(np.sin(p["w"]) * p["b"]))
    for _ in range(6):
        call(params)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            params["w"] = np.array([1.0, 2.0, 3.0])

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(50_000):
            found = call(params)
    finally:
        stop.set()
        other.join()
    np.testing.assert_array_equal(found["w"], 2.0 * np.cos(X))
    assert math.isclose(found["b"], np.sum(np.sin(X)))
