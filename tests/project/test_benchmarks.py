"""The benchmarks: every kernel written by hand is right, and the harness does what it says.

The references share no code with the kernels: complex steps of the plain function where it takes
complex numbers, central differences elsewhere. No other package than those of `test` is needed.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import fdiff
from fdiff.trace.trace_stack import occupied

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks import dispatch, inputs, limit, plot, report, run  # noqa: E402 - beside the package
from benchmarks.cases import CASES  # noqa: E402 - as above
from benchmarks.limit import maths  # noqa: E402 - as above
from benchmarks.limit.settings import kernel  # noqa: E402 - as above
from benchmarks.peers import PEERS  # noqa: E402 - as above
from benchmarks.worker import deviation, flat  # noqa: E402 - as above

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # users' loaders

ACCURACY = 1e-11  # of the hand-written kernels against fdiff, relative to the largest entry
STEP = 1e-5  # of differences of fourth order: STEP**4 against eps / STEP
DIFFERENCES = 2e-9
ULPS = 3  # of the functions the kernels call

smallest = {}
for case in CASES.values():
    known = smallest.setdefault((case.call, case.kernel), case)
    if case.size < known.size:
        smallest[case.call, case.kernel] = case

# Kernels that take Numba seconds to compile.
LONG = {"hand", "lstm", "gmm", "mlp_loss", "bundle"}
each_kernel = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.kernel in LONG else [])
        for case in smallest.values()
    ],
)


def function(case):
    """The plain function of the case, of its differentiated arguments alone, and these."""
    xs, data = case.arguments()
    f = case.pick(inputs.functions(case.file, np))
    return (lambda *xs: f(*xs, *data)), xs


def by_hand(case):
    xs, data = case.arguments()
    return limit.kernel(case.call, case.kernel)(*xs, *data)


def by_fdiff(case):
    f, xs = function(case)
    if case.call == "value_and_grad":
        argnums = 0 if len(xs) == 1 else tuple(range(len(xs)))
        return fdiff.value_and_grad(f, argnums=argnums)(*xs)
    return getattr(fdiff, case.call.removeprefix("fresh_"))(f)(*xs)


def along(f, xs, directions):
    """The derivative of `f` along a direction, by differences of fourth order."""

    def at(t):
        return flat(f(*(x + t * d for x, d in zip(xs, directions, strict=True))))

    near, far = at(STEP) - at(-STEP), at(2 * STEP) - at(-2 * STEP)
    return (8.0 * near - far) / (12.0 * STEP)


def gradient_by_hand(case):
    """For second derivatives: the kernel of the first, which has a test of its own."""
    gradient = limit.kernel("value_and_grad", case.kernel)
    _, data = case.arguments()
    return lambda x: gradient(x, *data)[1]


def linearised(case, directions):
    """What is to be differentiated, at which points, and the kernel's derivative along them."""
    f, xs = function(case)
    found = by_hand(case)
    if case.call == "value_and_grad":
        value, slopes = found
        assert np.isclose(value, flat(f(*xs))[0], rtol=1e-12)
        return f, xs, flat(slopes) @ flat(directions)
    if case.call == "vjp":
        z, v = xs
        assert np.allclose(found[0], f(z), rtol=1e-11, atol=1e-11)
        return lambda z: v @ f(z), [z], found[1] @ directions[0]
    if case.call == "hvp":
        directions[:] = xs[1:]
        return gradient_by_hand(case), xs[:1], found
    g = gradient_by_hand(case) if case.call == "hessian" else f
    return g, xs, np.tensordot(found, directions[0], directions[0].ndim)


