"""Derivatives that are products of matrices: every spelling beside one kernel written by hand.

    python -m benchmarks.algebra_cases [words of names] [--jax]

Speed must not depend on how a function is spelled. Each line is the time of fdiff's compiled call,
of the kernel of `limit.algebra`, and one over the other; with ``--jax``, JAX's time too. One core.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import fdiff

from . import algebra, inputs
from .limit import algebra as by_hand
from .peers import ONE_THREAD

Array = np.ndarray
Function = Callable[..., Any]
ENVIRONMENT = {**ONE_THREAD, "FDIFF_NUM_THREADS": "1", "FDIFF_TIER": "compile"}
ROUNDS = 15
ROUND_SECONDS = 0.02


class Problem(NamedTuple):
    """Spellings of one function: what is derived, the arguments, and the kernel by hand."""

    title: str
    derive: Callable[[ModuleType, Function], Function]  # of fdiff or JAX
    arguments: Callable[[], tuple[Array, ...]]
    kernel: Function
    spellings: tuple[str, ...]


def _hessian(peer: ModuleType, f: Function) -> Function:
    return peer.hessian(f)


def _jacobian_of_grad(peer: ModuleType, f: Function) -> Function:
    return peer.jacfwd(peer.grad(f))


def _jacobian(peer: ModuleType, f: Function) -> Function:
    return getattr(peer, "jacobian" if peer is fdiff else "jacrev")(f)


def _of_rows(peer: ModuleType, f: Function) -> Function:
    """The Jacobian of each row of the first argument."""
    return peer.vmap(_jacobian(peer, f), in_axes=(0, *[None] * 6))


def _labelled(n: int, d: int) -> Callable[[], tuple[Array, ...]]:
    def arguments() -> tuple[Array, ...]:
        rng = inputs.drawn()
        x = rng.normal(size=(n, d))
        return rng.normal(size=d) / np.sqrt(d), x, rng.choice([-1.0, 1.0], n)

    return arguments


def _matrices(n: int) -> Callable[[], tuple[Array, ...]]:
    def arguments() -> tuple[Array, ...]:
        rng = inputs.drawn()
        return rng.normal(size=n), *(rng.normal(size=(n, n)) / np.sqrt(n) for _ in range(2))

    return arguments


def _network(rows: int, *widths: int) -> Callable[[], tuple[Array, ...]]:
    def arguments() -> tuple[Array, ...]:
        rng = inputs.drawn()
        layers = []
        for n, m in itertools.pairwise(widths):
            layers += [rng.normal(size=(n, m)) / np.sqrt(n), 0.1 * rng.normal(size=m)]
        return rng.normal(size=(rows, widths[0])), *layers

    return arguments


LOSSES = ("log1p_of_exp", "logaddexp", "cross_entropy", "softplus_of_sum")
BETWEEN = ("between", "of_dots", "of_einsum", "of_rows", "of_columns", "of_sums")
OUTSIDE = ("outside", "of_chain", "of_einsum", "of_product", "of_rows", "of_columns")
LAYERS = ("", "_of_layers", "_of_einsum", "_of_transposes")


def problems() -> Iterator[Problem]:
    for n, d in ((1000, 20), (100_000, 100)):
        given, kernel = _labelled(n, d), by_hand.logistic_hessian
        yield Problem(f"Hessian logistic {n:,}x{d}", _hessian, given, kernel, LOSSES)
        title = f"Jacobian of gradient logistic {n:,}x{d}"
        yield Problem(title, _jacobian_of_grad, given, kernel, LOSSES[:1])
    for n in (30, 100, 300):
        given = _matrices(n)
        names = tuple(f"tanh_{name}" for name in BETWEEN)
        yield Problem(f"Jacobian n={n}", _jacobian, given, by_hand.tanh_between, names)
        names = tuple(f"sine_{name}" for name in OUTSIDE)
        yield Problem(f"Jacobian n={n}", _jacobian, given, by_hand.sine_outside, names)
    given, title = _network(32, 32, 64, 64, 10), "Jacobians 32x32-64-64-10"
    names = tuple(f"tanh_network{name}" for name in LAYERS)
    yield Problem(title, _of_rows, given, by_hand.tanh_network, names)
    names = tuple(f"relu_network{name}" for name in ("", "_by_where", "_by_clip", "_by_product"))
    yield Problem(title, _of_rows, given, by_hand.relu_network, names)
    names = ("sigmoid_network", "expit_network")
    yield Problem(title, _of_rows, given, by_hand.sigmoid_network, names)


def _once(f: Callable[[], Any], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        f()
    return (time.process_time() - start) / repeats


def fastest(*calls: Callable[[], Any]) -> list[float]:
    """Seconds of each call, the least of rounds in which they take turns."""
    for call in calls:
        call()
    repeats = [max(1, int(ROUND_SECONDS / _once(call, 1))) for call in calls]
    rounds = [[_once(c, n) for c, n in zip(calls, repeats, strict=True)] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _jax_call(problem: Problem, name: str, arguments: tuple[Array, ...]) -> Callable[[], Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    special = {"expit": "jax.scipy.special"}
    module = inputs.functions(inputs.HERE / "algebra.py", jax.numpy, special)
    call = jax.jit(problem.derive(jax, getattr(module, name)))
    given = tuple(map(jax.numpy.asarray, arguments))
    return lambda: call(*given).block_until_ready()


def measured(problem: Problem, name: str, *, jax: bool) -> str:
    arguments = problem.arguments()
    call = problem.derive(fdiff, getattr(algebra, name))
    expected = problem.kernel(*arguments)
    np.testing.assert_allclose(call(*arguments), expected, rtol=1e-9, atol=1e-12)
    calls = [lambda: call(*arguments), lambda: problem.kernel(*arguments)]
    if jax:
        calls.append(_jax_call(problem, name, arguments))
        np.testing.assert_allclose(calls[-1](), expected, rtol=1e-9, atol=1e-12)
    ours, hand, *others = (1e6 * t for t in fastest(*calls))
    more = "".join(f"  JAX {t:9.1f} ({t / ours:.2f})" for t in others)
    title = f"{problem.title} {name}"
    return f"{title:58} {ours:9.1f} us  by hand {hand:9.1f}  {ours / hand:.2f}{more}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="of the names to measure; all if left out")
    parser.add_argument("--jax", action="store_true")
    asked = parser.parse_args()
    if not ENVIRONMENT.items() <= os.environ.items():  # libraries read theirs when they are loaded
        again = [sys.executable, "-m", "benchmarks.algebra_cases", *sys.argv[1:]]
        sys.exit(subprocess.run(again, env={**os.environ, **ENVIRONMENT}, check=False).returncode)
    for problem in problems():
        for name in problem.spellings:
            if all(word in f"{problem.title} {name}" for word in asked.words):
                print(measured(problem, name, jax=asked.jax), flush=True)


if __name__ == "__main__":
    main()
