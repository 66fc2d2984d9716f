"""`profile`: what is recorded, in which thread, and that nothing else changes."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from trace_events import faults

import fdiff
from fdiff.errors import InputError
from fdiff.process import observed_spans
from fdiff.profiler import FunctionEvent, profile, record_function
from fdiff.trace.trace_stack import occupied


def f(x):
    return np.sum(np.sin(x) * x)


X = np.linspace(0.0, 1.0, 7)


@pytest.fixture(autouse=True)
def _closed():
    """No test leaves a profile in force."""
    yield
    assert observed_spans.observer is None
    assert "profiler" not in occupied


def leaves(result):
    return [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]


def names(prof, category=None):
    return [e.name for e in prof.function_events if category in {None, e.category}]


def test_a_first_call_shows_tracing_transforms_and_each_operation(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    g = fdiff.value_and_grad(lambda x: np.sum(np.sin(x) * x))
    with profile() as prof:
        g(X)
    assert names(prof, "call") == ["value_and_grad(<lambda>)"]
    assert names(prof, "trace") == ["tracing value_and_grad(<lambda>)"]
    assert {"stop shifts", "pull back 1", "keep"} <= set(names(prof, "transform"))
    assert names(prof, "cache") == ["variant: miss"]
    assert names(prof, "forward") == ["sin", "multiply", "sum"]
    assert names(prof, "derivative") == ["cos", "multiply", "add"]


def test_a_second_call_finds_what_the_first_has_made(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    g = fdiff.grad(lambda x: np.sum(np.cos(x) * x))
    g(X)
    with profile() as prof:
        g(X)
    assert names(prof, "trace") == names(prof, "transform") == []
    assert names(prof, "cache") == ["variant: hit"]


def test_events_nest_and_self_times_add_up(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    g = fdiff.grad(f)
    with profile() as prof:
        for _ in range(3):
            g(X)
    for event in prof.function_events:
        for child in event.cpu_children:
            assert child.cpu_parent is event
            assert event.time_range.start <= child.time_range.start
            assert child.time_range.end <= event.time_range.end
    tops = [e for e in prof.function_events if e.cpu_parent is None]
    assert [e.name for e in tops] == ["grad(f)"] * 3
    whole = sum(e.cpu_time_total for e in tops)
    assert prof.self_cpu_time_total == pytest.approx(whole)
    assert prof.total_average().self_cpu_time_total == pytest.approx(whole)
    assert prof.total_average().key == "Total"


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
def test_results_are_the_same_bits_in_every_tier(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    x = np.random.default_rng(3).standard_normal((40, 6))
    for g in (fdiff.value_and_grad(lambda x: np.sum(np.tanh(x @ x.T))), fdiff.jacobian(np.exp)):
        before = g(x)
        with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True):
            during = [g(x) for _ in range(3)]
        after = g(x)
        for found in (*during, after):
            for a, b in zip(leaves(before), leaves(found), strict=True):
                assert a.tobytes() == b.tobytes()


def test_fast_paths_close_while_a_profile_is_in_force_and_open_again():
    g = fdiff.grad(lambda x: np.sum(np.exp(x) * x)).compile("f8[7]")
    for _ in range(8):
        g(X)
    with profile() as prof:
        g(X)
    assert names(prof, "call") == ["grad(<lambda>)"]
    assert names(prof, "kernel")[0] == "kernel of grad(<lambda>)"
    with profile() as prof:
        pass
    g(X)
    assert names(prof) == []


def test_compiling_and_its_caches_are_events(tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path))
    fdiff.cache_clear()
    with profile() as prof:
        fdiff.grad(lambda x: np.sum(np.sin(x) / (1.5 + x))).compile("f8[7]")
    found = names(prof, "cache")
    assert "kernel in memory: miss" in found
    assert "text on disk: miss" in found
    assert "code of kernel on disk: miss" in found
    assert {"fuse", "lower", "emit", "compile kernel", "load machine code"} <= set(
        names(prof, "compile")
    )
    fdiff.cache_clear()
    with profile() as prof:
        fdiff.grad(lambda x: np.sum(np.sin(x) / (1.5 + x))).compile("f8[7]")
    found = names(prof, "cache")
    assert "text on disk: hit" in found
    assert "code of kernel on disk: hit" in found
    assert "compile kernel" not in names(prof)


def test_shapes_lines_memory_and_operations(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")

    def model(a, x):
        y = a @ x
        return np.sum(y)

    a, x = np.ones((3, 4)), np.ones(4)
    options = {"record_shapes": True, "with_stack": True, "with_flops": True}
    with profile(profile_memory=True, **options) as prof:
        fdiff.value_and_grad(model)(a, x)
    product = next(e for e in prof.function_events if e.name == "contract")
    line = model.__code__.co_firstlineno + 1
    assert product.input_shapes == [[3, 4], [4]]
    assert product.stack[0] == f"test_profile.py({line}): model"
    assert product.stack[1].endswith("test_shapes_lines_memory_and_operations")
    assert product.flops == 2 * 3 * 4
    assert product.cpu_memory_usage == 3 * 8
    table = prof.key_averages(group_by_input_shape=True, group_by_stack_n=1).table()
    for text in ("CPU Mem", "Input Shapes", "[[3, 4], [4]]", "Source Location", "FLOPs"):
        assert text in table


def test_without_the_options_nothing_of_that_is_there(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    with profile(record_shapes=True, with_stack=True), profile() as prof:  # the inner wants less
        fdiff.grad(f)(X)
    assert all(not e.input_shapes and not e.stack for e in prof.function_events)
    assert "Source Location" not in prof.table()


def test_labels_as_context_and_decorator_with_exceptions():
    @record_function("decorated")
    def work(fail):
        if fail:
            raise KeyError("x")
        return 3

    with profile() as prof:
        with record_function("outer", "some detail"):
            assert work(fail=False) == 3
            with pytest.raises(KeyError):
                work(fail=True)
        with record_function("next"):
            pass
    assert names(prof) == ["outer", "decorated", "decorated", "next"]
    outer, first, second, after = prof.function_events
    assert outer.cpu_children == [first, second]
    assert after.cpu_parent is None
    assert outer.args == {"args": "some detail"}
    assert prof.key_averages()[1].count == 2
    with record_function("nobody looks"):
        assert work(fail=False) == 3


def test_a_label_inside_a_differentiated_function_changes_nothing():
    def labelled(x):
        with record_function("inside"):
            return np.sum(x * x)

    g = fdiff.grad(labelled)
    with profile() as prof:
        found = g(X)
    assert np.array_equal(found, 2 * X)
    assert np.array_equal(g(X), 2 * X)
    assert "inside" in names(prof, "label")


def test_an_error_inside_leaves_no_event_open():
    def broken(x):
        raise ValueError("no")

    with profile() as prof:
        with pytest.raises(ValueError, match="no"):
            fdiff.grad(broken)(X)
        fdiff.grad(f)(X)
    tops = [e.name for e in prof.function_events if e.cpu_parent is None]
    assert tops == ["grad(broken)", "grad(f)"]
    assert observed_spans.innermost() is None


def test_nested_profiles_have_what_begins_and_ends_in_them():
    g = fdiff.grad(f)
    g(X)
    with profile() as outer:
        g(X)
        with profile() as inner:
            g(X)
        g(X)
    assert names(outer, "call") == ["grad(f)"] * 3
    assert names(inner, "call") == ["grad(f)"]


def test_every_thread_has_its_own_stack_of_events(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    g = fdiff.grad(f)
    g(X)
    ready = threading.Barrier(3)

    def work(_):
        ready.wait()
        for _ in range(20):
            g(X)

    with profile() as prof, ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    calls = [e for e in prof.function_events if e.category == "call"]
    assert len(calls) == 60
    assert len({e.thread for e in calls}) == 3
    for event in prof.function_events:
        assert all(child.thread == event.thread for child in event.cpu_children)


def test_a_forked_child_is_not_profiled_and_may_profile():
    code = """
