"""Result recipes: a plan run on marks in place of outputs shows how it builds its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..kernels import Input, Make
from .argument_registers import NoShortcutError, Signature
from .arguments import STATIC

if TYPE_CHECKING:
    from ..kernels import Parts


class Mark:
    """Stands for an output of a kernel, or for the scalar in it."""

    __slots__ = ("output", "scalar")

    def __init__(self, output: int, *, scalar: bool = False) -> None:
        self.output = output
        self.scalar = scalar

    def __getitem__(self, key: object) -> Mark:
        if key != ():
            raise TypeError("a plan computes with what its kernel gives")
        return Mark(self.output, scalar=True)


class Recipe:
    """The steps that build a result, and which outputs are scalars in it or written elsewhere.

    `constants` are objects that are in the result as they are. `signature` describes the call, and
    `out` what it was given to write to; `inputs` are the arrays among that.
    """

    def __init__(
        self, result: object, constants: Sequence[object], signature: Signature, parts: Parts
    ) -> None:
        self.steps: list[Make] = []
        self.scalars: set[int] = set()
        self.inputs: list[Input] = []
        self._constants = {id(x) for x in constants}
        self._signature = signature
        self._made = parts.made
        self._result = result

    def into(self, out: object) -> bool:
        """Whether the stub can build the result, with what is given as ``out`` in it."""
        try:
            if self._signature.out is None or out is None:
                if self._signature.out is not None:
                    self._signature.same(None, self._signature.out)
                self._add(self._result)
            else:
                self._write(self._result, out, self._signature.out)
            written = [one.written for one in self.inputs]
            shared = self.scalars.union(step.what for step in self.steps if step.how == "MADE")
            if len(set(written)) < len(written) or not shared.isdisjoint(written):
                return False  # an output that stands at two places
        except NoShortcutError:
            return False
        return True

    def finish(self, function: Callable[..., object], slots: Sequence[int]) -> None:
        """The result is what a function makes of all outputs."""
        for output in slots:
            self._output(output)
        self.steps.append(Make("CALLED", function, len(slots)))

    def _output(self, output: int) -> None:
        """An output, or a copy of one that stands elsewhere too."""
        again = any(step.how == "MADE" and step.what == output for step in self.steps)
        self.steps.append(Make("MADE", output, int(again)))

    def _add(self, value: object) -> None:
        """The steps that leave `value` on the stack."""
        kind = type(value)
        if isinstance(value, Mark):
            if value.scalar:
                self.scalars.add(value.output)
            self._output(value.output)
        elif (
            kind in (*STATIC, float, complex)
            or isinstance(value, np.generic)
            or id(value) in self._constants
        ):
            self.steps.append(Make("CONSTANT", value))
        else:
            for child in _children(value):
                self._add(child)
            self.steps.append(_made(value))

    def _write(self, value: object, out: object, register: int) -> None:
        """The same, with the arrays in `out` for what stands there."""
        if out is None:
            self._signature.same(None, register)
            self._add(value)
        elif isinstance(value, Mark):
            shape, dtype = self._made[value.output]
            plain = type(out) is np.ndarray and out.shape == shape and out.dtype == dtype
            if value.scalar or not plain:
                raise NoShortcutError
            self.inputs.append(Input(register, shape, dtype, written=value.output))
            self.steps.append(Make("GIVEN", register))
        else:
            below = self._signature.children(out, register)
            mine = _children(value)
            if below is None or type(out) is not type(value) or len(below) != len(mine):
                raise NoShortcutError
            if isinstance(out, dict) and tuple(out) != tuple(value):  # type: ignore[arg-type] - of one class
                raise NoShortcutError
            for child, (place, inner) in zip(mine, below, strict=True):
                self._write(child, place, inner)
            self.steps.append(_made(value))


def _children(value: object) -> list[object]:
    """What lies right below a node of a result."""
    kind = type(value)
    if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return list(value)  # type: ignore[call-overload] - its class was looked at
    if kind is dict:
        return list(value.values())  # type: ignore[attr-defined] - its class was looked at
    if not is_dataclass(value) or isinstance(value, type):
        raise NoShortcutError
    names = [f.name for f in fields(value)]
    found = [getattr(value, name) for name in names]
    again = kind(**dict(zip(names, found, strict=True)))
    if any(getattr(again, name) is not x for name, x in zip(names, found, strict=True)):
        raise NoShortcutError  # it makes something else of what it is given
    return found


def _made(value: object) -> Make:
    """The step that builds a node of the result from its children."""
    kind = type(value)
    if kind is tuple or kind is list:
        return Make("GROUP", kind, len(value))  # type: ignore[arg-type] - its class was looked at
    if kind is dict:
        return Make("TABLE", None, len(value), tuple(value))  # type: ignore[arg-type] - its class was looked at
    if isinstance(value, tuple):
        return Make("CALLED", kind, len(value))
    names = tuple([f.name for f in fields(value)])  # type: ignore[arg-type] - a dataclass
    return Make("CALLED", kind, len(names), names)
