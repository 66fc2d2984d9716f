"""Joins of the results of an unrolled loop: a concatenation, stores, or a sum.

``s = np.empty((m, n)); s[:, k] = f(x, a[k])`` for all k is a chain of stores that fill an array,
``total += f(x, a[k])`` a chain of sums. Each is one join, which has a part for each iteration.

From a join `loop_vectorisation.py` goes backwards and packs equal operations of all parts into one,
as superword-level parallelism is found from accesses to adjacent memory (S. Larsen and S.
Amarasinghe, Exploiting superword level parallelism with multimedia instruction sets, PLDI 2000).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...named_tuples import NamedTuple
from ...ops.entrywise.elementwise import add
from ...ops.shapes.joining_and_splitting import concatenate
from ...ops.shapes.view_ops import update
from ...tape import Tape

FEWEST = 8  # parts; fewer are left as they are: what is unrolled stays in registers
JOINS = (concatenate, update, add)

Ids = tuple[int, ...]


class LoopJoin(NamedTuple):
    """Arrays of one type that are joined along an axis, or added up if that is None.

    `node` is the result, `chain` all nodes that join, and `start` what a sum begins with, if that
    is not a part.
    """

    node: int
    parts: Ids
    chain: frozenset[int]
    axis: int | None
    start: int | None = None


def joins_of(tape: Tape, users: Sequence[Sequence[int]]) -> Iterator[LoopJoin]:
    """The joins of at least `FEWEST` parts of one type, from the end of the tape to its beginning.

    Where a sum can be seen as two joins, the one with more parts comes first.
    """
    outputs = frozenset(tape.outputs)
    below: set[int] = set()  # nodes of chains that have been met
    for i in range(len(tape.nodes) - 1, -1, -1):
        node = tape.nodes[i]
        if node.primitive is concatenate:
            join = LoopJoin(i, node.args, frozenset([i]), node.param("axis"))
            yield from _of_one_type(tape, join)
        elif node.primitive in JOINS and i not in below:
            chain = _chain(tape, users, outputs, i)
            below.update(chain)
            if len(chain) >= FEWEST - 1:
                yield from (_stores if node.primitive is update else _terms)(tape, chain)


def _of_one_type(tape: Tape, join: LoopJoin) -> Iterator[LoopJoin]:
    if len(join.parts) >= FEWEST and len({tape.nodes[a].type for a in join.parts}) == 1:
        yield join


def _chain(
    tape: Tape, users: Sequence[Sequence[int]], outputs: frozenset[int], top: int
) -> list[int]:
    """Nodes of one op and type, the last first: each is read by the one before it alone."""
    node = tape.nodes[top]
    chain = [top]
    while True:
        i = tape.nodes[chain[-1]].args[0]
        below = tape.nodes[i]
        same = below.primitive is node.primitive and below.types == node.types
        if not same or len(users[i]) != 1 or i in outputs:
            return chain
        chain.append(i)


def _stores(tape: Tape, chain: list[int]) -> Iterator[LoopJoin]:
    """Stores that fill an array side by side, in any order."""
    shape = tape.nodes[chain[0]].type.shape
    at = {tape.nodes[i].param("starts"): tape.nodes[i].args[1] for i in chain}
    moved = [k for k in range(len(shape)) if len({starts[k] for starts in at}) > 1]
    if len(at) < len(chain) or len(moved) != 1:
        return
    (axis,) = moved
    part = tape.nodes[chain[0]].args[1]
    width = tape.nodes[part].type.shape[axis]
    whole = tuple(width if k == axis else n for k, n in enumerate(shape))
    starts = [
        tuple(n * (k == axis) for k in range(len(shape))) for n in range(0, shape[axis], width)
    ]
    steps = {tape.nodes[i].param("steps") for i in chain}
    if tape.nodes[part].type.shape != whole or steps != {(1,) * len(shape)}:
        return
    if at.keys() == set(starts):
        parts = tuple([at[start] for start in starts])
        yield from _of_one_type(tape, LoopJoin(chain[0], parts, frozenset(chain), axis))


def _terms(tape: Tape, chain: list[int]) -> Iterator[LoopJoin]:
    """The terms of a sum as parts: all of them, or all but the first, which is the start."""
    type_ = tape.nodes[chain[0]].type
    first, terms = tape.nodes[chain[-1]].args[0], [tape.nodes[i].args[1] for i in reversed(chain)]
    if type_.dtype.kind in "fc" and all(tape.nodes[a].type == type_ for a in terms):
        nodes = frozenset(chain)
        yield from _of_one_type(tape, LoopJoin(chain[0], (first, *terms), nodes, None))
        yield from _of_one_type(tape, LoopJoin(chain[0], tuple(terms), nodes, None, first))
