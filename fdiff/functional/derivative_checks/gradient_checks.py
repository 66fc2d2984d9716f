"""`gradcheck` and `gradgradcheck`, once their arguments have been read.

Source: torch's note "Gradcheck mechanics", section "Gradgradcheck implementation".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...dispatch.arguments import Function
from ...errors import InputError, called, failure, warn
from ...hooks import hooks
from ..call.input_checks import check_inputs
from ..options import check_callable
from .check_settings import CheckSettings, broken
from .checked_functions import FunctionUnderCheck, PlainFunction, function_of_leaves
from .derivative_laws import check_laws, check_value_twice
from .jacobian_comparison import compare_jacobians, measured_jacobians
from .projection_comparison import compare_projections

Arrays = Sequence[np.ndarray]
DOUBLE = (np.dtype(np.float64), np.dtype(np.complex128))


def check_gradient(f: Function, inputs: object, settings: CheckSettings) -> None:
    """Raise `GradcheckError` unless the derivatives of `f` equal the measured ones."""
    function = function_at(f, inputs, "gradcheck")
    _check(function, settings)


def check_gradient_of_gradient(
    f: Function,
    inputs: object,
    grad_outputs: object,
    settings: CheckSettings,
    *,
    non_contiguous: bool,
) -> None:
    """Raise `GradcheckError` unless the derivatives of the pullback of `f` equal measured ones.

    They are taken with respect to the inputs and the cotangents that are pulled back.
    """
    first = function_at(f, inputs, "gradgradcheck")
    if grad_outputs is None:
        bars = _drawn(first.outputs, non_contiguous=non_contiguous)
    else:
        bars = _user_cotangents(first, grad_outputs)
    _check(first.pullback(bars), settings)


def function_at(f: Function, inputs: object, name: str) -> FunctionUnderCheck:
    """The function under check: of recorded arrays where `inputs` hold some, else of arrays."""
    check_callable(f, name)
    call = called(name, f)
    if isinstance(inputs, list) and not all(isinstance(x, float | int | complex) for x in inputs):
        inputs = tuple(cast("list[object]", inputs))  # as in torch
    recorded = hooks.recorded_function
    if recorded is not None and (function := recorded(f, inputs, name, call)) is not None:
        _warn_of_precision(function.inputs, call)
        return function
    args, _ = check_inputs(inputs, f, name)
    g, points = function_of_leaves(f, args)
    if not points:
        fact = (
            f"{name} expects at least one input array of floating point, to differentiate by,"
            " but none of them is."
        )
        raise failure(InputError, call, fact, "Convert them with x.astype(float).")
    _warn_of_precision(points, call)
    return PlainFunction(g, call, points)


def _warn_of_precision(points: Arrays, call: str) -> None:
    for k, x in enumerate(points):
        if x.dtype not in DOUBLE:
            warn(
                f"{call}: Input #{k} is {x.dtype}, not double precision floating point or complex."
                " Its derivatives are compared with ones measured in double precision, from which"
                " they differ by rounding: they agree to about 1e-3 in single precision, and no"
                " better than 1e-1 in half precision.",
                UserWarning,
            )


def _check(function: FunctionUnderCheck, settings: CheckSettings) -> None:
    settings = settings.settled(function)
    check_value_twice(function, settings)
    if all(out.dtype.kind not in "fc" for out in function.outputs):
        measured = measured_jacobians(function, settings)
        if any(np.any(block) for row in measured for block in row):
            raise broken(function, "Numerical gradient for function expected to be zero.")
    if settings.fast_mode:
        compare_projections(function, settings)
    else:
        compare_jacobians(function, settings)
    check_laws(function, settings)


# --- gradgradcheck --------------------------------------------------------------------------------


def _drawn(outputs: Arrays, *, non_contiguous: bool) -> list[np.ndarray]:
    """Random cotangents, between -1 and 1; every second entry of a larger array if asked for."""
    rng = np.random.default_rng(0)
    bars: list[np.ndarray] = []
    for out in outputs:
        real = out.dtype.kind != "c"
        drawn = rng.uniform(-1.0, 1.0, out.shape)
        drawn = drawn if real else drawn + 1j * rng.uniform(-1.0, 1.0, out.shape)
        bar = drawn.astype(out.dtype if out.dtype.kind in "fc" else np.float64)
        if non_contiguous and bar.ndim:
            room = np.empty((*bar.shape, 2), bar.dtype)
            room[..., 0] = bar
            bar = room[..., 0]
        bars.append(bar)
    return bars


def _user_cotangents(function: FunctionUnderCheck, grad_outputs: object) -> list[np.ndarray]:
    """The user's cotangents, one for each output."""
    sequence = grad_outputs if isinstance(grad_outputs, tuple | list) else (grad_outputs,)
    detached = hooks.detached or (lambda bar: bar)  # of recorded arrays the values
    bars = [np.asarray(detached(bar)) for bar in cast("Sequence[object]", sequence)]
    shapes = [out.shape for out in function.outputs]
    if [bar.shape for bar in bars] != shapes or any(bar.dtype.kind not in "fc" for bar in bars):
        types = ", ".join(f"{bar.dtype}{bar.shape}" for bar in bars)
        fact = (
            f"grad_outputs must be arrays of floats shaped like the outputs, {shapes}, not {types}."
        )
        raise failure(InputError, function.call, fact, "Leave it out: cotangents are drawn then.")
    return bars
