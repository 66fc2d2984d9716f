"""The profiler's view of a kernel: when each of its loop nests ran, and which operations it holds.

While a profile is in force, a kernel of several nests is compiled once more, with the processor's
clock read between the nests. Its first results are compared with the results of the plain kernel,
bit by bit; if they differ, the timed kernel is not used again. A kernel that cannot be timed in
this way is one event, with the shares that the cost model predicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ... import kernels
from ...bounded_cache import WeakKeys
from ...named_tuples import NamedTuple
from ...process import observed_spans
from ...process.observed_spans import KERNEL, PROFILER, Observer, Span, span
from ...tape import Tape
from ...user_lines import Line, with_line
from ..primal_nodes import Around, around, phase_of

if TYPE_CHECKING:
    from ...kernels import BytecodeExecutable, ClockedKernel, Executable

NAMED = 6  # operations that a span names, the most frequent first
SHOWN = 4  # operations in the name of a nest
_MEASURED = "measured by the processor's clock, read between the loop nests"
_WHOLE = "measured as a whole"
Arrays = Sequence[np.ndarray]


def shapes_of(values: Sequence[Any]) -> list[list[int]]:
    """The shapes of operands, as lists."""
    return [list(np.shape(x)) for x in values]


def owned_bytes(value: object) -> int:
    """Bytes of the memory that belongs to an array, or to several; none to a view."""
    if isinstance(value, tuple | list):
        return sum(map(owned_bytes, value))
    return value.nbytes if isinstance(value, np.ndarray) and value.base is None else 0


def most_common(names: Iterable[str]) -> str:
    """The names of operations, the most frequent first, and how often each is there."""
    counts = Counter(names).most_common()
    shown = ", ".join(f"{name} x{n}" if n > 1 else name for name, n in counts[:NAMED])
    return shown + f" and {len(counts) - NAMED} more" * (len(counts) > NAMED)


# --- as a whole -----------------------------------------------------------------------------------


def observed_bytecode(tape: Tape, call: str, run: BytecodeExecutable, arrays: Arrays) -> Arrays:
    """The outputs of a tape that the bytecode interpreter runs; in a profile, in one span."""
    seen = observed_spans.observer
    if seen is None:
        return run(arrays)
    with _span(seen, f"bytecode of {call or 'a tape'}", tape, arrays) as run_span:
        run_span.args.update(tier="evaluate", timing=_WHOLE, instructions=len(run.program.code))
        outs = run(arrays)
        run_span.memory = sum(out.nbytes for out in outs)
    return outs


def _span(seen: Observer, name: str, tape: Tape, arrays: Arrays) -> Span:
    """An open span for what computes a whole tape."""
    shapes = shapes_of(arrays) if seen.shapes else None
    run_span = seen.begin(name, KERNEL, shapes, **_contents(tape, around()))
    run_span.flops = kernels.costs_of_tape(tape).flops if seen.flops else 0
    return run_span


@lru_cache(maxsize=256)
def _contents(tape: Tape, of: Around) -> dict[str, object]:
    """A span's entries about the nodes that are computed in it."""
    nodes = [i for i, node in enumerate(tape.nodes) if node.args]
    operations = most_common(tape.nodes[i].primitive.name for i in nodes)
    phase = phase_of(frozenset(nodes), tape, of)
    return {"operations": operations, "nodes": len(nodes), "phase": phase}


# --- nest by nest ---------------------------------------------------------------------------------


def observed_kernel(tape: Tape, call: str, run: Executable, arrays: Arrays) -> Arrays:
    """The outputs of a kernel; in a profile, with a span for it and for each of its loop nests."""
    seen = observed_spans.observer
    if seen is None:
        return run(*arrays)
    clocked = _clocked(tape, run, arrays)
    with _span(seen, f"kernel of {call or 'a tape'}", tape, arrays) as run_span:
        run_span.args["tier"] = "compile"
        if clocked.executable is None:
            outs, stamps = run(*arrays), None
        else:
            outs, stamps = clocked(arrays)
        run_span.memory = sum(out.nbytes for out in outs)
    _note_nests(run_span, clocked, tape, None if stamps is None else stamps.times())
    return outs


_clocked_kernels: WeakKeys[Executable, ClockedKernel] = WeakKeys()


def _clocked(tape: Tape, run: Executable, arrays: Arrays) -> ClockedKernel:
    """The kernel with time stamps, made at the first call in a profile."""
    kernel = _clocked_kernels.get(run)
    if kernel is None:
        with span("prepare to time loop nests", PROFILER):
            kernel = kernels.clocked_kernel(tape, run.layouts, run.compiler)
            timed = kernel.executable is not None
            if timed and not _same_bits(run(*arrays), kernel(arrays)[0]):
                kernel = kernel._replace(executable=None, why="its sums round in another way")
        _clocked_kernels[run] = kernel
    return kernel


def _same_bits(first: Arrays, second: Arrays) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


def _note_nests(
    run_span: Span, clocked: ClockedKernel, tape: Tape, times: list[int] | None
) -> None:
    """Spans for the loop nests inside the kernel's span; or predictions for the nests."""
    nests = clocked.nests
    if len(nests) == 1:
        times = [run_span.begin, run_span.end]
        run_span.args["timing"] = _WHOLE
    elif times is None:
        shares = [f"{_name(nest.names)}: {nest.share:.0%}" for nest in nests]
        run_span.args.update(timing=f"{_WHOLE}: {clocked.why}", predicted_shares=shares)
        return
    else:
        run_span.args["timing"] = _MEASURED
    for k, nest in enumerate(nests):
        about = _about_nest(tape, nest.nodes, around(run_span.parent))
        args = {"loops": " x ".join(nest.loops), "nodes": [f"%{i}" for i in nest.nodes]}
        nest_span = run_span.inside(_name(nest.names), about.phase, times[k], times[k + 1], **args)
        nest_span.args.update(
            operations=", ".join(nest.names), predicted_share=round(nest.share, 4)
        )
        nest_span.args["timing"] = run_span.args["timing"]
        nest_span.lines, nest_span.flops = about.lines, 0
        nest_span.note()


def _name(names: tuple[str, ...]) -> str:
    """The name of a nest: its operation's name, or the first one's of those that are fused."""
    if len(names) == 1:
        return names[0]
    more = f", {len(names) - SHOWN} more" * (len(names) > SHOWN)
    return f"fused({', '.join(names[:SHOWN])}{more})"


class _About(NamedTuple):
    """The phase of some nodes, and the user's lines that made them."""

    phase: str
    lines: tuple[Line, ...]


@lru_cache(maxsize=1024)
def _about_nest(tape: Tape, nodes: tuple[int, ...], of: Around) -> _About:
    lines: tuple[Line, ...] = ()
    for i in nodes:
        for line in tape.lines.get(i, ()):
            lines = with_line(lines, line) if line not in lines else lines
    return _About(phase_of(frozenset(nodes), tape, of) if nodes else KERNEL, lines)
