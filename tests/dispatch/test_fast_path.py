"""The short way of a prepared function that is called again: what it must not overlook."""

import os
import subprocess
import sys
import threading
from types import BuiltinFunctionType

import numpy as np
import pytest

import fdiff
from fdiff.functional.call import invocation
from fdiff.trace import Trace
from fdiff.trace.trace_stack import occupied

X = np.array([1.0, 2.0, 3.0])
A = np.array([[2.0, 1.0, 0.0], [0.5, 3.0, 1.0], [1.0, 0.0, 4.0]])
SCALE = 2.0
WEIGHTS = np.array([1.0, 0.5, 0.25])


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.delitem(occupied, "kinks", raising=False)  # as if nobody had asked for errors


@pytest.fixture(autouse=True)
def general(monkeypatch):
    """How often the general way was gone."""
    found = []
    old = invocation.result_of_call
    monkeypatch.setattr(invocation, "result_of_call", lambda *a: found.append(a) or old(*a))
    return found


def warmed(call, *args):
    for _ in range(4):
        call(*args)
    assert isinstance(call.implementation, BuiltinFunctionType)
    return call


def quickly(call, general, *args):
    """What the fast path alone gives."""
    count = len(general)
    result = call(*args)
    assert len(general) == count
    return result


def cube(x):
    return np.sum(x**3)


def test_angles_out_of_range_take_no_python(general):
    f = lambda x: np.sum(np.sin(x) * np.cos(3.0 * x))
    call = fdiff.value_and_grad(f)
    near, far = X, X * 1e15
    for x in (near, far) * 16:  # the builtin is made anew for angles that have come up
        call(x)
    assert isinstance(call.implementation, BuiltinFunctionType)
    for x in (far, near, far[::-1].copy(), near, far):
        value, slope = quickly(call, general, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        exact = np.cos(x) * np.cos(3.0 * x) - 3.0 * np.sin(x) * np.sin(3.0 * x)
        np.testing.assert_allclose(slope, exact, rtol=1e-12, atol=1e-13)
    with pytest.warns(RuntimeWarning, match="invalid value"):  # NumPy's own, of infinite angles
        assert np.isnan(call(np.array([1.0, np.inf, 2.0]))[0])


MADE = {
    "jit": (fdiff.jit(cube), (X,), 36.0),
    "grad": (fdiff.grad(cube), (X,), 3 * X**2),
    "value_and_grad": (fdiff.value_and_grad(cube), (X,), (36.0, 3 * X**2)),
    "jacobian": (fdiff.jacobian(lambda x: x**2), (X,), np.diag(2 * X)),
    "hessian": (fdiff.hessian(cube), (X,), np.diag(6 * X)),
    "hvp": (fdiff.hvp(cube), (X, X[::-1].copy()), 6 * X * X[::-1]),
    "vjp": (fdiff.vjp(lambda x: x**2), (X, X), (X**2, 2 * X * X)),
    "jvp": (fdiff.jvp(lambda x: x**2), (X, X), (X**2, 2 * X * X)),
    "pair": (fdiff.jacobian(lambda x: (x**2, x[0] * x)), (X,), None),
    "of a float": (fdiff.grad(lambda x, s: np.sum(x) * s), (X, 2.0), np.full(3, 2.0)),
    "product": (fdiff.grad(lambda x, a: x @ a @ x), (X, A), (A + A.T) @ X),
    "solve": (fdiff.jacobian(lambda x, a: np.linalg.solve(a, x)), (X, A), np.linalg.inv(A)),
    "two": (fdiff.grad(lambda x, y: np.sum(x * y), argnums=(0, 1)), (X, X**2), (X**2, X)),
}


@pytest.mark.parametrize("name", MADE)
def test_results_are_those_of_the_general_way(name):
    call, args, wanted = MADE[name]
    first = call(*args)
    warmed(call, *args)
    again = call(*args)
    assert type(again) is type(first)
    for a, b in zip(_leaves(first), _leaves(again), strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)
    if wanted is not None:
        for a, b in zip(_leaves(again), _leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)


def _leaves(value):
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple) else [value]


