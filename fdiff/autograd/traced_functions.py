"""A `Function` where a function is traced: a call of a function with rules, as by `custom_vjp`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..errors import UnsupportedError, failure
from ..functional.custom_derivatives import CustomFunction, custom_jvp, custom_vjp
from ..ops.composite_functions import stop_gradient
from ..trace import TracedArray, in_a_batch
from .function_context import FunctionCtx, FunctionRules, as_many, run_forward, summed_to


def apply_traced(cls: Any, rules: FunctionRules, args: tuple[Any, ...]) -> Any:
    """A call as that of a function with rules, made of the static methods of the class `cls`."""
    flat: list[int] = []
    again: list[Any] = []
    forward = _named("forward", rules.forward, partial(_forward, rules, flat, again))
    plain = _named(rules.name, rules.forward, partial(_plainly, rules))
    function: CustomFunction[..., Any]
    if rules.pulls or rules.jvp is None:
        function = custom_vjp(plain)
        back = partial(_backward, rules, [*map(_shape_of, args)])
        function.defvjp(forward, _named("backward", rules.backward, back))
    else:
        function = custom_jvp(plain)
        function.defjvp(_named("jvp", rules.jvp, partial(_push, rules, again)))
    function.original = cls  # its methods are private copies, if the class is
    function.title = f"{rules.name}.apply"
    again.append(function)
    if rules.vmap is not None and in_a_batch():
        _check_vmap(rules)
        function.batching = rules.vmap
    found = function(*args)
    if not flat:
        return found
    return tuple([stop_gradient(x) if k in flat else x for k, x in enumerate(_as_tuple(found))])


def _named(name: str, method: Any, rule: Any) -> Any:
    """A rule under the name, and with the line, of the method that it calls: for messages."""
    rule.__name__, rule.__code__ = name, getattr(method, "__code__", None)
    return rule


def _as_tuple(output: Any) -> tuple[Any, ...]:
    return output if isinstance(output, tuple) else (output,)


def _context(args: Sequence[Any]) -> FunctionCtx:
    ctx = FunctionCtx()
    ctx.needs_input_grad = tuple([isinstance(a, TracedArray) and a.type.floating for a in args])
    return ctx


def _plainly(rules: FunctionRules, *args: Any) -> Any:
    return run_forward(rules, _context(args), args)


def _check_vmap(rules: FunctionRules) -> None:
    """Refuse what torch refuses of a class with a `vmap` of its own."""
    if rules.generates_vmap:
        raise RuntimeError(
            f"You tried to vmap over {rules.name}, but it has both generate_vmap_rule=True and an"
            " overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the"
            " overridden vmap staticmethod to avoid ambiguity."
        )
    if rules.setup is None:
        raise RuntimeError(
            f"In order to use {rules.name}, which has a vmap staticmethod, in a vmap, it must"
            " override the setup_context staticmethod."
        )


def _run(rules: FunctionRules, again: list[Any], ctx: FunctionCtx, args: Sequence[Any]) -> Any:
    """What the forward rule gives, with the context filled.

    The class is called `again` by its own rule, so that derivatives of what depends on the output,
    the second ones of the call itself among them, go by the rule, as in torch.
    """
    if rules.setup is not None:
        output = again[0](*args)
        rules.setup(ctx, tuple(args), output)
        return output
    plain = run_forward(rules, ctx, args)
    output = again[0](*args)
    pairs = list(zip(_as_tuple(plain), _as_tuple(output), strict=True))
    own = lambda x: next((ruled for known, ruled in pairs if known is x), x)  # noqa: E731 - of this call
    ctx._saved, ctx._flat = tuple(map(own, ctx._saved)), tuple(map(own, ctx._flat))
    for name, value in vars(ctx).items():
        if name not in _PRIVATE:
            setattr(ctx, name, own(value))
    return output


def _forward(
    rules: FunctionRules, flat: list[int], again: list[Any], *args: Any
) -> tuple[Any, Any]:
    """The output, and the context as residuals."""
    ctx = _context(args)
    output = _run(rules, again, ctx, args)
    if ctx._dirty:
        fact = f"{rules.name} marks arguments as dirty, in a function that is traced."
        raise failure(UnsupportedError, f"{rules.name}.apply", fact, "Return a new array there.")
    flat[:] = [k for k, o in enumerate(_as_tuple(output)) if any(o is x for x in ctx._flat)]
    own = {k: v for k, v in vars(ctx).items() if k not in _PRIVATE}
    return output, (ctx._saved, own)


_PRIVATE = frozenset(vars(FunctionCtx()))


def _filled(residuals: tuple[Any, Any]) -> FunctionCtx:
    ctx = FunctionCtx()
    ctx._saved = residuals[0]
    vars(ctx).update(residuals[1])
    return ctx


def _shape_of(arg: Any) -> tuple[int, ...] | None:
    """The shape of an array or number; None for anything else, a list of arrays for instance."""
    return np.shape(arg) if isinstance(arg, TracedArray | np.ndarray | np.generic) else None


def _backward(
    rules: FunctionRules,
    shapes: Sequence[tuple[int, ...] | None],
    residuals: tuple[Any, Any],
    bars: Any,
) -> tuple[Any, ...]:
    """The gradients, summed over axes that were broadcast, as torch does."""
    found = as_many(rules.name, rules.backward(_filled(residuals), *_as_tuple(bars)), len(shapes))
    return tuple(
        [
            g if g is None or shape is None else summed_to(g, shape)
            for g, shape in zip(found, shapes, strict=True)
        ]
    )


def _push(
    rules: FunctionRules,
    again: list[Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
) -> tuple[Any, Any]:
    ctx = _context(primals)
    output = _run(rules, again, ctx, primals)
    assert rules.jvp is not None, "asked before"
    return output, rules.jvp(ctx, *tangents)
