"""The tapes of all ops with samples, and of their derivatives, for tests of kernels for CUDA."""

from __future__ import annotations

import numpy as np
import pytest
from tapes import floating, like, load_every_table, tape_of_op

from fdiff.kernel_rule import Category
from fdiff.kernels.ir.graph_of_tape import supported
from fdiff.primitive import PRIMITIVES
from fdiff.tape import Tape
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

load_every_table()
CASES = [  # loops and branches: test_loop_kernels.py; tapes of others have one precision
    pytest.param(op, sample, id=f"{op.name}-{k}")
    for op in PRIMITIVES.values()
    for k, sample in enumerate(op.samples)
    if op.kind is None or op.kind.category is not Category.CONTROL
    if op.family != "solver" and not any(isinstance(v, Tape) for v in sample.params.values())
]
each_op = pytest.mark.parametrize(("op", "sample"), CASES)
each_precision = pytest.mark.parametrize("precision", ["double", "single"])


def tapes_with_arguments(op, sample, precision, rng):
    """The tape of an op and those of its derivatives both ways, with arguments for each.

    Ops without a kernel on any processor, such as those of complex numbers, have none.
    """
    arrays = sample.make(rng)
    if precision == "single":
        arrays = [a.astype(np.float32) if a.dtype == np.float64 else a for a in arrays]
    tape = tape_of_op(op, arrays, sample.params)
    tapes = [tape]
    if floating(tape):
        tapes += [jvp(tape, floating(tape)), vjp(tape, floating(tape))]
    for one in map(simplify, tapes):
        if supported(one):
            yield one, [*arrays, *like(rng, one.input_types[len(arrays) :])]
