"""Anomalies in backward passes of recorded arrays: each node is checked after its rule ran.

A watched pass goes node by node, never by a compiled tape. The first cotangent that is NaN or
infinite raises an error with the line of the forward call. If the forward pass is the cause, the
error names the call that made the first value that is not finite: that call was noted when it ran
in the mode (`forward_anomalies.py`), or is determined from the values that nodes saved. Source:
torch's page ``torch.autograd``, section "Debugging and anomaly detection".
"""

from __future__ import annotations

from collections.abc import Mapping

import fdiff.intact_numpy as np

from ...dispatch.inspection.anomalies import not_finite
from ...errors import AnomalyError, message
from ...functional.call.anomaly_reports import entries_in_words, kind_of_values
from ...process import anomaly_watch
from ...user_lines import show_line
from ..arrays.recorded_array import RecordedArray
from ..calls.forward_anomalies import first_behind
from .node_rules import NodeRules, Part
from .nodes import GraphNode
from .saved_values import saved_values

SHOWN = 3  # entries whose values are shown


def watching() -> bool:
    """Whether cotangents are looked at."""
    return anomaly_watch.watching()


def check_output(array: RecordedArray, node: GraphNode) -> None:
    """Raise if the seed of a backward pass is not finite."""
    if watching() and (mask := not_finite(array.value)).any():
        kind = kind_of_values(array.value, mask)
        where = entries_in_words(array.value, mask)
        fact = f"the output that is differentiated holds {kind} values.{where}"
        raise _error(fact, node, _blamed(node, first_behind(node)))


def watched_pull(rules: NodeRules, node: GraphNode, bars: dict[int, Part]) -> list[Part | None]:
    """Run a node's rule; raises `AnomalyError` for a cotangent that is not finite."""
    try:
        gradients = rules.pull(node, bars)
    except Exception as error:
        error.add_note(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:"
            f"{show_line(node.line)}"
        )
        raise
    if watching():
        for k, part in enumerate(gradients):
            if part is not None:
                _check_cotangent(node, bars, k, part)
    return gradients


def _check_cotangent(node: GraphNode, bars: Mapping[int, Part], k: int, part: Part) -> None:
    value, live = (_value(x) for x in part)
    mask = not_finite(value) if live is None else not_finite(value) & live
    if not mask.any():
        return
    for bar, _ in bars.values():  # nodes before this one were looked at
        if not_finite(cotangent := _value(bar)).any():
            raise _error_of_given_gradient(cotangent, node)
    kind, where = kind_of_values(value, mask), entries_in_words(value, mask)
    fact = f"Function '{node.name()}' returned {kind} values in its {k}th output.{where}"
    values = _values(node, bars, np.asarray(value), mask)
    raise _error(fact, node, f"{values}{_blamed(node)}")


def _error_of_given_gradient(bar: object, node: GraphNode) -> AnomalyError:
    """The error for a cotangent that came in from outside of all rules."""
    mask = not_finite(bar)
    words = f"{kind_of_values(bar, mask)} values.{entries_in_words(bar, mask)}"
    return _error(f"a gradient that was given to {node.name()} holds {words}", node, "")


def _error(fact: str, node: GraphNode, details: str) -> AnomalyError:
    return AnomalyError(message("backward", fact, details.lstrip("\n"), node.line))


def _value(x: object) -> object:
    return getattr(x, "value", x)


def _saved(node: GraphNode) -> dict[str, np.ndarray]:
    """The saved arrays of a node by name, for messages."""
    recipe = getattr(node, "recipe", None)
    if recipe is None or node.saved is None:
        return {}
    names = [f"operand {place}" if place < recipe.count else "result" for place in recipe.saved]
    return dict(zip(names, map(np.asarray, saved_values(node)), strict=True))


def _values(node: GraphNode, bars: Mapping[int, Part], value: np.ndarray, mask: np.ndarray) -> str:
    """The cotangent and the saved values at the entries that are to blame."""
    arrays = {**_saved(node), "cotangent": np.asarray(_value(next(iter(bars.values()))[0]))}
    lines: list[str] = []
    for entry in np.argwhere(np.broadcast_to(mask, value.shape))[:SHOWN]:
        at = tuple(map(int, entry))
        entries = [f"{name} = {x[at]}" for name, x in arrays.items() if x.shape == value.shape]
        entries += [f"{name} = {x}" for name, x in arrays.items() if not x.shape and value.shape]
        if entries:
            lines.append(f"\n{f'at {list(at)}: ' if at else ''}{', '.join(entries)}")
    return "".join(lines)


def _blamed(node: GraphNode, origin: tuple[GraphNode, str] | None = None) -> str:
    """The forward call that made an operand of the node which is not finite."""
    if origin is None and (origin := _maker(node)) is not None:
        origin = first_behind(origin[0]) or origin
    if origin is None:
        return ""
    source, where = origin
    words = f"It comes from the forward pass: {where}"
    return f"\n{words}{show_line(source.line)}" if source is not node else f"\n{words}"


def _maker(node: GraphNode) -> tuple[GraphNode, str] | None:
    """The earliest call behind a node that gave values that are not finite, in words."""
    origin: tuple[GraphNode, str] | None = None
    while True:
        operation = node.name().removesuffix("Backward0")
        operands = {k: e[0] for k, e in enumerate(node.edges) if e is not None}
        source = next(iter(operands.values())) if len(operands) == 1 else None
        for name, x in _saved(node).items():
            kind, _, place = name.partition(" ")
            producer = operands.get(int(place)) if place else None
            if not (mask := not_finite(x)).any():
                source = None if producer is not None and producer is source else source
                continue
            what = f"{kind_of_values(x, mask)} values.{entries_in_words(x, mask)}"
            if kind == "operand" and producer is not None and producer.line is not None:
                origin = producer, f"{producer.name().removesuffix('Backward0')} gave {what}"
                source = producer
            else:
                origin = node, f"the {name} of {operation} holds {what}"
        if source is None:
            return origin
        node = source
