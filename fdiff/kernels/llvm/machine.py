"""LLVM for this machine: from modules to object code, and from object code to functions in memory.

llvmlite lets one thread at a time into LLVM. Everything here is called within
`machine_code.compiling`, so that no process is forked meanwhile.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from llvmlite import ir

from ...errors import InputError, failure
from ...process.background import checkpoint
from ...process.collector import collector_paused
from ...process.interruptible import interruptibly
from ...process.room import check_room
from .shared_library import open_library

open_library()  # the one module that imports `llvmlite.binding`, which would open it under the lock
import llvmlite.binding as llvm  # noqa: E402 - it is open by now
from llvmlite.binding.ffi import ObjectRef  # noqa: E402 - likewise
from llvmlite.binding.newpassmanagers import (  # noqa: E402 - likewise
    FunctionPassManager,
    ModulePassManager,
    NewPassManager,
)

VARIABLE = "FDIFF_CPU"
_X86 = ("x86_64", "amd64", "i386", "i486", "i586", "i686")
# The levels of x86-64 (its System V ABI, "Micro-architecture levels") with what fdiff asks for.
_V2 = "+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt"
_LEVELS = {
    "x86-64": "+sse2",
    "x86-64-v2": _V2,
    "x86-64-v3": f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt",
}


class Target(NamedTuple):
    """The target of code generation: system, processor and features, as LLVM spells them."""

    triple: str
    cpu: str
    features: str

    @property
    def is_x86(self) -> bool:
        """Whether the instruction set is x86."""
        return self.triple.split("-")[0].lower() in _X86


@lru_cache(maxsize=1)
def target() -> Target:
    """The target here, or the level that ``FDIFF_CPU`` names: ``x86-64-v3`` is AVX2 at most."""
    triple, features = str(llvm.get_process_triple()), str(llvm.get_host_cpu_features().flatten())
    here = Target(triple, str(llvm.get_host_cpu_name()), features)
    wanted = os.environ.get(VARIABLE, "native")
    if wanted in ("", "native"):
        return here
    level = _LEVELS.get(wanted)
    if level is None or not here.is_x86 or set(level.split(",")) - set(features.split(",")):
        known = ", ".join(["native", *_LEVELS])
        fact = f"{wanted!r} is not a level that this machine supports."
        way = f"Leave it unset, or set it to one of {known}."
        raise failure(InputError, VARIABLE, fact, way)
    return Target(triple, wanted, level)


def has(feature: str) -> bool:
    """Whether the target has a feature."""
    return f"+{feature}" in target().features.split(",")


_VECTORS = ("avx512f", "avx2", "avx", "sse4.2", "sve", "neon")  # the widest first


def described() -> tuple[str, str]:
    """In words: the version of LLVM; the processor, and the widest of its vectors."""
    widest = next((v for v in _VECTORS if has(v)), "no known vectors")
    return ".".join(map(str, llvm.llvm_version_info)), f"{target().cpu}, {widest}"


def _new_machine(of: Target, level: int = 3) -> llvm.TargetMachine:
    check_room()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    found = llvm.Target.from_triple(of.triple)
    return found.create_target_machine(
        cpu=of.cpu,
        features=of.features,
        opt=level,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


_machine = lru_cache(maxsize=4)(_new_machine)


def object_code(module: ir.Module | str, *, unrolled: bool = True, packed: bool = True) -> bytes:
    """Machine code of a module, or of its assembly."""
    made = optimised(module, unrolled=unrolled, packed=packed)
    checkpoint()
    return _emitted(_machine(target()), made)


def optimised(
    module: ir.Module | str, *, unrolled: bool = True, packed: bool = True
) -> llvm.ModuleRef:
    """The module, optimised for this processor.

    Compiling is faster without unrolling of loops (`unrolled`) and without SLP vectorisation
    (`packed`), which looks for vectors in straight code.
    """
    parsed = _parsed(module, _machine(target()))
    builder = _builder(target(), unrolled=unrolled, packed=packed)
    _run(builder.getModulePassManager(), parsed, builder)
    return parsed


def glue_code(module: ir.Module) -> bytes:
    """Machine code of functions that branch and call, and have no loop worth vectorising.

    Two passes suffice for these: locals in registers, fewer branches.
    """
    machine = _machine(target(), 1)
    parsed = _parsed(module, machine)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    _run(passes, parsed, _builder(target(), 1))
    return _emitted(machine, parsed)


def routine_code(module: ir.Module, entry: str) -> bytes:
    """Machine code of functions with explicit vectors, and of `entry`, which calls them.

    LLVM's loop passes take long and find nothing there. `entry`, where small operands spend most of
    their time, has the full pipeline.
    """
    machine = _machine(target())
    parsed = _parsed(module, machine)
    builder = _builder(target(), unrolled=False, packed=False)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_loop_rotate_pass()
    passes.add_simplify_cfg_pass()
    _run(passes, parsed, builder)
    _run(builder.getFunctionPassManager(), parsed.get_function(entry), builder)
    checkpoint()
    return _emitted(machine, parsed)


def wrapped_code(optimised: str, wrapper: ir.Module, entry: str) -> bytes:
    """Machine code of functions that are optimised already, called by `entry` in the `wrapper`."""
    machine = _machine(target())
    parsed = _parsed(optimised, machine)
    parsed.link_in(_parsed(wrapper, machine))
    for function in parsed.functions:
        if not function.is_declaration and function.name != entry:
            function.linkage = llvm.Linkage.internal
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    _run(passes, parsed, _builder(target()))
    checkpoint()
    return _emitted(machine, parsed)


@lru_cache(maxsize=16)  # in llvmlite 0.50 each one leaves 1.5 KB behind
def _builder(
    of: Target, level: int = 3, *, unrolled: bool = True, packed: bool = True
) -> llvm.PassBuilder:
    """What makes and runs pipelines of passes."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, packed
    options.loop_unrolling = unrolled
    return llvm.create_pass_builder(_machine(of, level), options)


