"""Hints for LLVM's loop vectoriser, as metadata of the branch from a loop's end to its begin.

LLVM chooses how many vectors of iterations it computes side by side (interleaving). In a sum,
interleaving fills the registers that loop invariants leave free. Where the invariants need as many
registers as there are, LLVM chooses four (AVX2, a sum of 15 terms: one vector, of 16 terms: four),
as if the number of free registers were negative and read as a large number. Such loops took up to
three times as long to compile, and were no faster.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence

from llvmlite import ir

from ...syntax_trees import walk
from ..ir.word_table import WORDS
from .machine import has

LONG_LOOP = 24  # lines from which an iteration keeps the processor busy
MANY_CALLS = 8  # of elementary functions in a loop, likewise
_INDEX, _TRUTH = ir.IntType(32), ir.IntType(1)
Hint = tuple[str, *tuple[ir.Constant, ...]]
_ALONE: Hint = ("interleave.count", ir.Constant(_INDEX, 1))


def hint_long_loop(back: ir.ConditionalBranch, lines: int) -> None:
    """Have LLVM vectorise a long loop of an outlined function without interleaving.

    Interleaving is four times the code to compile, and no faster. If the processor has masked
    vectors, the remaining iterations are one masked vector operation, not a scalar loop.
    """
    if lines >= LONG_LOOP:
        masked = ("vectorize.predicate.enable", ir.Constant(_TRUTH, 1))
        _attach_hints(back, [_ALONE, ("unroll.disable",), *([masked] if has("avx512f") else [])])


def hint_many_calls(back: ir.ConditionalBranch, calls: int) -> None:
    """Have LLVM vectorise a loop without interleaving if it calls many elementary functions."""
    if calls >= MANY_CALLS:
        _attach_hints(back, [_ALONE])


def calls_in(body: Sequence[ast.stmt], lines: Container[int] | None = None) -> int:
    """How many elementary functions these statements call, on these lines of their text."""
    nodes = (node for statement in body for node in walk(statement))
    calls = [n for n in nodes if isinstance(n, ast.Call) and (lines is None or n.lineno in lines)]
    return sum(_is_elementary(call.func) for call in calls)


def _is_elementary(function: ast.expr) -> bool:
    """Whether a call's function is an elementary one: a word of ``rt``."""
    if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
        return False
    word = WORDS.get(f"{function.value.id}.{function.attr}")
    return word is not None and word.elementary


def _attach_hints(back: ir.ConditionalBranch, hints: Sequence[Hint]) -> None:
    """Attach metadata to the branch that closes a loop."""
    module = back.module
    nodes = [
        module.add_metadata([ir.MetaDataString(module, f"llvm.loop.{name}"), *values])
        for name, *values in hints
    ]
    loop = ir.MDValue(module, nodes, name=str(len(module.metadata)))
    loop.operands = (loop, *nodes)  # metadata of a loop begins with itself (LLVM's LangRef)
    back.set_metadata("llvm.loop", loop)
