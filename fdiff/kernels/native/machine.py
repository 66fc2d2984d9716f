"""LLVM for this machine: modules to object code, and object code to functions in memory.

llvmlite lets one thread at a time into LLVM; whoever compiles holds the lock of `compiler`, so that
no child is forked meanwhile.
"""

from __future__ import annotations

from functools import lru_cache

import llvmlite.binding as llvm
from llvmlite import ir


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


@lru_cache(maxsize=1)
def _machine() -> llvm.TargetMachine:
    return _new_machine()


def _new_machine() -> llvm.TargetMachine:
    return _target().create_target_machine(
        cpu=cpu(), features=_features(), opt=3, reloc="default", codemodel="jitdefault", jit=True
    )


def object_code(module: ir.Module, *, unrolled: bool = True, packed: bool = True) -> bytes:
    """Machine code of the module."""
    return bytes(_machine().emit_object(optimised(module, unrolled=unrolled, packed=packed)))


def optimised(module: ir.Module, *, unrolled: bool = True, packed: bool = True) -> llvm.ModuleRef:
    """The module, optimised for this processor.

    It is compiled faster if its loops are not `unrolled`, and if what stands outside of loops is
    not searched for instructions to be `packed` into vectors.
    """
    machine = _machine()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, packed
    options.loop_unrolling = unrolled
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return parsed


class Loaded:
    """A function of this name from object code, in memory for as long as this object lives.

    `address` is where it begins.
    """

    def __init__(self, code: bytes, name: str) -> None:
        empty = llvm.parse_assembly("")
        # an engine takes its machine with it when it goes
        self._engine = llvm.create_mcjit_compiler(empty, _new_machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.address = int(self._engine.get_function_address(name))
        if not self.address:
            raise ValueError(f"no {name} in this object code")
