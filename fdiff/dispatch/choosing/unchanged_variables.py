"""Variables that the body of a loop shares with functions around it."""

from __future__ import annotations

from collections.abc import Generator

from ...capture.dependency_nodes import attribute
from ...capture.value_kinds import MISSING
from ...foreign_errors import contextmanager
from .answers import Cells


@contextmanager
def unchanged(cells: Cells) -> Generator[None]:
    """Put back, in the end, what the variables held that functions in `cells` read."""
    own = [cell for read in cells for cell in getattr(read, "__closure__", None) or ()]
    before = [(cell, attribute(cell, "cell_contents")) for cell in own]
    try:
        yield
    finally:
        for cell, value in before:
            if value is not MISSING:
                cell.cell_contents = value
            elif attribute(cell, "cell_contents") is not MISSING:
                del cell.cell_contents
