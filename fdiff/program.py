"""A function made ready: what it read, its variants, and the way from a call to a result.

A variant is one trace of the function for one signature of arguments (types of float arrays,
values of everything else). It is used again while what the function read from outside compares
equal; captured arrays are passed along by reference, so that a change of their values is seen.
"""

from __future__ import annotations

import gc
import warnings
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from .arguments import (
    NUMBERS,
    Argnums,
    Body,
    Function,
    as_input,
    called,
    check_leaf,
    differentiated,
    fixed,
    flat_key,
    is_direct,
    is_static,
    leaf_key,
    native,
    traceable,
)
from .capture import Reads
from .errors import (
    RetraceWarning,
    show_line,
    user_line,
)
from .tape import Tape
from .tiers import runner
from .trace import Recording, Trace, TracedArray, memory_layout, record
from .trace.eager import EagerTrace
from .transforms.simplify import simplify
from .tree import Spec, flatten, unflatten
from .watch import Watch, call_private, own_result, watched

VARIANTS = 128  # signatures remembered for one function
ALTERNATIVES = 8  # traces of one signature that differ in what was read or decided
RESTLESS = 32  # misses in a row after which no variant is looked for: `f` is traced at each call


@dataclass
class Variant:
    """One trace of a function, and what must hold for it to be used again.

    The inputs of `tape` are the traced leaves of the arguments, then the captured arrays; its
    outputs are the numeric leaves of the result. `wrt` are the positions of the differentiated
    inputs. `outs` holds, for each leaf of the result, None or the object it is every time;
    `numbers` the Python numbers among the numeric leaves, None for the others; `direct` tells
    that the arguments are the inputs as they stand (native arrays of at least one axis).
    `frozen`, `layouts` and `check` are those of the recording, `swapped` the positions of captured
    arrays in another byte order than the machine's. `eager` is the trace of a variant that is for
    one call. `plan` is what the operator made of
    it.
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
    check: Tape | None = None
    layouts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    swapped: tuple[int, ...] = ()
    eager: EagerTrace | None = None
    plan: object = None

    def __post_init__(self) -> None:
        # The captured arrays as they are now; None if something else that was read has changed.
        self.refresh = self.inner[0][1].refresh if len(self.inner) == 1 else self._refresh_all
        self.conditional = bool(self.frozen or self.layouts or self.check)
        self._checks = None if self.check is None else runner(self.check)

    def _refresh_all(self, f: Callable[..., object]) -> list[np.ndarray] | None:
        found = [reads.refresh(f if k == 0 else g) for k, (g, reads) in enumerate(self.inner)]
        if any(part is None for part in found):
            return None
        return [found[p][j] for p, j in self.order]  # type: ignore[index]

    def holds(self, arrays: Sequence[np.ndarray], *, sure: bool) -> bool:
        """Whether what Python saw and decided during the trace would be the same now.

        The guards are left to the plan where it asks for them, unless one has to be `sure`.
        """
        for k, seen in self.frozen:
            if np.asarray(arrays[k]).tobytes() != seen:
                return False
        for k, layout in self.layouts:
            if memory_layout(arrays[k]) != layout:
                return False
        return (not sure and self.plan.guards) or self.decides(arrays)  # type: ignore[attr-defined]

    def decides(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether every guard holds."""
        if self._checks is None:
            return True
        try:
            return bool(self._checks(arrays)[0])
        except (ArithmeticError, IndexError, ValueError):  # what is valid only if guards hold
            return False


