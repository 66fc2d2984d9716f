"""Caches that threads share: one that another thread changes meanwhile loses entries, no more."""

import gc
import random
import re
import time
from pathlib import Path

from faults_support import LONG, run_in_threads

import fdiff
from fdiff.bounded_cache import WeakValues, drop_oldest, keep_recent
from fdiff.capture.dependencies import Held, Pins


class Key:
    """What Python code hashes and compares, as tapes are: other threads run meanwhile."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return self.number == other.number


def test_threads_share_a_cache():
    """An `OrderedDict` in its place ended the process (its C code trusts what it has looked up)."""
    cache, failures = {}, []
    end = time.monotonic() + (20.0 if LONG else 1.0)

    def work(seed):
        rng = random.Random(seed)
        while time.monotonic() < end and not failures:
            number = rng.randrange(40)
            key = Key(number)
            try:
                assert keep_recent(cache, key, cache.get(key, number), 20) == number
                if rng.random() < 0.01:
                    cache.clear()
            except Exception as error:  # noqa: BLE001 - any is a failure
                failures.append(repr(error))

    run_in_threads(work, 4)
    assert not failures
    assert len(cache) <= 20


def test_the_latest_entries_are_kept():
    cache = {}
    for number in [*range(5), 1, 6]:
        keep_recent(cache, number, -number, 4)
    assert [*cache.items()] == [(3, -3), (4, -4), (1, -1), (6, -6)]
    assert drop_oldest(cache) == 3
    assert drop_oldest({}) is None


# They ask whether the user's own objects are of this class.
OF_USERS = {"tree.py", "traced_value_release.py"}


def test_no_cache_is_an_ordered_dict():
    sources = [p for p in Path(fdiff.__file__).parent.rglob("*.py") if p.name not in OF_USERS]
    assert len(sources) > 500
    named = {p.name for p in sources if "OrderedDict" in p.read_text()}
    assert named == {"bounded_cache.py"}  # it says why


class Reads:
    """What is held; it ends with the last reference to it."""


def test_collections_that_change_a_cache_meanwhile():
    """A list of `items()` makes tuples, so that a collection begins, which others changed it in."""
    held, weak, pins = Held(64), WeakValues(), Pins(None, (), (), (), [])
    reads = [Reads() for _ in range(40)]
    for number, one in enumerate(reads):
        held.enter(one, pins)
        weak[number] = one

    def changes(_phase, _info):
        held.pop(next(iter(held)), None)
        held[Reads()] = pins
        weak[len(reads)] = reads[0]
        weak._references.pop(rng.randrange(40), None)

    rng, thresholds = random.Random(1), gc.get_threshold()
    gc.callbacks.append(changes)
    gc.set_threshold(1)
    try:
        for _ in range(200):
            held.enter(Reads(), pins)
            weak.values()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(changes)
    assert 30 < len(held) <= 80


def test_no_list_is_made_of_items_of_what_threads_share():
    pattern = re.compile(
        r"(?:\[\*|tuple\(|list\(|islice\()[\w.]*(?:\([\w., ]*\))?(?<!copy\(\))\.items\(\)"
    )
    sources = Path(fdiff.__file__).parent.rglob("*.py")
    found = {p.name for p in sources if pattern.search(p.read_text())}
    # where the dictionary is theirs alone
    assert found == {"function_type.py", "rehearsal.py", "code_loops.py"}
