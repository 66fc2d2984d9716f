"""Patterns: SciPy's sparse arrays of truth values, which Jupyter shows as a picture."""

from __future__ import annotations

import os
from typing import Any

from fdiff.intact_scipy import sparse as sp

from ..pictures.matrices import spy_plot
from ..pictures.picture import Picture


class _Shown:
    """Methods of a pattern beyond those that SciPy's array has."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture of the pattern to a file.

        Parameters
        ----------
        path : str or path-like
            Where to; its suffix is ``.svg``.

        Raises
        ------
        InputError
            If the suffix is another one.
        """
        _picture(self).save(path)

    def _repr_html_(self) -> str:
        return _picture(self)._repr_html_()


class CsrPattern(_Shown, sp.csr_array):
    """Where entries are, by rows."""


class CscPattern(_Shown, sp.csc_array):
    """Where entries are, by columns."""


class CooPattern(_Shown, sp.coo_array):
    """Where entries are, as a list of places."""


PATTERNS = {"csr": CsrPattern, "csc": CscPattern, "coo": CooPattern}


def _picture(pattern: Any) -> Picture:
    places = pattern.tocoo()
    rows, columns = places.coords
    return spy_plot(rows, columns, places.shape, "pattern")
