"""One object of the user and its proxy during a run: reads and stores of its attributes."""

from __future__ import annotations

import functools
from threading import local
from types import MemberDescriptorType
from typing import cast

from ...foreign_errors import Suppressed, not_foreign
from ..dependency_nodes import ABSENT, Equal, Instance
from ..proxy_context import CachedProperty, Pair, ProxyContext, Refuse, Resolve, Where, label
from ..revalidation import Revalidation
from ..value_kinds import MISSING, item_key, leaf_key
from ..written.write_targets import WritePlace, in_slot, item_of
from .class_proxies import state_of

_OBJECT = frozenset(dir(object))
_WHOLE = frozenset(("__dict__", "__reduce__", "__getstate__"))  # to read one is to read all
own_attribute = object.__getattribute__


class ObjectProxy:
    """An object of the user (`real`), its proxy, and the dependency (`node`) of its reads.

    `put` are the attributes that were copied into the proxy when they were read, by name; `places`
    are the slots of the class, and `filled` the slots that are complete: an exception may arrive
    between.
    """

    __slots__ = ("computed", "context", "filled", "node", "places", "proxy", "put", "real", "where")

    def __init__(self, context: ProxyContext, real: object, proxy: object, where: Where) -> None:
        self.context = context
        self.real = real
        self.proxy = proxy
        self.where = where
        self.node = Instance(type(real))
        self.put: dict[str, object] = {}
        self.filled: set[str] = set()
        self.computed: dict[str, object] = {}  # cached properties that private code has computed
        self.places = places_of(type(real))

    def fetch(self, name: str) -> None:
        """Put a proxy of what the object has under this name into its own proxy, once."""
        if name in _OBJECT and name not in _WHOLE:
            return
        if name in _WHOLE:
            self.fetch_all()
        elif (place := self.places.get(name)) is not None:
            self._fetch_slot(name, place)
        elif hasattr(self.real, "__dict__"):
            here, reads = own_attribute(self.proxy, "__dict__"), self.node.table.reads
            if name in reads or name in here:  # written before it was read
                return
            value = vars(self.real).get(name, MISSING)
            reads[name] = ABSENT
            if value is not MISSING:
                place = item_of(self.node.table, name)
                value, reads[name] = self._read(name, value, place)
                here[name] = self.put[name] = value  # no exception comes between

    def _read(self, name: str, value: object, place: WritePlace) -> Pair:
        return self.context.read(value, f"{label(self.where)}.{name}", place)

    def _fetch_slot(self, name: str, place: MemberDescriptorType) -> None:
        if name in self.node.slots or slot(self.proxy, name) is not MISSING:
            return
        self.node.slots[name] = ABSENT
        with Suppressed(AttributeError):
            where = in_slot(self.node, place)
            value, self.node.slots[name] = self._read(name, place.__get__(self.real), where)
            self.put[name] = value
            object.__setattr__(self.proxy, name, value)
            self.filled.add(name)

    def fetch_all(self) -> None:
        for name in self.places:
            self.fetch(name)
        if hasattr(self.real, "__dict__"):
            names = tuple(vars(self.real))
            if self.node.table.keys is None:
                self.node.table.keys = tuple(map(item_key, names))
            for name in names:
                self.fetch(name)

    def carry_over(self, release: Resolve, refuse: Refuse) -> None:
        """Store in the user's object what the run has stored in the proxy."""
        state = state_of(type(self.proxy))
        if state is not None and state.real is not type(self.real):
            self.context.note(f"a write to `{label(self.where)}.__class__`")
            object.__setattr__(self.real, "__class__", state.real)
        for name, value in self.writes():
            if self._as_it_was(name, value):
                continue
            self._note(name, value)
            with refuse(f"{label(self.where)}.{name}"):
                self._store(name, value if value is MISSING else release(value))

    def _note(self, name: str, value: object) -> None:
        """Note a write for later calls."""
        if (place := self.places.get(name)) is None:
            where, before = item_of(self.node.table, name), self.node.table.reads.get(name)
        else:
            where, before = in_slot(self.node, place), self.node.slots.get(name)
        named = f"{label(self.where)}.{name}"
        self.context.repeats.wrote(f"a write to `{named}`", named, where, value, before)

    def _store(self, name: str, value: object) -> None:
        if (place := self.places.get(name)) is None:
            store(vars(self.real), name, value)
        elif value is MISSING:
            place.__delete__(self.real)
        else:
            place.__set__(self.real, value)

    def writes(self) -> list[tuple[str, object]]:
        """Names that the run stored, with their values; MISSING for names that it deleted."""
        now = {name: slot(self.proxy, name) for name in self.places}
        now.update(slot_dict(self.proxy))
        names = dict.fromkeys((*now, *self.put))  # in the order in which they were stored
        values = [(name, now.get(name, MISSING)) for name in names]
        empty = self.places.keys() - self.filled
        changed = [(n, v) for n, v in values if v is not self.put.get(n, MISSING)]
        return [(n, v) for n, v in changed if v is not MISSING or n not in empty]

    def compute(self, member: CachedProperty) -> object:
        """Have Python compute a cached property for the user's object, which keeps it; its proxy.

        MISSING if that cannot be done outside of the trace.
        """
        call = functools.partial(member.real.__get__, self.real, type(self.real))
        if not hasattr(self.real, "__dict__"):
            return call()  # which raises
        here, name = own_attribute(self.proxy, "__dict__"), member.name
        if name not in here:  # of a base class, asked for by ``super()``, it may be
            if self.context.plainly(call) is MISSING:
                return MISSING
            self.node.table.reads.pop(name, None)
            self.fetch(name)
        return here[name]

    def _as_it_was(self, name: str, value: object) -> bool:
        """Whether the user's object has an equal immutable value already, which is then a read."""
        if leaf_key(value) is None:
            return False
        reads = self.node.slots if name in self.places else self.node.table.reads
        if name in reads:
            before = self.put.get(name, MISSING)
        elif name in self.places:
            before = slot(self.real, name)
        else:
            before = slot_dict(self.real).get(name, MISSING)
        if not Equal(value).holds(before, Revalidation(0)):
            return False
        reads.setdefault(name, Equal(value))
        return True

    def become_real(self) -> None:
        """Turn the proxy into an object of the user's class, for code that still holds it."""
        values = {name: slot(self.real, name) for name in self.places}
        become_real(self.proxy)
        if hasattr(self.real, "__dict__"):
            object.__setattr__(self.proxy, "__dict__", vars(self.real))
        for name, value in values.items():
            if value is not MISSING:
                object.__setattr__(self.proxy, name, value)


