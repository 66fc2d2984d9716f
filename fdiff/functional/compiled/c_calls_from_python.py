"""Calls of C functions from Python through ctypes, with errors that name the argument at fault."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import fdiff.intact_numpy as np

from ...errors import InputError, failure
from ...foreign_errors import not_foreign
from ...kernels import CParameter
from ...tracebacks import public
from .c_declarations import Declaration, checked_type, plain_type, shaped

_WAY = "Pass what the examples were like, or make another C function: fdiff.cfunc(prepared, ...)."


def function_type(declared: Declaration) -> Callable[[int], object]:
    """The class of ctypes functions of this declaration, whose calls check their arguments.

    Like ctypes, they take arrays in C order with the dtype and shape of the example.
    """
    parameters = declared.parameters
    out = declared.signature.returned
    result = None if out is None else plain_type(out)
    plain: Any = ctypes.CFUNCTYPE(result, *map(plain_type, parameters))
    count = len(declared.signature.given)
    checks = [checked_type(parameter, write=k >= count) for k, parameter in enumerate(parameters)]

    class CheckedCFunction(plain):
        """A C function that checks its arguments before the call."""

        _flags_, _restype_, _argtypes_ = plain._flags_, plain._restype_, plain._argtypes_

        @public
        def __call__(self, *args: object) -> object:
            try:
                return super().__call__(*args)
            except not_foreign(ctypes.ArgumentError, TypeError):
                fact = _misfit(declared, parameters, checks, args)
            raise failure(InputError, f"cfunc({declared.call}).ctypes", fact, _WAY)

    def function(address: int) -> object:
        c_function: Any = CheckedCFunction(address)
        c_function.argtypes = checks
        return c_function

    return function


def _misfit(
    declared: Declaration, parameters: Sequence[CParameter], checks: Sequence[Any],
    args: Sequence[object],
) -> str:  # fmt: skip
    """The fault of a call's arguments, in words."""
    if len(args) != len(parameters):
        return f"{len(args)} arguments were passed; this is {declared.spelled('f')}."
    for parameter, check, value in zip(parameters, checks, args, strict=True):
        try:
            check.from_param(value)
        except not_foreign(ctypes.ArgumentError, TypeError):
            wanted = shaped(parameter)
            held = _described_argument(parameter, value)
            return f"{parameter.name} is {held}, where the C function takes {wanted}."
    return f"the arguments do not fit {declared.spelled('f')}."


def _described_argument(parameter: CParameter, value: object) -> str:
    """The description of an argument in an error."""
    if not isinstance(value, np.ndarray):
        return f"of type {type(value).__name__}"
    if value.dtype != parameter.dtype or value.shape != parameter.shape or not parameter.pointer:
        return f"an array of {value.dtype} with the shape {value.shape}"
    if not value.flags.writeable:
        return "an array that cannot be written to"
    return "an array whose entries are not in C order and aligned"
