"""Operators with `device="cuda"`, on the simulator or a GPU: where arrays lie, who owns them."""

import pickle
from typing import ClassVar

import cupy_stub
import numpy as np
import pytest
from numba import cuda

import fdiff
from fdiff.dispatch.tiers import runner_choice, tiered_execution
from fdiff.errors import (
    DeviceError,
    DtypeError,
    InputError,
    KinkError,
    TraceError,
    UnsupportedError,
)
from fdiff.functional.operators import dense_modes, structured_steps
from fdiff.kernels.cuda.devices import adapter
from fdiff.tree import flatten, map_leaves

X = np.linspace(0.1, 1.0, 7)
V = np.cos(np.arange(7.0))
CUPY = adapter.cupy()  # whose arrays results on a GPU are, where it is installed
ON_DEVICE = type(cuda.to_device(X)) if CUPY is None else CUPY.ndarray
WHERE = "Numba's simulator" if adapter.simulated() else str(cuda.get_current_device().name)


def f(x):
    return np.sum(np.sin(x) * x)


def g(x):
    return np.sin(x[1:]) * x[:-1]


OPERATORS = {
    "jit": (fdiff.jit, g, ()),
    "grad": (fdiff.grad, f, ()),
    "value_and_grad": (fdiff.value_and_grad, f, ()),
    "jacobian": (fdiff.jacobian, g, ()),
    "jacrev": (fdiff.jacrev, g, ()),
    "jacfwd": (fdiff.jacfwd, g, ()),
    "hessian": (fdiff.hessian, f, ()),
    "vjp": (fdiff.vjp, g, (V[1:],)),
    "jvp": (fdiff.jvp, g, (V,)),
    "hvp": (fdiff.hvp, f, (V,)),
    "vhp": (fdiff.vhp, f, (V,)),
    "vmap": (fdiff.vmap, np.sin, ()),
}
# Numba's own kernels in these tests are small, of which it warns on a GPU.
pytestmark = pytest.mark.filterwarnings("ignore:.*low occupancy.*")
each_operator = pytest.mark.parametrize("case", OPERATORS.values(), ids=OPERATORS)


class Foreign:
    """An array of another library: its protocol alone, with the strides of one of NumPy's.

    On a GPU the memory that an array is a view of is copied there, once, and back by `fetch`.
    """

    memory: ClassVar = {}  # by the address on the host: the array there, and its copy on the GPU

    def __init__(self, array, *, readonly=False):
        self.array, self.readonly = array, readonly

    @property
    def address(self):
        here, root = self.array.__array_interface__["data"][0], self.array
        if adapter.simulated() or not root.size:
            return here
        while isinstance(root.base, np.ndarray):
            root = root.base
        first = root.__array_interface__["data"][0]
        _, there = self.memory.setdefault(
            first, (root, cuda.to_device(root.reshape(-1).view("u1")))
        )
        return here - first + there.__cuda_array_interface__["data"][0]

    @classmethod
    def fetch(cls):
        """Copy what was written on the GPU to the arrays of the host."""
        for root, there in cls.memory.values():
            root.reshape(-1).view("u1")[:] = there.copy_to_host()

    @property
    def __cuda_array_interface__(self):
        a = self.array
        data = self.address, self.readonly
        described = {"shape": a.shape, "typestr": a.dtype.str, "strides": a.strides, "data": data}
        return {**described, "version": 3, "stream": None}


@pytest.fixture(autouse=True)
def _of_one_test():
    """What lies on the GPU is that of one test alone."""
    Foreign.memory.clear()


def host(tree):
    """Results with their device arrays copied to the host: those of Numba, or those of CuPy."""

    def copied(a):
        if hasattr(a, "copy_to_host"):
            return a.copy_to_host()
        return a.get() if hasattr(a, "__cuda_array_interface__") else a

    return map_leaves(copied, tree)


def assert_close(found, wanted):
    pairs = list(zip(flatten(host(found))[0], flatten(wanted)[0], strict=True))
    assert pairs
    for one, other in pairs:
        assert np.shape(one) == np.shape(other)
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)


# --- results lie where the arguments lie ---------------------------------------------------------


