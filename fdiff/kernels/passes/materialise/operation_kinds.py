"""Kinds of parts: what they cost, and what reads them."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import KernelGraph, Operation
from ...ir.masked_operands import MASKED

REDUCTIONS = frozenset(["sum", "prod", "max", "min", "any", "all"])
ARGUMENTS = frozenset(["argmax", "argmin"])
SCANS = frozenset(["cumsum", "cumprod", "cummax", "recurrence"])
ROUTINES = frozenset(
    [
        "solve", "triangular", "inv", "det", "slogdet", "cholesky", "cholesky_bar", "cofactor",
        "matmul",
    ]
)  # fmt: skip
# how many matrices of which dtype a routine needs room for; "" for its own
SCRATCH = {**dict.fromkeys(["solve", "inv", "det", "slogdet"], (1, "")), "cofactor": (2, "f8")}
SCATTERS = frozenset(["unslice", "scatter_add"])
STORES = frozenset(["update", "scatter_set"])
VIEWS = frozenset(["reshape", "transpose", "broadcast_to", "slice"])
LEAVES = frozenset(["input", "array", "value"])
MEMORY = REDUCTIONS | ARGUMENTS | SCANS | SCATTERS | STORES | {
    "contract", "concatenate", "place", "item",
}  # fmt: skip
PIECEWISE = SCATTERS | STORES | SCANS | ROUTINES | {"concatenate", "place", "item", "array"}
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
    """Whether the entries of part `i` are -0.0 where a product is to leave them out."""
    while ops[i].kind in VIEWS:
        (i,) = ops[i].args
    return ops[i].kind == MASKED


def users_of(graph: KernelGraph) -> list[list[int]]:
    """For each part, the parts that read it (once for each reading)."""
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
