"""Events as a table: the columns, the layout and the keys for sorting are torch's."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError, choice, failure, flag, message, shown
from ..named_tuples import NamedTuple
from ..user_lines import printable, user_line
from .events import FunctionEvent, FunctionEventAvg
from .formatting import flops_scale, memory_text, share_text, time_text

Event = FunctionEvent | FunctionEventAvg
DEVICES = ("device", "cuda", "xpu")  # names of one thing; results say `device`
SORT_KEYS = (
    *("cpu_time", "cpu_time_total", "self_cpu_time_total"),
    *("cpu_memory_usage", "self_cpu_memory_usage", "flops", "count"),
    *(f"{name}_{what}" for name in DEVICES for what in ("time", "time_total", "memory_usage")),
    *(f"self_{name}_{what}" for name in DEVICES for what in ("time_total", "memory_usage")),
)
UNITS = ("s", "ms", "us")
_WIDTH, _GAP = 12, "  "


class Columns(NamedTuple):
    """Which columns there are besides the times, and how wide some may be at most."""

    memory: bool
    flops: bool
    widest_name: int | None
    widest_shapes: int | None
    widest_source: int | None


class _Column(NamedTuple):
    """A column: its head, its width, the side on which its entries begin."""

    head: str
    width: int
    side: str = ">"


def build_table(
    events: Sequence[Event],
    columns: Columns,
    *,
    sort_by: str | None,
    row_limit: int,
    header: str | None,
    top_level_events_only: bool,
    time_unit: str | None,
) -> str:
    """The table of some events, of which at most `row_limit` are shown (-1: all)."""
    _check_number("row_limit", row_limit)
    top_level_events_only = flag(top_level_events_only, "top_level_events_only", "table")
    if time_unit is not None:
        way = "Leave it out: each column takes what fits."
        time_unit = choice(time_unit, UNITS, "time_unit", "table", way)
    events = _sorted(events, sort_by)
    if not events:
        return ""
    rows = _TableRows(events, columns, time_unit)
    row = _GAP.join(f"{{: {c.side}{c.width}}}" for c in rows.columns) + _GAP
    rule = _GAP.join("-" * c.width for c in rows.columns) + _GAP
    lines: list[str] = []
    if header is not None:
        lines += ["=" * len(rule.rstrip()), str(header)]
    if top_level_events_only:
        lines += ["=" * len(rule.rstrip()), "This report only display top-level ops statistics"]
    lines += [rule, row.format(*(c.head for c in rows.columns)), rule]
    shown = [e for e in events if not top_level_events_only or e.cpu_parent is None]
    for event in shown[: None if row_limit < 0 else row_limit]:
        lines += [row.format(*cells) for cells in rows.of(event)]
    lines += [rule, f"Self CPU time total: {time_text(rows.self_cpu, time_unit)}"]
    if rows.device:
        lines.append(f"Self {rows.device} time total: {time_text(rows.self_device, time_unit)}")
    return "\n".join(lines) + "\n"


def _check_number(name: str, value: object) -> None:
    """Refuse a width or limit that is no integer."""
    if not isinstance(value, int):
        fact = f"{name} must be an int, not {type(value).__name__}."
        raise failure(InputError, "table", fact, "Leave it out to have the default.")


def _sorted(events: Sequence[Event], key: object) -> Sequence[Event]:
    """The events by a key, the largest first; as they came, without one."""
    if key is None:
        return events
    if not isinstance(key, str) or key not in SORT_KEYS:
        fact = f"{shown(key)} is not a key to sort by."
        way = f"Valid keys are {', '.join(SORT_KEYS)}."
        raise AttributeError(message("table", fact, way, user_line()))  # as torch does
    name = key.replace("cuda", "device").replace("xpu", "device")
    return sorted(events, key=lambda event: getattr(event, name), reverse=True)


def _width(texts: Sequence[str], most: int | None) -> int:
    """The width of a column of these texts."""
    width = max(map(len, texts)) + 4
    if most is None:
        return width
    _check_number("the width of a column", most)
    return min(width, most)


class _TableRows:
    """The columns of a table, and the rows of each event."""

    def __init__(self, events: Sequence[Event], columns: Columns, unit: str | None) -> None:
        self.unit, self._given = unit, columns
        self.self_cpu = sum(event.self_cpu_time_total for event in events)
        self.self_device = sum(event.self_device_time_total for event in events)
        self.device = "CUDA" if self.self_device else ""
        self._name = _width([printable(event.key) for event in events], columns.widest_name)
        shapes = [str(event.input_shapes) for event in events if event.input_shapes]
        self._shapes = _width(shapes, columns.widest_shapes) if shapes else 0
        stacks = [printable(line) for event in events for line in event.stack]
        self._source = _width(stacks, columns.widest_source) if stacks else 0
        counted = [event.flops for event in events if event.flops > 0]
        with_flops = columns.flops and bool(counted)
        self._flops, self._flops_name = flops_scale(min(counted)) if with_flops else (0.0, "")
        self.columns = self._columns()

    def _columns(self) -> list[_Column]:
        """The columns from left to right."""
        heads = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        if self.device:
            name = self.device
            heads += [f"Self {name}", f"Self {name} %", f"{name} total", f"{name} time avg"]
        if self._given.memory:
            heads += ["CPU Mem", "Self CPU Mem"]
        columns = [_Column("Name", self._name)]
        columns += [_Column(head, _WIDTH) for head in (*heads, "# of Calls")]
        if self._shapes:
            columns.append(_Column("Input Shapes", self._shapes))
        if self._source:
            columns.append(_Column("Source Location", self._source, "<"))
        if self._flops:
            columns.append(_Column(f"Total {self._flops_name}", _WIDTH))
        return columns

    def of(self, event: Event) -> list[list[str]]:
        """The row of an event, and one for each further line of its stack."""
        cells = [_shortened(printable(event.key), self._given.widest_name), *self._cpu(event)]
        if self.device:
            cells += self._on_device(event)
        if self._given.memory:
            cells += [memory_text(event.cpu_memory_usage), memory_text(event.self_cpu_memory_usage)]
        cells.append(str(event.count))
        if self._shapes:
            cells.append(str(event.input_shapes or "[]")[: self._shapes])
        rows = [cells]
        if self._source:
            lines = [_end_of(printable(line), self._source) for line in event.stack]
            before = [""] * len(cells)
            cells.append(lines[0] if lines else "")
            rows += [[*before, line] for line in (*lines[1:], "")]
        if self._flops:
            count = f"{event.flops * self._flops:8.3f}" if event.flops else "--"
            rows = [[*row, count if row is cells else ""] for row in rows]
        return rows

    def _cpu(self, event: Event) -> list[str]:
        unit = self.unit
        return [
            share_text(event.self_cpu_time_total, self.self_cpu),
            time_text(event.self_cpu_time_total, unit),
            share_text(event.cpu_time_total, self.self_cpu),
            time_text(event.cpu_time_total, unit),
            time_text(event.cpu_time, unit),
        ]

    def _on_device(self, event: Event) -> list[str]:
        unit = self.unit
        return [
            time_text(event.self_device_time_total, unit),
            share_text(event.self_device_time_total, self.self_device),
            time_text(event.device_time_total, unit),
            time_text(event.device_time, unit),
        ]


def _shortened(name: str, most: int | None) -> str:
    return name if most is None or len(name) < most - 3 else f"{name[: most - 3]}..."


def _end_of(line: str, width: int) -> str:
    """A line without its beginning, where it is too long."""
    return line if len(line) <= width else f"...{line[len(line) - width + 3 :]}"
