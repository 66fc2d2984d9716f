"""Complex numbers as bytecode against the interpreter: opcodes, special values, layouts."""

from itertools import product

import numpy as np
import pytest
from tapes import tape_of, values

from fdiff.kernels import bytecode
from fdiff.kernels.bytecode import bytecode_compiler, opcodes
from fdiff.kernels.bytecode.assembler import NumpyStep
from fdiff.ops.entrywise.elementwise import exp, multiply, square
from fdiff.primitive import PRIMITIVES
from fdiff.trace import apply
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify


def operand(x, dtype, k):
    """Operand `k` of an op, made of a complex array."""
    real = np.real(x) + k
    return {"c16": x, "f8": real, "b1": real > 0.0, "i8": real.astype(np.int64)}[dtype]


def call_of(op, formula):
    """The op on operands of the dtypes that a formula reads, as a function of complex arrays."""

    def call(x, *others):
        arrays = iter([x, *others])
        of = [next(arrays) if dtype == "c16" else x for dtype in formula.reads]
        given = [
            operand(a, dtype, k) for k, (a, dtype) in enumerate(zip(of, formula.reads, strict=True))
        ]
        return apply(op, *given, **dict.fromkeys(op.samples[0].params, np.dtype(formula.gives)))

    return call


FORMULAS = {
    f"{op.name} {' '.join(formula.reads)}": (op, formula)
    for op in PRIMITIVES.values()
    for formula in op.lowering.complex_formulas
}
CALLS = {name: call_of(*both) for name, both in FORMULAS.items()}
TWO = {name for name, (_, formula) in FORMULAS.items() if formula.reads.count("c16") == 2}
SHAPES = {
    "single": ((), ()),
    "vectors": ((13,), (13,)),
    "left": ((13,), ()),
    "right": ((1,), (13,)),
    "rows": ((3, 1), (1, 5)),
    "empty": ((0, 3), (3,)),
}
PARTS = [0.0, -0.0, 1.0, -2.5, 1e-320, 1e300, 708.0, 709.9, 1200.0, 3e9, np.inf, -np.inf, np.nan]


@pytest.fixture(autouse=True, scope="module")
def together():
    """One interpreter for all formulas: one for each test takes three times as long."""
    families = opcodes.table().families
    ours = [family for family in families if family.startswith("complex ")]
    others = ["copy out", "greater f8 f8 b1", "square f8 f8"]
    bytecode.provide(frozenset([opcodes.ALWAYS, *ours, *others]))


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(bytecode_compiler, "MOST_LEFT", 0)  # tapes here are short


def left(tape):
    return [
        step.name for step in bytecode.prepare(tape).program.steps if isinstance(step, NumpyStep)
    ]


