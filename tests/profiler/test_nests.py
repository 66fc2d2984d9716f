"""Loop nests of kernels in a profile: which there are, what is in them, how long they take."""

import numpy as np
import pytest

import fdiff
from fdiff.dispatch.tiers import profiled_kernels
from fdiff.kernels import clocked_kernels
from fdiff.process.observed_spans import KERNEL
from fdiff.profiler import profile
from fdiff.tree import flatten


def layer(w, x):
    h = np.tanh(w @ x)
    return np.sum(h * h) + np.sum(np.exp(x - np.max(x)))


W = np.random.default_rng(1).standard_normal((60, 80))
X = np.random.default_rng(2).standard_normal(80)


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")


def nests_of(prof):
    """The events of the nests inside each kernel; a first call may also load its entry stub."""
    kernels = [e for e in prof.function_events if e.name.startswith("kernel of")]
    return [
        (k, sorted((e for e in k.cpu_children if "loops" in e.args), key=when)) for k in kernels
    ]


def when(event):
    """Begin and end; nests that take no time by the clock begin together with the next."""
    return event.time_range.start, event.time_range.end


def test_each_nest_is_an_event_with_its_operations_and_lines():
    g = fdiff.value_and_grad(layer)
    g(W, X)
    with profile(with_stack=True) as prof:
        for _ in range(3):
            g(W, X)
    found = nests_of(prof)
    assert len(found) == 3
    tape = fdiff.make_tape(g, W, X)
    for kernel, nests in found:
        assert len(nests) > 2
        assert "processor's clock" in kernel.args["timing"]
        ends = [e.time_range.end for e in nests]
        assert [e.time_range.start for e in nests[1:]] == ends[:-1]  # one after the other
        assert kernel.time_range.start <= nests[0].time_range.start
        assert ends[-1] <= kernel.time_range.end
        assert sum(e.args["predicted_share"] for e in nests) == pytest.approx(1.0, abs=1e-3)
        for nest in nests:
            for name in nest.args["nodes"]:
                node = tape.nodes[int(name[1:])]
                assert node.primitive.name in nest.args["operations"]
    held = {name for e in found[0][1] for name in e.args["nodes"]}
    computing = {
        f"%{i}" for i, node in enumerate(tape.nodes)
        if node.args and node.type.shape and not node.primitive.structure.view
    }  # fmt: skip
    assert computing <= held
    first = layer.__code__.co_firstlineno
    lines = {line for e in found[0][1] for line in e.stack}
    assert {f"test_nests.py({first + k}): layer" for k in (1, 2)} <= lines


def test_a_nest_says_which_phase_it_computes():
    g = fdiff.value_and_grad(lambda x: np.sum(np.sqrt(np.cumsum(x))))
    g(X * X)
    with profile() as prof:
        g(X * X)
    ((_, nests),) = nests_of(prof)
    phases = [e.category for e in nests]
    assert phases[0] == "forward"
    assert phases[-1] == "forward, derivative"  # the root is computed again there


def test_a_kernel_of_one_nest_is_that_nest():
    g = fdiff.grad(lambda x: np.sum(np.sin(x) * x))
    g(X)
    with profile() as prof:
        g(X)
    ((kernel, (nest,)),) = nests_of(prof)
    assert nest.time_range == kernel.time_range
    assert nest.name.startswith("fused(") or nest.name in {"add", "sum"}


def test_long_kernels_are_timed_as_a_whole_with_predicted_shares():
    def unrolled(x):
        total = 0.0
        for k in range(60):
            total = total + np.sum(np.sin(x[k % 7 :] * (k + 1.5)))
        return total

    g = fdiff.grad(unrolled)
    before = g(X)
    with profile() as prof:
        during = g(X)
    assert before.tobytes() == during.tobytes()
    ((kernel, nests),) = nests_of(prof)
    assert nests == []
    assert kernel.args["timing"].startswith("measured as a whole: ")


def test_a_processor_without_a_known_clock_is_told(monkeypatch):
    monkeypatch.setattr(clocked_kernels, "has_clock", lambda: False)
    g = fdiff.value_and_grad(lambda w, x: layer(w, x) * 1.25)
    g(W, X)
    with profile() as prof:
        g(W, X)
    ((kernel, nests),) = nests_of(prof)
    assert nests == []
    assert "clock of this processor is not known" in kernel.args["timing"]
    shares = kernel.args["predicted_shares"]
    assert sum(int(text.rsplit(": ", 1)[1][:-1]) for text in shares) == pytest.approx(100, abs=5)


def test_a_timed_kernel_that_rounds_in_another_way_is_not_used(monkeypatch):
    monkeypatch.setattr(profiled_kernels, "_same_bits", lambda *_: False)
    g = fdiff.value_and_grad(lambda w, x: layer(w, x) * 1.75)
    value, gradient = g(W, X)
    with profile() as prof:
        within = g(W, X)
    assert within[0] == value
    assert within[1].tobytes() == gradient.tobytes()
    ((kernel, nests),) = nests_of(prof)
    assert nests == []
    assert "round in another way" in kernel.args["timing"]


