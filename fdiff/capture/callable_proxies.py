"""Proxies for callables that are no plain functions: methods, partials, cached functions."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import BuiltinMethodType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import cast

from ..primitive import HOOKS
from .container_proxies import Pair, Tuple, wrap_mapping, wrap_sequence
from .dependency_nodes import Attributes, CachedCalls, Equal, Identical, MappingItems, attribute
from .proxies import ProxyContext, Where, label
from .value_kinds import is_traced, item_key

Function = Callable[..., object]


def wrap_method(context: ProxyContext, method: MethodType, where: Where) -> Pair:
    function, function_node = context.wrap(method.__func__, where)
    owner, owner_node = context.wrap(method.__self__, where)
    node = Attributes(MethodType)
    node.parts += ("__func__", function_node), ("__self__", owner_node)
    return MethodType(cast("Function", function), owner), node


def wrap_builtin(context: ProxyContext, method: BuiltinMethodType, where: Where) -> Pair:
    """A function written in C; bound to data, it is looked up on what stands for the data."""
    owner: object = method.__self__
    if owner is None or isinstance(owner, ModuleType | type):
        return method, Identical(method)
    proxy, part = context.wrap(owner, where)
    node = Attributes(type(method))
    node.parts += ("__self__", part), ("__name__", Equal(method.__name__))
    return (method if proxy is owner else getattr(proxy, method.__name__)), node


def wrap_partial(context: ProxyContext, partial: functools.partial[object], where: Where) -> Pair:
    function, function_node = context.wrap(partial.func, where)
    args, args_node = wrap_sequence(context, partial.args, where)
    keywords, table = wrap_mapping(context, partial.keywords, f"{label(where)}: ")
    node = Attributes(functools.partial)
    node.parts += ("func", function_node), ("args", args_node), ("keywords", table)
    return functools.partial(cast("Function", function), *args, **keywords), node


def wrap_attribute(context: ProxyContext, value: object, where: Where, name: str) -> Pair:
    """An object that stands for one of its attributes: a dispatcher of Numba, a static method."""
    proxy, part = context.wrap(getattr(value, name), where)
    node = Attributes(type(value))
    node.parts.append((name, part))
    return proxy, node


class VectorizedProxy:
    """A ufunc made by Numba, whose calls with traced values run a copy of its Python source."""

    def __init__(self, real: object, function: Function) -> None:
        self._fdiff_real = real
        self._fdiff_function = function

    def __call__(self, *args: object, **keywords: object) -> object:
        call = HOOKS["vectorized"]
        return call(self._fdiff_real, self._fdiff_function, args, keywords)

    def __getattr__(self, name: str) -> object:
        return getattr(self._fdiff_real, name)


def wrap_vectorized(context: ProxyContext, value: object, where: Where) -> Pair:
    """A function under ``numba.vectorize`` or ``numba.guvectorize``."""
    function, part = context.wrap(attribute(value, "__wrapped__"), where)
    node = Attributes(type(value))
    node.parts.append(("__wrapped__", part))
    return VectorizedProxy(value, cast("Function", function)), node


def wrap_reference(
    context: ProxyContext, reference: weakref.ReferenceType[object], where: Where
) -> Pair:
    """A weak reference, to what stands for the object."""
    node, value = CachedCalls(reference), reference()
    proxy, part = context.wrap(value, f"{label(where)}()")
    node.calls.append(((), {}, part))
    return (reference if proxy is value else weakref.ref(proxy)), node


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
        for known in {kind, cast("type", context.wrap(kind, kind.__name__)[0])}:
            copy.register(known, cast("Function", private))
    return functools.update_wrapper(copy, function.__wrapped__, updated=()), node  # type: ignore[attr-defined] - `singledispatch` sets it


def wrap_cached(
    context: ProxyContext, cached: functools._lru_cache_wrapper[object], where: Where
) -> Pair:
    """A function under ``functools.lru_cache`` is called as it is, and again at each refresh.

    That is what `f` itself would do; as a rule its cache answers. Traced arguments go past it, and
    objects that the run has made.
    """
    node = CachedCalls(cached)

    def call(*args: object, **kwargs: object) -> object:
        if any(is_traced(a) or context.made(a) for a in (*args, *kwargs.values())):
            function, node.wrapped = context.wrap(cached.__wrapped__, where)
            return cast("Function", function)(*args, **kwargs)
        given = cast("Tuple", context.original(args))
        keywords = {name: context.original(value) for name, value in kwargs.items()}
        result, part = context.wrap(cached(*given, **keywords), f"{label(where)}(...)")
        node.calls.append((given, keywords, part))
        return result

    call.cache_info, call.cache_clear = cached.cache_info, cached.cache_clear  # type: ignore[attr-defined] - a function has a dict for these
    return functools.update_wrapper(call, cached.__wrapped__, updated=()), node
