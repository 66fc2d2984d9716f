"""Whole Jacobians compared: a measurement for each column, a sweep for each row or column.

Source: torch's note "Gradcheck mechanics", section "Default backward mode gradcheck behavior".
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...pictures import Picture
from ...pictures.matrices import heat_maps
from .check_settings import CheckSettings, broken, close, mismatch
from .checked_functions import Blocks, FunctionUnderCheck
from .numerical_derivatives import Measurement

COORDINATES = "\nEvery complex number stands for two coordinates, its real and its imaginary part."


def compare_jacobians(function: FunctionUnderCheck, settings: CheckSettings) -> None:
    """Raise `GradcheckError` if any entry of the Jacobian differs, in any of the modes."""
    if (difference := first_difference(function, settings)) is not None:
        raise broken(function, *difference)


def first_difference(
    function: FunctionUnderCheck, settings: CheckSettings
) -> tuple[str, Picture | None] | None:
    """The first block that differs in any of the modes: a message and a picture."""
    measured = measured_jacobians(function, settings)
    for mode in settings.modes:
        analytical = function.jacobians(mode)
        for o, row in enumerate(measured):
            for i, block in enumerate(row):
                if not close(analytical[o][i], block, rtol=settings.rtol, atol=settings.atol):
                    words = _message_with_jacobians(function, (mode, o, i), analytical[o][i], block)
                    return words, _picture(analytical[o][i], block, f"output {o} by input {i}")
    return None


def measured_jacobians(function: FunctionUnderCheck, settings: CheckSettings) -> Blocks:
    """Every block of the Jacobian, measured."""
    return Measurement(function, settings.eps).jacobians()


def _message_with_jacobians(
    function: FunctionUnderCheck,
    place: tuple[str, int, int],
    analytical: np.ndarray,
    measured: np.ndarray,
) -> str:
    """A message with both Jacobians, and the entry at which they differ most."""
    mode, o, i = place
    more = _worst(function, analytical, measured, o, i)
    if any(x.dtype.kind == "c" for x in (function.inputs[i], function.outputs[o])):
        more += COORDINATES
    return mismatch(mode, o, i, measured, analytical) + more


def _picture(analytical: np.ndarray, measured: np.ndarray, which: str) -> Picture | None:
    """Both Jacobians and how far they are apart, if there is anything to draw."""
    if analytical.shape != measured.shape or not analytical.size:
        return None
    with np.errstate(invalid="ignore"):
        apart = np.abs(analytical - measured)
    maps = [("numerical", measured), ("analytical", analytical), ("difference", apart)]
    return heat_maps(maps, 2, f"Jacobians of {which}")


def _worst(
    function: FunctionUnderCheck, analytical: np.ndarray, measured: np.ndarray, o: int, i: int
) -> str:
    """Which entry differs most, in the indices of the output and of the input."""
    if analytical.shape != measured.shape:
        return f"\nThe shapes differ: {measured.shape} and {analytical.shape}."
    with np.errstate(invalid="ignore"):
        gap = np.abs(analytical - measured)
    gap[np.isnan(gap)] = np.inf
    row, column = np.unravel_index(int(np.argmax(gap)), gap.shape)
    out = _entry("output", o, function.outputs[o], int(row))
    inn = _entry("input", i, function.inputs[i], int(column))
    was, now = float(measured[row, column]), float(analytical[row, column])
    difference = f"{out} by {inn} is {was:.9g} numerically, {now:.9g} analytically"
    return f"\nThe largest difference: {difference}."


def _entry(what: str, k: int, array: np.ndarray, place: int) -> str:
    """One coordinate of an array, in words: ``output 0[1, 2]``."""
    part = ""
    if array.dtype.kind == "c":
        part, place = (".real", ".imag")[place % 2], place // 2
    where = (
        ", ".join(str(int(n)) for n in np.unravel_index(place, array.shape)) if array.shape else ""
    )
    return f"{what} {k}{f'[{where}]' if where else ''}{part}"
