"""Loops of the user's functions, as their sources tell them."""
