"""Programs that items run, as lines of text: names of their own, and small memory on the stack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ..ir.control_items import ControlBody
from ..ir.index_expressions import Dims, size
from ..ir.loops import NUMPY, Item
from ..kernel_source import indented
from .symbol_table import SymbolTable

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_ASSIGNED = re.compile(r" *(?:for )?(\w+) (?:=|\|=|in) ")
_UNROLLED = 16  # entries up to which they are copied one by one
Emit = Callable[[Item, SymbolTable], list[str]]
_NONE: Mapping[str, str] = {}


class BodyText:
    """The text of a body; `emit` gives the lines of an item, `symbols` are those around it.

    Names have the suffix of the body, but those that are `given`.
    """

    def __init__(
        self, body: ControlBody, symbols: SymbolTable, emit: Emit, names: Mapping[str, str] = _NONE
    ) -> None:
        self.body, self.symbols, self.given = body, symbols, names
        memory = body.lowered.memory
        truths = frozenset(name for name, dtype in memory.items() if dtype == "b1")
        inside = replace(symbols, truths=truths)
        lines = (line for item in body.lowered.items for line in emit(item, inside))
        inputs = {f"x{k}" for k in range(len(body.inputs))}
        self.lines = self._renamed("\n".join(lines), {*memory, *inputs})

    def own(self, name: str) -> str:
        """What a name of the body is called in the kernel."""
        return self.given.get(name) or self.body.own(name)

    def output(self, k: int) -> str:
        """The value of an output that is one number."""
        out = self.body.lowered.outputs[k]
        if not out.scalar:
            return f"{self.own(out.name)}[0]" + " != 0" * (out.dtype == "b1")
        return self.own(out.scalar) if _NAME.fullmatch(out.scalar) else out.scalar

    def stack(self) -> Iterator[str]:
        """The lines that take memory of few entries from the stack."""
        for t in self.body.lowered.temporaries:
            if self.body.is_on_stack(t):
                yield self.taken(t.name, t.dtype, self.body.on_stack(t.dims))

    def taken(self, name: str, dtype: str, count: int) -> str:
        """The line that takes so many words from the stack."""
        word = "uint8" if dtype == "b1" else NUMPY[dtype].removeprefix("np.")
        return f"{self.own(name)} = rt.{word}(rt.stack({count}))"

    def copied(self, to: str, source: str, dims: Dims) -> list[str]:
        """The lines that copy memory of this shape."""
        count, entry = self.body.entries(dims), self.own("entry")
        if count is not None and count <= _UNROLLED:
            return [f"{to}[{e}] = {source}[{e}]" for e in range(count)]
        body = [f"{to}[{entry}] = {source}[{entry}]"]
        return [f"for {entry} in range({size(dims)}):", *indented(body)]

    def _renamed(self, text: str, names: set[str]) -> list[str]:
        """The lines with `names`, and all that they assign, as they are called in the kernel."""
        matches = (_ASSIGNED.match(line) for line in text.split("\n"))
        new = {name: self.own(name) for name in names}
        new |= {match[1]: self.own(match[1]) for match in matches if match is not None}
        return _NAME.sub(lambda m: new.get(m[0], m[0]), text).split("\n") if text else []
