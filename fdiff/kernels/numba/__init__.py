"""Kernels and Numba: texts that it compiles, and kernels that its code calls.

From the text of a kernel to machine code, by Numba: ``FDIFF_COMPILER=numba``. A text is Numba
source once its words are bound (`words`). Numba parses, types and lowers it, and only the formulas
of the words come from `fdiff.kernels.llvm`: so each compiler checks the other.

The calls of kernels from ``@njit`` code are in `calls`.

Importing these modules loads Numba (see `late_imports`). The package's own name is no obstacle: an
absolute import finds Numba itself.
"""
