"""Modules of libraries as the libraries define them, whatever somebody has put into them.

``unittest.mock.patch`` does so, shims for debugging, packages that mend others. That is for the
functions of users, which look names up as Python does. Rules of derivatives are NumPy code as well,
and must not change with it: the derivative of ``np.sin`` is no replaced ``np.cos``.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType

_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that a ``class`` statement has made
_LIBRARIES = frozenset(("numpy", "scipy", "uarray"))


def intact(module: ModuleType) -> object:
    """A module with the names that it and its public submodules have now.

    Where something foreign stands, it has what the parts of the library have under that name.
    """
    copy = ModuleType(module.__name__)
    names = vars(copy)
    names.update(vars(module))
    doubtful: list[str] = []
    for name, value in vars(module).items():
        if name[0] == "_":
            continue
        if isinstance(value, ModuleType):
            if value.__name__ == f"{module.__name__}.{name}":
                names[name] = intact(value)
        elif callable(value) and not _is_own(value, name):
            doubtful.append(name)
    parts = _names_of_private_modules(module) if doubtful else []
    for name in doubtful:
        defined = [part[name] for part in parts if name in part]
        if not any(value is names[name] for value in defined):
            names[name] = next((v for v in defined if _is_own(v, name)), names[name])
    return copy


def _is_own(value: object, name: str) -> bool:
    """Whether a library has put this function or class into its module, as far as one can see."""
    if isinstance(value, FunctionType):
        home = value.__globals__.get("__name__")
    else:
        kind = value if isinstance(value, type) else type(value)
        home = kind.__module__ if kind.__flags__ & _HEAP else "numpy"
    of_library = type(home) is str and home.partition(".")[0] in _LIBRARIES
    return of_library and getattr(value, "__name__", name) == name


def _names_of_private_modules(module: ModuleType) -> list[dict[str, object]]:
    """The names in the private modules of which a library makes a public one."""
    name = module.__name__
    below = (f"{name}._", f"{name.partition('.')[0]}._core")
    return [vars(sys.modules[n]) for n in [*sys.modules] if n.startswith(below)]
