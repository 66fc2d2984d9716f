"""Settings of a check, and the report of its failure."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...errors import GradcheckError, failure
from ...named_tuples import NamedTuple
from ...pictures import Picture
from .checked_functions import FunctionUnderCheck


class CheckSettings(NamedTuple):
    """The options of `gradcheck`, in torch's words."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    undefined_grad: bool
    grad_dtypes: bool
    batched_grad: bool
    batched_forward_grad: bool
    forward_ad: bool | None
    backward_ad: bool
    fast_mode: bool

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that are checked."""
        return ("reverse",) * self.backward_ad + ("forward",) * bool(self.forward_ad)

    def settled(self, function: FunctionUnderCheck) -> CheckSettings:
        """These settings, with the modes that are checked where the caller did not say."""
        unasked = "forward" in function.modes or self.batched_forward_grad
        return self._replace(forward_ad=unasked if self.forward_ad is None else self.forward_ad)


LOOK = (
    "Look at custom rules and stop_gradient, if there are any; at a kink, or where values are"
    " rounded, take another point or other tolerances."
)


def mismatch(mode: str, o: int, i: int, measured: object, analytical: object) -> str:
    """The message that shows both Jacobians, in torch's words."""
    computed = "computed with forward mode " if mode == "forward" else ""
    fact = f"Jacobian {computed}mismatch for output {o} with respect to input {i},"
    return f"{fact}\nnumerical:{measured}\nanalytical:{analytical}"


def broken(
    function: FunctionUnderCheck, fact: str, picture: Picture | None = None
) -> GradcheckError:
    """The error that names the fault of a derivative."""
    error = failure(GradcheckError, function.call, fact, LOOK)
    if picture is not None:
        error.picture = picture
    return error


def close(analytical: np.ndarray, measured: np.ndarray, *, rtol: float, atol: float) -> bool:
    """Whether a derivative is the one measured; a NaN agrees with nothing."""
    return analytical.shape == measured.shape and np.allclose(
        analytical, measured, rtol=rtol, atol=atol
    )
