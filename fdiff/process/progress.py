"""Progress of long work: what is done, how far it is, and how to stop it.

Tracing, transforms and compiling run inside a `Stage`. Work that has taken more than two seconds is
shown by a thread of its own, as LLVM runs for seconds without running any Python code. The thread
starts when a stage begins, and ends when it finds no stage under way. Where nothing may be shown
there is no such thread, and a stage costs less than a microsecond. Work in the background is not
shown, because nobody waits for it.
"""

from __future__ import annotations

import atexit
import math
import sys
import threading
from collections.abc import Iterator, Sized
from contextlib import suppress
from operator import length_hint
from threading import get_ident
from time import perf_counter, process_time
from types import FrameType
from typing import TYPE_CHECKING

from .. import errors, user_lines
from ..user_lines import file_label, is_internal
from . import background, observed_spans
from .environment import is_worker
from .forking import at_fork, is_running, late
from .interrupt_safe_locks import TurnLock
from .threads import Flag, Thread

if TYPE_CHECKING:
    from .loop_progress import CodePlace, Trips
    from .progress_display import Display, Report

SECONDS = 2.0  # work that takes no longer shows nothing
INTERVAL = 0.2  # seconds after which what is shown is renewed
AGAIN = 0.5  # seconds before the next question whether anything may be shown
LEAST = 0.05  # of a loop: before that, an estimate is a guess
SURE = 0.25  # of a sweep: before that, the prediction has a weight too
SETTLED = 1.0  # seconds after which the machine's speed is known
MOST_SLOWED = 20.0  # times that other programs may make the work take
PATIENCE = 2.0  # seconds that a fork waits for the thread to end
# What is needed where progress is shown.
place_of = late("loop_progress", __package__, "place_of")
trips_of = late("loop_progress", __package__, "trips_of")
find_display = late("progress_display", __package__, "find_display")
report_of = late("progress_display", __package__, "Report")


