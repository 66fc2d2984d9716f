"""Dead store elimination: stores into temporaries that nothing reads.

They are left where all readers of a value share the nest that computes it.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.loops import Call, LoopProgram, Nest, Statement


def eliminate_dead_stores(program: LoopProgram) -> LoopProgram:
    """The program without dead stores, and without the temporaries they wrote to."""
    read = _read(program)
    unread = {t.name for t in program.temporaries} - read
    if not unread:
        return program
    items = [_kept(item, unread) if isinstance(item, Nest) else item for item in program.items]
    return replace(
        program,
        temporaries=tuple(t for t in program.temporaries if t.name in read),
        items=tuple(i for i in items if not isinstance(i, Nest) or i.all_statements),
    )


def _read(program: LoopProgram) -> set[str]:
    """The names of all memory that a nest or a call reads."""
    read: set[str] = set()
    for item in program.items:
        if isinstance(item, Call):
            read.update(item.buffers)
            continue
        assert isinstance(item, Nest), "there are no blocks yet"
        for s in item.all_statements:
            if s.access is not None and s.kind != "store":
                read.add(s.access.buffer.name)
    return read


def _kept(nest: Nest, unread: set[str]) -> Nest:
    def left(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(
            s for s in statements
            if s.kind != "store" or s.access is None or s.access.buffer.name not in unread
        )  # fmt: skip

    return replace(
        nest,
        statements=left(nest.statements),
        accumulators=tuple(replace(a, final=left(a.final)) for a in nest.accumulators),
        branches=tuple((guard, left(statements)) for guard, statements in nest.branches),
    )
