"""Stores of a run into globals, cells and containers, and their transfer to the user's own.

While `f` runs it sees proxies and copies. When the run is over, the values stored in them are
stored in the user's own places, with numbers in place of traced values. See
docs/decisions/writes-to-the-outside.md.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from types import CellType
from typing import TYPE_CHECKING, cast

from ...named_tuples import NamedTuple
from ..dependency_nodes import Attributes, Identical, MappingItems, attribute
from ..non_numeric_data import Content, is_table
from ..proxies.container_proxies import DictProxy
from ..proxies.module_proxies import GlobalsProxy
from ..proxies.object_proxy import store
from ..proxy_context import Copy, ProxyContext, Refuse, Repeats, Resolve, Where, label
from ..value_kinds import MISSING
from .traced_value_release import Release
from .write_targets import WritePlace, WriteTarget, attribute_of, in_cell, item_of

if TYPE_CHECKING:
    from ..proxies.list_proxies import ListProxy


class CellCopy(NamedTuple):
    """A private cell and the user's cell; `put` is the private cell's first content."""

    name: str
    private: CellType
    real: CellType
    node: Attributes | Identical
    put: list[object]

    def written(self) -> bool:
        """Whether the run has written to it; not where an exception has left it half filled."""
        filled = isinstance(self.node, Attributes) and bool(self.node.parts)
        return filled and attribute(self.private, "cell_contents") is not self.put[0]


class ContainerCopy(NamedTuple):
    """A run's copy of a container of the user (`real`); `put` is the first content of the copy."""

    copy: Copy
    put: Copy
    real: Copy
    where: Where
    node: WriteTarget | None = None

    def written(self) -> bool:
        return changed(self.copy, self.put)

    def note(self, repeats: Repeats) -> None:
        """Note what the run has written for later calls."""
        if self.node is None or not isinstance(self.copy, dict):
            again = isinstance(self.real, list | set)
            words = f"a write to `{label(self.where)}`"
            repeats.unrepeatable(words, self.where, again=again)
            return
        put = cast("dict[str, object]", self.put)
        for name in dict.fromkeys((*self.copy, *put)):
            value, where = self.copy.get(name, MISSING), f"{label(self.where)}.{name}"
            if value is not put.get(name, MISSING):
                place, before = place_in(self.node, name)
                repeats.wrote(f"a write to `{where}`", where, place, value, before)


