"""One function on one partition after the other, on a worker or in this process.

Tasks are found on workers by name; functions and parameters come as bytes.
"""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import cache, partial
from threading import Lock
from time import monotonic
from typing import Any

import cloudpickle

import fdiff.intact_numpy as np

from ..bounded_cache import keep_recent
from ..dispatch.arguments import Function
from ..errors import UNNAMED, FdiffError, InputError, Registries, WorkerError, failure, message
from ..foreign_errors import contextmanager
from ..functional.call.kink_policy import kinks, policy
from ..functional.call.prepared import Prepared
from ..functional.operators.jit_programs import jit
from ..generated_text import Namespace
from ..named_tuples import NamedTuple
from ..tracebacks import explain, name_of, takes
from ..user_lines import line_in, show_line
from .cluster import dask_module
from .messages import Buffer, Message
from .ordered_sum import OrderedSum

Warned = tuple[type[Warning], str, str, int]  # category, text, file, line
Given = tuple[Sequence[object], dict[str, object]]  # parameters
Part = tuple[object, ...]
Span = Sequence[int]  # numbers of partitions
EVENTS = "fdiff-partitions"  # the topic of events that tell how many partitions are done
SECONDS = 1.0  # between two of them
IN_PART = "in partition "  # how the note of an error begins that names the partition


class Outcome(NamedTuple):
    """The outcome of a task: a value, the error of its lowest partition, and the warnings.

    Errors are values, since of what tasks raise Dask prints all its own frames.
    """

    value: Any = None
    error: BaseException | None = None
    number: int = -1  # of the partition that raised it
    warned: frozenset[Warned] = frozenset()


def opened(outcomes: Sequence[Outcome]) -> list[Any]:
    """The values, after what was warned of, once for each line; or the error of the lowest."""
    for category, text, file, line in sorted(_all_warned(outcomes), key=lambda w: w[1:]):
        registry = _registries.setdefault(file, {})
        warnings.warn_explicit(text, category, file, line, file, registry)
    if failed := _lowest(outcomes):
        assert failed.error is not None, "it is one that has"
        raise failed.error
    return [outcome.value for outcome in outcomes]


_registries: Registries = {}


def _all_warned(outcomes: Sequence[Outcome]) -> frozenset[Warned]:
    return frozenset[Warned]().union(*[outcome.warned for outcome in outcomes])


def _lowest(outcomes: Sequence[Outcome]) -> Outcome | None:
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    return min(failed, key=lambda outcome: outcome.number, default=None)


# ------------------------------------------------------------------------------------- partitions


def held(first: int, sources: Sequence[object]) -> Outcome:
    """Hold partitions: arrays as they are, loaders loaded."""
    parts: list[object] = []
    for number, source in enumerate(sources, first):
        try:
            parts.append(aligned(source.opened()() if isinstance(source, Message) else source))
        except Exception as error:  # noqa: BLE001 - raised again where the call was made
            error.add_note(f"in the loader of partition {number}")
            return Outcome(None, _sendable(error), number)
    return Outcome(parts)


def aligned(part: object) -> object:
    """A tuple of arrays, or a single one, with copies of those that came at odd addresses."""
    if isinstance(part, (tuple, list)):
        return tuple(map(aligned, part))
    return np.array(part) if isinstance(part, np.ndarray) and not part.flags.aligned else part


def as_part(part: object) -> Part:
    """The arrays of a partition."""
    return tuple(part) if isinstance(part, (tuple, list)) else (part,)


def described(group: Outcome) -> Outcome:
    """A group, with its bytes in place of its data."""
    arrays = [a for part in group.value or () for a in as_part(part)]
    return group._replace(value=sum([getattr(a, "nbytes", 64) for a in arrays]))


def parts_of(group: Outcome) -> list[object]:
    return group.value


def shapes_of(group: Outcome) -> list[list[tuple[tuple[int, ...], object]]]:
    """Shape and dtype of each array of each partition."""
    parts = [[np.asarray(a) for a in as_part(part)] for part in group.value]
    return [[(a.shape, a.dtype) for a in part] for part in parts]


def entry_of(group: Outcome, part: int, array: int) -> object:
    """One array of a group."""
    return as_part(group.value[part])[array]


def together(*blocks: object) -> tuple[object, ...]:
    """Blocks of several arrays as one partition."""
    return blocks


# -------------------------------------------------------------------------------------- functions


def fixed_tier(f: Function) -> Function:
    """`f`, compiled before its first call if fdiff is to derive it.

    Tiers round differently, and a call may not depend on how many came before it.
    """
    return jit(f) if getattr(f, "fixed_tier", isinstance(f, Prepared)) else f


@contextmanager
def refusing_writes(f: Function) -> Generator[None]:
    """Refuse a function that changes what it reads: changes are lost with a worker."""
    before = _digest(f)
    yield
    if _digest(f) != before:
        fact = "`f` writes to what is outside of it, which would be lost on a worker."
        raise failure(InputError, UNNAMED, fact, "Return what it writes.")


def _digest(f: Function) -> bytes:
    with suppress(InputError):  # in this process it need not have a pickle
        return Message.of(f).digest()
    return b""


_functions: dict[bytes, Function] = {}
_without_writes: dict[bytes, bool] = {}  # digests of those that have been seen to write nothing
_lock = Lock()
_MOST = 64


@contextmanager
def _function(digest: bytes, buffers: Sequence[Buffer]) -> Generator[Function]:
    """A function, which is unpickled once in a process: so it stays traced and compiled."""
    with _lock:
        f = _functions.get(digest)
        if f is None:
            f = keep_recent(_functions, digest, fixed_tier(Message([*buffers]).opened()), _MOST)
    with nullcontext() if digest in _without_writes else refusing_writes(f):
        yield f
    with _lock:
        keep_recent(_without_writes, digest, value=True, most=_MOST)


