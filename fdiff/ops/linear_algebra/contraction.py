"""Tensor contractions: `einsum`, `matmul`, `dot`, `tensordot`, `kron`, `outer`, ... through one primitive.

`contract` is an einsum of two operands. It is bilinear, and the cotangent of each operand is the contraction of
the result's cotangent with the other operand, so the primitive is closed under differentiation. An einsum of many
operands becomes contractions of two, in the order that `numpy.einsum_path` finds (D. G. A. Smith and J. Gray, "opt_einsum:
a Python package for optimizing contraction order for einsum-like expressions", J. Open Source Software 3(26), 2018, the whole note).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, promote
from ...facets import AxisMap, Lowering, Structure
from ...kernel_rule import KernelRule, Kind
from ...primitive import UFUNCS, Sample
from ...trace import Array, TracedArray, applied, apply, implements
from .. import late_term_rules
from ..entrywise.families import kind_of, multilinear, refuse
from ..rewrites.contraction_rewrites import (
    drop_axes_of_length_one,
    product_with_identity,
    product_with_number,
)
from ..shapes.axis_numbers import normal_axis
from ..shapes.diagonals import diagonal
from ..shapes.shaping import deepened, scalar_if_0d, traced
from ..shapes.subscripts import LETTERS, parse, sizes_by_label

FEW_PRODUCTS = 1 << 12  # up to which NumPy takes longer to think of BLAS than to compute


def _contracted(a: ArrayType, b: ArrayType, *, subscripts: str) -> tuple[ArrayType, ...]:
    sizes = sizes_by_label(subscripts, a, b)
    return (ArrayType(tuple(sizes[s] for s in parse(subscripts)[2]), a.dtype),)


def _evaluate(a: np.ndarray, b: np.ndarray, *, subscripts: str) -> np.ndarray:
    """By `np.dot` for products of matrices and vectors, else by NumPy's einsum, which uses BLAS where it can."""
    left, right, out = parse(subscripts)
    if left[-1:] == right[:1] and left[:-1] + right[1:] == out and len(left) <= 2 and len(right) <= 2 and left != right:
        return np.dot(a, b)
    few = a.size * b.size <= FEW_PRODUCTS
    return np.asarray(np.einsum(subscripts, a, b, optimize=not few))[()]


def _contract_transposes(bar: TracedArray, args: Sequence[TracedArray], *, subscripts: str) -> list[object]:
    left, right, out = parse(subscripts)
    a, b = args
    return [
        apply(contract, bar, b, subscripts=f"{out},{right}->{left}"),
        apply(contract, bar, a, subscripts=f"{out},{left}->{right}"),
    ]


def _contract_batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int, *, subscripts: str) -> list[object]:
    left, right, out = parse(subscripts)
    new = next(s for s in LETTERS if s not in subscripts)
    a, b = (new * m + labels for m, labels in zip(mapped, (left, right), strict=True))
    return [apply(contract, *args, subscripts=f"{a},{b}->{new}{out}")]


def _contract_axes(along: int, out: ArrayType, /, a: ArrayType, b: ArrayType, *, subscripts: str) -> AxisMap:
    left, right, result = parse(subscripts)
    label = result[along]
    return AxisMap(tuple([labels.index(label) if label in labels else None for labels in (left, right)]))


def _contract_masks(mask: TracedArray, args: Sequence[TracedArray], *, subscripts: str) -> list[object]:
    """An entry of an operand takes part if one of the products it is summed into does."""
    *operands, out = parse(subscripts)
    masks: list[object] = []
    for labels, arg in zip(operands, args, strict=True):
        away = tuple(k for k, label in enumerate(out) if label not in labels)
        some = np.any(mask, axis=away) if away else mask
        left = [label for label in out if label in labels]
        order = [left.index(label) for label in labels if label in left]
        shape = tuple(n if label in left else 1 for label, n in zip(labels, arg.shape, strict=True))
        masks.append(np.broadcast_to(np.reshape(np.transpose(some, order), shape), arg.shape))
    return masks


def _pair(a: tuple[int, ...], b: tuple[int, ...], subscripts: str) -> Sample:
    return Sample(lambda rng: (rng.normal(size=a), rng.normal(size=b)), {"subscripts": subscripts})


