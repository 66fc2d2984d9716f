"""Arguments and results nested in tuples, lists and dicts, under every operator, as in JAX.

A table of structures for arguments, one for results, one of operators and the forms of their calls;
JAX gives the values, and the structure of the result.
"""

from collections import OrderedDict, namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize

import fdiff
from fdiff.errors import InputError, VectorError

jax.config.update("jax_enable_x64", True)

Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - as users write it

A, B = np.array([0.5, -1.0, 2.0]), np.array([[1.5, 0.25], [-0.75, 2.0]])

# How the arrays a and b of an argument are nested, and how a function finds them there.
INPUTS = {
    "tuple": (lambda a, b: (a, b), lambda p: p),
    "list": (lambda a, b: [a, b], lambda p: p),
    "dict": (lambda a, b: {"u": a, "v": b}, lambda p: (p["u"], p["v"])),
    "ordered dict": (lambda a, b: OrderedDict(z=a, y=b), lambda p: (p["z"], p["y"])),
    "named tuple": (Pair, lambda p: (p.a, p.b)),
    "nested tuples": (lambda a, b: ((a,), ((b,),)), lambda p: (p[0][0], p[1][0][0])),
    "dict of lists": (lambda a, b: {"u": [a, (b,)]}, lambda p: (p["u"][0], p["u"][1][0])),
    "None beside": (lambda a, b: (a, None, {"v": b}), lambda p: (p[0], p[2]["v"])),
    "named tuple of dicts": (lambda a, b: Pair({"u": a}, [b]), lambda p: (p.a["u"], p.b[0])),
}
# What a function makes of them.
OUTPUTS = {
    "array": lambda a, b: a[:2] * b[0],
    "scalar": lambda a, b: a[0] * b[0, 0] ** 2,
    "tuple": lambda a, b: (a * b[1, 1], b**2),
    "tuple of one": lambda a, b: (a * b[0, 1],),
    "tuple of array and scalar": lambda a, b: (a**2, a[1] * b[0, 0]),
    "list of arrays": lambda a, b: [a**2 * b[0, 0], b],
    "list of array and scalar": lambda a, b: [a**2 * b[0, 0], b[1, 1] * a[0]],
    "dict": lambda a, b: {"w": a**3, "x": a[0] * b},
    "dict of scalars": lambda a, b: {"w": a[0] * b[0, 0], "x": b[1, 0] ** 3},
    "nested tuples": lambda a, b: (a**2, (b[0], (a[1] * b, a[0]))),
    "dict of tuples": lambda a, b: {"w": (a, b[0] * a[0]), "x": {"y": [b**2]}},
    "named tuple": lambda a, b: Pair(a * b[0, 0], {"x": b**2}),
    "None beside": lambda a, b: (a * b[0, 0], None, b**2),
    "one of no dependence": lambda a, b: {"w": a**2, "x": 3.0 * b},
}


def cases(number=2):
    """Every structure of arguments with some of results, each of these at least once."""
    names = [*OUTPUTS] * 3
    return [(i, o) for k, i in enumerate(INPUTS) for o in names[2 * k : 2 * k + number]]


def function(into, out):
    return lambda p: OUTPUTS[out](*INPUTS[into][1](p))


def like(tree, rng):
    """A tree of random arrays, built like another one."""
    leaves, spec = jax.tree.flatten(tree)
    return jax.tree.unflatten(spec, [rng.normal(size=np.shape(x)) for x in leaves])


