"""Pictures, shown by Jupyter and saved to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ..errors import InputError, failure
from .svg import document


class Picture:
    """A picture in SVG. Jupyter shows it by itself, in the colours of its theme.

    `what` names the drawing in words.
    """

    def __init__(self, what: str, parts: Sequence[str], width: float, height: float) -> None:
        self.what = what
        self._parts, self._size = tuple(parts), (width, height)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file.

        Parameters
        ----------
        path : str or path-like Where to; its suffix is ``.svg``. The text in the file is dark or
        light, as the theme of the viewer.

        Raises
        ------
        InputError
            If the suffix is another one.
        """
        file = Path(path)
        if file.suffix.lower() != ".svg":
            fact = f"pictures are written as SVG, not as {file.suffix or 'a file without suffix'}."
            way = f"Save it as {file.with_suffix('.svg').name}; browsers and Inkscape convert it."
            raise failure(InputError, "save", fact, way)
        file.write_text(document(self._parts, *self._size, alone=True) + "\n", encoding="utf-8")

    def below(self, words: str) -> str:
        """The picture for Jupyter, below some text."""
        return f"<pre>{escape(words)}</pre>{self._repr_html_()}"

    def _repr_html_(self) -> str:
        return document(self._parts, *self._size)

    def __repr__(self) -> str:
        return f"<picture: {self.what}; .save('picture.svg') writes it>"
