"""Lowering of effects to statements (J. Ragan-Kelley et al., Halide, PLDI 2013, section 4.1)."""

from __future__ import annotations

from ....kernel_rule import Kind
from ...ir.accesses import Access, Buffer
from ...ir.combiners import KINDS, Combiner
from ...ir.effect import Effect, EffectKind, View
from ...ir.index_expressions import Axis, Index, plus
from ...ir.kernel_graph import Operation
from ...ir.loops import NUMPY, Accumulator, Statement, StatementKind
from ...ir.operation_text import identity_of
from ..materialise.value_numbering import Key
from .loop_body import Body

_COMBINERS = {kind: combiner for combiner, kind in KINDS.items()}
# Of truth values: a sum is true where one is, a product where all are.
_BOOLEAN_COMBINERS = {
    kind: Combiner.OR if kind in (Kind.SUM, Kind.MAX, Kind.ANY) else Combiner.AND
    for kind in _COMBINERS
}
_SCANS = {
    Kind.CUMSUM: "{0} + {1}",
    Kind.CUMPROD: "{0} * {1}",
    Kind.CUMMAX: "rt.maximum({0}, {1})",
    Kind.RECURRENCE: "{1} * {0} + {2}",
}
# In which dtype a sum is accumulated: f8 for its digits; i8, as integers are added in that anyway.
_ACCUMULATOR_DTYPES = {"f4": "f8"} | {
    one: "i8" for one in NUMPY if one[0] in "iu" and one[1] != "8"
}


def lower_effect(body: Body, effect: Effect) -> None:
    """Add the statements of an effect to the statements of its nest."""
    {
        EffectKind.LOCAL: _local,
        EffectKind.STORE: _store,
        EffectKind.UPDATE: _update,
        EffectKind.REDUCE: _reduce,
        EffectKind.ARGUMENT: _argument,
        EffectKind.SCAN: _scan,
    }[effect.kind](body, effect)


def view_key(body: Body, view: View) -> Key:
    """The key of a view's value."""
    return body.plan.keys.at(*view)


def _value(body: Body, view: View, dtype: str = "") -> str:
    """Name of the value, converted to `dtype` where it has another."""
    name = body.value(view_key(body, view))
    own = body.plan.ops[view[0]].dtype
    return body.let(f"{NUMPY[dtype]}({{0}})", name) if dtype and dtype != own else name


def _converted(text: str, dtype: str) -> str:
    """Arithmetic on values of a dtype, which other integers leave for 64 bits, in that dtype."""
    return text if dtype in ("f8", "f4", "i8") else f"{NUMPY[dtype]}({text})"


def _local(body: Body, effect: Effect) -> None:
    """The assignment of a value of one entry to its local."""
    key = view_key(body, effect.values[0])
    local = body.plan.names[effect.node]
    body.assign(local, body.value(key, compute=effect.node))
    body.know(key, local)


def _access(effect: Effect, index: Index | None = None) -> Access:
    return Access(effect.buffer, effect.dims, effect.index if index is None else index)


def _store(body: Body, effect: Effect) -> None:
    """A store of a number, of the node itself, or of the sum of several values."""
    dtype = body.plan.ops[effect.node].dtype
    if effect.literal:
        text = f"{NUMPY[dtype]}(0)" if effect.literal == "0" else effect.literal
    elif effect.compute:
        text = body.value(view_key(body, effect.values[0]), compute=effect.node)
    else:
        text = _value(body, effect.values[0])
        for view in effect.values[1:]:
            text = body.let(_sum(dtype).text(dtype), text, _value(body, view))
    positions, index = _checked_positions(body, effect)
    body.statements.append(Statement.store((text, *positions), _access(effect, index)))
    if effect.forwards:
        body.know(view_key(body, (effect.node, effect.index)), text)


def _checked_positions(body: Body, effect: Effect) -> tuple[list[str], Index]:
    """The checked positions from index arrays, in locals, and the index with them."""
    if not effect.positions:
        return [], effect.index
    positions = body.wrap([_value(body, p) for p in effect.positions], effect.dims)
    axes = [Axis(-1, "1", name) for name in positions]
    return positions, (*axes, *effect.index[len(axes) :])


def _sum(dtype: str) -> Combiner:
    """The operator that adds values of a dtype; truth values are added by a logical or."""
    return Combiner.OR if dtype == "b1" else Combiner.ADD


def _update_statement(body: Body, effect: Effect, combiner: Combiner, value: str) -> Statement:
    """The statement ``entry = combiner(entry, value)`` for the entry of an effect."""
    positions, index = _checked_positions(body, effect)
    # without a loop there is nothing to reassociate, and plain addition is quicker to compile
    text = combiner.text(body.plan.ops[effect.node].dtype) if effect.domain else combiner.value[-1]
    access, operands = _access(effect, index), (value, *positions)
    return Statement(StatementKind.UPDATE, body.fresh(), text, operands, access, combiner)


def _update(body: Body, effect: Effect) -> None:
    """A value is added to an entry of memory."""
    value = _value(body, effect.values[0])
    combiner = _sum(body.plan.ops[effect.node].dtype)
    body.statements.append(_update_statement(body, effect, combiner, value))


# --- reductions -------------------------------------------------------------------------------


