"""Recorded arrays beside torch and HIPS autograd: `python -m benchmarks.recorded [PART OF A NAME]`.

One forward and one backward pass of a program: recorded arrays with ``backward``, torch, HIPS
autograd and ``fdiff.value_and_grad``; rows named `training` also take a step of gradient descent.
Microseconds of processor time of the thread, on one core: the fastest fifth of batches in turn,
which other processes disturb least. Gradients are compared before anything is timed.

The column `NumPy` is the forward pass (and the step) by NumPy alone, without any gradient. Recorded
operations run at once, so no recorded program can take less; `floor` is that as a multiple of
``value_and_grad``, which computes all in one kernel.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import autograd
import autograd.numpy as anp
import numpy as np
import torch

import fdiff
import fdiff.autograd as recorded

from .report import table

BATCHES, SECONDS = 25, 0.01  # of each call, in turn


class Program(NamedTuple):
    """A scalar function of arrays, in the words of one of the libraries (`np`), at a point."""

    function: Callable[..., Any]  # (np, *arrays)
    point: tuple[np.ndarray, ...]


def chain(np: Any, x: Any) -> Any:
    """Ten elementwise operations."""
    y = x
    for _ in range(3):
        y = np.sin(y) * x + 0.5
    return np.sum(y)


def long_chain(np: Any, x: Any) -> Any:
    """A hundred operations."""
    y = x
    for _ in range(50):
        y = np.tanh(y) * 1.01
    return np.sum(y)


def rosenbrock(np: Any, x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def layers(np: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
    """Three layers of a network, and a sum of squares."""
    y = np.tanh(np.matmul(x, a))
    y = np.tanh(np.matmul(y, b))
    return np.sum(np.matmul(y, c) ** 2)


def softmax(np: Any, x: Any) -> Any:
    e = np.exp(x - np.max(x))
    return np.sum((e / np.sum(e)) ** 2)


def network(np: Any, x: Any, wanted: Any, a: Any, p: Any, b: Any, q: Any, c: Any, r: Any) -> Any:
    """The loss of a network of three layers."""
    y = np.tanh(np.matmul(x, a) + p)
    y = np.tanh(np.matmul(y, b) + q)
    return np.mean((np.matmul(y, c) + r - wanted) ** 2)


def rectified(np: Any, x: Any, wanted: Any, a: Any, b: Any) -> Any:
    """The network of PyTorch's tutorial "Learning PyTorch with Examples", without biases."""
    y = np.matmul(x, a)
    return np.mean((np.matmul(y * (y > 0.0), b) - wanted) ** 2)


# Of BLAS, threads would wait for one another on one core; kernels are compiled at once, since there
# is no other core to compile on while the interpreter answers.
SETTINGS = {"OPENBLAS_NUM_THREADS": "1", "FDIFF_TIER": "compile"}
RATE = 1e-3  # of gradient descent


def _points() -> dict[str, Program]:
    rng = np.random.default_rng(5)
    draw = lambda *shape: rng.normal(size=shape) * 0.4  # noqa: E731 - used a few lines below
    found = {
        f"{f.__name__}, n={n}": Program(f, (draw(n),))
        for f in (chain, long_chain, rosenbrock, softmax)
        for n in (3, 100, 10_000)
    }
    for rows, width in ((1, 4), (8, 16), (64, 64)):
        weights = (draw(width, width), draw(width, width), draw(width, 1))
        found[f"layers, {rows}x{width}"] = Program(layers, (draw(rows, width), *weights))
    return found


PROGRAMS = _points()


def _trainings() -> dict[str, Program]:
    """Networks: the data, then the parameters."""
    rng = np.random.default_rng(6)
    draw = lambda *shape: rng.normal(size=shape) * 0.3  # noqa: E731 - used a few lines below
    found = {}
    for rows, width in ((8, 16), (64, 32), (128, 64), (256, 128)):
        sizes = ((width, width), (width,), (width, width), (width,), (width, 1), (1,))
        data = draw(rows, width), draw(rows, 1)
        found[f"training, {rows}x{width}"] = Program(network, (*data, *[draw(*s) for s in sizes]))
    sizes = ((64, 1000), (64, 10), (1000, 100), (100, 10))
    found["training, tutorial's 64x1000"] = Program(rectified, tuple(draw(*s) for s in sizes))
    return found


TRAININGS = _trainings()
DATA = 2  # arrays before the parameters


def with_recorded(program: Program) -> Callable[[], Any]:
    arrays = [recorded.tensor(x, requires_grad=True) for x in program.point]

    def step() -> Any:
        for x in arrays:
            x.grad = None
        program.function(np, *arrays).backward()
        return [np.asarray(x.grad.value) for x in arrays]

    return step


def with_torch(program: Program) -> Callable[[], Any]:
    arrays = [torch.tensor(x, requires_grad=True) for x in program.point]

    def step() -> Any:
        for x in arrays:
            x.grad = None
        program.function(torch, *arrays).backward()
        return [x.grad.numpy() for x in arrays]

    return step


