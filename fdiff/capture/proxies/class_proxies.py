"""Proxies of the user's classes.

A proxy class has the name of its class, and its bases are the proxies of the bases of that class
(library classes stand for themselves). ``super()``, ``isinstance`` and ``type(x) is C`` therefore
give the same results in private copies as outside. The methods of a proxy class are private copies,
made when they are looked up; each lookup becomes a dependency.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache, partial
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Protocol, cast

from ...foreign_errors import Suppressed, hiding, uninterrupted_entry
from ..dependency_nodes import ABSENT, Class, ClassFamily, Equal
from ..proxy_context import ProxyContext
from ..value_kinds import HEAP, MISSING, exception_data, library_class, packaged, record_class
from ..written.write_targets import of_class
from .callable_proxies import wrap_member

STATE = "_fdiff_state"
METACLASSES = (type, ABCMeta, type(Protocol))
# What Python, `dataclasses`, attrs, `abc` and `typing` put into a class, and what no copy can have.
_RAW = frozenset(
    """__dict__ __weakref__ __slots__ __module__ __qualname__ __doc__ __annotations__ __annotate__
    __annotate_func__ __annotations_cache__ __firstlineno__ __static_attributes__ __match_args__
    __dataclass_fields__ __dataclass_params__ __attrs_attrs__ __attrs_props__
    __parameters__ __orig_bases__ __type_params__
    __abstractmethods__ __protocol_attrs__ __non_callable_proto_members__ _abc_impl _is_protocol
    _is_runtime_protocol __classcell__ __classdictcell__""".split()  # noqa: SIM905 - a list of words
)
# What `type` stores elsewhere than in the namespace of a class, such as `__name__`.
_OF_TYPE = frozenset(n for n, v in vars(type).items() if hasattr(type(v), "__set__")) - _RAW
_dict = vars(type)["__dict__"].__get__
_mro = vars(type)["__mro__"].__get__
_OWN = vars(type)["__dict__"]  # as Python makes it, and no property
_of_super = super.__getattribute__


def can_be_proxied(kind: type) -> bool:
    """Whether a class and its instances can have proxies: an ordinary class of the user.

    Its instances have an ordinary ``__dict__`` or slots, and attributes are found as Python finds
    them by itself. Dataclasses without code of their own are copied field by field instead.
    """
    return (
        type(kind) in METACLASSES
        and bool(kind.__flags__ & HEAP)
        and not library_class(kind)
        and not packaged(kind)
        and _layout(kind) is object
        and kind.__getattribute__ is object.__getattribute__
        and not hasattr(kind, "__del__")  # would run for the proxy too
        and not record_class(kind)
        and all(
            isinstance(vars(b).get("__dict__", _OWN), GetSetDescriptorType) for b in kind.__mro__
        )
    )


def _layout(kind: type) -> type:
    """The class written in C that decides the layout of instances in memory."""
    while kind.__flags__ & HEAP:
        kind = cast("type", kind.__base__)
    return kind


def is_object(value: object) -> bool:
    return can_be_proxied(type(value))


class _Member:
    """Stands in a new proxy class for a member with a name of `_OF_TYPE`."""

    __slots__ = ("member",)
    member: Any

    @uninterrupted_entry
    def __get__(self, instance: object, kind: type | None = None) -> object:
        return _bound(self.member, instance, kind)[kind]


@hiding
def _bound(member: object, instance: object, kind: type | None) -> dict[type | None, object]:
    """A mapping with the member, as Python binds it, under the class of an instance."""
    get = getattr(type(member), "__get__", None)
    return {kind: member} if get is None else defaultdict(partial(get, member, instance, kind))


class _DataMember(_Member):
    """A `_Member` that decides how instances store, as a property does."""

    __slots__ = ()

    def __set__(self, instance: object, value: object) -> None:
        self.member.__set__(instance, value)

    def __delete__(self, instance: object) -> None:
        self.member.__delete__(instance)


class ProxyClassState:
    """The class of a proxy class, its reads, and the members put into the proxy class.

    `loaded` are the names that are complete: an exception may arrive between `put` and the load.
    """

    __slots__ = ("context", "loaded", "node", "proxy_class", "put", "real")

    def __init__(self, context: ProxyContext, real: type, proxy_class: type) -> None:
        self.context = context
        self.real = real
        self.proxy_class = proxy_class
        self.node = Class(real)
        self.put: dict[str, object] = {}
        self.loaded: set[str] = set()

    def load(self, name: str) -> None:
        """Put a private copy of what the class has under this name into the proxy class."""
        reads = self.node.reads
        if name in reads or name in _RAW:
            return
        value = vars(self.real).get(name, MISSING)
        if value is MISSING or isinstance(value, MemberDescriptorType):
            return
        reads[name] = ABSENT  # until it is known: it may lead here again
        place = of_class(self.node, name)
        pair = self.context.repeats.number(value, self.where(name), place)
        proxy, reads[name] = pair or wrap_member(self.context, value, self.where(name))
        if name == "__init_subclass__":
            proxy = _unless_proxying(cast("classmethod[object, ..., object]", proxy))
        if isinstance(member := _dict(self.proxy_class).get(name), _Member):
            member.member, self.put[name] = proxy, member
            return
        self.put[name] = proxy
        type.__setattr__(self.proxy_class, name, proxy)
        self.loaded.add(name)

    def where(self, name: str) -> str:
        """How the user would name an attribute of the class."""
        return f"{self.real.__name__}.{name}"

    def load_all(self) -> None:
        for name in tuple(vars(self.real)):
            self.load(name)

    def writes(self) -> list[tuple[str, object]]:
        """Names that the run stored, with their values; MISSING for names that it deleted."""
        now = _dict(self.proxy_class)
        members = [(n, now.get(n, MISSING)) for n in self.node.reads.keys() | self.put.keys()]
        return [
            (n, v) for n, v in members if v is not self.put.get(n, MISSING) and self._is_own(n, v)
        ]

    def _is_own(self, name: str, value: object) -> bool:
        """Whether the run wrote the name, and not an exception while the name was loaded."""
        return name in self.loaded if value is MISSING else not isinstance(value, _Member)


def state_of(kind: type) -> ProxyClassState | None:
    """The state of a proxy class; None for any other class, even if derived from a proxy class."""
    return _dict(kind).get(STATE)


def load(kind: type, name: str) -> None:
    """Load what Python will find under `name` in a class and its bases into the proxy classes."""
    _load(_mro(kind), name)


@hiding
def _load(bases: tuple[type, ...], name: str) -> None:
    for base in bases:
        namespace = _dict(base)
        if (state := namespace.get(STATE)) is not None:
            state.load_all() if name == "__dict__" else state.load(name)
        if name in namespace and name != "__dict__":
            return


class ProxyMeta(type):
    """The metaclass of proxy classes, which records reads and writes of class attributes."""

    @uninterrupted_entry
    def __getattribute__(cls, name: str) -> object:
        return _loaded(cls, name)[name]

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
            for name in getattr(state.real, "__protocol_attrs__", ()):  # Python looks them up in C
                fetch(value, name)
            if isinstance(value, state.real):
                return True
        with Suppressed(TypeError):  # a protocol with attributes, which classes cannot be asked for
            return cls.__subclasscheck__(type(value))
        return False

    def __subclasscheck__(cls, kind: type) -> bool:
        if type.__subclasscheck__(cls, kind):
            return True
        mine, other = state_of(cls), state_of(kind)
        return mine is not None and issubclass(kind if other is None else other.real, mine.real)

    def __subclasses__(cls) -> list[type]:
        state = state_of(cls)
        proxies: list[type] = [*type.__subclasses__(cls)]
        if state is None:
            return proxies
        state.context.note(f"the subclasses of the class `{state.real.__name__}`")
        wrap = state.context.wrap
        real = [cast("type", wrap(k, k.__name__)[0]) for k in state.real.__subclasses__()]
        return [*real, *(kind for kind in proxies if kind not in real)]

    @property
    def _fdiff_kind(cls) -> type:  # what a tree of arguments takes it for
        state = state_of(cls)
        return cls if state is None else state.real


@hiding
def _loaded(cls: type, name: str) -> dict[str, object]:
    """What to index by the name of an attribute of a proxy class."""
    load(cls, name)
    return defaultdict(partial(type.__getattribute__, cls, name))


def _note_write(cls: type, name: str) -> None:
    state = state_of(cls)
    if state is not None and state.context.running:
        state.load(name)
        state.node.reads.setdefault(name, ABSENT)


@lru_cache(maxsize=64)
def _metaclass(kind: type) -> type:
    return ProxyMeta if kind is type else type(ProxyMeta)("Shadow", (ProxyMeta, kind), {})


def fetch(value: object, name: str) -> None:
    """Load what Python will find under `name` into a proxy and its class, before a raw lookup."""
    kind = type(value)
    if isinstance(kind, ProxyMeta):
        hook = cast("Callable[[object, str], None]", type.__getattribute__(kind, "_fdiff_fetch"))
        hook(value, name)


def getattr_static(thing: object, name: str, *default: object) -> object:
    """Replacement of `inspect.getattr_static`."""
    fetch(thing, name)
    return inspect.getattr_static(thing, name, *default)


class Super(super):
    """Replacement of ``super``, which loads a member before it is looked up."""

    @uninterrupted_entry
    def __getattribute__(self, name: str) -> object:
        return _loaded_above(self, name)[name]


@hiding
def _loaded_above(self: Super, name: str) -> dict[str, object]:
    if (kind := _of_super(self, "__self_class__")) is not None:
        mro = _mro(kind)
        _load(mro[mro.index(_of_super(self, "__thisclass__")) + 1 :], name)
    return defaultdict(partial(_of_super, self, name))


def exception_node(kind: type) -> ClassFamily | None:
    """The dependency on a user's exception class; None for another class, or if unknown."""
    nodes: list[tuple[type, Class]] = []
    for base in kind.__mro__:
        if not library_class(base):
            if (data := exception_data(base)) is None:
                return None
            node = Class(base)
            node.reads.update({name: Equal(value) for name, value in data.items()})
            nodes.append((base, node))
    return ClassFamily(kind, nodes) if nodes else None


