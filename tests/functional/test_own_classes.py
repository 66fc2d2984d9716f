"""Classes of the user as arguments and results of every operator.

Classes that are registered, classes of attrs, dataclasses, named tuples: gradients have the class
of the argument. A dict with the same arrays gives the numbers; JAX those of registered classes.
"""

import dataclasses
from typing import Any, NamedTuple

import attrs
import jax
import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError

jax.config.update("jax_enable_x64", True)

A, B = np.array([0.5, -1.0, 2.0]), np.array([[1.5, 0.25], [-0.75, 2.0]])


class Registered:
    """An ordinary class, with a method, and a name that is not differentiated."""

    def __init__(self, a, b, name="first"):
        self.a, self.b, self.name = a, b, name
        self.ready = True

    def total(self, *more):
        return energy(self.a, self.b)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def total(self):
        return energy(self.a, self.b)


class Derived(Registered):
    """Of a registered class, and registered itself, with lists as children."""


@attrs.define
class Defined:
    a: Any
    b: Any

    def total(self):
        return energy(self.a, self.b)


@attrs.frozen
class Frozen:
    a: Any
    _b: Any  # whose parameter is called b

    @property
    def b(self):
        return self._b

    def total(self):
        return energy(self.a, self._b)


@attrs.define(slots=False, kw_only=True)
class Keyword:
    a: Any
    b: Any = None

    def total(self):
        return energy(self.a, self.b)


@dataclasses.dataclass
class Record:
    a: Any
    b: Any

    def total(self):
        return energy(self.a, self.b)


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenRecord:
    a: Any
    b: Any

    def total(self):
        return energy(self.a, self.b)


@dataclasses.dataclass
class Later:
    """A field that ``__init__`` does not take."""

    a: Any
    b: Any = dataclasses.field(init=False)

    def __post_init__(self):
        self.b = 2.0 * self.a

    def total(self):
        return energy(self.a, self.b)


class Named(NamedTuple):
    a: Any
    b: Any


def total(p):
    """By the method of the class, where it has one."""
    return p.total() if hasattr(p, "total") else energy(p.a, p.b)


def energy(a, b):
    return (a @ a) * np.sum(b**3) + a[0] ** 3


def later(a, b):
    made = Later(a)
    made.b = b
    return made


for kind in (Registered, Derived):
    fdiff.register_pytree(
        kind, lambda m: ((m.a, m.b), m.name), lambda name, ab, kind=kind: kind(*ab, name)
    )
fdiff.register_pytree(Slotted, lambda m: ([m.a, m.b], None), lambda _, ab: Slotted(*ab))
MAKERS = {
    "registered": Registered,
    "derived": Derived,
    "slotted": Slotted,
    "attrs": Defined,
    "frozen attrs": Frozen,
    "attrs by keyword": lambda a, b: Keyword(a=a, b=b),
    "dataclass": Record,
    "frozen dataclass": FrozenRecord,
    "field made later": later,
    "named tuple": Named,
}
classes = pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))


def in_dicts(tree):
    """The tree with dicts in place of objects; every one is of a class of the table."""
    if isinstance(tree, (tuple, list)) and not hasattr(tree, "_fields"):
        return type(tree)(map(in_dicts, tree))
    if isinstance(tree, dict):
        return {k: in_dicts(v) for k, v in tree.items()}
    return {"a": in_dicts(tree.a), "b": in_dicts(tree.b)} if hasattr(tree, "b") else tree


def same(found, wanted, kind):
    assert kind is None or type(found) is kind
    found = in_dicts(found)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13, atol=1e-14)


