"""Reductions over the threads of a warp or of a block, as device functions in Numba's language.

Threads of a warp exchange values (a butterfly of shuffles, in which every lane computes the same
sums in the same order); in a block, each warp then reads what all warps have from shared memory.
All threads get the result, and it depends on their number alone.

M. Harris, Optimizing parallel reduction in CUDA, NVIDIA 2007, page 3; with shuffles, J. Luitjens,
Faster parallel reductions on Kepler, NVIDIA 2014, section "Shuffle Warp Reduce".
"""

from __future__ import annotations

from ...ir.combiners import Combiner
from ...ir.loops import NUMPY
from .nest_mapping import neutral_of

_EXCHANGED = """\
    reach = WARP // 2
    while reach > 0:
        other = rt.exchange(value, reach)
        value = {combined}
        reach = reach // 2
"""
_OF_WARP = f"""\
def {{name}}(value):
{_EXCHANGED}    return value
"""
_OF_BLOCK = f"""\
def {{name}}(value):
    slots = cuda.shared.array(32, {{type_}})
{_EXCHANGED}    thread = cuda.threadIdx.x
    warps = (cuda.blockDim.x + WARP - 1) // WARP
    cuda.syncthreads()
    if thread % WARP == 0:
        slots[thread // WARP] = {{stored}}
    cuda.syncthreads()
    lane = thread % WARP
    value = {{loaded}} if lane < warps else {{neutral}}
{_EXCHANGED}    return value
"""


def reduction_name(scope: str, combiner: Combiner, dtype: str) -> str:
    """The name of the function that combines the values of all threads of a warp or a block."""
    return f"{scope}_{combiner.name.lower()}_{dtype}"


def reduction_text(scope: str, combiner: Combiner, dtype: str) -> str:
    """The text of that function."""
    truth = dtype == "b1"
    narrow = "{}" if dtype in ("f8", "f4", "i8", "b1") else f"{NUMPY[dtype]}({{}})"
    return _SCOPES[scope].format(
        name=reduction_name(scope, combiner, dtype),
        type_="np.uint8" if truth else NUMPY[dtype],
        combined=narrow.format(combiner.text(dtype).format("value", "other")),
        stored="np.uint8(value)" if truth else "value",
        loaded="slots[lane] != 0" if truth else "slots[lane]",
        neutral=neutral_of(combiner, dtype),
    )


_SCOPES = {"warp": _OF_WARP, "block": _OF_BLOCK}
REDUCTIONS = {
    reduction_name(scope, combiner, dtype): reduction_text(scope, combiner, dtype)
    for scope in _SCOPES
    for combiner in Combiner
    for dtype in NUMPY
    if (dtype == "b1") == (combiner in (Combiner.OR, Combiner.AND))
}
