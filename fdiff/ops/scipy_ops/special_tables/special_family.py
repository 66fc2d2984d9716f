"""The family of SciPy's ufuncs: a row of partial derivatives becomes an op, as for NumPy's ufuncs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ....arraytype import ArrayType, broadcast, loop_dtypes
from ....errors import UnsupportedError, message
from ....facets import LayoutRule, Lowering, Rules, Structure
from ....foreign_errors import not_foreign
from ....primitive import PRIMITIVES, UFUNCS, ZERO, Primitive, Sample, register
from ....trace import Array, TracedArray, apply, apply_many, current, unsupported
from ...entrywise.broadcasting import align, stretch, unbroadcast
from ...entrywise.families import (
    add_up,
    elementwise,
    for_each,
    kernel_rule,
    kind_of,
    refuse,
    slope_rules,
    times,
    ufunc_caller,
)
from ...shapes.shaping import scalar_if_0d

Rule = Callable[..., object]
Slopes = Callable[..., Sequence[object]]
Rows = Callable[..., Sequence[Sequence[object]]]
LACKING = object()  # in place of a partial derivative without a known formula; a need for it is an error


def order(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Constant orders and degrees; int8, so that single precision stays single beside them."""
    return rng.integers(1, 5, shape).astype(np.int8)


def lacking(name: str, argument: str) -> UnsupportedError:
    """The error for a derivative with respect to a parameter that has no rule."""
    trace = current()
    fact = f"{name} has no derivative with respect to its argument `{argument}` in fdiff."
    return UnsupportedError(
        message(trace.call, fact, f"Pass `{argument}` as a constant, or differentiate with respect to other arguments.", trace.where())
    )


def _ufunc(name: str) -> np.ufunc:
    return getattr(sc, name, None) or getattr(sc._ufuncs, name)


def _refusal(name: str, argument: str) -> Callable[[], object]:
    def refuse_slope() -> object:
        raise lacking(f"scipy.special.{name.lstrip('_')}", argument)

    return refuse_slope


def _named(name: str, partials: Slopes) -> Slopes:
    """`partials` with functions that raise in place of the partial derivatives that are `LACKING`.

    Where `partials` gives one value, that is the slope in the last argument, and the other arguments have none.
    """
    names = partials.__code__.co_varnames

    def slopes(*values: object, **params: object) -> list[object]:
        derivatives = partials(*values, **params)
        if not isinstance(derivatives, (tuple, list)):
            derivatives = [*[LACKING] * (len(values) - 2), derivatives]
        return [_refusal(name, names[k]) if p is LACKING else p for k, p in enumerate(derivatives)]

    return slopes


def _as(value: Array, dtype: np.dtype) -> object:
    """A cotangent in the dtype of its argument, also where it is computed later."""
    if callable(value):
        return lambda: _as(value(), dtype)
    return value if value is ZERO else value.astype(dtype)


def special(
    name: str, partials: Slopes, *sample: Callable[..., np.ndarray], ufunc: np.ufunc | None = None, evaluate: Rule | None = None,
    params: Sequence[dict[str, object]] = ({},), text: str = "", analytic: bool = False,
) -> Primitive:  # fmt: skip
    """A function of SciPy applied entry by entry; ``partials(*args, out)``, `sample` and `text` are as in `elementwise`.

    Further, a partial derivative may be `LACKING`, or a function that computes it when needed; a single slope is that
    in the last argument, where those in the others are `LACKING`. An op without a `text` is interpreted.
    With `evaluate` the op is no ufunc: it is entered by `apply`, and has the dtype of its last argument.
    Of an `analytic` function the partial derivatives are the same for complex numbers.
    """
    function = ufunc or (None if evaluate else _ufunc(name))
    count = function.nin if function else evaluate.__code__.co_argcount if evaluate else len(sample)
    makers = for_each(sample, count)
    push, pull = slope_rules(_named(name, partials))

    def jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], **params: object) -> list[object]:
        return [_as(dot, outs[0].dtype) for dot in push(dots, args, outs, **params)]

    def vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], **params: object) -> list[object]:
        return [_as(bar, a.dtype) for bar, a in zip(pull(bars, args, outs, **params), args, strict=True)]

    @lru_cache(maxsize=1024)
    def infer(*types: ArrayType, **params: object) -> tuple[ArrayType, ...]:
        dtypes = [t.dtype for t in types]
        return (ArrayType(_shape(types), dtypes[-1] if function is None else loop_dtypes(function, tuple(dtypes))[-1]),)

    primitive = register(
        Primitive(
            name, "elementwise",
            Rules(
                infer, _of_reals(evaluate) if evaluate else function, jvp, vjp,
                lambda args, mapped, size, **params: [apply(primitive, *align(args, mapped), **params)],
            ),
            Structure(layout=LayoutRule("operands")), Lowering(kernel_rule(name, text, len(makers))),
            samples=tuple(Sample(lambda rng: tuple(make(rng, (2, 3)) for make in makers), p) for p in params),
        )
    )  # fmt: skip
    if function is not None:
        of_complex = _complex_op(function, partials, len(makers)) if analytic else None
        UFUNCS[function] = _real_caller(ufunc_caller(primitive, function), function, of_complex)
    return primitive


