"""The client of a Dask cluster: which one counts, whether it can be used, and waiting for tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from ..bounded_cache import WeakKeys
from ..errors import UNNAMED, InputError, WorkerError, failure, message
from ..process.forking import no_fork

_process, _numbers = uuid4().hex[:12], count()


def new_token() -> str:
    """What makes the names of tasks new."""
    return f"{_process}-{next(_numbers)}"


LOOK = 1.0  # seconds between two looks at a cluster that takes long
ALONE = 20.0  # seconds without a worker, or a scheduler, after which a call gives up
_checked = WeakKeys[Any, bool]()  # clients
RETRIES = 4  # times that one call makes data again which died with its worker
FAILED = ("cancelled", "lost", "error")  # states of Futures
_LOST = ("CancelledError", "FutureCancelledError", "FuturesCancelledError", "TimeoutError")


def dask_module(name: str) -> Any:
    """A module of Dask, which is imported by those who have a cluster."""
    with no_fork:
        return import_module(name)


def current_client() -> Any:
    """Dask's current client; None where there is none, or Dask is not in use."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def usable_client(client: Any, call: str) -> None:
    """Refuse what is no client of Dask's, and one that is closed."""
    status = getattr(client, "status", None)
    if status is None or not hasattr(client, "scatter"):
        fact = f"client must be a distributed.Client, not {type(client).__name__}."
        raise failure(InputError, call, fact, "Write `client=dask.distributed.Client(address)`.")
    if status in {"closed", "closing", "newly-created"}:
        way = "Make another client, and the partitions again."
        raise failure(InputError, call, f"the client is {status}.", way)


def check_versions(client: Any, call: str) -> None:
    """Refuse workers with other versions than this process has; once for each client."""
    if _checked.get(client):
        return
    way = "Install one version on all of them: others may round differently."
    for address, there in client.run(versions, on_error="return").items():
        if isinstance(there, Exception):
            fact = f"worker {address} cannot import fdiff.distributed ({there})."
            raise failure(InputError, call, fact, way)
        for name, version in versions().items():
            if there[name] != version:
                fact = f"worker {address} has {name} {there[name]}, and this process has {version}."
                raise failure(InputError, call, fact, way)
    _checked[client] = True


def versions() -> dict[str, str]:
    """The packages that workers and this process must have in one version."""
    return {name: str(sys.modules[name].__version__) for name in ("fdiff", "numpy")}


def workers_of(client: Any) -> list[str]:
    """The workers, once there is one: those that died may be started again."""
    begin = monotonic()
    while not (workers := [*client.nthreads()]):
        if monotonic() - begin > ALONE:
            raise nobody(client)
        sleep(0.1)
    return workers


def wait_for(client: Any, futures: Sequence[Any], look: Callable[[], object] = bool) -> None:
    """Wait until tasks are done, and `look` each second; an error where nobody works on them."""
    wait, alone = dask_module("distributed").wait, 0.0
    while True:
        try:
            with client.as_current():  # it need not be the default one
                wait(futures, timeout=LOOK)
        except TimeoutError:
            look()
            if client.status == "running" and client.nthreads():
                alone = 0.0
            elif (alone := alone or monotonic()) < monotonic() - ALONE:
                raise nobody(client) from None
        else:
            return


def nobody(client: Any) -> WorkerError:
    """The error for a cluster without workers, or without a scheduler."""
    there = client.status == "running"
    fact = f"the cluster has had no workers for {ALONE:.0f} seconds."
    if not there:
        fact = f"the scheduler does not answer: the client is {client.status}."
    way = "Start workers, and call again." if there else "Make another client, and the partitions."
    return WorkerError(message(UNNAMED, fact, way))


def is_lost(error: BaseException) -> bool:
    """Whether data that a task needs is gone, or a worker on the way to it.

    What functions and loaders raise does not come here: it is a value.
    """
    return type(error).__name__ in _LOST or isinstance(error, OSError)


def persistently(
    client: Any,
    attempt: Callable[[], Any],
    restore: Callable[[], bool],
    failed: Callable[[], Sequence[int]],
) -> Any:
    """What an attempt gives, again after data died with a worker and `restore` made it again.

    `failed` tells which partitions are concerned, for the error.
    """
    for left in reversed(range(RETRIES)):
        try:
            return attempt()
        except Exception as error:
            if (death := killed(error, failed())) is not None:
                raise death from None
            if not is_lost(error):
                raise
            if client.status != "running":
                raise nobody(client) from None
            workers_of(client)
            numbers = failed()
            if not left or not restore():
                fact = f"data of {spelled(numbers)} was lost with its worker ({error})."
                way = "Give loaders, arrays or dask collections: Futures of others stay lost."
                raise WorkerError(message(UNNAMED, fact, way)) from None
    raise AssertionError("the last attempt gave or raised something")


def killed(error: BaseException, numbers: Sequence[int]) -> WorkerError | None:
    """The error for tasks with these partitions, if they killed the workers that tried them."""
    deaths = getattr(error, "allowed_failures", None)
    if deaths is None:
        return None
    times = f"{deaths + 1} times, and each time the worker died."
    fact = f"the task of {spelled(numbers)} was tried {times}"
    way = (
        "Mostly its memory was full: give workers more, make partitions smaller, or load them by"
        " functions. The logs of the workers tell more."
    )
    return WorkerError(message(UNNAMED, fact, way))


def spelled(numbers: Sequence[int]) -> str:
    """Partitions in a message."""
    few = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"partition{'s' * (len(numbers) > 1)} {few}"
