"""Exceptions that arrive anywhere, and alarms: nothing is lost, and nothing is left behind."""

import subprocess
import sys
from pathlib import Path

import pytest
from faults_support import LONG
from interrupted_transforms import TRANSFORMS

HERE = Path(__file__).parent
NAMES = ("first", "nested", "eager", "jit", "warm", "backward", "modes", "anomalies", "profile")
CLASSES = ("TimeoutError", "RuntimeError", "KeyboardInterrupt")  # of alarms
SWEEPS = (
    [(name, seed, 4) for name in (*NAMES, "forks") for seed in (0, 2)]
    + [(name, 1, 10) for name in TRANSFORMS]
    + [(name, 5, 14, kind) for name in ("jit", "profile", "searches") for kind in CLASSES]
    if LONG
    else [("first,eager,jit,backward,modes,anomalies,profile,forks,objects,stores", 5, 0)]
)
pytestmark = pytest.mark.timeout(1200)
LOOPS = (60,) if LONG else (12, "plain", "method", "property", "integer", "super", "data")


def ends_well(script, *arguments):
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1000, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks, and no alarms")
@pytest.mark.parametrize("sweep", SWEEPS, ids=str)
def test_an_exception_at_any_line_leaves_nothing_behind(sweep):
    ends_well("interrupted_programs.py", *sweep)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
def test_no_alarm_is_lost_in_a_hot_loop():
    ends_well("interrupted_loops.py", *LOOPS)