def results(
    f: Function, arguments: Given, parts: Iterable[tuple[int, Part]], count: int, threads: int = 1
) -> Iterator[object]:
    """Results of `f` for partitions out of `count`, in order, computed by `threads` threads."""
    result_of = partial(_result, f, arguments, count)
    if threads < 2:
        return map(result_of, parts)
    errstate, kink_policy = np.geterr(), policy.get()

    def conditioned(numbered: tuple[int, Part]) -> object:
        with np.errstate(**errstate), kinks(kink_policy):
            return result_of(numbered)

    return _pool(threads).map(conditioned, parts)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="fdiff-partitions")


def _result(f: Function, arguments: Given, count: int, numbered: tuple[int, Part]) -> object:
    """The result of `f` for one partition; errors get a note with its number."""
    (args, kwargs), (number, part) = arguments, numbered
    try:
        return f(*args, *part, **kwargs)
    except BaseException as error:
        shapes = ", ".join([str(getattr(a, "shape", type(a).__name__)) for a in part])
        place = f"{number} of {count}, whose arrays have shapes {shapes}"
        if isinstance(error, TypeError) and not takes(f, (*args, *part), kwargs):
            many = f"{len(args)} parameters and the arrays of partition {place}"
            fact = f"`f` takes {inspect.signature(f)}, not {many}."
            way = "Give `f` the parameters first, then one argument for each array of a partition."
            raise InputError(message(UNNAMED, fact, way)) from None
        if isinstance(error, Exception) and not isinstance(error, FdiffError):
            explain(error, name_of(f), None)
        error.add_note(f"{IN_PART}{place}{show_line(line_in(error.__traceback__))}")
        raise


# ------------------------------------------------------------------------------------------ tasks


class CallJob(NamedTuple):
    """The data that the tasks of a call share: names, the number of partitions, and the modes in
    force.

    `token` identifies the call, `digest` the function. If it `adds`, tasks give sums.
    """

    token: str
    digest: bytes
    total: int
    adds: bool
    errstate: Namespace
    kinks: str


def evaluated(
    job: CallJob,
    function: Sequence[Buffer],
    parameters: Sequence[Buffer],
    span: Span,
    *many: Sequence[tuple[int, Outcome]],
) -> Outcome:
    """The sum over partitions as far as its terms are neighbours, or the results for each.

    `many` has groups of each partitioning, with the numbers of their first partitions.
    """
    total, listed = OrderedSum(job.total), list[object]()
    number, worker, last, done = span[0], dask_module("distributed").get_worker(), monotonic(), 0
    with _taken_warnings() as warned:
        try:
            arguments: Given = Message([*parameters]).opened()
            parts, threads = _numbered(span, many), worker.state.nthreads
            with (
                np.errstate(**job.errstate),
                kinks(job.kinks),
                _function(job.digest, function) as f,
            ):
                stream = results(f, arguments, parts, job.total, threads)
                for number in span:
                    result = next(stream)
                    total.add(number, result) if job.adds else listed.append(aligned(result))
                    done += 1
                    if monotonic() - last > SECONDS:
                        worker.log_event(EVENTS, {"token": job.token, "done": done})
                        last, done = monotonic(), 0
        except BaseException as error:  # noqa: BLE001 - raised again where the call was made
            return Outcome(None, _sendable(error), number, frozenset(warned))
    return Outcome(total if job.adds else listed, warned=frozenset(warned))


def _numbered(span: Span, many: Sequence[Sequence[tuple[int, Outcome]]]) -> list[tuple[int, Part]]:
    """The partitions of a span, each with its arrays of all partitionings."""
    tables = [{k: p for first, g in held for k, p in enumerate(g.value, first)} for held in many]
    return [(k, tuple([a for table in tables for a in as_part(table[k])])) for k in span]


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """The sum of several."""
    warned = _all_warned(outcomes)
    if failed := _lowest(outcomes):
        return failed._replace(warned=warned)
    try:
        total = OrderedSum.joined([outcome.value for outcome in outcomes])
    except InputError as error:
        return Outcome(None, error, 0, warned)
    return Outcome(total, warned=warned)


def _sendable(error: BaseException) -> BaseException:
    """An exception as it can be sent: of its type, where that can be pickled, with its notes."""
    try:
        again = pickle.loads(cloudpickle.dumps(error))  # noqa: S301 - its own
        same = type(again).__name__ == type(error).__name__ and str(again) == str(error)
    except Exception:  # noqa: BLE001 - a class of the user's may raise anything
        same = False
    if not same:
        notes = getattr(error, "__notes__", [])
        error = WorkerError(f"{type(error).__name__}: {error}")
        for note in notes:
            error.add_note(note)
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


class _Warnings:
    """All warnings of this process while a task runs, for the tasks that run then.

    Python's filters belong to the process, so the tasks of several threads share them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._takers: list[set[Warned]] = []
        self._catcher: warnings.catch_warnings[None] | None = None

    @contextmanager
    def taken(self) -> Generator[set[Warned]]:
        mine: set[Warned] = set()
        with self._lock:
            if not self._takers:
                self._catcher = warnings.catch_warnings()
                self._catcher.__enter__()
                warnings.simplefilter("always")
                warnings.showwarning = self._show
            self._takers.append(mine)
        try:
            yield mine
        finally:
            with self._lock:
                self._takers[:] = [w for w in self._takers if w is not mine]
                if not self._takers and self._catcher is not None:
                    self._catcher.__exit__(None, None, None)

    def _show(self, text: object, kind: type[Warning], file: str, line: int, *_: object) -> None:
        with self._lock:
            for taker in self._takers:
                taker.add((kind, str(text), file, line))


_taken_warnings = _Warnings().taken
