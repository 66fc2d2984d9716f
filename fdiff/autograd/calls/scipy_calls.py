"""Functions of SciPy on recorded arrays: by the tables that serve traced arrays.

SciPy passes its calls to no protocol. Its functions and classes ask here first, at the entry points
of `fdiff/ops/scipy_entry_points.py`, whether a recorded array takes part: as an argument, in an
object made from one, or in a user's function that is passed to a solver.

- A call of arrays and plain options is recorded like a NumPy call, by a recipe (`recording.py`).
- Any other call is traced, and is one node (`traced_calls.py`): the user's functions are private
  copies, whose recorded arrays are operands of the node.
- A solver that is given functions runs unchanged, until one of these returns an array that requires
  a gradient. Then the call is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import fdiff.intact_numpy as np

from ...errors import UnsupportedError, failure
from ...foreign_errors import wraps
from ...hooks import Args, Named, hooks
from ...named_tuples import NamedTuple
from ...ops.entrywise.composite_functions import stop_gradient
from ...ops.scipy_entry_points import EntryPoint, open_entry_points
from ...trace import TracedArray
from ...trace.handler_arguments import resolve
from ...trace.operation_cache import MOST
from ..arrays.recorded_array import Recordable, RecordedArray, plain
from ..functions.custom_nodes import custom_node
from ..thread_state import MetRecorded, state
from .call_arguments import call_key
from .recording import record
from .scipy_arguments import PLAIN, Replay, StandIns, of_user, operands_of, taking_part
from .scipy_objects import USE, RecordedObject, map_arguments
from .traced_calls import node_of_call, traced_call


def answer(point: EntryPoint, args: Args, kwargs: Named) -> tuple[object] | None:
    """The result of an entry point, in a tuple; None where no recorded array takes part."""
    recorded, functions = taking_part([*args, *kwargs.values()])
    if not (recorded or functions):
        return None
    operands = operands_of((args, kwargs)) if recorded else []
    if not _records(operands):
        try:
            return (_plainly(point, args, kwargs, recorded=recorded),)
        except MetRecorded:
            if state.solving:  # a solver that calls another one is traced as a whole
                raise
    return (_recorded(point, args, kwargs, operands),)


def _records(operands: list[RecordedArray]) -> bool:
    return bool(operands) and (state.grad_enabled or state.pushes(operands))


def _plainly(point: EntryPoint, args: Args, kwargs: Named, *, recorded: bool) -> object:
    """A call of SciPy's own code, whose results have no graph.

    `MetRecorded` where it turns out that they have one, by what a function of the user's returns.
    """
    plain_args, plain_kwargs = map_arguments((args, kwargs), _plain_argument)
    outer, state.solving = state.solving, True
    try:
        if not recorded:
            return point.original(*plain_args, **plain_kwargs)
        result = point(*plain_args, **plain_kwargs)
    finally:
        state.solving = outer
    if isinstance(point.original, type):  # else Python would call `__init__` with what was given
        return RecordedObject(point, point.name, plain_args, plain_kwargs, result)
    return map_arguments(result, _as_recorded)


def _recorded(
    point: EntryPoint, args: Args, kwargs: Named, operands: list[RecordedArray]
) -> object:
    """A call whose results have a graph."""
    if point.replacement is None:
        fact = f"{point.name} was given recorded arrays, and has no derivative rule in fdiff yet."
        way = (
            "Write it with functions that have one (docs/coverage.md), or pass `array.detach()` for"
            " its numbers alone."
        )
        raise failure(UnsupportedError, "fdiff.autograd", fact, way)
    return _by_replay(point, point.name, args, kwargs, operands)


def _call_of_object(what: Callable[..., object], title: str, args: Args, kwargs: Named) -> object:
    """A call in which objects made of recorded arrays take part: of a method, an operator."""
    operands = operands_of((args, kwargs))
    if _records(operands):
        return _by_replay(what, title, args, kwargs, operands)
    plain_args, plain_kwargs = map_arguments((args, kwargs), _plain_argument)
    return map_arguments(what(*plain_args, **plain_kwargs), _as_recorded)


def _by_replay(
    what: Callable[..., object],
    title: str,
    args: Args,
    kwargs: Named,
    operands: list[RecordedArray],
) -> object:
    """A call by its recipe if it has one, else traced."""
    replay = Replay(what, title, args, kwargs)
    key = tuple(call_key(replay, tuple(replay.arrays), {})[0]) if replay.simple else None
    if not _by_recipe.get(key):
        traced = _LibraryCall(what, title, args, kwargs, operands)
        if key is None or key in _by_recipe:
            return traced.result()
        if len(_by_recipe) >= MOST:
            _by_recipe.clear()
        _by_recipe[key] = traced.opened.only_arrays and traced.as_plain()
        if not _by_recipe[key]:
            replay.forget()
            return traced.result()
    try:
        return record(replay, replay.__name__, tuple(replay.arrays), {})
    finally:
        replay.forget()


# Whether calls of arrays and plain options have recipes: those that give arrays alone, and under
# trace arrays of the same types.
_by_recipe: dict[object, bool] = {}


class _LibraryCall:
    """A call under trace, made from stand-ins; `opened` is its result in the trace."""

    opened: Opened

    def __init__(
        self,
        what: Callable[..., object],
        title: str,
        args: Args,
        kwargs: Named,
        operands: list[RecordedArray],
    ) -> None:
        self.what, self.title, self.args, self.kwargs = what, title, args, kwargs

        def call(handles: Sequence[object]) -> tuple[object, ...]:
            stand_ins = StandIns(dict(zip(map(id, operands), handles, strict=True)))
            self.opened = self._opened(stand_ins)
            return tuple(self.opened.arrays)

        self.call = traced_call(call, title, operands, lambda value: ((value,), {}), watches=True)

    def _opened(self, change: Callable[[object], object]) -> Opened:
        """The result of the call for arguments with their leaves changed."""
        args, kwargs = map_arguments((self.args, self.kwargs), change)
        return opened(self.what(*args, **kwargs))

    def as_plain(self) -> bool:
        """Whether SciPy's own code gives arrays of the same dtypes."""
        plain_arrays = self._opened(_plain_argument).numbers
        dtypes = [np.asarray(x).dtype for x in plain_arrays]
        return dtypes == [t.dtype for t in self.call.tape.tape.output_types]

    def result(self) -> object:
        """The result of the call, recorded as one node."""
        arrays = node_of_call(self.call, self.title.rpartition(".")[2])
        moving = [x for x in arrays if x.requires_grad]
        pairs = zip(arrays, self.opened.refused, strict=True)
        results = [_refusing(x, name, moving) if name else x for x, name in pairs]
        return self.opened.closed(results, self._object)

    def _object(self, k: int) -> RecordedObject:
        """A leaf of the result that is an object."""
        real = self._opened(_plain_argument).leaves[k]
        return RecordedObject(PartOf(self.what, k), self.title, self.args, self.kwargs, real)


