"""The families of ops: a few facts in a row become a full `Primitive`.

- *Elementwise* ops state their partial derivatives once; the rules of both modes follow.
- *Linear* ops state their transpose; their tangent is the op itself applied to the tangent.
- *Multilinear* ops state the transpose for each operand; their tangent is the sum of the op applied to one
  tangent at a time. So do ops that are linear in several operands together.
- *Opaque* ops state both rules.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import overload

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, Shape, broadcast, loop_dtypes, python_type
from ...capture.non_numeric_data import TAKE_VALUES, is_table, lazy_words
from ...capture.symbolic_numbers import SymbolicNumber
from ...errors import InputError, TraceError, failure
from ...facets import (
    BY_REFERENCE,
    PLAIN,
    EagerRule,
    Kink,
    LayoutRule,
    Lowering,
    Rules,
    Structure,
)
from ...foreign_errors import not_foreign
from ...kernel_rule import KernelRule, Kind
from ...primitive import UFUNCS, ZERO, Primitive, Sample, Zero, register
from ...trace import Array, TracedArray, apply, apply_many, current, unsupported
from ...trace.local_arrays import LocalArray, TracedLocalArray
from ...trace.operation_cache import ARITHMETIC
from ...trace.recorder import objects_met
from ...trace.ufunc_fast_path import enter
from ..late_term_rules import signed
from ..rewrites.arithmetic_rewrites import REWRITES
from ..shapes import axis_maps
from .broadcasting import align, all_mapped, stretch
from .complex_formulas import COMPLEX_FORMULAS
from .sample_domains import real

Rule = Callable[..., object]
DerivativeRule = Callable[..., Sequence[object]]  # one for each argument, or each output
Arrays = Callable[..., tuple[np.ndarray, ...]]  # a maker of arguments, from a random generator
ArgumentGroups = Sequence[Sequence[int]] | None
Partials = Callable[..., Sequence[object]] | tuple[int, ...]


def kind_of(operand: object) -> np.dtype | type:
    """Dtype of an operand, or the Python type of one that is weakly typed."""
    if isinstance(operand, TracedArray):
        return python_type(operand.type.dtype) if operand.weak else operand.type.dtype
    if isinstance(operand, (np.ndarray, np.generic)) and operand.dtype != object:
        if isinstance(operand, np.ndarray) and type(operand) not in (np.ndarray, np.memmap, LocalArray, TracedLocalArray):
            raise other_class(operand)
        return operand.dtype if operand.dtype.isnative else operand.dtype.newbyteorder("=")
    if type(operand) in (int, float, complex):
        return type(operand)
    refuse_foreign(operand)
    if isinstance(operand, SymbolicNumber):
        return type(operand.value)
    array = np.asarray(operand)
    if array.dtype == object:  # traced scalars in a list or an object array
        if not any(isinstance(entry, TracedArray) for entry in array.flat):
            raise objects_met(current())
        kinds = [kind_of(entry) for entry in array.ravel()]
        return np.result_type(*[np.dtype(k) for k in kinds])  # in arrays, Python numbers are not weak
    return array.dtype


def refuse_foreign(operand: object, call: str = "") -> None:
    """Refuse an operand from pandas, whose operators match labels where NumPy's match positions, or from Dask."""
    if is_table(operand):
        fact = f"a pandas {type(operand).__name__} met a traced array in arithmetic."
        way = "Take its numbers: `series.to_numpy()`, `frame.to_numpy()`."
        raise failure(TraceError, call or current().call, fact, way)
    if words := lazy_words(operand):
        raise failure(InputError, call or current().call, f"a traced array met {words}.", TAKE_VALUES)


def other_class(array: np.ndarray) -> TraceError:
    """The error for an array of a subclass of `ndarray`, whose entries may have another meaning (masks, units)."""
    name = type(array).__name__
    way = "Use a plain array: numpy.asarray(a), or a.filled(...)."
    return current().fail(f"an array of type {name} met a traced array, and such arrays are not supported.", way)


def ufunc_caller(primitive: Primitive, ufunc: np.ufunc) -> Rule:
    """What computes `ufunc` on traced arrays: operands are converted to the dtypes of NumPy's loop, then one node is added."""

    def call(*operands: object, dtype: object = None, **keywords: object) -> TracedArray:
        if dtype is None and not keywords and (out := enter(ufunc, operands, primitive)) is not None:
            return out
        if keywords:
            refuse(ufunc, keywords)
        trace = current(*operands)
        kinds = tuple([kind_of(x) for x in operands])
        if dtype is None:
            loop = loop_dtypes(ufunc, kinds)
        else:
            signature = (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
            loop = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout), signature=signature, casting="same_kind")
        ids = tuple([trace.lift(x, d) for x, d in zip(operands, loop, strict=False)])
        node = trace.add(primitive, ids)
        type_ = trace.builder.nodes[node].types[0]
        return TracedArray(trace, node, type_, scalar=not type_.shape)

    vars(call)["alone"] = True  # see `trace/ufunc_fast_path.py`
    return call


