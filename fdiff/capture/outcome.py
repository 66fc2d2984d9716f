"""The effects of a run on the user's variables and objects, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ..errors import Line
from .data import Content
from .impure import Impurities
from .memoised_reads import MemoisedReads
from .memoised_values import ITEM
from .object_proxies import ObjectProxies
from .proxies import Copy, DictProxy, Where, label
from .release import NoValueError
from .value_kinds import traced_within
from .writes import ContainerCopy, Places

if TYPE_CHECKING:
    from .proxies import ProxyContext


class Outcome:
    """The places outside of one run that it reads and writes, and how they are carried over.

    `refused` are places that were to keep a traced value without a number, `overlapping` arrays
    that were written to and share memory with others, `lost` kept values that `f` looked up by its
    differentiated argument and did not compute again.
    """

    def __init__(self, context: ProxyContext, depends: Callable[[object], bool]) -> None:
        self.depends = depends
        self._originals: dict[int, tuple[object, object]] = {}  # id -> value, proxy
        self._impurities = Impurities()
        self.note, self.meet = self._impurities.note, self._impurities.meet
        self._places = Places()
        self._object_proxies = ObjectProxies(context)
        codes = self._impurities.codes
        self.memoised = MemoisedReads(codes, self._places, self._object_proxies, self._originals)
        self.refused: list[tuple[str, object]] = []
        self.overlapping: list[str] = []
        self.lost: list[tuple[str, Line | None]] = []

    # ------------------------------------------------------------------- what the proxies say

    def copied(self, copy: Copy, real: Copy, where: Where) -> None:
        """Remember a copy of a container of the user, which the run may write to."""
        self._places.copies.append(ContainerCopy(copy, copy.copy(), real, where))

    def shared(self, value: object, where: Where) -> None:
        """Remember a container or object of the user that the run has as it is."""
        self._places.shared.append((value, where))

    def data(self, value: object, node: Content, where: Where) -> None:
        """Remember data of the user that the run has as it is, and may write to."""
        self._places.data.append((value, node, where))

    def items(self, items: DictProxy) -> None:
        """Remember what stands for a dict of the user, whose items the run may write."""
        self._places.items.append(items)

    def plain(self, value: object) -> object:
        """The key of the user's dict that `value` is."""
        if not traced_within(value):
            return self.original(value)
        try:
            return self._object_proxies.release(value)
        except NoValueError as error:
            self.refused.append(("a key of a dict", error.args[0]))
            return value

    def original(self, value: object) -> object:
        """The user's own object behind a proxy."""
        return self._originals.get(id(value), (value,))[0]

    def looks_up(self, key: object) -> bool:
        """Whether a key is made of what is differentiated, in code that stores items of dicts."""
        return self.depends(key) and ITEM in self.memoised.names()

    def forgotten(self, items: DictProxy, key: object) -> None:
        """Remember a kept value that the run did not find again."""
        line = self._impurities.noted.get(items._fdiff_kept())
        self.lost.append((label((items._fdiff_where, key)), line))

    # ------------------------------------------------------------------------------------ writes

    def array(self, count: int) -> tuple[np.ndarray, str]:
        """A captured array, and how the user would name it."""
        return self._places.arrays[count], label(self._places.named[count])

    def written(self) -> bool:
        """Whether `f` has written anything so far; the user's own may know it only at the end."""
        if any(words.startswith("a write to") for words in self._impurities.noted):
            return True
        return self._places.written() or self._object_proxies.written()

    def flush(self) -> None:
        """What `f` has written so far is there for functions that are watched on their own.

        They may find proxies and traced values, which are released when the run is over.
        """
        self._places.write(self.original, self.note, self._refusing)
        self._object_proxies.carry_over(self._refusing, self.original)

    def see(self, other: Outcome) -> None:
        """What a function that is watched on its own has written is what `f` finds from now on."""
        self._places.see(other._places)
        self._object_proxies.see(other._object_proxies)

    def carry_over(self) -> None:
        """What `f` wrote to globals, cells, containers and objects goes to the user's own."""
        self._object_proxies.keep_computed()
        self._places.carry_over(self._object_proxies.release, self.note, self._refusing)
        self._object_proxies.carry_over(self._refusing)

    @contextmanager
    def _refusing(self, place: str) -> Generator[None]:
        """A value without a number is not stored in this place; the call will say so."""
        try:
            yield
        except NoValueError as error:
            self.refused.append((place, error.args[0]))
