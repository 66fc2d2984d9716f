"""From an eager trace to an ordinary tape, for the transforms that differentiate tapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tape import INPUT, Tape
from .eager_recorder import NUMBER, STORE
from .eager_trace import EagerTrace
from .recording import Trace


def ordinary(trace: EagerTrace, outputs: Sequence[int]) -> Tape:
    """The tape of an eager trace, without the nodes that only such traces have."""
    builder, plain = trace.builder, Trace(trace.call, lines=False)
    inputs = set(builder.inputs)
    ids: list[int] = []
    for i, (op, args) in enumerate(zip(builder.ops, builder.args, strict=True)):
        given = tuple([ids[a] for a in args])
        if op.primitive is INPUT and i in inputs:
            ids.append(plain.builder.input(op.types[0]))
        elif op.primitive is NUMBER:
            ids.append(plain.builder.constant(np.array(builder.values[i], op.types[0].dtype)))
        elif op.primitive is STORE:
            places: tuple[int, ...] = op.params[0][1]
            entries = dict(zip(places, given[1:], strict=True))
            ids.append(plain.store(given[0], op.types[0], entries))
        else:
            ids.append(plain.builder.add(op.primitive, given, op.params))
    return plain.builder.finish([ids[o] for o in outputs])
