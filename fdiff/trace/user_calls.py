"""The protocol of the log of the user's calls, which `looping` keeps: for type checkers alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ..hooks import Args, Function, Named
from .local_arrays import LocalArray
from .recorder import Loops, NumberClass
from .traced_array import TracedArray

Conversion: TypeAlias = Callable[[LocalArray], TracedArray]


class UserCalls(Protocol):
    """The protocol of the log of the user's calls; `looping` implements it.

    It is the listener of the trace while calls ask it, and has a `look` at the milestone of the
    trace. Calls are logged at `depth` 0; calls inside of them are not. While a `frame` compares the
    calls of its `trace`, none is idle. `stored` is told of a handle that is given another node,
    `converted` makes a local array a traced one. `question` answers what Python asks of a handle,
    where it `listens`; `is_checked` tells whether that has no node as yet, and `is_asked` whether a
    question is what comes next. `loops` tells what was found, also what `note` was told of loops in
    traces inside.
    """

    depth: int

    @property
    def frame(self) -> object: ...
    @property
    def trace(self) -> object: ...

    def look(self) -> None: ...
    def is_idle(self) -> bool: ...
    def call(self, fn: Function, args: Args, named: Named, /) -> object: ...
    def question(self, kind: NumberClass, handle: TracedArray, /) -> Any: ...
    def listens(self) -> bool: ...
    def is_checked(self, handle: TracedArray, /) -> bool: ...
    def is_asked(self) -> bool: ...
    def stored(self, handle: TracedArray, /) -> None: ...
    def loops(self) -> Loops: ...
    def note(self, loops: Loops, /) -> None: ...
    def converted(self, array: LocalArray, convert: Conversion, /) -> TracedArray: ...
    def close(self) -> None: ...


class ChoosingCalls(UserCalls, Protocol):
    """The protocol of the log of a loop's body that chooses its branches.

    A number that is cut to an int stays traced, as a `whole` one. `caught` tells whether an error
    is raised that the body catches, by its `refusal`.
    """

    def whole(self, handle: TracedArray, /) -> TracedArray | None: ...
    def caught(self, refusal: Callable[[], TracedArray], /) -> bool: ...
