"""The kernels of a program as texts: what their lines need becomes parameters and a prologue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from ...kernel_rule import Kind
from ..codegen.workspace import memory_of
from ..ir.expression_names import names_in, table_entry
from ..ir.index_expressions import Dims, atom, size
from ..ir.kernel_graph import KernelGraph
from ..ir.loops import (
    BLOCK,
    NUMPY,
    LoopProgram,
    Nest,
    StatementKind,
    Temporary,
    TileLoop,
    nests_and_calls,
)
from .cuda_program import (
    CudaProgram,
    DeviceMemory,
    Launch,
    LibraryCall,
    Parameter,
    Role,
    SortKeys,
    Step,
)
from .devices.kernel_sharing import SharedKernels
from .matrices.matrix_texts import HELPERS
from .nests.block_reductions import REDUCTIONS
from .nests.block_scans import SCANS
from .nests.nest_text import BARRIER, assigned, indented

_FUNCTIONS = {**REDUCTIONS, **SCANS, **HELPERS}  # that lines may call
_CALLED = {name: text.count("\n") for name, text in _FUNCTIONS.items()}
_MOST_BY_VALUE = 100  # numbers of a kind that are parameters: a kernel takes 4 KB of these
# What threads know of themselves, in the order in which it is computed.
_INDICES = {
    "thread": "np.int64(cuda.threadIdx.x)",
    "threads": "np.int64(cuda.blockDim.x)",
    "block_number": "np.int64(cuda.blockIdx.x)",
    "blocks": "np.int64(cuda.gridDim.x)",
    "grid_thread": "block_number * threads + thread",
    "grid_threads": "blocks * threads",
}  # fmt: skip


@dataclass(frozen=True)
class _KernelDraft:
    """A kernel whose parameters are not known yet; `final` if other kernels read its locals."""

    lines: tuple[str, ...]
    blocks: str
    threads: int
    final: bool
    helper: str = ""
    library: LibraryCall | SortKeys | None = None


class KernelTexts:
    """The memory and the steps of a program, as they are found."""

    def __init__(self, graph: KernelGraph, program: LoopProgram) -> None:
        self._graph = graph
        self._program = program
        self.locals = dict(program.locals) | _continued(program)
        arrays = {f"k{op.data[0]}": op for op in graph.all_ops if op.kind is Kind.ARRAY}
        self._constants = [
            DeviceMemory(name, op.dtype, op.dims, Role.CONSTANT, cast("int", op.data[0]))
            for name, op in arrays.items()
        ]  # constants in bodies of loops, too
        own = {m.name: m.dtype for m in self._constants}
        self.dtypes = {**program.memory, **own, **self.locals}
        self._dims: dict[str, Dims] = {}  # of memory that tiles have copies of
        self._in_blocks: set[str] = set()  # temporaries that are in shared memory
        self._partial: list[DeviceMemory] = []
        self._steps: list[_KernelDraft | Step] = []
        self._scalars = {
            f"x{op.data[0]}" for op in graph.ops if op.kind is Kind.INPUT and not op.dims
        }
        self._kernels = SharedKernels()
        self._narrow = {
            op.text: f"{op.text} = {NUMPY[op.dtype]}({op.text})"
            for op in graph.all_ops
            if op.kind is Kind.VALUE and op.dtype not in ("i8", "f8")
        }  # numbers of other dtypes than i8 and f8, which they are given as
        counts = {"integers": graph.sizes + graph.ints, "floats": graph.floats, "status": 1}
        roles = {"integers": Role.INTEGERS, "floats": Role.FLOATS, "status": Role.STATUS}
        self._tables = {
            name: DeviceMemory(name, "f8" if name == "floats" else "i8", (str(count),), roles[name])
            for name, count in counts.items()
        }

    # --- what is found on the way --------------------------------------------------------------

    def launch(
        self,
        lines: Iterable[str],
        blocks: str,
        threads: int,
        helper: str = "",
        library: LibraryCall | SortKeys | None = None,
    ) -> None:
        """A kernel of these lines, which call a `helper`; it stands in for a `library` call."""
        self._steps.append(
            _KernelDraft(tuple(lines), blocks, threads, blocks == "1", helper, library)
        )

    def step(self, step: Step) -> None:
        """A step that is no kernel of a nest."""
        self._steps.append(step)

    def partial(self, dtype: str, dims: Dims) -> str:
        """New memory for partial results."""
        name = f"partial{len(self._partial)}"
        self._partial.append(DeviceMemory(name, dtype, dims, Role.TEMPORARY))
        self.dtypes[name] = dtype
        return name

    def published(self, names: list[str]) -> tuple[list[str], list[str]]:
        """The lines that store locals for other threads, and those that load them."""
        stored = [_stored(n, self.locals[n]) for n in names]
        return stored, [_loaded(n, self.locals[n]) for n in names]

    # --- memory of tiles ------------------------------------------------------------------------

    def temporaries_of(self, tiles: TileLoop) -> list[Temporary]:
        """The temporaries that only this tile loop uses."""
        others = (item for item in self._program.items if item is not tiles)
        used = {name for item in others for name in memory_of(item)}
        own = set(memory_of(tiles)) - used
        return [t for t in self._program.temporaries if t.name in own]

    def tile(
        self, tiles: TileLoop, height: str, blocks: str, kept: Mapping[str, int] | None = None
    ) -> list[str]:
        """Give each of several blocks a copy of what tiles use; the lines that find the copy.

        `kept` has the numbers of entries of arrays in shared memory.
        """
        lines: list[str] = []
        for t in self.temporaries_of(tiles):
            if kept is not None and t.name in kept:
                lines.append(f"{t.name} = cuda.shared.array({kept[t.name]}, {NUMPY[t.dtype]})")
                self._in_blocks.add(t.name)
                continue
            dims = tuple(height if d == BLOCK else d for d in t.dims)
            self._dims[t.name] = (blocks, *dims) if blocks != "1" else dims
            if blocks != "1":
                copy = size(t.dims)
                lines.append(f"{t.name} = rt.offset({t.name}_copies, block_number * {atom(copy)})")
        return lines

    # --- the program ----------------------------------------------------------------------------

    def program(self) -> CudaProgram:
        """The program of all that was found."""
        steps: list[Step] = []
        stored_locals: dict[str, None] = {}  # locals that kernels so far have stored
        words = [set(_called_words(getattr(draft, "lines", ()))) for draft in self._steps]
        last = {w: k for k, some in enumerate(words) for w in some & self.locals.keys()}
        for k, step in enumerate(self._steps):
            if not isinstance(step, _KernelDraft):
                steps.append(step)
                continue
            own = [n for n in self.locals if n in _assigned(step.lines)] if step.final else []
            launch = self._launch(step, stored_locals, [n for n in own if last[n] > k])
            stored_locals |= dict.fromkeys(own)
            library = step.library and step.library._replace(instead=(launch,))
            steps.append(library or launch)
        memory = self._memory_of(steps)
        return CudaProgram(memory, tuple(steps))

    def _launch(
        self, draft: _KernelDraft, stored_before: Iterable[str], stored: list[str]
    ) -> Launch:
        """The launch of a kernel that loads locals `stored_before`, and stores some of its own."""
        tail = ["if grid_thread == 0:"] if stored else []
        tail += indented(_stored(n, self.locals[n]) for n in stored)
        body = self._with_loads([*draft.lines, *tail], stored_before)
        words = set(_called_words(body))
        scalars = [n for n in self._scalars if n in words]
        loaded = [f"{n} = {n}_memory[0]" + " != 0" * (self.dtypes[n] == "b1") for n in scalars]
        loaded += [self._narrow[n] for n in self._by_value(words) if n in self._narrow]
        words |= set(_called_words(loaded))
        words |= {w for n, text in _INDICES.items() if n in words for w in names_in(text)}
        indices = [f"{n} = {text}" for n, text in _INDICES.items() if n in words]
        helpers = "".join(text + "\n\n" for name, text in _FUNCTIONS.items() if name in words)
        helpers += draft.helper + "\n\n" * bool(draft.helper)
        lines = [*indices, *loaded, *body]
        kernel, arguments = self._kernels.kernel(helpers, lines, self._parameters(words))
        return Launch(kernel, draft.blocks, draft.threads, arguments)

    def _parameters(self, words: set[str]) -> dict[str, Parameter]:
        """The parameters that lines with these words need, by what they are called there."""
        out: dict[str, Parameter] = {}
        for name, dtype in self.dtypes.items():
            for text in (name, f"{name}_memory", f"{name}_copies"):
                if text in words and not (text == name and self._is_number(name, words)):
                    out[text] = Parameter(name, dtype, address=True)
        for name in ("integers", "floats", "status"):
            if name in words:
                out[name] = Parameter(name, self._tables[name].dtype, address=True)
        for name in self._by_value(words):
            out[name] = Parameter(name, "f8" if name[0] == "f" else "i8", address=False)
        return out

    def _by_value(self, words: set[str]) -> list[str]:
        """The numbers that are parameters themselves: none of a kind of which there are many."""
        numbers = _numbers(words)
        tables = {"f": "floats", "m": "integers", "n": ""}
        return [name for name in numbers if tables[name[0]] not in words]

    def _with_loads(self, lines: list[str], stored_before: Iterable[str]) -> list[str]:
        """Lines that load the locals `stored_before`, in each part that uses them.

        The same of numbers, from tables, if there are many. Parts are what lies between barriers:
        all values at once would fill the registers.
        """
        words = set(_called_words(lines))
        loads = {n: [_loaded(n, self.locals[n])] for n in stored_before if n in words}
        numbers = _numbers(words)
        for letter, table, first in (("f", "floats", 0), ("m", "integers", self._graph.sizes)):
            of_letter = [n for n in numbers if n[0] == letter]
            if len(of_letter) > _MOST_BY_VALUE:
                for n in of_letter:
                    narrow = [self._narrow[n]] if n in self._narrow else []
                    loads[n] = [f"{n} = {table}[{first + int(n[1:])}]", *narrow]
        assigned = _assigned(lines)
        out = [line for n, some in loads.items() if n in assigned for line in some]
        stored = (f"{n}_memory[0] = " for n in loads if n in assigned)
        if any(text in line for text in stored for line in lines):
            out.append(BARRIER)  # the first thread may store what others have not loaded yet
        for part in _between_barriers(lines):
            here = set(_called_words(part)) - assigned
            out += [line for n, some in loads.items() if n in here for line in some]
            out += part
        return out

    def _is_number(self, name: str, words: set[str]) -> bool:
        inside = name in self._in_blocks or f"{name}_copies" in words
        return name in self.locals or name in self._scalars or inside

    def _memory_of(self, steps: list[Step]) -> tuple[DeviceMemory, ...]:
        """All memory that the steps use, and the outputs."""
        used: set[str] = set()
        for step in steps:
            if isinstance(step, Launch):
                pairs = zip(step.kernel.parameters, step.arguments, strict=True)
                used |= {name for p, name in pairs if p.address}
            else:
                used |= set(_buffers(step))
        out: list[DeviceMemory] = []
        inputs = [a for a in self._program.arguments if a.name[0] == "x"]
        out += [DeviceMemory(*a[:3], Role.INPUT, int(a.name[1:])) for a in inputs]
        out += self._constants
        out += [
            DeviceMemory(o.name, o.dtype, o.dims, Role.OUTPUT, k)
            for k, o in enumerate(self._program.outputs)
        ]
        for t in self._program.temporaries:
            if t.name in used:
                dims = self._dims.get(t.name, t.dims)
                dims += (f"min(1, {size(t.over)})",) if t.over else ()
                out.append(DeviceMemory(t.name, t.dtype, dims, Role.TEMPORARY))
        out += [
            DeviceMemory(name, dtype, ("1",), Role.TEMPORARY)
            for name, dtype in self.locals.items()
            if name in used
        ]
        out += [m for m in self._partial if m.name in used]
        return (*out, *(table for name, table in self._tables.items() if name in used))


def _continued(program: LoopProgram) -> dict[str, str]:
    """The sums that go on from tile to tile, which other kernels begin and end: their dtypes."""
    nests = [(item, part) for item in program.items for part in nests_and_calls(item)]
    starts = {
        s.target
        for item, nest in nests
        if item is nest and isinstance(nest, Nest) and not nest.domain
        for s in nest.statements
        if s.kind is StatementKind.LET
    }
    return {
        a.name: a.dtype
        for item, nest in nests
        if isinstance(item, TileLoop) and isinstance(nest, Nest)
        for a in nest.accumulators
        if a.identity == a.name and a.name in starts and a.name not in dict(program.locals)
    }


def _called_words(lines: Iterable[str]) -> list[str]:
    return [w for line in lines if not line.lstrip().startswith("#") for w in names_in(line)]


def _numbers(words: Iterable[str]) -> list[str]:
    """The names of sizes and numbers among words; ``k0`` names memory."""
    return sorted(w for w in words if (entry := table_entry(w)) and entry[0] != "k")


def _assigned(lines: Iterable[str]) -> set[str]:
    """The names that lines assign."""
    return {name for line in lines for name in assigned(line)}


def length(lines: Iterable[str]) -> int:
    """How many lines a compiler gets: it puts the text of a function in place of each call."""
    return sum(1 + sum(_CALLED.get(name, 0) for name in names_in(line)) for line in lines)


def _between_barriers(lines: list[str]) -> Iterator[list[str]]:
    """The lines from one barrier of all threads to the next."""
    begins = [k + 1 for k, line in enumerate(lines) if line == BARRIER]
    for begin, end in pairwise([0, *begins, len(lines)]):
        yield lines[begin:end]


def _stored(name: str, dtype: str) -> str:
    return f"{name}_memory[0] = {f'np.uint8({name})' if dtype == 'b1' else name}"


def _loaded(name: str, dtype: str) -> str:
    return f"{name} = {name}_memory[0]" + " != 0" * (dtype == "b1")


def _buffers(step: LibraryCall | SortKeys) -> tuple[str, ...]:
    return step.call.buffers if isinstance(step, LibraryCall) else (step.keys,)
