"""A sum over partitions inside of a function that is traced: one operation, with derivatives.

Each derivative and each batch of such an operation is one again: the sum of what an operator makes
of the function of a partition. So each costs one pass over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import fdiff.intact_numpy as np

from ..arraytype import ArrayType, type_of
from ..dispatch.program import OwnsPrograms
from ..errors import UNNAMED, InputError, failure
from ..functional.gradients import value_and_grad
from ..functional.products import jvp, vjp
from ..functional.ruled_call import is_active
from ..functional.vectorized_map import vmap
from ..ops.shaping import scalar_if_0d, traced
from ..primitive import ZERO, Primitive
from ..trace import TracedArray, apply_many, private, tracing
from ..trace.handler_arguments import resolve
from ..trace.trace_stack import suspended
from ..tracebacks import name_of
from ..tree import Spec, flatten, unflatten

Function = Callable[..., Any]
Places = tuple[int, ...]


class Total(Protocol):
    """What is asked of a sum (`sums.SumOver`): its function, its values, the same of another."""

    f: Function

    def of(self, f: Function) -> Total: ...
    def total(self, args: Any, kwargs: dict[str, Any], *, first: bool = False) -> Any: ...


class Flat(OwnsPrograms):
    """A function of the numeric leaves of its parameters, then of the arrays of a partition.

    It returns a tuple of the leaves of the result. `leaves` has the parameters that are no numbers,
    at the places that are not among `places`.
    """

    __fdiff__ = "sum_over"

    def __init__(self, f: Function, spec: Spec, leaves: Sequence[object], places: Places) -> None:
        self.f, self.spec, self.leaves, self.places = f, spec, leaves, places
        self.count = len(places)
        self.programs = {}
        self.__name__ = name_of(f)

    def __reduce__(self) -> tuple[object, ...]:
        return Flat, (self.f, self.spec, self.leaves, self.places)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        leaves, count = [*self.leaves], self.count
        for k, leaf in zip(self.places, args[:count], strict=True):
            leaves[k] = leaf
        params, named = unflatten(self.spec, leaves)  # type: ignore[misc] - as it was taken apart
        f = private(self.f) if tracing() else self.f
        return tuple(flatten(f(*params, *args[count:], **named))[0])


class Pick(OwnsPrograms):
    """Some of what a function returns, as a tuple."""

    __fdiff__ = "sum_over"

    def __init__(self, f: Function, results: Places) -> None:
        self.f, self.results, self.programs = f, results, {}
        self.__name__ = name_of(f)

    def __call__(self, *args: Any) -> Any:
        outputs = self.f(*args)
        return tuple([outputs[k] for k in self.results])


class First(Pick):
    """The first of what a function returns."""

    def __call__(self, *args: Any) -> Any:
        return self.f(*args)[0]


class OperatorTerm(OwnsPrograms):
    """An operator of a `Flat` function or another term: what is added for each partition.

    It takes `count` operands, then the arrays of a partition, and returns a tuple. `places` are the
    operands that move, `results` those of the inner function that count.
    """

    __fdiff__ = "sum_over"
    fixed_tier = True

    def __init__(
        self, operator: str, inner: Flat | OperatorTerm, count: int, places: Places, results: Places
    ) -> None:
        self.operator, self.inner, self.count = operator, inner, count
        self.places, self.results = places, results
        self.programs = {}
        self.__name__ = f"{operator}({name_of(inner)})"
        self._prepared: dict[int, Function] = {}  # by the number of arrays in a partition

    def __reduce__(self) -> tuple[object, ...]:
        return OperatorTerm, (self.operator, self.inner, self.count, self.places, self.results)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        operands, data = args[: self.count], args[self.count :]
        prepared = self._prepared.get(len(data))
        if prepared is None:
            prepared = self._prepared[len(data)] = self._prepare(len(data))
        if self.operator == "vmap":
            return prepared(*args)
        if self.operator == "value_and_grad":
            value, slopes = prepared(*args)
            return (value, *slopes)
        plain = self.inner.count
        point = tuple([operands[k] for k in self.places])
        others = [operands[k] for k in range(plain) if k not in self.places]
        return prepared(point, operands[plain:], *others, *data)[1]

    def _prepare(self, arrays: int) -> Function:
        if self.operator == "vmap":
            axes = [0 if k in self.places else None for k in range(self.count)]
            return vmap(self.inner, in_axes=(*axes, *[None] * arrays))
        if self.operator == "value_and_grad":
            return value_and_grad(First(self.inner, self.results), argnums=self.places)
        product = jvp if self.operator == "jvp" else vjp
        return product(Pick(self.inner, self.results), argnums=self.places)


# ------------------------------------------------------------------------------------ the operation


class Summand:
    """The parameter of a node: what is summed over which partitions, and the types of the sums.

    Derivatives of equal nodes are equal: they are made once.
    """

    transient = True  # the user may drop it: nothing is kept of it between traces

    def __init__(
        self, total: Total, function: Flat | OperatorTerm, types: tuple[ArrayType, ...]
    ) -> None:
        self.function, self.types = function, types
        self.total = total.of(function)
        self._derived: dict[object, Summand] = {}

    def __repr__(self) -> str:
        return self.function.__name__

    def derived(
        self, operator: str, places: Places, results: Places, types: Sequence[ArrayType], more: int
    ) -> Summand:
        """The sum of what an operator makes of the function, which has so many operands more."""
        key = operator, places, results, *types
        if key not in self._derived:
            count = self.function.count + more
            term = OperatorTerm(operator, self.function, count, places, results)
            self._derived[key] = Summand(self.total, term, tuple(types))
        return self._derived[key]

    @property
    def slopes(self) -> Places:
        """Of a value and its gradient: the operands that this is for."""
        f = self.function
        return f.places if isinstance(f, OperatorTerm) and f.operator == "value_and_grad" else ()

    def floating(self) -> Places:
        """The results that have derivatives."""
        return tuple([k for k, t in enumerate(self.types) if t.floating])


def _evaluate(*args: np.ndarray, term: Summand) -> object:
    with suspended():  # a branch may need the value while a trace is under way
        totals = term.total.total([np.asarray(a)[()] for a in args], {})
    outs = [np.asarray(x) for x in totals]
    types = tuple([type_of(x) for x in outs])
    if types != term.types:
        was, now = (", ".join(map(str, each)) for each in (term.types, types))
        fact = (
            f"the sum gave results of types {now}; they were {was} for the first partition alone."
        )
        raise failure(InputError, UNNAMED, fact, "Return results of the same types always.")
    return outs[0][()] if len(outs) == 1 else tuple([x[()] for x in outs])


def _jvp(dots: Sequence[Any], args: Sequence[object], outs: Any, *, term: Summand) -> list[object]:
    """One pass for all tangents; for that of a value whose gradient is there, none."""
    pushed = _pushed(dots, args, term)
    if term.slopes and all(dots[k] is ZERO or k in term.slopes for k in range(len(dots))):
        pairs = zip(term.slopes, outs[1:], strict=True)
        terms = [np.sum(slope * dots[k]) for k, slope in pairs if dots[k] is not ZERO]
        pushed[0] = sum(terms[1:], terms[0])
    return pushed


def _pushed(dots: Sequence[object], args: Sequence[object], term: Summand) -> list[object]:
    moving = tuple([k for k, dot in enumerate(dots) if dot is not ZERO])
    results = term.floating()
    types = [term.types[k] for k in results]
    pushed = term.derived("jvp", moving, results, types, len(moving))
    tangents = iter(_entered(pushed, [*args, *[dots[k] for k in moving]]))
    return [next(tangents) if k in results else ZERO for k in range(len(term.types))]


def _vjp(bars: Sequence[object], args: Sequence[Any], outs: Any, *, term: Summand) -> list[object]:
    """One pass for all cotangents; for that of a value whose gradient is there, none."""
    if term.slopes:
        return _second(bars, args, outs, term)
    results = tuple([k for k, bar in enumerate(bars) if bar is not ZERO])
    moving = tuple([k for k, x in enumerate(args) if x.type.floating])
    types = [args[k].type for k in moving]
    pulled = term.derived("vjp", moving, results, types, len(results))
    cotangents = iter(_entered(pulled, [*args, *[bars[k] for k in results]]))
    return [next(cotangents) if k in moving else ZERO for k in range(len(args))]


def _second(bars: Sequence[Any], args: Sequence[Any], outs: Any, term: Summand) -> list[object]:
    """Cotangents of a value and its gradient: the Hessian, which is symmetric, times theirs."""
    places = term.slopes
    cotangents: list[Any] = [ZERO] * len(args)
    if bars[0] is not ZERO:
        for k, slope in zip(places, outs[1:], strict=True):
            cotangents[k] = bars[0] * slope
    if any(bar is not ZERO for bar in bars[1:]):
        dots: list[object] = [ZERO] * len(args)
        for k, bar in zip(places, bars[1:], strict=True):
            dots[k] = bar
        for k, part in zip(places, _pushed(dots, args, term)[1:], strict=True):
            cotangents[k] = part if cotangents[k] is ZERO else cotangents[k] + part
    return cotangents


def _batch(
    args: Sequence[Any], mapped: Sequence[bool], size: int, *, term: Summand
) -> list[object]:
    """One pass for all elements."""
    places = tuple([k for k, is_mapped in enumerate(mapped) if is_mapped])
    types = [ArrayType((size, *t.shape), t.dtype) for t in term.types]
    return list(_entered(term.derived("vmap", places, (), types, 0), args))


SUM = Primitive(
    "sum_over", lambda *_, term: term.types, _evaluate, jvp=_jvp, vjp=_vjp, batch=_batch,
    family="opaque", folds=False,
)  # fmt: skip


def _entered(term: Summand, args: Sequence[object]) -> tuple[TracedArray, ...]:
    return apply_many(SUM, *map(traced, args), term=term)


def enter(total: Total, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """A call of a sum in the trace under way: a node, of whose results the user's are made."""
    leaves, spec = flatten((args, kwargs))
    leaves = [*map(resolve, leaves)]
    places = tuple([k for k, leaf in enumerate(leaves) if _is_numeric(leaf)])
    handles = [traced(leaves[k]) for k in places]
    fixed = [None if k in places else leaf for k, leaf in enumerate(leaves)]
    function = Flat(total.f, spec, fixed, places)
    values = iter([h.home.guards.value(h.id, "sums over partitions") for h in handles])
    numbers = [np.asarray(next(values))[()] if k in places else x for k, x in enumerate(leaves)]
    parameters: Any = unflatten(spec, numbers)
    with suspended():
        first = total.total(*parameters, first=True)
    outs, out_spec = flatten(first)
    types = tuple([type_of(np.asarray(x)) for x in outs])
    term = Summand(total, function, types)
    active = tuple([k for k, h in enumerate(handles) if is_active(h)])
    if active and len(types) == 1 and not types[0].shape and types[0].dtype.kind == "f":
        slopes = [handles[k].type for k in active]
        term = term.derived("value_and_grad", active, (), [*types, *slopes], 0)
    sums = _entered(term, handles)[: len(types)]
    return unflatten(out_spec, [scalar_if_0d(x) for x in sums])


def _is_numeric(leaf: object) -> bool:
    if isinstance(leaf, (TracedArray, float, complex, np.inexact)):
        return True
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc"
