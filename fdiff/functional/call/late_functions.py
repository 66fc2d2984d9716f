"""Functions of fdiff that are imported when they are first called."""

from __future__ import annotations

from ...hooks import Function
from ...process import forking


def late(module: str, name: str) -> Function:
    """The function `name` of a module of `fdiff.functional`, imported when it is first called."""
    return forking.late(module, "fdiff.functional", name)
