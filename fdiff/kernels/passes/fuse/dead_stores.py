"""Dead store elimination: stores into temporaries that nothing reads are taken out.

Such stores are left over where all readers of a value share the nest that computes it. Dead-code
elimination; S. S. Muchnick, Advanced Compiler Design and Implementation, Morgan Kaufmann 1997,
section 18.10.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.loops import Call, LoopProgram, Nest, StatementKind, nests_and_calls


def eliminate_dead_stores(program: LoopProgram) -> LoopProgram:
    """The program without dead stores, and without the temporaries they wrote to."""
    read = _read(program)
    unread = {t.name for t in program.temporaries} - read
    if not unread:
        return program
    items = [
        item.map(lambda s: None if s.kind is StatementKind.STORE and s.memory in unread else s)
        if isinstance(item, Nest) else item
        for item in program.items
    ]  # fmt: skip
    return replace(
        program,
        temporaries=tuple(t for t in program.temporaries if t.name in read),
        items=tuple(i for i in items if not isinstance(i, Nest) or i.all_statements),
    )


def _read(program: LoopProgram) -> set[str]:
    """Names of buffers that a nest loads or a call takes as an argument, outputs included."""
    read: set[str] = set()
    for part in (part for item in program.items for part in nests_and_calls(item)):
        if isinstance(part, Call):
            read.update(part.buffers)
        else:
            read.update(s.memory for s in part.all_statements if s.kind is not StatementKind.STORE)
    return read
