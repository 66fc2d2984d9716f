"""Scatters whose sums are the same in each run: what is added to an entry is sorted first.

A nest writes what it adds to memory, with a key for each term: the entry it goes to, then the
number of the iteration. Keys are sorted, and the thread that finds the first term of an entry adds
up all of them, in the order of the iterations: a segmented sum (G. E. Blelloch, Prefix sums and
their applications, CMU-CS-90-190, 1990, section 1.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....named_tuples import NamedTuple
from ...ir.accesses import Access, Buffer
from ...ir.combiners import Combiner
from ...ir.index_expressions import Axis, size
from ...ir.loops import Nest, Statement, StatementKind
from .nest_mapping import scattered_updates
from .partial_results import PartialMemory

# One block sorts by a bitonic network (D. E. Knuth, The Art of Computer Programming 3, section
# 5.3.4); after the keys there is room up to the next power of two.
SORT = """\
def sort_keys(keys, count, thread, threads):
    padded = np.int64(1)
    while padded < count:
        padded = padded * 2
    e = count + thread
    while e < padded:
        keys[e] = np.int64(9223372036854775807)
        e = e + threads
    cuda.syncthreads()
    width = np.int64(2)
    while width <= padded:
        reach = width // 2
        while reach > 0:
            e = thread
            while e < padded:
                other = e ^ reach
                if other > e:
                    low = keys[e]
                    high = keys[other]
                    if (low > high) == ((e & width) == 0):
                        keys[e] = high
                        keys[other] = low
                e = e + threads
            cuda.syncthreads()
            reach = reach // 2
        width = width * 2


"""


class Scatter(NamedTuple):
    """A sorted scatter: its keys, the number of them, and the lines that add up the terms."""

    keys: str
    number: str
    lines: list[str]


def sorted_scatters(
    nest: Nest, dtypes: Mapping[str, str], memory: PartialMemory
) -> tuple[Nest, list[Scatter]] | None:
    """The nest that writes terms in place of adding them, and what adds them up.

    None if the nest adds nothing to entries that are found at run time, or does more than that.
    """
    updates = scattered_updates(nest)
    plain = not (nest.ranges or nest.branches)
    memories = {u.memory for u in updates}
    uses = [s for s in nest.all_statements if s.kind.uses_memory and s.memory in memories]
    if not updates or not plain or len(uses) > len(updates):
        return None
    if any(u.combiner is not Combiner.ADD for u in updates):
        return None
    dims, count = nest.domain, size(nest.domain)
    every = tuple(Axis(k) for k in range(len(dims)))
    statements: list[Statement] = []
    scatters: list[Scatter] = []
    for s in nest.statements:
        if s not in updates:
            statements.append(s)
            continue
        assert s.access is not None
        dtype = dtypes[s.memory]
        keys = memory.partial("i8", (f"2 * ({count})",))
        terms = memory.partial(dtype, dims)
        place, number, key = (f"{s.target}_{word}" for word in ("place", "number", "key"))
        nowhere = Buffer("")
        to, here = s.access._replace(buffer=nowhere), Access(nowhere, dims, every)
        statements += [
            Statement(StatementKind.POSITION, place, "", s.operands[1:], to),
            Statement(StatementKind.POSITION, number, "", (), here),
            Statement.let(key, f"{{0}} * ({count}) + {{1}}", (place, number)),
            Statement.store((key,), Access(Buffer(keys), dims, every)),
            Statement.store((s.operands[0],), Access(Buffer(terms), dims, every)),
        ]
        total = Combiner.ADD.text(dtype).format("total", f"{terms}[key - place * count]")
        scatters.append(Scatter(keys, count, _added(s.memory, keys, count, total)))
    return replace(nest, statements=tuple(statements)), scatters


def _added(memory: str, keys: str, count: str, total: str) -> list[str]:
    """The terms of each entry added up by the thread that finds the first of them."""
    return [
        f"# {memory} += sorted terms",
        f"count = {count}",
        "e = grid_thread",
        "while e < count:",
        f"    key = {keys}[e]",
        "    place = rt.quotient(key, count)",
        f"    if e == 0 or rt.quotient({keys}[e - 1], count) != place:",
        "        at = e",
        f"        total = {memory}[place]",
        "        same = True",
        "        while same:",
        f"            total = {total}",
        "            at = at + 1",
        "            same = at < count",
        "            if same:",
        f"                key = {keys}[at]",
        "                same = rt.quotient(key, count) == place",
        f"        {memory}[place] = total",
        "    e = e + grid_threads",
    ]
