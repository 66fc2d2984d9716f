"""`python -m benchmarks.cuda`: what kernels do on a GPU, in under eight minutes.

It compiles the kernels of the op suite on all cores, runs them and compares them with NumPy; runs
reductions and scatters under ``compute-sanitizer`` where that is installed; and measures a table of
problems beside JAX and torch, with the bandwidth of a plain copy as the measure of what memory
allows. Results go to ``results/cuda-DATE.json`` with date, device and versions. Without a GPU it
says so, and exits with status 2: the simulator's times mean nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.special  # noqa: F401 - likewise

import fdiff
from fdiff.arraytype import type_of
from fdiff.interpret import evaluate
from fdiff.kernels.cuda import adapter, kernel_binaries
from fdiff.kernels.cuda.compiler import compile_cuda, program_of
from fdiff.kernels.cuda.device import device
from fdiff.kernels.cuda.program import CudaKernel
from fdiff.kernels.ir.graph_of_tape import kernel_graph, supported
from fdiff.primitive import PRIMITIVES, load_tables
from fdiff.tape import ITEM, Builder, Tape
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

from . import inputs, problems
from .inputs import USER_CODE

RESULTS = Path(__file__).parent / "results"
TOLERANCE = 1e-12  # of each entry, relative to the largest
SUITE_SECONDS, ROW_SECONDS = 240.0, 1.0
PACKAGES = ("numba-fdiff", "numba-cuda", "numba", "cuda-core", "cupy-cuda12x", "jax", "torch")


class Row(NamedTuple):
    """A problem of the table; `least` is how many bytes it must read and write at least."""

    name: str
    function: str
    arguments: Callable[[], tuple[np.ndarray, ...]]
    least: Callable[..., int]
    file: Path = Path(problems.__file__)

    def by(self, namespace: object) -> Callable[..., Any]:
        """The function, written with a namespace in the place of NumPy."""
        return getattr(inputs.functions(self.file, namespace), self.function)


SIZE = 100_000_000  # entries of the large arrays


def _entries() -> tuple[np.ndarray, ...]:
    return (np.linspace(-1.0, 2.0, SIZE),)


def _grid() -> tuple[np.ndarray, ...]:
    n = int(SIZE**0.5)
    return (np.random.default_rng(0).random((n, n)),)


def _labelled() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE // 50, 20))
    return rng.normal(size=20), x, np.sign(rng.normal(size=len(x)))


def _mixture() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    shapes = [25, (25, 10), (25, 55), (max(SIZE // 1000, 20), 10)]
    return (*(rng.normal(size=shape) for shape in shapes), np.asarray(1.0), np.asarray(0))


def _of_gradient(*args: np.ndarray) -> int:
    """The argument is read, and as much is written."""
    return 2 * args[0].nbytes


def _of_data(*args: np.ndarray) -> int:
    """All data is read."""
    return sum(np.asarray(a).nbytes for a in args)


ROWS = (
    Row("elementwise", "chain", _entries, _of_gradient),
    Row("sum of squares", "sum_of_squares", _entries, _of_gradient),
    Row("Rosenbrock", "rosenbrock", _entries, _of_gradient),
    Row("Bratu", "bratu", _grid, _of_gradient),
    Row("logistic", "logistic", _labelled, _of_data),
    Row("mixture, d = 10, K = 25", "objective", _mixture, _of_data, USER_CODE / "gmm.py"),
)
REDUCTIONS = (
    ("sum", np.sum),
    ("sum over rows", lambda x: np.sum(np.reshape(x, (-1, 1000)), axis=1)),
    ("sum over columns", lambda x: np.sum(np.reshape(x, (-1, 1000)), axis=0)),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda", description=__doc__)
    parser.add_argument("--sanitized", action="store_true", help="only what the sanitizer watches")
    chosen = parser.parse_args()
    if (fault := no_gpu()) is not None:
        sys.stderr.write(
            f"benchmarks.cuda: there is no GPU here, so nothing is measured. {fault}\n"
        )
        return 2
    if chosen.sanitized:
        return watched()
    raw: dict[str, object] = {"machine": machine()}
    raw["suite"] = suite()
    raw["sanitizer"] = sanitizer()
    raw["copy"] = bandwidth = copied()
    raw["reductions"] = [reduction(name, f, bandwidth) for name, f in REDUCTIONS]
    raw["rows"] = [measured(row, bandwidth) for row in ROWS]
    name = f"cuda-{dt.datetime.now(tz=dt.UTC).date().isoformat()}.json"
    (RESULTS / name).write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(raw, indent=1))
    return 0 if not raw["suite"]["wrong"] else 1  # type: ignore[index] - a dictionary


def no_gpu() -> str | None:
    """Why there is no GPU; None if there is one."""
    if adapter.simulated():
        return f"{adapter.SIMULATOR} is set: kernels would run on Numba's simulator."
    fault = adapter.fault()
    return None if fault is None else f"{fault.fact[0].upper()}{fault.fact[1:]}"


def machine() -> dict[str, object]:
    """Date, device, and the versions of all that makes or runs kernels."""
    versions: dict[str, str] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    core = adapter.cuda_core().Device()
    return {"date": date, "device": device("benchmarks.cuda").name,
            "capability": list(core.compute_capability), "versions": versions}  # fmt: skip


# --- the op suite -----------------------------------------------------------------------------


def op_tapes() -> Iterator[tuple[str, Tape, list[np.ndarray]]]:
    """Each op with a kernel, by its samples: its tape and those of its derivatives, both ways."""
    load_tables()
    for op in PRIMITIVES.values():
        for k, sample in enumerate(op.samples):
            rng = np.random.default_rng(k)
            arrays = [np.asarray(a) for a in sample.make(rng)]
            builder = Builder()
            inputs = tuple(builder.input(type_of(a)) for a in arrays)
            node = builder.add(op, inputs, tuple(sorted(sample.params.items())))
            count = len(builder.nodes[node].types)
            items = [builder.add(ITEM, (node,), (("k", j),)) for j in range(count)]
            tape = builder.finish(items if count > 1 else [node])
            real = [j for j, t in enumerate(tape.input_types) if t.floating]
            tapes = {
                "value": tape,
                **({"jvp": jvp(tape, real), "vjp": vjp(tape, real)} if real else {}),
            }
            for way, one in tapes.items():
                short = simplify(one)
                if supported(short):
                    more = short.input_types[len(arrays) :]
                    extra = [rng.normal(size=t.shape).astype(t.dtype) for t in more]
                    yield f"{op.name}-{k} {way}", short, [*arrays, *extra]


def suite() -> dict[str, object]:
    """All op tapes on the GPU, compared with NumPy; kernels are compiled on all cores first."""
    begun = time.perf_counter()
    cases = list(op_tapes())
    capability = tuple(adapter.cuda_core().Device().compute_capability)
    kernels: dict[CudaKernel, None] = {}
    for _, tape, _ in cases:
        graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
        kernels |= dict.fromkeys(program_of(graph, values).kernels)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(_compiled, [(kernel, capability) for kernel in kernels], chunksize=8))
    run, wrong = 0, []
    for name, tape, arrays in cases:
        if time.perf_counter() - begun > SUITE_SECONDS:
            break
        run += 1
        if (fault := compared(tape, arrays)) is not None:
            wrong.append(f"{name}: {fault}")
    seconds = time.perf_counter() - begun
    return {"programs": len(cases), "run": run, "kernels": len(kernels), "wrong": wrong,
            "seconds": round(seconds, 1)}  # fmt: skip


def _compiled(given: tuple[CudaKernel, tuple[int, int]]) -> None:
    """Put the machine code of a kernel on disk; a failure shows when the kernel is run."""
    try:
        kernel_binaries.binary(*given)
    except fdiff.CompileError as error:
        sys.stderr.write(f"{error}\n")


def compared(tape: Tape, arrays: list[np.ndarray]) -> str | None:
    """What is wrong with the outputs of a tape on the GPU; None if nothing is."""
    with np.errstate(all="ignore"):
        expected = [np.asarray(v) for v in evaluate(tape, *arrays)]
    try:
        run = compile_cuda(tape, device("benchmarks.cuda"))
        found = [array.host() for array in run.of_any(arrays)]
    except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the report
        return f"{type(error).__name__}: {error}"
    for got, want in zip(found, expected, strict=True):
        scale = np.max(np.abs(want[np.isfinite(want)]), initial=1.0)
        if not np.allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
            return "values differ from NumPy's"
    return None


# --- the sanitizer ----------------------------------------------------------------------------


def sanitizer() -> dict[str, str]:
    """What compute-sanitizer says of reductions and scatters, by tool."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        return {"not run": "compute-sanitizer is not installed"}
    out: dict[str, str] = {}
    for tool in ("memcheck", "racecheck", "initcheck"):
        own = [sys.executable, "-m", "benchmarks.cuda", "--sanitized"]
        command = [program, "--tool", tool, "--error-exitcode", "9", *own]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            out[tool] = "no fault" if done.returncode == 0 else done.stdout[-2000:]
        except subprocess.TimeoutExpired:
            out[tool] = "not finished in 60 s"
    return out


