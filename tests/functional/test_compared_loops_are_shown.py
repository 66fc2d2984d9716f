"""Loops whose iterations are compared: what is shown of them, and what memory they take."""

import re
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import fdiff
from fdiff import user_lines
from fdiff.process import progress
from fdiff.trace import looping
from fdiff.trace.looping.checked_trips import Frame


def swing(p, steps=2000, h=0.01):
    theta, speed = 1.0, 0.0
    for _ in range(steps):
        theta, speed = theta + h * speed, speed - h * (p * np.sin(theta) + 0.1 * speed)
    return theta


def nested(p):
    s = p
    for i in range(40):
        for j in range(30):
            s = np.sin(s + 0.1 * j)
        s = s * p + 0.01 * i
    return s


def asking(p):
    s = p
    for k in range(400):
        s = 0.5 * np.sin(s) if s > 0.5 else s + 0.2
        s = s * (1.0 + 0.001 * (k % 3))
    return s


@pytest.mark.parametrize(("f", "total"), [(swing, 2000), (nested, 40), (asking, 400)])
def test_progress_shows_the_trip_and_the_end(f, total, monkeypatch):
    """While calls are compared no operation is recorded; the user's line is read all the same."""
    advance, calls, reports = Frame.advance, [], []

    def noted(frame):
        calls.append(frame)
        if len(calls) % 40 == 0:
            me = threading.get_ident()
            reports.append(progress._under_way[me].report(time.perf_counter(), me))
            user_lines.at_line = progress._note_place  # as the thread that shows stages does
        return advance(frame)

    monkeypatch.setattr(user_lines, "at_line", None)
    monkeypatch.setattr(Frame, "advance", noted)
    fdiff.make_tape(f, 0.7)
    told = [re.fullmatch(rf"step ([\d,]+) of {total:,}", r.amount) for r in reports[1:]]
    assert all(told)
    steps = [int(step[1].replace(",", "")) for step in told]
    assert len({*steps}) > 5
    assert steps == sorted(steps)
    assert 0.6 * total < steps[-1] <= total
    assert all(r.place.startswith("at test_compared_loops") for r in reports[1:])


def test_tapes_show_bodies_indented(monkeypatch):
    """Of a loop in a loop, and of branches."""
    text = str(fdiff.make_tape(nested, 0.7))
    inner = [line for line in text.split("\n") if re.search(r"= loop\(", line)]
    assert re.search(r"^    body: tape$", text, re.MULTILINE)
    assert re.search(r"^        body: tape$", text, re.MULTILINE)
    assert {len(line) - len(line.lstrip()) for line in inner} == {2, 6}
    assert re.search(
        r"^          %\d+: f8\[\] += sin\(%\d+\)  +# test_compared", text, re.MULTILINE
    )
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    monkeypatch.setattr(looping, "SLEEP", 0)
    text = str(fdiff.make_tape(asking, 0.7))
    assert re.search(r"^        branches\[0\]: tape\n {10}%0: ", text, re.MULTILINE)
    assert re.search(r"^        branches\[1\]: tape\n {10}%0: ", text, re.MULTILINE)


@pytest.mark.parametrize("operator", [fdiff.jit, fdiff.grad, fdiff.value_and_grad])
def test_sources_show_the_kernels_of_loops(operator):
    for f, depths in ((swing, 1), (nested, 2)):
        text = fdiff.source(operator(f), 0.7)
        loops = re.findall(r"^( +)for (trip\w*) in range\(", text, re.MULTILINE)
        assert len({indent for indent, _ in loops}) >= depths
        assert len(loops) == len({name for _, name in loops})


@pytest.mark.slow
def test_memory_does_not_grow_with_the_trips():
    """Of 400,000 calls that are compared, beside 8,000; a row of counters takes 8 bytes a trip."""
    program = """
        import numpy as np, fdiff, tracemalloc
        def swing(p, steps, h=0.001):
            theta, speed = 1.0, 0.0
            for k in range(steps):
                theta, speed = theta + h * speed, speed - h * (p * np.sin(theta) + 0.1 * speed)
            return theta
        fdiff.make_tape(lambda p: swing(p, 1000), 2.0)
        tracemalloc.start()
        fdiff.make_tape(lambda p: swing(p, 50_000), 2.0)
        print(tracemalloc.get_traced_memory()[1])
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert peak < 2e6
