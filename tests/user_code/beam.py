"""Simply supported beam with point and partly distributed loads: moments, deflection."""
import numpy as np


def macaulay(x, a, n):
    """<x - a>^n"""
    y = np.zeros_like(x)
    inside = x > a
    y[inside] = (x[inside] - a)**n
    return y


def bending_moment(x, L, point_loads, strip_loads):
    Ra = 0.0
    M = np.zeros(len(x))
    for P, a in point_loads:
        Ra += P * (L - a) / L
        M -= P * macaulay(x, a, 1)
    for w, a, b in strip_loads:
        Ra += w * (b - a) * (L - 0.5 * (a + b)) / L
        M -= 0.5 * w * macaulay(x, a, 2)
        M += 0.5 * w * macaulay(x, b, 2)
    M += Ra * x
    return M


def deflection(x, L, EI, point_loads, strip_loads):
    """Twice cumulative trapezoids of M/EI, then the boundary conditions."""
    curvature = bending_moment(x, L, point_loads, strip_loads) / EI
    slope = np.zeros_like(x)
    w = np.zeros_like(x)
    for i in range(1, len(x)):
        h = x[i] - x[i - 1]
        slope[i] = slope[i - 1] + 0.5 * h * (curvature[i] + curvature[i - 1])
        w[i] = w[i - 1] + 0.5 * h * (slope[i] + slope[i - 1])
    w -= w[-1] * x / x[-1]
    return w


def largest_deflection(design, x, L):
    P, a, w, b, EI = design
    y = deflection(x, L, EI, [(P, a)], [(w, b, 0.9 * L)])
    k = np.argmax(np.abs(y))
    # parabola through the three points around it
    if 0 < k < len(x) - 1:
        num = y[k + 1] - y[k - 1]
        den = y[k + 1] - 2 * y[k] + y[k - 1]
        return y[k] - num**2 / (8 * den)
    return y[k]