import os
import numpy as np
import fdiff
from fdiff.process import observed_spans
from fdiff.profiler import profile
from fdiff.trace.trace_stack import occupied

with profile() as outer:
    child = os.fork()
    if not child:
        closed = observed_spans.observer is None and "profiler" not in occupied
    with profile() as inner:
        fdiff.grad(np.sum)(np.ones(3))
calls = [e.name for e in inner.function_events if e.category == "call"]
if not child:
    os._exit(0 if closed and calls == ["grad(sum)"] and not outer.function_events else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(outer.function_events) > 0)
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0 True\n"


def test_profiles_that_are_not_enabled_or_not_over():
    with profile(enabled=False) as prof:
        fdiff.grad(f)(X)
    assert prof.function_events == []
    assert prof.key_averages().table() == ""
    assert "not enabled" in repr(prof)
    with profile() as prof:
        assert "unfinished" in repr(prof)
        with pytest.raises(InputError, match="before the with statement is over"):
            prof.key_averages()
    with pytest.raises(RuntimeError, match="not reentrant"), prof:
        pass


def test_events_may_accumulate():
    with profile(acc_events=True) as prof:
        fdiff.grad(f)(X)
    with prof:
        fdiff.grad(f)(X)
    assert names(prof, "call") == ["grad(f)"] * 2


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"with_modules": True}, "TorchScript"),
        ({"use_kineto": True}, "library of torch"),
        ({"experimental_config": 1}, "Kineto"),
        ({"use_cpu": False}, "would record nothing"),
        ({"use_device": "xpu"}, "must be None or 'cuda'"),
    ],
)
def test_options_without_meaning_are_refused(option, words):
    with pytest.raises(InputError, match=words):
        profile(**option)


