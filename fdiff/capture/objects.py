"""Stand-ins for objects of the user's classes: attributes are read when they are looked up.

What a run stores in a stand-in goes to the user's object at the end. Objects that private code
makes itself are instances of shadows too, and of the user's own classes from the end on.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType, MemberDescriptorType, MethodType
from typing import cast

import numpy as np

from .classes import (
    Shadow,
    State,
    load,
    load_special,
    make_shadow,
    shadowable,
    state_of,
)
from .containers import Pair, opaque
from .kinds import (
    MISSING,
    SCALARS,
    field_names,
    is_ours,
    is_traced,
    item_key,
    leaf_key,
    record_class,
)
from .nodes import ABSENT, Instance, Leaf, Same
from .standins import Reader, Where, label
from .walks import Node, Walk

_OBJECT = frozenset(dir(object))
_WHOLE = frozenset(("__dict__", "__reduce__", "__getstate__"))  # show all attributes at once
_own = object.__getattribute__


class Object:
    """A captured object: the user's, its stand-in, what was read of it and put there."""

    __slots__ = ("node", "places", "put", "reader", "real", "stand_in", "where")

    def __init__(self, reader: Reader, real: object, stand_in: object, where: Where) -> None:
        self.reader = reader
        self.real = real
        self.stand_in = stand_in
        self.where = where
        self.node = Instance(type(real))
        self.put: dict[str, object] = {}
        self.places = _places(type(real))

    def fetch(self, name: str) -> None:
        """Put what the object has under this name into the stand-in."""
        if name in _OBJECT and name not in _WHOLE:
            return
        if name in _WHOLE:
            self.fetch_all()
        elif (place := self.places.get(name)) is not None:
            self._fetch_slot(name, place)
        elif hasattr(self.real, "__dict__"):
            here, reads = _own(self.stand_in, "__dict__"), self.node.table.reads
            if name in reads or name in here:  # written before it was read
                return
            value = vars(self.real).get(name, MISSING)
            reads[name] = ABSENT
            if value is not MISSING:
                here[name], reads[name] = self._wrap(name, value)
                self.put[name] = here[name]

    def _wrap(self, name: str, value: object) -> Pair:
        return self.reader.wrap(value, f"{label(self.where)}.{name}")

    def _fetch_slot(self, name: str, place: MemberDescriptorType) -> None:
        if name in self.node.slots or _slot(self.stand_in, name) is not MISSING:
            return
        self.node.slots[name] = ABSENT
        with suppress(AttributeError):
            value, self.node.slots[name] = self._wrap(name, place.__get__(self.real))
            object.__setattr__(self.stand_in, name, value)
            self.put[name] = value

    def fetch_all(self) -> None:
        for name in self.places:
            self.fetch(name)
        if hasattr(self.real, "__dict__"):
            names = tuple(vars(self.real))
            if self.node.table.keys is None:
                self.node.table.keys = tuple(map(item_key, names))
            for name in names:
                self.fetch(name)

    def carry_over(self, release: Callable[[object], object]) -> None:
        """What the run has stored goes to the user's object."""
        state = state_of(type(self.stand_in))
        if state is not None and state.real is not type(self.real):
            self.reader.note(f"a write to `{label(self.where)}.__class__`")
            object.__setattr__(self.real, "__class__", state.real)
        now = {name: _slot(self.stand_in, name) for name in self.places}
        now.update(_slot_dict(self.stand_in))
        for name in now.keys() | self.put.keys():
            value = now.get(name, MISSING)
            if value is self.put.get(name, MISSING) or self._as_it_was(name, value):
                continue
            self.reader.note(f"a write to `{label(self.where)}.{name}`")
            if (place := self.places.get(name)) is not None:
                store = functools.partial(place.__set__, self.real)
                place.__delete__(self.real) if value is MISSING else store(release(value))
            elif value is MISSING:
                vars(self.real).pop(name, None)
            else:
                vars(self.real)[name] = release(value)

    def _as_it_was(self, name: str, value: object) -> bool:
        """Whether the user's object has an equal plain value already; that counts as read."""
        if leaf_key(value) is None:
            return False
        reads = self.node.slots if name in self.places else self.node.table.reads
        if name in reads:
            before = self.put.get(name, MISSING)
        elif name in self.places:
            before = _slot(self.real, name)
        else:
            before = _slot_dict(self.real).get(name, MISSING)
        if not Leaf(value).holds(before, Walk(0)):
            return False
        reads.setdefault(name, Leaf(value))
        return True

    def become_real(self) -> None:
        """Whoever still has the stand-in finds the user's attributes in it."""
        values = {name: _slot(self.real, name) for name in self.places}
        become_real(self.stand_in)
        if hasattr(self.real, "__dict__"):
            object.__setattr__(self.stand_in, "__dict__", vars(self.real))
        for name, value in values.items():
            if value is not MISSING:
                object.__setattr__(self.stand_in, name, value)


