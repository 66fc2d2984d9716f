"""Proxies of callables that are not plain functions, and of a class's members other than methods.

Most of them are composed anew from the proxies of a few attributes, which the tables list.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import BuiltinMethodType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, cast

from ...foreign_errors import hiding, update_wrapper
from ...hooks import hooks
from ..dependency_nodes import Attributes, CachedCalls, Equal, Identical, MappingItems, attribute
from ..proxy_context import CachedProperty, Pair, ProxyContext, Where, label
from ..value_kinds import item_key, traced_within
from .container_proxies import Tuple, wrap_mapping, wrap_sequence

Function = Callable[..., object]
# The attributes that tell all about a value, and what makes a proxy of the value and theirs.
Assembly = tuple[tuple[str, ...], Function]


class VectorizedProxy:
    """A ufunc made by Numba, whose calls with traced values run a copy of its Python source."""

    def __init__(self, real: object, function: Function) -> None:
        self._fdiff_real = real
        self._fdiff_function = function

    def __call__(self, *args: object, **keywords: object) -> object:
        return hooks.vectorized(self._fdiff_real, self._fdiff_function, args, keywords)

    @hiding
    def __getattr__(self, name: str) -> object:
        return getattr(self._fdiff_real, name)


def _generic_method(_: object, dispatcher: Any) -> object:
    method = functools.singledispatchmethod(dispatcher)
    method.dispatcher = dispatcher  # in place of one without methods
    return method


METHOD: Assembly = (
    ("__func__", "__self__"),
    lambda _, function, owner: MethodType(function, owner),
)
PARTIAL: Assembly = (
    ("func", "args", "keywords"),
    lambda value, function, args, keywords: type(value)(function, *args, **keywords),
)
VECTORIZED: Assembly = ("__wrapped__",), VectorizedProxy
# A value that only stands for one of its attributes: a function compiled by Numba, a static method
# that is reached other than through its class.
DISPATCHER: Assembly = ("py_func",), lambda _, function: function
STATIC: Assembly = ("__func__",), lambda _, function: function
_WRAPPED_FUNCTION: Assembly = ("__func__",), lambda value, function: type(value)(function)
# Of what a class holds, by type. The functions of a class are found as everywhere else.
_MEMBERS: dict[type, Assembly] = {
    classmethod: _WRAPPED_FUNCTION,
    staticmethod: _WRAPPED_FUNCTION,
    property: (
        ("fget", "fset", "fdel"),
        lambda value, get, set_, delete: property(get, set_, delete, value.__doc__),
    ),
    functools.partialmethod: PARTIAL,
    functools.singledispatchmethod: (("dispatcher",), _generic_method),
}


def wrap_parts(context: ProxyContext, value: object, where: Where, assembly: Assembly) -> Pair:
    """A proxy made of the proxies of some attributes; `value` is compared by these."""
    names, make = assembly
    node, proxies = Attributes(type(value)), []
    for name in names:
        proxy, part = _wrap_part(context, name, getattr(value, name), where)
        proxies.append(proxy)
        node.parts.append((name, part))
    return make(value, *proxies), node


def _wrap_part(context: ProxyContext, name: str, part: object, where: Where) -> Pair:
    """The proxy of an attribute; bound arguments count as a whole."""
    if name == "args":
        return wrap_sequence(context, cast("Tuple", part), where)
    if name == "keywords":
        return wrap_mapping(context, cast("dict[str, object]", part), f"{label(where)}: ")
    return context.wrap(part, where)


def wrap_member(context: ProxyContext, value: object, where: Where) -> Pair:
    """The proxy of a member of a class."""
    if type(value) is functools.cached_property:
        name = value.attrname or label(where).rpartition(".")[2]
        prop: Function = lambda real, function: CachedProperty(real, function, name, context)  # noqa: E731 - to be given on
        return wrap_parts(context, value, where, (("func",), prop))
    assembly = _MEMBERS.get(type(value))
    if assembly is None:
        return context.wrap(value, where)
    return wrap_parts(context, value, where, assembly)


def wrap_builtin(context: ProxyContext, method: BuiltinMethodType, where: Where) -> Pair:
    """A function written in C; bound to data, it is looked up on what stands for the data."""
    owner: object = method.__self__
    if owner is None or isinstance(owner, ModuleType | type):
        return method, Identical(method)
    proxy, part = context.wrap(owner, where)
    node = Attributes(type(method), ("__self__", part), ("__name__", Equal(method.__name__)))
    return (method if proxy is owner else getattr(proxy, method.__name__)), node


def wrap_reference(
    context: ProxyContext, reference: weakref.ReferenceType[object], where: Where
) -> Pair:
    """A weak reference to the proxy of the object that `reference` leads to."""
    node, value = CachedCalls(reference), reference()
    proxy, part = context.wrap(value, f"{label(where)}()")
    node.calls.append(((), {}, part))
    return (reference if proxy is value else weakref.ref(proxy)), node


def wrap_rules(context: ProxyContext, value: Any, where: Where) -> Pair:
    """A function with derivative rules (`fdiff.custom_vjp`), whose parts are private."""
    copy, node = value.private_copy(), Attributes(type(value))
    context.keep(value, copy, node)  # before its rules, which may lead to it again
    for name in value.__fdiff_parts__:
        proxy, part = context.wrap(getattr(value, name), f"{label(where)}.{name}")
        setattr(copy, name, proxy)
        node.parts.append((name, part))
    return copy, node


def is_generic(function: object) -> bool:
    """Whether `function` was made by ``functools.singledispatch``."""
    return isinstance(function, FunctionType) and (
        function.__globals__.get("__name__") == "functools" and hasattr(function, "registry")
    )


def wrap_generic(context: ProxyContext, function: FunctionType, where: Where) -> Pair:
    """A generic function whose methods are private, found by private classes too."""
    registry = cast("MappingProxyType[type, Function]", attribute(function, "registry"))
    node, table = Attributes(FunctionType), MappingItems(MappingProxyType)
    node.parts.append(("registry", table))
    table.keys = tuple(map(item_key, registry))
    copy = functools.singledispatch(cast("Function", lambda *_: None))
    context.keep(function, copy, node)
    for kind, method in registry.items():
        private, table.reads[kind] = context.wrap(method, where)
        for registered in {kind, cast("type", context.wrap(kind, kind.__name__)[0])}:
            copy.register(registered, cast("Function", private))
    wrapped = cast("Function", attribute(function, "__wrapped__"))
    return update_wrapper(copy, wrapped, updated=()), node


def wrap_lru_cached(
    context: ProxyContext, cached: functools._lru_cache_wrapper[object], where: Where
) -> Pair:
    """A function under ``functools.lru_cache`` is called as it is, and again at each refresh.

    That is what `f` itself would do; as a rule its cache answers. Traced arguments go past it, and
    objects that the run has made.
    """
    node = CachedCalls(cached)

    def call(*args: object, **kwargs: object) -> object:
        if any(traced_within(a) or context.made(a) for a in (*args, *kwargs.values())):
            function, node.wrapped = context.wrap(cached.__wrapped__, where)
            return cast("Function", function)(*args, **kwargs)
        originals = cast("Tuple", context.original(args))
        keywords = {name: context.original(value) for name, value in kwargs.items()}
        result, part = context.wrap(cached(*originals, **keywords), f"{label(where)}(...)")
        node.calls.append((originals, keywords, part))
        return result

    vars(call).update(cache_info=cached.cache_info, cache_clear=cached.cache_clear)
    return update_wrapper(call, cached.__wrapped__, updated=()), node
