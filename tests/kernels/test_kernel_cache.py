"""One kernel for one structure: in memory, on disk, in another process and in many threads."""

import ast
import os
import shutil
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tapes import tape_of, values
from thread_counts import ask_for_threads

import fdiff
from fdiff import kernels
from fdiff.dispatch.tiers import break_even, bytecode_tier, tiered_execution
from fdiff.kernels import (
    disk_cache,
    executable,
    kernel_lookup,
    kernel_names,
    machine_code,
    source_cache,
)
from fdiff.kernels.bytecode import execution
from fdiff.kernels.codegen import source_generation
from fdiff.kernels.compiler_choice import compiler_of
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

UNUSABLE = "FDIFF_CACHE_DIR: .* cannot be made or read, .* or to off"
FAULTS = Path(__file__).parents[1] / "faults" / "damaged_entries.py"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "cache"))
    kernels.cache_clear()
    return tmp_path / "cache"


def run(tape, *arrays):
    return kernels.compile(tape, ("C",) * len(arrays))(*arrays)


def compiled():
    return kernels.cache_info().compiled


def program(n, m, start, step, a, b):
    """Value and gradient of something with sizes, slices and constants of every kind."""

    def f(x, y):
        left = x[start : start + 2 * step : step]
        return np.sum(a * np.exp(-x[:, None] * y) * (y > b)) + np.sum(left * left) + b

    x, y = np.linspace(0.1, 1.0, n), np.linspace(0.2, 0.9, m)
    tape = simplify(vjp(tape_of(f, x, y), [0, 1]))
    return tape, x, y, np.float64(1.3)


