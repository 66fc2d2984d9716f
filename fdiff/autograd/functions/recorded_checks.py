"""`fdiff.gradcheck` of functions of recorded arrays: its requests to the functional checks.

`gradcheck` calls this module through a hook, because `gradcheck` lies below recorded arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...errors import InputError, failure
from ...functional.derivative_checks.checked_functions import (
    Arrays,
    FunctionUnderCheck,
    of_moving,
)
from ...functional.derivative_checks.real_coordinates import only, zeros
from ...hooks import hooks
from ...tree import flatten
from ..arrays.recorded_array import RecordedArray, tensor
from ..backward_passes.engine import grad
from ..forward_ad import dual_level, make_dual, unpack_dual
from ..function import Function


class _WithoutCotangent(Function):
    """An array through which no cotangent passes."""

    @staticmethod
    def forward(ctx: object, *args: np.ndarray) -> object:  # noqa: ARG004 - as every forward rule
        return args[0].copy()

    @staticmethod
    def backward(ctx: object, *grad_outputs: object) -> None:  # noqa: ARG004 - likewise
        return None


class FunctionOfRecordedArrays(FunctionUnderCheck):
    """A function of recorded arrays, differentiated by `fdiff.autograd.grad` and by dual arrays.

    ``f(*leaves)`` takes the differentiated arrays. It runs anew for each derivative. Forward mode
    is checked on request only.
    """

    modes = ("reverse",)

    def __init__(self, f: Callable[..., object], call: str, inputs: Arrays) -> None:
        self.f = f
        super().__init__(call, inputs)

    def values(self, points: Arrays) -> list[np.ndarray]:
        return [np.array(_value(out)) for out in self._run(points)[1]]

    def pull(self, bars: Arrays) -> list[np.ndarray]:
        return self._pulled(bars, range(len(self.outputs)))

    def pull_one(self, o: int, bar: np.ndarray) -> list[np.ndarray]:
        return self._pulled(only(o, bar, self.outputs), [o])

    def pull_undefined(self, undefined: Sequence[int]) -> list[np.ndarray]:
        return self._pulled(zeros(self.outputs), range(len(self.outputs)), undefined=undefined)

    def pull_batch(self, bars: Arrays) -> list[np.ndarray]:
        return self._pulled(bars, range(len(self.outputs)), batched=True)

    def push(self, dots: Arrays) -> list[np.ndarray]:
        return self._pushed(dots, range(len(self.inputs)))

    def push_one(self, i: int, dot: np.ndarray) -> list[np.ndarray]:
        return self._pushed(only(i, dot, self.inputs), [i])

    def push_batch(self, dots: Arrays) -> list[np.ndarray]:
        rows = [self.push(row) for row in zip(*dots, strict=True)]
        return [np.stack(column) for column in zip(*rows, strict=True)]

    def pullback(self, bars: Arrays) -> FunctionUnderCheck:
        count = len(self.inputs)

        def product(*leaves: object) -> object:
            xs, seeds = leaves[:count], leaves[count:]
            outs = _outputs(self.f(*xs))
            moving = [k for k, out in enumerate(outs) if _moves(out)]
            ends, bars = [outs[k] for k in moving], [seeds[k] for k in moving]
            return grad(ends, xs, bars, create_graph=True, materialize_grads=True)

        return FunctionOfRecordedArrays(product, self.call, (*self.inputs, *bars))

    def _run(self, points: Arrays) -> tuple[list[RecordedArray], list[object]]:
        """Leaves with these values, and the outputs of the function."""
        leaves = [tensor(np.array(x), requires_grad=True) for x in points]
        return leaves, _outputs(self.f(*leaves))

    def _pulled(
        self,
        bars: Arrays,
        which: Sequence[int],
        *,
        batched: bool = False,
        undefined: Sequence[int] = (),
    ) -> list[np.ndarray]:
        leaves, outs = self._run(self.inputs)
        for k in undefined:
            outs[k] = _WithoutCotangent.apply(outs[k]) if _moves(outs[k]) else outs[k]
        chosen = [k for k in which if _moves(outs[k])]
        lead = bars[0].shape[:1] if batched else ()
        if not chosen:
            return [np.zeros((*lead, *x.shape), x.dtype) for x in self.inputs]
        gradients = grad(
            [outs[k] for k in chosen],
            leaves,
            [np.asarray(bars[k]) for k in chosen],
            allow_unused=True,
            is_grads_batched=batched,
        )
        return [
            np.zeros((*lead, *x.shape), x.dtype) if g is None else np.array(_value(g))
            for g, x in zip(gradients, self.inputs, strict=True)
        ]

    def _pushed(self, dots: Arrays, which: Sequence[int]) -> list[np.ndarray]:
        leaves: list[RecordedArray] = [tensor(x, requires_grad=True) for x in self.inputs]
        with dual_level():
            for i in which:
                leaves[i] = make_dual(leaves[i], dots[i])
            outs = _outputs(self.f(*leaves))
            tangents = [unpack_dual(out).tangent if _moves(out) else None for out in outs]
            return [
                np.zeros_like(out) if dot is None else np.array(_value(dot))
                for dot, out in zip(tangents, self.outputs, strict=True)
            ]


def _outputs(result: object) -> list[object]:
    return [*cast("tuple[object, ...]", result)] if isinstance(result, tuple | list) else [result]


def _value(x: object) -> object:
    return x.value if isinstance(x, RecordedArray) else x


def _moves(x: object) -> bool:
    return isinstance(x, RecordedArray) and x.requires_grad


def function_of_recorded_arrays(
    f: Callable[..., object], inputs: object, name: str, call: str
) -> FunctionOfRecordedArrays | None:
    """`f` as a function under check, where recorded arrays are among `inputs`."""
    args = cast("tuple[object, ...]", inputs) if isinstance(inputs, tuple) else (inputs,)
    leaves, spec = flatten(args)
    places = [k for k, leaf in enumerate(leaves) if _moves(leaf)]
    if not places:
        if not any(isinstance(leaf, RecordedArray) for leaf in leaves):
            return None
        fact = (
            f"{name} expects at least one input array to require gradient, but none of them have"
            " requires_grad=True."
        )
        raise failure(InputError, call, fact, "Pass arrays of NumPy, or call requires_grad_().")

    points = [np.asarray(_value(leaves[k])) for k in places]
    return FunctionOfRecordedArrays(of_moving(f, leaves, places, spec), call, points)


hooks.recorded_function = function_of_recorded_arrays
