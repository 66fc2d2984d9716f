"""Result templates: how the entry stub builds the result of a call from the kernel's outputs.

The plan of an operator is run with placeholders for the outputs. The positions of the placeholders
in its result show how the stub builds the result: by a list of instructions for a stack machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...kernels import KernelInput, ResultStep
from ...tree import init_names, is_registered, node_parts
from ..arguments import STATIC
from .argument_registers import ArgumentRegisters, NoFastPathError

if TYPE_CHECKING:
    from ...kernels import CallParts


class Placeholder:
    """Stands for an output of the kernel, or for the scalar that it holds, perhaps as Python's."""

    __slots__ = ("output", "python", "scalar")

    def __init__(self, output: int, python: type | None = None, *, scalar: bool) -> None:
        self.output, self.python = output, python
        self.scalar = scalar


class ResultTemplate:
    """The instructions that build a result, and the outputs that are scalars in it.

    `constants` are objects that are part of every result. `inputs` are the caller's arrays for
    results (``out=``): such an output is written into its array instead of a new one.
    """

    def __init__(
        self,
        result: object,
        constants: Sequence[object],
        registers: ArgumentRegisters,
        parts: CallParts,
    ) -> None:
        self.steps: list[ResultStep] = []
        self.scalars: set[int] = set()
        self.inputs: list[KernelInput] = []
        self._constants = {id(x) for x in constants}
        self._registers = registers
        self._made = parts.made
        self._result = result

    def write_into(self, out: object) -> bool:
        """Build the result with the arrays of `out` in it; False if the stub cannot."""
        try:
            if self._registers.out is None or out is None:
                if self._registers.out is not None:
                    self._registers.same(None, self._registers.out)
                self._add(self._result)
            else:
                self._write(self._result, out, self._registers.out)
            written = [source.written for source in self.inputs]
            shared = self.scalars.union(step.what for step in self.steps if step.how == "OUTPUT")
            if len(set(written)) < len(written) or not shared.isdisjoint(written):
                return False  # an output that stands at two places
        except NoFastPathError:
            return False
        return True

    def call(self, function: Callable[..., object], slots: Sequence[int]) -> None:
        """Build the result by calling a function with all outputs."""
        for output in slots:
            self._output(output)
        self.steps.append(ResultStep("CALL", function, len(slots)))

    def then(self, function: Callable[..., object], slots: Sequence[int]) -> None:
        """Give the result that was built, and further outputs, to a function that returns it."""
        for output in slots:
            self._output(output)
        self.steps.append(ResultStep("CALL", function, 1 + len(slots)))

    def _output(self, output: int) -> None:
        """An output, or a copy of one that stands elsewhere too."""
        again = any(step.how == "OUTPUT" and step.what == output for step in self.steps)
        self.steps.append(ResultStep("OUTPUT", output, int(again)))

    def _add(self, value: object) -> None:
        """Leave `value` on the stack."""
        kind = type(value)
        if isinstance(value, Placeholder):
            if value.scalar:
                self.scalars.add(value.output)
            self._output(value.output)
            if value.python is not None:
                self.steps.append(ResultStep("CALL", value.python, 1))
        elif (
            kind in (*STATIC, float, complex)
            or isinstance(value, np.generic)
            or id(value) in self._constants
        ):
            self.steps.append(ResultStep("CONSTANT", value))
        else:
            children, build = _node(value)
            for child in children:
                self._add(child)
            self.steps.append(build)

    def _write(self, value: object, out: object, register: int) -> None:
        """Leave `value` on the stack, with the arrays in `out` in place of outputs."""
        if out is None:
            self._registers.same(None, register)
            self._add(value)
        elif isinstance(value, Placeholder):
            shape, dtype = self._made[value.output]
            plain = type(out) is np.ndarray and out.shape == shape and out.dtype == dtype
            if value.scalar or not plain:
                raise NoFastPathError
            self.inputs.append(KernelInput(register, shape, dtype, written=value.output))
            self.steps.append(ResultStep("ARGUMENT", register))
        else:
            below = self._registers.children(out, register)
            mine, build = _node(value)
            if below is None or type(out) is not type(value) or len(below) != len(mine):
                raise NoFastPathError
            if isinstance(out, dict) and isinstance(value, dict) and tuple(out) != tuple(value):
                raise NoFastPathError
            for child, (place, inner) in zip(mine, below, strict=True):
                self._write(child, place, inner)
            self.steps.append(build)


def _node(value: object) -> tuple[Sequence[object], ResultStep]:
    """The children of a node of the result, and the instruction that builds it from them."""
    parts = node_parts(value)
    if parts is None:
        raise NoFastPathError
    kind, (names, children) = type(value), parts
    if kind is tuple or kind is list:
        return children, ResultStep("GROUP", kind, len(children))
    if kind is dict:
        return children, ResultStep("MAPPING", None, len(children), names)
    if is_registered(kind) or (is_dataclass(value) and None in init_names(kind).values()):
        raise NoFastPathError
    if is_dataclass(value):
        again = kind(**dict(zip(names, children, strict=True)))  # type: ignore[arg-type] - names of fields
        anew = node_parts(again)
        if anew is None or any(a is not b for a, b in zip(anew[1], children, strict=True)):
            raise NoFastPathError  # it makes something else of what it is given
    elif not isinstance(value, tuple):
        raise NoFastPathError
    return children, ResultStep("CALL", kind, len(children), names)
