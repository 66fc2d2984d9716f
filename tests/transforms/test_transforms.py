"""grad, jacrev, jacfwd, vmap, jit and what shows or checks a program: JAX's rules for NumPy code.

JAX is the reference where values or structure are in question.
"""

import dataclasses
import threading
from collections import OrderedDict, namedtuple
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdiff
from fdiff.errors import DtypeError, InputError, RetraceWarning
from fdiff.interpret import evaluate
from fdiff.transforms.simplify import simplify

jax.config.update("jax_enable_x64", True)

Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - as users write it


@dataclasses.dataclass
class Model:
    weights: np.ndarray
    bias: float


X = np.array([1.0, 2.0, 3.0])


@pytest.fixture
def tier(request, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", request.param)
    return request.param


both_tiers = pytest.mark.parametrize("tier", ["interpret", "compile"], indirect=True)


def wave(x, np=np):
    return np.sum(np.sin(x) * x)


def same(found, wanted):
    """Equal structure, shapes and values; arrays or NumPy scalars throughout."""
    if isinstance(wanted, (tuple, list)):
        assert type(found) is type(wanted)
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            same(f, w)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            same(found[key], wanted[key])
    else:
        assert np.shape(found) == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


# --- grad -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("argnums", [0, 1, -1, (0,), (1, 0), (0, -1)])
def test_argnums_nest_as_in_jax(argnums):
    def f(a, b, np=np):
        return np.sum(a * np.exp(b))

    wanted = jax.grad(lambda a, b: f(a, b, jnp), argnums)(X, 2 * X)
    same(fdiff.grad(f, argnums)(X, 2 * X), jax.tree.map(np.asarray, wanted))


@pytest.mark.parametrize(
    "tree",
    [
        {"a": X, "b": 2.0},
        OrderedDict(z=X, a=2.0),
        [X, 2.0],
        (X, [X, {"k": 2.0}]),
        Pair(X, 2.0),
        Model(X, 2.0),
        {"a": X, "none": None},
        (),
    ],
    ids=str,
)
def test_a_gradient_has_the_structure_of_its_argument(tree):
    def leaves(t):
        if dataclasses.is_dataclass(t):
            t = tuple(vars(t).values())
        if isinstance(t, dict):
            t = tuple(t.values())
        return [t] if not isinstance(t, (tuple, list)) else [x for p in t for x in leaves(p)]

    def f(t):
        return sum((np.sum(x**3) for x in leaves(t) if x is not None), 0.0)

    for _ in range(2):  # traced, and found again
        slope = fdiff.grad(f)(tree)
        assert type(slope) is type(tree)
        if isinstance(tree, dict):
            assert list(slope) == list(tree)
        for d, x in zip(leaves(slope), leaves(tree), strict=True):
            if x is None:
                assert d is None
            else:
                assert type(d) is (np.ndarray if isinstance(x, np.ndarray) else np.float64)
                np.testing.assert_allclose(d, 3 * x**2)


def test_keyword_arguments_are_found_again():
    f = fdiff.grad(lambda x, scale: np.sum(x**2 * scale))
    for k in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(f(X, scale=np.full(3, k)), 2 * k * X)
        np.testing.assert_allclose(f(X, scale=k), 2 * k * X)


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (3.0, np.float64),
        (np.float64(3.0), np.float64),
        (np.float32(3.0), np.float32),
        (np.array(3.0), np.ndarray),
    ],
)
def test_scalars_in_scalars_out(x, kind):
    slope = fdiff.grad(lambda x: x * x)(x)
    assert type(slope) is kind
    assert slope == 6.0
    value, again = fdiff.value_and_grad(lambda x: x * x)(x)
    assert (value, again) == (9.0, 6.0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble", ">f8", ">f4"])
def test_precision_is_kept(dtype):
    x = X.astype(dtype)
    value, slope = fdiff.value_and_grad(wave)(x)
    native = x.dtype.newbyteorder("=")
    assert value.dtype == slope.dtype == native
    wide = X.astype("longdouble")
    eps = np.finfo(native).eps
    np.testing.assert_allclose(slope, np.sin(wide) + wide * np.cos(wide), rtol=20 * eps)


@pytest.mark.parametrize("bad", [True, np.array([True]), np.bool_(0)])
def test_truth_values_have_no_derivative(bad):
    with pytest.raises(
        DtypeError, match=r"grad\(<lambda>\): only floating-point inputs can be diff"
    ):
        fdiff.grad(lambda x: x * 1.0)(bad)


def test_what_has_no_derivative_is_named():
    with pytest.raises(DtypeError, match=r"not bool \(argument 0\['layers'\]\[1\]\)\."):
        fdiff.grad(lambda p: 1.0)({"layers": [X, np.True_]})
    with pytest.raises(InputError, match=r"value of type str \(argument 1\.weights\)\."):
        fdiff.grad(lambda x, p: 1.0, 1)(X, Model("w", 1.0))
    with pytest.raises(DtypeError, match=r"complex inputs \(complex128\) are not supported"):
        fdiff.grad(lambda x: np.sum(x.real))(X * 1j)


def test_aux_is_passed_through():
    def f(x):
        return np.sum(x * x), {
            "double": 2 * x,
            "name": "square",
            "n": 3,
            "none": None,
            "list": [1.5],
        }

    slope, aux = fdiff.grad(f, has_aux=True)(X)
    np.testing.assert_array_equal(slope, 2 * X)
    (value, again), slope = fdiff.value_and_grad(f, has_aux=True)(X)
    assert value == 14.0
    for found in (aux, again):
        same(found.pop("double"), 2 * X)
        assert found == {"name": "square", "n": 3, "none": None, "list": [1.5]}
        assert type(found["n"]) is int
    with pytest.raises(InputError, match=r"with has_aux=True the function must return a pair"):
        fdiff.grad(wave, has_aux=True)(X)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (
            lambda x: x,
            r"Gradient only defined for scalar-output functions. Output had shape: \(3,\).",
        ),
        (lambda x: x[:0], r"Output had shape: \(0,\)\."),
        (lambda x: (np.sum(x),), "the function must return a scalar, not tuple"),
        (lambda x: None, "the function must return a scalar, not NoneType"),
        (lambda x: "a", "the function must return a scalar, not str"),
        (lambda x: np.argmax(x), "the output must be floating point, not int64"),
        (lambda x: np.sum(x.astype(int)), r"floating point, not int64(.|\n)*x.astype\(int\)"),
        (lambda x: np.complex128(1j), "complex outputs .complex128. are not supported"),
    ],
)
def test_only_scalars_have_a_gradient(f, words):
    for call in (fdiff.grad, fdiff.value_and_grad):
        with pytest.raises(
            (InputError, DtypeError), match=rf"{call.__name__}\(<lambda>\): .*{words}"
        ):
            call(f)(X)


