"""The values that a run stores outside in place of traced values, now and at later calls.

See docs/decisions/writes-to-the-outside.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import cast
from weakref import ref

import fdiff.intact_numpy as np

from ..capture.written.traced_value_release import NoValueError
from ..capture.written.write_targets import NoEffectError, WrittenOutput
from ..errors import TraceError
from ..foreign_errors import contextmanager, not_foreign
from ..ops.scipy_functions import only_captured
from ..primitive import PRIMITIVES
from ..trace import Trace, TracedArray
from ..trace.handler_arguments import resolve
from ..trace.trace_stack import stack
from ..trace.traced_keys import Text, TracedKey, is_made_of_value


def settled(value: object) -> object:
    """The concrete value in place of a traced array, or NoValueError.

    A mapped element of a batch has many values; an argument that stands for a type has none.
    """
    resolved = resolve(value)
    if type(resolved) is Text:
        return str(resolved)
    if type(resolved) is TracedKey:
        return resolved.plain
    if not isinstance(resolved, TracedArray):
        return value
    guards = resolved.home.guards
    if guards.closed:  # the guards of an earlier run
        return value
    if guards.is_batched(resolved.id) or (stack.examples and not only_captured(resolved)):
        raise NoValueError(resolved)
    value_of = partial(guards.value, resolved.id, "kept a value beyond the run")
    try:
        array = np.array(value_of())
    except not_foreign(TraceError, ArithmeticError, ValueError, again=value_of):
        raise NoValueError(resolved) from None
    return array.item() if resolved.weak else array[()] if resolved.scalar else array


def depends(value: object) -> bool:
    """Whether a value, or a tuple of values, depends on a differentiated input."""
    if isinstance(value, tuple):
        return any(map(depends, value))
    resolved = resolve(value)
    if isinstance(resolved, TracedArray):
        return not resolved.home.guards.closed and resolved.home.guards.depends(resolved.id)
    if isinstance(resolved, str):
        return is_made_of_value(resolved)
    return type(resolved) is TracedKey


class WrittenValues:
    """The numbers that a tape reads anew at each call, and the values that are written."""

    def __init__(self, trace: ref[Trace]) -> None:
        self._trace = cast("Callable[[], Trace]", trace)

    def number(self, handle: object, *, weak: bool) -> object:
        """A captured array that stands for a number: a Python number if it is `weak`."""
        assert isinstance(handle, TracedArray)
        handle.link, handle.scalar, handle.weak = None, True, weak
        return handle

    @contextmanager
    def unseen(self) -> Generator[None]:
        """A context for showing values that later calls show anew."""
        shown = [(trace, trace.shown) for trace in stack.traces]
        try:
            yield
        finally:
            for trace, before in shown:
                trace.shown = before

    def output(self, value: object) -> WrittenOutput | None:
        """The output for a value; None for a value that is not traced."""
        resolved = resolve(value)
        if not isinstance(resolved, TracedArray):
            return None
        guards, trace = resolved.home.guards, self._trace()
        mine = resolved.home.builder is trace.builder and not guards.closed
        if (
            not mine
            or guards.is_batched(resolved.id)
            or (stack.examples and not only_captured(resolved))
        ):
            raise NoEffectError
        kind = "item" if resolved.weak else "scalar" if resolved.scalar else "copy"
        return WrittenOutput(resolved.id, resolved.dtype, kind)


def stacked(trace: Trace, nodes: tuple[int, ...]) -> int:
    """The node of an array of these numbers; a single node as it is."""
    if len(nodes) == 1:
        return nodes[0]
    params = (("shape", (1,)),)
    parts = tuple([trace.add(PRIMITIVES["reshape"], (node,), params) for node in nodes])
    return trace.add(PRIMITIVES["concatenate"], parts, (("axis", 0),))