_HARMLESS = {"casting", "order", "subok"}  # they change no value of a float array


def refuse(ufunc: np.ufunc, keywords: dict[str, object]) -> None:
    """Raise for keywords of a ufunc that change its result and are not implemented."""
    for name, value in keywords.items():
        if name not in _HARMLESS and not (name == "where" and value is True):
            raise unsupported(f"numpy.{ufunc.__name__} with {name}=")


def elementwise_type(loop: Callable[..., np.dtype]) -> Callable[..., tuple[ArrayType, ...]]:
    """Type rule of an elementwise op: shapes broadcast, dtypes by `loop`."""

    @lru_cache(maxsize=1024)
    def infer(*types: ArrayType, **params: object) -> tuple[ArrayType, ...]:
        try:
            shape = broadcast(*[t.shape for t in types])
        except not_foreign(ValueError):
            shapes = " ".join(str(t.shape) for t in types)
            raise ValueError(f"operands could not be broadcast together with shapes {shapes}") from None
        return (ArrayType(shape, loop(*[t.dtype for t in types], **params)),)

    return infer


ENTRYWISE = Structure(sizeless=True, layout=LayoutRule("operands"), axis_map=axis_maps.entrywise)
# Python's operators give for NumPy scalars and arrays the results of the ufuncs, ten times sooner.
_OPERATORS = {
    "{0} + {1}": EagerRule(operator.add, "+", ARITHMETIC),
    "{0} - {1}": EagerRule(operator.sub, "-", ARITHMETIC),
    "{0} * {1}": EagerRule(operator.mul, "*", ARITHMETIC),
    "{0} / {1}": EagerRule(operator.truediv, "/", ARITHMETIC),
    "-{0}": EagerRule(operator.neg, "-", ARITHMETIC),
    "{0} < {1}": EagerRule(operator.lt),
    "{0} <= {1}": EagerRule(operator.le),
    "{0} > {1}": EagerRule(operator.gt),
    "{0} >= {1}": EagerRule(operator.ge),
    "{0} == {1}": EagerRule(operator.eq),
    "{0} != {1}": EagerRule(operator.ne),
}


def elementwise(
    name: str,
    partials: Partials | None,
    *sample: Callable[..., np.ndarray],
    text: str | KernelRule | None = None,
    numpy: Callable[..., object] | None = None,
    loop: Callable[..., np.dtype] | None = None,
    params: dict[str, object] | None = None,
    rules: tuple[Rule, Rule] | None = None,
    transposes: DerivativeRule | None = None,
    groups: ArgumentGroups = None,
    kink: Kink | None = None,
    unit_slopes: bool = False,
    stops: bool = False,
    **structure: object,
) -> Primitive:
    """An op applied entry by entry, computed by `numpy`, or else by NumPy's ufunc of that name.

    It is tested on `sample`, a maker of arrays for each argument, or one (by default `real`) for all of a ufunc's.
    ``partials(*args, out)`` gives the partial derivative for each argument: an array, ``1`` or ``-1``, or
    `ZERO`; of a function of one argument it may be the slope itself. A tuple of ``1`` and ``-1`` stands for
    itself, None for an op whose derivative is zero wherever it exists. A linear op, also over
    the reals alone, gives `transposes` and `groups` as of `multilinear` instead, an op of none of these kinds its
    ``rules`` (JVP, VJP) itself. The `text` of an entry is `kernel_rule`'s; an op of complex numbers has
    no kernel yet, and the text ``""``. Its kind in kernels, formulas of complex numbers and rewrites follow from
    its name. `structure` are fields in which it differs from `ENTRYWISE`.
    """
    jvp, vjp = rules or (linear_rules(lambda: primitive, transposes, groups) if transposes else slope_rules(partials))
    function: Callable[..., object] = numpy or getattr(np, name)
    ufunc = function if isinstance(function, np.ufunc) else None
    makers = for_each(sample or (real,), ufunc.nin) if ufunc else sample

    def batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int, **params: object) -> Sequence[object]:
        return [apply(primitive, *align(args, mapped), **params)]

    samples = (Sample(lambda rng: tuple(make(rng, (2, 3)) for make in makers), params or {}),)
    record = Rules(
        elementwise_type(loop or _ufunc_loop(ufunc)), function, jvp, vjp, batch, kink=kink, stops=stops,
        flat=not (partials or rules or transposes),
        unit_slopes=unit_slopes or isinstance(partials, tuple) or (transposes is not None and groups is None),
    )  # fmt: skip
    if isinstance(partials, tuple):
        structure = {"terms": partial(signed, signs=partials), **structure}
    rule = kernel_rule(name, text, len(makers))
    eager = _OPERATORS.get(rule.text, EagerRule()) if rule else EagerRule()
    lowering = Lowering(rule, COMPLEX_FORMULAS.get(name, ()), eager, rewrites=REWRITES.get(name, ()))
    primitive = register(Primitive(name, "elementwise", record, ENTRYWISE._replace(**structure), lowering, samples))
    if ufunc is not None and loop is None:
        UFUNCS[ufunc] = ufunc_caller(primitive, ufunc)
    return primitive


