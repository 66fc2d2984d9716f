"""The client of a Dask cluster: whether it can be used, and tasks that outlive their workers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from time import monotonic, sleep
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast
from uuid import uuid4

from ..bounded_cache import WeakKeys
from ..errors import UNNAMED, InputError, WorkerError, failure, message
from ..foreign_errors import is_raised_outside, not_foreign
from ..generated_text import Namespace
from ..process.forking import imported

if TYPE_CHECKING:
    from .worker_tasks import Outcome

LOOK = 1.0  # seconds between two looks at a cluster that takes long
ALONE = 20.0  # seconds without a worker, or a scheduler, after which a call gives up
ATTEMPTS = 4  # of one call, whose data may die with a worker
FAILED = ("cancelled", "lost", "error")  # states of Futures
_LOST = ("CancelledError", "FutureCancelledError", "FuturesCancelledError", "TimeoutError")
_process, _numbers = uuid4().hex[:12], count()


class Future(Protocol):
    """A ``distributed.Future``: what a task will give, or did."""

    key: object
    status: str

    def done(self) -> bool: ...


class Client(Protocol):
    """A ``distributed.Client``."""

    status: str

    def as_current(self) -> AbstractContextManager[object]: ...
    def cancel(self, futures: Sequence[Future], *, force: bool) -> None: ...
    def compute(self, collections: Sequence[object]) -> list[Future]: ...
    def gather(self, futures: Sequence[Future]) -> list[Outcome]: ...
    def get_events(self, topic: str) -> Sequence[tuple[float, Namespace]]: ...
    def map(self, func: Task, *columns: Sequence[object], **options: object) -> list[Future]: ...
    def nthreads(self) -> Mapping[str, int]: ...
    def run(self, function: Task, *, on_error: str) -> Mapping[str, dict[str, str] | Exception]: ...
    def scatter(self, data: Sequence[object], **options: object) -> list[Future]: ...
    def submit(self, func: Task, *args: object, **options: object) -> Future: ...
    def who_has(self, futures: Sequence[Future]) -> Mapping[object, Sequence[str]]: ...


Task = Callable[..., object]
_checked = WeakKeys[Client, bool]()


def new_token() -> str:
    """A token that makes names of tasks unique."""
    return f"{_process}-{next(_numbers)}"


def dask_module(name: str) -> ModuleType:
    """A module of Dask, which is imported by those who have a cluster."""
    return imported(name)


def current_client() -> object:
    """Dask's current client; None where there is none, or Dask is not in use."""
    try:
        return sys.modules["distributed"].get_client()
    except not_foreign(KeyError, ValueError):
        return None


def check_client(client: object, call: str) -> Client:
    """Refuse what is no client of Dask's, and one that is closed."""
    status = getattr(client, "status", None)
    if status is None or not hasattr(client, "scatter"):
        fact = f"client must be a distributed.Client, not {type(client).__name__}."
        raise failure(InputError, call, fact, "Write `client=dask.distributed.Client(address)`.")
    if status in {"closed", "closing", "newly-created"}:
        way = "Make another client, and the partitions again."
        raise failure(InputError, call, f"the client is {status}.", way)
    return cast("Client", client)


def check_versions(client: Client, call: str) -> None:
    """Refuse workers with other versions than this process has; once for each client."""
    if _checked.get(client):
        return
    way, here = "Install one version on all of them: others may round differently.", versions()
    for address, there in client.run(versions, on_error="return").items():
        if isinstance(there, OSError):
            continue  # it has died since
        if isinstance(there, Exception):
            fact = f"worker {address} cannot import fdiff.distributed ({there})."
            raise failure(InputError, call, fact, way)
        if other := sorted(here.items() - there.items()):
            has, mine = (", ".join([f"{n} {v[n]}" for n, _ in other]) for v in (there, here))
            fact = f"worker {address} has {has}, and this process has {mine}."
            raise failure(InputError, call, fact, way)
    _checked[client] = True


def versions() -> dict[str, str]:
    """The packages that workers and this process must have in one version."""
    return {name: str(sys.modules[name].__version__) for name in ("fdiff", "numpy")}


def workers_of(client: Client) -> list[str]:
    """The workers, once there is one: those that died may be started again."""
    begin = monotonic()
    while not (workers := [*client.nthreads()]):
        if monotonic() - begin > ALONE:
            raise _nobody(client)
        sleep(0.1)
    return workers


def gathered(
    client: Client,
    submit: Callable[[], list[Future]],
    restore: Callable[[], bool],
    failed: Callable[[], Sequence[int]],
    look: Callable[[], object] = bool,
) -> list[Outcome]:
    """Results of tasks, which are submitted again once what died with a worker is restored.

    `failed` tells which partitions are concerned, for errors; `look` is called each second.
    """
    for left in reversed(range(ATTEMPTS)):
        futures: list[Future] = []
        try:
            futures = submit()
            _wait(client, futures, look)
            return client.gather(futures)
        except Exception as error:
            error = _explained(client, error, failed())
            if isinstance(error, WorkerError) or not _is_lost(error):
                raise error from None
            workers_of(client)
            numbers = failed()
            if not left or not restore():
                fact = f"data of {_spelled(numbers)} was lost with its worker ({error})."
                way = "Give loaders, arrays or dask collections: Futures of others stay lost."
                raise WorkerError(message(UNNAMED, fact, way)) from None
        finally:
            unfinished = [f for f in futures if not f.done()]
            if unfinished and client.status == "running":
                client.cancel(unfinished, force=True)
    raise AssertionError("the last attempt gave or raised something")


def _wait(client: Client, futures: Sequence[Future], look: Callable[[], object]) -> None:
    """Wait until tasks are done; an error where nobody works on them."""
    wait, alone = dask_module("distributed").wait, monotonic()
    while True:
        try:
            with client.as_current():  # it need not be the default one
                return wait(futures, timeout=LOOK)
        except TimeoutError as error:
            if is_raised_outside(error):
                raise
            look()
            if client.status == "running" and client.nthreads():
                alone = monotonic()
            elif monotonic() - alone > ALONE:
                raise _nobody(client) from None


def _nobody(client: Client) -> WorkerError:
    """The error for a cluster without workers, or without a scheduler."""
    fact, way = f"the cluster has had no workers for {ALONE:.0f} seconds.", "Start workers."
    if client.status != "running":
        fact = f"the scheduler does not answer: the client is {client.status}."
        way = "Make another client, and the partitions."
    return WorkerError(message(UNNAMED, fact, way))


def _is_lost(error: BaseException) -> bool:
    """Whether data that a task needs is gone, or a worker on the way to it.

    What functions and loaders raise does not come here: it is a value.
    """
    return type(error).__name__ in _LOST or isinstance(error, OSError)


def _explained(client: Client, error: Exception, numbers: Sequence[int]) -> Exception:
    """The error for tasks that killed the workers that tried them, or whose scheduler is gone."""
    deaths = getattr(error, "allowed_failures", None)
    if deaths is None:
        return _nobody(client) if _is_lost(error) and client.status != "running" else error
    times = f"{deaths + 1} times, and each time the worker died."
    fact = f"the task of {_spelled(numbers)} was tried {times}"
    way = (
        "Mostly its memory was full: give workers more, make partitions smaller, or load them by"
        " functions. The logs of the workers tell more."
    )
    return WorkerError(message(UNNAMED, fact, way))


def _spelled(numbers: Sequence[int]) -> str:
    few = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"partition{'s' * (len(numbers) > 1)} {few}"
