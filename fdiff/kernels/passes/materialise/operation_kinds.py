"""What operations cost, and what reads them."""

from __future__ import annotations

from collections.abc import Sequence

from ....kernel_rule import Kind
from ...ir.graph import KernelGraph, Operation

_CHEAP = (
    "math.sqrt",
    "math.copysign",
    "rt.maximum",
    "rt.minimum",
    "rt.sign",
    "rt.isnan",
    "rt.isfinite",
    "rt.isinf",
)
SLOW = 20  # cost of a transcendental function, in additions
# Functions that have most of their instructions in common with one: in one loop they cost little
# more than it (`kernels/runtime/maths/slopes.py`).
ALIKE = {
    "tanh": "tanh", "sech_squared": "tanh",
    "expit": "expit", "logistic_slope": "expit",
    "expm1": "exp", "exp": "exp",
    "logaddexp": "logaddexp", "first_share": "logaddexp", "second_share": "logaddexp",
    "logaddexp2": "logaddexp2", "first_share2": "logaddexp2", "second_share2": "logaddexp2",
    "hypot": "hypot", "first_direction": "hypot", "second_direction": "hypot",
}  # fmt: skip


def is_masked(ops: Sequence[Operation], i: int) -> bool:
    """Whether the entries of operation `i` are -0.0 where a product is to leave them out."""
    while ops[i].kind.is_view:
        (i,) = ops[i].args
    return ops[i].kind is Kind.MASKED


def users_of(graph: KernelGraph) -> list[list[int]]:
    """For each operation, those that read it (once for each reading)."""
    users: list[list[int]] = [[] for _ in graph.ops]
    for i, op in enumerate(graph.ops):
        for a in op.args:
            users[a].append(i)
    return users


def flops_of(text: str) -> int:
    """Rough cost of an expression, in additions."""
    if "{" not in text or text == "{0}":
        return 0
    if ("math." in text or "rt." in text) and not text.startswith(_CHEAP):
        return SLOW
    return 4 if "/" in text else 1 + text.count("*")