# -------------------------------------------------------------------------------------- making one


def _unless_proxying(method: classmethod[object, ..., object]) -> classmethod[object, ..., object]:
    """An ``__init_subclass__`` that is not run for proxy classes."""

    def __init_subclass__(cls: type, *args: object, **keywords: object) -> object:  # noqa: N807 - it goes into a class
        if state_of(cls) is None and _dict(cls).get("_fdiff_proxy_class") is not None:
            return None
        return method.__func__(cls, *args, **keywords)

    return classmethod(__init_subclass__)


def make_proxy_class(
    context: ProxyContext, real: type, hooks: dict[str, Callable[..., object]]
) -> ProxyClassState:
    """The proxy class of a class, still without its functions.

    `hooks` are the methods by which attributes of instances are looked up and stored. A proxy class
    gets them unless it inherits them from the proxy class of a base.
    """
    bases = tuple([_base(context, base) for base in real.__bases__])
    attributes = vars(real)
    namespace = {
        name: attributes[name] for name in _RAW & attributes.keys() if name.startswith("__")
    }
    for name in ("__dict__", "__weakref__", "__classcell__", "__slots__"):
        namespace.pop(name, None)
    if "__slots__" in attributes:
        places = [n for n, v in attributes.items() if isinstance(v, MemberDescriptorType)]
        namespace["__slots__"] = (*places, *({"__dict__", "__weakref__"} & attributes.keys()))
    if not any(isinstance(base, ProxyMeta) for base in bases):
        namespace.update(hooks)
    for name in _OF_TYPE & attributes.keys():
        namespace[name] = (_DataMember if hasattr(type(attributes[name]), "__set__") else _Member)()
    namespace["_fdiff_proxy_class"] = True
    proxy_class = _metaclass(type(real))(real.__name__, bases, namespace)
    if (abstract := attributes.get("__abstractmethods__")) is not None:
        type.__setattr__(proxy_class, "__abstractmethods__", abstract)
    state = ProxyClassState(context, real, proxy_class)
    type.__setattr__(proxy_class, STATE, state)
    return state


def _base(context: ProxyContext, base: type) -> type:
    return cast("type", context.wrap(base, base.__name__)[0]) if can_be_proxied(base) else base


def load_special(state: ProxyClassState) -> None:
    """Load the methods that Python looks up on the type itself, so that no hook sees it.

    Where the user has a ``__setattr__``, also the descriptors, which decide how it stores.
    """
    storing = state.real.__setattr__ is not object.__setattr__
    for name, value in vars(state.real).copy().items():
        stores = storing and hasattr(type(value), "__set__")
        if stores or (name.startswith("__") and name.endswith("__")):
            state.load(name)