# --- nesting --------------------------------------------------------------------------------------


def nests(d):
    """Functions of one array of three, in terms of the transforms of `d`: fdiff or JAX."""
    np_ = np if d is fdiff else jnp
    cube = lambda x: np_.sum(x**3)
    jvp = (
        (lambda f, x, v: d.jvp(f, x, v)) if d is fdiff else (lambda f, x, v: jax.jvp(f, (x,), (v,)))
    )
    return {
        "grad of grad": lambda x: d.grad(lambda t: d.grad(lambda s: s**4 * t)(t))(x[0]),
        "confusion": lambda x: d.grad(lambda a: a * d.grad(lambda b: a + b)(1.0))(x[0]),
        "confusion squared": lambda x: d.grad(lambda a: a * d.grad(lambda b: a * b * b)(a))(x[1]),
        "confusion in jvp": lambda x: jvp(lambda a: a * jvp(lambda b: a * b, a, a)[1], x, x)[1],
        "five deep": lambda x: d.grad(d.grad(d.grad(d.grad(d.grad(np_.exp)))))(x[0]),
        "hessian of grad inside": lambda x: (
            d.hessian(lambda y: np_.sum(d.grad(cube)(y) ** 2))(x)
            if d is fdiff
            else jax.hessian(lambda y: np_.sum(d.grad(cube)(y) ** 2))(x)
        ),
        "jacobian of vmap of grad": lambda x: d.jacrev(d.vmap(d.grad(lambda s: s**3)))(x),
        "jacfwd of jacrev": lambda x: d.jacfwd(d.jacrev(cube))(x),
        "jacrev of jacrev": lambda x: d.jacrev(d.jacrev(cube))(x),
        "jacrev of jacfwd": lambda x: d.jacrev(d.jacfwd(lambda y: y * y[0]))(x),
        "third": lambda x: d.jacfwd(d.jacfwd(d.grad(cube)))(x),
        "jvp of jit": lambda x: jvp(d.jit(lambda y: y * y), x, x)[1],
        "jit of grad": lambda x: d.jit(d.grad(cube))(x),
        "grad of jit": lambda x: d.grad(d.jit(cube))(x),
        "grad of jit of grad": lambda x: d.grad(lambda y: np_.sum(d.jit(d.grad(cube))(y)))(x),
        "vmap of vmap": lambda x: d.vmap(d.vmap(lambda a, b: a * b, (None, 0)), (0, None))(x, x),
        "vmap of jacrev": lambda x: d.vmap(d.jacrev(lambda s: s * x))(x),
        "grad of vmap": lambda x: d.grad(lambda y: np_.sum(d.vmap(lambda s: s * y)(y)))(x),
        "grad through a captured value": lambda x: d.grad(
            lambda y: np_.sum(d.grad(lambda z: np_.sum(y * z * z))(x))
        )(x),
    }