@each_kernel
def test_kernels_agree_with_fdiff(case, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    assert deviation(flat(by_hand(case)), flat(by_fdiff(case))) < ACCURACY


@each_kernel
def test_kernels_agree_with_differences(case):
    rng = np.random.default_rng(0)
    xs, _ = case.arguments()
    directions = [rng.normal(size=x.shape) * np.maximum(np.abs(x), 1e-300) for x in xs]
    f, xs, product = linearised(case, directions)
    wanted = along(f, xs, directions[: len(xs)])
    assert np.max(np.abs(flat(product) - wanted)) < DIFFERENCES * np.max(np.abs(wanted))


def applied(f):
    @kernel
    def loop(x, out):
        for i in range(x.size):
            out[i] = f(x[i])

    def call(x):
        out = np.empty_like(x)
        loop(x, out)
        return out

    return call


@maths.function
def error_function(x):
    return maths.erf(x, maths.exp(-x * x))


@pytest.mark.parametrize(
    ("f", "reference", "low", "high"),
    [
        (maths.exp, np.exp, -700.0, 700.0),
        (maths.exp, np.exp, -1.0, 1.0),
        (maths.log, np.log, 1e-300, 10.0),
        (maths.log1p, np.log1p, -0.9, 10.0),
        (maths.sin, np.sin, -100.0, 100.0),
        (maths.cos, np.cos, -100.0, 100.0),
        (maths.tanh, np.tanh, -25.0, 25.0),
        (error_function, special.erf, -7.0, 7.0),
    ],
)
def test_functions_of_the_kernels(f, reference, low, high):
    x = np.random.default_rng(0).uniform(low, high, 2000)
    wanted = reference(x)
    assert np.max(np.abs(applied(f)(x) - wanted) / np.spacing(np.abs(wanted))) <= ULPS


# --------------------------------------------------------------------------------- the harness


def test_every_case_has_a_kernel_and_every_kernel_a_case():
    assert set(smallest) == set(limit.KERNELS)


def test_a_row_is_measured(tmp_path):
    """Three peers and the interpreter, each in a process; then the report, and the plot."""
    name = "value+grad sum(x²) n=3"
    found = run.all_peers(name, ["numpy", "limit", "disk"], 0.01)
    asked = {"interpreted", "numpy", "limit", "disk"}
    assert list(found) == [peer for peer in PEERS if peer in asked]
    assert found["disk"] == {"skipped": "without a run of fdiff compiled nothing is kept"}
    for figures in (found["interpreted"], found["numpy"], found["limit"]):
        assert figures["deviation"] < 1e-12
        assert 0 < figures["quartiles"][0] <= figures["quartiles"][2] < figures["first"]
        assert figures["peak"] > 1e7
    raw = json.loads(json.dumps({"cases": {name: found}, "machine": run.machine()}))
    raw["machine"] |= {"date": "2026-01-01", "rounds": 1}
    text = report.markdown(raw)
    assert "fdiff / hand-written" in text
    assert "fdiff / `f` alone" in text
    assert f"| {report.duration(report.median(found['numpy']))} |" in text
    (path,) = plot.plots(raw, tmp_path)
    assert path.read_text(encoding="utf-8").startswith("<?xml")
    assert set(plot.WARM_ORDER) <= set(plot.COLOURS)


def test_a_peer_that_fails_or_is_late_says_so(monkeypatch, tmp_path):
    wrong = run.one("no such case", "limit", 0.0, tmp_path / "r.npy", tmp_path)
    assert wrong["error"].startswith("KeyError")
    monkeypatch.setattr(run, "PATIENCE", 0.05)
    late = run.one("value+grad sum(x²) n=3", "limit", 0.0, tmp_path / "r.npy", tmp_path)
    assert late["late"] == 0.05
    assert report.cell(late, "first") == "> 0.05 s"


def test_means_and_ratios():
    def timed(seconds):
        return {"quartiles": [seconds] * 3, "first": 1.0}

    cases = {
        "a": {"limit": timed(1.0), "fdiff": timed(2.0), "jax": timed(8.0)},
        "b": {"limit": timed(1.0), "fdiff": timed(8.0), "torch": timed(4.0), "jax": {}},
    }
    text = report.means(cases)
    assert "fdiff / hand-written 4.00 (2 cases)" in text
    assert "JAX / fdiff 4.00 (1 cases)" in text
    assert "best other / fdiff 1.41 (2 cases)" in text
    assert "| b | — | 8.00 s | 1.00 s | 4.00 s (torch) |" in report.summary_table(cases)


def test_the_duties_of_a_call_are_calls(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.delitem(occupied, "kinks", raising=False)  # as if nobody had asked for errors
    name = "value+grad sum(x²) n=3"
    calls, xs = dispatch.duties(name)
    assert len(calls) == len(dispatch.DUTIES)
    _, slope = calls[-1](*xs)
    np.testing.assert_allclose(slope, 2.0 * xs[0])
    assert all(seconds > 0.0 for seconds in dispatch.nanoseconds(calls[-1:], xs))
