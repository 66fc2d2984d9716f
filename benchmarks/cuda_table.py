"""The table of `python -m benchmarks.cuda`: problems, times, and the same by JAX and torch.

``python -m benchmarks.cuda_table jax`` (or ``torch``) measures a peer in a process of its own, a
line of JSON for each row as it comes: libraries for GPUs take memory for themselves, and compile
for long.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

import fdiff
from fdiff.kernels.cuda.cuda_compiler import compile_cuda
from fdiff.kernels.cuda.devices import adapter
from fdiff.kernels.cuda.devices.device import device
from fdiff.kernels.cuda.devices.launch_graphs import SWITCH
from fdiff.tree import flatten

from . import inputs, problems
from .inputs import USER_CODE

ROW_SECONDS = 1.0  # of repeating a call
CALLS, ROUNDS = 300, 9  # small calls that follow one another, and how often that is timed
WARM = 3  # calls before that: kernels are loaded, graphs recorded, memory taken
ROOT = Path(__file__).parent.parent


class Row(NamedTuple):
    """A problem of the table; `least` is how many bytes it must read and write at least."""

    name: str
    function: str
    arguments: Callable[[], tuple[np.ndarray, ...]]
    least: Callable[..., int]
    file: Path = Path(problems.__file__)
    constants: tuple[float, ...] = ()
    argnums: int | tuple[int, ...] = 0

    def by(self, namespace: object) -> Callable[..., Any]:
        """The function of the arguments, written with a namespace in the place of NumPy."""
        f = getattr(inputs.functions(self.file, namespace), self.function)
        constants = self.constants
        return (lambda *args: f(*args, *constants)) if constants else f


SIZE = 100_000_000  # entries of the large arrays


def _entries() -> tuple[np.ndarray, ...]:
    return (np.linspace(-1.0, 2.0, SIZE),)


def _grid(n: int = 0) -> tuple[np.ndarray, ...]:
    n = n or int(SIZE**0.5)
    return (np.random.default_rng(0).random((n, n)),)


def _labelled() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE // 50, 20))
    return rng.normal(size=20), x, np.sign(rng.normal(size=len(x)))


def _mixture() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    shapes = [25, (25, 10), (25, 55), (max(SIZE // 1000, 20), 10)]
    return tuple(rng.normal(size=shape) for shape in shapes)


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
    Row(
        "mixture, d = 10, K = 25",
        "objective",
        _mixture,
        _of_data,
        USER_CODE / "gmm.py",
        (1.0, 0),
        (0, 1, 2),
    ),
)  # fmt: skip
SMALL = Row("a small call", "chain", lambda: (np.linspace(0.1, 1.0, 1000),), _of_gradient)
# Small calls of several kernels, which are launched as a CUDA graph.
GRAPHS = tuple(
    Row(f"Bratu, {n} by {n}", "bratu", partial(_grid, n), _of_gradient) for n in (200, 500)
)
REDUCTIONS = (
    ("sum", np.sum),
    ("sum over rows", lambda x: np.sum(np.reshape(x, (-1, 1000)), axis=1)),
    ("sum over columns", lambda x: np.sum(np.reshape(x, (-1, 1000)), axis=0)),
)


# --- times ------------------------------------------------------------------------------------


def repeated(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """The median time of a call, in seconds, with the device waited for."""
    for _ in range(WARM):
        call()
    wait()
    times: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < ROW_SECONDS:
        start = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def pace(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """The time of a call, in seconds, if many follow one another and the last is waited for."""
    times: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        wait()
        times.append((time.perf_counter() - start) / CALLS)
    return float(np.median(times))


def seconds_of(call: Callable[[], object]) -> float:
    """The median time of a call of ours."""
    return repeated(call, adapter.cuda_core().Device().sync)


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
    """Value and gradient of a row, and how they agree with those of the CPU."""
    args = row.arguments()
    own = device("benchmarks.cuda")
    both = fdiff.value_and_grad(row.by(np), row.argnums)
    run, given = compile_cuda(fdiff.make_tape(both, *args), own), [own.upload(a) for a in args]
    seconds = seconds_of(lambda: run(given))
    found, wanted = [array.host() for array in run(given)], flatten(both(*args))[0]
    errors = [
        float(np.max(np.abs(a - b)) / np.max(np.abs(b)))
        for a, b in zip(found, cast("list[np.ndarray]", wanted), strict=True)
    ]
    out: dict[str, object] = {"name": row.name, "seconds": seconds, "error": max(errors[1:])}
    out["error of value"] = errors[0]
    out["of a copy"] = row.least(*args) / seconds / bandwidth
    out["launches"] = len(run.program.steps)
    return out


def small_call(row: Row) -> dict[str, object]:
    """The time of a call with device arrays, its kernels launched as a CUDA graph and one by one.

    The latter has FDIFF_CUDA_GRAPHS=0 in the environment, which is read when kernels are made.
    """
    args, own = row.arguments(), device("benchmarks.cuda")
    given = [own.export(own.upload(a)) for a in args]
    wanted = fdiff.value_and_grad(row.by(np), row.argnums)(*args)
    tape = fdiff.make_tape(fdiff.value_and_grad(row.by(np), row.argnums), *args)
    launches = len(compile_cuda(tape, own).program.steps)
    out: dict[str, object] = {"name": row.name, "launches": launches}
    before = os.environ.get(SWITCH)
    try:
        for name, setting in (("with a graph", "1"), ("one by one", "0")):
            os.environ[SWITCH] = setting
            fdiff.cache_clear()
            prepared = fdiff.value_and_grad(row.by(np), row.argnums, device="cuda")
            found = flatten(prepared(*given))[0]
            expected = cast("list[np.ndarray]", flatten(wanted)[0])
            for one, other in zip(found, expected, strict=True):
                if not np.allclose(own.view(one).host(), other, rtol=1e-12, atol=1e-12):
                    raise ArithmeticError(f"{row.name}, {name}: results differ from the CPU's")
            out[f"seconds {name}"] = pace(lambda p=prepared: p(*given), own.wait)
    finally:
        os.environ.pop(SWITCH, None)
        if before is not None:
            os.environ[SWITCH] = before
    return out


# --- peers ------------------------------------------------------------------------------------


def by_peer(name: str, seconds: float) -> Iterator[dict[str, object]]:
    """What JAX or torch takes for each row, measured by another process in so many seconds."""
    own = [sys.executable, "-m", "benchmarks.cuda_table", name]
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    try:
        done = subprocess.run(
            own, capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT,
            env=environment,
        )  # fmt: skip
        said, fault = done.stdout, done.stderr[-500:] if done.returncode else ""
    except subprocess.TimeoutExpired as error:
        said, fault = error.stdout or b"", f"stopped after {seconds:.0f} s"
    lines = said.decode() if isinstance(said, bytes) else said
    for line in lines.splitlines():
        if line.startswith("{") and line.endswith("}"):  # not one that was cut off
            yield json.loads(line)
    if fault:
        yield {"name": "the other rows", "fault": fault}


def peer_rows(name: str) -> Iterator[dict[str, object]]:
    """The rows of one peer, in this process."""
    peer = {"jax": by_jax, "torch": by_torch}[name]
    for row in (SMALL, *ROWS):
        try:
            yield {"name": row.name, "seconds": peer(row)}
        except Exception as error:  # noqa: BLE001 - a peer that cannot says why
            yield {"name": row.name, "fault": f"{type(error).__name__}: {str(error)[:200]}"}


def timed(row: Row, call: Callable[[], object], wait: Callable[[], object]) -> float:
    """The time of a call of a row; of the small one, that of one among many."""
    return (pace if row is SMALL else repeated)(call, wait)


def by_jax(row: Row) -> float:
    """Seconds of JAX, its code compiled."""
    import jax

    if jax.default_backend() != "gpu":
        raise RuntimeError("no GPU in this installation of JAX")
    jax.config.update("jax_enable_x64", val=True)
    run = jax.jit(jax.value_and_grad(row.by(jax.numpy), row.argnums))
    given = [jax.device_put(a) for a in row.arguments()]
    last: list[object] = []

    def call() -> None:
        last[:] = [run(*given)]

    return timed(row, call, lambda: jax.block_until_ready(last))


def by_torch(row: Row) -> float:
    """Seconds of torch, its code compiled."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("no GPU in this installation of torch")
    plain = torch.func.grad_and_value(row.by(torch), row.argnums)
    run = torch.compile(plain)
    given = [torch.tensor(a, device="cuda") for a in row.arguments()]
    try:
        run(*given)
    except Exception:  # noqa: BLE001 - what its compiler refuses is run as it is
        run = plain
    return timed(row, lambda: run(*given), torch.cuda.synchronize)


def main() -> int:
    for found in peer_rows(sys.argv[1]):
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
