"""Proxies for modules: of the user, whose globals are read, and of libraries, which we answer."""

from __future__ import annotations

from types import ModuleType

from .container_proxies import Pair
from .dependency_nodes import Identical
from .impure import RANDOM
from .proxies import Answers, LibraryProxy, ModuleProxy, ProxyContext, Where
from .value_kinds import library_namespace

_shared: dict[int, tuple[Answers, dict[int, dict[str, object]]]] = {}


def wrap_module(context: ProxyContext, module: ModuleType, where: Where) -> Pair:
    if isinstance(
        module, ModuleProxy | LibraryProxy
    ):  # of the run around this one, which watches it
        return module, Identical(module)
    namespace = vars(module)
    if not library_namespace(namespace):
        return ModuleProxy(module, context.namespace(namespace)), Identical(module)
    if module.__name__ in RANDOM:  # its functions are methods of one object
        context.note(f"random numbers (`{module.__name__}`)")
    return LibraryProxy(module, context, _answered(context.answer, module)), Identical(module)


def _answered(answers: Answers, module: ModuleType) -> dict[str, object]:
    """Attributes of a library's module, answered; kept as long as the answers are the same."""
    key = id(answers)
    if len(_shared) > 8 and key not in _shared:
        _shared.clear()
    return _shared.setdefault(key, (answers, {}))[1].setdefault(id(module), {})
