"""What a root adds to the nest it is put into: its values, then stores, updates or accumulators."""

from __future__ import annotations

from ...ir.graph import Operation
from ...ir.loops import NUMPY, Access, Accumulator, Axis, Buffer, Index, Statement, plus
from ..materialise.value_keys import Key
from .effect import Root, View
from .effects import identity_of
from .loop_body import Body

_COMBINE = {
    "prod": "rt.multiply({0}, {1})", "max": "rt.maximum({0}, {1})", "min": "rt.minimum({0}, {1})",
    "any": "{0} | {1}", "all": "{0} & {1}", "cumsum": "{0} + {1}", "cumprod": "{0} * {1}",
    "cummax": "rt.maximum({0}, {1})",
    "recurrence": "{1} * {0} + {2}",
}  # fmt: skip


def enter(body: Body, root: Root) -> None:
    """Put `root` into the nest that `body` grows."""
    {
        "local": _local,
        "store": _store,
        "update": _update,
        "reduce": _reduce,
        "argument": _argument,
        "scan": _scan,
    }[root.kind](body, root)


def key_of(body: Body, view: View) -> Key:
    """The key under which a view's value is known in the nest."""
    return body.plan.keys.at(*view)


def _value(body: Body, view: View, dtype: str = "") -> str:
    """Name of the value, converted to `dtype` where it has another."""
    name = body.value(key_of(body, view))
    own = body.plan.ops[view[0]].dtype
    return body.let(f"{NUMPY[dtype]}({{0}})", name) if dtype and dtype != own else name


def _local(body: Body, root: Root) -> None:
    key = key_of(body, root.values[0])
    local = body.plan.names[root.node]
    body.assign(local, body.value(key, compute=root.node))
    body.know(key, local)


def _access(root: Root, index: Index | None = None) -> Access:
    return Access(root.buffer, root.dims, root.index if index is None else index)


def _store(body: Body, root: Root) -> None:
    dtype = body.plan.ops[root.node].dtype
    if root.literal:
        text = f"{NUMPY[dtype]}(0)" if root.literal == "0" else root.literal
    elif root.compute:
        text = body.value(key_of(body, root.values[0]), compute=root.node)
    else:
        text = _value(body, root.values[0])
        for view in root.values[1:]:
            text = body.let(_plus(dtype), text, _value(body, view))
    picked, index = _picked(body, root)
    body.statements.append(Statement("store", "", "", (text, *picked), _access(root, index)))
    if root.hands:
        body.know(key_of(body, (root.node, root.index)), text)


def _picked(body: Body, root: Root) -> tuple[list[str], Index]:
    """Where the entry lies: the positions found in index arrays first, checked."""
    if not root.positions:
        return [], root.index
    picked = body.wrap([_value(body, p) for p in root.positions], root.dims)
    return picked, (*[Axis(-1, "1", name) for name in picked], *root.index[len(picked) :])


def _plus(dtype: str) -> str:
    return "rt.add({0}, {1})" if dtype[0] == "f" else "{0} | {1}" if dtype == "b1" else "{0} + {1}"


def _update(body: Body, root: Root) -> None:
    value = _value(body, root.values[0])
    picked, index = _picked(body, root)
    text = _plus(body.plan.ops[root.node].dtype)
    if not root.domain:
        text = text.replace("rt.add({0}, {1})", "{0} + {1}")  # no loop, and quicker to compile
    body.statements.append(
        Statement("update", body.fresh(), text, (value, *picked), _access(root, index))
    )


# --- reductions -------------------------------------------------------------------------------


def _reduce(body: Body, root: Root) -> None:
    plan = body.plan
    op = plan.ops[root.node]
    local = plan.local(root.node)
    inner = 0
    while inner < len(root.reduced) and len(root.domain) - 1 - inner in root.reduced:
        inner += 1
    if len(root.values) == 2:
        value = body.let("{0} * {1}", *[_value(body, v) for v in root.values])
    else:
        value = _value(body, root.values[0], op.dtype)
    kind = "sum" if op.kind == "contract" else op.kind
    combine = _plus(op.dtype) if kind == "sum" else _COMBINE[kind]
    if not root.reduced:
        body.statements.append(
            Statement("let", root.buffer.name, "{0}", (value,))
            if local
            else Statement("store", "", "", (value,), _access(root))
        )
    elif not inner:
        body.statements.append(Statement("update", body.fresh(), combine, (value,), _access(root)))
    else:
        _accumulate(body, root, op, kind, combine, value, inner)


