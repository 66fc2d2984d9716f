"""What a run leaves outside in place of traced values, now and at later calls."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import cast
from weakref import ref

import fdiff.intact_numpy as np

from ..capture.release import NoValueError
from ..capture.write_targets import NoEffectError, WrittenOutput
from ..errors import TraceError
from ..ops.scipy_functions import only_captured
from ..primitive import PRIMITIVES
from ..trace import Trace, TracedArray
from ..trace.handler_arguments import resolve
from ..trace.trace_stack import stack
from ..trace.traced_keys import Text, TracedKey, is_made_of_value


def settled(value: object) -> object:
    """The concrete value in place of a traced array, or NoValueError.

    A mapped element of a batch has no single value, nor has an argument that stands for a type.
    """
    given = resolve(value)
    if type(given) is Text:
        return str(given)
    if type(given) is TracedKey:
        return given.plain
    if not isinstance(given, TracedArray):
        return value
    guards = given.home.guards
    if guards.closed:  # of a run before this one
        return value
    if guards.is_batched(given.id) or (stack.examples and not only_captured(given)):
        raise NoValueError(given)
    try:
        array = np.array(guards.value(given.id, "kept a value beyond the run"))
    except (TraceError, ArithmeticError, ValueError):
        raise NoValueError(given) from None
    return array.item() if given.weak else array[()] if given.scalar else array


def depends(value: object) -> bool:
    """Whether a value, or a tuple of values, depends on a differentiated input."""
    if isinstance(value, tuple):
        return any(map(depends, value))
    given = resolve(value)
    if isinstance(given, TracedArray):
        return not given.home.guards.closed and given.home.guards.depends(given.id)
    if isinstance(given, str):
        return is_made_of_value(given)
    return type(given) is TracedKey


class WrittenValues:
    """The numbers that a tape reads anew at each call, and the values that are written."""

    def __init__(self, trace: ref[Trace]) -> None:
        self._trace = cast("Callable[[], Trace]", trace)

    def number(self, handle: object, *, weak: bool) -> object:
        """A captured array that stands for a number, of Python if it is `weak`."""
        assert isinstance(handle, TracedArray)
        handle.link, handle.scalar, handle.weak = None, True, weak
        return handle

    @contextmanager
    def unseen(self) -> Generator[None]:
        """A context in which values are shown that later calls show anew."""
        shown = [(trace, trace.shown) for trace in stack.traces]
        try:
            yield
        finally:
            for trace, before in shown:
                trace.shown = before

    def output(self, value: object) -> WrittenOutput | None:
        """The output that a value is; None of one that is not traced."""
        given = resolve(value)
        if not isinstance(given, TracedArray):
            return None
        guards, trace = given.home.guards, self._trace()
        mine = given.home.builder is trace.builder and not guards.closed
        if not mine or guards.is_batched(given.id) or (stack.examples and not only_captured(given)):
            raise NoEffectError
        kind = "item" if given.weak else "scalar" if given.scalar else "copy"
        return WrittenOutput(given.id, given.dtype, kind)


def stacked(trace: Trace, nodes: tuple[int, ...]) -> int:
    """The node of an array of these numbers; a single node as it is."""
    if len(nodes) == 1:
        return nodes[0]
    one = (("shape", (1,)),)
    parts = tuple([trace.add(PRIMITIVES["reshape"], (node,), one) for node in nodes])
    return trace.add(PRIMITIVES["concatenate"], parts, (("axis", 0),))
