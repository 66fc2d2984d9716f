"""Labels in a profile, and ranges for the profilers of NVIDIA and Intel."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import partial
from typing import Self

from ..errors import DeviceError, InputError, failure, flag, message
from ..foreign_errors import not_foreign, uninterrupted_entry, whole_exit
from ..named_tuples import NamedTuple
from ..process import observed_spans
from ..process.forking import imported
from ..process.observed_spans import LABEL, Span
from ..tracebacks import public_class
from .collection import begin_watching, end_watching


@public_class
class record_function(ContextDecorator):  # noqa: N801 - torch's name
    """Label the code of a ``with`` statement, or each call of a function, in a profile.

    Inside a differentiated function, a label covers only the tracing, because the recorded
    operations run later, all at once.

    Parameters
    ----------
    name : str
        The label: the name of the event in the table.
    args : str, optional
        Further text about the section.

    Raises
    ------
    InputError
        If `name` is no str.

    References
    ----------
    ``torch.autograd.profiler.record_function``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> from fdiff.profiler import profile, record_function
    >>> with profile() as prof:
    ...     with record_function("gradient"):
    ...         g = fdiff.grad(np.sum)(np.ones(3))
    >>> prof.key_averages()[0]
    <FunctionEventAvg key=gradient self_cpu_time=... cpu_time=... count=1>
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users need not check types
            fact = f"the label must be a str, not {type(name).__name__}."
            raise failure(InputError, "record_function", fact, "Write record_function(str(label)).")
        self.name, self.args = name, args
        self._spans: list[Span | None] = []

    def _recreate_cm(self) -> record_function:
        """For each call of a decorated function, so that threads do not share one."""
        return record_function(self.name, self.args)

    def __enter__(self) -> Self:
        seen = observed_spans.observer
        span = None if seen is None else seen.begin(self.name, LABEL)
        if span is not None and self.args is not None:
            span.args["args"] = self.args
        self._spans.append(span)
        return self

    @uninterrupted_entry
    def __exit__(self, *_: object) -> None:
        if (span := self._spans.pop()) is not None:
            span.close()


class Ranges(NamedTuple):
    """How ranges are begun and ended: both for the thread that calls."""

    push: Callable[[str], object]
    pop: Callable[[], object]


class _Emitter:
    """A context in which every span is a range of another profiler."""

    stack = memory = flops = device = False
    _what = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:  # noqa: FBT001, FBT002 - torch's signature
        name = type(self).__name__
        self.enabled = flag(enabled, "enabled", name)
        self.entered = False
        self.shapes = flag(record_shapes, "record_shapes", name)
        self._ranges: Ranges | None = None

    def _find(self) -> Ranges:
        raise NotImplementedError

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self.entered:
            fact = f"{self._what} annotation context manager is not reentrant."
            raise RuntimeError(message(type(self).__name__, fact, "Make another one."))
        self._ranges = self._find()
        self.entered = True
        try:
            begin_watching(self, sys._getframe(1))
        except BaseException:
            end_watching(self)
            raise
        return self

    @whole_exit
    def __exit__(self, *_: object) -> None:
        if self._ranges is not None:
            end_watching(self)

    def opened(self, span: Span) -> None:
        """Begin the range of a span."""
        assert self._ranges is not None, "it watches once it is entered"
        sizes = f", sizes = {span.shapes}" if self.shapes and span.shapes is not None else ""
        self._ranges.push(f"{span.name}{sizes}")

    def closed(self, span: Span) -> None:
        """End it."""
        assert self._ranges is not None, "it watches once it is entered"
        self._ranges.pop()

    def noted(self, span: Span) -> None:
        """Nothing: the other profiler would take it for now."""


@public_class
class emit_nvtx(_Emitter):  # noqa: N801 - torch's name
    """Make every event an NVTX range, for a program that runs under nvprof or Nsight Systems.

    The ranges are the events of `profile`, without the loop nests of a kernel, which are measured
    later. They are emitted through the package ``nvtx``, or NVIDIA's ``libnvToolsExt``.

    Parameters
    ----------
    enabled : bool
        If False, nothing is emitted.
    record_shapes : bool
        Append the shapes of the array arguments of an event: ``sin, sizes = [[3]]``.

    Raises
    ------
    DeviceError
        If neither the package nor the library is found when the context is entered.
    RuntimeError
        If the same object is entered again.

    References
    ----------
    ``torch.autograd.profiler.emit_nvtx``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> with fdiff.profiler.emit_nvtx(enabled=False):
    ...     print(fdiff.grad(np.sin)(0.0))
    1.0
    """

    _what = "NVTX"

    def _find(self) -> Ranges:
        try:
            nvtx = imported("nvtx")
        except ImportError:
            return _of_library()
        return Ranges(nvtx.push_range, nvtx.pop_range)


@public_class
class emit_itt(_Emitter):  # noqa: N801 - torch's name
    """Make every event an ITT task, for a program that runs under Intel VTune Profiler.

    Like `emit_nvtx`, through the package ``ittapi``.

    Parameters
    ----------
    enabled : bool
        If False, nothing is emitted.
    record_shapes : bool
        Append the shapes of the array arguments of an event.

    Raises
    ------
    DeviceError
        If the package is not found when the context is entered.
    RuntimeError
        If the same object is entered again.

    References
    ----------
    ``torch.autograd.profiler.emit_itt``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> with fdiff.profiler.emit_itt(enabled=False):
    ...     print(fdiff.grad(np.sin)(0.0))
    1.0
    """

    _what = "ITT"

    def _find(self) -> Ranges:
        try:
            itt = imported("ittapi")
        except ImportError:
            way = "Install it: pip install ittapi."
            raise failure(DeviceError, "emit_itt", "there is no package ittapi.", way) from None
        domain = itt.domain("fdiff")
        begin = partial(itt.task_begin, domain)
        return Ranges(lambda text: begin(itt.string_handle(text)), partial(itt.task_end, domain))


_LIBRARIES = ("libnvToolsExt.so.1", "libnvToolsExt.so", "nvToolsExt64_1.dll")


def _of_library() -> Ranges:
    """Ranges by NVIDIA's library, which CUDA has brought along up to version 12."""
    path = ctypes.util.find_library("nvToolsExt")
    for name in (*([path] if path else []), *_LIBRARIES):
        try:
            library = ctypes.CDLL(name)
        except not_foreign(OSError):
            continue
        push, pop = library.nvtxRangePushA, library.nvtxRangePop
        push.argtypes, push.restype = [ctypes.c_char_p], ctypes.c_int
        pop.argtypes, pop.restype = [], ctypes.c_int
        return Ranges(partial(_pushed, push), pop)
    fact = "there is neither a package nvtx nor a library libnvToolsExt."
    raise failure(DeviceError, "emit_nvtx", fact, "Install the package: pip install nvtx.")


def _pushed(push: Callable[[bytes], int], text: str) -> int:
    """Begin a range whose name the library takes as bytes."""
    return push(text.encode())
