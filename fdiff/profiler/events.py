"""Events of a profile, one each, and added up: the fields are named as torch's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..named_tuples import NamedTuple
from ..tracebacks import public_class
from ..user_lines import printable
from .formatting import time_text

# What `FunctionEvent.scope` says, as torch counts: a function, a backward function, a user's label.
FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 0, 1, 7


@public_class
class DeviceKernel(NamedTuple):
    """A kernel that ran on a device.

    Parameters
    ----------
    name : str
        Its name.
    device : int
        The number of the device.
    duration : float
        Microseconds.

    References
    ----------
    ``torch.autograd.profiler_util.Kernel``.

    Examples
    --------
    >>> from fdiff.profiler import DeviceKernel
    >>> DeviceKernel("sin", device=0, duration=2.5).duration
    2.5
    """

    name: str
    device: int
    duration: float


@public_class
class Interval(NamedTuple):
    """An interval of time.

    Parameters
    ----------
    start, end : float
        Microseconds since the profile began.

    References
    ----------
    ``torch.autograd.profiler_util.Interval``.

    Examples
    --------
    >>> from fdiff.profiler import Interval
    >>> Interval(1.0, 3.5).elapsed_us()
    2.5
    """

    start: float
    end: float

    def elapsed_us(self) -> float:
        """The length in microseconds."""
        return self.end - self.start


def _text_of(time: str) -> property:
    """An attribute that gives a time as text."""
    return property(lambda self: time_text(getattr(self, time)), doc=f"`{time}` with its unit.")


class Totals(Protocol):
    """What averages are taken of."""

    @property
    def count(self) -> int: ...
    @property
    def cpu_time_total(self) -> float: ...
    @property
    def device_time_total(self) -> float: ...


class Times:
    """Averages and texts of times; a class with this has the totals and `count`.

    Memory of devices is not followed: `device_memory_usage`, which torch's tables may be sorted by,
    is 0 for every event.
    """

    device_memory_usage = self_device_memory_usage = 0

    @property
    def cpu_time(self: Totals) -> float:
        """Microseconds of the CPU for one event."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self: Totals) -> float:
        """Microseconds of the device for one event."""
        return self.device_time_total / self.count if self.count else 0.0

    cpu_time_str = _text_of("cpu_time")
    device_time_str = _text_of("device_time")
    cpu_time_total_str = _text_of("cpu_time_total")
    device_time_total_str = _text_of("device_time_total")
    self_cpu_time_total_str = _text_of("self_cpu_time_total")
    self_device_time_total_str = _text_of("self_device_time_total")


@public_class
@dataclass(eq=False)
class FunctionEvent(Times):
    """One event: an operation, a loop nest, a kernel, a public call, a step of compiling.

    Attributes
    ----------
    id : int
        Its number in the profile.
    name : str
        NumPy's name of the operation, or a description of the work. `key` is the same.
    category : str
        ``call``, ``label``, ``trace``, ``transform``, ``compile``, ``cache``, ``dispatch``,
        ``forward``, ``derivative``, ``backward``, ``kernel`` or ``profiler``.
    thread : int
        The number of the thread in the operating system.
    time_range : Interval
        Begin and end in microseconds since the profile began.
    input_shapes : list of list of int
        Shapes of the array arguments, if they were recorded.
    stack : list of str
        The user's lines, innermost first, if they were recorded.
    args : dict
        Further facts: how a time was measured, the operations of a kernel, its lines.
    cpu_memory_usage : int
        Bytes of arrays that were allocated in the event, minus those that were freed. `self_...`
        leaves out the events inside.
    flops : int
        Floating-point operations, as far as they are counted.
    kernels : list of DeviceKernel
        Kernels on a device that it launched.
    cpu_parent, cpu_children
        The event around it, and those directly inside.

    References
    ----------
    ``torch.autograd.profiler_util.FunctionEvent``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> from fdiff.profiler import profile
    >>> with profile() as prof:
    ...     g = fdiff.grad(np.sin)(0.0)
    >>> event = prof.function_events[0]
    >>> event.category, event.cpu_parent is None
    ('call', True)
    """

    id: int
    name: str
    thread: int
    time_range: Interval
    category: str = ""
    scope: int = FUNCTION
    input_shapes: Sequence[Sequence[int]] = ()
    stack: list[str] = field(default_factory=list)
    args: dict[str, object] = field(default_factory=dict)
    self_cpu_memory_usage: int = 0
    flops: int = 0
    use_device: str | None = None
    cpu_parent: FunctionEvent | None = field(default=None, repr=False)
    cpu_children: list[FunctionEvent] = field(default_factory=list, repr=False)
    kernels: list[DeviceKernel] = field(default_factory=list)
    count: int = 1

    @property
    def key(self) -> str:
        """The key by which events are grouped."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from its begin to its end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds from its begin to its end, without the events inside."""
        inside = sum(child.cpu_time_total for child in self.cpu_children)
        return max(self.cpu_time_total - inside, 0.0)

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes that were allocated in the event and those inside, minus those that were freed."""
        return sum(event.self_cpu_memory_usage for event in self._with_all_inside())

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of the kernels that it launched."""
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def device_time_total(self) -> float:
        """Microseconds of the kernels that it and the events inside launched."""
        return sum(event.self_device_time_total for event in self._with_all_inside())

    def _with_all_inside(self) -> Iterator[FunctionEvent]:
        """The event and all inside, which may be deeper than Python's recursion."""
        waiting = [self]
        while waiting:
            yield (event := waiting.pop())
            waiting += event.cpu_children


@public_class
class FunctionEventAvg(Times):
    """Events of one key added up: their number `count`, their total times, memory and flops.

    References
    ----------
    ``torch.autograd.profiler_util.FunctionEventAvg``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> from fdiff.profiler import profile
    >>> with profile() as prof:
    ...     g = fdiff.grad(np.sin)(0.0)
    >>> average = prof.key_averages()[0]
    >>> average.count, average.cpu_time_total >= average.self_cpu_time_total
    (1, True)
    """

    def __init__(self) -> None:
        self.key = ""
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.flops = 0
        self.category = ""
        self.input_shapes: Sequence[Sequence[int]] = ()
        self.stack: list[str] = []
        self.cpu_parent: FunctionEvent | None = None
        self.use_device: str | None = None

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event or a sum of events, and return this object."""
        if not self.count:
            self.key, self.category, self.stack = other.key, other.category, other.stack
            self.input_shapes, self.cpu_parent = other.input_shapes, other.cpu_parent
            self.use_device = other.use_device
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.device_time_total += other.device_time_total
        self.self_device_time_total += other.self_device_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.flops += other.flops
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={printable(self.key)}"
            f" self_cpu_time={self.self_cpu_time_total_str}"
            f" cpu_time={self.cpu_time_str} count={self.count}>"
        )