class Stage:
    """Some work under way, in a ``with`` statement.

    `what` says what is done and `of` to which call of the user's: "compiling", "grad(model)".
    `size` is a number of operations and `nodes` a growing list of them. `seconds` is how long the
    work is expected to take; it follows from the trips where a loop of the user's tells them, and
    from `done` of `total` parts, or a `counter` of them: an iterator that knows how many are left.
    A stage that takes `sweeps` times as long as a counted one inside of it follows from that. With
    `shows_line` the user's line is shown whose operations were recorded last. What is left out is
    taken from the enclosing stage. A profiler sees it as a span of this `category`, if there is
    one.
    """

    __slots__ = (
        "_advanced", "_begin", "_busy", "_frame", "_learned", "_outer", "_places", "_span",
        "_trips", "_where", "category", "counter", "done", "nodes", "of", "parts", "seconds",
        "shows_line", "size", "sweeps", "total", "what",
    )  # fmt: skip

    def __init__(
        self,
        what: str = "",
        of: str = "",
        *,
        size: int = 0,
        nodes: Sized = (),
        seconds: float = 0.0,
        sweeps: float = 0.0,
        total: int = 0,
        parts: str = "sweeps",
        counter: Iterator[object] | None = None,
        shows_line: bool = False,
        category: str = observed_spans.COMPILE,
    ) -> None:
        self.category = category
        self.what, self.of, self.size, self.nodes = what, of, size, nodes
        self.seconds, self.sweeps, self.shows_line = seconds, sweeps, shows_line
        if counter is not None:
            total, parts = length_hint(counter), "operations"
        self.done, self.total, self.parts, self.counter = 0, total, parts, counter
        self._advanced = self._learned = 0.0
        self._frame: FrameType | None = None
        self._places: list[CodePlace] = []
        self._trips: Trips | None = None
        self._where = ""
        self._span: observed_spans.Span | None = None

    def __enter__(self) -> None:
        me = get_ident()
        self._outer = outer = _under_way.get(me)
        self._begin = perf_counter()
        self._busy = process_time() if self.seconds else 0.0
        if outer is None:
            self._begin_outermost(me)
        else:
            _under_way[me] = self
        if self.shows_line and _watcher.drawn:
            user_lines.at_line = _note_place
        if self.what and self.category and observed_spans.observer is not None:
            name = f"{self.what} {self.of}".rstrip()
            self._span = observed_spans.observer.begin(name, self.category)

    def _begin_outermost(self, me: int) -> None:
        """Begin a stage that has no other around it, and start the thread that shows stages."""
        if background.worker.runs_here():
            return
        self._frame = sys._getframe(2)
        _under_way[me] = self
        if self._begin >= _watcher.next_try:
            try:
                _watcher.start()
            except BaseException:  # the variable has a wrong value, or an interrupt came
                _under_way.pop(me, None)
                raise

    def __exit__(self, *_: object) -> None:
        if self._span is not None:
            if size := self.size or len(self.nodes):
                self._span.args["operations"] = size
            self._span.close()
            self._span = None
        if self._outer is not None:
            _under_way[get_ident()] = self._outer
        elif _under_way.pop(get_ident(), None) is not None:
            self._frame = None
            if _watcher.drawn:
                erase()

    def chain(self) -> Iterator[Stage]:
        """The stage and those around it, outwards."""
        stage: Stage | None = self
        while stage is not None:
            yield stage
            stage = stage._outer

    @property
    def outermost(self) -> Stage:
        """The stage around all others."""
        return [*self.chain()][-1]

    def waited(self, now: float) -> float:
        """Seconds since the outermost stage began."""
        return now - self.outermost._begin

    def is_alive(self, ident: int) -> bool:
        """Whether its thread is still inside the outermost stage.

        It is not if an interrupt arrived after the stage began and before its `with` statement did.
        """
        frame = self.outermost._frame
        return frame is not None and is_running(frame, ident)

    def advance(self, parts: int) -> None:
        """Note that `parts` more of the `total` parts are done."""
        self.done += parts
        self._advanced = perf_counter()

    def read(self, frame: FrameType, now: float) -> None:
        """Note where the user's code is, which has come to `frame`; only its thread may."""
        places: list[CodePlace] = []
        outer, above = self.outermost._frame, frame
        while above is not None:
            if not is_internal(above.f_code.co_filename):
                places.insert(0, place_of(above))
            above = None if above is outer else above.f_back
        self._advanced, self._places = now, places

    def _learn(self, sweep: Stage, now: float) -> None:
        """Note how long it may take from how far the counted stage inside of it is."""
        fraction = sweep._count() / sweep.total
        if fraction >= LEAST:
            begin, weight = sweep._begin, min(fraction / SURE, 1.0)
            whole = begin - self._begin + self.sweeps * (now - begin) / fraction
            self._learned = 0.0
            self._learned = weight * whole + (1.0 - weight) * self._predicted(now - self._begin)

    def _predicted(self, elapsed: float) -> float:
        """Seconds that it may take, if the machine does as much other work beside as up to now."""
        if self._learned or not self.seconds or elapsed < SETTLED:
            return self._learned or self.seconds
        busy = max(process_time() - self._busy, elapsed / MOST_SLOWED)
        return self.seconds * max(elapsed / busy, 1.0)

    def _count(self) -> int:
        """How many of the `total` parts are done."""
        return self.done if self.counter is None else self.total - length_hint(self.counter)

    def report(self, now: float, ident: int) -> Report:
        """The report that is shown for the stage."""
        chain = [*self.chain()]
        named = next((stage for stage in chain if stage.what), chain[-1])
        inner = chain[: chain.index(named) + 1]
        of = next((stage.of for stage in chain if stage.of), "a function")
        elapsed = now - named._begin
        if named.sweeps and (sweep := next((stage for stage in inner if stage.counter), None)):
            named._learn(sweep, now)
        places, named._places = named._places, []  # which keep alive what names stood for
        if places:
            named._trips = trips_of(places)
            named._where = f"at {file_label(places[-1].file)}:{places[-1].line}"
        count, fraction = "", 0.0
        spent = named._advanced - named._begin if named._advanced else elapsed
        if (trips := named._trips) is not None:
            count, fraction = f"step {trips.done + 1:,} of {trips.total:,}", trips.fraction
        elif named.total:
            done = named._count()
            count, fraction = f"{done:,} of {named.total:,} {named.parts}", done / named.total
        elif operations := next((len(stage.nodes) for stage in inner if stage.nodes), 0):
            count = f"{operations:,} operations so far"
        elif size := next((stage.size for stage in inner if stage.size), 0):
            count = f"{size:,} operations"
        return report_of(
            named.what or "differentiating",
            of,
            count,
            named._where,
            elapsed,
            spent / fraction if fraction >= LEAST else named._predicted(elapsed),
            ident == threading.main_thread().ident,
            named,
        )


