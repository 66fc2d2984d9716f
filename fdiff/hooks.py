"""Functions of higher floors that lower floors call, in one place; `hooks.pyi` has their types.

The module that defines such a function sets its hook when it is imported, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .named_tuples import NamedTuple

Function = Callable[..., object]
Args = tuple[object, ...]
Named = dict[str, object]


class BodyRules(NamedTuple):
    """The rules of an op that has a body, which apply transforms to the body."""

    jvp: Function
    vjp: Function
    batch: Function


class HookTable:
    """The hooks; those that may be None have a function once the package they serve is imported."""

    gate = method_gate = None  # of `fdiff.trace.looping`
    batching_rules = None  # of `fdiff.functional`
    recorded_operator = recorded_rules = recorded_checkpoint = None  # of `fdiff.autograd`
    recorded_function = detached = torch_method = None
    over_partitions = joined_sums = None  # of `fdiff.distributed`

    def __setattr__(self, name: str, function: object) -> None:
        if name in vars(self):
            raise AttributeError(f"the hook {name!r} is set already")
        vars(self)[name] = function


hooks: Final = HookTable()
BODY_RULES: Final[dict[str, BodyRules]] = {}  # by the name of the op
