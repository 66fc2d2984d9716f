"""Whole programs in machine code
==============================

Numba compiles the loops, fdiff the derivatives inside them. Run it with

.. code-block:: sh

    python examples/whole_programs.py

Three programs, each written once. Under ``@numba.njit`` they do not come back to Python until they
are done. With ``NUMBA_DISABLE_JIT=1`` in the environment Python runs the same lines, and calls the
same derivatives. `python -m benchmarks.njit_programs` compares the two.
"""

from __future__ import annotations

import numba
import numpy as np

import fdiff

Vector = np.ndarray

# --- Newton's method ------------------------------------------------------------------------------


def rosenbrock(x: Vector) -> float:
    """Its minimum lies at ones, in a long curved valley."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


slope = fdiff.njit(fdiff.grad(rosenbrock), "f8[10]")
curvature = fdiff.njit(fdiff.hessian(rosenbrock), "f8[10]")


@numba.njit
def newton(x: Vector) -> tuple[Vector, int]:
    """The root of the gradient that Newton's method leads to, and the number of steps."""
    x = x.copy()
    for step in range(100):
        g = slope(x)
        if np.max(np.abs(g)) < 1e-10:
            return x, step
        x = x - np.linalg.solve(curvature(x), g)
    return x, 100


# --- a differential equation with its adjoint -----------------------------------------------------


def growth(y: Vector, p: Vector) -> Vector:
    """Lotka and Volterra's predators and prey."""
    return np.array([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])


def runge_kutta(y: Vector, p: Vector, h: float) -> Vector:
    """One step of the classical method of order four."""
    a = growth(y, p)
    b = growth(y + 0.5 * h * a, p)
    c = growth(y + 0.5 * h * b, p)
    d = growth(y + h * c, p)
    return y + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)


START, RATES = np.array([10.0, 5.0]), np.array([1.1, 0.4, 0.1, 0.4])
forward = fdiff.njit(fdiff.jit(runge_kutta), START, RATES, 0.01)
backward = fdiff.njit(fdiff.vjp(runge_kutta, argnums=(0, 1)), (START, RATES), START, 0.01)


@numba.njit
def sensitivities(y: Vector, p: Vector, h: float, steps: int) -> tuple[Vector, Vector, Vector]:
    """The state after some steps, and the gradient of its first entry in `y` and in `p`.

    The discrete adjoint: the steps are kept, and pulled back in reverse (Griewank and Walther,
    Evaluating Derivatives, 2nd ed., 2008, section 3.2).
    """
    states = np.empty((steps + 1, y.size))
    states[0] = y
    for k in range(steps):
        states[k + 1] = forward(states[k], p, h)
    y_bar, p_bar = np.zeros(y.size), np.zeros(p.size)
    y_bar[0] = 1.0
    for k in range(steps - 1, -1, -1):
        _, (y_bar, more) = backward((states[k], p), y_bar, h)
        p_bar += more
    return states[steps], y_bar, p_bar


# --- L-BFGS from many starts ----------------------------------------------------------------------

MEMORY = 6  # pairs of steps and changes of the gradient that are kept


def styblinski_tang(x: Vector) -> float:
    """Of its 2**n minima the lowest is -39.16616570377142 n, at -2.903534 in each coordinate.

    Styblinski and Tang, "Experiments in nonconvex optimization", Neural Networks 3, 1990.
    """
    return 0.5 * np.sum(x**4 - 16.0 * x**2 + 5.0 * x)


valley = fdiff.njit(fdiff.value_and_grad(styblinski_tang), "f8[8]")


@numba.njit
def direction(g: Vector, steps: Vector, changes: Vector, count: int) -> Vector:
    """Minus the inverse Hessian times `g`, by the two-loop recursion.

    Nocedal and Wright, Numerical Optimization, 2nd ed., 2006, algorithm 7.4.
    """
    q, alpha = -g, np.empty(MEMORY)
    first = max(0, count - MEMORY)
    for k in range(count - 1, first - 1, -1):
        s, y = steps[k % MEMORY], changes[k % MEMORY]
        alpha[k % MEMORY] = np.dot(s, q) / np.dot(s, y)
        q = q - alpha[k % MEMORY] * y
    if count > 0:
        s, y = steps[(count - 1) % MEMORY], changes[(count - 1) % MEMORY]
        q = q * (np.dot(s, y) / np.dot(y, y))
    for k in range(first, count):
        s, y = steps[k % MEMORY], changes[k % MEMORY]
        q = q + (alpha[k % MEMORY] - np.dot(y, q) / np.dot(s, y)) * s
    return q


@numba.njit
def lbfgs(x: Vector) -> tuple[Vector, float]:
    """The local minimum that L-BFGS with a backtracking line search comes to, and its value."""
    steps, changes = np.empty((MEMORY, x.size)), np.empty((MEMORY, x.size))
    count = 0
    value, g = valley(x)
    for _ in range(200):
        if np.max(np.abs(g)) < 1e-9:
            break
        p = direction(g, steps, changes, count)
        down, rate = np.dot(g, p), 1.0
        new, (new_value, new_g) = x + p, valley(x + p)
        while new_value > value + 1e-4 * rate * down and rate > 1e-10:
            rate *= 0.5
            new = x + rate * p
            new_value, new_g = valley(new)
        s, y = new - x, new_g - g
        if np.dot(s, y) > 1e-10 * np.dot(y, y):  # else the curvature condition fails
            steps[count % MEMORY], changes[count % MEMORY] = s, y
            count += 1
        x, value, g = new, new_value, new_g
    return x, value


@numba.njit(parallel=True)
def multistart(starts: Vector) -> tuple[Vector, Vector]:
    """The minimum that each start leads to, and its value: the starts are shared among threads."""
    found, values = np.empty(starts.shape), np.empty(len(starts))
    for k in numba.prange(len(starts)):
        found[k], values[k] = lbfgs(starts[k])
    return found, values


# --- the story ------------------------------------------------------------------------------------

POINT, STARTS = np.linspace(1.5, 0.5, 10), np.random.default_rng(0).uniform(-4.0, 4.0, (1_000, 8))


def main() -> None:
    x, count = newton(POINT)
    print(f"Newton's method: {count} steps to {x.round(6)}")
    y, y_bar, p_bar = sensitivities(START, RATES, 0.01, 1000)
    print(f"Runge and Kutta: prey {y[0]:.6f} after 1,000 steps")
    print(f"  its derivative in the start {y_bar.round(6)}, in the rates {p_bar.round(6)}")
    found, values = multistart(STARTS)
    best = np.argmin(values)
    print(f"L-BFGS from 1,000 starts: {values[best]:.6f} at {found[best].round(6)}")


if __name__ == "__main__":
    main()
