"""Loop fusion, in rounds: which effects share a nest, and what is better materialised for that.

Which loops fuse depends on what is in memory, and what should be in memory depends on which loops
fuse: a value that several nests would compute is computed once and stored instead. The effects are
therefore made and fused again, a few times at most, until no such value is found.

The iteration is our own: docs/decisions/materialisation.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....process.background import checkpoint
from ...ir.effect import Effect
from ..materialise.materialisation import Plan, make_plan
from .dependences import ordered
from .in_place_updates import update_in_place
from .loop_fusion import fuse_effects
from .recomputation import ON_CPU, ON_GPU, nodes_to_store
from .stencil_adjoint import fuse_reductions_with_gathers

_ROUNDS = 4


@dataclass(frozen=True)
class Schedule:
    """The effects of a plan in order: those in one of the `nests` share its loops.

    The call of a routine stands alone in its nest.
    """

    plan: Plan
    nests: list[list[Effect]]


def fuse_for_gpu(plan: Plan) -> Schedule:
    """The schedule for a GPU, where more is computed again, because memory is far slower."""
    return fuse(plan, ON_GPU)


def fuse(plan: Plan, least_cost: int = ON_CPU) -> Schedule:
    """The effects of a plan fused into nests; the plan of the schedule may store more nodes.

    Of what several nests need, only values that cost at least `least_cost` are stored.
    """
    also: set[int] = set()  # nodes to materialise, found by earlier rounds
    rounds = 0
    while True:
        checkpoint()
        rounds += 1
        plan, effects = update_in_place(plan, also)
        effects = ordered(plan, fuse_reductions_with_gathers(plan, effects))
        nests = [[effects[k] for k in g.members] for g in fuse_effects(plan, effects)]
        again = nodes_to_store(plan, nests, least_cost) if rounds < _ROUNDS else set()
        if not again:
            return Schedule(plan, nests)
        also |= again | plan.deep
        plan = make_plan(plan.analysis, also, plan)
