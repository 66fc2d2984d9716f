"""Every op of the registry, by the samples on its record. Nothing here names an op."""

from itertools import product

import numpy as np
import pytest
from tapes import check_derivatives, floating, like, load_every_table, tape_of_op, values

from fdiff.arraytype import type_of
from fdiff.primitive import PRIMITIVES
from fdiff.tape import INPUT, verify
from fdiff.transforms.batch import batch
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

load_every_table()
OPS = {name: op for name, op in PRIMITIVES.items() if op.samples}
LEAVES = [op for op in PRIMITIVES.values() if op.family == "leaf"]
CASES = [
    pytest.param(op, sample, id=f"{op.name}-{k}")
    for op in OPS.values()
    for k, sample in enumerate(op.samples)
]
each_case = pytest.mark.parametrize(("op", "sample"), CASES)
each_elementwise = pytest.mark.parametrize(
    "op", [op for op in OPS.values() if op.family == "elementwise"], ids=lambda op: op.name
)

# Derived from the (2, 3) arrays of a sample, so that they stay inside the op's domain.
SHAPES = {
    "()": lambda k, x: np.asarray(x[0, 0]),
    "(3,)": lambda k, x: x[0],
    "(2,3)": lambda k, x: x,
    "(2,1)x(3,)": lambda k, x: x[0] if k % 2 else x[:, :1],
    "(3,)x()": lambda k, x: np.asarray(x[0, 0]) if k % 2 else x[0],
    "(0,)": lambda k, x: x[0, :0],
    "(2,0)x(1,)": lambda k, x: x[0, :1] if k % 2 else x[:, :0],
}


def strided(x):
    """The same values far apart in memory."""
    wide = np.full([5 * n for n in x.shape], -7).astype(x.dtype)
    wide[tuple(slice(2, None, 5) for _ in x.shape)] = x
    return wide[tuple(slice(2, None, 5) for _ in x.shape)]


LAYOUTS = {
    "fortran": lambda x: np.array(x, order="F"),
    "strided": strided,
    "backwards": lambda x: np.array(np.flip(x), order="C")[(slice(None, None, -1),) * x.ndim],
}


def derived(tape):
    """The tape itself and both its derivatives, by name: their derivatives are second order."""
    tapes = {"value": tape}
    if floating(tape):
        tapes |= {
            "jvp": verify(jvp(tape, floating(tape))),
            "vjp": verify(vjp(tape, floating(tape))),
        }
    return tapes


def check_dtypes(tapes, direct):
    """Outputs as NumPy gives them, tangents like their outputs, cotangents like their inputs."""
    outs = tuple(
        type_of(np.asarray(d)) for d in (direct if isinstance(direct, tuple) else (direct,))
    )
    assert tapes["value"].output_types == outs
    if len(tapes) > 1:
        count = len(outs)
        tangents = tapes["jvp"].output_types[count:]
        assert all(t == o for t, o in zip(tangents, outs, strict=True) if o.floating)
        inputs = tapes["value"].input_types
        assert tapes["vjp"].output_types[count:] == tuple(t for t in inputs if t.floating)


def seeds(rng, tape, arrays):
    """Arguments for a derived tape: those of the op, then random directions."""
    return [*arrays, *like(rng, tape.input_types[len(arrays) :])]


def test_every_op_has_samples():
    assert {op for op in PRIMITIVES.values() if not op.samples} <= {*LEAVES}
    assert len(OPS) > 100


@each_case
def test_types_are_those_of_the_values(op, sample, rng):
    arrays = sample.make(rng)
    tape = tape_of_op(op, arrays, sample.params)
    direct = op.rules.evaluate(*arrays, **sample.params)
    direct = direct if isinstance(direct, tuple) else (direct,)
    for type_, value, expected in zip(
        tape.output_types, values(tape, *arrays), direct, strict=True
    ):
        assert type_of(value) == type_
        np.testing.assert_array_equal(value, expected)


@each_case
def test_derivatives_to_second_order(op, sample, rng):
    """JVP is the measured derivative, VJP its adjoint; and again for both derived tapes."""
    arrays = sample.make(rng)
    tape = tape_of_op(op, arrays, sample.params)
    if op.rules.stops:  # by decree: differences would show the slope 1 that it hides
        v = [np.ones_like(a) for a in arrays]
        assert not np.any(values(jvp(tape, floating(tape)), *arrays, *v)[1])
        assert not np.any(values(vjp(tape, floating(tape)), *arrays, *v)[1])
        return
    for one in derived(tape).values():
        given = seeds(rng, one, arrays)
        check_derivatives(one, given, rng, adjoint=1e-12, constant=sample.constant)


