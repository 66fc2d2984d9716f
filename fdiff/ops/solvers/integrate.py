"""What answers for scipy.integrate: rules over samples, `quad`, initial value problems."""

from ..scipy_ops import integrate
from . import odecalls, quadrature

__all__ = ["integrate", "odecalls", "quadrature"]