class Program:
    """Every variant of one function under one operator.

    `derive` turns a new variant into the operator's plan; `name` is the public call and `argnums`
    tells which arguments are differentiated (None: none). `body` is what is run on traced arguments
    (the function itself where left out).
    """

    __slots__ = (
        "argnums",
        "body",
        "derive",
        "eager",
        "misses",
        "name",
        "plans",
        "steady",
        "variants",
    )

    def __init__(
        self,
        name: str,
        argnums: Argnums,
        derive: Callable[[Variant], object],
        body: Body | None = None,
        *,
        eager: bool = False,
    ) -> None:
        self.name = name
        self.eager = eager
        self.body = body or call_private
        self.argnums = argnums
        self.derive = derive
        self.variants: OrderedDict[object, list[Variant]] = OrderedDict()
        self.plans: OrderedDict[object, object] = OrderedDict()
        self.misses: dict[object, int] = {}
        self.steady = False  # whether the last call took the way of the one before

    def find(
        self,
        f: Function,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        *,
        sure: bool = False,
    ) -> tuple[Variant, list[np.ndarray]]:
        """The variant that holds for these arguments, and the inputs of its tape.

        Unless it has to be `sure`, the guards of the latest are left to its plan, if that asks.
        """
        leaves: Sequence[object] = args
        key: object = None if kwargs else flat_key(args)
        if key is None:
            leaves, spec = flatten((args, kwargs))
            key = (spec, *[leaf_key(leaf) for leaf in leaves])
        known = self.variants.get(key, ())
        if known and self.misses.get(key, 0) >= RESTLESS:
            if self.eager:
                return self.trace(f, args, kwargs, eager=True)  # type: ignore[return-value]
            known = ()
        for k, variant in enumerate(known):
            captured = variant.refresh(f)
            if captured is None:
                continue
            arrays = list(leaves) if variant.direct else [native(leaves[k]) for k in variant.traced]
            arrays += captured
            if not variant.conditional or variant.holds(
                arrays, sure=sure or k > 0 or not self.steady
            ):  # type: ignore[arg-type]
                if k:  # the latest first
                    self._put_first(key, variant)
                self.steady = k == 0
                return variant, arrays  # type: ignore[return-value]
        self.steady = False
        variant, inputs = self.trace(f, args, kwargs)
        if variant.cacheable:
            if variant.check is not None:
                self.misses[key] = self.misses.get(key, 0) + 1
            if self.misses.get(key, 0) >= RESTLESS:
                return variant, inputs  # type: ignore[return-value]
            kept = self.variants.setdefault(key, [])
            kept.insert(0, variant)
            del kept[ALTERNATIVES:]
            if len(self.variants) > VARIANTS:
                self.variants.popitem(last=False)
        return variant, inputs  # type: ignore[return-value]

    def _put_first(self, key: object, variant: Variant) -> None:
        """Of several traces of one signature, the one that held is asked first next time."""
        self.misses.pop(key, None)
        rest = [other for other in self.variants.get(key, ()) if other is not variant]
        self.variants[key] = [variant, *rest[: ALTERNATIVES - 1]]

    def trace(
        self,
        f: Function,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        *,
        eager: bool = False,
    ) -> tuple[Variant, list[object]]:
        """A new variant with its plan, and the inputs of its tape."""
        with collector_paused():
            return self._trace(f, args, kwargs, eager=eager)

    def _trace(
        self, f: Function, args: tuple[object, ...], kwargs: dict[str, object], *, eager: bool
    ) -> tuple[Variant, list[object]]:
        call = called(self.name, f)
        leaves, spec = flatten((args, kwargs))
        order, in_spec = differentiated(args, self.argnums, call)
        variant, extra = trace_variant(
            lambda *a, **k: self.body(f, a, k), f, call, leaves, spec, order, in_spec, eager=eager
        )
        variant.plan = self.derive(variant) if eager else self._plan(variant)
        inputs = [
            leaves[k] if isinstance(leaves[k], TracedArray) else native(leaves[k])
            for k in variant.traced
        ]
        return variant, [*inputs, *extra]

    def _plan(self, variant: Variant) -> object:
        """The plan of an equal trace, or a new one: deriving costs more than tracing."""
        if any(variant.outs):
            return self.derive(variant)
        key = (
            variant.tape,
            variant.wrt,
            variant.in_spec,
            variant.out_spec,
            variant.scalars,
            variant.input_scalars,
            variant.check,
            *((type(n), repr(n)) for n in variant.numbers),
        )
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self.derive(variant)
            if len(self.plans) > VARIANTS:
                self.plans.popitem(last=False)
        return plan


@contextmanager
def collector_paused() -> Generator[None]:
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