def test_sparse_derivatives():
    """Values and coordinates are there; an array of SciPy's is on the host alone."""
    places = np.array([0, 2, 1])
    on_device = fdiff.jacobian(lambda x, i: x[i] * x[:3], sparse=True, device="cuda")
    on_host = fdiff.jacobian(lambda x, i: x[i] * x[:3], sparse=True)
    for i in (places, places[::-1].copy()):
        assert_close(on_device.data(X, i), on_host.data(X, i))
        for mine, right in zip(on_device.coordinates(X, i), on_host.coordinates(X, i), strict=True):
            np.testing.assert_array_equal(mine, right)
    with pytest.raises(DeviceError, match="cannot be put together on a device"):
        on_device(X, places)


@each_operator
def test_arrays_of_numpy_give_arrays_of_numpy(case):
    operator, function, vectors = case
    wanted = operator(function)(X, *vectors)
    found = operator(function, device="cuda")(X, *vectors)
    assert_close(found, wanted)
    assert [type(a) for a in flatten(found)[0]] == [type(a) for a in flatten(wanted)[0]]


@each_operator
def test_device_arrays_give_device_arrays(case):
    operator, function, vectors = case
    prepared = operator(function, device="cuda")
    found = prepared(cuda.to_device(X), *map(cuda.to_device, vectors))
    assert_close(found, operator(function)(X, *vectors))
    assert all(isinstance(a, ON_DEVICE) for a in flatten(found)[0])


def test_one_device_array_is_enough():
    function = fdiff.value_and_grad(lambda x, y: np.sum(x * y), argnums=(0, 1), device="cuda")
    for args in ((X, cuda.to_device(V)), (cuda.to_device(X), V), (Foreign(X), 2.0)):
        found = function(*args)
        assert all(isinstance(a, ON_DEVICE) for a in flatten(found)[0])
    assert_close(function(X, cuda.to_device(V)), (np.dot(X, V)[()], (V, X)))


def test_points_given_at_once():
    d = cuda.to_device(X)
    assert_close(fdiff.jacobian(g, X, device="cuda"), fdiff.jacobian(g, X))
    assert_close(fdiff.jacobian(g, d, device="cuda"), fdiff.jacobian(g, X))
    assert_close(fdiff.hessian(f, d, device="cuda"), fdiff.hessian(f, X))
    assert_close(fdiff.vjp(g, d, V[1:], device="cuda"), fdiff.vjp(g, X, V[1:]))
    assert_close(fdiff.hvp(f, (d,), (cuda.to_device(V),), device="cuda"), fdiff.hvp(f, (X,), (V,)))


def test_structures_of_arrays():
    def loss(p):
        return np.sum(p["a"] * p["b"][0])

    tree = {"a": X, "b": [V, 3.0]}
    there = {"a": cuda.to_device(X), "b": [cuda.to_device(V), 3.0]}
    wanted = fdiff.grad(loss)(tree)
    for given in (tree, there):
        assert_close(fdiff.grad(loss, device="cuda")(given), wanted)


def test_out_takes_arrays_of_numpy():
    out = np.zeros(7)
    assert fdiff.grad(f, device="cuda")(X, out=out) is out
    assert_close(out, fdiff.grad(f)(X))


def test_out_takes_arrays_on_the_device():
    given, wanted = cuda.to_device(X), fdiff.grad(f)(X)
    out = cuda.to_device(np.zeros(7))
    assert fdiff.grad(f, device="cuda")(given, out=out) is out
    assert_close(out, wanted)
    wide = np.zeros((7, 3))
    places = (Foreign(np.zeros(())), Foreign(wide[::-1, 1]))
    both = fdiff.value_and_grad(f, device="cuda")
    assert both(given, out=places)[1] is places[1]
    Foreign.fetch()
    assert_close(wide[::-1, 1], wanted)
    assert not wide[:, ::2].any()
    assert_close(places[0].array, np.asarray(f(X)))


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        (np.zeros(7), InputError, "the result lies on a GPU, and out holds ndarray"),
        (Foreign(np.zeros(6)), InputError, r"of shape \(6,\); the result has shape \(7,\)"),
        (Foreign(np.zeros(7), readonly=True), InputError, "that is read-only"),
        (Foreign(np.zeros(7, "f4")), DtypeError, "of float32; the result is of float64"),
    ],
)
def test_out_that_does_not_fit_is_refused(out, error, words):
    with pytest.raises(error, match=words):
        fdiff.grad(f, device="cuda")(cuda.to_device(X), out=out)


