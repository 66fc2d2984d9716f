"""A `Function` in a traced function: a call of a function with a `UserRule`, as by `custom_vjp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...functional.rules.custom_derivatives import CustomFunction
from ...functional.rules.ruled_call import UserRule
from ...ops.entrywise.composite_functions import stop_gradient
from ...trace import TracedArray, in_a_batch
from ..arrays.recorded_array import Recordable
from .function_context import (
    NOT_RETURNED,
    FunctionCtx,
    as_many,
    run_forward,
    summed_to,
    unmarked,
)

if TYPE_CHECKING:
    from ..function import Function


def apply_traced(cls: type[Function], rule: UserRule, args: tuple[object, ...]) -> object:
    """Call a function whose rule is made of the static methods of the class `cls`."""
    if not in_a_batch():
        rule = rule._replace(batching=None)
    elif rule.batching is not None:
        _check_vmap(cls, rule)
    call = _TracedCall(cls, rule, args)
    return call.applied(call.function(*args))


def _check_vmap(cls: type[Function], rule: UserRule) -> None:
    """Refuse classes with a `vmap` of their own that torch refuses."""
    if cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an"
            " overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the"
            " overridden vmap staticmethod to avoid ambiguity."
        )
    if rule.setup is None:
        raise RuntimeError(
            f"In order to use {cls.__name__}, which has a vmap staticmethod, in a vmap, it must"
            " override the setup_context staticmethod."
        )


class _TracedCall:
    """One call of a class: its rule with a context, as rules with residuals and primals.

    The marks of the forward rule: `flat` are the outputs without derivative; `dirty` are the
    arguments stored into, each with its output; `last` gives for each output the last output that
    is the same array.
    """

    def __init__(self, cls: type[Function], rule: UserRule, args: tuple[Recordable, ...]) -> None:
        self.name, self.rule, self.args = cls.__name__, rule, args
        self.flat: list[int] = []
        self.dirty: dict[int, int] = {}
        self.last: list[int] = []
        function: CustomFunction[..., object]
        function = CustomFunction(_named(self.name, rule.forward, self._plain))
        function.original = cls  # its methods are private copies, if the class is
        function.title = f"{self.name}.apply"
        self.function = function
        if rule.pullback is not None:
            forward = _named("forward", rule.forward, self._forward)
            backward = _named("backward", rule.pullback, self._backward)
            function.rule = UserRule(forward, backward, batching=rule.batching)
        else:
            push = _named("jvp", rule.pushforward, self._push)
            function.rule = UserRule(pushforward=push, batching=rule.batching)

    def applied(self, output: object) -> object:
        """The outputs of a call as the user has them, and stores into its arguments."""
        outs = _as_tuple(output)
        outs = [stop_gradient(x) if k in self.flat else x for k, x in enumerate(outs)]
        for k, place in self.dirty.items():
            self.args[k][...] = outs[place]
            outs[place] = self.args[k]
        outs = [outs[k] for k in self.last]
        return tuple(outs) if isinstance(output, tuple) else outs[0]

    def _plain(self, *args: object) -> object:
        return self._marked(_context(args), args)

    def _marked(self, ctx: FunctionCtx, args: Sequence[object]) -> object:
        """The output of the forward rule for copies of the arguments; what it marks is noted."""
        copies = [np.copy(a) if isinstance(a, TracedArray | np.ndarray) else a for a in args]
        output = run_forward(self.rule, ctx, copies)
        outs = _as_tuple(output)
        places = {id(o): k for k, o in enumerate(outs)}
        self.last = [places[id(o)] for o in outs]
        for k, (x, arg) in enumerate(zip(copies, args, strict=True)):
            if any(x is d for d in ctx._dirty):
                if id(x) not in places:
                    raise RuntimeError(NOT_RETURNED)
                self.dirty[k] = places[id(x)]
            elif x is not arg and _differ(x, arg):
                raise unmarked(self.name)
        return output

    def _run(self, ctx: FunctionCtx, args: Sequence[object]) -> object:
        """The output of the forward rule, with the context filled.

        The class is called again by its own rule, so that derivatives of what depends on the
        output, the second ones of the call itself among them, go by the rule, as in torch.
        """
        if self.rule.setup is not None:
            output = self.function(*args)
            self.rule.setup(ctx, tuple(args), output)
            return output
        plain = self._marked(ctx, args)
        output = self.function(*args)
        pairs = list(zip(_as_tuple(plain), _as_tuple(output), strict=True))
        own = lambda x: next((ruled for original, ruled in pairs if original is x), x)  # noqa: E731 - of this call
        ctx._saved, ctx._flat = tuple(map(own, ctx._saved)), tuple(map(own, ctx._flat))
        if ctx._saved_forward is not None:
            ctx._saved_forward = tuple(map(own, ctx._saved_forward))
        for name, value in vars(ctx).items():
            if name not in _PRIVATE:
                setattr(ctx, name, own(value))
        return output

    def _forward(self, *args: object) -> tuple[object, object]:
        """The output, and the context as residuals."""
        ctx = _context(args)
        output = self._run(ctx, args)
        outs = enumerate(_as_tuple(output))
        self.flat[:] = [k for k, o in outs if any(o is x for x in ctx._flat)]
        own = {k: v for k, v in vars(ctx).items() if k not in _PRIVATE}
        return output, (ctx._saved, own)

    def _backward(
        self, residuals: tuple[tuple[object, ...], dict[str, object]], bars: object
    ) -> tuple[object, ...]:
        """The gradients, summed over axes that were broadcast, as torch does."""
        ctx = FunctionCtx()
        ctx._saved = residuals[0]
        vars(ctx).update(residuals[1])
        assert self.rule.pullback is not None, "asked before"
        gradients = self.rule.pullback(ctx, *_as_tuple(bars))
        shapes = [*map(_shape_of, self.args)]
        return tuple(
            [
                g if g is None or shape is None else summed_to(g, shape)
                for g, shape in zip(as_many(self.name, gradients, len(shapes)), shapes, strict=True)
            ]
        )

    def _push(
        self, primals: tuple[object, ...], tangents: tuple[object, ...]
    ) -> tuple[object, object]:
        ctx = _context(primals)
        output = self._run(ctx, primals)
        assert self.rule.pushforward is not None, "asked before"
        with ctx.pushing():
            return output, self.rule.pushforward(ctx, *tangents)


def _differ(copy: object, array: object) -> bool:
    """Whether a copy was stored into."""
    if isinstance(copy, TracedArray):
        return copy.id != copy.made
    return not isinstance(copy, np.ndarray) or copy.tobytes() != np.asarray(array).tobytes()


def _named(name: str, method: object, rule: Callable[..., object]) -> Callable[..., object]:
    """A rule under the name, and with the line, of the method that it calls: for messages."""
    named = partial(rule)
    vars(named).update(__name__=name, __code__=getattr(method, "__code__", None))
    return named


def _as_tuple(output: object) -> tuple[object, ...]:
    return output if isinstance(output, tuple) else (output,)


def _context(args: Sequence[object]) -> FunctionCtx:
    ctx = FunctionCtx()
    ctx.needs_input_grad = tuple([isinstance(a, TracedArray) and a.type.floating for a in args])
    return ctx


_PRIVATE = frozenset(vars(FunctionCtx()))


def _shape_of(arg: object) -> tuple[int, ...] | None:
    """The shape of an array or number; None for anything else, a list of arrays for instance."""
    return np.shape(arg) if isinstance(arg, TracedArray | np.ndarray | np.generic) else None