def _refusing(x: object, name: str, operands: Sequence[object]) -> object:
    """An array of the same numbers whose derivative is refused when it is asked for."""

    def refuse(*_: object) -> NoReturn:
        fact = f"{name} has no derivative rule in fdiff."
        raise failure(UnsupportedError, "fdiff.autograd", fact, "Use `.detach()` for its numbers.")

    value = np.asarray(x.value if type(x) is RecordedArray else x)
    return custom_node(name, operands, [value], refuse, jvp=refuse)[0]


# ------------------------------------------------------------------------- SciPy's own code


def _plain_argument(x: Recordable) -> Recordable:
    """An argument as SciPy's own code takes it: without a graph, functions giving plain arrays."""
    kind = type(x)
    if kind is RecordedObject:
        return x.real
    if kind is RecordedArray:
        return x.value
    return _giving_plain(x) if kind not in PLAIN and callable(x) and of_user(x) else x


def _giving_plain(function: Callable[..., object]) -> Callable[..., object]:
    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        out = function(*args, **kwargs)
        if type(out) in PLAIN:
            return out
        if _records(operands_of(out)):
            raise MetRecorded
        return map_arguments(out, lambda x: x.value if type(x) is RecordedArray else x)

    return call


def _as_recorded(x: object) -> object:
    return plain(x) if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "biufc" else x


