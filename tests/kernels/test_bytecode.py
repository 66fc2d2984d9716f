"""Bytecode against the interpreter: every op, awkward layouts, long tapes, threads, errors."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tapes import floating, like, tape_of, tape_of_op, values

import fdiff
from fdiff import kernels
from fdiff.dispatch.tiers.tiered_execution import Runner
from fdiff.errors import InputError, UnsupportedError
from fdiff.kernel_rule import Kind
from fdiff.kernels import bytecode
from fdiff.kernels.bytecode import bytecode_compiler, opcodes
from fdiff.kernels.bytecode.assembler import NumpyStep
from fdiff.primitive import PRIMITIVES
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

HERE = Path(__file__).parents[1]
DTYPES = {"f8", "i8", "b1", "c16"}
SWEEP = "test_bytecode_is_the_interpreter"
MOST_TOGETHER = 60  # opcodes of an interpreter that several tests share
CASES = [
    pytest.param(op, sample, id=f"{op.name}-{k}")
    for op in PRIMITIVES.values()
    for k, sample in enumerate(op.samples)
]


def held(tape):
    """Whether the workspace can hold every value of the tape."""
    return all(t.dtype.str[1:] in DTYPES for node in tape.nodes for t in node.types)


def forward_and_back(op, sample, rng):
    """The tape of an op and that of its cotangents, if the workspace holds them; arguments."""
    arrays = [np.asarray(a) for a in sample.make(rng)]
    tape = tape_of_op(op, arrays, sample.params)
    bars = like(rng, [t for t in tape.output_types if t.floating])
    pairs = [(tape, arrays)]
    if floating(tape) and bars:
        pairs.append((simplify(vjp(tape, floating(tape))), [*arrays, *bars]))
    return [(tape, arrays) for tape, arrays in pairs if held(tape)]


@pytest.fixture(autouse=True, scope="module")
def shared(request):
    """Interpreters for the samples, of a few dozen opcodes: one for each test takes minutes."""
    tests = [item for item in request.session.items if getattr(item, "originalname", "") == SWEEP]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            bytecode_compiler, "MOST_LEFT", 0
        )  # samples are one node, which NumPy may have to do
        together = frozenset()
        for test in tests:
            case = test.callspec.params
            for tape, _ in forward_and_back(case["op"], case["sample"], np.random.default_rng(0)):
                joint = together | bytecode_compiler.encode(tape).families
                if len(opcodes.table().of(joint)) > MOST_TOGETHER:
                    bytecode.provide(together)
                    joint = bytecode_compiler.encode(tape).families
                together = joint
        bytecode.provide(together)
        yield


def left(tape):
    """The ops that are left to NumPy."""
    steps = bytecode.prepare(tape).program.steps
    return [step.name for step in steps if isinstance(step, NumpyStep)]


def check(tape, *arrays, rtol=1e-13, atol=1e-14):
    """Evaluate twice, so that what a call leaves behind would show."""
    run = bytecode.prepare(tape)
    wanted = values(tape, *arrays)
    for _ in range(2):
        for got, want in zip(run(arrays), wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            assert got.flags.owndata
            assert got.flags.writeable
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


# --- every op -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_bytecode_is_the_interpreter(op, sample, rng):
    for tape, arrays in forward_and_back(op, sample, rng):
        check(tape, *arrays, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("op", [op for op in PRIMITIVES.values() if op.lowering.kernel is not None])
def test_ops_of_the_tables_have_opcodes(op, rng):
    """Of numbers, but matrix routines: what is left to NumPy costs more than the interpreter."""
    if op.kind.is_routine or op.kind is Kind.TRIANGULAR_SYSTEM:
        return
    for sample in op.samples:
        arrays = [np.asarray(a) for a in sample.make(rng)]
        tape = tape_of_op(op, arrays, sample.params)
        assert not held(tape) or left(tape) == []


ELEMENTWISE = [op for op in PRIMITIVES.values() if op.kind is not None and op.kind.is_elementwise]
SHAPES = {
    "single": ((), ()),
    "vectors": ((13,), (13,)),
    "single with vector": ((1,), (13,)),
    "vector with single": ((13,), ()),
    "rows and columns": ((3, 1), (1, 5)),
    "deeper": ((2, 1, 5), (3, 1)),
    "empty": ((0, 3), (3,)),
}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("op", ELEMENTWISE)
def test_elementwise_forms(op, shapes, rng):
    """Every form of every opcode of one or two operands, of each dtype that the sample has."""
    arrays = [np.asarray(a) for a in op.samples[0].make(rng)]
    many = [np.resize(a, s) for a, s in zip(arrays, (*SHAPES[shapes], (1,)), strict=False)]
    tape = tape_of_op(op, many, op.samples[0].params)
    if held(tape):
        check(tape, *many)


# --- layouts ------------------------------------------------------------------------------------
FUNCTIONS = {
    "slices": lambda x: x[2:, 1:-1] + x[:-2, 1:-1] - 2.0 * x[1:-1, 1:-1] * x[1:-1, ::-1][:, :-2],
    "reversed": lambda x: (x[::-1, ::-2] * 2.0, np.sin(x[:, 1])),
    "transposed": lambda x: (np.exp(x.T) * x.T, x.T * x[:, 0], np.negative(x.T) + 1.0, x.T),
    "reshaped": lambda x: (
        (np.exp(x) * x).reshape(-1)[3:], x.T.reshape(-1), x.T.reshape(3, 4) * 2.0
    ),
    "broadcast": lambda x: np.broadcast_to(x[:, :1], (4, 3)) * x + np.broadcast_to(x[0], (2, 4, 3)),
    "joined": lambda x: (np.concatenate([x, 2.0 * x[:1], np.sin(x)]), np.hstack([x, x[:, :1]])),
    "same twice": lambda x: (x * 2.0, x, x.T, x[0], x.reshape(-1)),
    "apart": lambda x: np.sum(x.reshape(2, 2, 3) ** 2, axis=(0, 2)),
    "over none": lambda x: np.sum(x[:, :, None], axis=2) + np.max(x[None], axis=0),
    "scans": lambda x: (np.cumsum(x, axis=0), np.cumprod(x.T, axis=0), np.cumsum(x[::-1], axis=1)),
    "largest": lambda x: (
        np.argmax(x, axis=0), np.argmin(x.T, axis=1), np.max(x), np.min(x, axis=0)
    ),
    "gathered": lambda x: (
        x[np.array([0, 2, -1]), np.array([1, 1, 0])], x.T[np.array([[0, 1], [2, -3]])]
    ),
    "tested": lambda x: (
        x > 0.5, np.any(x > 1.0, axis=0), np.all(x < 9.0), np.sum(x > 0.0, axis=1)
    ),
    "powers": lambda x: (x**2, x**3, np.abs(x) ** 0.5, x**-1, x**0, x**-2.0),
    "chosen": lambda x: (
        np.where(x > 0, x, 0.0), np.where(x.T > 0, x.T, -x.T), np.maximum(x, x[0, 0])
    ),
    "tensor": lambda x: np.einsum("ij,kj->ki", x, x) + np.einsum("ij,kl->ik", x, x),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_their_gradients(name, rng):
    x = rng.normal(size=(4, 3))
    tape = tape_of(FUNCTIONS[name], x)
    assert left(tape) == []
    check(tape, x)
    check(tape, np.asfortranarray(x))
    check(tape, np.repeat(x, 2, axis=1)[:, ::2])
    bars = like(rng, [t for t in tape.output_types if t.floating])
    pulled = simplify(vjp(tape, [0]))
    check(pulled, x, *bars, atol=1e-13)


def stored(x):
    """Slices stored over each other, with the arrays before and after all read."""
    y = x * 2.0
    z = y.copy()
    z[1:, 0] = y[:-1, 0]
    z[0] = z[1] + 1.0
    z[:, 1:] = z[:, :-1]
    z[np.array([0, 2]), np.array([1, 1])] = x[0, :2]
    return z, y, np.sum(z * y, axis=0)


def test_stores_keep_what_is_still_read(rng):
    x = rng.normal(size=(4, 3))
    tape = tape_of(stored, x)
    check(tape, x)
    check(simplify(vjp(tape, [0])), x, *like(rng, tape.output_types))


def test_memory_is_used_again(rng, monkeypatch):
    """A thousand steps take no more memory than two."""
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")

    def steps(count):
        def f(x):
            for _ in range(count):
                x = np.sin(x) * 2.0 + x[::-1]
            return x

        return bytecode.prepare(tape_of(f, x)).program.size

    x = rng.normal(size=20)
    assert steps(1000) <= steps(4)


def test_large_products_and_outputs(rng):
    a, b = rng.normal(size=(40, 22)), rng.normal(size=(6, 22, 5, 4))

    def f(a, b):
        out = np.einsum("vb,abij->avij", a, b)
        return out, out.transpose(1, 0, 2, 3).reshape(40, -1), -out.T, np.sum(out, axis=1), a @ a.T

    tape = tape_of(f, a, b)
    assert max(t.size for t in tape.output_types) >= bytecode_compiler.FAR
    check(tape, a, b, atol=1e-12)


ORDERS = [
    "kij,nkj->nki", "kij,nki->nkj", "nki,nkj->kij", "bij,bjk->bik", "ibj,bjk->kbi", "ijb,jkb->ikb",
    "abij,jk->abik", "ijk,kjl->li", "ij,ij->j", "ij,j->i", "ij,i->j", "ij,kj->ki", "ji,jk->ki",
    "i,j->ij", "i,i->",
]  # fmt: skip


@pytest.mark.parametrize(
    "sizes", [(2, 3, 4, 3, 2, 2), (7, 9, 17, 11, 6, 19)], ids=["small", "large"]
)
@pytest.mark.parametrize("subscripts", ORDERS)
def test_products_take_their_operands_in_any_order(subscripts, sizes, rng):
    length = dict(zip("abijkln", (*sizes, 3), strict=True))
    left, right = (
        rng.normal(size=[length[x] for x in labels])
        for labels in subscripts.split("->")[0].split(",")
    )
    tape = tape_of(lambda a, b: np.einsum(subscripts, a, b), left, right)
    check(tape, left, right, rtol=1e-12, atol=1e-12)


# --- NumPy's values at the edges ----------------------------------------------------------------


@pytest.mark.slow
def test_nan_infinity_and_signed_zero_are_numpys():
    x = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, -2.5, 1e300, 1e22])
    y = np.array([1.0, 3.0, np.nan, -np.inf, 2.0, 0.0, -0.7, 1e300, -1e-300])

    def f(x, y):
        return (
            x + y, x - y, x * y, x / y, np.maximum(x, y), np.minimum(x, y), np.fmax(x, y),
            np.sign(x),
            np.remainder(x, y), np.floor_divide(x, y), np.max(x), np.max(x[1:]), np.argmax(x), -x,
            np.sin(x), np.cos(x), np.tan(x), np.exp(x), np.isfinite(x), np.signbit(x),
            np.cumsum(x[1:3]),
            np.where(x > 0, x, y), np.concatenate([x, -x]), np.sqrt(x), x.astype(bool), np.any(x),
        )  # fmt: skip

    tape = tape_of(f, x, y)
    for got, want in zip(bytecode.prepare(tape)((x, y)), values(tape, x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-15)
        if want.dtype.kind == "f":
            real = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[real]), np.signbit(want[real]))


@pytest.mark.slow
def test_whole_numbers_and_truth_values():
    x, y = np.array([7, 100, 0, 2**62, -3]), np.array([3, 0, 5, 3, 2])

    def f(x, y):
        p, q = x > y, y > 2
        return (
            x + y, x * y, x - y, x // y, x % y, np.maximum(x, y), x & y, np.gcd(x, y),
            np.sum(x), np.prod(y),
            p & q, p | q, p ^ q, p + q, p * q, ~p, np.sum(p), np.any(p), np.all(q), p == q,
            x.astype(float) * 0.5,
            np.cumsum(p), np.max(p), np.argmin(y),
        )  # fmt: skip

    check(tape_of(f, x, y), x, y, rtol=0.0, atol=0.0)


def test_negative_powers_of_whole_numbers_are_refused_as_by_numpy():
    tape = tape_of(lambda x, y: (x + 1, (x * 2) ** y), np.array([2]), np.array([1]))
    with pytest.raises(ValueError, match="negative integer powers"):
        bytecode.prepare(tape)((np.array([2]), np.array([-1])))


def test_an_index_out_of_range_raises_and_the_next_call_is_right():
    x, i = np.arange(3.0), np.array([0, 2])
    run = bytecode.prepare(tape_of(lambda x, i: x[i] * 2.0, x, i))
    with pytest.raises(IndexError, match="out of bounds"):
        run((x, np.array([0, 3])))
    np.testing.assert_array_equal(run((x, np.array([-1, 0])))[0], [4.0, 0.0])


def test_singular_matrices_raise_as_in_numpy():
    run = bytecode.prepare(tape_of(np.linalg.inv, np.ones((3, 3))))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        run((np.ones((3, 3)),))


def test_matrix_routines_are_left_to_numpy_amid_instructions(rng):
    a, b = rng.normal(size=(4, 4)) + 4.0 * np.eye(4), rng.normal(size=4)

    def f(a, b):
        solved = np.linalg.solve(a * 2.0, b + 1.0)
        return np.sum(np.sin(solved) ** 2) + np.linalg.slogdet(a)[1]

    tape = tape_of(f, a, b)
    assert left(tape) == ["solve", "slogdet"]
    check(tape, a, b)
    check(simplify(vjp(tape, [0, 1])), a, b, 1.0)


# --- long tapes, calls at the same time ---------------------------------------------------------


def module_of(name):
    spec = importlib.util.spec_from_file_location(name, HERE / "user_code" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lstm(count):
    rng = np.random.default_rng(3)
    main, extra, state = (
        rng.normal(size=(4, 56)),
        rng.normal(size=(3, 14)),
        rng.normal(size=(4, 14)),
    )
    return main, extra, state, np.eye(14)[rng.integers(0, 14, count)]


def test_the_gradient_of_an_unrolled_lstm(rng, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")
    arguments = lstm(20)
    tape = tape_of(module_of("lstm").objective, *arguments)
    pulled = simplify(vjp(tape, [0, 1]))
    assert len(pulled) > 2000
    assert left(pulled) == []
    check(pulled, *arguments, 1.0)


def test_threads_have_memory_of_their_own(rng):
    arguments = lstm(12)
    tape = simplify(vjp(tape_of(module_of("lstm").objective, *arguments), [0, 1]))
    run = bytecode.prepare(tape)
    points = [(rng.normal(size=(4, 56)), *arguments[1:], 1.0) for _ in range(8)]
    wanted = [values(tape, *p) for p in points]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, points * 10))
    for k, outs in enumerate(found):
        for got, want in zip(outs, wanted[k % 8], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


# --- tapes it does not take, and when it is chosen ----------------------------------------------


def test_dtypes_that_it_does_not_hold_are_named():
    with pytest.raises(bytecode.RefusedError, match=r"gives float32$"):
        bytecode.prepare(tape_of(lambda x: x * 2.0, np.ones(3, np.float32)))


def test_tapes_that_are_mostly_for_numpy_are_refused(monkeypatch):
    monkeypatch.setattr(bytecode_compiler, "MOST_LEFT", 4)
    with pytest.raises(bytecode.RefusedError, match="for NumPy: inv"):
        bytecode.prepare(tape_of(np.linalg.inv, np.eye(3)))


def test_an_interpreter_with_more_opcodes_is_used_again():
    x = np.ones(9)
    bytecode.prepare(tape_of(lambda x: np.exp(np.sin(x)) * 2.0, x))((x,))
    assert bytecode.prepare(tape_of(lambda x: np.exp(x) + x, x)).loaded


def test_the_tier_can_be_fixed(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "evaluate")
    x = np.linspace(0.0, 1.0, 5)
    run = Runner(tape_of(lambda x: np.sin(x) * 2.0, x))
    np.testing.assert_allclose(run([x])[0], np.sin(x) * 2.0, rtol=1e-15)
    assert (run.tier, run.state()) == ("evaluate", "evaluated, FDIFF_TIER=evaluate")
    single = np.ones(2, np.complex64)
    with pytest.raises(UnsupportedError, match="FDIFF_TIER=evaluate: input gives complex64"):
        Runner(tape_of(lambda z: z * 2, single))([single])
    monkeypatch.setenv("FDIFF_TIER", "fast")
    with pytest.raises(InputError, match="interpret, evaluate or compile"):
        run([x])


@pytest.mark.slow
def test_a_long_tape_moves_to_bytecode_when_that_has_paid(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    monkeypatch.setenv("FDIFF_CACHE_DIR", "off")  # no kernel of another test
    arguments = lstm(128)
    tape = simplify(vjp(tape_of(module_of("lstm").objective, *arguments), [0, 1]))
    assert kernels.predict_seconds(tape, ("C",) * 5) > 2.0  # no kernel unless asked for
    bytecode.prepare(tape)((*arguments, 1.0))  # its interpreter is there
    run = Runner(tape)
    arrays = [*arguments, np.ones(())]
    first = run(arrays)
    assert run.tier == "interpret"
    assert "interpreted, bytecode does not pay yet; " in run.state()
    for _ in range(200):
        last = run(arrays)
        if run.tier == "evaluate":
            break
    assert run.tier == "evaluate"
    assert "evaluated, as " in run.state()
    for got, want in zip(last, first, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def test_public_calls_on_bytecode(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "evaluate")
    x = np.linspace(0.1, 1.0, 6)
    f = lambda x: np.sum(np.exp(x) * x[::-1]) * x[0]
    right = np.exp(x) * x[::-1] * x[0] + (np.exp(x) * x[0])[::-1]
    right[0] += np.sum(np.exp(x) * x[::-1])
    np.testing.assert_allclose(fdiff.grad(f)(x), right, rtol=1e-13)


def test_joins_with_empty_operands(monkeypatch):
    """An empty operand wrote zeros over the ones before it, where their axis is not the first."""
    monkeypatch.setenv("FDIFF_TIER", "evaluate")
    rng = np.random.default_rng(0)
    for _ in range(60):
        rank = int(rng.integers(1, 4))
        axis, shape = int(rng.integers(rank)), rng.integers(1, 4, size=rank)
        lengths = rng.integers(0, 3, size=rng.integers(2, 5))
        parts = [rng.normal(size=(*shape[:axis], n, *shape[axis + 1 :])) for n in lengths]

        def f(*parts, axis=axis):
            return np.concatenate([2.0 * part for part in parts], axis=axis) * 1.5

        want = 3.0 * np.concatenate(parts, axis=axis)
        fdiff.cache_clear()
        np.testing.assert_array_equal(fdiff.jit(f)(*parts), want)