@classes
def test_arguments_and_results_keep_their_class(make):
    p, q, kind = make(A, B), {"a": A, "b": B}, type(make(A, B))
    by_method, plain = total, lambda q: energy(q["a"], q["b"])
    v, w = make(A**2, B - 1.0), {"a": A**2, "b": B - 1.0}
    for _ in range(4):  # the later ones by a fast path
        same(fdiff.grad(by_method)(p), fdiff.grad(plain)(q), kind)
        same(fdiff.grad(lambda p: energy(p.a, p.b))(p), fdiff.grad(plain)(q), kind)
    same(fdiff.value_and_grad(by_method)(p)[1], fdiff.grad(plain)(q), kind)
    same(fdiff.hvp(by_method)(p, v), fdiff.hvp(plain)(q, w), kind)
    same(fdiff.hvp(by_method, (p,), (v,))[1][0], fdiff.hvp(plain)(q, w), kind)
    same(fdiff.hessian(by_method)(p), fdiff.hessian(plain)(q), kind)
    same(fdiff.jacobian(by_method, (p,))[0], fdiff.grad(plain)(q), kind)
    same(fdiff.jvp(by_method, (p,), (v,)), fdiff.jvp(plain, (q,), (w,)), None)
    many, there = make(np.stack([A, 2 * A]), np.stack([B, -B])), None
    there = {"a": many.a, "b": many.b}
    same(fdiff.vmap(fdiff.grad(by_method))(many), fdiff.vmap(fdiff.grad(plain))(there), kind)


@classes
def test_results_of_a_class(make):
    kind = type(make(A, B))
    f = lambda x: make(x**2, B * x[0])
    plain = lambda x: {"a": x**2, "b": B * x[0]}
    same(fdiff.jacobian(f)(A), fdiff.jacobian(plain)(A), kind)
    same(fdiff.jacobian(f, A), fdiff.jacobian(plain)(A), kind)
    same(fdiff.jacfwd(f)(A), fdiff.jacobian(plain)(A), kind)
    same(fdiff.jit(f)(A), plain(A), kind)
    for one, other in zip(fdiff.jvp(f, A, A), fdiff.jvp(plain, A, A), strict=True):
        same(one, other, kind)
    bar = fdiff.vjp(f, A, make(A, B))[1]
    same(bar, fdiff.vjp(plain, A, {"a": A, "b": B})[1], None)
    same(fdiff.grad(lambda x: (x @ x, f(x)), has_aux=True)(A)[1], plain(A), kind)
    inner = lambda x: np.sum(f(x).a) + total(f(x))  # made and read inside
    same(fdiff.grad(inner)(A), fdiff.grad(lambda x: np.sum(x**2) + energy(x**2, B * x[0]))(A), None)


@classes
def test_compiled_functions_take_and_return_them(make, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    p, kind = make(A, B), type(make(A, B))
    slope = fdiff.grad(total)
    for k in range(8):
        p = make(A + k, B)
        want = fdiff.grad(lambda q: energy(q["a"], q["b"]))({"a": A + k, "b": B})
        same(slope(p), want, kind)


def test_data_beside_the_children_decides_which_trace_holds():
    def f(p):
        return np.sum(p.a) * (2.0 if p.name == "second" else 1.0)

    slope = fdiff.grad(f)
    for _ in range(3):
        for name, factor in (("first", 1.0), ("second", 2.0)):
            found = slope(Registered(A, B, name))
            np.testing.assert_array_equal(found.a, factor * np.ones(3))
            assert found.name == name
    with pytest.raises(fdiff.errors.VectorError, match="v is not built like the inputs"):
        fdiff.jvp(f)(Registered(A, B, "first"), Registered(A, B, "second"))


@pytest.mark.slow
def test_registered_classes_are_those_of_jax():
    jax.tree_util.register_pytree_node(
        Derived, lambda m: ((m.a, m.b), m.name), lambda name, ab: Derived(*ab, name)
    )
    p = Derived(A, {"w": B, "k": 2.0})
    f = lambda p: {"x": Derived(p.a**2 * p.b["k"], p.b["w"][0]), "y": (p.a[0] * p.b["w"],)}
    found, want = fdiff.jacobian(f)(p), jax.jacrev(f)(p)
    assert jax.tree.structure(found) == jax.tree.structure(want)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13)


def test_objects_are_not_copied_where_they_are_not_differentiated():
    """What is stored in an argument is stored in a copy, as in a dataclass."""
    p = Registered(A, B)

    def f(p):
        p.a = p.a * 2.0
        return p.total()

    slope = fdiff.grad(f)(p)
    np.testing.assert_array_equal(p.a, A)
    want = fdiff.grad(lambda a: energy(2.0 * a, B))(A)
    np.testing.assert_allclose(slope.a, want, rtol=1e-13)


