"""Methods of libraries' classes, which anybody may replace (``mock.patch.object``).

Objects of libraries have no proxies. The names in the code of `f`, and the operators that Python
looks up by itself, tell which methods `f` may look up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType

from .dependency_nodes import ABSENT, Identical, MappingItems
from .impure_functions import Impurities, names_in
from .value_kinds import HEAP, is_ours, is_user_function, library_class

_OPERATORS = frozenset(
    """__add__ __call__ __getitem__ __init__ __iter__ __len__ __matmul__ __mul__ __neg__ __new__
    __pow__ __radd__ __rmatmul__ __rmul__ __rpow__ __rsub__ __rtruediv__ __sub__
    __truediv__""".split()  # noqa: SIM905 - a list of words
)
_MOCKS = "unittest.mock"
# An object or a class, and its namespace: a class gives a new view of it at each look-up.
Space = tuple[object, Mapping[str, object]]


class LibraryMethods:
    """The classes of libraries, and their instances, that a run has met."""

    def __init__(self, impurities: Impurities) -> None:
        self._impurities = impurities
        self._met: dict[int, tuple[object, list[Space], set[str]]] = {}

    def meet(self, value: object) -> bool:
        """Note the impure parts of a value; whether some of its methods are not the library's."""
        self._impurities.meet(value)
        kind = value if isinstance(value, type) else type(value)
        if not kind.__flags__ & HEAP or kind.__module__ == _MOCKS or not library_class(kind):
            return False
        if is_ours({"__name__": kind.__module__}):  # nothing that users call is a method of these
            return False
        spaces = _spaces(value, kind)
        methods = {name for owner, space in spaces if isinstance(owner, type) for name in space}
        self._met[id(value)] = value, spaces, methods
        return any(_replaced(space[name]) for _, space in spaces for name in methods & space.keys())

    def reads(self) -> Iterator[tuple[object, MappingItems]]:
        """The owners of methods that the code of `f` names, and the items that hold the methods."""
        if not self._met:
            return
        names = _OPERATORS.union(*map(names_in, self._impurities.codes))
        tables: dict[int, tuple[object, MappingItems]] = {}
        for _, spaces, methods in self._met.values():
            for name in names & methods:
                first = next(k for k, (_, space) in enumerate(spaces) if name in space)
                for owner, space in spaces[: first + 1]:
                    _, node = tables.setdefault(id(owner), (space, MappingItems(type(space))))
                    node.reads[name] = Identical(space[name]) if name in space else ABSENT
        yield from tables.values()


def _spaces(value: object, kind: type) -> list[Space]:
    """The names of an object, of its class and of its bases, as Python goes through them."""
    own = vars(value) if value is not kind and hasattr(value, "__dict__") else None
    classes = [(base, vars(base)) for base in kind.__mro__ if base.__flags__ & HEAP]
    return [*classes] if own is None else [(value, own), *classes]


def _replaced(method: object) -> bool:
    """Whether a function of the user, or a mock, stands in a class or an object of a library.

    SciPy and `collections` compile methods from texts, whose globals belong to no module.
    """
    function = getattr(method, "__func__", method)
    if isinstance(function, FunctionType) and is_user_function(function):
        return function.__globals__.get("__name__") in sys.modules
    return type(function).__module__ == _MOCKS
