"""Seeded blocks: the parts of a dense Jacobian that one batched derivative tape computes.

Forward mode gives columns, one block for each input; reverse mode rows, one block for each output.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..device_arrays import CPU
from ..dispatch.plans import PlanStep
from ..tape import Tape
from ..transforms.dependence import reached
from ..transforms.pipeline import COLUMNS, COTANGENTS, ROWS, TANGENTS, Pipeline, derive


def seed_bytes(derived: Tape, inputs: slice = slice(-1, None)) -> int:
    """Bytes of all values that depend on the last input: what one more seed costs.

    `inputs` are others that the seeds are.
    """
    marks = dict.fromkeys(derived.inputs[inputs], 1)
    moving = zip(derived.nodes, reached(derived, marks), strict=True)
    return max(sum(sum(t.nbytes for t in node.types) for node, moves in moving if moves), 1)


class SeededBlock:
    """Part of a Jacobian that one seeded derivative gives: `count` columns or rows.

    The outputs of its tape, which `pipeline` derives for a `request`, are the blocks
    ``(output, input)`` of the Jacobian in `targets`. Another seed takes `per_seed` bytes. `steps`
    are those made so far, by the number of seeds.
    """

    def __init__(
        self,
        tape: Tape,
        pipeline: Pipeline,
        count: int,
        per_seed: int,
        targets: Sequence[tuple[int, int]],
        **request: Sequence[int],
    ) -> None:
        self.count = count
        self.per_seed = per_seed
        self.targets = targets
        self.steps: dict[int, PlanStep] = {}
        self._derive = partial(derive, pipeline, tape, **request)

    def whole(self) -> Tape:
        """The tape of all seeds at once."""
        return self._derive(size=self.count)

    def chunk(self, chunk_size: int | None, budget: int) -> int:
        """How many seeds run at a time: `chunk_size`, or as many as the budget allows."""
        wanted = budget // self.per_seed if chunk_size is None else chunk_size
        return max(1, min(self.count, wanted))

    def step(self, size: int, device: str = CPU) -> PlanStep:
        """The step that takes the arguments and the number of the first of `size` seeds."""
        if size not in self.steps:
            self.steps[size] = PlanStep(self._derive(size=size, chunked=True), device=device)
        return self.steps[size]


def column_blocks(tape: Tape, wrt: Sequence[int]) -> list[SeededBlock]:
    """Columns, one block for each input; outputs that are integers are left out: they are zero."""
    keep = [o for o, t in enumerate(tape.output_types) if t.floating]
    return [
        SeededBlock(
            tape,
            COLUMNS,
            tape.input_types[k].size,
            seed_bytes(derive(TANGENTS, tape, wrt=(k,))),
            [(o, i) for o in keep],
            wrt=(k,),
            of=keep,
        )
        for i, k in enumerate(wrt)
        if keep
    ]


def row_blocks(tape: Tape, wrt: Sequence[int]) -> list[SeededBlock]:
    """Rows, one block for each output that is floating."""
    return [
        SeededBlock(
            tape,
            ROWS,
            type_.size,
            seed_bytes(derive(COTANGENTS, tape, wrt=wrt, of=(o,))),
            [(o, i) for i in range(len(wrt))],
            wrt=wrt,
            of=(o,),
        )
        for o, type_ in enumerate(tape.output_types)
        if type_.floating
    ]
