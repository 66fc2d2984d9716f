"""Gradient modes: contexts, decorators, generators, threads, and inside traced functions."""

import threading

import numpy as np
import pytest
from test_eager import eagerly

import fdiff
from fdiff import autograd, errors
from fdiff.autograd.thread_state import state

X = np.array([1.0, 2.0, 3.0])


def states():
    return autograd.is_grad_enabled(), autograd.is_inference_mode_enabled()


# -------------------------------------------------------------------------- outside of any trace


def test_contexts_nest_and_come_back():
    assert states() == (True, False)
    with autograd.no_grad():
        assert states() == (False, False)
        with autograd.enable_grad():
            assert states() == (True, False)
            with autograd.inference_mode():
                assert states() == (False, True)
                with autograd.inference_mode(False):
                    assert states() == (True, False)
                assert states() == (False, True)
        assert states() == (False, False)
    assert states() == (True, False)


def test_a_mode_ends_with_an_exception():
    with pytest.raises(ZeroDivisionError), autograd.no_grad():
        raise ZeroDivisionError
    assert autograd.is_grad_enabled()


def test_one_context_may_be_entered_again_and_within_itself():
    off = autograd.no_grad()
    with off, off:
        assert not autograd.is_grad_enabled()
    assert autograd.is_grad_enabled()


def test_set_grad_enabled_is_a_function_a_context_and_a_decorator():
    autograd.set_grad_enabled(False)
    assert not autograd.is_grad_enabled()
    with autograd.set_grad_enabled(True) as nothing:
        assert nothing is None
        assert autograd.is_grad_enabled()
    assert not autograd.is_grad_enabled()
    autograd.set_grad_enabled(True)

    @autograd.set_grad_enabled(False)
    def inside():
        return autograd.is_grad_enabled()

    assert autograd.is_grad_enabled()  # it set nothing where it stands
    assert not inside()
    assert autograd.is_grad_enabled()
    assert repr(autograd.set_grad_enabled(True)) == "fdiff.autograd.set_grad_enabled(mode=True)"


@pytest.mark.parametrize(
    "decorate",
    [
        *(autograd.no_grad, autograd.no_grad(), autograd.inference_mode),
        *(autograd.inference_mode(), autograd.set_grad_enabled(True)),
    ],
)
def test_functions_are_decorated_with_and_without_parentheses(decorate):
    @decorate
    def inside(a, *, b):
        "What it says."
        return a, b, autograd.is_grad_enabled()

    assert inside(1, b=2) == (1, 2, isinstance(decorate, autograd.set_grad_enabled))
    assert (inside.__name__, inside.__doc__) == ("inside", "What it says.")
    assert autograd.is_grad_enabled()


def test_methods_are_decorated():
    class Model:
        @autograd.no_grad()
        def call(self, x):
            return self, x, autograd.is_grad_enabled()

    model = Model()
    assert model.call(3) == (model, 3, False)


def test_a_generator_is_in_the_mode_while_its_own_code_runs():
    seen, closed = [], []

    @autograd.no_grad()
    def counted():
        try:
            while True:
                try:
                    seen.append((yield autograd.is_grad_enabled()))
                except KeyError:
                    seen.append(autograd.is_grad_enabled())
                if seen[-1] == "end":
                    return "done"
        finally:
            closed.append(autograd.is_grad_enabled())

    running = counted()
    assert next(running) is False
    assert autograd.is_grad_enabled()
    assert running.send("sent") is False
    assert running.throw(KeyError) is False
    with pytest.raises(StopIteration, match="done"):
        running.send("end")
    assert (seen, closed) == (["sent", False, "end"], [False])
    second = counted()
    next(second)
    second.close()
    assert closed == [False, False]
    assert autograd.is_grad_enabled()


def test_a_mode_holds_for_its_thread_alone():
    seen = []
    with autograd.no_grad():
        thread = threading.Thread(target=lambda: seen.append(states()))
        thread.start()
        thread.join()
    assert seen == [(True, False)]


def test_what_cannot_be_decorated_is_refused():
    async def wait():
        pass

    class Model:
        pass

    with pytest.raises(errors.InputError, match=r"no_grad\(\): an asynchronous function was deco"):
        autograd.no_grad()(wait)
    with pytest.raises(errors.InputError, match=r"no_grad\(\): a class was decorated, .*Model'"):
        autograd.no_grad()(Model)


# ------------------------------------------------------------------------- in traced functions


def plainly(call, *args):
    return call(*args)


BOTH = pytest.mark.parametrize("way", [plainly, eagerly], ids=["traced", "eager"])


def constant_factor(x):
    with autograd.no_grad():
        factor = np.sin(x) * x
    return np.sum(factor * x)


def copies(x):
    with autograd.no_grad():
        kept = [x.copy(), x.astype(float), np.array(x), x.reshape(3), x.T, np.ravel(x), +x]
        kept += [np.asarray([x[0], x[1], x[2]]), np.stack(list(x)), x[::-1][::-1], x[...]]
    return sum(np.sum(each * x) for each in kept)


