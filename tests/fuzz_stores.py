"""Every operator of random storing programs, in every tier, against NumPy itself.

    python tests/fuzz_stores.py --count 2000 --seed 7 [--operators 3] [--seconds 600]

prints the text of each program that fails, with what failed, and ends with status 1 if any did.
`tests/kernels/test_fuzz_stores.py` runs a part of it.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from storing_programs import (
    Reference,
    StoringProgram,
    reference,
    second_reference,
    storing_program,
)

import fdiff
from fdiff import kernels
from fdiff.dispatch.tiers import tiered_execution
from fdiff.errors import UnsupportedError
from fdiff.kernels import bytecode, machine_code, source_cache
from fdiff.kernels.llvm import machine

FIRST = ("grad", "value_and_grad", "vjp", "jvp", "jacobian", "jit", "jit_array", "vmap")
SECOND = ("hessian", "hvp", "vhp")
OPERATORS = (*FIRST, *SECOND)
TIERS = ("interpret", "evaluate", "compile")
# of opcodes that storing programs need: one interpreter for all takes seconds, one for each minutes
FAMILIES = frozenset(
    [
        "", "add i8 i8 i8", "any i8", "cos f8 f8", "cumsum f8", "equal i8 i8 b1", "exp f8 f8",
        "gather", "greater f8 f8 b1", "logical_and b1 b1 b1", "logical_not b1 b1",
        "logical_or b1 b1 b1", "not_equal f8 f8 b1", "scatter_add f8", "scatter_set",
        "sech_squared f8 f8", "sin f8 f8", "square f8 f8", "tanh f8 f8", "where b1 f8 f8 f8",
    ]
)  # fmt: skip
PROGRESS = 500  # programs between two lines that say how far it is
CLOSE, NEAR = 1e-10, 1e-6  # of tiers, and of differences of derivatives: relative to the largest


@dataclass(frozen=True)
class Point:
    """Where a program is evaluated: arguments, directions, and what NumPy says there."""

    x: np.ndarray
    v: np.ndarray
    w: np.ndarray
    told: Reference


def point_of(program: StoringProgram) -> Point:
    """The program's own point, with a direction for inputs and one for outputs."""
    rng = np.random.default_rng(program.x.size)
    told = reference(program, program.x)
    return Point(
        program.x, rng.normal(size=program.x.shape), rng.normal(size=told.array.shape), told
    )


def prepared(program: StoringProgram, name: str, at: Point) -> Callable[[], Any]:
    """The operator, prepared once, as a function without arguments."""
    f, g, x = program.f, program.g, at.x
    if name == "vmap":
        rows, call = np.stack([x, x * 0.5]), fdiff.vmap(fdiff.grad(f))
        return lambda: call(rows)
    if name in ("jit", "jit_array"):
        call = fdiff.jit(f if name == "jit" else g)
        return lambda: call(x)
    call = getattr(fdiff, name)(g if name in ("vjp", "jvp", "jacobian") else f)
    if name in ("vjp", "jvp", "hvp", "vhp"):
        vector = at.w if name == "vjp" else at.v
        return lambda: call(x, vector)
    return lambda: call(x)


def expected(program: StoringProgram, name: str, at: Point) -> tuple[np.ndarray, ...]:
    """What NumPy says the operator gives; of second derivatives, products with the direction."""
    told, entries = at.told, at.x.ndim
    if name in ("grad", "value_and_grad"):
        return (told.value, told.gradient)[name == "grad" :]
    if name == "vjp":
        return (told.array, np.tensordot(at.w, told.jacobian, at.w.ndim))
    if name == "jvp":
        return (told.array, np.tensordot(told.jacobian, at.v, entries))
    if name == "vmap":
        return (np.stack([told.gradient, reference(program, at.x * 0.5).gradient]),)
    return ({"jacobian": told.jacobian, "jit": told.value, "jit_array": told.array}[name],)


def flat(result: Any) -> tuple[np.ndarray, ...]:
    """The arrays of a result."""
    return tuple(map(np.array, result)) if isinstance(result, tuple) else (np.array(result),)


@contextmanager
def compiled_quickly() -> Generator[None]:
    """Without LLVM's optimisations, which take ten times as long as all else does.

    What is searched for is made before LLVM. Kernels and their texts are made anew, and nothing of
    them is left on disk; routines and interpreters of bytecode are taken from there.
    """
    quick = machine._new_machine(machine.target(), 0)
    whole = machine.object_code

    def object_code(module: ir.Module | str, **options: bool) -> bytes:
        if not isinstance(module, str):  # of a routine; kernels come as their assembly
            return whole(module, **options)
        parsed = llvm.parse_assembly(module)
        parsed.verify()
        return bytes(quick.emit_object(parsed))

    def stored(
        text: str, symbol: str, compiler: str, compiled: Callable[[], bytes], *way: str
    ) -> tuple[Any, bool]:
        if symbol != "kernel":
            return from_disk(text, symbol, compiler, compiled, *way)
        return machine.Loaded(compiled(), symbol), False

    from_disk = machine_code._loaded
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "object_code", object_code)
        patch.setattr(machine_code, "_loaded", stored)
        patch.setattr(source_cache, "_name", lambda *_: "")
        kernels.cache_clear()
        bytecode.provide(FAMILIES)
        yield
    kernels.cache_clear()


