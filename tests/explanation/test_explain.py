"""`explain`: each fact against the same fact found out in another way."""

import inspect
import os
import re
import subprocess
import sys
import tracemalloc
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff.dispatch.tiers.tiered_execution import runner
from fdiff.errors import (
    DENSE_WAYS,
    DtypeError,
    DtypeWarning,
    InputError,
    RetraceWarning,
    SizeError,
)
from fdiff.explanation import costs, html, text
from fdiff.interpret import Interpreter

RNG = np.random.default_rng(5)
SCALE = np.array([1.0, 2.0, 3.0])


def chain(x):
    return np.sum(np.sin(x) * np.exp(-(x**2)) + np.log1p(x**2) * np.tanh(x))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def residuals(b, t):
    return b[0] * np.exp(-b[1] * t) + b[2]


def layer(w, x):
    return np.sum(np.tanh(x @ w))


# --- counts -----------------------------------------------------------------------------------


def test_nodes_are_those_of_make_tape():
    x = np.linspace(0.1, 1.0, 50)
    told = fdiff.explain(chain, x)
    assert told.tape == fdiff.make_tape(chain, x)
    assert told.cost("gradient").nodes == len(fdiff.make_tape(fdiff.grad(chain), x))
    assert told.cost("Jacobian").nodes == len(fdiff.make_tape(fdiff.jacobian(chain), x))
    assert told.cost("value").nodes == len(told.tape)


@pytest.mark.slow
def test_operations_are_counted():
    def flops(f, *args):
        return fdiff.explain(f, *args).cost("value").flops

    x, a, b = np.ones(1000), np.ones((20, 30)), np.ones((30, 40))
    assert flops(lambda x: x + 1.0, x) == 1000
    assert flops(lambda x: x**2, x) == 2000  # a product counts two
    assert flops(np.sum, x) == 1000
    assert flops(lambda x: x / 3.0, x) == 4000
    assert flops(np.sin, x) == 20_000
    assert flops(np.matmul, a, b) == 2 * 20 * 30 * 40
    assert flops(lambda m: np.linalg.cholesky(m), np.eye(30)) == 30**3 // 3
    assert flops(lambda x: x[::-1].reshape(10, 100).T, x) == 0
    told = fdiff.explain(lambda m: np.linalg.eigvalsh(m)[0], np.eye(3))
    assert told.cost("value").uncounted == ("eigvalsh",)


