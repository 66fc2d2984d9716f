"""linearize and ravel: JAX's, on trees, in other transforms, in every tier."""

import gc
import weakref

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, gmres

import fdiff
from fdiff.errors import DtypeError, InputError, VectorError

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)
M = RNG.normal(size=(5, 5))
X, V = RNG.normal(size=5), RNG.normal(size=5)

FUNCTIONS = {
    "elementwise": lambda x, np: np.tanh(np.sin(x) * x[0]),
    "matrix": lambda x, np: np.exp(M @ x) / np.sum(x**2),
    "linear": lambda x, np: M @ x,
    "constant": lambda x, np: np.ones(3),
    "identity": lambda x, np: x,
    "scalar": lambda x, np: np.log(np.sum(np.exp(x))),
    "dict": lambda x, np: {"u": x**3, "v": (np.sum(x), x[::-1] * x)},
    "steps": lambda x, np: np.where(x > 0, x**2, np.abs(x)),
    "solve": lambda x, np: np.linalg.solve(M + np.diag(x), x),
}
every = pytest.mark.parametrize("name", FUNCTIONS)


def same(found, want, rtol=1e-12):
    assert jax.tree.structure(found) == jax.tree.structure(want)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        assert np.shape(mine) == np.shape(theirs)
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=1e-13)


@pytest.fixture(params=["interpret", "evaluate", "compile", ""])
def _tier(request, monkeypatch):
    fdiff.cache_clear()
    if request.param:
        monkeypatch.setenv("FDIFF_TIER", request.param)
    yield
    fdiff.cache_clear()


@every
@pytest.mark.usefixtures("_tier")
def test_the_map_is_that_of_jax(name):
    f, theirs = (lambda x: FUNCTIONS[name](x, np)), (lambda x: FUNCTIONS[name](x, jnp))
    for point in (X, 2 * X):
        out, f_jvp = fdiff.linearize(f, point)
        want, map_ = jax.linearize(theirs, point)
        same(out, want)
        for k in range(4):
            same(f_jvp(V + k), map_(V + k))


@every
def test_the_point_stays_what_it_was(name):
    f, x = (lambda x: FUNCTIONS[name](x, np)), X.copy()
    out, f_jvp = fdiff.linearize(f, x)
    want = f_jvp(V)
    x[:] = 7.0
    for leaf in fdiff.tree.flatten(out)[0]:
        if np.ndim(leaf):
            leaf[...] = 3.0
    same(f_jvp(V), want)
    for leaf in fdiff.tree.flatten(f_jvp(V))[0]:
        if np.ndim(leaf):
            leaf[...] = 5.0  # results are the caller's own
    same(f_jvp(V), want)


@every
def test_in_other_transforms(name):
    f, theirs = (lambda x: FUNCTIONS[name](x, np)), (lambda x: FUNCTIONS[name](x, jnp))
    _, f_jvp = fdiff.linearize(f, X)
    _, map_ = jax.linearize(theirs, X)
    same(fdiff.vmap(f_jvp)(np.eye(5)), jax.vmap(map_)(np.eye(5)))
    same(fdiff.jit(f_jvp)(V), map_(V))
    same(fdiff.jacobian(f_jvp)(V), jax.jacfwd(map_)(V))
    leaves = lambda tree: sum((leaf**2).sum() for leaf in fdiff.tree.flatten(tree)[0])
    ours = lambda x: leaves(fdiff.linearize(f, x)[1](V))
    want = jax.grad(lambda x: leaves(jax.linearize(theirs, x)[1](V)))(X)
    same(fdiff.grad(ours)(X), want, rtol=1e-9)
    both = lambda x: fdiff.linearize(f, x)[0]
    same(fdiff.jit(both)(X), theirs(X))


def test_a_traced_function_sees_which_map_it_reads():
    """Maps share their code, and programs of equal code are shared: the map is compared."""
    f = lambda x: np.sin(x) * x[0]
    maps = [fdiff.linearize(f, k * X)[1] for k in (1.0, 2.0, 3.0)]
    for _ in range(3):
        for f_jvp in maps:
            total = lambda t: np.sum(f_jvp(t * V) ** 2)
            assert fdiff.grad(total)(1.5) == pytest.approx(3.0 * np.sum(f_jvp(V) ** 2))
            same(fdiff.vmap(f_jvp)(np.stack([V, X])), np.stack([f_jvp(V), f_jvp(X)]))


