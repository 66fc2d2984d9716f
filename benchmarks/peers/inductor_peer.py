"""torch.compile: the function compiled by Inductor, its gradient by `torch.autograd`.

Of the derivatives only those by one reverse pass: `torch.func` does not go through a compiled
function. It needs a C++ compiler and takes tens of seconds a case: it runs only when it is named.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import torch_peer
from .torch_peer import NAMESPACE, SPECIAL, constant

__all__ = ["NAMESPACE", "SPECIAL", "constant", "value_and_grad", "vjp"]

Function = Callable[..., object]


def value_and_grad(f: Function, count: int) -> Function:
    return torch_peer.value_and_grad(torch.compile(f), count)


def vjp(f: Function) -> Function:
    return torch_peer.vjp(torch.compile(f))
