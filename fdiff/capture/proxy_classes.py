"""Shadows of the user's classes: what private code finds where it looks for a class.

A shadow has the name and the bases of the class it stands for, shadows of the user's bases among
them, so that ``super()``, ``isinstance`` and ``type(x) is C`` mean inside what they mean outside.
Its functions are private copies, made when they are looked up; what is looked up is compared later.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABCMeta
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from types import MemberDescriptorType
from typing import Protocol, cast

from .container_proxies import Pair, wrap_mapping, wrap_sequence
from .dependency_nodes import ABSENT, Class, Parts
from .proxies import Cached, Reader, Where, label
from .revalidation import Node
from .value_kinds import MISSING, library_class, packaged, record_class

STATE = "_fdiff_state"
METACLASSES = (type, ABCMeta, type(Protocol))
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE
# What Python, `dataclasses`, `abc` and `typing` put into a class, and what no copy can have.
_RAW = frozenset(
    """__dict__ __weakref__ __slots__ __module__ __qualname__ __doc__ __annotations__ __annotate__
    __annotate_func__ __annotations_cache__ __firstlineno__ __static_attributes__ __match_args__
    __dataclass_fields__ __dataclass_params__ __parameters__ __orig_bases__ __type_params__
    __abstractmethods__ __protocol_attrs__ __non_callable_proto_members__ _abc_impl _is_protocol
    _is_runtime_protocol __classcell__ __classdictcell__""".split()  # noqa: SIM905 - a list of words
)
_dict = vars(type)["__dict__"].__get__
_mro = vars(type)["__mro__"].__get__
_of_super = super.__getattribute__


def shadowable(kind: type) -> bool:
    """Whether instances of a class may be stood for: an ordinary class of the user.

    Its instances have an ordinary ``__dict__`` or slots, and attributes are found as Python finds
    them. Records without code of their own are read field by field instead.
    """
    return (
        type(kind) in METACLASSES
        and bool(kind.__flags__ & _HEAP)
        and not library_class(kind)
        and not packaged(kind)
        and _layout(kind) is object
        and kind.__getattribute__ is object.__getattribute__
        and not hasattr(kind, "__del__")  # would run for the stand-in too
        and not record_class(kind)
    )


def _layout(kind: type) -> type:
    """The class written in C whose memory instances have."""
    while kind.__flags__ & _HEAP:
        kind = cast("type", kind.__base__)
    return kind


def is_object(value: object) -> bool:
    return shadowable(type(value))


class State:
    """The class a shadow stands for, and what was read of it."""

    __slots__ = ("node", "put", "reader", "real", "shadow")

    def __init__(self, reader: Reader, real: type, shadow: type) -> None:
        self.reader = reader
        self.real = real
        self.shadow = shadow
        self.node = Class(real)
        self.put: dict[str, object] = {}

    def load(self, name: str) -> None:
        """Put a private copy of what the class has under this name into the shadow."""
        reads = self.node.reads
        if name in reads or name in _RAW:
            return
        value = vars(self.real).get(name, MISSING)
        if value is MISSING or isinstance(value, MemberDescriptorType):
            return
        reads[name] = ABSENT  # until it is known: it may lead here again
        stand_in, reads[name] = wrap_member(self.reader, value, f"{self.real.__name__}.{name}")
        if name == "__init_subclass__":
            stand_in = _unless_shadowing(cast("classmethod[object, ..., object]", stand_in))
        self.put[name] = stand_in
        type.__setattr__(self.shadow, name, stand_in)

    def load_all(self) -> None:
        for name in tuple(vars(self.real)):
            self.load(name)

    def writes(self) -> list[tuple[str, object]]:
        """`(name, value)` of what the run stored, MISSING for what it deleted."""
        now = _dict(self.shadow)
        names = self.node.reads.keys() | self.put.keys()
        changed = [n for n in names if now.get(n, MISSING) is not self.put.get(n, MISSING)]
        return [(n, now.get(n, MISSING)) for n in changed]


def state_of(kind: type) -> State | None:
    """The state of a shadow; None for any other class, one derived from a shadow too."""
    return _dict(kind).get(STATE)


def load(kind: type, name: str) -> None:
    """Make ready what Python finds when it looks for `name` in a class and its bases."""
    _load(_mro(kind), name)


def _load(bases: tuple[type, ...], name: str) -> None:
    for base in bases:
        namespace = _dict(base)
        if (state := namespace.get(STATE)) is not None:
            state.load_all() if name == "__dict__" else state.load(name)
        if name in namespace and name != "__dict__":
            return


class Shadow(type):
    """The class of shadows."""

    def __getattribute__(cls, name: str) -> object:
        load(cls, name)
        return super().__getattribute__(name)

    def __setattr__(cls, name: str, value: object) -> None:
        _note_write(cls, name)
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        _note_write(cls, name)
        super().__delattr__(name)

    def __instancecheck__(cls, value: object) -> bool:
        if type.__subclasscheck__(cls, type(value)):
            return True
        state = state_of(cls)
        if state is not None:
            for name in getattr(state.real, "__protocol_attrs__", ()):  # looked up behind our back
                fetch(value, name)
            if isinstance(value, state.real):
                return True
        with suppress(TypeError):  # protocols with attributes, of which only objects can be asked
            return cls.__subclasscheck__(type(value))
        return False

    def __subclasscheck__(cls, kind: type) -> bool:
        if type.__subclasscheck__(cls, kind):
            return True
        mine, other = state_of(cls), state_of(kind)
        return mine is not None and issubclass(kind if other is None else other.real, mine.real)

    def __subclasses__(cls) -> list[type]:
        state = state_of(cls)
        found: list[type] = [*type.__subclasses__(cls)]
        if state is None:
            return found
        state.reader.note(f"the subclasses of the class `{state.real.__name__}`")
        wrap = state.reader.wrap
        real = [cast("type", wrap(k, k.__name__)[0]) for k in state.real.__subclasses__()]
        return [*real, *(kind for kind in found if kind not in real)]

    @property
    def _fdiff_kind(cls) -> type:  # what a tree of arguments takes it for
        state = state_of(cls)
        return cls if state is None else state.real


def _note_write(cls: type, name: str) -> None:
    state = state_of(cls)
    if state is not None and state.reader.running:
        state.load(name)
        state.node.reads.setdefault(name, ABSENT)
        state.reader.note(f"a write to `{state.real.__name__}.{name}`")


@lru_cache(maxsize=64)
def _metaclass(kind: type) -> type:
    return Shadow if kind is type else type(Shadow)("Shadow", (Shadow, kind), {})


def fetch(value: object, name: str) -> None:
    """Put what Python finds under `name` into a stand-in and its class, for raw lookups."""
    kind = type(value)
    if isinstance(kind, Shadow):
        hook = cast("Callable[[object, str], None]", type.__getattribute__(kind, "_fdiff_fetch"))
        hook(value, name)


def getattr_static(thing: object, name: str, *default: object) -> object:
    """Stands for that of `inspect`."""
    fetch(thing, name)
    return inspect.getattr_static(thing, name, *default)


class Super(super):
    """Stands for ``super``: what it finds is made ready first."""

    def __getattribute__(self, name: str) -> object:
        kind = _of_super(self, "__self_class__")
        if kind is not None:
            mro = _mro(kind)
            _load(mro[mro.index(_of_super(self, "__thisclass__")) + 1 :], name)
        return _of_super(self, name)


# -------------------------------------------------------------------------------------- making one


def _unless_shadowing(method: classmethod[object, ..., object]) -> classmethod[object, ..., object]:
    """An ``__init_subclass__`` that takes no notice of shadows."""

    def __init_subclass__(cls: type, *args: object, **keywords: object) -> object:  # noqa: N807 - it goes into a class
        if state_of(cls) is None and _dict(cls).get("_fdiff_shadow") is not None:
            return None
        return method.__func__(cls, *args, **keywords)

    return classmethod(__init_subclass__)


def make_shadow(reader: Reader, real: type, hooks: dict[str, Callable[..., object]]) -> State:
    """The shadow of a class, still without its functions.

    `hooks` are the methods by which attributes of instances are looked up and stored. They stand in
    the shadows at the root, and hand on what they do not know themselves.
    """
    bases = tuple([_base(reader, base) for base in real.__bases__])
    given = vars(real)
    namespace = {name: given[name] for name in _RAW & given.keys() if name.startswith("__")}
    for name in ("__dict__", "__weakref__", "__classcell__", "__slots__"):
        namespace.pop(name, None)
    if "__slots__" in given:
        places = [n for n, v in given.items() if isinstance(v, MemberDescriptorType)]
        namespace["__slots__"] = (*places, *({"__dict__", "__weakref__"} & given.keys()))
    if not any(isinstance(base, Shadow) for base in bases):
        namespace.update(hooks)
    namespace["_fdiff_shadow"] = True
    shadow = _metaclass(type(real))(real.__name__, bases, namespace)
    if (abstract := given.get("__abstractmethods__")) is not None:
        type.__setattr__(shadow, "__abstractmethods__", abstract)
    state = State(reader, real, shadow)
    type.__setattr__(shadow, STATE, state)
    return state


def _base(reader: Reader, base: type) -> type:
    return cast("type", reader.wrap(base, base.__name__)[0]) if shadowable(base) else base


def load_special(state: State) -> None:
    """Methods that Python looks up on the type, behind our back.

    With a ``__setattr__`` of the user's also what decides how an attribute is stored.
    """
    storing = state.real.__setattr__ is not object.__setattr__
    for name, value in tuple(vars(state.real).items()):
        stores = storing and hasattr(type(value), "__set__")
        if stores or (name.startswith("__") and name.endswith("__")):
            state.load(name)


# ------------------------------------------------------------------------------ what a class holds


def wrap_member(reader: Reader, value: object, where: Where) -> Pair:
    """What stands in a shadow for what stands in the class."""
    kind = type(value)
    make = _MEMBERS.get(kind)
    return reader.wrap(value, where) if make is None else make(reader, value, where)


def _bound(reader: Reader, value: object, where: Where) -> Pair:
    kind = cast("Callable[[object], object]", type(value))
    function, part = reader.wrap(value.__func__, where)  # type: ignore[attr-defined] - a classmethod or a staticmethod
    node = Parts(type(value))
    node.parts.append(("__func__", part))
    return kind(function), node


def _property(reader: Reader, value: property, where: Where) -> Pair:
    node, made = Parts(property), []
    for name in ("fget", "fset", "fdel"):
        function, part = reader.wrap(getattr(value, name), where)
        made.append(function)
        node.parts.append((name, part))
    return property(*made, value.__doc__), node  # type: ignore[arg-type] - three functions


def _cached(reader: Reader, value: functools.cached_property[object], where: Where) -> Pair:
    function, part = reader.wrap(value.func, where)
    node = Parts(functools.cached_property)
    node.parts.append(("func", part))
    name = value.attrname or label(where).rpartition(".")[2]
    return Cached(value, cast("Callable[[object], object]", function), name, reader), node


def _partial(reader: Reader, value: functools.partialmethod[object], where: Where) -> Pair:
    function, function_node = reader.wrap(value.func, where)
    args, args_node = wrap_sequence(reader, value.args, where)
    keywords, table = wrap_mapping(reader, value.keywords, f"{label(where)}: ")
    node = Parts(functools.partialmethod)
    node.parts += ("func", function_node), ("args", args_node), ("keywords", table)
    made = functools.partialmethod(cast("Callable[..., object]", function), *args, **keywords)
    return made, node


def _generic(reader: Reader, value: functools.singledispatchmethod[object], where: Where) -> Pair:
    dispatcher, part = reader.wrap(value.dispatcher, where)
    node = Parts(functools.singledispatchmethod)
    node.parts.append(("dispatcher", part))
    made = functools.singledispatchmethod(cast("Callable[..., object]", dispatcher))
    made.dispatcher = dispatcher  # type: ignore[assignment] - in place of one without methods
    return made, node


_MEMBERS: dict[type, Callable[..., tuple[object, Node]]] = {
    classmethod: _bound,
    staticmethod: _bound,
    property: _property,
    functools.cached_property: _cached,
    functools.partialmethod: _partial,
    functools.singledispatchmethod: _generic,
}
