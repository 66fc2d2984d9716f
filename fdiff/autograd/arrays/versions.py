"""Version counters: the number of stores into the memory of an array, shared by its views.

They are torch's (A. Paszke et al., Automatic differentiation in PyTorch, NIPS Autodiff Workshop
2017, section on in-place operations, "Invalidation").
"""

from __future__ import annotations

from typing import Any

from ...user_lines import Line
from ..thread_state import state


class Version:
    """The number of stores into the memory of an array; views of one array share it.

    `line` is the line of the latest store.
    """

    count: Any = 0  # until the first store; most arrays never see one
    line: Line | None = None

    def bump(self, line: Line | None) -> None:
        """One more store."""
        self.count += 1
        self.line = line

    def stores(self) -> int:
        """The stores so far, as far as they are counted."""
        return self.count


class InferenceVersion(Version):
    """The version of an array made in inference mode: stores into it are not counted.

    Such an array may not be saved for a backward pass.
    """

    @property
    def count(self) -> int:
        """Asked for where the array is saved for a backward pass, which is refused."""
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use arrays created in"
            " inference mode in computation tracked by autograd. To work around this, you can make"
            " a copy by array.clone() outside inference mode and use it in autograd, or use"
            " no_grad() instead of inference_mode()."
        )

    def bump(self, line: Line | None) -> None:
        """Do nothing: stores are not counted."""

    def stores(self) -> int:
        """Zero, because stores are not counted."""
        return 0


def new_version() -> Version:
    """The counter of an array that is made now."""
    return InferenceVersion() if state._inference else Version()