def test_the_shortcut_is_gone(general):
    call = warmed(fdiff.value_and_grad(lambda x: np.sum(x**4)), X)
    value, slope = quickly(call, general, X)
    np.testing.assert_allclose(value, np.sum(X**4))
    np.testing.assert_allclose(slope, 4 * X**3)


def test_small_strided_arrays_are_copied_on_the_way(general):
    table = np.arange(18.0).reshape(6, 3) + 1.0
    scale = table[1::2, 2]
    call = warmed(fdiff.grad(lambda x, y: np.sum(scale * x**2 * y)), table[::2, 0], table[:3, 1])
    found = quickly(call, general, table[::2, 0], table[:3, 1])
    np.testing.assert_allclose(found, 2 * scale * table[::2, 0] * table[:3, 1])
    odd = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(float)
    np.testing.assert_allclose(quickly(call, general, odd, X), 2 * scale * X * X)


def test_results_are_the_callers_own():
    call = warmed(fdiff.grad(cube), X)
    first, second = call(X), call(X)
    first[:] = 0.0
    np.testing.assert_allclose(second, 3 * X**2)
    np.testing.assert_allclose(call(X), 3 * X**2)


def test_other_types_and_layouts_go_the_general_way():
    call = warmed(fdiff.grad(cube), X)
    for x in (
        np.arange(4.0),
        X.astype(np.float32),
        X.astype(">f8"),
        np.arange(6.0)[::2],
        np.arange(3.0)[::-1],
        np.asarray(X)[None],
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(float),
    ):
        slope = call(x)
        assert slope.dtype == x.dtype.newbyteorder("=")
        np.testing.assert_allclose(slope, 3 * x.astype(float) ** 2)
    with pytest.raises(TypeError):
        call(None)
    with pytest.raises(TypeError):
        call(X, X)
    with pytest.raises(TypeError):
        call()
    np.testing.assert_allclose(call(x=X) if False else call(X), 3 * X**2)


def test_what_is_read_outside_is_read_again(monkeypatch):
    def f(x):
        return np.sum(SCALE * WEIGHTS * x**2)

    call = warmed(fdiff.grad(f), X)
    monkeypatch.setitem(f.__globals__, "SCALE", 3.0)
    np.testing.assert_allclose(call(X), 6 * WEIGHTS * X)
    warmed(call, X)
    kept = WEIGHTS.copy()
    WEIGHTS[0] = 7.0  # written in place: no new trace, the new value
    try:
        np.testing.assert_allclose(call(X), 6 * WEIGHTS * X)
    finally:
        WEIGHTS[:] = kept
    monkeypatch.setitem(f.__globals__, "WEIGHTS", np.array([5.0, 5.0, 5.0]))
    np.testing.assert_allclose(call(X), 30 * X)
    monkeypatch.setitem(f.__globals__, "WEIGHTS", np.arange(6.0)[::2])
    np.testing.assert_allclose(call(X), 6 * np.arange(6.0)[::2] * X)
    f.__code__ = (lambda x: np.sum(2 * x)).__code__
    np.testing.assert_allclose(call(X), np.full(3, 2.0))


def test_a_variable_that_is_deleted():
    factor = 2.0

    def f(x):
        return np.sum(factor * x**2)

    call = warmed(fdiff.grad(f), X)
    del factor
    with pytest.raises(NameError):
        call(X)
    factor = 3.0
    np.testing.assert_allclose(call(X), 6 * X)


def test_closures_of_the_same_code_are_not_mixed_up():
    def make(a):
        return fdiff.grad(lambda x: np.sum(a * x**2))

    calls = [warmed(make(a), X) for a in (1.0, 2.0, np.array([1.0, 2.0, 3.0]))]
    for _ in range(2):
        for call, a in zip(calls, (1.0, 2.0, X), strict=True):
            np.testing.assert_allclose(call(X), 2 * a * X)