def test_a_map_of_an_outer_trace_is_differentiated_in_an_inner_one():
    def outer(d, np):
        def total(x):
            f_jvp = d.linearize(lambda x: np.tanh(np.sin(x) * x[0]), x)[1]
            return d.grad(lambda t: np.sum(f_jvp(t * V) ** 2 * x[0]))(1.5)

        return total

    same(fdiff.grad(outer(fdiff, np))(X), jax.grad(outer(jax, jnp))(X), rtol=1e-10)
    many = np.stack([X, V])
    same(fdiff.vmap(outer(fdiff, np))(many), jax.vmap(outer(jax, jnp))(many), rtol=1e-10)


def test_several_arguments_and_structures():
    f = lambda p, s: {"y": p["w"] ** 2 * s, "z": [p["b"][0] * s, p["w"][0]]}
    p, s = {"w": X, "b": (2.0,)}, 1.5
    tangents = {"w": V, "b": (0.5,)}, 0.25
    out, f_jvp = fdiff.linearize(f, p, s)
    same((out, f_jvp(*tangents)), jax.jvp(f, (p, s), tangents))
    swapped = {"b": (0.5,), "w": V.tolist()}  # keys in any order, lists of numbers
    same(f_jvp(swapped, 0.25), f_jvp(*tangents))
    out, f_jvp = fdiff.linearize(lambda x: [x[0] * x[1], x[0]], [2, 3])  # as for SciPy
    same((out, f_jvp([1, 0])), (np.array([6.0, 2.0]), np.array([3.0, 1.0])))
    single, f_jvp = fdiff.linearize(lambda x: x**3, X.astype("f4"))
    assert single.dtype == f_jvp(V).dtype == np.float32


def test_functions_that_branch_are_linearised_where_they_are():
    def f(x):
        return np.array([v**3 if v > 0 else np.sin(v) for v in x])

    for _ in range(30):
        x, v = RNG.normal(size=(2, 7))
        out, f_jvp = fdiff.linearize(f, x)
        same(out, f(x))
        same(f_jvp(v), np.where(x > 0, 3 * x**2, np.cos(x)) * v)


def test_values_are_not_computed_again():
    """Products with what is kept are left, whatever the function: nothing that is not linear."""

    def f(x):
        for _ in range(5):
            x = np.exp(np.sin(x) * np.cos(x)) + np.tanh(x**3) * np.sum(x)
        return x

    _, f_jvp = fdiff.linearize(f, X)
    names = {node.primitive.name for node in f_jvp._step.tape.nodes}
    moves = {"input", "constant", "reshape", "broadcast_to"}
    assert names <= {*moves, "multiply", "add", "subtract", "negative", "sum"}


def test_no_cache_keeps_the_arrays_of_a_map():
    def used():
        f_jvp = fdiff.linearize(lambda x: np.sin(x) * x[0], X)[1]
        fdiff.vmap(f_jvp)(np.stack([V, X]))
        fdiff.jacobian(f_jvp, V)
        return weakref.ref(f_jvp)

    kept = used()
    gc.collect()
    assert kept() is None


def test_newton_with_a_krylov_method():
    def residual(x):
        return np.array([4.0, 9.0, 16.0]) - x**2 + 0.1 * x[::-1]

    x = np.ones(3)
    for _ in range(8):
        out, f_jvp = fdiff.linearize(residual, x)
        step, _ = gmres(LinearOperator((3, 3), f_jvp), -out, rtol=1e-10)
        x += step
    np.testing.assert_allclose(residual(x), 0, atol=1e-10)


def refused(call, kind):
    with pytest.raises(kind) as caught:
        call()
    first, *_, last = str(caught.value).splitlines()
    return first, last.strip()


def test_wrong_arguments_are_refused():
    def f(x):
        return x**2

    way = "Pass v with the structure and shapes of the inputs."
    _, f_jvp = fdiff.linearize(f, X)
    assert refused(lambda: f_jvp(V, V), VectorError) == (
        "linearize(f): v is a tuple of invalid length: should be 1 but got 2.", way,
    )  # fmt: skip
    assert refused(lambda: f_jvp(V[:3]), VectorError) == (
        "linearize(f): Entry 0 in v has invalid size: should be (5,) but got (3,).", way,
    )  # fmt: skip
    assert refused(lambda: fdiff.linearize(f), InputError) == (
        "linearize(f): the tuple of inputs is empty.", "Pass at least one array.",
    )  # fmt: skip
    assert refused(lambda: fdiff.linearize(f, np.arange(3)), DtypeError) == (
        "linearize(f): only floating-point inputs can be differentiated, not int64.",
        "Convert it with x.astype(float).",
    )
    assert refused(lambda: fdiff.linearize(1.0, X), InputError)[0] == (
        "linearize: expects a function first, not float."
    )
    with pytest.raises(InputError, match=r"at index 0 has type \w+\."):
        fdiff.linearize(f, fdiff.autograd.tensor(X, requires_grad=True))


# --- ravel ----------------------------------------------------------------------------------------


