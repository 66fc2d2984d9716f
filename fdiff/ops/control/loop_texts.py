"""Loops as Python functions of plain numbers, with the branches and loops of their bodies inside.

Floats of Python compute the same as floats of NumPy, in a third of the time, but tell of no overflow and of no
invalid operation. Both give a result that is not finite, and then so are the sums, products and quotients of it.
So `total` adds up the results that other operations read. If the total is not finite, NumPy may have had to warn: the
function gives None, and the loop runs in NumPy.

Infinities and NaNs go on: IEEE 754-2019, sections 6.1 and 6.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ...arraytype import BOOL, F8, INT, ArrayType
from ...generated_text import defined
from ...kernel_rule import Kind
from ...tape import CONSTANT, INPUT, ITEM, Node, Tape
from ...trace import Array
from ..tape_to_python import Statements
from .loop_operands import Operands, checked_trips, exceed, operands

DEEP = 12  # blocks in blocks: Python takes 20
LARGE = 3000  # nodes of a body that gets a text of its own
FLOAT, TRUTH, COUNT = ArrayType((), F8), ArrayType((), BOOL), ArrayType((), INT)
PLAIN = {FLOAT: "float", TRUTH: "bool", COUNT: "int64"}  # what makes the numbers of a text
EXACT = {FLOAT: "float64({})", TRUTH: "bool_({})"}  # such numbers with the attributes of NumPy's
SUMS = {"add", "subtract", "multiply", "square", "negative", "absolute", "copy", "stop_gradient"}
COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
COUNTS = {"remainder": "{} % {}", "floor_divide": "{} // {}", "absolute": "abs({})"}
TEXTS = {
    "logical_and": "{} and {}", "logical_or": "{} or {}", "logical_xor": "{} != {}", "logical_not": "not {}",
}  # fmt: skip
LoopRun = Callable[..., Sequence[Array] | None]


@lru_cache(maxsize=256)
def loop_function(body: Tape, carries: int, rows: int, *, reverse: bool) -> LoopRun:
    """A function of the length of a loop and its operands that gives its last carries and its outs."""
    text = _FunctionLines(body, len(body.inputs) - rows)
    own = operands(["trips", *text.operands], carries, rows)
    results = text.loop(body, own, "length", reverse=reverse)
    return text.function(["length", "trips", *text.operands], results)


@lru_cache(maxsize=256)
def while_function(body: Tape, cond: Tape, carries: int) -> LoopRun:
    """A function of the limit of a loop, the trips that it has made and its operands; it gives its outputs."""
    text = _FunctionLines(body, len(body.inputs))
    results = text.while_loop(body, cond, text.operands, carries, "trips", "limit")
    return text.function(["limit", "trips", *text.operands], results)


class _FunctionLines:
    """The lines of a function of a body's operands, of which the first `single` are no rows."""

    def __init__(self, body: Tape, single: int) -> None:
        self.scope: dict[str, object] = {
            "array": np.array, "zeros": np.zeros, "int64": np.int64, "float64": np.float64, "bool_": np.bool_,
            "divide": np.divide, "checked_trips": checked_trips, "filled": _filled, "exceed": exceed, "inf": np.inf,
        }  # fmt: skip
        self.lines, self.depth, self.count = list[str](), 1, 0
        self.add("total = 0.0")
        self.operands = self.new_names("a", len(body.inputs))
        for name, t in zip(self.operands[:single], body.input_types, strict=False):
            if not t.shape:
                self.add(f"{name} = {PLAIN[t]}({name})" if t in PLAIN else f"{name} = array({name})[()]")

    def function(self, parameters: Sequence[str], results: Sequence[str]) -> LoopRun:
        self.add("if not -inf < total < inf: return None")
        self.add(f"return ({''.join([f'{name}, ' for name in results])})")
        return defined("run", [f"def run({', '.join(parameters)}):", *self.lines], self.scope)

    def add(self, line: str) -> None:
        self.lines.append(f"{'    ' * self.depth}{line}")

    def assign(self, names: Sequence[str], values: Sequence[str]) -> None:
        if names:
            self.add(f"{', '.join(names)} = {', '.join(values)}")

    def new_names(self, letter: str, count: int) -> list[str]:
        self.count += count
        return [f"{letter}{k}" for k in range(self.count - count, self.count)]

    def tape(self, tape: Tape, own: Sequence[str]) -> list[str]:
        """Write the nodes of a tape, whose inputs have these names; returns the names of its outputs."""
        nodes = _BodyLines(tape, own, self)
        nodes.write()
        return [*map(nodes.name, tape.outputs)]

    def loop(self, body: Tape, own: Operands[str], length: str, *, reverse: bool) -> list[str]:
        """Write a loop; returns the names of its carries and outs."""
        count, first = len(own.carries), len(body.inputs) - len(own.rows)
        carries, entries = self.new_names("s", count), self.new_names("r", len(own.rows))
        outs = {name: t for t in body.output_types[count:] for name in self.new_names("o", 1)}
        trips, k = self.new_names("k", 2)
        self.assign(carries, own.carries)
        self.add(f"{trips} = checked_trips({own.trips}, {length})")
        for out, t in outs.items():
            dtype = f"{np.dtype(t.dtype).str!r}"
            self.add(f"{out} = []" if t in PLAIN else f"{out} = zeros(({length}, *{t.shape}), {dtype})")
        tables = [f"{row}[:{trips}]{'[::-1]' * reverse}" for row in own.rows]
        types = body.input_types[first:]
        tables = [x + ".tolist()" * (t in EXACT) for x, t in zip(tables, types, strict=True)]
        numbers = f"range({trips} - 1, -1, -1)" if reverse else f"range({trips})"
        self.add(f"for {', '.join([k, *entries])}, in zip({', '.join([numbers, *tables])}):")
        self.depth += 1
        results = self.tape(body, [*carries, *own.invariants, *entries])
        for (out, t), value in zip(outs.items(), results[count:], strict=True):
            self.add(f"{out}.append({value})" if t in PLAIN else f"{out}[{k}] = {value}")
        self.assign(carries, results[:count])
        self.depth -= 1
        for out in [out for out, t in outs.items() if t in PLAIN]:
            dtype = f"{np.dtype(outs[out].dtype).str!r}"
            self.add(f"{out} = filled({out}{'[::-1]' * reverse}, {length}, {dtype})")
        return [*carries, *outs]

    def while_loop(
        self, body: Tape, cond: Tape, own: Sequence[str], carries: int, trips: str, limit: str
    ) -> list[str]:  # fmt: skip
        """Write a loop with a condition, from a number of trips on; returns the names of its outputs."""
        *state, count = self.new_names("s", carries + 1)
        self.assign([*state, count], [*own[:carries], trips])
        self.add("while True:")
        self.depth += 1
        self.add(f"if not {self.tape(cond, [*state, *own[carries:]])[0]}: break")
        self.add(f"if {limit} and {count} == {limit}: exceed({limit})")
        results = self.tape(body, [*state, *own[carries:]])
        self.assign([*state, count], [*results, f"{count} + 1"])
        self.depth -= 1
        self.add(f"{count} = int64({count})")
        return [*state, count]

    def switch(self, index: str, branches: Sequence[Tape], own: Sequence[str], *, truth: bool) -> list[str]:
        """Write branches, by a number or by a truth value; returns the names of their outputs."""
        outs = self.new_names("b", len(branches[0].outputs))
        branches = branches[:2] if truth else branches
        for k, branch in enumerate(branches):
            asks = f"if not {index}:" if truth else f"{'el' * bool(k)}if {index} <= {k}:"
            self.add("if True:" if len(branches) == 1 else "else:" if k == len(branches) - 1 else asks)
            self.depth += 1
            self.assign(outs, self.tape(branch, own))
            self.add("pass")
            self.depth -= 1
        return outs


