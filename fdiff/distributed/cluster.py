"""The client of a Dask cluster: which one counts, whether it can be used, and waiting for tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from time import monotonic, sleep
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from ..errors import UNNAMED, InputError, WorkerError, failure, message

_process, _numbers = uuid4().hex[:12], count()


def new_token() -> str:
    """What makes the names of tasks new."""
    return f"{_process}-{next(_numbers)}"


PACKAGES = ("fdiff", "numpy")
LOOK = 1.0  # seconds between two looks at a cluster that takes long
ALONE = 20.0  # seconds without a worker, or a scheduler, after which a call gives up
_checked: WeakSet[Any] = WeakSet()
_LOST = ("CancelledError", "FutureCancelledError", "FuturesCancelledError")


def dask_distributed() -> Any:
    """The package of Dask, which is imported by those who have a cluster."""
    return import_module("distributed")


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
    if client in _checked:
        return
    versions = client.get_versions(packages=[*PACKAGES])
    for address, worker in versions["workers"].items():
        for name in PACKAGES:
            here, there = versions["client"]["packages"][name], worker["packages"].get(name)
            if here != there:
                fact = f"worker {address} has {name} {there}, and this process has {here}."
                way = "Install one version on all of them: others may round differently."
                raise failure(InputError, call, fact, way)
    _checked.add(client)


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
    wait, alone = dask_distributed().wait, 0.0
    while True:
        try:
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
    """Whether data that a task needs, or its result, is gone."""
    return type(error).__name__ in _LOST


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
