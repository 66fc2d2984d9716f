"""The tables of operations; importing this package fills the registry."""

from . import contraction, creation, elementwise, indexing, linalg, reductions, selection, shaping

__all__ = ["contraction", "creation", "elementwise", "indexing", "linalg", "reductions", "selection", "shaping"]
