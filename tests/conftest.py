"""What all tests share: one seed, and hypothesis without a clock or a memory."""

import gc
import math
import os
import zlib
from collections import Counter
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from progress import Progress

SAMPLED = Path(__file__).with_name("sampled.txt")
ROWS, RATE = 1, 32  # of a test: its first rows, and of the others one in so many
SLOW_RATE = 8  # of slow tests one in so many is run at all

# Which tier runs must not depend on the clock; test_background.py has the background on.
os.environ["FDIFF_BACKGROUND"] = "0"

hypothesis.settings.register_profile(
    "default", derandomize=True, deadline=None, max_examples=40, database=None, print_blob=True
)
hypothesis.settings.register_profile(
    "search", derandomize=False, deadline=None, max_examples=1000, database=None, print_blob=True
)
hypothesis.settings.load_profile("default")

os.environ["FDIFF_VERIFY"] = "1"  # whatever the scheduler makes is verified, in children too

# JAX is a reference for values: XLA compiles fast rather than into fast code. Not without its
# emitters of fusions, which would be faster still: its gradients are wrong then (test_references).
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# Opcodes that tests of many files need: an interpreter for each set of them takes half a second.
FAMILIES = frozenset(
    [
        "", "add i8 i8 i8", "argmax f8", "convert i8 f8", "copy out", "cos f8 f8", "cumsum f8",
        "equal f8 f8 b1", "equal i8 i8 b1", "exp f8 f8", "gather", "greater f8 f8 b1",
        "logical_and b1 b1 b1", "logical_not b1 b1", "logical_or b1 b1 b1", "not_equal f8 f8 b1",
        "power 0 f8 f8", "power 3 f8 f8", "power f8 f8 f8", "product", "product 1", "product 2",
        "product 3", "product rows", "scatter_add f8", "sech_squared f8 f8", "sin f8 f8",
        "sqrt f8 f8", "square f8 f8", "tanh f8 f8", "where b1 f8 f8 f8",
    ]
)  # fmt: skip


def pytest_addoption(parser):
    parser.addoption("--progress", action="store_true", help="a line of progress, not dots")
    parser.addoption("--sample", action="store_true", help="a part of the rows of long sweeps")
    parser.addoption("--part", type=int, default=0, help="which part --sample runs: 0 to 31")
    parser.addoption("--record-durations", action="store_true", help="make durations.txt anew")


@pytest.hookimpl(trylast=True)  # when the terminal's reporter is there
def pytest_configure(config):
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if config.option.progress and terminal and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(terminal, records=config.option.record_durations))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Tests are millions of objects that live: else each collection walks them, for a second.

    Collections are rarer, too: those of all 700 objects took a tenth of `test_eager.py`.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_report_header(config):
    if not config.option.sample:
        return "rows: all of each test"
    others = f"part {config.option.part} of {RATE} of the others"
    slow = f"of slow tests one in {SLOW_RATE}"
    return f"rows: the first of each test, and {others}, {slow}; without --sample all"


def pytest_collection_modifyitems(config, items):
    if config.option.sample:
        sample(config, items)
    check_marks(items)


def sample(config, items):
    """Of each test some rows: the first one, and of the others one in N, by a hash of its name.

    Of slow tests one in eight is run at all. Which these are depends on their names and on
    ``--part`` alone, so that it is the same everywhere; all parts together are all rows.
    `sampled.txt` tells N where it is another.
    """
    rows = (line.split() for line in SAMPLED.read_text(encoding="utf-8").splitlines())
    rates = {row[1]: int(row[0]) for row in rows if row[0] != "#"}
    seen, part = Counter(), config.option.part

    def kept(item):
        name, _, row = item.nodeid.partition("[")
        rate = rates.get(name) or rates.get(item.nodeid.partition("/test_")[0], RATE)
        seen[name] += 1
        first, number = seen[name] <= ROWS and rate <= RATE, part
        if item.get_closest_marker("slow"):
            if not in_part(name, SLOW_RATE, part):
                return False
            rate, number = max(rate // SLOW_RATE, 1), part // SLOW_RATE
        return not row or first or in_part(row, rate, number)

    parts = {True: [], False: []}
    for item in items:
        parts[kept(item)].append(item)
    config.hook.pytest_deselected(items=parts[False])
    items[:] = parts[True]


def in_part(name, rate, number):
    """Whether a name is in part `number` of so many."""
    return zlib.crc32(name.encode()) % rate == number % rate


def check_marks(items):
    """`make test-slow` collects the files in which the mark is written."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    elsewhere = [path for path in slow if "mark.slow" not in path.read_text(encoding="utf-8")]
    assert not elsewhere, f"marks that `make test-slow` does not find: {elsewhere}"


@pytest.fixture(scope="module", autouse=True)
def _what_earlier_modules_left():
    """It lives until the end, mostly: a collection need not look through millions of objects.

    Tests that collect took two seconds each otherwise. Nobody may call `gc.unfreeze`.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_code_is_slow():
    """A busy machine must not make a warning; test_eager_scalars.py has that warning on."""
    from fdiff.functional.call import slow_code

    slow_code.TIMES = math.inf


@pytest.fixture
def rng():
    return np.random.default_rng(20240711)


@pytest.fixture(scope="session")
def one_interpreter():
    """One bytecode interpreter for all tapes that need no other opcodes."""
    from fdiff.kernels import bytecode

    bytecode.provide(FAMILIES)


@pytest.fixture
def structures(monkeypatch):
    """What dense derivatives were derived from: structures of terms, None where sweeps do."""
    import fdiff
    from fdiff.functional.operators import structured_steps

    derived = []

    def watched(*args):
        derived.append(dense_tape(*args))
        return derived[-1]

    dense_tape = structured_steps.dense_tape
    monkeypatch.setattr(structured_steps, "dense_tape", watched)
    monkeypatch.setattr(structured_steps, "_structures", type(structured_steps._structures)())
    fdiff.dispatch.program.forget_programs()
    return derived
