"""Prepared functions for compiled callers: `njit` and `cfunc`."""