@pytest.mark.parametrize("name", nests(fdiff))
@both_tiers
def test_transforms_nest(name, tier):
    wanted = nests(jax)[name](jnp.asarray(X))
    same(nests(fdiff)[name](X), np.asarray(wanted))


def test_a_compiled_derivative_is_a_kernel():
    before = fdiff.cache_info()
    slope = fdiff.jit(fdiff.grad(lambda x: np.sum(np.cos(x) ** 2 * 0.123)))(X)
    after = fdiff.cache_info()
    np.testing.assert_allclose(slope, -0.246 * np.cos(X) * np.sin(X), rtol=1e-14)
    assert after != before  # compiled or loaded, never interpreted


# --- jacrev and jacfwd ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_nest_outputs_then_inputs(name):
    def f(p, np=np):
        return {"y": p["a"] * p["b"], "z": [np.sum(p["a"])]}

    p = {"a": X, "b": 2.0}
    wanted = getattr(jax, name)(lambda q: f(q, jnp))(p)
    same(getattr(fdiff, name)(f)(p), jax.tree.map(np.asarray, wanted))


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_dtypes_of_blocks(name):
    def f(a, b):
        return (a * b, b * 2)

    single, double = X.astype(np.float32), X
    blocks = getattr(fdiff, name)(f, (0, 1))(single, double)
    kinds = [[b.dtype.name for b in row] for row in blocks]
    rows = [["float32", "float64"]] * 2 if name == "jacrev" else [["float64"] * 2, ["float64"] * 2]
    assert kinds == rows


def test_jacrev_refuses_what_is_no_array():
    with pytest.raises(
        InputError, match=r"jacrev\(<lambda>\): the function must return arrays, not str"
    ):
        fdiff.jacrev(lambda x: (x, "name"))(X)


# --- vmap -----------------------------------------------------------------------------------------

