"""Recorded arrays: their operators and methods, views, stores, conversions."""
