"""Lists of launches as CUDA graphs: recorded once, then launched as a whole.

They are described in NVIDIA's CUDA C++ Programming Guide, chapter "CUDA Graphs".

A graph has the addresses that it was recorded with. Inputs that stay where they are, and memory
from a pool that gives the same piece again, give a call the addresses of an earlier one;
when they come for the second time the launches are recorded, under their addresses. Other addresses
are launched one by one: to change a graph's parameters takes a call of the driver for each kernel,
as launching it does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ....bounded_cache import keep_recent
from ....process.environment import switch
from .device import CudaDevice, Prepared

SWITCH = "FDIFF_CUDA_GRAPHS"  # 0 in the environment: no graphs
# From how many launches on a graph is made (on an H100 a call of four takes 36 us with a graph, 83
# without), how many graphs a program keeps, and among how many calls addresses are looked for.
LEAST, MOST, REMEMBERED = 4, 4, 8


class LaunchGraphs:
    """Runs launches for the addresses of all memory, by a graph where there is one for them."""

    def __init__(self, device: CudaDevice, launches: Sequence[Prepared]) -> None:
        self._device = device
        self._launches = launches
        self._graphs: dict[tuple[int, ...], Callable[[], None]] = {}
        self._seen: deque[tuple[int, ...]] = deque(maxlen=REMEMBERED)

    def __call__(self, addresses: Sequence[int]) -> None:
        key = tuple(addresses)
        graph = self._graphs.get(key)
        if graph is None:
            if key not in self._seen:
                self._seen.append(key)
                self._one_by_one(key)
                return
            recorded = self._device.recorded(lambda: self._one_by_one(key))
            graph = keep_recent(self._graphs, key, recorded, MOST)
        graph()

    def _one_by_one(self, addresses: Sequence[int]) -> None:
        for launch in self._launches:
            launch(addresses)


def graphs_wanted(launches: int) -> bool:
    """Whether the launches of a kernel become a graph: if several, unless switched off."""
    return launches >= LEAST and switch(SWITCH) is not False
