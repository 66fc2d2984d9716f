"""A `Function` on recorded arrays: forward runs at once, and one node in the graph has its rule.

Source: torch's note "Extending PyTorch", section "Extending torch.autograd".
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, type_of
from ...errors import InputError, UnsupportedError, failure
from ...functional.rules.ruled_call import UserRule
from ...user_lines import user_line
from ..arrays.array_kinds import ArrayKind
from ..arrays.in_place_operations import check_store, rebase
from ..arrays.recorded_array import RecordedArray, new_array, plain
from ..arrays.recorded_views import ViewOfRule
from ..backward_passes.nodes import CustomNode
from ..backward_passes.saved_values import FREED, pack, saved_arrays
from ..thread_state import not_recording, state
from .custom_nodes import custom_node
from .function_context import (
    NOT_RETURNED,
    FunctionCtx,
    as_many,
    for_arrays,
    run_forward,
    summed_to,
    unmarked,
)


def apply_recorded(rule: UserRule, name: str, args: tuple[Any, ...]) -> object:
    """The output of the forward rule, recorded."""
    ctx = FunctionCtx()
    pushes = state.pushes(args)
    records = state.grad_enabled or pushes
    needs = [records and type(a) is RecordedArray and a.requires_grad for a in args]
    ctx.needs_input_grad = tuple(needs)
    stores = [a.version.stores() if need else 0 for a, need in zip(args, needs, strict=True)]
    with not_recording():
        output = run_forward(rule, ctx, args)
    several = isinstance(output, tuple)
    every = list(output) if several else [output]
    places = [k for k, o in enumerate(every) if isinstance(o, _ARRAYS)]
    if not places:
        kinds = ", ".join(type(o).__name__ for o in every)
        fact = f"{name}.forward must return an array or a tuple with arrays, not {kinds}."
        raise failure(InputError, f"{name}.apply", fact, "Make arrays by numpy.asarray.")
    outs = [every[k] for k in places]
    _check_marks(ctx)
    marked = [x.version for x in ctx._dirty if isinstance(x, RecordedArray)]
    for a, need, count in zip(args, needs, stores, strict=True):
        if need and a.version.stores() != count and a.version not in marked:
            raise unmarked(name)
    for x in ctx._dirty:
        _check_dirty(x, outs, moves=any(needs))
    values = [o.value if type(o) is RecordedArray else o for o in outs]
    if ctx._dirty and pushes:
        fact = "an argument that has a tangent is marked as dirty, where gradients are off."
        raise failure(UnsupportedError, "mark_dirty", fact, "Return a new array.")
    results = list(_entered(for_arrays(rule, places, len(every)), name, ctx, args, outs, values))
    for x in [x for x in ctx._dirty if isinstance(x, RecordedArray)]:
        place = next(k for k, o in enumerate(outs) if o is x)
        if records:
            rebase(x, results[place], user_line(2))
        results = [x if o is x else m for m, o in zip(results, outs, strict=True)]
    if pushes:
        state.dual.without_graph(results)
    for k, x in zip(places, results, strict=True):
        every[k] = x
    ctx._dirty = ctx._flat = ()
    ctx._saved_forward = None
    return tuple(every) if several else every[0]


_ARRAYS = (np.ndarray, np.generic, RecordedArray)


def _type_of(arg: object) -> ArrayType | None:
    """The type of an argument that may be given a gradient: an array or a float."""
    if isinstance(arg, RecordedArray):
        return arg.kind.type
    if isinstance(arg, np.ndarray | np.generic):
        return type_of(arg)
    return ArrayType((), np.dtype(float)) if isinstance(arg, float) else None


def _entered(
    rule: UserRule,
    name: str,
    ctx: FunctionCtx,
    args: tuple[object, ...],
    outs: list[RecordedArray | np.ndarray],
    values: list[np.ndarray],
) -> Sequence[RecordedArray]:
    """The results as outputs of a node, which has the saved arrays."""
    flat = [any(o is x for x in ctx._flat) or o.dtype.kind not in "fc" for o in outs]
    backward, push = _node_rules(rule, name, ctx, args, flat)
    if ctx._saved_forward is not None and state.dual is None:
        push = None  # what it reads is not kept
    results = custom_node(
        f"{name}Backward", args, values, backward, materialize=ctx._materialize, jvp=push
    )
    last = {id(o): m for o, m in zip(outs, results, strict=True)}
    results = [last[id(o)] for o in outs]  # an output that is returned twice is one array
    if ctx._saved_forward is not None:
        ctx._saved_forward = tuple([last.get(id(x), x) for x in ctx._saved_forward])
    line = user_line(2)
    for x in ctx._dirty:
        if isinstance(x, RecordedArray):
            x.version.bump(line)
    _share_memory(name, results, outs, args, ctx._dirty)
    node = next((m.edge[0] for m in results if m.edge is not None), None)
    if not isinstance(node, CustomNode):
        return results
    _keep(ctx, node, outs, results)
    node.context = ctx
    if state.grad_enabled and state.dual is not None:  # `apply` calls `jvp`, as in torch
        state.dual.of((node, 0))
    return [m.detach() if f else m for m, f in zip(results, flat, strict=True)]


def _node_rules(
    rule: UserRule, name: str, ctx: FunctionCtx, args: tuple[object, ...], flat: list[bool]
) -> tuple[Callable[..., object], Callable[..., object]]:
    """The rules of the node for both modes.

    They do not hold the arguments: a leaf among them may have a ``grad`` that came through the
    node.
    """
    types = [*map(_type_of, args)]
    moving = [isinstance(a, _ARRAYS) and a.dtype.kind in "fc" for a in args]

    def backward(*bars: object) -> tuple[object, ...]:
        assert rule.pullback is not None, "every class has one"
        result = as_many(name, rule.pullback(ctx, *bars), len(types))
        _check_places(name, result, types)
        return tuple(
            [
                _shaped(name, k, g, type_) if need else None
                for k, (g, type_, need) in enumerate(
                    zip(result, types, ctx.needs_input_grad, strict=True)
                )
            ]
        )

    def push(*dots: object) -> object:
        if rule.pushforward is None:
            raise failure(
                UnsupportedError,
                f"{name}.apply",
                "it has no rule for forward mode.",
                "Define the static method jvp(ctx, *grad_inputs).",
            )
        if ctx._materialize:
            parts = zip(dots, types, moving, strict=True)
            dots = tuple([plain(_zeros(t)) if d is None and moves else d for d, t, moves in parts])
        with ctx.pushing():
            result = rule.pushforward(ctx, *dots)
        tangents = result if isinstance(result, tuple) else (result,)
        for k, (dot, no_dot) in enumerate(zip(tangents, flat, strict=False)):
            if no_dot and dot is not None:
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {k}, but the corresponding"
                    " forward output is not a differentiable array. You should return None at that"
                    " position instead."
                )
        return result

    return backward, push


def _zeros(type_: Any) -> np.ndarray:
    return np.zeros(type_.shape, type_.dtype)


def _share_memory(
    name: str,
    results: Sequence[RecordedArray],
    outs: Sequence[object],
    args: tuple[object, ...],
    dirty: tuple[object, ...],
) -> None:
    """Let results that look at memory of arguments, or of each other, count its stores together.

    A store into such a result would bypass the user's rule, so it is refused.
    """
    sources = [a for a in args if type(a) is RecordedArray]
    for k, (m, o) in enumerate(zip(results, outs, strict=True)):
        if type(o) is RecordedArray:  # of memory that forward, or who called it, holds too
            m.version = o.version
        if any(o is x for x in dirty) or any(m is x for x in sources):
            continue
        viewing = o.viewing if type(o) is RecordedArray else None
        root = viewing.root if viewing is not None else None
        source = next((s for s in sources if _same_memory(m.value, s.value)), root)
        if source is not None:
            m.version = source.version
            m.viewing = ViewOfRule(name, k, source, ruled=m.requires_grad)
        sources.append(m)


def _same_memory(array: np.ndarray | np.generic, other: np.ndarray | np.generic) -> bool:
    """Whether two values look at the same memory."""
    return array.__class__ is np.ndarray and (
        array is other
        or (
            (array.base is not None or other.base is not None) and np.may_share_memory(array, other)
        )
    )


def _check_places(name: str, gradients: list[object], types: list[ArrayType | None]) -> None:
    """Refuse a gradient for an argument that is no array."""
    for k, (g, type_) in enumerate(zip(gradients, types, strict=True), 1):
        if g is not None and type_ is None:
            raise RuntimeError(
                f"function {name}Backward returned a gradient different than None at position {k},"
                " but the corresponding forward input was not an array"
            )


def _keep(
    ctx: FunctionCtx, node: CustomNode, outs: Sequence[object], results: Sequence[RecordedArray]
) -> None:
    """Give the saved arrays to the node, which checks and frees them; plain ones as copies."""
    saved: list[RecordedArray | None] = []
    for x in ctx._saved:
        array = plain(np.array(x)) if isinstance(x, np.ndarray | np.generic) else x
        if array is not None and type(array) is not RecordedArray:
            raise TypeError(
                "save_for_backward can only save variables, but argument is of type"
                f" {type(x).__name__}"
            )
        saved.append(array)
    last = {id(o): k for k, o in enumerate(outs)}
    places = [last.get(id(x)) for x in ctx._saved]
    saved = [a if k is None else results[k] for a, k in zip(saved, places, strict=True)]
    arrays = [a for a in saved if a is not None]
    node.saved = tuple([a.value for a in arrays])
    node.counts = tuple([(a.version, a.version.count) for a in arrays])
    histories: list[object] = [
        None if a is None else (a.kind, None if k is not None else a.edge_now(), a.version, k)
        for a, k in zip(saved, places, strict=True)
    ]
    reference, kept = weakref.ref(node), node.kept  # the node holds the context: no cycle

    def restore() -> tuple[object, ...]:
        values = iter(saved_arrays(kept))
        return tuple([h if h is None else _restored(next(values), h, reference) for h in histories])

    ctx._saved, ctx._restore = (), restore
    if node.saved and state.saved_hooks and state.grad_enabled:
        pack(node)


def _restored(value: object, history: Any, node: Callable[[], CustomNode | None]) -> RecordedArray:
    """A saved array with its place in the graph, so that gradients can be differentiated."""
    kind, edge, version, output = history
    if type(value) is RecordedArray:  # by an unpack hook
        value, version = value.value, value.version
    if output is not None:
        kind = kind if kind.requires_grad else kind.other
        edge = node() or _freed_node(kind, output), output
    return new_array(value, kind, edge, version)


def _freed_node(kind: ArrayKind, output: int) -> CustomNode:
    """Stand-in for a node that was freed with its graph; it cannot be differentiated."""
    node = CustomNode("FreedBackward", (), _refused, None)
    node.output_kinds = (kind,) * (output + 1)
    return node


def _refused(*_: object) -> None:
    raise RuntimeError(FREED)


def _shaped(name: str, k: int, gradient: Any, type_: Any) -> object:
    """A gradient of the shape of its argument: axes that were broadcast are summed."""
    if gradient is None:
        return None
    wanted = type_.shape
    reduced = summed_to(gradient, wanted)
    if np.shape(reduced) != wanted:
        raise RuntimeError(
            f"Function {name}Backward returned an invalid gradient at index {k} - got"
            f" {list(np.shape(gradient))} but expected shape compatible with {list(wanted)}"
        )
    return reduced


def _check_marks(ctx: FunctionCtx) -> None:
    """Refuse marks of objects that are not arrays."""
    for name, marked in (("mark_dirty", ctx._dirty), ("mark_non_differentiable", ctx._flat)):
        for x in marked:
            if not isinstance(x, RecordedArray | np.ndarray | np.generic):
                fact = f"arrays are marked, not {type(x).__name__}."
                way = "Pass each as an argument of its own, not in a list."
                raise failure(InputError, f"ctx.{name}", fact, way)


def _check_dirty(x: object, outs: Sequence[object], *, moves: bool) -> None:
    if type(x) is not RecordedArray:
        return
    if not any(x is o for o in outs):
        raise RuntimeError(NOT_RETURNED)
    if state.grad_enabled and x.viewing is None and x.is_leaf and x.requires_grad:
        raise RuntimeError(
            "a leaf Variable that requires grad has been used in an in-place operation."
        )
    check_store(x, "Function", moves=moves)