def for_each(makers: Sequence[Callable[..., np.ndarray]], count: int) -> Sequence[Callable[..., np.ndarray]]:
    """A maker of arrays for each of `count` arguments; one serves for all of them."""
    return tuple(makers) * count if len(makers) == 1 else makers


_KINDS = {kind.value: kind for kind in Kind if kind.is_elementwise}


def kernel_rule(name: str, text: str | KernelRule | None, count: int) -> KernelRule | None:
    """How kernels compute an op of `count` operands; None for the text ``""``.

    `text` is an expression, a function that is called with the operands, or a rule that says more. By default it is
    the word of the op's name (`kernels/ir/word_table.py`).
    """
    if isinstance(text, KernelRule) or not (text := f"rt.{name}" if text is None else text):
        return text or None
    operands = ", ".join([f"{{{k}}}" for k in range(count)])
    return KernelRule(_KINDS.get(name, Kind.ELEMENTWISE), text if "{" in text else f"{text}({operands})")


def _ufunc_loop(ufunc: np.ufunc) -> Callable[..., np.dtype]:
    return lambda *dtypes: loop_dtypes(ufunc, dtypes)[-1]


def slope_rules(partials: Partials | None) -> tuple[DerivativeRule, DerivativeRule]:
    """The JVP and VJP rules of an elementwise op from its partial derivatives (the chain rule)."""

    def slopes(args: Sequence[TracedArray], out: TracedArray, params: dict[str, object]) -> Sequence[object]:
        if partials is None or not out.type.floating:
            return [ZERO] * len(args)
        if isinstance(partials, tuple):
            return partials
        by = partials(*args, out, **params)
        return by if isinstance(by, (tuple, list)) else (by,)

    def jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], **params: object) -> list[object]:
        pairs = [(d, p() if callable(p) else p) for d, p in zip(dots, slopes(args, outs[0], params), strict=True) if d is not ZERO]
        return [stretch(add_up([times(d, p) for d, p in pairs if p is not ZERO]), outs[0].shape)]

    def vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], **params: object) -> list[object]:
        pairs = zip(args, slopes(args, outs[0], params), strict=True)
        return [ZERO if p is ZERO or not a.type.floating else _pulled(bars[0], p) for a, p in pairs]

    return jvp, vjp


def _pulled(bar: object, slope: object) -> object:
    """The cotangent of one argument; if its partial derivative is a function, a function too, called only if it is needed."""
    return (lambda: _pulled(bar, slope())) if callable(slope) else ZERO if slope is ZERO else times(bar, slope)


def times(dot: Array, slope: Array) -> object:
    """``dot * slope`` without multiplying by one."""
    if isinstance(slope, int):
        return dot if slope == 1 else -dot if slope == -1 else dot * slope
    return dot * slope


@overload
def add_up(terms: Sequence[Array]) -> Array: ...
@overload
def add_up(terms: Sequence[Array | Zero]) -> Array | Zero: ...
def add_up(terms: Sequence[Array | Zero]) -> Array | Zero:
    """Sum of tangents or cotangents; `ZERO` if there is none."""
    total: Array | Zero = ZERO
    for term in terms:
        total = term if total is ZERO else total if term is ZERO else total + term
    return total


def with_batch_axis(
    op: Primitive, args: Sequence[TracedArray], mapped: Sequence[bool], size: int, **params: object
) -> list[object]:
    """Batching rule: all arguments get the batch axis in front, and the parameter `axis`, if there is one, counts one more."""
    if "axis" in params:
        params["axis"] = int(params["axis"]) + 1
    return [*apply_many(op, *all_mapped(args, mapped, size), **params)]


