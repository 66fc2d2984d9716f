"""Numba's passes for functions of kernel texts, with what our compiler tells LLVM besides.

No two pointers of a function lead to the same memory, and some loops have hints for LLVM's
vectoriser. Numba has a private flag for the one and no way to say the other.
"""

from __future__ import annotations

import ast
from typing import Any

from llvmlite import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering

from ...source_lines import source_lines
from ..llvm.loop_hints import calls_in, hint_long_loop, hint_many_calls


class NoAliasCompiler(CompilerBase):
    """Numba's own passes, told that no two pointers of a function lead to the same memory."""

    def define_pipelines(self) -> list[PassManager]:
        self.state.flags.noalias = True
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class _HintingCompiler(NoAliasCompiler):
    """`NoAliasCompiler` with a generator of LLVM code that gives hints."""

    lowering: type[BaseNativeLowering]

    def define_pipelines(self) -> list[PassManager]:
        (manager,) = super().define_pipelines()
        manager.passes = [
            (self.lowering if pass_ is NativeLowering else pass_, name)
            for pass_, name in manager.passes
        ]
        manager.finalize()
        return [manager]


class _LowerWithHints(Lower):
    """Numba's generator of LLVM code, and then hints for the branches that close loops."""

    def lower_function_body(self) -> ir.Block:
        self._ends: list[Any] = []
        entry = super().lower_function_body()
        ends = dict(zip(sorted(self.blocks), self._ends, strict=True))
        graph = compute_cfg_from_blocks(self.blocks)
        for loop in graph.loops().values():
            body = loop.body - {loop.header}
            lines = self._lines(body) - self._lines({loop.header})
            for k in body & {before for before, _ in graph.predecessors(loop.header)}:
                self.hint(ends[k].terminator, lines)
        return entry

    def hint(self, back: ir.ConditionalBranch, lines: set[int]) -> None:
        """Give hints for a loop with these lines of the text."""
        raise NotImplementedError

    def _lines(self, blocks: set[int]) -> set[int]:
        """The lines of a text that these blocks are made of."""
        return {statement.loc.line for k in blocks for statement in self.blocks[k].body}

    def post_block(self, block: object) -> None:
        super().post_block(block)
        self._ends.append(self.builder.block)  # a block of Numba's may be several of LLVM's


class _LowerOutlined(_LowerWithHints):
    def hint(self, back: ir.ConditionalBranch, lines: set[int]) -> None:
        hint_long_loop(back, len(lines))


class _LowerManyCalls(_LowerWithHints):
    def hint(self, back: ir.ConditionalBranch, lines: set[int]) -> None:
        text = "".join(source_lines(self.func_ir.loc.filename))
        hint_many_calls(back, calls_in(ast.parse(text).body, lines))


@register_pass(mutates_CFG=True, analysis_only=False)
class _OutlinedLowering(BaseNativeLowering):
    _name = "fdiff_outlined_lowering"

    @property
    def lowering_class(self) -> Any:
        return _LowerOutlined


@register_pass(mutates_CFG=True, analysis_only=False)
class _ManyCallsLowering(BaseNativeLowering):
    _name = "fdiff_many_calls_lowering"

    @property
    def lowering_class(self) -> Any:
        return _LowerManyCalls


class OutlinedCompiler(_HintingCompiler):
    """The passes for outlined functions: their long loops have the hints that ours have."""

    lowering = _OutlinedLowering


class ManyCallsCompiler(_HintingCompiler):
    """The passes for kernels with many elementary functions, whose loops have hints likewise."""

    lowering = _ManyCallsLowering
