"""A `Function` where a function is traced: a call of a function with rules, as by `custom_vjp`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..errors import UnsupportedError, failure
from ..functional.custom_derivatives import CustomFunction, custom_jvp, custom_vjp
from ..ops.composite_functions import stop_gradient
from ..trace import TracedArray
from .function_context import FunctionCtx, FunctionRules, as_many, run_forward


def apply_traced(cls: Any, rules: FunctionRules, args: tuple[Any, ...]) -> Any:
    """A call as that of a function with rules, made of the static methods of the class `cls`."""
    flat: list[int] = []
    forward = _named("forward", rules.forward, partial(_forward, rules, flat))
    plain = _named(rules.name, rules.forward, partial(_plainly, rules))
    function: CustomFunction[..., Any]
    if rules.pulls or rules.jvp is None:
        function = custom_vjp(plain)
        back = partial(_backward, rules, len(args))
        function.defvjp(forward, _named("backward", rules.backward, back))
    else:
        function = custom_jvp(plain)
        function.defjvp(_named("jvp", rules.jvp, partial(_push, rules)))
    function.original = cls  # its methods are private copies, if the class is
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


def _forward(rules: FunctionRules, flat: list[int], *args: Any) -> tuple[Any, Any]:
    """The output, and the context as residuals."""
    ctx = _context(args)
    output = run_forward(rules, ctx, args)
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


def _backward(
    rules: FunctionRules, count: int, residuals: tuple[Any, Any], bars: Any
) -> tuple[Any, ...]:
    found = rules.backward(_filled(residuals), *_as_tuple(bars))
    return tuple(as_many(rules.name, found, count))


def _push(
    rules: FunctionRules, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, Any]:
    ctx = _context(primals)
    output = run_forward(rules, ctx, primals)
    assert rules.jvp is not None, "asked before"
    return output, rules.jvp(ctx, *tangents)
