"""The tables of operations; importing this package fills the registry."""

from . import contraction, elementwise, indexing, linalg, reductions, selection, shaping

__all__ = ["contraction", "elementwise", "indexing", "linalg", "reductions", "selection", "shaping"]
