"""Functions of fdiff as Numba sees them: their type, and the code compiled for a call.

Importing this imports Numba. A call is typed by looking for the layout that its arguments fit. The
text of that layout is compiled by Numba like a function of the user's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Protocol, cast

import numba
import numpy as np
from numba import types
from numba.core import event
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaWarning, TypingError
from numba.core.typing.templates import Signature
from numba.extending import NativeValue, models, register_model, unbox
from numba.np.numpy_support import as_dtype

from ....errors import FdiffError, warn
from ....foreign_errors import not_signalled
from ....generated_text import Namespace
from ....named_tuples import NamedTuple
from . import intrinsics
from .call_layout import ArrayArgument, CallLayout, NumberArgument, Result, Tree
from .call_text import (
    NOT_IN_ORDER,
    OTHER_SHAPE,
    SHARED_OUT,
    OutArrays,
    call_text,
    names_of,
)
from .intrinsics import HeldObject, objects_of
from .pending_errors import putting_aside
from .records import RecordCaller

_numbers = count(1)


class Calls(NamedTuple):
    """The caller of records for one layout, and the Python functions that it falls back to.

    `on_miss` is given the arguments of a call and returns the address of its record. `on_failure`
    is given that, a status, and whether Python chose the record. It raises, or returns 0 for the
    next record, another number to try this one again.
    """

    layout: CallLayout
    caller: RecordCaller
    on_miss: Callable[[tuple[object, ...]], int]
    on_failure: Callable[[tuple[int, int, bool]], int]


class Callee(Protocol):
    """The protocol behind a function's type; with `writes_out`, ``out`` names arrays.

    It keeps what was `compiled` for it, and which function was `chosen` for a signature.
    """

    name: str
    writes_out: bool
    compiled: dict[object, Dispatcher]
    chosen: dict[object, Dispatcher]

    def calls(self, fits: Callable[[CallLayout], bool], shown: str) -> Calls:
        """The calls of the layout that `fits`; an error of fdiff if there is none."""
        ...


class FunctionType(types.Callable, types.Opaque):
    """The Numba type of one function of fdiff, which is the only one of its type.

    Numba never forgets a type, so that this one does not keep the function alive.
    """

    def __init__(self, callee: Callee) -> None:
        self._callee = weakref.ref(callee)
        super().__init__(f"{callee.name}#{next(_numbers)}")

    @property
    def callee(self) -> Callee:
        """The function; code that calls it keeps it alive."""
        callee = self._callee()
        assert callee is not None, "code that is compiled has what it calls"
        return callee

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Mapping[str, object]) -> Any:
        """The signature of a call; what it calls is compiled when this returns."""
        kinds = tuple(map(types.unliteral, args))
        named = {name: types.unliteral(kind) for name, kind in kws.items()}
        out = named.pop("out", None) if self.callee.writes_out else None
        dispatcher = self._dispatcher(kinds, named, out)
        every = named if out is None else {**named, "out": out}
        signature = dispatcher._numba_type_.get_call_type(context, kinds, every)
        self.callee.chosen[_key(signature)] = dispatcher
        return signature

    def get_call_signatures(self) -> tuple[list[Signature], bool]:
        """The signatures that are compiled."""
        every = [s for d in self.callee.compiled.values() for s in d.nopython_signatures]
        return every, True

    def get_impl_key(self, sig: Signature) -> object:
        """By what Numba finds the machine code of a call."""
        return self.callee.chosen[_key(sig)].get_overload(sig.args)

    def _dispatcher(self, kinds: tuple[object, ...], named: dict[str, object], out: object) -> Any:
        """The function that Numba compiles for such a call."""
        names = tuple(named)

        def fits(layout: CallLayout) -> bool:
            if len(kinds) + len(names) != len(layout.arguments) or {*names} != {*layout.names}:
                return False
            every = [*kinds, *(named[name] for name in layout.names)]
            pairs = zip(layout.arguments, every, strict=True)
            return all(_argument_fits(layout, tree, kind) for tree, kind in pairs)

        words = [*map(_spelled, kinds), *(f"{n}={_spelled(k)}" for n, k in named.items())]
        try:
            calls = self.callee.calls(fits, f"({', '.join(words)})")
        except FdiffError as error:  # in an error of Numba's own it shows the user's line
            raise TypingError(str(error)) from None
        arrays = None if out is None else _out_arrays(calls.layout, out, self.callee.name)
        plain = _contiguous(calls.layout, [*kinds, *(named[name] for name in calls.layout.names)])
        key = (calls.layout, plain, None if arrays is None else tuple(arrays.direct.items()))
        dispatcher = self.callee.compiled.get(key)
        if dispatcher is None:
            dispatcher = self.callee.compiled[key] = _compiled(calls, arrays, plain)
        return dispatcher


def _key(signature: Any) -> object:
    """The key of a call: its types, and the names of arguments given by keyword."""
    return signature.args, tuple(signature.pysig.parameters)


register_model(FunctionType)(models.OpaqueModel)


@unbox(FunctionType)
def _unboxed(_: object, __: object, c: Any) -> NativeValue:
    """A function given as an argument: its type says everything."""
    return NativeValue(c.context.get_dummy_value())


def _argument_fits(layout: CallLayout, tree: Tree, kind: object) -> bool:
    """Whether an argument of a type of Numba is one of the layout's."""
    if tree is None:
        return isinstance(kind, types.NoneType)
    if isinstance(tree, tuple):
        if not isinstance(kind, types.BaseTuple) or len(kind) != len(tree):
            return False
        return all(_argument_fits(layout, child, kind[k]) for k, child in enumerate(tree))  # type: ignore[index] - see `len`
    assert isinstance(tree, int), "a tree is of tuples, numbers and None"
    argument = layout.given[tree]
    if isinstance(argument, ArrayArgument):
        dtype = numba.from_dtype(argument.dtype)
        return isinstance(kind, types.Array) and (kind.ndim, kind.dtype) == (argument.rank, dtype)
    if isinstance(argument, NumberArgument):
        if argument.ints and isinstance(kind, types.Integer):
            return True
        return kind == numba.from_dtype(argument.dtype)
    return isinstance(kind, types.Boolean if argument.kind is bool else types.Integer)