def watched() -> int:
    """Reductions and scatters of a few thousand entries, compared with NumPy."""
    rng = np.random.default_rng(0)
    x, places = rng.normal(size=70_000), rng.integers(0, 500, 70_000)

    def scattered(x: np.ndarray, places: np.ndarray) -> np.ndarray:
        out = np.zeros(500)
        np.add.at(out, places, x)
        return out

    programs = [(f, (x,)) for _, f in REDUCTIONS] + [(scattered, (x, places))]
    faults = [compared(fdiff.make_tape(f, *args), list(args)) for f, args in programs]
    sys.stderr.writelines(f"{fault}\n" for fault in faults if fault is not None)
    return int(any(fault is not None for fault in faults))


# --- the table --------------------------------------------------------------------------------


def seconds_of(call: Callable[[], object]) -> float:
    """The least time of a call, in seconds, with the device waited for."""
    wait = adapter.cuda_core().Device().sync
    call()
    wait()
    best, begun = np.inf, time.perf_counter()
    while time.perf_counter() - begun < ROW_SECONDS:
        start = time.perf_counter()
        call()
        wait()
        best = min(best, time.perf_counter() - start)
    return float(best)


def copied() -> float:
    """Bytes a second that a copy of `SIZE` doubles on the device reads and writes."""
    own = device("benchmarks.cuda")
    array = own.upload(np.zeros(SIZE))
    return 2 * array.nbytes / seconds_of(lambda: own.copy(array))


