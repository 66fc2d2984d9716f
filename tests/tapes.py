"""Tapes made for tests, and the two references every derivative is held against.

A derivative is compared with differences of values (Richardson extrapolation of central
differences, L. F. Richardson, Phil. Trans. R. Soc. A 226, 1927) and, where the function is
analytic, with the complex step (Squire and Trapp, SIAM Review 40(1), 1998): neither uses a rule of
fdiff's.
"""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise

import numpy as np

import fdiff.ops  # noqa: F401 - fills the registry
from fdiff.arraytype import type_of
from fdiff.interpret import evaluate
from fdiff.ops.lazy_tables import MODULES
from fdiff.primitive import Primitive, load_tables
from fdiff.tape import ITEM, Builder, Tape, verify
from fdiff.trace import ArgumentSpec, record
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp


def load_every_table():
    """Fill the registry, also with the tables that wait for the imports of what they cover."""
    for module in MODULES:
        import_module(module)
    load_tables()


def tape_of(f, *arrays, scalar=False) -> Tape:
    """Verified tape of `f` for arguments like `arrays`; a tuple is several outputs."""
    return verify(recording_of(f, *arrays, scalar=scalar).tape)


def recording_of(f, *arrays, scalar=False):
    def run(trace, arguments):
        out = f(*arguments)
        return list(out) if isinstance(out, (tuple, list)) else [out]

    return record(
        run,
        [ArgumentSpec(type_of(x), scalar=scalar and not x.shape) for x in map(np.asarray, arrays)],
        "test",
    )


def tape_of_op(op: Primitive, arrays, params) -> Tape:
    """Verified tape of one node, whose floating or other outputs are all returned."""
    builder = Builder()
    ids = tuple(builder.input(type_of(np.asarray(x))) for x in arrays)
    node = builder.add(op, ids, tuple(sorted(params.items())))
    count = len(builder.nodes[node].types)
    outs = [node] if count == 1 else [builder.add(ITEM, (node,), (("k", k),)) for k in range(count)]
    return verify(builder.finish(outs))


def floating(tape: Tape) -> list[int]:
    """Positions of the inputs a derivative can be taken for."""
    return [k for k, t in enumerate(tape.input_types) if t.floating]


def values(tape: Tape, *arrays) -> list[np.ndarray]:
    return [np.asarray(v) for v in evaluate(tape, *arrays)]


def like(rng, types) -> list[np.ndarray]:
    """A random direction for each type."""
    return [direction(rng, t) for t in types]


def direction(rng, type_) -> np.ndarray:
    """Random entries of both parts, where there are two."""
    entries = np.asarray(rng.normal(size=type_.shape))
    if type_.dtype.kind == "c":
        entries = entries + 1j * rng.normal(size=type_.shape)
    return np.asarray(entries).astype(type_.dtype)


def wide(x) -> np.ndarray:
    """In double precision, real or complex."""
    return np.asarray(x, complex if np.iscomplexobj(x) else float)


def dot(xs, ys) -> float:
    """The pairing of cotangents with tangents: of complex ones the real part, no conjugate."""
    return float(sum(np.sum(wide(x) * wide(y)).real for x, y in zip(xs, ys, strict=True)))


def size(xs, ys) -> float:
    """The scale of ``dot(xs, ys)``: what its rounding errors are relative to."""
    return float(sum(np.sum(np.abs(wide(x) * wide(y))) for x, y in zip(xs, ys, strict=True)))


def push(tape: Tape, arrays, dots):
    """Tangents of the outputs, from the verified JVP tape."""
    return values(verify(jvp(tape, floating(tape))), *arrays, *dots)[len(tape.outputs) :]


def pull(tape: Tape, arrays, bars):
    """Cotangents of the floating inputs, from the verified VJP tape."""
    return values(verify(vjp(tape, floating(tape))), *arrays, *bars)[len(tape.outputs) :]


def smooth_outputs(tape: Tape) -> list[int]:
    return [k for k, t in enumerate(tape.output_types) if t.floating]


