"""The state of recorded arrays in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable
from typing import Any

from ..foreign_errors import uninterrupted_entry
from ..trace.branching.derivative_free_trace import see
from ..trace.recorder import Recorder
from ..trace.trace_stack import stack

ShortWays = dict[object, Callable[..., object]]
# Functions of users that pack a saved value, and restore it: ``(pack, unpack)``.
SavedHooks = tuple[tuple[Callable[..., object], Callable[..., object]], ...]

# By operation and kinds of operands, the short ways of calls that were met before
# (`direct_calls.py`): of calls that are recorded, and of calls that are not.
RECORDED_CALLS: ShortWays = {}
UNRECORDED_CALLS: ShortWays = {}
NO_CALLS: ShortWays = {}  # where somebody looks on: always empty


class MetRecorded(BaseException):
    """Raised where a function that a solver calls meets arrays that require gradients."""


class ThreadState(threading.local):
    """The modes of this thread, set by `modes.py`, and the hooks for saved values.

    `gradients` is the setting of the modes; with `inference`, new arrays are inference arrays,
    which may never be recorded. `grad_enabled` tells whether operations on recorded arrays are
    recorded: gradients are on, and inference mode is off. `dual` has the tangents of the level of
    forward mode under way. `saved_hooks` are the pairs ``(pack, unpack)`` under way, innermost
    last; `refusal` is the message where such hooks are disabled. `copies` keeps saved values that
    are stored into (`allow_mutation_on_saved_tensors`). `saved_watched` tells that one of these is
    on. `running` are the nodes of the backward pass under way, `solving` tells that a solver calls
    functions of the user's. `calls` are the short ways that these modes allow. `multithreading` and
    `keeps_layouts` are the settings of backward passes (`engine_settings.py`). `ported` tells that
    a function is traced which is written for recorded arrays.
    """

    saved_hooks: SavedHooks = ()
    refusal: str | None = None
    copies: Any = None
    solving = False
    running: Container[object] = ()
    calls = RECORDED_CALLS
    multithreading = True
    keeps_layouts = True
    ported = False
    entered: EnteredState | None = None
    _gradients = True
    _inference = False
    _grad_enabled = True
    _saved_watched = False
    _dual: Any = None

    @property
    def dual(self) -> Any:
        """The tangents of the level of forward mode under way (`tangent_sweep.py`), or None."""
        return self._dual

    @dual.setter
    def dual(self, sweep: object) -> None:
        self._dual = sweep
        self._choose()

    def moves(self, operands: Iterable[object]) -> bool:
        """Whether one of these has a tangent."""
        return self._dual is not None and self._dual.moves(operands)

    def pushes(self, operands: Iterable[object]) -> bool:
        """Whether a call on these is not recorded and gives tangents: `no_grad` leaves those on."""
        return not self._grad_enabled and not self._inference and self.moves(operands)

    @property
    def grad_enabled(self) -> bool:
        """Whether operations are recorded."""
        return self._grad_enabled

    @property
    def gradients(self) -> bool:
        """Whether the modes say that gradients are on."""
        return self._gradients

    @gradients.setter
    def gradients(self, enabled: bool) -> None:
        self._gradients = enabled
        self._choose()

    @property
    def inference(self) -> bool:
        """Whether new arrays are inference arrays."""
        return self._inference

    @inference.setter
    def inference(self, on: bool) -> None:
        self._inference = on
        self._choose()

    @property
    def saved_watched(self) -> bool:
        """Whether anybody wants to know what is saved."""
        return self._saved_watched

    @property
    def view(self) -> Recorder:
        """The innermost trace, as seen with gradients on or off."""
        return stack.traces[-1]

    @view.setter
    def view(self, trace: Recorder) -> None:
        see(trace)

    @property
    def hooks(self) -> SavedHooks:
        """The pairs ``(pack, unpack)``; to set them notes whether anybody wants to know."""
        return self.saved_hooks

    @hooks.setter
    def hooks(self, pairs: SavedHooks) -> None:
        self.saved_hooks = pairs
        self.watch_saved()

    @property
    def keeper(self) -> object:
        """The copies of saved values; to set them notes whether anybody wants to know."""
        return self.copies

    @keeper.setter
    def keeper(self, copies: object) -> None:
        self.copies = copies
        self.watch_saved()

    def watch_saved(self) -> None:
        """Note whether anybody wants to know what is saved."""
        self._saved_watched = bool(self.saved_hooks) or self.copies is not None
        self._choose()

    def _choose(self) -> None:
        """Whether operations are recorded, and the short ways that the modes allow."""
        self._grad_enabled = self._gradients and not self._inference
        pushes = self._dual is not None and not self._grad_enabled
        if self._saved_watched or self._inference or pushes:
            self.calls = NO_CALLS
        else:
            self.calls = RECORDED_CALLS if self._grad_enabled else UNRECORDED_CALLS


state = ThreadState()


class EnteredState:
    """A context that was entered: the state `before`, and the surrounding context."""

    __slots__ = ("before", "outer")

    def __init__(self, before: dict[str, object], outer: EnteredState | None) -> None:
        self.before, self.outer = before, outer

    def leave(self) -> None:
        """Restore the state before, once contexts that were entered inside are left."""
        entry, inner = state.entered, list[EnteredState]()
        while entry is not None and entry is not self:
            inner.append(entry)
            entry = entry.outer
        if entry is None:  # it is left already, or belongs to another thread
            return
        for name, value in self.before.items():
            holder = next((entered for entered in reversed(inner) if name in entered.before), None)
            if holder is None:
                setattr(state, name, value)
            else:
                holder.before[name] = value
        if inner:
            inner[-1].outer = self.outer
        else:
            state.entered = self.outer


class _Left:
    """The data of a context's entry that has been left."""

    __slots__ = ("entry",)

    def __init__(self, entry: EnteredState) -> None:
        self.entry = entry


