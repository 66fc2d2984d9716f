"""The line of `pytest --progress`: its words, and an estimate that stays where it is."""

import io
import time
from pathlib import Path
from types import SimpleNamespace

import progress
import pytest
from progress import LEAST, TABLE, Durations, Progress, progress_line, table_of

ROOT = Path(__file__).parents[2]


def test_the_words():
    line = progress_line(8_250, 33_000, 1, 180.4, 541.0)
    assert line == "8,250 of 33,000 tests, 1 failed, 3 min 0 s of about 12 min 1 s"
    assert progress_line(0, 0, 0, 4.0) == "0 of 0 tests, 0 failed, 4 s"
    assert progress_line(9, 9, 0, 4.0, 1.0) == "9 of 9 tests, 0 failed, 4 s"


class Screen(io.StringIO):
    """A terminal, as far as the line needs one."""

    isatty = True

    def rewrite(self, line, *, erase):
        self.write(line + "\n")


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs tests that take these seconds, by a clock of its own; the lines that were shown."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "TABLE", tmp_path / "durations.txt")

    def go(recorded, tests, *, records=False, collecting=5.0):
        progress.TABLE.write_text(table_of(recorded), encoding="utf-8")
        screen = Screen()
        shown = Progress(screen, records=records)
        items = [SimpleNamespace(nodeid=name) for name, _ in tests]
        now[0] += collecting
        shown.pytest_collection_finish(SimpleNamespace(items=items))
        shown.pytest_sessionstart(SimpleNamespace(testscollected=len(tests)))
        for name, seconds in tests:
            for when in ("setup", "call", "teardown"):
                took = seconds * (when == "call")
                now[0] += took
                shown.pytest_runtest_logreport(
                    SimpleNamespace(nodeid=name, when=when, duration=took, failed=False)
                )
        shown.pytest_sessionfinish()
        return screen.getvalue().splitlines()

    return go


def seconds_of(words):
    minutes, _, rest = words.rpartition(" min ")
    return 60 * int(minutes or 0) + int(rest.removesuffix(" s"))


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_the_estimate_stays_where_it_is(run, speed):
    """Short tests first, long ones last, on a machine of another speed: the worst for a count."""
    recorded = {"tests/a.py": (2.0, 2000), "tests/b.py": (300.0, 20), "tests/c.py": (10.0, 10)}
    tests = [
        (f"{file}::t[{k}]", speed * seconds / n)
        for file, (seconds, n) in recorded.items()
        for k in range(n)
    ]
    lines = run(recorded, tests)
    told = [seconds_of(line.partition(" of about ")[2]) for line in lines if " of about " in line]
    whole = speed * 312.0 + 5.0
    assert len(told) > 20
    assert all(abs(t - whole) <= 0.1 * whole for t in told)


def test_what_is_recorded_is_the_table_of_the_files_that_ran(run):
    run({"tests/a.py": (4.0, 2), "tests/b.py": (9.0, 3)}, [("tests/b.py::t", 1.5)] * 2
        + [("tests/short.py::t", LEAST / 2)], records=True)  # fmt: skip
    table = Durations(progress.TABLE.read_text(encoding="utf-8"))
    assert table.recorded == {"tests/a.py": (4.0, 2), "tests/b.py": (3.0, 2)}


def test_the_table_is_of_files_that_are_there():
    table = Durations(TABLE.read_text(encoding="utf-8"))
    assert len(table.recorded) > 100
    assert [file for file in table.recorded if not (ROOT / file).is_file()] == []
