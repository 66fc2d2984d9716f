"""The result of `explain`: the facts, and their display."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..tracebacks import trim
from .explained_facts import Facts
from .html import html_of
from .text import explanation_text


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Facts):
    """The result of `explain`. It prints as text, and shows tables in Jupyter.

    ``call`` is the explained call, ``tape`` the recorded function. ``inputs`` and ``outputs`` are
    its arrays, ``guards`` the user's lines that branch on values, ``loops`` the lines where his
    loops begin and what became of them, ``steps`` the tapes that the call runs. ``costs`` and
    ``dependence`` are computed when they are first read.
    """

    def __str__(self) -> str:
        return self._shown(explanation_text)

    def __repr__(self) -> str:
        return self._shown(explanation_text)

    def _repr_html_(self) -> str:
        return self._shown(html_of)

    def _shown(self, show: Callable[[Facts], str]) -> str:
        try:
            return show(self)
        except Exception as error:
            trim(error, f"explain({self.call})")
            raise
