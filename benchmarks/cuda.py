"""`python -m benchmarks.cuda`: what kernels do on a GPU, in under eight minutes.

It makes some calls as users do; times small ones with and without CUDA graphs; measures a table of
problems, with the bandwidth of a plain copy as the measure of what memory allows; compiles the
kernels of the op suite on all cores, runs them and compares them with NumPy; runs reductions and
scatters under ``compute-sanitizer`` where that is installed; and has JAX and torch do the table.
Each part has a process of its own: a kernel that reads where it must not ends all that its process
does on the GPU. Results go to ``results/cuda-DATE.json`` as they come, with date, device and
versions; a part that fails, or that there is no time for, says so and the others go on. Without a
GPU it exits with status 2: the simulator's times mean nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import cast

import numpy as np
import scipy.linalg
import scipy.special  # noqa: F401 - imported here, not in the times

import fdiff
from fdiff.arraytype import type_of
from fdiff.interpret import evaluate
from fdiff.kernels.cuda.cuda_compiler import compile_cuda, program_of_graph
from fdiff.kernels.cuda.cuda_program import CudaKernel
from fdiff.kernels.cuda.devices import adapter, kernel_binaries
from fdiff.kernels.cuda.devices.device import device
from fdiff.kernels.ir.graph_of_tape import kernel_graph, supported
from fdiff.primitive import PRIMITIVES, load_tables
from fdiff.tape import ITEM, Builder, Tape
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

from . import cuda_table as table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
TOLERANCE = 1e-12  # of each entry, relative to the largest
SECONDS = 450.0  # of everything
SUITE_SECONDS, TOOL_SECONDS, PEER_SECONDS = 150.0, 40.0, 90.0  # at most, of these parts
ROW_SECONDS = 60.0  # likewise, of a row of a table
WORKERS = min(8, os.cpu_count() or 1)  # processes that share the op suite
PACKAGES = (
    "numba-fdiff",
    "numba-cuda",
    "numba",
    "cuda-core",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "jax",
    "torch",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda", description=__doc__)
    parser.add_argument("--part", help="only this part, in this process")
    parser.add_argument("--copy", type=float, default=float("nan"), help="bytes a second of a copy")
    chosen = parser.parse_args()
    if (fault := no_gpu()) is not None:
        sys.stderr.write(
            f"benchmarks.cuda: there is no GPU here, so nothing is measured. {fault}\n"
        )
        return 2
    if chosen.part is not None:
        return part(chosen.part, chosen.copy)
    name = f"cuda-{dt.datetime.now(tz=dt.UTC).date().isoformat()}.json"
    return everything(Report(RESULTS / name))


def part(name: str, copy: float) -> int:
    """One part, its result printed as JSON; of the op suite each program as it comes."""
    kind, _, rest = name.partition(":")
    if kind == "sanitized":
        return watched()
    if kind == "suite":
        worker, workers, first = map(int, rest.split(":"))
        return checked_programs(worker, workers, first)
    makers: dict[str, Callable[[], object]] = {
        "calls": public_calls,
        "copy": table.copied,
        "rows": lambda: table.measured(next(r for r in table.ROWS if r.name == rest), copy),
        "graphs": lambda: table.small_call(next(r for r in table.GRAPHS if r.name == rest)),
        "reductions": lambda: table.reduction(rest, dict(table.REDUCTIONS)[rest], copy),
    }
    print(json.dumps(makers[kind]()), flush=True)
    return 0


def apart(name: str, seconds: float, copy: float = float("nan")) -> object:
    """The result of a part, by a process of its own."""
    own = [sys.executable, "-m", "benchmarks.cuda", "--part", name, "--copy", str(copy)]
    done = subprocess.run(
        own, capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT
    )
    if done.returncode:
        raise ChildProcessError(f"status {done.returncode}: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


class Report:
    """The results so far, which are on disk and printed as they come: a part that fails is named.

    `left` is how many seconds of `SECONDS` are left.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begun = time.perf_counter()
        self.parts: dict[str, object] = {}

    @property
    def left(self) -> float:
        return SECONDS - (time.perf_counter() - self._begun)

    def add(self, name: str, measure: Callable[[], object]) -> object:
        """A part of the report by `measure`."""
        try:
            found = measure()
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the report
            found = {"fault": "".join(traceback.format_exception(error))[-2000:]}
        self.parts[name] = found
        return self._written(name, found)

    def row(self, name: str, label: str, measure: Callable[[], object]) -> object:
        """One more row of a table; none if the time is over."""
        if self.left <= 0:
            return None
        rows = cast("list[object]", self.parts.setdefault(name, []))
        found = {"name": label, **cast("dict[str, object]", self.add("row", measure))}
        self.parts.pop("row")
        rows.append(found)
        return self._written(name, found)

    def _written(self, name: str, found: object) -> object:
        self._file.write_text(json.dumps(self.parts, indent=1) + "\n", encoding="utf-8")
        if name != "row":
            print(json.dumps({name: found}), flush=True)
        return found


