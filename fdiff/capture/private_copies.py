"""Private copies of functions: what `f` reads from outside itself, and what stands in for it.

`f` runs as ``types.FunctionType`` of its own code with globals and cells of ours. So does each
Python function it reaches through a global, a cell, a default, a module, a container or an object.
Nothing is patched: other threads, and the function itself, see nothing of it.
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
from .dependencies import Reads
from .dependency_nodes import ABSENT, Array, Leaf, Parts, Same, Sequence, Table, attribute
from .module_proxies import wrap_module
from .object_proxies import wrap_stand_in
from .outcome import Outcome
from .proxies import Answers, Cached, Globals, Module, Where
from .proxy_classes import Shadow, Super, is_object, shadowable
from .release import is_instance
from .revalidation import Node
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
from .writes import Cell

_ANNOTATIONS = "__annotate__" if sys.version_info >= (3, 14) else "__annotations__"


def _itself(value: object) -> object:
    return value


def _run(call: object) -> object:
    return cast("Function", call)()


class Capture(Outcome):
    """What one traced run of `f` reads from outside itself.

    `handle(array)` is called once for each captured array; its result stands in for the array while
    `f` runs. `answers(value)` is what stands in for an object, a function of NumPy or Python: as a
    rule the object itself. `settle(value)` is what the user's variables and objects get for a
    traced array that the run has stored there; it may raise NoValueError. `plainly(call)` is the
    result of a call that runs as if there were no trace, or MISSING if it cannot. `depends(value)`
    tells whether a derivative is taken for a traced value. A Capture belongs to one run in one
    thread.
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
        self._roots: list[tuple[object, Node]] = []
        self._tables: dict[int, tuple[object, Table]] = {}  # namespaces, by id
        self._known: dict[int, tuple[object, Node, object]] = {}  # id -> stand-in, node, value

    def private(self, f: Function) -> Function:
        """What to call in place of `f`."""
        stand_in, node = self.wrap(f, getattr(f, "__name__", "f"))
        call = getattr(type(f), "__call__", None)  # noqa: B004 - the class's own method is wanted
        if stand_in is f and is_user_function(call):
            stand_in = MethodType(cast("Function", self.wrap(call, "__call__")[0]), f)
        self._roots.append((f, node))
        call, adopt = cast("Function", stand_in), self._shadows.adopt

        def run(*args: object, **keywords: object) -> object:
            return call(*map(adopt, args), **{k: adopt(v) for k, v in keywords.items()})

        return run

    def finish(self) -> Reads:
        """What was read; to be called when `f` has returned or raised."""
        if not self._carried_over:
            self.carry_over()
        classes = self._shadows.finish()
        fixed = [*self._roots[1:], *self._tables.values(), *classes]
        reads = Reads(
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

    # ------------------------------------------------------------------- what the stand-ins ask

    def wrap(self, value: object, where: Where) -> Pair:
        """What stands in for `value`, called `where` by the user, and what it must be next time."""
        kind = type(value)
        if kind in SCALARS:
            return value, Leaf(value)
        if (known := self._known.get(id(value))) is not None:
            return known[:2]
        self.meet(value)
        if (stand_in := self.answer(value)) is not value:
            return stand_in, Same(value)
        stand_in, node = _KINDS.get(kind, Capture._other)(self, value, where)
        self.keep(value, stand_in, node)
        return stand_in, node

    def original(self, value: object) -> object:
        """The user's own object behind a stand-in."""
        if type(value) is tuple:
            items = cast("tuple[object, ...]", value)
            found = tuple(map(self.original, items))
            return found if any(map(operator.is_not, found, items)) else value
        if self.made(value):
            self._shadows.made.append(value)
        return super().original(value)

    def made(self, value: object) -> bool:
        """Whether `value` is an object that the run has made itself."""
        return is_instance(value) and id(value) not in self._originals

    def table(self, real: Mapping[str, object]) -> Table:
        if (known := self._tables.get(id(real))) is None:
            known = self._tables[id(real)] = real, Table(type(real))
        return known[1]

    def keep(self, value: object, stand_in: object, node: Node) -> None:
        self._known[id(value)] = stand_in, node, value
        if stand_in is not value:
            self._originals[id(stand_in)] = value, stand_in

    def carry_over(self) -> None:
        """What `f` wrote to globals, cells, containers and objects goes to the user's own."""
        self._carried_over = True
        super().carry_over()

    def cached(self, instance: object, member: Cached) -> object:
        return self._shadows.cached(instance, member)

    def import_(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - Python's name
        locals: Mapping[str, object] | None = None,  # noqa: A002 - Python's name
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> object:
        """Stands for ``__import__``."""
        real = globals.real if isinstance(globals, Globals) else globals
        module = __import__(name, real, locals, fromlist, level)
        stand_in, node = self.wrap(module, module.__name__)
        if isinstance(stand_in, Module):
            self.table(cast("dict[str, object]", sys.modules)).reads[module.__name__] = node
        return stand_in

    # ------------------------------------------------------------------------------ functions

    def _function(self, fn: FunctionType, where: Where) -> Pair:
        real = fn.__globals__
        if isinstance(real, Globals):
            if real.reader.running:  # private already, watched by the run that made it
                return fn, Same(fn)
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
            return fn, Same(fn)
        if any(map(is_user_function, contents)):
            copy, node = self._copy(fn, fn.__globals__, user_code=False)
            copy.__defaults__, copy.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
            return copy, node
        if is_user_function(inspect.unwrap(fn)):
            return opaque(self, fn, where, "what is called by the decorated function")
        return fn, Same(fn)

    def _copy(
        self, fn: FunctionType, globals_: dict[str, object], *, user_code: bool
    ) -> tuple[FunctionType, Parts]:
        """A function of the same code with these globals and private cells.

        Of a library's function only the cells that hold functions of the user are private.
        """
        code, closure = fn.__code__, fn.__closure__ or ()
        self._impurities.codes.append(code)
        cells = [
            self._cell(cell, name)
            if user_code or is_user_function(attribute(cell, "cell_contents"))
            else Cell(name, cell, cell, Same(cell), [cell])
            for cell, name in zip(closure, code.co_freevars, strict=True)
        ]
        private = tuple([cell.private for cell in cells]) or None
        copy, node = FunctionType(code, globals_, fn.__name__, None, private), Parts(FunctionType)
        node.parts += ("__globals__", Same(fn.__globals__)), ("__code__", Leaf(code))
        self.keep(fn, copy, node)
        if cells:
            for cell in cells:
                self._fill(cell)
            node.parts.append(("__closure__", Sequence(tuple, [cell.node for cell in cells])))
        return copy, node

    def _dress(self, fn: FunctionType, copy: FunctionType, node: Parts) -> None:
        """Give the copy the defaults and attributes of `fn`."""
        copy.__qualname__ = fn.__qualname__
        setattr(copy, _ANNOTATIONS, getattr(fn, _ANNOTATIONS))
        if fn.__defaults__:
            names = fn.__code__.co_varnames[: fn.__code__.co_argcount][-len(fn.__defaults__) :]
            pairs = [self.wrap(*each) for each in zip(fn.__defaults__, names, strict=True)]
            copy.__defaults__ = tuple([stand_in for stand_in, _ in pairs])
            node.parts.append(("__defaults__", Sequence(tuple, [part for _, part in pairs])))
        if fn.__kwdefaults__:
            copy.__kwdefaults__, part = wrap_mapping(self, fn.__kwdefaults__, "")
            node.parts.append(("__kwdefaults__", part))
        if fn.__dict__:
            attributes, part = wrap_mapping(self, fn.__dict__, f"{fn.__name__}.")
            copy.__dict__.update(attributes)
            self.copied(copy.__dict__, fn.__dict__, fn.__name__)
            node.parts.append(("__dict__", part))

    def namespace(self, real: dict[str, object]) -> Globals:
        if (known := self._places.globals.get(id(real))) is None:
            known = self._places.globals[id(real)] = Globals(self, real)
        return known

    def _cell(self, cell: CellType, name: str) -> Cell:
        cells = self._places.cells
        if (known := cells.get(id(cell))) is None:
            known = cells[id(cell)] = Cell(name, CellType(), cell, Parts(CellType), [])
        return known

    def _fill(self, cell: Cell) -> None:
        if cell.put or isinstance(cell.node, Same):
            return
        cell.put.append(MISSING)
        value = attribute(cell.real, "cell_contents")
        part: Node = ABSENT
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
            return Super, Same(kind)
        if shadowable(kind):
            return self._shadows.of_class(kind, where)
        if unchanging_class(kind):
            return kind, Same(kind)
        return opaque(self, kind, where, "attributes of the class")

    def _other(self, value: object, where: Where) -> Pair:
        if is_traced(value):
            self.traced = True
            return value, Same(value)
        if is_instance(value) or isinstance(value, Shadow):
            return wrap_stand_in(self, value, where)
        if leaf_key(value) is not None:
            return value, Leaf(value)
        if unchanging(value) or is_transformed(value):
            return value, Same(value)
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
    (is_object, lambda run, value, where: run._shadows.of_object(value, where)),
    (is_record, wrap_record),
    (lambda value: data_key(value) is not None, wrap_data),
    (is_vectorized, wrap_vectorized),
    (is_dispatcher, lambda run, value, where: wrap_attribute(run, value, where, "py_func")),
)
