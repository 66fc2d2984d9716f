"""A function made ready: what it read, its variants, and the way from a call to a result.

A variant is one trace of the function for one signature of arguments (types of float arrays,
values of everything else). It is used again while what the function read from outside compares
equal; captured arrays are passed along by reference, so that a change of their values is seen.
"""

from __future__ import annotations

import gc
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType

import numpy as np

from .arraytype import type_of
from .capture import Capture, Reads
from .capture.kinds import leaf_key as value_key
from .capture.standins import Items
from .errors import (
    DtypeError,
    InputError,
    RetraceWarning,
    TraceError,
    line_in,
    message,
    show_line,
    user_line,
)
from .ops.creation import ANSWERS
from .tape import Tape
from .trace import Input, Trace, TracedArray, record, root_trace
from .tree import Spec, flatten, map_leaves, paths, unflatten

VARIANTS = 128  # signatures remembered for one function
ALTERNATIVES = 8  # traces of one signature that differ in what was read
Argnums = int | tuple[int, ...] | None
Function = Callable[..., object]
Body = Callable[[Function, tuple[object, ...], dict[str, object]], object]
STATIC = (bool, int, str, bytes, type(None))
NUMBERS = (bool, int, float, complex)
LEAVE_OUT = "Leave it out of argnums, or pass it as an argument of its own."
NUMERIC = "biufc"  # kinds of dtypes that are traced; strings, dates, records and objects are not


class Watch:
    """What the functions of one outermost trace read: one `Capture` each, and who met which array."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.parts: list[tuple[Callable[..., object], Capture]] = []
        self.order: list[tuple[int, int]] = []

    def private(self, f: Callable[..., object]) -> Callable[..., object]:
        """What to run in place of `f`; its reads are watched from now on."""
        part, count = len(self.parts), 0

        def handle(array: np.ndarray) -> TracedArray:
            nonlocal count
            self.order.append((part, count))
            count += 1
            return self.trace.capture(array)

        capture = Capture(handle, ANSWERS)
        self.parts.append((f, capture))
        return capture.private(f)

    def original(self, value: object) -> object:
        """The user's own object, where `value` stands in for one."""
        for _, capture in self.parts:
            if (found := capture.original(value)) is not value:
                return found
        return value

    def finish(self) -> tuple[tuple[Callable[..., object], Reads], ...]:
        """What was read; what was written goes to the user's own variables."""
        return tuple((f, capture.finish()) for f, capture in self.parts)


