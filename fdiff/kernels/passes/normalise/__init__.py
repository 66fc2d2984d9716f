"""Passes over kernel graphs: the same computation in a form that makes better loops."""
