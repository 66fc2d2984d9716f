"""LLVM for this machine: modules to object code, and object code to functions in memory.

llvmlite lets one thread at a time into LLVM; whoever calls anything here is in
`compiler.compiling`, so that no child is forked meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache

import llvmlite.binding as llvm
from llvmlite import ir

from ...background import checkpoint


@lru_cache(maxsize=1)
def cpu() -> str:
    """Name of the processor, as LLVM has it."""
    return str(llvm.get_host_cpu_name())


@lru_cache(maxsize=1)
def _features() -> str:
    return str(llvm.get_host_cpu_features().flatten())


def has(feature: str) -> bool:
    """Whether this processor has a feature."""
    return f"+{feature}" in _features().split(",")


@lru_cache(maxsize=1)
def _target() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


@lru_cache(maxsize=2)
def _machine(level: int = 3) -> llvm.TargetMachine:
    return _new_machine(level)


def _new_machine(level: int = 3) -> llvm.TargetMachine:
    return _target().create_target_machine(
        cpu=cpu(),
        features=_features(),
        opt=level,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


def object_code(module: ir.Module, *, unrolled: bool = True, packed: bool = True) -> bytes:
    """Machine code of the module."""
    made = optimised(module, unrolled=unrolled, packed=packed)
    checkpoint()
    return bytes(_machine().emit_object(made))


def optimised(module: ir.Module, *, unrolled: bool = True, packed: bool = True) -> llvm.ModuleRef:
    """The module, optimised for this processor.

    It is compiled faster if its loops are not `unrolled`, and if what stands outside of loops is
    not searched for instructions to be `packed` into vectors.
    """
    machine = _machine()
    parsed = _parsed(module, machine)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, packed
    options.loop_unrolling = unrolled
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return parsed


def glue_code(module: ir.Module) -> bytes:
    """Machine code of functions that branch and call, and have no loop worth making vectors of.

    It is optimised as far as that shows in such code: locals in registers, fewer branches.
    """
    machine = _machine(1)
    parsed = _parsed(module, machine)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.run(parsed, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return bytes(machine.emit_object(parsed))


def _parsed(module: ir.Module, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """The module as LLVM has it, for this machine."""
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    return parsed


_dropped: deque[llvm.ExecutionEngine] = deque()


def release() -> None:
    """Give back the memory of functions that nobody has any more.

    They may have been dropped anywhere, where LLVM may have been at work for another thread.
    """
    while _dropped:
        _dropped.popleft().close()


class Loaded:
    """A function of this name from object code, which stays in memory as long as this object lives.

    Afterwards its memory is given back when the next function is loaded. `address` is where the
    function begins.
    """

    def __init__(self, code: bytes, name: str) -> None:
        self._engine: llvm.ExecutionEngine | None = None
        release()
        empty = llvm.parse_assembly("")
        # an engine takes its machine with it when it goes
        engine = self._engine = llvm.create_mcjit_compiler(empty, _new_machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        self.address = int(engine.get_function_address(name))
        if not self.address:
            raise ValueError(f"no {name} in this object code")

    def __del__(self, drop: Callable[[llvm.ExecutionEngine], None] = _dropped.append) -> None:
        if self._engine is not None:
            drop(self._engine)
