"""Effects: writes of a kernel to memory, of one materialised node or a part of it each."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ...named_tuples import NamedTuple
from .accesses import Buffer
from .index_expressions import Dims, Index
from .loops import Guard, Ranges

View = tuple[int, Index]  # a node, and the index at which it is read


class ShiftedTerm(NamedTuple):
    """A term of a sum that covers ``begin`` to ``end`` of each axis of the sum, in steps of one.

    `loops` has, for each loop over the term, the axis of the sum it runs along.
    """

    term: View
    place: Index
    shape: Dims
    begin: tuple[str, ...]
    end: tuple[str, ...]
    loops: tuple[int, ...]


class EffectKind(Enum):
    """Kinds of effects: the use of their values."""

    LOCAL = "local"  # assign a local
    STORE = "store"  # write the first of the values, or their sum
    UPDATE = "update"  # add the value to memory
    REDUCE = "reduce"  # reduce over some of the loops
    ARGUMENT = "argument"  # find the position of an extreme entry
    SCAN = "scan"  # write running totals along one of the loops
    CALL = "call"  # call a routine


@dataclass(frozen=True, eq=False)
class Effect:
    """One effect over an iteration domain; two effects are equal only if they are one object.

    `reduced` are the loops that are reduced over, or the one that is scanned. `positions` are index
    arrays whose entries stand first in `index`.
    """

    kind: EffectKind
    node: int
    domain: Dims
    values: tuple[View, ...]
    dims: Dims = ()
    index: Index = ()
    buffer: Buffer = field(default_factory=lambda: Buffer(""))
    literal: str = ""
    reduced: tuple[int, ...] = ()
    positions: tuple[View, ...] = ()
    compute: bool = False  # the first value is the node itself, to be computed here
    forwards: bool = False  # later effects of the nest may use the value stored
    after: tuple[int, ...] = field(default=())  # nodes all earlier effects of which come first
    excluded: Ranges = ()  # a box of the domain that is left out
    ranges: Ranges = ()  # the box of the domain that is run over
    boundary: bool = False  # few entries, around the interior that another effect computes
    guard: Guard = ()  # the condition under which an iteration does anything
    shifts: tuple[ShiftedTerm, ...] = ()  # of a gather: its terms with axes in the order of the sum
    continues: bool = False  # a reduction that goes on from the result of another effect
    copies_of: tuple[int, ...] = ()  # nodes with the same entries: no copy if it is in place
    overwrites: int = -1  # the node whose memory is written over; -1 if none is

    @property
    def computes(self) -> int:
        """The node that is computed here, and not read from memory; -1 if there is none."""
        return self.node if self.compute and self.kind is not EffectKind.SCAN else -1

    @property
    def stores_part(self) -> bool:
        """Whether this is the store of a part into an array, and not a copy of the array."""
        return self.forwards or bool(self.positions)

    @property
    def innermost_reduced(self) -> int:
        """How many of the innermost loops are reduced over."""
        count, rank = 0, len(self.domain)
        while count < rank and rank - 1 - count in self.reduced:
            count += 1
        return count

    @property
    def result(self) -> View | None:
        """The view whose value later effects of the nest can use without reading memory."""
        return (
            (self.node, self.index)
            if self.kind in (EffectKind.LOCAL, EffectKind.STORE, EffectKind.SCAN)
            and (self.compute or self.forwards)
            else None
        )