@dataclass
class Variant:
    """One trace of a function, and what must hold for it to be used again.

    The inputs of `tape` are the traced leaves of the arguments, then the captured arrays; its
    outputs are the numeric leaves of the result. `wrt` are the positions of the differentiated
    inputs. `outs` holds, for each leaf of the result, None or the object it is every time; `numbers`
    the Python numbers among the numeric leaves, None for the others; `direct` tells that the
    arguments are the inputs as they stand (native arrays of at least one axis).
    `plan` is what the operator made of it.
    """

    call: str
    tape: Tape
    wrt: tuple[int, ...]
    in_spec: Spec
    out_spec: Spec
    outs: tuple[tuple[object] | None, ...]
    numbers: tuple[object, ...]
    scalars: tuple[bool, ...]
    traced: tuple[int, ...]
    inner: tuple[tuple[Callable[..., object], Reads], ...]
    order: tuple[tuple[int, int], ...]
    frozen: tuple[tuple[int, bytes], ...]
    cacheable: bool
    input_scalars: tuple[bool, ...]
    direct: bool
    plan: object = None

    def __post_init__(self) -> None:
        # The captured arrays as they are now; None if something else that was read has changed.
        self.refresh = self.inner[0][1].refresh if len(self.inner) == 1 else self._refresh_all

    def _refresh_all(self, f: Callable[..., object]) -> list[np.ndarray] | None:
        found = [reads.refresh(f if k == 0 else g) for k, (g, reads) in enumerate(self.inner)]
        if any(part is None for part in found):
            return None
        return [found[p][j] for p, j in self.order]  # type: ignore[index]

    def holds(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether the values that Python looked at during the trace are the same now."""
        return all(np.asarray(arrays[k]).tobytes() == seen for k, seen in self.frozen)


def leaf_key(leaf: object) -> object:
    """What of an argument a variant depends on: the type of arrays and floats, the value of others."""
    kind = type(leaf)
    if kind is np.ndarray:
        if leaf.dtype.kind in NUMERIC:  # type: ignore[attr-defined]
            return leaf.dtype, leaf.shape  # type: ignore[attr-defined]
        return id(leaf) if leaf.dtype.hasobject else (leaf.dtype, leaf.shape, leaf.tobytes())  # type: ignore[attr-defined]
    if kind is float:
        return float
    if kind in STATIC:
        return kind, leaf
    if isinstance(leaf, np.floating):
        return "scalar", leaf.dtype
    if isinstance(leaf, np.generic):
        return "scalar", leaf.dtype, leaf.tobytes()
    if isinstance(leaf, np.ndarray):
        return kind, leaf.dtype, leaf.shape
    return kind, id(leaf)


def flat_key(args: tuple[object, ...]) -> tuple[object, ...] | None:
    """The key of arguments that are leaves themselves, or None: what most calls need."""
    key: list[object] = []
    for arg in args:
        kind = arg.__class__
        if kind is np.ndarray and arg.dtype.kind in NUMERIC:  # type: ignore[attr-defined]
            key.append((arg.dtype, arg.shape))  # type: ignore[attr-defined]
        elif kind is float:
            key.append(float)
        elif kind in STATIC and arg is not None:  # None is no leaf
            key.append((kind, arg))
        else:
            return None
    return tuple(key)


def is_static(leaf: object) -> bool:
    """Whether a leaf is handed to the function as it is."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind not in NUMERIC
    return not isinstance(leaf, (float, np.floating, TracedArray))


class Program:
    """Every variant of one function under one operator.

    `derive` turns a new variant into the operator's plan; `name` is the public call and `argnums`
    tells which arguments are differentiated (None: none). `body` is what is run on traced arguments
    (the function itself where left out).
    """

    __slots__ = ("argnums", "body", "derive", "name", "plans", "variants")

    def __init__(self, name: str, argnums: Argnums, derive: Callable[[Variant], object], body: Body | None = None) -> None:
        self.name = name
        self.body = body or call_private
        self.argnums = argnums
        self.derive = derive
        self.variants: OrderedDict[object, list[Variant]] = OrderedDict()
        self.plans: OrderedDict[object, object] = OrderedDict()

    def find(self, f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Variant, list[np.ndarray]]:
        """The variant that holds for these arguments, and the inputs of its tape."""
        leaves: Sequence[object] = args
        key: object = None if kwargs else flat_key(args)
        if key is None:
            leaves, spec = flatten((args, kwargs))
            key = (spec, *[leaf_key(leaf) for leaf in leaves])
        for variant in self.variants.get(key, ()):
            captured = variant.refresh(f)
            if captured is None:
                continue
            arrays = list(leaves) if variant.direct else [_native(leaves[k]) for k in variant.traced]
            arrays += captured
            if not variant.frozen or variant.holds(arrays):  # type: ignore[arg-type]
                return variant, arrays  # type: ignore[return-value]
        variant, inputs = self.trace(f, args, kwargs)
        if variant.cacheable:
            known = self.variants.setdefault(key, [])
            known.insert(0, variant)
            del known[ALTERNATIVES:]
            if len(self.variants) > VARIANTS:
                self.variants.popitem(last=False)
        return variant, inputs  # type: ignore[return-value]

    def trace(self, f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Variant, list[object]]:
        """A new variant with its plan, and the inputs of its tape."""
        with collector_paused():
            return self._trace(f, args, kwargs)

    def _trace(self, f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Variant, list[object]]:
        call = called(self.name, f)
        leaves, spec = flatten((args, kwargs))
        order, in_spec = differentiated(args, self.argnums, call)
        variant, extra = trace_variant(lambda *a, **k: self.body(f, a, k), f, call, leaves, spec, order, in_spec)
        variant.plan = self._plan(variant)
        inputs = [leaves[k] if isinstance(leaves[k], TracedArray) else _native(leaves[k]) for k in variant.traced]
        return variant, [*inputs, *extra]

    def _plan(self, variant: Variant) -> object:
        """The plan of an equal trace made before, or a new one: deriving costs more than tracing."""
        if any(variant.outs):
            return self.derive(variant)
        key = (
            variant.tape, variant.wrt, variant.in_spec, variant.out_spec, variant.scalars, variant.input_scalars,
            *((type(n), repr(n)) for n in variant.numbers),
        )  # fmt: skip
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self.derive(variant)
            if len(self.plans) > VARIANTS:
                self.plans.popitem(last=False)
        return plan


def called(name: str, f: object) -> str:
    """The public call as the user typed it, for messages: ``jacobian(model)``."""
    return f"{name}({getattr(f, '__name__', type(f).__name__)})"


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cyclic garbage collection meanwhile: a long trace makes millions of objects that live.

    Measured on a tape of 172,000 nodes: 5.8 s instead of 11.9.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _is_direct(leaf: object) -> bool:
    """Whether `leaf` goes to the tiers as it stands."""
    return isinstance(leaf, np.ndarray) and type(leaf) is np.ndarray and leaf.ndim > 0 and leaf.dtype.isnative


def _native(leaf: object) -> np.ndarray:
    """An argument as the tiers take it: native byte order; without axes, a scalar."""
    if isinstance(leaf, np.ndarray):
        array = np.asarray(leaf)  # a plain array of a memmap
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return array if array.ndim else array[()]
    return leaf if isinstance(leaf, (float, np.generic)) else np.asarray(leaf)  # type: ignore[return-value]


def differentiated(args: tuple[object, ...], argnums: Argnums, call: str) -> tuple[list[int], Spec]:
    """Which leaves of the arguments are differentiated, in the order of `argnums`; their spec."""
    if argnums is None:
        return [], Spec(tuple)
    counts, specs = [], []
    for arg in args:
        leaves, spec = flatten(arg)
        counts.append(len(leaves))
        specs.append(spec)
    places = [position(n, len(args), call) for n in ((argnums,) if isinstance(argnums, int) else argnums)]
    if len(set(places)) < len(places):
        fact = f"argnums={argnums} names one of {len(args)} arguments twice."
        raise InputError(message(call, fact, "", user_line()))
    order = [sum(counts[:p]) + k for p in places for k in range(counts[p])]
    spec = specs[places[0]] if isinstance(argnums, int) else Spec(tuple, (), tuple(specs[p] for p in places))
    return order, spec


def position(argnum: int, count: int, call: str) -> int:
    """`argnum` counted from the front, or an error that says how many arguments there are."""
    if not -count <= argnum < count:
        needed = argnum + 1 if argnum >= 0 else -argnum
        raise InputError(
            message(call, f"argnums={argnum} requires at least {needed} positional arguments, but got {count}.", "", user_line())
        )
    return argnum % count


def trace_variant(
    body: Function, f: Function, call: str, leaves: Sequence[object], spec: Spec, order: Sequence[int], in_spec: Spec
) -> tuple[Variant, tuple[object, ...]]:
    """Run `body` on traced arguments once; the variant, and what its further inputs stand for."""
    for k, leaf in enumerate(leaves):
        _check_leaf(leaf, call, spec, k, differentiate=k in order)
    traced = tuple(k for k, leaf in enumerate(leaves) if not is_static(leaf))
    inputs = [_input(leaves[k], differentiate=k in order) for k in traced]
    outs: list[object] = []
    out_spec = [Spec(None)]
    inner: list[tuple[Function, Reads]] = []

    def run(trace: Trace, arguments: list[TracedArray]) -> list[object]:
        given = list(leaves)
        for k, stand_in in zip(traced, arguments, strict=True):
            given[k] = stand_in
        args, kwargs = unflatten(spec, given)  # type: ignore[misc]
        with watched(trace, inner) as watch:
            found, out_spec[0] = flatten(_result(body(*args, **kwargs), watch))
        outs.extend(found)
        return [out for out in found if traceable(out)]

    recording = record(run, inputs, call)
    watch = recording.watch
    everything = [*(leaves[k] for k in traced), *recording.extra]
    variant = Variant(
        call=call,
        tape=recording.tape,
        wrt=tuple(traced.index(k) for k in order),
        in_spec=in_spec,
        out_spec=out_spec[0],
        outs=tuple(None if traceable(out) else (out,) for out in outs),
        numbers=tuple(out if type(out) in NUMBERS else None for out in outs if traceable(out)),
        scalars=recording.scalars,
        traced=traced,
        inner=tuple(inner),
        order=tuple(watch.order) if isinstance(watch, Watch) else (),
        frozen=tuple((k, np.asarray(everything[k]).tobytes()) for k in recording.frozen),
        cacheable=_cacheable(f, call, leaves, outs, inner),
        input_scalars=tuple(i.scalar or i.weak for i in inputs),
        direct=len(traced) == len(leaves) and all(map(_is_direct, leaves)),
    )
    return variant, recording.extra


@contextmanager
def watched(trace: Trace, inner: list[tuple[Function, Reads]]) -> Iterator[Watch]:
    """What the function reads is watched by the outermost trace, and put into its `inner`."""
    root = root_trace()
    if root is trace:
        root.watch = Watch(trace)
    watch: Watch = root.watch  # type: ignore[assignment]
    try:
        yield watch
    except ValueError as error:
        if isinstance(error.__cause__, TraceError):  # NumPy's words for a refused __float__
            fact = "a traced value was stored into an array of numbers, which would drop its derivative."
            way = "Build the array from its entries: numpy.array([...]), numpy.stack or numpy.where."
            where = line_in(error.__traceback__)
            raise TraceError(message(trace.call, fact, way, where)).with_traceback(error.__traceback__) from None
        raise
    finally:
        if root is trace:
            inner.extend(watch.finish())


def _result(tree: object, watch: Watch) -> object:
    """What the function returned, with the user's own objects in place of stand-ins."""

    def own(leaf: object) -> object:
        if isinstance(leaf, Items):
            return map_leaves(own, leaf.copy())
        return leaf if traceable(leaf) else watch.original(leaf)

    return map_leaves(own, tree)


def call_private(f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run a private copy of `f`."""
    return private(f)(*args, **kwargs)


def private(f: Callable[..., object]) -> Callable[..., object]:
    """`f` as it is run inside the trace under way: a private copy whose reads are watched."""
    if isinstance(f, FunctionType) and type(f.__globals__) is not dict:
        return f  # a private copy already: made by the trace around this one
    watch = root_trace().watch
    return watch.private(f) if isinstance(watch, Watch) else f


def traceable(out: object) -> bool:
    """Whether `out` is a number or an array of numbers."""
    if isinstance(out, (np.ndarray, np.generic)):
        return out.dtype.kind in NUMERIC or _holds_traced(out)
    return isinstance(out, (TracedArray, *NUMBERS))


def _holds_traced(out: np.ndarray | np.generic) -> bool:
    return isinstance(out, np.ndarray) and any(isinstance(e, TracedArray) for e in out.flat)


def _input(leaf: object, *, differentiate: bool) -> Input:
    if isinstance(leaf, TracedArray):
        return Input(leaf.type, leaf.scalar, leaf.weak)
    array = np.asarray(leaf)
    value = None if differentiate else array
    return Input(type_of(array), isinstance(leaf, (float, np.generic)), type(leaf) is float, value)


def _check_leaf(leaf: object, call: str, spec: Spec, k: int, *, differentiate: bool) -> None:
    """Refuse what cannot be differentiated, before the function runs."""
    if isinstance(leaf, TracedArray):
        return
    where = user_line()
    if isinstance(leaf, np.ndarray) and type(leaf) is not np.ndarray and not isinstance(leaf, np.memmap):
        way = "Pass a plain array: numpy.asarray(x), or x.filled(...)."
        raise InputError(message(call, f"arrays of type {type(leaf).__name__} are not supported.", way, where))
    if not differentiate:
        return
    if not isinstance(leaf, (np.ndarray, np.generic, int, float, complex)):
        fact = f"cannot differentiate with respect to a value of type {type(leaf).__name__}"
        raise InputError(message(call, f"{fact}{_place(spec, k)}.", LEAVE_OUT, where))
    dtype = np.asarray(leaf).dtype
    if dtype.kind == "c":
        raise DtypeError(
            message(call, f"complex inputs ({dtype}{_place(spec, k)}) are not supported yet.", "Pass real and imaginary parts as two real arrays.", where)
        )
    if dtype.kind != "f":
        fact = f"only floating-point inputs can be differentiated, not {dtype}{_place(spec, k)}."
        way = "Convert it with x.astype(float), or leave it out of argnums."
        raise DtypeError(message(call, fact, LEAVE_OUT if dtype.kind not in NUMERIC else way, where))


def argument(spec: Spec, k: int) -> str:
    """What leaf `k` of ``(args, kwargs)`` is called: ``argument 0['rate']``, ``argument 'scale'``."""
    head, _, rest = paths(spec)[k][len("[0][") :].partition("]")
    return f"argument {head}{rest}"


def _place(spec: Spec, k: int) -> str:
    """Where leaf `k` stands, if it is not an argument itself."""
    name = argument(spec, k)
    return f" ({name})" if name.endswith("]") or "." in name else ""


def _cacheable(
    f: Function, call: str, leaves: Sequence[object], outs: Sequence[object], inner: Sequence[tuple[object, Reads]]
) -> bool:
    """Whether a later call may use this trace; says so once where it may not."""
    if any(isinstance(leaf, TracedArray) for leaf in leaves) or any(reads.traced for _, reads in inner):
        return False
    reasons = [f"an argument of type {type(leaf).__name__}" for leaf in leaves if is_static(leaf) and not _fixed(leaf)]
    reasons += [f"a result of type {type(out).__name__}" for out in outs if not (traceable(out) or _fixed(out) or isinstance(out, type))]
    reasons += [reason for _, reads in inner for reason in reads.opaque]
    if not reasons:
        return True
    code = getattr(f, "__code__", f)
    if code not in _warned:
        _warned.add(code)
        warnings.warn(
            f"{call}: traced again at each call, because {reasons[0]} cannot be compared."
            " Results are right; pass the data as an argument to make calls faster."
            f"{show_line(user_line())}",
            RetraceWarning,
            stacklevel=2,
        )
    return False


def _fixed(leaf: object) -> bool:
    """Whether an object that is no array of numbers is compared by value, or cannot change."""
    if isinstance(leaf, np.ndarray):
        return not leaf.dtype.hasobject
    return isinstance(leaf, (*STATIC, np.generic)) or value_key(leaf) is not None


_warned: set[object] = set()
_programs: OrderedDict[object, Program] = OrderedDict()


def program_of(
    f: Function, name: str, argnums: Argnums, options: tuple[object, ...], derive: Callable[[Variant], object],
    body: Body | None = None,
) -> Program:
    """The program of `f` under one operator: shared by all functions of the same code.

    `options` are the operator's settings, which `derive` knows: together with the name and
    `argnums` they identify the operator.
    """
    key = (f.__code__ if type(f) is FunctionType else f, name, argnums, options)
    try:
        found = _programs.get(key)
    except TypeError:  # an unhashable callable has a program of its own
        return Program(name, argnums, derive, body)
    if found is None:
        found = _programs[key] = Program(name, argnums, derive, body)
        if len(_programs) > 4 * VARIANTS:
            _programs.popitem(last=False)
    return found


def forget() -> None:
    """Drop every traced program."""
    _programs.clear()
