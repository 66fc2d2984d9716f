"""An optimisation barrier: a value that counts as computed after another, and is not merged with an equal one."""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...facets import LayoutRule, Lowering, Structure
from ...kernel_rule import KernelRule, Kind
from ...primitive import Sample
from ...trace import Array, TracedArray, apply
from ..entrywise.broadcasting import align
from ..entrywise.families import multilinear
from ..entrywise.sample_domains import real
from ..late_term_rules import first_operand


def _type(x: ArrayType, other: ArrayType) -> tuple[ArrayType, ...]:
    return (x,)


def _batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int) -> list[object]:
    """Batching rule; if only the other operand is mapped, its first entry stands for it."""
    x, other = align(args, mapped)
    return [apply(barrier, x, other if mapped[0] or not mapped[1] else first_entry(other))]


# The optimisation barrier of compilers: `x`, which is there only once the number beside it is. That
# number broadcasts in a batch. It makes another node of `x`, so that nothing computed of it is found
# to be a common subexpression, and a dependence that keeps the passes of kernels from fusing both.
# The tangent waits too.
barrier = multilinear(
    "optimization_barrier", _type, lambda bar, args: [bar], ((0,),), evaluate=lambda x, other: x,
    samples=(Sample(lambda rng: (real(rng, (2, 3)), real(rng, ()))),), batch=_batch, family="barrier",
    lowering=Lowering(KernelRule(Kind.BARRIER, "{0}")),
    structure=Structure(structural=True, sizeless=True, moves=True, layout=LayoutRule("first"), terms=first_operand),
)  # fmt: skip


def first_entry(x: Array) -> Array:
    """The first entry of an array, as a number."""
    return x[(0,) * x.ndim] if x.ndim else x


def behind(values: Sequence[TracedArray], others: Sequence[TracedArray | np.ndarray]) -> list[TracedArray]:
    """The values, which count as computed when all of the others are."""
    numbers = [first_entry(x) for x in others if x.type.size]
    mark = numbers[0] if numbers else np.zeros(())
    for number in numbers[1:]:
        mark = apply(barrier, mark, number)
    return [apply(barrier, x, mark) for x in values]
