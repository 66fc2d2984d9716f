"""Counting and searching: integers out, no derivative."""
