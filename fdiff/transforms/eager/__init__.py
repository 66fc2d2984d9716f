"""Derivatives for one call, computed beside the values of an eager trace."""
