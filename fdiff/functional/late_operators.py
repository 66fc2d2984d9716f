"""Sparse derivatives, imported where one is first asked for: they import SciPy."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..process.forking import no_fork


def of_sparse(name: str) -> Any:
    """The function `name` of `sparse_derivatives`."""
    with no_fork:
        return getattr(import_module(f"{__package__}.sparse_derivatives"), name)
