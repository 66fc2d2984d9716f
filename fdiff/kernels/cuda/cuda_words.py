"""The Python function of a kernel's text, with its words bound: for a GPU, or for the simulator.

Both bind the same names to functions of the same meaning. Numba is imported here, so that only who
asks for CUDA imports this.
"""

from __future__ import annotations

import os

if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
    from .devices.simulated_words import function_of
else:
    from .devices.device_words import function_of

__all__ = ["function_of"]
