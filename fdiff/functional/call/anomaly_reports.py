"""The text of `AnomalyError`: the operation or partial derivative, the user's line, the values."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...dispatch.arguments import argument
from ...dispatch.inspection.anomalies import Anomaly
from ...dispatch.variant import Traced
from ...errors import AnomalyError, message
from ...named_tuples import NamedTuple
from ...tape import CONSTANT, INPUT, operation_text
from ...trace.derived_lines import DerivedLine, derivation_of, in_trips, written_line
from ...tree import Spec
from ...user_lines import Line, file_label, numbered

SHOWN = 3  # entries whose values are shown, and nodes shown after the node that made them


class Names(NamedTuple):
    """The names of a tape's inputs in messages: arguments of the function, captured arrays,
    vectors.
    """

    traced: Traced
    spec: Spec

    def of(self, index: int) -> str:
        """The name of an input."""
        traced = self.traced
        if index < len(traced.positions):
            return f"{argument(self.spec, traced.positions[index])} (input {index})"
        if index < len(traced.tape.inputs):
            return "an array that the function reads from outside"
        return "the vector v"


def backward_name(operation: str) -> str:
    """The name of an operation's reverse rule as torch writes it: ``SqrtBackward0``."""
    return "".join(part.capitalize() for part in operation.split("_")) + "Backward0"


def anomaly_error(call: str, anomaly: Anomaly, names: Names) -> AnomalyError:
    """The error that names the operation with the first NaN or infinity."""
    held = ""
    if anomaly.node.primitive in (INPUT, CONSTANT):
        node = anomaly.node
        holder = names.of(node.param("index")) if node.primitive is INPUT else "a constant"
        held = f"{holder} holds {_kind(anomaly)} values.{_where(anomaly)}"
        if _kind(anomaly) == "nan" or (spoilt := _first_nan(anomaly)) is None:
            return AnomalyError(message(call, held, _excerpt(anomaly).lstrip(), _line(anomaly)))
        anomaly, held = spoilt, f"\n{held.capitalize()}"
    line = _line(anomaly)
    fact = f"{_headline(anomaly, line)}{in_trips(anomaly.trips)}.{_meaning(line)}{_where(anomaly)}"
    details = "".join((held, _values(anomaly, line), _excerpt(anomaly)))
    return AnomalyError(message(call, fact, details.lstrip("\n"), written_line(line)))


def _first_nan(anomaly: Anomaly) -> Anomaly | None:
    """The first later node that makes a NaN from an infinity; None if no node does."""
    for place, i in enumerate(anomaly.path):
        mask = np.isnan(anomaly.values[i]) if anomaly.tape.nodes[i].type.floating else None
        if mask is not None and np.any(mask):
            return anomaly._replace(mask=np.asarray(mask), path=anomaly.path[place:])
    return None


def _kind(anomaly: Anomaly) -> str:
    return kind_of_values(anomaly.value, anomaly.mask)


def _where(anomaly: Anomaly) -> str:
    return entries_in_words(anomaly.value, anomaly.mask)


def kind_of_values(value: object, mask: np.ndarray) -> str:
    """Torch's word for the entries `mask` of an array: nan, or inf."""
    array = np.asarray(value)
    bad = array[np.broadcast_to(mask, array.shape)]
    return "nan" if np.isnan(bad).any() else "inf"


def entries_in_words(value: object, mask: np.ndarray) -> str:
    """The number of these entries of an array, and the first of them; empty for a number."""
    array = np.asarray(value)
    mask = np.broadcast_to(mask, array.shape)
    if not mask.shape:
        return ""
    places = np.argwhere(mask)
    shown = ", ".join(str(tuple(map(int, p)) if len(p) > 1 else int(p[0])) for p in places[:SHOWN])
    more = ", ..." if len(places) > SHOWN else ""
    kind = kind_of_values(array, mask)
    both = kind == "nan" and not np.isnan(array[mask]).all()
    held = f"{'is' if len(places) == 1 else 'are'} {'nan or inf' if both else kind}"
    return f" {len(places)} of {mask.size} entries {held}: [{shown}{more}]."


def _line(anomaly: Anomaly) -> Line | None:
    """The line of the node, or of the first later node that has a line."""
    for i in anomaly.path:
        if i in anomaly.tape.lines:
            return anomaly.tape.lines[i][0]
    return None


def _headline(anomaly: Anomaly, line: Line | None) -> str:
    """The operation that made the value, in words; torch's words come first for reverse rules."""
    kind, derivation = _kind(anomaly), derivation_of(line)
    if derivation is None:
        return f"{anomaly.node.primitive.name} returned {kind} values"
    operation, mode, argument = derivation
    if mode == "reverse":
        name = backward_name(operation.name)
        return f"Function '{name}' returned {kind} values in its {argument}th output"
    return f"The tangent of {operation.name} (forward mode) has {kind} values"


