"""Recipes: all that is known of a call of NumPy from the kinds of its operands.

A recipe is made when a function meets operands of some kinds for the first time, and found again
by function, kinds and static arguments from then on. It holds the tape of the call, which operands
and outputs its reverse rule reads, and the kinds of what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from ..arraytype import ArrayType
from ..errors import UnsupportedError
from ..trace.operation_cache import MOST
from ..transforms.dependence import reached
from ..transforms.rule_templates import Seeds
from ..tree import Spec
from .call_tapes import CallOperand, CallTape, call_tape
from .pull_rules import Pull, pull_of

Rebuild = Callable[[Sequence[object]], tuple[tuple[Any, ...], dict[str, Any]]]


class ArrayKind:
    """Shape, dtype and whether NumPy has it as a scalar; whether a gradient is required.

    There is one object for all arrays of a kind, compared by identity.
    """

    __slots__ = ("other", "outside", "requires_grad", "scalar", "type", "weak")

    def __init__(self, type_: ArrayType, *, scalar: bool, requires_grad: bool, weak: bool) -> None:
        self.type = type_
        self.scalar = scalar
        self.requires_grad = requires_grad
        self.weak = weak
        self.other: ArrayKind  # the kind that differs in `requires_grad`
        self.outside = self  # that of plain arrays, which are no recorded ones

    def __repr__(self) -> str:
        return f"<{self.type}{' requires grad' * self.requires_grad}>"


_kinds: dict[object, ArrayKind] = {}


def kind_of(value: np.ndarray | np.generic, requires_grad: bool = False) -> ArrayKind:  # noqa: FBT001,FBT002 - asked of every array
    """The kind of an array or NumPy scalar."""
    key = value.shape, value.dtype, value.__class__ is np.ndarray
    found = _kinds.get(key)
    if found is None:
        found = _kinds[key] = _new_kind(value)
    return found.other if requires_grad else found


def _new_kind(value: np.ndarray | np.generic) -> ArrayKind:
    dtype = value.dtype
    type_ = ArrayType(value.shape, dtype if dtype.isnative else dtype.newbyteorder("="))
    scalar = isinstance(value, np.generic)
    plain = ArrayKind(type_, scalar=scalar, requires_grad=False, weak=False)
    plain.other = ArrayKind(type_, scalar=scalar, requires_grad=True, weak=False)
    plain.other.other = plain
    plain.outside = ArrayKind(type_, scalar=scalar, requires_grad=False, weak=False)
    return plain


# What stands for a Python number beside an array of floating point.
NUMBER = ArrayKind(
    ArrayType((), np.dtype(np.float64)), scalar=False, requires_grad=False, weak=True
)
NUMBER.other = NUMBER


class Recipe:
    """How one call with operands of given kinds is recorded and pulled back.

    `outputs` are the kinds of the leaves of what it gives that are arrays (None for others);
    `stored` are the operands that it stores into. `needed` tells which operands get cotangents.
    `saved` are places among operands and outputs, those stored into last. `lasting` tells that it
    serves further calls, `ruled` that rules of the user's are on the tape, `through_view` that it
    stores into a part of an array, which torch pulls back once. `passes` are backward passes that
    begin here and are written out (`written_passes.py`), with the output they begin at.
    """

    __slots__ = (
        "count", "lasting", "name", "needed", "outputs", "passes", "places", "pulls", "ruled",
        "saved", "single", "spec", "stored", "tape", "through_view",
    )  # fmt: skip

    def __init__(
        self, name: str, kinds: Sequence[ArrayKind], made: CallTape,
        *, lasting: bool = True, ruled: bool = False,
    ) -> None:  # fmt: skip
        self.name = "".join([part[:1].upper() + part[1:] for part in name.split("_")])
        self.tape = made.tape
        self.spec: Spec = made.spec
        self.places = made.places
        self.stored = made.stored
        self.through_view = name in ("set_item", "copy_slices")
        self.lasting = lasting
        self.ruled = ruled
        self.count = len(kinds)
        self.needed = tuple([k.requires_grad and k.type.floating for k in kinds])
        self.pulls: dict[tuple[Seeds, tuple[bool, ...]], Pull] = {}
        self.passes: list[tuple[int, Callable[..., bool]]] = []
        self.outputs = _moving(made, self.needed)
        self.single = len(self.outputs) == 1 and not made.stored and made.spec.kind is None
        every = tuple([False if floating else None for floating in self.outputs])
        self.saved = self.pull(every).saved if any(self.needed) and any(self.outputs) else ()
        if self.saved and not all(self.outputs):  # masks among the outputs, which rules may read
            masked = self.pull(tuple([True if floating else None for floating in self.outputs]))
            self.saved = tuple(sorted({*self.saved, *masked.saved}))

    def pull(self, seeds: Seeds, needed: tuple[bool, ...] | None = None) -> Pull:
        """The reverse rule for these cotangents, to all operands or to those that are `needed`."""
        key = seeds, self.needed if needed is None else needed
        found = self.pulls.get(key)
        if found is None:
            found = self.pulls[key] = pull_of(self.tape, key[1], seeds)
        return found


def _moving(made: CallTape, needed: Sequence[bool]) -> tuple[bool, ...]:
    """Which outputs of a call have gradients: those computed from operands that require one.

    ``np.zeros_like(x)`` has none. An array that is stored into keeps its place in the graph.
    """
    tape = made.tape
    found = reached(tape, dict.fromkeys(compress(tape.inputs, needed), 1))
    results = len(tape.outputs) - len(made.stored)
    return tuple(
        [
            tape.nodes[i].type.floating and (k >= results or found[i] > 0)
            for k, i in enumerate(tape.outputs)
        ]
    )


_BY_VALUE = "by value"  # constants among the operands decide what is recorded
_recipes: dict[object, Recipe | str] = {}
_LARGEST = 1 << 14  # bytes of constants up to which a recipe is kept for their values


def recipe(
    key: object,
    what: Callable[..., Any],
    name: str,
    kinds: Sequence[ArrayKind],
    values: Sequence[Any],
    rebuild: Rebuild,
) -> Recipe:
    """The recipe known by `key`, made now where there is none."""
    found = _recipes.get(key)
    if found.__class__ is Recipe:
        return found  # type: ignore[return-value] - its class was looked at
    if found is None:
        made = _tape(what, name, kinds, values, rebuild)
        decisive = made.decisive
        if decisive is None or any(kinds[k].requires_grad for k in decisive):
            return Recipe(name, kinds, made, lasting=False)
        if not decisive:
            return _keep(key, Recipe(name, kinds, made))
        _keep(key, _BY_VALUE)
    constants = [k for k, kind in enumerate(kinds) if not kind.requires_grad]
    arrays = [np.asarray(values[k]) for k in constants]
    lasting = sum(a.nbytes for a in arrays) <= _LARGEST
    whole = (key, *[a.tobytes() for a in arrays]) if lasting else None
    found = _recipes.get(whole) if lasting else None
    if found is None:
        made = _tape(what, name, kinds, values, rebuild, constants)
        found = Recipe(name, kinds, made, lasting=lasting)
        if lasting:
            _keep(whole, found)
    return found  # type: ignore[return-value] - such keys have recipes alone


def _tape(
    what: Callable[..., Any],
    name: str,
    kinds: Sequence[ArrayKind],
    values: Sequence[Any],
    rebuild: Rebuild,
    constants: Sequence[int] = (),
) -> CallTape:
    """The tape of a call; an error names it."""
    operands = [
        CallOperand(kind.type, kind.scalar, kind.weak, k in constants)
        for k, kind in enumerate(kinds)
    ]
    try:
        return call_tape(what, operands, values, rebuild)
    except UnsupportedError as error:
        way = "For the numbers alone, to save or print them, pass `array.detach().numpy()`."
        raise UnsupportedError(f"{error}\n{way}") from None


def _keep(key: object, found: Any) -> Any:
    if len(_recipes) >= MOST:
        _recipes.clear()
    _recipes[key] = found
    return found
