"""Data in partitions, held on the workers of a cluster or made one at a time in this process."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Self

import fdiff.intact_numpy as np

from ..errors import InputError, failure
from ..foreign_errors import whole_exit
from ..tracebacks import public
from .cluster import (
    FAILED,
    Client,
    Future,
    Task,
    check_client,
    check_versions,
    current_client,
    dask_module,
    gathered,
    new_token,
    workers_of,
)
from .messages import Buffer, Message, digest_of
from .partition_sources import CALL, Source, as_sent, dask_arrays, is_delayed, loaded, sources_of
from .worker_tasks import as_part, described, entry_of, held, opened, parts_of, shapes_of

GROUPS = 4  # for each worker, or up to twice as many: workers have nearly equal shares
SECONDS = 5.0  # for a worker that may have died
LOCATE = 10.0  # seconds after which the scheduler is asked again where groups are
INLINE = 4 << 20  # bytes of a buffer times workers that may travel in tasks
_CALLS = 4  # calls after which a buffer that none has used is dropped


class Partitions:
    """Data in partitions: what `fdiff.distributed.partitions` returns.

    A context manager, which releases the data at its end; so does `release`.
    """

    client: Client | None = None
    nbytes = 0
    released = False

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = [*sources]
        self.spans: list[range] = []
        self.groups: list[Future | None] = []
        self.submit: Callable[[Sequence[int]], list[Future]] = self._sent  # of these groups
        self.restore_sources: Callable[[], bool] = lambda: True  # whether another try makes sense
        self.buffers = deque[dict[bytes, Future]](maxlen=_CALLS)  # on all workers, by digest
        self._located: list[str] = []
        self._asked = -math.inf

    def on(self, client: Client, spans: Sequence[range]) -> Self:
        """Hold the data on the workers of a client, in these groups."""
        self.client, self.spans, self.groups = client, [*spans], [None] * len(spans)
        self._group_of = {k: b for b, span in enumerate(spans) for k in span}
        self.hold(range(len(spans)))
        return self

    def held_by(self) -> Client:
        """The client on whose workers the data is."""
        assert self.client is not None, "the data is on a cluster"
        return self.client

    # ------------------------------------------------------------------------------------ groups

    def hold(self, numbers: Sequence[int]) -> None:
        """Make groups, and wait until they are there."""

        def submit() -> list[Future]:
            missing = [b for b in numbers if self.groups[b] is None or b in self._lost()]
            for b, future in zip(missing, self.submit(missing), strict=True):
                self.groups[b] = future
            return self._tasks(described, [self.groups[b] for b in numbers])

        def failed() -> list[int]:
            absent = [b for b in numbers if getattr(self.groups[b], "status", "") != "finished"]
            return [k for b in absent for k in self.spans[b]]

        sizes = opened(gathered(self.held_by(), submit, self.restore_sources, failed))
        self.nbytes = max(self.nbytes, sum(sizes))
        self._asked = -math.inf

    def _sent(self, numbers: Sequence[int]) -> list[Future]:
        """Values are sent to a worker each, and die with it; all else the scheduler makes again.

        Neighbours lie side by side, as many groups on each worker. What the scheduler makes is not
        bound to one, not even loosely: it would not be made again once all workers have died.
        """
        sources = {b: [self.sources[k] for k in self.spans[b]] for b in numbers}
        delayed = [s for group in sources.values() for s in group if is_delayed(s)]
        client = self.held_by()
        futures = iter(client.compute(delayed) if delayed else [])
        workers, name, groups = workers_of(client), f"rows-{new_token()}", list[Future]()
        for place, b in enumerate(numbers):
            target = [workers[place * len(workers) // len(numbers)]]
            parts: list[Source] = [
                next(futures) if is_delayed(s) else as_sent(s) for s in sources[b]
            ]
            values = [k for k, s in enumerate(parts) if isinstance(s, (tuple, list))]
            values = [k for k in values if not isinstance(parts[k], Message)]
            if values:
                sent = client.scatter(
                    [tuple(parts[k]) for k in values], hash=False, workers=target, timeout=SECONDS
                )
                for k, future in zip(values, sent, strict=True):
                    parts[k] = future
            first = self.spans[b][0]
            groups.append(client.submit(held, first, parts, key=(name, b), pure=False))
        return groups

    def _lost(self) -> list[int]:
        return [b for b, g in enumerate(self.groups) if g is not None and g.status in FAILED]

    def restore(self) -> bool:
        """Make again what died with its worker; whether there was anything."""
        if lost := self._lost():
            self.hold(lost)
        futures = {d: future for sent in self.buffers for d, future in sent.items()}
        gone = [d for d, future in futures.items() if future.status != "finished"]
        if gone:
            self.buffers.clear()
        return bool(lost or gone)

    def located(self) -> list[str]:
        """The worker of each group, as it was some seconds ago: a wrong answer costs a transfer."""
        if monotonic() - self._asked > LOCATE:
            groups = [g for g in self.groups if g is not None]
            places = self.held_by().who_has(groups)
            self._located = [(places.get(g.key) or ("",))[0] for g in groups]
            self._asked = monotonic()
        return self._located

    def covering(self, numbers: Sequence[int]) -> list[tuple[int, Future | None]]:
        """The groups with these partitions, with the numbers of their first ones."""
        groups = dict.fromkeys([self._group_of[k] for k in numbers])
        return [(self.spans[b][0], self.groups[b]) for b in groups]

    def _tasks(self, task: Task, groups: Sequence[object]) -> list[Future]:
        keys = [(f"{task.__name__}-{new_token()}", k) for k in range(len(groups))]
        return self.held_by().map(task, groups, key=keys, pure=False)

    def _fetched(self, task: Task) -> list[Any]:
        """The results of a task for each partition."""
        submit = lambda: self._tasks(task, self.groups)  # noqa: E731 - of the groups there are then
        groups = gathered(self.held_by(), submit, self.restore, lambda: range(len(self)))
        return [part for group in groups for part in group]

    def sent(self, messages: Sequence[Message], workers: int) -> list[list[bytes | Future]]:
        """Buffers for the tasks of a call: small ones as bytes, others as Futures of bytes.

        These lie on all workers, and are known by content.
        """
        used: dict[bytes, Future] = {}

        def future_of(buffer: Buffer) -> bytes | Future:
            if len(buffer) * workers <= INLINE:
                return bytes(buffer)
            digest = digest_of(buffer)
            sent_before = [sent[digest] for sent in (used, *self.buffers) if digest in sent]
            scatter, options = self.held_by().scatter, {"broadcast": True, "hash": False}
            used[digest] = (
                sent_before[0]
                if sent_before
                else scatter([bytes(buffer)], timeout=10, **options)[0]
            )
            return used[digest]

        columns = [[future_of(buffer) for buffer in message.buffers] for message in messages]
        self.buffers.append(used)
        return columns

    # ------------------------------------------------------------------------------ what users do

    @public
    def gather(self) -> list[Any]:
        """All partitions, in this process: tuples of arrays, or what `f` of `map_over` returned.

        Returns
        -------
        list
            In the order of the partitions.

        Raises
        ------
        InputError
            If the partitions have been released, or their client is closed.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff.distributed
        >>> rows = fdiff.distributed.partitions([(np.arange(2.0),), (np.arange(3.0),)])
        >>> rows.gather()
        [(array([0., 1.]),), (array([0., 1., 2.]),)]
        """
        self.check_held("gather")
        here = self.client is None
        return [*map(loaded, self.sources)] if here else self._fetched(parts_of)

    @public
    def to_dask_array(self) -> Any:
        """The partitions as chunks of rows of a dask array, or of a tuple of such arrays.

        Returns
        -------
        dask.array.Array or tuple of dask.array.Array

        Raises
        ------
        ImportError
            If Dask is not installed.
        InputError
            If the partitions have been released, or their client is closed.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff.distributed
        >>> rows = fdiff.distributed.partitions([(np.arange(2.0),), (np.arange(3.0),)])
        >>> rows.to_dask_array().chunks
        ((2, 3),)
        """
        self.check_held("to_dask_array")
        delayed = dask_module("dask").delayed
        if self.client is None:
            parts = [[np.asarray(a) for a in as_part(loaded(s))] for s in self.sources]
            return dask_arrays([[(delayed(a), a.shape, a.dtype) for a in p] for p in parts])
        shapes, entry = self._fetched(shapes_of), delayed(entry_of, pure=False)
        places = [(g, k - s[0]) for g, s in zip(self.groups, self.spans, strict=True) for k in s]
        return dask_arrays(
            [(entry(group, p, k), *shape) for k, shape in enumerate(arrays)]
            for (group, p), arrays in zip(places, shapes, strict=True)
        )

    def check_held(self, call: str) -> None:
        """Refuse data that was released, and a client that is closed."""
        if self.released:
            way = "Use them inside the `with` statement, or make them again."
            raise failure(InputError, call, "the partitions have been released.", way)
        if self.client is not None:
            check_client(self.client, call)

    def release(self) -> None:
        """Let the workers drop the data."""
        self.released, count = True, len(self)
        self.sources = [None] * count
        self.groups.clear()
        self.buffers.clear()

    def __enter__(self) -> Self:
        return self

    @whole_exit
    def __exit__(self, *_: object) -> None:
        self.release()

    def __len__(self) -> int:
        return len(self.sources)

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
    Partitions are held in groups of consecutive ones, four to eight for each worker. A group that
    dies with its worker is made again: by Dask if it was loaded or computed, from here if arrays
    were given.

    References
    ----------
    The idea of M. Rocklin, "Dask: Parallel Computation with Blocked algorithms and Task
    Scheduling", SciPy 2015.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.distributed
    >>> rows = fdiff.distributed.partitions([(np.arange(3.0),), (np.arange(4.0),)])
    >>> rows
    <2 partitions, in this process>
    """
    sources = sources_of(data)
    rows = Partitions(sources)
    client = current_client() if client is None else client
    if client is None:
        return rows
    client = check_client(client, CALL)
    check_versions(client, CALL)
    return rows.on(client, _spans(len(sources), len(workers_of(client))))


def _spans(count: int, workers: int) -> list[range]:
    """The partitions of each group: powers of two, so that its sum is a node of the tree."""
    size = 1 << max(math.floor(math.log2(count / (max(workers, 1) * GROUPS))), 0)
    return [range(k, min(k + size, count)) for k in range(0, count, size)]
