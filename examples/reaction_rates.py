"""Rates of a chemical reaction, with error bars
=============================================

Parameters of a differential equation are fitted to measurements. Run it with

.. code-block:: sh

    python examples/reaction_rates.py

The residuals call SciPy's `solve_ivp`; fdiff differentiates the steps that it took. For another
reaction, change `slope`, with the unit of its rates, the data and `START`. Data and model
are the thermal isomerisation of α-pinene (G. Box, W. Hunter, J. MacGregor and J. Erjavec, "Some
problems associated with the analysis of multiresponse data", Technometrics 15, 1973). The least sum
of squares, 19.872, is published in E. Dolan, J. Moré and T. Munson, "Benchmarking optimization
software with COPS 3.0", Argonne National Laboratory 2004.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

from fdiff.optimize import Fit, least_squares

Vector = np.ndarray

NAMES = ("α-pinene", "dipentene", "allo-ocimene", "pyronene", "dimer")
MINUTES = np.array([1230.0, 3060, 4920, 7800, 10680, 15030, 22620, 36420])
MEASURED = np.array([  # percent of each substance, after these minutes
    [88.35, 76.4, 65.1, 50.4, 37.5, 25.9, 14.0, 4.5],
    [7.3, 15.6, 23.1, 32.9, 42.7, 49.1, 57.4, 63.1],
    [2.3, 4.5, 5.3, 6.0, 6.0, 5.9, 5.1, 3.8],
    [0.4, 0.7, 1.1, 1.5, 1.9, 2.2, 2.6, 2.9],
    [1.75, 2.8, 5.8, 9.3, 12.0, 17.0, 21.0, 25.7],
])  # fmt: skip
START = np.array([1.0, 1.0, 1.0, 10.0, 1.0])


def slope(t: float, y: Vector, p: Vector) -> Vector:
    """Percent a minute; the rates are in units of 1e-5 a minute."""
    a, b, c, d, e = p * 1e-5
    forth = c * y[2]
    return np.array([
        -(a + b) * y[0],
        a * y[0],
        b * y[0] - (forth + d * y[2]) + e * y[4],
        forth,
        d * y[2] - e * y[4],
    ])  # fmt: skip


def percent(p: Vector, minutes: Vector) -> Vector:
    """Percent of each substance after some minutes."""
    first = np.array([100.0, 0.0, 0.0, 0.0, 0.0])
    options = {"t_eval": minutes, "method": "DOP853", "rtol": 1e-8, "atol": 1e-8}
    return solve_ivp(slope, (0.0, minutes[-1]), first, args=(p,), **options).y


def fitted() -> Fit:
    """The rates and their errors."""
    return least_squares(lambda p: (percent(p, MINUTES) - MEASURED).ravel(), START)


def draw(fit: Fit) -> None:
    """Curves, their bands of 95 %, and the measurements."""
    times = np.linspace(1.0, 40_000.0, 100)
    curves, (low, high) = percent(fit.x, times), fit.band(percent, times)
    _, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for k, name in enumerate(NAMES):
        (line,) = axes.plot(times, curves[k], label=name)
        axes.fill_between(times, low[k], high[k], color=line.get_color(), alpha=0.3)
        axes.plot(MINUTES, MEASURED[k], "o", color=line.get_color())
    axes.set(xlabel="minutes", ylabel="percent")
    axes.legend()
    plt.show()


def main() -> None:
    fit = fitted()
    low, high = fit.interval(0.95)
    print(f"sum of squares {2 * fit.cost:.4f} after {fit.scipy.nfev} evaluations")
    print("rate, 1e-5 a minute   95 % interval")
    for rate, error, a, b in zip(fit.x, fit.stderr, low, high, strict=True):
        print(f"{rate:8.3f} ± {error:.3f}   {a:12.3f} to {b:.3f}")
    late = np.array([30_000.0])
    bands = zip(NAMES, percent(fit.x, late), *fit.band(percent, late), strict=True)
    print("percent after 30,000 minutes, and the band of 95 %")
    for name, (value,), (a,), (b,) in bands:
        print(f"{name:14}{value:7.2f}   {a:.2f} to {b:.2f}")
    assert abs(2 * fit.cost - 19.872) < 1e-3  # published
    draw(fit)


if __name__ == "__main__":
    main()
