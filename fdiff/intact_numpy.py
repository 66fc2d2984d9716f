"""NumPy with its functions as NumPy defines them: what all of fdiff calls (see `intact`)."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy  # noqa: ICN001 - `np` is this module

from .error_state import errstate as _errstate
from .intact import intact

if TYPE_CHECKING:  # for type checkers this module is NumPy
    from numpy import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary] - see above

globals().update({name: value for name, value in vars(intact(numpy)).items() if name[:2] != "__"})


globals()["errstate"] = _errstate


def __getattr__(name: str) -> object:
    """Attributes that NumPy imports when they are asked for."""
    value = getattr(numpy, name)
    if isinstance(value, ModuleType):
        globals()[name] = value = intact(value)
    return value