M = np.arange(6.0).reshape(2, 3)
VMAPS = {
    "plain": (lambda x: x * 2, {}, (M,)),
    "two": (lambda x, y: x * y, {}, (M, M + 1)),
    "whole": (lambda x, y: x * y, {"in_axes": (0, None)}, (M, X)),
    "axis 1": (lambda x: x * x[0], {"in_axes": 1, "out_axes": 1}, (M,)),
    "negative": (lambda x: x * x[0], {"in_axes": -1, "out_axes": -1}, (M,)),
    "negative out": (lambda x: x[:, None] * x, {"out_axes": -2}, (M,)),
    "dict": (lambda p: p["a"] * p["b"], {}, ({"a": M, "b": M},)),
    "dict axes": (
        lambda p: p["a"] * p["b"],
        {"in_axes": ({"a": 0, "b": None},)},
        ({"a": M, "b": X},),
    ),
    "several out": (lambda x: (x, {"s": x[0]}), {"out_axes": (1, 0)}, (M,)),
    "constant out": (lambda x: 1.0, {}, (M,)),
    "constant whole": (lambda x: (x, 1.0), {"out_axes": (0, None)}, (M,)),
    "integers": (lambda i, x: x[i], {"in_axes": (0, None)}, (np.array([2, 0]), X)),
    "bools": (lambda b, x: x * b, {}, (np.array([True, False]), M)),
    "python float": (lambda x, c: x * c, {"in_axes": (0, None)}, (M, 3.0)),
    "none argument": (lambda x, c: x, {}, (M, None)),
    "captured": (lambda x: x * X, {}, (M,)),
    "empty": (lambda x: x * 2, {}, (np.zeros((0, 3)),)),
    "matmul": (lambda a, x: a @ x, {"in_axes": (None, 0)}, (M, np.eye(3)[:2])),
}


@pytest.mark.parametrize("name", VMAPS)
def test_vmap_does_what_jax_does(name):
    f, axes, args = VMAPS[name]
    wanted = jax.tree.map(np.asarray, jax.vmap(f, **axes)(*jax.tree.map(jnp.asarray, args)))
    for _ in range(2):
        same(fdiff.vmap(f, **axes)(*args), wanted)


def test_keyword_arguments_are_mapped_over_axis_0():
    f = lambda x, y: x * y.sum()
    wanted = jax.vmap(f)(M, y=M)
    same(fdiff.vmap(f)(M, y=M), np.asarray(wanted))


def test_python_may_look_at_what_is_not_mapped():
    f = fdiff.vmap(lambda x, c, how: x if c > 0 and how == "up" else -x, in_axes=(0, None, None))
    for c, how, sign in [(1.0, "up", 1), (-1.0, "up", -1), (1.0, "down", -1), (1.0, "up", 1)]:
        np.testing.assert_array_equal(f(M, c, how), sign * M)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fdiff.vmap(np.add)(X, M), "the mapped axes have different sizes: 2, 3"),
        (lambda: fdiff.vmap(np.add, None)(X, X), "no argument is mapped: in_axes is None for all"),
        (
            lambda: fdiff.vmap(np.add, (None, None))(X, X),
            "no argument is mapped",
        ),
        (lambda: fdiff.vmap(np.sin)(2.0), r"map axis 0 of an array of shape \(\) \(argument 0\)"),
        (
            lambda: fdiff.vmap(np.sin, 3)(X),
            r"map axis 3 of an array of shape \(3,\) \(argument 0\)",
        ),
        (lambda: fdiff.vmap(np.add)(X, 2), r"map axis 0 of a value of type int \(argument 1\)"),
        (
            lambda: fdiff.vmap(lambda x, k: x)(X, "k"),
            r"map axis 0 of a value of type str \(argument 1\)",
        ),
        (lambda: fdiff.vmap(lambda x, k: x)(X, k="k"), r"value of type str \(argument 'k'\)"),
        (lambda: fdiff.vmap(np.sin, (0, 0))(X), "in_axes has 2 entries for 1 arguments"),
        (lambda: fdiff.vmap(np.sin, "a"), "in_axes must hold ints and None, not 'a'"),
        (lambda: fdiff.vmap(np.sin, 0, 1.5), "out_axes must hold ints and None, not 1.5"),
        (
            lambda: fdiff.vmap(lambda x: (x, x), 0, (0,))(X),
            r"out_axes=\(0,\) does not fit the structure",
        ),
        (
            lambda: fdiff.vmap(np.sin, ({"a": 0},))(X),
            r"in_axes={'a': 0} does not fit the structure",
        ),
        (lambda: fdiff.vmap(np.sin, 0, 3)(X), r"out_axes=3 does not fit a result of shape \(\)"),
        (lambda: fdiff.vmap(np.sin, 0, None)(X), "out_axes is None for a result that differs"),
        (lambda: fdiff.vmap(lambda: 1.0)(), "no argument is mapped: the call has none"),
    ],
)
def test_vmap_says_what_does_not_fit(call, words):
    with pytest.raises(InputError, match=rf"^vmap.*{words}"):
        call()