def _accumulate(
    body: Body, root: Root, op: Operation, kind: str, combine: str, value: str, inner: int
) -> None:
    """A local accumulator around the `inner` innermost loops; single precision adds in double."""
    wide = op.dtype == "f4" and kind == "sum"
    dtype = "f8" if wide else op.dtype
    local = body.plan.local(root.node)
    name = root.buffer.name if local and not wide else body.fresh()
    if wide:
        value = body.let("np.float64({0})", value)
    body.statements.append(Statement("accumulate", name, combine, (value,)))
    final = _final(body, root, name, combine, wide=wide, whole=inner == len(root.reduced))
    depth = len(root.domain) - inner
    start = name if root.begun else identity_of(kind, dtype)
    body.accumulators.append(Accumulator(name, start, depth, final))


def _final(
    body: Body, root: Root, name: str, combine: str, *, wide: bool, whole: bool
) -> tuple[Statement, ...]:
    if body.plan.local(root.node):
        return (Statement("let", root.buffer.name, "np.float32({0})", (name,)),) if wide else ()
    lines: list[Statement] = []
    if wide:
        narrow = body.fresh()
        lines.append(Statement("let", narrow, "np.float32({0})", (name,)))
        name = narrow
    if whole:
        lines.append(Statement("store", "", "", (name,), _access(root)))
    else:
        lines.append(Statement("update", body.fresh(), combine, (name,), _access(root)))
    return tuple(lines)


def _argument(body: Body, root: Root) -> None:
    source = body.plan.ops[root.values[0][0]]
    op = "max" if body.plan.ops[root.node].kind == "argmax" else "min"
    value = _value(body, root.values[0])
    local = body.plan.local(root.node)
    where, best = root.buffer.name if local else body.fresh(), body.fresh()
    var = root.reduced[0]
    place = Access(Buffer(""), ("1",) if var < 0 else (root.domain[var],), (Axis(var),))
    body.statements.append(
        Statement("pick", where, ">" if op == "max" else "<", (value, best), place)
    )
    depth = len(root.domain) - (var >= 0)
    final = () if local else (Statement("store", "", "", (where,), _access(root)),)
    body.accumulators.append(Accumulator(best, identity_of(op, source.dtype), depth, ()))
    body.accumulators.append(Accumulator(where, "0", depth, final))


# --- scans ------------------------------------------------------------------------------------


def _scan(body: Body, root: Root) -> None:
    op = body.plan.ops[root.node]
    values = [_value(body, v, op.dtype) for v in root.values]
    var = root.reduced[0]
    start = identity_of(op.kind, op.dtype)
    combine = _COMBINE[op.kind]
    if op.dtype not in ("f8", "f4", "i8"):
        combine = f"{NUMPY[op.dtype]}({combine})"
    if var < 0:
        name = body.let(combine, start, *values)
    elif var == len(root.domain) - 1:
        name = body.fresh()
        body.statements.append(Statement("accumulate", name, combine, tuple(values)))
        body.accumulators.append(Accumulator(name, start, var, ()))
    else:
        back = tuple(_before(a) if a.var == var else a for a in root.index)
        carried = body.fresh()
        body.statements.append(Statement("carry", carried, start, (str(var),), _access(root, back)))
        name = body.let(combine, carried, *values)
    body.statements.append(Statement("store", "", "", (name,), _access(root)))
    body.know(body.plan.keys.exactly(root.node, root.dims, root.index), name)


def _before(axis: Axis) -> Axis:
    """The entry the scan has just left."""
    return axis._replace(start=plus(axis.start, "1" if axis.step == "-1" else "-1"))
