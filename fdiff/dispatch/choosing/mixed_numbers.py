"""Numbers that are Python numbers on some paths through a body, and NumPy numbers on others.

A variable that holds a Python number before a body and a traced one after some of its paths
has a flag that tells whether it is new. A number that is computed from such numbers and Python
numbers is a Python number as long as all of them are: its flag is true if one of theirs is.
Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import fdiff.intact_numpy as np

from ...capture.sources.loop_rewriting import UNBOUND
from ...node import Node
from ...primitive import PRIMITIVES
from ...trace import Trace, TracedArray
from ...trace.looping.logged_calls import same
from .trip_numbers import DIVIDING, OF_PYTHON
from .variables import TRUTH, PathRun, RefusedLoopError, Variable

_OR, _POWER = PRIMITIVES["logical_or"], PRIMITIVES["power"]
_NONE = frozenset[int]()


class MixedNumbers:
    """The numbers of a trace that may be Python's or NumPy's, each with the flag that tells which.

    The body may read numbers of the body around it (`outer`). A number is `unsure` if a later pass
    may give it another value than the first run, in which Python would have raised its errors.
    """

    def __init__(self, trace: Trace, outer: MixedNumbers | None) -> None:
        self.trace, self.outer = trace, outer
        self.unsure = set[int]()
        self._flags = dict[int, TracedArray]()
        self._origins = dict[int, frozenset[int]]()  # of numbers that may be Python's
        self._met = 0  # nodes whose origins are told
        self._joined = dict[frozenset[int], TracedArray]()

    def add(self, node: int, flag: TracedArray) -> None:
        """A node whose flag tells whether it is NumPy's."""
        self._flags[node] = flag
        self._origins[node] = frozenset([node])

    def add_own(self, nodes: Iterable[int]) -> None:
        """Nodes that are Python numbers."""
        self._origins.update(dict.fromkeys(nodes, _NONE))

    def flag(self, node: int) -> TracedArray | None:
        """What tells whether a node is a NumPy number; None where that is not in doubt."""
        origins = self._all_origins().get(node, _NONE)
        if not origins:
            return None
        if origins not in self._joined:
            first, *others = [self._flags[i].node for i in sorted(origins)]
            for other in others:
                first = self.trace.add(_OR, (first, other))
            self._joined[origins] = TracedArray(self.trace, first, TRUTH, scalar=True)
        return self._joined[origins]

    def check(self) -> None:
        """Refuse quotients and powers of unsure numbers, for which Python may raise an error."""
        origins, nodes = self._all_origins(), self.trace.builder.nodes
        for primitive, args, _, _ in nodes:
            if primitive in DIVIDING and all(a in origins for a in args):
                unsure = any(not self.unsure.isdisjoint(origins[a]) for a in args)
                if unsure and not _is_harmless(nodes[args[1]].value, whole=primitive is _POWER):
                    raise RefusedLoopError("it divides by what may be a Python number")

    def _all_origins(self) -> dict[int, frozenset[int]]:
        """The origins of all numbers that may be Python's."""
        nodes = self.trace.builder.nodes
        while self._met < len(nodes):
            i, self._met = self._met, self._met + 1
            if i not in self._origins:
                self._read(i)
            if i not in self._origins and (origins := self._computed(nodes[i])) is not None:
                self._origins[i] = origins
        return self._origins

    def _read(self, node: int) -> None:
        """Note a number of a body around that is read here."""
        handle, outer = self.trace.guards.given.get(node), self.outer
        while outer is not None and outer.trace is not getattr(handle, "home", None):
            outer = outer.outer
        if outer is None or not isinstance(handle, TracedArray):
            return
        flag, origins = outer.flag(handle.id), outer._all_origins().get(handle.id)
        if flag is not None and origins is not None:
            self.add(node, TracedArray(self.trace, self.trace.lift(flag), TRUTH, scalar=True))
            self.unsure |= {node} if origins & outer.unsure else set()
        elif origins is not None:
            self.add_own([node])

    def _computed(self, node: Node) -> frozenset[int] | None:
        """The origins of what a node computes; None if it is NumPy's."""
        if any(t.shape for t in node.types):
            return None
        if node.value is not None:
            return _NONE
        of_python = node.primitive in OF_PYTHON and all(a in self._origins for a in node.args)
        return _NONE.union(*[self._origins[a] for a in node.args]) if of_python else None


def note_inputs(
    mixed: MixedNumbers,
    index: int,
    variables: Sequence[Variable],
    inputs: Sequence[object],
    flags: Mapping[int, TracedArray],
) -> None:
    """Note which inputs of a body are Python numbers, as is the `index`, or may be."""
    own = [index]
    for k, (v, h) in enumerate(zip(variables, inputs, strict=True)):
        if not isinstance(h, TracedArray) or not v.scalar:
            continue
        if v.is_counted or v.weak:
            own.append(h.node)
        elif k in flags:
            mixed.add(h.node, flags[k])
            mixed.unsure |= {h.node} if v.unsure else set()
    mixed.add_own(own)


def note_unsure(
    variables: Sequence[Variable],
    loose: Iterable[int],
    runs: Sequence[PathRun],
    is_new: Callable[[object], bool],
) -> bool:
    """Note the `loose` variables that may hold Python numbers that they did not hold at first.

    Whether all these were noted before.
    """
    noted = True
    for k in loose:
        v = variables[k]
        pairs = [(run.values[k], run.inputs[k]) for run in runs]
        others = [value for value, own in pairs if value is not own and value is not UNBOUND]
        others = [x for x in others if not (is_new(x) or (type(x) is float and same(x, v.start)))]
        if v.scalar and others and not v.unsure:
            v.unsure, noted = True, False
    return noted


def _is_harmless(divisor: object, *, whole: bool) -> bool:
    """Whether numbers divided by a constant, or a `whole` power, raise no Python error."""
    if divisor is None:
        return False
    value = float(np.asarray(divisor))
    return value > 0 and value == np.floor(value) if whole else value != 0