def moved(tape: Tape, arrays, dots, t):
    """Floating outputs at ``x + t * dots``."""
    new = list(arrays)
    for k, v in zip(floating(tape), dots, strict=True):
        new[k] = (
            (arrays[k] + t * v).astype(np.asarray(arrays[k]).dtype)
            if np.isrealobj(t)
            else arrays[k] + t * v
        )
    out = values(tape, *new)
    return [out[k] for k in smooth_outputs(tape)]


def differences(tape: Tape, arrays, dots):
    """Directional derivative by extrapolated central differences, and its relative accuracy.

    With steps h, h/2, h/4 the error is of order h**6 in truncation and eps / h in rounding.
    """
    narrow = any(
        np.finfo(t.dtype).bits < 64 for t in (*tape.input_types, *tape.output_types) if t.floating
    )
    h, accuracy = (2.0**-4, 2e-4) if narrow else (2.0**-9, 2e-9)
    rows = []
    for step in (h, h / 2, h / 4):
        up, down = moved(tape, arrays, dots, step), moved(tape, arrays, dots, -step)
        rows.append([(wide(u) - wide(d)) / (2 * step) for u, d in zip(up, down, strict=True)])
    for factor in (4.0, 16.0):
        rows = [
            [(factor * f - c) / (factor - 1) for c, f in zip(*pair, strict=True)]
            for pair in pairwise(rows)
        ]
    return rows[0], accuracy


def complex_step(tape: Tape, arrays, dots):
    """Directional derivative by the complex step; None where an op takes no complex numbers."""
    if any(t.dtype.kind == "c" for node in tape.nodes for t in node.types):
        return None
    try:
        out = moved(tape, arrays, dots, 1e-30j)
    except (TypeError, np.exceptions.ComplexWarning):  # which is an error in tests
        return None
    return [np.imag(o) / 1e-30 for o in out] if all(np.iscomplexobj(o) for o in out) else None


def check_derivatives(
    tape: Tape, arrays, rng, *, adjoint=1e-12, accuracy=None, constant=()
) -> bool:
    """JVP against differences (and complex step), VJP against JVP; whether complex step agreed.

    The complex step counts only where it agrees with the differences to 1e-6: where it does not,
    the function is not analytic (`abs`, `sign`) and the differences alone decide. Outputs that are
    `constant` by decree have no tangent, whatever the differences say.
    """
    wrt = floating(tape)
    dots = like(rng, [tape.input_types[k] for k in wrt])
    bars = like(rng, [t for t in tape.output_types if t.floating])
    tangents = [push(tape, arrays, dots)[k] for k in smooth_outputs(tape)]
    measured, known = differences(tape, arrays, dots)
    scale = max([1.0, *(float(np.max(np.abs(m))) for m in measured if m.size)])
    for k, tangent, m in zip(smooth_outputs(tape), tangents, measured, strict=True):
        assert tangent.shape == m.shape
        if k in constant:
            assert not np.any(tangent)
            continue
        np.testing.assert_allclose(
            tangent, m, rtol=accuracy or known, atol=(accuracy or known) * scale
        )
    narrow = known > 1e-6
    exact = None if narrow else complex_step(tape, arrays, dots)
    analytic = exact is not None and all(
        np.allclose(e, m, rtol=1e-6, atol=1e-6 * scale)
        for e, m in zip(exact, measured, strict=True)
    )
    if analytic:
        for tangent, e in zip(tangents, exact, strict=True):
            np.testing.assert_allclose(tangent, e, rtol=1e-12, atol=1e-12 * scale)
    pulled = pull(tape, arrays, bars)
    for k, g in zip(wrt, pulled, strict=True):
        assert (g.shape, g.dtype) == tape.input_types[k]
    bound = (1e-4 if narrow else adjoint) * max(size(bars, tangents), size(dots, pulled), 1e-300)
    assert abs(dot(bars, tangents) - dot(dots, pulled)) <= bound
    return analytic
