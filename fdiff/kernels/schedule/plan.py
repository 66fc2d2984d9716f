"""What is kept in memory and what is computed where it is used.

A node is *kept* if it has memory (or, with one entry, a local) of its own; every other node is
fused into the loops that read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..bones import Part, Skeleton
from ..loops import ONE, Buffer, Dims, Index, proper, same_but_ones

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
_MEMORY = REDUCTIONS | ARGUMENTS | SCANS | SCATTERS | STORES | {
    "contract", "concatenate", "place", "item",
}  # fmt: skip
_PIECEWISE = SCATTERS | STORES | SCANS | ROUTINES | {"concatenate", "place", "item", "array"}
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
_DEEP = 400  # cost from which on a value with several users is not computed for each of them
SLOW = 20  # cost of a transcendental function, in additions


class Key(NamedTuple):
    """The value of `node`, seen as an array of shape `dims`, at `index`."""

    node: int
    dims: Dims
    index: Index  # pyright: ignore[reportIncompatibleMethodOverride] - tuple.index is never used


@dataclass(frozen=True)
class Plan:
    """A skeleton with its users, what is kept, and what is added up in place."""

    bones: Skeleton
    kept: frozenset[int]
    absorbed: frozenset[int]  # adds, slices and views that are carried out by writing in place
    reused: Mapping[int, int] = field(default_factory=dict)  # nodes that take over another's memory
    reads: dict[object, list[Key]] = field(default_factory=dict)  # of each effect, once it is known
    below: dict[Key, list[Key]] = field(default_factory=dict)  # what a value is computed from

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.bones.parts

    @cached_property
    def outputs(self) -> dict[int, int]:
        """The output buffer of each kept node that is an output."""
        first: dict[int, int] = {}
        for k, o in enumerate(self.bones.outputs):
            if o in self.kept or self.owned(self.laid(o)):
                first.setdefault(self.laid(o), k)
        return first

    def laid(self, i: int) -> int:
        """The node whose entries, in order, are those of `i`: what it reshapes, or itself."""
        while self.parts[i].op == "reshape" and i not in self.kept:
            i = self.parts[i].args[0]
        return i

    def owned(self, i: int) -> bool:
        """Whether the node lies in memory that the kernel may write to."""
        return i in self.kept and self.parts[i].op not in ("input", "array") and not self.local(i)

    @cached_property
    def _head(self) -> dict[int, int]:
        """The first of the nodes that share the memory of each that is written over."""
        heads: dict[int, int] = {}
        for i in sorted(self.reused):
            heads[i] = heads.get(self.reused[i], self.reused[i])
        return heads

    @cached_property
    def _shared(self) -> dict[int, str]:
        """Memory that several nodes have one after another, by the first of them."""
        out: dict[int, str] = {}
        for i in sorted(self.reused):
            name = f"out{self.outputs[i]}" if i in self.outputs else ""
            out[self._head[i]] = name or out.get(self._head[i], f"t{self._head[i]}")
        return out

    @cached_property
    def names(self) -> dict[int, str]:
        """Local or memory of every node that has one."""
        return {i: name for i in range(len(self.parts)) if (name := self._name(i))}

    def _name(self, i: int) -> str:
        part = self.parts[i]
        if part.op == "input":
            return f"x{part.data[0]}"
        if part.op == "array":
            return f"k{part.data[0]}"
        if i not in self.kept:
            source = self.laid(i)
            return self._name(source) if i in self.wanted and source != i else ""
        if self.local(i):
            return f"s{i}"
        head = self._head.get(i, i)
        if head in self._shared:
            return self._shared[head]
        return f"out{self.outputs[i]}" if i in self.outputs else f"t{i}"

    def local(self, i: int) -> bool:
        """Whether the value is a local of the kernel: one entry, and not written piecewise."""
        part = self.parts[i]
        if part.op == "input":
            return not part.dims
        piecewise = part.op in _PIECEWISE or i in self.adds or i in self.wanted
        return not proper(part.dims) and not piecewise

    @cached_property
    def wanted(self) -> frozenset[int]:
        """Nodes that a routine or a gather reads in memory."""
        return frozenset(_wanted(self.bones))

    @cached_property
    def adds(self) -> frozenset[int]:
        """Sums that are carried out by adding to memory, term by term."""
        return frozenset(
            i
            for i in self.kept
            if self.parts[i].op in SCATTERS
            or (self.parts[i].op == "add" and any(a in self.absorbed for a in self.parts[i].args))
        )

    @cached_property
    def updates(self) -> dict[int, list[int]]:
        """The stores into a slice of each array."""
        out: dict[int, list[int]] = {}
        for i, part in enumerate(self.parts):
            if part.op == "update":
                out.setdefault(part.args[0], []).append(i)
        return out

    def buffer(self, i: int) -> Buffer:
        """Memory of node `i`; an input of any layout has run-time strides."""
        part = self.parts[i]
        name = self.names[i]
        if part.op == "input" and part.data[1] == "A":
            return Buffer(name, tuple(f"{name}_{k}" for k in range(len(part.dims))))
        return Buffer(name)


def make_plan(
    bones: Skeleton, also: Iterable[int] = (), below: dict[Key, list[Key]] | None = None
) -> Plan:
    """Decide what is kept; `also` names nodes found to be computed too often.

    `below` is that of another plan for these bones, as it does not depend on what is kept.
    """
    parts = bones.parts
    users = users_of(bones)
    absorbed = _absorbed(bones, users)
    kept: set[int] = {i for i in also if i not in absorbed}
    wanted = _wanted(bones)
    stretched = _stretched(bones, users)
    flops: list[int] = []
    flat: list[bool] = []
    outputs = set(bones.outputs)
    for i, part in enumerate(parts):
        cost = flops_of(part.text) + sum(flops[a] for a in part.args)
        if i in absorbed:
            pass
        elif (
            part.op in _MEMORY
            or (part.op in ROUTINES and len(part.shapes) == 1)
            or (part.op == "add" and any(a in absorbed for a in part.args))
        ):
            kept.add(i)
        elif part.op not in LEAVES | ROUTINES | VIEWS:
            moved = len(users[i]) > 1 and any(_moves(bones, u) for u in users[i])
            if (
                i in outputs
                or not proper(part.dims)
                or (stretched[i] and cost > 2)
                or (moved and cost > 4)
                or (len(users[i]) > 1 and cost > _DEEP)
            ):
                kept.add(i)
        flat.append(i in kept or _flattenable(bones, part, flat))
        if part.op == "reshape" and not same_but_ones(part.dims, parts[part.args[0]].dims):
            source = part.args[0]
            if not flat[source] and i not in absorbed:
                kept.add(source)
                flat[source] = flat[i] = True
        if i in wanted and part.op not in LEAVES and not _in_place(bones, i, kept):
            kept.add(i)
            flat[i] = True
        flops.append(0 if i in kept or part.op in LEAVES else cost)
    return Plan(bones, frozenset(kept), absorbed, below={} if below is None else below)


def users_of(bones: Skeleton) -> list[list[int]]:
    """For each part, the parts that read it (once for each reading)."""
    users: list[list[int]] = [[] for _ in bones.parts]
    for i, part in enumerate(bones.parts):
        for a in part.args:
            users[a].append(i)
    return users


def flops_of(text: str) -> int:
    """Rough cost of an expression, in additions."""
    if "{" not in text or text == "{0}":
        return 0
    if ("math." in text or "rt." in text) and not text.startswith(_CHEAP):
        return SLOW
    return 4 if "/" in text else 1 + text.count("*")


def _wanted(bones: Skeleton) -> set[int]:
    """Nodes that must lie in memory because a routine or a gather reads them there."""
    wanted: set[int] = set()
    for part in bones.parts:
        if part.op in ROUTINES:
            wanted.update(part.args)
        elif part.op == "gather":
            wanted.add(part.args[0])
    return wanted


def _moves(bones: Skeleton, i: int) -> bool:
    """Whether `i` is a view in which entries are met in another order, or not all of them."""
    part = bones.parts[i]
    if part.op == "reshape":
        return not same_but_ones(part.dims, bones.parts[part.args[0]].dims)
    return part.op in VIEWS


def _in_place(bones: Skeleton, i: int, kept: set[int]) -> bool:
    """Whether `i` reshapes what lies in memory in order: it needs no memory of its own."""
    parts, source = bones.parts, i
    while parts[source].op == "reshape" and source not in kept:
        source = parts[source].args[0]
    part = parts[source]
    lies = source in kept or part.op == "array" or (part.op == "input" and part.data[1] == "C")
    return source != i and lies and bool(proper(part.dims))


def _stretched(bones: Skeleton, users: list[list[int]]) -> list[bool]:
    """Whether a user repeats the node along an axis outside its own: fusing recomputes it."""
    parts = bones.parts
    out = [False] * len(parts)
    for i in range(len(parts) - 1, -1, -1):
        for u in users[i]:
            user = parts[u]
            if user.op == "contract" or (user.op in VIEWS and out[u]):
                out[i] = True
            elif user.op == "broadcast_to" or (user.text and user.op not in VIEWS):
                out[i] = out[i] or _repeats(parts[i].dims, user.dims)
    return out


def _repeats(dims: Dims, result: Dims) -> bool:
    """Whether an axis of `dims` lies inside an axis along which it is repeated."""
    padded = (ONE,) * (len(result) - len(dims)) + dims
    repeated = False
    for have, want in zip(padded, result, strict=True):
        if have != ONE and repeated:
            return True
        repeated = repeated or have != want
    return False


def _flattenable(bones: Skeleton, part: Part, flat: list[bool]) -> bool:
    """Whether an entry can be had from its row-major number alone."""
    parts = bones.parts
    if part.op in ("array", "value", "iota"):
        return True
    if part.op == "input":
        return not proper(part.dims) or part.data[1] == "C"
    if part.op == "reshape":
        return flat[part.args[0]]
    if part.op == "broadcast_to":
        return not proper(parts[part.args[0]].dims)
    if not part.text:
        return False
    return all(
        not proper(parts[a].dims) or (parts[a].dims == part.dims and flat[a]) for a in part.args
    )


def _absorbed(bones: Skeleton, users: list[list[int]]) -> frozenset[int]:
    """Nodes that need not exist: sums of slices put back, which are added up in one array.

    The transpose of ``x[1:] - x[:-1]`` is ``unslice(b) + unslice(c)``: one buffer of zeros, one
    accumulating loop a slice.
    """
    parts = bones.parts
    outputs = set(bones.outputs)
    holds = [False] * len(parts)
    indexed = [0] * len(parts)  # leading axes along which places are known at run time only

    def single(a: int) -> bool:
        return len(users[a]) == 1 and a not in outputs and holds[a] and parts[a].dtype[0] == "f"

    def passes(i: int, a: int) -> bool:
        """Whether what is added to node `a` can be added to node `i` instead."""
        part = parts[i]
        if indexed[a] and part.op == "unslice":
            lead = indexed[a]
            whole = parts[a].dims[:lead] == part.dims[:lead]
            return whole and all(pair == ("0", "1") for pair in part.slices[:lead])
        if indexed[a] and part.op != "add":
            return False
        if part.op == "reshape":
            return same_but_ones(part.dims, parts[a].dims)
        return part.op in ("transpose", "unslice") or (
            part.op == "add" and parts[a].dims == part.dims
        )

    for i, part in enumerate(parts):
        indexed[i] = len(part.args) - 1 if part.op == "scatter_add" else 0
        if part.op in ("add", "unslice"):
            indexed[i] = max(indexed[a] if single(a) and passes(i, a) else 0 for a in part.args)
        holds[i] = part.op in SCATTERS or (
            part.op in ("add", "reshape", "transpose")
            and any(single(a) and passes(i, a) for a in part.args)
        )
    absorbed: set[int] = set()
    for i in range(len(parts) - 1, -1, -1):
        part = parts[i]
        gathers = part.op == "unslice" or (part.op == "add" and holds[i]) or i in absorbed
        if gathers and part.op != "scatter_add":
            absorbed.update(a for a in part.args if single(a) and passes(i, a))
    return frozenset(absorbed)