def trace_variant(
    body: Function,
    f: Function,
    call: str,
    leaves: Sequence[object],
    spec: Spec,
    order: Sequence[int],
    in_spec: Spec,
    *,
    eager: bool = False,
) -> tuple[Variant, tuple[object, ...]]:
    """Run `body` on traced arguments once; the variant, and what its further inputs stand for."""
    for k, leaf in enumerate(leaves):
        check_leaf(leaf, call, spec, k, differentiate=k in order)
    traced = tuple(k for k, leaf in enumerate(leaves) if not is_static(leaf))
    inputs = [as_input(leaves[k], differentiate=k in order) for k in traced]
    outs: list[object] = []
    out_spec = [Spec(None)]
    inner: list[tuple[Function, Reads]] = []

    def run(trace: Trace, arguments: list[TracedArray]) -> list[object]:
        given = list(leaves)
        for k, stand_in in zip(traced, arguments, strict=True):
            given[k] = stand_in
        args, kwargs = unflatten(spec, given)  # type: ignore[misc]
        with watched(trace, inner) as watch:
            found, out_spec[0] = flatten(own_result(body(*args, **kwargs), watch))
        outs.extend(found)
        return [out for out in found if traceable(out)]

    trace = EagerTrace(call) if eager else None
    recording = record(run, inputs, call, trace)
    watch = recording.watch
    everything = [*(leaves[k] for k in traced), *recording.extra]
    return Variant(
        call=call,
        wrt=tuple(traced.index(k) for k in order),
        in_spec=in_spec,
        out_spec=out_spec[0],
        traced=traced,
        inner=tuple(inner),
        order=tuple(watch.order) if isinstance(watch, Watch) else (),
        cacheable=not eager and _cacheable(f, call, leaves, outs, inner, shown=recording.shown),
        input_scalars=tuple(i.scalar or i.weak for i in inputs),
        direct=len(traced) == len(leaves) and all(map(is_direct, leaves)),
        eager=trace,
        **_recorded(recording, outs, everything, len(traced)),
    ), recording.extra


def _recorded(
    recording: Recording, outs: Sequence[object], everything: Sequence[object], given: int
) -> dict[str, Any]:
    """What a variant takes from the recording; `given` of all inputs are leaves of arguments."""
    return {
        "tape": recording.tape,
        "scalars": recording.scalars,
        "outs": tuple(None if traceable(out) else (out,) for out in outs),
        "numbers": tuple(out if type(out) in NUMBERS else None for out in outs if traceable(out)),
        "frozen": tuple((k, np.asarray(everything[k]).tobytes()) for k in recording.frozen),
        "check": None if recording.check is None else simplify(recording.check),
        "layouts": recording.layouts,
        "swapped": tuple(k for k, a in enumerate(everything) if k >= given and _swapped(a)),
    }


def _swapped(value: object) -> bool:
    return isinstance(value, np.ndarray) and not value.dtype.isnative


def _cacheable(
    f: Function,
    call: str,
    leaves: Sequence[object],
    outs: Sequence[object],
    inner: Sequence[tuple[object, Reads]],
    *,
    shown: bool,
) -> bool:
    """Whether a later call may use this trace; says so once where it may not."""
    if any(isinstance(leaf, TracedArray) for leaf in leaves) or any(
        reads.traced for _, reads in inner
    ):
        return False
    reasons = [
        f"an argument of type {type(leaf).__name__}"
        for leaf in leaves
        if is_static(leaf) and not fixed(leaf)
    ]
    reasons += [
        f"a result of type {type(out).__name__}"
        for out in outs
        if not (traceable(out) or fixed(out) or isinstance(out, type))
    ]
    reasons += [reason for _, reads in inner for reason in reads.opaque]
    reasons += ["text made of a traced value, or printed,"] if shown else []
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


_warned: set[object] = set()
_programs: OrderedDict[object, Program] = OrderedDict()


def program_of(
    f: Function,
    name: str,
    argnums: Argnums,
    options: tuple[object, ...],
    derive: Callable[[Variant], object],
    body: Body | None = None,
    *,
    eager: bool = False,
) -> Program:
    """The program of `f` under one operator: shared by all functions of the same code.

    `options` are the operator's settings, which `derive` knows: together with the name and
    `argnums` they identify the operator.
    """
    key = (f.__code__ if type(f) is FunctionType else f, name, argnums, options)
    try:
        found = _programs.get(key)
    except TypeError:  # an unhashable callable has a program of its own
        return Program(name, argnums, derive, body, eager=eager)
    if found is None:
        found = _programs[key] = Program(name, argnums, derive, body, eager=eager)
        if len(_programs) > 4 * VARIANTS:
            _programs.popitem(last=False)
    return found


def forget() -> None:
    """Drop every traced program."""
    _programs.clear()
