"""The facts of an explanation in words and units, the same for the terminal and for Jupyter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..dispatch.tiers.tier_forecast import CUDA, KERNEL
from ..errors import DENSE_WAYS
from ..kernels import Fusion, KernelForecast
from .explained_facts import Cost, Facts, StepFact

# What stands above the columns of the table of costs, in two lines.
COST_GROUPS: tuple[str, ...] = ("", "", "", "", "NumPy", "", "kernel", "", "")
COST_HEADS: tuple[str, ...] = (
    "",
    "sweeps",
    "ops",
    "flops",
    "time",
    "memory",
    "time",
    "memory",
    "to compile",
)
_COMPILERS = {
    "llvm": "LLVM, by the fast path",
    "numba": "Numba",
    "numba.cuda": "numba.cuda (NVVM), for a GPU",
}
_LARGE = 1 << 30  # bytes of a result that is rarely what is needed
_PLACES = {"memory": "in memory", "disk": "on disk"}


def head_words(facts: Facts) -> str:
    """The number of recorded nodes in words."""
    nodes = counted(len(facts.tape), "node")
    return f"{nodes} recorded; no derivative run, nothing compiled"


def array_rows(facts: Facts) -> list[tuple[str, str, str, str]]:
    """The rows of the table of arrays: name, type, role, and what must stay; results come last."""
    rows = [
        (fact.name, str(fact.type), fact.role, f"its {fact.fixed} must stay" if fact.fixed else "")
        for fact in facts.inputs
    ]
    return rows + [(name, str(type_), "result", "") for name, type_ in facts.outputs]


def cost_cells(row: Cost) -> tuple[str, ...]:
    """A row of the table of costs."""
    star = "* " if row.picked and row.what != "value" else "  "
    name = f"{row.what}, {row.mode}" if row.mode else row.what
    return (
        star + name,
        f"{row.sweeps:,}" if row.what != "value" else "",
        f"{row.operations:,}",
        scaled(row.flops),
        duration(row.numpy_seconds),
        memory(row.numpy_memory),
        duration(row.seconds),
        memory(row.kernel_memory),
        duration(row.compile_seconds) if row.compile_seconds != 0 else "cached",
    )


def picked_words(costs: Sequence[Cost]) -> Iterator[str]:
    """For each derivative with several modes, the one that is picked, and why; how large it is."""
    for row in costs:
        if row.picked and row.note:
            yield f"{row.what}, {row.mode}: {row.note}"
        if row.picked and row.result >= _LARGE:
            yield f"{row.what}: the result alone takes {memory(row.result)}."
            yield from (f"  {way}" for way in DENSE_WAYS[row.what.lower()].splitlines())


def step_title(number: int, count: int) -> str:
    """The title of the table of a step; `number` counts from zero."""
    return "How it would run" if count == 1 else f"How step {number + 1} of {count} would run"


def step_rows(step: StepFact) -> list[tuple[str, str]]:
    """The rows of this table: the tier, the compiler, and the cache of the kernel."""
    rows = [("tier", _tier_words(step)), ("compiler", _compiler_words(step))]
    if step.kernel is not None:
        rows.append(("cache", _cache_words(step.kernel)))
    return rows


def _tier_words(step: StepFact) -> str:
    """Which tier runs the next call, and when that changes."""
    tier = step.tier
    words = f"{tier.tier}: {tier.why}"
    if tier.tier in (KERNEL, CUDA) or tier.due == math.inf:
        return words
    due, spent = duration(tier.due), duration(tier.spent)
    return f"{words}; one is made once calls have taken {due}, {spent} so far"


def _compiler_words(step: StepFact) -> str:
    """The compiler of the kernel, and the predicted price."""
    words = _COMPILERS[step.compiler]
    if step.kernel is None:
        return words if step.tier.tier == CUDA else f"{words}; no kernel is planned"
    if not step.kernel.compile_seconds:
        return words
    return f"{words}: about {duration(step.kernel.compile_seconds)}"


def _cache_words(kernel: KernelForecast) -> str:
    """Where text and machine code of a kernel are found."""
    text = _PLACES.get(kernel.text, "to be generated")
    code = _PLACES.get(kernel.code, "to be compiled")
    shared = f"; its loops are shared by {kernel.threads} threads" if kernel.threads > 1 else ""
    return f"text {text}, machine code {code}{shared}"


def names_counted(names: Sequence[str]) -> list[str]:
    """Names in order of first appearance; equal ones are counted: ``2 slice``."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [name if count == 1 else f"{count} {name}" for name, count in counts.items()]


def sized(loops: Sequence[str], fusion: Fusion) -> str:
    """A shape with numbers for its symbols."""
    names = {f"n{k}": str(n) for k, n in enumerate(fusion.sizes)}
    words = [" ".join(names.get(word, word) for word in dim.split(" ")) for dim in loops]
    return f"({', '.join(words)})" if words else ""


def counted(number: int, what: str) -> str:
    """``3 loop nests``, ``1 loop nest``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def scaled(number: float) -> str:
    """A number of operations with three digits: ``1.25 M``."""
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:.0f}"


def memory(size: int | None) -> str:
    """Bytes in units of 1,024."""
    if size is None:
        return "-"
    for power, unit in zip(range(50, 0, -10), ("PiB", "TiB", "GiB", "MiB", "KiB"), strict=True):
        if size >= 1 << power:
            return f"{size / (1 << power):.3g} {unit}"
    return f"{size} B"


def duration(seconds: float | None) -> str:
    """Seconds with two digits."""
    if seconds is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor:
            number = seconds / factor
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{seconds / 1e-9:.0f} ns" if seconds else "0 ms"
