"""Builds the fast path of a prepared function from one call: the inputs and outputs of the kernel.

The input is a call that has just gone the general way; the output is a builtin that serves calls
like it, or None. Nothing is computed here: the plan of the operator is run once with placeholders
for the kernel's outputs, which shows which argument is which input of the kernel, and how the
result is built. The entry stub (`fdiff.kernels`) is machine code that carries out this description.
See docs/decisions/fast-path.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import fdiff.intact_numpy as np

from ... import kernels
from ...arraytype import ArrayType
from ...capture.dependencies import Pins
from ...kernels import KernelInput, KernelOutput, Preconditions
from ...named_tuples import NamedTuple
from ...trace.trace_stack import occupied
from ..arguments import Function
from ..numpy_warnings import warning_hook
from ..plans import PlanStep
from ..program import Program
from ..tiers.tiered_execution import COPY_BELOW
from ..variant import Variant
from .argument_registers import ArgumentRegisters, NoFastPathError, numeric
from .native_revalidation import native_reads, reads_of_function
from .recorded_plans import RecordedCall, Split
from .result_template import ResultTemplate

Builtin = Callable[..., object]


class StubPendingError(Exception):
    """The entry stub is still being compiled in the background."""


class SampleCall(NamedTuple):
    """A call of a prepared function: its arguments, and which of them belong to the user's
    function.

    With `out`, the keyword of that name says where results are to be written.
    """

    args: tuple[object, ...]
    kwargs: dict[str, object]
    split: Split
    out: bool


def build_fast_path(
    program: Program, f: Function, call: SampleCall, fallback: Builtin, *, first: bool = False
) -> Builtin | None:
    """A builtin for calls like this one, which calls `fallback` where it does not apply.

    None where there is more to do than the entry stub can: what was read or decided is compared in
    full, the program is interpreted, or arguments are of other kinds. With `first`, the function to
    differentiate comes before all arguments, and may be another closure of the code of `f`. Raises
    `StubPendingError` while the entry stub is being compiled.
    """
    try:
        registers = ArgumentRegisters(call.args, call.kwargs, before=int(first), out=call.out)
        variant = program.latest(f, call.split(call.args)[0], registers.kwargs)
        if variant is None:
            return None
        kernel = _KernelCall(variant, f, registers, call.split)
        template = kernel.template(call.kwargs.get("out") if call.out else None)
        held = kernel.preconditions(f if first else None)
        if not first:
            held = held._replace(occupied=occupied)
        hook = warning_hook(program, variant, call.split, None if first else f, out=call.out)
        held = held._replace(fallback=fallback, on_flags=hook)
        return kernel.builtin(template, held)
    except NoFastPathError:
        return None


class _KernelCall:
    """The kernel that serves a call: its inputs, and the result built from placeholders."""

    def __init__(
        self, variant: Variant, f: Function, registers: ArgumentRegisters, split: Split
    ) -> None:
        self.variant, plan, self._registers = variant, variant.plan, registers
        self.pins = _pins(variant, f)
        self._step = _only_step(variant)
        parts = self._step.runner.parts()
        if parts is None:
            raise StubPendingError if self._step.runner.compiled() else NoFastPathError
        self.parts = parts
        self._slots = list(self._step.runner.slots())
        self._guard = self._slots.pop() if self._step.guarded else None
        writes = self.pins[0].writes  # its `after` writes what `f` has written, given these outputs
        self._after = None if writes is None else writes.after
        effects = variant.conditions.inner[0][1].effects
        if effects is not None and (
            effects.filled or not self._step.written == len(effects.outputs)
        ):
            raise NoFastPathError
        end = len(self._slots) - self._step.written
        self._slots, self._written = self._slots[:end], self._slots[end:]
        if self._guard in self._slots or (variant.traced.check is not None and self._guard is None):
            raise NoFastPathError
        captured = [self.pins[p].arrays[k] for p, k in variant.conditions.order]
        leaves, spec = registers.leaves, registers.spec
        call = RecordedCall(variant, leaves, spec, split, captured, has_values=True)
        if len(call.recording.runs) != 1:
            raise NoFastPathError
        (run,), vectors = call.recording.runs, call.vectors
        self._sources = call.sources_of(run)
        self.result = call.recording.placed(call.result, [output.number for output in run.outputs])
        self._computed: Callable[..., object] = lambda *outs: plan.call(
            (), vectors, lambda _step, _arrays: list(outs)
        )

    def template(self, out: object) -> ResultTemplate:
        """How the result is built; a plan that computes with its outputs is called with them."""
        registers = self._registers
        constants = [fixed[0] for fixed in self.variant.traced.outs if fixed]
        template = ResultTemplate(self.result, constants, registers, self.parts)
        if self.result is None or not template.write_into(out):
            if registers.out is not None:
                raise NoFastPathError
            template = ResultTemplate(None, (), registers, self.parts)
            template.call(self._computed, self._slots)
        if self._after is not None:
            template.then(self._after, self._written)
        return template

    def inputs(self) -> list[KernelInput]:
        """The kernel's inputs, each with its register, or as a captured array."""
        types, layouts = self._step.tape.input_types, dict(self.variant.conditions.layouts)
        if len(self._sources) != len(types):
            raise NoFastPathError
        kernel_inputs: list[KernelInput] = []
        for k, source in enumerate(self._sources):
            captured = isinstance(source, np.ndarray)
            value: object = source if captured else self._registers.leaves[source]
            if not _fits(value, types[k]) or not (captured or (source >= 0 and numeric(value))):
                raise NoFastPathError
            array = isinstance(value, np.ndarray)
            kernel_inputs.append(self.parts.inputs[k]._replace(
                register=-1 if captured else self._registers.registers[source],
                exact=None if captured else type(value),
                array=source if captured else None,
                copyable=array and value.nbytes <= COPY_BELOW and k not in layouts,
            ))  # fmt: skip
        return kernel_inputs

    def preconditions(self, f: Function | None) -> Preconditions:
        """The preconditions; with `f`, a call passes `f` or its sibling before the arguments."""
        before = () if f is None else reads_of_function(f)
        if before is None or not (
            f is None or self.variant.conditions.inner[0][1].serves_siblings()
        ):
            raise NoFastPathError
        held = native_reads(self.pins)
        return held._replace(lookups=(*before, *held.lookups))

    def builtin(self, template: ResultTemplate, held: Preconditions) -> Builtin | None:
        """The call's descriptor as a builtin; None where the entry stub may not run."""
        if kernels.stub_fault(self.parts.call):
            return None
        stub = kernels.entry_stub(full=True)
        if not stub:
            raise StubPendingError
        if kernels.stub_fault(stub, full=True):
            return None
        given_by_caller = [i.written for i in template.inputs]
        scalars = template.scalars | {self._guard}
        outputs = [
            KernelOutput(*output, scalar=k in scalars, made=k not in given_by_caller)
            for k, output in enumerate(self.parts.made)
        ]
        inputs = [*self.inputs(), *template.inputs]
        description = self._registers.given, inputs, outputs, template.steps
        if (by_libm := self._step.runner.parts_by_libm()) is not None:  # for what this one refuses
            far = kernels.bind_entry_stub(
                stub, by_libm.kernel, *description, held, self._guard, full=True
            )
            held = held._replace(fallback=far)
        return kernels.bind_entry_stub(
            stub, self.parts.kernel, *description, held, self._guard, full=True
        )


def _pins(variant: Variant, f: Function) -> list[Pins]:
    """The outside reads of each function of the trace, as objects compared by identity."""
    pins = [reads.pins(g if k else f) for k, (g, reads) in enumerate(variant.conditions.inner)]
    if any(pin is None for pin in pins):
        raise NoFastPathError
    return cast("list[Pins]", pins)


def _only_step(variant: Variant) -> PlanStep:
    """The step of the plan that computes everything."""
    step = variant.plan.only_step()
    if step is None:
        raise NoFastPathError
    return step


def _fits(value: object, type_: ArrayType) -> bool:
    """Whether a kernel takes an argument without conversion."""
    if isinstance(value, np.ndarray):
        return value.dtype == type_.dtype and value.shape == type_.shape
    return type_.shape == () and np.dtype(type(value)) == type_.dtype
