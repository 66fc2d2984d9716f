"""LLVM for this machine: from modules to object code, and from object code to functions in memory.

llvmlite lets one thread at a time into LLVM. Everything here is called within
`machine_code.compiling`, so that no process is forked meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import count
from typing import TypeVar
from weakref import ref

from llvmlite import ir

from ...errors import InputError, failure
from ...foreign_errors import Suppressed, environment_value
from ...named_tuples import NamedTuple
from ...process.background import checkpoint
from ...process.garbage_collection import collector_paused
from ...process.interruptible import end_if_left, interruptibly
from ...process.memory_reserve import check_room, give_back
from .shared_library import open_library

open_library()  # the one module that imports `llvmlite.binding`, which would open it under the lock
import llvmlite.binding as llvm  # noqa: E402 - it is open by now
from llvmlite.binding.ffi import ObjectRef  # noqa: E402 - likewise
from llvmlite.binding.newpassmanagers import (  # noqa: E402 - likewise
    FunctionPassManager,
    ModulePassManager,
    NewPassManager,
)

T = TypeVar("T")
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

    def ask() -> Target:
        triple, cpu = str(llvm.get_process_triple()), str(llvm.get_host_cpu_name())
        return Target(triple, cpu, str(llvm.get_host_cpu_features().flatten()))

    here = interruptibly(ask)
    wanted = environment_value(VARIABLE) or "native"
    if wanted == "native":
        return here
    level = _LEVELS.get(wanted)
    if level is None or not here.is_x86 or set(level.split(",")) - set(here.features.split(",")):
        levels = ", ".join(["native", *_LEVELS])
        fact = f"{wanted!r} is not a level that this machine supports."
        way = f"Leave it unset, or set it to one of {levels}."
        raise failure(InputError, VARIABLE, fact, way)
    return Target(here.triple, wanted, level)


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
    llvm_target = llvm.Target.from_triple(of.triple)
    return llvm_target.create_target_machine(
        of.cpu, of.features, level, reloc="default", codemodel="jitdefault", jit=True
    )


_machine = lru_cache(maxsize=4)(_new_machine)


def object_code(
    module: ir.Module | str, *, unrolled: bool = True, packed: bool = True, straight: bool = False
) -> bytes:
    """Machine code of a module, or of its assembly, optimised for this processor.

    Compiling is faster without unrolling of loops (`unrolled`), without SLP vectorisation
    (`packed`), which looks for vectors in straight code, and where no loop is worth vectors
    (`straight`): passes that simplify functions suffice there, and take half of the time.
    """
    if straight:
        return _compiled(module, _emitted, _simplify)
    return _compiled(module, _emitted, partial(_optimise, unrolled=unrolled, packed=packed))


def optimised(module: ir.Module | str, *, packed: bool = True) -> str:
    """LLVM's text of a module that is optimised for this processor."""
    return _compiled(module, lambda parsed, _: str(parsed), partial(_optimise, packed=packed))


def glue_code(module: ir.Module | str) -> bytes:
    """Machine code of functions that branch and call, and have no loop worth vectorising.

    Three passes suffice for these: inlined functions, locals in registers, fewer branches.
    """

    def shorten(parsed: llvm.ModuleRef) -> None:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        _run_passes(passes, parsed, _builder(target(), 1))

    return _compiled(module, _emitted, shorten, level=1)


def routine_code(module: ir.Module | str, entry: str) -> bytes:
    """Machine code of functions with explicit vectors, and of `entry`, which calls them.

    LLVM's loop passes take long and find nothing there. `entry`, where small operands spend most of
    their time, has the full pipeline.
    """

    def optimise(parsed: llvm.ModuleRef) -> None:
        builder = _builder(target(), unrolled=False, packed=False)
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_loop_rotate_pass()
        passes.add_simplify_cfg_pass()
        _run_passes(passes, parsed, builder)
        _run_passes(builder.getFunctionPassManager(), parsed.get_function(entry), builder)

    return _compiled(module, _emitted, optimise)


def wrapped_code(optimised: str, wrapper: ir.Module, entry: str) -> bytes:
    """Machine code of functions that are optimised already, called by `entry` in the `wrapper`."""
    calling = assembly(wrapper)

    def link(parsed: llvm.ModuleRef) -> None:
        parsed.link_in(_parsed(calling))
        for function in parsed.functions:
            if not function.is_declaration and function.name != entry:
                function.linkage = llvm.Linkage.internal
        passes = llvm.create_new_module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()
        _run_passes(passes, parsed, _builder(target()))

    return _compiled(optimised, _emitted, link)


_BYTES_COMPILING = 32  # that LLVM takes for a character of assembly, at most: 1 to 20 were measured


