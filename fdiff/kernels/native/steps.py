"""Functions that stand before a kernel in its text: each is written where it is first called.

The kinds of their parameters are those of the call, and what they give is stored into words of the
caller. No two pointers they are given lead to the same memory.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from llvmlite import ir

from .functions import call, local
from .kinds import WORD, Term, is_pointer, llvm_type
from .statements import Writer

_WORDS = WORD.as_pointer()


@dataclass
class Steps:
    """What a kernel may call: its own functions by name, and those that any text may call."""

    texts: dict[str, ast.FunctionDef]
    written: dict[str, tuple[ir.Function, list[str]]] = field(default_factory=dict)

    def __call__(self, to: Writer, home: str, name: str, args: list[Term]) -> Term:
        """``home.name(*args)``; the results of a step are `to.results`, the first is given."""
        if home or name not in self.texts:
            return call(to, home, name, args)
        symbol = "_".join([local(name), *(a.kind.replace("*", "p") for a in args)])
        if symbol not in self.written:
            self.written[symbol] = self._written(to.module, symbol, self.texts[name], args)
        function, kinds = self.written[symbol]
        words, code = to.words(len(kinds)), to.code
        code.call(function, [*(a.at for a in args), words])
        to.results = []
        for k, kind in enumerate(kinds):
            place = code.bitcast(code.gep(words, [WORD(k)]), llvm_type(kind).as_pointer())
            to.results.append(Term(kind, code.load(place)))
        return to.results[0] if kinds else Term("", WORD(0))

    def _written(
        self, module: ir.Module, symbol: str, node: ast.FunctionDef, args: list[Term]
    ) -> tuple[ir.Function, list[str]]:
        """The function for arguments of these kinds, and the kinds of its results."""
        types = [*(a.at.type for a in args), _WORDS]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), symbol)
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        *values, words = function.args
        for value, kind in [*zip(values, (a.kind for a in args), strict=True), (words, "i8*")]:
            if is_pointer(kind):
                value.add_attribute("noalias")
        writer = Writer(function, node.body, "", self, words)
        names = [a.arg for a in node.args.args]
        kinds = [a.kind for a in args]
        given = zip(names, kinds, values, strict=True)
        writer.write({n: Term(k, v) for n, k, v in given})
        return function, writer.given
