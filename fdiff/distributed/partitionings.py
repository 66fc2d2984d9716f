"""Data in partitions, held on the workers of a cluster or made one at a time in this process."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Self

from ..errors import InputError, failure
from ..tracebacks import public
from .cluster import (
    FAILED,
    check_versions,
    current_client,
    new_token,
    persistently,
    usable_client,
    wait_for,
    workers_of,
)
from .evaluation import as_part, give_warnings
from .sources import CALL, Source, dask_arrays, loaded, loaders_sent, sources_of
from .tasks import described, entries, held, shapes
from .transfers import Transfers

GROUPS = 4  # for each worker: where one dies, what is made again is a fourth of its share
SECONDS = 5.0  # for a worker that may have died
LOCATE = 10.0  # seconds after which the scheduler is asked again where groups are


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

    def given(self, number: int) -> object:
        """A partition in this process: a tuple, or a single array."""
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

        def attempt() -> Any:
            missing = [b for b in numbers if self.groups[b] is None or self._is_lost(b)]
            for b, future in zip(missing, self.submitted(missing), strict=True):
                self.groups[b] = future
            futures = [self.groups[b] for b in numbers]
            keys = [(f"sizes-{new_token()}", k) for k in range(len(futures))]
            sizes = self.client.map(described, futures, key=keys, pure=False)
            wait_for(self.client, sizes)
            return self.client.gather(sizes)

        outcomes = persistently(self.client, attempt, self.restorable, self._lost)
        for *_, warned in outcomes:
            give_warnings(warned)
        failures = [failure for _, failure, _ in outcomes if failure is not None]
        if failures:
            raise min(failures, key=lambda f: f.number).error
        self.nbytes = max(self.nbytes, sum(size for size, *_ in outcomes))
        self._asked = -math.inf

    def restorable(self) -> bool:
        """Make again what groups are made of, where that died; whether another try makes sense."""
        return True

    def _is_lost(self, b: int) -> bool:
        return self.groups[b].status in FAILED

    def _lost(self) -> list[int]:
        lost = [b for b, g in enumerate(self.groups) if g is None or g.status != "finished"]
        return [k for b in lost for k in self.spans[b]]

    def restore(self) -> bool:
        """Make the groups again that died with their worker; whether there were any."""
        lost = [b for b in range(len(self.groups)) if self._is_lost(b)]
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
        wanted, spans = set(numbers), enumerate(self.spans)
        return [(span[0], self.groups[b]) for b, span in spans if not wanted.isdisjoint(span)]

    def fetched(self, what: Callable[..., Any]) -> list[Any]:
        """What a task tells of each group."""

        def attempt() -> list[Any]:
            keys = [(f"{what.__name__}-{new_token()}", k) for k in range(len(self.groups))]
            return self.client.gather(self.client.map(what, self.groups, key=keys, pure=False))

        return persistently(self.client, attempt, self.restore, self._lost)

    # ------------------------------------------------------------------------------ what users do

    @public
    def gather(self) -> list[Any]:
        """All partitions, in this process: tuples of arrays, or what `f` of `map_over` returned."""
        self.check_held("gather")
        if self.client is None:
            return [self.given(k) for k in range(self.count)]
        return [part for group in self.fetched(entries) for part in group]

    @public
    def to_dask_array(self) -> Any:
        """The partitions as chunks of rows of a dask array, or of a tuple of such arrays."""
        self.check_held("to_dask_array")
        if self.client is None:
            return dask_arrays([[as_part(self.given(k)) for k in range(self.count)]], None)
        return dask_arrays(self.groups, self.fetched(shapes))

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

    def given(self, number: int) -> object:
        return loaded(self.sources[number])

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
        groups: list[Any] = []
        for b in numbers:
            ready = [next(futures) if hasattr(s, "__dask_graph__") else s for s in sources[b]]
            values = [k for k, s in enumerate(ready) if isinstance(s, (tuple, list))]
            if values:
                sent = self.client.scatter(
                    [tuple(ready[k]) for k in values],
                    hash=False,
                    workers=[targets[b]],
                    timeout=SECONDS,
                )
                for k, future in zip(values, sent, strict=True):
                    ready[k] = future
            first = self.spans[b][0]
            parts = loaders_sent(ready)
            groups.append(self.client.submit(held, first, parts, key=(name, b), pure=False))
        return groups

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
    rows = SourcePartitions(sources)
    client = current_client() if client is None else client
    if client is None:
        return rows
    usable_client(client, CALL)
    check_versions(client, CALL)
    rows.on(client, spans_of(len(sources), len(workers_of(client))))
    return rows


def spans_of(count: int, workers: int) -> list[range]:
    """The partitions of each group: powers of two, so that its sum is a node of the tree."""
    size = 1 << max(math.ceil(math.log2(count / (max(workers, 1) * GROUPS))), 0)
    return [range(k, min(k + size, count)) for k in range(0, count, size)]