def same(found, wanted, rtol=1e-12):
    """Equal structure, shapes and values; leaves are NumPy's."""
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert isinstance(mine, (np.ndarray, np.generic))
        assert np.shape(mine) == np.shape(theirs)
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(("into", "out"), cases())
def test_jacobians_nest_by_outputs_then_inputs(into, out):
    f, p = function(into, out), INPUTS[into][0](A, B)
    want = jax.jacrev(f)(p)
    same(fdiff.jacobian(f)(p), want)
    same(fdiff.jacrev(f)(p), want)
    same(fdiff.jacfwd(f)(p), jax.jacfwd(f)(p))
    same(fdiff.jacobian(f, mode="forward")(p), want)
    same(fdiff.jacobian(f, mode="reverse", chunk_size=2)(p), want)
    same(fdiff.jit(fdiff.jacobian(f))(p), want)
    same(fdiff.jacobian(f, (p,)), jax.jacrev(f, argnums=(0,))(p))
    if not isinstance(p, (tuple, list)):
        same(fdiff.jacobian(f, p), want)


@pytest.mark.slow
@pytest.mark.parametrize(("into", "out"), cases())
def test_jacobians_of_several_arguments(into, out):
    f = lambda s, p, q: OUTPUTS[out](*[x * s * q["k"] for x in INPUTS[into][1](p)])
    p, q = INPUTS[into][0](A, B), {"k": np.float64(1.25)}
    for argnums in (1, -2, (1,), (1, 2), (0, 2), (2, 0)):
        want = jax.jacrev(f, argnums)(2.0, p, q)
        same(fdiff.jacobian(f, argnums=argnums)(2.0, p, q), want)
        same(fdiff.jacrev(f, argnums)(2.0, p, q), want)
    same(fdiff.jacobian(f, (2.0, p, q)), jax.jacrev(f, (0, 1, 2))(2.0, p, q))


@pytest.mark.parametrize(("into", "out"), cases())
def test_products(into, out):
    rng = np.random.default_rng(0)
    f, p = function(into, out), INPUTS[into][0](A, B)
    v = like(p, rng)
    want = jax.jvp(f, (p,), (v,))
    for found in (fdiff.jvp(f)(p, v), fdiff.jvp(f, (p,), (v,)), fdiff.jit(fdiff.jvp(f))(p, v)):
        same(found, want)
    w = like(want[0], rng)
    values, pull = jax.vjp(f, p)
    (slope,) = pull(jax.tree.map(jnp.asarray, w))
    same(fdiff.vjp(f)(p, w), (values, slope))
    same(fdiff.vjp(f, (p,), w), (values, (slope,)))
    same(fdiff.jit(fdiff.vjp(f))(p, w), (values, slope))
    for _ in range(4):  # by a fast path, where there is one
        same(fdiff.vjp(f)(p, w), (values, slope))


@pytest.mark.parametrize(("into", "out"), cases())
def test_products_of_several_arguments(into, out):
    rng = np.random.default_rng(1)
    f = lambda p, s, q: OUTPUTS[out](*[x * s * q["k"] for x in INPUTS[into][1](p)])
    given = INPUTS[into][0](A, B), np.float64(2.0), {"k": np.float64(1.25)}
    moves = like(given, rng)
    want = jax.jvp(f, given, moves)
    same(fdiff.jvp(f, given, moves), want)
    same(fdiff.jvp(f, argnums=(0, 1, 2))(given, moves), want)
    w = like(want[0], rng)
    values, pull = jax.vjp(f, *given)
    same(fdiff.vjp(f, given, w), (values, pull(jax.tree.map(jnp.asarray, w))))
    one = jax.vjp(lambda q: f(*given[:2], q), given[2])[1](jax.tree.map(jnp.asarray, w))[0]
    same(fdiff.vjp(f, argnums=2)(given[2], w, *given[:2])[1], one)