def test_out_on_the_device_needs_an_argument_there():
    with pytest.raises(InputError, match="out holds an array on a GPU, and the result is NumPy's"):
        fdiff.grad(f, device="cuda")(X, out=cuda.to_device(X))


def test_out_arrays_share_no_memory():
    memory = np.zeros(20)
    two = fdiff.grad(lambda x, y: np.sum(x * y), argnums=(0, 1), device="cuda")
    with pytest.raises(InputError, match="two arrays in out share memory"):
        two(cuda.to_device(X), V, out=(Foreign(memory[:7]), Foreign(memory[6:13])))
    apart = (Foreign(memory[:14:2]), Foreign(memory[1:15:2]))
    two(cuda.to_device(X), V, out=apart)
    Foreign.fetch()
    assert_close((memory[:14:2], memory[1:15:2]), (V, X))


# --- arrays as they come --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "?", "u1"])
@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[::2, 1:],
        lambda a: a[::-1, ::-2],
        lambda a: a[1:2, :],
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: a[:0],
    ],
    ids=["whole", "transposed", "strided", "reversed", "row", "broadcast", "empty"],
)
def test_strides_are_respected(view, dtype):
    given = view((np.arange(24).reshape(4, 6) % 5).astype(dtype))
    assert_close(fdiff.jit(lambda x: x + x, device="cuda")(Foreign(given)), given + given)


def test_arrays_that_may_only_be_read():
    given = Foreign(X.copy(), readonly=True)
    assert_close(fdiff.grad(f, device="cuda")(given), fdiff.grad(f)(X))
    assert np.array_equal(given.array, X)


def test_numbers_and_arrays_without_axes():
    double = fdiff.jit(lambda x: 2.0 * x, device="cuda")
    assert double(3.0) == 6.0
    assert type(double(3.0)) is np.float64
    assert_close(double(Foreign(np.array(3.0))), np.array(6.0))
    assert_close(fdiff.grad(lambda x: x**3, device="cuda")(2), np.float64(12.0))


def test_vectors_on_a_device_have_the_dtype_they_need():
    product = fdiff.jvp(g, device="cuda")
    assert_close(product(X, V.astype("f4"))[1], fdiff.jvp(g)(X, V.astype("f4"))[1])
    with pytest.raises(DtypeError, match="v is of float32, and lies on a GPU"):
        product(X, Foreign(V.astype("f4")))


def test_results_belong_to_the_caller():
    prepared = fdiff.jit(lambda x: (x + 1.0, x + 1.0, x), device="cuda")
    given = X.copy()
    found = prepared(Foreign(given))
    for array in found:
        array[0] = 100.0
    assert np.array_equal(given, X)
    assert_close(prepared(Foreign(given)), (X + 1.0, X + 1.0, X))


# --- what a trace relies on -----------------------------------------------------------------------


def test_captured_arrays_are_seen_as_they_are_at_each_call():
    data = np.arange(7.0)
    prepared = fdiff.grad(lambda x: np.sum(x * data), device="cuda")
    assert_close(prepared(X), data)
    data[:] = 5.0
    assert_close(prepared(cuda.to_device(X)), data)
    assert_close(prepared(X), data)


@pytest.mark.parametrize("library", [cuda.to_device, Foreign])
def test_captured_device_arrays(library):
    entries = np.arange(7.0)
    kept = {"data": library(entries.copy())}
    prepared = fdiff.grad(lambda x: np.sum(x * kept["data"] + kept["data"].sum()), device="cuda")
    assert_close(prepared(X), entries)
    assert_close(prepared(cuda.to_device(X)), entries)
    kept["data"] = library(entries + 1.0)  # another array of this type
    assert_close(prepared(X), entries + 1.0)
    kept["data"] = library(entries[:1] + 3.0)  # another shape
    assert_close(prepared(X), np.full(7, 3.0))
    assert_close(prepared.compile("f8[7]")(X), np.full(7, 3.0))


def test_captured_device_arrays_changed_in_place_are_seen():
    data = cuda.to_device(np.arange(7.0))
    prepared = fdiff.grad(lambda x: np.sum(x * data), device="cuda")
    assert_close(prepared(X), np.arange(7.0))
    data[:] = 5.0
    assert_close(prepared(X), np.full(7, 5.0))