TREES = {
    "array": M,
    "number": 2.5,
    "list": [X, M],
    "nested": {"w": [M, (X[:1], 3.0)], "v": np.zeros((0, 3))},
    "single precision": (X.astype("f4"), M.astype("f4")),
    "mixed": (X.astype("f4"), M),
    "complex": [X + 1j, 2j],
    "empty": {},
    "None beside": (X, None, 1.0),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=list(TREES))
def test_a_tree_is_its_vector_and_back(tree):
    flat, unravel = fdiff.ravel(tree)
    assert flat.shape == (sum(np.size(x) for x in fdiff.tree.flatten(tree)[0]),)
    again = unravel(flat)
    same(again, tree)
    mine, theirs = fdiff.tree.flatten(again)[0], fdiff.tree.flatten(tree)[0]
    assert [np.asarray(x).dtype for x in mine] == [np.asarray(x).dtype for x in theirs]
    assert not any(np.shares_memory(flat, x) for x in mine)
    if not isinstance(tree, dict):  # whose keys JAX sorts
        np.testing.assert_array_equal(flat, jax.flatten_util.ravel_pytree(tree)[0])


def test_one_function_for_each_structure():
    unravel = fdiff.ravel({"w": M, "b": 1.0})[1]
    assert fdiff.ravel({"w": 2 * M, "b": 3.0})[1] is unravel
    assert fdiff.ravel({"w": M, "b": X})[1] is not unravel
    assert repr(unravel) == "<unravel of 2 leaves, 26 numbers>"


def test_both_ways_are_differentiated():
    params = {"w": M, "b": 2.0, "more": [X]}
    loss = lambda p: np.sum(p["w"] ** 2) * p["b"] + np.sum(np.sin(p["more"][0]))
    flat, unravel = fdiff.ravel(params)
    slope = fdiff.grad(loss)(params)
    found = fdiff.grad(lambda z: loss(unravel(z)))(flat)
    np.testing.assert_allclose(found, fdiff.ravel(slope)[0], rtol=1e-13)
    inner = fdiff.grad(lambda p: np.sum(fdiff.ravel(p)[0] ** 3))(params)
    same(inner, jax.tree.map(lambda x: 3 * np.asarray(x) ** 2, params))
    whole = fdiff.grad(lambda p: loss(fdiff.ravel(p)[1](fdiff.ravel(p)[0])))(params)
    same(whole, slope)
    hess = fdiff.hessian(lambda z: loss(unravel(z)))(flat)
    assert hess.shape == (31, 31)
    many = fdiff.vmap(unravel)(np.stack([flat, 2 * flat]))
    same(many, jax.tree.map(lambda x: np.stack([x, 2 * np.asarray(x)]), params))
    start, back = fdiff.ravel({"a": X[:2], "k": 3.0})
    bowl = lambda z: np.sum((back(z)["a"] - 1.0) ** 2) + back(z)["k"] ** 2
    found = minimize(bowl, start, jac=fdiff.grad(bowl))
    same(back(found.x), {"a": np.ones(2), "k": 0.0}, rtol=1e-4)


def test_recorded_arrays_are_raveled_and_recorded():
    z = fdiff.autograd.tensor(X, requires_grad=True)
    flat, unravel = fdiff.ravel({"a": z, "b": V})
    np.sum(unravel(flat * flat)["a"] ** 2).backward()
    np.testing.assert_allclose(z.grad, 4 * X**3, rtol=1e-13)


@pytest.mark.parametrize(("tree", "kind", "fact", "way"), [
    ({"a": X, "b": "x"}, InputError, "['b'] is of type str, and not an array.",
     "Keep it outside of the parameters."),
    ({"a": [np.arange(3)]}, DtypeError,
     "['a'][0] is of int64, and only floating-point parameters vary.",
     "Convert it with x.astype(float), or keep it outside of the parameters."),
    (True, InputError, "params is of type bool, and not an array.",
     "Keep it outside of the parameters."),
    ((X, 1j * X), DtypeError, "[1] is of complex128 beside float64: real and complex numbers.",
     "Ravel the real and imaginary parts."),
])  # fmt: skip
def test_what_is_no_vector_is_refused(tree, kind, fact, way):
    assert refused(lambda: fdiff.ravel(tree), kind) == (f"ravel: {fact}", way)


def test_a_vector_of_another_shape_is_refused():
    unravel = fdiff.ravel((X, 1.0))[1]
    for wrong in (X, np.ones((6, 1)), 1.0):
        assert refused(lambda wrong=wrong: unravel(wrong), VectorError) == (
            f"ravel: unravel: the vector has shape {np.shape(wrong)}, and the tree 6 numbers.",
            "Pass an array of shape (6,).",
        )
