"""The six torch-style calls: torch's structure, rules and words.

Torch is the reference: `python tests/functional/test_functional.py` runs every case of these tables
with torch and writes what it gave to `tests/golden/torch_functional.json` (made with torch 2.13.0).
Cases are text, so that both libraries run the same code.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import fdiff
import fdiff.autograd.functional
from fdiff.errors import DtypeError, InputError, StrictError, VectorError

GOLDEN = Path(__file__).parents[1] / "golden" / "torch_functional.json"
CALLS = ("jacobian", "hessian", "vjp", "jvp", "vhp", "hvp")

# Inputs, by name: x and y of two entries, z of three, s of one, o without axes, m a matrix,
# h of two in float32.
POINTS = {
    "x": [4.0, 5.0],
    "y": [0.5, -1.5],
    "z": [1.0, 2.0, 3.0],
    "s": [2.0],
    "o": 3.0,
    "m": [[1.0, 2.0], [3.0, 4.0]],
    "h": [1.0, 2.0],
    "n": [1, 2],
}

SAME = """
jacobian(lambda x: x * x, x)
jacobian(lambda x: x * x, (x,))
jacobian(lambda x: (x * x,), x)
jacobian(lambda x: (x * x,), (x,))
jacobian(lambda x: (x * x, x.sum()), x)
jacobian(lambda x, z: x * z.sum(), (x, z))
jacobian(lambda x, z: (x * z.sum(), z * x[0]), (x, z))
jacobian(lambda x, z: (x * z.sum(), z * x[0]), (x, z), vectorize=True)
jacobian(lambda x, z: (x * z.sum(), z * x[0]), (x, z), create_graph=True)
jacobian(lambda x, z: (x * z.sum(), z * x[0]), (x, z), vectorize=True, strategy="forward-mode")
jacobian(lambda x: x * x, x, strict=True)
jacobian(lambda x: x * 0, x, strict=True)
jacobian(lambda x: x - x, x, strict=True)
jacobian(lambda m: m @ m, m)
jacobian(lambda o: o * o, o)
jacobian(lambda s: s * s, s)
jacobian(lambda o: (o * o,), (o,))
jacobian(lambda x, y: x, (x, y))
jacobian(lambda a, b: a * b + a, (x, x))
jacobian(lambda a: a * x, x)
jacobian(lambda a: a * 0 + x, x)
jacobian(lambda x, h: (x * h, h * h), (x, h))
jacobian(lambda x, h: (x * h, h * h), (x, h), vectorize=True, strategy="forward-mode")
jacobian(lambda a: jacobian(lambda b: b * b * b, a, create_graph=True).sum(0), x)
hessian(lambda x: (x * x * x).sum(), x)
hessian(lambda x: (x * x * x).sum(), (x,))
hessian(lambda x, z: (x * x).sum() * (z * z).sum(), (x, z))
hessian(lambda x, z: (x * x).sum() * (z * z).sum(), (x, z), vectorize=True)
hessian(lambda x: (x * x * x).sum().reshape(1), x)
hessian(lambda x: (x * x * x).sum().reshape(1, 1), x)
hessian(lambda x: (x * x * x).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode")
hessian(lambda x: (x * 2).sum(), x)
hessian(lambda x: (x * x).sum(), x, strict=True)
hessian(lambda o: o * o * o, o)
hessian(lambda s: s * s * s, s)
hessian(lambda x, y: (x * x).sum(), (x, y))
hessian(lambda m: (m @ m).sum(), m)
hessian(lambda x, h: (x * x * h * h).sum(), (x, h))
vjp(lambda x: x * x, x, y)
vjp(lambda x: x * x, x, (y,))
vjp(lambda x: x * x, (x,), y)
vjp(lambda x: (x * x,), x, y)
vjp(lambda x: (x * x,), (x,), (y,))
vjp(lambda x: x.sum(), x)
vjp(lambda x: x.sum().reshape(1), x)
vjp(lambda x: x.sum().reshape(1, 1), x)
vjp(lambda x: (x.sum(),), x)
vjp(lambda x, z: (x * z.sum(), z * x[0]), (x, z), (y, z))
vjp(lambda x, z: x * x, (x, z), y)
vjp(lambda x: x * x, x, h)
vjp(lambda x: x * x, x, n)
vjp(lambda h: h * h, h, y)
vjp(lambda x, y: (x * 2, y * 3), (x, y), (y, x), strict=True)
jvp(lambda x: x * x, x, y)
jvp(lambda x: (x * x,), (x,), (y,))
jvp(lambda x: (x * x, x.sum()), x, y)
jvp(lambda s: s * s, s)
jvp(lambda o: o * o, o)
jvp(lambda s: (s * s,), (s,))
jvp(lambda x, z: (x * z.sum(), z * x[0]), (x, z), (y, z))
jvp(lambda x, z: x * x, (x, z), (y, z))
jvp(lambda x: x * x, x, n)
hvp(lambda x: (x * x * x).sum(), x, y)
hvp(lambda x: (x * x * x).sum(), (x,), y)
hvp(lambda x, z: (x * x).sum() * (z * z).sum(), (x, z), (y, z))
hvp(lambda x: (x * 2).sum(), x, y)
hvp(lambda s: (s * s * s).sum(), s)
hvp(lambda x: (x * x * x).sum().reshape(1, 1), x, y)
vhp(lambda x: (x * x * x).sum(), x, y)
vhp(lambda x: (x * x * x).sum(), (x,), (y,))
vhp(lambda x, z: (x * x).sum() * (z * z).sum(), (x, z), (y, z))
vhp(lambda x, y: (x * x).sum(), (x, y), (y, x))
vhp(lambda o: o * o, o)
vhp(lambda x: (x * x).sum(), x, y, strict=True)
"""

REFUSED = """
jacobian(lambda x: x, [x])
jacobian(lambda x: x, 'x')
jacobian(lambda x: None, x)
jacobian(lambda x: (x, 'a'), x)
jacobian(lambda x: x, n)
jacobian(lambda x, y: (x, x * y), (x, y), strict=True)
jacobian(lambda x, y: (x * y, y * 0 + 1), (x, y), strict=True)
jacobian(lambda x: (x, y), x, strict=True)
hessian(lambda x: None, x)
hessian(lambda x: (x * 2).sum(), x, strict=True)
hessian(lambda x, y: (x * x).sum() + y.sum(), (x, y), strict=True)
hessian(lambda x, y: (x * x).sum(), (x, y), strict=True)
hessian(lambda x: y.sum(), x, strict=True)
vjp(lambda x: x * x, x)
vjp(lambda x: (x.sum(), x.sum()), x)
vjp(lambda x: x * x, x, z)
vjp(lambda x: x.sum(), x, s)
vjp(lambda s: s * s, s, o)
vjp(lambda x: (x, x), x, (x, z))
vjp(lambda x: (x, x), x, x)
vjp(lambda x: (x, x), x, (x, x, x))
vjp(lambda x: x, x, (x, x))
vjp(lambda x: x, x, [x])
vjp(lambda x: None, x, x)
vjp(lambda x, y: (x, x * x), (x, y), (x, x), strict=True)
vjp(lambda x: (x * x, y), x, (x, x), strict=True)
jvp(lambda x: x * x, x)
jvp(lambda x, y: x * y, (x, y))
jvp(lambda x: x * x, x, z)
jvp(lambda x, y: x * y, (x, y), (x, z))
jvp(lambda x, y: x * y, (x, y), x)
jvp(lambda x, y: (x, x * x), (x, y), (x, x), strict=True)
hvp(lambda x: (x * x).sum(), x)
hvp(lambda x: x * x, x, x)
hvp(lambda x: (x * x).sum(), x, z)
hvp(lambda x: ((x * x).sum(),), x, x)
vhp(lambda x: (x * x).sum(), x)
vhp(lambda x: x * x, x, x)
vhp(lambda x: (x * x).sum(), x, s)
vhp(lambda x: ((x * x).sum(),), x, x)
"""


def cases(table):
    return [line for line in table.splitlines() if line]


def scope(array, module, calls):
    """The names a case may use; `array` makes an array of a list and a dtype."""
    points = {
        k: array(v, {"h": "float32", "n": "int64"}.get(k, "float64")) for k, v in POINTS.items()
    }
    return {**points, **{name: getattr(calls, name) for name in CALLS}, "np": module}


def ours(case):
    calls = fdiff.autograd.functional if ", strategy=" in case else fdiff  # which has `mode`
    return eval(case, scope(lambda v, t: np.array(v, t), np, calls))


def encode(result):
    """A result as JSON: tuples stay apart from arrays, and arrays keep their dtype."""
    if isinstance(result, (tuple, list)):  # torch slips into lists in forward mode
        return [encode(r) for r in result]
    array = np.asarray(result.detach() if hasattr(result, "detach") else result)
    return {"dtype": str(array.dtype), "shape": list(array.shape), "value": array.ravel().tolist()}


def in_our_words(text):
    """A message of torch, with its types called by their NumPy names."""
    text = re.sub(
        r"torch\.Size\(\[([^\]]*)\]\)", lambda m: f"({m[1]}{',' * (m[1].isdigit())})", text
    )
    text = re.sub(r"<class '(\w+)'>", r"\1", text)
    return text.replace("a Tensor", "an array").replace("Tensor", "array")


def expected(case):
    return json.loads(GOLDEN.read_text())[case]


@pytest.mark.parametrize("case", cases(SAME))
def test_values_structure_and_dtypes_are_those_of_torch(case):
    def agree(found, wanted):
        if isinstance(wanted, list):
            assert isinstance(found, tuple)
            assert len(found) == len(wanted)
            for f, w in zip(found, wanted, strict=True):
                agree(f, w)
        else:
            assert isinstance(found, (np.ndarray, np.generic))
            assert (str(found.dtype), list(found.shape)) == (wanted["dtype"], wanted["shape"])
            np.testing.assert_allclose(np.ravel(found), wanted["value"], rtol=1e-14, atol=0)

    agree(ours(case), expected(case)["result"])


# Where ours are other words, on purpose: what our message says instead.
OTHER_WORDS = {
    "jacobian(lambda x: x, n)": "only floating-point inputs can be differentiated, not int64",
    "hessian(lambda x, y: (x * x).sum(), (x, y), strict=True)": "is independent of input 1",
}


@pytest.mark.parametrize("case", cases(REFUSED))
def test_what_torch_refuses_is_refused_in_its_words(case):
    wanted = expected(case)
    kinds = {"TypeError": InputError, "RuntimeError": (VectorError, StrictError, DtypeError)}
    with pytest.raises(kinds[wanted["error"]]) as caught:
        ours(case)
    name = case.partition("(")[0]
    text = str(caught.value)
    assert text.startswith(f"{name}(<lambda>): ")
    words = OTHER_WORDS.get(case, in_our_words(wanted["message"]).split(" The outputs must be")[0])
    assert words.rstrip(".") in text


def test_an_error_class_is_the_one_torch_users_catch():
    assert issubclass(VectorError, RuntimeError)
    assert issubclass(StrictError, RuntimeError)
    assert issubclass(InputError, TypeError)
    assert issubclass(DtypeError, TypeError)


# --- where torch slips, or has nothing to say -----------------------------------------------------

X = np.array([4.0, 5.0])


def test_empty_arrays_have_the_shapes_of_jax():
    assert fdiff.jacobian(lambda x: np.ones(3) * np.sum(x), np.zeros(0)).shape == (3, 0)
    assert fdiff.jacobian(lambda x: x[:0], X).shape == (0, 2)
    assert fdiff.jacobian(np.square, np.zeros(0)).shape == (0, 0)
    assert fdiff.hessian(np.sum, np.zeros(0)).shape == (0, 0)
    out, slope = fdiff.vjp(np.square, np.zeros(0), np.zeros(0))
    assert out.shape == slope.shape == (0,)


@pytest.mark.parametrize(("shape", "axis"), [((0,), 0), ((0, 4), 0), ((3, 0), 1)])
def test_running_products_of_nothing(shape, axis):
    f = lambda x: np.sum(np.cumprod(np.sin(x), axis=axis) ** 2) + np.sum(np.sin(x))
    x = np.zeros(shape)
    assert fdiff.grad(f)(x).shape == fdiff.hvp(f, x, x)[1].shape == shape


def test_empty_tuples_are_refused():
    with pytest.raises(InputError, match="the tuple of inputs is empty"):
        fdiff.jacobian(lambda: 1.0, ())
    with pytest.raises(
        InputError, match="given outputs of the user-provided function is an empty tuple"
    ):
        fdiff.jacobian(lambda x: (), X)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("f", [lambda x: np.ones(2), lambda x: np.floor(x).astype(int), np.sign])
def test_constant_and_integer_outputs_have_zero_derivatives(f, mode):
    jacobian = fdiff.jacobian(f, X, mode=mode)
    np.testing.assert_array_equal(jacobian, np.zeros((2, 2)))
    assert jacobian.dtype == float


def test_integer_outputs_among_others():
    whole, part = fdiff.jacobian(lambda x: (np.floor(x).astype(int), x * x), X)
    np.testing.assert_array_equal(whole, np.zeros((2, 2)))
    np.testing.assert_array_equal(part, np.diag(2 * X))
    out, slope = fdiff.vjp(lambda x: np.floor(x).astype(int), X, np.array([1, 2]))
    assert out.dtype == int
    np.testing.assert_array_equal(slope, [0.0, 0.0])
    out, tangent = fdiff.jvp(lambda x: np.floor(x).astype(int), X, X)
    assert out.dtype == int
    np.testing.assert_array_equal(tangent, [0.0, 0.0])
    np.testing.assert_array_equal(fdiff.hessian(lambda x: np.argmax(x), X), np.zeros((2, 2)))


def test_a_python_number_is_a_constant_output():
    np.testing.assert_array_equal(fdiff.jacobian(lambda x: 3.0, X), [0.0, 0.0])
    np.testing.assert_array_equal(fdiff.jacobian(lambda x: 3, X), [0.0, 0.0])


@pytest.mark.parametrize("sizes", [(2, 5), (5, 2)])
def test_the_dtype_of_a_block_does_not_depend_on_sizes(sizes):
    single, double = np.ones(sizes[0], np.float32), np.ones(sizes[1])
    jacobian = fdiff.jacobian(lambda a, b: (a * 2, b * np.sum(a)), (single, double))
    assert [[b.dtype.name for b in row] for row in jacobian] == [["float32", "float64"]] * 2
    forward = fdiff.jacobian(lambda a, b: (a * 2, b * np.sum(a)), (single, double), mode="forward")
    assert [[b.dtype.name for b in row] for row in forward] == [["float32"] * 2, ["float64"] * 2]


def test_object_arrays_and_lists_of_traced_scalars_are_arrays():
    jacobian = fdiff.jacobian(lambda x: np.array([x[0] * x[1], x[1] ** 2]), X)
    np.testing.assert_allclose(jacobian, [[5.0, 4.0], [0.0, 10.0]], rtol=1e-15)
    jacobian = fdiff.jacobian(lambda x: np.array([[x[0], 1.0], [0.0, x[1]]]), X)
    assert jacobian.shape == (2, 2, 2)
    assert jacobian.sum() == 2.0


def test_strict_looks_at_the_graph_and_not_at_values():
    with pytest.raises(
        StrictError, match="Output 0 of the user-provided function does not require"
    ):
        fdiff.jacobian(np.floor, X, strict=True)
    with pytest.raises(
        StrictError, match="Output 0 of the user-provided function does not require"
    ):
        fdiff.jacobian(fdiff.stop_gradient, X, strict=True)
    with pytest.raises(StrictError, match="does not require gradients"):
        fdiff.hvp(lambda x: np.float64(3.0), X, X, strict=True)
    for call in (fdiff.hvp, fdiff.vhp):
        words = f"While computing the {call.__name__}, found .* to input 0 is independent"
        with pytest.raises(StrictError, match=words):
            call(lambda x: np.sum(2 * x), X, X, strict=True)


@pytest.mark.parametrize("bad", [X * 1j, X.astype(str), np.array([1.0, None], object)])
def test_v_holds_real_numbers(bad):
    with pytest.raises(
        DtypeError, match=rf"vjp\(square\): v must hold real numbers, not {bad.dtype}"
    ):
        fdiff.vjp(np.square, X, bad)


def test_v_without_inputs_and_argnums_with_them_are_refused():
    with pytest.raises(InputError, match="v is given without inputs"):
        fdiff.vjp(np.square, v=X)
    with pytest.raises(InputError, match="argnums=1 has no meaning where inputs are given"):
        fdiff.jacobian(np.multiply, (X, X), argnums=1)


def test_settings_are_checked():
    f = np.square
    for settings, words in [
        ({"mode": "sideways"}, "mode must be 'auto', 'forward' or 'reverse', not 'sideways'"),
        ({"chunk_size": 0}, "chunk_size must be a positive int or 'auto', not 0"),
        ({"chunk_size": "all"}, "chunk_size must be a positive int or 'auto', not 'all'"),
        ({"chunk_size": True}, "chunk_size must be a positive int or 'auto', not True"),
        ({"device": "gpu"}, "device must be one of 'cpu', 'cuda', not 'gpu'"),
        ({"argnums": ()}, r"argnums must be an int or a tuple of ints, not \(\)"),
        ({"argnums": True}, "argnums must be an int or a tuple of ints, not True"),
        ({"argnums": (0, 0)}, r"argnums=\(0, 0\) names an argument twice"),
    ]:
        with pytest.raises(InputError, match=rf"^jacobian\(square\): .*{words}"):
            fdiff.jacobian(f, **settings)
    with pytest.raises(InputError, match="outer_jacobian_strategy must be '"):
        fdiff.hessian(np.sum, X, outer_jacobian_strategy="up")
    with pytest.raises(InputError, match="strategy must be 'reverse-mode' or 'forward-mode'"):
        fdiff.autograd.functional.jacobian(f, X, strategy="forward")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("habit", [0, 1, (0, 1)])
def test_argnums_in_the_place_of_inputs(name, habit):
    with pytest.raises(InputError) as caught:
        getattr(fdiff, name)(np.sum, habit)
    assert f"did you mean argnums={habit}?" in str(caught.value)
    assert f"Write {name}(f, argnums={habit})" in str(caught.value)


# --- the prepared forms ---------------------------------------------------------------------------


def model(a, b, scale=1.0, *, power=1):
    return scale * a**2 * b[:2] ** power


B = np.array([1.0, 2.0, 3.0])


def test_prepared_jacobian_takes_the_arguments_of_f():
    def by_a(b, scale=1.0, power=1):
        return np.diag(2 * X * scale * b[:2] ** power)

    np.testing.assert_allclose(fdiff.jacobian(model)(X, B), by_a(B))
    np.testing.assert_allclose(fdiff.jacobian(model)(X, B, 3.0), by_a(B, 3.0))
    np.testing.assert_allclose(fdiff.jacobian(model)(X, B, power=3), by_a(B, power=3))
    np.testing.assert_allclose(fdiff.jacobian(model)(X, B, scale=2.0, power=3), by_a(B, 2.0, 3))
    by_b = np.diag(X**2) @ np.eye(2, 3)
    np.testing.assert_allclose(fdiff.jacobian(model, argnums=1)(X, B), by_b)
    np.testing.assert_allclose(fdiff.jacobian(model, argnums=-1)(X, B), by_b)
    both = fdiff.jacobian(model, argnums=(1, 0))(X, B)
    np.testing.assert_allclose(both[0], by_b)
    np.testing.assert_allclose(both[1], by_a(B))
    assert isinstance(fdiff.jacobian(model, argnums=(0,))(X, B), tuple)


def test_prepared_hessian_nests_by_argnums():
    def f(a, b):
        return np.sum(a**2) * np.sum(b**2)

    hessian = fdiff.hessian(f, argnums=(1, 0))(X, B)
    np.testing.assert_allclose(hessian[0][0], 2 * np.sum(X**2) * np.eye(3))
    np.testing.assert_allclose(hessian[0][1], 4 * np.outer(B, X))
    np.testing.assert_allclose(hessian[1][0], 4 * np.outer(X, B))


@pytest.mark.parametrize("name", ["vjp", "jvp", "hvp", "vhp"])
def test_prepared_products_place_x_and_v_first(name):
    order = name in ("hvp", "vhp")

    def f(a, b, c):
        out = a**2 * b * c[:2]
        return np.sum(out * a) if order else out

    call = getattr(fdiff, name)
    v = np.array([1.0, -2.0])

    def fixed(g, x):
        pair = call(g, x, v)
        return pair[1:] if order else pair  # prepared, they give the product alone

    def prepared(*args, argnums=0, **kwargs):
        found = call(f, argnums=argnums)(*args, **kwargs)
        return (found,) if order else found

    for argnums, mine in [
        (0, lambda a: f(a, X, B)),
        (1, lambda b: f(X, b, B)),
        (-2, lambda b: f(X, b, B)),
    ]:
        rest = (X, B)
        mixed = prepared(X, v, *rest, argnums=argnums)
        for found, wanted in zip(mixed, fixed(mine, X), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-15)
    plain = prepared(X, v, X, B)[-1]
    np.testing.assert_allclose(prepared(X, v, b=X, c=B)[-1], plain)
    np.testing.assert_allclose(prepared(X, v=v, b=X, c=B)[-1], plain)


def test_prepared_products_with_several_argnums_take_tuples_in_their_order():
    def f(a, k, b):
        return np.sum(a * a * k * b)

    a, b, va, vb = X, X + 1, np.array([1.0, 0.5]), np.array([2.0, -1.0])
    by_b, by_a = fdiff.hvp(f, argnums=(2, 0))((b, a), (vb, va), 3.0)
    np.testing.assert_allclose(by_b, 6 * a * va)
    np.testing.assert_allclose(by_a, 6 * b * va + 6 * a * vb)
    with pytest.raises(
        InputError, match=r"hvp\(f\): x must be a tuple of 2 arguments, as argnums=\(2, 0\)"
    ):
        fdiff.hvp(f, argnums=(2, 0))(a, (vb, va), 3.0)
    with pytest.raises(InputError, match=r"hvp\(f\): argnums=5 does not fit 2 arguments"):
        fdiff.hvp(f, argnums=5)(a, va, 3.0)
    with pytest.raises(
        InputError, match=r"jacobian\(f\): argnums=5 requires at least 6 positional arguments"
    ):
        fdiff.jacobian(f, argnums=5)(a, 3.0, b)
    with pytest.raises(InputError, match=r"argnums=\(0, -3\) names one of 3 arguments twice"):
        fdiff.jacobian(f, argnums=(0, -3))(a, 3.0, b)


def test_the_signature_scipy_calls():
    def rosenbrock(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    x, p = np.array([0.5, -0.2, 1.0]), np.array([1.0, 2.0, 3.0])
    product = fdiff.hvp(rosenbrock)(x, p)
    np.testing.assert_allclose(product, fdiff.hessian(rosenbrock)(x) @ p, rtol=1e-13)
    np.testing.assert_array_equal(fdiff.vhp(rosenbrock)(x, p), product)
    found = minimize(
        rosenbrock, x, jac=fdiff.grad(rosenbrock), hessp=fdiff.hvp(rosenbrock), method="trust-ncg"
    )
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-6)


def write_golden():
    """Run every case with torch; needs torch."""
    import torch
    from torch.autograd import functional

    found = {}
    for case in [*cases(SAME), *cases(REFUSED)]:
        names = scope(lambda v, t: torch.tensor(v, dtype=getattr(torch, t)), torch, functional)
        try:
            result = eval(case, names)
        except (TypeError, RuntimeError) as error:
            found[case] = {"error": type(error).__name__, "message": str(error)}
        else:
            found[case] = {"result": encode(result)}
    GOLDEN.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    write_golden()