def _complex_op(ufunc: np.ufunc, partials: Slopes, count: int) -> Rule:
    """A rule for an analytic function of complex numbers: an op without a kernel."""
    name = ufunc.__name__.lstrip("_")
    primitive = elementwise(
        f"complex_{name}", partials, *(complex_sample,) * count, text="",
        numpy=ufunc.__call__, loop=lambda *dtypes: loop_dtypes(ufunc, dtypes)[-1],
    )  # fmt: skip
    return ufunc_caller(primitive, ufunc)


def complex_sample(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def _real_caller(call: Rule, ufunc: np.ufunc, analytic: Rule | None = None) -> Rule:
    """`call`, for real operands only: some of these functions are not analytic. Complex ones go to `analytic`, if there is one."""

    def checked(*operands: object, **keywords: object) -> object:
        kinds = [kind_of(x) for x in operands]
        if any(k is complex or (not isinstance(k, type) and k.kind == "c") for k in kinds):
            if analytic is not None:
                return analytic(*operands, **keywords)
            raise unsupported(f"scipy.special.{ufunc.__name__.lstrip('_')} of complex numbers")
        return call(*operands, **keywords)

    return checked


def _of_reals(evaluate: Rule) -> Rule:
    """`evaluate`, for real arguments only, with the dtype of its last argument."""

    def value(*arrays: np.ndarray, **params: object) -> object:
        if any(map(np.iscomplexobj, arrays)):
            raise TypeError("defined for real arguments only")
        return np.asarray(evaluate(*arrays, **params)).astype(np.asarray(arrays[-1]).dtype)[()]

    return value


def _shape(types: Sequence[ArrayType]) -> tuple[int, ...]:
    try:
        return broadcast(*[t.shape for t in types])
    except not_foreign(ValueError):
        shapes = " ".join(str(t.shape) for t in types)
        raise ValueError(f"operands could not be broadcast together with shapes {shapes}") from None


def alias(name: str) -> None:
    """Register a SciPy ufunc that computes the same function as a NumPy ufunc."""
    UFUNCS[_ufunc(name)] = ufunc_caller(PRIMITIVES[name], _ufunc(name))


def special_many(name: str, partials: Rows, *sample: Callable[..., np.ndarray]) -> Primitive:
    """A function of SciPy with several outputs: ``partials(*args, *outs)`` gives a row for each."""
    ufunc = _ufunc(name)

    def rows(args: Sequence[TracedArray], outs: Sequence[TracedArray]) -> list[list[object]]:
        names = partials.__code__.co_varnames
        return [[_refusal(name, names[k]) if p is LACKING else p for k, p in enumerate(row)] for row in partials(*args, *outs)]

    def jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray]) -> list[object]:
        moved = [[times(d, p() if callable(p) else p) for d, p in zip(dots, row, strict=True) if d is not ZERO] for row in rows(args, outs)]
        return [stretch(add_up(terms), outs[0].shape) for terms in moved]

    def vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray]) -> list[object]:
        table = rows(args, outs)
        live = [(bar, row) for bar, row in zip(bars, table, strict=True) if bar is not ZERO]

        def pulled(k: int) -> object:
            return unbroadcast(add_up([times(bar, row[k]() if callable(row[k]) else row[k]) for bar, row in live]), args[k].shape)

        return [lambda k=k: pulled(k) for k in range(ufunc.nin)]

    @lru_cache(maxsize=1024)
    def infer(*types: ArrayType) -> tuple[ArrayType, ...]:
        return tuple(ArrayType(_shape(types), d) for d in loop_dtypes(ufunc, tuple(t.dtype for t in types))[ufunc.nin :])

    def call(*operands: object, **keywords: object) -> tuple[TracedArray, ...]:
        refuse(ufunc, keywords)
        trace = current(*operands)
        loop = loop_dtypes(ufunc, tuple(kind_of(x) for x in operands))
        lifted = [TracedArray(trace, i, trace.builder.type(i)) for i in (trace.lift(x, d) for x, d in zip(operands, loop, strict=False))]
        return tuple(scalar_if_0d(x) for x in apply_many(primitive, *lifted))

    primitive = register(
        Primitive(
            name, "opaque", Rules(infer, ufunc, jvp, vjp, lambda args, mapped, size: apply_many(primitive, *align(args, mapped))),
            samples=(Sample(lambda rng: tuple(make(rng, (2, 3)) for make in for_each(sample, ufunc.nin))),),
        )
    )  # fmt: skip
    UFUNCS[ufunc] = _real_caller(call, ufunc)
    return primitive
