"""Tapes on a GPU: every call of a tape runs its CUDA program, and no part of it runs on the CPU.

NumPy arrays among the inputs are copied to the device at each call, captured arrays too, so that a
change of their entries is seen. Results lie on the device if any argument lies there; otherwise
they are NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ... import kernels
from ...device_arrays import DeviceArray
from ...errors import UnsupportedError, failure
from ...tape import Tape
from .break_even import scheduling
from .kernel_tier import names_of
from .tiered_execution import Runner

if TYPE_CHECKING:
    from ...kernels import CudaExecutable

_ON_CPU = "Leave device out: on the CPU it runs."


class CudaRunner(Runner):
    """One tape on a GPU. Its kernels are made at the first call, or when the user asks for them."""

    __slots__ = ("_program",)

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        self._program: CudaExecutable | None = None

    def __call__(self, arrays: Sequence[np.ndarray | DeviceArray]) -> Sequence[np.ndarray]:
        """Outputs of the tape: arrays of NumPy, or device arrays if any input is one."""
        if self._program is None:
            self.compile(self.account.call or "device='cuda'")
        assert self._program is not None, "compile raises if it fails"
        outs = self._program.of_any(arrays)
        if self._slots is not None:
            outs = [outs[k] if k not in self._slots[:j] else self._program.copy(outs[k])
                    for j, k in enumerate(self._slots)]  # fmt: skip
        if any(isinstance(a, DeviceArray) for a in arrays):
            return outs  # type: ignore[return-value] - whoever gives device arrays takes them
        return [out.host() for out in outs]

    def compile(self, call: str) -> None:
        """Make the kernels now; raises where an operation has none, or there is no device."""
        self.account.asked, self._last_tier = True, "compile"
        if self._program is None:
            device = kernels.cuda_device(call)
            if missing := names_of(kernels.missing_on_cuda(self.tape)):
                fact = f"there is no CUDA kernel for {missing}."
                raise failure(UnsupportedError, call, fact, _ON_CPU)
            with scheduling(self.tape, self.account.call):
                self._program = kernels.compile_cuda(self.tape, device)

    def missing_kernels(self) -> str:
        return ""  # `compile` raises an error of its own

    def kernel_fits(self, limit: int) -> bool:
        return False  # chunks of derivatives are for the CPU

    def state(self) -> str:
        """How the tape runs, in words: a line of the `repr` of a function."""
        return "not run yet, on CUDA" if self._program is None else self._program.state
