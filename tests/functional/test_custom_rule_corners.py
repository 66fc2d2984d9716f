"""Functions with rules of the user's: errors, branches, stores, what rules read from outside."""

import gc
import weakref

import numba
import numpy as np
import pytest

import fdiff
from fdiff.errors import DtypeError, InputError, TraceError, VectorError

X = np.array([1.0, 2.0, 3.0])
WEIGHTS = np.array([1.0, 2.0, 4.0])


def with_rules(fwd, bwd, fun=np.sin):
    f = fdiff.custom_vjp(lambda x: fun(x))
    f.defvjp(fwd, bwd)
    return f


def with_rule(rule, fun=np.sin):
    f = fdiff.custom_jvp(lambda x: fun(x))
    f.defjvp(rule)
    return f


def gradient(f):
    return fdiff.grad(lambda x: np.sum(f(x)))(X)


SAVED = lambda x: (np.sin(x), x)


# --- what rules return ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fwd", "bwd", "kind", "words"),
    [
        (SAVED, lambda x, b: (b, b), InputError, "must return a tuple of 1"),
        (SAVED, lambda x, b: b, InputError, "an array"),
        (SAVED, lambda x, b: (b[:2],), VectorError, r"shape \(2,\) for argument 0"),
        (SAVED, lambda x, b: (np.sum(b),), VectorError, r"shape \(\)"),
        (SAVED, lambda x, b: (b.astype("f4"),), DtypeError, "dtype float32 for argument 0"),
        (SAVED, lambda x, b: (b * 1j,), DtypeError, "complex128"),
        (SAVED, lambda x, b: ((b, b),), InputError, "a tuple of 2"),
        (SAVED, lambda x, b: ("bar",), InputError, "no array: a str"),
        (np.sin, lambda x, b: (b,), InputError, "must return a pair"),
        (lambda x: (x[:2], x), lambda x, b: (x,), InputError, r"an output of f8\[2\]"),
        (lambda x: ((x, x), x), lambda x, b: (x,), InputError, r"f8\[3\], f8\[3\]"),
    ],
)
def test_wrong_results_name_the_rule_and_its_line(fwd, bwd, kind, words):
    with pytest.raises(kind, match=words) as caught:
        gradient(with_rules(fwd, bwd))
    assert str(caught.value).startswith("custom_vjp(<lambda>)")
    assert "test_custom_rule_corners.py" in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "kind", "words"),
    [
        (lambda p, t: np.sin(p[0]), InputError, "must return a pair"),
        (lambda p, t: (np.sin(p[0]), t[0][:1]), VectorError, r"shape \(1,\) for the output"),
        (lambda p, t: (np.sin(p[0]), t), InputError, "another structure|a tuple"),
        (lambda p, t: (np.sin(p[0]) + t[0], t[0]), TraceError, "depends on the tangents"),
        (lambda p, t: (np.sin(p[0]), t[0] ** 2), TraceError, "not linear in the tangents"),
    ],
)
def test_wrong_results_of_forward_rules(rule, kind, words):
    with pytest.raises(kind, match=words) as caught:
        gradient(with_rule(rule))
    assert "test_custom_rule_corners.py" in str(caught.value)


def test_a_function_without_a_rule_says_how_to_give_one():
    f = fdiff.custom_vjp(np.sin)
    with pytest.raises(InputError, match=r"no rule yet.*\n.*\n.*sin\.defvjp"):
        f(X)


def test_settings_are_checked():
    with pytest.raises(InputError, match="nondiff_argnums must be different positions"):
        fdiff.custom_vjp(np.sin, nondiff_argnums=(-1,))
    with pytest.raises(InputError, match="expects a function"):
        fdiff.custom_jvp(3.0)
    with pytest.raises(InputError, match="nondiff_argnums"):
        fdiff.custom_jvp(np.sin, nondiff_argnums=(0,)).defjvps(None)
    f = fdiff.custom_vjp(lambda x, *, k: x * k)
    f.defvjp(lambda x, k: (x, x), lambda r, b: (b, None))
    with pytest.raises(InputError, match="the keyword arguments k have no position"):
        fdiff.grad(lambda x: np.sum(f(x, k=2.0)))(X)


def test_integers_as_cotangents_become_floats():
    assert np.array_equal(gradient(with_rules(SAVED, lambda x, b: (np.arange(3),))), [0, 1, 2])
    assert np.array_equal(gradient(with_rules(SAVED, lambda x, b: (None,))), np.zeros(3))


def test_single_precision_stays():
    f = with_rules(lambda x: (np.sin(x), x), lambda x, b: (2.0 * b * np.cos(x),))
    found = fdiff.grad(lambda x: np.sum(f(x)))(X.astype("f4"))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, 2 * np.cos(X), rtol=1e-6)