@pytest.mark.parametrize("derivative", [lambda f: f, fdiff.grad], ids=["value", "gradient"])
@pytest.mark.parametrize("f", [chain, rosenbrock])
def test_memory_is_what_numpy_holds(f, derivative):
    x = RNG.normal(size=100_000)
    tape = fdiff.make_tape(derivative(f), x)
    run = Interpreter(tape)
    run(x)
    tracemalloc.start()
    try:
        run(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    what = "value" if f is derivative(f) else "gradient"
    told = fdiff.explain(f, x).cost(what).numpy_memory
    assert told <= peak * 1.01
    assert told >= 0.7 * peak  # functions of NumPy that compute in steps hold more


def scanned(x):
    return np.cumsum(np.exp(x))[::-1] / x


@pytest.mark.slow
@pytest.mark.parametrize("f", [chain, rosenbrock, scanned])
def test_memory_is_what_a_kernel_holds(f):
    x = 1.0 + RNG.uniform(size=50_000)
    told = fdiff.explain(f, x).cost("value").kernel_memory
    # In a process of its own: where a test has asked for kinks or anomalies before, calls go the
    # general way, whose objects are no memory of the kernel.
    code = f"import test_explain; print(test_explain.peak_of_kernel(test_explain.{f.__name__}))"
    paths = os.pathsep.join([*filter(None, sys.path), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert abs(int(done.stdout) - told) <= max(8192, told)  # workspaces come in powers of two


def peak_of_kernel(f):
    """Bytes that a call of the kernel of `f` allocates, workspace and results."""
    x = 1.0 + RNG.uniform(size=50_000)
    call = fdiff.jit(f)
    for _ in range(3):
        call(x)
    fdiff.kernels.executable.release_workspaces()
    tracemalloc.start()
    try:
        call(x)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- the mode -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "args", "sparse"),
    [
        (residuals, (np.ones(3), np.linspace(0.0, 1.0, 20)), None),
        (lambda x: np.array([np.sum(x), np.prod(x)]), (np.ones(40),), None),
        (lambda x: x[1:] * x[:-1], (np.ones(200),), True),
        (chain, (np.ones(30),), None),
    ],
    ids=["tall", "wide", "sparse", "scalar"],
)
def test_the_mode_is_the_one_that_the_call_takes(f, args, sparse):
    told = fdiff.explain(f, *args).cost("Jacobian")
    prepared = fdiff.jacobian(f)
    prepared(*args)
    ((variant,),) = prepared.program.variants.values()
    terms = bool(variant.plan.derivative.terms.structures.kept)
    assert terms or not sparse
    assert told.mode == ("terms" if terms else variant.plan.derivative.requested.mode)
    assert told.nodes == len(variant.plan.only_step().tape)
    if not terms:
        sizes = {"forward": args[0].size, "reverse": np.size(f(*args))}
        assert told.sweeps == sizes[told.mode]


@pytest.mark.slow
def test_a_hessian_of_chunks_is_told_as_it_runs():
    x = RNG.normal(size=3000)
    told = fdiff.explain(lambda x: np.sum(np.sin(np.cumsum(x)) ** 2), x).cost("Hessian")
    assert told.sweeps == 3000
    assert told.note.startswith("a sweep for each of 3,000 columns, in chunks")
    assert told.result == 8 * 3000**2
    assert told.result < told.numpy_memory < told.result + 2 * 256 * 2**20  # and one chunk


@pytest.mark.parametrize(("f", "size", "what", "gib", "way"), [
    (rosenbrock, 100_000, "Hessian", "74.5", "(hvp)"),
    (np.cumsum, 50_000, "Jacobian", "18.6", "(jvp and vjp)"),
    (np.sin, 50_000, "Jacobian", "18.6", "(jvp and vjp)"),
])  # fmt: skip
def test_a_result_of_gigabytes_says_its_size_and_the_way_out(f, size, what, gib, way):
    told = fdiff.explain(f, f"f8[{size}]")
    assert told.cost(what).result == 8 * size**2
    assert told.cost(what).numpy_memory >= told.cost(what).result
    for words in (str(told), told._repr_html_()):
        assert f"{what}: the result alone takes {gib} GiB." in words
        assert way in words
    small = fdiff.explain(f, "f8[10]")
    assert way not in str(small)


@pytest.mark.parametrize(
    ("operator", "f"),
    [(fdiff.hessian, rosenbrock), (fdiff.jacrev, np.cumsum), (fdiff.jacfwd, np.sin)],
)
def test_a_dense_result_without_room_names_the_way_out(operator, f):
    x = np.ones(5_000_000)  # 182 TiB
    for call in (lambda: operator(f)(x), lambda: operator(f, chunk_size=10)(x)):
        with pytest.raises(SizeError, match="Unable to allocate 182") as info:
            call()
        assert str(info.value).startswith(f"{operator.__name__}({f.__name__}): ")
        assert str(info.value).endswith(DENSE_WAYS[operator.__name__])
        assert "test_explain.py:" in str(info.value)
    with pytest.raises(SizeError, match="rray is too big"):
        operator(f)(np.broadcast_to(1.0, 4_000_000_000))


def test_a_lack_of_memory_in_the_function_is_the_functions():
    with pytest.raises(MemoryError) as info:
        fdiff.jacobian(lambda x: np.empty(25 * 10**12) * x)(1.0)
    assert not isinstance(info.value, SizeError)


def test_what_has_no_derivative_says_why():
    told = fdiff.explain(lambda x: (x, x), np.ones(3))
    refused = {row.what: row.refused for row in told.costs if row.refused}
    assert refused["gradient"] == "the function must return a scalar, not tuple."
    assert "Hessian" not in refused  # of each output
    told = fdiff.explain(lambda n: n * 2.0, np.ones(3, bool))
    assert [row.what for row in told.costs] == ["value"]
    assert "only floating-point inputs can be differentiated" in told.notes[0]


# --- nothing runs -----------------------------------------------------------------------------


def output_of(code, **variables):
    run = [sys.executable, "-c", code]
    environment = {**os.environ, **variables}
    environment.pop("FDIFF_VERIFY", None)  # it looks at kernels by means of LLVM
    return subprocess.run(run, check=True, capture_output=True, text=True, env=environment).stdout


def test_nothing_is_compiled_loaded_or_written(tmp_path):
    code = (
        "import sys, fdiff, numpy as np\n"
        "def f(x):\n    return np.sum(np.sin(x) * x)\n"
        "for g in (f, fdiff.grad(f), fdiff.hessian(f), fdiff.jit(f)):\n"
        "    told = fdiff.explain(g, np.ones(3))\n"
        "    str(told), told._repr_html_()\n"
        "loaded = [m for m in ('llvmlite.binding', 'numba') if m in sys.modules]\n"
        "print(loaded, fdiff.cache_info().compiled)\n"
    )
    assert output_of(code, FDIFF_CACHE_DIR=str(tmp_path)) == "[] 0\n"
    assert list(tmp_path.iterdir()) == []


def test_import_loads_nothing_of_it():
    code = "import sys, fdiff; print([m for m in sys.modules if 'explanation' in m])"
    assert output_of(code) == "[]\n"


def test_the_next_call_uses_the_trace():
    prepared = fdiff.grad(lambda x: np.sum(x * x * 1.625))
    fdiff.explain(prepared, np.ones(3))
    ((variant,),) = prepared.program.variants.values()
    assert repr(prepared).endswith("f8[3]: not run yet>")
    prepared(np.ones(3))
    assert list(prepared.program.variants.values()) == [[variant]]


# --- tier, compiler, cache -----------------------------------------------------------------------


def only_step(told):
    (step,) = told.steps
    return step


def test_a_kernel_is_made_when_it_was_told(monkeypatch):
    monkeypatch.setenv("FDIFF_BACKGROUND", "0")
    x = RNG.normal(size=30_000)

    def f(x):
        return np.sum(np.arctan(x) * np.exp(-(x**2)) * 1.0375)

    prepared = fdiff.grad(f)
    tier = only_step(fdiff.explain(prepared, x)).tier
    assert (tier.tier, tier.spent) == ("NumPy", 0.0)
    tape = only_step(fdiff.explain(prepared, x)).tape
    run, before = runner(tape), 0.0
    while not run.compiled():
        tier = only_step(fdiff.explain(prepared, x)).tier
        assert tier.tier in ("NumPy", "bytecode", "kernel")
        before = run.account.spent
        prepared(x)
        assert before < 10.0, "no kernel after ten seconds"
    assert before >= tier.due
    assert only_step(fdiff.explain(prepared, x)).tier.tier == "kernel"


@pytest.mark.parametrize(
    ("variable", "tier"), [("interpret", "NumPy"), ("evaluate", "bytecode"), ("compile", "kernel")]
)
def test_a_tier_that_is_fixed_is_told(variable, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", variable)
    told = only_step(fdiff.explain(fdiff.grad(chain), np.ones(7))).tier
    assert (told.tier, told.why) == (tier, f"FDIFF_TIER={variable}")


def test_what_has_no_kernel_is_told():
    told = only_step(fdiff.explain(fdiff.jit(lambda m: np.linalg.eigvalsh(m)), np.eye(3)))
    assert told.kernel is None
    assert told.tier[:2] == ("NumPy", "there is no kernel for eigvalsh")


def test_the_cache_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path))
    fdiff.cache_clear()
    prepared = fdiff.jit(lambda x: np.arctan(x) * np.sqrt(x + 17.25))
    x = np.ones(4)

    def places():
        kernel = only_step(fdiff.explain(prepared, x)).kernel
        return kernel.text, kernel.code, kernel.compile_seconds > 0

    assert places() == ("", "", True)
    assert places() == ("memory", "", True)
    prepared(x)
    assert places() == ("memory", "memory", False)
    fdiff.cache_clear()
    assert list(tmp_path.glob("*.kernel"))
    assert places() == ("disk", "disk", False)
    fdiff.cache_clear(disk=True)
    assert not list(tmp_path.glob("*.kernel"))
    assert places() == ("", "", True)