# An einsum of two operands; no label occurs twice in one operand, and summed labels occur in both. Closed under transposition.
contract = multilinear(
    "contract", _contracted, _contract_transposes, ((0,), (1,)), evaluate=_evaluate, batch=_contract_batch, family="bilinear",
    structure=Structure(sizeless=True, axis_map=_contract_axes, masks=_contract_masks, terms=late_term_rules.contracted),
    lowering=Lowering(KernelRule(Kind.CONTRACT), rewrites=(product_with_identity, drop_axes_of_length_one, product_with_number)),
    samples=(
        _pair((2, 3), (3, 4), "ij,jk->ik"), _pair((3,), (3,), "i,i->"), _pair((2, 3), (3,), "ij,j->i"),
        _pair((2, 3, 4), (2, 4, 2), "bij,bjk->bik"), _pair((2,), (3,), "i,j->ij"),
        _pair((3, 2, 2), (4, 3, 2), "kij,nkj->nki"), _pair((2, 3), (2, 3), "ij,ij->j"),
    ),
)  # fmt: skip

# --- einsum -----------------------------------------------------------------------------------


def _reduced_operand(x: TracedArray, labels: str, keep: str) -> tuple[TracedArray, str]:
    """One operand without repeated labels (diagonals are taken) and without labels that occur nowhere else (they are summed)."""
    while dup := next((s for s in labels if labels.count(s) > 1), None):
        first, second = labels.index(dup), labels.rindex(dup)
        x = diagonal(x, 0, first, second)
        labels = "".join(s for k, s in enumerate(labels) if k not in (first, second)) + dup
    gone = tuple(k for k, s in enumerate(labels) if s not in keep)
    if gone:
        x = np.sum(x, axis=gone)
        labels = "".join(s for s in labels if s in keep)
    return x, labels


def _permuted(x: TracedArray, labels: str, out: str) -> Array:
    return np.transpose(x, [labels.index(s) for s in out])


def _couple(left: tuple[TracedArray, str], right: tuple[TracedArray, str], keep: str) -> tuple[TracedArray, str]:
    """Contract two operands, summing the labels that are not in `keep`; axes of length 1 broadcast."""
    a, la = _reduced_operand(*left, keep + right[1])
    b, lb = _reduced_operand(*right, keep + la)
    for s in set(la) & set(lb):
        n, m = a.shape[la.index(s)], b.shape[lb.index(s)]
        if n == 1 != m:
            a, la = a.reshape(tuple(d for k, d in zip(la, a.shape, strict=True) if k != s)), la.replace(s, "")
        elif m == 1 != n:
            b, lb = b.reshape(tuple(d for k, d in zip(lb, b.shape, strict=True) if k != s)), lb.replace(s, "")
    a, la = _reduced_operand(a, la, keep + lb)
    b, lb = _reduced_operand(b, lb, keep + la)
    out = "".join(s for s in dict.fromkeys(la + lb) if s in keep)
    dtype = promote(kind_of(a), kind_of(b))
    return apply(contract, a.astype(dtype, copy=False), b.astype(dtype, copy=False), subscripts=f"{la},{lb}->{out}"), out


def _spelled(subscripts: str, operands: Sequence[TracedArray]) -> tuple[list[str], str]:
    """Labels of all operands and of the result, with ellipses written out and the result explicit."""
    text = subscripts.replace(" ", "")
    inputs, arrow, out = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        raise ValueError(f"einsum: {len(terms)} subscripts for {len(operands)} operands")
    free = [s for s in LETTERS if s not in text]
    widest = max((x.ndim - len(t) + 3 for t, x in zip(terms, operands, strict=True) if "..." in t), default=0)
    dots = "".join(free[:widest])
    labels = [t.replace("...", dots[widest - (x.ndim - len(t) + 3) :]) for t, x in zip(terms, operands, strict=True)]
    for t, x in zip(labels, operands, strict=True):
        if len(t) != x.ndim:
            raise ValueError(f"einsum: operand has {x.ndim} axes but {len(t)} subscripts")
    if not arrow:
        counts = "".join(labels)
        out = dots + "".join(sorted(s for s in set(counts) - set(dots) if counts.count(s) == 1))
    return labels, out.replace("...", dots)


def _interleaved(operands: tuple[object, ...]) -> tuple[str, tuple[object, ...]]:
    """Subscripts as text, from operands that alternate with lists of axis numbers."""
    spell = lambda axes: "".join("..." if a is Ellipsis else LETTERS[a] for a in axes)  # noqa: E731 - one line, used twice
    pairs = len(operands) // 2
    text = ",".join(spell(operands[2 * k + 1]) for k in range(pairs))
    return text if len(operands) % 2 == 0 else f"{text}->{spell(operands[-1])}", tuple(operands[2 * k] for k in range(pairs))


