"""The values of names in a function, as far as they are told before the function runs.

Source: Python's Language Reference, section "Resolution of names".
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from copy import copy
from types import CellType, FunctionType, ModuleType
from typing import Self

import fdiff.intact_numpy as np

from ..dependency_nodes import attribute
from ..proxies.module_proxies import GlobalsProxy
from ..value_kinds import MISSING
from .object_attributes import AttributeNames, is_user_object
from .variable_names import assigned_values, own_names

_MODULES = frozenset(("numpy", "numpy.linalg", "math"))
_DATA = (np.ndarray, np.generic, float, int, complex, str, bool, type(None), ModuleType)
_NEW = """
    arange array copy empty empty_like eye full full_like identity linspace ones ones_like zeros
    zeros_like
"""
_NEW_ARRAYS = frozenset(_NEW.split())  # functions whose results nothing else holds


def is_data(value: object) -> bool:
    """Whether reading and computing with a value runs no code of the user."""
    if type(value) is tuple or type(value) is list:  # of no other lists
        return all(is_data(part) and type(part) is not list for part in value)
    return isinstance(value, _DATA) and type(value).__module__ in ("numpy", "builtins")


def is_constant(value: object) -> bool:
    """Whether a value is data, or an object of the user's, of which more is told later."""
    return is_data(value) or is_user_object(value)


class Scope:
    """The values of a function's names outside of it; `data` tells values without effects.

    `hidden` names are variables of functions in the function; the `fresh` ones of these hold arrays
    that the function has made, and `owners` objects. `depth` counts the functions that call each
    other. The function has the `parameters`, and stores into arrays in the `stored` ones.
    `attributes` are the names of attributes that code uses. Code that is `repeated` stands in a
    comprehension.
    """

    def __init__(
        self, fn: FunctionType, data: Callable[[object], bool] = is_constant, depth: int = 0
    ) -> None:
        self.code, self.data, self.depth = fn.__code__, data, depth
        self.hidden, self.fresh, self.owners = frozenset[str](), frozenset[str](), frozenset[str]()
        self.parameters, self.stored, self.repeated = frozenset[str](), set[str](), False
        self.attributes = AttributeNames()
        self._space = space = fn.__globals__
        self.globals = space.real if isinstance(space, GlobalsProxy) else space
        self.cells: dict[str, CellType] = dict(
            zip(self.code.co_freevars, fn.__closure__ or (), strict=True)
        )

    def value(self, name: str) -> object:
        """The value of a name; MISSING if it is a variable of the function."""
        if name in self.hidden or name in (*self.code.co_varnames, *self.code.co_cellvars):
            return MISSING
        if name in self.cells:
            return attribute(self.cells[name], "cell_contents")
        value = self.globals.get(name, getattr(builtins, name, MISSING))
        private = isinstance(self._space, GlobalsProxy) and name in self.globals
        if private and (isinstance(value, FunctionType) or is_user_object(value)):
            return self._space[name]  # the run's own
        return value

    def mangled(self, name: str) -> str:
        """The name of an attribute as Python has it: private names tell their class."""
        kind = self.code.co_qualname.rpartition(".")[0].rpartition(".")[2].lstrip("_")
        private = name.startswith("__") and not name.endswith("__")
        return f"_{kind}{name}" if private and kind.isidentifier() else name

    def resolved(self, node: ast.expr) -> object:
        """The value of a dotted name, through modules alone."""
        if isinstance(node, ast.Name):
            return self.value(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolved(node.value)
            if isinstance(base, ModuleType) and base.__name__ in _MODULES:
                return getattr(base, node.attr, MISSING)
        return MISSING

    def hiding(self, names: Iterable[str]) -> Self:
        """The scope without names that a comprehension assigns."""
        inner = copy(self)
        inner.hidden = self.hidden.union(names)
        return inner

    def inside(self, function: ast.FunctionDef | ast.Lambda) -> Self:
        """The scope in a function of the function."""
        inner = self.hiding(own_names(function))
        inner.depth = max(self.depth, 1)
        inner.owners = self.owners - own_names(function)
        inner.fresh = inner.parameters = frozenset[str]()
        if isinstance(function, ast.FunctionDef):
            values = assigned_values(function)
            fresh = [n for n, each in values.items() if all(map(inner._makes, each))]
            inner.fresh = frozenset(fresh)
        return inner

    def _makes(self, value: ast.expr | None) -> bool:
        """Whether an expression makes an array that nothing else holds."""
        if not isinstance(value, ast.Call):
            return isinstance(value, (ast.BinOp, ast.UnaryOp))
        function, words = self.resolved(value.func), [k.arg for k in value.keywords]
        name = getattr(function, "__name__", "")
        new = name in _NEW_ARRAYS and getattr(np, name, None) is function
        return new and {*words} <= {"dtype"}
