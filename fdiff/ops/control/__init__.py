"""Loops, branches and opaque calls as operations."""