@implements(np.einsum)
def einsum(
    subscripts: object, *operands: object, optimize: object = False, dtype: object = None, order: str = "K", casting: str = "safe"
) -> Array:
    """``np.einsum``: canonical two-operand contractions, in the order ``np.einsum_path`` finds."""
    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved((subscripts, *operands))
    arrays = [traced(x) for x in operands]
    labels, out = _spelled(subscripts, arrays)
    terms = list(zip(arrays, labels, strict=True))
    if len(terms) > 2:
        shadows = [np.broadcast_to(0.0, x.shape) for x in arrays]
        order_ = np.einsum_path(",".join(labels) + "->" + out, *shadows, optimize="greedy")[0][1:]
    else:
        order_ = [tuple(range(len(terms)))]
    for spot in order_:
        picked = [terms.pop(k) for k in sorted(spot, reverse=True)]
        keep = out + "".join(t for _, t in terms)
        merged = picked.pop()
        while picked:
            rest = keep + "".join(t for _, t in picked[:-1])
            merged = _couple(merged, picked.pop(), rest)
        terms.append(_reduced_operand(*merged, keep))
    result, last = terms[0]
    if missing := set(out) - set(last):
        raise ValueError(f"einsum: output subscripts {sorted(missing)} appear in no input")
    final = _permuted(result, last, out)
    final = final if dtype is None else final.astype(dtype, copy=False)
    return final if final.ndim else scalar_if_0d(final)


# --- matrix products and their kin ------------------------------------------------------------


@lru_cache(maxsize=4096)
def _single_contraction(a: ArrayType, b: ArrayType, left: str, right: str, out: str) -> str | None:
    """Subscripts of `contract`, if the product is one contraction of its operands as they are; else None."""
    sizes = dict(zip(left, a.shape, strict=True))
    same = a.dtype == b.dtype and all(sizes.get(s, n) == n for s, n in zip(right, b.shape, strict=True))
    single = len(set(left)) == len(left) and len(set(right)) == len(right)
    seen = set(left) <= set(out + right) and set(right) <= set(out + left)
    ordered = "".join(s for s in dict.fromkeys(left + right) if s in out) == out
    return f"{left},{right}->{out}" if same and single and seen and ordered else None


def _product(a: TracedArray, b: TracedArray, left: str, right: str, out: str) -> TracedArray:
    if not a.weak and not b.weak and (plain := _single_contraction(a.type, b.type, left, right, out)) is not None:
        return applied(contract, (a, b), (("subscripts", plain),), scalar=not out)
    for x, y, labels, others in ((a, b, left, right), (b, a, right, left)):
        for s in set(labels) & set(others):
            if x.shape[labels.index(s)] != y.shape[others.index(s)] and s not in out:
                raise ValueError(f"shapes {a.shape} and {b.shape} not aligned: {a.shape[left.index(s)]} != {b.shape[right.index(s)]}")
    merged, labels = _couple((a, left), (b, right), out)
    return scalar_if_0d(_permuted(merged, labels, out))


def matmul(x: object, y: object, **keywords: object) -> TracedArray:
    """``x @ y`` with NumPy's rules for vectors and stacks of matrices."""
    refuse(np.matmul, keywords)
    a, b = traced(x), traced(y)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    n, m = max(a.ndim - 2, 0), max(b.ndim - 2, 0)
    batch = LETTERS[: max(n, m)]
    rows, inner, cols = LETTERS[len(batch)] * (a.ndim > 1), LETTERS[len(batch) + 1], LETTERS[len(batch) + 2] * (b.ndim > 1)
    left, right = batch[len(batch) - n :] + rows + inner, batch[len(batch) - m :] + inner + cols
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(
            "matmul: Input operand 1 has a mismatch in its core dimension 0"
            f" (size {b.shape[-2 if b.ndim > 1 else 0]} is different from {a.shape[-1]})"
        )
    return _product(a, b, left, right, batch + rows + cols)


UFUNCS[np.matmul] = matmul


def vecdot(x: object, y: Array, **keywords: object) -> TracedArray:
    """Inner products along the last axis."""
    refuse(np.vecdot, keywords)
    return np.sum(np.multiply(np.conjugate(traced(x)), y), axis=-1)


