"""All objects and classes of the user that one run has met, and their proxies.

Attributes are read when they are looked up. Attributes that a run stores in a proxy are stored in
the user's object at the end. Objects that private code makes itself are instances of proxy classes
as well; at the end they become instances of the user's own classes.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType
from typing import cast

import fdiff.intact_numpy as np

from ...foreign_errors import hiding, not_foreign, uninterrupted_entry
from ...tree import node_class
from ..dependency_nodes import Identical
from ..proxy_context import (
    CachedProperty,
    Pair,
    ProxyContext,
    Refuse,
    Resolve,
    Where,
    label,
    opaque,
)
from ..revalidation import Dependency
from ..value_kinds import MISSING, SCALARS, is_traced, library_class, record_class
from ..written.traced_value_release import NoValueError, Release
from ..written.write_targets import of_class
from .class_proxies import (
    ProxyClassState,
    can_be_proxied,
    load,
    load_special,
    make_proxy_class,
    state_of,
)
from .object_proxy import ObjectProxy, become_real, own_attribute, slot, slot_dict, slots


class UserObjects:
    """The proxies of classes and objects of the user in one run."""

    def __init__(self, context: ProxyContext) -> None:
        self.context = context
        self.states: list[ProxyClassState] = []
        self.objects: dict[int, ObjectProxy] = {}  # by the id of the proxy
        self.made: list[object] = []  # objects of the run's own that the user will see
        self.release = Release(context)
        self._ready: set[tuple[type, str]] = set()

    def of_class(self, kind: type, where: Where) -> Pair:
        """The proxy class of a class."""
        root: list[type] = []
        make = partial(make_proxy_class, self.context, kind, self._hooks(root))
        try:
            state = make()
        except not_foreign(AttributeError, RuntimeError, TypeError, ValueError, again=make):
            # A base that will have none.
            return opaque(self.context, kind, where, "attributes of the class")
        root.append(state.proxy_class)
        self.states.append(state)
        for base in filter(library_class, kind.__mro__):  # whose methods are not private
            self.context.meet(base)
        node = Identical(kind)
        self.context.keep(kind, state.proxy_class, node)  # before its methods, which may name it
        load_special(state)
        return state.proxy_class, node

    def of_object(self, value: object, where: Where) -> Pair:
        """The proxy of an object: an instance of the proxy class of its class."""
        kind: type = type(value)
        proxy_class = cast("type", self.context.wrap(kind, kind.__name__)[0])
        if proxy_class is kind:
            return opaque(self.context, value, where, f"attributes of the {kind.__name__} object")
        written = ObjectProxy(self.context, value, object.__new__(proxy_class), where)
        self.objects[id(written.proxy)] = written
        return written.proxy, written.node

    def cached(self, instance: object, member: CachedProperty) -> object:
        """The value of a cached property, which its object keeps.

        The user's object keeps what plain code computes, so that the run reads it as any other
        attribute. Where the run has written something it may depend on that: then it is traced.
        """
        written, value = self.objects.get(id(instance)), MISSING
        if written is not None:
            value = written.compute(member)
        if value is MISSING:
            value = member.function(instance)
            own_attribute(instance, "__dict__")[member.name] = value
            if written is not None:
                written.put[member.name] = written.computed[member.name] = value
        return value

    def written(self) -> bool:
        """Whether the run has stored anything in objects or classes of the user."""
        return any(proxy.writes() for proxy in self.objects.values()) or any(
            state.writes() for state in self.states
        )

    def stores(self) -> Iterator[object]:
        """The values that the run has stored in them so far, to be compared by identity."""
        for state in (*self.objects.values(), *self.states):
            yield from (value for _, value in state.writes())

    def written_places(self) -> Iterator[str]:
        """Attributes of objects and classes that the run has stored, as the user names them."""
        for proxy in self.objects.values():
            yield from [f"{label(proxy.where)}.{name}" for name, _ in proxy.writes()]
        for state in self.states:
            yield from [state.where(name) for name, _ in state.writes()]

    def keep_computed(self) -> None:
        """Let the user's objects keep the values of cached properties that were traced.

        Without values, as in a batch or with example arguments, nothing is kept.
        """
        for proxy in tuple(self.objects.values()):
            for name, value in proxy.computed.items():
                if slot_dict(proxy.proxy).get(name) is value:
                    with suppress(NoValueError):
                        vars(proxy.real)[name] = self.release(value)
                        self.context.note(f"a write to `{label(proxy.where)}.{name}`")

    def see(self, other: UserObjects) -> None:
        """Let this run find from now on what another run has stored in objects of the user."""
        mine = {id(proxy.real): proxy for proxy in self.objects.values()}
        for theirs in other.objects.values():
            if (proxy := mine.get(id(theirs.real))) is not None:
                for name, value in theirs.writes():
                    proxy.fetch(name)
                    if value is not MISSING:
                        object.__setattr__(proxy.proxy, name, value)
                    elif slot(proxy.proxy, name) is not MISSING:
                        object.__delattr__(proxy.proxy, name)

    def _hooks(self, root: list[type]) -> dict[str, Callable[..., object]]:
        """Methods by which attributes of instances are looked up and stored.

        `root` will hold the proxy class that they are put into.
        """
        objects, ready = self.objects, self._ready

        @hiding
        def way(self: object, name: str) -> dict[str, object]:
            """What the name of an attribute looks the attribute up in; only that runs user code."""
            kind = type(self)
            if (kind, name) not in ready:
                load(kind, name)
                ready.add((kind, name))
            if (proxy := objects.get(id(self))) is not None:
                proxy.fetch(name)
            elif (state := state_of(kind)) is not None and not state.context.running:
                if become_real(self):
                    return defaultdict(partial(getattr, self, name))
                if name == "__class__":  # what `isinstance` asks for
                    return {name: state.real}
            return defaultdict(partial(own_attribute, self, name))

        @uninterrupted_entry
        def __getattribute__(self: object, name: str) -> object:  # noqa: N807 - it goes into a class
            return way(self, name)[name]

        def _fdiff_fetch(self: object, name: str) -> None:
            load(type(self), name)
            if (proxy := objects.get(id(self))) is not None:
                proxy.fetch(name)

        def __setattr__(self: object, name: str, value: object) -> None:  # noqa: N807 - it goes into a class
            load(type(self), name)
            super(root[0], self).__setattr__(name, value)

        def __delattr__(self: object, name: str) -> None:  # noqa: N807 - it goes into a class
            _fdiff_fetch(self, name)
            super(root[0], self).__delattr__(name)

        return {f.__name__: f for f in (__getattribute__, __setattr__, __delattr__, _fdiff_fetch)}

    # ------------------------------------------------------------------------------ arguments

    def adopt(self, value: object) -> object:
        """An argument for private code, with proxies of functions and objects in it."""
        kind = type(value)
        if kind in SCALARS or kind is np.ndarray or is_traced(value):
            return value
        if kind in {tuple, list, dict} or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            return self._adopt_items(value)
        if node_class(kind) and (can_be_proxied(kind) or record_class(kind)):
            return self._adopt_fields(value)
        if kind in {FunctionType, MethodType, functools.partial} or can_be_proxied(kind):
            return self.context.wrap(value, cast("type", kind).__name__)[0]
        self.context.meet(value)
        return value

    def _adopt_items(self, value: object) -> object:
        if isinstance(value, dict):
            named = cast("dict[object, object]", value)
            return {key: self.adopt(item) for key, item in named.items()}
        items = cast("tuple[object, ...]", value)
        adopted = [self.adopt(item) for item in items]
        if isinstance(value, list) or all(map(lambda a, b: a is b, items, adopted)):
            return adopted if isinstance(value, list) else value
        return tuple.__new__(cast("type[tuple[object, ...]]", type(value)), adopted)

    def _adopt_fields(self, value: object) -> object:
        """A copy of an object among the arguments, which holds traced arrays of this call."""
        kind: type = type(value)
        if can_be_proxied(kind):
            kind = cast("type", self.context.wrap(kind, kind.__name__)[0])
        own = object.__new__(kind)
        for name, item in {**dict(slots(value)), **slot_dict(value)}.items():
            object.__setattr__(own, name, self.adopt(item))
        return own

    # ------------------------------------------------------------------------------- the end

    def carry_over(self, refuse: Refuse, release: Resolve | None = None) -> None:
        """Store in the user's objects and classes what the run has stored in their proxies."""
        release = release or self.release
        for proxy in tuple(self.objects.values()):
            proxy.carry_over(release, refuse)
        for state in self.states:
            for name, value in state.writes():
                where, before = state.where(name), state.node.reads.get(name)
                place, words = of_class(state.node, name), f"a write to `{where}`"
                self.context.repeats.wrote(words, where, place, value, before)
                if value is MISSING:
                    type.__delattr__(state.real, name)
                    continue
                with refuse(where):
                    type.__setattr__(state.real, name, release(value))

    def finish(self) -> list[tuple[object, Dependency]]:
        """At the end of the run: proxies become the user's; gives what was read of classes."""
        for proxy in self.objects.values():
            proxy.become_real()
        self.objects.clear()
        for value in self.made:  # grows while it is gone through
            with suppress(NoValueError):  # which has been said already
                self.release.attributes(value)
            become_real(value)
        self.made.clear()
        self.release.forget()
        return [(state.real, state.node) for state in self.states]


def wrap_proxy(context: ProxyContext, value: object, where: Where) -> Pair:
    """A proxy made by another run: itself while that run goes on, else what it stood for."""
    kind = cast("type", value if isinstance(value, type) else type(value))
    state = state_of(kind)
    if state is None or state.context.running:
        return value, Identical(value)
    if kind is value:
        return context.wrap(state.real, where)
    become_real(value)
    return context.wrap(value, where)