def test_nests_that_threads_share(monkeypatch):
    def heavy(x):
        return np.sum(np.exp(np.sin(x))) + np.sum(np.sqrt(1.0 + x * x)[::-1] * np.cumsum(x))

    x = np.linspace(0.0, 3.0, 200_000)
    g = fdiff.value_and_grad(heavy)
    value, gradient = g(x)
    with profile() as prof:
        within = [g(x) for _ in range(3)]
    for found in within:
        assert found[0] == value
        assert found[1].tobytes() == gradient.tobytes()
    for kernel, nests in nests_of(prof):  # workers may wait for a core before and after
        assert "processor's clock" in kernel.args["timing"]
        covered = sum(e.cpu_time_total for e in nests)
        assert 0.0 < covered <= kernel.cpu_time_total * 1.001
        longest = max(nests, key=lambda e: e.cpu_time_total)
        assert longest.args["loops"] == "200000"


@pytest.mark.parametrize("rate", [0.04, 0.358, 1.0])  # nanoseconds for each tick
def test_stamps_are_timed_by_the_clocks_around_their_own_call(rate):
    begin = clocked_kernels.Moment(10**15, 7_000)
    end = clocked_kernels.Moment(10**15 + round(40_000 / rate), 47_000)
    stamps = np.array([10_000, 15_000, 30_000]) / rate
    ticks = 10**15 + np.round(stamps).astype(np.int64)
    assert clocked_kernels.Stamps(begin, ticks, end).times() == [17_000, 22_000, 37_000]
    elsewhere = np.array([10**15 - 99, 10**18])  # by a core with another clock
    assert clocked_kernels.Stamps(begin, elsewhere, end).times() == [7_000, 47_000]


def test_clocks_are_compared_when_the_thread_keeps_its_core(monkeypatch):
    times = iter([0, 9_000, 9_100, 9_140, 9_200, 80_000])
    monkeypatch.setattr(clocked_kernels, "perf_counter_ns", lambda: next(times))
    monkeypatch.setattr(clocked_kernels, "_ticks_now", lambda: iter([1, 2, 3]).__next__)
    assert clocked_kernels._moment() == (2, 9_120)


def test_errors_of_kernels_are_raised_in_a_profile_too():
    g = fdiff.grad(lambda x, k: np.sum(x[k] * x[k]) + np.sum(np.sort(x)))
    g(X, np.array([1, 2]))
    with profile(), pytest.raises(IndexError):
        g(X, np.array([1, 200]))


def test_angles_out_of_range_are_computed_by_libm():
    f = lambda x: np.sum(np.sin(x)) + np.sum(np.sort(np.cos(x)))
    g = fdiff.grad(f)
    far = X * 1e12
    before = g(far)
    with profile():
        assert g(far).tobytes() == before.tobytes()


def test_recorded_arrays_have_nests_of_their_backward_pass():
    def pass_through():
        w = fdiff.autograd.tensor(W, requires_grad=True)
        layer(w, X).backward()
        return w.grad.value

    before = pass_through()
    with profile() as prof:
        during = pass_through()
    assert before.tobytes() == during.tobytes()
    ((_, nests),) = nests_of(prof)
    assert {e.category for e in nests} <= {"backward", KERNEL}


BENCHMARKS = (
    "value+grad Rosenbrock n=1,000", "HVP Rosenbrock n=1,000", "value+grad chain n=10,000",
    "value+grad Black-Scholes n=1,000", "value+grad Bratu residual 32×32",
    "Hessian logistic 1,000×20", "value+grad MLP 32×10-16-16-1", "Jacobian MLP 64-64-64-10",
    "Jacobian B tanh(A x) n=30", "value+grad Lennard-Jones n=50",
    "value+grad Gaussian process n=50", "Jacobian NIST Gauss1", "value+grad GMM 1k d=10 K=25",
    "VJP bundle adjustment p=31,843",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_results_of_benchmarks_are_the_same_bits(name):
    from benchmarks.cases import CASES
    from benchmarks.peers import fdiff_peer
    from benchmarks.worker import prepared

    xs, _ = CASES[name].arguments()
    derivative = prepared(CASES[name], "fdiff", fdiff_peer)
    before = [np.array(leaf) for leaf in flatten(derivative(*xs))[0]]
    with profile() as prof:
        during = flatten(derivative(*xs))[0]
    found = nests_of(prof)
    assert found
    assert not any("round in another way" in kernel.args["timing"] for kernel, _ in found)
    for a, b in zip(before, during, strict=True):
        assert a.tobytes() == np.asarray(b).tobytes()