def entries(x):
    with autograd.no_grad():
        total = x[0] * x[1] + x[-1]
        first = x[0]
    return total * x[0] + first * x[2]


def filled(x):
    out = np.zeros(3)
    with autograd.no_grad():
        out[0] = x[0] * 2.0
        out[1:] = x[1:]
        inside = np.zeros(3)
        inside[:] = x
    out[2] = x[2] * x[2]
    inside += x
    return np.sum(out * x) + np.sum(inside)


def nested(x):
    with autograd.no_grad():
        with autograd.enable_grad():
            y = x * x
        z = y * x
        slope = fdiff.grad(lambda t: np.sum(t**3))(x)
    return np.sum(y + z + slope * x)


def asked(x):
    with autograd.inference_mode():
        off = autograd.is_grad_enabled()
        y = x * x
    return np.sum(y * x) if autograd.is_grad_enabled() and not off else np.sum(x)


@autograd.no_grad
def helper(x):
    return np.exp(x) * SCALE


SCALE = np.array([1.0, 2.0, 0.5])


def with_helper(x):
    return np.sum(helper(x) * x)


def set_by_call(x):
    before = np.sum(x * x)
    autograd.set_grad_enabled(False)
    after = np.sum(x * x)
    autograd.set_grad_enabled(True)
    once_more = np.sum(x**3)
    total = before + after + once_more
    autograd.set_grad_enabled(False)  # until the end of the trace
    return total


def with_generator(x):
    @autograd.no_grad()
    def squares():
        for k in range(3):
            yield x[k] * x[k]

    return sum(square * x[0] for square in squares()) * x[1]


def as_constants(f):
    """What each function is, with the constants computed beforehand."""
    return {
        constant_factor: lambda x: np.sum(np.sin(X) * X * x),
        copies: lambda x: 11.0 * np.sum(X * x),
        entries: lambda x: (X[0] * X[1] + X[2]) * x[0] + X[0] * x[2],
        filled: lambda x: 2.0 * X[0] * x[0] + X[1] * x[1] + x[2] ** 3 + np.sum(x),
        nested: lambda x: np.sum(x * x + 3.0 * X**2 * x),
        asked: lambda x: np.sum(X * X * x),
        with_helper: lambda x: np.sum(np.exp(X) * SCALE * x),
        set_by_call: lambda x: np.sum(x * x) + np.sum(x**3),
        with_generator: lambda x: np.sum(X**2) * x[0] * x[1],
    }[f]


FUNCTIONS = [
    *(constant_factor, copies, entries, filled, nested, asked, with_helper, set_by_call),
    with_generator,
]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@BOTH
def test_what_is_computed_without_gradients_has_no_derivative(f, way):
    g = as_constants(f)
    slope = fdiff.grad(f)
    for _ in range(2):
        np.testing.assert_allclose(way(slope, X), fdiff.grad(g)(X), rtol=1e-13)
    tangent = way(fdiff.jvp, f, X, SCALE)[1]
    np.testing.assert_allclose(tangent, fdiff.jvp(g, X, SCALE)[1], rtol=1e-13)
    curvature = way(fdiff.hessian, f, X)
    np.testing.assert_allclose(curvature, fdiff.hessian(g, X), rtol=1e-13, atol=1e-14)
    assert autograd.is_grad_enabled()


# Operations whose result is their operand, or as good as that.
IDENTITIES = (
    """
x.copy(); x.astype(float); np.array(x); x.reshape(3); x.T; np.ravel(x); +x; x[...]; x[:]; x.real
x.view(); np.transpose(x); np.squeeze(x); np.atleast_1d(x); np.broadcast_to(x, (3,)); x.flatten()
x.conj(); np.conj(x); x.ravel(); np.ascontiguousarray(x); x.swapaxes(0, 0); np.moveaxis(x, 0, 0)
np.asarray([x[0], x[1], x[2]]); np.stack(list(x)); x[::-1][::-1]; np.concatenate([x]); np.real(x)
np.split(x, 1)[0]; np.roll(x, 0); np.where(True, x, 0.0); np.nan_to_num(x); x * 1; x.squeeze()
np.tile(x, 1); np.take(x, [0, 1, 2]); np.array(list(x)); np.asarray(x); np.require(x); x.flat[:]
""".replace("\n", ";")
    .strip(";")
    .split(";")
)


@pytest.mark.parametrize("text", IDENTITIES)
@BOTH
def test_operations_that_change_nothing_drop_the_derivative_too(text, way):
    operation = eval(f"lambda x, np=np: {text}")

    def f(x):
        with autograd.no_grad():
            y = operation(x)
        return np.sum(y * x)

    np.testing.assert_array_equal(way(fdiff.grad(f), X), X)