def agree(tape, *arrays, rtol=2e-15, atol=0.0):
    run = bytecode.prepare(tape)
    with np.errstate(all="ignore"):
        wanted = values(tape, *arrays)
    for _ in range(2):
        for got, want in zip(run(arrays), wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def draw(rng, shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


@pytest.mark.slow
def test_formulas_are_found():
    assert {"exp c16", "where b1 c16 c16", "complex f8 f8"} < FORMULAS.keys()
    assert len(FORMULAS) > 15


@pytest.mark.slow
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", CALLS)
def test_every_form(name, shapes, rng):
    arrays = [np.asarray(draw(rng, s)) for s in SHAPES[shapes]][: 2 if name in TWO else 1]
    tape = tape_of(CALLS[name], *arrays)
    assert left(tape) == []
    agree(tape, *arrays, atol=1e-15)


def leaves_range(x, y):
    """Where a product of parts is infinite or subnormal: on some processors NumPy fuses it."""
    with np.errstate(all="ignore"):
        pairs = [(a, b) for a in (x.real, x.imag) for b in (y.real, y.imag)]
        high = [np.isinf(a * b) & np.isfinite(a) & np.isfinite(b) for a, b in pairs]
        low = [(np.abs(a * b) < 1e-300) & (a != 0) & (b != 0) for a, b in pairs]
        return np.any([*high, *low], axis=0)


@pytest.mark.parametrize("name", CALLS)
def test_special_values_are_numpys(name):
    """Infinities, NaN, signed zeros, subnormal numbers: part by part."""
    x = np.array([complex(a, b) for a, b in product(PARTS, PARTS)])
    arrays = [v.ravel() for v in np.meshgrid(x, x[::3])] if name in TWO else [x]
    tape = tape_of(CALLS[name], *arrays)
    with np.errstate(all="ignore"):
        (want,) = values(tape, *arrays)
    (got,) = bytecode.prepare(tape)(arrays)
    op, _ = FORMULAS[name]
    fused = op in (multiply, square)
    known = ~leaves_range(arrays[0], arrays[-1]) if fused else np.full(want.shape, True)
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_array_equal(np.isnan(a)[known], np.isnan(b)[known])
        sure = ~np.isnan(b) & known
        with np.errstate(all="ignore"):  # a difference of products is as good as these
            unit = 1e-15 * np.abs(arrays[0]) * np.abs(arrays[-1]) if fused else np.zeros(b.shape)
        unit = np.where(np.isfinite(unit), unit, 0.0)
        sure &= (np.abs(b) > unit) | (unit == 0.0)
        if op is exp:  # C99 leaves signs open where the imaginary part is infinite or NaN
            sure &= np.isfinite(arrays[0].imag) | (arrays[0].real != -np.inf)
        np.testing.assert_array_equal(np.signbit(a[sure]), np.signbit(b[sure]))
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= 4e-15 * np.abs(b) + unit + 2e-320
        assert np.all((near | (a == b) | np.isnan(b))[known])


LAYOUTS = {
    "slices": lambda x: x[1:, ::2] * x[:-1, 1::2],
    "reversed": lambda x: (x[::-1, ::-1] * 2.0, x[:, 1] - x[:, 0]),
    "transposed": lambda x: (x.T * x.T, x.T, x.T.reshape(-1), np.exp(x.T)),
    "reshaped": lambda x: (x.reshape(-1)[3:] * 1j, x.T.reshape(4, 6) + 1.0),
    "broadcast": lambda x: np.broadcast_to(x[:, :1], (4, 6)) * x,
    "parts": lambda x: (x.real * x.imag, x.T.imag, np.abs(x[:, ::2])),
    "left to NumPy": lambda x: (
        np.sum(x, axis=0) * 2.0,
        np.concatenate([x, x[:1]]),
        np.fft.fft(x.T),
        x[np.array([0, 2])],
        x @ x.T,
    ),
    "large": lambda x: np.tile(x, (20, 20)) * 1j,
    "same twice": lambda x: (x, x * 1.0, x, x[0]),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name, rng):
    x = draw(rng, (4, 6))
    agree(tape_of(LAYOUTS[name], x), x, rtol=1e-13, atol=1e-14)


def test_a_split_step_solver_is_evaluated(rng):
    """The nonlinear Schroedinger equation, value and gradient: NumPy does the transforms alone."""
    x = np.linspace(-10.0, 10.0, 64, endpoint=False)
    half = np.exp(-0.0025j * (2.0 * np.pi * np.fft.fftfreq(64, x[1] - x[0])) ** 2)

    def distance(a):
        psi = a * np.exp(1j * x)
        for _ in range(12):
            psi = np.fft.ifft(half * np.fft.fft(psi))
            psi = psi * np.exp(0.005j * np.abs(psi) ** 2)
        return np.sum((np.abs(psi) ** 2 - np.exp(-((x - 1.0) ** 2))) ** 2)

    a = np.exp(-(x**2))
    tape = simplify(vjp(tape_of(distance, a), [0]))
    assert set(left(tape)) == {"dft"}
    agree(tape, a, np.float64(1.0), rtol=1e-12, atol=1e-14)
