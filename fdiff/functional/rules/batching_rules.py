"""Batching rules of the user: the `vmap` method of a class derived from `fdiff.autograd.Function`.

A batching rule is Python code, and fdiff watches the data that the rule reads from outside, as for
any traced function. The rule therefore runs in the trace that calls `vmap`, on all elements at
once. The tape of one element has a call node where the rule is to run. `with_batching_rules` cuts
the tape at that node: the operands of the call are batched, the rule runs on the batches, and the
results of the rule are further mapped inputs of the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...arraytype import ArrayType
from ...dispatch.arguments import traceable
from ...errors import InputError, LeakError, UnsupportedError, shown
from ...hooks import hooks
from ...named_tuples import NamedTuple
from ...ops.shapes.shaping import traced
from ...tape import ITEM, Builder, Node, Replacement, Tape, prune, rebuild
from ...trace import Recorder, TracedArray, splice
from ...trace.handler_arguments import resolve
from ...transforms.activity import influenced
from ...transforms.custom_calls import batching_calls
from ...transforms.pipeline import SHOW_CALLS, VMAP, derive
from ...tree import flatten, unflatten
from ..operators.mapped_axes import axis_of_each_leaf, axis_to_front
from ..options import is_int
from .rule_results import RuleResults
from .ruled_call import RuledCall

TWO_RESULTS = (
    "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree"
    " structure compatible with the output. "
)


class VmapInfo(NamedTuple):
    """The first argument of a batching rule: the number of elements in the batch.

    `randomness` exists because torch has it: traced functions draw no random numbers.
    """

    batch_size: int
    randomness: str = "error"


class BatchingRule:
    """The user's rule ``vmap(info, in_dims, *args)`` for one call.

    The rule takes from `call` the structure of the arguments, and the arguments that are not
    arrays.
    """

    def __init__(self, rule: Callable[..., object], call: RuledCall) -> None:
        self.rule, self.call = rule, call
        self.results = RuleResults(call.function.call, rule, "batching rule")

    def ask(
        self,
        arrays: Sequence[TracedArray],
        carries: Sequence[bool],
        size: int,
        types: Sequence[ArrayType],
    ) -> list[tuple[TracedArray, bool]]:
        """The results of the call for `size` elements, and which of them carry these.

        `carries` tells which of the arguments do; each element gives results of the `types`.
        """
        call = self.call
        dims: list[int | None] = [None] * len(call.leaves)
        leaves = []
        for k, x, own, on in zip(call.traced, arrays, call.handles, carries):  # noqa: B905 - then come arrays read from outside
            dims[k] = 0 if on else None
            alike = {} if on else {"scalar": own.scalar, "weak": own.weak}
            leaves.append(TracedArray(x.home, x.id, x.type, **alike))
        args = [VmapInfo(size), unflatten(call.spec, dims), *call.with_leaves(leaves)]
        output, out_dims = self._pair(self._rule_result(args))
        leaves, spec = flatten(output)
        if not all(axis is None or is_int(axis) for axis in flatten(out_dims)[0]):
            fact = f"gives out_dims={shown(out_dims)}, which must hold ints and None."
            raise self.results.error(InputError, fact, "Write 0 for the first axis.")
        axes = axis_of_each_leaf(out_dims, spec, "out_dims", self.results.call)
        outs = [(x, a) for x, a in zip(map(resolve, leaves), axes, strict=True) if traceable(x)]
        if len(outs) != len(types):
            fact = f"gives {len(outs)} arrays; the function returns {len(types)}."
            raise self.results.error(InputError, fact, "Return what the function returns.")
        return [
            self._with_leading_axis(x, axis, type_, size)
            for (x, axis), type_ in zip(outs, types, strict=True)
        ]

    def _rule_result(self, args: Sequence[object]) -> object:
        """The result of the rule, in the trace that calls `vmap`."""
        try:
            return self.results.ask(args, "vmap(info, in_dims, *args)")
        except LeakError:
            fact = "reads a value from outside that was computed for one element."
            raise self.results.error(UnsupportedError, fact, "Pass it as an argument.") from None

    def _pair(self, result: object) -> tuple[object, object]:
        if not isinstance(result, tuple):
            raise RuntimeError(f"{TWO_RESULTS}Got a {type(result)} instead")  # noqa: TRY004 - torch's
        if len(result) != 2:
            raise RuntimeError(f"{TWO_RESULTS}Got {len(result)} returns instead")
        return result

    def _with_leading_axis(
        self, out: object, axis: int | None, type_: ArrayType, size: int
    ) -> tuple[TracedArray, bool]:
        """A result with the axis of the elements in front, and whether it has one."""
        x = traced(out)
        if axis is not None:
            x = axis_to_front(x, axis, "a result", self.results.call, "out_dims")
            if x.shape[0] != size:
                fact = f"gives a result with {x.shape[0]} elements along its axis, not {size}."
                raise self.results.error(InputError, fact, "Tell the axis by out_dims.")
        element = ArrayType(x.shape if axis is None else x.shape[1:], x.dtype)
        if element != type_:
            fact = f"gives {element} for each element, where the function gives {type_}."
            raise self.results.error(InputError, fact, "Return what the function returns.")
        return x, axis is not None


def batching_rule(call: RuledCall) -> BatchingRule | None:
    """The user's batching rule for a call; None if the user has none."""
    return call.rule.batching and BatchingRule(call.rule.batching, call)


