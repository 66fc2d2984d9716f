"""Loops, branches, barriers and opaque calls as operations."""
