"""Functions under check: their values, and their derivatives as fdiff computes them.

`FunctionUnderCheck` is what the comparisons know of a function. `PlainFunction` is a function of
arrays, whose derivatives `vjp`, `jvp` and `jacobian` compute; `fdiff.autograd` adds
functions of recorded arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...dispatch.arguments import Function
from ...tree import Spec, flatten, unflatten
from ..operators.jacobians import jacobian
from ..operators.products import jvp, vjp
from ..operators.vectorized_map import vmap
from .real_coordinates import dimension, only, to_real, unit, zeros

Arrays = Sequence[np.ndarray]
Blocks = list[list[np.ndarray]]  # by output, then by input: matrices of real numbers


class FunctionUnderCheck:
    """A function at a point.

    `inputs` are the arrays that it is differentiated by, `outputs` its values there, `call` the
    public call, for messages. With `complex_steps`, its values may be asked for complex numbers.
    `modes` are those that are checked where nothing is said. What is computed `by_fdiff` is
    rounded as the tier rounds that runs it, which may be another one at the next call.
    """

    complex_steps = False
    by_fdiff = False
    modes: tuple[str, ...] = ("reverse", "forward")

    def __init__(self, call: str, inputs: Arrays) -> None:
        self.call = call
        self.inputs = list(inputs)
        self.outputs = self.values(inputs)

    def values(self, points: Arrays) -> list[np.ndarray]:
        """The outputs at other points; nothing is recorded."""
        raise NotImplementedError

    def pull(self, bars: Arrays) -> list[np.ndarray]:
        """The cotangents of the inputs for cotangents of all outputs."""
        raise NotImplementedError

    def push(self, dots: Arrays) -> list[np.ndarray]:
        """The tangents of the outputs for tangents of all inputs."""
        raise NotImplementedError

    def pull_one(self, o: int, bar: np.ndarray) -> list[np.ndarray]:
        """The cotangents of the inputs where output `o` alone has a cotangent at all."""
        raise NotImplementedError

    def push_one(self, i: int, dot: np.ndarray) -> list[np.ndarray]:
        """The tangents of the outputs where input `i` alone has a tangent at all."""
        raise NotImplementedError

    def pull_undefined(self, undefined: Sequence[int]) -> list[np.ndarray]:
        """The cotangents of the inputs where these outputs have no cotangent, the others zeros.

        Zeros where rules are on tapes: they are asked for outputs that have a cotangent alone.
        """
        return zeros(self.inputs)

    def pull_batch(self, bars: Arrays) -> list[np.ndarray]:
        """As `pull`, for cotangents with one more leading axis, at once."""
        raise NotImplementedError

    def push_batch(self, dots: Arrays) -> list[np.ndarray]:
        """As `push`, for tangents with one more leading axis, at once."""
        raise NotImplementedError

    def pullback(self, bars: Arrays) -> FunctionUnderCheck:
        """`pull` as a function of the inputs and of cotangents, at these ones."""
        raise NotImplementedError

    def jacobians(self, mode: str) -> Blocks:
        """The whole Jacobian, by a sweep for each of its columns or rows."""
        if mode == "forward":
            columns = [
                [self.push(only(i, unit(k, x), self.inputs)) for k in range(dimension(x))]
                for i, x in enumerate(self.inputs)
            ]
            return [
                [_matrix([c[o] for c in each], out).T for each in columns]
                for o, out in enumerate(self.outputs)
            ]
        blocks: Blocks = []
        for o, out in enumerate(self.outputs):
            bars = [only(o, unit(k, out), self.outputs) for k in range(dimension(out))]
            rows = [
                self.pull(bar) if out.dtype.kind in "fc" else zeros(self.inputs) for bar in bars
            ]
            blocks.append([_matrix([r[i] for r in rows], x) for i, x in enumerate(self.inputs)])
        return blocks


def _matrix(rows: Arrays, like: np.ndarray) -> np.ndarray:
    """Arrays of one shape as the rows of a matrix of real numbers."""
    return np.stack([to_real(r) for r in rows]) if rows else np.zeros((0, dimension(like)))


class PlainFunction(FunctionUnderCheck):
    """A function of arrays, differentiated by `vjp`, `jvp` and `jacobian`."""

    def __init__(
        self, f: Function, call: str, inputs: Arrays, *, complex_steps: bool = True
    ) -> None:
        self.f = f
        self.complex_steps = complex_steps
        self.single = True  # whether the function returns one array, and no tuple of them
        super().__init__(call, inputs)

    def values(self, points: Arrays) -> list[np.ndarray]:
        # Copies, because plain code may write to its arguments; scalars for arrays without axes.
        out = self.f(*[np.array(x)[()] for x in points])
        self.single = not isinstance(out, tuple)
        return [np.array(o) for o in (out if isinstance(out, tuple) else (out,))]

    def pull(self, bars: Arrays) -> list[np.ndarray]:
        cotangents = bars[0] if self.single else tuple(bars)
        return _arrays(vjp(self.f, tuple(self.inputs), cotangents)[1])

    def push(self, dots: Arrays) -> list[np.ndarray]:
        return _arrays(jvp(self.f, tuple(self.inputs), tuple(dots))[1])

    def pull_one(self, o: int, bar: np.ndarray) -> list[np.ndarray]:
        f = self.f

        def one_output(*args: object) -> object:
            return cast("tuple[object, ...]", f(*args))[o]

        return _arrays(vjp(f if self.single else one_output, tuple(self.inputs), bar)[1])

    def push_one(self, i: int, dot: np.ndarray) -> list[np.ndarray]:
        others = (*self.inputs[:i], *self.inputs[i + 1 :])
        return _arrays(jvp(self.f, argnums=i)(self.inputs[i], dot, *others)[1])

    def pull_batch(self, bars: Arrays) -> list[np.ndarray]:
        f, inputs, single = self.f, tuple(self.inputs), self.single

        def pull_one(*parts: object) -> object:
            return vjp(f, inputs, parts[0] if single else parts)[1]

        return _arrays(vmap(pull_one)(*bars))

    def push_batch(self, dots: Arrays) -> list[np.ndarray]:
        f, inputs = self.f, tuple(self.inputs)

        def push_one(*parts: object) -> object:
            return jvp(f, inputs, parts)[1]

        return _arrays(vmap(push_one)(*dots))

    def pullback(self, bars: Arrays) -> FunctionUnderCheck:
        f, count, single = self.f, len(self.inputs), self.single

        def product(*args: object) -> object:
            seeds = args[count:]
            return vjp(f, args[:count], seeds[0] if single else seeds)[1]

        # Without complex steps, of which the derivatives that fdiff computes are no functions.
        function = PlainFunction(product, self.call, (*self.inputs, *bars), complex_steps=False)
        function.by_fdiff = True
        return function

    def jacobians(self, mode: str) -> Blocks:
        """As `fdiff.jacobian` gives them, where all numbers are real."""
        if any(x.dtype.kind == "c" for x in (*self.inputs, *self.outputs)):
            return super().jacobians(mode)
        result = cast("tuple[object, ...]", jacobian(self.f, tuple(self.inputs), mode=mode))
        rows = cast("Sequence[Arrays]", (result,) if self.single else result)
        return [
            [
                np.asarray(b, np.float64).reshape(out.size, -1) if b.size else _empty(out, x)
                for b, x in zip(row, self.inputs, strict=True)
            ]
            for row, out in zip(rows, self.outputs, strict=True)
        ]


def _empty(out: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.zeros((dimension(out), dimension(x)))


def _arrays(result: object) -> list[np.ndarray]:
    """The arrays of a result that is an array, or a tuple of arrays."""
    parts = cast("tuple[object, ...]", result) if isinstance(result, tuple) else (result,)
    return [np.asarray(x) for x in parts]


def function_of_leaves(f: Function, inputs: object) -> tuple[Function, list[np.ndarray]]:
    """`f` as a function of the floating-point arrays among its arguments, and those arrays.

    `inputs` is one argument or a tuple of them, which may be nested structures. Everything that is
    not floating point stays as it is, as in torch.
    """
    args = cast("tuple[object, ...]", inputs) if isinstance(inputs, tuple) else (inputs,)
    leaves, spec = flatten(args)
    places = [k for k, leaf in enumerate(leaves) if _moves(leaf)]
    points = [np.asarray(leaves[k]) for k in places]
    if len(places) == len(args) and all(a is b for a, b in zip(leaves, args, strict=True)):
        return f, points

    return of_moving(f, leaves, places, spec), points


def of_moving(f: Function, leaves: list[object], places: list[int], spec: Spec) -> Function:
    """`f` as a function of the leaves at these places; the other leaves of its arguments stay."""

    def of_leaves(*moving: object) -> object:
        arguments = list(leaves)
        for k, leaf in zip(places, moving, strict=True):
            arguments[k] = leaf
        return f(*unflatten(spec, arguments))

    return of_leaves


def _moves(leaf: object) -> bool:
    return np.asarray(leaf).dtype.kind in "fc"
