"""Arguments of SciPy calls: the recorded arrays among them, and their stand-ins in a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType

import fdiff.intact_numpy as np

from ...hooks import Args, Named
from ...ops.replacements import replacement_of
from ...ops.scipy_functions import is_scipy_function
from ...primitive import REPLACEMENTS
from ...trace import TracedArray, private
from ..arrays.recorded_array import Recordable, RecordedArray
from .scipy_objects import RecordedObject, map_arguments


def taking_part(values: Sequence[Recordable]) -> tuple[bool, bool]:
    """Whether recorded arrays are among arguments, and whether functions of the user's are."""
    recorded = functions = False
    for x in values:
        kind = type(x)
        if kind is RecordedArray or kind is RecordedObject:
            return True, functions
        if kind is tuple or kind is list or kind is dict:
            inner = taking_part(x.values() if kind is dict else x)
            if inner[0]:
                return inner
            functions = functions or inner[1]
        elif not functions and kind not in PLAIN and callable(x):
            functions = of_user(x)
    return recorded, functions


PLAIN = frozenset((float, int, str, bool, complex, type(None), np.ndarray, np.float64, type))


def of_user(x: object) -> bool:
    """Whether something that can be called runs Python code of the user's.

    Objects of classes that are derived from one of SciPy's are methods' owners, not functions.
    """
    if isinstance(x, FunctionType):
        return not is_scipy_function(x)
    if isinstance(x, MethodType):
        return of_user(x.__func__)
    if isinstance(x, type | np.ufunc) or type(x) is RecordedObject:
        return False
    tops = {str(kind.__module__).partition(".")[0] for kind in type(x).__mro__}
    runs = isinstance(x, partial) or isinstance(getattr(type(x), "__call__", None), FunctionType)  # noqa: B004 - how it is called
    return runs and tops.isdisjoint(("numpy", "scipy"))


def operands_of(tree: object) -> list[RecordedArray]:
    """The recorded arrays that require a gradient, among arguments and in objects made of them."""
    arrays: dict[int, RecordedArray] = {}

    def enter(x: object) -> None:
        if type(x) is RecordedObject:
            x.check()
            map_arguments((x.args, x.kwargs), enter)
        elif type(x) is RecordedArray and x.requires_grad:
            arrays.setdefault(id(x), x)

    map_arguments(tree, enter)
    return [*arrays.values()]


class StandIns:
    """The stand-ins for leaves of arguments in the trace of a call: `handles`, by operands' ids."""

    def __init__(self, handles: dict[int, object]) -> None:
        self.handles = handles
        self.objects: dict[int, object] = {}  # made once for a call

    def __call__(self, x: Recordable) -> object:
        kind = type(x)
        if kind is RecordedArray:
            return self.handles.get(id(x), x.value)
        if kind is RecordedObject:
            if id(x) not in self.objects:
                args, kwargs = map_arguments((x.args, x.kwargs), self)
                self.objects[id(x)] = x.what(*args, **kwargs)
            return self.objects[id(x)]
        if kind in PLAIN and kind is not type:
            return x
        if callable(x) and of_user(x) and id(x) not in REPLACEMENTS:
            return private(x)
        return replacement_of(x)


# --------------------------------------------------------------------- calls that are alike


class Replay:
    """A call with arrays, plain options, and objects made from such, as a function of the arrays.

    It equals every call that differs in its arrays alone, so that these calls share a recipe.
    """

    def __init__(self, what: Callable[..., object], title: str, args: Args, kwargs: Named) -> None:
        self.__name__ = title.rpartition(".")[2]
        self.what, self.tree = what, (args, kwargs)
        self.parts: list[object] = [what]
        self.arrays: list[object] = []
        self._objects: dict[int, int] = {}
        self.simple = self._enter(args) and self._enter(kwargs)
        self.key = tuple(self.parts) if self.simple else ()

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replay) and self.key == other.key

    def __call__(self, *values: object) -> object:
        traced = any(isinstance(x, TracedArray) for x in values)
        args, kwargs = map_arguments(self.tree, _InOrder(iter(values), traced=traced))
        return self.what(*args, **kwargs)

    def forget(self) -> None:
        """Drop the arrays, because the caches keep this call."""
        self.tree, self.arrays = ((), {}), []

    def _enter(self, x: Recordable) -> bool:
        """Enter an argument; False if calls cannot be compared by it."""
        kind: object = type(x)
        if _is_array(x):
            self.arrays.append(x)
            self.parts.append(np.ndarray)
        elif kind is RecordedObject:
            number = self._objects.setdefault(id(x), len(self._objects))
            if number < len(self._objects) - 1:
                self.parts.append((number,))
                return True
            self.parts.append(x.what)
            return self._enter(x.args) and self._enter(x.kwargs)
        elif kind is tuple or kind is list or hasattr(kind, "_fields"):
            self.parts += (kind, len(x))
            return all(self._enter(part) for part in x)
        elif kind is dict:
            self.parts += (dict, *x)
            return all(self._enter(part) for part in x.values())
        elif kind is float or kind is complex:
            self.parts += (kind, str(x))  # -0.0 is not 0.0, and NaN is not itself
        elif kind in _KEYS or isinstance(x, np.dtype) or id(x) in REPLACEMENTS:
            self.parts += (kind, x)
        else:
            return False
        return True


_KEYS = frozenset((int, str, bool, type(None), type))


def _is_array(x: object) -> bool:
    if type(x) is RecordedArray:
        return True
    return isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "biufc"


class _InOrder:
    """Other arrays in place of the arrays of a call, in order."""

    def __init__(self, values: Iterator[object], *, traced: bool) -> None:
        self.given, self.traced = values, traced
        self.objects: dict[int, object] = {}

    def __call__(self, x: object) -> object:
        if _is_array(x):
            return next(self.given)
        if type(x) is RecordedObject:
            if id(x) not in self.objects:
                args, kwargs = map_arguments((x.args, x.kwargs), self)
                self.objects[id(x)] = x.what(*args, **kwargs) if self.traced else x.real
            return self.objects[id(x)]
        return replacement_of(x) if self.traced and id(x) in REPLACEMENTS else x
