"""Accumulation of gradients in leaves, by the rules of `gradient_layouts.py`.

Source: torch's page ``torch.autograd``, section "Default gradient layouts".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ..arrays.array_kinds import array_kind_of
from ..arrays.recorded_array import RecordedArray, Version, new_array, plain
from ..calls.recording import apply_ufunc
from ..thread_state import state
from .gradient_layouts import accumulated, first_gradient

if TYPE_CHECKING:
    from .node_rules import Cotangent

C_ORDER = 1  # the bit of `ndarray.flags` for it


def accumulate(leaf: RecordedArray, bar: Cotangent, *, create: bool, owned: bool = False) -> None:
    """Add a gradient to ``leaf.grad``: in place, or out of place where a graph is created.

    `bar` is an array, which others may hold unless it is `owned`, or with `create` a recorded one.
    What becomes ``grad`` is an ndarray inside, never a NumPy scalar, so that it can be added to.
    """
    if not leaf.kind.requires_grad:  # turned off after the graph was recorded
        return
    previous = leaf._grad
    if previous is None:
        if owned and not create and not state.keeps_layouts and isinstance(bar, np.ndarray):
            leaf._grad = plain(bar)
            return
        parameter = np.asarray(leaf.value)
        if owned and bar.flags.num & parameter.flags.num & C_ORDER and bar.flags.owndata:
            leaf._grad = plain(bar)  # the usual case of `first_gradient`, in a fifth of the time
            return
        gradient = np.asarray(bar.value if create else bar)
        first = first_gradient(parameter, gradient, owned=owned)
        leaf._grad = _in_layout(bar, first) if create else plain(first)
    elif create:
        total = apply_ufunc(np.add, previous, bar)
        value = accumulated(previous.value, bar.value, create_graph=True)
        leaf._grad = _in_layout(total, value)
    else:
        accumulated(previous.value, bar, create_graph=False)
        previous.version.bump(None)


def _in_layout(recorded: RecordedArray, value: np.ndarray) -> RecordedArray:
    """A recorded array with its entries in another place, or the same as an ndarray."""
    kind = array_kind_of(value, recorded.kind.requires_grad)
    return new_array(value, kind, recorded.edge_now(), Version())
