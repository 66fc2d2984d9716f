"""The user's rules, whatever their protocol, and one call of a function that has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...dispatch.arguments import Function
from ...lazy_attributes import cached_property
from ...named_tuples import NamedTuple
from ...ops.shapes.shaping import traced
from ...trace import ArgumentSpec, TracedArray, current
from ...trace.handler_arguments import resolve
from ...tracebacks import line_of
from ...transforms.custom_rules import Site
from ...tree import flatten, unflatten

if TYPE_CHECKING:
    from ..annotations import AnyCustomFunction

Handles = Sequence[TracedArray]


def is_active(handle: TracedArray) -> bool:
    """Whether a derivative is taken for a value."""
    return handle.type.floating and handle.home.guards.is_active(handle.id)


def is_mapped(handle: TracedArray) -> bool:
    """Whether a value differs from element to element of a `vmap` around."""
    return handle.home.guards.is_batched(handle.id)


def is_mapped_here(handle: TracedArray) -> bool:
    """Whether the value differs between the elements of the trace under way, which holds one
    element.
    """
    return handle.home is current() and handle.home.guards.is_batched_here(handle.id)


class UserRule(NamedTuple):
    """A rule of the user for the derivatives of a function: a pullback, or a pushforward.

    - ``forward(*args) -> (output, residuals)`` keeps what the pullback needs;
    - ``pullback(*nondiff, residuals, bar) -> cotangents``;
    - ``pushforward(*nondiff, primals, tangents) -> (output, tangent)``;
    - ``slopes[k](tangent, output, *primals)``, for each argument, are a pushforward in parts;
    - ``batching(info, in_dims, *args) -> (output, out_dims)``, if the user has one.

    A `Function` may have both. Its rules share a context, in place of residuals and primals; where
    ``setup(ctx, args, output)`` fills the context, `forward` is not given it.

    The other one of pullback and pushforward is the transpose (`transforms/custom_rules.py`). A
    rule is a tuple, which does not change: only the function's attribute is compared at a call.
    """

    forward: Function | None = None
    pullback: Function | None = None
    pushforward: Function | None = None
    slopes: tuple[Function | None, ...] = ()
    batching: Function | None = None
    setup: Function | None = None

    @property
    def derivative(self) -> Function | None:
        """The function that errors and lines of the derivative point to."""
        slope = next((slope for slope in self.slopes if slope is not None), None)
        return self.pullback or self.pushforward or slope


class OutputLeaf(NamedTuple):
    """A leaf of a function's result: its type and kind, or its `value` where every call returns the
    same.
    """

    type: ArrayType | None
    scalar: bool = False
    weak: bool = False
    value: object = None

    @property
    def floating(self) -> bool:
        return self.type is not None and self.type.floating

    def of(self, array: TracedArray) -> TracedArray:
        """The traced array of this kind."""
        scalar = self.scalar and not array.shape
        return TracedArray(array.home, array.id, array.type, scalar=scalar, weak=self.weak)


class RuledCall:
    """One call: its arguments, and the traced leaves of the arguments.

    Arrays of floats count as traced; other leaves are the same for the function and its rules.
    `moving` are the positions of the floating leaves among the traced ones. Equal calls have equal
    `key`.
    """

    def __init__(self, function: AnyCustomFunction, args: tuple[object, ...]) -> None:
        self.function = function
        self.rule: UserRule = function.rule or UserRule()  # a checkpoint has none
        self.nondiff = [args[k] for k in function.nondiff if k < len(args)]
        self.places = [k for k in range(len(args)) if k not in function.nondiff]
        leaves, self.spec = flatten(tuple([args[k] for k in self.places]))
        self.leaves = [*map(_as_traced, leaves)]
        self.traced = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, TracedArray)]
        self.handles = [cast("TracedArray", self.leaves[k]) for k in self.traced]
        self.types = [h.type for h in self.handles]
        self.moving = [k for k, t in enumerate(self.types) if t.floating]
        self.args = args
        others = [_key(x) for x in (*self.nondiff, *self.leaves) if not isinstance(x, TracedArray)]
        kinds = [(h.type, h.scalar, h.weak) for h in self.handles]
        self.key = (id(function.original), self.spec, tuple(self.traced), *kinds, *others)

    @cached_property
    def site(self) -> Site:
        """Where the rule was written, or the function where there is no rule."""
        return Site(self.function.call, line_of(self.rule.derivative or self.function.fun))

    def with_leaves(self, leaves: Sequence[object]) -> tuple[object, ...]:
        """All arguments, with these in place of the traced leaves."""
        args = list(self.args)
        for k, arg in zip(self.places, self.differentiable(leaves), strict=True):
            args[k] = arg
        return tuple(args)

    def output(self, leaves: Sequence[object]) -> object:
        """The output of the function, without its rule, for these traced leaves."""
        return self.function.output(self.with_leaves(leaves))

    def differentiable(self, leaves: Sequence[object]) -> tuple[object, ...]:
        """The arguments that are not among ``nondiff_argnums``, with these traced leaves."""
        values = list(self.leaves)
        for k, leaf in zip(self.traced, leaves, strict=True):
            values[k] = leaf
        return unflatten(self.spec, values)

    def tangents(self, dots: Handles) -> tuple[object, ...]:
        """Tangents in the structure of `differentiable`: zeros for numbers that do not move."""
        values = [_no_tangent(leaf) for leaf in self.leaves]
        for k, dot in zip(self.moving, dots, strict=True):
            values[self.traced[k]] = dot
        return unflatten(self.spec, values)

    def inputs(self) -> list[ArgumentSpec]:
        """How the traced leaves are traced in a rule: all of them may be differentiated there."""
        return [ArgumentSpec(h.type, h.scalar, h.weak, h, active=True) for h in self.handles]


def _as_traced(leaf: object) -> object:
    value = resolve(leaf)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        return traced(value)
    return value


def _no_tangent(leaf: object) -> object:
    if isinstance(leaf, TracedArray | np.ndarray | np.generic | float | int | complex):
        return np.zeros(np.shape(leaf))[()]
    return None


def _key(value: object) -> object:
    """The key by which recursive calls compare a value that is not traced."""
    if value is None or isinstance(value, bool | int | float | complex | str):
        return type(value), value
    return id(value)
