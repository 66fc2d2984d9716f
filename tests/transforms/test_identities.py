"""What holds for every program: hypothesis draws small ones and looks for one where it does not."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tapes import dot, floating, like, pull, push, size, tape_of, values

import fdiff
from fdiff import kernels
from fdiff.tape import verify
from fdiff.transforms.batch import batch
from fdiff.transforms.forward import jvp
from fdiff.transforms.patterns.column_colouring import colours
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

UNARY = {  # of any array to one like it, bounded slopes
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "arctan": np.arctan,
    "expit": lambda z: 1 / (1 + np.exp(-z)),
    "negative": np.negative,
    "square": lambda z: np.square(np.tanh(z)),
    "root": lambda z: np.sqrt(1 + z * z),
    "log": lambda z: np.log(1.5 + np.sin(z)),
    "log1p": lambda z: np.log1p(z * z),
    "power": lambda z: (1 + z * z) ** -1.5,
    "cube": lambda z: np.sin(z) ** 3,
    "absolute": np.abs,
    "clip": lambda z: np.clip(z, -0.7, 0.9),
    "guarded": lambda z: np.where(z > 0, np.sqrt(z), z),
    "safe log": lambda z: np.where(z > 0.1, np.log(z), 1.0),
    "scaled": lambda z: 0.3 * z + 0.1,
    "sign": lambda z: z * np.sign(z),
    "sinc": np.sinc,
    "ones": lambda z: z * np.ones(z.shape),
    "cumsum": lambda z: np.cumsum(z, axis=-1) / 3 if z.ndim else z,
    "cumprod": lambda z: np.cumprod(np.cos(z), axis=0) if z.ndim else z,
}
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": lambda a, b: np.tanh(a) * b,
    "divide": lambda a, b: a / (1 + b * b),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "hypot": lambda a, b: np.hypot(a, b + 2),
    "arctan2": lambda a, b: np.arctan2(a, 2 + np.cos(b)),
    "logaddexp": np.logaddexp,
    "where": lambda a, b: np.where(a > b, a, np.sin(b)),
    "power": lambda a, b: (1 + a * a) ** np.sin(b),
}
SHAPE = {
    "sum": np.sum,
    "sum 0": lambda z: np.sum(z, axis=0) if z.ndim else z,
    "mean -1": lambda z: np.mean(z, axis=-1, keepdims=True) if z.ndim else z,
    "max": np.max,
    "min 0": lambda z: np.min(z, axis=0) if z.ndim else z,
    "std": lambda z: np.std(z) if z.size > 2 else z,
    "prod": lambda z: np.prod(np.cos(z), axis=0) if z.ndim else z,
    "norm": lambda z: np.linalg.norm(z.ravel()) if z.ndim else z,
    "T": lambda z: z.T,
    "ravel": np.ravel,
    "new axis": lambda z: z[..., None] if z.ndim < 3 else z,
    "flip": lambda z: z[::-1] if z.ndim else z,
    "tail": lambda z: z[1:] if z.ndim and len(z) > 1 else z,
    "every other": lambda z: z[..., ::2] if z.ndim else z,
    "head": lambda z: z[0] if z.ndim else z,
    "gather": lambda z: z[np.array([0, -1, 0])] if z.ndim else z,
    "pair": lambda z: np.stack([z, z * 2]) if z.ndim < 2 else z,
    "join": lambda z: np.concatenate([z, np.sin(z)]) if z.ndim and z.size < 40 else z,
    "roll": lambda z: np.roll(z, 1),
    "diff": lambda z: np.diff(z, axis=0) if z.ndim and len(z) > 1 else z,
    "outer": lambda z: np.multiply.outer(z, z) if z.ndim == 1 and z.size < 7 else z,
    "product": lambda z: z @ z.T if z.ndim == 2 and z.size < 40 else z,
    "solve": lambda z: (
        np.linalg.solve(np.eye(len(z)) * 3 + np.outer(np.sin(z), np.cos(z)), z)
        if z.ndim == 1
        else z
    ),
}
steps = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 5)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 5), st.integers(0, 5)),
    st.tuples(st.sampled_from(sorted(SHAPE)), st.integers(0, 5)),
)
programs = st.lists(steps, min_size=2, max_size=9)
seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))


def fits(a, b):
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return np.prod(shape) < 200


def function(program, scale=1.0):
    """The program as a NumPy function of a scalar, a vector and a matrix."""

    def f(s, v, m):
        pool = [s, v * scale, m]
        for name, *at in program:
            a = pool[-1 - at[0] % len(pool)]
            if len(at) == 2:
                b = pool[-1 - at[1] % len(pool)]
                if fits(a, b):
                    pool.append(BINARY[name](a, b))
            else:
                pool.append((UNARY.get(name) or SHAPE[name])(a))
        return pool[-1]

    return f


def point(seed, shape):
    rng = np.random.default_rng(seed)
    return rng, [np.asarray(rng.normal()), rng.normal(size=shape[1]), rng.normal(size=shape)]


def traced(program, xs):
    return tape_of(function(program), *xs)


@given(programs, seeds, sizes)
def test_a_tape_gives_what_numpy_gives(program, seed, shape):
    _, xs = point(seed, shape)
    with np.errstate(all="ignore"):
        expected = np.asarray(function(program)(*xs))
    got = values(traced(program, xs), *xs)[0]
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)  # sums in another order


@given(programs, seeds, sizes)
def test_vjp_is_the_adjoint_of_jvp(program, seed, shape):
    rng, xs = point(seed, shape)
    tape = traced(program, xs)
    dots, bars = like(rng, tape.input_types), like(rng, tape.output_types)
    tangents, pulled = push(tape, xs, dots), pull(tape, xs, bars)
    assert abs(dot(bars, tangents) - dot(dots, pulled)) <= 1e-12 * max(
        size(bars, tangents), size(dots, pulled), 1.0
    )


@given(programs, seeds, sizes)
def test_derivatives_of_derivatives_are_adjoint(program, seed, shape):
    rng, xs = point(seed, shape)
    tape = traced(program, xs)
    for one in (verify(jvp(tape, floating(tape))), verify(vjp(tape, floating(tape)))):
        given_ = [*xs, *like(rng, one.input_types[len(xs) :])]
        dots, bars = like(rng, one.input_types), like(rng, one.output_types)
        tangents, pulled = push(one, given_, dots), pull(one, given_, bars)
        assert abs(dot(bars, tangents) - dot(dots, pulled)) <= 1e-11 * max(
            size(bars, tangents), size(dots, pulled), 1.0
        )


def hessian(program, xs):
    """Hessian of the sum of the last value with respect to all inputs, one column at a time."""
    gradient = simplify(vjp(tape_of(lambda *a: np.sum(function(program)(*a)), *xs), [0, 1, 2]))
    pushed = verify(jvp(gradient, [0, 1, 2]))
    flat = np.concatenate([x.ravel() for x in xs])
    cuts = np.cumsum([x.size for x in xs])[:-1]
    columns = []
    for e in np.eye(flat.size):
        dots = [part.reshape(x.shape) for part, x in zip(np.split(e, cuts), xs, strict=True)]
        out = values(pushed, *xs, np.asarray(1.0), *dots)
        columns.append(np.concatenate([o.ravel() for o in out[len(gradient.outputs) + 1 :]]))
    return np.array(columns)


@given(programs, seeds, sizes)
def test_the_hessian_is_symmetric(program, seed, shape):
    h = hessian(program, point(seed, shape)[1])
    np.testing.assert_allclose(h, h.T, rtol=1e-9, atol=1e-10 * max(1.0, float(np.max(np.abs(h)))))


@given(programs, seeds, sizes)
def test_simplify_keeps_values(program, seed, shape):
    rng, xs = point(seed, shape)
    tape = traced(program, xs)
    pulled = verify(vjp(tape, floating(tape)))
    for one in (tape, pulled, verify(vjp(pulled, floating(pulled)))):
        given_ = [*xs, *like(rng, one.input_types[len(xs) :])]
        shorter = verify(simplify(one))
        assert len(shorter) <= len(one)
        for a, b in zip(values(shorter, *given_), values(one, *given_), strict=True):
            np.testing.assert_array_equal(a, b)


@given(programs, seeds, sizes, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_batch_is_a_loop(program, seed, shape, mapped):
    rng, xs = point(seed, shape)
    tape = simplify(vjp(traced(program, xs), [0, 1, 2]))
    on = [*mapped, True]
    rows = [
        [
            *(rng.normal(size=x.shape) if m else x for m, x in zip(mapped, xs, strict=True)),
            *like(rng, tape.input_types[3:]),
        ]
        for _ in range(3)
    ]
    loop = [values(tape, *row) for row in rows]
    wide = verify(batch(tape, on, 3))
    columns = [
        np.stack(column) if m else column[0]
        for m, column in zip(on, zip(*rows, strict=True), strict=True)
    ]
    for k, out in enumerate(values(wide, *columns)):
        np.testing.assert_allclose(
            out, np.stack([row[k] for row in loop]), rtol=1e-11, atol=1e-11
        )  # BLAS sums otherwise


@pytest.mark.slow
@settings(max_examples=6)  # a kernel of this size costs a quarter of a second to compile
@given(st.lists(steps, min_size=6, max_size=9), seeds)
def test_kernels_give_what_the_interpreter_gives(program, seed):
    """Value and gradient; the same structure at other sizes and another constant."""
    for shape, scale in (((2, 3), 1.0), ((3, 4), 1.0), ((4, 5), 0.83)):
        rng, xs = point(seed, shape)
        tape = simplify(vjp(tape_of(function(program, scale), *xs), [0, 1, 2]))
        arrays = [*xs, *like(rng, tape.input_types[3:])]
        kernel = kernels.compile(tape, ("C",) * len(arrays))
        for a, b in zip(kernel(*arrays), values(tape, *arrays), strict=True):
            # sums are taken in another order; exp, log are polynomials of our own: a few ulp
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@settings(max_examples=200, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 4), max_size=3),
    seed=st.integers(0, 2**32 - 1),
)
def test_transposes_of_what_a_reshape_joins(shape, cuts, seed):
    """Axes joined, split again or of length one: the values stay, and joins move to the end."""
    rng = np.random.default_rng(seed)
    first = rng.permutation(len(shape))
    x = rng.normal(size=np.array(shape)[np.argsort(first)])  # of this shape when transposed
    bounds = sorted({0, *(min(c, len(shape)) for c in cuts), len(shape)})
    joined = [int(np.prod(shape[a:b])) for a, b in itertools.pairwise(bounds)]
    joined.insert(int(rng.integers(len(joined) + 1)), 1)
    axes = rng.permutation(len(joined))

    def f(x):
        return np.transpose(np.transpose(x, first).reshape(joined), axes) * 2.0

    tape = verify(simplify(tape_of(f, x)))
    np.testing.assert_array_equal(values(tape, x)[0], f(x))
    assert [node.primitive.name for node in tape.nodes].count("transpose") <= 2


def test_columns_of_a_jacobian_are_written_where_they_belong():
    x = np.zeros((5, 3, 2))
    tape = simplify(tape_of(lambda x: np.sin(x).reshape(5, 6).T, x))
    assert [node.primitive.name for node in tape.nodes][-2:] == ["transpose", "reshape"]


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 12), st.integers(1, 12), st.floats(0.0, 1.0))
def test_a_jacobian_is_what_products_by_colours_were_made_of(seed, rows, columns, density):
    """Its columns, added up where they have one colour, give all entries back, each from a sum."""
    rng = np.random.default_rng(seed)
    pattern = rng.random((rows, columns)) < density
    jacobian = np.where(pattern, rng.normal(size=(rows, columns)), 0.0)
    places = pattern.nonzero()
    colour = colours(pattern.shape, *places)
    compressed = jacobian @ (colour[:, None] == np.arange(columns))
    decompressed = np.zeros_like(jacobian)
    decompressed[places] = compressed[places[0], colour[places[1]]]
    np.testing.assert_array_equal(decompressed, jacobian)


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(1, 9), st.floats(0.0, 1.0))
def test_declared_patterns_give_the_jacobian_back(seed, rows, columns, density):
    """The same within the engine: an operation that declares its pattern is swept by colours."""
    rng = np.random.default_rng(seed)
    pattern = rng.random((rows, columns)) < density
    matrix = np.where(pattern, rng.normal(size=(rows, columns)), 0.0)
    cubes = fdiff.primitive(
        lambda x: matrix @ x**3,
        like=lambda x: np.zeros(rows),
        jvp=lambda dots, out, x: matrix @ (3 * x**2 * dots[0]),
        sparsity=lambda x: pattern,
    )
    x = rng.uniform(0.5, 1.5, columns)
    expected = matrix * (3 * x**2)
    np.testing.assert_allclose(
        fdiff.jacobian(cubes, sparse=True)(x).toarray(), expected, rtol=1e-12
    )
