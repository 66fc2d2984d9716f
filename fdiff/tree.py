"""Nested tuples, lists, dicts, named tuples, dataclasses and attrs classes of leaves.

None has no leaves. Classes of the user are nodes too, once `register` is told how. Source: J.
Bradbury et al., JAX, 2018: entry ``jax.tree_util.tree_flatten``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType
from typing import Any, TypeVar, cast

from .errors import UNNAMED, InputError, failure, shown, unbounded
from .foreign_errors import not_foreign
from .named_tuples import NamedTuple


class Spec(NamedTuple):
    """Shape of a tree: what kind of node, its keys, and the specs below; a leaf has no kind."""

    kind: type | None
    keys: tuple[object, ...] = ()
    children: tuple[Spec, ...] = ()

    @property
    def leaves(self) -> int:
        return 1 if self.kind is None else sum(c.leaves for c in self.children)


Tree = TypeVar("Tree")
LEAF = Spec(None)
MOST_LEVELS = 200  # of containers inside each other: far from where Python's recursion ends
Flatten = Callable[[Any], tuple[Sequence[object], object]]  # children, and what else there is
Unflatten = Callable[[Any, tuple[object, ...]], object]
_registered: dict[type, tuple[Flatten, Unflatten]] = {}  # classes of the user


def register(kind: type, flatten: Flatten, unflatten: Unflatten) -> bool:
    """Make a class a node of trees; False where it is one already."""
    return _registered.setdefault(kind, (flatten, unflatten)) == (flatten, unflatten)


def is_registered(kind: type) -> bool:
    """Whether the user said how instances of a class are taken apart."""
    return kind in _registered


def node_class(kind: type) -> bool:
    """Whether instances of a class are nodes by their fields, or as the user said."""
    return kind in _registered or is_dataclass(kind) or hasattr(kind, "__attrs_attrs__")


@lru_cache(maxsize=1024)
def init_names(kind: type) -> dict[str, str | None]:
    """Fields of a dataclass or attrs class, with the parameter of ``__init__`` for each, if any."""
    if is_dataclass(kind):
        return {f.name: f.name if f.init else None for f in fields(kind)}
    every = cast("Any", kind).__attrs_attrs__
    return {a.name: a.alias if a.init else None for a in every}


def _registered_parts(kind: type, tree: object) -> tuple[tuple[object, ...], Sequence[object]]:
    """The parts of an instance of a registered class, by the user's function.

    Its data is in the key of each child, so that it counts where structures are compared.
    """
    parts = _registered[kind][0](tree)
    call = f"register_pytree({kind.__name__})"
    if type(parts) is not tuple or len(parts) != 2 or not isinstance(parts[0], (tuple, list)):
        fact = "flatten must return a pair: the children, a tuple or list, and other data."
        raise failure(InputError, call, fact, "Return (children, None) where there is no other.")
    children, other = parts
    try:
        hash(other)
    except not_foreign(TypeError, again=lambda: hash(other)):
        fact = f"the data that flatten returns beside the children, {shown(other)}, has no hash."
        way = "Return a tuple, a text, a number or None: traces are kept by it."
        raise failure(InputError, call, fact, way) from None
    return tuple([(other, k) for k in range(len(children))]) or ((other, -1),), children


def _kind(tree: object) -> type:
    """Type of a node; a captured dict, which stands in for one, counts as the dict it is."""
    kind = type(tree)
    return getattr(kind, "_fdiff_kind", kind)


def node_parts(tree: object) -> tuple[tuple[object, ...], Sequence[object]] | None:
    """Keys (of dicts and dataclasses) and children of an inner node; None for a leaf."""
    kind = _kind(tree)
    if kind is tuple or kind is list:
        return (), cast("Sequence[object]", tree)
    if kind is dict or kind is OrderedDict:
        mapping = cast("dict[object, object]", tree)
        return tuple(mapping), list(mapping.values())
    if kind in _registered:
        return _registered_parts(kind, tree)
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return (), tree
    if tree is None:
        return (), ()
    if node_class(kind) and not isinstance(tree, type):
        names = tuple(init_names(kind))
        return names, [getattr(tree, n) for n in names]
    return None


def flatten(tree: object) -> tuple[list[object], Spec]:
    """Leaves from left to right, and the spec that puts them back.

    A tree that contains itself, or is deeper than `MOST_LEVELS`, is refused; the public call puts
    its name into the error (`tracebacks.trim`).
    """
    leaves: list[object] = []
    return leaves, _flatten(tree, leaves, [])


def _flatten(tree: object, leaves: list[object], around: list[int]) -> Spec:
    """`around` has the identities of the containers that `tree` is in."""
    parts = node_parts(tree)
    if parts is None:
        leaves.append(tree)
        return LEAF
    keys, children = parts
    if not children:
        return Spec(_kind(tree), keys)
    if id(tree) in around or len(around) > MOST_LEVELS:
        itself = "contains itself" if id(tree) in around else f"is over {MOST_LEVELS} levels deep"
        raise unbounded(UNNAMED, f"a {_kind(tree).__name__} among arguments or results {itself}.")
    around.append(id(tree))
    spec = Spec(_kind(tree), keys, tuple([_flatten(c, leaves, around) for c in children]))
    around.pop()
    return spec


def unflatten(spec: Spec, leaves: Sequence[object]) -> Any:
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
    if spec.kind in _registered:
        ((data, _), *_) = cast("tuple[tuple[object, int], ...]", spec.keys)
        return _registered[spec.kind][1](data, tuple(children))
    if issubclass(spec.kind, tuple):
        return cast("Callable[..., object]", spec.kind)(*children)
    named = dict(zip(spec.keys, children, strict=True))
    if spec.kind is dict:
        return named
    if spec.kind is OrderedDict:
        return OrderedDict(named)
    return _instance(spec.kind, cast("dict[str, object]", named))


def _instance(kind: type, named: dict[str, object]) -> object:
    """An instance of a dataclass or attrs class with these fields."""
    parameters = init_names(kind)
    if None not in parameters.values():
        return kind(**{cast("str", parameters[name]): value for name, value in named.items()})
    own = object.__new__(kind)  # its ``__init__`` computes fields of others
    for name, value in named.items():
        object.__setattr__(own, name, value)
    return own


def paths(spec: Spec, stem: str = "") -> list[str]:
    """How each leaf is reached from the root, as one would write it: ``['a'][0].b``."""
    if spec.kind is None:
        return [stem]
    fields_known = hasattr(spec.kind, "_fields") or node_class(spec.kind)
    names = getattr(spec.kind, "_fields", spec.keys or range(len(spec.children)))
    if spec.kind in _registered:
        fields_known, names = False, range(len(spec.children))
    written = ".{}" if fields_known else "[{!r}]"
    pairs = zip(names, spec.children, strict=True)
    return [path for name, child in pairs for path in paths(child, stem + written.format(name))]


def map_leaves(function: Callable[[object], object], tree: Tree) -> Tree:
    """Apply a function to every leaf of a tree."""
    leaves, spec = flatten(tree)
    return unflatten(spec, [function(leaf) for leaf in leaves])


def joined_trees(tree: object, other: object, join: Callable[[object, object], object]) -> object:
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
    children = [joined_trees(a, b, join) for a, b in zip(mine[1], theirs[1], strict=True)]
    spec = Spec(_kind(tree), mine[0], (LEAF,) * len(children))
    return unflatten(spec, children)