def _spelled(kind: object) -> str:
    """A type of Numba, as layouts spell theirs."""
    if isinstance(kind, types.BaseTuple):
        return f"({', '.join(map(_spelled, cast('Iterable[object]', kind)))})"
    if isinstance(kind, types.Array):
        try:
            dtype = as_dtype(kind.dtype)
        except not_signalled(NotImplementedError):
            return str(kind)
        return str(ArrayArgument(dtype, kind.ndim, dtype))
    if isinstance(kind, types.Integer):
        return "int"
    return "bool" if isinstance(kind, types.Boolean) else str(kind)


def _out_arrays(layout: CallLayout, out: object, name: str) -> OutArrays:
    """The arrays to write to, by the type of what is given as ``out``."""
    arrays = OutArrays({}, {})

    def walk(tree: Tree, kind: Any, path: str) -> None:
        if isinstance(kind, types.NoneType):
            return
        if isinstance(tree, tuple):
            if not isinstance(kind, types.BaseTuple) or len(kind) != len(tree):
                raise TypingError(f"{name}: out is not built like the result.")
            for k, child in enumerate(cast("tuple[Tree, ...]", tree)):
                walk(child, cast("Sequence[object]", kind)[k], f"{path}[{k}]")
            return
        assert isinstance(tree, int), "a tree is of tuples, numbers and None"
        result = layout.made[tree]
        if not isinstance(result, Result) or result.scalar:
            raise TypingError(f"{name}: out holds something for a number of the result.")
        fits = isinstance(kind, types.Array) and kind.ndim == result.rank and kind.mutable
        if not fits or kind.dtype != numba.from_dtype(result.dtype):
            wanted = ArrayArgument(result.dtype, result.rank, result.dtype)
            raise TypingError(
                f"{name}: out holds {kind}, where the result is a writeable array {wanted}."
            )
        arrays.where[tree] = path
        arrays.direct[tree] = kind.layout == "C" and kind.aligned

    walk(layout.result, out, "out")
    return arrays


def _contiguous(layout: CallLayout, kinds: Sequence[object]) -> frozenset[int]:
    """The arguments that are arrays in C order by their types, and no part of a tuple."""
    pairs = zip(layout.arguments, kinds, strict=True)
    arrays = [(tree, kind) for tree, kind in pairs if isinstance(kind, types.Array)]
    trees = [tree for tree, kind in arrays if kind.layout == "C" and kind.aligned]
    return frozenset(cast("list[int]", trees))


def _compiled(calls: Calls, out: OutArrays | None, plain: frozenset[int]) -> Dispatcher:
    """The function of a layout, which Numba compiles when it is first called with such types."""
    text = call_text(calls.layout, out, plain)
    file = f"<fdiff call {next(_numbers)} of {calls.layout.name}>"
    space: Namespace = {
        "np": np, "njit": numba.njit, "order": NOT_IN_ORDER, "other_shape": OTHER_SHAPE,
        "shared_out": SHARED_OUT,
        **{name: getattr(intrinsics, name) for name in intrinsics.NAMES},
        **names_of(calls.layout),
    }  # fmt: skip
    space["caller"] = intrinsics.HeldObject(calls.caller)
    for name in ("on_miss", "on_failure"):
        space[name] = intrinsics.HeldObject(putting_aside(getattr(calls, name)))
    exec(compile(text, file, "exec"), space)
    return space["make"]()


# --- callers that Numba is to keep on disk --------------------------------------------------------


class _CallerCache(event.Listener):
    """Switches the cache of a function off whose code calls a kernel, and warns.

    Machine code with the addresses of records is good in this process alone. Numba would not keep
    it either, and says that it "uses dynamic globals". Its event of a compiled function comes just
    before it would write the file. (For `numba.cfunc` there is none, and its own words remain.)
    """

    def on_start(self, event: object) -> None:
        pass

    def on_end(self, event: Any) -> None:
        dispatcher, args = event.data["dispatcher"], tuple(event.data["args"])
        if isinstance(getattr(dispatcher, "_cache", None), NullCache | None):
            return
        compiled = dispatcher.overloads.get(args)  # there is none where compiling failed
        names = dict.fromkeys(_called_derivatives(compiled.library)) if compiled is not None else {}
        if not names:
            return
        dispatcher._cache = NullCache()
        code = dispatcher.py_func.__code__
        fact = f"Numba does not keep {dispatcher.py_func.__name__} on disk (cache=True): it calls"
        fact += f" {', '.join(names)}, whose kernels have addresses in this process."
        way = "Leave cache=True out there; fdiff keeps the kernels themselves on disk."
        warn(f"njit: {fact} {way}", NumbaWarning, (code.co_filename, code.co_firstlineno))


def _called_derivatives(library: Any) -> Iterator[str]:
    """The derivatives that machine code calls, itself or in functions that it was linked with."""
    for held in objects_of(library):
        if isinstance(held, HeldObject) and isinstance(held.value, RecordCaller):
            yield held.value.records.name
    for linked in library._linking_libraries:
        yield from _called_derivatives(linked)


event.register("numba:compile", _CallerCache())