# --- jit ------------------------------------------------------------------------------------------

CONFIG = {"rate": 0.5, "names": ["a", "b"], "data": X}


@both_tiers
def test_jit_gives_what_the_function_gives(tier):
    def f(x):
        return {
            "x": x * 2,
            "s": "text",
            "none": None,
            "k": 3,
            "f": 2.5,
            "t": (1, "a", True),
            "i": np.arange(3),
        }

    g = fdiff.jit(f)
    for _ in range(2):
        found, wanted = g(X), f(X)
        same(found.pop("x"), wanted.pop("x"))
        same(found.pop("i"), wanted.pop("i"))
        assert found == wanted
        assert [type(v) for v in found["t"]] == [int, str, bool]
        assert type(found["k"]) is int


def test_captured_containers_come_back_as_they_are():
    g = fdiff.jit(lambda x: (x, CONFIG))
    found = g(X)[1]
    assert type(found) is dict
    assert type(found["names"]) is list
    assert (found["rate"], found["names"]) == (0.5, ["a", "b"])
    CONFIG["data"][0] = 7.0
    assert g(X)[1]["data"][0] == 7.0
    CONFIG["data"][0] = 1.0
    assert CONFIG["rate"] == 0.5


def test_a_fresh_mutable_result_is_fresh_each_time():
    g = fdiff.jit(lambda x: (x, {1, 2}))
    with pytest.warns(RetraceWarning, match="a result of type set cannot be compared"):
        first = g(X)[1]
    first.add(3)
    assert g(X)[1] == {1, 2}


# --- results belong to the caller -----------------------------------------------------------------

K = np.ones(3)
OUTPUTS = {
    "identity": lambda x: x,
    "constant": lambda x: np.ones(3),
    "captured": lambda x: K,
    "same twice": lambda x: (x, x),
    "equal twice": lambda x: (x * 2, x * 2),
    "views": lambda x: (x * 2, (x * 2)[1:], (x * 2).reshape(3, 1)),
    "stopped": lambda x: (x * 2, fdiff.stop_gradient(x * 2), fdiff.stop_gradient(x)),
    "reversed": lambda x: x[::-1],
    "transposed": lambda x: x.reshape(3, 1).T,
    "broadcast": lambda x: np.broadcast_to(x, (2, 3)),
    "spread": lambda x: np.broadcast_to(np.sum(x), (3,)),
    "converted": lambda x: (x, x.astype(float), np.asarray(x)),
}
CALLS = {
    "jit": lambda f, x: fdiff.jit(f)(x),
    "jacobian": lambda f, x: fdiff.jacobian(f, x),
    "jacobian by chunks": lambda f, x: fdiff.jacobian(f, x, chunk_size=1),
    "jvp": lambda f, x: fdiff.jvp(f, x, x),
    "vjp": lambda f, x: fdiff.vjp(f, x, f(x)),
    "vmap": lambda f, x: fdiff.vmap(lambda s: f(x * s))(x),
    "grad": lambda f, x: fdiff.grad(lambda y: np.sum(f(y)[0]))(x),
    "value_and_grad aux": lambda f, x: fdiff.value_and_grad(
        lambda y: (np.sum(y), f(y)), has_aux=True
    )(x),
    "hessian": lambda f, x: fdiff.hessian(lambda y: np.sum(y * f(y)[0]), (x,))[0],
    "hvp": lambda f, x: fdiff.hvp(lambda y: np.sum(y * f(y)[0]), x, x),
}


def arrays(tree):
    if isinstance(tree, np.ndarray):
        return [tree]
    return [a for part in tree for a in arrays(part)] if isinstance(tree, (tuple, list)) else []