def test_vectors_of_other_types():
    call = warmed(fdiff.hvp(cube), X, X)
    np.testing.assert_allclose(call(X, np.array([1, 0, 0])), [6.0, 0.0, 0.0])
    with pytest.raises(fdiff.errors.VectorError):
        call(X, np.ones(4))
    with pytest.raises(fdiff.errors.VectorError):
        call(X)
    integers = fdiff.hvp(cube)
    for _ in range(6):
        np.testing.assert_allclose(integers(X, np.array([1, 0, 0])), [6.0, 0.0, 0.0])


def test_inside_another_trace():
    call = warmed(fdiff.grad(cube), X)
    outer = fdiff.grad(lambda y: np.sum(y * call(X)) + np.sum(call(y)))
    for _ in range(4):
        np.testing.assert_allclose(outer(X), 3 * X**2 + 6 * X)


def test_branches_keep_to_their_guards():
    call = fdiff.grad(lambda x: np.sum(x**2) if x[0] > 0 else np.sum(x))
    for _ in range(8):
        np.testing.assert_allclose(call(X), 2 * X)
        np.testing.assert_allclose(call(-X), np.ones(3))
    assert isinstance(call.implementation, BuiltinFunctionType)
    np.testing.assert_allclose(call(np.array([0.0, 1.0, 2.0])), np.ones(3))


def test_errors_of_kernels_are_those_of_the_general_way():
    def f(a):
        return np.sum(np.linalg.inv(a))

    call = warmed(fdiff.grad(f), np.eye(3))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        call(np.zeros((3, 3)))
    np.testing.assert_allclose(call(np.eye(3)), -np.ones((3, 3)))


def test_kinks_are_looked_for():
    call = warmed(fdiff.grad(lambda x: np.sum(np.abs(x))), X)
    with fdiff.kinks("raise"), pytest.raises(fdiff.errors.FdiffError, match="no derivative"):
        call(np.zeros(3))


def test_threads():
    call = warmed(fdiff.value_and_grad(cube), X)
    wrong = []

    def work(k):
        for n in range(300):
            x = X * (k + 1) if n % 2 else np.arange(float(k + 2))
            value, slope = call(x)
            if not (np.allclose(value, np.sum(x**3)) and np.allclose(slope, 3 * x**2)):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- out= -------------------------------------------------------------------------------------

EMPTY = {
    "jit of an array": (fdiff.jit(lambda x: x**2), (X,), lambda: np.empty(3)),
    "grad": (fdiff.grad(cube), (X,), lambda: np.empty(3)),
    "value_and_grad": (fdiff.value_and_grad(cube), (X,), lambda: (None, np.empty(3))),
    "jacobian": (fdiff.jacobian(lambda x: x**2), (X,), lambda: np.empty((3, 3))),
    "hessian": (fdiff.hessian(cube), (X,), lambda: np.empty((3, 3))),
    "hvp": (fdiff.hvp(cube), (X, X[::-1].copy()), lambda: np.empty(3)),
    "jvp": (fdiff.jvp(lambda x: x**2), (X, X), lambda: (np.empty(3), np.empty(3))),
    "two": (
        fdiff.grad(lambda x, y: np.sum(x * y), argnums=(0, 1)),
        (X, X**2),
        lambda: (np.empty(3), None),
    ),
    "dict": (
        fdiff.grad(lambda p: np.sum(p["a"] * p["b"])),
        ({"a": X, "b": X**2},),
        lambda: {"a": np.empty(3), "b": None},
    ),
}