def with_hips(program: Program) -> Callable[[], Any]:
    slopes = autograd.value_and_grad(
        lambda *xs: program.function(anp, *xs), argnum=tuple(range(len(program.point)))
    )
    return lambda: slopes(*program.point)[1]


def with_functional(program: Program) -> Callable[[], Any]:
    slopes = fdiff.value_and_grad(
        lambda *xs: program.function(np, *xs), argnums=tuple(range(len(program.point)))
    )
    return lambda: slopes(*program.point)[1]


def recorded_training(program: Program) -> Callable[[], Any]:
    data = [recorded.tensor(x, requires_grad=False) for x in program.point[:DATA]]
    parameters = [recorded.tensor(x, requires_grad=True) for x in program.point[DATA:]]

    def step() -> Any:
        program.function(np, *data, *parameters).backward()
        with recorded.no_grad():
            for p in parameters:
                p -= RATE * p.grad  # noqa: PLW2901 - in place
                p.grad = None
        return [np.asarray(p.value) for p in parameters]

    return step


def torch_training(program: Program) -> Callable[[], Any]:
    data = [torch.tensor(x) for x in program.point[:DATA]]
    parameters = [torch.tensor(x, requires_grad=True) for x in program.point[DATA:]]

    def step() -> Any:
        program.function(torch, *data, *parameters).backward()
        with torch.no_grad():
            for p in parameters:
                p -= RATE * p.grad  # noqa: PLW2901 - in place
                p.grad = None
        return [p.detach().numpy() for p in parameters]

    return step


def _descent(slopes: Callable[..., Any], program: Program) -> Callable[[], Any]:
    data = program.point[:DATA]
    parameters = [x.copy() for x in program.point[DATA:]]

    def step() -> Any:
        _, found = slopes(*data, *parameters)
        for p, g in zip(parameters, found, strict=True):
            p -= RATE * g  # noqa: PLW2901 - in place
        return parameters

    return step


def hips_training(program: Program) -> Callable[[], Any]:
    moving = tuple(range(DATA, len(program.point)))
    return _descent(
        autograd.value_and_grad(lambda *xs: program.function(anp, *xs), argnum=moving), program
    )


def functional_training(program: Program) -> Callable[[], Any]:
    moving = tuple(range(DATA, len(program.point)))
    return _descent(
        fdiff.value_and_grad(lambda *xs: program.function(np, *xs), argnums=moving), program
    )


TRAINERS = {
    "recorded": recorded_training,
    "torch": torch_training,
    "autograd": hips_training,
    "value_and_grad": functional_training,
}


def by_numpy(program: Program) -> Callable[[], Any]:
    return lambda: program.function(np, *program.point)


def numpy_training(program: Program) -> Callable[[], Any]:
    parameters = [x.copy() for x in program.point[DATA:]]
    slopes = [np.full_like(x, 1e-12) for x in parameters]

    def step() -> Any:
        program.function(np, *program.point[:DATA], *parameters)
        for p, g in zip(parameters, slopes, strict=True):
            p -= RATE * g  # noqa: PLW2901 - in place

    return step


LIBRARIES = {
    "recorded": with_recorded,
    "torch": with_torch,
    "autograd": with_hips,
    "value_and_grad": with_functional,
}


def microseconds(steps: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Of one call each, the fastest fifth of batches in turn."""
    counts: dict[str, int] = {}
    for name, step in steps.items():
        for _ in range(100):
            step()
        begin = time.thread_time()
        for _ in range(5):
            step()
        counts[name] = max(1, int(5 * SECONDS / max(time.thread_time() - begin, 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(BATCHES):
        for name, step in steps.items():
            begin = time.thread_time()
            for _ in range(counts[name]):
                step()
            found[name].append((time.thread_time() - begin) / counts[name])
    return {name: 1e6 * sorted(times)[BATCHES // 5] for name, times in found.items()}


def main() -> None:
    if not os.environ.items() >= SETTINGS.items():
        os.execve(sys.executable, [*sys.orig_argv], {**os.environ, **SETTINGS})  # noqa: S606 - this very program
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    gc.disable()
    rows = []
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    rows_of: list[Any] = [(*row, LIBRARIES, by_numpy) for row in PROGRAMS.items()]
    rows_of += [(*row, TRAINERS, numpy_training) for row in TRAININGS.items()]
    for title, program, libraries, plainly in rows_of:
        if asked not in title:
            continue
        steps = {name: make(program) for name, make in libraries.items()}
        firsts = [[np.array(x) for x in step()] for step in steps.values()]
        for first in firsts:
            for one, other in zip(first, firsts[0], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)
        found = microseconds({**steps, "NumPy": plainly(program)})
        ours = found["recorded"]
        ratios = [f"{ours / found[n]:.2f}×" for n in ("torch", "autograd", "value_and_grad")]
        ratios.append(f"{found['NumPy'] / found['value_and_grad']:.2f}×")
        rows.append([title, *[f"{x:.1f}" for x in found.values()], *ratios])
    head = ["µs a pass, and recorded as a multiple", *LIBRARIES, "NumPy"]
    head += ["torch", "autograd", "v+g", "floor"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
