"""Sorting, order statistics and what is made of them."""