@classes
def test_rules_of_the_users_own_take_and_give_them(make):
    @fdiff.custom_vjp
    def rule(p):
        return np.sum(p.a**2) + np.sum(p.b)

    def pulled(p, bar):
        return (make(2.0 * p.a * bar, 3.0 * np.ones_like(p.b) * bar),)  # not what it is: 3 for 1

    rule.defvjp(lambda p: (rule.fun(p) if hasattr(rule, "fun") else np.sum(p.a**2), p), pulled)
    found = fdiff.grad(rule)(make(A, B))
    same(found, {"a": 2.0 * A, "b": 3.0 * np.ones((2, 2))}, type(make(A, B)))


@classes
def test_axes_of_a_batch_are_told_in_the_class(make):
    many = make(np.stack([A, 2 * A]), B)
    found = fdiff.vmap(lambda p: np.sum(p.a) * np.sum(p.b), in_axes=(make(0, None),))(many)
    np.testing.assert_allclose(found, np.array([1.0, 2.0]) * np.sum(A) * np.sum(B))


@classes
def test_recorded_arrays_in_them(make):
    z = fdiff.autograd.tensor(A, requires_grad=True)
    slope = fdiff.grad(total)(make(z, B))
    assert type(slope) is type(make(A, B))
    np.sum(slope.a).backward()
    want = fdiff.grad(lambda a: np.sum(fdiff.grad(energy)(a, B)))(A)
    np.testing.assert_allclose(z.grad, want, rtol=1e-13)


def refused(call):
    with pytest.raises(InputError) as caught:
        call()
    first, *_, last = str(caught.value).splitlines()
    return first, last.strip()


class Other:
    def __init__(self, a):
        self.a = a


def test_wrong_registrations_are_refused():
    register, parts = fdiff.register_pytree, lambda m: ((m.a,), None)
    back = lambda _, a: Other(*a)
    cases = [
        (lambda: register(Other(A), parts, back), "expects a class first, not Other.",
         "Pass the class itself, not an instance."),
        (lambda: register(Other, None, back), "flatten must be a function, not NoneType.",
         "Write register_pytree(cls, flatten, unflatten)."),
        (lambda: register(Other, parts, 3), "unflatten must be a function, not int.",
         "Write register_pytree(cls, flatten, unflatten)."),
        (lambda: register(dict, parts, back), "dict has its meaning in trees already.",
         "Derive a class of your own from it."),
        (lambda: register(np.ndarray, parts, back), "ndarray has its meaning in trees already.",
         "Derive a class of your own from it."),
        (lambda: register(Registered, parts, back),
         "Registered is registered already, with other functions.", "Register each class once."),
    ]  # fmt: skip
    for call, fact, way in cases:
        assert refused(call) == (f"register_pytree: {fact}", way)


def test_functions_that_take_apart_wrongly_are_refused():
    class NoPair(Other):
        pass

    class NoHash(Other):
        pass

    fdiff.register_pytree(NoPair, lambda m: [m.a], lambda _, a: NoPair(*a))
    fdiff.register_pytree(NoHash, lambda m: ([m.a], {"k": 1}), lambda _, a: NoHash(*a))
    fact = "flatten must return a pair: the children, a tuple or list, and other data."
    assert refused(lambda: fdiff.grad(lambda p: np.sum(p.a))(NoPair(A))) == (
        f"register_pytree(NoPair): {fact}",
        "Return (children, None) where there is no other.",
    )
    fact = "the data that flatten returns beside the children, {'k': 1}, has no hash."
    assert refused(lambda: fdiff.grad(lambda p: np.sum(p.a))(NoHash(A))) == (
        f"register_pytree(NoHash): {fact}",
        "Return a tuple, a text, a number or None: traces are kept by it.",
    )
    first, last = refused(lambda: fdiff.grad(lambda p: np.sum(p.a))(Other(A)))
    assert first == "grad(<lambda>): cannot differentiate with respect to a value of type Other."
    assert last == (
        "Differentiate by an array, or a tuple, list, dict or dataclass of arrays: argnums names"
        " the argument. Other classes of yours take part once fdiff.register_pytree knows them."
    )
