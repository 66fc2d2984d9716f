"""Runs of bytecode: workspace, inputs and results: docs/decisions/bytecode-interpreter.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_int64, c_void_p
from functools import partial
from typing import cast

import fdiff.intact_numpy as np

from ...process.float_flags import note_flags, noting
from .. import disk_cache, kernel_names, late_imports
from ..runtime.status_errors import OUT_OF_BOUNDS, error_of
from .assembler import InstructionRange, NumpyStep, Value
from .bytecode_compiler import BytecodeProgram
from .interpreter import PARAMETERS, interpreter_text
from .opcodes import table
from .workspace_layout import DTYPES, dense_steps, laid

SLACK = 64  # slots after the last value that vectors may reach
LINE_SECONDS = 2.5e-3  # 2.1 to 3.2 of it were measured, for 167 to 431 lines
_functions: dict[str, Callable[..., int]] = {}
_families: dict[frozenset[str], None] = {}  # of opcodes, in the interpreters of this process
_wanted: set[str] = set()  # what tapes need that wait for an interpreter
_INTERPRETERS = "families of opcodes of the bytecode interpreters on disk"
Step = Callable[[], None]


class BytecodeExecutable:
    """A tape for the bytecode interpreter: call it with the tape's inputs, get its outputs.

    Calls at the same time have a workspace each, which is kept for later calls.
    """

    def __init__(self, program: BytecodeProgram) -> None:
        self.program = program
        self.text = interpreter_text(program.branches)
        self._function: Callable[..., int] | None = None
        self._spare: list[_Workspace] = []
        self._plain = not any(isinstance(step, NumpyStep) for step in program.steps)
        types = [(layout.shape, DTYPES[layout.dtype]) for _, layout in program.outputs]
        self._made = list(zip(program.far, types, strict=True))
        if not self.loaded:
            _wanted.update(program.needed)

    @property
    def superseded(self) -> bool:
        """Whether another interpreter that has all opcodes of the tape is there before its own."""
        needed = self.program.needed
        return not self.loaded and any(needed <= families for families in _families)

    @property
    def at_hand(self) -> bool:
        """Whether its interpreter is compiled, in this process or on disk."""
        return _at_hand(self.text)

    @property
    def seconds(self) -> float:
        """Seconds to compile its interpreter, by the lines of its text."""
        return LINE_SECONDS * self.text.count("\n")

    @property
    def loaded(self) -> bool:
        """Whether its interpreter has been compiled or loaded by this process."""
        return self.text in _functions

    def load(self) -> None:
        """Have the interpreter in memory, and room for a call; it is compiled if it has to be."""
        if self._function is None:
            self._spare.append(self._workspace())

    def __call__(self, arrays: Sequence[object]) -> list[np.ndarray]:
        """Outputs at `arrays`: fresh, the caller's own."""
        workspace = self._spare.pop() if self._spare else self._workspace()
        try:
            for view, array in zip(workspace.inputs, arrays, strict=True):
                view[...] = array
            outs = [None if at < 0 else workspace.sent(at, *type_) for at, type_ in self._made]
            if self._plain:
                for step in workspace.steps:
                    step()
            else:
                with noting():
                    for step in workspace.steps:
                        step()
            return [
                view.astype(dtype) if out is None else out
                for out, (view, dtype) in zip(outs, workspace.outputs, strict=True)
            ]
        finally:
            self._spare.append(workspace)

    def _workspace(self) -> _Workspace:
        if self._function is None:
            self._function = _functions.get(self.text) or _load(self.text)
            _enter(self.program.families)
        return _Workspace(self.program, self._function)


def smallest_interpreter(needed: frozenset[str]) -> frozenset[str] | None:
    """The families of the smallest interpreter here, or on disk, that has those `needed`."""
    fitting = sorted((f for f in (*_families, *_on_disk()) if needed <= f), key=len)
    return next((f for f in fitting if f in _families or _is_on_disk(f)), None)


def wanted() -> frozenset[str]:
    """The families of opcodes that tapes need which wait for an interpreter.

    The next one has them all: each has some 150 lines in common with others.
    """
    return frozenset(_wanted)


def _enter(families: frozenset[str]) -> None:
    """Note, here and on disk, that there is an interpreter with these families."""
    _families[families] = None
    _wanted.difference_update(families)
    if families not in (before := _on_disk()) and disk_cache.directory() is not None:
        text = "\n".join("\t".join(sorted(names)) for names in (*before, families))
        disk_cache.write(kernel_names.name_of_text(_INTERPRETERS), "families", text.encode())


