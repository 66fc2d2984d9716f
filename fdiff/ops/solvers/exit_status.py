"""Ops that run a solver, and the exit status of a run.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...errors import TraceError
from ...primitive import Primitive, Sample
from ...trace import TracedArray, apply_many
from ..entrywise.families import Rule, opaque_op
from .solver_arguments import CallSite

# Exit status of a solver's run: it ended as SciPy ends it; at a branch that is not traced; with an error.
ENDED, UNTRACED, RAISED = range(3)


def untraced_branch_error(name: str, site: CallSite) -> TraceError:
    """The error of a derivative that meets a branch which the value did not meet."""
    fact = f"the derivative of {name} meets a branch of the function that its value did not meet."
    return TraceError(site.words(fact, "Use numpy.where, numpy.minimum or numpy.maximum in place of `if`."))


def solver_op(
    name: str, infer: Callable[..., tuple[ArrayType, ...]], evaluate: Rule, jvp: Rule, vjp: Rule, *samples: Sample,
    batch: Rule | None = None, **facts: object,
) -> Primitive:  # fmt: skip
    """Register an op that runs a solver; `facts` as in `opaque_op`, and `batch` is by default `batch_by_unrolling`."""
    rule = batch or (lambda *args, **params: batch_by_unrolling(op, *args, **params))
    op = opaque_op(name, infer, evaluate, jvp, vjp, *samples, batch=rule, family="solver", **facts)
    return op


def batch_by_unrolling(
    primitive: Primitive, args: Sequence[TracedArray], mapped: Sequence[bool], size: int, **params: object
) -> list[object]:
    """Batching rule: one run of the solver for each row of the mapped arguments."""
    rows = [apply_many(primitive, *(x[k] if m else x for x, m in zip(args, mapped, strict=True)), **params) for k in range(size)]
    return [np.stack(column) for column in zip(*rows, strict=True)]
