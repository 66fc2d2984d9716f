"""Replacements for the names of torch's tensors that NumPy arrays lack."""

from __future__ import annotations

from collections.abc import Iterable

from ...intact_numpy import defines_function

_INSTEAD = {
    "norm": "np.linalg.norm(x)",
    "permute": "x.transpose(axes)",
    "expand": "np.broadcast_to(x, shape)",
    "numel": "x.size",
    "t": "x.T",
    "mm": "x @ y",
    "bmm": "x @ y",
    "mv": "x @ y",
    "float": "x.astype(np.float32)",
    "double": "x.astype(np.float64)",
}
_KEYWORDS = {"dim": "axis", "keepdim": "keepdims"}


def missing(x: object, name: str) -> AttributeError:
    """The error for an attribute that an array has not."""
    text = f"{type(x).__name__!r} object has no attribute {name!r}"
    instead = None if name.startswith("__") else _numpy_spelling(name)
    return AttributeError(
        text if instead is None else f"{text}. Write {instead}.", name=name, obj=x
    )


def _numpy_spelling(name: str) -> str | None:
    if name in _INSTEAD:
        return _INSTEAD[name]
    if defines_function(name):
        return f"np.{name}(x)"
    if defines_function(name[:-1]) and name.endswith("_"):
        return f"x[...] = np.{name[:-1]}(x)"
    return None


_ELSEWHERE = {
    "cat": "np.concatenate",
    "clamp": "np.clip",
    "numpy": "import numpy as np",
    "relu": "np.maximum(x, 0)",
    "sigmoid": "scipy.special.expit",
}


def missing_function(module: str, name: str) -> AttributeError:
    """The error for a name that a module has not, which NumPy or torch has."""
    text = f"module {module!r} has no attribute {name!r}"
    instead = _ELSEWHERE.get(name) or (f"np.{name}" if defines_function(name) else None)
    if instead is not None and not name.startswith("_"):
        text = f"{text}: recorded arrays are operands of NumPy functions. Write {instead}."
    return AttributeError(text, name=name)


def check_keywords(method: str, names: Iterable[str]) -> None:
    """Refuse keywords that are torch's; the error names NumPy's."""
    for name in names:
        if name in _KEYWORDS:
            raise TypeError(
                f"{method}() got an unexpected keyword argument {name!r}. NumPy's name for it is"
                f" {_KEYWORDS[name]!r}."
            )