class OutsidePlaces:
    """All places outside of objects that a run may have written to."""

    def __init__(self) -> None:
        self.globals: dict[int, GlobalsProxy] = {}
        self.cells: dict[int, CellCopy] = {}
        self.copies: list[ContainerCopy] = []
        self.items: list[DictProxy] = []
        self.lists: list[ListProxy] = []
        self.arrays: list[object] = []  # captured arrays, in the order of their handles
        self.named: list[Where] = []  # and their names
        self.data: list[tuple[object, Content, Where]] = []  # tables and the like, without proxies
        # Objects without proxies that cannot be compared.
        self.shared: list[tuple[object, Where]] = []

    def written(self) -> bool:
        """Whether a private global, cell or copy holds a store, or data has changed."""
        written: Iterable[bool] = (
            *(next(g.writes(), None) is not None for g in self.globals.values()),
            *(cell.written() for cell in self.cells.values()),
            *(copy.written() for copy in (*self.copies, *self.lists)),
            *(not node.same(value) for value, node, _ in self.data),
        )
        return any(written)

    def stores(self) -> Iterator[object]:
        """The values stored so far, in the order of the places, to be compared by identity."""
        for globals_ in self.globals.values():
            yield from (value for _, value in globals_.writes())
        for cell in self.cells.values():
            yield from [attribute(cell.private, "cell_contents")] if cell.written() else []
        for copy in [copy for copy in self.copies if copy.written()]:
            yield from copy.copy
            yield from copy.copy.values() if isinstance(copy.copy, dict) else ()
        for items in self.items:
            yield from items._fdiff_written.values()
        for called in self.lists:
            yield from called.calls

    def written_places(self) -> Iterator[str]:
        """The places that the run has stored something in, as the user names them."""
        for globals_ in self.globals.values():
            yield from [name for name, _ in globals_.writes()]
        yield from [cell.name for cell in self.cells.values() if cell.written()]
        yield from [label(c.where) for c in (*self.copies, *self.lists) if c.written()]
        for items in self.items:
            yield from [label((items._fdiff_where, name)) for name in items._fdiff_written]

    def carry_over(self, release: Release, context: ProxyContext, refuse: Refuse) -> None:
        """Store in the user's own places what the run has written, and note each place."""
        self._note(context.repeats)
        self.write(release, refuse)
        for items in self.items:
            items._fdiff_carry_over(release, refuse)
        for items in self.lists:
            items.carry_over(release, refuse)
        self.release_shared(release, refuse)
        for value, node, where in self.data:
            if not node.same(value):
                context.note(f"a write to `{label(where)}`")
                with refuse(label(where)):
                    release.table(value) if is_table(value) else release.contents(value)

    def release_shared(self, release: Release, refuse: Refuse) -> None:
        """Put numbers in place of traced values into objects that the run has without proxies."""
        for value, where in self.shared:
            with refuse(label(where)):
                release.contents(value)

    def _note(self, repeats: Repeats) -> None:
        """Note for later calls what the run left in globals, cells and copies."""
        for globals_ in self.globals.values():
            for name, value in globals_.writes():
                place, before = item_of(globals_.table, name), globals_.table.reads.get(name)
                repeats.wrote(f"a write to the global `{name}`", name, place, value, before)
        for cell in self.cells.values():
            if cell.written():
                words = f"a write to `{cell.name}` of an enclosing function"
                value, node = (
                    attribute(cell.private, "cell_contents"),
                    cast("Attributes", cell.node),
                )
                repeats.wrote(words, cell.name, in_cell(node), value, node.parts[0][1])
        for copy in self.copies:
            if copy.written():
                copy.note(repeats)

    def write(self, release: Resolve, refuse: Refuse) -> None:
        """Write the stores of the run into private globals, cells and copies to the user's own."""
        for globals_ in self.globals.values():
            for name, value in list(globals_.writes()):
                with refuse(name):
                    store(globals_.real, name, release(value))
        for cell in self.cells.values():
            if cell.written():
                with refuse(cell.name):
                    set_cell(cell.real, release(attribute(cell.private, "cell_contents")))
        for copy, put, real, where, _ in self.copies:
            if changed(copy, put):
                with refuse(label(where)):
                    write_back(copy, real, release)
        for items in self.lists:
            if items.items is not None and items.written():
                with refuse(label(items.where)):
                    items.write(release)

    def see(self, other: OutsidePlaces) -> None:
        """Store in this run's places what another run has written."""
        for key, globals_ in other.globals.items():
            if (mine := self.globals.get(key)) is not None:
                for name, value in list(globals_.writes()):
                    store(mine, name, value)
        for key, cell in other.cells.items():
            if cell.written() and key in self.cells:
                set_cell(self.cells[key].private, attribute(cell.private, "cell_contents"))
        for theirs in other.copies:
            for own in self.copies if changed(theirs.copy, theirs.put) else ():
                if own.real is theirs.real:
                    write_back(theirs.copy, own.copy, lambda value: value)
            for items in self.lists if changed(theirs.copy, theirs.put) else ():
                if items.real is theirs.real:
                    items.whole()[:] = cast("list[object]", theirs.copy)
        for theirs in other.lists:
            for own in self.lists if theirs.written() else ():
                if own.real is theirs.real:
                    own.see(theirs)
        for written in other.items:
            for items in self.items:
                if items._fdiff_real is written._fdiff_real:
                    items._fdiff_forget(written)


def place_in(node: WriteTarget, name: str) -> tuple[WritePlace, object]:
    """The place of an attribute in a namespace or an object, and what was read there."""
    if isinstance(node, MappingItems):
        return item_of(node, name), node.reads.get(name)
    parts = dict(node.parts) if isinstance(node, Attributes) else {}
    return attribute_of(node, name), parts.get(name)


def changed(copy: Copy, put: Copy) -> bool:
    """Whether `copy` no longer holds the objects that were put into it."""
    if len(copy) != len(put):
        return True
    if isinstance(copy, set):
        return copy != put
    if isinstance(copy, dict):
        values = cast("dict[str, object]", put)
        return any(values.get(key, MISSING) is not value for key, value in copy.items())
    return any(map(operator.is_not, copy, put))


def write_back(copy: Copy, real: Copy, original: Callable[[object], object]) -> None:
    """Make the user's container `real` what the run has made of its copy."""
    if isinstance(copy, list):
        cast("list[object]", real)[:] = [original(item) for item in copy]
    elif isinstance(copy, set):
        own, target = [original(item) for item in copy], cast("set[object]", real)
        target.clear()
        target.update(own)
    else:
        attributes = cast("dict[str, object]", real)
        for name in attributes.keys() - copy.keys():
            store(attributes, name, MISSING)
        for name, value in copy.items():
            store(attributes, name, original(value))


def set_cell(cell: CellType, value: object) -> None:
    if value is MISSING:
        del cell.cell_contents
    else:
        cell.cell_contents = value
