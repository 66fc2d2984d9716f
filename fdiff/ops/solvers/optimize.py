"""What answers for scipy.optimize: roots and minima."""

from . import minimumcalls, rootcalls

__all__ = ["minimumcalls", "rootcalls"]
