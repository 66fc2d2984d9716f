"""Calls of NumPy, SciPy and operators on recorded arrays, as nodes of the graph."""