@both_tiers
def test_results_are_fresh_writable_and_alias_nothing(tier):
    x = X.copy()
    for name, call in CALLS.items():
        for kind, f in OUTPUTS.items():
            seen, values = [], None
            for _ in range(3):
                found = arrays(call(f, x))
                assert found, (name, kind)
                if values is not None:
                    for a, b in zip(found, values, strict=True):
                        np.testing.assert_array_equal(a, b, err_msg=f"{name} {kind}")
                values = [a.copy() for a in found]
                for n, a in enumerate(found):
                    assert a.flags.writeable, (name, kind)
                    others = [x, K, *seen, *found[:n]]
                    assert not any(np.shares_memory(a, b) for b in others), (name, kind)
                for a in found:
                    a.fill(77.0)
                seen += found
            np.testing.assert_array_equal(x, X)
            np.testing.assert_array_equal(K, np.ones(3))


def test_arguments_and_their_containers_are_left_alone():
    def f(p):
        p["new"] = p.pop("a") * 2
        p["list"].append(p["new"])
        return np.sum(p["new"] * p["list"][-1])

    p = {"a": X.copy(), "list": [1.0]}
    for _ in range(2):
        slope = fdiff.grad(f)(p)
        np.testing.assert_allclose(slope["a"], 8 * X)
        assert list(p) == ["a", "list"]
        assert p["list"] == [1.0]
        np.testing.assert_array_equal(p["a"], X)


# --- exceptions -----------------------------------------------------------------------------------


class OwnError(Exception):
    pass


MINE = OwnError("mine")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: fdiff.grad(f)(X),
        lambda f: fdiff.jit(f)(X),
        lambda f: fdiff.jacobian(f, X),
        lambda f: fdiff.hvp(f, X, X),
        lambda f: fdiff.vmap(f)(X),
        lambda f: fdiff.grad(lambda x: np.sum(fdiff.jit(fdiff.grad(f))(x)))(X),
    ],
)
def test_an_exception_of_f_reaches_the_caller_as_it_is(wrap):
    def f(x):
        raise MINE

    with pytest.raises(OwnError) as caught:
        wrap(f)
    assert caught.value is MINE
    assert any(e.name == "f" and e.path == Path(__file__) for e in caught.traceback)
    np.testing.assert_array_equal(fdiff.grad(np.sum)(X), np.ones(3))  # no trace is left open


def test_what_f_wrote_before_it_raised_is_written():
    log = {"calls": 0}

    def f(x):
        log["calls"] += 1
        raise MINE

    with pytest.raises(OwnError):
        fdiff.grad(f)(X)
    assert log["calls"] == 1


def test_numpys_own_errors_are_numpys():
    with pytest.raises(ValueError, match="could not be broadcast together"):
        fdiff.grad(lambda x: np.sum(x + np.ones(2)))(X)
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 3"):
        fdiff.grad(lambda x: x[5])(X)
    with pytest.raises(np.linalg.LinAlgError):
        fdiff.grad(lambda x: np.sum(np.linalg.solve(np.zeros((3, 3)), x)))(X)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'k'"):
        fdiff.grad(lambda x, k: np.sum(x))(X)


# --- stop_gradient, make_tape, source -------------------------------------------------------------


def test_stop_gradient_is_a_constant_at_every_order():
    f = lambda x: fdiff.stop_gradient(x**2) * x
    assert fdiff.grad(f)(3.0) == 9.0
    assert fdiff.grad(fdiff.grad(f))(3.0) == 0.0
    assert fdiff.jvp(f, np.array([3.0]), np.array([1.0]))[1] == [9.0]
    tree = {"a": X, "b": (2.0, "text", None)}
    same(fdiff.stop_gradient(tree)["a"], X)
    assert fdiff.stop_gradient(tree)["b"] == (2.0, "text", None)


def test_a_tape_shows_operations_types_and_lines():
    tape = fdiff.make_tape(lambda x: np.sum(np.sin(x) * x), X)
    assert [n.primitive.name for n in tape.nodes] == ["input", "sin", "multiply", "sum"]
    text = str(tape)
    assert "%1: f8[3] = sin(%0)" in text
    assert "test_transforms.py" in text
    assert "<table>" in tape._repr_html_()
    assert "cos" in str(fdiff.make_tape(fdiff.grad(lambda x: np.sum(np.sin(x))), X))
    with pytest.raises(InputError, match="make_tape: expects a function first, not Tape"):
        fdiff.make_tape(tape)


