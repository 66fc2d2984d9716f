"""What the rules of matrix functions share: notation, and the family of ops on stacks of matrices.

NumPy's linear algebra works on the last two axes; the axes before are a stack, and a batch is one more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..arraytype import ArrayType
from ..kernel_rule import KernelRule, Kind, Routine
from ..primitive import ZERO, Primitive, Sample, register
from ..trace import TracedArray, apply, apply_many

Args = Sequence[TracedArray]
Bars = Sequence[object]


def _t(x: object) -> TracedArray:
    return np.swapaxes(x, -1, -2)


def _regular(n: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.normal(size=(2, n, n)) + 3.0 * np.eye(n),)


def _spd(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    a = rng.normal(size=(2, 3, 3))
    return (a @ np.swapaxes(a, -1, -2) + 2.0 * np.eye(3),)


def _leading(args: Args, mapped: Sequence[bool], core: Sequence[int]) -> list[TracedArray]:
    """Mapped arguments with ones behind the batch axis, so that stacks line up."""
    stacks = max(a.ndim - m - c for a, m, c in zip(args, mapped, core, strict=True))
    return [
        a.reshape((a.shape[0], *(1,) * (stacks - (a.ndim - 1 - c)), *a.shape[1:])) if m else a
        for a, m, c in zip(args, mapped, core, strict=True)
    ]


def opaque(
    name: str, routine: Routine, infer: Callable[..., tuple[ArrayType, ...]], evaluate: Callable[..., object], jvp: Callable[..., Sequence[object]],
    vjp: Callable[..., Sequence[object]], sample: Callable[..., tuple[np.ndarray, ...]], kind: Kind = Kind.ROUTINE,
) -> Primitive:  # fmt: skip
    """An op of one stack of matrices, batched by one more leading axis."""

    def batch(args: Args, mapped: object, size: int) -> Sequence[object]:
        return apply_many(primitive, args[0]) if len(infer(args[0].type)) > 1 else [apply(primitive, args[0])]

    primitive = Primitive(name, infer, evaluate, jvp, vjp, batch, KernelRule(kind, routine=routine), "opaque", samples=(Sample(sample),))
    return register(primitive)


def _h(x: object) -> TracedArray:
    """Conjugate transpose."""
    return np.conjugate(_t(x))


def _hermitian(bars: Bars) -> list[object]:
    """Cotangents of the tape as those of the pairing ``Re(tr(x_bar^H x_dot))``."""
    return [bar if bar is ZERO else np.conjugate(bar) for bar in bars]


def _plain(x_bar: object, like: TracedArray) -> TracedArray:
    """Back to the cotangent of the tape; real where the argument is."""
    return np.conjugate(x_bar) if like.dtype.kind == "c" else np.real(x_bar)


def _columns(x: object, weights: object) -> TracedArray:
    """``x diag(weights)``."""
    return x * np.expand_dims(weights, -2)


def _diagonal(x: object) -> TracedArray:
    return np.diagonal(x, 0, -2, -1)


def _eye(x: TracedArray) -> np.ndarray:
    return np.eye(x.shape[-1], dtype=x.dtype)


def _reciprocal(x: object) -> TracedArray:
    """``1 / x``, and 0 where x is 0."""
    zero = x == 0
    return np.where(zero, 0.0, 1.0 / np.where(zero, 1.0, x))


def _stacked(
    name: str, infer: Callable[..., tuple[ArrayType, ...]], evaluate: Callable[..., object], jvp: Callable[..., Sequence[object]],
    vjp: Callable[..., Sequence[object]] | None, *samples: Sample, flat: bool = False,
) -> Primitive:  # fmt: skip
    """An op of one stack of matrices with parameters, batched by one more leading axis."""

    def batch(args: Args, mapped: object, size: int, **params: object) -> Sequence[object]:
        many = len(infer(args[0].type, **params)) > 1
        return apply_many(primitive, args[0], **params) if many else [apply(primitive, args[0], **params)]

    primitive = Primitive(name, infer, evaluate, jvp, vjp, batch, None, "opaque", flat=flat, samples=samples)
    return register(primitive)


def _normal(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.normal(size=shape),)


def _real(dtype: np.dtype) -> np.dtype:
    return np.empty(0, dtype).real.dtype


def _complex(dtype: np.dtype) -> np.dtype:
    return np.result_type(dtype, np.complex64)


def _spaced(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Close to diagonal matrices: LAPACK's order and signs do not jump nearby, the eigenvalues are real."""
    return lambda rng: (np.diag(np.arange(1.0, 1.5 * shape[-1], 1.5)) + 0.15 * rng.normal(size=shape),)