class _BodyLines(Statements):
    """The nodes of one tape in the text of a loop."""

    def __init__(self, tape: Tape, own: Sequence[str], text: _FunctionLines) -> None:
        super().__init__(tape, text.scope)
        self.text, self.names = text, dict(zip(tape.inputs, own, strict=True))
        self.types = [node.types[0] for node in tape.nodes]
        sizes = Counter[int]()
        for i, _, body in tape.bodies():
            sizes[i] += _size(body)
        self.written = {i for i in sizes if text.depth <= DEEP and sizes[i] <= LARGE and _kind(tape.nodes[i])}
        self.blocks: dict[int, list[str]] = {}  # the names of the outputs of loops and switches
        self.needed, self.told = {*tape.outputs}, {*tape.outputs}
        self.last: dict[int, int] = dict.fromkeys(tape.outputs, len(tape.nodes))
        for i in range(len(tape.nodes) - 1, -1, -1):
            if i in self.needed:
                self._note_reads(i)

    def _note_reads(self, i: int) -> None:
        reads = self.reads(i)
        self.needed.update(reads)
        divides = self.tape.nodes[i].primitive.name == "divide"
        self.told.update(reads if not self.is_sum(i) else reads[1:] if divides else ())
        for a in reads:
            self.last.setdefault(a, i)

    def write(self) -> None:
        """Write the nodes that outputs depend on, and what is to be told of them."""
        text, sums = self.text, list[str]()
        for i in sorted(self.needed):
            node = self.tape.nodes[i]
            if node.primitive in (INPUT, CONSTANT):
                continue
            if not self._is_block(i, node):
                name = text.new_names("v", 1)[0]
                text.add(f"{name} = {self._number(i, node)}")
                self.names[i] = name
                if i in self.told and self.is_sum(i):
                    sums.append(name)
            read = [a for a in {*self.reads(i)} if self.last[a] == i and self.is_array(a)]
            names = [self.names[a] for a in read if self.tape.nodes[a].primitive is not INPUT]
            if dead := [name for name in names if name[0] == "v"]:
                text.add(f"del {', '.join(dead)}")
        if sums:
            text.add(f"total += {' + '.join(sums)}")

    def name(self, i: int) -> str:
        node = self.tape.nodes[i]
        if (value := node.value) is not None and node.type in EXACT and i not in self.names:
            self.names[i] = self.bound(value.item())
        return super().name(i)

    def reads(self, i: int) -> Sequence[int]:
        """The nodes that the text of a node reads."""
        node = self.tape.nodes[i]
        if node.primitive in (INPUT, CONSTANT):
            return ()
        if i in self.written and self._asks_truth(node):
            return self.tape.nodes[node.args[0]].args + node.args[1:]
        special = self.special(i)
        return special[1] if special else node.args

    def entry(self, a: int, index: tuple[object, ...]) -> tuple[str, Sequence[int]]:
        if self.types[a].dtype in (F8, BOOL) and all(isinstance(k, int) for k in index):
            return f"{self.name(a)}.item{index}", (a,)
        return super().entry(a, index)

    def is_sum(self, i: int) -> bool:
        """Whether a node is arithmetic on floats of Python."""
        node = self.tape.nodes[i]
        floats = all(t == FLOAT for t in (*node.types, *[self.types[a] for a in node.args]))
        return floats and (node.primitive.name in SUMS or node.primitive.name == "divide")

    def _asks_truth(self, node: Node) -> bool:
        """Whether a node is a switch by a truth value, which is converted to an integer."""
        index = self.tape.nodes[node.args[0]]
        is_switch = _kind(node) is Kind.SWITCH and index.primitive.name == "convert"
        return is_switch and self.types[index.args[0]] == TRUTH

    def _is_block(self, i: int, node: Node) -> bool:
        """Write a loop or a switch, or name its result; False for any other node."""
        text, params, args = self.text, dict(node.params), [*map(self.name, self.reads(i))]
        if node.primitive is ITEM and node.args[0] in self.blocks:
            self.names[i] = self.blocks[node.args[0]][node.k]
            return True
        if i not in self.written:
            return False
        if _kind(node) is Kind.LOOP:
            own = operands(args, params["carries"], params["rows"])
            outs = text.loop(params["body"], own, str(params["length"]), reverse=params["reverse"])
        elif _kind(node) is Kind.WHILE:
            outs = text.while_loop(params["body"], params["cond"], args, params["carries"], "0", str(params["limit"]))
        else:
            outs = text.switch(args[0], params["branches"], args[1:], truth=self._asks_truth(node))
        self.blocks[i] = outs
        self.names[i] = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
        return True

    def _number(self, i: int, node: Node) -> str:
        """The expression of a node; numbers are floats and truth values of Python."""
        args, types, type_ = node.args, [self.types[a] for a in node.args], node.types[0]
        name, names = node.primitive.name, [*map(self.name, args)]
        if self.is_sum(i):
            text = "{0} / {1} if {1} else divide({0}, {1})" if name == "divide" else _entry_text(node)
            return text.format(*names)
        if name in COMPARISONS and types[0] in PLAIN and types[0] == types[1]:
            return _entry_text(node).format(*names)
        if name in TEXTS and {*types} == {TRUTH}:
            return TEXTS[name].format(*names)
        if {*types, type_} == {COUNT} and (name in COUNTS or node.primitive.lowering.eager.sign):
            return COUNTS[name].format(*names) if name in COUNTS else self.expression(i)
        if name == "where" and types == [TRUTH, type_, type_]:
            return _entry_text(node).format(*names)
        if name == "convert" and (types[0], type_) in ((TRUTH, COUNT), (TRUTH, FLOAT), (COUNT, FLOAT)):
            return f"{PLAIN[type_]}({names[0]})"
        if name == "gather" and type_ == FLOAT and len(args) == 1 + types[0].ndim:
            return f"{names[0]}.item({', '.join(names[1:])})"
        entrywise = isinstance(node.primitive.rules.evaluate, np.ufunc) and all(t.dtype == F8 for t in types)
        exact = names if entrywise or node.primitive is ITEM else [EXACT.get(t, "{}").format(n) for n, t in zip(names, types, strict=True)]
        special = self.special(i)
        if special and name == "reshape" and type_ in EXACT:
            return special[0]
        text = special[0] if special else self.expression(i, exact)
        return f"{PLAIN[type_]}({text})" if len(node.types) == 1 and type_ in PLAIN else text


def _kind(node: Node) -> Kind | None:
    """The kind of a loop or a switch; None for any other node."""
    rule = node.primitive.lowering.kernel
    return rule.kind if rule and rule.kind in (Kind.LOOP, Kind.WHILE, Kind.SWITCH) else None


def _entry_text(node: Node) -> str:
    rule = node.primitive.lowering.kernel
    assert rule is not None, "arithmetic has kernels"
    return rule.text


def _size(tape: Tape) -> int:
    return len(tape) + sum([_size(body) for _, _, body in tape.bodies()])


def _filled(numbers: Sequence[object], length: int, dtype: str) -> np.ndarray:
    """Numbers as an array, with zeros behind them."""
    out = np.zeros(length, dtype)
    out[: len(numbers)] = numbers
    return out
