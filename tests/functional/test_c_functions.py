"""C functions of prepared functions: called by ctypes, by SciPy and by C code of others."""

import ctypes
import gc
import pickle
import shutil
import subprocess
import sys
import threading
from typing import NamedTuple

import numpy as np
import pytest
from scipy import LowLevelCallable
from scipy.integrate import IntegrationWarning, nquad, quad

import fdiff
from fdiff.errors import InputError, UnsupportedError
from fdiff.kernels import c_entry

CC = shutil.which("cc")
WITH_CC = pytest.mark.skipif(CC is None, reason="there is no C compiler to compile C code with")
Both = pytest.mark.parametrize("misses", ["python", "raise"])


def wave(t):
    return np.exp(-t * t) * np.sin(3.0 * t)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def kinked(t):
    return t**3 if t > 0.5 else np.sin(t)


def same(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


# --- forms ------------------------------------------------------------------------------------


@Both
def test_a_function_of_a_number_returns_one(misses):
    c = fdiff.cfunc(fdiff.grad(wave), 0.5, misses=misses)
    assert "typedef double (*grad_wave)(double t);" in c.header
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(c.address)
    for t in (0.3, -2.0, 0.0, np.inf):
        with np.errstate(invalid="ignore"):
            same(f(t), fdiff.grad(wave)(t))
        same(c.ctypes(t), f(t))
    c.check()


def test_a_function_of_an_array_writes_to_one():
    x = np.linspace(-1.0, 1.0, 10)
    c = fdiff.cfunc(fdiff.grad(rosenbrock), "f8[10]")
    assert "typedef void (*grad_rosenbrock)(const double *x, double *out);" in c.header
    assert "x is double[10]; out is double[10]" in c.header
    out = np.empty(10)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(c.address)(
        x.ctypes.data, out.ctypes.data
    )
    same(out, fdiff.grad(rosenbrock)(x))


X, XY = np.zeros(4), (np.ones(3), np.ones(3))
ONE, TWO = "const double *x, double *out)", "const double *x, double *out0, double *out1)"
OPERATORS = [
    (fdiff.value_and_grad(rosenbrock), (X,), TWO),
    (fdiff.hessian(rosenbrock), (X,), ONE),
    (fdiff.jacobian(lambda x: x[1:] * x[:-1]), (X,), ONE),
    (fdiff.jit(lambda x, y: x * np.sum(y)), (0.5, np.ones(3)), "double x, const double *y)"),
    (
        fdiff.grad(lambda p, y: np.sum(p[0] * y) * p[1], argnums=(0, 1)),
        ((np.ones(2), 0.5), np.ones(2)),
        "const double *p_0, double p_1, const double *y, double *out0",
    ),
    (fdiff.hvp(rosenbrock), XY, "const double *x"),
    (fdiff.vjp(lambda x: x**2), XY, "const double *x"),
]


@pytest.mark.parametrize(("prepared", "examples", "parameters"), OPERATORS)
def test_operators(prepared, examples, parameters, rng):
    c = fdiff.cfunc(prepared, *examples)
    assert parameters in c.header
    leaves = fdiff.tree.flatten(examples)[0]
    leaves = [rng.normal(size=np.shape(a)) if np.shape(a) else rng.normal() for a in leaves]
    args = fdiff.tree.unflatten(fdiff.tree.flatten(examples)[1], leaves)
    want = fdiff.tree.flatten(prepared(*args))[0]
    outs = [np.empty(np.shape(w)) for w in want]
    returned = c.header.split("typedef ")[1].startswith("double")
    found = c.ctypes(*leaves, *([] if returned else outs))
    for got, value in zip([found] if returned else outs, want, strict=True):
        same(got, value)
    c.check()


def test_dtypes_and_constants():
    def f(x, w, n, index):
        return np.sum(x[index] * w) ** n

    x, index = np.arange(4, dtype=np.float32), np.array([1, 3])
    c = fdiff.cfunc(fdiff.grad(f), x, np.float32(2.0), 3, index)
    assert "(const float *x, float w, const int64_t *index, float *out)" in c.header
    assert "#include <stdint.h>" in c.header
    assert "n = 3 is fixed" in c.header
    out = np.empty(4, np.float32)
    c.ctypes(x, 2.0, index, out)
    np.testing.assert_array_equal(out, fdiff.grad(f)(x, np.float32(2.0), 3, index))


class Layer(NamedTuple):
    """A tuple with names."""

    w: object
    b: object


def network(params, x):
    h = np.tanh(params["first"].w @ x + params["first"].b)
    return np.sum(h * params["second"][0])


def test_arguments_and_results_in_dictionaries_lists_and_named_tuples(rng):
    """Each leaf is a parameter, named after the way to it."""
    params = {
        "first": Layer(rng.normal(size=(2, 3)), rng.normal(size=2)),
        "second": [rng.normal(size=2)],
    }
    both = fdiff.value_and_grad(network)
    c = fdiff.cfunc(both, params, np.ones(3))
    assert "(const double *params_first_w, const double *params_first_b, const double *" in c.header
    assert "*params_second_0, const double *x, double *out0, double *out1_first_w, " in c.header
    assert "double *out1_first_b, double *out1_second_0);" in c.header
    x, value = rng.normal(size=3), np.empty(())
    given = [*params["first"], *params["second"]]
    outs = [np.empty(a.shape) for a in given]
    c.ctypes(*given, x, value, *outs)
    wanted, slopes = both(params, x)
    np.testing.assert_allclose(value, wanted, rtol=1e-14)
    for found, slope in zip(outs, [*slopes["first"], *slopes["second"]], strict=True):
        np.testing.assert_allclose(found, slope, rtol=1e-14)


@pytest.mark.parametrize("misses", ["python", "raise"])
def test_results_that_are_constants_are_written_too(misses):
    def f(x):
        return (3, x * 2.0, [1.5], np.sum(x)) if x[0] > 0.0 else (4, x, [2.5], 0.0 * x[1])

    c = fdiff.cfunc(fdiff.jit(f), np.ones(2), misses=misses)
    assert "int64_t *out0, double *out1, double *out2_0, double *out3" in c.header
    outs = [np.empty((), np.int64), np.empty(2), np.empty(()), np.empty(())]
    c.ctypes(np.ones(2), *outs)
    assert [a.tolist() for a in outs] == [3, [2.0, 2.0], 1.5, 2.0]
    c.ctypes(np.array([-1.0, 2.0]), *outs)
    if misses == "python":
        assert [a.tolist() for a in outs] == [4, [-1.0, 2.0], 2.5, 0.0]
        x = np.array([5.0, 6.0])
        c.ctypes(x, outs[0], x, outs[2], outs[3])  # a result over what is read
        assert [a.tolist() for a in (outs[0], x, *outs[2:])] == [3, [10.0, 12.0], 1.5, 11.0]
        c.check()
    else:
        assert outs[0] == np.iinfo(np.int64).min
        assert np.isnan(outs[2])
        with pytest.raises(InputError, match="took a branch"):
            c.check()
    for constant, kind in ((2.5, "double"), (7, "int64_t")):
        alone = fdiff.cfunc(fdiff.jit(lambda x, constant=constant: constant), 0.5)
        assert f"typedef {kind} (*" in alone.header
        assert alone.ctypes(0.1) == constant


BUFFER = np.empty(3)
MISFITS = {
    "a shape": ((np.ones(4), 2.0, BUFFER), "x is an array of float64 with the shape (4,), where"),
    "a dtype": ((np.ones(3, np.float32), 2.0, BUFFER), "x is an array of float32 with the shape"),
    "a number": ((np.ones(3), "2", BUFFER), "a is of type str, where the C function takes double."),
    "an array": ((np.ones(3), BUFFER, BUFFER), "a is an array of float64 with the shape (3,), w"),
    "a count": ((np.ones(3), 2.0), "2 arguments were passed; this is void f(const double *x, dou"),
    "strides": ((np.ones(6)[::2], 2.0, BUFFER), "x is an array whose entries are not in C order"),
    "a list": (([1.0, 2.0, 3.0], 2.0, BUFFER), "x is of type list, where the C function takes do"),
    "read-only": ((np.ones(3), 2.0, np.broadcast_to(1.0, 3)), "out is an array that cannot be w"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_arguments_that_do_not_fit_are_named(name):
    c = fdiff.cfunc(fdiff.grad(lambda x, a: np.sum(a * x)), np.ones(3), 2.0)
    c.ctypes(np.ones(3), 2, BUFFER)
    args, fact = MISFITS[name]
    with pytest.raises(InputError) as error:
        c.ctypes(*args)
    assert str(error.value).startswith(f"cfunc(grad(<lambda>)).ctypes: {fact}")
    assert "make another C function: fdiff.cfunc(prepared, ...)" in str(error.value)


def test_integers_are_returned():
    c = fdiff.cfunc(fdiff.jit(lambda k: k[0] * k[1]), np.array([1, 2]))
    assert "int64_t (*" in c.header
    assert c.ctypes(np.array([6, 7])) == 42


@Both
def test_truth_values_are_small_integers(misses):
    def positive(a, b):
        x = np.linalg.solve(a, b)
        return x > 0.0, np.all(x > 0.0), True

    c = fdiff.cfunc(fdiff.jit(positive), np.eye(2), np.ones(2), misses=misses)
    assert "int8_t *out0, int8_t *out1, int8_t *out2" in c.header
    made = [np.empty(2, np.int8), np.empty((), np.int8), np.empty((), np.int8)]
    c.ctypes(np.eye(2), np.array([1.0, -1.0]), *made)
    assert [one.tolist() for one in made] == [[1, 0], 0, 1]
    c.check()
    c.ctypes(np.zeros((2, 2)), np.ones(2), *made)
    assert [one.tolist() for one in made] == [[-128, -128], -128, -128]
    with pytest.raises(np.linalg.LinAlgError):
        c.check()


def test_names_are_those_of_c():
    def f(double, n, λ, out):  # noqa: PLC2401 - what C cannot have
        return double * n * λ * out

    assert (
        "(double double_, double n_, double x, double out)"
        in fdiff.cfunc(fdiff.jit(f), 1.0, 2.0, 3.0, 4.0).header
    )


def test_several_results_that_are_one_output():
    c = fdiff.cfunc(fdiff.jit(lambda x: (y := np.sin(x), y, x * 2.0)), np.zeros(3))
    x, outs = np.array([1.0, 2.0, 3.0]), [np.empty(3) for _ in range(3)]
    c.ctypes(x, *outs)
    for got, want in zip(outs, (np.sin(x), np.sin(x), 2.0 * x), strict=True):
        same(got, want)


def test_empty_arrays_and_large_workspaces(rng):
    out = np.empty(0)
    fdiff.cfunc(fdiff.grad(lambda x: np.sum(x * x)), np.empty(0)).ctypes(np.empty(0), out)

    def f(a):
        return np.sum(np.linalg.inv(a @ a.T + np.eye(len(a))))

    c, a, out = (
        fdiff.cfunc(fdiff.grad(f), np.zeros((40, 40))),
        rng.normal(size=(40, 40)),
        np.empty((40, 40)),
    )
    for _ in range(3):
        c.ctypes(a, out)
        np.testing.assert_allclose(out, fdiff.grad(f)(a), rtol=1e-9, atol=1e-12)
    c.check()


# --- SciPy ------------------------------------------------------------------------------------


@Both
def test_quad_of_a_derivative(misses):
    c = fdiff.cfunc(fdiff.grad(wave), 0.5, misses=misses)
    assert isinstance(c.low_level_callable, LowLevelCallable)
    same(quad(c.low_level_callable, 0.0, 1.0)[0], wave(1.0) - wave(0.0))


def test_nquad_of_numbers_and_of_an_array():
    def f(x, y):
        return np.exp(-x * y) * np.sin(x + y)

    want = nquad(f, [[0, 1], [0, 2]])[0]
    same(nquad(fdiff.cfunc(fdiff.jit(f), 0.1, 0.2).low_level_callable, [[0, 1], [0, 2]])[0], want)
    c = fdiff.cfunc(fdiff.jit(lambda x: f(x[0], x[1])), np.zeros(2))
    same(nquad(c.low_level_callable, [[0, 1], [0, 2]])[0], want)


def test_quad_passes_further_arguments():
    c = fdiff.cfunc(fdiff.grad(lambda x, a: a * x**3), 0.5, 2.0)
    same(quad(c.low_level_callable, 0.0, 1.0, args=(4.0,))[0], 4.0)


@pytest.mark.parametrize("count", [1, 2])
def test_user_data_is_the_last_array(count):
    data = np.array([1.0, 2.0])
    f = (lambda x, p: p[0] * x + p[1]) if count == 1 else (lambda x, y, p: p[0] * x * y + p[1])
    call = fdiff.cfunc(fdiff.jit(f), *[0.5] * count, data).low_level_callable

    def integral(call):
        return nquad(call, [[0.0, 1.0]] * count)[0]

    same(integral(call), 0.5**count + 2.0)
    data[:] = 4.0, -1.0
    same(integral(call), 4.0 * 0.5**count - 1.0)
    other = np.array([2.0, 0.0])
    same(
        integral(LowLevelCallable(call.function, ctypes.c_void_p(other.ctypes.data))),
        2 * 0.5**count,
    )


def test_user_data_after_an_array():
    data = np.array([2.0])
    c = fdiff.cfunc(fdiff.jit(lambda x, p: p[0] * x[0] * x[1]), np.zeros(2), data)
    same(nquad(c.low_level_callable, [[0, 1], [0, 1]])[0], 0.5)


def test_a_wrong_number_of_variables_is_an_error():
    c = fdiff.cfunc(fdiff.jit(lambda x: x[0] * x[1]), np.zeros(2))
    with pytest.warns(IntegrationWarning):  # of NaN
        assert np.isnan(nquad(c.low_level_callable, [[0.0, 1.0]])[0])
    with pytest.raises(InputError, match="another number of variables than the examples have"):
        c.check()
    c.check()


def test_what_scipy_cannot_call():
    c = fdiff.cfunc(fdiff.grad(rosenbrock), np.zeros(3))
    with pytest.raises(InputError, match="which return a float64; this is void f"):
        c.low_level_callable  # noqa: B018 - a property that raises


# --- what must hold ---------------------------------------------------------------------------


def test_another_branch_gets_a_kernel_when_it_is_taken():
    c = fdiff.cfunc(fdiff.grad(kinked), 0.3)
    for t in (0.7, 0.2, 0.9, -0.4):
        same(c.ctypes(t), fdiff.grad(kinked)(t))
    same(quad(c.low_level_callable, 0.0, 2.0, points=[0.5])[0], 8.0 - 0.125 + np.sin(0.5))
    c.check()


def test_another_branch_is_an_error_where_python_must_not_be_asked():
    c = fdiff.cfunc(fdiff.grad(kinked), 0.3, misses="raise")
    same(c.ctypes(0.2), np.cos(0.2))
    assert np.isnan(c.ctypes(0.7))
    same(c.ctypes(0.1), np.cos(0.1))
    with pytest.raises(InputError, match="no kernel was made"):
        c.check()
    c.check()


@Both
def test_values_that_decided_are_compared(misses):
    def f(x, index):
        return np.sum(x[: int(index[0])] ** 2)

    c = fdiff.cfunc(fdiff.grad(f), np.ones(3), np.array([2]), misses=misses)
    out = np.empty(3)
    c.ctypes(np.ones(3), np.array([2]), out)
    same(out, [2.0, 2.0, 0.0])
    c.ctypes(np.ones(3), np.array([1]), out)
    if misses == "python":
        same(out, [2.0, 0.0, 0.0])
        c.check()
    else:
        assert np.isnan(out).all()
        with pytest.raises(InputError, match="no kernel was made"):
            c.check()


@Both
def test_huge_angles(misses):
    c = fdiff.cfunc(fdiff.grad(lambda t: np.sin(t * t)), 0.3, misses=misses)
    for t in (1e8, 0.3, 1e20):
        same(c.ctypes(t), 2.0 * t * np.cos(t * t))
    c.check()


@Both
def test_a_failure_gives_nan_and_is_told(misses):
    c = fdiff.cfunc(fdiff.jit(np.linalg.solve), np.eye(2), np.ones(2), misses=misses)
    out = np.empty(2)
    c.ctypes(np.zeros((2, 2)), np.ones(2), out)
    assert np.isnan(out).all()
    c.ctypes(2.0 * np.eye(2), np.ones(2), out)
    same(out, [0.5, 0.5])
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        c.check()
    c.check()


@Both
def test_an_index_out_of_bounds(misses):
    c = fdiff.cfunc(fdiff.jit(lambda x, k: x[k]), np.ones(3), np.array([0, 1]), misses=misses)
    out = np.empty(2)
    c.ctypes(np.ones(3), np.array([1, 3]), out)
    assert np.isnan(out).all()
    with pytest.raises(IndexError):
        c.check()


def test_a_failure_of_integers_is_the_smallest():
    c = fdiff.cfunc(fdiff.jit(lambda x, k: x[k]), np.array([5, 6]), np.array([0, 1]))
    out = np.empty(2, int)
    c.ctypes(np.array([5, 6]), np.array([1, 2]), out)
    assert (out == np.iinfo(int).min).all()


@Both
def test_results_over_arguments(misses):
    c = fdiff.cfunc(fdiff.grad(rosenbrock), np.zeros(4), misses=misses)
    x = np.linspace(0.0, 1.0, 6)
    want = fdiff.grad(rosenbrock)(x[:4])
    c.ctypes(x[:4], x[1:5])
    if misses == "python":
        same(x[1:5], want)
        c.check()
    else:
        assert np.isnan(x[1:5]).all()
        with pytest.raises(InputError, match="written over an argument"):
            c.check()


def test_results_over_each_other_and_over_what_is_captured():
    weights = np.array([1.0, 2.0, 3.0])
    c = fdiff.cfunc(fdiff.jit(lambda x: (x * weights, weights - x)), np.zeros(3))
    x, out = np.ones(3), np.empty(3)
    c.ctypes(x, weights, out)
    same(out, [0.0, 1.0, 2.0])
    same(weights, [1.0, 2.0, 3.0])
    c.ctypes(x, out, out)
    same(out, weights - x)


# --- what is read from outside ----------------------------------------------------------------


def test_arrays_changed_in_place_are_seen_and_rebound_ones_are_not():
    scale = {"by": np.array([2.0, 3.0])}
    f = lambda x: np.sum(scale["by"] * x**2)
    c, out = fdiff.cfunc(fdiff.grad(f), np.zeros(2)), np.empty(2)
    c.ctypes(np.ones(2), out)
    same(out, [4.0, 6.0])
    first = scale["by"]
    first[:] = 10.0
    c.ctypes(np.ones(2), out)
    same(out, [20.0, 20.0])
    scale["by"] = np.zeros(2)
    c.ctypes(np.ones(2), out)
    same(out, [20.0, 20.0])


def test_a_new_branch_is_refused_after_what_is_read_was_rebound():
    read = {"by": np.array([2.0])}
    f = lambda t: np.sum(read["by"]) * t if t > 0.0 else -t
    c = fdiff.cfunc(fdiff.jit(f), 1.0)
    read["by"] = np.array([3.0])
    assert np.isnan(c.ctypes(-1.0))
    with pytest.raises(InputError, match="is not what it was"):
        c.check()


def test_a_function_that_is_never_the_same_is_refused():
    generator = np.random.default_rng(0)
    with pytest.warns(fdiff.errors.RetraceWarning), pytest.raises(UnsupportedError):
        fdiff.cfunc(fdiff.grad(lambda x: x * generator.normal()), 1.0)


def test_what_it_refers_to_lives_on():
    def made():
        weights = np.array([1.0, 2.0])
        f = fdiff.cfunc(fdiff.grad(lambda x: np.sum(weights * x**2)), np.zeros(2))
        g = fdiff.cfunc(fdiff.grad(lambda t: np.sum(weights) * t**2), 0.5)
        return f.ctypes, g.low_level_callable

    f, call = made()
    gc.collect()
    fdiff.cache_clear()
    fdiff.cfunc(fdiff.grad(wave), 0.5)  # loads code, and frees what nobody holds
    out = np.empty(2)
    f(np.ones(2), out)
    same(out, [2.0, 4.0])
    same(quad(call, 0.0, 1.0)[0], 3.0)


# --- threads, and C code ----------------------------------------------------------------------


def test_threads_that_take_different_branches_at_once():
    c, f = fdiff.cfunc(fdiff.grad(kinked), 0.3), fdiff.grad(kinked)
    points = np.linspace(-1.0, 2.0, 301)
    start, found = threading.Barrier(4), [None] * 4

    def run(k):
        start.wait()
        found[k] = [c.ctypes(t) for t in np.roll(points, 75 * k)]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    want = np.array([f(t) for t in points])
    for k in range(4):
        same(np.roll(found[k], -75 * k), want)
    c.check()


SOURCE = """
#include <pthread.h>
#include <stddef.h>
HEADER
typedef struct { FUNCTION f; double begin, sum; } job;
static void *work(void *p) {
    job *j = p;
    for (int k = 0; k < 1000; k++) j->sum += j->f(j->begin + k * 1e-3);
    return NULL;
}
double sum(FUNCTION f) {
    pthread_t threads[4];
    job jobs[4];
    double total = 0.0;
    for (int k = 0; k < 4; k++) {
        jobs[k] = (job){f, k - 2.0, 0.0};
        pthread_create(&threads[k], NULL, work, &jobs[k]);
    }
    for (int k = 0; k < 4; k++) {
        pthread_join(threads[k], NULL);
        total += jobs[k].sum;
    }
    return total;
}
"""


def compiled(source, folder):
    """A library of C code, compiled by the system's compiler."""
    (folder / "code.c").write_text(source)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread"]
    subprocess.run([CC, *flags, "-o", folder / "code.so", folder / "code.c"], check=True)
    return ctypes.CDLL(folder / "code.so")


@WITH_CC
@pytest.mark.parametrize("f", [wave, kinked], ids=lambda f: f.__name__)
def test_threads_of_c_code(f, tmp_path):
    """Threads that Python does not know, one of which may need another branch."""
    c = fdiff.cfunc(fdiff.grad(f), 0.3)
    source = SOURCE.replace("HEADER", c.header).replace("FUNCTION", f"grad_{f.__name__}")
    run = compiled(source, tmp_path).sum
    run.restype, run.argtypes = ctypes.c_double, [ctypes.c_void_p]
    points = [k - 2.0 + j * 1e-3 for k in range(4) for j in range(1000)]
    same(run(c.address), sum(fdiff.grad(f)(t) for t in points))
    c.check()


DESCENT = """
HEADER
void descend(value_and_grad_rosenbrock f, double *x, double *value, double rate, int steps) {
    double slope[3];
    for (int k = 0; k < steps; k++) {
        f(x, value, slope);
        for (int j = 0; j < 3; j++) x[j] -= rate * slope[j];
    }
}
"""


@WITH_CC
def test_c_code_that_minimises(tmp_path):
    c = fdiff.cfunc(fdiff.value_and_grad(rosenbrock), np.zeros(3), misses="raise")
    run = compiled(DESCENT.replace("HEADER", c.header), tmp_path).descend
    run.restype = None
    run.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_double, ctypes.c_int]
    x, value = np.array([0.5, 0.5, 0.5]), np.empty(())
    run(c.address, x.ctypes.data, value.ctypes.data, 1e-3, 20_000)
    assert value < 1e-4
    np.testing.assert_allclose(x, 1.0, atol=0.02)
    c.check()


# --- errors -----------------------------------------------------------------------------------


def test_wrong_calls():
    with pytest.raises(InputError, match=r"cfunc: expects a prepared function such as grad\(f\)"):
        fdiff.cfunc(wave, 0.5)
    with pytest.raises(InputError, match=r"(?s)'python' or 'raise', not 'ask'\..*Leave it out"):
        fdiff.cfunc(fdiff.grad(wave), 0.5, misses="ask")
    with pytest.raises(InputError, match=r"'f9.2.' names no dtype"):
        fdiff.cfunc(fdiff.grad(wave), "f9[2]")


def test_results_of_another_shape_are_an_error():
    c = fdiff.cfunc(fdiff.jit(lambda x: x[:2] if x[0] > 0.0 else x[:1]), np.ones(3))
    out = np.empty(2)
    c.ctypes(-np.ones(3), out)
    assert np.isnan(out).all()
    with pytest.raises(InputError, match="A C function has results of one shape"):
        c.check()


def test_it_is_not_pickled():
    with pytest.raises((TypeError, ValueError), match="pickle"):
        pickle.dumps(fdiff.cfunc(fdiff.grad(wave), 0.5))


def test_numba_is_not_imported():
    code = (
        "import sys, fdiff; c = fdiff.cfunc(fdiff.grad(lambda t: t * t), 0.5);"
        "assert c.ctypes(3.0) == 6.0; assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


WITHOUT_GIL = """
import ctypes, sys
import numpy as np
import fdiff

def kinked(t):
    return np.linalg.solve(t * np.eye(2), np.ones(2))[0] * (t**3 if t > 0.5 else np.sin(t * t))

c = fdiff.cfunc(fdiff.grad(kinked), 0.3, misses="raise")
run = ctypes.PyDLL(sys.argv[1]).sum  # which keeps the GIL while the threads are at work
run.restype, run.argtypes = ctypes.c_double, [ctypes.c_void_p]
assert np.isnan(run(c.address))
try:
    c.check()
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.slow
@WITH_CC
def test_calls_do_not_wait_for_the_gil_where_python_must_not_be_asked(tmp_path):
    """Threads that would never get the GIL: misses, singular matrices and huge angles."""
    header = "typedef double (*slope)(double);"
    source = SOURCE.replace("HEADER", header).replace("FUNCTION", "slope")
    compiled(source.replace("k - 2.0", "k * 1e6 - 2e6"), tmp_path)
    command = [sys.executable, "-c", WITHOUT_GIL, tmp_path / "code.so"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() in {"InputError", "LinAlgError"}


@Both
def test_no_memory_for_the_workspace(misses):
    def f(a):
        return np.sum(np.linalg.inv(a @ a.T + np.eye(len(a))))

    c = fdiff.cfunc(fdiff.grad(f), np.zeros((40, 40)), misses=misses)
    nothing = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda size: 0)
    place = c_entry.PLACES["ALLOCATE"]
    c._entry.words[place] = ctypes.cast(nothing, ctypes.c_void_p).value
    out = np.empty((40, 40))
    c.ctypes(np.eye(40), out)
    assert np.isnan(out).all()
    with pytest.raises(MemoryError, match="workspace of a call"):
        c.check()


def test_a_failure_where_results_lie_over_arguments():
    c = fdiff.cfunc(fdiff.jit(np.linalg.solve), np.eye(2), np.ones(2))
    b = np.ones(2)
    c.ctypes(np.zeros((2, 2)), b, b)
    assert np.isnan(b).all()
    with pytest.raises(np.linalg.LinAlgError):
        c.check()


def test_a_function_without_a_signature_and_one_that_is_given_a_keyword():
    c = fdiff.cfunc(fdiff.jit(min), 2.0, 3.0)
    assert "(double x0, double x1)" in c.header
    assert c.ctypes(4.0, 5.0) == 4.0
    assert c.ctypes(4.0, 3.0) == 3.0
    c = fdiff.cfunc(fdiff.jit(lambda x, *, rate: x * rate), 2.0, rate=3.0)
    assert "(double x, double rate)" in c.header
    assert c.ctypes(4.0, 5.0) == 20.0
    assert "fdiff.cfunc of jit(<lambda>): double f(double x, double rate)" in repr(c)
