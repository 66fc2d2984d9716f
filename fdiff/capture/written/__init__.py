"""Writes of a run to the outside, and how later calls repeat them."""
