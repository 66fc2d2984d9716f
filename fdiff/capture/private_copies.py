"""Private copies of functions: how `f` runs while it is traced.

The copy of a function has its code, with globals and cells of ours, so that every name it reads is
recorded and may be answered by a proxy (``types.FunctionType`` makes it). Python functions that it
reaches through a global, a cell, a default, a module, a container or an object are copied likewise.
Nothing is patched: other threads, and the function itself, do not notice.

In: a function. Out: what to call in its place, and afterwards the `Dependencies` of the run.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import cast

import numpy as np

from .callable_proxies import (
    Function,
    is_generic,
    wrap_attribute,
    wrap_builtin,
    wrap_cached,
    wrap_generic,
    wrap_method,
    wrap_partial,
    wrap_reference,
    wrap_vectorized,
)
from .container_proxies import (
    Pair,
    is_composed,
    opaque,
    wrap_composed,
    wrap_data,
    wrap_dict,
    wrap_list,
    wrap_mapping,
    wrap_namespace,
    wrap_record,
    wrap_sequence,
    wrap_set,
    wrap_tuple,
)
from .data import data_key
from .dependencies import Dependencies
from .dependency_nodes import (
    ABSENT,
    Array,
    Attributes,
    Equal,
    Identical,
    MappingItems,
    SequenceItems,
    attribute,
)
from .module_proxies import wrap_module
from .object_proxies import wrap_proxy
from .outcome import Outcome
from .proxies import Answers, CachedProperty, GlobalsProxy, ModuleProxy, Where
from .proxy_classes import ProxyMeta, Super, can_be_proxied, is_object
from .release import is_instance
from .revalidation import Dependency
from .value_kinds import (
    MISSING,
    SCALARS,
    is_dispatcher,
    is_named_tuple,
    is_ours,
    is_record,
    is_traced,
    is_transformed,
    is_user_function,
    is_vectorized,
    leaf_key,
    library_namespace,
    unchanging,
    unchanging_class,
)
from .writes import CellCopy

_ANNOTATIONS = "__annotate__" if sys.version_info >= (3, 14) else "__annotations__"


def _itself(value: object) -> object:
    return value


def _run(call: object) -> object:
    return cast("Function", call)()


class Capture(Outcome):
    """What one traced run of `f` reads from outside itself. It belongs to one run in one thread.

    - ``handle(array)`` is called once for each captured array and gives its proxy;
    - ``answers(value)`` gives the replacement of an object or function of NumPy, SciPy or Python:
      as a rule the object itself;
    - ``settle(value)`` gives what the user's variables and objects get in place of a traced array
      that the run has stored there; it may raise NoValueError;
    - ``plainly(call)`` gives the result of a call that runs as if there were no trace, or MISSING
      if it cannot;
    - ``depends(value)`` tells whether a derivative is taken for a traced value.
    """

    def __init__(
        self,
        handle: Callable[[np.ndarray], object],
        answers: Answers = _itself,
        settle: Answers = _itself,
        plainly: Answers = _run,
        depends: Callable[[object], bool] = lambda _: False,
    ) -> None:
        super().__init__(self, depends)
        self.settle = settle
        self.plainly = plainly
        self.traced = False
        self.running = True
        self._carried_over = False
        self._handle = handle
        self.answer = answers
        self._arrays = self._places.arrays
        self._roots: list[tuple[object, Dependency]] = []
        self._tables: dict[int, tuple[object, MappingItems]] = {}  # namespaces, by id
        self._known: dict[int, tuple[object, Dependency, object]] = {}  # id -> proxy, node, value

    def private(self, f: Function) -> Function:
        """What to call in place of `f`."""
        proxy, node = self.wrap(f, getattr(f, "__name__", "f"))
        call = getattr(type(f), "__call__", None)  # noqa: B004 - the class's own method is wanted
        if proxy is f and is_user_function(call):
            proxy = MethodType(cast("Function", self.wrap(call, "__call__")[0]), f)
        self._roots.append((f, node))
        call, adopt = cast("Function", proxy), self._object_proxies.adopt

        def run(*args: object, **keywords: object) -> object:
            return call(*map(adopt, args), **{k: adopt(v) for k, v in keywords.items()})

        return run

    def finish(self) -> Dependencies:
        """What was read; to be called when `f` has returned or raised."""
        if not self._carried_over:
            self.carry_over()
        classes = self._object_proxies.finish()
        fixed = [*self._roots[1:], *self._tables.values(), *classes]
        reads = Dependencies(
            tuple(self._arrays),
            self._impurities.finish(),
            traced=self.traced,
            root=self._roots[0] if self._roots else (MISSING, ABSENT),
            fixed=fixed,
        )
        self.running = False
        self._handle = _itself  # for functions that outlive the run
        for globals_ in self._places.globals.values():
            globals_.forget()
        for memory in (self._known, self._originals, self._places.cells, self._places.shared):
            memory.clear()
        return reads

    # ------------------------------------------------------------------- what the proxies ask

    def wrap(self, value: object, where: Where) -> Pair:
        """The proxy of `value`, named `where` by the user, and what the value must be next time."""
        kind = type(value)
        if kind in SCALARS:
            return value, Equal(value)
        if (known := self._known.get(id(value))) is not None:
            return known[:2]
        self.meet(value)
        if (proxy := self.answer(value)) is not value:
            return proxy, Identical(value)
        proxy, node = _KINDS.get(kind, Capture._other)(self, value, where)
        self.keep(value, proxy, node)
        return proxy, node

    def original(self, value: object) -> object:
        """The user's own object behind a proxy."""
        if type(value) is tuple:
            items = cast("tuple[object, ...]", value)
            found = tuple(map(self.original, items))
            return found if any(map(operator.is_not, found, items)) else value
        if self.made(value):
            self._object_proxies.made.append(value)
        return super().original(value)

    def made(self, value: object) -> bool:
        """Whether `value` is an object that the run has made itself."""
        return is_instance(value) and id(value) not in self._originals

    def table(self, real: Mapping[str, object]) -> MappingItems:
        if (known := self._tables.get(id(real))) is None:
            known = self._tables[id(real)] = real, MappingItems(type(real))
        return known[1]

    def keep(self, value: object, proxy: object, node: Dependency) -> None:
        self._known[id(value)] = proxy, node, value
        if proxy is not value:
            self._originals[id(proxy)] = value, proxy

    def carry_over(self) -> None:
        """What `f` wrote to globals, cells, containers and objects goes to the user's own."""
        self._carried_over = True
        super().carry_over()

    def cached(self, instance: object, member: CachedProperty) -> object:
        return self._object_proxies.cached(instance, member)

    def import_(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - Python's name
        locals: Mapping[str, object] | None = None,  # noqa: A002 - Python's name
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> object:
        """Stands for ``__import__``."""
        real = globals.real if isinstance(globals, GlobalsProxy) else globals
        module = __import__(name, real, locals, fromlist, level)
        proxy, node = self.wrap(module, module.__name__)
        if isinstance(proxy, ModuleProxy):
            self.table(cast("dict[str, object]", sys.modules)).reads[module.__name__] = node
        return proxy

    # ------------------------------------------------------------------------------ functions

    def _function(self, fn: FunctionType, where: Where) -> Pair:
        real = fn.__globals__
        if isinstance(real, GlobalsProxy):
            if real.context.running:  # private already, watched by the run that made it
                return fn, Identical(fn)
            real = real.real
        if library_namespace(real):
            return self._decorator(fn, where)
        copy, node = self._copy(fn, self.namespace(real), user_code=True)
        self._dress(fn, copy, node)
        return copy, node

    def _decorator(self, fn: FunctionType, where: Where) -> Pair:
        """A function of a library; one that a decorator made may call the user's.

        For instance of `contextlib`, or of a `numpy.errstate` used as a decorator.
        """
        if is_generic(fn):
            return wrap_generic(self, fn, where)
        contents = [attribute(cell, "cell_contents") for cell in fn.__closure__ or ()]
        if is_ours(fn.__globals__):
            return fn, Identical(fn)
        if any(map(is_user_function, contents)):
            copy, node = self._copy(fn, fn.__globals__, user_code=False)
            copy.__defaults__, copy.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
            return copy, node
        if is_user_function(inspect.unwrap(fn)):
            return opaque(self, fn, where, "what is called by the decorated function")
        return fn, Identical(fn)

    def _copy(
        self, fn: FunctionType, globals_: dict[str, object], *, user_code: bool
    ) -> tuple[FunctionType, Attributes]:
        """A function of the same code with these globals and private cells.

        Of a library's function only the cells that hold functions of the user are private.
        """
        code, closure = fn.__code__, fn.__closure__ or ()
        self._impurities.codes.append(code)
        cells = [
            self._cell(cell, name)
            if user_code or is_user_function(attribute(cell, "cell_contents"))
            else CellCopy(name, cell, cell, Identical(cell), [cell])
            for cell, name in zip(closure, code.co_freevars, strict=True)
        ]
        private = tuple([cell.private for cell in cells]) or None
        copy, node = (
            FunctionType(code, globals_, fn.__name__, None, private),
            Attributes(FunctionType),
        )
        node.parts += ("__globals__", Identical(fn.__globals__)), ("__code__", Equal(code))
        self.keep(fn, copy, node)
        if cells:
            for cell in cells:
                self._fill(cell)
            node.parts.append(("__closure__", SequenceItems(tuple, [cell.node for cell in cells])))
        return copy, node

    def _dress(self, fn: FunctionType, copy: FunctionType, node: Attributes) -> None:
        """Give the copy the defaults and attributes of `fn`."""
        copy.__qualname__ = fn.__qualname__
        setattr(copy, _ANNOTATIONS, getattr(fn, _ANNOTATIONS))
        if fn.__defaults__:
            names = fn.__code__.co_varnames[: fn.__code__.co_argcount][-len(fn.__defaults__) :]
            pairs = [self.wrap(*each) for each in zip(fn.__defaults__, names, strict=True)]
            copy.__defaults__ = tuple([proxy for proxy, _ in pairs])
            node.parts.append(("__defaults__", SequenceItems(tuple, [part for _, part in pairs])))
        if fn.__kwdefaults__:
            copy.__kwdefaults__, part = wrap_mapping(self, fn.__kwdefaults__, "")
            node.parts.append(("__kwdefaults__", part))
        if fn.__dict__:
            attributes, part = wrap_mapping(self, fn.__dict__, f"{fn.__name__}.")
            copy.__dict__.update(attributes)
            self.copied(copy.__dict__, fn.__dict__, fn.__name__)
            node.parts.append(("__dict__", part))

    def namespace(self, real: dict[str, object]) -> GlobalsProxy:
        if (known := self._places.globals.get(id(real))) is None:
            known = self._places.globals[id(real)] = GlobalsProxy(self, real)
        return known

    def _cell(self, cell: CellType, name: str) -> CellCopy:
        cells = self._places.cells
        if (known := cells.get(id(cell))) is None:
            known = cells[id(cell)] = CellCopy(name, CellType(), cell, Attributes(CellType), [])
        return known

    def _fill(self, cell: CellCopy) -> None:
        if cell.put or isinstance(cell.node, Identical):
            return
        cell.put.append(MISSING)
        value = attribute(cell.real, "cell_contents")
        part: Dependency = ABSENT
        if value is not MISSING:
            cell.put[0], part = self.wrap(value, cell.name)
            cell.private.cell_contents = cell.put[0]
        cell.node.parts.append(("cell_contents", part))

    # ---------------------------------------------------------------------------------- the rest

    def _array(self, array: np.ndarray, where: Where) -> Pair:
        if array.dtype.kind not in "biufc":
            if data_key(array) is not None:
                return wrap_data(self, array, where)
            return opaque(self, array, where, f"the array of dtype {array.dtype}")
        node = Array(len(self._arrays), array)
        self._arrays.append(array)
        self._places.named.append(where)
        return self._handle(array), node

    def _class(self, kind: type, where: Where) -> Pair:
        if kind is super:
            return Super, Identical(kind)
        if can_be_proxied(kind):
            return self._object_proxies.of_class(kind, where)
        if unchanging_class(kind):
            return kind, Identical(kind)
        return opaque(self, kind, where, "attributes of the class")

    def _other(self, value: object, where: Where) -> Pair:
        if is_traced(value):
            self.traced = True
            return value, Identical(value)
        if is_instance(value) or isinstance(value, ProxyMeta):
            return wrap_proxy(self, value, where)
        if leaf_key(value) is not None:
            return value, Equal(value)
        if unchanging(value) or is_transformed(value):
            return value, Identical(value)
        for fits, method in _FAMILIES:
            if fits(value):
                return method(self, value, where)
        return opaque(self, value, where, f"attributes of the {type(value).__name__} object")


_KINDS: dict[type, Callable[..., Pair]] = {
    FunctionType: Capture._function,
    MethodType: wrap_method,
    types.BuiltinFunctionType: wrap_builtin,
    functools.partial: wrap_partial,
    functools._lru_cache_wrapper: wrap_cached,
    ModuleType: wrap_module,
    np.ndarray: Capture._array,
    type: Capture._class,
    staticmethod: lambda run, value, where: wrap_attribute(run, value, where, "__func__"),
    dict: wrap_dict,
    list: wrap_list,
    tuple: wrap_tuple,
    set: wrap_set,
    frozenset: wrap_set,
    SimpleNamespace: wrap_namespace,
    weakref.ref: wrap_reference,
}

_FAMILIES: tuple[tuple[Callable[[object], bool], Callable[..., Pair]], ...] = (
    (lambda value: isinstance(value, ModuleType), wrap_module),
    (lambda value: isinstance(value, type), Capture._class),
    (is_composed, wrap_composed),
    (is_named_tuple, wrap_sequence),
    (is_object, lambda run, value, where: run._object_proxies.of_object(value, where)),
    (is_record, wrap_record),
    (lambda value: data_key(value) is not None, wrap_data),
    (is_vectorized, wrap_vectorized),
    (is_dispatcher, lambda run, value, where: wrap_attribute(run, value, where, "py_func")),
)
