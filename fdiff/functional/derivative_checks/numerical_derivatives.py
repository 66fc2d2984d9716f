"""Derivatives measured from values alone: by central differences, or complex steps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...foreign_errors import not_foreign
from .check_settings import broken
from .checked_functions import FunctionUnderCheck
from .real_coordinates import dimension, in_double, to_real, unit

Arrays = Sequence[np.ndarray]
STEP = 1e-100  # of complex steps: nothing cancels, so it may be as small as it likes


class Measurement:
    """Derivatives of a function under check at its point, along directions.

    A complex step, ``imag(f(x + ihd)) / h``, is exact to the last bits (Squire and Trapp, "Using
    complex variables to estimate derivatives of real functions", SIAM Review 40(1), pages 110-112,
    1998), but wrong for a function that is not analytic: it uses `abs`, comparisons or conjugates.
    A step is believed if it agrees with the central difference, ``(f(x + eps d) - f(x - eps d)) / 2
    eps``, to the accuracy of that (J. Nocedal and S. J. Wright, "Numerical Optimization", 2nd ed.,
    Springer 2006, section 8.1). `exact` says whether all derivatives so far were measured so.

    Nothing can be measured where outputs have other shapes or dtypes near by: `GradcheckError`.
    """

    def __init__(self, function: FunctionUnderCheck, eps: float) -> None:
        self.function, self.values = function, function.values
        self.points = [in_double(x) for x in function.inputs]
        self.eps = eps
        self.exact = True
        double = all(x.dtype == p.dtype for x, p in zip(function.inputs, self.points, strict=True))
        self.outputs = function.outputs if double else self.values(self.points)
        self._steps = function.complex_steps and all(x.dtype.kind == "f" for x in self.points)

    def along(self, directions: Arrays) -> list[np.ndarray]:
        """The derivative of each output along one direction, in real coordinates."""
        difference = self._central(directions)
        step = self._complex_step(directions) if self._steps else None
        if step is not None and _agree(step, difference):
            return step
        self.exact = False
        return difference

    def jacobians(self) -> list[list[np.ndarray]]:
        """The Jacobian of each output with respect to each input, as matrices of real numbers."""
        columns: list[list[list[np.ndarray]]] = []  # by input, coordinate, output
        for i, x in enumerate(self.points):
            columns.append([self._column(i, k) for k in range(dimension(x))])
        return [
            [
                np.stack([c[o] for c in columns_of], 1)
                if columns_of
                else to_real(out)[:, None][:, :0]
                for columns_of in columns
            ]
            for o, out in enumerate(self.outputs)
        ]

    def _column(self, i: int, k: int) -> list[np.ndarray]:
        directions = [np.zeros_like(x) for x in self.points]
        directions[i] = unit(k, self.points[i])
        return self.along(directions)

    def _central(self, directions: Arrays) -> list[np.ndarray]:
        high, low = (self._outputs_at_moved_points(s, directions) for s in (self.eps, -self.eps))
        pairs = zip(high, low, strict=True)
        return [(to_real(hi) - to_real(lo)) / (2.0 * self.eps) for hi, lo in pairs]

    def _outputs_at_moved_points(self, step: float, directions: Arrays) -> list[np.ndarray]:
        """The outputs at the points moved along the directions; of the same types as before."""
        outputs = self.values([x + step * d for x, d in zip(self.points, directions, strict=True)])
        for what, now, before in (
            ("number of outputs", len(outputs), len(self.outputs)),
            ("shape", [x.shape for x in outputs], [x.shape for x in self.outputs]),
            ("dtype", [str(x.dtype) for x in outputs], [str(x.dtype) for x in self.outputs]),
        ):
            if now != before:
                raise broken(
                    self.function,
                    f"Expected `f` to return outputs with the same {what} when inputs are perturbed"
                    f" by {abs(step)}, but got: {before} and {now}.",
                )
        return outputs

    def _complex_step(self, directions: Arrays) -> list[np.ndarray] | None:
        """None, for good, if the function does not take complex numbers all the way."""
        moved = [x + 1j * STEP * d for x, d in zip(self.points, directions, strict=True)]

        def values() -> list[np.ndarray]:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                return self.values(moved)

        try:
            outs = values()
        except not_foreign(Exception, again=values):  # of code without complex numbers, as Numba's
            outs = []
        if not outs or not all(np.iscomplexobj(o) for o in outs):
            self._steps = False
            return None
        return [np.imag(o).reshape(-1) / STEP for o in outs]


def _agree(steps: Arrays, differences: Arrays) -> bool:
    pairs = zip(steps, differences, strict=True)
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in pairs)