@pytest.mark.parametrize(
    ("op", "sample"),
    # SciPy's solvers compute in double precision, and bodies of loops have the dtypes they have.
    [case for case in CASES if case.values[0].family not in ("solver", "loop")],
)
def test_single_precision_stays_single(op, sample, rng):
    """float32 in, float32 out, in every derivative; values as in float64, to float32 accuracy."""
    arrays = sample.make(rng)
    single, double = {"f": np.float32, "c": np.complex64}, {"f": np.float64, "c": np.complex128}
    narrow = [a.astype(single.get(a.dtype.kind, a.dtype)) for a in arrays]
    wide = [a.astype(double.get(a.dtype.kind, a.dtype)) for a in narrow]
    tapes, references = (derived(tape_of_op(op, xs, sample.params)) for xs in (narrow, wide))
    for one, reference in zip(tapes.values(), references.values(), strict=True):
        given = seeds(rng, one, narrow)
        widened = [g.astype(t.dtype) for g, t in zip(given, reference.input_types, strict=True)]
        for type_, value, expected in zip(
            one.output_types, values(one, *given), values(reference, *widened), strict=True
        ):
            assert value.dtype == type_.dtype
            scale = np.max(np.abs(expected), initial=1.0) if type_.floating else 0.0
            np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-5 * scale)
    check_dtypes(tapes, op.rules.evaluate(*narrow, **sample.params))


@each_case
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_does_not_matter(op, sample, layout, rng):
    arrays = sample.make(rng)
    for one in derived(tape_of_op(op, arrays, sample.params)).values():
        given = seeds(rng, one, arrays)
        expected = values(one, *given)
        # NumPy's sums take another order on another layout
        for a, b in zip(values(one, *map(LAYOUTS[layout], given)), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


@each_case
def test_batching_is_a_loop(op, sample, rng):
    """Every subset of mapped arguments; for both derivatives all of them."""
    sets = [sample.make(rng) for _ in range(3)]
    for name, one in derived(tape_of_op(op, sets[0], sample.params)).items():
        rows = [seeds(rng, one, arrays) for arrays in sets]
        subsets = [m for m in product([False, True], repeat=len(rows[0])) if any(m)]
        for mapped in subsets if name == "value" else subsets[-1:]:
            wide = verify(batch(one, mapped, len(rows)))
            given = [
                np.stack(column) if on else column[0]
                for on, column in zip(mapped, zip(*rows, strict=True), strict=True)
            ]
            loop = [
                values(
                    one, *(r if on else f for on, r, f in zip(mapped, row, rows[0], strict=True))
                )
                for row in rows
            ]
            for k, out in enumerate(values(wide, *given)):
                assert type_of(out) == wide.output_types[k]
                np.testing.assert_allclose(
                    out, np.stack([row[k] for row in loop]), rtol=1e-13, atol=1e-13
                )


@each_case
def test_simplify_keeps_every_value(op, sample, rng):
    arrays = sample.make(rng)
    for one in derived(tape_of_op(op, arrays, sample.params)).values():
        given = seeds(rng, one, arrays)
        shorter = verify(simplify(one))
        assert len(shorter) <= len(one)
        assert shorter.input_types == one.input_types
        assert shorter.output_types == one.output_types
        for a, b in zip(values(shorter, *given), values(one, *given), strict=True):
            np.testing.assert_array_equal(a, b)


@each_elementwise
@pytest.mark.parametrize("shape", SHAPES)
def test_elementwise_shapes(op, shape, rng):
    """Scalars, vectors, broadcasting and empty arrays: types, derivatives, batches."""
    sample = op.samples[0]
    arrays = [SHAPES[shape](k, x) for k, x in enumerate(sample.make(rng))]
    tape = tape_of_op(op, arrays, sample.params)
    out = values(tape, *arrays)[0]
    assert out.shape == np.broadcast_shapes(*(a.shape for a in arrays))
    assert type_of(out) == tape.output_types[0]
    if not op.rules.stops:
        check_derivatives(tape, arrays, rng)
    for mapped in product([False, True], repeat=len(arrays)):
        if not any(mapped):
            continue
        given = [np.stack([x, x[...]]) if on else x for on, x in zip(mapped, arrays, strict=True)]
        batched = values(verify(batch(tape, mapped, 2)), *given)[0]
        np.testing.assert_array_equal(batched, np.stack([out, out]))


@each_elementwise
def test_shapes_that_do_not_broadcast_are_refused(op, rng):
    arrays = op.samples[0].make(rng)
    if len(arrays) > 1:
        with pytest.raises(ValueError, match="could not be broadcast"):
            tape_of_op(op, [arrays[0], *(a[:, :2] for a in arrays[1:])], op.samples[0].params)


@pytest.mark.slow
def test_inputs_stay_untouched(rng):
    for op in OPS.values():
        for sample in op.samples:
            arrays = sample.make(rng)
            tape = tape_of_op(op, arrays, sample.params)
            for one in derived(tape).values():
                given = seeds(rng, one, arrays)
                kept = [g.copy() for g in given]
                for g in given:
                    g.setflags(write=False)
                values(one, *given)
                for g, k in zip(given, kept, strict=True):
                    np.testing.assert_array_equal(g, k)


@pytest.mark.parametrize(("op", "sample"), [c for c in CASES if c.values[0].rules.overwrite])
def test_stores_into_the_argument_itself_are_those_into_a_copy(op, sample, rng):
    arrays = sample.make(rng)
    kept = arrays[0].copy()
    stored = op.rules.evaluate(*arrays, **sample.params)
    assert not np.shares_memory(stored, arrays[0])
    np.testing.assert_array_equal(arrays[0], kept)
    assert op.rules.overwrite(kept, *arrays[1:], **sample.params) is kept
    np.testing.assert_array_equal(kept, stored)


def test_input_nodes_are_leaves():
    assert INPUT in LEAVES