def _reduce(body: Body, effect: Effect) -> None:
    """A reduction: in a local over the innermost loops, in memory over others."""
    plan = body.plan
    op = plan.ops[effect.node]
    local = plan.is_local(effect.node)
    inner = effect.innermost_reduced
    if len(effect.values) == 2:
        product = _converted("{0} * {1}", op.dtype)
        value = body.let(product, *[_value(body, v) for v in effect.values])
    else:
        value = _value(body, effect.values[0], op.dtype)
    kind = Kind.SUM if op.kind is Kind.CONTRACT else op.kind
    combiner = (_BOOLEAN_COMBINERS if op.dtype == "b1" else _COMBINERS)[kind]
    if not effect.reduced:
        body.statements.append(
            Statement.let(effect.buffer.name, "{0}", (value,))
            if local
            else Statement.store((value,), _access(effect))
        )
    elif not inner:
        body.statements.append(_update_statement(body, effect, combiner, value))
    else:
        _accumulate(body, effect, op, kind, combiner, value, inner)


def _accumulate(
    body: Body,
    effect: Effect,
    op: Operation,
    kind: Kind,
    combiner: Combiner,
    value: str,
    inner: int,
) -> None:
    """A local accumulator over the `inner` innermost loops; sums of few bits are kept in 64."""
    dtype = _ACCUMULATOR_DTYPES.get(op.dtype, op.dtype) if kind is Kind.SUM else op.dtype
    wide = dtype != op.dtype
    local = body.plan.is_local(effect.node)
    name = effect.buffer.name if local and not wide else body.fresh()
    if wide:
        value = body.let(f"{NUMPY[dtype]}({{0}})", value)
    text = combiner.text(op.dtype)
    body.statements.append(Statement(StatementKind.ACCUMULATE, name, text, (value,)))
    final = _final(body, effect, name, combiner, wide=wide, whole=inner == len(effect.reduced))
    depth = len(effect.domain) - inner
    start = name if effect.continues else identity_of(kind, dtype)
    body.accumulators.append(Accumulator(name, start, dtype, depth, final, combiner))


def _final(
    body: Body, effect: Effect, name: str, combiner: Combiner, *, wide: bool, whole: bool
) -> tuple[Statement, ...]:
    """The statements that store an accumulator after its loops, in its dtype if it is `wide`."""
    narrowed = f"{NUMPY[body.plan.ops[effect.node].dtype]}({{0}})"
    if body.plan.is_local(effect.node):
        return (Statement.let(effect.buffer.name, narrowed, (name,)),) if wide else ()
    lines: list[Statement] = []
    if wide:
        narrow = body.fresh()
        lines.append(Statement.let(narrow, narrowed, (name,)))
        name = narrow
    if whole:
        lines.append(Statement.store((name,), _access(effect)))
    else:
        lines.append(_update_statement(body, effect, combiner, name))
    return tuple(lines)


def _argument(body: Body, effect: Effect) -> None:
    """The position of an extreme entry, and the entry itself in a second accumulator."""
    source = body.plan.ops[effect.values[0][0]]
    kind = Kind.MAX if body.plan.ops[effect.node].kind is Kind.ARGMAX else Kind.MIN
    value = _value(body, effect.values[0])
    local = body.plan.is_local(effect.node)
    where, best = effect.buffer.name if local else body.fresh(), body.fresh()
    var = effect.reduced[0]
    place = Access(Buffer(""), ("1",) if var < 0 else (effect.domain[var],), (Axis(var),))
    sign = ">" if kind is Kind.MAX else "<"
    body.statements.append(Statement(StatementKind.EXTREME, where, sign, (value, best), place))
    depth = len(effect.domain) - (var >= 0)
    final = () if local else (Statement.store((where,), _access(effect)),)
    identity = identity_of(kind, source.dtype)
    body.accumulators.append(Accumulator(best, identity, source.dtype, depth, ()))
    body.accumulators.append(Accumulator(where, "0", "i8", depth, final))


# --- scans ------------------------------------------------------------------------------------


def _scan(body: Body, effect: Effect) -> None:
    """A running total: in a local along the innermost loop, else carried through memory."""
    op = body.plan.ops[effect.node]
    values = [_value(body, v, op.dtype) for v in effect.values]
    var = effect.reduced[0]
    start = identity_of(op.kind, op.dtype)
    combine = _converted(_SCANS[op.kind], op.dtype)
    if var < 0:
        name = body.let(combine, start, *values)
    elif var == len(effect.domain) - 1:
        name = body.fresh()
        body.statements.append(Statement(StatementKind.ACCUMULATE, name, combine, tuple(values)))
        body.accumulators.append(Accumulator(name, start, op.dtype, var, (), scan=True))
    else:
        back = tuple(_previous_position(a) if a.var == var else a for a in effect.index)
        carried = body.fresh()
        body.statements.append(
            Statement(StatementKind.CARRY, carried, start, (str(var),), _access(effect, back))
        )
        name = body.let(combine, carried, *values)
    body.statements.append(Statement.store((name,), _access(effect)))
    body.know(body.plan.keys.key(effect.node, effect.dims, effect.index), name)


def _previous_position(axis: Axis) -> Axis:
    """The position of the previous iteration of a scan along this axis."""
    return axis._replace(start=plus(axis.start, "1" if axis.step == "-1" else "-1"))