class _Watcher:
    """The thread that looks at the stages under way, and shows what takes long."""

    def __init__(self) -> None:
        # re-entrant, because the garbage collector may end a stage at any moment
        self._lock = TurnLock()
        self._thread: Thread | None = None
        self._stop = Flag()
        self._display: Display | None = None
        self.drawn = False  # whether anything is shown, or is about to be
        self.next_try = 0.0  # when a stage is to start the thread; never while it runs

    def start(self) -> None:
        """Start the thread if anything may be shown."""
        display = find_display(worker=_is_child[0] or is_worker())
        if display is None:
            self.next_try = perf_counter() + AGAIN
            return
        with self._lock:
            if self._thread is not None:
                return
            self._display, self._stop = display, Flag()
            stop = self._stop
            self._thread, self.next_try = Thread(lambda: self._watch(stop)), math.inf
            try:
                started = self._thread.start()
            except BaseException:  # an interrupt
                self._thread, self.next_try = None, 0.0
                raise
            if not started:
                self._thread, self.next_try = None, perf_counter() + AGAIN

    def _watch(self, stop: Flag) -> None:
        delay: float | None = SECONDS - INTERVAL  # to know the user's line by then
        while delay is not None and not stop.wait(delay):
            delay = self._look()
        with self._lock:
            self._thread, self.next_try = None, 0.0
            if _under_way and not stop.is_set():  # a stage that began just now
                self.start()

    def _look(self) -> float | None:
        """Show the work that has taken longest; seconds until the next look, None for no more."""
        waits = [(s.waited(perf_counter()), i) for i, s in _under_way.copy().items()]
        if not waits:
            return None
        user_lines.at_line = _note_place
        waited, ident = max(waits)
        if waited < SECONDS:
            return max(SECONDS - waited, INTERVAL / 10)
        with self._lock:
            self.drawn = True  # a stage that ends from now on waits, and erases what is shown
            if self._display is None or not self._draw(ident, self._display):
                self.erase()
        return INTERVAL

    def _draw(self, ident: int, display: Display) -> bool:
        """Show what a thread does; False if that has ended meanwhile, or cannot be shown."""
        stage = _under_way.get(ident)
        if stage is None:
            return False
        if not stage.is_alive(ident):
            if _under_way.get(ident) is stage:
                del _under_way[ident]
            return False
        try:
            display.show(stage.report(perf_counter(), ident))
        except Exception:  # noqa: BLE001 - whatever the medium has, the work goes on without it
            self._display = None
        return True

    def erase(self) -> None:
        """Leave nothing on the screen, until the thread looks again."""
        with self._lock:
            if self._display is not None:
                with suppress(Exception):
                    self._display.erase()
            self.drawn = False

    def stop(self) -> None:
        """End the thread, and wait for it."""
        thread = self._thread
        self._stop.set()
        if thread is not None and thread.ident != get_ident():
            thread.join(PATIENCE)
        if self.drawn:
            self.erase()

    def resume(self) -> None:
        """Go on after a fork."""
        if _under_way and self._thread is None:
            self.start()

    def forget(self) -> None:
        """In a forked child there is no such thread, and what the parent does is not shown."""
        self.__init__()  # locks and all anew
        _under_way.clear()
        _is_child[0] = True


def _note_place(frame: FrameType) -> None:
    """Note the user's line in the stage of this thread that is to show it."""
    user_lines.at_line = None
    if (stage := _under_way.get(get_ident())) is not None:
        named = next((s for s in stage.chain() if s.what), stage)
        if named.shows_line:
            named.read(frame, perf_counter())


_under_way: dict[int, Stage] = {}  # the innermost stage of each thread
_is_child = [False]  # whether this process was forked
_watcher = _Watcher()
erase = _watcher.erase
atexit.register(_watcher.stop)
at_fork(before=_watcher.stop, after_in_parent=_watcher.resume, after_in_child=_watcher.forget)


def _before_warning() -> None:
    if _watcher.drawn:
        erase()


errors.before_warning.append(_before_warning)
