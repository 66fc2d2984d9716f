"""`doctor`: the state of an installation, for whoever wonders and for reports of faults."""

from __future__ import annotations

import sys

from .. import kernels

_WIDTH = 16  # of the names of facts


def doctor() -> None:
    """Print the state of this installation: versions, processor, cache, threads, CUDA.

    It ends with whether ``device="cuda"`` runs here, and if not, why. Paste it into a report of a
    fault. Costs a fraction of a second; changes nothing; never raises.

    Examples
    --------
    >>> import fdiff
    >>> fdiff.doctor()
    fdiff ...
    python ...
    """
    own = str(sys.modules["fdiff"].__version__)  # which imports this module
    for name, fact in kernels.facts(own):
        print(f"{name:{_WIDTH}}{fact}")  # noqa: T201 - it is what the function is for