USE.append(_call_of_object)
hooks.recorded_library = answer
open_entry_points()


# --- results: arrays, objects and plain data ------------------------------------------------------

_DATA = (str, bytes, int, float, complex, bool, type(None), np.generic, np.dtype, type)


class Opened(NamedTuple):
    """A result: its `leaves`, the `arrays` among them, and how to assemble it again."""

    leaves: list[object]
    places: list[int]
    objects: frozenset[int]
    refused: list[str]
    build: Callable[[Iterator[object]], object]
    named: bool

    @property
    def arrays(self) -> list[object]:
        """The arrays among the leaves; those whose derivative is refused have none."""
        arrays = [self.leaves[k] for k in self.places]
        pairs = zip(arrays, self.refused, strict=True)
        return [stop_gradient(x) if refused else x for x, refused in pairs]

    @property
    def numbers(self) -> list[object]:
        """The leaves that arrays under trace stand for: arrays, and floats that SciPy gives."""
        return [x for x in self.leaves if isinstance(x, np.ndarray | np.inexact | float | complex)]

    @property
    def only_arrays(self) -> bool:
        """Whether there is nothing but arrays and plain data, in tuples and lists."""
        return not (self.objects or self.named or any(self.refused))

    def closed(self, arrays: Sequence[Recordable], object_at: Callable[[int], object]) -> object:
        """The result with these arrays in place of its own, and with other objects."""
        leaves = [object_at(k) if k in self.objects else x for k, x in enumerate(self.leaves)]
        for k, x in zip(self.places, arrays, strict=True):
            flag = len(leaves) > 1 and not x.shape and x.dtype.kind in "biu"
            leaves[k] = x.value.item() if flag else x
        return self.build(iter(leaves))


@dataclass(frozen=True)
class PartOf:
    """A function that returns one leaf of another function's result."""

    what: Callable[..., object]
    place: int

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        return opened(self.what(*args, **kwargs)).leaves[self.place]


def opened(result: object) -> Opened:
    """Take a result apart."""
    leaves: list[object] = []
    named: list[bool] = []
    build = _build(result, leaves, named)
    leaves[:] = [resolve(x) for x in leaves]
    places = [
        k for k, x in enumerate(leaves) if isinstance(x, TracedArray | np.ndarray | RecordedArray)
    ]
    objects = {k for k, x in enumerate(leaves) if k not in places and not isinstance(x, _DATA)}
    refused = [_refused(leaves[k]) for k in places]
    return Opened(leaves, places, frozenset(objects), refused, build, any(named))


def _build(
    tree: Recordable, leaves: list[object], named: list[bool]
) -> Callable[[Iterator[object]], Recordable]:
    """Enter the leaves of a tree; gives a function that builds the tree from other leaves."""
    kind = type(tree)
    if kind is dict or hasattr(kind, "__fdiff_fields__"):  # the result of a solver under trace
        make, fields = (dict, tree) if kind is dict else tree.__fdiff_fields__()
        parts = {k: _build(x, leaves, named) for k, x in fields.items()}
        named.append(True)
        return lambda values: make({k: part(values) for k, part in parts.items()})
    if kind is tuple or kind is list or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        entries = [_build(x, leaves, named) for x in tree]
        if kind is tuple or kind is list:
            return lambda values: kind([part(values) for part in entries])
        return lambda values: kind(*[part(values) for part in entries])
    leaves.append(tree)
    return next


def _refused(x: Recordable) -> str:
    """The field of a result whose derivative is refused; empty for any other array."""
    builder: Recordable = (
        x.home.builder if isinstance(x, TracedArray) else None
    )  # of an eager trace
    op = None if builder is None else builder.ops[x.id]
    return str(dict(op.params)["field"]) if op is not None and op.primitive.rules.refuses else ""
