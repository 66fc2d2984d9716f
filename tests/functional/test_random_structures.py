"""Random nested structures of arguments and results, under every operator.

Every result is a sine of a linear map of all arguments, so that derivatives of both orders are
known in closed form; where they belong is known from the flat vectors.
"""

from collections import OrderedDict, namedtuple

import jax
import numpy as np
import pytest

import fdiff

Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - as users write it
SHAPES = [(), (1,), (2,), (3,), (2, 3), (0,), (2, 1, 2)]


class Node:
    """A registered class with any number of children, and a name."""

    def __init__(self, *children, name="node"):
        self.children, self.name = children, name


fdiff.register_pytree(
    Node, lambda n: (n.children, n.name), lambda name, children: Node(*children, name=name)
)
jax.tree_util.register_pytree_node(
    Node, lambda n: (n.children, n.name), lambda name, children: Node(*children, name=name)
)


def random_tree(rng, depth):
    """A tree of arrays; a list or tuple is never the root, where numbers alone are an array."""
    count = int(rng.integers(1, 4))
    parts = [
        random_tree(rng, depth - 1)
        if depth and rng.random() < 0.5
        else rng.normal(size=SHAPES[rng.integers(len(SHAPES))])
        for _ in range(count)
    ]
    kinds = [
        lambda: {f"k{9 - i}": part for i, part in enumerate(parts)},
        lambda: OrderedDict((f"o{i}", part) for i, part in enumerate(parts)),
        lambda: Pair(parts[0], parts[-1]),
        lambda: Node(*parts, name=f"n{count}"),
        lambda: {"inner": [parts, None]},
        lambda: {"inner": tuple(parts)},
    ]
    return kinds[rng.integers(len(kinds))]()


def flat_of(tree):
    """All numbers of a tree, and the shapes of its leaves, from left to right."""
    leaves = fdiff.tree.flatten(tree)[0]
    return np.concatenate([np.ravel(x) for x in leaves]), [np.shape(x) for x in leaves]


def pieces(vector, shapes, axis=0):
    """The vector, or one axis of an array, cut into parts of these shapes."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    parts = np.split(vector, np.cumsum(sizes)[:-1], axis)
    before, after = vector.shape[:axis], vector.shape[axis + 1 :]
    return [part.reshape((*before, *s, *after)) for part, s in zip(parts, shapes, strict=True)]


def same(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.shape(mine) == np.shape(theirs)
        np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-12)


class Case:
    """A function between two random trees, and all that is known of it."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.p, out = random_tree(rng, 2), random_tree(rng, 2)
        self.x, self.inner = flat_of(self.p)
        size, self.outer = len(flat_of(out)[0]), flat_of(out)[1]
        self.m = rng.normal(size=(size, len(self.x)))
        self.in_spec, self.out_spec = fdiff.tree.flatten(self.p)[1], fdiff.tree.flatten(out)[1]
        self.rebuilt = fdiff.ravel(out)[1]
        self.v, self.w = rng.normal(size=len(self.x)), rng.normal(size=size)
        bend = self.m @ self.x
        self.value, self.jacobian = np.sin(bend), np.cos(bend)[:, None] * self.m
        self.hessian = -np.sin(bend)[:, None, None] * self.m[:, :, None] * self.m[:, None, :]

    def f(self, p):
        return self.rebuilt(np.sin(self.m @ fdiff.ravel(p)[0]))

    def energy(self, p):
        return self.w @ fdiff.ravel(self.f(p))[0]

    def into(self, vector):
        """A vector as a tree of arguments."""
        return fdiff.tree.unflatten(self.in_spec, pieces(vector, self.inner))

    def out(self, vector):
        return fdiff.tree.unflatten(self.out_spec, pieces(vector, self.outer))

    def blocks(self, whole, *, tupled=False):
        """Rows by results, then columns by arguments; and of a Hessian by these once more."""
        found = []
        for row, shape in zip(pieces(whole, self.outer), self.outer, strict=True):
            axis = len(shape)
            cut = [
                self.columns(part, axis + len(s)) if whole.ndim == 3 else part
                for part, s in zip(pieces(row, self.inner, axis), self.inner, strict=True)
            ]
            inner = fdiff.tree.unflatten(self.in_spec, cut)
            found.append((inner,) if tupled else inner)
        return fdiff.tree.unflatten(self.out_spec, found)

    def columns(self, part, axis):
        return fdiff.tree.unflatten(self.in_spec, pieces(part, self.inner, axis))


@pytest.mark.parametrize("seed", range(24))
def test_every_operator_puts_blocks_where_they_belong(seed):
    case = Case(seed)
    f, p, v, w = case.f, case.p, case.into(case.v), case.out(case.w)
    rows = case.blocks(case.jacobian)
    same(fdiff.jacobian(f)(p), rows)
    same(fdiff.jacrev(f)(p), rows)
    same(fdiff.jacfwd(f)(p), rows)
    same(fdiff.jacobian(f, (p,)), case.blocks(case.jacobian, tupled=True))
    tangents = case.out(case.jacobian @ case.v)
    same(fdiff.jvp(f)(p, v), (case.out(case.value), tangents))
    same(fdiff.jvp(f, (p,), (v,)), (case.out(case.value), tangents))
    slopes = case.into(case.w @ case.jacobian)
    same(fdiff.vjp(f)(p, w), (case.out(case.value), slopes))
    same(fdiff.vjp(f, (p,), w), (case.out(case.value), (slopes,)))
    out, f_jvp = fdiff.linearize(f, p)
    same((out, f_jvp(v)), (case.out(case.value), tangents))
    same(fdiff.hessian(f)(p), case.blocks(case.hessian))


@pytest.mark.parametrize("seed", range(100, 116))
def test_operators_of_a_scalar_function(seed):
    case = Case(seed)
    p, v = case.p, case.into(case.v)
    whole = np.tensordot(case.w, case.hessian, 1)
    same(fdiff.grad(case.energy)(p), case.into(case.w @ case.jacobian))
    same(fdiff.value_and_grad(case.energy)(p)[1], case.into(case.w @ case.jacobian))
    same(fdiff.hvp(case.energy)(p, v), case.into(whole @ case.v))
    same(fdiff.hessian_diagonal(case.energy)(p), case.into(np.diagonal(whole)))
    flat, unravel = fdiff.ravel(p)
    np.testing.assert_array_equal(flat, case.x)
    same(unravel(flat), p)
    same(fdiff.grad(lambda z: case.energy(unravel(z)))(flat), case.w @ case.jacobian)