@contextmanager
def tier(name: str) -> Generator[None]:
    """With this tier fixed by the environment."""
    before = os.environ.get(tiered_execution.VARIABLE)
    os.environ[tiered_execution.VARIABLE] = name
    try:
        yield
    finally:
        del os.environ[tiered_execution.VARIABLE]
        if before is not None:
            os.environ[tiered_execution.VARIABLE] = before


def in_every_tier(program: StoringProgram, name: str, at: Point) -> dict[str, tuple[Any, ...]]:
    """What the operator gives in each tier; a program may be refused as bytecode."""
    tiered_execution.forget_runners()  # of an equal tape: each tier has to run here
    call = prepared(program, name, at)
    found: dict[str, tuple[Any, ...]] = {}
    for which in TIERS:
        with tier(which):
            try:
                found[which] = flat(call())
            except UnsupportedError:
                if which != "evaluate":
                    raise
    return found


def differ(got: tuple[Any, ...], want: tuple[Any, ...], near: float) -> str:
    """In words, how two results differ; empty if they agree."""
    if len(got) != len(want):
        return f"{len(got)} results for {len(want)}"
    scale = max([1.0, *(float(np.max(np.abs(w), initial=0.0)) for w in want)])
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape:
            return f"shape {g.shape} for {w.shape}"
        if not np.allclose(g, w, rtol=near, atol=near * scale):
            return f"\n{g}\nfor\n{w}"
    return ""


def fault(program: StoringProgram, name: str, at: Point) -> str:
    """In words, what is wrong with one operator of a program; empty if nothing is."""
    found = in_every_tier(program, name, at)
    own = found["interpret"]
    for which, got in found.items():
        if wrong := differ(got, own, CLOSE):
            return f"{which} gives another result than the interpreter: {wrong}"
    if name in FIRST:
        if wrong := differ(own, expected(program, name, at), CLOSE):
            return f"NumPy gives another result: {wrong}"
        return ""
    product = (np.tensordot(own[0], at.v, at.x.ndim),) if name == "hessian" else own
    return _against_differences(program, product, at)


def _against_differences(program: StoringProgram, got: tuple[Any, ...], at: Point) -> str:
    """Second derivatives; with small steps, too, as a large one may cross a condition."""
    wrong = ""
    for h, near in ((1e-3, NEAR), (1e-6, 100 * NEAR)):
        want = second_reference(program, at.x, at.v, h)
        wrong = differ(got, (want,), near)
        if not wrong:
            return ""
    return f"differences of derivatives give another result: {wrong}"


def faults(seed: int, operators: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with the program of this number, in words, each with its text."""
    program = storing_program(seed)
    at = point_of(program)
    if not at.told.sane:
        return
    for name in operators:
        try:
            wrong = fault(program, name, at)
        except Exception:  # noqa: BLE001 - whatever it is, it is what is searched for
            wrong = traceback.format_exc()
        if wrong:
            yield f"program {seed}, {name}: {wrong}\n\n{program.text}"


def some_operators(seed: int, count: int) -> tuple[str, ...]:
    """So many operators for the program of this number; each in its turn."""
    if count >= len(OPERATORS):
        return OPERATORS
    return tuple(random.Random(seed).sample(OPERATORS, count))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="random storing programs, in all operators")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first program")
    parser.add_argument("--operators", type=int, default=len(OPERATORS), help="of each program")
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after so long")
    parser.add_argument("--quick", action="store_true", help="without LLVM's optimisations")
    options = parser.parse_args()
    os.environ["FDIFF_VERIFY"] = "1"
    with compiled_quickly() if options.quick else nullcontext():
        return run(options)


def run(options: argparse.Namespace) -> int:
    """The programs that the command line asks for, one after another."""
    begin, failed, done = time.perf_counter(), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        if time.perf_counter() - begin > options.seconds:
            break
        found = list(faults(seed, some_operators(seed, options.operators)))
        failed += bool(found)
        done += 1
        if done % PROGRESS == 0:
            print(f"{done:,} programs, {time.perf_counter() - begin:,.0f} s", flush=True)
        for words in found:
            print(words, "\n", "-" * 80, flush=True)
    seconds, info = time.perf_counter() - begin, kernels.cache_info()
    print(
        f"{done:,} programs from {options.seed:,} in {seconds:,.0f} s, {failed} failed; "
        f"{info.compiled:,} kernels compiled, {info.loaded:,} loaded, {info.hits:,} found"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
