"""Contexts are left as a whole, wherever a signal handler raises, also while its error is kept."""

import ast
import gc
import itertools
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff import optimize
from fdiff.autograd import forward_ad, graph
from fdiff.autograd.thread_state import state
from fdiff.foreign_errors import contextmanager, whole_exit
from fdiff.functional.call.kink_policy import policy
from fdiff.process import anomaly_watch, observed_spans
from fdiff.process.memory_reserve import budget
from fdiff.process.threads import Flag
from fdiff.trace.trace_stack import occupied, stack
from fdiff.transforms.simplify import SimplifyingTrace

FOLDER = Path(fdiff.__file__).parent
autograd = fdiff.autograd
X = np.linspace(0.1, 0.9, 5)

CONTEXTS = {
    "no_grad": autograd.no_grad,
    "inference_mode": autograd.inference_mode,
    "set_grad_enabled": lambda: autograd.set_grad_enabled(False),
    "hooks": lambda: graph.saved_tensors_hooks(np.array, np.array),
    "on_cpu": graph.save_on_cpu,
    "no_hooks": lambda: graph.disable_saved_tensors_hooks("none here"),
    "copies": graph.allow_mutation_on_saved_tensors,
    "dual_level": forward_ad.dual_level,
    "layouts": lambda: autograd.enforce_grad_layout_policy(False),
    "anomalies": lambda: autograd.detect_anomaly(check_nan=False),
    "nans": lambda: fdiff.debug_nans(),
    "kinks": lambda: fdiff.kinks("raise"),
    "budget": lambda: fdiff.memory_budget(100_000),
    "profile": fdiff.profiler.profile,
}


# Functions, too, as in torch: the call itself sets the state.
SETTING = {
    "set_grad_enabled": autograd.set_grad_enabled,
    "layouts": autograd.enforce_grad_layout_policy,
}


def in_force():
    """What contexts change."""
    modes = (state.gradients, state.inference, state.dual, state.entered, state.keeps_layouts)
    saved = (state.hooks, state.refusal, state.copies, state.saved_watched)
    others = (policy.get(), budget.get(None), anomaly_watch.in_force(), observed_spans.observer)
    return (*modes, *saved, *others)


@pytest.fixture
def alarms():
    def handler(*_):
        raise TimeoutError("of a handler")

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_that_an_alarm_ends_is_left(name, alarms):
    gc.collect()  # contexts of other tests: what arrives in a finaliser Python drops
    make, before, kept = CONTEXTS[name], in_force(), []
    with make():
        pass
    end = time.monotonic() + 20
    for k in range(120):
        try:
            signal.setitimer(signal.ITIMER_REAL, 2e-4 + k * 1e-6)
            while time.monotonic() < end:
                context = make()
                with context:
                    pass
        except TimeoutError as error:
            kept.append(error)  # and with it the frames, and the context
        if name in SETTING:  # an alarm may come between the call and the ``with`` statement
            SETTING[name](True)
        assert in_force() == before, kept[-1]
    assert len(kept) == 120


@pytest.mark.parametrize("fault", range(6))
def test_what_a_generator_does_at_the_end_is_done(fault):
    """Whichever of the lines an error ends."""
    done = []

    def line(k):
        if k == fault and not done.count(k):
            done.append(k)
            raise TimeoutError
        done.append(k)

    @contextmanager
    def context():
        try:
            yield line
        finally:
            done.append("left")

    with pytest.raises(TimeoutError) if fault < 3 else context(), context() as inside:
        for k in range(3):
            inside(k)
    assert done[-1] == "left"


def test_an_alarm_in_set_leaves_a_flag_usable(alarms):
    """A `threading.Event` hangs in the next `set`: as in each fork, when progress is stopped."""
    flag, kept = Flag(), []
    for _ in range(100):
        try:
            signal.setitimer(signal.ITIMER_REAL, 2e-4)
            while True:
                flag.set()
        except TimeoutError as error:
            kept.append(error)
        assert flag.is_set()
        assert flag.wait(1.0)
    assert not Flag().wait(0.0)


def test_an_exit_that_is_ended_is_done_again():
    class Context:
        entered, faults = 1, 1

        def __enter__(self):
            return self

        @whole_exit
        def __exit__(self, *_):
            if self.faults:
                self.faults = 0
                raise TimeoutError
            self.entered = 0

    with pytest.raises(TimeoutError), Context() as context:
        pass
    assert context.entered == 0


# Contexts that count as long as the frame of their ``with`` statement runs, and those that change
# nothing that lasts.
OTHERS = {
    "error_state.py": 1, "foreign_errors.py": 2, "kernels/machine_code.py": 1,
    "process/garbage_collection.py": 1, "process/forking.py": 1, "process/observed_spans.py": 1,
    "process/progress.py": 1, "process/interrupt_safe_locks.py": 1, "trace/eager/eager_trace.py": 1,
    "trace/ordinary_trace.py": 1,
}  # fmt: skip
WHOLE = {"whole_exit", "uninterrupted_entry"}


@pytest.mark.slow
def test_exits_are_not_cut_short():
    counts, imports = {}, []
    for file in sorted(FOLDER.rglob("*.py")):
        name = file.relative_to(FOLDER).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "__exit__":
                if not WHOLE & {ast.unparse(decorator) for decorator in node.decorator_list}:
                    counts[name] = counts.get(name, 0) + 1
            elif isinstance(node, ast.ImportFrom) and node.module == "contextlib":
                imports += [name for a in node.names if a.name == "contextmanager"]
    assert counts == OTHERS
    assert imports == ["process/forking.py"]  # which is imported before anything else


FRESH = (eval(f"lambda x: np.sum(np.sin(x) * x) * {k}.0", {"np": np}) for k in itertools.count(1))
PUBLIC = {
    "explain": lambda f: fdiff.explain(fdiff.grad(f), X),
    "explain_types": lambda f: fdiff.explain(f, "f8[3]"),
    "draw": lambda f: fdiff.draw(f, X),
    "make_tape": lambda f: fdiff.make_tape(f, X),
    "source": lambda f: fdiff.source(fdiff.grad(f), X),
    "cfunc": lambda f: fdiff.cfunc(fdiff.grad(f), X),
    "least_squares": lambda f: optimize.least_squares(lambda p: p - f(X), np.zeros(2)),
    "gradcheck": lambda f: fdiff.gradcheck(f, X),
    "linearize": lambda f: fdiff.linearize(f, X),
    "grad": lambda f: fdiff.grad(f)(X),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_trace_that_an_exception_has_left_open_is_in_nobodys_way(name):
    """The exception came as `__exit__` began: `explain` failed until a call of `grad`."""

    def interrupted():
        SimplifyingTrace("vjp").__enter__()

    interrupted()
    PUBLIC[name](next(FRESH))
    assert not stack.traces
    assert not [trace for trace in occupied if isinstance(trace, SimplifyingTrace)]