# --- what rules may do ----------------------------------------------------------------------------


def test_branches_on_values_are_guarded():
    def fun(x):
        return np.sin(x) if x[0] > 0 else np.cos(x)

    def bwd(x, bar):
        return (bar * 2.0,) if x[1] > 0 else (bar * 3.0,)

    g = fdiff.grad(lambda x: np.sum(f(x)))
    f = fdiff.custom_vjp(fun)
    f.defvjp(lambda x: (f(x), x), bwd)
    for point, slope in ((X, 2.0), (-X, 3.0), (X, 2.0), (np.array([1.0, -1.0, 1.0]), 3.0)):
        value, found = fdiff.value_and_grad(lambda x: np.sum(f(x)))(point)
        assert np.array_equal(g(point), np.full(3, slope))
        assert np.array_equal(found, np.full(3, slope))
        assert value == pytest.approx(np.sum(fun(point)))
    batch = np.stack([X, -X])
    assert np.array_equal(fdiff.vmap(g)(batch), [[2.0] * 3, [3.0] * 3])


def test_a_branch_on_a_cotangent_is_refused():
    f = with_rules(SAVED, lambda x, b: (b if b[0] > 0 else -b,))
    with pytest.raises(TraceError, match=r"custom_vjp.*\n.*test_custom_rule_corners"):
        gradient(f)