def test_source_shows_the_kernel():
    assert "rt.sin" in fdiff.source(lambda x: np.sin(x) + 1.0, X)
    assert "rt.cos" in fdiff.source(fdiff.grad(lambda x: np.sum(np.sin(x))), X)
    with pytest.raises(
        fdiff.errors.UnsupportedError, match=r"source\(<lambda>\): the function has no kernel"
    ):
        fdiff.source(lambda x: x * 2, X.astype(np.float16))


def test_a_transform_keeps_the_name_of_its_function():
    for call in (
        fdiff.grad,
        fdiff.value_and_grad,
        fdiff.jacobian,
        fdiff.hvp,
        fdiff.jit,
        fdiff.vmap,
    ):
        made = call(wave)
        assert made.__name__ == "wave"
        assert made.__wrapped__ is wave
        assert call(np.sin).__name__ == "sin"


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in fdiff.functional.__all__
        if not name.startswith(("cache", "debug", "doctor", "kinks", "stop"))
    ],
)
def test_every_call_wants_a_function_first(name):
    args = {"gradcheck": (X,), "gradgradcheck": (X,), "check_grads": ((X,), 1)}.get(name, ())
    wanted = "a prepared function" if name in {"cfunc", "njit"} else "a function first"
    with pytest.raises(InputError, match=f"^{name}: expects {wanted}.*, not ndarray"):
        getattr(fdiff, name)(X, *args)


# --- threads --------------------------------------------------------------------------------------


@both_tiers
def test_one_prepared_function_in_eight_threads(tier):
    scale = np.array([1.0, 2.0, 3.0])
    product = fdiff.hvp(lambda x: np.sum(x**3))
    calls = {
        "grad": (
            fdiff.grad(lambda x: np.sum(np.sin(x * 3.5) * scale)),
            lambda x: 3.5 * np.cos(3.5 * x) * scale,
        ),
        "jacobian": (
            fdiff.jacobian(lambda x: x**2 * scale, chunk_size=1),
            lambda x: np.diag(2 * x * scale),
        ),
        "hvp": (lambda x: product(x, x), lambda x: 6 * x * x),
    }
    wrong, start = [], threading.Barrier(8)

    def work(seed):
        rng = np.random.default_rng(seed)
        start.wait()
        for k in range(40):
            x = rng.normal(size=3)
            for name, (call, wanted) in calls.items():
                try:
                    np.testing.assert_allclose(call(x), wanted(x), rtol=1e-11, atol=1e-12)
                except Exception as error:  # noqa: BLE001 - every failure counts
                    wrong.append((name, k, error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "reshaped", "shape", "ops"),
    [
        ((1, 4), (4,), (2, 4), ["broadcast_to"]),
        ((4,), (1, 4), (3, 4), ["broadcast_to"]),
        ((1, 1, 4), (1, 4), (2, 3, 4), ["broadcast_to"]),
        ((1, 4), (4,), (1, 4), []),
        ((1, 1), (1,), (3,), ["reshape", "broadcast_to"]),
        ((2, 1), (2,), (3, 2), ["reshape", "broadcast_to"]),
        ((1, 4), (2, 2), (3, 2, 2), ["reshape", "broadcast_to"]),
    ],
)
def test_a_broadcast_needs_no_reshape_of_leading_ones(source, reshaped, shape, ops):
    x = np.arange(float(np.prod(source))).reshape(source)
    tape = fdiff.make_tape(lambda x: np.broadcast_to(x.reshape(reshaped), shape), x)
    tape = simplify(tape)
    assert [node.primitive.name for node in tape.nodes if node.primitive.name != "input"] == ops
    (value,) = evaluate(tape, x)
    np.testing.assert_array_equal(value, np.broadcast_to(x.reshape(reshaped), shape), strict=True)
