"""The texts that `help` and `inspect.signature` show for a prepared function.

Each function takes the user's function, the public name of the operator, and its options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...foreign_errors import not_foreign

Options = Mapping[str, Any]

# The results of the operators; {x} is the differentiated argument.
_GIVES = {
    "grad": "gradient, like {x}",
    "value_and_grad": "(value, gradient like {x})",
    "jacobian": "Jacobian of shape out.shape + {x}.shape",
    "jacrev": "Jacobian of shape out.shape + {x}.shape",
    "jacfwd": "Jacobian of shape out.shape + {x}.shape",
    "hessian": "Hessian of shape {x}.shape + {x}.shape",
    "vjp": "(outputs, v^T J like {x})",
    "jvp": "(outputs, J v like outputs)",
    "hvp": "H v, like {x}",
    "vhp": "v^T H, like {x}",
    "vmap": "results with one more axis",
}
_WITH_AUX = {
    "grad": "(gradient like {x}, aux)",
    "value_and_grad": "((value, aux), gradient like {x})",
}
_SPARSE = {
    **dict.fromkeys(
        ("jacobian", "jacrev", "jacfwd"), "sparse Jacobian of shape (out.size, {x}.size)"
    ),
    "hessian": "sparse Hessian of shape ({x}.size, {x}.size)",
}
_PRODUCTS = {"vjp", "jvp", "hvp", "vhp"}  # called as (x, v, *others)


class _Words(str):
    """A description of the result, which signatures show without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


class ComputedAttribute:
    """An attribute that is computed when an instance reads it; the class has a fixed value."""

    def __init__(self, compute: Callable[[Any], object], of_class: object = None) -> None:
        self._compute = compute
        self._of_class = of_class

    def __get__(self, owner: object, kind: type | None = None) -> object:
        if owner is not None:
            return self._compute(owner)
        if self._of_class is None:
            raise AttributeError
        return self._of_class


def signature(f: Callable[..., object], name: str, options: Options) -> inspect.Signature:
    """The arguments of the user's function, the vectors of a product, and the result."""
    try:
        own = inspect.signature(f)
    except not_foreign(TypeError, ValueError):  # a function written in C
        own = inspect.signature(lambda *args, **kwargs: None)
    if name not in _GIVES:
        return own
    parameters = list(own.parameters.values())
    chosen = _chosen(parameters, options)
    table = _SPARSE if options.get("sparse") else _WITH_AUX if options.get("has_aux") else _GIVES
    gives = table[name]
    if name in _PRODUCTS:
        parameters = _with_vector(parameters, chosen)
    return own.replace(
        parameters=parameters,
        return_annotation=_Words(gives.format(x=", ".join(p.name for p in chosen) or "x")),
    )


def _chosen(parameters: list[inspect.Parameter], options: Options) -> list[inspect.Parameter]:
    """The parameters that are differentiated, as far as the function names them."""
    nums = options.get("argnums", 0)
    places = [nums] if isinstance(nums, int) else list(nums)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [p for p in parameters if p.kind in positional]
    return [named[n] for n in places if -len(named) <= n < len(named)]


def _with_vector(
    parameters: list[inspect.Parameter], chosen: list[inspect.Parameter]
) -> list[inspect.Parameter]:
    """The point, the vector, and the other arguments."""
    positional = inspect.Parameter.POSITIONAL_ONLY
    name = chosen[0].name if len(chosen) == 1 else "x"
    v = "v" if all(p.name != "v" for p in parameters) else "v_"
    others = [p for p in parameters if p not in chosen]
    return [
        inspect.Parameter(name if all(p.name != name for p in others) else "x_", positional),
        inspect.Parameter(v, positional),
        *others,
    ]


def call_form(f: Callable[..., object], name: str, options: Options) -> str:
    """The names of the arguments and the result, on one line: ``(x, v) -> H v, like x``."""
    own = signature(f, name, options)
    bare = [p.replace(annotation=p.empty, default=p.empty) for p in own.parameters.values()]
    names = ", ".join(map(str, bare))
    gives = own.return_annotation
    return f"({names}) -> {gives}" if isinstance(gives, _Words) else f"({names})"


def document(f: Callable[..., object], name: str, options: Options) -> str:
    """A line about the prepared function and its result, above the user's own text."""
    own = getattr(f, "__name__", type(f).__name__)
    head = f"fdiff.{name} of {own}{signature(f, name, options)}"
    return "\n\n".join(filter(None, [head, inspect.getdoc(f)]))
