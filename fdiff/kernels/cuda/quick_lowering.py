"""A step of Numba's compiler in linear time, for kernels of thousands of statements.

Numba looks for the variables that are assigned and used in one basic block alone, and goes through
all statements of the block for each of them. In a block of 3,000 statements, as unrolled loops of
the user's become, that takes minutes, while NVVM takes a second. Here statements are counted once.
The method that is replaced is Numba's own and private: where it is not found, it stays as it is.
Numba is imported here, so that only who asks for CUDA imports this.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ...process.forking import no_fork

# Modules of numba-cuda alone: Numba's own target, which type checkers see, has none of them.
with no_fork:
    lowering, ir, analysis = (
        import_module(f"numba.cuda.{name}") for name in ("lowering", "core.ir", "core.analysis")
    )
_METHOD = "_find_singly_assigned_variable"


def singly_assigned(blocks: dict[int, Any]) -> set[str]:
    """The variables that are assigned once, and are used in that block alone."""
    use_defs, in_memory = analysis.compute_use_defs(blocks), analysis.must_use_alloca(blocks)
    assigned = Counter(v for names in use_defs.defmap.values() for v in names)
    from_elsewhere = {v for names in use_defs.usemap.values() for v in names}
    times: Counter[str] = Counter()
    for block in blocks.values():
        times.update(s.target.name for s in block.find_insts(ir.assign_types))
    return {
        v
        for v, count in assigned.items()
        if count == times[v] == 1 and v not in in_memory and v not in from_elsewhere
    }


def _find(lower: Any) -> None:
    """Numba's method, but for the time that it takes."""
    if lower.func_ir.func_id.is_generator:
        _numbas(lower)
        return
    lower._singly_assigned_vars = singly_assigned(lower.blocks)
    lower._blk_local_varmap = {}


_numbas: Any = getattr(lowering.Lower, _METHOD, None)
_lock = threading.RLock()


@contextmanager
def quick_lowering() -> Generator[None]:
    """Numba compiles in this context with the method above in the place of its own."""
    if _numbas is None:
        yield
        return
    with _lock:
        setattr(lowering.Lower, _METHOD, _find)
        try:
            yield
        finally:
            setattr(lowering.Lower, _METHOD, _numbas)
