"""The entry stub is rehearsed before it runs: a stub that differs anywhere is found, and no crash.

What it relies on of Python and NumPy is compared first: no fact that is otherwise makes that crash.
"""

import os
import signal
import zlib
from pathlib import Path

import pytest
from faults_support import LONG, SHARD, SHARDS
from stub_mutants import mutants

from fdiff.kernels.llvm.stub import dict_entries, entry_stub
from fdiff.kernels.llvm.stub import interpreter_abi as abi
from fdiff.kernels.llvm.stub_trials import every_trial

SHARE = SHARDS if LONG else 20
# Mutants that do the same, by the line that differs behind the one before; reasons after a #.
SAME = Path(__file__).with_name("equivalent_mutants.txt").read_text(encoding="utf-8")
ONLY_SIMPLE = "# the simple stub builds no scalars"


def chosen(name):
    return zlib.crc32(name.encode()) % SHARE == SHARD


def equivalent(*, full):
    both, _, simple = SAME.partition(ONLY_SIMPLE)
    return {*both.split("\n"), *(() if full else simple.split("\n"))}


@pytest.mark.parametrize("full", [True, False])
def test_the_stub_is_found_right(full):
    assert every_trial.fault_of_text(entry_stub.text(full=full), full=full) == ""


@pytest.mark.slow
@pytest.mark.parametrize("full", [True, False])
def test_every_mutant_is_found(full):
    """The rehearsal is Python alone: whatever a mutant does, it cannot crash."""
    number, survivors = 0, set()
    for name, text in mutants(full=full):
        if chosen(text):
            number += 1
            if not every_trial.fault_of_text(text, full=full):
                survivors.add(name)
    assert survivors <= equivalent(full=full)
    assert number > 300 / SHARE
    if LONG:
        names = {name for name, text in mutants(full=full) if chosen(text)}
        assert survivors == equivalent(full=full) & names


@pytest.mark.slow
def test_reasons_are_for_lines_that_are_there():
    lines = {name for full in (True, False) for name, _ in mutants(full=full)}
    kept = {line for line in equivalent(full=False) if line and not line.startswith("#")}
    assert len(kept) > 30
    assert kept <= lines


FACTS = [
    *((vars(abi), name) for name in ("CLASS", "VALUE", "LENGTH", "_ARRAY_TYPE", "_VERSION")),
    *((table, name) for table in (abi.ARRAY, abi.ARRAY_HALVES, abi.NUMPY_API) for name in table),
    *((vars(dict_entries), name) for name in ("KEYS", "_VALUES", "KIND", "_INDICES", "_KIND")),
    *((vars(dict_entries), name) for name in ("_COUNT", "_LENGTH")),
]


def refused():
    for cached in (abi.fault, abi._slots, dict_entries.readable):
        cached.cache_clear()
    return bool(abi.fault()) or not dict_entries.readable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("table", "name"), FACTS, ids=[name for _, name in FACTS])
def test_a_fact_that_is_otherwise_is_found_without_a_crash(table, name):
    assert not refused()
    for step in (-16, -8, -4, -3, -2, -1, 1, 2, 3, 4, 8, 16) if LONG else (-1, 1):
        child = os.fork()
        if not child:
            signal.alarm(60)
            table[name] += step
            os._exit(refused())
        assert os.waitpid(child, 0)[1] == 1 << 8, step


def test_without_numpys_header_the_slots_are_tried_alone(monkeypatch, tmp_path):
    assert abi._slots_of_header(abi.NUMPY_API) == abi.NUMPY_API
    monkeypatch.setattr(abi, "Path", lambda _: tmp_path / "no such folder" / "file")
    assert abi._slots_of_header(abi.NUMPY_API) == {}
    assert not refused()
