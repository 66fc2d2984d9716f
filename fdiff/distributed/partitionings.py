"""Data in partitions, held on the workers of a cluster or made one at a time in this process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import monotonic
from typing import Any, Self

from ..errors import InputError, WorkerError, failure, message
from ..tracebacks import public
from .cluster import (
    check_versions,
    current_client,
    is_lost,
    killed,
    new_token,
    spelled,
    usable_client,
    wait_for,
    workers_of,
)
from .evaluation import Part, as_part
from .sources import CALL, Source, loaded, loaders_sent, sources_of
from .tasks import described, held
from .transfers import Transfers

GROUPS = 4  # for each worker: where one dies, what is made again is a fourth of its share
LOCATE = 10.0  # seconds after which the scheduler is asked again where groups are
_FAILED = ("cancelled", "lost", "error")  # states of Futures


class Partitions:
    """Data in partitions: what `fdiff.distributed.partitions` returns.

    A context manager, which releases the data at its end; so does `release`.
    """

    client: Any = None
    groups: list[Any]
    transfers: Transfers
    nbytes = 0

    def __init__(self, count: int) -> None:
        self.count = count
        self.spans: list[range] = []
        self.released = False
        self._located: list[str] = []
        self._asked = -math.inf

    # ---------------------------------------------------------------- what differs between kinds

    def part(self, number: int) -> Part:
        """A partition in this process."""
        raise NotImplementedError

    def submitted(self, numbers: Sequence[int]) -> list[Any]:
        """Futures of groups, which are made again."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------ groups

    def on(self, client: Any, spans: Sequence[range]) -> None:
        """Hold the data on the workers of a client, in these groups."""
        self.client, self.spans = client, [*spans]
        self.groups = [None] * len(self.spans)
        self.transfers = Transfers(client)
        self.hold(range(len(self.spans)))

    def hold(self, numbers: Sequence[int]) -> None:
        """Make groups, and wait until they are there."""
        for b, future in zip(numbers, self.submitted(numbers), strict=True):
            self.groups[b] = future
        futures = [self.groups[b] for b in numbers]
        keys = [(f"sizes-{new_token()}", k) for k in range(len(futures))]
        sizes = self.client.map(described, futures, key=keys, pure=False)
        try:
            wait_for(self.client, sizes)
            found = self.client.gather(sizes)
        except Exception as error:  # noqa: BLE001 - of Dask's, or as it was
            raise self._explained(error) from None
        failures = [f for _, f in found if f is not None]
        if failures:
            raise min(failures, key=lambda f: f.number).error
        self.nbytes = max(self.nbytes, sum(size for size, _ in found))
        self._asked = -math.inf

    def _explained(self, error: Exception) -> Exception:
        """The error where Dask cannot make groups: loaders that kill workers, data of others."""
        failed = [b for b, g in enumerate(self.groups) if g.status in _FAILED]
        numbers = [k for b in failed for k in self.spans[b]]
        if (death := killed(error, numbers)) is not None:
            return death
        if not is_lost(error):
            return error
        fact = f"the data of {spelled(numbers)} was lost, and Dask cannot make it again ({error})."
        way = "Give loaders, arrays or dask collections, not Futures of data that was scattered."
        return WorkerError(message(CALL, fact, way))

    def restore(self) -> bool:
        """Make the groups again that died with their worker; whether there were any."""
        lost = [b for b, g in enumerate(self.groups) if g.status in _FAILED]
        if lost:
            self.hold(lost)
        return bool(lost)

    def located(self) -> list[str]:
        """The worker of each group, as it was some seconds ago: a wrong answer costs a transfer."""
        if monotonic() - self._asked > LOCATE:
            places = self.client.who_has(self.groups)
            self._located = [(places.get(g.key) or ("",))[0] for g in self.groups]
            self._asked = monotonic()
        return self._located

    def covering(self, numbers: Sequence[int]) -> list[tuple[int, Any]]:
        """The groups with these partitions, with the numbers of their first ones."""
        lowest, highest = numbers[0], numbers[-1]
        spans = enumerate(self.spans)
        return [(s[0], self.groups[b]) for b, s in spans if s[0] <= highest and s[-1] >= lowest]

    # ------------------------------------------------------------------------------ what users do

    def check_held(self, call: str) -> None:
        """Refuse data that was released, and a client that is closed."""
        if self.released:
            way = "Use them inside the `with` statement, or make them again."
            raise failure(InputError, call, "the partitions have been released.", way)
        if self.client is not None:
            usable_client(self.client, call)

    def release(self) -> None:
        """Let the workers drop the data."""
        self.released = True
        if self.client is not None:
            self.groups.clear()
            self.transfers.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        if self.released:
            return f"<{len(self)} partitions, released>"
        if self.client is None:
            return f"<{len(self)} partitions, in this process>"
        workers = len({*self.located()})
        levels = max(math.ceil(math.log(max(workers, 2), 16)), 1)
        cost = 5 + 0.9 * workers + 10 * levels
        return (
            f"<{len(self)} partitions in {len(self.groups)} groups on {workers} workers,"
            f" {self.nbytes / 1e6:,.1f} MB; a call takes about {cost:.0f} ms beside its work>"
        )


