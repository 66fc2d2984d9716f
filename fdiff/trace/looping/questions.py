"""Questions: Python asks a traced value for its truth or for a number, which is a call of a loop.

The arguments of such a call are the handle and the answer. Where a template is checked, the answer
is computed (`trip_values.py`), and the trip that it leads elsewhere is cut short. In the body, each
question is compared with its answer; that all of them agree is one more carry, and the guard of the
loop. Our own: docs/decisions/plain-loops-that-branch.md.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import INT
from ...primitive import PRIMITIVES
from ..branching.guard_nodes import truth
from ..concrete_values import asked
from ..recorder import NumberClass, Recorder
from ..traced_array import TracedArray
from .logged_calls import LoggedCall, same, taken_apart


class Question:
    """A question that Python asks a handle: for a number of class `kind`."""

    __slots__ = ("__name__", "kind")

    def __init__(self, kind: NumberClass) -> None:
        self.kind, self.__name__ = kind, f"{kind.__name__}()"

    def __call__(self, handle: TracedArray, answer: object = None) -> object:
        """Ask a handle that has a node, which is a guard from now on; the answer may be known."""
        value = asked(handle, self.kind)
        if answer is not None and not same(value, answer):
            raise handle.home.fail(
                f"a loop was traced whose code saw {answer!r}, and sees {value!r} again.",
                "Unroll loops: FDIFF_LOOPS=unroll.",
            )
        return value

    def answer(self, value: object) -> complex | None:
        """The answer that Python gets for a value; None where the trace has to decide."""
        number = np.asarray(value).item()
        if self.kind is int and not abs(number) < 2**63:
            return None
        return self.kind(number)

    def agrees(self, trace: Recorder, node: int, answer: object) -> int:
        """Node of whether the value of a node is what it was: a number, or an entry of a row."""
        if self.kind is bool:
            seen = truth(trace, node)
            return seen if answer else trace.add(PRIMITIVES["logical_not"], (seen,))
        dtype = INT if self.kind is int else np.dtype(self.kind)
        if trace.builder.type(node).dtype != dtype:
            node = trace.add(PRIMITIVES["convert"], (node,), (("dtype", dtype),))
        if trace.builder.type(node).shape:
            node = trace.add(PRIMITIVES["reshape"], (node,), (("shape", ()),))
        return _same_bits(trace, node, trace.lift(answer, dtype))


QUESTIONS = {kind: Question(kind) for kind in (bool, int, float, complex)}


def question_of(handle: TracedArray, kind: NumberClass) -> LoggedCall:
    """A question as a call, not yet answered."""
    call = LoggedCall()
    call.fn, call.handles, call.values = QUESTIONS[kind], [handle], []
    call.outs, call.origins, call.types, call.writes, call.bases = [], [], [], [], []
    call.result = "new", type(None), (None,), (type(None),)
    call.shape = taken_apart((handle, kind()), {}, [], [])
    return call


def _same_bits(trace: Recorder, a: int, b: int) -> int:
    """Node of whether two floats are the same, where NaN equals NaN, and -0 not 0."""

    def add(name: str, *args: int) -> int:
        return trace.add(PRIMITIVES[name], args)

    alike = add("equal", a, b)
    if trace.builder.type(a).dtype.kind not in "fc":
        return alike
    unknown = add("logical_and", add("isnan", a), add("isnan", b))
    for name in ("real", "imag") if trace.builder.type(a).dtype.kind == "c" else (None,):
        x, y = (add(name, a), add(name, b)) if name else (a, b)
        signs = add("equal", add("signbit", x), add("signbit", y))
        alike = add("logical_and", alike, signs)
    return add("logical_or", alike, unknown)
