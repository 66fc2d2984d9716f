"""`profile`: a context in which fdiff records what it does, and the summary of that."""

from __future__ import annotations

import os
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Self

from ..errors import InputError, failure, flag, message, shown, warn
from ..foreign_errors import whole_exit
from ..process.forking import no_fork
from ..tracebacks import public_class
from .collection import Collector, ProfileOptions, begin_watching, end_watching, events_of
from .event_list import EventList, Path_
from .events import FunctionEvent, FunctionEventAvg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..pictures import Picture

# ProfileOptions of torch's that have no meaning here, and why.
_WITHOUT_MEANING = {
    "with_modules": "modules of TorchScript, which fdiff has none of",
    "use_kineto": "a library of torch's",
    "experimental_config": "settings of Kineto, a library of torch's",
    "custom_trace_id_callback": "the files of Kineto, a library of torch's",
    "post_processing_timeout_s": "the results of Kineto, a library of torch's",
    "activity_filters": "the activities of Kineto, a library of torch's",
}


@public_class
class profile:  # noqa: N801 - torch's name
    """Record what fdiff does in a ``with`` statement: `torch.autograd.profiler.profile` for NumPy.

    An event is a public call, such as ``grad(model)``; an operation that NumPy runs, under NumPy's
    name; a kernel, and each of its loop nests; tracing; a transform; a step of compiling; a hit or
    miss of a cache. Events of all threads are recorded. Profiles may be nested; each contains all
    events that begin and end in it.

    While a profile is active, calls run through Python instead of the fast path, which takes some
    microseconds for each call and about two microseconds for each event. Results are the same in
    every bit. When no profile is active, nothing is recorded, and nothing is slower.

    After `enabled` come the 14 options of ``torch.autograd.profiler.profile`` in PyTorch 2.13.

    Parameters
    ----------
    enabled : bool
        If False, nothing is recorded.
    use_device : {None, "cuda"}
        With ``"cuda"``, the host waits for each kernel of ``device="cuda"`` and measures the time
        from its launch. Otherwise, events of kernels have the time of the launch.
    record_shapes : bool
        Record the shapes of the array arguments of each event.
    with_flops : bool
        Count floating-point operations of operations and kernels, in additions, as `explain`
        does: two for each term of a product, 20 for an elementary function. Implies
        `record_shapes`.
    profile_memory : bool
        Record the bytes of arrays that fdiff allocates and frees, without temporary arrays of NumPy
        and arrays that your code allocates.
    with_stack : bool
        Record the lines of your code that an event belongs to.
    use_cpu : bool
        Has to be True.
    use_cuda : bool
        The old form of ``use_device="cuda"``. It warns, as in torch.
    acc_events : bool
        Keep the events of earlier ``with`` statements with the same object. If False, a profile can
        be used once.
    with_modules, use_kineto, experimental_config, custom_trace_id_callback
        Only the defaults are accepted, because fdiff lacks these parts of torch.
    post_processing_timeout_s, activity_filters
        Likewise.

    Raises
    ------
    InputError
        If an option is set that has no meaning in fdiff.
    RuntimeError
        If the same object is entered again, as in torch.

    References
    ----------
    torch.autograd.profiler, PyTorch 2.13, whose names, columns and keys these are.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> from fdiff.profiler import profile
    >>> def f(x):
    ...     return np.sum(np.sin(x) * x)
    >>> with profile() as prof:
    ...     g = fdiff.grad(f)(np.linspace(0.0, 1.0, 5))
    >>> print(prof.key_averages().table(sort_by="self_cpu_time_total"))
    ------...
        Name    Self CPU %  ...
    """

    def __init__(
        self,
        enabled: bool = True,  # noqa: FBT001, FBT002 - torch's signature
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: object = None,
        acc_events: bool = False,
        custom_trace_id_callback: object = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: object = None,
    ) -> None:
        flags = {
            "with_modules": with_modules,
            "use_kineto": use_kineto,
            "experimental_config": experimental_config,
            "custom_trace_id_callback": custom_trace_id_callback,
            "post_processing_timeout_s": post_processing_timeout_s,
            "activity_filters": activity_filters,
        }
        _refuse_meaningless(flags, use_cpu=flag(use_cpu, "use_cpu", "profile"))
        self.enabled = flag(enabled, "enabled", "profile")
        self.use_device = _device(use_device, use_cuda=flag(use_cuda, "use_cuda", "profile"))
        self.acc_events = flag(acc_events, "acc_events", "profile")
        self.entered = False
        flops = flag(with_flops, "with_flops", "profile")
        self._options = ProfileOptions(
            shapes=flag(record_shapes, "record_shapes", "profile") or flops,
            flops=flops,
            memory=flag(profile_memory, "profile_memory", "profile"),
            stack=flag(with_stack, "with_stack", "profile"),
            device=self.use_device is not None,
        )
        self._collector: Collector | None = None
        self._events: EventList | None = None
        self._earlier: list[FunctionEvent] = []
        self._begin = self._end = 0

    # ------------------------------------------------------------------------------- recording

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self.entered and (self._collector is not None or not self.acc_events):
            way = "Make another profile, or give acc_events=True to add up several uses."
            fact = "Profiler context manager is not reentrant."
            raise RuntimeError(message("profile", fact, way))
        if self.entered:
            self._earlier = [*self.function_events]
        self.entered = True
        self._spans: list[object] = []
        self._collector = Collector(self._options)
        self._begin = perf_counter_ns()
        try:
            begin_watching(self._collector, sys._getframe(1))
        except BaseException:
            self.__exit__()
            raise
        return self

    @whole_exit
    def __exit__(self, *_: object) -> None:
        collector = self._collector
        if collector is None:
            return
        self._end = perf_counter_ns()
        end_watching(collector)
        collector.open = False
        self._done, self._collector, self._events = collector, None, None

    # --------------------------------------------------------------------------------- results

    @property
    def function_events(self) -> EventList:
        """All events, in the order in which they began: an `EventList` of `FunctionEvent`."""
        if self._events is None:
            self._events = self._collected_events()
        return self._events

    def _collected_events(self) -> EventList:
        if not self.enabled:
            return EventList()
        if not self.entered or self._collector is not None:
            fact = "there are no events before the with statement is over."
            raise failure(InputError, "profile", fact, "Ask for them below the with statement.")
        done, options = self._done, self._options
        return EventList(
            [*self._earlier, *events_of(done.spans, self._begin, options)],
            use_device=self.use_device,
            profile_memory=options.memory,
            with_flops=options.flops,
            threads=done.threads,
        )

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds spent in all events, with each moment of a thread counted once."""
        return self.function_events.self_cpu_time_total

    def key_averages(
        self,
        group_by_input_shape: bool = False,  # noqa: FBT001, FBT002 - torch's signature
        group_by_stack_n: int = 0,
    ) -> EventList:
        """Add up events with the same name.

        Parameters
        ----------
        group_by_input_shape : bool
            Add up only events with arguments of the same shapes. This needs ``record_shapes=True``.
        group_by_stack_n : int
            Add up only events with the same innermost `n` lines. This needs ``with_stack=True``.

        Returns
        -------
        EventList
            A list of `FunctionEventAvg`, in the order of the first events of each name.
        """
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events added up, under the key ``Total``."""
        return self.function_events.total_average()

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
        """A table with a row for each event; the table of `key_averages` is shorter.

        Parameters
        ----------
        sort_by : str, optional
            ``"cpu_time"``, ``"cpu_time_total"``, ``"self_cpu_time_total"``, ``"cpu_memory_usage"``,
            ``"self_cpu_memory_usage"``, the same with ``device``, ``cuda`` or ``xpu``, ``"flops"``
            or ``"count"``: the largest first. By default, the order of the events. Memory of
            devices is not recorded, and counts as 0.
        row_limit : int
            The largest number of events that are shown; -1 for all.
        max_src_column_width, max_name_column_width, max_shapes_column_width : int, optional
            The largest width of these columns; None for no limit.
        header : str, optional
            A line above the table.
        top_level_events_only : bool
            Show only events that are not inside another event.
        time_unit : {"s", "ms", "us"}, optional
            The unit of all times. By default, each time has a suitable unit.

        Raises
        ------
        AttributeError
            If there is no such key to sort by, as in torch.
        """
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
            time_unit,
        )

    def export_chrome_trace(self, path: Path_) -> None:
        """Write the events to a file that chrome://tracing, Perfetto and Speedscope open.

        Parameters
        ----------
        path : str or path-like
            The file, JSON in the trace-event format, with times in microseconds.
        """
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: Path_, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks of the events to a file from which programs draw flame graphs.

        Parameters
        ----------
        path : str or path-like
            The file: a line for each event, its stack from the outside in, and microseconds.
        metric : {"self_cpu_time_total", "self_cuda_time_total"}
            Which time.

        Raises
        ------
        InputError
            If there is no such metric, or the profile has no stacks.
        """
        if not self._options.stack:
            way = "Write profile(with_stack=True)."
            raise failure(InputError, "export_stacks", "the profile has no stacks.", way)
        self.function_events.export_stacks(path, metric)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the events as a timeline with Matplotlib, which must be installed.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw on, by default the axes of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the timeline.
        """
        with no_fork:
            from .plotting import plot  # noqa: PLC0415 - Matplotlib is an extra

        return plot(self.function_events, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline that Jupyter shows to a file, as SVG.

        Parameters
        ----------
        path : str or path-like
            Where to; its suffix is ``.svg``.

        Raises
        ------
        InputError
            If the suffix is another one, or no event took any time.
        """
        self._picture().save(path)

    # --------------------------------------------------------------------------------- display

    def __repr__(self) -> str:
        if not self.enabled:
            return "<fdiff.profiler.profile, not enabled>"
        if not self.entered or self._collector is not None:
            return "<unfinished fdiff.profiler.profile>"
        seconds = (self._end - self._begin) / 1e9
        return f"<fdiff.profiler.profile of {len(self.function_events)} events, {seconds:.3f} s>"

    def __str__(self) -> str:
        finished = self.entered and self._collector is None
        return self.function_events.table() if finished else repr(self)

    def _repr_html_(self) -> str:
        with no_fork:
            from html import escape  # noqa: PLC0415 - for notebooks alone

        if not self.entered or self._collector is not None:
            return f"<code>{escape(repr(self))}</code>"
        averages = self.key_averages().table(sort_by="self_cpu_time_total", row_limit=15)
        drawn = any(event.cpu_time_total > 0 for event in self.function_events)
        return f"{self._picture()._repr_html_() if drawn else ''}<pre>{escape(averages)}</pre>"

    def _picture(self) -> Picture:
        with no_fork:
            from .timeline import timeline  # noqa: PLC0415 - for pictures alone
        return timeline(self.function_events)


def _refuse_meaningless(flags: dict[str, object], *, use_cpu: bool) -> None:
    """Raise if an option is set that is about what fdiff has not."""
    for name, value in flags.items():
        if value:
            fact = f"{name} is about {_WITHOUT_MEANING[name]}."
            raise failure(InputError, "profile", fact, "Leave it out.")
    if not use_cpu:
        fact = "use_cpu=False would record nothing: all events of fdiff are of the CPU."
        raise failure(InputError, "profile", fact, "Leave it out.")


def _device(device: object, *, use_cuda: bool) -> str | None:
    """The device whose kernels are timed."""
    if use_cuda:
        text = "use_cuda is deprecated in torch: write use_device='cuda'."
        warn(text, FutureWarning)
        device = device or "cuda"
    if device is None or (isinstance(device, str) and device == "cuda"):
        return device
    fact = f"use_device must be None or 'cuda', not {shown(device)}."
    raise failure(InputError, "profile", fact, "Leave it out to profile the CPU.")
