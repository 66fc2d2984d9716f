"""The dependencies of a traced function, which are compared again before the next call.

Each value that was read has a node that states what the value must be for the program to hold. The
nodes form a graph rooted at the function: its globals, cells and defaults, the functions that these
lead to, the items of containers. `Dependencies` walks that graph once. The walk compares the
values, collects the current captured arrays, and notes every place that it visited with the object
that it found. As long as the same objects are in the same places nothing can have changed, so the
next call checks only that.
"""

from __future__ import annotations

from operator import is_
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, cast
from weakref import ref

import fdiff.intact_numpy as np

from ..bounded_cache import WeakValues
from ..foreign_errors import Suppressed, not_foreign, not_signalled
from ..user_lines import Line
from .revalidation import BY_IDENTITY, Codes, Comparisons, Dependency, ItemsFound, Revalidation
from .value_kinds import MISSING

if TYPE_CHECKING:
    from .written.write_programs import BoundWrites, Effects


class Pins:
    """The places that a walk visited, with the objects found; `writes` repeats the writes of a run.

    Only pins refer to objects that the user may drop. They belong to the prepared function, or to
    the caller; `Dependencies` know them for as long as someone holds them.
    """

    __slots__ = ("__weakref__", "arrays", "codes", "function", "items", "places", "writes")

    def __init__(
        self,
        function: object,
        codes: Codes,
        items: ItemsFound,
        places: Comparisons,
        arrays: list[np.ndarray],
        writes: BoundWrites | None = None,
    ) -> None:
        self.function, self.codes, self.items, self.places = function, codes, items, places
        self.arrays, self.writes = arrays, writes


_alive: WeakValues[int, Pins] = WeakValues()


def retained_data() -> int:
    """How many captured arrays are held."""
    return len({id(array) for pins in _alive.values() for array in pins.arrays})


def unchanged(pins: Pins, places: Comparisons) -> bool:
    """Whether the objects that a pass found are still in these of its places."""
    try:
        for fn, code in pins.codes:
            if fn.__code__ is not code:
                return False
        for mapping, key, value in pins.items:
            if mapping.get(key, MISSING) is not value:
                return False
        for check, entries in places:
            if not check(entries):
                return False
    except not_foreign(ValueError, RuntimeError):
        return False  # an empty cell; a container that another thread changes
    return True


_LOOKED_AT = 128  # dependencies that are looked at when one more is held


