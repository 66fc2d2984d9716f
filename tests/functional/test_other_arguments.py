"""Arguments that an operator has no room for, and integers that become floats: what to write."""

import inspect

import numpy as np
import pytest
from scipy.optimize import minimize

import fdiff
from fdiff.errors import InputError, TraceError

X = np.array([1.0, 2.0, 3.0])
AT_A_POINT = {
    "jacobian": (X,),
    "hessian": (X,),
    "hessian_diagonal": (X,),
    "vjp": (X, 1.0),
    "jvp": (X, X),
    "hvp": (X, X),
    "vhp": (X, X),
}
PREPARED = ("grad", "value_and_grad", "jacrev", "jacfwd", "jit", "vmap")


def loss(x, scale=1.0):
    return scale * np.sum(x**2)


@pytest.mark.parametrize("name", AT_A_POINT)
@pytest.mark.parametrize(
    ("further", "keywords", "last"),
    [((2.0,), {}, "data"), ((), {"args": (2.0,)}, "data"), ((), {"scale": 2.0}, "scale=...")],
    ids=["positional", "args", "keyword"],
)
def test_arguments_of_the_function_go_to_the_prepared_one(name, further, keywords, last):
    operator, point = getattr(fdiff, name), AT_A_POINT[name]
    with pytest.raises(InputError) as caught:
        operator(loss, *point, *further, **keywords)
    message = str(caught.value)
    assert message.startswith(f"{name}(loss): it takes f, inputs")
    assert "\n    test_other_arguments.py:" in message
    form = f"{name}(f)({', '.join(['x', *['v'] * (len(point) - 1), last])})"
    assert f"Pass them to the prepared function: {form}. Or, to diff" in message
    prepared = operator(loss)  # as the message says
    assert np.all(np.isfinite(np.concatenate([np.ravel(v) for v in leaves(prepared(*point, 2.0))])))


def leaves(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("name", AT_A_POINT)
def test_an_unknown_option_is_told_the_known_ones(name):
    operator = getattr(fdiff, name)
    with pytest.raises(
        InputError, match=rf"^{name}\(loss\): there is no option 'chunksize'\."
    ) as e:
        operator(loss, *AT_A_POINT[name], chunksize=2)
    kinds = inspect.signature(operator).parameters
    options = [p.name for p in kinds.values() if p.kind is p.KEYWORD_ONLY]
    assert str(e.value).endswith(f"Its options are {', '.join(options)}.")
    assert {p.kind.name for p in kinds.values()} == {"POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"}


def test_an_option_of_torch_is_told_by_its_name_here():
    with pytest.raises(InputError) as e:
        fdiff.jacobian(loss, X, strategy="forward-mode")
    assert 'Write mode="forward" for strategy="forward-mode". Its options are' in str(e.value)


@pytest.mark.parametrize("name", PREPARED)
def test_operators_without_a_point_say_where_arguments_go(name):
    with pytest.raises(TypeError) as caught:
        getattr(fdiff, name)(loss, args=(2.0,))
    assert caught.value.__notes__[0].endswith(f"go to its result: {name}(f)(x, data).")


def test_args_of_a_prepared_function_are_told_to_follow_the_point():
    with pytest.raises(TypeError, match="'args'") as caught:
        fdiff.grad(loss)(X, args=(2.0,))
    assert "Write its entries after the point: (x, a, b)" in caught.value.__notes__[0]
    assert np.array_equal(fdiff.grad(loss)(X, 2.0), 4.0 * X)


SIZES = {
    "zeros": lambda x, n: np.zeros(n),
    "ones": lambda x, n: np.ones((n, 2)),
    "full": lambda x, n: np.full(n, 1.0),
    "eye": lambda x, n: np.eye(n),
    "linspace": lambda x, n: np.linspace(0.0, 1.0, n),
    "tile": lambda x, n: np.tile(x, n),
    "repeat": lambda x, n: np.repeat(x, n),
    "slice": lambda x, n: x[:n],
    "index": lambda x, n: x[n],
    "take": lambda x, n: np.take(x, n),
    "reshape": lambda x, n: np.reshape(x, (n, -1)),
    "roll": lambda x, n: np.roll(x, n),
    "list": lambda x, n: np.array([0.0] * n),
    "range": lambda x, n: sum(x[k] for k in range(n)),
    "axis": lambda x, n: np.expand_dims(x, n),
    "diff": lambda x, n: np.diff(x, n=n),
    "matrix power": lambda x, n: np.linalg.matrix_power(np.eye(3), n),
    "position in a tuple": lambda x, n: (1.0, 2.0, 3.0)[n],
}


@pytest.mark.parametrize("use", SIZES)
def test_an_int_that_is_differentiated_and_is_a_size_is_told_to_leave_argnums(use):
    def f(x, n):
        return np.sum(SIZES[use](x, n)) + np.sum(x)

    assert np.all(np.isfinite(fdiff.grad(f)(X, 1)))
    with pytest.raises((TypeError, IndexError)) as caught:
        fdiff.grad(f, argnums=(0, 1))(X, 1)
    (note,) = caught.value.__notes__
    assert note.startswith("grad(f): this line raised the error:")
    assert note.endswith("ints are floats: leave sizes, positions and trips out of argnums.")


def test_a_request_for_ipopt_says_how_to_have_it():
    from fdiff import optimize

    problem = optimize.Problem(loss)
    with pytest.raises(InputError, match=r"For IPOPT, write problem\.ipopt\(x0\)\."):
        problem.minimize(X, method="ipopt")
    with pytest.raises(AttributeError, match=r"fdiff\.optimize\.Problem\(f\)\.minimize\(x0\)"):
        _ = optimize.minimize
    with pytest.raises(AttributeError, match=r"Problem\(f, constraints\)\.ipopt\(x0\)"):
        _ = optimize.minimize_ipopt
    solve = fdiff.jit(lambda p: minimize(lambda x: np.sum((x - p) ** 2), X, method="ipopt").x)
    with pytest.raises(ValueError, match="Unknown solver ipopt") as caught:
        solve(2.0)
    assert "fdiff.optimize.Problem(f).ipopt(x0)" in caught.value.__notes__[0]


def test_a_store_into_a_parameter_says_no_grad():
    from fdiff.autograd import no_grad, tensor

    w = tensor(np.ones(3), requires_grad=True)

    def add():
        nonlocal w
        w += 1.0

    def put():
        w[0] = 1.0

    for store in (add, put):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad") as caught:
            store()
        (note,) = caught.value.__notes__
        assert "\n    test_other_arguments.py:" in note
        assert "Update it under `with fdiff.autograd.no_grad():`" in note
        with no_grad():
            store()

    def traced(x):
        y = 2.0 * x
        with no_grad():
            y -= 1.0
        return np.sum(y)

    with pytest.raises(TraceError, match=r"Write to a copy, `a = a\.copy\(\)`"):
        fdiff.grad(traced)(X)


@pytest.mark.parametrize("call", [fdiff.make_tape, fdiff.source, fdiff.draw, fdiff.explain])
def test_texts_of_types_stand_for_arguments(call):
    told = call(loss, "f8[3]", scale="f8[]")
    assert str(told) == str(call(loss, X, scale=2.0))
    with pytest.raises(InputError, match=r"'f8\[:\]' spells out no type"):
        call(loss, "f8[:]")
    kept = []
    with pytest.raises(TraceError, match="Give example arrays in place of types"):
        call(lambda x: kept.append(x[0]) or np.sum(x), "f8[3]")