def places(value):
    return list(value.values()) if isinstance(value, dict) else _leaves(value)


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("name", EMPTY)
def test_results_are_written_where_out_says(name, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    call, args, empty = EMPTY[name]
    wanted = call(*args)
    for _ in range(6):
        out = empty()
        found = call(*args, out=out)
        for place, a, b in zip(places(out), places(found), places(wanted), strict=True):
            assert place is None or a is place
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("before", range(6))
def test_out_has_a_fast_path_however_often_the_function_was_called_without(before, general):
    slope, out = fdiff.grad(cube), np.empty_like(X)
    for _ in range(before):
        slope(X)
    for _ in range(40):
        slope(X, out=out)
    count = len(general)
    assert slope(X, out=out) is out
    assert len(general) == count
    np.testing.assert_allclose(out, 3 * X**2)


def test_out_may_be_an_argument_or_a_view_of_one():
    def f(x):
        return np.sum(x[1:] * x[:-1] ** 2)

    slope = fdiff.grad(f)
    wanted, memory = slope(X), np.empty(6)
    for _ in range(6):
        for make in (X.copy, lambda: memory[:3]):
            x = make()
            x[:] = X
            assert slope(x, out=x) is x
            np.testing.assert_allclose(x, wanted)
        memory[1:4] = X
        slope(memory[1:4], out=memory[:3])
        np.testing.assert_allclose(memory[:3], wanted)


def test_out_of_another_kind_is_refused():
    slope, both = fdiff.grad(cube), fdiff.value_and_grad(cube)
    frozen = np.empty(3)
    frozen.flags.writeable = False
    for _ in range(5):
        assert slope(X, out=None) is not None
        for out in (np.empty(4), np.empty((1, 3)), frozen, [np.empty(3)], 3.0):
            with pytest.raises(fdiff.errors.InputError, match=r"grad\(cube\): out"):
                slope(X, out=out)
        with pytest.raises(fdiff.errors.DtypeError, match="float32"):
            slope(X, out=np.empty(3, np.float32))
        with pytest.raises(fdiff.errors.InputError, match="not built like the result"):
            both(X, out=np.empty(3))
        np.testing.assert_allclose(slope(X, out=np.empty((3, 2))[:, 0]), 3 * X**2)


def test_an_out_of_the_function_is_the_functions_own():
    def f(x, out=2.0):
        return np.sum(out * x)

    np.testing.assert_allclose(fdiff.grad(f)(X, out=3.0), np.full(3, 3.0))

    def any_(x, **options):
        return np.sum(x) * options["out"]

    np.testing.assert_allclose(fdiff.grad(any_)(X, out=3.0), np.full(3, 3.0))


def test_results_are_not_written_over_one_another():
    two = fdiff.grad(lambda x, y: np.sum(x * y), argnums=(0, 1))
    memory = np.arange(6.0)
    for _ in range(6):
        for out in ((memory[:3], memory[2:5]), (memory[1:4],) * 2):
            with pytest.raises(fdiff.errors.InputError, match=r"grad\(<lambda>\).*share memory"):
                two(X, X**2, out=out)
        np.testing.assert_array_equal(memory, np.arange(6.0))  # nothing was written
        found = two(X, X**2, out=(memory[::2], memory[1::2]))
        np.testing.assert_allclose(found, (X**2, X))
        memory[:] = np.arange(6.0)


class Model:
    power = 2.0

    def __init__(self):
        self.scale, self.weights = 2.0, [1.0, 0.5, 0.25]

    def loss(self, x, shift=1.0):
        return np.sum(self.scale * np.array(self.weights) * (x + shift) ** self.power)


def test_what_machine_code_reads_outside_is_read_again(monkeypatch, general):
    model, factors, depth = Model(), [1.0, [2.0, 3.0]], 2.0

    def f(x, k=2.0, *, m=1.0):
        return np.sum(k * m * factors[0] * factors[1][1] * depth * x) + model.loss(x)

    def wanted():
        k, m = f.__defaults__[0], f.__kwdefaults__["m"]
        inner = model.scale * np.array(model.weights) * model.power
        return k * m * factors[0] * factors[1][1] * depth * np.ones(3) + inner * (X + 1.0) ** (
            model.power - 1.0
        )

    def instead(change):
        call = warmed(fdiff.grad(f), X)
        np.testing.assert_allclose(quickly(call, general, X), wanted(), rtol=1e-14)
        change()
        count = len(general)
        np.testing.assert_allclose(call(X), wanted(), rtol=1e-14)
        assert len(general) == count + 1

    instead(lambda: setattr(model, "scale", 3.0))
    instead(lambda: model.weights.__setitem__(1, 4.0))
    instead(lambda: monkeypatch.setattr(Model, "power", 3.0))
    instead(lambda: setattr(model, "power", 2.0))
    instead(lambda: setattr(model, "__dict__", dict(vars(model), scale=5.0)))
    instead(lambda: factors[1].__setitem__(1, 5.0))
    instead(lambda: factors.__setitem__(1, [1.0, 7.0]))
    instead(lambda: setattr(f, "__defaults__", (4.0,)))
    instead(lambda: f.__kwdefaults__.__setitem__("m", 3.0))
    instead(lambda: setattr(f, "__kwdefaults__", {"m": 5.0}))

    def rebind():
        nonlocal depth
        depth = 6.0

    instead(rebind)
    instead(lambda: factors.append(0.0))  # another length


def test_what_no_call_of_python_reaches_is_asked_in_python(general):
    class Slotted:
        __slots__ = ("scale",)

    slotted = Slotted()
    slotted.scale = 2.0
    call = warmed(fdiff.grad(lambda x: np.sum(slotted.scale * x)), X)
    np.testing.assert_array_equal(quickly(call, general, X), np.full(3, 2.0))
    slotted.scale = 3.0
    np.testing.assert_array_equal(call(X), np.full(3, 3.0))


def test_vectors_come_after_the_point(general):
    def f(x, a, b):
        return a * x**2 + b

    a, b, v = 2.0 * X, 3.0 * X, np.array([1.0, -1.0, 2.0])
    for made, args, wanted in (
        (fdiff.vjp(f), (X, v, a, b), (a * X**2 + b, 2 * a * X * v)),
        (fdiff.jvp(f), (X, v, a, b), (a * X**2 + b, 2 * a * X * v)),
        (fdiff.hvp(lambda x, a, b: np.sum(f(x, a, b))), (X, v, a, b), 2 * a * v),
    ):
        call = warmed(made, *args)
        for one, other in zip(_leaves(quickly(call, general, *args)), _leaves(wanted), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-15)


def test_names_of_arguments(general):
    call = warmed(fdiff.grad(lambda x, y=2.0: np.sum(x * y)), X)
    np.testing.assert_array_equal(quickly(call, general, X), np.full(3, 2.0))
    np.testing.assert_array_equal(call(X, y=3.0), np.full(3, 3.0))
    np.testing.assert_array_equal(call(X, 5.0), np.full(3, 5.0))
    with pytest.raises(TypeError):
        call()
    with pytest.raises(TypeError):
        call(X, z=1.0)


def tracing_elsewhere():
    """Another thread is inside a trace; what makes it leave."""
    inside, done = threading.Event(), threading.Event()

    def trace():
        with Trace("grad"):
            inside.set()
            assert done.wait(10)

    tracer = threading.Thread(target=trace)
    tracer.start()
    assert inside.wait(10)
    return lambda: (done.set(), tracer.join())


def test_other_threads_that_trace_make_calls_longer_not_wrong(general):
    call = warmed(fdiff.grad(cube), X)
    done = tracing_elsewhere()
    count = len(general)
    np.testing.assert_array_equal(call(X), 3 * X**2)
    done()
    assert len(general) == count + 1
    quickly(call, general, X)


FORKED = """
import os, sys, threading
import numpy as np
import fdiff
from fdiff.trace import Trace
from fdiff.trace.trace_stack import occupied

call, x = fdiff.grad(lambda x: np.sum(x**3)), np.array([1.0, 2.0])
for _ in range(4):
    call(x)
inside, done = threading.Event(), threading.Event()

def trace():
    with Trace("grad"):
        inside.set()
        done.wait(10)

tracer = threading.Thread(target=trace)
tracer.start()
assert inside.wait(10) and occupied
child = os.fork()
if child == 0:
    os._exit(0 if not occupied and np.array_equal(call(x), 3 * x**2) else 1)
done.set()
tracer.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_forked_while_another_thread_traces():
    """In a process of its own, for JAX warns of forks where other tests have loaded it."""
    environment = os.environ | {"FDIFF_TIER": "compile"}
    assert (
        subprocess.run([sys.executable, "-c", FORKED], env=environment, check=False).returncode == 0
    )


def test_a_way_that_is_replaced_lives_on():
    call = fdiff.grad(cube)
    ways = []
    for n in (3, 4, 5):
        warmed(call, np.ones(n))
        for _ in range(64):
            call(np.ones(n))
        ways.append(call.implementation)
    assert len(set(map(id, ways))) == 3
    for way, n in zip(ways, (3, 4, 5), strict=True):
        np.testing.assert_array_equal(way(np.ones(n)), np.full(n, 3.0))
        np.testing.assert_array_equal(way(np.ones(7)), np.full(7, 3.0))


TABLE = np.arange(60.0).reshape(6, 10) + 1.0
ODD = {
    "reversed": TABLE[0, ::-1],
    "column": TABLE[:, 3],
    "transposed": TABLE.T,
    "part": TABLE[1:5, 2:9:3],
    "backwards": TABLE[::-2, ::-1],
    "one column": TABLE[:, :1],
    "repeated": np.broadcast_to(TABLE[0], (4, 10)),
    "empty": TABLE[:0, ::2],
    "three axes": TABLE.reshape(3, 2, 10).transpose(2, 0, 1),
    "large": np.arange(4000.0)[::2],
    "single": TABLE.astype(np.float32)[:, 2],
}


@pytest.mark.parametrize("name", ODD)
def test_what_lies_apart_is_put_side_by_side(name, general):
    odd = ODD[name]
    for given in (odd, np.ascontiguousarray(odd)):
        call = warmed(fdiff.grad(lambda x: np.sum(x**3 * odd)), given)
        for x in (odd, np.ascontiguousarray(odd), odd[...]):
            np.testing.assert_array_equal(quickly(call, general, x), 3 * x * x * odd)


def test_numbers_of_other_classes_are_other_programs(general):
    def weak(a, y):
        z = a * y
        return np.sum(z) * (1e3 if z.dtype == np.float64 else 1.0)

    y = np.full(3, 0.1, np.float32)
    call = fdiff.value_and_grad(weak)
    for _ in range(6):
        call(2.0, y)
    quickly(call, general, 2.0, y)
    for a in (np.float64(2.0), np.array(2.0)):
        value, slope = call(a, y)
        np.testing.assert_allclose([value, slope], [600.0, 300.0], rtol=1e-7)
    kinds = fdiff.grad(lambda a: a * a if np.isscalar(a) else a * a * a)
    for _ in range(6):
        assert kinds(2.0) == 4.0
    quickly(kinds, general, 2.0)
    assert kinds(np.array(2.0)) == 12.0
    assert kinds(np.float64(2.0)) == 4.0


def pairs(x, i, j):
    d = x[i] - x[j]
    return np.sum(d**4 + x[i] * x[j])


def hessian_of_pairs(x, i, j):
    hessian = np.zeros((len(x), len(x)))
    for a, b in zip(i, j, strict=True):
        second = 12.0 * (x[a] - x[b]) ** 2
        hessian[[a, b], [a, b]] += second if a != b else 0.0
        hessian[[a, b], [b, a]] += 1.0 - second if a != b else 1.0
    return hessian


@pytest.mark.parametrize("way", ["arguments", "captured", "keywords"])
def test_kernels_compare_the_index_arrays_that_zeros_depend_on(way, general):
    """A fast path runs the kernel of one structure, and leaves other index arrays to Python."""
    i, j = np.triu_indices(6, 1)
    x = np.linspace(0.1, 1.0, 6)
    hessian = fdiff.hessian((lambda x: pairs(x, i, j)) if way == "captured" else pairs)
    hand, named = ((i, j) if way == "arguments" else ()), {}
    if way == "keywords":
        named = {"i": i, "j": j}
    for _ in range(4):
        hessian(x, *hand, **named)
    assert isinstance(hessian.implementation, BuiltinFunctionType)
    count = len(general)
    np.testing.assert_allclose(hessian(x, *hand, **named), hessian_of_pairs(x, i, j), rtol=1e-13)
    assert len(general) == count
    i[3:5] = 5, 1
    np.testing.assert_allclose(hessian(x, *hand, **named), hessian_of_pairs(x, i, j), rtol=1e-13)
    assert len(general) > count
