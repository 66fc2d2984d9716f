"""What operators return: names and signatures, how it says it runs, kernels made before calls."""

import copy
import inspect
import pydoc
import types

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fdiff
from fdiff.errors import RetraceWarning, UnsupportedError

SIGNATURES = {
    fdiff.grad: "(x) -> gradient, like x",
    fdiff.value_and_grad: "(x) -> (value, gradient like x)",
    fdiff.jacobian: "(x) -> Jacobian of shape out.shape + x.shape",
    fdiff.hessian: "(x) -> Hessian of shape x.shape + x.shape",
    fdiff.vjp: "(x, v, /) -> (outputs, v^T J like x)",
    fdiff.jvp: "(x, v, /) -> (outputs, J v like outputs)",
    fdiff.hvp: "(x, v, /) -> H v, like x",
    fdiff.vhp: "(x, v, /) -> v^T H, like x",
    fdiff.vmap: "(x) -> results with one more axis",
    fdiff.jit: "(x)",
}
CALLS = {made: words.replace("/, ", "").replace(", /", "") for made, words in SIGNATURES.items()}
OPERATORS = list(SIGNATURES)


@pytest.fixture(autouse=True)
def _own_choice(monkeypatch):
    """Tiers are chosen by cost, nothing is known."""
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    monkeypatch.delenv("FDIFF_COMPILER", raising=False)  # another one is named in the repr
    fdiff.cache_clear()


def model(x):
    """A model."""
    return np.sum(np.sin(x) * x**3)


def second(x):
    return -np.sin(x) * x**3 + 6.0 * np.cos(x) * x**2 + 6.0 * np.sin(x) * x


@pytest.mark.parametrize("operator", OPERATORS)
def test_it_is_named_after_the_function(operator):
    made = operator(model)
    assert (made.__name__, made.__wrapped__) == ("model", model)
    assert made.__doc__ == f"fdiff.{operator.__name__} of model{SIGNATURES[operator]}\n\nA model."
    assert str(inspect.signature(made)) == SIGNATURES[operator]
    assert SIGNATURES[operator] in pydoc.render_doc(made, renderer=pydoc.plaintext)
    where = f"test_prepared.py:{model.__code__.co_firstlineno}"
    assert repr(made) == (
        f"<fdiff.{operator.__name__} of model, {where}: {CALLS[operator]}; not run yet>"
    )
    assert copy.copy(made) is made
    assert repr(copy.deepcopy(made)) == repr(made)


def several(x, k=1.0, *others, n=3):
    return (k * np.sum(x**n), others) if others else k * np.sum(x**n)


@pytest.mark.parametrize(("made", "shown"), [
    (fdiff.grad(several, argnums=(0, 1)), "(x, k=1.0, *others, n=3) -> gradient, like x, k"),
    (fdiff.grad(several, has_aux=True), "(x, k=1.0, *others, n=3) -> (gradient like x, aux)"),
    (fdiff.vjp(several, argnums=1), "(k, v, /, x, *others, n=3) -> (outputs, v^T J like k)"),
    (fdiff.hvp(several, argnums=(0, 1)), "(x, v, /, *others, n=3) -> H v, like x, k"),
    (fdiff.jvp(lambda v: v), "(v, v_, /) -> (outputs, J v like outputs)"),
    (fdiff.jacobian(lambda a: a, argnums=-1), "(a) -> Jacobian of shape out.shape + a.shape"),
])  # fmt: skip
def test_signatures_of_functions_with_more_arguments(made, shown):
    assert str(inspect.signature(made)) == shown


class Scaled:
    scale = np.ones(1000)

    def __call__(self, x):
        return np.sum(self.scale * x)

    def method(self, x: np.ndarray, scale: np.ndarray = scale) -> float:
        return np.sum(scale * x)


