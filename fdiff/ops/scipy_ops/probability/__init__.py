"""Distributions and functions of `scipy.stats`."""