class Held(dict["Dependencies", Pins]):
    """The latest pins of at most `most` dependencies, held by the program's owner."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def enter(self, reads: Dependencies, pins: Pins) -> None:
        """Hold one more pass, and drop outdated passes, whose objects the user may have dropped.

        If many passes are held, some are looked at each time, in turn.
        """
        for other in [*self][:_LOOKED_AT]:
            if (old := self.pop(other, None)) is None:  # another thread took it
                continue
            # Only identities are compared: other places call the user's code, or fill inputs.
            places = tuple([place for place in old.places if place[0] in BY_IDENTITY])
            if len(self) < self._most and unchanged(old, places):
                self[other] = old
        self[reads] = pins

    def take(self, others: Held) -> None:
        """Take over all that `others` hold."""
        while others:
            with Suppressed(KeyError):  # another thread took it
                self.enter(*others.popitem())


def siblings(f: object, g: object) -> bool:
    """Whether functions of one ``def`` or ``lambda`` lead to the same objects, by identity.

    A walk from either function then finds the same objects.
    """
    if f is g:
        return True
    if type(f) is not FunctionType or type(g) is not FunctionType:
        return False
    if f.__code__ is not g.__code__ or f.__globals__ is not g.__globals__:
        return False
    if f.__kwdefaults__ or g.__kwdefaults__ or f.__dict__ or g.__dict__:
        return False
    mine, other = f.__defaults__, g.__defaults__
    if mine is not other and not (
        mine and other and len(mine) == len(other) and all(map(is_, mine, other))
    ):
        return False
    try:
        for a, b in zip(f.__closure__ or (), g.__closure__ or (), strict=True):
            if a is not b and a.cell_contents is not b.cell_contents:
                return False
    except not_foreign(ValueError):  # an empty cell
        return False
    return True


def _are_siblings(f: object, g: object) -> bool:
    """Whether two functions are siblings, or equal methods: each look-up makes a new method."""
    return siblings(f, g) or (type(f) is MethodType and f == g)


class Dependencies:
    """The values that one traced run read from outside.

    `slots` is the number of captured arrays. `effects` are the writes of the run, where later calls
    can repeat them without running `f`. `opaque` names, in words, values that cannot be compared,
    and `lines` the user's lines that read them. `traced` says that the run read values of an
    enclosing trace, `once` that the next trace may hold for longer. A program that is opaque,
    traced or for `once` holds only for the run that made it.
    """

    __slots__ = (
        "__weakref__", "_fixed", "_held", "_pins", "_root", "effects", "lines", "once", "opaque",
        "slots", "traced",
    )  # fmt: skip

    def __init__(
        self,
        slots: int,
        opaque: dict[str, Line | None],
        *,
        traced: bool,
        root: tuple[object, Dependency],
        fixed: list[tuple[object, Dependency]],
        effects: Effects | None = None,
        once: bool = False,
    ) -> None:
        self.slots = slots
        self.effects = effects
        self.once = once
        self.opaque = tuple(opaque)
        self.lines = tuple(opaque.values())
        self.traced = traced
        f, self._root = root
        self._fixed = fixed  # objects that are the same for all functions
        self._forget()
        self._walk(f)

    def _forget(self) -> None:
        """Forget the last successful check."""
        self._held = Held(1)
        self._pins = ref(_NO_PINS)

    def hold_in(self, held: Held) -> None:
        """Hold later passes in `held` from now on, and the latest pass at once."""
        if held is not self._held:
            held.take(self._held)
            self._held = held

    def refresh(self, f: object) -> list[np.ndarray] | None:
        """The captured arrays as `f` finds them now; None if the program no longer holds.

        `f` is the function that was traced, or another with the same code. The list is shared:
        not to be written to.
        """
        pins = self._pins()
        if pins is None or not self._serves(f, pins.function) or not unchanged(pins, pins.places):
            return self._walk(f)
        return self._current(pins.arrays)

    def _current(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """The captured arrays of one call, among them the numbers that are read anew."""
        if self.effects is None or not self.effects.reads:
            return arrays
        current = [*arrays]
        for read in self.effects.reads:
            current[read.slot] = arrays[read.slot].copy()
        return current

    def pins(self, f: object) -> Pins | None:
        """The places and objects of the last pass, if a pass for `f` would visit these places."""
        pins = self._pins()
        return pins if pins is not None and self._serves(f, pins.function) else None

    def serves_siblings(self) -> bool:
        """Whether functions of the same code, with other cells, can share these dependencies."""
        return self.effects is None or not self.effects.in_cells

    def _serves(self, f: object, root: object) -> bool:
        return f is root or (_are_siblings(f, root) and self.serves_siblings())

    def _walk(self, f: object) -> list[np.ndarray] | None:
        """Read everything again: the captured arrays, or None if anything else has changed.

        Pins are replaced as one object, so that another thread sees the old ones or the new ones.
        """
        if self.opaque or self.traced or self.once:
            return None
        walk = Revalidation(self.slots)
        try:
            if not self._root.holds(f, walk):
                return None
            for value, node in self._fixed:
                if not node.holds(value, walk):
                    return None
        except not_signalled(RecursionError):  # objects linked a thousand deep
            return None
        arrays, places, writes = cast("list[np.ndarray]", walk.arrays), walk.places(), None
        if self.effects is not None:
            writes = self.effects.bound(walk)
            if writes is None or not writes.before(None):
                return None
            places = (*places, (writes.before, (None,)))  # last: it fills the inputs
        pins = Pins(f, tuple(walk.codes), tuple(walk.items), places, arrays, writes)
        self._hold(pins)
        return self._current(arrays)

    def _hold(self, pins: Pins) -> None:
        """Remember the last successful check."""
        _alive[id(pins)] = pins
        self._held.enter(self, pins)
        self._pins = ref(pins)


_NO_PINS = Pins(MISSING, (), (), (), [])  # before the first pass
