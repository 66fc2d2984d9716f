"""Kernels for other processors: run with fewer features, and cross-compiled for aarch64."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError
from fdiff.kernels.bytecode import interpreter, opcodes
from fdiff.kernels.llvm import machine, text_to_module
from fdiff.kernels.llvm.stub import entry_stub
from fdiff.kernels.runtime import routines, worker_code

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks import inputs  # noqa: E402 - beside the package
from benchmarks.cases import CASES  # noqa: E402 - as above

GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.py.txt"))
ARM = machine.Target("aarch64-unknown-linux-gnu", "generic", "+neon")
LIBRARY = {  # what the C library has on every system
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "expm1", "fmod", "hypot", "ldexp", "lgamma", "log", "log10", "log1p",
    "log2", "nextafter", "pow", "sin", "sincos", "sinh", "tan", "tanh", "tgamma", "memcpy",
    "memmove", "memset",
}  # fmt: skip
X86 = machine.target().is_x86


@pytest.fixture
def arm(monkeypatch):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    real, ours = machine.target, [m for name, m in sys.modules.items() if name.startswith("fdiff.")]
    for asks in [m for m in ours if getattr(m, "target", None) is real]:
        monkeypatch.setattr(asks, "target", lambda: ARM)


def undefined(code):
    """The symbols that an ELF object wants from elsewhere."""
    assert code[:6] == b"\x7fELF\x02\x01"
    assert struct.unpack_from("<H", code, 18) == (183,)  # EM_AARCH64
    (start,), (size, count) = (
        struct.unpack_from("<Q", code, 40),
        struct.unpack_from("<HH", code, 58),
    )
    sections = [struct.unpack_from("<IIQQQQII", code, start + size * k) for k in range(count)]
    (table,) = (s for s in sections if s[1] == 2)  # SHT_SYMTAB
    names = sections[table[6]][4]
    symbols = [struct.unpack_from("<IBBH", code, table[4] + at) for at in range(24, table[5], 24)]
    wanted = [name for name, _, _, section in symbols if section == 0]
    return {code[names + n : code.index(b"\0", names + n)].decode() for n in wanted}


def plain(names):
    """Names of functions without the ``f`` of single precision."""
    return {name if name in LIBRARY else name.removesuffix("f") for name in names}


def functions():
    """The texts that are compiled once a machine."""
    opcodes_ = opcodes.table()
    yield "entry stub", entry_stub.text()
    yield "bytecode", interpreter.interpreter_text(list(opcodes_.lines))
    for name, text in worker_code.TEXTS.items():
        yield f"pool {name}", text
    for name in routines.TEXTS:
        for dtype in ("f4", "f8"):
            yield f"{name}_{dtype}", routines.routine_text(f"{name}_{dtype}", 32)


@pytest.mark.usefixtures("arm")
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name.split(".")[0])
def test_golden_kernels_are_compiled_for_aarch64(path):
    source = path.read_text(encoding="utf-8")
    code = machine.object_code(text_to_module.module_of(source, "kernel"))
    assert plain(undefined(code)) <= LIBRARY


def smallest():
    """Of each problem and derivative of the benchmarks the smallest case: kernels know no sizes."""
    found = {}
    for case in CASES.values():
        known = found.setdefault((case.problem, case.call, case.kernel), case)
        if case.size < known.size:
            found[case.problem, case.call, case.kernel] = case
    return found.values()


@pytest.mark.slow
@pytest.mark.usefixtures("arm")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # users' loaders
@pytest.mark.parametrize("case", smallest(), ids=lambda case: case.name)
def test_kernels_of_the_benchmarks_are_compiled_for_aarch64(case):
    f, (xs, data) = case.pick(inputs.functions(case.file, np)), case.arguments()
    call = case.call.removeprefix("fresh_")
    argnums = tuple(range(len(xs))) if call == "value_and_grad" and len(xs) > 1 else 0
    source = fdiff.source(getattr(fdiff, call)(f, argnums=argnums), *xs, *data)
    code = machine.object_code(text_to_module.module_of(source, "kernel"))
    assert plain(undefined(code)) <= LIBRARY


@pytest.mark.usefixtures("arm")
@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param(*p, id=p[0], marks=[pytest.mark.slow] * (p[0] == "bytecode"))
        for p in functions()
    ],
)
def test_functions_are_compiled_for_aarch64(name, source):
    code = machine.object_code(text_to_module.function_of(source), unrolled=False)
    assert plain(undefined(code)) <= LIBRARY, name
    if "rt.load_vector(" in source:
        code = machine.routine_code(text_to_module.function_of(source), name.rsplit("_", 1)[0])
        assert plain(undefined(code)) <= LIBRARY, name


@pytest.mark.usefixtures("arm")
def test_vectors_of_aarch64_hold_two_numbers():
    source = "def kernel(x: 'f8* data[0]', y: 'f8* data[1]', n: 'i8 ints[0]'):\n"
    source += "    for i0 in range(n):\n        y[i0] = math.sqrt(x[i0])\n    return 0\n"
    optimised = machine.optimised(text_to_module.module_of(source, "kernel"))
    assert "<2 x double>" in optimised
    assert "<4 x double>" not in optimised
    assert "x86" not in optimised


def run_with(level, folder, option, *files):
    """Run these tests, or a sample, in a process that makes kernels for a level of x86-64."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FDIFF_")}
    kept |= {machine.VARIABLE: level, "FDIFF_CACHE_DIR": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    command += ["--sample", f"--part={option.part}"] * option.sample
    done = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


levels = pytest.mark.parametrize("level", ["x86-64", "x86-64-v3"])
x86 = pytest.mark.skipif(not X86, reason="levels of x86-64 are there on x86-64 alone")


@pytest.mark.slow
@x86
@levels
def test_golden_kernels_run_with_fewer_features(level, tmp_path, pytestconfig):
    run_with(level, tmp_path, pytestconfig.option, "tests/kernels/test_kernel_text.py")


@x86
@pytest.mark.slow
@levels
def test_every_operation_runs_with_fewer_features(level, tmp_path, pytestconfig):
    names = ("test_kernel_values", "test_vector_math")
    files = [f"tests/kernels/{name}.py" for name in names]
    run_with(level, tmp_path, pytestconfig.option, *files)


@pytest.mark.parametrize("wanted", ["x86-64-v9", "cortex-a72", "avx2"])
def test_a_processor_that_is_none(wanted, monkeypatch):
    monkeypatch.setenv(machine.VARIABLE, wanted)
    with pytest.raises(
        InputError, match=r"(?s)FDIFF_CPU: .* is not a level that this machine supports.*x86-64-v3"
    ):
        machine.target.__wrapped__()


@x86
def test_a_level_has_the_features_it_is_said_to_have(monkeypatch):
    found = {}
    for level in ("x86-64", "x86-64-v2", "x86-64-v3"):
        monkeypatch.setenv(machine.VARIABLE, level)
        found[level] = machine.target.__wrapped__()
    assert "+avx" not in found["x86-64"].features + found["x86-64-v2"].features
    assert {"+avx2", "+fma"} <= set(found["x86-64-v3"].features.split(","))
    assert "+avx512f" not in found["x86-64-v3"].features
