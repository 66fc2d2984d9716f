"""Recipes: everything about a call of NumPy that follows from the kinds of its operands.

A recipe is made when a function first meets operands of some kinds, and found by function, kinds
and static arguments from then on. It holds the tape of the call, the operands and outputs that its
reverse rule reads, and the kinds of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress
from typing import Any, TypeVar, cast

import fdiff.intact_numpy as np

from ...dispatch.run_errors import NoSessionError
from ...errors import UnsupportedError, failure
from ...named_tuples import NamedTuple
from ...tape import Tape
from ...trace.operation_cache import MOST
from ...transforms.activity import reached
from ...transforms.needless_masks import Fragility
from ...transforms.resized_templates import Sizes, resizable_tape, resized_tape, with_numbers
from ...transforms.rule_templates import Seeds
from ...tree import Spec
from ..arrays.array_kinds import ArrayKind
from .call_pullbacks import Pull, pull_of
from .call_tapes import CallOperand, CallTape, call_tape

# What knows sizes as entries of shapes alone: ufuncs, these functions, and these methods.
_FUNCTIONS = frozenset((np.sum, np.max, np.min, np.dot, np.numpy_function(np.transpose)))
_METHODS = frozenset([function.__name__ for function in _FUNCTIONS])
_MEAN = 4  # parts of the key of a mean of all entries: function, tuple, 1, kind


class Family(NamedTuple):
    """The key of a family of calls, and the sizes of one call.

    `entries` is the number of entries of a mean, which its tapes hold as a number; 0 without a
    mean.
    """

    key: object
    sizes: tuple[int, ...]
    entries: int


def family_of(key: object, what: Callable[..., object]) -> Family | None:
    """The family of a call that is known by `key`; None if it depends on sizes in other ways."""
    if key.__class__ is not tuple:
        return None
    parts = cast("tuple[Any, ...]", key)
    name = getattr(what, "method", None)
    mean = what is np.mean or name == "mean"
    if mean and len(parts) != _MEAN:
        return None
    if not (mean or name in _METHODS or isinstance(what, np.ufunc) or what in _FUNCTIONS):
        return None
    sizes, entries = Sizes(), 0
    description: list[object] = []
    for part in parts:
        if part.__class__ is ArrayKind:
            type_ = part.type
            description += (sizes.shape(type_.shape), type_.dtype, part.scalar, part.weak)
            description += (part.requires_grad, part.outside is part)
            entries = type_.size if mean else 0
        else:
            description.append(part)
    return Family(tuple(description), tuple(sizes.numbers), entries)


Rebuild = Callable[[Sequence[object]], tuple[tuple[object, ...], dict[str, object]]]


class Recipe:
    """How one call with operands of given kinds is recorded and pulled back.

    `outputs` are the kinds of the result's leaves that are arrays (None for others); `stored` are
    the operands that the call stores into. `needed` tells which operands get cotangents. `saved`
    are positions among operands and outputs, the operands stored into last. `lasting` says that the
    recipe serves further calls, `ruled` that the user's rules are on the tape, `through_view` that
    the call stores into a part of an array, which torch pulls back once. `selects` and `fragile`
    say that the call leaves entries out, and that its slopes may be infinite or NaN
    (`needless_masks.py`). `passes` are generated backward passes that begin here
    (`generated_backward.py`), with the output that they begin at.
    """

    __slots__ = (
        "_resizing", "_tape", "count", "fragile", "lasting", "name", "needed", "outputs", "passes",
        "places", "pulls", "ruled", "saved", "selects", "single", "spec", "stored", "through_view",
    )  # fmt: skip

    def __init__(
        self, name: str, kinds: Sequence[ArrayKind], call: CallTape,
        *, lasting: bool = True, ruled: bool = False,
    ) -> None:  # fmt: skip
        self.name = "".join([part[:1].upper() + part[1:] for part in name.split("_")])
        self._tape: Tape | None = call.tape
        self._resizing: Resizing | None = None
        self.spec: Spec = call.spec
        self.places = call.places
        self.stored = call.stored
        self.through_view = name in ("set_item", "copy_slices")
        self.lasting = lasting
        self.ruled = ruled
        self.count = len(kinds)
        self.needed = tuple([k.requires_grad and k.type.floating for k in kinds])
        self.pulls: dict[tuple[Seeds, tuple[bool, ...]], Pull] = {}
        self.passes: list[tuple[int, Callable[..., bool]]] = []
        self.outputs = _moving(call, self.needed)
        self.selects = any(node.primitive.structure.selects for node in call.tape.nodes)
        moving = reached(call.tape, dict.fromkeys(compress(call.tape.inputs, self.needed), 1))
        self.fragile = Fragility(call.tape.nodes, moving).of_any(call.tape.outputs)
        self.single = len(self.outputs) == 1 and not call.stored and call.spec.kind is None
        every = tuple([False if floating else None for floating in self.outputs])
        self.saved = self.pull(every).saved if any(self.needed) and any(self.outputs) else ()
        if self.saved and not all(self.outputs):  # masks among the outputs, which rules may read
            masked = self.pull(tuple([True if floating else None for floating in self.outputs]))
            self.saved = tuple(sorted({*self.saved, *masked.saved}))

    @property
    def tape(self) -> Tape:
        """The tape of the call."""
        if self._tape is None:
            assert self._resizing is not None, "a recipe has a tape, or another one's"
            self._tape = self._resizing.tape(self._resizing.known.tape)
        return self._tape

    def pull(self, seeds: Seeds, needed: tuple[bool, ...] | None = None) -> Pull:
        """The reverse rule for these cotangents, to all operands or to those that are `needed`."""
        key = seeds, self.needed if needed is None else needed
        pull_rule = self.pulls.get(key)
        if pull_rule is None:
            pull_rule = self.pulls[key] = self._new_pull(key)
        return pull_rule

    def _new_pull(self, key: tuple[Seeds, tuple[bool, ...]]) -> Pull:
        if self._resizing is None or key not in self._resizing.pulls:
            return pull_of(self.tape, key[1], key[0])
        numbers = self._resizing.counts is not None
        return self._resizing.pulls[key].resized(self._resizing.tape, numbers=numbers)

    def resizable(self, sizes: Collection[int]) -> bool:
        """Whether the recipe can be had for other sizes than these."""
        tapes = [self.tape, *[pull.tape for pull in self.pulls.values()]]
        return all(resizable_tape(tape, sizes) for tape in tapes)

    def resized(self, resizing: Resizing) -> Recipe:
        """The recipe for arrays of other sizes; its tapes are made when they are asked for."""
        copy = object.__new__(Recipe)
        for name in Recipe.__slots__:
            setattr(copy, name, getattr(self, name))
        copy._tape, copy._resizing = None, resizing
        copy.pulls, copy.passes = {}, []
        return copy


class Resizing(NamedTuple):
    """The recipe that serves arrays of other sizes: `sizes` has the new sizes.

    `pulls` are its rules that do not depend on sizes. `counts` are the numbers of entries of a
    mean, before and now.
    """

    known: Recipe
    pulls: Mapping[tuple[Seeds, tuple[bool, ...]], Pull]
    sizes: Mapping[int, int]
    counts: tuple[int, int] | None

    def tape(self, original: Tape) -> Tape:
        """A tape of the recipe that is known, for the other sizes."""
        resized = resized_tape(original, self.sizes)
        if self.counts is None:
            return resized
        old, new = self.counts
        values = {float(old): float(new), 1 / old: 1 / new}
        return with_numbers(resized, values)


def _moving(call: CallTape, needed: Sequence[bool]) -> tuple[bool, ...]:
    """Which outputs of a call have gradients: those computed from operands that require one.

    ``np.zeros_like(x)`` has none. An array that is stored into keeps its place in the graph.
    """
    tape = call.tape
    counts = reached(tape, dict.fromkeys(compress(tape.inputs, needed), 1))
    results = len(tape.outputs) - len(call.stored)
    return tuple(
        [
            tape.nodes[i].type.floating and (k >= results or counts[i] > 0)
            for k, i in enumerate(tape.outputs)
        ]
    )


_BY_VALUE = "by value"  # constants among the operands decide what is recorded
_recipes: dict[object, Recipe | str] = {}
_LARGEST = 1 << 14  # bytes of constants up to which a recipe is kept for their values


def recipe(
    key: object,
    what: Callable[..., object],
    name: str,
    kinds: Sequence[ArrayKind],
    values: Sequence[object],
    rebuild: Rebuild,
) -> Recipe:
    """The recipe known by `key`, made now where there is none."""
    entry = _recipes.get(key)
    if type(entry) is Recipe:
        return entry
    if entry is None:
        family = family_of(key, what)
        if family is not None and (near := _families.get(family.key)) is not None:
            return _keep(key, near.resized(family))
        call = _tape(what, name, kinds, values, rebuild)
        decisive = call.decisive
        if decisive is None or any(kinds[k].requires_grad for k in decisive):
            return Recipe(name, kinds, call, lasting=False)
        if not decisive:
            new = Recipe(name, kinds, call)
            if family is not None and not call.stored and new.resizable(family.sizes):
                _families[family.key] = Known(new, dict(new.pulls), family)
            return _keep(key, new)
        _keep(key, _BY_VALUE)
    constants = [k for k, kind in enumerate(kinds) if not kind.requires_grad]
    arrays = [np.asarray(values[k]) for k in constants]
    lasting = sum(a.nbytes for a in arrays) <= _LARGEST
    whole = (key, *[a.tobytes() for a in arrays]) if lasting else None
    entry = _recipes.get(whole) if lasting else None
    if entry is None:
        call = _tape(what, name, kinds, values, rebuild, constants)
        entry = Recipe(name, kinds, call, lasting=lasting)
        if lasting:
            _keep(whole, entry)
    assert isinstance(entry, Recipe), "such keys have recipes alone"
    return entry


def _tape(
    what: Callable[..., object],
    name: str,
    kinds: Sequence[ArrayKind],
    values: Sequence[object],
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
    except NoSessionError:
        fact = "an operator was called in a function that NumPy calls with recorded arrays."
        way = "Map it by fdiff.vmap, or call it in a loop."
        raise failure(UnsupportedError, f"numpy.{name}", fact, way) from None
    except UnsupportedError as error:
        way = "For the numbers alone, to save or print them, pass `array.detach().numpy()`."
        raise UnsupportedError(f"{error}\n{way}") from None


class Known(NamedTuple):
    """The recipe of one call of a family, with the rules that do not depend on sizes."""

    recipe: Recipe
    pulls: Mapping[tuple[Seeds, tuple[bool, ...]], Pull]
    family: Family

    def resized(self, other: Family) -> Recipe:
        """The recipe of another call."""
        sizes = dict(zip(self.family.sizes, other.sizes, strict=True))
        counts = (self.family.entries, other.entries) if other.entries else None
        return self.recipe.resized(Resizing(self.recipe, self.pulls, sizes, counts))


_families: dict[object, Known] = {}


RecipeEntry = TypeVar("RecipeEntry", bound=Recipe | str)


def _keep(key: object, entry: RecipeEntry) -> RecipeEntry:
    if len(_recipes) >= MOST:
        _recipes.clear()
        _families.clear()
    _recipes[key] = entry
    return entry
