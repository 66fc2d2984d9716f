"""The mode of a dense Jacobian, forward or reverse, where the user names none."""

from __future__ import annotations

from collections.abc import Sequence

from ..tape import Tape


def pick_mode(mode: str, tape: Tape, wrt: Sequence[int]) -> str:
    """Forward where there are no more inputs than outputs, else reverse."""
    if mode != "auto":
        return mode
    rows = sum(t.size for t in tape.output_types if t.floating)
    columns = sum(tape.input_types[k].size for k in wrt)
    return "forward" if columns <= rows else "reverse"
