"""The subscripts of a contraction, ``"ij,jk->ik"``: one label for each axis."""

from __future__ import annotations

from functools import lru_cache

from ...arraytype import ArrayType

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@lru_cache(maxsize=4096)
def parse(subscripts: str) -> tuple[str, str, str]:
    """Labels of the two operands and of the result."""
    inputs, out = subscripts.split("->")
    a, b = inputs.split(",")
    return a, b, out


def sizes_by_label(subscripts: str, a: ArrayType, b: ArrayType) -> dict[str, int]:
    """How many entries each axis has, by its label; ValueError where operands disagree."""
    left, right, _ = parse(subscripts)
    sizes = dict(zip(left, a.shape, strict=True))
    for label, n in zip(right, b.shape, strict=True):
        if sizes.setdefault(label, n) != n:
            raise ValueError(f"axes of different lengths are contracted: {sizes[label]} and {n} in {a} x {b}")
    return sizes
