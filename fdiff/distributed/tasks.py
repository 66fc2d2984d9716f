"""What runs on workers. Tasks are found there by name; functions and parameters come as bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

import cloudpickle

import fdiff.intact_numpy as np

from ..bounded_cache import keep_recent
from ..errors import UNNAMED, InputError, WorkerError
from ..errors import message as worded
from .cluster import dask_module
from .evaluation import (
    CallConditions,
    Failure,
    Numbered,
    Part,
    Warned,
    as_part,
    evaluate_all,
    fixed_tier,
    taken_warnings,
)
from .ordered_sum import OrderedSum
from .sending import Buffer, Message, message_of

EVENTS = "fdiff-partitions"  # the topic of events that tell how many partitions are done
SECONDS = 1.0  # between two of them


class HeldGroup:
    """Consecutive partitions as a worker holds them, or what their loader raised.

    `tuples` tells which of them were tuples: results of `map_over` may be single arrays.
    """

    def __init__(
        self, parts: Sequence[object], failure: Failure | None = None, warned: Warned = frozenset()
    ) -> None:
        self.tuples = [isinstance(part, (tuple, list)) for part in parts]
        self.parts: list[Part] = [*map(as_part, parts)]
        self.failure, self.warned = failure, warned

    def __sizeof__(self) -> int:
        return 64 + sum(getattr(a, "nbytes", 64) for part in self.parts for a in part)


Span = Sequence[int]  # numbers of partitions


class Outcome(NamedTuple):
    """What a task gives: a sum, or what the lowest partition raised, and what was warned of."""

    sum: OrderedSum | Failure
    warned: Warned


# ------------------------------------------------------------------------------------- partitions


def held(first: int, parts: Sequence[object]) -> HeldGroup:
    """Hold partitions: arrays as they are, those of loaders loaded."""
    loaded: list[object] = []
    for number, part in enumerate(parts, first):
        try:
            loaded.append(part.opened()() if isinstance(part, Message) else part)
        except Exception as error:  # noqa: BLE001 - raised again where the call was made
            error.add_note(f"in the loader of partition {number}")
            return HeldGroup((), Failure(number, sendable(error)))
    return HeldGroup(loaded)


def described(group: HeldGroup) -> tuple[int, Failure | None, Warned]:
    """The bytes of a group, what was raised when it was made, and warned of."""
    return group.__sizeof__(), group.failure, group.warned


def entries(group: HeldGroup) -> list[object]:
    """The partitions of a group as they were given: tuples, or single arrays."""
    return [p if many else p[0] for p, many in zip(group.parts, group.tuples, strict=True)]


def shapes(group: HeldGroup) -> list[list[tuple[tuple[int, ...], object]]]:
    """Shape and dtype of each array of each partition."""
    arrays = [[np.asarray(a) for a in part] for part in group.parts]
    return [[(a.shape, a.dtype) for a in part] for part in arrays]


def entry(group: HeldGroup, part: int, array: int) -> object:
    """One array of a group."""
    return group.parts[part][array]


def joined(*blocks: object) -> tuple[object, ...]:
    """Blocks of several arrays as one partition."""
    return blocks


# -------------------------------------------------------------------------------------- functions

_functions: dict[bytes, Callable[..., Any]] = {}
_lock = Lock()
_MOST = 64


@contextmanager
def _function(digest: bytes, message: Sequence[Buffer]) -> Generator[Callable[..., Any]]:
    """A function, which is unpickled once in a process: so it stays traced and compiled.

    One that changes what it reads is refused in its first task: changes are lost with a worker.
    """
    with _lock:
        f, new = _functions.get(digest), digest not in _functions
        if f is None:
            f = Message([*message]).opened()
            keep_recent(_functions, digest, fixed_tier(f), _MOST)
    before = message_of(f, UNNAMED).digest() if new else b""
    yield _functions.get(digest, f)
    if new and message_of(f, UNNAMED).digest() != before:
        fact = "`f` writes to what is outside of it, which would be lost on a worker."
        raise InputError(worded(UNNAMED, fact, "Return what it writes."))


# ------------------------------------------------------------------------------------------ tasks

Held = Sequence[tuple[int, HeldGroup]]  # groups, with the numbers of their first partitions


class CallJob(NamedTuple):
    """What the tasks of a call share.

    `token` is that of the call, `digest` that of the function. There are `total` partitions.
    """

    token: str
    digest: bytes
    total: int
    conditions: CallConditions


def partial_sum(
    job: CallJob, function: Sequence[Buffer], parameters: Sequence[Buffer], span: Span, *many: Held
) -> Outcome:
    """The sum over the partitions of a worker, as far as its terms are neighbours."""
    total = OrderedSum(job.total)

    def take(number: int, result: object) -> None:
        total.add(number, result)

    failure, warned = _evaluated(job, function, parameters, span, many, take)
    return Outcome(failure or total, warned)


def mapped(
    job: CallJob, function: Sequence[Buffer], parameters: Sequence[Buffer], span: Span, *many: Held
) -> HeldGroup:
    """The results for consecutive partitions, which stay where these are."""
    results: list[object] = []

    def take(_: int, result: object) -> None:
        results.append(result)

    failure, warned = _evaluated(job, function, parameters, span, many, take)
    return HeldGroup(() if failure else results, failure, warned)


def _evaluated(
    job: CallJob,
    function: Sequence[Buffer],
    parameters: Sequence[Buffer],
    span: Span,
    many: Sequence[Held],
    take: Callable[[int, object], None],
) -> tuple[Failure | None, Warned]:
    """Let `take` have the result of each partition of the span; what was raised, and warned of."""
    number, reports = span[0], _Reports(job.token)
    with taken_warnings() as warned:
        try:
            given = Message([*parameters]).opened()
            parts = _numbered(span, many)
            with _function(job.digest, function) as f:
                results = evaluate_all(
                    f,
                    given,
                    parts,
                    job.total,
                    job.conditions,
                    dask_module("distributed").get_worker().state.nthreads,
                )
                for number, result in results:
                    if isinstance(result, Failure):
                        raise result.error  # noqa: TRY301 - one way out of a task
                    take(number, result)
                    reports.one_more()
        except BaseException as error:  # noqa: BLE001 - raised again where the call was made
            return Failure(number, sendable(error)), warned
    return None, warned


def _numbered(span: Span, many: Sequence[Held]) -> list[Numbered]:
    """The partitions of a span, each with its arrays of all partitionings."""
    tables = [
        {number: part for first, group in held for number, part in enumerate(group.parts, first)}
        for held in many
    ]
    return [(k, tuple([a for table in tables for a in table[k]])) for k in span]


def merged(job: CallJob, outcomes: Sequence[Outcome]) -> Outcome:
    """The sum of several."""
    warned = set[Any]().union(*[outcome.warned for outcome in outcomes])
    failures = [o.sum for o in outcomes if isinstance(o.sum, Failure)]
    if failures:
        return Outcome(min(failures, key=lambda f: f.number), warned)
    total, number = OrderedSum(job.total), 0
    try:
        for outcome in outcomes:
            assert isinstance(outcome.sum, OrderedSum), "none has failed"
            total.merge(outcome.sum)
    except InputError as error:
        return Outcome(Failure(number, error), warned)
    return Outcome(total, warned)


class _Reports:
    """Tells the client now and then how many partitions are done."""

    def __init__(self, token: str) -> None:
        self.token, self.done, self.last = token, 0, monotonic()

    def one_more(self) -> None:
        self.done += 1
        if monotonic() - self.last > SECONDS:
            dask_module("distributed").get_worker().log_event(
                EVENTS, {"token": self.token, "done": self.done}
            )
            self.done, self.last = 0, monotonic()


def sendable(error: BaseException) -> BaseException:
    """An exception as it can be sent: of its type, where that can be pickled, with its notes."""
    try:
        again = pickle.loads(cloudpickle.dumps(error))  # noqa: S301 - its own
        same = type(again).__name__ == type(error).__name__ and str(again) == str(error)
    except Exception:  # noqa: BLE001 - a class of the user's may raise anything
        same = False
    if not same:
        notes, plain = getattr(error, "__notes__", []), error
        error = WorkerError(f"{type(plain).__name__}: {plain}")
        for note in notes:
            error.add_note(note)
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error
