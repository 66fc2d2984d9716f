"""Sparse constants of SciPy and sparse solves."""
