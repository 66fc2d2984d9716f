"""Ops that keep the rows of an array apart, and rows that are picked before they are cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...arraytype import ArrayType
from ...ops.contraction import parse
from ...ops.elementwise import add
from ...ops.gather_scatter import gather, scatter_add
from ...tape import Builder, Node, Params, Tape, prune

Sources = Sequence[ArrayType | None]  # types of what is moving, None for what is not
Rule = Callable[[dict[str, Any], ArrayType, Sources], bool]


def rowwise(node: Node, sources: Sources) -> bool:
    """Whether each row of the result comes from the same row of what is moving."""
    out = node.type
    if out.ndim == 0 or any(t is not None and t.shape[:1] != out.shape[:1] for t in sources):
        return False
    family = "elementwise" if node.primitive.family == "elementwise" else node.primitive.name
    rule = _RULES.get(family)
    return rule is not None and rule(dict(node.params), out, sources)


def _same_axes(params: dict[str, Any], out: ArrayType, sources: Sources) -> bool:
    return all(t is None or t.ndim == out.ndim for t in sources)


def _all_rows(params: dict[str, Any], out: ArrayType, sources: Sources) -> bool:
    return params["starts"][0] == 0 and params["steps"][0] == 1


def _labelled(params: dict[str, Any], out: ArrayType, sources: Sources) -> bool:
    *operands, result = parse(params["subscripts"])
    pairs = zip(operands, sources, strict=True)
    return all(t is None or labels[:1] == result[:1] for labels, t in pairs)


# Of the rows there are as many before as behind: that has been looked at.
_RULES: dict[str, Rule] = {
    "elementwise": _same_axes,
    "broadcast_to": _same_axes,
    "reshape": lambda params, out, sources: True,
    "transpose": lambda params, out, sources: params["axes"][0] == 0,
    "sum": lambda params, out, sources: 0 not in params["axes"],
    "concatenate": lambda params, out, sources: params["axis"] != 0,
    "slice": _all_rows,
    "unslice": _all_rows,
    "update": _all_rows,
    "contract": _labelled,
}

_MOST = 64  # terms of a sum that are put together

# --- rows first ---------------------------------------------------------------------------------

Added = tuple[int, int | None]  # rows, and the index vector by which they are added; None: as is

# Of ops that cut or turn rows, the parameter that holds how many there are.
_COUNTED = {"slice": "sizes", "reshape": "shape", "unslice": "shape", "transpose": ""}


def rows_first(tape: Tape) -> Tape:
    """The same program, with whole rows picked and added where parts of them were.

    ``x[:, 0][i]`` becomes ``x[i][:, 0]``; what is added to parts of rows by one index vector is put
    together before it is added, once.
    """
    builder = _Rows()
    ids = {i: builder.input(tape.nodes[i].type) for i in tape.inputs}
    for i, node in enumerate(tape.nodes):
        if i in ids:
            continue
        ids[i] = builder.enter(node, tuple([ids[a] for a in node.args]))
        if i in tape.lines and ids[i] == len(builder.nodes) - 1:
            builder.lines[ids[i]] = tape.lines[i]
    return prune(builder.finish([ids[o] for o in tape.outputs]))


class _Rows(Builder):
    """A builder that picks rows first and adds them last."""

    def __init__(self) -> None:
        super().__init__()
        self._sums: dict[int, list[Added]] = {}  # the terms of those of which some are added so

    def enter(self, node: Node, args: tuple[int, ...]) -> int:
        """The node of these arguments, or what stands for it."""
        sums = [self._sums[a] for a in args if a in self._sums]
        if node.primitive is gather and self._plain(args):
            return self._picked(*args)
        if node.primitive is scatter_add and self._plain(args):
            return self._added([(args[0], args[1])], node.type)
        if node.primitive.name in _COUNTED and sums and self._cuts(node, args[0]):
            cut = [(self._cut(node, rows), where) for rows, where in sums[0]]
            return self._added(cut, node.type)
        same = all(self.nodes[a].type == node.type for a in args)
        if node.primitive is add and sums and same and sum(map(len, sums)) < _MOST:
            terms = [term for a in args for term in self._sums.get(a, [(a, None)])]
            return self._added(terms, node.type)
        return self.add(node.primitive, args, node.params, types=node.types)

    def _plain(self, args: tuple[int, ...]) -> bool:
        """Whether there is one index vector."""
        return len(args) == 2 and self.nodes[args[1]].type.ndim == 1

    def _cuts(self, node: Node, source: int) -> bool:
        return rowwise(node, [self.nodes[source].type])

    def _cut(self, node: Node, rows: int) -> int:
        """The same cut of other rows."""
        key, count = _COUNTED[node.primitive.name], self.nodes[rows].type.shape[0]
        return self.add(node.primitive, (rows,), _recounted(node.params, key, count))

    def _picked(self, source: int, where: int) -> int:
        node = self.nodes[source]
        if node.primitive.name in _COUNTED and self._cuts(node, node.args[0]):
            return self._cut(node, self._picked(node.args[0], where))
        return self.add(gather, (source, where))

    def _added(self, terms: Sequence[Added], type_: ArrayType) -> int:
        """The sum of these, each index vector once."""
        together: dict[int | None, int] = {}
        for rows, where in terms:
            before = together.get(where)
            together[where] = rows if before is None else self.add(add, (before, rows))
        total = -1
        for where, rows in together.items():
            one = rows
            if where is not None:
                one = self.add(scatter_add, (rows, where), (("shape", type_.shape),))
            total = one if total < 0 else self.add(add, (total, one))
        self._sums[total] = [(rows, where) for where, rows in together.items()]
        return total


def _recounted(params: Params, key: str, count: int) -> Params:
    """Parameters for so many rows."""
    named: dict[str, Any] = dict(params)
    if key:
        named[key] = (count, *named[key][1:])
    return tuple(sorted(named.items()))
