"""Calls of SciPy's solvers reach their handlers with all arguments by name.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

from ...trace import replaces, tracing
from ..scipy_functions import concrete_only

Arguments = dict[str, object]


def replaces_solver(function: Callable[..., object], handler: Callable[[Arguments, Callable[[], object]], object]) -> None:
    """Replace a solver: under trace ``handler(arguments, plain)`` gets all arguments by name, and the call without tracing."""
    signature = inspect.signature(function)

    def call(*args: object, **keywords: object) -> object:
        def plain() -> object:
            return concrete_only(function)(*args, **keywords)

        if not tracing():
            return function(*args, **keywords)
        named = signature.bind(*args, **keywords)
        named.apply_defaults()
        return handler(dict(named.arguments), plain)

    call.__name__, call.__doc__, call.__signature__ = function.__name__, function.__doc__, signature
    replaces(function)(call)


def options_of(named: Mapping[str, object] | None) -> Arguments:
    """A copy of options that the user names in a dict."""
    return dict(named or {})


def of(taken: Mapping[str, object], names: Sequence[str]) -> Arguments:
    """The named options that were given."""
    return {k: taken[k] for k in names if taken.get(k) is not None}