def _places(kind: type) -> dict[str, MemberDescriptorType]:
    """The slots of a class, by name."""
    return {
        name: value
        for base in reversed(kind.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, MemberDescriptorType)
    }


def _slot(value: object, name: str) -> object:
    try:
        return _own(value, name)
    except AttributeError:
        return MISSING


def become_real(value: object) -> bool:
    """Make an instance of a shadow one of the class that the shadow stands for.

    Python refuses that where a class with a ``__dict__`` is derived from one with slots alone.
    """
    state = state_of(type(value))
    if state is None:
        return False
    try:
        object.__setattr__(value, "__class__", state.real)
    except TypeError:
        return False
    return True


# ---------------------------------------------------------------------------------- those of a run


class Shadows:
    """What stands for classes and objects of the user in one run."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.states: list[State] = []
        self.objects: dict[int, Object] = {}  # by the id of the stand-in
        self.made: list[object] = []  # objects of the run's own that the user will see
        self._released: dict[int, tuple[object, object]] = {}
        self._ready: set[tuple[type, str]] = set()

    def of_class(self, kind: type, where: Where) -> Pair:
        root: list[type] = []
        try:
            state = make_shadow(self.reader, kind, self._hooks(root))
        except (AttributeError, RuntimeError, TypeError, ValueError):  # a base that will have none
            return opaque(self.reader, kind, where, "attributes of the class")
        root.append(state.shadow)
        self.states.append(state)
        node = Same(kind)
        self.reader.keep(kind, state.shadow, node)  # before its methods, which may name it
        load_special(state)
        return state.shadow, node

    def of_object(self, value: object, where: Where) -> Pair:
        kind: type = type(value)
        shadow = cast("type", self.reader.wrap(kind, kind.__name__)[0])
        if shadow is kind:
            return opaque(self.reader, value, where, f"attributes of the {kind.__name__} object")
        found = Object(self.reader, value, object.__new__(shadow), where)
        self.objects[id(found.stand_in)] = found
        return found.stand_in, found.node

    def computed(self, instance: object, name: str, value: object) -> None:
        """An attribute of a captured object that was computed from others, and not written."""
        if (found := self.objects.get(id(instance))) is not None:
            found.put[name] = value

    def _hooks(self, root: list[type]) -> dict[str, Callable[..., object]]:
        """How attributes of instances are looked up and stored; `root` is where these stand."""
        objects, ready = self.objects, self._ready

        def __getattribute__(self: object, name: str) -> object:  # noqa: N807 - it goes into a class
            kind = type(self)
            if (kind, name) not in ready:
                load(kind, name)
                ready.add((kind, name))
            if (found := objects.get(id(self))) is not None:
                found.fetch(name)
            elif (state := state_of(kind)) is not None and not state.reader.running:
                if become_real(self):
                    return getattr(self, name)
                if name == "__class__":  # what `isinstance` asks for
                    return state.real
            return _own(self, name)

        def _fdiff_fetch(self: object, name: str) -> None:
            load(type(self), name)
            if (found := objects.get(id(self))) is not None:
                found.fetch(name)

        def __setattr__(self: object, name: str, value: object) -> None:  # noqa: N807 - it goes into a class
            load(type(self), name)
            super(root[0], self).__setattr__(name, value)

        def __delattr__(self: object, name: str) -> None:  # noqa: N807 - it goes into a class
            _fdiff_fetch(self, name)
            super(root[0], self).__delattr__(name)

        hooks = (__getattribute__, __setattr__, __delattr__, _fdiff_fetch)
        return {hook.__name__: hook for hook in hooks}

    # ------------------------------------------------------------------------------ arguments

    def adopt(self, value: object) -> object:
        """What private code gets for an argument: functions and objects in it are private."""
        kind = type(value)
        if kind in SCALARS or kind is np.ndarray or is_traced(value):
            return value
        if kind in {tuple, list, dict} or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            return self._adopt_items(value)
        if dataclasses.is_dataclass(kind) and (shadowable(kind) or record_class(kind)):
            return self._adopt_fields(value)
        if kind in {FunctionType, MethodType, functools.partial} or shadowable(kind):
            return self.reader.wrap(value, cast("type", kind).__name__)[0]
        return value

    def _adopt_items(self, value: object) -> object:
        if isinstance(value, dict):
            named = cast("dict[object, object]", value)
            return {key: self.adopt(item) for key, item in named.items()}
        items = cast("tuple[object, ...]", value)
        found = [self.adopt(item) for item in items]
        if isinstance(value, list) or all(map(lambda a, b: a is b, items, found)):
            return found if isinstance(value, list) else value
        return tuple.__new__(cast("type[tuple[object, ...]]", type(value)), found)

    def _adopt_fields(self, value: object) -> object:
        """A dataclass among the arguments was made for this call, of traced arrays."""
        kind: type = type(value)
        if shadowable(kind):
            kind = cast("type", self.reader.wrap(kind, kind.__name__)[0])
        own = object.__new__(kind)
        names = dict.fromkeys((*field_names(kind), *_slot_dict(value)))
        for name in names:
            if (item := _slot(value, name)) is not MISSING:
                object.__setattr__(own, name, self.adopt(item))
        return own

    # ------------------------------------------------------------------------------- the end

    def carry_over(self) -> None:
        for found in tuple(self.objects.values()):
            found.carry_over(self.release)
        for state in self.states:
            for name, value in state.writes():
                if value is MISSING:
                    type.__delattr__(state.real, name)
                else:
                    type.__setattr__(state.real, name, self.release(value))

    def release(self, value: object) -> object:
        """The user's own in place of stand-ins, in what the run has made too."""
        found = self.reader.original(value)
        kind = type(value)
        if found is not value or kind in SCALARS:
            return found
        if (known := self._released.get(id(value))) is not None:
            return known[0]
        self._released[id(value)] = value, value
        if kind is list or kind is set:
            items = cast("list[object]", value)
            changed = [self.release(item) for item in items]
            items.clear()
            (items.extend if kind is list else cast("set[object]", items).update)(changed)
        elif kind is dict:
            named = cast("dict[object, object]", value)
            named.update({key: self.release(item) for key, item in named.items()})
        elif is_traced(value) or (isinstance(value, np.ndarray) and _is_ours(kind)):
            own = self.reader.settle(value)
            if own is value and isinstance(value, np.ndarray):
                array = np.ndarray.view(value, np.ndarray)
                own = array if array.dtype.kind in "biufc" else value  # else it stands for one
            self._released[id(value)] = own, value
        return self._released[id(value)][0]

    def finish(self) -> list[tuple[object, Node]]:
        """The classes that were read, when the run is over."""
        for found in self.objects.values():
            found.become_real()
        self.objects.clear()
        for value in self.made:  # grows while it is gone through
            for name, item in [*_slot_dict(value).items(), *_slots(value)]:
                if (own := self.release(item)) is not item:
                    object.__setattr__(value, name, own)
            become_real(value)
        self.made.clear()
        self._released.clear()
        return [(state.real, state.node) for state in self.states]


def _slot_dict(value: object) -> dict[str, object]:
    found = _slot(value, "__dict__")
    return {} if found is MISSING else cast("dict[str, object]", found)


def _slots(value: object) -> list[tuple[str, object]]:
    found = [(name, _slot(value, name)) for name in _places(type(value))]
    return [(name, item) for name, item in found if item is not MISSING]


def _is_ours(kind: type) -> bool:
    return is_ours({"__name__": kind.__module__})


def is_instance(value: object) -> bool:
    """Whether `value` is an instance of a shadow, or of a class derived from one."""
    return isinstance(type(value), Shadow)


def wrap_stand_in(reader: Reader, value: object, where: Where) -> Pair:
    """A stand-in of the run around this one passes; one of a run that is over is the user's."""
    kind = cast("type", value if isinstance(value, type) else type(value))
    state = state_of(kind)
    if state is None or state.reader.running:
        return value, Same(value)
    if kind is value:
        return reader.wrap(state.real, where)
    become_real(value)
    return reader.wrap(value, where)
