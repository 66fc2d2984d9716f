"""Branches that hold at this very point alone, such as a hit of a memo.

``if np.array_equal(x, self.last): return self.value`` gives the right value, but no derivative. The
condition is true where a differentiated value equals another one, and false around it: so is the
branch around the point another one. Such conditions are found by moving the value that the
differentiated one is compared with. Our own method.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fdiff.intact_numpy as np

from ...foreign_errors import not_foreign
from ...process.forking import late
from ...tape import CONSTANT, Tape
from ...user_lines import user_line
from ..recorder import Recorder
from ..trace_stack import stack

asks_for_literal = late("literal_operands", "fdiff.capture", "asks_for_literal")
is_literal = late("literal_operands", "fdiff.capture", "is_literal")
FEW = 64  # so many nodes before the condition are looked at
KEY = 1 << 20
_NEAR = 1e-3  # relative distance of values that count as compared for equality


def is_denied(trace: Recorder, node_id: int) -> bool:
    """Whether to take a condition as it is around the point, where it holds there alone."""
    session = stack.traces[0].session if stack.traces else None
    if session is None or not trace.guards.depends(node_id):
        return False
    strong = _holds_here(trace, node_id)
    return strong is not None and session.only_here(strong=strong)


def is_denied_number(trace: Recorder, node_id: int, value: float) -> bool:
    """Whether a whole number made of a differentiated value is to be another one.

    One as large as that serves as a key: it changes with any digit of the value.
    """
    if abs(value) < KEY or not stack.traces or not trace.guards.depends(node_id):
        return False
    session = stack.traces[0].session
    return session is not None and session.only_here(strong=False)


def other_text(value: object) -> Any:
    """The number from which text is made in place of a differentiated one, as for a key."""
    session = stack.traces[0].session if stack.traces else None
    if session is None or not session.only_here(strong=False):
        return value
    return a_little_off(np.asarray(value), 1.0)


def is_denied_key() -> bool:
    """Whether a key made of a differentiated value is to equal none that was kept."""
    session = stack.traces[0].session if stack.traces else None
    return session is not None and session.only_here(strong=True)


def _holds_here(trace: Recorder, node_id: int) -> bool | None:
    """Whether a differentiated value is what a condition compares, where it holds here alone.

    False where it is a rounded one, or a tie that was neither smaller nor larger. None of other
    conditions.
    """
    visited, holds = _ancestors(trace, node_id), None
    if not trace.guards.is_known(node_id):
        return None
    for i, a, b in _near_operands(trace, visited):
        if not _is_with_literal(trace, i, b, asked=i == node_id):
            here = bool(_value(trace, node_id))
            below, above = (_truth_nearby(trace, visited, [b], sign, b) for sign in (-1.0, 1.0))
            if here not in (below, above) and _holds_only_here(trace, node_id, here=here):
                if trace.guards.is_active(a):
                    return True
                holds = False
            elif below != above and np.array_equal(_value(trace, a), _value(trace, b)):
                trace.ties.add((a, b, below))
                holds = False if (a, b, above) in trace.ties else holds
    return holds


def _holds_only_here(trace: Recorder, node_id: int, *, here: bool) -> bool:
    """Whether a condition does not hold where what is differentiated is a little more or less.

    As it does where an iteration has converged, whose last residual is near zero everywhere.
    """
    visited = _ancestors(trace, node_id, None)
    inputs = [i for i in visited if not trace.builder.nodes[i].args]

    def moved() -> list[bool]:
        return [_truth_nearby(trace, visited, inputs, sign, None) for sign in (-1.0, 1.0)]

    try:
        return here not in moved()
    except not_foreign(ArithmeticError, IndexError, TypeError, ValueError, again=moved):
        return True


def _ancestors(trace: Recorder, node_id: int, most: int | None = FEW) -> list[int]:
    """A node and the differentiated nodes that it depends on, the nearest first."""
    nodes, guards = trace.builder.nodes, trace.guards
    visited = {node_id: None}
    waiting = [node_id]
    for i in waiting:
        if most is not None and len(visited) >= most:
            break
        more = [a for a in nodes[i].args if a not in visited and guards.depends(a)]
        visited.update(dict.fromkeys(more))
        waiting += more
    return [*visited]


def _near_operands(trace: Recorder, visited: list[int]) -> Iterator[tuple[int, int, int]]:
    """Nodes with two operands of nearly equal values: a differentiated one, and another one."""
    nodes, guards = trace.builder.nodes, trace.guards
    for i in visited:
        if i in guards.apart:  # as most nodes are, which many conditions depend on
            continue
        near, args = list[tuple[int, int, int]](), nodes[i].args
        for b in args if len(args) > 1 else ():
            node = nodes[b]
            if len(node.types) == 1 and node.type.floating and not guards.depends(b):
                y = _value(trace, b)
                others = (a for a in args if guards.depends(a))
                near += [(i, a, b) for a in others if is_close(_value(trace, a), y)]
        if not near:
            guards.apart.add(i)
        yield from near


def _is_with_literal(trace: Recorder, node_id: int, operand: int, *, asked: bool) -> bool:
    """Whether an operand of a node is a literal of the user's code.

    Eager traces note no lines: there the node that is `asked` for its truth is known alone.
    """
    if trace.eager:
        line = user_line() if asked else None
        return line is not None and asks_for_literal(line)
    node = trace.builder.nodes[operand]
    value = node.value if node.primitive is CONSTANT else None
    return value is not None and is_literal(trace.builder.lines.get(node_id, ()), value)


def is_close(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two values have entries that are nearly equal, but for the sign."""
    if a.size == 1 and b.size == 1:
        x, y = abs(a.item()), abs(b.item())
        return abs(x - y) <= _NEAR * max(x, y)
    try:
        with np.errstate(all="ignore"):
            distance = np.abs(np.abs(a) - np.abs(b))
            return bool(np.any(distance <= _NEAR * np.maximum(np.abs(a), np.abs(b))))
    except not_foreign(TypeError, ValueError):
        return False


