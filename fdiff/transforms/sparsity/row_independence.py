"""Which ops compute each row of a result from the same row of their operands; gathers go first.

`rows_first` rewrites a tape so that it gathers whole rows, and slices them afterwards. This is
selection pushdown, as in `row_selection.py`, which names the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...arraytype import ArrayType
from ...ops.elementwise import add
from ...ops.gather_scatter import gather, scatter_add
from ...primitive import AxisMap
from ...tape import Builder, Node, Tape


def rowwise(node: Node, types: Sequence[ArrayType], moving: Sequence[bool]) -> bool:
    """Whether each row of the result comes from the same row of the arguments that are `moving`."""
    found = rows_of(node, types)
    if found is None:
        return False
    rows, pairs = node.type.shape[0], zip(types, found.sources, moving, strict=True)
    return all(k == 0 and t.shape[0] == rows for t, k, moves in pairs if moves)


def rows_of(node: Node, types: Sequence[ArrayType], axis: int = 0) -> AxisMap | None:
    """What the rows of a result are made of, or what lies along another axis; None if untold."""
    rule = node.primitive.axis_map
    if rule is None or node.type.ndim == 0 or len(node.types) > 1:
        return None
    return rule(axis, node.type, *types, **dict(node.params))


_MOST = 64  # terms of a sum that are put together

# --- rows first ---------------------------------------------------------------------------------

Added = tuple[int, int | None]  # rows, and the index vector by which they are added; None: as is


def rows_first(tape: Tape) -> Tape:
    """The same program, in which gathers pick whole rows, and scatters add whole rows.

    ``x[:, 0][i]`` becomes ``x[i][:, 0]``. Terms that one index vector adds to different parts of
    rows are put together first, and added by one scatter.
    """
    builder = _Rows()
    ids = {i: builder.input(tape.nodes[i].type) for i in tape.inputs}
    for i, node in enumerate(tape.nodes):
        if i in ids:
            continue
        ids[i] = builder.enter(node, tuple([ids[a] for a in node.args]))
        if i in tape.lines and ids[i] == len(builder.nodes) - 1:
            builder.lines[ids[i]] = tape.lines[i]
    return builder.finish([ids[o] for o in tape.outputs])


class _Rows(Builder):
    """A builder that puts gathers of rows as early, and scatters as late, as it can."""

    def __init__(self) -> None:
        super().__init__()
        self._sums: dict[int, list[Added]] = {}  # terms of nodes, of which some are scattered

    def enter(self, node: Node, args: tuple[int, ...]) -> int:
        """The node of these arguments, or what stands for it."""
        sums = [self._sums[a] for a in args if a in self._sums]
        if node.primitive is gather and self._plain(args):
            return self._picked(*args)
        if node.primitive is scatter_add and self._plain(args):
            return self._added([(args[0], args[1])], node.type)
        if sums and self._cuts(node, args):
            cut = [(self._cut(node, args[0], rows), where) for rows, where in sums[0]]
            return self._added(cut, node.type)
        same = all(self.nodes[a].type == node.type for a in args)
        if node.primitive is add and sums and same and sum(map(len, sums)) < _MOST:
            terms = [term for a in args for term in self._sums.get(a, [(a, None)])]
            return self._added(terms, node.type)
        return self.add(node.primitive, args, node.params, types=node.types)

    def _plain(self, args: tuple[int, ...]) -> bool:
        """Whether there is one index vector."""
        return len(args) == 2 and self.nodes[args[1]].type.ndim == 1

    def _cuts(self, node: Node, args: tuple[int, ...]) -> bool:
        """Whether a node slices, reshapes or transposes each row of one array by itself."""
        one = node.primitive.moves and len(args) == 1
        return one and rowwise(node, [self.nodes[args[0]].type], [True])

    def _cut(self, node: Node, source: int, rows: int) -> int:
        """What such a node gives for `rows`, in place of the rows of `source`."""
        found = rows_of(node, [self.nodes[source].type])
        assert found is not None
        params = found.resized(node.params, 0, self.nodes[rows].type.shape[0])
        return self.add(node.primitive, (rows,), params)

    def _picked(self, source: int, where: int) -> int:
        node = self.nodes[source]
        if self._cuts(node, node.args):
            return self._cut(node, node.args[0], self._picked(node.args[0], where))
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
