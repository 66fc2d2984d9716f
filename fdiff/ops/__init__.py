"""The tables of operations; importing this package fills the registry."""

from . import (
    contraction,
    creation,
    elementwise,
    indexing,
    joining,
    linalg,
    reductions,
    scans,
    selection,
    shaping,
    statistics,
)

__all__ = [
    "contraction",
    "creation",
    "elementwise",
    "indexing",
    "joining",
    "linalg",
    "reductions",
    "scans",
    "selection",
    "shaping",
    "statistics",
]