def with_batching_rules(
    tape: Tape, arrays: list[TracedArray], carries: list[bool], size: int, trace: Recorder
) -> tuple[Tape, list[TracedArray], list[bool]]:
    """A tape, its inputs, and which carry the elements, after the rules of mapped calls were run.

    Their results are further inputs.
    """
    tape = derive((SHOW_CALLS,), tape)
    left: set[int] = set()  # calls whose arguments carry no axis, though they wait for what does
    while (call := _first_mapped(tape, carries, left)) is not None:
        node = tape.nodes[call]
        needed = prune(tape, node.args)
        alone = [False] * len(node.args)
        whole = derive(VMAP, needed, mapped=carries, size=size, spread=alone)
        args = splice(whole, arrays, trace)
        on = [x.ndim > tape.nodes[a].type.ndim for x, a in zip(args, node.args, strict=True)]
        if not any(on):
            left.add(call)
            continue
        left.clear()
        rule = node.param("rule")
        results = rule.batching.ask(args, on, size, rule.types)
        tape = _with_results_as_inputs(tape, call)
        arrays = [*arrays, *(x for x, _ in results)]
        carries = [*carries, *(mapped for _, mapped in results)]
    return tape, arrays, carries


hooks.batching_rules = with_batching_rules


def _first_mapped(tape: Tape, carries: Sequence[bool], left: set[int]) -> int | None:
    """The first call with a batching rule that depends on a mapped input and is not `left`."""
    calls = [i for i in batching_calls(tape) if i not in left]
    if not calls:
        return None
    moved = influenced(tape, {i: 1 for i, on in zip(tape.inputs, carries, strict=True) if on})[0]
    return next((i for i in calls if moved[i]), None)


def _with_results_as_inputs(tape: Tape, call: int) -> Tape:
    """The tape without a call, whose results are further inputs."""
    results: list[int] = []

    def enter(builder: Builder, ids: dict[int, int]) -> int:
        results.extend(builder.input(t) for t in tape.nodes[call].types)
        return results[0]

    replacements: dict[int, Replacement] = {call: enter}
    for i, node in enumerate(tape.nodes):
        if node.primitive is ITEM and node.args[0] == call:
            replacements[i] = _result(node, results)
    return rebuild(tape, Builder(), replacements)


def _result(node: Node, results: list[int]) -> Replacement:
    return lambda builder, ids: results[node.k]
