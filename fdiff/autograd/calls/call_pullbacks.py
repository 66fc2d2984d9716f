"""Pullbacks of single calls: the tape of the call, differentiated and cut.

The reverse sweep of a call's tape reads operands and outputs of the call. The sweep's own tape
shows which of them it reads, so only those are saved: `exp` saves its result, `multiply` both
operands, `add` nothing. Intermediate values are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import fdiff.intact_numpy as np

from ...arraytype import BOOL, ArrayType
from ...ops.tape_to_python import function_of
from ...process.memory_reserve import budget
from ...tape import INPUT, Builder, Tape, rebuild
from ...trace import Trace, TracedArray, splice
from ...trace.template import Template
from ...transforms.pipeline import RUN, VALUE, derive
from ...transforms.resized_templates import knows_no_sizes
from ...transforms.reverse import pull_back
from ...transforms.rule_templates import Seeds, Targets
from ...transforms.simplify import spliceable

if TYPE_CHECKING:
    from .recipes import Recipe


class Pull:
    """Reverse rule of a call: ``(*saved, *cotangents, *masks) -> results``.

    `saved` are positions among the call's operands and then its outputs. Each of `targets` names an
    operand, and the positions of its cotangent and of the cotangent's mask in the results. `run`
    computes the results, `template` enters them in another tape; each is made at its first use.
    `recipes` belong to the rule as a call, which is differentiated again; `pushes` are the forward
    rules that it implies.
    """

    __slots__ = ("_run", "_tape", "_template", "pushes", "recipes", "saved", "targets")

    def __init__(
        self,
        tape: Tape | Callable[[], Tape],
        saved: tuple[int, ...],
        targets: Targets,
        run: Callable[..., tuple[object, ...]] | None = None,
    ) -> None:
        self._tape = tape
        self._run: Callable[..., tuple[object, ...]] | None = run
        self.saved = saved
        self.targets = targets
        self._template: Template | None = None
        self.recipes: dict[object, Recipe] = {}
        self.pushes: dict[object, tuple[Pull, list[int]]] = {}

    @property
    def tape(self) -> Tape:
        """The rule as a tape."""
        if not isinstance(self._tape, Tape):
            self._tape = self._tape()
        return self._tape

    @property
    def run(self) -> Callable[..., tuple[object, ...]]:
        """The rule as a function of values."""
        if self._run is None:
            has_loops = next(self.tape.bodies(), None) is not None
            self._run = _budgeted(self.tape) if has_loops else function_of(self.tape)
        return self._run

    def resized(self, resize: Callable[[Tape], Tape], *, numbers: bool) -> Pull:
        """The rule for arrays of other sizes, and with other `numbers` perhaps."""
        shared = not numbers and knows_no_sizes(self.tape)
        return Pull(
            lambda: resize(self.tape), self.saved, self.targets, self.run if shared else None
        )

    @property
    def template(self) -> Template:
        """The rule as steps to be entered in another tape."""
        if self._template is None:
            self._template = spliceable(self.tape)
        return self._template


def _budgeted(tape: Tape) -> Callable[..., tuple[object, ...]]:
    """A tape with loops as a Python function, within the memory budget of each call."""
    functions: dict[int | None, Callable[..., tuple[object, ...]]] = {}

    def run(*values: object) -> tuple[object, ...]:
        budget_bytes = budget.get()
        if budget_bytes not in functions:
            functions[budget_bytes] = function_of(derive(RUN, tape))
        return functions[budget_bytes](*values)

    return run


def pull_of(tape: Tape, needed: Sequence[bool], seeds: Seeds) -> Pull:
    """The reverse rule of a call with this tape.

    `needed` tells which operands get cotangents, `seeds` which outputs have one (None: it has none)
    and whether that has a mask.
    """
    swept, values, targets = pull_back(tape, [k for k, n in enumerate(needed) if n], seeds)
    tape_types = [*tape.input_types, *tape.output_types]
    bars = [t for t, s in zip(tape.output_types, seeds, strict=True) if s is not None]
    masks = [ArrayType(t.shape, BOOL) for t, s in zip(tape.output_types, seeds, strict=True) if s]
    # Nodes of the swept tape that are known without computing them: operands, outputs, seeds.
    count = len(tape.inputs)
    known_ids = [*swept.inputs[:count], *values]
    cut = _cut(swept, known_ids, swept.inputs[count:], [*tape_types, *bars, *masks], None)
    read = {a for node in cut.nodes for a in node.args} | set(cut.outputs)
    saved = tuple([k for k in range(len(tape_types)) if cut.inputs[k] in read])
    types = [*[tape_types[k] for k in saved], *bars, *masks]
    cut = _cut(swept, known_ids, swept.inputs[count:], types, saved)
    return Pull(_in_public_convention(cut, len(saved)), saved, targets)


def _in_public_convention(tape: Tape, count: int) -> Tape:
    """The rule for cotangents as users see them: complex ones come and go conjugated.

    `count` inputs come before the cotangents. Every rule of a recorded graph is in this form, which
    is the adjoint for the pairing ``Re(conj(bar) * dot)`` and torch's convention, so hooks and
    rules of the user's may stand anywhere between them (`derivative_tapes.pullback` does the same
    for a whole function).
    """
    bars = tape.input_types[count:]
    if not any(t.dtype.kind == "c" for t in (*bars, *tape.output_types)):
        return tape
    with Trace("backward", lines=False) as trace:
        inputs = [trace.input(t) for t in tape.input_types]
        converted = [*inputs[:count], *map(_conjugated, inputs[count:])]
        outs = [_conjugated(out) for out in splice(tape, converted, trace)]
        return derive(VALUE, trace.builder.finish([trace.lift(x) for x in outs]))


def _conjugated(x: TracedArray) -> TracedArray:
    return cast("TracedArray", np.conjugate(x)) if x.type.dtype.kind == "c" else x


def _cut(
    swept: Tape,
    ids_before: Sequence[int],
    seeds: Sequence[int],
    types: Sequence[ArrayType],
    saved: Sequence[int] | None,
) -> Tape:
    """The tape with the `saved` ones among known nodes as inputs, before the seeds."""
    builder = Builder()
    fresh = iter([builder.input(t) for t in types])
    ids: dict[int, int] = {}
    first_output = len(swept.inputs) - len(seeds)
    for k in range(len(ids_before)) if saved is None else saved:
        handle = next(fresh)
        node = ids_before[k]
        is_operand = k < first_output
        # An output that is an operand or a constant is not computed: there is nothing to cut.
        if is_operand or (swept.nodes[node].args and node not in ids):
            ids[node] = handle
    for i in seeds:
        ids[i] = next(fresh)
    for i, node in enumerate(swept.nodes):
        if node.primitive is INPUT and i not in ids:
            ids[i] = -1  # nothing that is kept reads it
    return rebuild(swept, builder, {}, ids)
