"""The recorded calls that gave NaN or infinity, noted while anomalies are looked for."""

from __future__ import annotations

from collections.abc import Sequence

from ...bounded_cache import WeakKeys
from ...dispatch.inspection.anomalies import not_finite
from ...functional.call.anomaly_reports import entries_in_words, kind_of_values
from ...process import anomaly_watch
from ..arrays.recorded_array import RecordedArray
from ..backward_passes.nodes import GraphNode
from ..thread_state import RECORDED_CALLS

# Calls with such results: what they gave, in words, and whether all they were given was finite.
_noted: WeakKeys[GraphNode, tuple[str, bool]] = WeakKeys()


def note(
    node: GraphNode, operands: Sequence[object], outputs: Sequence[RecordedArray | None]
) -> None:
    """Remember a call some of whose results are not finite."""
    results = [x.value for x in outputs if x is not None]
    for value in results:
        if (mask := not_finite(value)).any():
            values = [getattr(x, "value", x) for x in operands]
            values = [x for x in values if not any(x is stored for stored in results)]
            words = f"{kind_of_values(value, mask)} values.{entries_in_words(value, mask)}"
            _noted[node] = words, not any(not_finite(x).any() for x in values)
            return


def first_behind(node: GraphNode) -> tuple[GraphNode, str] | None:
    """The earliest call that made a NaN or infinity in the results of `node`, with its words.

    The walk goes through calls that gave such values alone: what a `numpy.where` discarded is not
    to blame. None where nothing was noted.
    """
    seen, waiting = {node}, [node]
    while waiting:
        for edge in waiting.pop().edges:
            if edge is not None and _noted.get(edge[0]) and edge[0] not in seen:
                seen.add(edge[0])
                waiting.append(edge[0])
    noted = [(n, *(_noted.get(n) or ("", False))) for n in seen]
    makers = [(n, words) for n, words, finite_before in noted if finite_before]
    if not makers:
        return None
    first, words = min(makers, key=lambda maker: maker[0].number)
    return first, f"{first.name().removesuffix('Backward0')} gave {words}"


# The short ways of calls note nothing: in the mode none is kept (`recording.py`).
anomaly_watch.listeners.append(lambda _: RECORDED_CALLS.clear())
