"""A `Function` in a traced function: a call of a function with a `UserRule`, as by `custom_vjp`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import fdiff.intact_numpy as np

from ...functional.rules.custom_derivatives import CustomFunction, UserRule
from ...ops.entrywise.composite_functions import stop_gradient
from ...trace import TracedArray, in_a_batch
from .function_context import (
    NOT_RETURNED,
    FunctionCtx,
    FunctionRules,
    as_many,
    run_forward,
    summed_to,
    unmarked,
)


def apply_traced(cls: Any, rules: FunctionRules, args: tuple[Any, ...]) -> Any:
    """Call a function whose rule is made of the static methods of the class `cls`."""
    marks = _Marks()
    again: list[Any] = []
    plain = _named(rules.name, rules.forward, partial(_plainly, rules, marks))
    function: CustomFunction[..., Any] = CustomFunction(plain)
    function.original = cls  # its methods are private copies, if the class is
    function.title = f"{rules.name}.apply"
    again.append(function)
    batching = rules.vmap if in_a_batch() else None
    if batching is not None:
        _check_vmap(rules)
    if rules.pulls or rules.jvp is None:
        forward = _named("forward", rules.forward, partial(_forward, rules, marks, again))
        back = partial(_backward, rules, [*map(_shape_of, args)])
        backward = _named("backward", rules.backward, back)
        function.rule = UserRule(forward, backward, batching=batching)
    else:
        push = _named("jvp", rules.jvp, partial(_push, rules, marks, again))
        function.rule = UserRule(pushforward=push, batching=batching)
    return marks.applied(args, function(*args))


class _Marks:
    """The marks of a forward rule: outputs without derivative, and arguments that it stores into.

    `flat` are the outputs without derivative; `dirty` are the arguments stored into, each with its
    output; `last` gives for each output the last output that is the same array.
    """

    def __init__(self) -> None:
        self.flat: list[int] = []
        self.dirty: dict[int, int] = {}
        self.last: list[int] = []

    def run(self, rules: FunctionRules, ctx: FunctionCtx, args: Sequence[Any]) -> Any:
        """Run the forward rule on copies of the arguments, and note which of them it marks."""
        copies = [np.copy(a) if isinstance(a, TracedArray | np.ndarray) else a for a in args]
        output = run_forward(rules, ctx, copies)
        outs = _as_tuple(output)
        places = {id(o): k for k, o in enumerate(outs)}
        self.last = [places[id(o)] for o in outs]
        for k, (x, arg) in enumerate(zip(copies, args, strict=True)):
            if any(x is d for d in ctx._dirty):
                if id(x) not in places:
                    raise RuntimeError(NOT_RETURNED)
                self.dirty[k] = places[id(x)]
            elif x is not arg and _differ(x, arg):
                raise unmarked(rules.name)
        return output

    def applied(self, args: tuple[Any, ...], output: Any) -> Any:
        """The outputs of a call as the user has them, and stores into its arguments."""
        outs = _as_tuple(output)
        outs = [stop_gradient(x) if k in self.flat else x for k, x in enumerate(outs)]
        for k, place in self.dirty.items():
            args[k][...] = outs[place]
            outs[place] = args[k]
        outs = [outs[k] for k in self.last]
        return tuple(outs) if isinstance(output, tuple) else outs[0]


def _differ(copy: Any, array: Any) -> bool:
    """Whether a copy was stored into."""
    if isinstance(copy, TracedArray):
        return copy.id != copy.made
    return not isinstance(copy, np.ndarray) or copy.tobytes() != array.tobytes()


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


def _plainly(rules: FunctionRules, marks: _Marks, *args: Any) -> Any:
    return marks.run(rules, _context(args), args)


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


def _run(
    rules: FunctionRules, marks: _Marks, again: list[Any], ctx: FunctionCtx, args: Sequence[Any]
) -> Any:
    """Run the forward rule, which fills the context.

    The class is called `again` by its own rule, so that derivatives of what depends on the output,
    the second ones of the call itself among them, go by the rule, as in torch.
    """
    if rules.setup is not None:
        output = again[0](*args)
        rules.setup(ctx, tuple(args), output)
        return output
    plain = marks.run(rules, ctx, args)
    output = again[0](*args)
    pairs = list(zip(_as_tuple(plain), _as_tuple(output), strict=True))
    own = lambda x: next((ruled for original, ruled in pairs if original is x), x)  # noqa: E731 - of this call
    ctx._saved, ctx._flat = tuple(map(own, ctx._saved)), tuple(map(own, ctx._flat))
    if ctx._saved_forward is not None:
        ctx._saved_forward = tuple(map(own, ctx._saved_forward))
    for name, value in vars(ctx).items():
        if name not in _PRIVATE:
            setattr(ctx, name, own(value))
    return output


def _forward(rules: FunctionRules, marks: _Marks, again: list[Any], *args: Any) -> tuple[Any, Any]:
    """The output, and the context as residuals."""
    ctx = _context(args)
    output = _run(rules, marks, again, ctx, args)
    marks.flat[:] = [k for k, o in enumerate(_as_tuple(output)) if any(o is x for x in ctx._flat)]
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
    gradients = as_many(
        rules.name, rules.backward(_filled(residuals), *_as_tuple(bars)), len(shapes)
    )
    return tuple(
        [
            g if g is None or shape is None else summed_to(g, shape)
            for g, shape in zip(gradients, shapes, strict=True)
        ]
    )


def _push(
    rules: FunctionRules,
    marks: _Marks,
    again: list[Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
) -> tuple[Any, Any]:
    ctx = _context(primals)
    output = _run(rules, marks, again, ctx, primals)
    assert rules.jvp is not None, "asked before"
    with ctx.pushing():
        return output, rules.jvp(ctx, *tangents)
