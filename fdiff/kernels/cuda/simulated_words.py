"""The words of kernel texts as functions of Python, for Numba's simulator of CUDA."""

from __future__ import annotations
