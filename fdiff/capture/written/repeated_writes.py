"""The writes of a run that later calls can repeat, and the numbers that they read for that.

A number that the run reads and writes again is an input, not a constant. Whether it will be written
is known when it is read: from the names that the code of the run loads and stores
(`assigned_names.py`), or from an earlier trace that met the write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...bounded_cache import WeakKeys
from ...foreign_errors import not_signalled
from ...process.forking import late
from ..dependency_nodes import Array, Equal, Identical
from ..printing_functions import stand_in
from ..proxies.object_proxy import own_class
from ..proxy_context import Call, Pair, ProxyContext, Where, label
from ..revalidation import Dependency
from ..symbolic_numbers import OtherConditions, SymbolicNumber
from ..value_kinds import MISSING
from .assigned_names import ITEM, NamesInCode, names_in
from .write_targets import (
    NoEffectError,
    NumberRead,
    RecordedTape,
    WritePlace,
    WriteTarget,
    reachable,
)

if TYPE_CHECKING:
    from .write_log import WriteLog
    from .write_programs import Effects

new_log = late("write_log", __package__, "WriteLog")  # most functions write nothing
NUMBERS = frozenset((int, float, np.float64, np.float32))
_STATES = (None, True, False, MISSING)  # what tells whether something was done: few values each
_NEVER = ""  # among the places of a function: it is to find numbers as they are
_MOST = 1024
_rewritten: WeakKeys[CodeType | type, set[str]] = WeakKeys(_MOST)  # places, by code or class


def _rewritten_by(f: object) -> set[str]:
    """The places that earlier runs of a function have read and written, as users name them."""
    kind = own_class(f) or type(f)
    code: CodeType | type = getattr(getattr(f, "__func__", f), "__code__", kind)
    if (places := _rewritten.get(code)) is None:
        places = _rewritten[code] = set[str]()
    return places


def never_repeat(f: object) -> None:
    """Trace a function at each call that writes: it fails where it finds inputs for numbers."""
    _rewritten_by(f).add(_NEVER)


class RepeatedWrites:
    """The writes of one run; without a `tape` none is repeated.

    `once` says that the trace is for one call, but the next may be for more; `direct` that
    something was already written during the run; `speculates` that the run got inputs in place of
    numbers, or proxies of lists.
    """

    def __init__(
        self,
        context: ProxyContext,
        codes: Sequence[CodeType],
        arrays: Callable[[np.ndarray, Where], int],
        tape: RecordedTape | None,
        node: Callable[[object], Dependency | None],
        handle: Callable[[np.ndarray], object],
    ) -> None:
        self._context = context
        self._codes = codes
        self._arrays = arrays
        self._tape = tape
        self._handle = handle
        self._node = node
        self._log: WriteLog | None = None
        self._rewritten: set[str] = set()
        self._looked_at, self._changed = 0, NamesInCode(frozenset(), frozenset())
        self.once = self.direct = self.speculates = False

    def _started(self, tape: RecordedTape) -> WriteLog:
        """The log, begun by the first write, or the first number that may be written again."""
        if self._log is not None:
            return self._log
        log: WriteLog = new_log(tape.output, self._node, own_class, self._enter)
        self._log = log
        return log

    def begin(self, f: object) -> None:
        """Called when it is known which function runs."""
        self._rewritten |= _rewritten_by(f)
        self._learn = _rewritten_by(f).add
        if _NEVER in self._rewritten:
            self.stop()

    def stop(self) -> None:
        """No later call will do what the run writes."""
        if self.speculates and self._tape is not None:
            self._context.note("numbers that are read and written again")
        self._tape = self._log = None

    # ----------------------------------------------------------------------------------- reads

    def number(
        self, value: object, where: Where, place: WritePlace, *, sure: bool = False
    ) -> Pair | None:
        """The input for a number that the run reads and writes again; None for other values.

        Whether it does so is known (`sure`), or guessed by the name of the place.
        """
        if self._tape is None or type(value) not in NUMBERS:
            return None
        if not sure and not self._expected(where, self.names().rewritten):
            return None
        self.speculates, log = True, self._started(self._tape)
        if type(value) is int:
            node = NumberRead(int)
            return SymbolicNumber(log, log.read(place, node), value), node
        node, entered = self._enter(value, type(value), where)
        log.read(place, node)
        return entered, node

    def _enter(
        self, value: object, kind: type, where: Where = "a number"
    ) -> tuple[NumberRead, object]:
        """A new input of the tape for a number."""
        assert self._tape is not None
        buffer = np.array(value, kind)
        node = NumberRead(kind, self._arrays(buffer, where), buffer)
        entered = self._handle(buffer.copy())  # which keeps the number of this run
        return node, self._tape.number(entered, weak=kind is float)

    def names(self) -> NamesInCode:
        """The names that code of the run changes."""
        if self._looked_at != len(self._codes):
            self._looked_at = len(self._codes)
            names = zip(*map(names_in, self._codes), strict=True)
            self._changed = NamesInCode(*[frozenset().union(*each) for each in names])
        return self._changed

    def _expected(self, where: Where, names: Collection[str]) -> bool:
        """Whether the run may write to a place: its last name is one of `names`, or it once did."""
        last = ITEM if isinstance(where, tuple) else where.rpartition(".")[2]
        return self._tape is not None and (last in names or label(where) in self._rewritten)

    def logs(self, where: Where) -> bool:
        """Whether the run may append to a list."""
        return self._expected(where, self.names().appended)

    def counts(self, where: Where) -> bool:
        """Whether the run may change items of a dict in place, or lists that are items."""
        names = self.names().rewritten | self.names().appended
        return ITEM in names and self._expected((where, ""), names)

    # ---------------------------------------------------------------------------------- writes

    def wrote(
        self, words: str, where: Where, place: WritePlace | None, value: object, before: object
    ) -> None:
        """Note a write to a place, MISSING for what was deleted.

        `words` name the written value, for where it cannot be repeated; `before` is the node of the
        value that was read there.
        """
        able = place is not None and self._may_change(before)
        if not able or not self._noted("write", place, value):
            again = isinstance(before, Equal) and type(before.value) in NUMBERS
            self.unrepeatable(words, where, again=again)

    def called(self, where: Where, node: WriteTarget, calls: Sequence[Call]) -> None:
        """Note calls of methods of a container of the user."""
        if not self._noted("call", node, calls):
            self.unrepeatable(f"a write to `{label(where)}`", where, again=False)

    def filled(self, words: str, where: Where, node: Dependency, value: object) -> None:
        """Note that an array gets the entries of a traced one."""
        if not isinstance(node, Array) or not self._noted("fill", node, value):
            self.unrepeatable(words, where, again=False)

    def _noted(self, method: str, *what: object) -> bool:
        """Note something by a method of the log; whether later calls can do it."""
        if self._tape is None:
            return False
        try:
            getattr(self._started(self._tape), method)(*what)
        except not_signalled(NoEffectError, RecursionError):
            return False
        return True

    def unrepeatable(self, words: str, where: Where, *, again: bool) -> None:
        """Note a write that makes the trace one for this call.

        The next trace may be for more, if what it finds there is an input (`again`).
        """
        if again and self._tape is not None and label(where) not in self._rewritten:
            self._learn(label(where))
            self.once = True
        else:
            self._context.note(words)

    def _may_change(self, before: object) -> bool:
        """Whether a trace can serve calls that find other values than it has read there."""
        if before is None or isinstance(before, Array):
            return True
        if isinstance(before, NumberRead):
            return self._tape is not None and not self._started(self._tape).is_fixed(before)
        if not isinstance(before, Identical | Equal):
            return False
        return any(before.value is state for state in _STATES)

    # ----------------------------------------------------------------------------------- texts

    def shown(self, value: object) -> Pair | None:
        """The stand-in for a function or an object that shows text."""
        pair = stand_in(self._context, self, value)
        if pair is not None and self._tape is None:
            self._context.meet(value)
        return pair

    def show(
        self, words: str, call: Callable[..., object], args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:  # fmt: skip
        """Call what shows text, now and after later calls."""
        if self._tape is None:
            self._context.note(words)
            return call(*args, **kwargs)
        if not self._noted("show", call, args, kwargs):
            self._context.note(words)
        if self._context.state.tentative:
            return None
        self.direct = True
        log = self._started(self._tape)
        plain = partial(log.shown_now, settle=self._context.settle)
        arguments = [plain(value) for value in args]
        named = {name: plain(value) for name, value in kwargs.items()}
        with self._tape.unseen(), log.relying_on_nothing():
            result = call(*arguments, **named)
        if type(result) is int:  # how long the text was
            return SymbolicNumber(OtherConditions(partial(self._context.note, words)), "", result)
        return result

    def formatted(self, value: object, spec: str, text: str, frame: FrameType) -> str | None:
        """The mark for a value in an f-string that is shown; None where it may go elsewhere."""
        if self._tape is None:
            return None
        return self._started(self._tape).formatted(value, spec, text, frame)

    # --------------------------------------------------------------------------------- the end

    def finish(self, roots: Sequence[Dependency]) -> Effects | None:
        """The effects that later calls repeat, if the trace may be used again.

        `roots` are the nodes from which a later call finds the objects.
        """
        log, self._log, self._tape = self._log, None, None
        if log is None or not log.some():
            return None
        if not {*map(id, log.targets())} <= reachable(roots):
            self._context.note("a write to an object among the arguments")
        return log.finish()
