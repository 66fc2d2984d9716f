"""A loop nest as lines of text."""

from __future__ import annotations

from ..ir.loops import Guard, Nest, Statement, StatementKind
from ..ir.operation_costs import formula_facts
from ..passes.tile.loop_collapse import collapse
from ..runtime.status_errors import OUT_OF_BOUNDS
from .lines import LineKind, TextLine, comment, deeper, leave, let, load, loop_head, store
from .loop_invariant_lines import LoopLines, extreme_lines, lines_of_local
from .symbol_table import SymbolTable


class _Lines(LoopLines[TextLine]):
    """The lines of a nest; `checked` are arguments of sin, cos and tan whose range was checked."""

    def __init__(self, nest: Nest, symbols: SymbolTable) -> None:
        super().__init__(nest, let)
        self.symbols = symbols
        self.checked: set[str] = set()


def emit_nest(nest: Nest, symbols: SymbolTable) -> list[TextLine]:
    """Lines of the nest; loops that walk through memory in order are collapsed into one."""
    nest = nest if nest.excluded else collapse(nest)
    lines = _Lines(nest, symbols)
    for accumulator in nest.accumulators:
        if accumulator.identity != accumulator.name:  # else it continues
            begin = let(accumulator.name, accumulator.identity)
            lines.before[accumulator.depth].append(begin)
    for statement in nest.statements:
        _emit(lines, statement)
    for guard, statements in nest.branches:
        _branch(lines, guard, statements)
    for accumulator in nest.accumulators:
        for statement in accumulator.final:
            lines.after[accumulator.depth] += _text(lines, statement)
    out = [comment(nest.comment)]
    if nest.branches:
        return out + _edges(lines, nest)
    if nest.excluded:
        return out + _loops_around_box(lines, nest)
    for depth in range(lines.rank + 1):
        out += deeper(lines.before[depth], depth)
        if depth < lines.rank:
            out.append(_loop(depth, _range(nest, depth)))
    for depth in range(lines.rank - 1, -1, -1):
        out += deeper(lines.after[depth], depth)
    return out


def _loop(depth: int, bounds: str) -> TextLine:
    """The head of the loop at this depth."""
    return loop_head(f"i{depth}", bounds, LineKind.LOOP)._replace(depth=depth)


def _branch(lines: _Lines, guard: Guard, statements: tuple[Statement, ...]) -> None:
    """Statements in the innermost loop that run where the guard holds."""
    inner = lines.before[lines.rank]
    tests = [f"{begin} <= i{k} < {end}" for k, begin, end in guard]
    if tests:
        inner.append(TextLine(f"if {' and '.join(tests)}:"))
    for statement in statements:
        lines.depth[statement.target] = lines.rank
        text = _range_check(lines, statement) + _text(lines, statement)
        inner += deeper(text, bool(tests))
    lines.checked.clear()


def _range(nest: Nest, depth: int) -> str:
    bounds = nest.ranges[depth] if nest.ranges else None
    return nest.domain[depth] if bounds is None else ", ".join(bounds)


def _outer(lines: _Lines, nest: Nest) -> tuple[list[TextLine], str]:
    """The outer loops, and the test that their iteration is inside the excluded box."""
    out: list[TextLine] = []
    last = lines.rank - 1
    for depth in range(last):
        out += deeper(lines.before[depth], depth)
        out.append(_loop(depth, nest.domain[depth]))
    out += deeper(lines.before[last], last)
    bounds = [(k, *b) for k, b in enumerate(nest.excluded[:last]) if b is not None]
    return out, " and ".join(f"{begin} <= i{k} < {end}" for k, begin, end in bounds)


def _loops_around_box(lines: _Lines, nest: Nest) -> list[TextLine]:
    """Loops around the excluded box: the innermost runs up to it, then on from its end."""
    out, inside = _outer(lines, nest)
    last = lines.rank - 1
    size, own = nest.domain[last], nest.excluded[last]
    begin, end = own or ("0", "")
    if inside:
        begin, end = (f"{x} if {inside} else {size}" if x else "" for x in (begin, end))
    for bound in [begin, f"{end}, {size}"] if end else [begin]:
        out.append(_loop(last, bound))
        out += deeper(lines.before[lines.rank], lines.rank)
    return out


def _edges(lines: _Lines, nest: Nest) -> list[TextLine]:
    """A nest over the few entries of an edge: one scalar loop that jumps over the excluded box.

    It is little code, as LLVM would take longer to vectorise it than it ever runs.
    """
    out, inside = _outer(lines, nest)
    last = lines.rank - 1
    size, own = nest.domain[last], nest.excluded[last]
    jump: list[TextLine] = []
    if own is None:
        out.append(_loop(last, f"0 if {inside} else {size}"))
    else:
        begin, end = own
        skip = f"({end}) - begin" + f" if {inside} else 0" * bool(inside)
        head = (let("begin", begin), let("skip", skip), loop_head("e", f"{size} - skip"))
        out += deeper(head, last)
        jump = [let(f"i{last}", "e if e < begin else e + skip")]
    jump += [TextLine("rt.keep_scalar()"), *lines.before[lines.rank]]
    return [*out, *deeper(jump, lines.rank)]


def _emit(lines: _Lines, statement: Statement) -> None:
    level = lines.level(statement)
    lines.before[level] += _range_check(lines, statement) + _text(lines, statement)


def has_angle(statement: Statement) -> bool:
    """Whether a statement is a sine, cosine or tangent, whose argument may be out of range."""
    return formula_facts(statement.text).has_angle


def _range_check(lines: _Lines, statement: Statement) -> list[TextLine]:
    """Before the first sine, cosine or tangent of a value: whether it is out of their range."""
    if not has_angle(statement) or statement.operands[0] in lines.checked:
        return []
    assert formula_facts(statement.text).call is not None, (
        "only an operand is known to be the angle"
    )
    lines.checked.add(statement.operands[0])
    check = f"out_of_range |= rt.out_of_range({statement.operands[0]})"
    return [TextLine(check, LineKind.FLAG, "out_of_range")]


_OUT_OF_BOUNDS = (leave(OUT_OF_BOUNDS),)


def _text(lines: _Lines, statement: Statement) -> list[TextLine]:
    kind, target, text, operands, access, _ = statement
    if local := lines_of_local(statement, _OUT_OF_BOUNDS):
        return local
    assert access is not None
    name, at = access.buffer.name, lines.address(access)
    if kind is StatementKind.POSITION:
        return [let(target, at)]
    if kind is StatementKind.LOAD:
        return [load(target, lines.symbols.entry(name, at))]
    if kind is StatementKind.STORE:
        return [store(f"{name}[{at}]", operands[0])]
    if kind is StatementKind.CARRY:
        stored = lines.symbols.entry(name, at)
        return [let(target, f"{stored} if i{operands[0]} > 0 else {text}")]
    if kind is StatementKind.EXTREME:
        return extreme_lines(target, at, text, operands)
    assert kind is StatementKind.UPDATE, kind
    simple = at.isidentifier() or at.isdigit()
    first, at = ([], at) if simple else ([let(target, at)], target)
    updated = text.format(lines.symbols.operand(name, at), operands[0])
    return [*first, TextLine(f"{name}[{at}] = {updated}", functions=formula_facts(text).elementary)]
