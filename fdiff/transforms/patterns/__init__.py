"""Patterns of Jacobians: which entries can be nonzero, and columns that share a sweep."""
