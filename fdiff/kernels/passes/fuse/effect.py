"""An effect of a kernel: one kept node is computed, or a part of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...ir.indexing import Dims, Index
from ...ir.loops import Buffer, Guard, Ranges

View = tuple[int, Index]  # a node, and where it is read


class ShiftedTerm(NamedTuple):
    """A term that lies at ``begin`` to ``end`` on each axis of the sum, in steps of one.

    `loops` are the axes of the sum, by the loops over the term.
    """

    term: View
    place: Index
    shape: Dims
    begin: tuple[str, ...]
    end: tuple[str, ...]
    loops: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Effect:
    """One effect over `domain`; two are equal only if they are one.

    Kinds: ``local`` and ``store`` (the first of `values`, or their sum), ``update`` (added to
    memory), ``reduce``, ``argument``, ``scan``, and ``call``. `reduced` are the loops that are
    summed over, or the one that is scanned. `positions` are index arrays whose entries stand
    first in `index`.
    """

    kind: str
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
    forwards: bool = False  # the value stored can be used in the same nest
    after: tuple[int, ...] = field(default=())  # nodes of which all earlier effects come first
    excluded: Ranges = ()  # what of the domain is left out
    ranges: Ranges = ()  # what of it is run over
    boundary: bool = False  # of few entries, around what another effect computes
    guard: Guard = ()  # where of the domain there is anything to do
    shifts: tuple[ShiftedTerm, ...] = ()  # of a gather: its terms whose axes are in order
    continues: bool = False  # a sum that another effect has begun
    copied: tuple[int, ...] = ()  # nodes that hold all this copies, where it copies what they hold
    overwrites: int = -1  # the node whose memory is written over

    @property
    def computes(self) -> int:
        """The kept node that is the value itself, computed and not read; -1 if there is none."""
        return self.node if self.compute and self.kind != "scan" else -1

    @property
    def result(self) -> View | None:
        """What later effects of the same nest can use without reading memory."""
        return (
            (self.node, self.index)
            if self.kind in ("local", "store", "scan") and (self.compute or self.forwards)
            else None
        )