def _run(
    passes: ModulePassManager | FunctionPassManager,
    on: llvm.ModuleRef | llvm.ValueRef,
    builder: llvm.PassBuilder,
) -> None:
    """Run passes, and free them.

    In llvmlite 0.50 their `close` does nothing, as `ObjectRef` hides their `_dispose`.
    """

    def run() -> None:
        try:
            passes.run(on, builder)
        finally:
            if type(passes)._dispose is ObjectRef._dispose:
                NewPassManager._dispose(passes)
            passes.close()

    interruptibly(run)


def _emitted(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    return interruptibly(lambda: bytes(machine.emit_object(module)))


_BYTES_COMPILING = 32  # that LLVM takes for a character of assembly, at most: 1 to 20 were measured


def _parsed(module: ir.Module | str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """The module as LLVM has it, for this machine."""
    text = module if isinstance(module, str) else assembly(module, machine)
    check_room(_BYTES_COMPILING * len(text))

    def parse() -> llvm.ModuleRef:
        parsed = llvm.parse_assembly(text)
        parsed.verify()
        return parsed

    return interruptibly(parse)


def assembly(module: ir.Module, machine: llvm.TargetMachine | None = None) -> str:
    """LLVM's text of the module, for this machine."""
    machine = machine or _machine(target())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    with collector_paused():
        return str(module)


def take_apart(module: ir.Module) -> None:
    """Free the instructions of a module: blocks and instructions refer to each other.

    Left to the collector, 130,000 objects of a long kernel take 0.1 s in whatever thread it runs.
    """
    for function in module.functions:
        for block in function.blocks:
            while block.instructions:
                del block.instructions[-_FREED:]
        function.blocks.clear()


_FREED = 64  # instructions that are freed before another thread may run
# An engine is open while its function is referenced, then dropped, then closed, in this order and
# once. The collector runs finalisers at any moment, of whatever it finds, and in any thread. So it
# must never find an engine: that is referenced from here alone, and functions know its number.
_open: dict[int, llvm.ExecutionEngine] = {}
_dropped: deque[int] = deque()
_numbers = count()


def release() -> None:
    """Free the memory of functions that are no longer referenced.

    That is not done where the last reference goes, as LLVM may be busy with another thread.
    """
    while _dropped:
        with suppress(KeyError):  # no engine was made
            _open.pop(_dropped.popleft()).close()


class Loaded:
    """A function of this name from object code, in memory as long as this object lives.

    Its memory is freed when the next function is loaded. `address` is that of the function.
    """

    _number = -1

    def __init__(self, code: bytes, name: str) -> None:
        self._number = next(_numbers)
        release()
        check_room(len(code))
        empty = llvm.parse_assembly("")
        # an engine takes its machine with it when it goes
        engine = llvm.create_mcjit_compiler(empty, _new_machine(target()))
        _open[self._number] = engine
        engine.remove_module(empty)  # it would be compiled, which takes longer than the rest

        def load() -> int:
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.finalize_object()
            return int(engine.get_function_address(name))

        self.address = interruptibly(load)
        if not self.address:
            raise ValueError(f"no {name} in this object code")

    def __del__(self, drop: Callable[[int], None] = _dropped.append) -> None:
        drop(self._number)
