"""Objects of the user in the body of a loop: stand-ins with the attributes that the source names.

Only objects are taken apart whose attributes Python finds in their ``__dict__``.

See docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...capture.proxies.class_proxies import can_be_proxied, state_of
from ...capture.sources.loop_functions import UNBOUND
from ...capture.value_kinds import record_class
from .variables import RefusedLoopError

_CODE = ("__setattr__", "__delattr__")
_own_attribute = object.__getattribute__


class StandIn:
    """Stands for an object in a run of the body."""


def stands(value: object, name: str, *, stores: bool) -> bool:
    """Whether an object of the user has a stand-in; RefusedLoopError where its class has code."""
    if type(value) is StandIn:
        return True
    kind = _real_class(value)
    if not (can_be_proxied(kind) or record_class(kind)):
        return False
    for base in kind.__mro__[:-1]:
        code = any(word in vars(base) for word in _CODE) or vars(base).get("__slots__")
        if (stores and code) or "__getattr__" in vars(base):
            raise RefusedLoopError(f"the class of {name} has code or slots for its attributes")
    return True


def _real_class(value: object) -> type:
    state = state_of(type(value))
    return type(value) if state is None else state.real


def attributes_of(
    value: object, names: Iterable[str], place: str, *, stored: bool
) -> dict[str, object]:
    """Attributes of an object, by name; UNBOUND for those that are missing."""
    if type(value) is StandIn:
        return {name: getattr(value, name, UNBOUND) for name in names}
    of_class = dict[str, object]()
    for base in reversed(_real_class(value).__mro__):
        of_class |= vars(base)
    values = dict[str, object]()
    for name in names:
        member = of_class.get(name, UNBOUND)
        if hasattr(type(member), "__get__") or hasattr(type(member), "__set__"):
            raise RefusedLoopError(f"{place}.{name} is code of the class")
        values[name] = getattr(value, name, UNBOUND)
        if stored and member is not UNBOUND and name not in _own_attribute(value, "__dict__"):
            raise RefusedLoopError(f"{place}.{name} is an attribute of the class")
    return values


def stand_in(values: Mapping[int | str, object]) -> StandIn:
    """An object with attributes; those that are unbound it has not."""
    own = StandIn()
    for name, value in values.items():
        if value is not UNBOUND:
            setattr(own, str(name), value)
    return own


def content(value: object) -> object:
    """The attributes of a stand-in; other values themselves."""
    return vars(value) if type(value) is StandIn else value


def put(own: object, values: Mapping[int | str, object]) -> None:
    """Store attributes of an object that are others now."""
    for name, value in values.items():
        if value is not UNBOUND and getattr(own, str(name), UNBOUND) is not value:
            setattr(own, str(name), value)
