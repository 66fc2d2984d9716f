"""Objects of the user that the body of a loop can reach, and attributes of them as variables.

Private code has proxies of the user's objects, and objects of its own. While the body is run,
attributes hold the inputs of the run; after it they hold their earlier values again. Methods are
Python's: which may be called is told by their names (the idea of class hierarchy analysis:
J. Dean et al., ECOOP 1995).

See docs/decisions/objects-in-loops-that-choose.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import (
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    TracebackType,
)  # fmt: skip
from typing import Self, cast

from ...capture.dependency_nodes import attribute
from ...capture.proxies.class_proxies import fetch, state_of
from ...capture.proxies.object_proxy import slot, slot_dict
from ...capture.sources.loop_rewriting import UNBOUND
from ...capture.sources.name_scopes import is_data
from ...capture.sources.object_attributes import AttributeNames, ObjectAttributes
from ...capture.sources.source_effects import EffectError, check_function, stored_parameters
from ...capture.symbolic_numbers import SymbolicNumber
from ...capture.value_kinds import MISSING, is_named_tuple, is_record, library_class
from ...foreign_errors import whole_exit
from .variables import CONTAINERS, RefusedLoopError, elements_of, is_plain

_CODE = ("__setattr__", "__getattr__", "__getattribute__")
# Special methods that no statement of a body calls, by the syntax that is let.
_UNCALLED = frozenset(
    """__init__ __new__ __post_init__ __repr__ __str__ __format__ __init_subclass__ __enter__
    __exit__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs__ __copy__
    __deepcopy__ __dir__ __sizeof__ __class_getitem__ __subclasshook__ __del__ __replace__
    """.split()  # noqa: SIM905 - a list of words
)
_MOST = 64  # objects
_mro, _dict = vars(type)["__mro__"].__get__, vars(type)["__dict__"].__get__


class NewAttributeError(Exception):
    """A run stores an attribute that was no variable."""


class ReachedObjects:
    """The objects of the user that code can reach, and their attributes.

    `objects` have the names that the user would give them; `functions` are their methods.
    `variables` are the attributes that may be stored: places in `objects`, and names.
    """

    def __init__(
        self, body: Callable[..., object], uses: ObjectAttributes, values: Iterable[object]
    ) -> None:
        self.names = AttributeNames()
        self.names.read |= uses.read
        self.names.stored |= uses.stored
        self.names.called |= uses.called
        self.objects: list[tuple[object, str]] = []
        self.functions: list[Callable[..., object]] = []
        self._held: list[tuple[int, str, object]] = []
        self.variables: list[tuple[int, str]] = []
        self.more: set[tuple[int, str]] = set()
        self.stored: set[tuple[int, str]] = set()  # on some path
        self._seen: set[int] = set()
        self._kept: list[object] = []  # so that no id is used again
        cells = dict(_cells(body))
        for name in sorted(cells.keys() | uses.outer):
            value = cells[name] if name in cells else _global(body, name)
            if name in uses.storing:
                self._check(value, storing=True)
            elif not isinstance(value, ModuleType):
                self._visit(value, name)
            elif name in uses.roots or name not in uses.outer:  # it was not looked at
                raise RefusedLoopError("a variable holds a module")
        for value in values:
            self._visit(value, "a value")
        self._follow()
        self._check_owners(body, uses, cells)
        self.variables = [*self._stored()]

    def allows(self, value: object) -> bool:
        """Whether reading and computing with a value runs no code that is not looked at."""
        if is_data(value):
            return True
        self._visit(value, getattr(type(value), "__name__", "an object"))
        return True

    def place(self, k: int, name: str) -> str:
        """How the user would name an attribute."""
        return f"{self.objects[k][1]}.{name}"

    def values(self) -> list[object]:
        """What attributes hold that are no variables."""
        variables = {*self.variables}
        return [value for k, name, value in self._held if (k, name) not in variables]

    # ---------------------------------------------------------------------------------- reaching

    def _visit(self, value: object, place: str) -> None:
        """Note a value, and what it leads to; RefusedLoopError if code may follow from it."""
        if value is MISSING or value is UNBOUND or isinstance(value, SymbolicNumber):
            return
        if id(value) in self._seen:
            return
        kind = type(value)
        if kind in CONTAINERS or is_named_tuple(value):
            self._note(value)
            if kind not in CONTAINERS:
                self._held.append((-1, place, (*elements_of(value),)))
            for k, part in enumerate(elements_of(value)):
                self._visit(part, f"{place}[{k}]")
        elif is_plain(value):
            return
        elif isinstance(value, (FunctionType, partial, MethodType)):
            self._note(value)
            self._check(value)
        elif _is_private(value):
            self._note(value)
            if len(self.objects) == _MOST:
                raise RefusedLoopError("it reads many objects")
            self.objects.append((value, place))
        elif callable(value):
            self._check(value)
        else:
            raise RefusedLoopError("it reads an object")

    def _note(self, value: object) -> None:
        self._seen.add(id(value))
        self._kept.append(value)

    def _check(
        self, function: object, member: type | None = None, *, storing: bool = False
    ) -> None:
        """Note a function; RefusedLoopError if it has effects, but for `storing` into arguments."""
        try:
            if storing and isinstance(function, FunctionType):
                stored_parameters(function, self.allows, 0, self.names)
            else:
                check_function(function, self.allows, 0, self.names, member)
        except EffectError as effect:
            name = getattr(function, "__name__", "a function")
            raise RefusedLoopError(f"more may follow from {name}: {effect}") from None
        if isinstance(function, FunctionType):
            self.functions.append(function)

    def _follow(self) -> None:
        """Look at all attributes that code names, of all objects, and at special methods."""
        done, names = set[tuple[int, str, bool]](), self.names
        while True:
            each = sorted(names.read | names.stored | names.called)
            pairs = {
                (k, name, name in names.stored)
                for k, (value, _) in enumerate(self.objects)
                for name in (*each, *_special(value))
            }
            if pairs <= done:
                return
            for k, name, stores in sorted(pairs - done):
                self._follow_attribute(k, name, stores=stores)
            done |= pairs

    def _follow_attribute(self, k: int, name: str, *, stores: bool) -> None:
        """Look at what an object and its class have under a name."""
        value, place = self.objects[k][0], self.place(k, name)
        fetch(value, name)
        own = contents(value).get(name, MISSING)
        if own is not MISSING:
            self._visit(own, place)
            self._held.append((k, name, own))
        for member in _members(value, name):
            if isinstance(member, (staticmethod, classmethod)):
                self._check_member(member.__func__, type(member))
            elif isinstance(member, property):
                self._check_member(member.fget, FunctionType)
                self._check_member(member.fset if stores else None, FunctionType)
            elif isinstance(member, FunctionType):
                self._check_member(member, FunctionType)
            elif hasattr(type(member), "__get__") or hasattr(type(member), "__set__"):
                raise RefusedLoopError(f"{place} is code of the class")
            else:
                self._visit(member, place)
                self._held.append((-1, name, member))

    def _check_member(self, function: object, kind: type) -> None:
        if callable(function) and id(function) not in self._seen:
            self._note(function)
            self._check(function, kind)

    def _check_owners(
        self, body: Callable[..., object], uses: ObjectAttributes, cells: dict[str, object]
    ) -> None:
        """Refuse variables that are to hold objects, or lists of these, and hold something else."""
        objects = {id(own) for own, _ in self.objects}
        for name in uses.owners | uses.listed:
            value = cells.get(name, MISSING)
            value = _global(body, name) if value is MISSING else value
            whole = name in uses.owners or type(value) not in (list, tuple)
            parts = [value] if whole else elements_of(value)
            if not objects.issuperset(map(id, parts)):
                raise RefusedLoopError(f"{name} may change by its methods")

    # --------------------------------------------------------------------------------- variables

    def _stored(self) -> Iterator[tuple[int, str]]:
        """The attributes that may be stored, and hold values that variables can hold."""
        for k, (value, _) in enumerate(self.objects):
            own = contents(value)
            for name in sorted(self.names.stored & own.keys()):
                held = is_plain(own[name]) or isinstance(own[name], SymbolicNumber)
                if held and not any(isinstance(m, property) for m in _members(value, name)):
                    yield k, name

    def learn(self) -> bool:
        """Make the attributes variables that a run has stored; whether there are some."""
        more = sorted(self.more)
        self.variables += more
        self.more.clear()
        return bool(more)

    def starts(self) -> list[object]:
        """What the variables hold."""
        own = [contents(value) for value, _ in self.objects]
        return [own[k].get(name, UNBOUND) for k, name in self.variables]

    def put(self, values: Sequence[object]) -> None:
        """Store the values of variables after a loop into the attributes that it has stored."""
        for variable, value in zip(self.variables, values, strict=True):
            own, name = self.objects[variable[0]][0], variable[1]
            stored = variable in self.stored and value is not UNBOUND
            if stored and contents(own).get(name, UNBOUND) is not value:
                setattr(own, name, value)


class HeldAttributes:
    """A context in which attributes may hold others; after it, they hold their own again."""

    def __init__(self, reached: ReachedObjects) -> None:
        self.reached, self.values = reached, list[object]()
        self.before = [contents(value) for value, _ in reached.objects]

    def __enter__(self) -> Self:
        return self

    def hold(self, values: Sequence[object]) -> None:
        """Let the variables hold values of a run."""
        self.values = [*values]
        for (k, name), value in zip(self.reached.variables, values, strict=True):
            _store(self.reached.objects[k][0], name, value)

    def ends(self) -> list[object]:
        """What the variables hold now; an error if other attributes have changed."""
        reached = self.reached
        now = [contents(value) for value, _ in reached.objects]
        variables = {*reached.variables}
        for k, (own, before) in enumerate(zip(now, self.before, strict=True)):
            for name in own.keys() | before.keys():
                changed = own.get(name, UNBOUND) is not before.get(name, UNBOUND)
                if changed and (k, name) not in variables:
                    reached.more.add((k, name))
        if reached.more:
            raise NewAttributeError
        if any(getattr(function, "__dict__", None) for function in reached.functions):
            raise RefusedLoopError("it stores an attribute of a function")
        ends = [now[k].get(name, UNBOUND) for k, name in reached.variables]
        each = zip(reached.variables, self.values, ends, strict=True)
        reached.stored |= {v for v, value, end in each if end is not value}
        return ends

    @whole_exit
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for (value, _), before in zip(self.reached.objects, self.before, strict=True):
            now = contents(value)
            for name in now.keys() | before.keys():
                own = before.get(name, UNBOUND)
                if now.get(name, UNBOUND) is not own:
                    _store(value, name, own)
        for function in self.reached.functions:
            function.__dict__.clear()


def contents(value: object) -> dict[str, object]:
    """The attributes that an object has itself, found without a look at its whole class."""
    own = dict[str, object]()
    for base in _mro(type(value)):
        for name, place in _dict(base).items():
            if isinstance(place, MemberDescriptorType):
                held = slot(value, name)
                own |= {} if held is MISSING else {name: held}
    return own | slot_dict(value)


def _store(value: object, name: str, own: object) -> None:
    """Store an attribute without code of the class; UNBOUND deletes it."""
    if own is not UNBOUND:
        object.__setattr__(value, name, own)
    elif contents(value).get(name, UNBOUND) is not UNBOUND:
        object.__delattr__(value, name)


def _is_private(value: object) -> bool:
    """Whether only the run under way has an object, whose class has no code for attributes."""
    kind = type(value)
    if kind is SimpleNamespace:
        return True
    state = state_of(kind)
    if state is None and not _is_plain_record(value):
        return False
    real = kind if state is None else state.real
    for base in real.__mro__[:-1]:
        if any(word in vars(base) and not _is_written(vars(base)[word]) for word in _CODE):
            raise RefusedLoopError(f"the class {base.__name__} has code for its attributes")
    return True


def _is_plain_record(value: object) -> bool:
    """Whether an object is a dataclass without code, of which private code has a copy."""
    bases = [base for base in type(value).__mro__ if library_class(base)]
    return is_record(value) and bases == [object]


def _special(value: object) -> list[str]:
    """The special methods of an object's class that operators call."""
    state = state_of(type(value))
    if state is None:
        return []
    own = [vars(base) for base in state.real.__mro__ if not library_class(base)]
    methods = {n for names in own for n, v in names.items()
               if isinstance(v, FunctionType) and not _is_written(v)}  # fmt: skip
    return sorted(n for n in methods - _UNCALLED if n.startswith("__") and n.endswith("__"))


def _is_written(method: object) -> bool:
    """Whether `dataclasses` has written a method."""
    code = method.__code__ if isinstance(method, FunctionType) else None
    return code is not None and code.co_filename.startswith("<string>")


def _members(value: object, name: str) -> Iterator[object]:
    """What the classes of an object have under a name, as private code finds them."""
    for base in _mro(type(value))[:-1]:
        member = _dict(base).get(name, MISSING)
        if isinstance(member, MemberDescriptorType) or member is MISSING:  # a slot
            continue
        if library_class(base):
            raise RefusedLoopError(f"{name} is a method of a library's class")
        yield member


def _cells(body: Callable[..., object]) -> Iterator[tuple[str, object]]:
    function = cast("FunctionType", body)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        value = attribute(cell, "cell_contents")
        if value is not MISSING:
            yield name, value


def _global(body: Callable[..., object], name: str) -> object:
    """A global as private code reads it; MISSING if there is none."""
    space = cast("FunctionType", body).__globals__
    return space[name] if name in getattr(space, "real", space) else MISSING
