"""Roots and fixed points that loops on the tape iterate to: their derivatives, by the implicit function theorem.

The op `solution` stands after the loop, and takes one more step of Newton's method from there. Its rules give the
derivatives of ``x(p)`` where ``F(x, p) = 0``: ``dx = -inv(dF/dx) F_p dp`` (A. Griewank and A. Walther, "Evaluating
Derivatives", 2nd ed., SIAM 2008, section 15.1). Under `vmap` each element has an equation of its own in the rules, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType, type_of
from ...facets import Lowering
from ...interpret import evaluate
from ...named_tuples import NamedTuple
from ...primitive import ZERO, LateParams, Primitive, Sample
from ...tape import Tape
from ...trace import Array, TracedArray, apply
from .exit_status import solver_op
from .implicit_function_theorem import PAIR, monotone, near_solution
from .traced_function import TracedFunction, constant_body

Arrays = Sequence[TracedArray]
Levels = tuple[tuple[int, tuple[bool, ...]], ...]  # of `vmap`: sizes, and which parameters are mapped


class Equation(NamedTuple):
    """An equation ``F(x, *extras) = 0`` for the elements of a batch, of which there are none to begin with."""

    body: TracedFunction
    levels: Levels = ()

    def at(self, function: TracedFunction, args: Sequence[object], moving: Sequence[int] = (), more: int = 0) -> Array:
        """The first result of a function of ``x`` and extras for all elements.

        It may also take tangents of the extras `moving`, and `more` further cotangents.
        """
        for size, mapped in self.levels:
            flags = [True, *mapped, *[mapped[k] for k in moving], *[True] * more]
            function = function.batched(flags, size)
        return function.spliced(args[:1], args[1:])[0]

    def solved(self, args: Arrays, right: Array, *, transposed: bool = False) -> Array:
        """The solution of the linear system with the Jacobian."""
        matrix = self.at(self.body.jacobian(), args)
        x = args[0]
        if x.ndim == len(self.levels):  # numbers
            return right / np.reshape(matrix, x.shape)
        matrix = np.swapaxes(matrix, -1, -2) if transposed else matrix
        return np.linalg.solve(matrix, right[..., None])[..., 0]


def _step(x: Array, *extras: Array, equation: Equation) -> Array:
    """One step of Newton's method; the point itself where there is none, as at a double root."""
    ahead = x - equation.solved([x, *extras], equation.at(equation.body, [x, *extras]))
    return np.where(np.isfinite(ahead), ahead, x)


@lru_cache(maxsize=256)
def _tape_of_step(equation: Equation, types: tuple[ArrayType, ...]) -> Tape:
    return constant_body(lambda args, _: [_step(*args, equation=equation)], types, ()).tape


def _evaluate(*args: np.ndarray, equation: Equation) -> object:
    arrays = [np.asarray(x, t.dtype) for x, t in zip(args, equation.body.tape.input_types, strict=True)]
    with np.errstate(all="ignore"):
        return evaluate(_tape_of_step(equation, tuple(map(type_of, arrays))), *arrays)[1]


def _infer(x: ArrayType, *extras: ArrayType, **_: object) -> tuple[ArrayType, ...]:
    return (x,)


def _jvp(dots: Sequence[object], args: Arrays, outs: Arrays, *, equation: Equation) -> list[object]:
    moving = [k for k, dot in enumerate(dots[1:]) if dot is not ZERO]
    if not moving:
        return [ZERO]
    point, tangents = [outs[0], *args[1:]], [dots[1 + k] for k in moving]
    pushforward = equation.body.pushforward([1 + k for k in moving])
    right = equation.at(pushforward, [*point, *tangents], moving)
    return [-equation.solved(point, right)]


def _vjp(bars: Sequence[object], args: Arrays, outs: Arrays, *, equation: Equation) -> list[object]:
    point, kept = [outs[0], *args[1:]], list[Array]()

    def pullback(k: int) -> Callable[[], object]:
        def cotangent() -> object:
            kept[:] = kept or [-equation.solved(point, bars[0], transposed=True)]
            cotangents = equation.at(equation.body.pullback(1 + k), [*point, kept[0]], more=1)
            flags = [mapped[k] for _, mapped in reversed(equation.levels)]
            shared = tuple([axis for axis, is_mapped in enumerate(flags) if not is_mapped])
            return np.sum(cotangents, axis=shared) if shared else cotangents

        return cotangent

    return [ZERO, *[pullback(k) if x.type.floating else ZERO for k, x in enumerate(args[1:])]]


def _batch(args: Arrays, mapped: Sequence[bool], size: int, *, equation: Equation) -> list[object]:
    x = args[0] if mapped[0] else np.broadcast_to(args[0], (size, *args[0].shape))
    level = (size, tuple(map(bool, mapped[1:])))
    wider = equation._replace(levels=(*equation.levels, level))
    return [apply(solution, x, *args[1:], equation=wider)]


def _number(own: Sequence[Array], extras: Sequence[Array]) -> list[Array]:
    x, p = own[0], extras[0]
    return [x + 0.1 * x**3 - p[0] * np.cos(p[1] * x)]


def _number_sample(rng: np.random.Generator) -> tuple[Array, ...]:
    p = rng.uniform(0.5, 1.5, 2)
    return np.asarray(_root_of_number(p)), p


def _root_of_number(p: np.ndarray) -> float:
    x = 0.7
    for _ in range(30):
        slope = 1.0 + 0.3 * x**2 + p[0] * p[1] * np.sin(p[1] * x)
        x -= float(_number([x], [p])[0]) / slope
    return x


def _two(rng: np.random.Generator) -> tuple[Array, ...]:
    x, _ = near_solution(rng)
    return x, monotone([x], [np.zeros(2)])[0]


def _several(rng: np.random.Generator) -> tuple[Array, ...]:
    return tuple(map(np.stack, zip(*[_two(rng) for _ in range(3)], strict=True)))


_SYSTEM = Equation(constant_body(monotone, [PAIR], [PAIR]))
_SAMPLES = (
    Sample(_number_sample, LateParams(lambda: {"equation": Equation(constant_body(_number, [ArrayType((), F8)], [PAIR]))})),
    Sample(_two, LateParams(lambda: {"equation": _SYSTEM})),
    Sample(_several, LateParams(lambda: {"equation": _SYSTEM._replace(levels=((3, (True,)),))})),
)
_STEP = Lowering(folds=False, spelled=_step)
solution: Primitive = solver_op("implicit_solution", _infer, _evaluate, _jvp, _vjp, *_SAMPLES, batch=_batch, lowering=_STEP)
