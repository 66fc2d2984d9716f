"""Branches on traced values: guards, and what replaces them."""