def test_the_compiler_is_told(monkeypatch):
    monkeypatch.delenv("FDIFF_COMPILER", raising=False)
    x = np.ones(5)
    assert only_step(fdiff.explain(fdiff.grad(chain), x)).compiler == "llvm"
    by_name = fdiff.jit(lambda x: np.sin(x) * 3.5, compiler="numba")
    assert only_step(fdiff.explain(by_name, x)).compiler == "numba"
    monkeypatch.setenv("FDIFF_COMPILER", "numba")
    told = only_step(fdiff.explain(fdiff.grad(chain), x))
    assert told.compiler == told.kernel.compiler == "numba"
    on_gpu = fdiff.explain(fdiff.grad(chain, device="cuda"), x)
    assert only_step(on_gpu).compiler == "numba.cuda"
    assert only_step(on_gpu).tier.tier == "CUDA kernels"
    assert on_gpu.device == "cuda"
    assert any("launch" in note for note in on_gpu.notes)


# --- arrays and guards ---------------------------------------------------------------------------


def test_arrays_have_the_names_of_the_code():
    offset = np.array([4.0, 5.0, 6.0])

    def f(x, p, *rest, scale=1.0):
        return np.sum(x * SCALE + offset * p["a"][1] + rest[0]) * scale

    told = fdiff.explain(fdiff.grad(f), np.ones(3), {"a": (1.0, 2.0)}, 3.0, scale=2.0)
    roles = {fact.name: fact.role for fact in told.inputs}
    assert roles == {
        "x": "differentiated",
        "p['a'][0]": "argument",
        "p['a'][1]": "argument",
        "rest[0]": "argument",
        "scale": "argument",
        "SCALE": "captured",
        "offset": "captured",
    }
    assert [str(type_) for _, type_ in told.outputs] == ["f8[]"]


