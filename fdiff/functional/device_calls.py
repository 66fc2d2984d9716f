"""Calls of operators with ``device="cuda"``: how arrays get to the device, and results back.

All else is as on the CPU (`invocation`): the function is traced, its variant is found by types and
guards, and the plan runs its steps. Only the runners of these steps are those of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .. import kernels
from ..device_arrays import DeviceArray, lies_on_device
from ..dispatch.arguments import Function, called
from ..dispatch.program import Program
from ..errors import InputError, failure
from ..trace.trace_stack import root_trace, stack, tracing
from ..tree import map_leaves
from .kink_policy import policy, refuse_kinks

if TYPE_CHECKING:
    from ..kernels import CudaDevice

Invoke = Callable[
    [Program, Function, tuple[object, ...], dict[str, object], Sequence[object]], object
]


def invoke_on_device(
    invoke: Invoke,
    program: Program,
    f: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    vectors: Sequence[object],
) -> object:
    """The result of an operator that runs on a device; `invoke` is the general way."""
    call = called(program.name, f)
    if tracing():
        _check_outer_device(program.device, call)
        return invoke(program, f, args, kwargs, vectors)
    args, kwargs, vectors = placed((args, kwargs, tuple(vectors)), call)  # type: ignore[misc,assignment] - a tree keeps its structure
    if policy.get() == "raise":  # a search for faults, which reads values on the host
        refuse_kinks(program, f, *map_leaves(_on_host, (args, kwargs)))  # type: ignore[misc] - likewise
    with tracing_for(program.device):
        return map_leaves(_returned, invoke(program, f, args, kwargs, vectors))


def placed(tree: object, call: str) -> object:
    """The same with arrays of other libraries as they lie on the device; others stay."""
    device = kernels.cuda_device(call)
    return map_leaves(lambda leaf: _placed(leaf, device), tree)


def _placed(leaf: object, device: CudaDevice) -> object:
    if isinstance(leaf, DeviceArray) or not lies_on_device(leaf):
        return leaf
    return device.view(leaf)


def _on_host(leaf: object) -> object:
    return leaf.host() if isinstance(leaf, DeviceArray) else leaf


def _returned(leaf: object) -> object:
    return leaf.device.export(leaf) if isinstance(leaf, DeviceArray) else leaf


@contextmanager
def tracing_for(device: str | None) -> Generator[None]:
    """Traces in this context are of functions that run on `device`; on none if it is None."""
    before, stack.device = stack.device, device
    try:
        yield
    finally:
        stack.device = before


def _check_outer_device(device: str, call: str) -> None:
    """Refuse a device inside a function that runs on another one: the outermost call decides."""
    if stack.device in (device, None):
        return
    outer = root_trace().call
    fact = f"device={device!r} was asked for inside {outer}, which runs on the CPU."
    raise failure(
        InputError, call, fact, f"Say device={device!r} there: the outermost call decides."
    )
