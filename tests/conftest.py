"""What all tests share: one seed, and hypothesis without a clock or a memory."""

import gc
import os

import hypothesis
import numpy as np
import pytest
from progress import Progress

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


def pytest_addoption(parser):
    parser.addoption("--progress", action="store_true", help="a line of progress, not dots")


@pytest.hookimpl(trylast=True)  # when the terminal's reporter is there
def pytest_configure(config):
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if config.option.progress and terminal and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(terminal))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Tests are millions of objects that live: else each collection walks them, for a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def rng():
    return np.random.default_rng(20240711)