def test_use_cuda_is_deprecated():
    with pytest.warns(FutureWarning, match="use_device='cuda'"):
        assert profile(use_cuda=True).use_device == "cuda"


def test_the_chrome_trace_is_one_that_viewers_take(tmp_path):
    options = {"record_shapes": True, "with_stack": True, "with_flops": True}
    with profile(profile_memory=True, **options) as prof, ThreadPoolExecutor(1) as pool:
        fdiff.hessian(f)(X)
        pool.submit(fdiff.jit(np.sin).compile("f8[7]"), X).result()
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert faults(trace) == []
    events = trace["traceEvents"]
    assert {e["ph"] for e in events} == {"M", "X", "i", "C"}
    assert {e["pid"] for e in events} == {os.getpid()}
    recorded = [e for e in events if e["ph"] in "Xi"]
    assert sorted(e["name"] for e in recorded) == sorted(names(prof))
    threads = [e for e in events if e["name"] == "thread_name"]
    assert {e["tid"] for e in threads} == {e["tid"] for e in recorded}


def test_the_checks_of_the_trace_format_find_faults():
    good = {"name": "a", "ph": "X", "ts": 0.0, "dur": 2.0, "pid": 1, "tid": 1, "cat": "c"}
    wrong = [{"ph": "Z"}, {"ts": -1.0}, {"tid": "x"}, {"dur": "1"}, {"pid": 2**60}]
    for change in wrong:
        assert faults({"traceEvents": [good | change]}) != []
    later = good | {"ts": 1.0}
    assert faults({"traceEvents": [good, later]}) == ["a reaches out of the event around it"]
    assert faults({"traceEvents": [good]}) == []


def test_stacks_for_flame_graphs(tmp_path, monkeypatch):
    def traced_here(x):
        return f(x)

    monkeypatch.setenv("FDIFF_TIER", "interpret")  # a function that has a kernel may be one span
    with profile(with_stack=True) as prof:
        fdiff.grad(traced_here)(X)
    prof.export_stacks(tmp_path / "stacks.txt")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert any(";test_profile.py(" in line for line in lines), lines
    for line in lines:
        stack, _, value = line.rpartition(" ")
        assert int(value) > 0
        assert " " not in stack
    with pytest.raises(InputError, match="metric must be"):
        prof.export_stacks(tmp_path / "stacks.txt", "time")
    with profile() as prof:
        pass
    with pytest.raises(InputError, match="with_stack=True"):
        prof.export_stacks(tmp_path / "stacks.txt")


def test_an_event_has_the_fields_of_torch():
    with profile() as prof:
        fdiff.grad(f)(X)
    event = prof.function_events[0]
    assert isinstance(event, FunctionEvent)
    for field in (
        "id", "name", "key", "thread", "time_range", "cpu_children", "cpu_parent", "count",
        "input_shapes", "stack", "scope", "cpu_time", "cpu_time_total", "self_cpu_time_total",
        "cpu_time_str", "cpu_memory_usage", "self_cpu_memory_usage", "kernels", "flops",
    ):  # fmt: skip
        assert hasattr(event, field), field


def test_functions_that_are_differentiated_eagerly():
    def other_branch_each_time(x):
        total = 0.0
        for entry in x:
            total = total + (np.sin(entry) if entry > 0 else np.cos(entry))
        return total

    g = fdiff.grad(other_branch_each_time)
    rng = np.random.default_rng(8)
    points = [rng.standard_normal(8) for _ in range(30)]
    for x in points:
        g(x)
    with profile(record_shapes=True, with_stack=True) as prof:
        for x in points:
            assert np.array_equal(g(x), np.where(x > 0, np.cos(x), -np.sin(x)))
    calls = [e for e in prof.function_events if e.category == "call"]
    assert len(calls) == len(points)
    assert {e.args["variant"] for e in calls} <= {"eager", "traced"}
    assert "eager" in {e.args["variant"] for e in calls}


def test_a_profile_within_a_generator_goes_on_while_that_waits():
    @contextmanager
    def timed():
        with profile() as prof:
            yield prof

    g = fdiff.grad(f)
    with timed() as prof:
        for _ in range(3):
            g(X)
    assert names(prof, "call") == ["grad(f)"] * 3
