"""`pytest --progress`: one line that says how far the run is, in place of a dot for each test."""

import time

import pytest

SECONDS = {True: 0.5, False: 30.0}  # between lines: in a terminal, where each is written over


class Progress:
    """Counts the reports that reach the process with the terminal, from its workers too."""

    def __init__(self, terminal):
        self.terminal = terminal
        self.in_place = bool(terminal.isatty)
        self.begin = self.last = time.monotonic()
        self.done = self.failed = 0

    def pytest_sessionstart(self, session):
        self.session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        """A test that passed has no letter; what failed or was skipped is shown as ever."""
        return ("passed", "", "") if report.passed and report.when == "call" else None

    def pytest_runtest_logreport(self, report):
        self.done += report.when == "teardown"
        self.failed += report.failed
        if time.monotonic() >= self.last + SECONDS[self.in_place]:
            self.write()

    def pytest_sessionfinish(self):
        if self.done:
            self.write()

    def write(self):
        self.last = time.monotonic()
        line = progress_line(
            self.done, self.session.testscollected, self.failed, self.last - self.begin
        )
        if self.in_place:
            self.terminal.rewrite(line, erase=True)
        else:
            self.terminal.write_line(line)


def progress_line(done, total, failed, seconds):
    line = f"{done:,} of {total:,} tests ({100 * done // max(total, 1)}%), {failed} failed"
    line += f", {clock(seconds)}"
    if 100 * done > total:  # before that, any estimate is a guess
        line += f", about {clock(seconds * (total - done) / done)} left"
    return line


def clock(seconds):
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
