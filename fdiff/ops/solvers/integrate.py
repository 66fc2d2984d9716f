"""What answers for scipy.integrate: rules over samples, `quad`."""

from .. import scipyintegrate
from . import quadrature

__all__ = ["quadrature", "scipyintegrate"]
