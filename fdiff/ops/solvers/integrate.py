"""What answers for scipy.integrate: rules over samples, `quad`, initial value problems."""

from .. import scipyintegrate
from . import odecalls, quadrature

__all__ = ["odecalls", "quadrature", "scipyintegrate"]