def matvec(x: Array, y: object, **keywords: object) -> TracedArray:
    refuse(np.matmul, keywords)
    return np.matmul(x, np.expand_dims(traced(y), -1))[..., 0]


def vecmat(x: object, y: Array, **keywords: object) -> TracedArray:
    refuse(np.matmul, keywords)
    return np.matmul(np.expand_dims(np.conjugate(traced(x)), -2), y)[..., 0, :]


UFUNCS[np.vecdot] = vecdot
if hasattr(np, "matvec"):  # since NumPy 2.2
    UFUNCS[np.matvec], UFUNCS[np.vecmat] = matvec, vecmat


@implements(np.dot, method="dot")
def dot(x: object, y: object, out: object = None) -> Array:
    """Inner product of vectors, matrix product of matrices, NumPy's rule for all else."""
    a, b = traced(x), traced(y)
    if not a.ndim or not b.ndim:
        return np.multiply(a, b)
    left, right = LETTERS[: a.ndim], LETTERS[a.ndim : a.ndim + b.ndim]
    at = max(b.ndim - 2, 0)
    right = right[:at] + left[-1] + right[at + 1 :]
    return _product(a, b, left, right, left[:-1] + right[:at] + right[at + 1 :])


@implements(np.inner)
def inner(x: object, y: object) -> Array:
    a, b = traced(x), traced(y)
    if not a.ndim or not b.ndim:
        return np.multiply(a, b)
    left, right = LETTERS[: a.ndim], LETTERS[a.ndim : a.ndim + b.ndim - 1] + LETTERS[a.ndim - 1]
    return _product(a, b, left, right, left[:-1] + right[:-1])


@implements(np.vdot)
def vdot(x: object, y: object) -> Array:
    left = traced(x)
    if left.dtype.kind == "c":
        left = np.conjugate(left)
    return dot(left.reshape(-1), traced(y).reshape(-1))


@implements(np.outer)
def outer(x: object, y: object, out: object = None) -> TracedArray:
    return _product(traced(x).reshape(-1), traced(y).reshape(-1), "i", "j", "ij")


@implements(np.kron)
def kron(x: object, y: object) -> TracedArray:
    """Kronecker product; the shape with fewer axes gets axes of length 1 in front."""
    a, b = traced(x), traced(y)
    a, b = deepened(a, b.ndim), deepened(b, a.ndim)
    wide = a.reshape(tuple(n for m in a.shape for n in (m, 1))) * b.reshape(tuple(n for m in b.shape for n in (1, m)))
    return wide.reshape(tuple(n * m for n, m in zip(a.shape, b.shape, strict=True)))


def _both(axes: Sequence[object]) -> tuple[object, object]:
    first, second = axes
    return first, second


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(x: object, y: object, axes: object = 2) -> TracedArray:
    """Sum of products over pairs of axes."""
    a, b = traced(x), traced(y)
    if isinstance(axes, (int, np.integer)):
        pairs = (range(a.ndim - int(axes), a.ndim), range(int(axes)))
    else:
        pairs = tuple([s] if isinstance(s, (int, np.integer)) else list(s) for s in _both(axes))
    left = list(LETTERS[: a.ndim])
    right = list(LETTERS[a.ndim : a.ndim + b.ndim])
    for i, j in zip(*pairs, strict=True):
        right[normal_axis(j, b.ndim)] = left[normal_axis(i, a.ndim)]
    shared = set(left) & set(right)
    out = "".join(s for s in (*left, *right) if s not in shared)
    product = _product(a, b, "".join(left), "".join(right), out)
    return TracedArray(product.home, product.id, product.type)  # an array, even of 0-d


@implements(np.cross)
def cross(a: object, b: object, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """Vector product along an axis of length 3."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = np.moveaxis(traced(a), axisa, -1), np.moveaxis(traced(b), axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError("incompatible dimensions for cross product (dimension must be 3)")
    (x0, x1, x2), (y0, y1, y2) = ([v[..., k] for k in range(3)] for v in (x, y))
    out = np.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=-1)
    return np.moveaxis(out, -1, axisc)


@implements(np.einsum_path)
def einsum_path(*operands: object, optimize: object = "greedy", einsum_call: bool = False) -> object:
    """The order of contractions, which depends on the shapes alone."""
    shapes = [np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, TracedArray) else x for x in operands]
    return np.einsum_path(*shapes, optimize=optimize)
