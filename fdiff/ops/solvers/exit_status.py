"""The exit status of a solver's run, and the batching rule of all solvers.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...errors import TraceError
from ...primitive import Primitive
from ...trace import TracedArray, apply_many
from .solver_arguments import CallSite

# Exit status of a solver's run: it ended as SciPy ends it; at a branch that is not traced; with an error.
ENDED, UNTRACED, RAISED = range(3)


def untraced_branch_error(name: str, site: CallSite) -> TraceError:
    """The error of a derivative that meets a branch which the value did not meet."""
    fact = f"the derivative of {name} meets a branch of the function that its value did not meet."
    return TraceError(site.words(fact, "Use numpy.where, numpy.minimum or numpy.maximum in place of `if`."))


def batch_by_unrolling(
    primitive: Primitive, args: Sequence[TracedArray], mapped: Sequence[bool], size: int, **params: object
) -> list[object]:
    """Batching rule: one run of the solver for each row of the mapped arguments."""
    rows = [apply_many(primitive, *(x[k] if m else x for x, m in zip(args, mapped, strict=True)), **params) for k in range(size)]
    return [np.stack(column) for column in zip(*rows, strict=True)]
