"""What answers for scipy.optimize: roots and minima."""

from . import rootcalls

__all__ = ["rootcalls"]
