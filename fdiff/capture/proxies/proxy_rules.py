"""The table of proxies: the proxy of each kind of value, and the comparison of the value.

A rule is called with the run (a `Capture`), the value, and the name that the user would use for it.
It returns the proxy, or the value itself, and the dependency: what the value must be at the next
call for the program to hold. Stores of the run into a proxy or a copy are carried over to the
user's own objects at the end of the run (`writes.py`, `user_objects.py`).
"""

from __future__ import annotations

import collections
import functools
import types
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType, SimpleNamespace

import fdiff.intact_numpy as np

from ...device_arrays import lies_on_device
from ...process.forking import late
from ..dependency_nodes import Equal, Identical
from ..non_numeric_data import data_key
from ..proxy_context import Pair, ProxyContext, Where, opaque
from ..value_kinds import (
    constant_of,
    has_rules,
    is_dispatcher,
    is_named_tuple,
    is_record,
    is_traced,
    is_transformed,
    is_vectorized,
    leaf_key,
    unchanging,
)
from ..written.traced_value_release import is_instance
from .callable_proxies import (
    DISPATCHER,
    METHOD,
    PARTIAL,
    STATIC,
    VECTORIZED,
    Assembly,
    wrap_builtin,
    wrap_lru_cached,
    wrap_parts,
    wrap_reference,
    wrap_rules,
)
from .class_proxies import ProxyMeta, is_object
from .container_proxies import (
    is_composed,
    wrap_composed,
    wrap_data,
    wrap_dict,
    wrap_list,
    wrap_namespace,
    wrap_record,
    wrap_sequence,
    wrap_set,
    wrap_tuple,
)
from .module_proxies import wrap_module
from .user_objects import wrap_proxy

Rule = Callable[..., Pair]
# Few programs meet a collection that is written to while fdiff is imported.
wrap_written = late("collection_proxies", __package__, "wrap_written")


def _assembled_from_attributes(assembly: Assembly) -> Rule:
    """Put together anew from proxies of attributes; compared by these."""
    return lambda run, value, where: wrap_parts(run, value, where, assembly)


def _by_identity(run: object, value: object, where: object) -> Pair:
    """The value itself: nothing about it changes."""
    return value, Identical(value)


def _by_value(run: object, value: object, where: object) -> Pair:
    """The value itself, compared with what it is now."""
    return value, Equal(value)


def _opaque_object(run: ProxyContext, value: object, where: Where) -> Pair:
    """The value without a proxy; as it cannot be compared, the function is traced at each call."""
    return opaque(run, value, where, f"attributes of the {type(value).__name__} object")


def _written(question: str, other: Rule) -> Rule:
    """A rule for collections: `other`, unless a `question` to the run says that it may write."""

    def wrap(run: ProxyContext, value: object, where: Where) -> Pair:
        if not getattr(run.repeats, question)(where):
            return other(run, value, where)
        return wrap_written(run, value, where)

    return wrap


# By type.
BY_TYPE: dict[type, Rule] = {
    # a copy with private globals and cells; the code, and all that it reads
    FunctionType: lambda run, value, where: run.functions.wrap(value, where),
    MethodType: _assembled_from_attributes(METHOD),
    types.BuiltinFunctionType: wrap_builtin,
    functools.partial: _assembled_from_attributes(PARTIAL),
    functools._lru_cache_wrapper: wrap_lru_cached,  # the results of its calls
    staticmethod: _assembled_from_attributes(STATIC),
    # a proxy that logs what is read; these attributes, these items
    ModuleType: wrap_module,
    dict: wrap_dict,
    type: lambda run, value, where: run.wrap_class(value, where),
    # a traced array; dtype and shape
    np.ndarray: lambda run, value, where: run.wrap_array(value, where),
    # a copy that holds proxies; all items
    list: _written("logs", wrap_list),
    collections.deque: _written("logs", _opaque_object),
    **dict.fromkeys(
        (collections.Counter, collections.defaultdict), _written("counts", _opaque_object)
    ),
    tuple: wrap_tuple,
    set: wrap_set,
    frozenset: wrap_set,
    SimpleNamespace: wrap_namespace,
    weakref.ref: wrap_reference,
}

# Of other types, by the first question that is answered with yes.
_BY_QUESTION: tuple[tuple[Callable[[object], object], Rule], ...] = (
    (is_traced, lambda run, value, where: run.wrap_traced(value)),  # of an enclosing trace
    (
        lambda value: constant_of(value) is not None,
        lambda run, value, where: run.wrap_constant(value, where),
    ),
    (lies_on_device, lambda run, value, where: run.wrap_device_array(value, where)),
    # proxies of another run
    (lambda value: is_instance(value) or isinstance(value, ProxyMeta), wrap_proxy),
    # as it is
    (lambda value: leaf_key(value) is not None, _by_value),
    (lambda value: unchanging(value) or is_transformed(value), _by_identity),
    (has_rules, wrap_rules),  # a copy with private rules
    # as their kin above
    (lambda value: isinstance(value, ModuleType), wrap_module),
    (lambda value: isinstance(value, type), BY_TYPE[type]),
    (is_composed, wrap_composed),
    (is_named_tuple, wrap_sequence),
    (is_object, lambda run, value, where: run.objects.of_object(value, where)),
    (is_record, wrap_record),
    (lambda value: data_key(value) is not None, wrap_data),
    (is_vectorized, _assembled_from_attributes(VECTORIZED)),
    (is_dispatcher, _assembled_from_attributes(DISPATCHER)),
)


def rule_by_question(value: object) -> Rule:
    """The rule for a value of a type that is not in `BY_TYPE`."""
    return next((rule for fits, rule in _BY_QUESTION if fits(value)), _opaque_object)
