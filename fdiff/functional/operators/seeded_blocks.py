"""Seeded blocks: the parts of a dense Jacobian that one batched derivative tape computes.

In forward mode a block is a set of columns, one block for each input; in reverse mode it is a set
of rows, one block for each output. Source: A. Griewank and A. Walther, Evaluating Derivatives, 2nd
ed., SIAM 2008, sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...device_arrays import CPU
from ...dispatch.plans import PlanStep
from ...tape import Tape
from ...transforms.activity import reached
from ...transforms.pipeline import COLUMNS, FORWARD, REVERSE, ROWS, Pipeline, derive


def seed_bytes(derived: Tape, inputs: slice = slice(-1, None)) -> int:
    """Bytes of all values that depend on the last input: the cost of one more seed.

    `inputs` names other inputs of the tape as the seeds.
    """
    marks = dict.fromkeys(derived.inputs[inputs], 1)
    moving = zip(derived.nodes, reached(derived, marks), strict=True)
    return max(sum(sum(t.nbytes for t in node.types) for node, moves in moving if moves), 1)


class SeededBlock:
    """The part of a Jacobian that one seeded derivative computes: `count` columns or rows.

    The outputs of its tape, which `pipeline` derives for a `request`, are the blocks ``(output,
    input)`` of the Jacobian in `targets`. `linear` is the tape of one seed; it is kept until the
    tape of all seeds is made, because terms and both kinds of columns start from it. `steps` are
    the steps made so far, by the number of seeds.
    """

    def __init__(
        self,
        tape: Tape,
        pipeline: Pipeline,
        count: int,
        linear: Tape,
        targets: Sequence[tuple[int, int]],
        **request: Sequence[int],
    ) -> None:
        self.count = count
        self.linear: Tape | None = linear
        self.per_seed = seed_bytes(linear)
        self.targets = targets
        self.steps: dict[int, PlanStep] = {}
        self._derive = partial(derive, pipeline, tape, **request)

    def whole(self) -> Tape:
        """The tape of all seeds at once."""
        whole = self._derive(size=self.count)
        self.linear = None
        return whole

    def chunk(self, chunk_size: int | None, budget: int) -> int:
        """How many seeds run at a time: `chunk_size`, or equal parts that the budget allows."""
        if chunk_size is not None:
            return max(1, min(self.count, chunk_size))
        most = max(1, budget // self.per_seed)
        parts = max(1, -(-self.count // most))
        return max(1, -(-self.count // parts))

    def step(self, size: int, device: str = CPU) -> PlanStep:
        """The step that takes the arguments and the number of the first of `size` seeds."""
        if size not in self.steps:
            self.steps[size] = PlanStep(self._derive(size=size, chunked=True), device=device)
        return self.steps[size]


def column_blocks(tape: Tape, wrt: Sequence[int]) -> list[SeededBlock]:
    """Columns, one block for each input; integer outputs are left out: their columns are zero."""
    keep = [o for o, t in enumerate(tape.output_types) if t.floating]
    return [
        SeededBlock(
            tape,
            COLUMNS,
            tape.input_types[k].size,
            derive(FORWARD, tape, wrt=(k,), of=keep),
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
            derive(REVERSE, tape, wrt=wrt, of=(o,)),
            [(o, i) for i in range(len(wrt))],
            wrt=wrt,
            of=(o,),
        )
        for o, type_ in enumerate(tape.output_types)
        if type_.floating
    ]