def _meaning(line: Line | None) -> str:
    """A sentence on a derivative: the user's operation, and the computed partial derivative."""
    return f" It computes {_partial(line)}." if isinstance(line, DerivedLine) else ""


def _partial(line: Line | None) -> str:
    """The chain of rules that entered a node, the latest first."""
    words: list[str] = []
    while isinstance(line, DerivedLine):
        operation, _, argument = line.derivation
        by = "" if argument is None else f" by its operand {argument}"
        words.append(f"the derivative of {operation.name}{by}")
        line = line.base
    return " within ".join(words)


# --- values ---------------------------------------------------------------------------------------


def _values(anomaly: Anomaly, line: Line | None) -> str:
    """The operations with the values of their operands, in the entries that are to blame."""
    lines: list[str] = []
    forward = _forward_node(anomaly, line)
    for entry in np.argwhere(np.broadcast_to(anomaly.mask, anomaly.value.shape))[:SHOWN]:
        at = tuple(map(int, entry))
        words = [_applied(anomaly, i, at) for i in (forward, anomaly.path[0]) if i is not None]
        place = f"at {list(at)}: " if at else ""
        lines.append(f"\n{place}{', '.join(dict.fromkeys(words))}")
    return "".join(lines)


def _forward_node(anomaly: Anomaly, line: Line | None) -> int | None:
    """The user's operation that was differentiated, if it is on this tape."""
    if not isinstance(line, DerivedLine):
        return None
    while isinstance(line.base, DerivedLine):
        line = line.base
    where, wanted = numbered(line.base), line.derivation.primitive
    for i, node in enumerate(anomaly.tape.nodes):
        lines = anomaly.tape.lines.get(i, ())
        if node.primitive is wanted and any(
            numbered(line_of_node) == where for line_of_node in lines
        ):
            return i
    return None


def _applied(anomaly: Anomaly, i: int, at: tuple[int, ...]) -> str:
    """An operation with its operands and its result at one entry: ``divide(0.5, 0.0) = inf``."""
    node = anomaly.tape.nodes[i]
    operands = ", ".join(_entry(anomaly.values[a], at) for a in node.args)
    result = anomaly.values[i]
    shown = _entry(result, at) if len(node.types) == 1 else "..."
    return f"{node.primitive.name}({operands}) = {shown}"


def _entry(value: object, at: tuple[int, ...]) -> str:
    """The entry at `at` of an array that broadcasts to that place; else a summary of the array."""
    array = np.asarray(value)
    place = at[len(at) - array.ndim :] if array.ndim <= len(at) else None
    if place is not None and all(k < n or n == 1 for k, n in zip(place, array.shape, strict=True)):
        return str(array[tuple(k if n > 1 else 0 for k, n in zip(place, array.shape, strict=True))])
    if array.dtype.kind not in "fiu" or not array.size:
        return f"{array.dtype}{list(array.shape)}"
    bad = array.size - int(np.isfinite(array).sum())
    with np.errstate(invalid="ignore"):
        low, high = np.fmin.reduce(array, None), np.fmax.reduce(array, None)
    return f"{array.size} values in [{low:.6g}, {high:.6g}]" + f", {bad} not finite" * bool(bad)


def _excerpt(anomaly: Anomaly) -> str:
    """The part of the tape from the operands of the node on, towards the result."""
    tape, path = anomaly.tape, anomaly.path[: SHOWN + 1]
    ids = sorted({*tape.nodes[path[0]].args, *path})
    lines: list[str] = []
    for i in ids:
        node = tape.nodes[i]
        # A constant is one node for all its readers: the line of the first reader says nothing.
        line = None if node.primitive is CONSTANT else tape.lines.get(i, (None,))[0]
        mark = ">" if i == path[0] else " "
        types = ", ".join(map(str, node.types))
        lines.append(f"\n{mark} %{i}: {types} = {operation_text(node)}{_comment(line)}")
    more = "\n  ..." if len(anomaly.path) > len(path) else ""
    return "\nOn the tape, towards the result:" + "".join(lines) + more


def _comment(line: Line | None) -> str:
    """The file and line of a node, and the operation that the node is a derivative of."""
    plain = written_line(line)
    if plain is None:
        return ""
    name, number = numbered(plain)
    partial = f", {_partial(line)}" if isinstance(line, DerivedLine) else ""
    return f"  # {file_label(name)}:{number}{partial}"
