"""Threads, forks and processes that disturb each other: numbers are right, and nothing hangs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults_support import LONG, in_shard, of_shard

SCRIPT = Path(__file__).with_name("mixed_calls.py")


def started(*arguments, folder=None):
    environment = dict(os.environ) | ({"FDIFF_CACHE_DIR": str(folder)} if folder else {})
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def ends_well(process, seconds):
    try:
        text, _ = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, text[-6000:]


pytestmark = pytest.mark.timeout(1200)
THREADS = [(0, 8, 1000, 1), *in_shard((seed, 8, 25_000, 100) for seed in range(4))]


@pytest.mark.slow
@pytest.mark.parametrize("numbers", THREADS if LONG else [(0, 4, 120, 1)], ids=str)
def test_threads_that_call_compile_collect_and_drop_caches(numbers):
    """Eight threads, 100,000 calls each, in four processes."""
    ends_well(started("threads", *numbers), 1000)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
@pytest.mark.parametrize("seed", in_shard(range(8)) if LONG else [0])
def test_forks_at_any_moment(seed):
    ends_well(started("forks", seed, 25 if LONG else 3), 1000)


@pytest.mark.slow
def test_processes_on_one_cold_cache(tmp_path):
    waves, count = (of_shard(10), 10) if LONG else (1, 3)
    for wave in range(waves):
        every = [started("process", k, folder=tmp_path / str(wave)) for k in range(count)]
        for process in every:
            ends_well(process, 300)
