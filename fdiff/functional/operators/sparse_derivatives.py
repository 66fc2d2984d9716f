"""``sparse=`` of `jacobian` and `hessian`: options, operators, and parts of the results.

Source: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, chapter 8.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import fdiff.intact_numpy as np

from ...dispatch.arguments import WAY_OUT, Argnums, Function
from ...dispatch.fast_paths.fast_path import has_parameter
from ...dispatch.program import MOST_PROGRAMS
from ...errors import InputError, called, choice, failure, flag, shown
from ...tree import flatten
from ..call.complex_rules import check_choice
from ..call.invocation import Arguments, immediate_call, no_vectors, prepared_function
from ..call.operator_call import Check, Operator
from ..call.prepared import AnyPrepared, Origin
from ..options import LEFT_OUT, check_argnums, check_callable, check_device, check_mode
from .dense_plans import check_hessian, check_jacobian
from .sparse_plans import Result, array_as, coordinates, sparse_plan, values_alone

FORMATS = ("csr", "csc", "coo")


def check_format(sparse: object, call: str) -> str:
    """A format of SciPy's sparse arrays; True is "csr"."""
    if sparse is True:
        return "csr"
    way = 'Write sparse="csr", or leave it out to have a dense array.'
    return choice(sparse, FORMATS, "sparse", call, way)


def refuse_beside_sparse(f: Function, name: str, **settings: object) -> None:
    """Refuse options that are for dense results."""
    for key, value in settings.items():
        if not (value is False or value is None or (isinstance(value, str) and value == "auto")):
            fact = f"{key}={shown(value)} is for dense results, and sparse= is given."
            raise failure(InputError, called(name, f), fact, f"Leave {key} or sparse out.")


class SparseOperator(Operator):
    """A sparse derivative with its settings checked, or one of its parts; `again` gives others."""

    __slots__ = ("again", "part")
    eager = False  # an eager trace has no structure
    merges = False  # entries belong to the branch taken, whichever branch the calls before took

    def __init__(
        self,
        derivative: Function,
        settings: dict[str, object],
        check: Check,
        part: str,
        again: Callable[[str], SparseOperator],
        **asked: object,
    ) -> None:
        array = str(settings["sparse"])
        result: Result = values_alone
        if part == "coordinates":
            result = coordinates
        elif part != "data":
            result = array_as(array, filled=part == "array")
        values = part in ("array", "data")
        plan = partial(sparse_plan, format=array, result=result, values=values, **asked)
        super().__init__(derivative, settings, plan, check)
        self.part, self.again = part, again

    def prepared(self, f: Function, argnums: Argnums) -> AnyPrepared:
        """The prepared function, or the prepared function of the part."""
        origin = self.origin(argnums)
        if self.part != "array":
            options = {"derivative": origin.operator, "part": self.part, **origin.options}
            origin = Origin(part_again, options)

        def part_of(name: str) -> AnyPrepared:
            return self.again(name).prepared(f, argnums)

        return prepared_function(
            self.program(f, argnums), f, no_vectors, origin,
            arrange=partial(_arranged, f, self), out=self.part == "data",
            part_of=part_of if self.part == "array" else None,
        )  # fmt: skip


def _arranged(f: Function, operator: SparseOperator, *args: object, **kwargs: object) -> Arguments:
    """The arguments of a call; requests that a sparse result cannot serve are refused."""
    out = "out" in kwargs and not has_parameter(f, "out")
    if operator.part == "array":
        if out:
            fact = "a sparse array cannot be written to another array."
            way = "Write its values: jacobian(f, sparse=True).data(x, out=values)."
            raise failure(InputError, called(operator.name, f), fact, way)
        refuse_recorded((args, kwargs), called(operator.name, f))
    elif out:
        refuse_strided(kwargs["out"], called(operator.name, f))
    return args, kwargs


def refuse_strided(out: object, call: str) -> None:
    """Refuse arrays with gaps between their entries: solvers hand over whole buffers."""
    for place in flatten(out)[0]:
        if isinstance(place, np.ndarray) and not place.flags.c_contiguous:
            fact = f"out holds an array of strides {place.strides}, which is not contiguous."
            way = "Pass an array like np.empty(n), and copy its values to where they are needed."
            raise failure(InputError, call, fact, way)


def refuse_recorded(arguments: object, call: str) -> None:
    """Refuse recorded arrays: a sparse result carries no graph."""
    if any(hasattr(type(leaf), WAY_OUT) for leaf in flatten(arguments)[0]):
        fact = "a sparse array carries no graph, and a recorded array is among the arguments."
        call_data = "jacobian(f, sparse=True).data(x)"
        way = f"Pass x.detach(), or take the values, which are recorded: {call_data}."
        raise failure(InputError, call, fact, way)


def sparse_derivative(
    derivative: Function,
    f: Function,
    inputs: object,
    argnums: object,
    settings: dict[str, object],
    dense_settings: dict[str, object],
) -> object:
    """`jacobian` or `hessian` with ``sparse=``; with `inputs` left out, the prepared function."""
    name = derivative.__name__
    call = called(name, f)
    refuse_beside_sparse(f, name, **dense_settings)
    checked = {key: _CHECKS[key](value, call) for key, value in settings.items()}
    whole = _sparse_operator(derivative, "array", **checked)
    check_callable(f, name)
    if inputs is LEFT_OUT:
        return whole.prepared(f, check_argnums(argnums, f, name))
    refuse_recorded(inputs, call)
    return immediate_call(whole, f, inputs, argnums)


_CHECKS: dict[str, Callable[[object, str], object]] = {
    "sparse": check_format,
    "mode": check_mode,
    "device": check_device,
    "complex_inputs": check_choice,
    "lower": lambda lower, call: flag(lower, "lower", call),
    "strict": lambda strict, call: flag(strict, "strict", call),
}


@lru_cache(maxsize=MOST_PROGRAMS)
def _sparse_operator(derivative: Function, part: str, **settings: Any) -> SparseOperator:
    """The operator `jacobian` or `hessian` for sparse arrays, or for a part of them."""
    again = partial(_sparse_operator, derivative, **settings)
    strict, second = settings["strict"], "lower" in settings
    check = (
        partial(check_hessian, strict=strict)
        if second
        else partial(check_jacobian, strict=strict, choice=settings["complex_inputs"])
    )
    mode, lower = settings.get("mode", "auto"), settings.get("lower", False)
    return SparseOperator(
        derivative, settings, check, part, again, hessian=second, lower=lower, mode=mode
    )


def part_again(
    f: Function, *, derivative: Callable[..., object], part: str, **settings: object
) -> AnyPrepared:
    """A part of a prepared sparse function, made again in another process."""
    return getattr(derivative(f, **settings), part)