@pytest.mark.parametrize(("made", "shown"), [
    (lambda: fdiff.jit(fdiff.grad(model)), "jit of grad(model), HERE:{model}: (x) -> gradient"),
    (lambda: fdiff.grad(np.sum), "grad of sum: (a, axis"),
    (lambda: fdiff.grad(Scaled()), "grad of Scaled: (x) -> gradient, like x; not"),
    (lambda: fdiff.grad(Scaled().method), "grad of method, HERE:{Scaled.method}: (x, scale) ->"),
    (lambda: fdiff.vjp(several, argnums=(0, 1)), "vjp of several, HERE:{several}: (x, v, *others"),
    (lambda: fdiff.jit(several), "jit of several, HERE:{several}: (x, k, *others, n); not run"),
])  # fmt: skip
def test_the_repr_says_what_a_call_takes_and_gives(made, shown):
    places = {f.__qualname__: f.__code__.co_firstlineno for f in (model, several, Scaled.method)}
    for name, line in places.items():
        shown = shown.replace(f"{{{name}}}", str(line))
    found = repr(made())
    assert found.startswith("<fdiff." + shown.replace("HERE", "test_prepared.py"))
    assert len(found.splitlines()) == 1


def test_what_has_no_signature_of_its_own_is_called_with_anything():
    shown = "(*args, **kwargs) -> gradient, like x"
    assert str(inspect.signature(fdiff.grad(min))) == shown
    assert fdiff.grad(min).__doc__.startswith(f"fdiff.grad of min{shown}\n\nmin(iterable")


def test_the_class_has_its_own_text():
    assert type(fdiff.grad(model)).__doc__.startswith("A function with the arguments")


def test_dir_lists_public_names_alone():
    assert set(dir(fdiff)) == {
        *(*fdiff.__all__, "autograd", "distributed", "optimize", "profiler", "__version__"),
    }


@pytest.mark.parametrize("name", ["autograd", "distributed", "functional", "optimize", "profiler"])
def test_dir_of_a_module_lists_no_inner_modules(name):
    """`fdiff.autograd` has some of torch's."""
    module = getattr(fdiff, name)
    modules = {n for n in dir(module) if isinstance(getattr(module, n), types.ModuleType)}
    of_torch = "anomaly_mode forward_ad function functional grad_mode graph profiler variable"
    assert modules == (set(of_torch.split()) if name == "autograd" else set())
    assert set(module.__all__) <= set(dir(module))


def test_dir_of_a_prepared_function_lists_what_users_call():
    """For a sparse derivative its parts too, of which the `repr` tells the shape."""
    parts = {"compile", "coordinates", "data", "pattern"}
    for operator in (fdiff.jacobian, fdiff.hessian):
        sparse = operator(model, sparse=True)
        names = {name for name in dir(sparse) if not name.startswith("_")}
        assert (names, {n for n in dir(sparse.data) if n[0] != "_"}) == (parts, {"compile"})
        assert {n for n in dir(operator(model)) if n[0] != "_"} == {"compile"}
        assert f"-> sparse {operator.__name__.title()} of shape (" in repr(sparse)


def test_the_repr_says_which_tier_runs_and_why(monkeypatch):
    made = fdiff.grad(model)
    made(np.ones(3))
    assert "\n  f8[3]: interpreted, bytecode does not pay yet; " in repr(made)
    assert "so far are too few to think of a kernel>" in repr(made)
    made.compile("f8[5]")
    assert "\n  f8[5]: compiled>" in repr(made)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    assert "f8[3]: interpreted, FDIFF_TIER=interpret" in repr(made)
    monkeypatch.setenv("FDIFF_TIER", "fast")
    assert "f8[3]: interpreted, FDIFF_TIER=fast" in repr(made)  # to show is not to refuse


def test_what_has_no_kernel_is_named():
    made = fdiff.grad(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2))
    made(np.ones(4))
    assert "there is no kernel for " in repr(made)
    assert "dft" in repr(made)
    with pytest.raises(UnsupportedError, match=r"grad.compile\(<lambda>\): there is no kernel for"):
        made.compile("f8[4]")