def test_branches_on_captured_device_arrays():
    data = Foreign(np.array([1.0, 2.0]))

    def branching(x):
        return np.sum(x**2) if data[0] > 0.5 else np.sum(x**3)

    prepared = fdiff.grad(branching, device="cuda")
    assert_close(prepared(X), 2 * X)
    data.array[0] = 0.0
    Foreign.memory.clear()  # which is copied to a GPU again
    assert_close(prepared(X), 3 * X**2)


def test_captured_device_arrays_are_not_for_the_cpu_nor_written_to():
    data = cuda.to_device(np.arange(7.0))
    with pytest.raises(InputError, match=r"lies on a GPU, and the call runs on the CPU"):
        fdiff.grad(lambda x: np.sum(x * data))(X)

    def writes(x):
        data[0] = x[0]
        return np.sum(x)

    with pytest.raises(TraceError, match="`f` writes to the array `data`, which lies on a GPU"):
        fdiff.grad(writes, device="cuda")(X)


def test_branches_on_values_are_guarded():
    def branching(x):
        if x[0] > 0.5:
            return np.sum(x**2)
        return np.sum(x**3)

    for operator in (fdiff.grad, fdiff.jacobian, fdiff.jit):
        prepared, plain = operator(branching, device="cuda"), operator(branching)
        for shift in (0.0, 1.0, 0.0, 1.0):
            assert_close(prepared(X + shift), plain(X + shift))
            assert_close(prepared(cuda.to_device(X + shift)), plain(X + shift))
    prepared = fdiff.grad(branching, device="cuda")
    prepared(X), prepared(X + 1.0)
    traces = {id(v) for known in prepared.program.variants.values() for v in known}
    assert len(traces) == 4  # two branches, of NumPy arrays and of device arrays
    for shift in (0.0, 1.0, 1.0, 0.0):
        prepared(X + shift)
    assert {id(v) for known in prepared.program.variants.values() for v in known} == traces


def test_integers_on_a_device_may_be_looked_at():
    def scaled(x, n):
        return np.sum(x) * (2.0 if n[0] > 1 else 3.0)

    prepared = fdiff.grad(scaled, device="cuda")
    for n in (1, 2, 1):
        given = Foreign(np.array([n]))
        assert_close(prepared(cuda.to_device(X), given), np.full(7, 2.0 if n > 1 else 3.0))


def test_errors_are_those_of_numpy():
    taken = fdiff.jit(lambda x, i: x[i], device="cuda")
    inside, outside = np.array([1, -7, 6]), np.array([1, 7])
    for place in (np.array, Foreign):
        assert_close(taken(X, place(inside)), X[inside])
        with pytest.raises(IndexError, match="out of bounds"):
            taken(X, place(outside))
    assert_close(taken(X, Foreign(inside)), X[inside])


def test_singular_matrices_are_those_of_numpy():
    solved = fdiff.jit(np.linalg.solve, device="cuda")
    regular = np.array([[2.0, 1.0], [1.0, 3.0]])
    assert_close(solved(Foreign(regular), X[:2]), np.linalg.solve(regular, X[:2]))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        solved(Foreign(np.ones((2, 2))), X[:2])


def test_device_arrays_of_both_libraries_are_compared():
    """What comparisons in these tests rely on; CuPy's arrays raise if NumPy is to convert them."""
    kept = cupy_stub.empty((7,), np.dtype("f8"))
    kept[:] = X
    for array in (cuda.to_device(X), kept):
        assert type(host((array, 2.0))[0]) is np.ndarray
        assert_close((array, X), (X, X))
    with pytest.raises(AssertionError):
        assert_close(kept, V)


def test_large_matrices_need_a_library():
    if CUPY is not None:
        large = np.eye(80) + 0.01
        found = fdiff.jit(np.linalg.inv, device="cuda")(large)
        np.testing.assert_allclose(host(found), np.linalg.inv(large), rtol=1e-12)
        return
    with pytest.raises(DeviceError, match=f"inv of such sizes on {WHERE} needs a library"):
        fdiff.jit(np.linalg.inv, device="cuda")(np.eye(80))


