"""A tape as a program of the evaluator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...kernel_rule import COMPLEX, Kind
from ...primitive import Primitive
from ...tape import CONSTANT, ITEM, Node, Tape
from .assembler import FOREVER, Encoder, Left, Plan, RefusedError, Rows, Value, room_of
from .layout import Layout, by_slots, columns, in_order, joined, laid, row_major, viewed
from .lowering import MAKERS, blocks
from .opcode_bodies import RANK
from .opcodes import ALWAYS, short_name

MOST_LEFT = 2  # one node in so many may be left to NumPy
_NO_MORE = ((0, 0, 0), (0, 0), (0,), ())
FAR = 4096  # entries of an output from which on it is copied by the machine
MOST_SLOTS = 1 << 30  # places are 32-bit integers


class Program(NamedTuple):
    """What is run: instructions and the numbers they need, and what lies where in the arena."""

    code: np.ndarray
    extra: np.ndarray
    steps: tuple[Rows | Left, ...]
    branches: tuple[tuple[str, ...], ...]  # the lines of each opcode
    families: frozenset[str]  # what they belong to
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    far: tuple[int, ...]  # for each output where its place is written for the copy, or -1
    constants: tuple[tuple[int, np.ndarray], ...]
    size: int


class View(NamedTuple):
    """A value that lies within its operand."""

    layout: Layout
    delta: int


class Apply(NamedTuple):
    """An elementwise op: opcode, count, strides, and whether operands have to be copied first."""

    opcode: int
    entries: int
    strides: int
    layout: Layout
    room: int
    copies: bool


def encode(tape: Tape, compiled: Iterable[frozenset[str]] = ()) -> Program:
    """The program of `tape`; `RefusedError` if it is not for the evaluator.

    Its opcodes are those of one of the sets of families in `compiled`, if one has all it needs.
    """
    encoder = Encoder(tape, _last_reads(tape))
    _enter(encoder)
    _walk(encoder)
    far = tuple(_sent(encoder, o) for o in tape.outputs)
    encoder.cut()
    if encoder.size > MOST_SLOTS:
        raise RefusedError("its values take too much memory")
    left = [step for step in encoder.steps if isinstance(step, Left)]
    if MOST_LEFT * len(left) > len(tape.nodes):
        names = ", ".join(dict.fromkeys(step.name for step in left))
        raise RefusedError(f"most of the tape is for NumPy: {names}")
    return _finished(encoder, compiled, far)


def _finished(
    encoder: Encoder, compiled: Iterable[frozenset[str]], far: tuple[int, ...]
) -> Program:
    """Opcodes are numbered anew among those of the families that the tape needs."""
    opcodes, tape = encoder.opcodes, encoder.tape
    code = np.array(encoder.code, np.int32).reshape(-1, 8)
    needed = frozenset((ALWAYS, *(opcodes.families[k] for k in np.unique(code[:, 0]))))
    families = min((f for f in compiled if needed <= f), key=len, default=needed)
    chosen = opcodes.of(families)
    numbers = np.zeros(len(opcodes.lines), np.int32)
    numbers[chosen] = np.arange(len(chosen))
    code[:, 0] = numbers[code[:, 0]]
    return Program(
        code,
        np.array(encoder.extra, np.int64),
        tuple(encoder.steps),
        tuple(opcodes.lines[k] for k in chosen),
        families,
        tuple((encoder.places[i], encoder.layout(i)) for i in tape.inputs),
        tuple((encoder.places[i], encoder.layout(i)) for i in tape.outputs),
        far,
        tuple(encoder.constants),
        encoder.size,
    )


def _sent(encoder: Encoder, o: int) -> int:
    """Let a large output be copied to the caller's array; where its place is to be written.

    -1 for a small one, which is taken out of the arena.
    """
    place, source = encoder.turned.get(o, (encoder.places[o], encoder.layout(o)))
    shape, steps = by_slots(source.shape, source.steps, source.dtype)
    target = row_major(shape)
    numbers = columns(joined(shape, steps, target), RANK, 2)
    if source.size >= FAR and source.dtype != "b1" and numbers is not None:
        at = len(encoder.extra)
        encoder.extra.append(0)
        encoder.put("copy out", 0, at, place, 0, 0, 0, encoder.row(tuple(numbers)))
        return at
    if o in encoder.turned:
        encoder.places[o] = encoder.take(room_of(source.slots))
        if not encoder.copy(shape, (encoder.places[o], target), (place, steps)):
            raise RefusedError(f"an array of too many axes, {source.shape}")
    return -1


def _is_alias(primitive: Primitive) -> bool:
    """Whether the result may be the operand itself, seen in another way."""
    rule = primitive.kernel
    return rule is not None and (rule.kind is Kind.ITEM or rule.kind.is_view or rule.text == "{0}")


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


def _enter(encoder: Encoder) -> None:
    """Inputs and constants, before anything else has a place."""
    tape = encoder.tape
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
            encoder.places[i], encoder.layouts[i] = encoder.constant(value), in_order(node.type)
    for i in tape.inputs:
        layout = in_order(tape.nodes[i].type)
        assert layout is not None
        encoder.make(i, layout)


def _walk(encoder: Encoder) -> None:
    """Encode node by node; most are a view or elementwise and are done right here."""
    nodes, places, layouts = encoder.tape.nodes, encoder.places, encoder.layouts
    owners, dying = encoder.owners, encoder.dying
    known: dict[tuple[object, ...], View | Apply | Plan | None] = {}
    for i, node in enumerate(nodes):
        if layouts[i] is not None:  # an input or a constant
            continue
        primitive, args, params, _ = node
        key = (primitive, params, *[layouts[a] for a in args])
        if (rule := primitive.kernel) is not None and rule.constants:
            key = (*key, _exponent(nodes, node))
        plan = known.get(key)
        if plan is None and key not in known:
            plan = known[key] = _plan(encoder, node)
        if isinstance(plan, Apply):
            _apply(encoder, i, args, plan)
        elif isinstance(plan, View):
            a = args[0]
            places[i], layouts[i], owners[i] = places[a] + plan.delta, plan.layout, owners[a]
        elif primitive is ITEM:
            places[i], layouts[i] = encoder.items[args[0]][node.k]
            owners[i] = args[0]
        elif plan is None:
            encoder.leave(i, node)
        else:
            plan(encoder, i, node)
        if dying[i] >= 0:
            encoder.release(i)


def _apply(encoder: Encoder, i: int, args: tuple[int, ...], plan: Apply) -> None:
    """One elementwise instruction."""
    opcode, entries, strides, layout, room, copies = plan
    places = encoder.places
    operands = [places[a] for a in args]
    if copies:
        layouts = encoder.layouts
        operands = [
            places[a] if layouts[a].size == 1 else encoder.dense(a, layout.shape)  # type: ignore[union-attr] - laid out before it is read
            for a in args
        ]
    kept = encoder.free.get(room)
    place = kept.pop() if kept else encoder.take(room)
    places[i], encoder.layouts[i] = place, layout
    encoder.record[i] = encoder.enter(place, room, encoder.last[i])
    encoder.code.extend((opcode, entries, place, *operands, *_NO_MORE[len(operands)], strides, 0))


def _exponent(nodes: tuple[Node, ...], node: Node) -> float | None:
    """A constant second operand that an op may have a shorter text for."""
    value = nodes[node.args[1]].value if len(node.args) > 1 else None
    if value is None or value.size != 1 or value.dtype.kind == "c":
        return None
    return float(value.reshape(-1)[0])


def _plan(encoder: Encoder, node: Node) -> View | Apply | Plan | None:
    """How a node is encoded, by what it shares with others; None if NumPy is to compute it."""
    primitive = node.primitive
    if primitive is ITEM:
        return None
    sources = tuple(encoder.layout(a) for a in node.args)
    rule = primitive.kernel
    if rule is not None and rule.text == "{0}":
        return View(sources[0], 0)
    if rule is not None and rule.kind.is_view:
        found = viewed(primitive, node.params, sources[0])
        return _reshaped(node) if found is None else View(*found)
    if any(t.dtype.kind == "c" for t in node.types) or any(s.dtype == COMPLEX for s in sources):
        return _of_complex(encoder, node, sources)
    if rule is not None and rule.kind in MAKERS:
        return MAKERS[rule.kind](node, sources)
    return _elementwise(encoder, node, sources)


def _reshaped(node: Node) -> Plan:
    """A reshape that has to copy."""

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        layout = in_order(node.type)
        assert layout is not None
        a, nodes = node.args[0], encoder.tape.nodes
        if i in encoder.tape.outputs and not any(i in n.args for n in nodes[i + 1 :]):
            encoder.turned[i] = encoder.places[a], encoder.layout(a)
        else:
            encoder.places[i] = encoder.dense(a)
        encoder.layouts[i] = layout

    return plan


def _elementwise(encoder: Encoder, node: Node, sources: tuple[Layout, ...]) -> Apply | None:
    out = in_order(node.type)
    assert out is not None
    numbers = encoder.opcodes.numbers
    name, sources = _shortened(encoder, node, sources)
    dtypes = (*(s.dtype for s in sources), out.dtype)
    kinds = "".join("S" if s.size == 1 else "V" for s in sources)
    wide = [s for s in sources if s.size != 1]
    if wide and wide[0].packed and wide[0].shape == out.shape:
        out = laid(out.shape, wide[0].steps, out.dtype)  # in the order in which all operands lie
    copies = any(s.steps != out.steps or s.shape != out.shape for s in wide)
    if copies:
        out = laid(out.shape, row_major(out.shape), out.dtype)
        copies = not all(s.dense and s.shape == out.shape for s in wide)
    room = room_of(out.size)
    if out.size == 1 and (name, dtypes, "S") in numbers:
        return Apply(numbers[name, dtypes, "S"], 1, 0, out, room, copies)
    if out.size != 1 and (name, dtypes, kinds) in numbers:
        return Apply(numbers[name, dtypes, kinds], blocks(out.size), 0, out, room, copies)
    if (name, dtypes, "X") in numbers:
        strides = sum(1 << k for k, kind in enumerate(kinds) if kind == "V")
        return Apply(numbers[name, dtypes, "X"], out.size, strides, out, room, copies)
    return None


def _of_complex(encoder: Encoder, node: Node, sources: tuple[Layout, ...]) -> Apply | None:
    """An op that reads or gives complex numbers: of entries in order, copied where they are not."""
    out = in_order(node.type)
    assert out is not None
    kinds = "".join("S" if s.size == 1 else "V" for s in sources)
    form = kinds if "V" in kinds else "S"
    opcode = encoder.opcodes.numbers.get(
        (node.primitive.name, (*(s.dtype for s in sources), out.dtype), form)
    )
    if opcode is None or (form == "S" and out.size != 1):
        return None
    copies = any(s.size != 1 and not (s.dense and s.shape == out.shape) for s in sources)
    return Apply(opcode, out.size, 0, out, room_of(out.slots), copies)


def _shortened(
    encoder: Encoder, node: Node, sources: tuple[Layout, ...]
) -> tuple[str, tuple[Layout, ...]]:
    """Name of the op and what it reads: the first operand alone, if the second is in the text."""
    primitive, rule = node.primitive, node.primitive.kernel
    if rule is not None and rule.constants and sources[0].dtype == "f8":
        value = _exponent(encoder.tape.nodes, node)
        if (
            value is not None
            and value in dict(rule.constants)
            and sources[0].size == node.type.size
        ):
            return short_name(primitive, value), sources[:1]
    return primitive.name, sources
