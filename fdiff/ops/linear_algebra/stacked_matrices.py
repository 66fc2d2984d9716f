"""The base of the rules of matrix functions: notation, and the family of ops on stacks of matrices.

NumPy's linear algebra works on the last two axes; the axes before are a stack, and a batch is one more of them.

Rules are from M. B. Giles, Collected matrix derivative results for forward and reverse mode algorithmic
differentiation, Lecture Notes in Computational Science and Engineering 64, Springer 2008, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, broadcast
from ...facets import Lowering
from ...kernel_rule import KernelRule, Kind, Routine
from ...primitive import ZERO, Primitive, Sample
from ...trace import Array, TracedArray, apply, apply_many
from ..entrywise.broadcasting import stretch, unbroadcast
from ..entrywise.families import Arrays, DerivativeRule, add_up, opaque_op

Args = Sequence[TracedArray]
Bars = Sequence[object]


def mt(x: Array) -> Array:
    """Transposes of the matrices: ``x.mT`` in NumPy."""
    return np.swapaxes(x, -1, -2)


def mh(x: object) -> Array:
    """Conjugate transposes of the matrices."""
    return np.conjugate(mt(x))


def same_type(a: ArrayType) -> tuple[ArrayType, ...]:
    """The type of a matrix function, which is the type of the matrix."""
    return (a,)


def solved_type(a: ArrayType, b: ArrayType, **_: object) -> tuple[ArrayType, ...]:
    """The type of the solutions of systems with matrices `a` and right sides `b`."""
    return (ArrayType((*broadcast(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype),)


def align_stacks(args: Args, mapped: Sequence[bool], core: Sequence[int]) -> list[TracedArray]:
    """Arguments of a batch with axes of length 1 after the batch axis, so that the stacks broadcast.

    `core` is the number of axes of a single argument: 2 for a matrix.
    """
    stacks = max(a.ndim - m - c for a, m, c in zip(args, mapped, core, strict=True))
    return [
        a.reshape((a.shape[0], *(1,) * (stacks - (a.ndim - 1 - c)), *a.shape[1:])) if m else a
        for a, m, c in zip(args, mapped, core, strict=True)
    ]


def hermitian_cotangents(bars: Bars) -> Sequence[object]:
    """Cotangents of the tape, whose pairing is ``Re(bar * dot)``, as cotangents of the pairing ``Re(tr(x_bar^H x_dot))``."""
    return [bar if bar is ZERO else np.conjugate(bar) for bar in bars]


def tape_cotangent(x_bar: Array, like: TracedArray) -> Array:
    """The inverse of `hermitian_cotangents`, for the argument `like`: real if that is."""
    return np.conjugate(x_bar) if like.dtype.kind == "c" else np.real(x_bar)


def scale_columns(x: object, weights: object) -> TracedArray:
    """``x diag(weights)``."""
    return x * np.expand_dims(weights, -2)


def diagonals_of(x: Array) -> Array:
    """The diagonals of the matrices, as vectors."""
    return np.diagonal(x, 0, -2, -1)


def eye_like(x: Array) -> np.ndarray:
    """The identity matrix as large as the last axis of `x`, in its dtype."""
    return np.eye(x.shape[-1], dtype=x.dtype)


def reciprocal_or_zero(x: Array) -> Array:
    """``1 / x``, and 0 where x is 0."""
    zero = x == 0
    return np.where(zero, 0.0, 1.0 / np.where(zero, 1.0, x))


def inverse_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    """The rule of an inverse: ``dX = -X dA X``."""
    return [-(outs[0] @ dots[0] @ outs[0])]


def inverse_vjp(bars: Bars, args: Args, outs: Args) -> list[object]:
    return [-(mt(outs[0]) @ bars[0] @ mt(outs[0]))]


Product = Callable[..., Array]


def system_rules(
    op: Callable[[], Primitive], adjoint: Product, terms: Mapping[int, tuple[Product, Product]]
) -> tuple[DerivativeRule, DerivativeRule]:
    """The JVP and VJP of solvers of ``A x = b``: ``dx = inv(A) (db - dA x)``, ``b_bar = inv(A') x_bar``, ``A_bar = -b_bar x'``.

    The last argument of `op` is `b`; the arguments before make A. ``adjoint(*before, bar, **params)`` solves the
    transposed system. `terms` holds, by the place of an argument, ``term(*before, x, **params)``, which is the part of
    ``A x`` that is linear in the argument, and ``transpose(bar, *before, x, **params)``, the cotangent of the argument.
    """

    def jvp(dots: Bars, args: Args, outs: Args, **how: object) -> Sequence[object]:
        *before, _ = args
        moving = [k for k in terms if dots[k] is not ZERO]
        moved = [-terms[k][0](*before[:k], dots[k], *before[k + 1 :], outs[0], **how) for k in moving]
        return [stretch(apply(op(), *before, add_up([dots[-1], *moved]), **how), outs[0].shape)]

    def vjp(bars: Bars, args: Args, outs: Args, **how: object) -> Sequence[object]:
        *before, b = args
        b_bar = adjoint(*before, bars[0], **how)

        def pulled(k: int) -> object:
            return unbroadcast(-terms[k][1](b_bar, *before, outs[0], **how), before[k].shape)

        return [*[partial(pulled, k) if k in terms else ZERO for k in range(len(before))], unbroadcast(b_bar, b.shape)]

    return jvp, vjp


def stacked_op(
    name: str, infer: Callable[..., tuple[ArrayType, ...]], evaluate: Callable[..., object], jvp: Callable[..., Sequence[object]],
    vjp: Callable[..., Sequence[object]] | None, *samples: Sample | Arrays, kernel: KernelRule | None = None, **routine: object,
) -> Primitive:  # fmt: skip
    """An op of stacks of matrices, with static parameters; a batch is a stack with one more leading axis.

    `samples` are as in `opaque_op`, `routine` are facts of the kernels' routine of this name, where they have one.
    """

    def batch(args: Args, mapped: Sequence[bool], size: int, **params: object) -> Sequence[object]:
        stacks = args if len(args) == 1 else align_stacks(args, mapped, (2,) * len(args))
        return apply_many(op, *stacks, **params)

    rule = KernelRule(_KINDS.get(name, Kind.ROUTINE), routine=Routine(name, **routine)) if routine else kernel
    op = opaque_op(name, infer, evaluate, jvp, vjp, *samples, batch=batch, lowering=Lowering(rule))
    return op


_KINDS = {kind.value: kind for kind in Kind if kind.is_routine}


def output_of(infer: Callable[..., tuple[ArrayType, ...]], k: int, **facts: object) -> Callable[..., tuple[ArrayType, ...]]:
    """The type rule of output `k` alone."""
    return lambda *types, **params: infer(*types, **params, **facts)[k : k + 1]


# --- matrices for tests -------------------------------------------------------------------------

def regular_matrices(n: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Two matrices close to a multiple of the identity."""
    return lambda rng: (rng.normal(size=(2, n, n)) + 3.0 * np.eye(n),)


def positive_definite_matrices(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    a = rng.normal(size=(2, 3, 3))
    return (a @ np.swapaxes(a, -1, -2) + 2.0 * np.eye(3),)


def normal_matrices(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.normal(size=shape),)


def well_separated_matrices(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Close to diagonal matrices: eigenvalues are real and apart, and LAPACK's order and signs do not change nearby."""
    return lambda rng: (np.diag(np.arange(1.0, 1.5 * shape[-1], 1.5)) + 0.15 * rng.normal(size=shape),)


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """Dtype of complex numbers whose parts are of `dtype`."""
    return np.result_type(dtype, np.complex64)