def test_sums_in_one_order_are_another_program(monkeypatch):
    where = np.array([0, 3, 0, 3, 3, 1, 0])

    def scattered(x):
        out = np.zeros(4)
        np.add.at(out, where, x * x)
        return np.sum(out**2)

    wanted = fdiff.grad(scattered)(X)
    texts = []
    for setting in ("0", "1"):
        monkeypatch.setenv("FDIFF_DETERMINISTIC", setting)
        fdiff.cache_clear()
        prepared = fdiff.grad(scattered, device="cuda")
        assert_close(prepared(X), wanted)
        (runner,) = [
            r for r in runner_choice._cuda_runners.values() if r.state() != "not run yet, on CUDA"
        ]
        texts.append(runner._program.program.text)
    assert "atomic" in texts[0]
    assert "atomic" not in texts[1]


# --- nothing runs on the CPU ----------------------------------------------------------------------


@pytest.fixture
def no_cpu(monkeypatch):
    """Every tier of the CPU raises."""

    def refused(*_):
        raise AssertionError("a tape ran on the CPU")

    for name in ("_slow", "_run", "_interpret", "_evaluate", "_strided"):
        monkeypatch.setattr(tiered_execution.Runner, name, refused)


@each_operator
def test_no_tier_of_the_cpu_runs(no_cpu, case):
    operator, function, vectors = case
    prepared = operator(function, device="cuda")
    for _ in range(3):
        prepared(X, *vectors)
    prepared(cuda.to_device(X), *vectors)


def test_what_has_no_kernel_is_named():
    def values(a):
        return np.sum(np.linalg.eigvalsh(a) ** 2)

    words = r"^grad\(values\): there is no CUDA kernel for \w+"
    with pytest.raises(UnsupportedError, match=words):
        fdiff.grad(values, device="cuda")(np.eye(3))
    with pytest.raises(UnsupportedError, match="there is no CUDA kernel for"):
        fdiff.grad(values, device="cuda").compile("f8[3,3]")


def test_derivatives_are_not_taken_in_chunks_unless_asked(no_cpu, monkeypatch):
    monkeypatch.setattr(dense_modes, "BUDGET", 8)
    for operator in (fdiff.jacobian, fdiff.jacrev, fdiff.jacfwd):
        prepared = operator(np.cumsum, device="cuda")
        assert_close(prepared(X), np.tril(np.ones((7, 7))))


@pytest.mark.parametrize("place", [np.array, cuda.to_device])
@pytest.mark.parametrize("operator", [fdiff.jacrev, fdiff.jacfwd])
def test_jacobians_in_chunks(operator, place, request):
    def two(x, y):
        return np.outer(np.sin(x), y), np.sum(x * x)

    y = X[:3]
    wanted = operator(two, argnums=(0, 1))(X, y)
    request.getfixturevalue("no_cpu")
    found = operator(two, argnums=(0, 1), chunk_size=3, device="cuda")(place(X), y)
    assert_close(found, wanted)


@pytest.mark.parametrize("place", [np.array, cuda.to_device])
def test_hessians_in_chunks(place, request):
    def energy(x, y):
        return np.sum(x[1:] ** 2 * x[:-1]) * np.sum(y**3)

    wanted = fdiff.hessian(energy, argnums=(0, 1))(X, X[:2])
    request.getfixturevalue("no_cpu")
    prepared = fdiff.hessian(energy, argnums=(0, 1), chunk_size=2, device="cuda")
    found = prepared(place(X), place(X[:2]))
    assert_close(found, wanted)
    corner = host(found)[0][0]
    assert np.array_equal(corner, corner.T)


@pytest.mark.parametrize("place", [np.array, cuda.to_device])
@pytest.mark.parametrize("options", [{}, {"chunk_size": 3}], ids=str)
def test_zeros_of_the_structure_beside_infinities(place, options, monkeypatch):
    """In chunks, and of functions that are too long for a walk before the first call."""
    monkeypatch.setattr(structured_steps, "MASKED", 0)
    monkeypatch.setattr(structured_steps, "dense_tape", lambda *_: None)
    cases = ((fdiff.jacobian, lambda x: x * x, 2.0), (fdiff.hessian, lambda x: np.sum(x**3), 6.0))
    for operator, f, slope in cases:
        prepared = operator(f, device="cuda", **options)
        for x in (np.array([np.inf, 2.0, np.nan, 0.5]), np.ones(4)):
            diagonal = np.zeros((4, 4))
            np.fill_diagonal(diagonal, slope * x)
            np.testing.assert_array_equal(host(prepared(place(x))), diagonal)