def opaque_op(
    name: str, infer: Callable[..., tuple[ArrayType, ...]], evaluate: Rule, jvp: Rule, vjp: Rule, *samples: Sample | Arrays,
    batch: Rule | None = None, family: str = "opaque", structure: Structure = PLAIN, lowering: Lowering = BY_REFERENCE, **flags: object,
) -> Primitive:  # fmt: skip
    """An op that states its rules; `batch` is by default `with_batch_axis`, `flags` are further fields of `Rules`.

    A sample without parameters may be the maker of its arrays alone.
    """
    rules = Rules(infer, evaluate, jvp, vjp, batch or (lambda *args, **params: with_batch_axis(op, *args, **params)), **flags)
    wrapped = tuple([sample if isinstance(sample, Sample) else Sample(sample) for sample in samples])
    op = register(Primitive(name, family, rules, structure, lowering, wrapped))
    return op


def flat_op(
    name: str, infer: Callable[..., tuple[ArrayType, ...]], evaluate: Callable[..., object], *samples: Sample | Arrays, **facts: object
) -> Primitive:
    """An op that carries no derivative, such as the order of numbers; `facts` as in `opaque_op`."""

    def jvp(dots: object, args: object, outs: Sequence[object], **_: object) -> list[object]:
        return [ZERO] * len(outs)

    def vjp(bars: object, args: Sequence[object], outs: object, **_: object) -> list[object]:
        return [ZERO] * len(args)

    return opaque_op(name, infer, evaluate, jvp, vjp, *samples, flat=True, **facts)


def linear(
    name: str,
    infer: Callable[..., tuple[ArrayType, ...]],
    transpose: Callable[..., object],
    *,
    evaluate: Callable[..., object],
    batch: Callable[..., object] | None = None,
    structure: Structure = PLAIN,
    lowering: Lowering = BY_REFERENCE,
    samples: tuple[Sample, ...] = (),
) -> Primitive:
    """A linear op of one argument: ``transpose(bar, src, **params)`` with `src` the argument's type.

    ``batch(x, **params)`` is the op on an array with one more leading axis, by default as `with_batch_axis` has it.
    """

    def bars(bar: TracedArray, args: Sequence[TracedArray], **params: object) -> list[object]:
        return [transpose(bar, args[0].type, **params)]

    rule = batch and (lambda args, mapped, size, **params: [batch(args[0], **params)])
    return multilinear(name, infer, bars, evaluate=evaluate, batch=rule, structure=structure, lowering=lowering, samples=samples)


def multilinear(
    name: str,
    infer: Callable[..., tuple[ArrayType, ...]],
    transposes: DerivativeRule,
    groups: ArgumentGroups = None,
    *,
    evaluate: Callable[..., object],
    samples: tuple[Sample, ...] = (),
    family: str = "linear",
    second_alone: Rule | None = None,
    **facts: object,
) -> Primitive:
    """An op that is linear in the arguments of each group taken together, while arguments of other groups stand still.

    `groups` holds places of arguments; None is one group of all. Indices and conditions do not move.
    ``transposes(bar, args, **params)`` gives the cotangents of the leading arguments, without indices after
    them. ``second_alone(x, first, **params)`` is the op on zeros like `first` and on `x`, in another way.
    `facts` as in `opaque_op`.
    """
    rules = linear_rules(lambda: primitive, transposes, groups, second_alone)
    primitive = opaque_op(name, infer, evaluate, *rules, *samples, family=family, **facts)
    return primitive


def linear_rules(
    op: Callable[[], Primitive], transposes: DerivativeRule, groups: ArgumentGroups, second_alone: Rule | None = None
) -> tuple[DerivativeRule, DerivativeRule]:
    """The JVP and VJP rules of a linear or `multilinear` op; arguments that stand still are zeros, which broadcast if `op` does."""

    def jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], **params: object) -> list[object]:
        if second_alone and dots[0] is ZERO:
            return [second_alone(dots[1], args[0], **params)]
        primitive = op()
        shapes = [() if primitive.family == "elementwise" else a.shape for a in args]
        terms: list[object] = []
        for group in groups or (range(len(args)),):
            if any(dots[k] is not ZERO for k in group):
                moved = [_tangent(dots[k], a, shapes[k]) if k in group else a for k, a in enumerate(args)]
                terms.append(apply(primitive, *moved, **params))
        return [stretch(add_up(terms), outs[0].shape)]

    def vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: object, **params: object) -> list[object]:
        cotangents = transposes(bars[0], args, **params)
        return [*cotangents, *[ZERO] * (len(args) - len(cotangents))]

    return jvp, vjp


def _tangent(dot: object, argument: TracedArray, shape: Shape) -> object:
    return dot if dot is not ZERO else np.zeros(shape, argument.dtype) if argument.type.floating else argument
