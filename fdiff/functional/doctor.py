"""`doctor`: the state of an installation, for users and for bug reports."""

from __future__ import annotations

import sys

from .. import kernels
from ..process.forking import no_fork
from ..tracebacks import public
from ..user_lines import printable_lines

_WIDTH = 16  # of the names of facts


class InstallationReport(dict[str, str]):
    """The facts of an installation by name: prints as lines, shows as a table in Jupyter."""

    def __init__(self, facts: dict[str, str]) -> None:
        super().__init__(facts)
        self._printed = False

    def __str__(self) -> str:
        return printable_lines("\n".join(f"{name:{_WIDTH}}{fact}" for name, fact in self.items()))

    def __repr__(self) -> str:
        """The lines; after they were printed, a one-line note that says so."""
        summary = f"<{len(self)} facts of this installation, printed above>"
        return summary if self._printed else str(self)

    def _repr_html_(self) -> str:
        with no_fork:
            from html import escape  # noqa: PLC0415 - for notebooks alone

        left = "style='text-align:left'"
        rows = "".join(
            f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(fact)}</td></tr>"
            for name, fact in self.items()
        )
        return f"<table><tbody>{rows}</tbody></table>"

    def print(self) -> None:
        """Print the lines now."""
        self._printed = True
        print(self)  # noqa: T201 - it is what the function is for


@public
def doctor() -> InstallationReport:
    """The state of this installation: versions, processor, cache, threads, compilers, CUDA.

    The last entry says whether ``device="cuda"`` works, and if not, why. Attach the output to a bug
    report. `doctor` tries each compiler on a small function. This imports Numba if it is installed,
    and takes a second or two. It changes nothing else, and never raises.

    Returns
    -------
    dict
        The facts by their names, as text. In a script, `doctor` prints them. In Python, IPython or
        Jupyter the result is displayed, in Jupyter as a table.

    Examples
    --------
    >>> import fdiff
    >>> state = fdiff.doctor()
    fdiff ...
    python ...
    >>> state["llvm compiler"]
    'works, the default'
    """
    own = str(sys.modules["fdiff"].__version__)  # which imports this module
    report = InstallationReport(dict(kernels.facts(own)))
    if not _at_a_prompt():
        report.print()
    return report


def _at_a_prompt() -> bool:
    """Whether the call stands in what the user typed at a prompt, which shows results itself.

    Python and IPython have the text of their prompts in `sys.ps1`; what was typed runs in
    ``__main__``, outside of any function.
    """
    caller = sys._getframe(3)  # past `doctor`, and past what `public` made of it
    typed = caller.f_globals.get("__name__") == "__main__" and caller.f_code.co_name.startswith("<")
    return typed and hasattr(sys, "ps1")
