"""Checks of arguments of public calls that would fail later, or be ignored."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import InputError, failure, given_path
from ..foreign_errors import file_status

MAKE = "Make it by fdiff.autograd.tensor."


def require_function(function: object, role: str, call: str) -> None:
    """Refuse an argument that cannot be called; `role` names the argument."""
    if not callable(function):
        fact = f"{role} must be a function, not {type(function).__name__}."
        raise failure(InputError, f"fdiff.autograd.{call}", fact, "Pass the function itself.")


def require_recorded(array: object, call: str) -> None:
    """Refuse an object that is not a recorded array."""
    if not hasattr(array, "edge_now"):
        fact = f"a recorded array is needed, not {type(array).__name__}."
        raise failure(InputError, f"fdiff.autograd.{call}", fact, MAKE)


def recorded_arrays(arrays: object, call: str) -> tuple[Any, ...]:
    """A sequence of recorded arrays, checked."""
    if hasattr(arrays, "edge_now") or not isinstance(arrays, Iterable):
        fact = f"a sequence of recorded arrays is needed, not {type(arrays).__name__}."
        raise failure(InputError, f"fdiff.autograd.{call}", fact, "Give them in a list.")
    sequence = tuple[object, ...](arrays)
    for array in sequence:
        require_recorded(array, call)
    return sequence


def as_directory(directory: object, call: str) -> Path | None:
    """The path of a directory that there is; None for None."""
    if directory is None:
        return None
    path = given_path(directory, "directory", f"fdiff.autograd.{call}")
    if (status := file_status(path)) is None or not stat.S_ISDIR(status.st_mode):
        fact = f"there is no directory {str(path)!r}."
        raise failure(InputError, f"fdiff.autograd.{call}", fact, "Make it, or name another one.")
    return path
