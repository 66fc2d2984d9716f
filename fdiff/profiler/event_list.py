"""A list of events, with the methods of torch's `EventList`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from ..errors import choice, flag, given_path
from ..process.observed_spans import LABEL
from ..tracebacks import public, public_class
from .chrome_trace import trace_of
from .events import FunctionEvent, FunctionEventAvg
from .tables import Columns, build_table

Path_ = str | os.PathLike[str]
METRICS = ("self_cpu_time_total", "self_cuda_time_total")
_REPLACED = str.maketrans(" ;\t\n", "____")  # what separates the fields of a line of stacks


@public_class
class EventList(list[Any]):
    """Events, or sums of events, which can be grouped, printed as a table, and written to files.

    `str` returns its table. In Jupyter it shows a table, and a timeline of events that are not
    added up.

    Parameters
    ----------
    events : iterable of FunctionEvent or FunctionEventAvg
        The events in the list.
    use_device : str, optional
        The device whose times are shown in columns.
    profile_memory, with_flops : bool
        Whether to show columns for memory and floating-point operations.
    threads : dict, optional
        Names of threads, by number.

    References
    ----------
    ``torch.autograd.profiler_util.EventList``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> from fdiff.profiler import profile
    >>> with profile() as prof:
    ...     g = fdiff.grad(np.sin)(0.0)
    >>> events = prof.function_events
    >>> type(events).__name__, events[0].name
    ('EventList', 'grad(sin)')
    """

    def __init__(
        self,
        events: Iterable[FunctionEvent | FunctionEventAvg] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        threads: dict[int, str] | None = None,
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self._threads = threads or {}

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds spent in all events, with each moment counted once."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,  # noqa: FBT001, FBT002 - torch's signature
        time_unit: str | None = None,
    ) -> str:
        """The events as a table; see `profile.table`."""
        columns = Columns(
            self._profile_memory,
            self._with_flops,
            max_name_column_width,
            max_shapes_column_width,
            max_src_column_width,
        )
        return build_table(
            self,
            columns,
            sort_by=sort_by,
            row_limit=row_limit,
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    @public
    def key_averages(
        self,
        group_by_input_shapes: bool = False,  # noqa: FBT001, FBT002 - torch's signature
        group_by_stack_n: int = 0,
    ) -> EventList:
        """Events of one name added up; see `profile.key_averages`.

        Returns
        -------
        EventList
            A list of `FunctionEventAvg`.

        Raises
        ------
        InputError
            If `group_by_input_shapes` is no bool.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff
        >>> with fdiff.profiler.profile() as prof:
        ...     slope = fdiff.grad(np.sin)(0.0)
        >>> prof.function_events.key_averages()[0].key
        'grad(sin)'
        """
        by_shapes = flag(group_by_input_shapes, "group_by_input_shapes", "key_averages")
        groups: dict[tuple[str, ...], FunctionEventAvg] = {}
        for event in self:
            key: tuple[str, ...] = (event.key, str(event.category == LABEL))
            if by_shapes:
                key += (str(event.input_shapes),)
            key += tuple(event.stack[:group_by_stack_n])
            groups.setdefault(key, FunctionEventAvg()).add(event)
        for group in groups.values():
            group.stack = group.stack[:group_by_stack_n]
            if not by_shapes:
                group.input_shapes = ()
        return EventList(
            groups.values(),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )

    def total_average(self) -> FunctionEventAvg:
        """All events added up, under the key ``Total``."""
        total = FunctionEventAvg()
        for event in self:
            total += event
        total.key = "Total"
        return total

    @public
    def export_chrome_trace(self, path: Path_) -> None:
        """Write the events as a trace for viewers; see `profile.export_chrome_trace`.

        Raises
        ------
        InputError
            If `path` is no path.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff
        >>> with fdiff.profiler.profile() as prof:
        ...     slope = fdiff.grad(np.sin)(0.0)
        >>> import os
        >>> prof.function_events.export_chrome_trace(os.devnull)
        """
        with given_path(path, "path", "export_chrome_trace").open("w", encoding="utf-8") as file:
            trace = json.dumps(trace_of(self, self._threads, memory=self._profile_memory))
            file.write(trace.replace("<", "\\u003c"))  # so that it may stand in a script of HTML

    def supported_export_stacks_metrics(self) -> list[str]:
        """The times by which `export_stacks` can weigh stacks."""
        return list(METRICS)

    @public
    def export_stacks(self, path: Path_, metric: str = METRICS[0]) -> None:
        """Write the stacks of the events for a flame graph; see `profile.export_stacks`.

        Raises
        ------
        InputError
            If `path` is no path, or `metric` is no time.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff
        >>> with fdiff.profiler.profile() as prof:
        ...     slope = fdiff.grad(np.sin)(0.0)
        >>> import os
        >>> prof.function_events.export_stacks(os.devnull)
        """
        metric = choice(metric, METRICS, "metric", "export_stacks", "Leave it out.")
        name = metric.replace("cuda", "device")
        with given_path(path, "path", "export_stacks").open("w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, name))
                if event.stack and value > 0:
                    frames = ";".join(line.translate(_REPLACED) for line in reversed(event.stack))
                    file.write(f"{frames} {value}\n")