@pytest.mark.parametrize(
    ("made", "types", "words"),
    [
        (fdiff.grad(model), ["g8[3]"], r"grad.compile\(model\): 'g8\[3\]' names no dtype of NumPy"),
        (fdiff.grad(model), [], r"grad\(model\): argnums=0 requires at least 1"),
        (fdiff.grad(model), ["b1[3]"], r"grad\(model\): only floating-point inputs"),
        (fdiff.grad(model), ["f8[-3]"], r"grad.compile\(model\): 'f8\[-3\]' spells out no type"),
        (fdiff.hvp(model), [], r"hvp\(model\): the point and the vector are missing"),
        (fdiff.hvp(model), ["f8[3]", "f8[4]"], r"hvp\(model\): v has invalid size"),
    ],
)
def test_bad_types_are_refused(made, types, words):
    with pytest.raises(fdiff.errors.FdiffError, match=words) as caught:
        made.compile(*types)
    assert "test_prepared.py" in str(caught.value)  # the user's line


@pytest.mark.parametrize(
    ("operator", "types"),
    [
        (fdiff.value_and_grad, ["f8[3,2]"]),
        (fdiff.jacobian, ["f8[7]"]),
        (fdiff.hessian, ["f8[4]"]),
        (fdiff.hessian, ["f8[60]"]),  # from terms
        (fdiff.hvp, ["f8[4]", "f8[4]"]),
        (fdiff.jvp, ["f8[4]", "f8[4]"]),
        (fdiff.vmap, ["f8[4,3]"]),
        (fdiff.jit, ["f8[4]"]),
    ],
)
def test_compiled_before_the_first_call(operator, types):
    """Nothing is evaluated, and nothing is compiled again by the call."""
    f = (lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2)) if types == ["f8[60]"] else model
    made = operator(f)
    assert made.compile(*types) is made
    assert repr(made).endswith(f"{types[0]}: compiled>")
    kernels = fdiff.cache_info().entries
    shape = tuple(map(int, types[0][3:-1].split(",")))
    points = [np.random.default_rng(0).normal(size=shape) for _ in types]
    made(*points)
    assert fdiff.cache_info().entries == kernels > 0


def test_an_example_decides_branches():
    def f(x):
        return np.sum(x**2) if x[0] > 0 else np.sum(x**3)

    made = fdiff.grad(f).compile(np.ones(3))
    assert_allclose(made(np.full(3, 2.0)), np.full(3, 4.0))
    assert_allclose(made(np.full(3, -2.0)), np.full(3, 12.0))


def test_keyword_arguments_and_numbers():
    made = fdiff.grad(lambda x, power, scale=1.0: scale * np.sum(x**power))
    made.compile("f8[3]", 3, scale=2.0)
    assert_allclose(made(np.ones(3), 3, scale=2.0), np.full(3, 6.0))
    assert "f8[3]" in repr(made)


def test_methods_may_be_decorated():
    class Model:
        @fdiff.jit
        def value(self, x):
            return 2.0 * x

    with pytest.warns(RetraceWarning):
        assert Model().value(3.0) == 6.0


def test_prepared_functions_inside_functions():
    """They are used as they are there, and their reads are watched."""
    scale = np.array(3.0)
    inner = fdiff.grad(lambda x: scale * np.sum(np.sin(x)))
    outer = fdiff.jacobian(lambda x: inner(x) * x)
    x = np.linspace(0.1, 1.0, 4)
    for factor in (3.0, 5.0):
        scale = np.array(factor)
        wanted = np.diag(factor * (np.cos(x) - x * np.sin(x)))
        assert_allclose(outer(x), wanted, atol=1e-14)
    assert_allclose(fdiff.grad(lambda x: fdiff.grad(model)(x)[1])(x)[1], second(x[1]))
