"""Steps of Numba's compiler in less time, for kernels of thousands of statements.

Numba looks for the variables that are assigned and used in one basic block alone, and goes through
all statements of the block for each of them. In a block of 3,000 statements, as unrolled loops of
the user's become, that takes minutes, while NVVM takes a second. Here statements are counted once.

For each operator of a text, when types are inferred and when code is made, Numba also goes through
all that could stand for it: ufuncs, overloads and tables, a fifth of the time. Here what was found
for the same types in the same kernel is taken again.

The methods that are replaced are Numba's own and private: one that is not found stays as it is.
Numba is imported here, so that only who asks for CUDA imports this.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any

from ....foreign_errors import contextmanager
from ....process.forking import no_fork

# Modules of numba-cuda alone: Numba's own target, which type checkers see, has none of them.
with no_fork:
    lowering, ir, analysis, types = (
        import_module(f"numba.cuda.{name}")
        for name in ("lowering", "core.ir", "core.analysis", "types")
    )
_SCALARS = (types.Integer, types.Float, types.Boolean, types.CPointer, types.IntegerLiteral)
_lock = threading.RLock()


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
    """Replace Numba's `Lower._find_singly_assigned_variable`: the same result, from one pass."""
    if lower.func_ir.func_id.is_generator:
        NUMBAS[_FIND](lower)
        return
    lower._singly_assigned_vars = singly_assigned(lower.blocks)
    lower._blk_local_varmap = {}


def _remembering() -> object:
    """Replace Numba's typing of calls by one that keeps the types of operators on scalars.

    They are kept for one kernel, and used in the thread that compiles it.
    """
    # With the function, so that its id stays.
    remembered: dict[tuple[object, ...], tuple[object, object]] = {}
    thread = threading.get_ident()

    def call_type(
        function: object, context: object, args: tuple[object, ...], kws: object
    ) -> object:
        if kws or not _of_scalars(function, args) or threading.get_ident() != thread:
            return NUMBAS[_CALL_TYPE](function, context, args, kws)
        key = id(function), id(context), tuple(args)
        if key not in remembered:
            remembered[key] = NUMBAS[_CALL_TYPE](function, context, args, kws), function
        return remembered[key][0]

    return call_type


def _of_scalars(function: object, args: tuple[object, ...]) -> bool:
    """Whether a function is an operator of Python, of scalars, or of a pointer and a place."""
    operator = getattr(getattr(function, "typing_key", None), "__module__", "") == "_operator"
    return operator and all(type(a) in _SCALARS for a in args)


_FIND: tuple[object, str] = (lowering.Lower, "_find_singly_assigned_variable")
_CALL_TYPE: tuple[object, str] = (types.Function.__mro__[1], "get_call_type")
NUMBAS: dict[tuple[object, str], Callable[..., object]] = {
    place: getattr(*place) for place in (_FIND, _CALL_TYPE) if hasattr(*place)
}


@contextmanager
def numba_speedups() -> Generator[None]:
    """Numba compiles one kernel in this context, with the methods above in the place of its own."""
    with _lock:
        ours = {_FIND: _find, _CALL_TYPE: _remembering()}
        for place in NUMBAS:
            setattr(*place, ours[place])
        try:
            yield
        finally:
            for place, method in NUMBAS.items():
                setattr(*place, method)