# --- the rest of an operator ----------------------------------------------------------------------


def test_primitives_run_by_their_text_and_not_by_an_address():
    given = {"function": np.sinc, "partials": lambda x, out: (2.0 * x,)}
    square = fdiff.primitive(**given, kernel="lambda x: x * x + 1.0")
    total = lambda p: lambda x: np.sum(p(x) * x)
    run = fdiff.value_and_grad(total(square), device="cuda")
    assert_close(run(X), (np.sum(X**3 + X), 3.0 * X**2 + 1.0))
    called = fdiff.primitive(**given, address=1)
    words = r"there is no CUDA kernel for primitive\(sinc\), which calls a C function\."
    with pytest.raises(UnsupportedError, match=words):
        fdiff.jit(total(called), device="cuda")(X)


def test_operators_nest():
    inner = fdiff.grad(f, device="cuda")
    assert_close(fdiff.jacobian(inner, device="cuda")(X), fdiff.hessian(f)(X))
    assert_close(fdiff.jacobian(fdiff.grad(f), device="cuda")(X), fdiff.hessian(f)(X))
    with pytest.raises(InputError, match="the outermost call decides"):
        fdiff.jacobian(inner)(X)


def test_prepared_functions_tell_how_they_run():
    prepared = fdiff.grad(f, device="cuda")
    fdiff.cache_clear()
    prepared = fdiff.grad(f, device="cuda")
    assert "not run yet" in repr(prepared)
    prepared.compile("f8[7]")
    assert f"on {WHERE}" in repr(prepared)
    assert_close(prepared(X), fdiff.grad(f)(X))


def test_prepared_functions_are_pickled_with_their_device():
    again = pickle.loads(pickle.dumps(fdiff.grad(f, device="cuda")))
    assert again.origin.options["device"] == "cuda"
    assert isinstance(again(cuda.to_device(X)), ON_DEVICE)


def test_kinks_are_looked_for_on_the_host():
    prepared = fdiff.grad(lambda x: np.sum(np.abs(x)), device="cuda")
    given = np.array([1.0, 0.0])
    assert_close(prepared(given), np.array([1.0, 0.0]))
    with fdiff.kinks("raise"):
        for place in (np.array, Foreign):
            with pytest.raises(KinkError):
                prepared(place(given))
        assert_close(prepared(np.ones(2)), np.ones(2))


def test_equal_tapes_share_their_kernels():
    fdiff.cache_clear()
    fdiff.grad(f, device="cuda")(X)
    fdiff.grad(lambda x: np.sum(np.sin(x) * x), device="cuda")(X)
    assert len(runner_choice._cuda_runners) == 1
    fdiff.cache_clear()
    assert not runner_choice._cuda_runners


@pytest.mark.parametrize("use_device", [None, "cuda"])
def test_a_profile_has_the_kernels_and_their_times_where_asked(use_device):
    gradient = fdiff.value_and_grad(f, device="cuda")
    before = gradient(X)
    with fdiff.profiler.profile(use_device=use_device) as prof:
        during = gradient(X)
    assert all(np.array_equal(a, b) for a, b in zip(before, during, strict=True))
    (call,) = [e for e in prof.function_events if e.category == "call"]
    kernels = [e for e in prof.function_events if "waited" in e.args]
    assert kernels
    assert call.args["device"] == "cuda"
    assert all(e.args["waited"] == (use_device is not None) for e in kernels)
    timed = sum(e.cpu_time_total for e in kernels) if use_device else 0.0
    assert call.device_time_total == pytest.approx(timed)
    assert ("Self CUDA" in prof.key_averages().table(sort_by="cuda_time")) == (timed > 0.0)


# --- rules of the user's, and checkpoints --------------------------------------------------------


@fdiff.custom_vjp
def softplus(x):
    return np.log1p(np.exp(x))


softplus.defvjp(lambda x: (softplus(x), x), lambda x, bar: (2.0 * bar / (1.0 + np.exp(-x)),))


@fdiff.custom_jvp
def scaled(x, y):
    return np.sin(x) * y, np.cumsum(x)


