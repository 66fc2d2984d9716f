"""Eager traces: derivatives of one call, computed while it runs."""
