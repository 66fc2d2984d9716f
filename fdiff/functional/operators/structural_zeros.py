"""Structural zeros of dense blocks that sweeps computed, where infinities would leave NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...attributes import cached_property
from ...device_arrays import DeviceArray
from ...dispatch.plans import Arrays, PlanStep, Run, deriving, executes
from ...dispatch.variant import Traced
from ...process.collector import collector_paused
from ...tape import Tape
from ...trace import Trace
from ...transforms.derivative_tapes import all_finite
from ...transforms.terms.entry_places import masked, zero_masks
from ...transforms.terms.frozen_values import Known
from .structured_steps import readers

Masks = list[np.ndarray | None]


class StructuralZeros:
    """Puts zeros into the blocks (output, input) of a Jacobian or a Hessian.

    The structure of `tape` says which entries are zero; `traced` is the function of the call.
    Blocks of a Hessian may be `symmetric` already: an entry is then also zero where the mirrored
    entry is zero.
    """

    def __init__(
        self, tape: Tape, traced: Traced, types: Sequence[ArrayType], *, symmetric: bool
    ) -> None:
        self.tape, self.types, self.symmetric = tape, types, symmetric
        self.wrt, self.call, self.device = traced.wrt, traced.call, traced.device

    def put(self, blocks: list[np.ndarray], arrays: Arrays, run: Run) -> list[np.ndarray]:
        """The blocks with zeros, on a device only if something beside them is not finite.

        Steps that are recorded for later calls put the zeros there in any case.
        """
        if not any(isinstance(block, DeviceArray) for block in blocks):
            return [*map(_masked, blocks, self._masks_at(arrays))]
        if executes(run):
            (finite,) = run(self._finite, blocks)
            if np.asarray(finite.host() if isinstance(finite, DeviceArray) else finite):
                return blocks
            step = self._masking(self._masks_at(arrays))
        else:
            step = self._masking_any
        return blocks if step is None else cast("list[np.ndarray]", run(step, blocks))

    @cached_property
    def _finite(self) -> PlanStep:
        """What tells whether all blocks are finite, where they lie."""
        with collector_paused(), deriving(self.call):
            return PlanStep(all_finite(self.types), device=self.device)

    @cached_property
    def _masking_any(self) -> PlanStep | None:
        """What puts the zeros there that hold for any index arrays."""
        return self._masking(self._masks(()))

    def _masking(self, masks: Masks) -> PlanStep | None:
        if all(mask is None for mask in masks):
            return None
        with collector_paused(), deriving(self.call):
            with Trace("jacobian", lines=False) as trace:
                tape = trace.builder.finish([trace.lift(trace.input(t)) for t in self.types])
            return PlanStep(masked(tape, masks), device=self.device)

    def _masks_at(self, arrays: Arrays) -> Masks:
        return self._masks(readers(arrays, self.wrt))

    def _masks(self, values: Known) -> Masks:
        """Of each block which entries there are; None for all of them."""
        wrt = self.wrt
        masks = zero_masks(self.tape, wrt, values)
        if self.symmetric:
            return _on_both_sides(masks, [self.tape.input_types[k].size for k in wrt])
        return masks


def _masked(block: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    if mask is None:
        return block
    return np.where(mask.reshape(block.shape), block, block.dtype.type(0))


def _on_both_sides(masks: Masks, sizes: Sequence[int]) -> Masks:
    """The masks of the blocks of Hessians, each together with the mask across the diagonal."""
    width, joint = len(sizes), [*masks]
    for k, own in enumerate(masks):
        i, j = k // width % width, k % width
        across = masks[k + (j - i) * (width - 1)]
        if across is not None:
            turned = across.reshape((-1, sizes[j], sizes[i])).transpose((0, 2, 1))
            turned = turned.reshape((-1, sizes[j]))
            joint[k] = turned if own is None else own & turned
    return joint
