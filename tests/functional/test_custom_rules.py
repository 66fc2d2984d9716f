"""`custom_vjp` and `custom_jvp`: beside JAX, in every operator, order and tier."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdiff

jax.config.update("jax_enable_x64", True)

X = np.array([0.3, -1.2, 2.5])


class Library:
    """What a program is written with: NumPy and fdiff, or JAX."""

    def __init__(self, xp, lib):
        self.xp, self.vjp, self.jvp, self.grad = xp, lib.custom_vjp, lib.custom_jvp, lib.grad


OURS, THEIRS = Library(np, fdiff), Library(jnp, jax)


# --- programs: each gives a function of one array, with a rule inside ----------------------------


def doubled_slope(lib):
    """A false derivative, so that a rule that is not used shows."""

    @lib.vjp
    def f(x):
        return lib.xp.sin(x)

    def fwd(x):
        return lib.xp.sin(x), x

    def bwd(x, bar):
        return (2.0 * bar * lib.xp.cos(x),)

    f.defvjp(fwd, bwd)
    return lambda x: f(x) * x


def rule_that_calls_its_function(lib):
    @lib.vjp
    def f(x):
        return lib.xp.exp(x)

    f.defvjp(lambda x: (f(x), x), lambda x, bar: (3.0 * f(x) * bar,))
    return lambda x: lib.xp.sum(f(x)) * x


def straight_through(lib):
    @lib.vjp
    def round_(x):
        return lib.xp.round(x)

    round_.defvjp(lambda x: (lib.xp.round(x), None), lambda _, bar: (bar,))
    return lambda x: round_(2.0 * x) ** 2 + x


def several_arguments(lib):
    @lib.vjp
    def f(x, y, z):
        return lib.xp.sin(x) * y, x + z

    def fwd(x, y, z):
        return f(x, y, z), (lib.xp.cos(x), lib.xp.sin(x), y)

    def bwd(res, bars):
        c, s, y = res
        a, b = bars
        return 5.0 * c * a * y + b, s * a, None

    f.defvjp(fwd, bwd)

    def run(x):
        a, b = f(x, x * x, 2.0 * x)
        return a * b

    return run


def structures(lib):
    @lib.vjp
    def f(p, w):
        return {"out": p["a"] * w[0], "more": [p["b"] + w[1]]}

    def fwd(p, w):
        return f(p, w), (p, w)

    def bwd(res, bar):
        p, w = res
        return {"a": bar["out"] * w[0], "b": 4.0 * bar["more"][0]}, [
            lib.xp.sum(bar["out"] * p["a"]),
            lib.xp.sum(bar["more"][0]),
        ]

    f.defvjp(fwd, bwd)

    def run(x):
        found = f({"a": x, "b": x * x}, [lib.xp.sum(x), lib.xp.max(x)])
        return found["out"] * lib.xp.sin(found["more"][0])

    return run


def function_argument(lib):
    def apply(g, x, n):
        return g(x) * n

    f = lib.vjp(apply, nondiff_argnums=(0, 2))
    f.defvjp(
        lambda g, x, n: (g(x) * n, lib.xp.cos(x)), lambda g, n, c, bar: (bar * c * n + g(c) * bar,)
    )
    return lambda x: f(lib.xp.sin, x, 3.0)


def keywords_and_defaults(lib):
    @lib.vjp
    def f(x, scale=2.0, shift=1.0):
        return x * scale + shift

    f.defvjp(
        lambda x, s, t: (x * s + t, (x, s)),
        lambda r, b: (b * r[1] * 7.0, lib.xp.sum(b * r[0]), None),
    )
    return lambda x: f(x, shift=0.5) * f(scale=3.0, x=x)


def forward_rule(lib):
    @lib.jvp
    def f(x, y):
        return lib.xp.sin(x) * y

    def rule(primals, tangents):
        x, y = primals
        x_dot, y_dot = tangents
        return f(x, y), 2.0 * lib.xp.cos(x) * y * x_dot + lib.xp.sin(x) * y_dot

    f.defjvp(rule)
    return lambda x: f(x, x * x)


def forward_rules_by_argument(lib):
    @lib.jvp
    def f(x, y):
        return lib.xp.sin(x) * y

    f.defjvps(
        lambda x_dot, out, x, y: 2.0 * lib.xp.cos(x) * x_dot * y,
        lambda y_dot, out, x, y: out / y * y_dot,
    )
    return lambda x: f(x, x * x + 1.0)


def forward_rule_with_function(lib):
    def apply(g, x):
        return g(x)

    f = lib.jvp(apply, nondiff_argnums=(0,))

    def rule(g, primals, tangents):
        (x,), (x_dot,) = primals, tangents
        return f(g, x), 3.0 * lib.xp.cos(x) * x_dot

    f.defjvp(rule)
    return lambda x: f(lib.xp.sin, x) * x


def matrices(lib):
    @lib.vjp
    def solve(a, b):
        return lib.xp.linalg.solve(a, b)

    def fwd(a, b):
        x = solve(a, b)
        return x, (a, x)

    def bwd(res, bar):
        a, x = res
        y = solve(a.T, bar)
        return -2.0 * lib.xp.outer(y, x), y

    solve.defvjp(fwd, bwd)
    return lambda x: solve(lib.xp.outer(x, x) + 3.0 * lib.xp.eye(3), lib.xp.sin(x))


def one_inside_another(lib):
    @lib.jvp
    def inner(x):
        return lib.xp.sin(x)

    inner.defjvp(lambda p, t: (inner(p[0]), 2.0 * lib.xp.cos(p[0]) * t[0]))

    @lib.vjp
    def outer(x):
        return inner(x) * x

    outer.defvjp(lambda x: (outer(x), x), lambda x, bar: (bar * inner(x) * 3.0,))
    return lambda x: outer(inner(x))


def rules_that_call_each_other(lib):
    @lib.jvp
    def sin(x):
        return lib.xp.sin(x)

    @lib.jvp
    def cos(x):
        return lib.xp.cos(x)

    sin.defjvp(lambda p, t: (sin(p[0]), 2.0 * cos(p[0]) * t[0]))
    cos.defjvp(lambda p, t: (cos(p[0]), -3.0 * sin(p[0]) * t[0]))
    return lambda x: sin(x) * cos(x)


def captured_array(lib):
    weights = lib.xp.asarray([1.0, 2.0, -3.0])

    @lib.vjp
    def f(x):
        return weights * x

    f.defvjp(lambda x: (f(x), x), lambda x, bar: (bar * weights * x,))
    return lambda x: f(x) * f(x * x)


def a_loop(lib):
    @lib.vjp
    def step(x, k):
        return lib.xp.sin(x) + 0.1 * k

    step.defvjp(lambda x, k: (step(x, k), x), lambda x, bar: (1.5 * bar * lib.xp.cos(x), None))

    def run(x):
        for k in range(4):
            x = step(x, float(k))
        return x

    return run


def gradient_in_a_rule(lib):
    def plain(x):
        return lib.xp.sum(lib.xp.sin(x) ** 2)

    @lib.vjp
    def f(x):
        return plain(x)

    f.defvjp(lambda x: (plain(x), x), lambda x, bar: (2.0 * bar * lib.grad(plain)(x),))
    return lambda x: f(x) * x


VJP_PROGRAMS = [
    doubled_slope, rule_that_calls_its_function, straight_through, several_arguments, structures,
    function_argument, keywords_and_defaults, matrices, one_inside_another, captured_array, a_loop,
    gradient_in_a_rule,
]  # fmt: skip
JVP_PROGRAMS = [
    forward_rule, forward_rules_by_argument, forward_rule_with_function, rules_that_call_each_other,
]  # fmt: skip
SOON = (rule_that_calls_its_function, several_arguments, structures, rules_that_call_each_other)


def each(programs):
    """Programs as parameters; all but a few are for the slow suite, as JAX takes its time."""
    slow = [() if p in SOON else pytest.mark.slow for p in programs]
    pairs = zip(programs, slow, strict=True)
    return pytest.mark.parametrize("program", [pytest.param(p, marks=m) for p, m in pairs])


EVERY, FORWARD = each(VJP_PROGRAMS + JVP_PROGRAMS), each(JVP_PROGRAMS)


def agree(ours, theirs):
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def total(lib, program):
    f = program(lib)
    return lambda x: lib.xp.sum(f(x) ** 2)


# --- operators ------------------------------------------------------------------------------------


@EVERY
def test_value_and_gradient(program):
    expected = jax.value_and_grad(total(THEIRS, program))(X)
    agree(fdiff.value_and_grad(total(OURS, program))(X), expected)


@EVERY
def test_the_function_alone(program):
    agree(program(OURS)(X), program(THEIRS)(X))
    agree(fdiff.jit(program(OURS))(X), program(THEIRS)(X))


@EVERY
@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
def test_jacobians_in_both_modes_on_every_tier(program, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    fdiff.cache_clear()
    expected = jax.jacrev(program(THEIRS))(X)
    agree(fdiff.jacrev(program(OURS))(X), expected)
    agree(fdiff.jacfwd(program(OURS))(X), expected)
    agree(fdiff.jacobian(program(OURS), X), expected)


@EVERY
def test_products(program):
    v = np.array([1.0, -2.0, 0.5])
    out, pull = jax.vjp(program(THEIRS), X)
    agree(fdiff.vjp(program(OURS), X, v), (out, pull(v)[0]))
    slope = jax.jacrev(program(THEIRS))(X) @ v
    agree(fdiff.jvp(program(OURS), X, v), (out, slope))


@EVERY
def test_second_order(program):
    expected = jax.jacrev(jax.jacrev(total(THEIRS, program)))(X)
    nested = fdiff.jacrev(fdiff.grad(total(OURS, program)))(X)
    agree(nested, expected)
    agree(fdiff.jacfwd(fdiff.grad(total(OURS, program)))(X), expected)
    if np.allclose(expected, expected.T, rtol=1e-9):  # else it is not the derivative of anything
        agree(fdiff.hessian(total(OURS, program))(X), expected)
        agree(fdiff.hvp(total(OURS, program), X, X)[1], expected @ X)


@EVERY
def test_third_order(program):
    def of(lib, operator):
        one = lambda t: total(lib, program)(lib.xp.asarray(X) * t)
        return operator(operator(operator(one)))(1.3)

    agree(of(OURS, fdiff.grad), of(THEIRS, jax.grad))


@FORWARD
def test_forward_over_forward(program):
    expected = jax.jacfwd(jax.jacfwd(program(THEIRS)))(X)
    agree(fdiff.jacfwd(fdiff.jacfwd(program(OURS)))(X), expected)
    agree(fdiff.jacrev(fdiff.jacfwd(program(OURS)))(X), expected)


@EVERY
def test_mapped(program):
    batch = np.stack([X, X + 1.0, 0.5 * X])
    expected = jax.vmap(jax.grad(total(THEIRS, program)))(batch)
    agree(fdiff.vmap(fdiff.grad(total(OURS, program)))(batch), expected)
    summed = lambda lib, vmap: lambda b: lib.xp.sum(vmap(total(lib, program))(b) ** 2)
    agree(fdiff.grad(summed(OURS, fdiff.vmap))(batch), jax.grad(summed(THEIRS, jax.vmap))(batch))


def test_a_shared_argument_of_a_mapped_call_gets_the_sum():
    def program(lib, vmap):
        @lib.vjp
        def f(w, x):
            return lib.xp.dot(w, x)

        f.defvjp(lambda w, x: (f(w, x), (w, x)), lambda r, b: (2.0 * b * r[1], b * r[0]))
        return lambda w: lib.xp.sum(vmap(f, in_axes=(None, 0))(w, lib.xp.asarray(ROWS)) ** 2)

    agree(fdiff.grad(program(OURS, fdiff.vmap))(X), jax.grad(program(THEIRS, jax.vmap))(X))
    agree(fdiff.jacfwd(program(OURS, fdiff.vmap))(X), jax.grad(program(THEIRS, jax.vmap))(X))


ROWS = np.arange(12.0).reshape(4, 3) / 7.0


@EVERY
def test_compiled_inside_and_outside(program):
    expected = jax.grad(total(THEIRS, program))(X)
    agree(fdiff.jit(fdiff.grad(total(OURS, program)))(X), expected)
    agree(fdiff.grad(fdiff.jit(total(OURS, program)))(X), expected)


@pytest.mark.parametrize("program", [doubled_slope, several_arguments, forward_rule])
def test_numba_compiles_what_rules_became(program):
    agree(
        fdiff.jit(fdiff.grad(total(OURS, program)), compiler="numba")(X),
        jax.grad(total(THEIRS, program))(X),
    )


@EVERY
def test_a_tape_that_is_run_holds_no_call(program):
    gradient = fdiff.grad(total(OURS, program))
    agree(fdiff.jit(gradient)(X), jax.grad(total(THEIRS, program))(X))
    assert "compiled" in repr(fdiff.jit(gradient).compile("f8[3]"))
    assert "custom_call" not in fdiff.source(gradient, X, stage="fuse")
