"""`pytest --progress`: one line that says how far the run is, in place of a dot for each test.

Tests of one file take a hundred times as long as those of another: what is left is estimated by
the seconds of each file in `durations.txt`, so that the estimate does not grow while the run goes
on. `pytest --progress --record-durations` records them anew, of the files that it runs.
"""

import time
from collections import Counter
from pathlib import Path

import pytest

SECONDS = {True: 0.5, False: 30.0}  # between lines: in a terminal, where each is written over
TABLE = Path(__file__).with_name("durations.txt")
HEAD = "# Seconds and number of the tests of each file: `pytest --progress --record-durations`.\n"
SHORT = 0.01  # seconds of a test of a file that is not in the table
LEAST = 0.2  # seconds of a file that is


class Durations:
    """The seconds of a test of each file, and what those of a run take together."""

    def __init__(self, table):
        rows = [line.split() for line in table.splitlines() if not line.startswith("#")]
        self.recorded = {file: (float(seconds), int(tests)) for seconds, tests, file in rows}
        self.total = self.done = 0.0

    def of(self, name):
        """The seconds that a test takes, as far as its file tells."""
        seconds, tests = self.recorded.get(file_of(name), (SHORT, 1))
        return seconds / tests

    def left(self, elapsed):
        """The seconds that are left of the run; None at its beginning, when none are known."""
        if self.done < 0.01 * self.total or not self.done:
            return None
        return elapsed * max(self.total - self.done, 0.0) / self.done


class Progress:
    """Counts the reports that reach the process with the terminal, from its workers too."""

    def __init__(self, terminal, *, records=False):
        self.terminal, self.records = terminal, records
        self.in_place = bool(terminal.isatty)
        self.begin = self.last = self.first = time.monotonic()
        self.done = self.failed = 0
        self.durations = Durations(TABLE.read_text(encoding="utf-8"))
        self.seconds, self.tests = Counter(), Counter()

    def pytest_sessionstart(self, session):
        self.session = session

    def pytest_collection_finish(self, session):
        self.expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        self.expect(ids)

    def expect(self, names):
        self.durations.total = sum(map(self.durations.of, names))
        self.first = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        """A test that passed has no letter; what failed or was skipped is shown as ever."""
        return ("passed", "", "") if report.passed and report.when == "call" else None

    def pytest_runtest_logreport(self, report):
        file = file_of(report.nodeid)
        self.seconds[file] += report.duration
        self.failed += report.failed
        if report.when != "teardown":
            return
        self.done += 1
        self.tests[file] += 1
        self.durations.done += self.durations.of(report.nodeid)
        if time.monotonic() >= self.last + SECONDS[self.in_place]:
            self.write()

    def pytest_sessionfinish(self):
        if self.done:
            self.write()
        if self.records:
            measured = {file: (self.seconds[file], n) for file, n in self.tests.items()}
            TABLE.write_text(table_of(self.durations.recorded | measured), encoding="utf-8")

    def write(self):
        self.last = now = time.monotonic()
        left = self.durations.left(now - self.first)
        line = progress_line(
            self.done, self.session.testscollected, self.failed, now - self.begin, left
        )
        if self.in_place:
            self.terminal.rewrite(line, erase=True)
        else:
            self.terminal.write_line(line)


def file_of(name):
    return name.partition("::")[0]


def table_of(recorded):
    """The table as text: a line for each file that takes a while."""
    rows = sorted((file, n, s) for file, (s, n) in recorded.items() if s >= LEAST)
    return HEAD + "".join(f"{seconds:.1f} {tests} {file}\n" for file, tests, seconds in rows)


def progress_line(done, total, failed, seconds, left=None):
    line = f"{done:,} of {total:,} tests, {failed} failed, {clock(seconds)}"
    return line if left is None or done >= total else f"{line} of about {clock(seconds + left)}"


def clock(seconds):
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
