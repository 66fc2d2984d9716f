"""Lists, tuples, dicts and objects that variables of a loop hold, as variables for each element.

A run of the body gets containers of its own. What it gives has to have the same keys. Of each list
and dict one more variable tells whether it is new or, with other elements perhaps, what it was.
Of a list that grows, the last elements are variables, as many as are read, and what a trip appends
are further results, one for each entry of tuples. Attributes of objects that may be stored are
variables, too.
Our own method: docs/decisions/loops-that-choose-branches.md. Scalar replacement of aggregates:
S. Muchnick, Advanced Compiler Design and Implementation, 1997, section 12.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import CellType, NoneType
from typing import cast

from ...capture.sources.loop_frames import LoopNames
from ...capture.sources.loop_rewriting import UNBOUND
from ...named_tuples import NamedTuple
from .appended_rows import Appended
from .path_runs import Body, Cells, value_of
from .reached_objects import HeldAttributes, ReachedObjects
from .variables import (
    CONTAINERS,
    Container,
    PathRun,
    RefusedLoopError,
    Variable,
    cells_of,
    containers_in,
    same_elements,
)  # fmt: skip

MOST = 32  # elements of all containers
_KEYS = {int, str}


class Form(NamedTuple):
    """The form of a value: its kind, its keys, and the forms of its elements; no kind of others."""

    kind: type | None
    keys: tuple[int | str, ...] = ()
    parts: tuple[Form, ...] = ()


_LEAF, _OPTION = Form(None), Form(NoneType)


class Renewal(Variable):
    """Whether a variable holds a new container after a trip; on all paths it may be new."""

    def settle(self, runs: Sequence[PathRun], k: int) -> bool:
        if all(run.values[k] is True for run in runs):
            self.constant = True
            return True
        return super().settle(runs, k)


class TakenApart:
    """A body whose variables are the elements of containers; `starts` are their first values.

    `owns` are the lists and dicts that variables hold at first, `grown` lists that grow, `lags` how
    many of their last elements are read. `reached` are objects, whose attributes are the last
    variables.
    """

    def __init__(
        self,
        starts: Mapping[str, object],
        body: Body,
        rows: Sequence[object],
        names: LoopNames,
        reached: ReachedObjects,
    ) -> None:
        self.body, self.names, self.reached = body, [*starts], reached
        self.lags, self._displayed = dict(names.grown), names.displayed
        self.own: list[Variable] = []
        self.leaves: list[tuple[str, object]] = []
        self.options = list[int]()  # leaves of variables that are None at first
        self.owns: list[Container] = []
        self.places: list[str] = []
        self.grown = {name: self._list(name, starts[name]) for name in self.lags}
        ends = {name: whole[len(whole) - self.lags[name] :] for name, whole in self.grown.items()}
        self.forms = [self._form(name, ends.get(name, x), ()) for name, x in starts.items()]
        named = [reached.place(*each) for each in reached.variables]
        pairs = zip(named, reached.starts(), strict=True)
        self.forms += [self._form(name, x, ()) for name, x in pairs]
        self.names += named
        if len(self.owns) + len(self.leaves) > MOST + len(self.names):
            raise RefusedLoopError("its lists have many elements")
        self.added = dict[str, tuple[Form, ...]]()  # what a trip appends, by list
        self.changed, self.renewed = set[int](), set[int]()
        self._seen = containers_in([*cells_of(self), *rows])

    @property
    def __closure__(self) -> tuple[CellType, ...] | None:
        closure: tuple[CellType, ...] | None = getattr(self.body, "__closure__", None)
        return closure

    @property
    def __defaults__(self) -> tuple[object, ...]:
        return (*self.reached.values(), *self.reached.functions)

    def variables(self, start: Callable[[str, object], Variable]) -> list[Variable]:
        """The variables of all elements, and of whether lists and dicts are new."""
        news = [Renewal(f"whether {place} is new", start=False) for place in self.places]
        self.own = [*[start(name, value) for name, value in self.leaves], *news]
        for k in self.options:
            self.own[k].option = self.own[k].result = True
        return self.own

    def _list(self, name: str, value: object) -> list[object]:
        if type(value) is not list or len(value) < self.lags[name]:
            raise RefusedLoopError(f"{name} is no list")
        return cast("list[object]", value)

    def _form(self, name: str, value: object, around: tuple[int, ...]) -> Form:
        kind = type(value)
        if value is None:
            self.leaves += [(name, True), (name, UNBOUND)]
            self.options.append(len(self.leaves) - 1)
            return _OPTION
        if kind not in CONTAINERS:
            self.leaves.append((name, value))
            return _LEAF
        if id(value) in around:
            raise RefusedLoopError(f"{name} holds itself")
        whole = cast("Container", value)
        if kind is not tuple:
            self.owns.append(whole)
            self.places.append(name)
        keys = _keys(whole)
        if not _KEYS.issuperset(map(type, keys)):
            raise RefusedLoopError(f"{name} has keys that are no numbers and no text")
        here = (*around, id(value))
        return Form(kind, keys, (*[self._form(f"{name}[{k!r}]", whole[k], here) for k in keys],))

    # ------------------------------------------------------------------------------ a run

    def __call__(self, trip: object, *values: object) -> Cells:
        """Run the body on containers of its own, and return the elements after it."""
        own: list[tuple[Container, Container]] = []
        elements = iter(values)
        first = [_packed(form, elements, own) for form in self.forms]
        news = iter(enumerate([*elements]))
        pairs = zip(self.names, first, strict=True)
        windows = [cast("list[object]", x) for name, x in pairs if name in self.lags]
        held = [x for window in windows for x in window]
        results, flags = list[object](), list[object]()
        count = len(first) - len(self.reached.variables)
        with HeldAttributes(self.reached) as attributes:
            attributes.hold(first[count:])
            cells = self.body(trip, *first[:count])
            outs = [value_of(cell) for cell in cells[1:]]
            outs += attributes.ends()
        held += [x for window in windows for x in window]
        seen: dict[int, object] = {key: key for key in containers_in(held)}  # in lists that grow
        more = [self._appended(*each) for each in zip(self.names, first, outs, strict=True)]
        containers = iter([container for container, _ in own])
        for name, form, value in zip(self.names, self.forms, outs, strict=True):
            others = {} if name in self.lags else seen
            self._unpack((name, form, value), containers, (results, flags, news), others)
        for k, (container, before) in enumerate(own):
            if not same_elements(container, before):
                self.changed.add(k)
        results += [*flags, *chain.from_iterable(more)]
        return [cells[0], *[partial(_same, value) for value in results]]

    def _appended(self, name: str, own: object, value: object) -> list[object]:
        """What a run has appended to a list, which is left with its last elements."""
        if name not in self.lags:
            return []
        window = cast("list[object]", own)
        more = window[self.lags[name] :]
        forms = (*[self._appended_form(name, x, new=name in self._displayed) for x in more],)
        others = self.added.setdefault(name, forms) if forms else ()
        if value is not own or len(forms) != len(others):
            raise RefusedLoopError(f"{name} gets several elements on some paths alone")
        if forms != others:
            raise RefusedLoopError(f"{name} gets elements of several types")
        del window[: len(more)]
        leaves = [*chain.from_iterable(map(_leaves, more))]
        if (more and not leaves) or len(leaves) > MOST:
            raise RefusedLoopError(f"{name} gets elements with many entries, or with none")
        return [Appended(leaves)]

    def _appended_form(self, name: str, value: object, *, new: bool) -> Form:
        """The form of what is appended: lists and dicts have to be `new`, with no other name."""
        kind = type(value)
        if kind not in CONTAINERS:
            return _LEAF
        whole = cast("Container", value)
        if not (new or kind is tuple):
            raise RefusedLoopError(f"{name} gets a list that may have another name")
        keys = _keys(whole)
        if not _KEYS.issuperset(map(type, keys)):
            raise RefusedLoopError(f"{name} gets keys that are no numbers and no text")
        parts = [self._appended_form(name, whole[k], new=False) for k in keys]
        return Form(kind, keys, (*parts,))

    def _unpack(
        self,
        variable: tuple[str, Form, object],
        containers: Iterator[object],
        into: tuple[list[object], list[object], Iterator[tuple[int, object]]],
        seen: dict[int, object],
    ) -> None:
        """Take apart the value of a variable after a run; its form is the one from before."""
        name, form, value = variable
        if form.kind is None or form is _OPTION:
            if type(value) in CONTAINERS:
                raise RefusedLoopError(f"{name} becomes a container")
            none = value is None and form is _OPTION
            into[0].extend([none] * (form is _OPTION))
            into[0].append(UNBOUND if none else value)
            return
        whole = cast("Container", value)
        if type(value) is not form.kind or _keys(whole) != form.keys:
            raise RefusedLoopError(f"{name} becomes longer or shorter, or is of several types")
        if form.kind is not tuple:
            own, (k, new) = next(containers), next(into[2])
            if id(value) in seen or id(value) in self._seen:
                raise RefusedLoopError(f"{name} and another variable hold one list")
            seen[id(value)] = value
            if value is not own:
                self.renewed.add(k)
            into[1].append(new if value is own else True)
        for key, part in zip(form.keys, form.parts, strict=True):
            self._unpack((f"{name}[{key!r}]", part, whole[key]), containers, into, seen)

    # ------------------------------------------------------------------------------ after all runs

    def check(self, news: Sequence[Variable], *, inner: bool) -> None:
        """Refuse lists that are changed in place and have other names, or are new elsewhere.

        In the body of another loop, paths have to agree on whether they are new.
        """
        if inner and any(v.is_counted for v in news[len(self.leaves) :]):
            raise RefusedLoopError("a variable may hold a new list, or what it held before")
        names = [id(own) for own in self.owns]
        lists = [id(whole) for whole in self.grown.values()]
        for name, whole in self.grown.items():
            if id(whole) in self._seen or [*names, *lists].count(id(whole)) > 1:
                raise RefusedLoopError(f"{name} is appended to, and has two names")
        for k in self.changed:
            if k in self.renewed:
                raise RefusedLoopError(f"{self.places[k]} is changed, and another list elsewhere")
            if names[k] in self._seen or names.count(names[k]) > 1:
                raise RefusedLoopError(f"{self.places[k]} is changed, and has two names")

    def behind(
        self, values: Sequence[object], more: Iterable[Iterable[Sequence[object]]]
    ) -> list[object]:
        """The values of variables after the loop, whose trips have appended `more` to each list.

        Lists and dicts that are not new are changed.
        """
        rows = [[*map(iter, entries)] for entries in more]
        count = len(self.leaves)
        pairs = zip(values, self.own, self.leaves, strict=False)
        leaves = iter([value if v.type is not None or start is UNBOUND else start
                       for value, v, (_, start) in pairs])  # fmt: skip
        news = values[count:]
        owns = iter(zip(self.owns, news, strict=True))
        outs = [_rebuilt(form, leaves, owns) for form in self.forms]
        for (name, whole), trips in zip(self.grown.items(), rows, strict=True):
            for entries in trips:
                whole += [_packed(form, entries, []) for form in self.added[name]]
        lists, last = self.grown, len(outs) - len(self.reached.variables)
        self.reached.put(outs[last:])
        return [lists.get(name, out) for name, out in zip(self.names, outs[:last], strict=False)]


def _same(value: object) -> object:
    return value


def _keys(value: Container) -> tuple[int | str, ...]:
    return tuple(value) if isinstance(value, dict) else tuple(range(len(value)))


def _leaves(value: object) -> list[object]:
    """The entries of nested containers, or a value that is none."""
    if type(value) not in CONTAINERS:
        return [value]
    whole = cast("Container", value)
    return [leaf for key in _keys(whole) for leaf in _leaves(whole[key])]


def _of(kind: type, keys: Sequence[object], parts: Sequence[object]) -> object:
    return dict(zip(keys, parts, strict=True)) if kind is dict else kind(parts)


def _of_leaves(form: Form, leaves: Iterator[object]) -> object:
    """A value that is no container: None where its first leaf, if there are two, says so."""
    none = form is _OPTION and next(leaves)
    value = next(leaves)
    return None if none else value


def _packed(form: Form, leaves: Iterator[object], own: list[tuple[Container, Container]]) -> object:
    """A value of a form for a run; its lists and dicts go into `own`, with copies."""
    if form.kind is None or form is _OPTION:
        return _of_leaves(form, leaves)
    place, whole = len(own), cast("Container", ())
    if form.kind is not tuple:
        own.append((whole, whole))
    parts = [_packed(part, leaves, own) for part in form.parts]
    value = _of(form.kind, form.keys, parts)
    if form.kind is not tuple:
        whole = cast("Container", value)
        own[place] = whole, whole.copy()
    return value


def _rebuilt(
    form: Form, leaves: Iterator[object], owns: Iterator[tuple[Container, object]]
) -> object:
    """The value of a variable after a loop."""
    if form.kind is None or form is _OPTION:
        return _of_leaves(form, leaves)
    own, new = (cast("Container", ()), True) if form.kind is tuple else next(owns)
    parts = [_rebuilt(part, leaves, owns) for part in form.parts]
    if new:
        return _of(form.kind, form.keys, parts)
    for key, part in zip(form.keys, parts, strict=True):
        if own[key] is not part:
            own[key] = part
    return own
