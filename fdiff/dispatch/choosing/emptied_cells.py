"""Variables that a loop's body shares with functions around it, while the body is run.

See docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Generator

from ...capture.dependency_nodes import attribute
from ...capture.value_kinds import MISSING
from ...foreign_errors import contextmanager
from .path_runs import Cells


@contextmanager
def emptied(cells: Cells) -> Generator[None]:
    """Take away what the variables of a loop hold, and put it back in the end.

    The body assigns those that it shares with functions, and has the others for itself. What they
    held before is none of what the functions close over.
    """
    own = [cell for read in cells for cell in getattr(read, "__closure__", None) or ()]
    before = [(cell, attribute(cell, "cell_contents")) for cell in own]
    try:
        for cell, value in before:
            if value is not MISSING:
                del cell.cell_contents
        yield
    finally:
        for cell, value in before:
            if value is not MISSING:
                cell.cell_contents = value
            elif attribute(cell, "cell_contents") is not MISSING:
                del cell.cell_contents
