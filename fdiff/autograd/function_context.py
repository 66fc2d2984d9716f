"""What the rules of a `Function` share, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class FunctionCtx:
    """What the rules of a `Function` share: whatever forward keeps for backward.

    Attributes of one's own may be set for values that are no arrays.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument of ``apply`` whether a gradient is needed.
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._restore: Callable[[], tuple[Any, ...]] | None = None
        self._dirty: tuple[Any, ...] = ()
        self._flat: tuple[Any, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep arrays, inputs or outputs as a rule, for ``backward``; None may be among them.

        A store into one of them before it is used is noticed.
        """
        self._saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep arrays for ``jvp``."""
        self._saved = self._saved or tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The arrays that were kept.

        Raises
        ------
        RuntimeError
            If they were freed by a backward pass, or stored into meanwhile.
        """
        return self._saved if self._restore is None else self._restore()

    def mark_dirty(self, *args: Any) -> None:
        """Tell which arguments ``forward`` has stored into; it must return them."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Tell which outputs have no derivative."""
        self._flat = args

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001 - torch's signature
        """Whether ``backward`` gets zeros for outputs without a gradient (the default), or None."""
        self._materialize = bool(value)


class FunctionRules:
    """The static methods of a class derived from `Function`, the `base`, and its name."""

    def __init__(self, cls: Any, base: Any) -> None:
        self.name = cls.__name__
        self.forward, self.backward = cls.forward, cls.backward
        own = lambda name: getattr(cls, name) is not getattr(base, name)  # noqa: E731 - of this class
        self.setup = cls.setup_context if own("setup_context") else None
        self.jvp = cls.jvp if own("jvp") else None
        self.pulls = own("backward")


def run_forward(rules: FunctionRules, ctx: FunctionCtx, args: Sequence[Any]) -> Any:
    """What the forward rule gives, with the context filled."""
    if rules.setup is None:
        return rules.forward(ctx, *args)
    output = rules.forward(*args)
    rules.setup(ctx, tuple(args), output)
    return output


def as_many(name: str, found: Any, count: int) -> list[Any]:
    """As many gradients as there are arguments; more are None, as in torch."""
    given = list(found) if isinstance(found, tuple) else [found]
    if len(given) > count and all(g is None for g in given[count:]):
        del given[count:]
    if len(given) != count:
        raise RuntimeError(
            f"function {name}Backward returned an incorrect number of gradients (expected {count},"
            f" got {len(given)})"
        )
    return given
