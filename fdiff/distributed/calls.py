"""One call on a cluster: a task for each worker, tasks that add, and what is done if one fails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from ..errors import UNNAMED
from ..process.progress import Stage
from .cluster import FAILED, new_token, persistently, wait_for
from .evaluation import CallConditions, Failure, give_warnings
from .ordered_sum import OrderedSum
from .sending import Sent, message_of
from .tasks import EVENTS, CallJob, Outcome, Span, merged, partial_sum

if TYPE_CHECKING:
    from .partitionings import Partitions

FAN_IN = 16  # partial sums that one task adds, fewer where they are large
ROOM = 64 << 20  # bytes of partial sums in one adding task


class ClusterCall:
    """One call of a function of partitions, under way on the cluster that holds them."""

    def __init__(
        self, name: str, f: Callable[..., Any], given: object, many: Sequence[Partitions]
    ) -> None:
        self.name, self.many, self.rows = name, many, many[0]
        self.client: Any = self.rows.client
        self.function = message_of(Sent(f), UNNAMED)
        self.digest = self.function.digest()
        self.given = message_of(given, UNNAMED)
        self.conditions = CallConditions.now()
        self.futures: list[Any] = []
        self.spans: Sequence[Span] = ()  # of the first futures

    def attempts(self, attempt: Callable[[CallJob], Any]) -> Any:
        """What an attempt gives, again after data died with a worker; nothing is left behind."""

        def one() -> Any:
            try:
                return attempt(CallJob(new_token(), self.digest, len(self.rows), self.conditions))
            finally:
                self._forget()

        try:
            return persistently(self.client, one, self.restore, self._failed)
        finally:
            self.futures = []

    def restore(self) -> bool:
        """Make again what died with its worker; whether there was anything."""
        restored = [rows.restore() for rows in self.many]
        return any([*restored, self.rows.transfers.restore()])

    def _failed(self) -> list[int]:
        """The partitions of the tasks that have failed."""
        failed = [
            span for f, span in zip(self.futures, self.spans, strict=False) if f.status in FAILED
        ]
        return [k for span in failed or [range(len(self.rows))] for k in span]

    def _forget(self) -> None:
        unfinished = [f for f in self.futures if not f.done()]
        if unfinished and self.client.status == "running":
            self.client.cancel(unfinished, force=True)

    def sum(self, fan_in: int) -> tuple[object, int]:
        """The sum over all partitions, and how many such results one task should add."""
        total = self._total(self.attempts(lambda job: self._sum_once(job, fan_in)))
        return total.total(), min(max(ROOM // max(total.nbytes, 1), 4), FAN_IN)

    def first(self) -> object:
        """The term of the first partition."""

        def attempt(job: CallJob) -> Outcome:
            tasks = self.tasks(partial_sum, job._replace(total=1), [[0]])
            self.wait(tasks, job)
            return self.client.gather(tasks[0])

        return self._total(self.attempts(attempt)).total()

    def _total(self, outcome: Outcome) -> OrderedSum:
        give_warnings(outcome.warned)
        if isinstance(outcome.sum, Failure):
            raise outcome.sum.error
        return outcome.sum

    def shares(self) -> list[list[int]]:
        """The partitions of each worker."""
        shares = defaultdict[str, list[int]](list)
        for span, worker in zip(self.rows.spans, self.rows.located(), strict=True):
            shares[worker] += span
        return sorted(shares.values())

    def _sum_once(self, job: CallJob, fan_in: int) -> Outcome:
        level = self.tasks(partial_sum, job, self.shares())
        for depth in count():
            if len(level) <= fan_in:
                break
            chunks = [level[k : k + fan_in] for k in range(0, len(level), fan_in)]
            keys = [(f"add-{job.token}", depth, k) for k in range(len(chunks))]
            level = self.client.map(merged, [job] * len(chunks), chunks, key=keys, pure=False)
            self.futures += level
        self.wait(level, job)
        return merged(job, self.client.gather(level))

    def submitted(self, task: Callable[..., Any], spans: Sequence[Span]) -> list[Any]:
        """Tasks for spans, which are kept."""
        job = CallJob(new_token(), self.digest, len(self.rows), self.conditions)
        return self.tasks(task, job, spans)

    def tasks(self, task: Callable[..., Any], job: CallJob, spans: Sequence[Span]) -> list[Any]:
        """A task for each span.

        Their names are new in each call. Of tasks that share a name Dask takes more than two for
        each thread for roots of a graph, and places them without regard to where their data is.
        """
        transfers, few = self.rows.transfers, len(spans)
        transfers.begin()
        function, given = (transfers.prepared(m, few) for m in (self.function, self.given))
        held = [[rows.covering(span) for span in spans] for rows in self.many]
        keys = [(f"{self.name}-{job.token}", k) for k in range(few)]
        columns = [[job] * few, [function] * few, [given] * few, spans, *held]
        self.spans, self.futures = spans, self.client.map(task, *columns, key=keys, pure=False)
        return [*self.futures]

    def wait(self, futures: Sequence[Any], job: CallJob) -> None:
        """Wait for tasks; after two seconds the progress line counts partitions."""
        stage = Stage("adding", of=self.name, total=job.total, parts="partitions")

        def look() -> None:
            events = self.client.get_events(EVENTS)
            done = sum(e["done"] for _, e in events if e["token"] == job.token)
            stage.advance(max(done - stage.done, 0))

        with stage:
            wait_for(self.client, futures, look)