def everything(report: Report) -> int:
    """All parts, the shorter ones first; the status is 1 if a result is wrong or a part failed."""
    report.add("machine", machine)
    report.add("calls", lambda: apart("calls", ROW_SECONDS))
    bandwidth = report.add("copy", lambda: apart("copy", ROW_SECONDS))
    copy = bandwidth if isinstance(bandwidth, float) else float("nan")
    for kind, names in (
        ("graphs", [row.name for row in table.GRAPHS]),
        ("reductions", [name for name, _ in table.REDUCTIONS]),
        ("rows", [row.name for row in table.ROWS]),
    ):
        for name in names:
            report.row(kind, name, partial(apart, f"{kind}:{name}", ROW_SECONDS, copy))
    suite_ = report.add("suite", lambda: suite(min(SUITE_SECONDS, report.left)))
    for tool in ("memcheck", "racecheck", "initcheck"):
        report.row("sanitizer", tool, partial(sanitizer, tool, min(TOOL_SECONDS, report.left)))
    for peer in ("jax", "torch"):
        seconds = min(PEER_SECONDS, max(1.0, report.left))
        report.add(peer, lambda peer=peer, seconds=seconds: list(table.by_peer(peer, seconds)))
    wrong = not isinstance(suite_, dict) or suite_.get("wrong", True)
    return int(bool(wrong) or "fault" in json.dumps(report.parts))


def public_calls() -> dict[str, object]:
    """Calls as users make them: NumPy's arrays there and back, and device arrays in and out."""
    (x,) = table.SMALL.arguments()
    own, f = device("benchmarks.cuda"), table.SMALL.by(np)
    prepared, wanted = fdiff.value_and_grad(f, device="cuda"), fdiff.value_and_grad(f)(x)
    there = own.export(own.upload(x))
    value, slope = prepared(there)
    found = {"of NumPy": prepared(x), type(slope).__module__: (own.view(value).host(),
             own.view(slope).host())}  # fmt: skip
    out = {
        name: all(np.allclose(a, b, rtol=1e-13) for a, b in zip(pair, wanted, strict=True))
        for name, pair in found.items()
    }
    if not all(out.values()):
        raise ArithmeticError(f"results differ from the CPU's: {out}")
    return {**out, "seconds of a small call": table.pace(lambda: prepared(there), own.wait)}


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


def suite(seconds: float) -> dict[str, object]:
    """All op tapes on the GPU, compared with NumPy; kernels are compiled on all cores first.

    After so many seconds it ends; what it did is in the result.
    """
    begun = time.perf_counter()
    cases = list(op_tapes())
    capability = tuple(adapter.cuda_core().Device().compute_capability)
    kernels: dict[CudaKernel, None] = {}
    for _, tape, _ in cases:
        graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
        kernels |= dict.fromkeys(program_of_graph(graph, values).kernels)
    compile_all(kernels, capability, 0.7 * seconds)
    compiling = time.perf_counter() - begun
    with ThreadPoolExecutor(WORKERS) as pool:
        shares = [
            pool.submit(one_share, worker, max(1.0, seconds - compiling))
            for worker in range(WORKERS)
        ]
        run = [found for share in shares for found in share.result()]
    return {"programs": len(cases), "run": len(run), "kernels": len(kernels),
            "wrong": [f"{name}: {fault}" for name, fault in run if fault is not None],
            "seconds of compiling": round(compiling, 1),
            "seconds": round(time.perf_counter() - begun, 1)}  # fmt: skip


