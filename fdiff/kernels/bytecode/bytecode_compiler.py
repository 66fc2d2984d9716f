"""A tape as a program of the bytecode interpreter.

An instruction works on many entries, so that its dispatch costs little (P. Boncz, M. Zukowski,
N. Nes, MonetDB/X100: hyper-pipelining query execution, CIDR 2005, section 4).
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...arraytype import distinct
from ...foreign_errors import not_foreign
from ...kernel_rule import COMPLEX, Kind
from ...named_tuples import NamedTuple
from ...primitive import Primitive
from ...tape import CONSTANT, ITEM, Node, Tape
from .assembler import (
    FOREVER,
    Assembler,
    InstructionRange,
    Lowering,
    NumpyStep,
    RefusedError,
    Value,
    extent_of,
)
from .lowering import LOWERING_RULES, blocks
from .opcode_bodies import RANK
from .opcodes import ALWAYS, short_name
from .workspace_layout import (
    Layout,
    by_slots,
    columns,
    in_order,
    joined_axes,
    laid,
    row_major,
    viewed,
)

CompiledFamilies = Callable[[frozenset[str]], frozenset[str] | None]
MOST_LEFT = 2  # one node in so many may be left to NumPy
_NO_MORE = ((0, 0, 0), (0, 0), (0,), ())
FAR = 4096  # entries of an output from which on it is copied by the machine
MOST_SLOTS = 1 << 30  # places are 32-bit integers


class BytecodeProgram(NamedTuple):
    """A program: instructions with their numbers, and the places of values in the workspace."""

    code: np.ndarray
    extra: np.ndarray
    steps: tuple[InstructionRange | NumpyStep, ...]
    branches: tuple[tuple[str, ...], ...]  # the lines of each opcode
    families: frozenset[str]  # what they belong to
    needed: frozenset[str]  # the families that the tape needs
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    far: tuple[int, ...]  # for each output where its place is written for the copy, or -1
    constants: tuple[tuple[int, np.ndarray], ...]
    size: int


class Alias(NamedTuple):
    """A value that lies within its operand."""

    layout: Layout
    delta: int


class ElementwiseInstruction(NamedTuple):
    """An elementwise op: opcode, count, strides, and whether operands have to be copied first."""

    opcode: int
    entries: int
    strides: int
    layout: Layout
    extent: int
    copies: bool


def encode(
    tape: Tape,
    compiled: CompiledFamilies = lambda needed: None,
    wanted: frozenset[str] = frozenset(),
) -> BytecodeProgram:
    """The program of `tape`; `RefusedError` if it is not for the bytecode interpreter.

    Its opcodes come from the set of families that `compiled` tells for the families it needs; if
    there is none, from these and the families `wanted` by other tapes.
    """
    assembler = Assembler(tape, _last_reads(tape))
    try:
        _enter(assembler)
        _encode_nodes(assembler)
        far = tuple(_sent(assembler, o) for o in tape.outputs)
    except not_foreign(OverflowError):  # also for arrays without entries, along their other axes
        raise RefusedError("a place or a length takes more than 32 bits") from None
    assembler.cut()
    if assembler.size > MOST_SLOTS:
        raise RefusedError("its values take too much memory")
    left = [step for step in assembler.steps if isinstance(step, NumpyStep)]
    if MOST_LEFT * len(left) > len(tape.nodes):
        names = ", ".join(dict.fromkeys(step.name for step in left))
        raise RefusedError(f"most of the tape is for NumPy: {names}")
    return _finished(assembler, compiled, wanted, far)


def _finished(
    assembler: Assembler,
    compiled: CompiledFamilies,
    wanted: frozenset[str],
    far: tuple[int, ...],
) -> BytecodeProgram:
    """Opcodes are numbered anew among the opcodes of the families that the tape needs."""
    opcodes, tape = assembler.opcodes, assembler.tape
    code = np.array(assembler.code, np.int32).reshape(-1, 8)
    needed = frozenset((ALWAYS, *(opcodes.families[k] for k in distinct(code[:, 0]))))
    families = compiled(needed) or needed | wanted
    chosen = opcodes.of(families)
    numbers = np.zeros(len(opcodes.lines), np.int32)
    numbers[chosen] = np.arange(len(chosen))
    code[:, 0] = numbers[code[:, 0]]
    return BytecodeProgram(
        code,
        np.array(assembler.extra, np.int64),
        tuple(assembler.steps),
        tuple(opcodes.lines[k] for k in chosen),
        families,
        needed,
        tuple((assembler.places[i], assembler.layout(i)) for i in tape.inputs),
        tuple((assembler.places[i], assembler.layout(i)) for i in tape.outputs),
        far,
        tuple(assembler.constants),
        assembler.size,
    )


def _sent(assembler: Assembler, o: int) -> int:
    """Let a large output be copied to the caller's array; where its place is to be written.

    -1 for a small one, which is taken out of the workspace.
    """
    place, source = assembler.read_reshaped.get(o, (assembler.places[o], assembler.layout(o)))
    shape, steps = by_slots(source.shape, source.steps, source.dtype)
    target = row_major(shape)
    numbers = columns(joined_axes(shape, steps, target), RANK, 2)
    if source.size >= FAR and source.dtype != "b1" and numbers is not None:
        at = len(assembler.extra)
        assembler.extra.append(0)
        assembler.emit("copy out", 0, at, place, 0, 0, 0, assembler.row(tuple(numbers)))
        return at
    if o in assembler.read_reshaped:
        assembler.places[o] = assembler.take(extent_of(source.slots))
        if not assembler.copy(shape, (assembler.places[o], target), (place, steps)):
            raise RefusedError(f"an array of too many axes, {source.shape}")
    return -1


def _is_alias(primitive: Primitive) -> bool:
    """Whether the result may be the operand itself, seen in another way."""
    copies = primitive.lowering.kernel is not None and primitive.lowering.kernel.text == "{0}"
    return copies or primitive is ITEM or primitive.structure.layout.strides == "view"


def _last_reads(tape: Tape) -> list[int]:
    """For each node the last one that reads it, or what may be a view of it."""
    nodes = tape.nodes
    last = list(range(len(nodes)))
    for o in tape.outputs:
        last[o] = FOREVER
    aliases = {p: _is_alias(p) for p in {node.primitive for node in nodes}}
    for i in range(len(nodes) - 1, -1, -1):
        primitive, args, _, _ = nodes[i]
        until = last[i] if aliases[primitive] else i
        for a in args:
            last[a] = max(last[a], until)
        if primitive is CONSTANT:
            last[i] = FOREVER
    return last


def _enter(assembler: Assembler) -> None:
    """Inputs and constants, before anything else has a place."""
    tape = assembler.tape
    fine: set[int] = set()  # types met before, by identity: long tapes share them
    for i, node in enumerate(tape.nodes):
        primitive, types = node.primitive, node.types
        if id(types) not in fine:
            if any(in_order(t) is None for t in types):
                raise RefusedError(f"{primitive.name} gives {node.type.dtype}")
            fine.add(id(types))
        if primitive is CONSTANT or primitive.kind is Kind.IOTA:
            value = node.value if primitive is CONSTANT else np.arange(node.type.size)
            assert value is not None
            assembler.places[i], assembler.layouts[i] = (
                assembler.constant(value),
                in_order(node.type),
            )
    for i in tape.inputs:
        layout = in_order(tape.nodes[i].type)
        assert layout is not None
        assembler.make(i, layout)


def _encode_nodes(assembler: Assembler) -> None:
    """Encode node by node; most are a view or elementwise and are done right here."""
    nodes, places, layouts = assembler.tape.nodes, assembler.places, assembler.layouts
    owners, dying = assembler.owners, assembler.dying
    lowerings: dict[tuple[object, ...], Alias | ElementwiseInstruction | Lowering | None] = {}
    for i, node in enumerate(nodes):
        if layouts[i] is not None:  # an input or a constant
            continue
        primitive, args, params, _ = node
        key = (primitive, params, *[layouts[a] for a in args])
        if (rule := primitive.lowering.kernel) is not None and rule.constants:
            key = (*key, _exponent(nodes, node))
        lowering = lowerings.get(key)
        if lowering is None and key not in lowerings:
            lowering = lowerings[key] = _lowering_of(assembler, node)
        if isinstance(lowering, ElementwiseInstruction):
            _encode_elementwise(assembler, i, args, lowering)
        elif isinstance(lowering, Alias):
            a = args[0]
            places[i], layouts[i], owners[i] = (
                places[a] + lowering.delta,
                lowering.layout,
                owners[a],
            )
        elif primitive is ITEM:
            places[i], layouts[i] = assembler.items[args[0]][node.k]
            owners[i] = args[0]
        elif lowering is None:
            assembler.call_numpy(i, node)
        else:
            lowering(assembler, i, node)
        if dying[i] >= 0:
            assembler.release(i)


def _encode_elementwise(
    assembler: Assembler, i: int, args: tuple[int, ...], lowering: ElementwiseInstruction
) -> None:
    """One elementwise instruction."""
    opcode, entries, strides, layout, extent, copies = lowering
    places = assembler.places
    operands = [places[a] for a in args]
    if copies:
        layouts = assembler.layouts
        operands = [
            places[a] if layouts[a].size == 1 else assembler.dense(a, layout.shape)  # type: ignore[union-attr] - laid out before it is read
            for a in args
        ]
    kept = assembler.free.get(extent)
    place = kept.pop() if kept else assembler.take(extent)
    places[i], assembler.layouts[i] = place, layout
    assembler.record[i] = assembler.enter(place, extent, assembler.last[i])
    assembler.code.extend((opcode, entries, place, *operands, *_NO_MORE[len(operands)], strides, 0))


def _exponent(nodes: tuple[Node, ...], node: Node) -> float | None:
    """A constant second operand that an op may have a shorter text for."""
    value = nodes[node.args[1]].value if len(node.args) > 1 else None
    if value is None or value.size != 1 or value.dtype.kind == "c":
        return None
    return float(value.reshape(-1)[0])


def _lowering_of(
    assembler: Assembler, node: Node
) -> Alias | ElementwiseInstruction | Lowering | None:
    """How a node is encoded, by what it shares with others; None if NumPy is to compute it."""
    primitive = node.primitive
    if primitive is ITEM:
        return None
    sources = tuple(assembler.layout(a) for a in node.args)
    rule = primitive.lowering.kernel
    if rule is not None and rule.text == "{0}":
        return Alias(sources[0], 0)
    if primitive.structure.layout.strides == "view":
        alias = viewed(primitive, node.params, sources[0])
        return _reshape if alias is None else Alias(*alias)
    pairs = COMPLEX in {*(t.dtype.str[1:] for t in node.types), *(s.dtype for s in sources)}
    if rule is not None and rule.kind in LOWERING_RULES and not pairs:
        return LOWERING_RULES[rule.kind](node, sources)
    return _elementwise(assembler, node, sources)


def _reshape(assembler: Assembler, i: int, node: Node) -> None:
    """A reshape that has to copy; an output is copied only when it is handed over."""
    a, nodes = node.args[0], assembler.tape.nodes
    if i in assembler.tape.outputs and not any(i in n.args for n in nodes[i + 1 :]):
        assembler.read_reshaped[i] = assembler.places[a], assembler.layout(a)
    else:
        assembler.places[i] = assembler.dense(a)
    assembler.layouts[i] = in_order(node.type)


def _elementwise(
    assembler: Assembler, node: Node, sources: tuple[Layout, ...]
) -> ElementwiseInstruction | None:
    """By the first form that there is an opcode of: single entries, vectors, or any strides.

    Complex numbers have forms for single entries and for many, which lie in order.
    """
    out = in_order(node.type)
    assert out is not None
    name, sources = _shortened(assembler, node, sources)
    dtypes = (*(s.dtype for s in sources), out.dtype)
    wide = [s for s in sources if s.size != 1]
    pairs = COMPLEX in dtypes
    if wide and wide[0].packed and wide[0].shape == out.shape and not pairs:
        out = laid(out.shape, wide[0].steps, out.dtype)  # in the order in which all operands lie
    copies = pairs or any(s.steps != out.steps or s.shape != out.shape for s in wide)
    if copies and not pairs:
        out = laid(out.shape, row_major(out.shape), out.dtype)
    copies = copies and not all(s.dense and s.shape == out.shape for s in wide)
    kinds = "".join("S" if s.size == 1 else "V" for s in sources)
    if out.size == 1:
        forms = [("S", 1, 0)]
    else:
        forms = [(kinds, out.size if pairs else blocks(out.size), 0)]
    forms.append(("X", out.size, sum(1 << k for k, kind in enumerate(kinds) if kind == "V")))
    for form, count, strides in forms:
        opcode = assembler.opcodes.numbers.get((name, dtypes, form))
        if opcode is not None:
            return ElementwiseInstruction(opcode, count, strides, out, extent_of(out.slots), copies)
    return None


def _shortened(
    assembler: Assembler, node: Node, sources: tuple[Layout, ...]
) -> tuple[str, tuple[Layout, ...]]:
    """Name of the op and what it reads: the first operand alone, if the second is in the text."""
    primitive, rule = node.primitive, node.primitive.lowering.kernel
    if rule is not None and rule.constants and sources[0].dtype == "f8":
        value = _exponent(assembler.tape.nodes, node)
        if (
            value is not None
            and value in dict(rule.constants)
            and sources[0].size == node.type.size
        ):
            return short_name(primitive, value), sources[:1]
    return primitive.name, sources
