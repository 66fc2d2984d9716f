"""Jacobians that are mostly zero: which entries can be nonzero, and fewer sweeps because of it.

This page is what `transforms.pipeline` knows of this folder. Its modules are imported when a
Jacobian or a Hessian first asks for one of them: gradients need none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ...process.forking import no_fork

if TYPE_CHECKING:
    from .compressed_jacobians import compressed
    from .dynamic_sparsity import reached_columns, read_in_slices
    from .parameter_entries import entry_columns
    from .row_selection import rows_read
    from .separable_jacobians import separable

__all__ = [
    "compressed",
    "entry_columns",
    "reached_columns",
    "read_in_slices",
    "rows_read",
    "separable",
]

_HOMES = {
    "compressed": "compressed_jacobians",
    "entry_columns": "parameter_entries",
    "reached_columns": "dynamic_sparsity",
    "read_in_slices": "dynamic_sparsity",
    "rows_read": "row_selection",
    "separable": "separable_jacobians",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(name)
    with no_fork:
        found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = found
    return found