def one_share(worker: int, seconds: float) -> list[tuple[str, str | None]]:
    """What a worker's programs did; after one that ends its process, another does the rest."""
    out: list[tuple[str, str | None]] = []
    end = time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        first = str(len(out))
        name = f"suite:{worker}:{WORKERS}:{first}"
        own = [sys.executable, "-m", "benchmarks.cuda", "--part", name]
        try:
            done = subprocess.run(
                own, capture_output=True, text=True, timeout=left, check=False, cwd=ROOT
            )
            said, status = done.stdout, done.returncode
        except subprocess.TimeoutExpired as error:
            said, status = (error.stdout or b"").decode(), 0
        lines = [line for line in said.splitlines() if line.endswith("]")]
        out += [tuple(json.loads(line)) for line in lines]
        if status == 0:
            break
        if not lines:
            out.append((name, f"the process ended with status {status}"))
    return out


def checked_programs(worker: int, workers: int, first: int) -> int:
    """Each of a worker's programs from `first` on: its name, and what is wrong with it.

    The status is 3 where the GPU does nothing more in this process.
    """
    for name, tape, arrays in list(op_tapes())[worker::workers][first:]:
        fault = compared(tape, arrays)
        print(json.dumps([name, fault]), flush=True)
        if fault is not None and not alive():
            return 3
    return 0


def alive() -> bool:
    """Whether the GPU still does what this process asks for."""
    try:
        return device("benchmarks.cuda").upload(np.ones(3)).host().sum() == 3.0
    except Exception:  # noqa: BLE001 - whatever it raises, it does nothing
        return False


def compile_all(kernels: Iterable[CudaKernel], capability: tuple[int, ...], seconds: float) -> None:
    """Put the machine code of kernels on disk, as many as the time allows, on all cores."""
    pool = ProcessPoolExecutor(mp_context=get_context("spawn"))
    waiting = [pool.submit(_compiled, (kernel, capability)) for kernel in kernels]
    wait(waiting, timeout=seconds)
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:  # some may be in the middle of a kernel
        worker.terminate()


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


def sanitizer(tool: str, seconds: float) -> dict[str, str]:
    """What a tool of compute-sanitizer says of reductions and scatters."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        return {"said": "not run: compute-sanitizer is not installed"}
    own = [sys.executable, "-m", "benchmarks.cuda", "--part", "sanitized"]
    # cuda.core asks the driver questions that it may answer with an error: those are not reported
    quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
    command = [program, "--tool", tool, *quiet, "--error-exitcode", "9", *own]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return {"said": f"not finished in {seconds:.0f} s"}
    if done.returncode == 0:
        return {"said": "no fault"}
    return {"fault": (done.stdout + done.stderr)[-2000:]}


def watched() -> int:
    """Reductions and scatters of a few thousand entries, compared with NumPy."""
    rng = np.random.default_rng(0)
    x, places = rng.normal(size=70_000), rng.integers(0, 500, 70_000)

    def scattered(x: np.ndarray, places: np.ndarray) -> np.ndarray:
        out = np.zeros(500)
        np.add.at(out, places, x)
        return out

    programs = [(f, (x,)) for _, f in table.REDUCTIONS] + [(scattered, (x, places))]
    faults = [compared(fdiff.make_tape(f, *args), list(args)) for f, args in programs]
    sys.stderr.writelines(f"{fault}\n" for fault in faults if fault is not None)
    return int(any(fault is not None for fault in faults))


if __name__ == "__main__":
    sys.exit(main())
