"""Jacobians that are mostly zero: which entries can be nonzero, and fewer sweeps because of it."""
