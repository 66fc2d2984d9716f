"""Private copies of functions: how `f` runs while it is traced.

The copy of a function has the function's code, with globals and cells of ours, so that every name
that the code reads is recorded and may be answered by a proxy (``types.FunctionType`` makes the
copy). Python functions that `f` reaches through a global, a cell, a default, a module, a container
or an object are copied in the same way. Nothing is patched: other threads, and the function itself,
do not notice. Source: Python's Language Reference, section "Resolution of names".
"""

from __future__ import annotations

import inspect
import sys
from types import CellType, CodeType, FunctionType

from .dependency_nodes import ABSENT, Attributes, Equal, Identical, SequenceItems, attribute
from .proxies.callable_proxies import is_generic, wrap_generic
from .proxies.container_proxies import wrap_mapping
from .proxies.module_proxies import GlobalsProxy, ModuleContext
from .proxy_context import Pair, Where, opaque
from .revalidation import Dependency
from .sources.loop_drivers import code_of
from .value_kinds import MISSING, is_ours, is_user_function, library_namespace
from .written.write_targets import in_cell
from .written.writes import CellCopy

_ANNOTATIONS = "__annotate__" if sys.version_info >= (3, 14) else "__annotations__"


class FunctionCopies:
    """The private copies of functions in one run, with their `codes` and `cells`, by id."""

    def __init__(
        self, context: ModuleContext, codes: list[CodeType], cells: dict[int, CellCopy]
    ) -> None:
        self.context = context
        self.codes = codes
        self.cells = cells

    def wrap(self, fn: FunctionType, where: Where) -> Pair:
        """The private copy of a function of the user; as a rule a library's function itself."""
        real = fn.__globals__
        if isinstance(real, GlobalsProxy):
            if real.context.running:  # private already, watched by the run that made it
                return fn, Identical(fn)
            real = real.real
        if library_namespace(real):
            return self._decorator(fn, where)
        copy, node = self._copy(fn, self.context.namespace(real), user_code=True)
        self._dress(fn, copy, node)
        return copy, node

    def _decorator(self, fn: FunctionType, where: Where) -> Pair:
        """A function of a library; a private copy if a decorator made it, to watch the user's code.

        Such functions are made by `contextlib`, or by a `numpy.errstate` used as a decorator.
        """
        if is_generic(fn):
            return wrap_generic(self.context, fn, where)
        contents = [attribute(cell, "cell_contents") for cell in fn.__closure__ or ()]
        if is_ours(fn.__globals__):
            if "__fdiff_decorator__" in fn.__dict__:  # it calls the user's code
                return self._copy(fn, fn.__globals__, user_code=True)
            return fn, Identical(fn)
        if any(map(is_user_function, contents)):
            copy, node = self._copy(fn, fn.__globals__, user_code=False)
            copy.__defaults__, copy.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
            return copy, node
        if is_user_function(inspect.unwrap(fn)):
            return opaque(self.context, fn, where, "what is called by the decorated function")
        return fn, Identical(fn)

    def _copy(
        self, fn: FunctionType, globals_: dict[str, object], *, user_code: bool
    ) -> tuple[FunctionType, Attributes]:
        """A function of the same code with these globals and private cells.

        For a library's function, only the cells that hold functions of the user are private.
        """
        code, closure = fn.__code__, fn.__closure__ or ()
        self.codes.append(code)
        cells = [
            self._cell(cell, name)
            if user_code or is_user_function(attribute(cell, "cell_contents"))
            else CellCopy(name, cell, cell, Identical(cell), [cell])
            for cell, name in zip(closure, code.co_freevars, strict=True)
        ]
        private = tuple([cell.private for cell in cells]) or None
        own = code_of(fn) if user_code else code
        copy = FunctionType(own, globals_, fn.__name__, None, private)
        namespace = ("__globals__", Identical(fn.__globals__))
        node = Attributes(FunctionType, namespace, ("__code__", Equal(code)))
        self.context.keep(fn, copy, node)  # before its cells, which may lead to it again
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
            pairs = [self.context.wrap(*each) for each in zip(fn.__defaults__, names, strict=True)]
            copy.__defaults__ = tuple([proxy for proxy, _ in pairs])
            node.parts.append(("__defaults__", SequenceItems(tuple, [part for _, part in pairs])))
        if fn.__kwdefaults__:
            copy.__kwdefaults__, part = wrap_mapping(self.context, fn.__kwdefaults__, "")
            node.parts.append(("__kwdefaults__", part))
        if fn.__dict__:
            attributes, part = wrap_mapping(self.context, fn.__dict__, f"{fn.__name__}.")
            copy.__dict__.update(attributes)
            self.context.copied(copy.__dict__, fn.__dict__, fn.__name__, part)
            node.parts.append(("__dict__", part))

    def _cell(self, cell: CellType, name: str) -> CellCopy:
        """The private cell, still empty, for a cell of the user; all functions share it."""
        if (copy := self.cells.get(id(cell))) is None:
            private = CellCopy(name, CellType(), cell, Attributes(CellType), [])
            copy = self.cells[id(cell)] = private
        return copy

    def _fill(self, cell: CellCopy) -> None:
        """Put a proxy of the content of the user's cell into the private cell, once."""
        if cell.put or isinstance(cell.node, Identical):
            return
        cell.put.append(MISSING)
        value = attribute(cell.real, "cell_contents")
        part: Dependency = ABSENT
        if value is not MISSING:
            place = in_cell(cell.node)
            cell.put[0], part = self.context.read(value, cell.name, place)
            cell.private.cell_contents = cell.put[0]
        cell.node.parts.append(("cell_contents", part))
