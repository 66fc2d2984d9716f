"""One call on a cluster: a task for each worker, and tasks that add.

Source: C.-T. Chu et al., "Map-Reduce for Machine Learning on Multicore", NIPS 2006, section 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count

import fdiff.intact_numpy as np

from ..functional.call.kink_policy import policy
from ..process.progress import Stage
from .cluster import FAILED, Future, gathered, new_token
from .messages import Message
from .partitionings import Partitions
from .worker_tasks import EVENTS, CallJob, Span, evaluated, merged, opened

FAN_IN = 16  # partial sums that one task adds, fewer where they are large
ROOM = 64 << 20  # bytes of partial sums in one adding task


class ClusterCall:
    """One call of a function of partitions, on the cluster that holds them.

    A handler of the caller's for floating-point errors is not there on workers, which warn instead.
    """

    def __init__(
        self, name: str, f: Callable[..., object], arguments: object, many: Sequence[Partitions], *,
        adds: bool,
    ) -> None:  # fmt: skip
        self.name, self.many, self.rows = name, many, many[0]
        self.client = self.rows.held_by()
        self.messages = Message.of(f), Message.of(arguments)
        errstate = {k: "warn" if v in {"call", "log"} else v for k, v in np.geterr().items()}
        digest = self.messages[0].digest()
        self.job = CallJob("", digest, len(self.rows), adds, errstate, policy.get())
        self.futures: list[Future] = []
        self.spans: Sequence[Span] = ()  # of these

    def submitted(self, spans: Sequence[Span]) -> list[Future]:
        """A task for each span.

        Their names are new in each call. Of tasks that share a name Dask takes more than two for
        each thread for roots of a graph, and places them without regard to where their data is.
        """
        few, self.job = len(spans), self.job._replace(token=new_token())
        held = [[rows.covering(span) for span in spans] for rows in self.many]
        sent = [[buffers] * few for buffers in self.rows.sent(self.messages, few)]
        keys = [(f"{self.name}-{self.job.token}", k) for k in range(few)]
        columns = [[self.job] * few, *sent, spans, *held]
        self.spans = spans
        self.futures = self.client.map(evaluated, *columns, key=keys, pure=False)
        return [*self.futures]

    def restore(self) -> bool:
        """Make again what died with its worker; whether there was anything."""
        restored = [rows.restore() for rows in self.many]
        return any(restored)

    def sum(self, fan_in: int, *, first: bool = False) -> tuple[object, int]:
        """The sum over all partitions, and how many such results one task should add.

        Or that over the `first` one alone.
        """
        self.job = self.job._replace(total=1 if first else len(self.rows))

        def submit() -> list[Future]:
            level = self.submitted([[0]] if first else self._shares())
            for depth in count():
                if len(level) <= fan_in:
                    return level
                chunks = [level[k : k + fan_in] for k in range(0, len(level), fan_in)]
                keys = [(f"add-{self.job.token}", depth, k) for k in range(len(chunks))]
                level = self.client.map(merged, chunks, key=keys, pure=False)
            raise AssertionError("the last level is short")

        stage = Stage("adding", of=self.name, total=self.job.total, parts="partitions")
        look = lambda: self._show_progress(stage)  # noqa: E731 - for this call
        with stage:
            outcomes = gathered(self.client, submit, self.restore, self._failed, look)
        (total,) = opened([merged(outcomes)])
        return total.total(), min(max(ROOM // max(total.nbytes, 1), 4), FAN_IN)

    def mapped(self) -> Partitions:
        """The results, on the workers that hold the data."""
        results = Partitions([None] * len(self.rows))
        results.submit = lambda numbers: self.submitted([results.spans[b] for b in numbers])
        results.restore_sources = lambda: self.restore() or True
        return results.on(self.client, self.rows.spans)

    def _shares(self) -> list[list[int]]:
        """The partitions of each worker."""
        shares = defaultdict[str, list[int]](list)
        for span, worker in zip(self.rows.spans, self.rows.located(), strict=True):
            shares[worker] += span
        return sorted(shares.values())

    def _failed(self) -> list[int]:
        """The partitions of the tasks that have failed."""
        pairs = zip(self.futures, self.spans, strict=True)
        failed = [span for f, span in pairs if f.status in FAILED]
        return [k for span in failed or [range(len(self.rows))] for k in span]

    def _show_progress(self, stage: Stage) -> None:
        """Tell the progress line how many partitions are done."""
        events = self.client.get_events(EVENTS)
        done = sum(e["done"] for _, e in events if e["token"] == self.job.token)
        stage.advance(max(done - stage.done, 0))
