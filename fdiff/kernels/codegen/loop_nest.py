"""A loop nest as lines of text."""

from __future__ import annotations

from ..ir.loops import Guard, Nest, Statement, StatementKind
from ..ir.word_table import called_word
from ..kernel_source import INDENT
from ..passes.tile.loop_collapse import collapse
from ..runtime.status import OUT_OF_BOUNDS
from .loop_lines import LoopLines, lines_of_local, pick_lines
from .symbol_table import SymbolTable


class _Lines(LoopLines):
    """The lines of a nest; `checked` are arguments of sin, cos and tan whose range was checked."""

    def __init__(self, nest: Nest, prefix: str, symbols: SymbolTable) -> None:
        super().__init__(nest, prefix)
        self.symbols = symbols
        self.checked: set[str] = set()


def emit_nest(nest: Nest, symbols: SymbolTable) -> list[str]:
    """Lines of the nest; loops that walk through memory in order are collapsed into one."""
    nest = nest if nest.excluded else collapse(nest)
    lines = _Lines(nest, _number(nest), symbols)
    for accumulator in nest.accumulators:
        if accumulator.identity != accumulator.name:  # else it continues
            lines.before[accumulator.depth].append(f"{accumulator.name} = {accumulator.identity}")
    for statement in nest.statements:
        _emit(lines, statement)
    for guard, statements in nest.branches:
        _branch(lines, guard, statements)
    for accumulator in nest.accumulators:
        for statement in accumulator.final:
            lines.after[accumulator.depth] += _text(lines, statement)
    out = [f"# {nest.comment}"]
    if nest.branches:
        return out + _edges(lines, nest)
    if nest.excluded:
        return out + _around(lines, nest)
    for depth in range(lines.rank + 1):
        out += [INDENT * depth + line for line in lines.before[depth]]
        if depth < lines.rank:
            out.append(f"{INDENT * depth}for i{depth} in range({_range(nest, depth)}):")
    for depth in range(lines.rank - 1, -1, -1):
        out += [INDENT * depth + line for line in lines.after[depth]]
    return out


def _branch(lines: _Lines, guard: Guard, statements: tuple[Statement, ...]) -> None:
    """Statements in the innermost loop that run where the guard holds."""
    inner = lines.before[lines.rank]
    tests = [f"{begin} <= i{k} < {end}" for k, begin, end in guard]
    indent = INDENT if tests else ""
    if tests:
        inner.append(f"if {' and '.join(tests)}:")
    for statement in statements:
        lines.depth[statement.target] = lines.rank
        inner += [
            indent + line for line in _range_check(lines, statement) + _text(lines, statement)
        ]
    lines.checked.clear()


def _range(nest: Nest, depth: int) -> str:
    bounds = nest.ranges[depth] if nest.ranges else None
    return nest.domain[depth] if bounds is None else ", ".join(bounds)


def _outer(lines: _Lines, nest: Nest) -> tuple[list[str], str]:
    """The outer loops, and the test that their iteration is inside the excluded box."""
    out: list[str] = []
    last = lines.rank - 1
    for depth in range(last):
        out += [INDENT * depth + line for line in lines.before[depth]]
        out.append(f"{INDENT * depth}for i{depth} in range({nest.domain[depth]}):")
    out += [INDENT * last + line for line in lines.before[last]]
    bounds = [(k, *b) for k, b in enumerate(nest.excluded[:last]) if b is not None]
    return out, " and ".join(f"{begin} <= i{k} < {end}" for k, begin, end in bounds)


def _around(lines: _Lines, nest: Nest) -> list[str]:
    """Loops around the excluded box: the innermost runs up to it, then on from its end."""
    out, inside = _outer(lines, nest)
    last = lines.rank - 1
    size, own = nest.domain[last], nest.excluded[last]
    begin, end = own or ("0", "")
    if inside:
        begin, end = (f"{x} if {inside} else {size}" if x else "" for x in (begin, end))
    for bound in [begin, f"{end}, {size}"] if end else [begin]:
        out.append(f"{INDENT * last}for i{last} in range({bound}):")
        out += [INDENT * lines.rank + line for line in lines.before[lines.rank]]
    return out


def _edges(lines: _Lines, nest: Nest) -> list[str]:
    """A nest over the few entries of an edge: one scalar loop that jumps over the excluded box.

    It is little code, as LLVM would take longer to vectorise it than it ever runs.
    """
    out, inside = _outer(lines, nest)
    last = lines.rank - 1
    size, own = nest.domain[last], nest.excluded[last]
    indent = INDENT * last
    if own is None:
        out.append(f"{indent}for i{last} in range(0 if {inside} else {size}):")
        jump = []
    else:
        begin, end = own
        skip = f"({end}) - begin"
        out.append(f"{indent}begin = {begin}")
        out.append(
            f"{indent}skip = {skip} if {inside} else 0" if inside else f"{indent}skip = {skip}"
        )
        out.append(f"{indent}for e in range({size} - skip):")
        jump = [f"i{last} = e if e < begin else e + skip"]
    body = [*jump, "rt.keep_scalar()", *lines.before[lines.rank]]
    return out + [INDENT * lines.rank + line for line in body]


def _number(nest: Nest) -> str:
    """A prefix that makes the nest's own names unique: the number of its first local."""
    inside = [s for _, statements in nest.branches for s in statements]
    names = [s.target[1:] for s in (*nest.statements, *inside) if s.target[:1] == "v"]
    return f"{names[0]}_" if names else "_"


def _emit(lines: _Lines, statement: Statement) -> None:
    level = lines.level(statement)
    lines.before[level] += _range_check(lines, statement) + _text(lines, statement)


def has_angle(statement: Statement) -> bool:
    """Whether a statement is a sine, cosine or tangent, whose argument may be out of range."""
    word = called_word(statement.text)
    return word is not None and word.periodic


def _range_check(lines: _Lines, statement: Statement) -> list[str]:
    """Before the first sine, cosine or tangent of a value: whether it is out of their range."""
    if not has_angle(statement) or statement.operands[0] in lines.checked:
        return []
    lines.checked.add(statement.operands[0])
    return [f"out_of_range |= rt.out_of_range({statement.operands[0]})"]


def _text(lines: _Lines, statement: Statement) -> list[str]:
    kind, target, text, operands, access, _ = statement
    if local := lines_of_local(statement, [f"return {OUT_OF_BOUNDS}"]):
        return local
    assert access is not None
    name, at = access.buffer.name, lines.address(access)
    if kind is StatementKind.POSITION:
        return [f"{target} = {at}"]
    if kind is StatementKind.LOAD:
        return [f"{target} = {lines.symbols.entry(name, at)}"]
    if kind is StatementKind.STORE:
        return [f"{name}[{at}] = {operands[0]}"]
    if kind is StatementKind.CARRY:
        stored = lines.symbols.entry(name, at)
        return [f"{target} = {stored} if i{operands[0]} > 0 else {text}"]
    if kind is StatementKind.PICK:
        return pick_lines(target, at, text, operands)
    assert kind is StatementKind.UPDATE, kind
    simple = at.isidentifier() or at.isdigit()
    first, at = ([], at) if simple else ([f"{target} = {at}"], target)
    updated = text.format(lines.symbols.operand(name, at), operands[0])
    return [*first, f"{name}[{at}] = {updated}"]
