"""Tables of profiles beside those of torch, from the same events: equal to the letter."""

import itertools

import pytest
from torch.autograd.profiler_util import EventList as TorchEventList
from torch.autograd.profiler_util import FunctionEvent as TorchEvent

from fdiff.profiler import EventList, FunctionEvent, Interval

LONG = "a name that is much longer than the column of names may be at most"
# name, begin, end, shapes, stack, bytes
EVENTS = [
    ("call", 0.0, 1_500.5, [[3, 4], [4]], ["a.py(3): main"], 0),
    ("sin", 10.0, 40.25, [[3]], ["a.py(7): f", "a.py(3): main"], 2_048),
    ("multiply", 50.0, 1_400.0, [[3], [3]], ["a.py(8): f", "a.py(3): main"], -512),
    ("inner", 60.0, 100.0, [], [], 3 << 20),
    (LONG, 1_600.0, 1_601.0, [], [], 5),
    ("sin", 2_000_000.0, 4_500_000.0, [[5, 5]], ["a.py(7): f", "b.py(1): <module>"], 7),
]  # fmt: skip


def both(*, shapes, stack, memory):
    ours, theirs = [], []
    for k, (name, begin, end, *rest) in enumerate(EVENTS):
        sizes, lines, count = (
            value if wanted else type(value)()
            for value, wanted in zip(rest, (shapes, stack, memory), strict=True)
        )
        event = FunctionEvent(k, name, 1, Interval(begin, end), input_shapes=sizes, stack=lines)
        event.self_cpu_memory_usage = count
        ours.append(event)
        theirs.append(
            TorchEvent(k, name, 1, begin, end, input_shapes=sizes, stack=lines, flops=0,
                       overload_name="", cpu_memory_usage=count)
        )  # fmt: skip
    for parent, child in ((0, 1), (0, 2), (2, 3)):
        ours[child].cpu_parent = ours[parent]
        ours[parent].cpu_children.append(ours[child])
    for parent, children in ((2, [3]), (0, [1, 2])):  # theirs have totals, those inside included
        theirs[parent].cpu_memory_usage += sum(theirs[c].cpu_memory_usage for c in children)
    found = TorchEventList(theirs, profile_memory=memory)
    found._build_tree()
    return EventList(ours, profile_memory=memory), found


OPTIONS = [
    dict(zip(("shapes", "stack", "memory"), on, strict=True))
    for on in itertools.product((False, True), repeat=3)
]


@pytest.mark.parametrize("options", OPTIONS)
def test_tables_of_events(options):
    ours, theirs = both(**options)
    assert ours.table() == theirs.table()
    assert ours.table(header="words", row_limit=3) == theirs.table(header="words", row_limit=3)
    assert ours.table(row_limit=-1, time_unit="ms") == theirs.table(row_limit=-1, time_unit="ms")
    narrow = {"max_name_column_width": 12, "max_shapes_column_width": 8, "max_src_column_width": 10}
    assert ours.table(**narrow) == theirs.table(**narrow)
    assert ours.table(max_name_column_width=None) == theirs.table(max_name_column_width=None)
    top = {"top_level_events_only": True}
    assert ours.table(**top) == theirs.table(**top)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("by_shape", [False, True])
@pytest.mark.parametrize("by_lines", [0, 1, 5])
def test_tables_of_averages(options, by_shape, by_lines):
    ours, theirs = both(**options)
    ours, theirs = (e.key_averages(by_shape, by_lines) for e in (ours, theirs))
    keys = ["cpu_time", "cpu_time_total", "self_cpu_time_total", "count"]
    for key in (None, *keys, *(["cpu_memory_usage", "self_cpu_memory_usage"])):
        assert ours.table(sort_by=key) == theirs.table(sort_by=key)


def test_totals():
    ours, theirs = both(shapes=False, stack=False, memory=True)
    assert ours.self_cpu_time_total == pytest.approx(theirs.self_cpu_time_total)
    mine, other = ours.total_average(), theirs.total_average()
    for field in ("key", "count", "cpu_time_total", "self_cpu_time_total", "cpu_time",
                  "cpu_memory_usage", "self_cpu_memory_usage", "cpu_time_str"):  # fmt: skip
        assert getattr(mine, field) == pytest.approx(getattr(other, field)), field


@pytest.mark.parametrize("key", ["time", "cpu_total", "name of nothing"])
def test_keys_that_do_not_exist(key):
    ours, theirs = both(shapes=False, stack=False, memory=False)
    for events in (ours, theirs):
        with pytest.raises(AttributeError, match=key):
            events.table(sort_by=key)
    with pytest.raises(AttributeError, match="Valid keys are cpu_time, "):
        ours.table(sort_by=key)


def test_events_are_sorted_by_every_key_of_torch():
    """Those that the page of ``torch.autograd.profiler.profile.table`` lists."""
    ours, theirs = both(shapes=True, stack=False, memory=True)
    names = ("cpu", "cuda", "xpu", "device")
    keys = [f"{name}_{what}" for name in names for what in ("time", "time_total", "memory_usage")]
    keys += [f"self_{name}_memory_usage" for name in names]
    keys += [f"self_{name}_time_total" for name in names]
    for key in (*keys, "count"):
        assert ours.table(sort_by=key) == theirs.table(sort_by=key)
