"""`check_grads`: derivatives of every order up to a given one, each along one random direction.

The scheme is JAX's (``jax.test_util.check_grads``): the forward derivative along a direction is
compared with one measured, the reverse derivative by the product of both with a random cotangent.
Then the function that computes the derivative is checked in the same way, to one order less.
Source: J. Bradbury et al., JAX, 2018: entry ``jax.test_util.check_grads``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...dispatch.arguments import Function
from ...errors import GradcheckError, InputError, failure
from ...named_tuples import NamedTuple
from ..operators.products import jvp, vjp
from .check_settings import LOOK, close
from .checked_functions import PlainFunction
from .gradient_checks import function_at
from .numerical_derivatives import Measurement
from .real_coordinates import from_real, to_real

Arrays = Sequence[np.ndarray]
# What differs by rounding and by measuring, as in JAX: by the precision of the least precise array.
TOLERANCES = {"f2": 1e-2, "f4": 2e-3, "c8": 1e-3}
DOUBLE = 1e-5


class DirectionSettings(NamedTuple):
    """The options of `check_grads`; tolerances that are None follow from the dtypes."""

    call: str
    modes: tuple[str, ...]
    atol: float | None
    rtol: float | None
    eps: float


def check_directions(f: Function, args: object, order: int, settings: DirectionSettings) -> None:
    """Raise `GradcheckError` for the first derivative up to `order` that is not as measured."""
    function = function_at(f, args, "check_grads")
    if not isinstance(function, PlainFunction):
        fact = "takes functions of plain arrays."
        raise failure(InputError, settings.call, fact, "Use gradcheck for recorded arrays.")
    _check_order(function, order, settings, "")


def _check_order(
    function: PlainFunction, order: int, settings: DirectionSettings, path: str
) -> None:
    for mode, words, compare, derivative in (
        ("fwd", "JVP", _compare_forward, _pushed),
        ("rev", "VJP", _compare_reverse, _pulled),
    ):
        if mode not in settings.modes:
            continue
        where = f"{words} of {path}" if path else words
        compare(function, settings, where)
        if order > 1:
            _check_order(derivative(function), order - 1, settings, where)


def _compare_forward(function: PlainFunction, settings: DirectionSettings, where: str) -> None:
    """Values and tangents of `jvp` along a random direction."""
    inputs = tuple(function.inputs)
    directions = _random(inputs, np.random.default_rng(0))
    values, dots = jvp(function.f, inputs, tuple(directions))
    measured = _measured(function, settings, directions)
    _compare_each(function, settings, f"{where} primal", _tuple(values), function.outputs)
    _compare_each(function, settings, f"{where} tangent", _tuple(dots), measured)


def _compare_reverse(function: PlainFunction, settings: DirectionSettings, where: str) -> None:
    """Values of `vjp`, and the product of a random direction with its cotangents."""
    inputs, rng = tuple(function.inputs), np.random.default_rng(0)
    directions, bars = _random(inputs, rng), _random(function.outputs, rng)
    values, pulled = vjp(function.f, inputs, bars[0] if function.single else tuple(bars))
    _compare_each(function, settings, f"{where} primal", _tuple(values), function.outputs)
    moved = _measured(function, settings, directions)
    ours = sum(
        float(to_real(g) @ to_real(u)) for g, u in zip(_tuple(pulled), directions, strict=True)
    )
    theirs = sum(float(to_real(v) @ dot) for v, dot in zip(bars, moved, strict=True))
    analytical, measured = [np.asarray(ours)], [np.asarray(theirs)]
    _compare_each(function, settings, f"{where} cotangent projection", analytical, measured)


def _measured(
    function: PlainFunction, settings: DirectionSettings, directions: Arrays
) -> list[np.ndarray]:
    """The derivatives of the outputs along `directions`, in real coordinates."""
    return Measurement(function, settings.eps).along(directions)


def _compare_each(
    function: PlainFunction,
    settings: DirectionSettings,
    what: str,
    analytical: Arrays,
    measured: Arrays,
) -> None:
    usual = max(
        TOLERANCES.get(x.dtype.str[1:], DOUBLE) for x in (*function.inputs, *function.outputs)
    )
    rtol = usual if settings.rtol is None else settings.rtol
    atol = usual if settings.atol is None else settings.atol
    for k, (ours, theirs) in enumerate(zip(analytical, measured, strict=True)):
        if not close(to_real(ours), to_real(theirs), rtol=rtol, atol=atol):
            place = f" of output {k}" if len(measured) > 1 else ""
            fact = f"{what}{place} mismatch,\nnumerical:{theirs}\nanalytical:{ours}"
            raise failure(GradcheckError, settings.call, fact, LOOK)


def _pushed(function: PlainFunction) -> PlainFunction:
    """The outputs and tangents of a function, of its inputs and their tangents."""
    f, count = function.f, len(function.inputs)

    def pushed(*args: object) -> object:
        return _flat(jvp(f, args[:count], args[count:]))

    inputs = (*function.inputs, *function.inputs)
    return PlainFunction(pushed, function.call, inputs, complex_steps=False)


def _pulled(function: PlainFunction) -> PlainFunction:
    """The function that pulls the outputs of `function` back to its inputs."""
    f = function.f

    def pulled(*args: object) -> object:
        return vjp(f, args, f(*args))[1]

    return PlainFunction(pulled, function.call, function.inputs, complex_steps=False)


def _flat(pair: object) -> tuple[object, ...]:
    values, dots = cast("tuple[object, object]", pair)
    return (*_tuple(values), *_tuple(dots))


def _tuple(result: object) -> tuple[np.ndarray, ...]:
    """An array or a tuple of arrays as a tuple."""
    return cast("tuple[np.ndarray, ...]", result if isinstance(result, tuple) else (result,))


def _random(like: Arrays, rng: np.random.Generator) -> list[np.ndarray]:
    """Normally distributed arrays of these shapes and dtypes; zeros for integers."""
    return [
        from_real(rng.normal(size=to_real(x).size), x)
        if x.dtype.kind in "fc"
        else np.zeros(x.shape, x.dtype)
        for x in like
    ]