@pytest.mark.slow
@pytest.mark.parametrize("into", INPUTS)
def test_gradients_and_second_derivatives(into):
    rng = np.random.default_rng(2)
    take, p = INPUTS[into][1], INPUTS[into][0](A, B)

    def f(p):
        a, b = take(p)
        return (a @ a) * (b**3).sum() + a[0] ** 3

    with_aux = lambda p: (f(p), {"a": take(p)[0] * 2.0})
    same(fdiff.grad(f)(p), jax.grad(f)(p))
    same(fdiff.value_and_grad(f)(p), jax.value_and_grad(f)(p))
    same(fdiff.grad(with_aux, has_aux=True)(p), jax.grad(with_aux, has_aux=True)(p))
    same(fdiff.jit(fdiff.grad(f))(p), jax.grad(f)(p))
    v = like(p, rng)
    want = jax.jvp(jax.grad(f), (p,), (v,))[1]
    for product in (fdiff.hvp, fdiff.vhp):
        same(product(f)(p, v), want)
        same(product(f, (p,), (v,)), (f(p), (want,)))
    same(fdiff.hessian(f)(p), jax.hessian(f)(p))
    same(fdiff.hessian(f, (p,)), jax.hessian(f, (0,))(p))


@pytest.mark.parametrize(("into", "out"), cases())
def test_hessians_of_several_outputs(into, out):
    f, p = function(into, out), INPUTS[into][0](A, B)
    want = jax.hessian(f)(p)
    for options in ({}, {"chunk_size": 2}):
        found = fdiff.hessian(f, **options)(p)
        same(found, want)
        same(fdiff.jit(fdiff.hessian(f, **options))(p), want)
    same(fdiff.hessian(f, (p,)), jax.hessian(f, (0,))(p))


@pytest.mark.parametrize(("into", "out"), cases(1))
def test_batches_of_nested_derivatives(into, out):
    rng = np.random.default_rng(3)
    f, p = function(into, out), INPUTS[into][0](A, B)
    many = jax.tree.map(lambda x: np.stack([x, 2 * x, x - 1]), p)
    same(fdiff.vmap(fdiff.jacobian(f))(many), jax.vmap(jax.jacrev(f))(many))
    v = like(many, rng)
    want = jax.vmap(lambda p, v: jax.jvp(f, (p,), (v,)))(many, v)
    same(fdiff.vmap(fdiff.jvp(f))(many, v), want)
    same(fdiff.vmap(lambda p, v: fdiff.jvp(f, (p,), (v,)))(many, v), want)


@pytest.mark.parametrize("out", OUTPUTS)
def test_nested_derivatives_are_differentiated_again(out):
    f = lambda x: OUTPUTS[out](x, B * x[0])
    total = lambda d, x: sum((leaf**2).sum() for leaf in jax.tree.leaves(d(f)(x)))
    want = jax.grad(lambda x: total(jax.jacrev, x))(A)

    def ours(x):
        leaves = fdiff.tree.flatten(fdiff.jacobian(f)(x))[0]
        return sum(np.sum(leaf**2) for leaf in leaves)

    same(fdiff.grad(ours)(A), want, rtol=1e-10)


@pytest.mark.parametrize("out", OUTPUTS)
def test_recorded_arrays(out):
    f = lambda x: OUTPUTS[out](np.exp(x), B * np.sin(x[0]))
    squares = lambda tree: sum(np.sum(leaf**2) for leaf in fdiff.tree.flatten(tree)[0])
    for derive in (fdiff.jacobian(f), fdiff.hessian(f), lambda x: fdiff.jvp(f, x, A)[1]):
        z = fdiff.autograd.tensor(A, requires_grad=True)
        found = derive(z)
        wanted = derive(A)
        assert jax.tree.structure(fdiff.tree.map_leaves(np.asarray, wanted)) == jax.tree.structure(
            fdiff.tree.map_leaves(lambda leaf: leaf.detach().numpy(), found)
        )
        squares(found).backward()
        same(np.asarray(z.grad), fdiff.grad(lambda x: squares(derive(x)))(A), rtol=1e-10)


# --- Hessians of arrays ---------------------------------------------------------------------------