@scaled.defjvp
def scaled_jvp(primals, tangents):
    (x, y), (x_dot, y_dot) = primals, tangents
    return scaled(x, y), (3.0 * np.cos(x) * y * x_dot + np.sin(x) * y_dot, np.cumsum(x_dot))


class Exp(fdiff.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = np.exp(x)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, bar):
        return 0.5 * ctx.saved_tensors[0] * bar


@fdiff.checkpoint
def block(x):
    for _ in range(2):
        x = np.tanh(np.cumsum(x) - x * np.mean(x))
    return x


RULED = {
    "custom_vjp": lambda x: softplus(np.sin(x)) * x,
    "custom_jvp": lambda x: scaled(x, x * x)[0] + scaled(np.cos(x), x)[1] ** 2,
    "Function": lambda x: Exp.apply(x) * Exp.apply(-x * x),
    "checkpoint": lambda x: block(block(x) * x),
    "rule in a checkpoint": fdiff.checkpoint(lambda x: softplus(x) * np.exp(scaled(x, x)[0])),
}


@pytest.mark.parametrize("function", RULED.values(), ids=RULED)
def test_rules_and_checkpoints(function):
    """Beside the processor's results, which tests compare with JAX's; on arrays of both places."""
    loss = lambda x: np.sum(function(x) ** 2)
    calls = [
        (fdiff.jit, function, ()), (fdiff.value_and_grad, loss, ()), (fdiff.jacfwd, function, ()),
        (fdiff.jacrev, function, ()), (fdiff.hessian, loss, ()), (fdiff.vjp, function, (V,)),
        (fdiff.jvp, function, (V,)), (fdiff.hvp, loss, (V,)),
    ]  # fmt: skip
    for operator, f, vectors in calls:
        wanted, prepared = operator(f)(X, *vectors), operator(f, device="cuda")
        for place in (np.asarray, cuda.to_device):
            found = host(prepared(place(X), *map(place, vectors)))
            for one, other in zip(flatten(found)[0], flatten(wanted)[0], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    rows = np.stack([X, 2.0 * X])
    wanted = fdiff.vmap(fdiff.grad(loss))(rows)
    found = fdiff.vmap(fdiff.grad(loss), device="cuda")(rows)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


def test_code_that_is_not_traced_is_refused():
    square = fdiff.primitive(lambda x: x * x, partials=lambda x, out: (2.0 * x,))
    with pytest.raises(UnsupportedError, match=r"no CUDA kernel for primitive\(<lambda>\)"):
        fdiff.jit(lambda x: np.sum(square(x)), device="cuda")(X)


LOOPS = {
    "loop": lambda x: fdiff.fori_loop(0, 3, lambda i, y: y * y[::-1], x),
    "while_loop": lambda x: fdiff.while_loop(lambda y: y[0] < 9, lambda y: y * x, x),
    "switch": lambda x: fdiff.cond(x[0] > 0, lambda y: y * x, lambda y: y - x, x),
}


def test_a_loop_runs_where_entries_are_independent():
    f = fdiff.vmap(fdiff.grad(lambda x: fdiff.fori_loop(0, 9, lambda i, y: np.sin(y) * x, x)))
    g = fdiff.vmap(
        fdiff.grad(lambda x: fdiff.fori_loop(0, 9, lambda i, y: np.sin(y) * x, x)), device="cuda"
    )
    np.testing.assert_allclose(g(X), f(X), rtol=1e-12)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("operator", [fdiff.jit, fdiff.jacobian])
def test_other_loops_are_refused(name, operator):
    with pytest.raises(UnsupportedError, match="no CUDA kernel for") as raised:
        operator(LOOPS[name], device="cuda")(np.linspace(2.0, 3.0, 7))
    assert "on the CPU it runs" in str(raised.value)


def test_plain_loops_of_functions_for_a_gpu_are_unrolled(monkeypatch):
    """A loop whose body adds up is no kernel of a GPU."""
    monkeypatch.delenv("FDIFF_LOOPS", raising=False)

    def f(x):
        for _ in range(220):
            x = x - 0.01 * np.sum(x) * x
        return x

    x = np.array([0.1, 0.5])
    np.testing.assert_allclose(fdiff.jit(f, device="cuda")(x), f(x), rtol=1e-12)
    assert [n.primitive.family for n in fdiff.make_tape(f, x).nodes].count("loop") == 1
