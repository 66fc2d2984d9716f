"""One function on one partition after the other: the same on a worker and without a cluster."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import fdiff.intact_numpy as np

from ..errors import UNNAMED, InputError, message
from ..functional.kink_policy import kinks, policy
from ..functional.prepared import Prepared
from ..functional.programs import jit
from ..user_lines import line_in, show_line

Part = tuple[object, ...]
Numbered = tuple[int, Part]
Warned = AbstractSet[tuple[type[Warning], str, str, int]]  # category, text, file, line
Results = Iterator[tuple[int, object]]


class Failure(NamedTuple):
    """What a partition raised, as a value: of what tasks raise, Dask prints all its own frames."""

    number: int
    error: BaseException


class CallConditions(NamedTuple):
    """What holds around a call: NumPy's error state, the policy at kinks."""

    errstate: dict[str, Any]
    kinks: str

    @classmethod
    def now(cls) -> CallConditions:
        """Those of the caller. A handler of his is not there on workers, which warn instead."""
        modes = {k: "warn" if v in {"call", "log"} else v for k, v in np.geterr().items()}
        return cls(modes, policy.get())

    @contextmanager
    def in_force(self) -> Generator[None]:
        with np.errstate(**self.errstate):
            if self.kinks == policy.get():
                yield
            else:
                with kinks(self.kinks):
                    yield


def fixed_tier(f: Callable[..., object]) -> Callable[..., object]:
    """`f`, compiled before its first call if fdiff is to derive it.

    Tiers round differently, and a call may not depend on how many came before it.
    """
    return jit(f) if getattr(f, "fixed_tier", isinstance(f, Prepared)) else f


def as_part(data: object) -> Part:
    """The arrays of a partition, aligned: those that were sent may lie at any address."""
    arrays = tuple(data) if isinstance(data, (tuple, list)) else (data,)
    return tuple([np.array(a) if _misplaced(a) else a for a in arrays])


def _misplaced(array: object) -> bool:
    return isinstance(array, np.ndarray) and not array.flags.aligned


def evaluate(
    f: Callable[..., object], given: tuple[Any, dict[str, Any]], numbered: Numbered, count: int
) -> object:
    """What `f` returns for one of `count` partitions; a note tells which one raised an error."""
    number, part = numbered
    args, kwargs = given
    try:
        return f(*args, *part, **kwargs)
    except BaseException as error:
        shapes = ", ".join([str(getattr(a, "shape", type(a).__name__)) for a in part])
        place = f"partition {number} of {count}, whose arrays have shapes {shapes}"
        if isinstance(error, TypeError) and not _takes(f, (*args, *part), kwargs):
            many = f"{len(args)} parameters and the arrays of {place}"
            fact = f"`f` takes {inspect.signature(f)}, not {many}."
            way = "Give `f` the parameters first, then one argument for each array of a partition."
            raise InputError(message(UNNAMED, fact, way)) from None
        error.add_note(f"in {place}{show_line(line_in(error.__traceback__))}")
        raise


def _takes(f: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]) -> bool:
    try:
        inspect.signature(f).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:  # code in C that does not tell what it takes
        return True
    return True


def evaluate_all(
    f: Callable[..., object],
    given: tuple[Any, dict[str, Any]],
    parts: Iterable[Numbered],
    count: int,
    conditions: CallConditions | None = None,
    threads: int = 1,
) -> Iterator[tuple[int, object | Failure]]:
    """Results of partitions in order, by so many threads; up to the first that raised an error.

    Without `conditions` those of the caller hold, and one thread computes.
    """

    def one(numbered: Numbered) -> tuple[int, object | Failure]:
        with nullcontext() if conditions is None else conditions.in_force():
            try:
                return numbered[0], evaluate(f, given, numbered, count)
            except BaseException as error:  # noqa: BLE001 - raised again where the call was made
                return numbered[0], Failure(numbered[0], error)

    for number, result in (map if threads < 2 else _pool(threads).map)(one, parts):
        yield number, result
        if isinstance(result, Failure):
            return


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="fdiff-partitions")


class _Warnings:
    """All warnings of this process while a task runs, for the tasks that run then.

    Python's filters belong to the process, so the tasks of several threads share them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._takers: list[set[Any]] = []
        self._catcher: warnings.catch_warnings[None] | None = None

    @contextmanager
    def taken(self) -> Generator[Warned]:
        mine: set[Any] = set()
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

    def _show(self, text: Any, category: Any, file: str, line: int, *_: object) -> None:
        with self._lock:
            for taker in self._takers:
                taker.add((category, str(text), file, line))


taken_warnings = _Warnings().taken
_given: dict[str, dict[Any, Any]] = {}


def give_warnings(warned: Warned) -> None:
    """Warn of what workers warned of, once for each line."""
    for category, text, file, line in sorted(warned, key=lambda w: w[1:]):
        registry = _given.setdefault(file, {})
        warnings.warn_explicit(text, category, file, line, file, registry)