@given(
    st.integers(20, 60), st.integers(61, 90), st.integers(1, 5), st.integers(2, 6),
    st.floats(3.1, 90.0), st.floats(0.11, 0.4),
)  # fmt: skip
def test_one_kernel_for_all_sizes_and_constants(n, m, start, step, a, b):
    tape, *arrays = program(n, m, start, step, a, b)
    before = kernels.cache_info()
    outs = run(tape, *arrays)
    assert kernels.cache_info().entries <= max(before.entries, 1)
    for got, want in zip(outs, values(tape, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_no_factor_has_a_kernel_of_its_own():
    """Not even one that also stands elsewhere in the program, as 2 does in this derivative.

    But 1 and -1: they are no factors once a derivative is made, so that theirs are other programs.
    """
    x = np.linspace(0.1, 1.0, 7)
    for a in (4.25, 0.0, -0.0, 2.0, 3.0, 0.5, np.inf, 1.0, -1.0):

        def f(x, a=a):
            return np.sum(a * x * x * x + (x - a) ** 2)

        tape = vjp(tape_of(f, x), [0])
        for got, want in zip(run(tape, x, 1.0), values(tape, x, 1.0), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
        assert kernels.cache_info().entries == {1.0: 2, -1.0: 3}.get(a, 1)


def test_equal_structures_share_a_kernel_and_different_ones_do_not():
    x = np.arange(1.0, 6.0)
    run(tape_of(lambda x: np.sin(x) * 4.5, x), x)
    before = compiled()
    run(tape_of(lambda y: np.sin(y) * -7.25, x[:3]), x[:3])
    assert compiled() == before
    run(tape_of(lambda x: np.sin(x) + 4.5, x), x)
    assert compiled() == before + 1
    assert kernels.cache_info().hits > 0


def test_the_order_in_which_nodes_were_made_does_not_matter():
    x = np.arange(1.0, 6.0)

    def first(x):
        a, b = np.sin(x), np.cos(x)
        return a - b

    def second(x):
        b, a = np.cos(x), np.sin(x)
        return a - b

    layouts = ("C",)
    assert kernels.source(tape_of(first, x), layouts) == kernels.source(tape_of(second, x), layouts)


def test_a_constant_is_never_taken_for_another():
    x = np.arange(4.0)
    for a in (2.0, 5.0, 2.0, -0.0, 0.0, np.inf):
        tape = tape_of(lambda x, a=a: (x * a, x + a, x / (a + 1.0)), x)
        for got, want in zip(run(tape, x), values(tape, x), strict=True):
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


SCRIPT = """
import os, sys
import numpy as np
from tapes import tape_of
from fdiff import kernels
x = np.arange(5.0)
tape = tape_of(lambda x: np.sum(np.sin(x) * 3.25) + np.linalg.det(x[:4].reshape(2, 2)), x)
here = kernels.on_disk(tape, ("C",))
value = kernels.compile(tape, ("C",))(x)[0]
imported = {"numba", "scipy.linalg"} & {*sys.modules}
assert not imported or os.environ.get("FDIFF_COMPILER") == "numba"
info = kernels.cache_info()
scheduled = "fdiff.kernels.passes.pipeline" in sys.modules
print(here, float(value), info.compiled, info.loaded, scheduled)
"""


def start():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", "."])}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, text=True
    )


def process():
    return start().communicate()[0].split()


@pytest.mark.slow
def test_two_processes_that_write_one_kernel_at_once(folder):
    first, second = start(), start()
    values = {first.communicate()[0].split()[1], second.communicate()[0].split()[1]}
    assert len(values) == 1
    assert (
        len(list(folder.iterdir())) == 4
    )  # the kernel, its text and its length, its routine; and no drafts
    assert process()[2:] == ["0", "1", "False"]


@pytest.mark.slow
def test_a_second_process_compiles_nothing():
    first, second = process(), process()
    assert first[0] == "False"
    assert first[2:] == ["1", "0", "True"]
    assert second[0] == "True"
    assert second[2:] == ["0", "1", "False"]
    assert first[1] == second[1]


HARM = pytest.mark.parametrize(
    "harm",
    [
        lambda b: b"",
        lambda b: b[: len(b) // 2],
        lambda b: b[:-1] + bytes([b[-1] ^ 1]),
        lambda b: b"x" + b,
    ],
)


@HARM
def test_a_broken_entry_is_compiled_anew(folder, harm):
    x = np.arange(5.0)
    tape = tape_of(lambda x: x * 3.5, x)
    run(tape, x)
    entry = folder / f"{kernel_names.name_of(kernels.source(tape, ('C',)), compiler_of())}.kernel"
    entry.write_bytes(harm(entry.read_bytes()))
    kernels.cache_clear()
    before = compiled()
    np.testing.assert_array_equal(run(tape, x)[0], x * 3.5)
    assert compiled() == before + 1
    kernels.cache_clear()
    run(tape, x)
    assert compiled() == before + 1


def made_here(monkeypatch):
    """The skeletons of which a text is made from now on."""
    found = []
    for make in (source_generation.serial_kernel, source_generation.parallel_kernel):

        def counted(*args, make=make):
            found.append(args)
            return make(*args)

        monkeypatch.setattr(source_generation, make.__name__, counted)
    return found


@HARM
def test_a_broken_text_is_made_anew(folder, harm, monkeypatch):
    x = np.arange(5.0)
    tape = tape_of(lambda x: x * 3.5 - 1.0, x)
    made = made_here(monkeypatch)
    text = kernels.source(tape, ("C",))
    before = set(folder.iterdir())
    run(tape, x)
    (entry,) = (p for p in {*folder.iterdir()} - before if b"def kernel" in p.read_bytes())
    kernels.cache_clear()
    assert kernels.source(tape, ("C",)) == text
    assert len(made) == 1
    entry.write_bytes(harm(entry.read_bytes()))
    kernels.cache_clear()
    np.testing.assert_array_equal(run(tape, x)[0], x * 3.5 - 1.0)
    assert len(made) == 2
    kernels.cache_clear()
    run(tape, x)
    assert len(made) == 2


def test_a_text_for_threads_is_kept_as_it_is(monkeypatch):
    ask_for_threads(monkeypatch, 2)
    x = np.linspace(0.0, 1.0, 100_000)
    tape = tape_of(lambda x: (np.sum(np.exp(np.sin(x))), np.tanh(x) * 2.0), x)
    made = made_here(monkeypatch)
    kernel = kernels.compile(tape, ("C",))
    want = kernel(x)
    assert "worker" in kernel.source
    assert len(made) == 2
    kernels.cache_clear()
    kernel = kernels.compile(tape, ("C",))
    assert len(made) == 2
    for got, expected in zip(kernel(x), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    smaller = kernels.compile(
        tape_of(lambda x: (np.sum(np.exp(np.sin(x))), np.tanh(x) * 2.0), x[:50]), ("C",)
    )
    assert "worker" not in smaller.source
    assert len(made) == 2


@pytest.mark.slow
def test_a_long_kernel_on_disk_is_loaded_long_before_one_would_be_made(monkeypatch):
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")  # a loop is a short kernel
    monkeypatch.delenv("FDIFF_COMPILER", raising=False)  # Numba takes minutes for it

    def f(x):
        for k in range(1000):
            x = x * 1.5 - x[k % 3]
        return x

    x = np.linspace(0.1, 1.0, 4)
    tape = tape_of(f, x)
    writing = break_even.writing_seconds(tape)
    first, made = tiered_execution.Runner(tape), made_here(monkeypatch)
    first.account.spent = writing / 2
    want = first([x])[0]
    assert first.tier != "compile"
    assert made == []
    assert "too few to think of a kernel" in first.state()
    first.account.spent = writing + break_even.PATIENCE
    first([x])
    assert len(made) == 1  # for its price
    run(tape, x)
    kernels.cache_clear()
    later = tiered_execution.Runner(tape)
    later.account.spent = writing / 2
    np.testing.assert_allclose(later([x])[0], want, rtol=1e-12)
    assert (later.tier, len(made)) == ("compile", 1)


def test_a_tape_too_long_to_compile_is_asked_for_by_its_length_alone(monkeypatch, folder):
    """Nothing is made of it to see whether its kernel is on disk, unless one of its length is."""
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    asked = []

    real = kernel_lookup.kernel_graph

    def kernel_graph(*args):
        asked.append(args)
        return real(*args)

    monkeypatch.setattr(kernel_lookup, "kernel_graph", kernel_graph)
    monkeypatch.setattr(
        kernel_lookup, "supported", lambda _: pytest.fail("every node was looked at")
    )
    waited = [0.0]
    monkeypatch.setattr(execution, "_functions", {})  # no interpreter of another test
    monkeypatch.setattr(bytecode_tier, "waited", waited)
    monkeypatch.setattr(tiered_execution, "waited", waited)
    x = np.linspace(0.1, 1.0, 4)

    def f(x):
        for _ in range(60):
            x = np.sin(x) * 1.5
        return x

    tape = tape_of(f, x)
    monkeypatch.setattr(break_even, "WRITE_SECONDS", 2 * break_even.WRITE_FIRST / len(tape))
    late = tiered_execution.Runner(tape)
    late.account.spent = 100.0
    want = late([x])[0]
    assert (late.tier, asked) == ("interpret", [])
    assert "when asked for" in late.state()
    run(tape, x)
    kernels.cache_clear()
    monkeypatch.undo()
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(folder))
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    monkeypatch.setattr(break_even, "WRITE_SECONDS", 2 * break_even.WRITE_FIRST / len(tape))
    later = tiered_execution.Runner(tape)
    later.account.spent = 100.0
    np.testing.assert_allclose(later([x])[0], want, rtol=1e-12)
    assert later.tier == "compile"


def test_the_name_of_a_kernel_costs_no_process_and_no_parser():
    """A first compiled result waits for neither."""
    script = (
        "import sys, numpy, fdiff\n"
        "before = set(sys.modules)\n"
        "from fdiff.kernels import kernel_names\n"
        "kernel_names.name_of('text')\n"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"subprocess", "importlib.metadata", "email", "llvmlite.binding"}


def test_a_kernel_called_once_needs_no_entry_stub(monkeypatch):
    """The first call goes through Python, with the results of those that follow."""
    monkeypatch.setattr(machine_code, "_stubs", {})
    made = []
    real = machine_code._function

    def function(text, optimisation="unrolled"):
        made.extend([text] * (optimisation == "glue"))
        return real(text, optimisation)

    monkeypatch.setattr(machine_code, "_function", function)
    x, y = np.linspace(0.1, 1.0, 12), np.linspace(2.0, 3.0, 24)[::2]
    data = np.arange(12.0)
    tape = tape_of(
        lambda x, y, s: (np.sum(x * y) * s, np.sin(x) + y, x[None] * data[:, None]), x, y, 1.5
    )
    run = kernels.compile(tape, ("C", "A", "C"))
    first = run(x, y, 1.5)
    assert not made
    second = run(x, y, 1.5)
    assert len(made) == 1
    for a, b, c in zip(first, second, values(tape, x, y, np.float64(1.5)), strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, c, rtol=1e-12)
    with pytest.raises(AssertionError, match="no inputs for"):
        kernels.compile(tape, ("C", "A", "C"))(x[:5], y, 1.5)


def test_a_text_is_of_one_structure_and_of_this_fdiff(monkeypatch):
    x = np.arange(3.0)
    names = [
        source_cache._name(kernel_graph(tape_of(f, x), layouts)[0], heavy)
        for f in (np.sin, np.cos)
        for layouts in (("C",), ("A",))
        for heavy in (frozenset(), frozenset([0]), frozenset([0, 1]))
    ]
    assert len(set(names)) == len(names)
    name = kernel_names.name_of_text("structure")
    assert kernel_names.name_of_text("structure") == name
    monkeypatch.setattr(kernel_names, "_generator_digest", lambda: "another scheduler")
    assert kernel_names.name_of_text("structure") != name


def test_an_edited_helper_makes_another_name(monkeypatch):
    name = kernel_names.name_of("text")
    assert kernel_names.name_of("text") == name
    assert kernel_names.name_of("other text") != name
    monkeypatch.setattr(kernel_names, "environment", lambda: "other helpers")
    assert kernel_names.name_of("text") != name


def test_one_text_optimised_in_two_ways_is_two_files(folder):
    text = 'def twice(x: "f8") -> "f8":\n    return x + x\n'
    for optimisation in ("glue", "loops"):
        machine_code._function.cache_clear()
        assert machine_code.function(text, optimisation)
    names = {f"{kernel_names.name_of(text, optimisation=o)}.kernel" for o in ("glue", "loops")}
    assert names == {path.name for path in folder.glob("*.kernel")}
    assert kernel_names.name_of(text) not in {
        kernel_names.name_of(text, optimisation=o) for o in ("glue", "loops")
    }


# What makes machine code imports these, and they change nothing in it: where files are, which
# compiler it is (a part of the name), how a kernel is called, on how many threads.
CHANGE_NO_CODE = {
    "c_signature.py", "compiler_choice.py", "disk_cache.py", "executable.py", "kernel_names.py",
    "thread_pool.py",
}  # fmt: skip


def imported_of_kernels(path):
    """Modules of `kernels` that a file imports when it is imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            target = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for found in (target, *(target / alias.name for alias in node.names)):
                module = found.with_suffix(".py")
                if module.exists() and module.is_relative_to(Path(kernels.__file__).parent):
                    yield module


def test_what_makes_machine_code_is_part_of_its_name():
    home = Path(kernels.__file__).parent
    files = [
        p
        for name in kernel_names._COMPILER_SOURCES
        for p in (home / name, *(home / name).rglob("*.py"))
    ]
    hashed = {path for path in files if path.is_file()}
    others = {module for path in hashed for module in imported_of_kernels(path)} - hashed
    assert len(hashed) > 40
    assert {module.name for module in others} == CHANGE_NO_CODE


def test_an_edited_line_of_a_helper_makes_another_environment(tmp_path, monkeypatch):
    """Of the files whose code becomes part of kernels, here a copy of them."""
    here = Path(kernel_names.__file__).parent
    for name in kernel_names._COMPILER_SOURCES:
        copy = shutil.copy if name.endswith(".py") else shutil.copytree
        copy(here / name, tmp_path / name)
    monkeypatch.setattr(kernel_names, "_HERE", tmp_path)
    before = kernel_names.environment.__wrapped__()
    assert kernel_names.environment.__wrapped__() == before
    formulas = tmp_path / "runtime" / "maths" / "slopes.py"
    formulas.write_text(formulas.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert kernel_names.environment.__wrapped__() != before


def test_the_directory_is_private(folder):
    assert disk_cache.directory() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match=UNUSABLE):
        assert disk_cache.directory() is None
    assert disk_cache.directory() is None  # and is told once


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners on this system")
def test_files_that_others_own_or_can_write_to_are_not_loaded(folder, monkeypatch):
    disk_cache.write("name", "code", b"machine code")
    path = disk_cache.path_of("name")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert disk_cache.has("name")
    assert disk_cache.read("name", "code") == b"machine code"
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        assert not disk_cache.has("name")
        assert disk_cache.read("name", "code") is None
    path.chmod(0o644)
    assert disk_cache.read("name", "code") == b"machine code"
    there = os.lstat(path)

    def owned_by(user):
        def told(real):
            return lambda *args: os.stat_result((*real(*args)[:4], user, *real(*args)[5:10]))

        monkeypatch.setattr(disk_cache.os, "fstat", told(os_fstat))
        monkeypatch.setattr(disk_cache, "directory", lambda: folder)

    os_fstat = os.fstat
    for user, trusted in ((there.st_uid, True), (0, True), (there.st_uid + 4711, False)):
        owned_by(user)
        assert (disk_cache.read("name", "code") is not None) == trusted
    monkeypatch.undo()
    monkeypatch.setattr(disk_cache.os, "geteuid", lambda: there.st_uid + 4711)
    assert (disk_cache._usable(folder) is not None) == (there.st_uid == 0)


def test_an_entry_is_one_name_s_and_one_kind_s(folder):
    disk_cache.write("name", "code", b"machine code")
    assert disk_cache.read("name", "text") is None
    disk_cache.path_of("name").rename(disk_cache.path_of("other"))
    assert disk_cache.read("other", "code") is None
    disk_cache.path_of("other").rename(disk_cache.path_of("name"))
    assert disk_cache.read("name", "code") == b"machine code"


@pytest.mark.parametrize("value", ["off", ""])
def test_the_disk_cache_can_be_switched_off(monkeypatch, value):
    monkeypatch.setenv("FDIFF_CACHE_DIR", value)
    x = np.arange(3.0)
    np.testing.assert_array_equal(run(tape_of(lambda x: x * 9.5, x), x)[0], x * 9.5)
    assert disk_cache.directory() is None


def test_a_directory_that_cannot_be_made_costs_nothing_but_the_cache(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "file" / "below"))
    x = np.arange(3.0)
    with pytest.warns(UserWarning, match=UNUSABLE):
        got = run(tape_of(lambda x: x - 9.5, x), x)[0]
    np.testing.assert_array_equal(got, x - 9.5)
    assert fdiff.doctor()["cache"] == f"none: {tmp_path / 'file' / 'below'} cannot be used"


def test_a_disk_that_is_full_costs_nothing_but_the_cache(monkeypatch, folder):
    def full(*args, **keywords):
        raise OSError(28, "No space left on device")

    kernel_names.environment()
    monkeypatch.setattr(disk_cache.os, "fdopen", full)
    x = np.arange(3.0)
    np.testing.assert_array_equal(run(tape_of(lambda x: x - 8.5, x), x)[0], x - 8.5)
    assert not list(folder.iterdir())


def test_a_relative_directory_stays_where_it_was_first_used(monkeypatch, tmp_path):
    monkeypatch.setenv("FDIFF_CACHE_DIR", "some kernels")
    monkeypatch.chdir(tmp_path)
    disk_cache._absolute.cache_clear()
    assert disk_cache.directory() == tmp_path / "some kernels"
    monkeypatch.chdir("/")
    assert disk_cache.directory() == tmp_path / "some kernels"
    disk_cache._absolute.cache_clear()


def test_the_oldest_files_are_removed_beyond_the_limit(monkeypatch, folder):
    for k in range(12):
        disk_cache.write(f"{k:02d}", "code", b"machine code")
        os.utime(disk_cache.path_of(f"{k:02d}"), (k, k))
    assert disk_cache.read("00", "code") is not None  # used now: the last to go
    monkeypatch.setattr(disk_cache, "_MOST_FILES", 8)
    disk_cache.write("0f", "code", b"machine code")
    left = {path.stem for path in folder.iterdir()}
    assert left == {"00", "0f", "08", "09", "10", "11"}
    monkeypatch.setattr(disk_cache, "_MOST_BYTES", 1)
    disk_cache.trim(folder)
    assert not list(folder.iterdir())


def test_the_kernels_used_last_stay_in_memory(monkeypatch):
    monkeypatch.setattr(kernel_lookup, "_MOST", 2)
    x = np.arange(3.0)
    functions = [np.sin, np.cos, np.tanh]
    made = [kernels.compile(tape_of(f, x), ("C",)) for f in functions[:2]]
    run(tape_of(np.sin, x), x)
    made.append(kernels.compile(tape_of(np.tanh, x), ("C",)))
    assert kernels.cache_info().entries == 2
    hits = kernels.cache_info().hits
    run(tape_of(np.sin, x), x)
    assert kernels.cache_info().hits == hits + 1
    for kernel, f in zip(made, functions, strict=True):
        np.testing.assert_allclose(kernel(x)[0], f(x), rtol=1e-15)


def test_the_default_directory_follows_the_users_settings(monkeypatch, tmp_path):
    monkeypatch.delenv("FDIFF_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert disk_cache.directory() == tmp_path / "xdg" / "fdiff"
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk_cache.directory() == tmp_path / ".cache" / "fdiff"


def test_clearing_the_disk(folder):
    x = np.arange(3.0)
    run(tape_of(lambda x: x * 1.5, x), x)
    kernels.cache_clear(disk=True)
    assert not list(folder.glob("*.kernel"))
    assert kernels.cache_info().entries == 0


def test_eight_threads_call_one_kernel():
    x = np.linspace(0.0, 1.0, 4096)
    tape = tape_of(lambda x: (np.sum(np.sin(x)), np.cumsum(x * x)), x)
    start = threading.Barrier(8)

    def work(k):
        start.wait()
        kernel = kernels.compile(tape, ("C",))
        return [kernel(x * k)[0] for _ in range(50)]

    before = compiled()
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(work, range(8)))
    assert compiled() <= before + 1
    for k, row in enumerate(rows):
        np.testing.assert_allclose(row, np.sum(np.sin(x * k)), rtol=1e-12)


FORK = """
import os
import numpy as np
import fdiff

x = np.arange(4.0)
known = fdiff.jit(lambda x: x * 2.5)
known(x)
child = os.fork()
if child == 0:
    good = np.array_equal(known(x), x * 2.5)
    os._exit(0 if good and np.allclose(fdiff.jit(np.tanh)(x), np.tanh(x)) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), fdiff.cache_info().compiled)
"""

FORK_WHILE_COMPILING = """
import os
import time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import fdiff
from fdiff import kernels
from fdiff.kernels import machine_code

x = np.arange(4.0)
long = fdiff.make_tape(lambda x: [x := np.sin(x) * x for _ in range(40)][-1], x)
short = fdiff.make_tape(np.cosh, x)
with ThreadPoolExecutor(1) as pool:
    task = pool.submit(kernels.compile, long, ("C",))
    while not task.done() and not machine_code.is_busy():  # until it has LLVM
        time.sleep(1e-4)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.allclose(kernels.compile(short, ("C",))(x)[0], np.cosh(x)) else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    task.result()
"""


def softmax_gradient(x):
    tape = tape_of(lambda x: np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x))), x)
    return simplify(vjp(tape, [0]))


def test_eight_threads_share_a_kernel_with_temporaries():
    """Each call has a workspace of its own while it runs; no more are made than run at once."""
    x = np.linspace(0.0, 1.0, 20_000)
    tape = softmax_gradient(x)
    kernel = kernels.compile(tape, ("C", "C"))
    assert "work" in kernel.source
    rows = [x * k for k in range(8)]
    want = [values(tape, row, x) for row in rows]
    with ThreadPoolExecutor(8) as pool:
        for got, w in zip(pool.map(lambda row: kernel(row, x), rows * 20), want * 20, strict=True):
            np.testing.assert_allclose(got[1], w[1], rtol=1e-9, atol=1e-12)
    (kept,) = [cell for cell in executable._spare.values() if cell[0]]
    assert len(kept) == 1
    kernels.cache_clear()
    assert not any(cell[0] for cell in executable._spare.values())


def test_eight_threads_compile_different_kernels():
    x = np.linspace(0.1, 0.9, 5)
    functions = [np.sin, np.cos, np.tan, np.exp, np.log, np.sqrt, np.tanh, np.arctan]
    start = threading.Barrier(8)

    def work(f):
        start.wait()
        return run(tape_of(lambda x: f(x) * x, x), x)[0]

    before = compiled()
    with ThreadPoolExecutor(8) as pool:
        for f, got in zip(functions, pool.map(work, functions), strict=True):
            np.testing.assert_allclose(got, f(x) * x, rtol=1e-15)
    assert compiled() == before + 8


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.parametrize(("script", "words"), [(FORK, ["0", "1"]), (FORK_WHILE_COMPILING, ["0"])])
def test_a_forked_child_calls_and_compiles(script, words, tmp_path):
    # In a process of its own: libraries that other tests load (JAX) warn when they are forked.
    kept = {k: v for k, v in os.environ.items() if k != "FDIFF_TIER"}
    kept["FDIFF_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    done = subprocess.run(command, env=kept, capture_output=True, text=True, check=True)
    assert done.stdout.split() == words


def test_predictions_grow_with_the_program_and_vanish_once_compiled():
    x = np.arange(4.0)
    small, large = (
        tape_of(lambda x: x * 2.5, x),
        tape_of(lambda x: [x := np.sin(x) * x for _ in range(40)][-1], x),
    )
    assert 0.0 < kernels.predict_seconds(small, ("C",)) < kernels.predict_seconds(large, ("C",))
    run(small, x)
    assert kernels.predict_seconds(small, ("C",)) == 0.0


def test_complex_numbers_are_not_supported_yet():
    assert not kernels.supported(tape_of(lambda x: x + 1.0, np.ones(2, np.complex128)))
    assert kernels.supported(tape_of(lambda x: x + 1.0, np.ones(2)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_faults_of_the_directory_cost_a_compile_and_nothing_else(seed, folder):
    """A process that loads a wrong kernel may crash, so each is a child of this one."""
    faults(folder, seed, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_faults_of_the_directory_cost_a_compile_and_nothing_else(seed, folder):
    faults(folder, seed, 25)


def faults(folder, seed, count):
    command = [sys.executable, "-X", "faulthandler", FAULTS, folder, str(seed), str(count)]
    kept = {k: v for k, v in os.environ.items() if k != "FDIFF_TIER"}
    paths = [str(FAULTS.parents[1]), kept.get("PYTHONPATH", "")]
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(command, env=kept, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