def _value(trace: Recorder, node_id: int) -> np.ndarray:
    return np.asarray(_value_at_point(trace, node_id))


def _evaluate(trace: Recorder, node_id: int, args: list[object]) -> object:
    if trace.eager:
        return trace.builder.ops[node_id].call(*args)  # type: ignore[attr-defined] - eager builders have `ops`
    node = trace.builder.nodes[node_id]
    return node.primitive.rules.evaluate(*args, **dict(node.params))


def _value_at_point(trace: Recorder, node_id: int) -> object:
    if trace.eager:
        return trace.builder.values[node_id]  # type: ignore[attr-defined] - of an `EagerBuilder`
    return trace.guards.value(node_id, "compared a value")


def _truth_nearby(
    trace: Recorder, visited: list[int], moved: list[int], sign: float, name: int | None
) -> bool:
    """The truth of the first of `visited` where values in it are a little larger or smaller.

    By the `name` of what is moved, values of loops are kept for the next condition.
    """
    nodes = trace.builder.nodes
    kept = {} if trace.eager else trace.guards.moved.setdefault((name, sign), {})
    with np.errstate(all="ignore"):
        values = {i: a_little_off(_value(trace, i), sign) for i in moved}
        for i in sorted({*visited}):
            node = nodes[i]
            changed = [a for a in node.args if a in values]
            if i not in values and changed:
                args = [values[a] if a in values else _value_at_point(trace, a) for a in node.args]
                values[i] = kept[i] if i in kept else _evaluate(trace, i, args)
                direct = name is None or all(a in kept or a == name for a in changed)
                if direct and not trace.eager and any(isinstance(p, Tape) for _, p in node.params):
                    kept[i] = values[i]
        return bool(values[visited[0]])


def a_little_off(value: np.ndarray, sign: float) -> object:
    if value.dtype.kind not in "fc":
        return value
    scale = float(np.max(np.abs(value[np.isfinite(value)]), initial=0.0)) or 1.0
    return (value + sign * (_NEAR * np.abs(value) + _NEAR**2 * scale)).astype(value.dtype)
