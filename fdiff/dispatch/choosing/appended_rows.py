"""What trips of a loop append to lists, as rows of its node.

Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...arraytype import ArrayType
from ...trace import Trace, TracedArray
from .answers import Answers
from .variables import RefusedLoopError, Variable, WayRun


class AppendedRows:
    """The rows of a loop's node that hold what its trips append; `kinds` are their types.

    `partners` are the variables that hold an appended array, by its place, behind the trip.
    """

    def __init__(self, runs: Sequence[WayRun], count: int) -> None:
        self.runs, self.count = runs, count
        self.kinds: list[tuple[ArrayType, bool]] = []
        self.partners: dict[int, int] = {}
        self._trace: Trace | None = None
        self._rows: Sequence[TracedArray] = ()
        self._length, self._values = 0, list[object]()

    def check(self, log: Answers, variables: Sequence[Variable]) -> None:
        """Refuse values that are not traced, of several types, or held elsewhere."""
        for run in self.runs:
            own = run.values[self.count :]
            kinds, partners = list[tuple[ArrayType, bool]](), dict[int, int]()
            for place, value in enumerate(own):
                kinds.append(self._kind(value, log))
                if kinds[-1][1]:
                    _check_number(value, run, log, variables)
                else:
                    if any(v is value for v in run.inputs) or sum(v is value for v in own) > 1:
                        raise RefusedLoopError("it appends an array that has other names")
                    held = [k for k in range(self.count) if run.values[k] is value]
                    if held:
                        partners[place] = held[0]
                    if len(held) > 1:
                        raise RefusedLoopError("it appends an array that has other names")
            if run is not self.runs[0] and (kinds, partners) != (self.kinds, self.partners):
                raise RefusedLoopError("it appends values of several types, or with other names")
            self.kinds, self.partners = kinds, partners

    @staticmethod
    def _kind(value: object, log: Answers) -> tuple[ArrayType, bool]:
        if not isinstance(value, TracedArray) or value.weak or value.home is not log.trace:
            raise RefusedLoopError("it appends what is not traced in the trip")
        if not (value.scalar or value.type.shape):
            raise RefusedLoopError("it appends an array of no axes")
        return value.type, value.scalar

    def arrays(self, run: WayRun) -> list[object]:
        """The arrays that a run appends, but for those that variables hold, too."""
        own = enumerate(run.values[self.count :])
        return [v for place, v in own if place not in self.partners]

    def enter(self, trace: Trace, rows: Sequence[TracedArray], length: int) -> None:
        """Note the rows of the node that is entered."""
        self._trace, self._rows, self._length = trace, rows, length

    def hold(self, values: list[object]) -> None:
        """Note what variables hold behind the loop."""
        self._values = values

    def trips(self) -> Iterator[list[object]]:
        """What each trip has appended."""
        trace = self._trace
        if not self._rows or trace is None or trace.calls is None:
            return
        trace.calls.depth += 1  # the calls are none of the user's
        try:
            for trip in range(self._length):
                ids = [row[trip].id for row in self._rows]
                own: list[object] = [
                    TracedArray(trace, node, type_, scalar=scalar)
                    for node, (type_, scalar) in zip(ids, self.kinds, strict=True)
                ]
                if trip == self._length - 1:
                    for place, k in self.partners.items():
                        own[place] = self._values[k]
                yield own
        finally:
            trace.calls.depth -= 1


def _check_number(value: object, run: WayRun, log: Answers, variables: Sequence[Variable]) -> None:
    """Refuse a number that may be one of Python's, which a variable held before."""
    before = [v.start for v, h in zip(variables, run.inputs, strict=True) if h is value]
    python = any(not isinstance(h, TracedArray) or h.weak for h in before)
    if python or log.type_of(value) is not None or log.flag_of(value) is not None:
        raise RefusedLoopError("it appends what may be a number of Python's")
