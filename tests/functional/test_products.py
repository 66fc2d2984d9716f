"""Products of matrices however they are spelled: what is found on tapes, and the order of axes."""

import re

import numpy as np
import pytest
from tapes import tape_of
from thread_counts import ask_for_threads

import fdiff
from benchmarks import algebra, algebra_cases
from fdiff import kernels
from fdiff.functional.operators import dense_modes
from fdiff.interpret import evaluate
from fdiff.transforms.batch import batch
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify


def drawn(*shape, dtype="f8"):
    values = np.random.default_rng(sum(shape) + len(shape)).normal(size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * np.cos(values)
    return values.astype(dtype)


def products_of(tape):
    return [node for node in tape.nodes if node.primitive.name == "contract"]


def largest(tape):
    return max(t.size for node in tape.nodes for t in node.types)


# --- sums of products -----------------------------------------------------------------------------

SUMS = {
    "rows": (lambda a, b: np.sum(a[:, :, None] * b[None], axis=1), (5, 7), (7, 3)),
    "columns": (lambda a, b: np.sum(a[:, None, :] * b.T, axis=-1), (5, 7), (7, 3)),
    "kept axis": (lambda a, b: (a[:, None] * b.T).sum(axis=2, keepdims=True), (4, 6), (6, 2)),
    "two summed": (lambda a, b: np.sum(a[:, None] * b, axis=(2, 3)), (3, 4, 5), (2, 4, 5)),
    "stack": (lambda a, b: np.sum(a[:, :, :, None] * b[:, None], axis=2), (2, 3, 4), (2, 4, 5)),
    "mean": (lambda a, b: np.mean(b.T * a[:, None], axis=-1), (5, 7), (7, 3)),
    "order": (lambda a, b: np.sum(b[:, None, :] * a[:, :, None], axis=0), (6, 4), (6, 3)),
    "nothing": (lambda a, b: np.sum(a[:, None] * b.T, axis=2), (5, 0), (0, 3)),
    "no rows": (lambda a, b: np.sum(a[:, None] * b.T, axis=2), (0, 4), (4, 3)),
}
NO_PRODUCTS = {
    "one matrix": lambda a: np.sum(a * a, axis=1),
    "rows alone": lambda a: np.sum(a * a[0], axis=1),
    "all terms": lambda a: np.sum(a[:, None] * a[None], axis=(0, 1, 2)),
    "a factor": lambda a: np.sum(a[:, :, None] * a[0, 0], axis=1),
    "whole numbers": lambda a: np.sum((a > 0)[:, None] * (a > 0)[None], axis=2),
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_products_is_a_product(name, dtype):
    f, *shapes = SUMS[name]
    xs = [drawn(*shape, dtype=dtype) for shape in shapes]
    tape = simplify(tape_of(f, *xs))
    assert len(products_of(tape)) == 1
    (found,) = evaluate(tape, *xs)
    want = f(*xs)
    assert found.shape == want.shape
    assert found.dtype == want.dtype
    tolerance = 1e-12 if np.dtype(dtype).itemsize // (1 + (dtype[0] == "c")) == 8 else 2e-5
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NO_PRODUCTS)
def test_other_sums_stay_sums(name):
    x = drawn(5, 5)
    tape = simplify(tape_of(NO_PRODUCTS[name], x))
    assert not products_of(tape)
    np.testing.assert_allclose(evaluate(tape, x)[0], NO_PRODUCTS[name](x), rtol=1e-13)


def test_no_array_of_all_terms_is_made():
    a, b = drawn(30, 40), drawn(40, 50)
    tape = simplify(tape_of(lambda a, b: np.sum(a[:, :, None] * b[None], axis=1), a, b))
    assert largest(tape) == 40 * 50


def test_infinite_factors_and_nan_are_what_they_were():
    a, b = drawn(4, 5), drawn(5, 3)
    a[0, 1], a[1, 2], a[2], b[3, 0] = np.inf, np.nan, 0.0, -np.inf
    f = lambda a, b: np.sum(a[:, :, None] * b[None], axis=1)
    with np.errstate(invalid="ignore"):
        want = f(a, b)
        np.testing.assert_allclose(fdiff.jit(f)(a, b), want)


def test_derivatives_of_sums_of_products():
    a, b = drawn(5, 7), drawn(7, 3)
    f = lambda a, b: np.sum(np.sin(np.sum(a[:, :, None] * b[None], axis=1)))
    g = lambda a, b: np.sum(np.sin(a @ b))
    for argnum in (0, 1):
        for derive in (fdiff.grad, fdiff.hessian):
            found, want = (derive(h, argnums=argnum)(a, b) for h in (f, g))
            np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


# --- axes of one entry ----------------------------------------------------------------------------

NARROW = {
    "ab,bc->ac": ((4, 5), (5, 1)),
    "ba,bc->ca": ((1, 4), (1, 5)),
    "ab,dbc->dac": ((4, 5), (3, 5, 1)),
    "dab,dbc->dac": ((1, 4, 5), (1, 5, 3)),
    "ab,bc->ca": ((1, 5), (5, 1)),
    "ab,b->a": ((1, 1), (1,)),
    "ab,bc->": ((1, 4), (4, 1)),
    "ab,bc->cab": ((2, 1), (1, 3)),
}


@pytest.mark.parametrize("subscripts", NARROW)
def test_products_of_axes_of_one_entry(subscripts):
    xs = [drawn(*shape) for shape in NARROW[subscripts]]
    f = lambda a, b: np.einsum(subscripts, a, b)
    tape = simplify(tape_of(f, *xs))
    np.testing.assert_allclose(evaluate(tape, *xs)[0], f(*xs), rtol=1e-13)
    np.testing.assert_allclose(fdiff.jit(f)(*xs), f(*xs), rtol=1e-13)


def test_columns_are_multiplied_as_vectors_are():
    """Neither takes a product with the unit seeds."""
    x, a = drawn(9), drawn(9, 9)
    vector = fdiff.make_tape(fdiff.jacobian(lambda x: np.tanh(a @ x)), x)
    column = fdiff.make_tape(fdiff.jacobian(lambda x: np.tanh(a @ x[:, None])[:, 0]), x)
    assert len(products_of(vector)) == len(products_of(column)) == 1


# --- every spelling -------------------------------------------------------------------------------


def small(problem):
    """The arguments of a problem, fewer of each."""
    arguments = problem.arguments()
    if "logistic" in problem.title:
        w, x, y = arguments
        return w[:3], np.ascontiguousarray(x[:70, :3]), y[:70]
    if "n=" in problem.title:
        x, a, b = arguments
        return x[:9], np.ascontiguousarray(a[:9, :9]), np.ascontiguousarray(b[:9, :9])
    return arguments


PROBLEMS = [p for p in algebra_cases.problems() if p.title.split()[-1] not in ("n=100", "n=300")]
SPELLED = [(p, name) for p in PROBLEMS if "100,000" not in p.title for name in p.spellings]


@pytest.mark.parametrize(
    ("problem", "name"), SPELLED, ids=lambda v: v if isinstance(v, str) else ""
)
@pytest.mark.parametrize(("tier", "threads"), [("interpret", 1), ("compile", 1), ("compile", 2)])
def test_every_spelling_gives_the_same(problem, name, tier, threads, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    ask_for_threads(monkeypatch, threads)
    arguments = small(problem)
    found = problem.derive(fdiff, getattr(algebra, name))(*arguments)
    np.testing.assert_allclose(found, problem.kernel(*arguments), rtol=1e-10, atol=1e-12)
    if "Hessian" in problem.title:
        np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("name", [f"sine_{s}" for s in algebra_cases.OUTSIDE])
def test_two_products_are_one_product_of_matrices(name):
    """However they are spelled: one call, and nothing that is read or written the wrong way."""
    x, a, b = drawn(30), drawn(30, 30), drawn(30, 31)[:, :30].copy()
    text = fdiff.source(fdiff.jacobian(getattr(algebra, name)), x, a, b)
    assert text.count("rt.call") == 1
    assert "[i0 + i1 * n0]" not in text


@pytest.mark.parametrize("name", algebra_cases.LOSSES)
def test_hessians_of_losses_walk_through_rows_in_order(name):
    w, x, y = drawn(5), drawn(70, 5), np.sign(drawn(70))
    text = fdiff.source(fdiff.hessian(getattr(algebra, name)), w, x, y)
    assert not re.search(r"x1\[i0 \+ i1 \* n0\]", text)
    assert text.count("rt.call") == 1


# --- the order of axes ----------------------------------------------------------------------------

PIECES = (
    lambda x, y, a: np.exp(0.3 * x) * y[:, None],
    lambda x, y, a: np.where(y[:, None] > 0.0, x, 2.0 * x) - y[:, None],
    lambda x, y, a: -x / (2.0 + np.sin(x) * y[:, None]),
    lambda x, y, a: (x.T * np.arange(1.0, 1.0 + x.shape[0])).T,
    lambda x, y, a: (np.cos(x.T) - x.T * y).T,
    lambda x, y, a: x @ a,
    lambda x, y, a: (a.T @ x.T).T * y[:, None],
    lambda x, y, a: np.einsum("ij,jk->ki", x, a).T,
    lambda x, y, a: (x @ a)[:, :, None][:, :, 0] + np.tanh(x),
)


def program(seed):
    """Some pieces, one after the other, and a product at the end: x (n, m), y (n,), a (m, m)."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(PIECES), size=rng.integers(2, 6))
    ends = (
        lambda z, x: z.T @ x,
        lambda z, x: np.einsum("ni,nj->ji", z, x),
        lambda z, x: z.T,
        lambda z, x: np.sum(z[:, :, None] * x[:, None], axis=0),
        lambda z, x: z @ x.T,
    )
    end = ends[rng.integers(len(ends))]

    def f(x, y, a):
        z = x
        for k in chosen:
            z = PIECES[k](z, y, a)
        return end(z, x)

    return f


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_programs_of_products_and_transposes(seed):
    """Values, both modes and batches of them: kernels and interpreter agree."""
    f = program(seed)
    n, m = ((17, 5), (40, 33), (1, 4), (6, 6))[seed % 4]
    dtype = "f4" if seed % 5 == 0 else "f8"
    xs = [drawn(n, m, dtype=dtype), drawn(n, dtype=dtype), 0.3 * drawn(m, m, dtype=dtype)]
    xs = [x.astype(dtype) for x in xs]
    tape = tape_of(f, *xs)
    bars = [np.cos(np.arange(t.size)).reshape(t.shape).astype(dtype) for t in tape.output_types]
    pulled, pushed = simplify(vjp(tape, range(3))), simplify(jvp(tape, range(3)))
    dots = [np.sin(x) for x in xs]
    rows = [np.stack([b, 2.0 * b, b - 1.0]).astype(dtype) for b in bars]
    wide = simplify(batch(pulled, [False] * 3 + [True] * len(bars), 3))
    for derived, arrays in (
        (tape, xs), (pulled, [*xs, *bars]), (pushed, [*xs, *dots]), (wide, [*xs, *rows]),
    ):  # fmt: skip
        tolerance = 1e-9 if dtype == "f8" else 2e-3
        compiled = kernels.compile(derived, ("C",) * len(arrays))(*arrays)
        for got, want in zip(compiled, evaluate(derived, *arrays), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seed", range(6))
def test_strided_arguments(seed):
    f = program(seed)
    x, y, a = drawn(12, 10), drawn(24), drawn(5, 5)
    given = x[:, ::2], y[::-2], a.T
    for derive in (fdiff.jit, fdiff.jacrev):
        call = derive(f)
        found = call(*given)
        np.testing.assert_allclose(found, call(*map(np.ascontiguousarray, given)), rtol=1e-12)


# --- all seeds at once ----------------------------------------------------------------------------


@pytest.fixture
def budget(monkeypatch):
    def allow(size):
        fdiff.cache_clear()
        monkeypatch.setattr(dense_modes, "BUDGET", size)

    yield allow
    fdiff.cache_clear()


def plan_of(prepared):
    ((variant,),) = prepared.program.variants.values()
    return variant.plan


LOSS = drawn(3000, 8), np.sign(drawn(3000))


def hessian_of_loss():
    x, y = LOSS
    return fdiff.hessian(lambda w: algebra.log1p_of_exp(w, x, y))


@pytest.mark.parametrize("tier", ["compile", "interpret", "evaluate"])
def test_a_kernel_that_holds_little_takes_all_seeds_at_once(tier, budget, monkeypatch):
    """The interpreter goes on in chunks: it holds all values of all seeds."""
    ask_for_threads(monkeypatch, 1)
    monkeypatch.setenv("FDIFF_TIER", tier)
    w = drawn(8)
    budget(2**28)
    want = hessian_of_loss()(w)
    budget(3000 * 8 * 8)
    call = hessian_of_loss()
    found = call(w)
    plan = plan_of(call)
    assert plan.sweeps.chunked
    assert any(block.steps for block in plan.derivative.blocks) == (tier != "compile")
    np.testing.assert_allclose(found, want, rtol=1e-12)
    np.testing.assert_array_equal(found, found.T)


def test_a_kernel_that_holds_much_goes_in_chunks(budget, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    w = drawn(8)
    budget(1)
    call = hessian_of_loss()
    found = call(w)
    assert all(block.steps for block in plan_of(call).derivative.blocks)
    budget(2**28)
    np.testing.assert_allclose(found, hessian_of_loss()(w), rtol=1e-12)


def test_what_the_user_chose_is_done(budget, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    x, y = LOSS
    budget(2**28)
    call = fdiff.hessian(lambda w: algebra.log1p_of_exp(w, x, y), chunk_size=3)
    call(drawn(8))
    assert set(plan_of(call).derivative.blocks[0].steps) == {3}  # the last two chunks overlap


def test_chunks_pay_for_the_kernel(budget, monkeypatch):
    """Time that chunks took counts: the kernel for all seeds is compiled once that pays."""
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    ask_for_threads(monkeypatch, 1)
    budget(3000 * 8 * 8)
    call, w = hessian_of_loss(), drawn(8)
    want = call(w)
    plan = plan_of(call)
    plan.sweeps.spent = 60.0
    np.testing.assert_allclose(call(w), want, rtol=1e-12)
    assert plan.sweeps.together.runner.tier == "compile"
    assert "compiled" in repr(call)


def test_compiling_at_once_makes_the_kernel_of_all_seeds(budget, monkeypatch):
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    ask_for_threads(monkeypatch, 1)
    budget(3000 * 8 * 8)
    call = hessian_of_loss().compile("f8[8]")
    assert plan_of(call).sweeps.together.runner.tier == "compile"
    assert not any(block.steps for block in plan_of(call).derivative.blocks)


def test_branches_hold_for_kernels_of_all_seeds(budget, monkeypatch):
    """A variant with guards, whose chunks look at none: the next way is another variant."""
    monkeypatch.setenv("FDIFF_TIER", "compile")
    x, y = LOSS

    def f(w):
        return algebra.log1p_of_exp(w, x, y) * (2.0 if w[0] > 0 else 3.0)

    budget(3000 * 8 * 8)
    call, w = fdiff.hessian(f), np.abs(drawn(8))
    first, second = call(w), call(-w)
    budget(2**28)
    np.testing.assert_allclose(first, fdiff.hessian(f)(w), rtol=1e-12)
    np.testing.assert_allclose(second, fdiff.hessian(f)(-w), rtol=1e-12)


def test_strided_arguments_go_in_chunks(budget, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    ask_for_threads(monkeypatch, 1)
    x, y = LOSS
    wide = np.repeat(x, 2, axis=1)[:, ::2]
    budget(3000 * 8 * 8)
    call, w = fdiff.hessian(algebra.log1p_of_exp), drawn(8)
    np.testing.assert_allclose(call(w, wide, y), call(w, x, y), rtol=1e-12)