def test_an_attribute_is_named():
    class Model:
        def __init__(self):
            self.weights = np.ones(3)

        def loss(self, x):
            return np.sum(x * self.weights)

    told = fdiff.explain(fdiff.grad(Model().loss), np.ones(3))
    assert [fact.name for fact in told.inputs] == ["x", "self.weights"]


def test_a_decorated_method_is_explained():
    class Model:
        @partial(fdiff.grad, argnums=1)
        def slope(self, x):
            return np.sum(x * x)

    with pytest.warns(RetraceWarning, match="an argument of type Model cannot be compared"):
        told = fdiff.explain(Model().slope, np.ones(3))
    assert any("traced again at every call" in note for note in told.notes)
    assert told.call == "grad(slope)"
    assert [(fact.name, fact.role) for fact in told.inputs] == [("x", "differentiated")]


def test_a_function_that_writes_says_so_and_is_not_run():
    values = []

    def f(x):
        values.append(np.sum(x))
        return np.sum(x**2)

    prepared = fdiff.grad(f)
    prepared(np.ones(3))
    told = fdiff.explain(prepared, np.ones(3))
    assert any("written again after every call" in note for note in told.notes)
    assert values == [3.0]


def test_a_function_that_branches_anew_each_time_says_so():
    def f(x):
        return sum(x[k] ** 2 if x[k] > 0.0 else -x[k] for k in range(12))

    prepared = fdiff.grad(f)
    for _ in range(40):
        prepared(RNG.normal(size=12))
    told = fdiff.explain(prepared, RNG.normal(size=12))
    assert told.steps == ()
    assert any("differentiated as it runs" in note for note in told.notes)
    assert told.cost("gradient").operations > 0


