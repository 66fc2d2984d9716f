"""The tier that the environment variable `FDIFF_TIER` fixes."""

from __future__ import annotations

from ...errors import InputError, failure
from ...foreign_errors import environment_value

VARIABLE = "FDIFF_TIER"


def fixed_tier() -> str:
    """The tier that the environment fixes, or an empty string."""
    tier = environment_value(VARIABLE) or ""
    if tier not in ("", "interpret", "evaluate", "compile"):
        way = "Set it to interpret, evaluate or compile, or leave it unset."
        raise failure(InputError, VARIABLE, f"{tier!r} is not a tier.", way)
    return tier
