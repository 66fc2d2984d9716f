"""Functions with the user's derivative rules: `custom_vjp` and `custom_jvp`, with JAX's protocols.

Each protocol has a reader, which makes a `UserRule` of the user's functions: `defvjp`, `defjvp` and
`defjvps` here, `fdiff.primitive` in `primitives.py`, `rule_of_class` for torch's `Function`.

Outside of a trace, a call of such a function is a plain call of the user's function. In a trace
that differentiates with respect to its arguments, the rule is traced as well
(`rule_construction.py`), and a node of the tape holds the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from inspect import Signature, signature
from types import MethodType
from typing import Generic, Self, TypeVar, cast

from ...dispatch.arguments import Function
from ...dispatch.program import OwnsPrograms
from ...errors import InputError, called, failure, shown
from ...foreign_errors import not_foreign, update_wrapper
from ...hooks import hooks
from ...primitive import Primitive
from ...trace import tracing
from ...tracebacks import public_class
from ...user_lines import printable
from ..annotations import P, R
from ..options import check_callable, is_int
from .rule_construction import call_with_rule
from .ruled_call import UserRule

F = TypeVar("F", bound=Callable[..., object])
AT_ONCE = "Write it below the function: `{0}.{1}(...)`."


class CustomFunction(OwnsPrograms, Generic[P, R]):
    """A function of the user with a derivative rule; a trace works on a private copy
    (`private_copy`).
    """

    # The attributes that a trace replaces by private copies, and compares at the next call.
    __fdiff_parts__ = ("fun", "rule")
    __wrapped__: Function
    name = ""  # of the public class
    definition = ""  # of the method that gives the rule
    title = ""  # the public name, where it is another one
    rule: UserRule | None = None
    op: Primitive | None = None  # the operation that the function is, if it is one

    def __init__(self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        check_callable(fun, self.name)
        self.fun = fun
        self.nondiff = _checked_argnums(nondiff_argnums, self.call)
        self.original: object = self
        self.programs = {}
        self.compared: set[object] = set()  # signatures for which rules were compared with `fun`
        update_wrapper(self, fun, updated=())
        self._signature = _signature(fun)

    @property
    def call(self) -> str:
        """The public name, for messages."""
        return printable(self.title) or called(self.name, self.fun)

    def define(self, rule: UserRule | None) -> None:
        """Give the function its rule."""
        self.compared.clear()
        self.rule = rule

    def output(self, args: tuple[object, ...]) -> object:
        """The output for arguments as `RuledCall` has them, without the rule."""
        return cast("Function", self.fun)(*args)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "programs": {}}

    def private_copy(self) -> Self:
        """A copy, whose parts a trace replaces by private ones."""
        return copy(self)

    @property
    def private(self) -> bool:
        """Whether this is a private copy, made for a trace."""
        return self.original is not self

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.rule is None:
            fact = "the function has no rule yet."
            way = AT_ONCE.format(getattr(self.fun, "__name__", "f"), self.definition)
            raise failure(InputError, self.call, fact, way)
        if not tracing():
            recorded = hooks.recorded_rules
            if recorded is None:
                return self.fun(*args, **kwargs)
            return recorded(self, args, kwargs)
        return cast("R", call_with_rule(self, args, kwargs))

    def __get__(self, owner: object, kind: type | None = None) -> Self | MethodType:
        return self if owner is None else MethodType(self, owner)

    def __repr__(self) -> str:
        return f"<fdiff.{self.call}>"

    def positional(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        """All arguments by position, with defaults: rules know no keywords, as in JAX."""
        if not kwargs and self._signature is None:
            return args
        if self._signature is None:
            fact = "keywords cannot be put in order: the function has no signature."
            raise failure(InputError, self.call, fact, "Pass its arguments by position.")
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            names = ", ".join(bound.kwargs)
            fact = f"the keyword arguments {names} have no position, and rules are given none."
            raise failure(InputError, self.call, fact, "Make them positional in the function.")
        return bound.args


def _signature(fun: Function) -> Signature | None:
    """The signature of a function; None if it tells none."""
    try:
        return signature(fun)
    except not_foreign(TypeError, ValueError):
        return None


def _checked_argnums(argnums: object, call: str) -> tuple[int, ...]:
    several = isinstance(argnums, (tuple, list, range, set, frozenset))
    every = tuple[object, ...](argnums) if several else (argnums,)
    nums = [int(n) for n in every if is_int(n) and n >= 0]
    if len(set(nums)) < len(every):
        fact = f"nondiff_argnums must be different positions from 0 on, not {shown(argnums)}."
        raise failure(InputError, call, fact, "Write nondiff_argnums=(0,) for the first argument.")
    return tuple(nums)


@public_class
class custom_vjp(CustomFunction[P, R]):  # noqa: N801 - JAX's name
    """A function with a reverse rule that the user defines.

    Parameters
    ----------
    fun : callable
        Function of arrays, numbers, and nested tuples, lists, dicts and dataclasses of them.
    nondiff_argnums : sequence of int
        Positions of arguments without derivative, such as functions. The backward rule gets them
        first.

    Returns
    -------
    custom_vjp
        A function with the arguments of `fun`. `defvjp` gives it its rule; `grad`, `jacobian` and
        all other operators then use that, in both modes and at every order.

    Raises
    ------
    InputError
        If a rule gives another number of cotangents than there are arguments, or other structures.
    DtypeError, VectorError
        If a cotangent has another dtype or shape than its argument.
    TraceError
        If forward mode meets a backward rule that is not linear in the cotangents, or a rule closes
        over a differentiated value.

    Notes
    -----
    The protocol is ``jax.custom_vjp``'s. Unlike in JAX, forward mode (`jvp`, `jacfwd`, `hvp`,
    `hessian`) works too: the backward rule is linear in the cotangents, and fdiff transposes it.
    The value of a differentiated call comes from the forward rule. Derivatives of higher order
    differentiate both rules. Cotangents of complex arrays follow `fdiff.vjp` and torch; they are
    the conjugates of JAX's. The backward rule gets Python values among the residuals unchanged.
    Rules are traced with the function that calls this one, for each of its signatures.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.2;
    R. Frostig et al., "Decomposing reverse-mode automatic differentiation", arXiv:2105.09469, 2021:
    the whole note.

    Examples
    --------
    The derivative of ``log(1 + exp(x))`` that does not overflow:

    >>> import numpy as np
    >>> import fdiff
    >>> @fdiff.custom_vjp
    ... def softplus(x):
    ...     return np.log1p(np.exp(x))
    >>> def forward(x):
    ...     return softplus(x), x
    >>> def backward(x, bar):
    ...     return (bar / (1 + np.exp(-x)),)
    >>> softplus.defvjp(forward, backward)
    >>> fdiff.grad(softplus)(1000.0)
    np.float64(1.0)
    """

    name, definition = "custom_vjp", "defvjp"

    def defvjp(self, fwd: Function, bwd: Function) -> None:
        """Give the function its rule.

        Parameters
        ----------
        fwd : callable
            Takes the arguments of the function; returns ``(output, residuals)``: what the function
            returns, and whatever the backward rule needs.
        bwd : callable
            ``bwd(*nondiff, residuals, bar)``, where `bar` has the structure of the output; returns
            a tuple with one cotangent for each argument that is not among `nondiff_argnums`, in the
            structure of the argument; None stands for zeros, and for arguments that are not real.

        Raises
        ------
        InputError
            If one of them cannot be called.

        Examples
        --------
        >>> import fdiff
        >>> square = fdiff.custom_vjp(lambda x: x * x)
        >>> square.defvjp(lambda x: (x * x, x), lambda x, bar: (2 * x * bar,))
        >>> fdiff.grad(square)(3.0)
        np.float64(6.0)
        """
        check_callable(fwd, "defvjp")
        check_callable(bwd, "defvjp")
        self.define(UserRule(fwd, bwd))


@public_class
class custom_jvp(CustomFunction[P, R]):  # noqa: N801 - JAX's name
    """A function with a forward rule that the user defines.

    Parameters
    ----------
    fun : callable
        Function of arrays, numbers, and nested tuples, lists, dicts and dataclasses of them.
    nondiff_argnums : sequence of int
        Positions of arguments without derivative. The rule gets them first.

    Returns
    -------
    custom_jvp
        A function with the arguments of `fun`. `defjvp` or `defjvps` gives it its rule, which is
        used in forward mode and, transposed, in reverse mode, at every order.

    Raises
    ------
    InputError
        If the rule does not return a pair, or returns other structures than the function.
    DtypeError, VectorError
        If a tangent has another dtype or shape than its output.
    TraceError
        If the rule is not linear in the tangents, or closes over a value that is differentiated.

    Notes
    -----
    The protocol is ``jax.custom_jvp``'s.

    References
    ----------
    ``jax.custom_jvp``, whose protocol this is.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> @fdiff.custom_jvp
    ... def f(x, y):
    ...     return np.sin(x) * y
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     x, y = primals
    ...     x_dot, y_dot = tangents
    ...     return f(x, y), np.cos(x) * x_dot * y + np.sin(x) * y_dot
    >>> fdiff.grad(f, argnums=(0, 1))(2.0, 3.0)
    (np.float64(-1.2484405096414273), np.float64(0.9092974268256817))
    """

    name, definition = "custom_jvp", "defjvp"

    def defjvp(self, jvp: F) -> F:
        """Give the function its rule; may be used as a decorator.

        Parameters
        ----------
        jvp : callable
            ``jvp(*nondiff, primals, tangents)``, where both are tuples with an entry for each
            argument that is not among `nondiff_argnums`. Returns ``(output, tangent)``, where
            `tangent` has the structure of the output and is linear in `tangents`.

        Returns
        -------
        callable
            The rule.

        Raises
        ------
        InputError
            If it cannot be called.

        Examples
        --------
        >>> import fdiff
        >>> square = fdiff.custom_jvp(lambda x: x * x)
        >>> rule = square.defjvp(lambda xs, ts: (xs[0] * xs[0], 2 * xs[0] * ts[0]))
        >>> fdiff.grad(square)(3.0)
        np.float64(6.0)
        """
        check_callable(jvp, "defjvp")
        self.define(UserRule(pushforward=jvp))
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Give the function a rule for each argument, whose tangents are added.

        Parameters
        ----------
        *jvps : callable or None
            ``jvp(tangent, output, *primals)`` for each argument; None where there is no derivative.

        Raises
        ------
        InputError
            If one cannot be called, or the function has `nondiff_argnums`.

        Examples
        --------
        >>> import fdiff
        >>> product = fdiff.custom_jvp(lambda x, n: x * n)
        >>> product.defjvps(lambda t, out, x, n: n * t, None)
        >>> fdiff.grad(product)(3.0, 2.0)
        np.float64(2.0)
        """
        for jvp in jvps:
            if jvp is not None:
                check_callable(jvp, "defjvps")
        if self.nondiff:
            fact = "defjvps cannot be used with nondiff_argnums."
            raise failure(InputError, self.call, fact, "Use defjvp.")
        self.define(UserRule(slopes=jvps) if jvps else None)
