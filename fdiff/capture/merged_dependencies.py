"""Join the dependencies of several runs of one function that took different paths.

All reads of all paths are compared before a call, each place once. A number that several paths read
anew in the same place is read once. The path of a call is known when the tape has run: the number
of the path is the last of the values to be written, and the writes of that path are repeated in its
own order. If all paths write the same values, there is no such number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import fdiff.intact_numpy as np

from .dependencies import Dependencies, Pins
from .revalidation import Comparisons
from .written.write_programs import After, Before, BoundWrites, Effects
from .written.write_targets import NumberRead

T = TypeVar("T")
_NOTHING = BoundWrites(lambda _: True, lambda result, *_: result, ())


class MergedDependencies(Dependencies):
    """The dependencies of several paths (`paths`), which hold for the function `f`.

    `chosen` lists for each path its written values, as numbers among the values of all paths.
    `first` is for each path the captured array at which the numbers that it reads anew begin; those
    arrays are like `arrays`. `same_writes` says whether all paths write the same values.
    """

    __slots__ = ("_chosen", "_first_alike", "_paths", "_readers", "arrays", "first", "same_writes")

    def __init__(
        self, paths: Sequence[Dependencies], f: object, chosen: Sequence[tuple[int, ...]]
    ) -> None:
        self._paths, self._chosen = tuple(paths), tuple(chosen)
        self.opaque, self.lines, self.traced, self.once = (), (), False, False
        pins = [reads.pins(f) for reads in paths]
        writes = [_NOTHING if p is None or p.writes is None else p.writes for p in pins]
        reads = [_reads(path.effects, bound) for path, bound in zip(paths, writes, strict=True)]
        first_alike = [reads.index(key) for key in reads]
        self._readers = [*dict.fromkeys(first_alike)]  # one of the paths that read the same numbers
        begins, arrays = dict[int, int](), list[np.ndarray]()
        for k in self._readers:
            begins[k] = len(arrays)
            numbers = sorted(getattr(paths[k].effects, "reads", ()), key=lambda read: read.slot)
            arrays += [read.buffer for read in numbers]
        self._first_alike, self.first = first_alike, [begins[k] for k in first_alike]
        self.arrays, self.slots = tuple(arrays), len(arrays)
        self.same_writes = len({*zip(map(_writes, paths, writes), chosen, strict=True)}) == 1
        self.effects = self._effects()
        self._forget()
        self.refresh(f)

    def _effects(self) -> Effects | None:
        """The effects of all paths that calls need before they take one."""
        effects = [path.effects for path in self._paths if path.effects is not None]
        if not effects:
            return None
        count = max((k + 1 for numbers in self._chosen for k in numbers), default=0)
        reads = [
            NumberRead(read.type, self.first[k] + read.slot, read.buffer)
            for k in self._readers
            for read in getattr(self._paths[k].effects, "reads", ())
        ]
        return effects[0]._replace(
            nodes=(),
            reads=tuple(reads),
            outputs=((),) * (count + (not self.same_writes)),
            in_cells=any(own.in_cells for own in effects),
        )

    def _walk(self, f: object) -> list[np.ndarray] | None:
        """Read everything again, path by path."""
        for path in self._paths:
            if path.refresh(f) is None:
                return None
        pins = [own for path in self._paths if (own := path.pins(f)) is not None]
        if len(pins) < len(self._paths):
            return None
        bound = self._bound([own.writes or _NOTHING for own in pins])
        if bound is None:
            return None
        codes = _distinct(code for own in pins for code in own.codes)
        items = _distinct(item for own in pins for item in own.items)
        places = _places_looked_at(pins)
        if self.effects is not None:
            places = (*places, (bound.before, (None,)))  # last: it fills the inputs
        arrays = [array for k in self._readers for array in pins[k].arrays]
        self._hold(Pins(f, codes, items, places, arrays, bound))
        return self._current(arrays)

    def _bound(self, writes: Sequence[BoundWrites]) -> BoundWrites | None:
        """The writes of all paths; None if they go to other objects than before."""
        reads = [
            _reads(path.effects, bound) for path, bound in zip(self._paths, writes, strict=True)
        ]
        if any(reads[k] != own for k, own in zip(self._first_alike, reads, strict=True)):
            return None
        readers = [k for k in self._readers if self._paths[k].effects is not None]
        before = _all_of([writes[k].before for k in readers])
        if not self.same_writes:
            after = _of_path([bound.after for bound in writes], self._chosen)
            return BoundWrites(before, after, ())
        if len({*map(_writes, self._paths, writes)}) > 1:
            return None
        return BoundWrites(before, writes[0].after, ())


def _reads(effects: Effects | None, bound: BoundWrites) -> object:
    """The key of numbers that are read anew, equal for paths that read the same numbers."""
    if effects is None:
        return None
    slots = tuple([(read.type, read.slot) for read in effects.reads])
    return slots, effects.before.on(bound.targets)


def _writes(path: Dependencies, bound: BoundWrites) -> object:
    return None if path.effects is None else path.effects.after.on(bound.targets)


def _all_of(befores: Sequence[Before]) -> Before:
    if len(befores) == 1:
        return befores[0]

    def before(_: object) -> bool:
        for reads in befores:  # noqa: SIM110 - a generator costs as much as what it calls
            if not reads(None):
                return False
        return True

    return before


def _of_path(afters: Sequence[After], chosen: Sequence[tuple[int, ...]]) -> After:
    """A function that writes for the path whose number is the last of the values."""

    def after(result: object, *values: np.ndarray) -> object:
        path = int(values[-1])
        return afters[path](result, *[values[k] for k in chosen[path]])

    return after


def _places_looked_at(pins: Iterable[Pins]) -> Comparisons:
    """The visited places of all paths, with their objects; no mappings and no code."""
    kinds: dict[Callable[..., bool], list[object]] = {}
    for own in pins:
        for check, places in own.places:
            if own.writes is None or check is not own.writes.before:
                kinds.setdefault(check, []).extend(places)
    return tuple([(check, _distinct(places)) for check, places in kinds.items()])


def _distinct(places: Iterable[T]) -> tuple[T, ...]:
    """Each place once: several paths visit much the same places."""
    return tuple({_identity(place): place for place in places}.values())


def _identity(part: object) -> object:
    """A name by its value, anything else by its address: pins keep it alive."""
    if type(part) is tuple:
        return tuple(map(_identity, part))
    return part if type(part) is str else id(part)