def cubes(x):
    return np.stack([x @ x * x[0], np.sum(x**3), x[0] * x[1] * x[2]])


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
def test_the_hessian_of_an_array_in_every_form(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    fdiff.cache_clear()
    want = np.stack([fdiff.hessian(lambda x, k=k: cubes(x)[k])(A) for k in range(3)])
    hess, out = fdiff.hessian(cubes), np.empty((3, 3, 3))
    for _ in range(4):
        same(hess(A), want)
    same(fdiff.hessian(cubes, A), want)
    same(fdiff.jacobian(fdiff.jacobian(cubes))(A), want)
    same(fdiff.vmap(hess)(np.stack([A, A])), np.stack([want, want]))
    same(fdiff.hessian(lambda x: [*cubes(x)])(A), want)  # a list of numbers is an array
    assert hess(A, out=out) is out
    same(out, want)
    third = fdiff.jacobian(hess)(A)
    assert third.shape == (3, 3, 3, 3)
    for axes in ((0, 2, 1, 3), (0, 1, 3, 2)):
        np.testing.assert_allclose(third, third.transpose(axes), atol=1e-14)
    fdiff.cache_clear()


@pytest.mark.parametrize("chunk_size", ["auto", 1, 2])
def test_the_hessian_of_an_array_is_symmetric_to_the_bit(chunk_size):
    rng = np.random.default_rng(4)
    m = rng.normal(size=(5, 6))
    f = lambda p: {"u": np.tanh(m @ p["x"]) * p["k"], "v": np.sin(p["x"]) @ np.exp(p["x"])}
    p = {"x": rng.normal(size=6), "k": rng.normal(size=5)}
    found = fdiff.hessian(f, chunk_size=chunk_size)(p)
    for block in (found["u"]["x"]["x"], found["v"]["x"]["x"]):
        np.testing.assert_array_equal(block, np.swapaxes(block, -1, -2))
    mixed = found["u"]["x"]["k"]
    np.testing.assert_array_equal(mixed, np.swapaxes(found["u"]["k"]["x"], -1, -2))
    same(found["u"]["x"]["x"][2], fdiff.hessian(lambda x: f({**p, "x": x})["u"][2])(p["x"]))


def test_one_element_is_a_scalar_as_in_torch_and_in_a_structure_an_array_as_in_jax():
    cube = lambda x: np.sum(x**3)
    want = np.diag(6 * A)
    for out in (cube, lambda x: cube(x)[None], lambda x: cube(x)[None, None]):
        same(fdiff.hessian(out)(A), want)
        same(fdiff.hessian(lambda x: (out(x),))(A), (want.reshape((*np.shape(out(A)), 3, 3)),))
    assert fdiff.hessian(lambda x: x[:0])(A).shape == (0, 3, 3)
    assert fdiff.hessian(np.sin)(np.zeros(0)).shape == (0, 0, 0)
    whole = fdiff.hessian(lambda x: (x**2, np.argmax(x)))(A)
    same(whole[1], np.zeros((3, 3)))


@pytest.mark.filterwarnings("ignore:hessian.*branches another way:fdiff.errors.RetraceWarning")
def test_the_hessian_of_an_array_that_is_differentiated_as_it_runs():
    def f(x):
        return np.array([v**3 if v > 0 else np.sin(v) for v in x])

    rng, hess, k = np.random.default_rng(5), fdiff.hessian(f), np.arange(9)
    for _ in range(30):
        x = rng.normal(size=9)
        want = np.zeros((9, 9, 9))
        want[k, k, k] = np.where(x > 0, 6 * x, -np.sin(x))
        np.testing.assert_allclose(hess(x), want, atol=1e-13)
    assert hess.program.stability, "some calls were eager"


def test_strict_looks_at_every_output():
    with pytest.raises(fdiff.errors.StrictError, match="Output 1 of the user-provided function do"):
        fdiff.hessian(lambda x: (x**2, np.ones(2)), A, strict=True)
    words = r"found that the jacobian .* with respect to input 1 is independent"
    with pytest.raises(fdiff.errors.StrictError, match=words):
        fdiff.hessian(lambda x, y: x**2 + y, (A, A), strict=True)


def test_the_products_of_an_array_name_the_hessian():
    for op in (fdiff.hvp, fdiff.vhp):
        name = op.__name__
        first = (
            f"{name}(<lambda>): The array returned by the function given to {name} should contain a"
            " single element, but it has shape (3,)."
        )
        found = refused(lambda op=op: op(lambda x: x**2, A, A), VectorError)
        assert found == (first, "Sum it, or write fdiff.hessian(f) for all second derivatives.")


def pair(x):
    return np.stack([x[0] ** 2 + x[1] ** 2, x[0] * x[1]])


def away(x):
    return (x[0] - 2.0) ** 2 + (x[1] - 1.0) ** 2


def bounded(hess):
    """The nearest point where two values are bounded, by a solver that asks ``hess(x, v)``."""
    bound = NonlinearConstraint(
        pair, [1.0, -np.inf], [2.0, 0.5], jac=fdiff.jacobian(pair), hess=hess
    )
    return minimize(
        away, [1, 0.5], jac=fdiff.grad(away), hess=fdiff.hessian(away),
        method="trust-constr", constraints=bound, tol=1e-9,
    )  # fmt: skip


def test_constraints_of_scipy():
    hess = fdiff.hessian(pair)
    every = bounded(lambda x, v: np.tensordot(v, hess(x), 1))
    combined = bounded(lambda x, v: fdiff.hessian(lambda x: np.dot(v, pair(x)))(x))
    for found in (every, combined):
        assert found.success
        np.testing.assert_allclose(pair(found.x), [2.0, 0.5], atol=1e-3)
    with pytest.raises(TypeError, match=r"takes 1 positional argument but 2 were given") as caught:
        bounded(hess)
    assert caught.value.__notes__[0].splitlines()[-1] == (
        "NonlinearConstraint calls hess(x, v): write"
        " hess=fdiff.hessian(lambda x, v: numpy.dot(v, pair(x)))."
    )


# --- what NumPy users write: lists of numbers are arrays ------------------------------------------


def test_lists_of_numbers_are_arrays_and_lists_of_arrays_are_lists():
    x = np.array([2.0, 3.0])
    np.testing.assert_array_equal(fdiff.jacobian(lambda x: [x[0], x[1] ** 2], x), [[1, 0], [0, 6]])
    first, second = fdiff.jacobian(lambda x: [x[:1], x[1:] ** 2], x)
    np.testing.assert_array_equal(first, [[1, 0]])
    np.testing.assert_array_equal(second, [[0, 6]])
    inner = fdiff.jacobian(lambda x: {"u": [x[0], x[1] ** 2]}, x)["u"]  # inside, it is structure
    assert [row.tolist() for row in inner] == [[1, 0], [0, 6]]


RAGGED = (
    "{call}: {what} a ragged list: its parts have different lengths, and it is not an array.",
    (
        "Make an array of each part, and put these into a tuple or dict; or pad the parts to one"
        " length."
    ),
)
LISTS = [[1.0, 2.0], [3.0]]
ONCE = ("jacobian", "hessian", "vjp", "jvp", "hvp", "vhp")


def refused(call, kind=InputError):
    """The first line of an error, and the last."""
    with pytest.raises(kind) as caught:
        call()
    first, *_, last = str(caught.value).splitlines()
    return first, last.strip()


@pytest.mark.parametrize("name", ONCE)
def test_a_ragged_list_as_argument(name):
    op, v = getattr(fdiff, name), () if name in ("jacobian", "hessian") else (LISTS,)

    def f(x):
        return x[0][0]

    want = tuple(s.format(call=f"{name}(f)", what="an argument is") for s in RAGGED)
    calls = (
        lambda: op(f, LISTS, *v),
        lambda: op(f)(LISTS, *v),
        lambda: op(f, (LISTS,), *v),
        lambda: op(lambda y: op(f)(LISTS, *v), A, *v[:0]) if not v else op(f)(LISTS, *v),
    )
    for call in calls[: 3 + (not v)]:
        assert refused(call) == want


@pytest.mark.parametrize("name", ["jacobian", "vjp", "jvp"])
@pytest.mark.parametrize(
    "rows",
    [
        lambda x: [[x[0], x[1]], [x[0]]],
        lambda x: [x[0], [x[1]]],
        lambda x: [(x[0], x[1]), (1.0,)],
    ],
)
def test_a_ragged_list_as_result(name, rows):
    op, v = getattr(fdiff, name), () if name == "jacobian" else (A,)

    def f(x):
        return rows(x)

    what = "the outputs of the user-provided function are"
    want = tuple(s.format(call=f"{name}(f)", what=what) for s in RAGGED)
    assert refused(lambda: op(f, A, *v)) == refused(lambda: op(f)(A, *v)) == want


STEM = (
    "jacobian(<lambda>): The {} given to jacobian must be either an array or a tuple of arrays but"
    " the {}."
)
LISTED = (
    "Write numpy.array(inputs) for one array, tuple(inputs) for several, (inputs,) for one argument"
    " that is a list."
)
EACH = "Make each an array: numpy.asarray(x)."


@pytest.mark.parametrize(
    ("inputs", "words", "way"),
    [
        ([A, A], "given inputs has type list", LISTED),
        ({"a": "x"}, "value at ['a'] has type str", EACH),
        ({"a": (A, [B, "x"])}, "value at ['a'][1][1] has type str", EACH),
        ((A, "x"), "value at index 1 has type str", EACH),
        ((A, (B, {"k": "x"})), "value at [1][1]['k'] has type str", EACH),
        ((A, {}), "value at index 1 has type dict", EACH),
        ((A, None), "value at index 1 has type NoneType", EACH),
        ({}, "given inputs has type dict", "Pass an array: numpy.asarray(x)."),
    ],
)
def test_inputs_that_hold_something_else(inputs, words, way):
    found = refused(lambda: fdiff.jacobian(lambda *p: 1.0, inputs))
    assert found == (STEM.format("inputs", words), way)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: {"a": x, "b": "x"}, "value at ['b'] has type str"),
        (lambda x: (x, "x"), "value at index 1 has type str"),
        (lambda x: (x, (x, "x")), "value at [1][1] has type str"),
        (lambda x: "x", "given outputs of the user-provided function has type str"),
        (lambda x: {}, "given outputs of the user-provided function has type dict"),
        (lambda x: [], "given outputs of the user-provided function has type list"),
        (lambda x: None, "given outputs of the user-provided function has type NoneType"),
        (lambda x: (), "given outputs of the user-provided function is an empty tuple"),
        (lambda x: (None,), "given outputs of the user-provided function holds no array"),
    ],
)
def test_results_that_hold_something_else(f, words):
    outputs = STEM.format("outputs of the user-provided function", words)
    way = "Return an array, or arrays in tuples, lists and dicts."
    assert refused(lambda: fdiff.jacobian(f, A)) == (outputs, way)


def test_a_vector_is_built_like_what_it_belongs_to():
    f = lambda p: {"w": p["u"][0] * p["u"][1], "x": (p["u"][0],)}
    p, v = {"u": (A, A)}, {"w": A, "x": (A,)}
    want = fdiff.vjp(f, p, v)
    same(fdiff.vjp(f, p, {"x": (A.tolist(),), "w": A.tolist()}), want)  # keys in any order
    for wrong in ({"w": A}, {"w": A, "x": A}, {"w": A, "x": [A]}, (A, (A,)), {"w": A, "y": (A,)}):
        first = "vjp(<lambda>): v is not built like the outputs."
        found = refused(lambda v=wrong: fdiff.vjp(f, p, v), VectorError)
        assert found == (first, "Pass v with the structure and shapes of the outputs.")
    first = "vjp(<lambda>): Entry 1 in v has invalid size: should be (3,) but got (2,)."
    assert refused(lambda: fdiff.vjp(f, p, {"w": A, "x": (A[:2],)}), VectorError)[0] == first
