"""Operators whose modules are imported when needed: sparse derivatives, sums over partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ..primitive import HOOKS
from ..process.forking import no_fork


def late(module: str, name: str) -> Any:
    """The function `name` of a module of this folder."""
    with no_fork:
        return getattr(import_module(f"{__package__}.{module}"), name)


def of_sparse(name: str) -> Any:
    """The function `name` of `sparse_derivatives`."""
    return late("sparse_derivatives", name)


def of_partitions(f: object, origin: object) -> Any:
    """What an operator makes of a sum over partitions: a sum again. None for other functions."""
    derived = HOOKS.get("over_partitions")  # there once fdiff.distributed is imported
    return None if derived is None else derived(f, origin)


def total_at(
    f: object, origin: Callable[[Any], object], inputs: Any, vectors: Sequence[object]
) -> tuple[object] | None:
    """What an operator that is given the point gives for a sum over partitions; else None."""
    if "over_partitions" not in HOOKS:
        return None
    several = isinstance(inputs, tuple)
    total = of_partitions(f, origin(tuple(range(len(inputs))) if several else 0))
    if total is None:
        return None
    return (total(*inputs) if several and not vectors else total(inputs, *vectors),)