class _Entered(_Left):
    """The data of a context's entry that has not been left.

    If an exception arrives as `__exit__` begins (a debugger's: signal handlers do not run there),
    Python drops the context, and the entry is left then. Entries that have been left call nothing
    at the end, because an exception that arrives in a finaliser is lost.
    """

    __slots__ = ()

    def __del__(self) -> None:
        self.entry.leave()


class StateContext:
    """A context that changes the state of its thread, and restores the previous state.

    Wherever an exception of a signal handler arrives, even in `__exit__`, the state is restored.
    """

    def __init__(self) -> None:
        self._entries: list[_Left] = []

    def _before(self) -> dict[str, object]:
        """The current values of the settings that it changes."""
        raise NotImplementedError

    def _enter(self) -> None:
        """Change the state."""
        raise NotImplementedError

    def __enter__(self) -> object:
        entry = EnteredState(self._before(), state.entered)
        entered = _Left(entry)
        try:
            entered.__class__ = _Entered
            self._entries.append(entered)
            state.entered = entry
            self._enter()
        except BaseException:
            entry.leave()
            entered.__class__ = _Left
            raise

    @uninterrupted_entry
    def __exit__(self, *error: object) -> None:
        if not self._entries:
            return
        entered = self._entries[-1]
        try:
            entered.entry.leave()
        except BaseException:  # it is done again as a whole
            entered.entry.leave()
            raise
        finally:
            entered.__class__ = _Left
            self._entries.pop()


class during(StateContext):  # noqa: N801 - it is written like a function
    """A context in which attributes of the state have these values."""

    def __init__(self, **values: object) -> None:
        super().__init__()
        self._values = values

    def _before(self) -> dict[str, object]:
        return {name: getattr(state, name) for name in self._values}

    def _enter(self) -> None:
        for name, value in self._values.items():
            setattr(state, name, value)


def not_recording() -> during:
    """Code in this context computes with recorded arrays: no graph is made, nor are tangents."""
    return during(gradients=False, dual=None)


def ported() -> during:
    """Traced arrays have the methods of recorded ones in this context."""
    return during(ported=True)


def recording() -> during:
    """A context in which operations on recorded arrays are recorded."""
    return during(gradients=True)
