"""The context that the rules of a `Function` share, and the calls of the rules.

Source: torch's page ``torch.autograd``, section "Context method mixins".
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from inspect import signature
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...errors import InputError, UnsupportedError, failure, warn
from ...foreign_errors import contextmanager
from ...functional.rules.ruled_call import UserRule

if TYPE_CHECKING:
    from ..arrays.recorded_array import Recordable
    from ..function import Function

NOT_RETURNED = (
    "Some elements marked as dirty during the forward method were not returned as output. The"
    " inputs that are modified inplace must all be outputs of the Function."
)


class FunctionCtx:
    """The context that the rules of a `Function` share: the values that forward keeps for backward.

    Further attributes may be set for values that are not arrays.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument of ``apply`` whether a gradient is needed.
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._saved: tuple[object, ...] = ()
        self._saved_forward: tuple[object, ...] | None = None
        self._restore: Callable[[], tuple[object, ...]] | None = None
        self._dirty: tuple[object, ...] = ()
        self._flat: tuple[object, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: object) -> None:
        """Keep arrays, inputs or outputs as a rule, for ``backward``; None may be among them.

        A store into one of them before it is used is noticed.
        """
        self._saved = tensors

    def save_for_forward(self, *tensors: object) -> None:
        """Keep arrays for ``jvp``, which else has the arrays of `save_for_backward`."""
        self._saved_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Recordable, ...]:
        """The arrays that were kept.

        Raises
        ------
        RuntimeError
            If they were freed by a backward pass, or stored into meanwhile.
        """
        return self._saved if self._restore is None else self._restore()

    @contextmanager
    def pushing(self) -> Generator[None]:
        """In this context `saved_tensors` returns the arrays that were saved for ``jvp``."""
        before = self._saved, self._restore
        if self._saved_forward is not None:
            self._saved, self._restore = self._saved_forward, None
        try:
            yield
        finally:
            self._saved, self._restore = before

    @property
    def saved_variables(self) -> tuple[Recordable, ...]:
        """The old name of `saved_tensors`."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    def mark_dirty(self, *args: object) -> None:
        """Tell which arguments ``forward`` has stored into; it must return them."""
        self._dirty = args

    def mark_non_differentiable(self, *args: object) -> None:
        """Tell which outputs have no derivative."""
        self._flat = args

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001 - torch's signature
        """Whether ``backward`` gets zeros for outputs without a gradient (the default), or None."""
        self._materialize = bool(value)


def unmarked(name: str) -> UnsupportedError:
    """The error for a forward rule that stores into an argument and does not say so."""
    fact = "forward stores into an array that it is given, and does not say so."
    return failure(UnsupportedError, f"{name}.apply", fact, "Call ctx.mark_dirty(array).")


def rule_of_class(cls: type[Function], base: type[Function]) -> UserRule:
    """The rule that the static methods of a class derived from `Function`, the `base`, state."""
    backward = None if cls.backward is base.backward else cls.backward
    vjp = None if cls.vjp is base.vjp else cls.vjp
    jvp = None if cls.jvp is base.jvp else cls.jvp
    vmap = None if cls.vmap is base.vmap else cls.vmap
    setup = None if cls.setup_context is base.setup_context else cls.setup_context
    if backward and vjp:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You"
            " should only implement one of them."
        )
    pullback = vjp or (None if jvp and not backward else cls.backward)
    return UserRule(cls.forward, pullback, jvp, (), vmap, setup)


def for_arrays(rule: UserRule, places: Sequence[int], count: int) -> UserRule:
    """The rule for the array outputs, which stand at `places` among `count` outputs."""
    if len(places) == count:
        return rule

    def backward(ctx: FunctionCtx, *bars: object) -> object:
        cotangents: list[object] = [None] * count
        for k, bar in zip(places, bars, strict=True):
            cotangents[k] = bar
        assert rule.pullback is not None, "there is one"
        return rule.pullback(ctx, *cotangents)

    def push(ctx: FunctionCtx, *dots: object) -> object:
        assert rule.pushforward is not None, "there is one"
        tangents = rule.pushforward(ctx, *dots)
        return tuple([tangents[k] for k in places]) if isinstance(tangents, tuple) else tangents

    return rule._replace(pullback=backward, pushforward=rule.pushforward and push)


def positional(
    rule: UserRule, name: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[object, ...]:
    """All arguments of ``apply`` by position, with the defaults of `forward` for ``setup``.

    Raises
    ------
    TypeError
        If they differ from the parameters of ``forward``.
    """
    lead = () if rule.setup else (None,)  # the context
    assert rule.forward is not None, "every class has one"
    bound = signature(rule.forward).bind(*lead, *args, **kwargs)
    if rule.setup or bound.kwargs:  # which are left where an argument before them is not given
        bound.apply_defaults()
    if bound.kwargs:
        names = ", ".join(bound.kwargs)
        fact = f"the keyword arguments {names} have no position, and rules are given none."
        way = "Make them positional in forward."
        raise failure(InputError, f"{name}.apply", fact, way)
    return bound.args[len(lead) :]


def run_forward(rule: UserRule, ctx: FunctionCtx, args: Sequence[object]) -> Recordable:
    """The output of the forward rule, with the context filled."""
    assert rule.forward is not None, "every class has one"
    if rule.setup is None:
        return rule.forward(ctx, *args)
    output = rule.forward(*args)
    rule.setup(ctx, tuple(args), output)
    return output


def as_many(name: str, result: object, count: int) -> list[Recordable]:
    """As many gradients as there are arguments; more are None, as in torch."""
    gradients = list(result) if isinstance(result, tuple) else [result]
    if len(gradients) > count and all(g is None for g in gradients[count:]):
        del gradients[count:]
    if len(gradients) != count:
        raise RuntimeError(
            f"function {name}Backward returned an incorrect number of gradients (expected {count},"
            f" got {len(gradients)})"
        )
    return gradients


def summed_to(gradient: Recordable, wanted: tuple[int, ...]) -> Recordable:
    """A gradient summed over axes that were broadcast; unchanged where the shapes differ."""
    shape = np.shape(gradient)
    lead = len(shape) - len(wanted)
    if shape == wanted or lead < 0:
        return gradient
    if any(n not in (1, m) for n, m in zip(wanted, shape[lead:], strict=True)):
        return gradient
    ones = [lead + i for i, n in enumerate(wanted) if n == 1 and shape[lead + i] != 1]
    return np.reshape(np.sum(gradient, axis=(*range(lead), *ones)), wanted)