def test_a_rule_that_calls_its_branching_function_elsewhere_is_refused():
    f = fdiff.custom_vjp(lambda x: np.sin(x) if x[0] > 0 else np.cos(x))
    f.defvjp(lambda x: (f(x), x), lambda x, b: (b * f(-x),))
    with pytest.raises(TraceError, match="with other arguments, and branches on values"):
        gradient(f)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_functions_that_branch_anew_at_each_call_are_differentiated_as_they_run():
    f = fdiff.custom_vjp(lambda x: np.sin(x) * WEIGHTS)
    f.defvjp(lambda x: (f(x), x), lambda x, b: (b * np.cos(x) * WEIGHTS,))

    def program(x, f):
        s = x
        for k in range(1, 7):
            near = float(s[0]) > 0.05 * k
            s = f(s) if near else f(s * s) if s[1] > 0.1 * k else np.cos(s)
        return np.sum(s)

    ours = fdiff.value_and_grad(lambda x: program(x, f))
    plain = fdiff.value_and_grad(lambda x: program(x, lambda x: np.sin(x) * WEIGHTS))
    curved = fdiff.hessian(lambda x: program(x, f))
    expected = fdiff.hessian(lambda x: program(x, lambda x: np.sin(x) * WEIGHTS))
    rng = np.random.default_rng(3)
    for _ in range(30):
        x = rng.normal(size=3)
        np.testing.assert_allclose(ours(x)[1], plain(x)[1], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(curved(x), expected(x), rtol=1e-9, atol=1e-9)
    assert ours.program.stability, "some calls were eager"


def test_a_nonlinear_backward_rule_has_reverse_mode_alone():
    f = with_rules(
        lambda x: (3.0 * x, None), lambda _, b: (np.clip(b, -1.0, 1.0),), lambda x: 3.0 * x
    )
    assert np.array_equal(gradient(lambda x: 5.0 * f(x)), np.ones(3))
    with pytest.raises(TraceError, match="not linear in the cotangent"):
        fdiff.jvp(f, X, X)


def test_stores_into_what_a_function_makes_work_and_into_arguments_are_refused():
    def made(x):
        out = np.zeros(3)
        out[0] = x[1]
        out[1:] = x[1:] * 2.0
        return out

    f = with_rules(lambda x: (made(x), x), lambda x, b: (made(b),), made)
    np.testing.assert_allclose(fdiff.vjp(f, X, X)[1], made(X))

    def changed(x):
        x[0] = 0.0
        return x

    f = with_rules(lambda x: (changed(x), None), lambda _, b: (b,), changed)
    with pytest.raises(TraceError, match="stores into an array that it is given"):
        gradient(lambda x: f(np.array(x)))


def test_a_differentiated_value_from_outside_is_refused():
    def outer(x):
        f = fdiff.custom_vjp(lambda y: y * x)
        f.defvjp(lambda y: (y * x, None), lambda _, b: (b,))
        return np.sum(f(x))

    with pytest.raises(TraceError, match="reads a differentiated value from outside"):
        fdiff.grad(outer)(X)


def test_arrays_and_rules_from_outside_are_read_anew():
    weights = np.array([1.0, 2.0, 3.0])
    f = fdiff.custom_vjp(lambda x: weights * x)
    f.defvjp(lambda x: (f(x), None), lambda _, b: (b * weights,))
    g = fdiff.grad(lambda x: np.sum(f(x)))
    for _ in range(3):
        assert np.array_equal(g(X), weights)
    weights[:] = 5.0
    assert np.array_equal(g(X), weights)
    f.defvjp(lambda x: (f(x), None), lambda _, b: (b + 1.0,))
    assert np.array_equal(g(X), [2.0, 2.0, 2.0])


def test_methods_have_rules():
    class Model:
        scale = 3.0

        @fdiff.custom_vjp
        def apply(self, x):
            return self.scale * x

        apply.defvjp(lambda self, x: (self.scale * x, None), lambda _, b: (None, 11.0 * b))

    model = Model()
    assert np.array_equal(gradient(model.apply), [11.0, 11.0, 11.0])
    assert np.array_equal(model.apply(X), 3.0 * X)


def test_rules_that_call_one_another_without_an_end_are_refused():
    f = fdiff.custom_vjp(lambda x: np.sum(x))
    f.defvjp(lambda x: (f(x), x), lambda x, b: (b * f(np.append(x, 1.0)) * x,))
    with pytest.raises(TraceError, match="in an endless recursion"):
        fdiff.grad(f)(X)


def test_complex_cotangents_are_those_of_vjp():
    def square(z):
        return z * z

    f = fdiff.custom_vjp(square)
    f.defvjp(lambda z: (f(z), z), lambda z, b: (fdiff.vjp(square, z, b)[1],))
    z = np.array([1.0 + 2.0j, -0.5 + 0.3j])
    measure = lambda g: fdiff.grad(lambda z: np.sum(np.abs(g(z)) ** 2), complex_inputs="conjugate")
    np.testing.assert_allclose(measure(f)(z), measure(square)(z), rtol=1e-14)
    np.testing.assert_allclose(fdiff.jvp(f, z, z)[1], 2 * z * z, rtol=1e-14)


# --- where calls run ------------------------------------------------------------------------------


def program(x):
    return np.sum(FALSE(x) * x)


FALSE = with_rules(lambda x: (np.sin(x), x), lambda x, b: (2.0 * b * np.cos(x),))
EXPECTED = np.sin(X) + 2.0 * np.cos(X) * X


def test_numba_code_calls_derivatives_of_functions_with_rules():
    compiled = fdiff.njit(fdiff.grad(program), X)

    @numba.njit
    def run(x):
        return compiled(x)

    np.testing.assert_allclose(run(X), EXPECTED, rtol=1e-14)


def test_c_code_calls_derivatives_of_functions_with_rules():
    compiled, out = fdiff.cfunc(fdiff.grad(program), X), np.zeros(3)
    compiled.ctypes(X, out)
    np.testing.assert_allclose(out, EXPECTED, rtol=1e-14)


def test_a_sparse_jacobian_of_a_rule_that_acts_entry_by_entry():
    x = np.linspace(0.1, 3.0, 200)
    jacobian = fdiff.jacobian(lambda x: FALSE(x) * x)(x)
    np.testing.assert_allclose(jacobian, np.diag(np.sin(x) + 2.0 * np.cos(x) * x), rtol=1e-13)


def test_equal_traces_share_their_plan():
    make = lambda: fdiff.grad(lambda x: np.sum(FALSE(x)))
    first, second = make(), make()
    np.testing.assert_allclose(first(X), second(X))
    fdiff.cache_clear()
    np.testing.assert_allclose(first(X), 2 * np.cos(X))


def test_nothing_keeps_a_function_alive():
    def run():
        f = fdiff.custom_vjp(lambda y: 2.0 * y)
        f.defvjp(lambda y: (f(y), y), lambda y, b: (b,))
        fdiff.grad(lambda x: np.sum(f(x)))(X)
        return weakref.ref(f)

    gone = run()
    fdiff.cache_clear()
    gc.collect()
    assert gone() is None


def test_a_rule_of_which_no_argument_is_differentiated_reads_nothing_that_is():
    """Its rule would be ignored: the derivative would be that of the function."""

    def outer(q):
        @fdiff.custom_vjp
        def f(x):
            return x * q

        f.defvjp(lambda x: (f(x), x), lambda x, bar: (bar * 10.0,))
        return np.sum(f(np.ones(2)))

    with pytest.raises(TraceError, match="reads a differentiated value from outside") as caught:
        fdiff.grad(outer)(2.0)
    assert "custom_vjp(f)" in str(caught.value)
    assert fdiff.jit(outer)(2.0) == 4.0  # no derivative is taken
    recorded = fdiff.autograd.tensor(2.0, requires_grad=True)
    with pytest.raises(TraceError, match="reads a differentiated value from outside"):
        outer(recorded)
    with fdiff.autograd.no_grad():
        assert outer(recorded) == 4.0