def test_branches_are_told_by_their_lines():
    def f(x):
        if x[0] > 0.5:
            return np.sum(x)
        return np.sum(x * x)

    told = fdiff.explain(fdiff.grad(f), np.ones(3))
    (line,) = told.guards
    assert re.fullmatch(r"test_explain\.py:\d+:  if x\[0\] > 0\.5:", line)
    assert fdiff.explain(fdiff.grad(f), np.zeros(3)).guards == (line,)  # the other way
    assert fdiff.explain(fdiff.grad(chain), np.ones(3)).guards == ()


def test_types_stand_for_arrays():
    by_type = fdiff.explain(fdiff.grad(layer), "f8[3]", "f8[100,3]")
    by_value = fdiff.explain(fdiff.grad(layer), np.ones(3), np.ones((100, 3)))
    assert by_type.costs == by_value.costs


def test_operators_of_vectors_and_batches_are_explained():
    x = np.ones(4)
    for prepared, args in (
        (fdiff.hvp(chain), (x, x)),
        (fdiff.vjp(np.sin), (x, x)),
        (fdiff.jvp(np.sin), (x, x)),
        (fdiff.vmap(chain), (np.ones((3, 4)),)),
        (fdiff.value_and_grad(chain), (x,)),
        (fdiff.jit(fdiff.grad(chain)), (x,)),
        (fdiff.jacrev(np.sin), (x,)),
    ):
        told = fdiff.explain(prepared, *args)
        step = only_step(told)
        prepared(*args)
        assert runner(step.tape).tier, prepared
        assert str(told)


# --- errors --------------------------------------------------------------------------------------


def test_wrong_calls_are_refused():
    x = np.ones(3)
    with pytest.raises(InputError, match=r"explain: expects a function first, not ndarray"):
        fdiff.explain(x)
    with pytest.raises(InputError, match=r"argnums is given, but grad\(chain\) has its own"):
        fdiff.explain(fdiff.grad(chain), x, argnums=1)
    with pytest.raises(InputError, match=r"device must be one of 'cpu', 'cuda', not 'tpu'"):
        fdiff.explain(chain, x, device="tpu")
    with pytest.raises(InputError, match=r"argnums=3 requires at least 4 positional arguments"):
        fdiff.explain(chain, x, argnums=3)
    with pytest.warns(DtypeWarning, match="integers .* are taken as float64"):
        fdiff.explain(chain, np.arange(3), argnums=0)
    with pytest.raises(DtypeError, match="only floating-point inputs"):
        fdiff.explain(chain, np.ones(3, bool), argnums=0)
    with pytest.raises(KeyError, match=r"there are value, gradient \(reverse\)"):
        fdiff.explain(chain, x).cost("gradient", "sideways")


# --- how it is shown -----------------------------------------------------------------------------


def test_text_and_table_have_the_same_facts():
    told = fdiff.explain(fdiff.grad(layer), np.ones(3), np.ones((100, 3)))
    text, html = str(told), told._repr_html_()
    assert repr(told) == text
    for word in ("grad(layer)", "differentiated", "forward over reverse", "NumPy", "nonlinear"):
        assert word in text
        assert word in html
    assert html.count("<table>") == html.count("</table>") == 7
    assert "x @ w" in text
    assert max(map(len, text.splitlines())) <= 110


def test_a_value_alone_prints():
    assert "tier      kernel: jit compiles at the first call" in str(fdiff.explain(np.sin, 1.0))
    assert "f: 1 node recorded" in str(fdiff.explain(lambda: 2.0)).replace("<lambda>", "f")