def _on_disk() -> list[frozenset[str]]:
    """The families of each interpreter that was put on disk; it may have been removed since."""
    payload = disk_cache.read(kernel_names.name_of_text(_INTERPRETERS), "families") or b""
    return [frozenset(line.split("\t")) for line in payload.decode().splitlines()]


def _is_on_disk(families: frozenset[str]) -> bool:
    """Whether the machine code of an interpreter is on disk, for this table of opcodes."""
    opcodes = table()
    if not families <= frozenset(opcodes.families):  # families of SciPy's functions, not met yet
        return False
    return _at_hand(interpreter_text([opcodes.lines[k] for k in opcodes.of(families)]))


def _at_hand(text: str) -> bool:
    """Whether an interpreter is compiled, in this process or on disk."""
    return text in _functions or disk_cache.has(kernel_names.name_of(text, optimisation="unrolled"))


def provide(families: frozenset[str]) -> None:
    """Compile an interpreter with these families of opcodes, for all tapes that need no others."""
    opcodes = table()
    _load(interpreter_text([opcodes.lines[k] for k in opcodes.of(families)]))
    _enter(families)


def _load(text: str) -> Callable[..., int]:
    """The interpreter, to be called with addresses and integers; calls go on without the GIL."""
    kinds = [c_int64 if kind == "i8" else c_void_p for kind in PARAMETERS.values()]
    function = CFUNCTYPE(c_int64, *kinds)(late_imports.machine_code.function(text))
    return _functions.setdefault(text, function)


class _Workspace:
    """Memory for one call at a time, with views of its inputs and outputs."""

    def __init__(self, program: BytecodeProgram, function: Callable[..., int]) -> None:
        raw = np.zeros(program.size + SLACK + 8)
        self.floats = raw[-raw.ctypes.data % 64 // 8 :]
        self.begin = self.floats.ctypes.data
        self.ints = self.floats.view(np.int64)
        self.extra = np.array(program.extra)  # its own: results of each call lie elsewhere
        for place, value in program.constants:
            shape, dtype = (value.size,), value.dtype.str[1:]
            layout = laid(shape, dense_steps(shape, dtype), dtype)
            self.view((place, layout))[...] = value.reshape(-1)
        self.inputs = [self.view(value) for value in program.inputs]
        self.outputs = [(self.view(value), DTYPES[value[1].dtype]) for value in program.outputs]
        self.steps = [
            self.numpy_step(step)
            if isinstance(step, NumpyStep)
            else self.instruction_range(step, program, function)
            for step in program.steps
        ]

    def sent(self, at: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A new array; the instruction that fills it gets its place relative to the workspace."""
        out = np.empty(shape, dtype)
        self.extra[at] = (out.ctypes.data - self.begin) // 8
        return out

    def view(self, value: Value) -> np.ndarray:
        """The slots of a value; truth values are whole numbers there."""
        place, layout = value
        dtype = DTYPES["i8" if layout.dtype == "b1" else layout.dtype]
        steps = tuple(8 * step for step in layout.steps)
        memory = self.floats.data
        return np.ndarray(layout.shape, dtype, memory, 8 * place, steps)

    def instruction_range(
        self, step: InstructionRange, program: BytecodeProgram, function: Callable[..., int]
    ) -> Step:
        """Run instructions."""
        code, extra = program.code.ctypes.data, self.extra.ctypes.data
        floats, ints = self.floats.ctypes.data, self.ints.ctypes.data

        def run() -> None:
            status = function(code, step.first, step.last, floats, ints, extra)
            note_flags()
            if status:
                raise error_of(OUT_OF_BOUNDS)

        return run

    def numpy_step(self, step: NumpyStep) -> Step:
        """Let NumPy compute a node."""
        reads = [self.view(value) for value in step.reads]
        truths = [layout.dtype == "b1" for _, layout in step.reads]
        gives = [self.view(value) for value in step.gives]
        function = step.function
        if len(reads) == len(gives) == 1 and not truths[0] and reads[0].ndim:
            return partial(_call_into, function, reads[0], gives[0])

        def run() -> None:
            pairs = zip(reads, truths, strict=True)
            operands = [r.astype(np.bool_) if b else r if r.ndim else r[()] for r, b in pairs]
            results = function(*operands)
            if len(gives) == 1:
                gives[0][...] = results
            else:
                for view, value in zip(gives, cast("tuple[object, ...]", results), strict=True):
                    view[...] = value

        return run


def _call_into(function: Callable[..., object], source: np.ndarray, target: np.ndarray) -> None:
    """The most frequent step that is left to NumPy: one array in, one out."""
    target[...] = function(source)
