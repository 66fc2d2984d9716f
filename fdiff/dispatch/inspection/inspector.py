"""The inspector: NumPy runs a tape once more, and a watcher looks at each node.

A watcher is a function of a `NodeRun` that returns the value of the node. Four use it: the search
for the trip and the line of an error (`functional/call/numpy_error_lines.py`), for what made a NaN
(`anomalies.py`), for warnings of NumPy (`float_warnings.py`), and the profiler
(`profiled_tapes.py`). All enter bodies of loops and branches in one way (`Inspector.bodies`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...hooks import hooks
from ...interpret import Interpreter, Step
from ...named_tuples import NamedTuple
from ...process.float_flags import noting
from ...tape import Node, Tape
from ...trace.derived_lines import as_counted
from ...transforms.pipeline import INSPECT, derive
from ...user_lines import Line
from .body_runs import IsBad, has_bodies, is_long, suspects
from .partial_loops import alone, laid_out

Values = Sequence[object]
Watcher = Callable[["NodeRun"], object]


class NodeRun(NamedTuple):
    """A node that is about to be run: whose tape it is on, its step and its operands."""

    inspector: Inspector
    step: Step
    operands: tuple[object, ...]

    @property
    def node(self) -> Node:
        return self.inspector.tape.nodes[self.step[1]]

    @property
    def line(self) -> Line | None:
        return self.inspector.line(self.step[1])

    def value(self) -> object:
        """The value of the node; of a long loop by whatever tier its number of trips is worth."""
        node = self.node
        if not is_long(node, self.operands):
            return self.step[0](*self.operands)
        arrays = laid_out(self.operands)
        outs = hooks.runner(alone(node, arrays))(arrays)
        return outs[0] if len(node.types) == 1 else tuple(outs)

    def bodies(self, is_bad: IsBad | None) -> Iterator[BodyRun]:
        """The runs of the node's bodies that are worth a look."""
        return self.inspector.bodies(self.step[1], self.operands, is_bad)


class BodyRun(NamedTuple):
    """A body that is run: its inspector and arguments, its trip if the node `line` is a loop."""

    inspector: Inspector
    arguments: Values
    trip: int | None
    line: Line | None

    def trips(self, inner: tuple[int, ...] = ()) -> tuple[int, ...]:
        """The trips of the loops around something inside, from this node on, outermost first."""
        return as_counted(self.line, inner if self.trip is None else (self.trip, *inner))


class Inspector:
    """A tape, laid out to be run node by node, with calls of the user's rules inlined.

    An interpreter that is given for the tape is used. With `keeps`, no value is dropped.
    """

    def __init__(self, tape: Tape, plan: Interpreter | None = None, *, keeps: bool = False) -> None:
        self.tape = derive(INSPECT, tape) if plan is None else tape
        self.plan = plan or Interpreter(self.tape, keeps=keeps)
        self._bodies: dict[int, Inspector] = {}  # of loops, laid out once for all trips

    def values(self, arrays: Values, watcher: Watcher = NodeRun.value) -> list[object]:
        """The values of the nodes, each computed by the watcher; NumPy does not warn."""
        at_node = lambda step, *operands: watcher(NodeRun(self, step, operands))  # noqa: E731 - a call of one line
        with noting():
            return self.plan.values(arrays, self.plan.inspected(at_node))

    def outputs(self, arrays: Values, watcher: Watcher = NodeRun.value) -> list[object]:
        """The outputs of the tape."""
        values = self.values(arrays, watcher)
        return [values[o] for o in self.tape.outputs]

    def line(self, i: int) -> Line | None:
        """The user's line of a node."""
        return next(iter(self.tape.lines.get(i, ())), None)

    def bodies(self, i: int, operands: Values, is_bad: IsBad | None) -> Iterator[BodyRun]:
        """The runs of a node's bodies that are worth a look (`suspects`): none of most nodes."""
        node = self.tape.nodes[i]
        for body, arguments, trip in suspects(node, operands, is_bad) if has_bodies(node) else ():
            inspector = self._bodies.get(id(body)) or Inspector(body, keeps=self.plan.keeps)
            if trip is not None:
                self._bodies[id(body)] = inspector
            yield BodyRun(inspector, arguments, trip, self.line(i))