def _compiled(
    module: ir.Module | str,
    result: Callable[[llvm.ModuleRef, llvm.TargetMachine], T],
    change: Callable[[llvm.ModuleRef], None],
    level: int = 3,
) -> T:
    """Compile a module after a `change`, and return its `result`.

    What llvmlite makes begins and ends in another thread than the main one, where no signal handler
    runs: an exception of one is lost in a finaliser, and in llvmlite's lock it leaves that locked.
    """
    text = module if isinstance(module, str) else assembly(module)
    check_room(_BYTES_COMPILING * len(text))

    def work() -> T:
        parsed = _parsed(text)
        change(parsed)
        checkpoint()
        end_if_left()
        return result(parsed, _machine(target(), level))

    return interruptibly(work)


def _parsed(text: str) -> llvm.ModuleRef:
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    return parsed


def _emitted(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> bytes:
    return bytes(machine.emit_object(module))


def _optimise(module: llvm.ModuleRef, *, unrolled: bool = True, packed: bool = True) -> None:
    builder = _builder(target(), unrolled=unrolled, packed=packed)
    _run_passes(builder.getModulePassManager(), module, builder)


def _simplify(module: llvm.ModuleRef) -> None:
    builder = _builder(target(), packed=False, speed=1)
    for function in module.functions:
        if not function.is_declaration:
            _run_passes(builder.getFunctionPassManager(), function, builder)


@lru_cache(maxsize=16)  # in llvmlite 0.50 each one leaves 1.5 KB behind
def _builder(
    of: Target, level: int = 3, *, unrolled: bool = True, packed: bool = True, speed: int = 3
) -> llvm.PassBuilder:
    """A builder of pipelines of passes."""
    options = llvm.create_pipeline_tuning_options(speed_level=speed)
    options.loop_vectorization, options.slp_vectorization = True, packed
    options.loop_unrolling = unrolled
    return llvm.create_pass_builder(_machine(of, level), options)


def _run_passes(
    passes: ModulePassManager | FunctionPassManager,
    on: llvm.ModuleRef | llvm.ValueRef,
    builder: llvm.PassBuilder,
) -> None:
    """Run passes, and free them.

    In llvmlite 0.50 their `close` does nothing, as `ObjectRef` hides their `_dispose`.
    """
    try:
        passes.run(on, builder)
    finally:
        if type(passes)._dispose is ObjectRef._dispose:
            NewPassManager._dispose(passes)
        passes.close()


@lru_cache(maxsize=4)
def _layout(of: Target) -> tuple[str, str]:
    """The triple of a target and its data layout, as LLVM spells them in modules."""

    def ask() -> tuple[str, str]:
        machine = _machine(of)
        return machine.triple, str(machine.target_data)

    return interruptibly(ask)


def assembly(module: ir.Module, *, last: bool = False) -> str:
    """LLVM's text of the module, for this machine; the `last` one frees what the module holds."""
    module.triple, module.data_layout = _layout(target())
    with collector_paused():
        text = str(module)
        if last:
            _take_apart(module)
    return text


def _take_apart(module: ir.Module) -> None:
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
# must never find an engine: that is in this table alone, under a weak reference to its function.
# Where that ends no Python code is called: an exception of a signal handler would be lost there.
_open: dict[ref[object], llvm.ExecutionEngine] = {}
_dropped: deque[ref[object]] = deque()
_closings = count(1)
_GIVEN_BACK = 256  # closed engines, after which the memory that they left is given back


def release() -> None:
    """Free the memory of functions that are no longer referenced.

    That is not done where the last reference goes, as LLVM may be busy with another thread.
    """
    if _dropped:
        interruptibly(_close_dropped)


def _close_dropped() -> None:
    while _dropped:
        with Suppressed(KeyError, TypeError):  # no engine was made; TypeError: nor was it hashed
            _open.pop(_dropped.popleft()).close()
        if next(_closings) % _GIVEN_BACK == 0:
            give_back()


class Loaded:
    """A function of this name from object code, in memory as long as this object lives.

    The memory is freed when the next function is loaded. `address` is the function's address.
    """

    def __init__(self, code: bytes, name: str) -> None:
        lives: ref[object] = ref(self, _dropped.append)
        hash(lives)  # which it keeps
        check_room(len(code))

        def load() -> int:
            _close_dropped()
            empty = llvm.parse_assembly("")
            # an engine takes its machine with it when it goes
            engine = llvm.create_mcjit_compiler(empty, _new_machine(target()))
            _open[lives] = engine
            engine.remove_module(empty)  # it would be compiled, which takes longer than the rest
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.finalize_object()
            return int(engine.get_function_address(name))

        self.address = interruptibly(load)
        if not self.address:
            raise ValueError(f"no {name} in this object code")