@BOTH
def test_a_view_that_was_taken_without_gradients_follows_its_array_without_them(way):
    def f(x):
        a = x * 1.0
        with autograd.no_grad():
            part, whole = a[1:], a[:]
        a[1] = x[0] * x[0]
        return np.sum(part) + np.sum(whole) + np.sum(a * part[0])

    # `part` holds the square of the first entry, and the third: constants
    np.testing.assert_allclose(way(fdiff.grad(f), X), [X[0] ** 2 + 2.0 * X[0] ** 3, 0.0, X[0] ** 2])


@pytest.mark.parametrize(
    "store", ["a[0] = 1.0", "a += 1.0", "a[:] = 0.0", "a.fill(2.0)", "v[0] = 3.0"]
)
def test_stores_that_would_drop_a_derivative_are_refused(store):
    def f(x):
        a = x * 2.0
        v = a[1:]
        with autograd.no_grad():
            exec(store, {}, {"a": a, "v": v})
        return np.sum(a)

    with pytest.raises(errors.TraceError, match="was written to where gradients are off"):
        fdiff.grad(f)(X)
    assert autograd.is_grad_enabled()
    fdiff.jit(f)(X)  # no derivative is asked for


def test_the_mode_outside_does_not_matter_to_an_operator():
    with autograd.no_grad():
        np.testing.assert_allclose(fdiff.grad(lambda x: np.sum(x * x))(X), 2.0 * X)
        assert state.grad_enabled is False
    with autograd.no_grad():
        inside = fdiff.grad(lambda x: np.sum(x) * float(autograd.is_grad_enabled()))(X)
    np.testing.assert_array_equal(inside, 1.0)


def test_a_decorated_function_is_differentiated_as_zero_and_read_again():
    assert fdiff.grad(autograd.no_grad(lambda x: np.sum(x * x)))(X).tolist() == [0.0, 0.0, 0.0]
    assert fdiff.grad(autograd.enable_grad(lambda x: np.sum(x * x)))(X).tolist() == [2.0, 4.0, 6.0]
    state = {"factor": 2.0}

    @autograd.no_grad()
    def scaled(x):
        return state["factor"] * x

    slope = fdiff.grad(lambda x: np.sum(scaled(x) * x))
    np.testing.assert_allclose(slope(X), 2.0 * X)
    state["factor"] = 5.0
    np.testing.assert_allclose(slope(X), 5.0 * X)


def test_a_generator_that_outlives_the_trace_leaves_no_mode_behind():
    kept = []

    def endless(x):
        with autograd.no_grad():
            while True:
                yield x

    def f(x):
        kept.append(endless(1.0))
        next(kept[-1])
        return np.sum(x * x)

    with pytest.warns(errors.RetraceWarning):
        fdiff.grad(f)(X)
    kept.clear()
    assert autograd.is_grad_enabled()
    np.testing.assert_allclose(fdiff.grad(lambda x: np.sum(x * x))(X), 2.0 * X)


def test_vmap_and_inner_operators_see_the_mode():
    def f(x):
        with autograd.no_grad():
            y = fdiff.vmap(lambda t: t * t)(x)
        return np.sum(y * x)

    np.testing.assert_allclose(fdiff.grad(f)(X), X * X)
    mapped = fdiff.vmap(fdiff.grad(constant_factor))(np.stack([X, X + 1.0]))
    np.testing.assert_allclose(mapped[0], np.sin(X) * X)


def test_inference_arrays_are_not_saved():
    x = autograd.tensor([1.0, 2.0], requires_grad=True)
    with autograd.inference_mode():
        made, weights = x * 2, autograd.tensor([3.0, 4.0], requires_grad=True)
        made += 1  # allowed here
    for other in (made, weights, made[:2]):
        for _ in range(2):  # the second call is by the recipe
            with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
                x * other
        (x + other).sum().backward()  # nothing is saved
        with pytest.raises(RuntimeError, match="outside InferenceMode"):
            other.fill(1.0)
        with pytest.raises(RuntimeError, match="do not track version"):
            _ = other._version
    x.grad = None
    (x * made.clone()).sum().backward()
    assert np.array_equal(x.grad, [3.0, 5.0])
    assert np.array_equal(made * 2, [6.0, 10.0])


def test_an_inference_array_requires_no_gradient_outside_of_the_mode():
    words = "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed"
    with autograd.inference_mode():
        made = autograd.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match=words):
        made.requires_grad_()
    with pytest.raises(RuntimeError, match=words):
        made.requires_grad = True
    assert not made.requires_grad_(False).requires_grad
    with autograd.inference_mode():
        assert made.requires_grad_().requires_grad


def test_inference_mode_records_nothing_whatever_the_gradient_mode():
    x = autograd.tensor(X, requires_grad=True)
    with autograd.inference_mode():
        with autograd.enable_grad():
            y = x * x
            assert autograd.is_grad_enabled()
        autograd.set_grad_enabled(True)
        z = np.sin(x)
        with autograd.inference_mode(False):
            w = x * x
    assert [a.requires_grad for a in (y, z, w)] == [False, False, True]
    assert [a.is_inference() for a in (x, y, z, w)] == [False, True, True, False]
    assert states() == (True, False)
