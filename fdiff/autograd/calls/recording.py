"""Recording: a call of NumPy on recorded arrays runs at once, and enters a node in the graph.

The key of a call is the function, the kinds of its operands (arrays among the arguments) and its
static arguments. The way it is recorded is kept as a recipe (`recipes.py`); values are computed by
NumPy. Graphs by overloading: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM
2008, section 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...errors import InputError, failure
from ...hooks import Args, Named
from ...process import anomaly_watch, observed_spans
from ...trace import TracedArray
from ...trace.operation_cache import MOST
from ...tree import flatten, unflatten
from ...user_lines import Line, user_line
from ..arrays.array_kinds import NUMBER, ArrayKind, array_kind_of
from ..arrays.conversions import stored_into_plain
from ..arrays.in_place_operations import check_store, stored, stored_without_graph
from ..arrays.recorded_array import Recordable, RecordedArray, Version, new_array, plain
from ..arrays.recorded_views import NumpyCall, link, own_handle
from ..backward_passes.nodes import GraphNode
from ..thread_state import NO_CALLS, UNRECORDED_CALLS, ShortWays, state
from .call_arguments import call_key, enter_argument, operand_kind, rebuilt
from .call_tapes import refuse_recorded
from .direct_calls import (
    ARRAY,
    RECORDED,
    STATIC,
    direct_call,
    direct_ufunc,
    unrecorded_call,
    unrecorded_ufunc,
)
from .direct_calls import NUMBER as NUMBER_INPUT
from .node_construction import enter, new_object
from .profiled_operations import observed_operation
from .recipes import Rebuild, Recipe, recipe

# Their rules read no constants: a Python number is an operand like any other.
UNREAD = frozenset((np.add, np.subtract, np.multiply, np.divide))


def record(
    what: Callable[..., object], name: str, args: Args, kwargs: Named, *, stores: bool = False
) -> object:
    """``what(*args, **kwargs)``, recorded where one of its arrays requires a gradient."""
    if kwargs.get("out") is not None:
        return _into_out(what, name, args, kwargs)
    key, operands = call_key(what, args, kwargs)
    if TracedArray in key:
        return _with_traced(what, args, kwargs, operands)
    values = [x.value if x.__class__ is RecordedArray else x for x in operands]
    kinds = [operand_kind(x) for x in operands]

    def rebuild(operand_values: Sequence[object]) -> tuple[Args, Named]:
        remaining = iter(operand_values)
        return rebuilt(args, remaining), rebuilt(kwargs, remaining)

    return recorded_call(what, name, tuple(key), operands, kinds, values, rebuild, stores=stores)


def _with_traced(
    what: Callable[..., object], args: Args, kwargs: Named, operands: list[Recordable]
) -> object:
    """A call on recorded and traced arrays: recorded ones are constants of the traced function."""
    for x in operands:
        if x.__class__ is RecordedArray and x.kind.requires_grad:
            raise refuse_recorded()
    values = iter([x.value if x.__class__ is RecordedArray else x for x in operands])
    return what(*rebuilt(args, values), **rebuilt(kwargs, values))


def _into_out(what: Callable[..., object], name: str, args: Args, kwargs: Named) -> object:
    """A call with ``out=``: its results are stored there, and have the history of the store."""
    targets: Recordable = kwargs["out"]
    outs = targets if isinstance(targets, tuple) else (targets,)
    rest = {k: v for k, v in kwargs.items() if k != "out"}
    where = rest.pop("where", True) if isinstance(what, np.ufunc) else True
    results: Recordable = record(what, name, args, rest)
    results = results if isinstance(results, tuple) else (results,)
    for out, result in zip(outs, results, strict=True):
        if isinstance(out, RecordedArray):
            record(np.copyto, name, (out, result), {"where": where}, stores=True)
        elif out is not None and result.requires_grad:
            fact = "`out` is a plain array, and the result requires a gradient, which would be lost"
            way = "Give an array made by fdiff.autograd.tensor, or leave `out` out."
            raise failure(InputError, f"numpy.{name}", f"{fact}.", way)
        elif out is not None:
            np.copyto(out, result.value, where=where)
    filled: list[object] = [r if o is None else o for o, r in zip(outs, results, strict=True)]
    return tuple(filled) if len(filled) > 1 else filled[0]


def recorded_call(
    what: Callable[..., object],
    name: str,
    key: object,
    operands: Sequence[Recordable],
    kinds: Sequence[ArrayKind],
    values: list[object],
    rebuild: Rebuild,
    *,
    stores: bool = False,
) -> object:
    """A call on operands found among the arguments, by its recipe.

    `stores` says that it stores into the first of them; functions of NumPy that give None do so.
    """
    args, kwargs = rebuild(values)

    def perform() -> object:
        if observed_spans.observer is None:
            return what(*args, **kwargs)
        return observed_operation(what, name, values, args, kwargs)

    moves = any(k.requires_grad for k in kinds)
    pushes = moves and state.pushes(operands)
    if not moves or not (state.grad_enabled or pushes):
        if stores:
            check_store(operands[0], name, moves=moves)
            if state.copies is not None:
                state.copies.keep(operands[0].version)
        result = perform()
        stored_into: Recordable = operands[0] if stores or (result is None and operands) else None
        if stored_into.__class__ is RecordedArray:
            stored_into.version.bump(user_line(2))
        if stores and result is values[0]:
            return operands[0]
        return _unrecorded(result, NumpyCall(what, key, rebuild, operands, values))
    call_recipe = recipe(key, what, name, kinds, values, rebuild)
    line = user_line(2)
    if call_recipe.stored:
        if any(operands[k].__class__ is not RecordedArray for k in call_recipe.stored):
            raise stored_into_plain()
        store = stored_without_graph if pushes else stored
        return store(call_recipe, operands, values, perform, line)
    result = perform()
    call = NumpyCall(what, key, rebuild, operands, values)
    if not any(call_recipe.outputs):
        return _unrecorded(result, call)
    leaves = [result] if call_recipe.spec.kind is None else flatten(result)[0]
    arrays = recorded(call_recipe, operands, leaves, line, call)
    return state.dual.without_graph(arrays) if pushes else arrays


def recorded(
    call_recipe: Recipe,
    operands: Sequence[object],
    leaves: list[object],
    line: Line | None,
    call: NumpyCall | None = None,
) -> Recordable:
    """The results of a recorded call, with their node."""
    results: list[object] = []
    arrays: list[RecordedArray] = []
    node = new_object(GraphNode)
    node.hooks = None
    for k, (leaf, place) in enumerate(zip(leaves, call_recipe.places, strict=True)):
        out = leaf
        if place is not None and leaf.__class__ in (float, complex):  # as some of SciPy's give
            leaf = np.asarray(leaf)[()]  # noqa: PLW2901 - the same
        if place is not None and isinstance(leaf, (np.ndarray, np.generic)):
            value = leaf if call is None else own_handle(leaf, call)
            if call_recipe.outputs[place]:
                out = new_array(value, array_kind_of(value, True), (node, place), Version())
            else:
                out = plain(value)
            arrays.append(out)
            if call is not None and value.base is not None:
                link(out, k, call)
        results.append(out)
    enter(node, call_recipe, operands, arrays, line)
    return unflatten(call_recipe.spec, results)


def _unrecorded(result: object, call: NumpyCall) -> object:
    """The results of a call that is not recorded, as arrays without gradients."""
    leaves, spec = flatten(result)
    return unflatten(spec, [_without_gradient(leaf, k, call) for k, leaf in enumerate(leaves)])


def _without_gradient(leaf: object, k: int, call: NumpyCall) -> object:
    if not isinstance(leaf, (np.ndarray, np.generic)):
        return leaf
    for x, value in zip(call.operands, call.values, strict=True):
        if value is leaf and x.__class__ is not RecordedArray:
            return x
    out = plain(own_handle(leaf, call))
    if out.value.base is not None:
        link(out, k, call)
        root = None if out.viewing is None or out.is_inference() else out.viewing.root
        if state.inference and root is not None and root.requires_grad:
            out.kind = out.kind.other  # a leaf, as in torch
    return out


# ------------------------------------------------------------------------------------ ufuncs


def record_one(what: Callable[..., object], name: str, args: Args, kwargs: Named) -> object:
    """As `record`, by a shorter way where the first argument is the only array."""
    x: Recordable = args[0] if args else None
    if x.__class__ is not RecordedArray:
        return record(what, name, args, kwargs)
    if x.viewing is not None:
        x.viewing.refresh(x)
    key: object = what, x.kind
    if len(args) > 1 or kwargs:
        if "out" in kwargs:
            return record(what, name, args, kwargs)
        short = static_key(key, args[1]) if len(args) == 2 and not kwargs else None
        if short is None:
            parts: list[object] = [what, x.kind]
            operands: list[object] = []
            enter_argument(args[1:], parts, operands)
            if kwargs:
                enter_argument(kwargs, parts, operands)
            if operands:
                return record(what, name, args, kwargs)
            short = tuple(parts)
        key = short
    calls = state.calls
    call = calls.get(key)
    if call is not None and observed_spans.observer is None:
        out = call(x, args[1:], kwargs, key)
        if out is not None:
            return out
    out = record(what, name, args, kwargs)
    if isinstance(out, RecordedArray) and key not in calls:
        call_recipe = _recipe_of(out)
        if call_recipe is not None:
            _learn(calls, key, direct_call(call_recipe, out.kind, what))
        elif _never_recorded(calls, (x.kind,), out):
            _learn(calls, key, unrecorded_call(what))
    return out


def static_key(prefix: tuple[object, ...], x: Recordable) -> tuple[object, ...] | None:
    """`prefix` and one argument more: an integer, or a slice of integers; None for any other."""
    if x.__class__ is int:
        return (*prefix, int, x)
    if x.__class__ is slice:
        bounds = start, stop, step = x.start, x.stop, x.step
        for bound in bounds:
            if bound is not None and bound.__class__ is not int:
                return None
        return (*prefix, slice, start, stop, step)
    return None


def _recipe_of(out: RecordedArray) -> Recipe | None:
    """The recipe of the call that gave `out`, if it depends on kinds alone and gives one array."""
    if not out.kind.requires_grad or out.edge is None:
        return None
    node = out.edge[0]
    if node.__class__ is not GraphNode or not (node.recipe.lasting and node.recipe.single):
        return None
    return node.recipe


def _never_recorded(calls: object, kinds: Sequence[ArrayKind], out: RecordedArray) -> bool:
    """Whether the call that returned `out` is never recorded for these kinds in these modes."""
    if calls is UNRECORDED_CALLS:
        return not out.kind.requires_grad
    return out.kind.type.dtype.kind not in "fc" or not any(k.requires_grad for k in kinds)


def _learn(calls: ShortWays, key: object, call: Callable[..., object]) -> None:
    """Keep the short way of a call, if the modes that were on have short ways."""
    if calls is NO_CALLS or anomaly_watch.watching():
        return
    if len(calls) >= MOST:
        calls.clear()
    calls[key] = call


def array_key(ufunc: np.ufunc, x: Recordable) -> object:
    """The key of one input of a ufunc; None if it is neither an array nor a real number."""
    kind = x.__class__
    if kind is RecordedArray:
        if x.viewing is not None:
            x.viewing.refresh(x)
        return x.kind
    if kind is float or kind is int:
        return NUMBER if ufunc in UNREAD else (kind, x or str(x))  # -0.0 is not 0.0
    return array_kind_of(x).outside if kind is np.ndarray else None


def apply_ufunc(ufunc: np.ufunc, *inputs: Recordable) -> Recordable:
    """``ufunc(*inputs)``, recorded where one of them requires a gradient."""
    key = (ufunc, *[array_key(ufunc, x) for x in inputs])
    if None in key:
        return record(ufunc, ufunc.__name__, inputs, {})
    operands = [x for x, k in zip(inputs, key[1:], strict=True) if k.__class__ is ArrayKind]
    kinds = [k for k in key if type(k) is ArrayKind]

    def rebuild(operand_values: Sequence[object]) -> tuple[Args, Named]:
        remaining = iter(operand_values)
        some = [
            x if k.__class__ is tuple else next(remaining)
            for x, k in zip(inputs, key[1:], strict=True)
        ]
        return tuple(some), {}

    values = [x.value if x.__class__ is RecordedArray else x for x in operands]
    out = recorded_call(ufunc, ufunc.__name__, key, operands, kinds, values, rebuild)
    calls = state.calls
    if isinstance(out, RecordedArray) and key not in calls:
        sorts = [*map(_sort, inputs, key[1:])]
        call_recipe = _recipe_of(out)
        if call_recipe is not None:
            dtypes = [k.type.dtype for k in kinds]
            _learn(calls, key, direct_ufunc(call_recipe, out.kind, ufunc, sorts, dtypes))
        elif _never_recorded(calls, kinds, out):
            _learn(calls, key, unrecorded_ufunc(out.kind, ufunc, sorts))
    return out


def _sort(x: object, key: object) -> str:
    """The sort of an input, for `direct_call`."""
    if key.__class__ is tuple:
        return STATIC
    if key is NUMBER:
        return NUMBER_INPUT
    return RECORDED if x.__class__ is RecordedArray else ARRAY
