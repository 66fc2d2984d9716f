"""One of several tapes, chosen when it is run, as one op.

``switch(index, *operands)`` runs the branch of that number, or the first or the last where there is
none (``jax.lax.switch``). Derivatives are switches of derivatives; in reverse, a branch computes its
values again.

Source: J. Bradbury et al., JAX, 2018: entry ``jax.lax.switch``.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import F8, INT, ArrayType
from ...errors import TapeError
from ...facets import Structure
from ...kernel_rule import Kind
from ...primitive import LateParams, Sample
from ...tape import Tape
from ...trace import Trace
from .loop import body_op, runner_of

Branches = tuple[Tape, ...]


def _infer(index: ArrayType, *types: ArrayType, branches: Branches) -> tuple[ArrayType, ...]:
    outs = branches[0].output_types
    if index != ArrayType((), INT) or any(
        b.input_types != types or b.output_types != outs for b in branches
    ):
        raise TapeError(f"branches of a switch take other types than {types}, or give several")
    return outs


def _evaluate(index: object, *args: np.ndarray, branches: Branches) -> object:
    branch = branches[min(max(int(index), 0), len(branches) - 1)]
    outs = runner_of(branch)(*args)
    results = [np.array(x, t.dtype) for x, t in zip(outs, branch.output_types, strict=True)]
    return tuple(results) if len(results) > 1 else results[0]


def _sample_branches() -> LateParams:
    """Three smooth functions of two entries and a number, one of which leaves an argument out."""

    def make() -> dict[str, object]:
        functions = [
            lambda x, y: (np.sin(x) * y, x[0] * y),
            lambda x, y: (x * x, x[1] + y * y),
            lambda x, y: (np.exp(x), np.sum(x)),
        ]
        branches = []
        for f in functions:
            with Trace("switch", lines=False) as trace:
                outs = f(trace.input(ArrayType((2,), F8)), trace.input(ArrayType((), F8)))
                branches.append(trace.builder.finish([*map(trace.lift, outs)]))
        return {"branches": tuple(branches)}

    return LateParams(make)


def _sample(index: int) -> Sample:
    make = lambda rng: (np.asarray(index), rng.normal(size=2), np.asarray(rng.normal()))  # noqa: E731 - a line
    return Sample(make, _sample_branches())


_SAMPLES = [_sample(k) for k in (0, 1, 5, -1)]
SWITCH = body_op("switch", _infer, _evaluate, *_SAMPLES, kind=Kind.SWITCH, structure=Structure(selects=True), pulls_masks=True)