class SourcePartitions(Partitions):
    """Partitions of what the user gave."""

    def __init__(self, sources: Sequence[Source]) -> None:
        super().__init__(len(sources))
        self.sources: list[Source] = [*sources]

    def part(self, number: int) -> Part:
        return as_part(loaded(self.sources[number]))

    def release(self) -> None:
        super().release()
        self.sources.clear()

    def submitted(self, numbers: Sequence[int]) -> list[Any]:
        """Values are sent to a worker each, and die with it; all else the scheduler makes again."""
        sources = {b: [self.sources[k] for k in self.spans[b]] for b in numbers}
        delayed = [s for given in sources.values() for s in given if hasattr(s, "__dask_graph__")]
        futures = iter(self.client.compute(delayed) if delayed else [])
        name = f"rows-{new_token()}"
        targets = self._targets(numbers)
        found: list[Any] = []
        for b in numbers:
            given = [next(futures) if hasattr(s, "__dask_graph__") else s for s in sources[b]]
            values = [k for k, s in enumerate(given) if isinstance(s, (tuple, list))]
            if values:
                sent = self.client.scatter(
                    [tuple(given[k]) for k in values], hash=False, workers=[targets[b]]
                )
                for k, future in zip(values, sent, strict=True):
                    given[k] = future
            first = self.spans[b][0]
            parts = loaders_sent(given)
            found.append(self.client.submit(held, first, parts, key=(name, b), pure=False))
        return found

    def _targets(self, numbers: Sequence[int]) -> dict[int, str]:
        """A worker for each group: neighbours side by side, as many on each."""
        workers = workers_of(self.client)
        share = -(-len(numbers) // len(workers))
        return {b: workers[k // share] for k, b in enumerate(numbers)}


@public
def partitions(data: object, client: object = None) -> Partitions:
    """Hold data in partitions on the workers of a Dask cluster, once for many calls.

    Parameters
    ----------
    data : tuple of dask arrays, dask dataframe, or list
        Dask arrays have equal chunks of rows, which are the partitions. A list holds a partition in
        each entry: a tuple of arrays, a function without arguments that loads one (from npy, npz,
        zarr or parquet files), a `Future` or a `Delayed`.
    client : distributed.Client, optional
        Of the cluster; by default Dask's current client. Where there is none, the partitions stay
        in this process, and what a function loads is in memory one partition at a time.

    Returns
    -------
    Partitions
        For `sum_over` and `map_over`. `len` is the number of partitions, and its `repr` shows where
        they are and what a call costs beside its work. In a ``with`` statement the data is released
        at the end.

    Raises
    ------
    InputError
        If there are no partitions, dask arrays have different rows or are cut along another axis,
        `data` is of another kind, the client is closed, or workers have another version of fdiff
        or NumPy.
    WorkerError
        If workers die while they load, or the data of a Future is lost.

    Notes
    -----
    Partitions are held in groups of consecutive ones, four for each worker. A group that dies with
    its worker is made again: by Dask if it was loaded or computed, from here if arrays were given.

    References
    ----------
    M. Rocklin, "Dask: Parallel Computation with Blocked algorithms and Task Scheduling",
    SciPy 2015.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.distributed
    >>> rows = fdiff.distributed.partitions([(np.arange(3.0),), (np.arange(4.0),)])
    >>> rows
    <2 partitions, in this process>
    """
    sources = sources_of(data)
    found = SourcePartitions(sources)
    client = current_client() if client is None else client
    if client is None:
        return found
    usable_client(client, CALL)
    check_versions(client, CALL)
    found.on(client, spans_of(len(sources), len(workers_of(client))))
    return found


def spans_of(count: int, workers: int) -> list[range]:
    """The partitions of each group: powers of two, so that its sum is a node of the tree."""
    size = 1 << max(math.ceil(math.log2(count / (max(workers, 1) * GROUPS))), 0)
    return [range(k, min(k + size, count)) for k in range(0, count, size)]