def places_of(kind: type) -> dict[str, MemberDescriptorType]:
    """The slots of a class, by name."""
    return {
        name: value
        for base in reversed(kind.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, MemberDescriptorType)
    }


def slot(value: object, name: str) -> object:
    """An attribute as `object` finds it, without hooks; MISSING if there is none."""
    try:
        return own_attribute(value, name)
    except not_foreign(AttributeError):
        return MISSING


def own_class(value: object) -> type | None:
    """The user's class of an instance of a proxy class; None for any other object."""
    state = state_of(type(value))
    return None if state is None else state.real


def become_real(value: object) -> bool:
    """Make an instance of a proxy class one of the class that the proxy class stands for.

    Python refuses that where a class with a ``__dict__`` is derived from one with slots alone.
    """
    state = state_of(type(value))
    if state is None:
        return False
    try:
        object.__setattr__(value, "__class__", state.real)
    except not_foreign(TypeError):
        return False
    return True


def slot_dict(value: object) -> dict[str, object]:
    """The ``__dict__`` of an object, in this thread; an empty one if it has none."""
    attributes = vars(value) if isinstance(value, local) else slot(value, "__dict__")
    return {} if attributes is MISSING else cast("dict[str, object]", attributes)


def slots(value: object) -> list[tuple[str, object]]:
    """The slots of an object that are filled: name and value."""
    items = [(name, slot(value, name)) for name in places_of(type(value))]
    return [(name, item) for name, item in items if item is not MISSING]


def store(namespace: dict[str, object], name: str, value: object) -> None:
    """Set a name in a namespace; MISSING deletes it."""
    if value is MISSING:
        namespace.pop(name, None)
    else:
        namespace[name] = value
