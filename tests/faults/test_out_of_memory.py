"""Where memory runs out the user gets a MemoryError, and the next call is right."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from faults_support import LONG, in_shard

from fdiff.kernels import late_imports
from fdiff.process import memory_reserve

SCRIPT = Path(__file__).with_name("out_of_memory.py")
LIMITED = sys.platform == "linux"  # where an address space is limited, and its size is told
WHAT = ["cold", "kernel", "routine", "long", "loop", "loaded"] if LONG else ["cold", "kernel"]
MOST = {"cold": 300_000}  # KB from which on nothing is to be met; for others 50,000

SECONDS = 900  # of a busy machine


def margins(what):
    """Margins in KB, closer together where they are small."""
    rng = random.Random(f"margins {what}")
    few = [0, 30_000] if what == "kernel" else [MOST.get(what, 20_000) // 4]
    many = [int(MOST.get(what, 50_000) * rng.random() ** 3) for _ in range(130)]
    return in_shard(many) if LONG else few


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.skipif(not LIMITED, reason="address spaces are not limited here")
@pytest.mark.parametrize("what", WHAT)
def test_memory_runs_out(what, tmp_path):
    environment = {**os.environ, "FDIFF_CACHE_DIR": str(tmp_path), "FDIFF_BACKGROUND": "0"}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "FDIFF_VERIFY": "0"}
    if what != "loaded":
        environment["FDIFF_CACHE_DIR"] = "off"
    command = [sys.executable, str(SCRIPT), what, *map(str, margins(what))]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=SECONDS
    )
    lines = run.stdout.splitlines()
    assert [int(line.split()[0]) for line in lines] == margins(what)
    for line in lines:
        _, *words, last, status = line.split()
        assert (set(words), last, status) <= ({"MemoryError", "right"}, "right", "0"), line
        assert len(words) == 3, line


LOADING = """
import resource
from pathlib import Path
import numpy as np
import fdiff
pages = int(Path("/proc/self/statm").read_text().split()[0])
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (66 << 20), limits[1]))
product = lambda x: x[1:] * x[:-1]
try:
    fdiff.jacobian(product, sparse=True)(np.ones(3))
except MemoryError as error:
    assert type(error) is MemoryError, type(error)
    assert str(error) == "fdiff: there is no room for the 160 MB that SciPy may need.", error
resource.setrlimit(resource.RLIMIT_AS, limits)
assert fdiff.jacobian(product, sparse=True)(np.ones(3)).sum() == 4
"""


@pytest.mark.skipif(not LIMITED, reason="address spaces are not limited here")
def test_scipy_is_loaded_where_there_is_room_for_it():
    """Its OpenBLAS tries for ever where there is not."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LOADING]
    subprocess.run(command, env=environment, check=True, timeout=300)


def test_there_is_no_room_for_llvm(monkeypatch):
    """It is asked for before LLVM is called, which ends the process."""
    monkeypatch.setattr(memory_reserve, "_LEAST", 1 << 62)
    with pytest.raises(MemoryError, match=r"^fdiff: there is no room for the \d+ MB that LLVM"):
        late_imports.machine_code.machine._new_machine(late_imports.machine_code.machine.target())
