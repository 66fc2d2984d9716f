"""The dependence of outputs on inputs: none, linear, quadratic, or any other.

An output is linear in an input where its derivative with respect to that input does not depend on
the input any more, and quadratic where the second derivative does not: both are asked of the tape
of tangents. What has kinks or jumps, as ``abs(x)``, is nonlinear. Dependence is dependence in the
graph, not of values (``x - x`` depends on `x`), so that an answer may be too high, never too low.

Nonlinear interactions are looked for after the idea of A. Walther, "Computing sparse Hessians with
automatic differentiation", ACM TOMS 34(1), 2008, who propagates index sets; here the tape of
tangents tells them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

import fdiff.intact_numpy as np

from ..errors import FdiffError
from ..lazy_attributes import cached_property
from ..tape import Tape
from .activity import depends, influenced
from .derivative_tapes import choose
from .patterns.jacobian_pattern import pattern
from .pipeline import INLINE_CHECKPOINTS, TANGENTS, VALUE, derive
from .terms.entry_places import entry_places


class Degree(StrEnum):
    """How an output depends on an input, from the least to the most."""

    NONE = "none"  # not at all
    STEPS = "steps"  # through comparisons, rounding or integers alone: the derivative is zero
    LINEAR = "linear"  # the derivative does not depend on the input
    QUADRATIC = "quadratic"  # the second derivative does not depend on the input
    NONLINEAR = "nonlinear"
    UNKNOWN = "unknown"  # it depends on it, and an operation on the way has no derivative


class Dependence:
    """How each output of a tape depends on each of the inputs `wrt`, computed when it is read.

    ``dependence[o, i]`` is a `Degree`. The indices are numbers, or the names in `outputs` and
    `inputs`. All other inputs are held fixed: ``x * y`` is linear in `x` and in `y`.
    """

    def __init__(
        self,
        tape: Tape,
        wrt: Sequence[int],
        outputs: Sequence[str] = (),
        inputs: Sequence[str] = (),
    ) -> None:
        self._tape, self._wrt = derive((INLINE_CHECKPOINTS,), tape), tuple(wrt)
        self.outputs = tuple(outputs) or tuple(f"out{o}" for o in range(len(tape.outputs)))
        self.inputs = tuple(inputs) or tuple(f"in{k}" for k in wrt)
        self._column = lru_cache(maxsize=None)(self._degrees)
        self._entries = lru_cache(maxsize=32)(self._entry_degrees)

    @cached_property
    def differentiable(self) -> list[list[bool]]:
        """``differentiable[o][i]``: whether output `o` depends on input `i` with a derivative."""
        return depends(self._tape, self._wrt)

    def __getitem__(self, key: tuple[int | str, int | str]) -> Degree:
        o, i = self._place(key)
        return self._column(i)[o]

    def matrix(self) -> list[list[Degree]]:
        """A row for each output, a `Degree` for each input."""
        columns = [self._column(i) for i in range(len(self._wrt))]
        return [[column[o] for column in columns] for o in range(len(self.outputs))]

    def entries(self, output: int | str, input: int | str) -> np.ndarray | None:  # noqa: A002 - what it is
        """How each entry of an output depends on each entry of an input: an array of texts.

        Its shape is the output's, then the input's. "linear": the derivative with respect to the
        whole input does not depend on this entry; "nonlinear", quadratic included; "steps"; "none".
        The result is None if the tape is too large, or has an operation that mixes all entries.
        """
        o, i = self._place((output, input))
        return self._entries(o, i)

    def _place(self, key: tuple[int | str, int | str]) -> tuple[int, int]:
        o, i = key
        return _number(o, self.outputs, "output"), _number(i, self.inputs, "input")

    # --- the degrees of one input -----------------------------------------------------------------

    def _degrees(self, i: int) -> list[Degree]:
        """The degree of each output in input `i`."""
        tape, k = self._tape, self._wrt[i]
        there, _ = influenced(tape, {tape.inputs[k]: 1})
        out = [Degree.STEPS if there[o] else Degree.NONE for o in tape.outputs]
        rest = [o for o, row in enumerate(self.differentiable) if row[i]]
        current = choose(tape, rest)
        for degree in (Degree.LINEAR, Degree.QUADRATIC):
            if not rest:
                break
            try:
                current = derive((*TANGENTS, *VALUE), current, wrt=(k,))
            except FdiffError:
                return [Degree.UNKNOWN if o in rest else d for o, d in enumerate(out)]
            marks, stepped = influenced(current, {current.inputs[k]: 1})
            further: list[int] = []  # outputs of the tangents that depend on the input smoothly
            for n, (o, node) in enumerate(zip(rest, current.outputs, strict=True)):
                out[o] = Degree.NONLINEAR if marks[node] else degree
                if marks[node] and not stepped[node]:
                    further.append(n)
            rest = [rest[n] for n in further]
            current = choose(current, further)
        return out

    def _entry_degrees(self, o: int, i: int) -> np.ndarray | None:
        """The degrees of the entries of output `o` in the entries of input `i`."""
        k, tape = self._wrt[i], choose(self._tape, (o,))
        (smooth,), any_way = entry_places(tape, k), pattern(tape, k)
        if smooth is None or any_way is None:
            return None
        curved: np.ndarray | None = np.zeros_like(any_way)
        if len(smooth.rows):
            try:
                tangents = derive((*TANGENTS, *VALUE), tape, wrt=(k,))
            except FdiffError:
                return None
            curved = pattern(tangents, k)
        if curved is None:
            return None
        names = np.where(any_way, Degree.STEPS.value, Degree.NONE.value).astype("U9")
        degrees = np.where(curved[smooth], Degree.NONLINEAR.value, Degree.LINEAR.value)
        names[smooth] = degrees
        return names.reshape((*tape.output_types[0].shape, *tape.input_types[k].shape))


def _number(key: int | str, names: Sequence[str], what: str) -> int:
    """The number of an output or input, which a user gives by number or by name."""
    if isinstance(key, str):
        if key in names:
            return names.index(key)
    elif -len(names) <= key < len(names):
        return key % len(names)
    raise KeyError(f"there is no {what} {key!r}; there are {', '.join(names) or 'none'}")
