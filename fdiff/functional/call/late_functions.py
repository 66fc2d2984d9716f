"""Late imports: eager results, sums over partitions, functions of fdiff."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...dispatch.plans import Arrays, EagerStep, Step
from ...dispatch.variant import Traced
from ...hooks import hooks
from ...process import forking
from ...transforms.pipeline import Pipeline, derive

if TYPE_CHECKING:
    from .prepared import Origin


def late(module: str, name: str) -> Callable[..., Any]:
    """The function `name` of a module of `fdiff.functional`, imported when it is first called."""
    return forking.late(module, "fdiff.functional", name)


def step_of(
    traced: Traced,
    pipeline: Pipeline,
    values: Callable[[Traced, Arrays], list[np.ndarray]],
    **request: object,
) -> Step:
    """The step of a plan: the tape that `pipeline` derives, or `values` of an eager trace."""
    if traced.eager is not None:
        return EagerStep(partial(values, traced))
    return traced.step(derive(pipeline, traced.tape, **request))


def of_partitions(f: object, origin: Origin) -> Any:
    """What an operator makes of a sum over partitions: a sum again. None for other functions."""
    derived = hooks.over_partitions
    return None if derived is None else derived(f, origin)
