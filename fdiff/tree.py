"""Nested tuples, lists, dicts, named tuples and dataclasses of leaves; None has no leaves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import NamedTuple, cast


class Spec(NamedTuple):
    """Shape of a tree: what kind of node, its keys, and the specs below; a leaf has no kind."""

    kind: type | None
    keys: tuple[object, ...] = ()
    children: tuple[Spec, ...] = ()

    @property
    def leaves(self) -> int:
        return 1 if self.kind is None else sum(c.leaves for c in self.children)


LEAF = Spec(None)


def _kind(tree: object) -> type:
    """Type of a node; a captured dict, which stands in for one, counts as the dict it is."""
    kind = type(tree)
    return getattr(kind, "_fdiff_kind", kind)


def node_parts(tree: object) -> tuple[tuple[object, ...], Sequence[object]] | None:
    """Keys (of dicts and dataclasses) and children of an inner node; None for a leaf."""
    kind = _kind(tree)
    if kind is tuple or kind is list:
        return (), tree  # type: ignore[return-value] - its class was looked at
    if kind is dict or kind is OrderedDict:
        return tuple(tree), list(tree.values())  # type: ignore[arg-type,union-attr] - its class was looked at
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return (), tree
    if tree is None:
        return (), ()
    if is_dataclass(tree) and not isinstance(tree, type):
        names = tuple(f.name for f in fields(tree))
        return names, [getattr(tree, n) for n in names]
    return None


def flatten(tree: object) -> tuple[list[object], Spec]:
    """Leaves from left to right, and the spec that puts them back."""
    leaves: list[object] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: object, leaves: list[object]) -> Spec:
    parts = node_parts(tree)
    if parts is None:
        leaves.append(tree)
        return LEAF
    keys, children = parts
    return Spec(_kind(tree), keys, tuple(_flatten(c, leaves) for c in children))


def unflatten(spec: Spec, leaves: Sequence[object]) -> object:
    """The tree of that spec with these leaves."""
    return _build(spec, iter(leaves))


def _build(spec: Spec, leaves: Iterator[object]) -> object:
    if spec.kind is None:
        return next(leaves)
    children = [_build(c, leaves) for c in spec.children]
    if spec.kind is tuple or spec.kind is list:
        return spec.kind(children)
    if spec.kind is NoneType:
        return None
    make = cast("Callable[..., object]", spec.kind)
    if issubclass(spec.kind, tuple):
        return make(*children)
    named = dict(zip(spec.keys, children, strict=True))
    if spec.kind is dict:
        return named
    if spec.kind is OrderedDict:
        return OrderedDict(named)
    return make(**cast("dict[str, object]", named))


def paths(spec: Spec, stem: str = "") -> list[str]:
    """How each leaf is reached from the root, as one would write it: ``['a'][0].b``."""
    if spec.kind is None:
        return [stem]
    names = getattr(spec.kind, "_fields", spec.keys or range(len(spec.children)))
    written = ".{}" if is_dataclass(spec.kind) or hasattr(spec.kind, "_fields") else "[{!r}]"
    pairs = zip(names, spec.children, strict=True)
    return [path for name, child in pairs for path in paths(child, stem + written.format(name))]


def map_leaves(function: Callable[[object], object], tree: object) -> object:
    """The same tree with every leaf replaced."""
    leaves, spec = flatten(tree)
    return unflatten(spec, [function(leaf) for leaf in leaves])


def joined(tree: object, other: object, join: Callable[[object, object], object]) -> object:
    """The tree with ``join(leaf, other_leaf)`` for leaves, where `other` has any.

    None in `other` stands for a whole tree that is kept. ValueError where it is built otherwise.
    """
    if other is None:
        return tree
    mine, theirs = node_parts(tree), node_parts(other)
    if mine is None and theirs is None:
        return join(tree, other)
    if mine is None or theirs is None or mine[0] != theirs[0] or len(mine[1]) != len(theirs[1]):
        raise ValueError("the trees are not built alike")
    children = [joined(a, b, join) for a, b in zip(mine[1], theirs[1], strict=True)]
    spec = Spec(_kind(tree), mine[0], (LEAF,) * len(children))
    return unflatten(spec, children)
