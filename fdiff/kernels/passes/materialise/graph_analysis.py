"""What follows from a skeleton alone, whatever is kept: users, costs, sums made in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf

from ....attributes import cached_property
from ...ir.graph import Part, Skeleton
from ...ir.loops import ONE, Dims, proper, same_but_ones
from ..fuse.effect import Root
from .operation_kinds import (
    LEAVES,
    MEMORY,
    PIECEWISE,
    ROUTINES,
    SCATTERS,
    SLOW,
    VIEWS,
    flops_of,
    users_of,
)
from .value_keys import Key, Keys

_UNKEPT = LEAVES | ROUTINES | VIEWS
DEEP = 400  # cost from which on a value with several users is not computed for each of them


@dataclass(frozen=True)
class Structure:
    """A skeleton with what follows from it, each found once for all plans that are tried."""

    bones: Skeleton

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return self.bones.parts

    @cached_property
    def dims(self) -> list[Dims]:
        return [part.dims for part in self.parts]

    @cached_property
    def roots(self) -> dict[tuple[int, str, int, str], list[Root]]:
        """Effects that have been made, by what they depend on."""
        return {}

    @cached_property
    def tops(self) -> dict[Root, list[Key]]:
        """The values that effects are of, once they are known."""
        return {}

    @cached_property
    def keys(self) -> Keys:
        return Keys(self.parts, self.dims)

    @cached_property
    def users(self) -> list[list[int]]:
        return users_of(self.bones)

    @cached_property
    def shared(self) -> frozenset[int]:
        """Nodes that are read more than once."""
        return frozenset(i for i, users in enumerate(self.users) if len(users) > 1)

    @cached_property
    def gathers(self) -> dict[int, int]:
        """What each gather is from."""
        return {i: part.args[0] for i, part in enumerate(self.parts) if part.op == "gather"}

    @cached_property
    def operations(self) -> frozenset[int]:
        """Nodes of which an entry takes a statement where it is computed."""
        return frozenset(
            i for i, part in enumerate(self.parts)
            if part.op == "gather" or (part.text and part.op not in LEAVES)
        )  # fmt: skip

    @cached_property
    def absorbed(self) -> frozenset[int]:
        """Adds, slices and views that are carried out by writing in place."""
        return _absorbed(self.bones, self.users)

    @cached_property
    def wanted(self) -> frozenset[int]:
        """Nodes that a routine or a gather reads in memory."""
        return frozenset(_wanted(self.bones))

    @cached_property
    def items(self) -> dict[int, int]:
        """The routine that each of its several results is of."""
        return {i: part.args[0] for i, part in enumerate(self.parts) if part.op == "item"}

    @cached_property
    def given(self) -> frozenset[int]:
        """Inputs and captured arrays."""
        return frozenset(i for i, part in enumerate(self.parts) if part.op in ("input", "array"))

    @cached_property
    def single(self) -> frozenset[int]:
        """Nodes of one entry that can be locals: they are not written piecewise, unless as sums."""
        return frozenset(
            i for i, part in enumerate(self.parts)
            if not (
                part.dims if part.op == "input"
                else proper(part.dims) or part.op in PIECEWISE or i in self.wanted
            )
        )  # fmt: skip

    @cached_property
    def sums(self) -> frozenset[int]:
        """Sums that can be carried out by adding to memory."""
        return frozenset(i for i, part in enumerate(self.parts) if self._sums(part))

    def _sums(self, part: Part) -> bool:
        of_terms = part.op == "add" and not self.absorbed.isdisjoint(part.args)
        return of_terms or part.op in SCATTERS

    @cached_property
    def updates(self) -> dict[int, list[int]]:
        """The stores into a slice of each array."""
        out: dict[int, list[int]] = {}
        for i, part in enumerate(self.parts):
            if part.op == "update":
                out.setdefault(part.args[0], []).append(i)
        return out

    @cached_property
    def flops(self) -> list[int]:
        """The cost of each part itself."""
        return [flops_of(part.text) for part in self.parts]

    @cached_property
    def limits(self) -> list[float]:
        """The cost above which each node is kept: that of computing it where it is used."""
        stretched = _stretched(self.bones, self.users)
        lonely = self._lonely()
        return [
            -1 if i in lonely else self._limit(i, p, stretched=stretched[i])
            for i, p in enumerate(self.parts)
        ]

    def _lonely(self) -> set[int]:
        """Functions of rows of which each entry is read all along an inner axis.

        Computed in that loop over rows they would take turns with an inner loop, one at a time.
        Kept, they are computed in a loop of their own, in vectors.
        """
        parts = self.parts
        cost = [0] * len(parts)  # of an entry, with all that is computed of entries of its rows
        for i, part in enumerate(parts):
            if i in self.operations or part.op == "reshape":
                like = (a for a in part.args if same_but_ones(parts[a].dims, part.dims))
                cost[i] = self.flops[i] + sum(cost[a] for a in like)
        return {
            i for i, c in enumerate(cost)
            if c >= SLOW and i in self.operations and self._read_along(i)
        }  # fmt: skip

    def _read_along(self, i: int) -> bool:
        """Whether what reads a node has an axis inside of all of its own axes."""
        for u in self.users[i]:
            user = self.parts[u]
            if user.op == "reshape" and same_but_ones(self.parts[i].dims, user.dims):
                if self._read_along(u):
                    return True
            elif user.text and _inside(self.parts[i].dims, user.dims):
                return True
        return False

    def _limit(self, i: int, part: Part, *, stretched: bool) -> float:
        if i in self.absorbed:
            return inf
        routine = part.op in ROUTINES and len(part.shapes) == 1
        if part.op in MEMORY or part.op == "copy" or routine or i in self.sums:
            return -1
        if part.op in _UNKEPT:
            return inf
        if i in self.outputs or not proper(part.dims):
            return -1
        if stretched:
            return 2
        users = self.users[i]
        if len(users) < 2:
            return inf
        return 4 if any(self._moves(u) for u in users) else DEEP

    @cached_property
    def outputs(self) -> frozenset[int]:
        return frozenset(self.bones.outputs)

    def _moves(self, i: int) -> bool:
        """Whether `i` is a view in which entries are met in another order, or not all of them."""
        return i in self.recast or (self.parts[i].op in VIEWS and self.parts[i].op != "reshape")

    @cached_property
    def recast(self) -> frozenset[int]:
        """Reshapes that do more than add or drop axes of size one."""
        parts = self.parts
        return frozenset(
            i for i, part in enumerate(parts)
            if part.op == "reshape" and not same_but_ones(part.dims, parts[part.args[0]].dims)
        )  # fmt: skip

    @cached_property
    def flattened(self) -> list[tuple[int, ...] | None]:
        """What has to be had from a row-major number for each node to be; None if it cannot be."""
        return [self._flattened(part) for part in self.parts]

    def _flattened(self, part: Part) -> tuple[int, ...] | None:
        dims = self.dims
        if part.op in ("array", "value", "iota"):
            return ()
        if part.op == "input":
            return () if not proper(part.dims) or part.data[1] == "C" else None
        if part.op == "reshape":
            return part.args
        if part.op == "broadcast_to":
            return None if proper(dims[part.args[0]]) else ()
        if not part.text:
            return None
        arrays = [a for a in part.args if proper(dims[a])]
        own = part.dims
        return None if any(dims[a] != own for a in arrays) else tuple(arrays)


def _wanted(bones: Skeleton) -> set[int]:
    """Nodes that must lie in memory because a routine or a gather reads them there."""
    wanted: set[int] = set()
    for part in bones.parts:
        if part.op in ROUTINES:
            wanted.update(part.args)
        elif part.op == "gather":
            wanted.add(part.args[0])
    return wanted


def _stretched(bones: Skeleton, users: list[list[int]]) -> list[bool]:
    """Whether a user repeats the node along an axis outside its own: fusing recomputes it."""
    parts = bones.parts
    out = [False] * len(parts)
    for i in range(len(parts) - 1, -1, -1):
        for u in users[i]:
            user = parts[u]
            if (user.op == "contract" and not _entrywise(user)) or (user.op in VIEWS and out[u]):
                out[i] = True
            elif user.op == "broadcast_to" or (user.text and user.op not in VIEWS):
                out[i] = out[i] or _repeats(parts[i].dims, user.dims)
    return out


def _entrywise(part: Part) -> bool:
    """Whether each entry of both operands takes part in one product alone, as in ``x @ x``."""
    left, right = part.parameter("subscripts", str).split("->")[0].split(",")
    return left == right


@lru_cache(maxsize=4096)
def _repeats(dims: Dims, result: Dims) -> bool:
    """Whether an axis of `dims` lies inside an axis along which it is repeated."""
    padded = (ONE,) * (len(result) - len(dims)) + dims
    repeated = False
    for have, want in zip(padded, result, strict=True):
        if have != ONE and repeated:
            return True
        repeated = repeated or have != want
    return False


def _inside(dims: Dims, result: Dims) -> bool:
    """Whether a result has an axis inside of all axes of one of its operands."""
    return bool(proper(dims)) and dims[-1] == ONE != result[-1]


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