def reduction(name: str, f: Callable[..., Any], bandwidth: float) -> dict[str, object]:
    """A reduction of `SIZE` doubles, as a share of the bandwidth of a copy."""
    own = device("benchmarks.cuda")
    (x,) = _entries()
    run, given = compile_cuda(fdiff.make_tape(f, x), own), [own.upload(x)]
    seconds = seconds_of(lambda: run(given))
    return {"name": name, "seconds": seconds, "of a copy": x.nbytes / seconds / bandwidth}


def measured(row: Row, bandwidth: float) -> dict[str, object]:
    """Value and gradient of a row by fdiff, JAX and torch, and what they agree to."""
    args = row.arguments()
    own = device("benchmarks.cuda")
    both = fdiff.value_and_grad(row.by(np))
    run, given = compile_cuda(fdiff.make_tape(both, *args), own), [own.upload(a) for a in args]
    seconds = seconds_of(lambda: run(given))
    value, slope = (array.host() for array in run(given))
    on_cpu = both(*args)
    error = float(np.max(np.abs(slope - on_cpu[1])) / np.max(np.abs(on_cpu[1])))
    out: dict[str, object] = {"name": row.name, "fdiff": seconds, "error": error}
    out["error of value"] = abs(float(value) - float(on_cpu[0])) / abs(float(on_cpu[0]))
    out["of a copy"] = row.least(*args) / seconds / bandwidth
    for name, peer in {"jax": by_jax, "torch": by_torch}.items():
        try:
            out[name] = peer(row, args)
        except Exception as error:  # noqa: BLE001 - a peer that cannot says why
            out[name] = f"{type(error).__name__}: {str(error)[:200]}"
    return out


def by_jax(row: Row, args: tuple[np.ndarray, ...]) -> float | str:
    """Seconds of JAX, its code compiled."""
    import jax

    if jax.default_backend() != "gpu":
        return "no GPU in this installation of JAX"
    jax.config.update("jax_enable_x64", val=True)
    run, given = jax.jit(jax.value_and_grad(row.by(jax.numpy))), [jax.device_put(a) for a in args]
    return seconds_of(lambda: jax.block_until_ready(run(*given)))


def by_torch(row: Row, args: tuple[np.ndarray, ...]) -> float | str:
    """Seconds of torch, its code compiled."""
    import torch

    if not torch.cuda.is_available():
        return "no GPU in this installation of torch"
    run = torch.compile(torch.func.grad_and_value(row.by(torch)))
    given = [torch.tensor(a, device="cuda") for a in args]
    return seconds_of(lambda: run(*given))


if __name__ == "__main__":
    sys.exit(main())
