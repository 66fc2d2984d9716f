"""Costs of value, gradient, Jacobian and Hessian in each mode: counts and predictions.

Each operator makes the plan that it would make for a call, derivative tapes included, so that the
counted tapes are the tapes that would run. No tape is run, and no kernel is compiled.

Costs of derivatives as multiples of the cost of the value: A. Griewank and A. Walther, Evaluating
Derivatives, 2nd ed., SIAM 2008, chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .. import kernels
from ..device_arrays import CPU
from ..dispatch.arguments import Argnums, Function
from ..dispatch.plans import Arrays, OperatorPlan
from ..dispatch.tiers.break_even import WRITE_SECONDS
from ..dispatch.variant import Traced
from ..errors import FdiffError
from ..functional import grad, hessian, jacobian
from ..functional.call.prepared import Prepared
from ..functional.operators.dense_plans import DensePlan
from ..tape import Tape
from ..transforms.pipeline import RUN, VALUE, derive
from .explained_facts import Cost

if TYPE_CHECKING:
    from ..functional.annotations import Places
    from ..kernels import KernelForecast, TapeCosts
    from ..transforms.terms.structures import SparseTape

PATIENCE = 0.5  # seconds: a text that takes longer to generate is not generated for a report
LONGEST = int(
    PATIENCE / WRITE_SECONDS
)  # nodes of a tape of which reports derive more than a gradient

Runs = Sequence[tuple[Tape, int]]  # tapes, and how often each is run


def all_costs(
    f: Function, traced: Traced, arrays: Arrays, argnums: Argnums, compiler: str
) -> tuple[Cost, ...]:
    """The rows of all derivatives of `f`, traced, at the inputs `arrays`."""
    value = [(derive(VALUE, traced.tape), 1)]
    rows = [cost_of("value", "", value, traced.device, compiler, picked=True)]
    if not traced.wrt or argnums is None:
        return tuple(rows)
    rows += _rows("gradient", lambda: _gradient(f, traced, argnums, compiler))
    if len(traced.tape) > LONGEST:
        why = f"not looked at: with {len(traced.tape):,} nodes its transforms would take long"
        return (*rows, Cost("Jacobian", "", refused=why), Cost("Hessian", "", refused=why))
    rows += _rows("Jacobian", lambda: _jacobian(f, traced, arrays, argnums, compiler))
    rows += _rows("Hessian", lambda: _hessian(f, traced, arrays, argnums, compiler))
    return tuple(rows)


def _rows(what: str, find: Callable[[], list[Cost]]) -> list[Cost]:
    """The rows; where the operator refuses the function, one row that says why."""
    try:
        return find()
    except FdiffError as error:
        fact = str(error).split("\n")[0]
        return [Cost(what, "", refused=fact.partition(": ")[2] or fact)]


def _gradient(f: Function, traced: Traced, argnums: Places, compiler: str) -> list[Cost]:
    plan = _plan(grad(f, argnums, device=traced.device), traced)
    step = plan.only_step()
    assert step is not None, "a gradient is one step"
    return [cost_of("gradient", "reverse", [(step.tape, 1)], traced.device, compiler, picked=True)]


def _jacobian(
    f: Function, traced: Traced, arrays: Arrays, argnums: Places, compiler: str
) -> list[Cost]:
    """The rows of both modes, and of terms where a call takes them."""
    plans = {
        mode: _blocks(jacobian(f, argnums=argnums, mode=mode, device=traced.device), traced)
        for mode in ("auto", "forward", "reverse")
    }
    auto = plans["auto"]
    return _costs_by_mode("Jacobian", auto, [plans["forward"], plans["reverse"]], arrays, compiler)


def _hessian(
    f: Function, traced: Traced, arrays: Arrays, argnums: Places, compiler: str
) -> list[Cost]:
    """The rows of the Hessian: the Jacobian of the gradient, forward over reverse."""
    plan = _blocks(hessian(f, argnums=argnums, device=traced.device), traced)
    return _costs_by_mode("Hessian", plan, [plan], arrays, compiler)


def _costs_by_mode(
    what: str, auto: DensePlan, plans: Sequence[DensePlan], arrays: Arrays, compiler: str
) -> list[Cost]:
    """A row for each way to a dense derivative; `auto` is the plan of a call."""
    structure = auto.structure_of_terms(arrays)
    device = auto.derivative.traced.device
    reason = reason_of(auto, structure)
    result = sum(t.size * t.dtype.itemsize for t in auto.derivative.requested.types)
    rows: list[Cost] = []
    for plan in plans:
        requested = plan.derivative.requested
        mode = "forward over reverse" if what == "Hessian" else requested.mode
        picked = structure is None and requested.mode == auto.derivative.requested.mode
        rows.append(
            cost_of(
                what, mode, plan.sweeps.programs(), device, compiler,
                picked=picked, sweeps=sum(b.count for b in plan.derivative.blocks),
                note=reason if picked else "", result=result, beside=result * plan.sweeps.chunked,
            )
        )  # fmt: skip
    if structure is not None:
        way = [(structure.tape, 1)]
        rows.append(
            cost_of(what, "terms", way, device, compiler, picked=True, note=reason, result=result)
        )
    return rows


def reason_of(plan: DensePlan, structure: SparseTape | None) -> str:
    """Why a call takes the way of this plan, or of a structure."""
    requested = plan.derivative.requested
    columns = sum(t.size for t in requested.ins)
    rows = sum(t.size for t in requested.outs if t.floating)
    if structure is not None:
        stored, size = structure.facts.stored, sum(t.size for t in requested.types)
        return f"terms give the {stored:,} of {size:,} entries that are not zero by structure"
    chunks = ", in chunks: all at once would hold more than 256 MiB" if plan.sweeps.chunked else ""
    if plan.order > 1:
        return f"a sweep for each of {columns:,} columns{chunks}"
    size = f"{columns:,} {_plural('column', columns)} and {rows:,} {_plural('row', rows)}"
    line = "column" if requested.mode == "forward" else "row"
    return f"{size}, a sweep for each {line}{chunks}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _plan(prepared: Prepared[..., object], traced: Traced) -> OperatorPlan:
    """The plan that an operator makes of a trace; it may refuse."""
    return prepared.program.make_plan(traced)


def _blocks(prepared: Prepared[..., object], traced: Traced) -> DensePlan:
    plan = _plan(prepared, traced)
    assert isinstance(plan, DensePlan), "Jacobians and Hessians are made of blocks"
    return plan


def cost_of(
    what: str,
    mode: str,
    runs: Runs,
    device: str,
    compiler: str,
    *,
    picked: bool = False,
    sweeps: int = 1,
    note: str = "",
    result: int = 0,
    beside: int = 0,
) -> Cost:
    """The row of some runs of tapes, one after another.

    They share a `result` (in bytes), which `beside` counts if each run makes a part of it.
    """
    runs = [(derive(RUN, tape), times) for tape, times in runs]
    counts = [(kernels.costs_of_tape(tape), times) for tape, times in runs]
    forecasts = [kernel_of(tape, device, compiler) for tape, _ in runs]
    compiled = [k for k in forecasts if k is not None]
    complete = len(compiled) == len(runs) and bool(runs)
    times_of = [
        _run_seconds(run, forecast, count)
        for run, forecast, count in zip(runs, forecasts, counts, strict=True)
    ]
    seconds = [s * n for s, (_, n) in zip(times_of, counts, strict=True) if s is not None]
    pairs = [(k, c.outputs, times) for k, (c, times) in zip(compiled, counts, strict=False)]
    return Cost(
        what,
        mode,
        sweeps,
        sum(c.nodes * n for c, n in counts),
        sum(c.operations * n for c, n in counts),
        sum(c.flops * n for c, n in counts),
        sum(c.moved * n for c, n in counts),
        max((c.peak for c, _ in counts), default=0) + beside,
        max((k.workspace + o for k, o, _ in pairs), default=0) + beside if complete else None,
        sum(c.numpy_seconds * n for c, n in counts),
        sum(seconds) if runs and len(seconds) == len(runs) and device == CPU else None,
        sum(k.compile_seconds for k in compiled) if complete else None,
        tuple(dict.fromkeys(name for c, _ in counts for name in c.uncounted)),
        picked,
        note,
        result=result,
    )


def _run_seconds(
    run: tuple[Tape, int], forecast: KernelForecast | None, counted: tuple[TapeCosts, int]
) -> float | None:
    """Predicted seconds of a kernel: by its loops, or by nodes where its text takes long."""
    if forecast is not None:
        return None if forecast.uncounted else forecast.run_seconds
    seconds = counted[0].kernel_seconds
    return seconds if kernels.supported(run[0]) and not math.isnan(seconds) else None


def kernel_of(tape: Tape, device: str, compiler: str) -> KernelForecast | None:
    """The forecast of a kernel for the CPU; None where there is none, or its text takes long."""
    if device != CPU or not kernels.supported(tape) or WRITE_SECONDS * len(tape) > PATIENCE:
        return None
    return kernels.kernel_forecast(tape, compiler)
