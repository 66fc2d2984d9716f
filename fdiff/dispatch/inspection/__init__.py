"""Tapes that are run once more, node by node: for a fault, a NaN, a warning, or a profile."""
