"""Exceptions that arrive anywhere, and alarms: nothing is lost, and nothing is left behind."""

import subprocess
import sys
from pathlib import Path

import pytest
from faults_support import LONG, ROUND, SHARD, SHARDS, of_shard
from interrupted_transforms import TRANSFORMS

HERE = Path(__file__).parent
NAMES = (
    "first", "alone", "nested", "eager", "jit", "warm", "backward", "modes", "anomalies", "profile",
)  # fmt: skip
CLASSES = (  # of alarms
    "TimeoutError", "RuntimeError", "KeyboardInterrupt", "ValueError", "TypeError", "KeyError",
    "IndexError", "OSError", "AttributeError",
)  # fmt: skip
EVERY = [*NAMES, "forks", *TRANSFORMS]
STEPS = [  # programs, how many events apart exceptions come in all parts together, and their class
    *[(name, 2) for name in (*NAMES, "forks")],
    *[(name, 10) for name in TRANSFORMS],
    *[(",".join(EVERY[k::2]), 150, kind) for kind in CLASSES for k in range(2)],
]
QUICK = "alone,eager,jit,backward,modes,anomalies,profile,forks,objects,stores"
SWEEPS = (
    [(names, SHARD * step + ROUND % step, SHARDS * step, *kind) for names, step, *kind in STEPS]
    if LONG
    else [
        (QUICK, 5, 0),
        ("objects,scans,c_function,branches", 5, 0, "ValueError"),
        ("nested,searches,python_loops", 5, 0, "AttributeError"),
    ]
)
pytestmark = pytest.mark.timeout(1200)
LOOPS = (12, "plain", "method", "property", "integer", "super", "data")


def ends_well(script, *arguments):
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1000, check=False)
    print(done.stdout)  # how many places, for `pytest -rP`
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks, and no alarms")
@pytest.mark.parametrize("sweep", SWEEPS, ids=str)
def test_an_exception_at_any_line_leaves_nothing_behind(sweep):
    ends_well("interrupted_programs.py", *sweep)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
def test_no_alarm_is_lost_in_a_hot_loop():
    ends_well("interrupted_loops.py", *((of_shard(60),) if LONG else LOOPS))
