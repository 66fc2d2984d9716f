"""The tier that the environment fixes."""

from __future__ import annotations

import os

from ..errors import InputError, message

VARIABLE = "FDIFF_TIER"


def fixed_tier() -> str:
    """The tier that the environment fixes, or an empty string."""
    tier = os.environ.get(VARIABLE, "")
    if tier not in ("", "interpret", "evaluate", "compile"):
        raise InputError(
            message(
                VARIABLE,
                f"{tier!r} is no tier.",
                "Set it to interpret, evaluate or compile, or leave it unset.",
            )
        )
    return tier