PAGE = Path(__file__).parents[2] / "docs" / "explain.md"


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch):
    """The block of the page, from a process with nothing in the cache."""
    monkeypatch.delenv("FDIFF_COMPILER", raising=False)  # the page tells the price of our own
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(import numpy.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    script = (
        "import linecache\n"
        f"code = {code!r}\n"
        "linecache.cache['explain.md'] = (0, None, code.splitlines(keepends=True), 'explain.md')\n"
        "exec(compile(code + 'print(explained)', 'explain.md', 'exec'))\n"
    )
    printed = output_of(script, FDIFF_CACHE_DIR=str(tmp_path))
    due = re.compile(r"taken \d+ ms")  # a quarter of it where a second core is free
    assert due.sub("", printed) == due.sub("", shown)


def test_a_long_tape_is_not_derived_for_a_report(monkeypatch):
    for module in (costs, text, html):
        monkeypatch.setattr(module, "LONGEST", 10)
    monkeypatch.setattr(costs, "PATIENCE", 0.0)
    told = fdiff.explain(fdiff.grad(chain), np.ones(3))
    assert told.cost("gradient").compile_seconds is None  # its text was not generated
    assert told.cost("gradient").seconds > 0.0
    assert only_step(told).kernel is None
    why = f"not looked at: with {len(told.tape)} nodes its transforms would take long"
    rows = {row.what: row.refused for row in told.costs}
    assert rows == {"value": "", "gradient": "", "Jacobian": why, "Hessian": why}
    assert "Dependence: ask .dependence" in str(told)
    assert "Dependence: ask .dependence" in told._repr_html_()


class Tags(HTMLParser):
    """Whether every tag that is opened is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_tables_are_whole():
    for f, args in ((fdiff.hessian(rosenbrock), (np.ones(50),)), (np.sin, (1.0,))):
        tags = Tags()
        tags.feed(fdiff.explain(f, *args)._repr_html_())
        assert tags.open == []


def test_lines_that_make_calls_slow_are_named():
    """Integers of values, which every other value is traced for, and what no call can compare."""

    def steps(x):
        count = int(x[0])
        return count * x[1]

    told = str(fdiff.explain(fdiff.grad(steps), np.array([2.5, 1.0])))
    assert "traced for the branches taken at 1 line" in told
    assert "count = int(x[0])" in told

    def noisy(x):
        return np.random.random() * x[0]  # noqa: NPY002 - as in old code

    with pytest.warns(RetraceWarning, match="random numbers"):
        told = str(fdiff.explain(fdiff.grad(noisy), np.ones(2)))
    for f in (noisy, fdiff.jit(noisy), fdiff.grad(noisy)):
        told = str(fdiff.explain(f, np.ones(2)))
        words = "traced again at every call: random numbers (`numpy.random`) cannot be compared"
        assert told.count(words) == 1
        assert told.count("return np.random.random() * x[0]") >= 1
    assert "return np.random.random() * x[0]" in told


def loops(x):
    s = x
    for _ in range(60):
        s = np.sin(s) * 0.9 + x
    for _ in range(60):
        s = s * 1.1 + x
        if np.sum(s) > 50:
            break
    for k in range(60):
        s = s + np.sum(np.sin(x[0] * np.arange(k + 1)))
    return np.sum(s)


@pytest.mark.slow
def test_loops_are_told_by_line(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    fdiff.cache_clear()
    told = fdiff.explain(loops, np.array([0.7, 0.3, 0.2]))
    first = inspect.getsourcelines(loops)[1]
    lines = {int(re.search(r"py:(\d+):", line)[1]) - first: what for line, what in told.loops}
    assert re.fullmatch(r"one node for \d+ trips of 3 calls", lines[2])
    assert re.fullmatch(r"one node for \d+ trips of 5 calls", lines[4])
    assert lines[8] == "unrolled: its iterations differ"
    assert "\nPython loops\n" in str(told)
    assert all(what in str(told) and what in html.html_of(told) for what in lines.values())


def test_functions_without_loops_say_nothing_of_them():
    assert "Python loops" not in str(fdiff.explain(chain, np.ones(3)))
