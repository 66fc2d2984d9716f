"""`checkpoint` in functions that are traced: beside JAX, in every operator, order and tier."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdiff
from fdiff import errors, kernels
from fdiff.kernels.kernel_lookup import workspace
from fdiff.transforms import checkpoint_rules
from fdiff.transforms.custom_calls import inlined

pytestmark = pytest.mark.usefixtures("one_interpreter")

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(5)
X, W = RNG.normal(size=3), RNG.normal(size=(3, 3)) / 2.0
TIERS = pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])


def chain(xp, checkpoint):
    """Blocks one after the other; an argument, and one that is read from outside."""

    def program(x, w):
        @checkpoint
        def block(y, k):
            for _ in range(2):
                y = xp.tanh(w @ y) + k * xp.sum(y)
            return y

        for k in range(3):
            x = block(x, 0.1 * k)
        return xp.sum(x**2) + xp.sum(w * w)

    return program


def structures(xp, checkpoint):
    """Nested arguments and results, keywords, a value that is not differentiated."""

    def inner(p, *, scale):
        s = xp.sin(p["a"]) * scale
        return {"s": s, "t": (s * p["b"], xp.argmax(p["a"]), 3)}

    def program(x, w):
        out = checkpoint(inner)({"a": x, "b": w @ x}, scale=xp.exp(x[0]))
        return xp.sum(out["s"] * out["t"][0]) * out["t"][2] + 0.0 * out["t"][1]

    return program


def one_inside_another(xp, checkpoint):
    def program(x, w):
        inner = checkpoint(lambda y: xp.sin(w @ y))
        outer = checkpoint(lambda y: xp.cumsum(inner(xp.exp(-y))) * y)
        return xp.sum(outer(outer(x)) * outer(x))

    return program


def mapped(xp, checkpoint):
    vmap = fdiff.vmap if xp is np else jax.vmap

    def program(x, w):
        rows = vmap(checkpoint(lambda row, y: xp.sin(row @ y) * y), in_axes=(0, None))(w, x)
        return xp.sum(rows**2)

    return program


PROGRAMS = [chain, structures, one_inside_another, mapped]
EACH = pytest.mark.parametrize("program", PROGRAMS)


def agree(ours, theirs, tolerance=1e-12):
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def both(program):
    return program(np, fdiff.checkpoint), program(jnp, jax.checkpoint)


# --- operators ------------------------------------------------------------------------------------


@pytest.mark.slow
@EACH
@TIERS
def test_gradients_and_hessians(program, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    fdiff.cache_clear()
    ours, theirs = both(program)
    agree(ours(X, W), theirs(X, W))
    agree(fdiff.value_and_grad(ours, (0, 1))(X, W), jax.value_and_grad(theirs, (0, 1))(X, W))
    agree(fdiff.hessian(ours)(X, W), jax.hessian(theirs)(X, W), 1e-11)
    agree(fdiff.jit(ours)(X, W), theirs(X, W))


@pytest.mark.slow
@EACH
def test_modes_nested_in_each_other(program):
    ours, theirs = both(program)
    expected = jax.hessian(theirs)(X, W)
    for outer in (fdiff.jacfwd, fdiff.jacrev):
        for inner in (fdiff.jacfwd, fdiff.jacrev):
            agree(outer(inner(ours))(X, W), expected, 1e-11)
    agree(fdiff.hvp(lambda x: ours(x, W), X, X)[1], expected @ X, 1e-11)
    agree(fdiff.jvp(lambda x: ours(x, W), X, X)[1], jax.grad(theirs)(X, W) @ X)
    third = lambda grad, f: grad(grad(grad(lambda t: f(t * X, W))))(1.1)
    agree(third(fdiff.grad, ours), third(jax.grad, theirs), 1e-10)


@pytest.mark.slow
@EACH
def test_a_batch_of_gradients(program):
    ours, theirs = both(program)
    batch = np.stack([X, 2.0 * X])
    expected = jax.vmap(jax.grad(theirs), in_axes=(0, None))(batch, W)
    agree(fdiff.vmap(fdiff.grad(ours), in_axes=(0, None))(batch, W), expected)
    of_sum = lambda vmap, f: lambda w: vmap(f, in_axes=(0, None))(batch, w).sum()
    agree(fdiff.grad(of_sum(fdiff.vmap, ours))(W), jax.grad(of_sum(jax.vmap, theirs))(W))


def test_a_call_at_once_and_a_decorator_are_the_same():
    def f(x, scale=1.0):
        return np.sin(x) * scale

    decorated = fdiff.checkpoint(f)
    assert repr(decorated) == "<fdiff.checkpoint(f)>"
    assert fdiff.autograd.checkpoint is fdiff.checkpoint
    assert np.array_equal(decorated(X, scale=2.0), f(X, 2.0))
    calls = [
        lambda x: np.sum(decorated(x, scale=2.0)),
        lambda x: np.sum(fdiff.checkpoint(f, x, scale=2.0)),
        lambda x: np.sum(fdiff.checkpoint(lambda: f(x, 2.0))()),
    ]
    for call in calls:
        assert np.array_equal(fdiff.grad(call)(X), 2.0 * np.cos(X))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_the_option_of_torch_that_makes_no_difference(use_reentrant):
    calls = []

    def f(x, power=2):
        calls.append(power)
        return np.sin(x) ** power

    call = lambda x: fdiff.checkpoint(f, x, power=3, use_reentrant=use_reentrant)
    expected = 3 * np.sin(X) ** 2 * np.cos(X)
    np.testing.assert_allclose(fdiff.grad(lambda x: np.sum(call(x)))(X), expected, rtol=1e-12)
    x = fdiff.autograd.tensor(X, requires_grad=True)
    calls.clear()
    (gradient,) = fdiff.autograd.grad(call(x).sum(), x)  # also where torch's other way refuses it
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-12)
    assert calls == [3, 3], "forward, and again"
    with pytest.raises(errors.InputError, match="use_reentrant must be True or False"):
        fdiff.checkpoint(f, x, use_reentrant="no")


def test_a_method_and_what_it_reads_anew():
    class Layer:
        def __init__(self):
            self.weight = 2.0 * np.ones(3)

        @fdiff.checkpoint
        def __call__(self, x):
            return np.sin(self.weight * x)

    layer = Layer()
    gradient = fdiff.grad(lambda x: np.sum(layer(x)))
    assert np.allclose(gradient(X), 2.0 * np.cos(2.0 * X), rtol=1e-15)
    layer.weight = np.ones(3)
    assert np.allclose(gradient(X), np.cos(X), rtol=1e-15)


def test_branches_are_taken_anew():
    @fdiff.checkpoint
    def f(x):
        return np.sin(x) if np.sum(x) > 0 else x**2

    gradient = fdiff.grad(lambda x: np.sum(f(x)))
    for x in (X, np.abs(X), -np.abs(X), 2.0 * np.abs(X)):
        expected = np.cos(x) if np.sum(x) > 0 else 2.0 * x
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-15)


def test_many_branches():
    """So many that the function is run anew at each call."""

    @fdiff.checkpoint
    def f(x):
        for k in range(4):
            x = np.sin(x) if x[k % 3] > 0.3 * k else x * x - 0.2 * k
        return x

    def plain(x):
        for k in range(4):
            x = np.sin(x) if x[k % 3] > 0.3 * k else x * x - 0.2 * k
        return x

    loss = lambda g: lambda x: np.sum(g(g(x)) * x)
    ours, theirs = fdiff.grad(loss(f)), fdiff.grad(loss(plain))
    second, expected = fdiff.hessian(loss(f)), fdiff.hessian(loss(plain))
    for x in np.random.default_rng(0).normal(size=(24, 3)):
        np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(second(x), expected(x), rtol=1e-12, atol=1e-12)


def test_functions_with_rules_keep_them_inside():
    @fdiff.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, bar: (3.0 * bar,))
    f = fdiff.checkpoint(lambda x: np.sin(clipped(x)))
    loss = lambda x: np.sum(f(x))
    assert np.array_equal(fdiff.grad(loss)(X), 3.0 * np.cos(X))
    long = np.linspace(0.0, 1.0, 50)  # whose Jacobian is sparse
    np.testing.assert_array_equal(fdiff.jacobian(f)(long), np.diag(3.0 * np.cos(long)))
    np.testing.assert_allclose(fdiff.hessian(loss)(X), np.diag(-3.0 * np.sin(X)), rtol=1e-15)


def test_complex_and_whole_numbers():
    k = np.array([2, 0, 1])

    def f(z, k):
        return np.abs(np.exp(z)[k]) ** 2

    def expected(z):
        return 2.0 * np.abs(np.exp(z)) ** 2

    g = fdiff.checkpoint(f)
    found = fdiff.grad(lambda z: np.sum(g(z, k)), complex_inputs="conjugate")(X + 0.3j)
    np.testing.assert_allclose(found, expected(X + 0.3j), rtol=1e-13)


def test_sparse_derivatives_stay_sparse():
    """The same entries as without a checkpoint, and the dependence is that of the function."""
    f = lambda x: np.sin(x) * np.roll(x, 1)
    split = lambda x, y: (np.sin(x), np.exp(y))
    x = np.linspace(0.1, 1.0, 60)
    g = fdiff.checkpoint(f)
    assert np.array_equal(fdiff.jacobian(g)(x), fdiff.jacobian(f)(x))
    for what in ("Jacobian", "Hessian"):
        scalar = (lambda h: lambda x: np.sum(h(x) ** 2)) if what == "Hessian" else lambda h: h
        ours, plain = (fdiff.explain(scalar(h), x).cost(what) for h in (g, f))
        assert ours.mode == plain.mode == "terms"
        assert ours.note == plain.note  # as many entries
    hessian = fdiff.hessian(scalar(g))(x)
    np.testing.assert_allclose(hessian, fdiff.hessian(scalar(f))(x), rtol=1e-13)
    told = fdiff.explain(fdiff.checkpoint(split), X, X, argnums=(0, 1)).dependence
    assert told.matrix() == [["nonlinear", "none"], ["none", "nonlinear"]]


def test_kinks_and_anomalies_are_found_inside():
    f = fdiff.checkpoint(lambda x: np.sqrt(np.abs(x)))
    loss = fdiff.grad(lambda x: np.sum(f(x)))
    with fdiff.kinks("raise"), pytest.raises(errors.KinkError, match="absolute"):
        loss(np.array([1.0, 0.0]))
    with fdiff.autograd.detect_anomaly(), pytest.raises(errors.AnomalyError, match="'SqrtB"):
        loss(np.array([1.0, 0.0]))


def test_what_is_refused():
    def stores(x):
        x[0] = 1.0
        return x

    with pytest.raises(errors.TraceError, match=r"checkpoint\(stores\): .* stores into an array"):
        fdiff.grad(lambda x: np.sum(fdiff.checkpoint(stores)(x * 1.0)))(X)
    with pytest.raises(errors.InputError, match="expects a function first"):
        fdiff.checkpoint(X)


# --- memory and time ------------------------------------------------------------------------------


def blocks(layer):
    """A loss behind a long chain, each step of which needs all entries of the one before."""

    def program(x):
        for _ in range(8):
            x = layer(x)
        return np.sum(x * x)

    return program


def block(x):
    for _ in range(6):
        x = np.tanh(x - np.mean(x, axis=0)) * 1.5
    return x


ROWS = np.random.default_rng(1).normal(size=(300, 20))


def tape_of(f):
    """The tape that runs."""
    return inlined(fdiff.make_tape(f, ROWS))


@pytest.mark.slow
def test_kernels_need_less_memory_for_one_more_forward_pass():
    """Of 8 blocks of 6 steps, about 8 + 6 steps are stored in place of 48."""
    plain, ours = (tape_of(fdiff.grad(blocks(f))) for f in (block, fdiff.checkpoint(block)))
    assert workspace(ours, ("C",)) < 0.4 * workspace(plain, ("C",))
    full, less = kernels.costs_of_tape(plain), kernels.costs_of_tape(ours)
    assert less.peak < 0.4 * full.peak
    forward = kernels.costs_of_tape(tape_of(blocks(block))).flops
    assert full.flops < less.flops <= full.flops + 1.02 * forward


def test_memory_falls(monkeypatch):
    """What NumPy holds, measured; kernels have a workspace, which the test above predicts."""
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    fdiff.cache_clear()
    peaks, found = [], []
    for f in (block, fdiff.checkpoint(block)):
        gradient = fdiff.grad(blocks(f)).compile(ROWS)
        tracemalloc.start()
        found.append(gradient(ROWS))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11, atol=1e-14)
    assert peaks[1] < 0.5 * peaks[0]


def test_second_derivatives_need_less_memory_too():
    def peak(f):
        product = tape_of(lambda x: fdiff.hvp(blocks(f), x, np.ones_like(ROWS))[1])
        return kernels.costs_of_tape(product).peak

    assert peak(fdiff.checkpoint(block)) < 0.5 * peak(block)


def test_equal_blocks_are_derived_once(monkeypatch):
    """The pullback of a block is made once, however often it is called."""
    swept, pull_back = [], checkpoint_rules.pull_back
    counted = lambda *args, **options: swept.append(args) or pull_back(*args, **options)
    monkeypatch.setattr(checkpoint_rules, "pull_back", counted)
    fdiff.grad(blocks(fdiff.checkpoint(lambda x: 1.25 * np.tanh(np.cumsum(x)).reshape(x.shape))))(
        ROWS
    )
    assert len(swept) == 1


def test_what_is_computed_again_is_merged_with_nothing():
    f = fdiff.checkpoint(lambda x: np.cumsum(np.exp(x)))
    gradient = fdiff.grad(lambda x: np.sum(f(f(x)) ** 2))
    tape = inlined(fdiff.make_tape(gradient, X))
    names = [node.primitive.name for node in tape.nodes]
    assert "custom_call" not in names
    assert names.count("exp") == 4
    assert "custom_call" not in fdiff.source(gradient, X, stage="fuse")
