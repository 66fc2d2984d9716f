"""Backward passes: `backward` and `grad`, which choose how the graph is pulled back.

- `node_sweep.py` walks the graph node by node: where there are hooks, custom rules, `create_graph`,
  or a structure that is new.
- `compiled_backward.py` runs one compiled tape for a graph whose structure (`graph_structure.py`)
  was met before; `generated_backward.py` is a faster version for passes that repeat often.

Both use the same rules. Incremental adjoints; A. Griewank and A. Walther, Evaluating Derivatives,
SIAM 2008, section 3.2.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import fdiff.intact_numpy as np

from ... import kernels
from ...errors import flag, warn
from ...process.float_flags import noting
from ...tracebacks import public
from ..arrays.recorded_array import RecordedArray, plain, tensor
from ..thread_state import during, not_recording, recording, state
from . import compiled_backward
from .accumulation import accumulate
from .backward_arguments import batches_of_roots, edge_of, roots_of, sequence
from .generated_backward import try_generated
from .graph_structure import Root, structure
from .node_rules import NodeRules, RecordedRules, after_leaf, before_leaf, hooked_leaf
from .node_sweep import Deliver, NodeSweep
from .nodes import AccumulateGrad, Edge, GradientEdge, GraphNode, call_hook, refuse_result
from .recorded_anomalies import watching
from .saved_values import free

Arrays = object  # one array or a sequence of them


@public
def backward(
    tensors: Arrays,
    grad_tensors: Arrays = None,
    retain_graph: bool | None = None,  # noqa: FBT001 - torch's signature
    create_graph: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    grad_variables: Arrays = None,
    inputs: Arrays = None,
) -> None:
    """Add the gradients of `tensors` to the ``grad`` of the leaves they were computed from.

    Parameters
    ----------
    tensors : RecordedArray, GradientEdge or sequence of them
        The arrays that are differentiated.
    grad_tensors : array or sequence of arrays, optional
        A cotangent for each array, with its shape. None means 1 for an array with one entry.
    retain_graph : bool, optional
        Whether the graph may be used again. The default is `create_graph`.
    create_graph : bool
        Whether to record the gradients, for derivatives of higher order.
    grad_variables : deprecated
        The old name of `grad_tensors`.
    inputs : RecordedArray, GradientEdge or sequence of them, optional
        The leaves to which gradients are added, by default all.

    Raises
    ------
    RuntimeError
        If a cotangent is missing or has another shape, if the graph has been used before, or if a
        saved array was modified.

    Notes
    -----
    Costs a small multiple of the forward pass. If an earlier graph had the same structure, one tape
    computes the whole backward pass. It is compiled when this pays.

    References
    ----------
    torch.autograd.backward, https://pytorch.org/docs/stable/autograd.html

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.autograd
    >>> x = fdiff.autograd.tensor([1.0, 2.0], requires_grad=True)
    >>> fdiff.autograd.backward(np.sum(x**2))
    >>> x.grad
    tensor([2., 4.])
    """
    retain, create = _flags("backward", retain_graph, create_graph)
    if (
        type(tensors) is RecordedArray
        and grad_tensors is inputs is grad_variables is None
        and not create
        and state.multithreading
        and try_generated(tensors, retain=retain)
    ):
        return
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to"
                " `backward()`. Please only use `grad_tensors`."
            )
        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        grad_tensors = grad_variables
    starts = () if inputs is None else sequence(inputs, "backward")
    if inputs is not None and not starts:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    outputs = sequence(tensors, "backward")
    seeded = grad_tensors is not None
    seeds = sequence(grad_tensors, "backward") if seeded else (None,) * len(outputs)
    roots = roots_of(outputs, seeds, "backward")
    wanted = None if inputs is None else [edge_of(x, "backward") for x in starts]
    with _threads():
        _Pass(roots, wanted, retain=retain, create=create).into_leaves(starts)


def _threads() -> AbstractContextManager[None]:
    """The threads that kernels of a pass may use: all, or the calling one."""
    return nullcontext() if state.multithreading else kernels.one_thread()


def _flags(call: str, retain_graph: object, create_graph: object) -> tuple[bool, bool]:
    """Whether a pass keeps the graph, and whether it is recorded; by default both or neither."""
    call = f"fdiff.autograd.{call}"
    create = flag(create_graph, "create_graph", call)
    return create if retain_graph is None else flag(retain_graph, "retain_graph", call), create


@public
def grad(
    outputs: Arrays,
    inputs: Arrays,
    grad_outputs: Arrays = None,
    retain_graph: bool | None = None,  # noqa: FBT001 - torch's signature
    create_graph: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    only_inputs: bool = True,  # noqa: FBT001,FBT002 - torch's signature
    allow_unused: bool | None = None,  # noqa: FBT001 - torch's signature
    is_grads_batched: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    materialize_grads: bool = False,  # noqa: FBT001,FBT002 - torch's signature
) -> tuple[Any, ...]:
    """Gradients of the sum of `outputs` with respect to `inputs`. Their ``grad`` is not changed.

    Parameters
    ----------
    outputs : RecordedArray, GradientEdge or sequence of them
        The arrays that are differentiated.
    inputs : RecordedArray, GradientEdge or sequence of them
        Arrays that `outputs` were computed from, leaves or not.
    grad_outputs : array or sequence of arrays, optional
        A cotangent for each output, with its shape. None means 1 for an output with one entry.
    retain_graph : bool, optional
        Whether the graph may be used again. The default is `create_graph`.
    create_graph : bool
        Whether to record the gradients, for derivatives of higher order.
    only_inputs : bool
        Deprecated, and must be True.
    allow_unused : bool, optional
        Whether the gradient of an unused input is None. The default is `materialize_grads`.
    is_grads_batched : bool
        Whether cotangents have a leading axis, over which gradients are mapped.
    materialize_grads : bool
        Whether the gradient of an unused input is an array of zeros.

    Returns
    -------
    tuple of RecordedArray
        One gradient for each input.

    Raises
    ------
    RuntimeError
        As for `backward`, and if an input was not used.

    References
    ----------
    torch.autograd.grad, https://pytorch.org/docs/stable/autograd.html

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.autograd
    >>> x = fdiff.autograd.tensor(2.0, requires_grad=True)
    >>> (first,) = fdiff.autograd.grad(x**3, x, create_graph=True)
    >>> (second,) = fdiff.autograd.grad(first, x)
    >>> float(first.detach()), float(second)
    (12.0, 12.0)
    """
    call = "fdiff.autograd.grad"
    retain, recorded = _flags("grad", retain_graph, create_graph)
    materialize_grads = flag(materialize_grads, "materialize_grads", call)
    allow_unused = None if allow_unused is None else flag(allow_unused, "allow_unused", call)
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got:"
            " allow_unused=False."
        )
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    ends, starts = sequence(outputs, "grad"), sequence(inputs, "grad")
    if not starts:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    seeds = sequence(grad_outputs, "grad") if grad_outputs is not None else (None,) * len(ends)
    is_grads_batched = flag(is_grads_batched, "is_grads_batched", call)
    pushes = not recorded and state.moves((*ends, *seeds))
    create = recorded or pushes  # tangents of gradients go through the graph of these
    roots = [] if is_grads_batched else roots_of(ends, seeds, "grad")
    wanted = [edge_of(x, "grad") for x in starts]
    with _threads():
        if is_grads_batched:
            gradients = _batched(ends, seeds, wanted, retain=retain, create=create)
        else:
            gradients = _Pass(roots, wanted, retain=retain, create=create).captured()
    if pushes:
        state.dual.without_graph(gradients)
    for k, (x, g) in enumerate(zip(starts, gradients, strict=True)):
        if g is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {k} appears to not have been used in the"
                " graph. Set allow_unused=True if this is the desired behavior."
            )
        if g is None and materialize_grads:
            if isinstance(x, GradientEdge):
                raise RuntimeError(
                    "materialize_grads cannot be used when the given input is a GradientEdge"
                )
            gradients[k] = tensor(np.zeros(x.shape, x.dtype), requires_grad=recorded)
    return tuple(gradients)


class _Pass:
    """One backward pass from `roots`, to all leaves or to the `wanted` edges."""

    def __init__(
        self, roots: list[Root], wanted: list[Edge] | None, *, retain: bool, create: bool
    ) -> None:
        self.roots, self.wanted = roots, wanted
        self.retain, self.create = retain, create

    def into_leaves(self, inputs: Sequence[RecordedArray | GradientEdge]) -> None:
        """Add gradients to leaves: all, or the `inputs`.

        An input that is no leaf keeps its gradient, from now on, and its node is run, as in torch.
        """
        for x in inputs:
            if isinstance(x, RecordedArray):
                x.retain_grad()
        compiled = self._compiled()
        if compiled is None:
            self._sweep(self._deliver)
            return
        places, ends, results = compiled
        pairs = [
            (node, result)
            for node, result in dict(zip(ends, results, strict=True)).items()
            if result is not None and isinstance(node, AccumulateGrad)
        ]
        if not any(leaf.hooks is not None or leaf.post_hooks for leaf, _ in pairs):
            for leaf, result in pairs:
                if (array := leaf.variable) is not None:
                    accumulate(array, result, create=False, owned=True)
            return
        with _running(places), not_recording():
            for leaf, result in pairs:
                self._deliver(leaf, hooked_leaf(leaf, result))

    def captured(self) -> list[RecordedArray | None]:
        """The gradients of the wanted edges, as recorded arrays; None for unused ones."""
        assert self.wanted is not None
        compiled = self._compiled()
        if compiled is not None:
            if all(node.hooks is None for node, _ in self.wanted):
                return [None if r is None else plain(r) for r in compiled[2]]
            with _running(compiled[0]), not_recording():
                return [
                    None if r is None else plain(hooked_leaf(node, r))
                    for (node, _), r in zip(self.wanted, compiled[2], strict=True)
                ]
        sweep = self._sweep(None)
        results = [sweep.captured.get(edge) for edge in self.wanted]
        return [r if r is None or self.create else plain(np.asarray(r)) for r in results]

    def _compiled(
        self,
    ) -> tuple[Container[GraphNode], list[GraphNode], list[np.ndarray | None]] | None:
        """Run the pass as one compiled tape: its nodes, the ends, and the gradients there.

        Ends are the leaves, or the nodes of the wanted edges. None if the graph has no such tape.
        """
        if self.create or watching():
            return None
        graph = structure(self.roots, self.wanted)
        if graph is None:
            return None
        program = compiled_backward.program_of_structure(graph, self.roots, self.wanted)
        if program is None:
            return None
        results = compiled_backward.run(program, graph, self.roots)
        if not self.retain:
            for k in program.ran:
                free(graph.nodes[k])
        wanted = None if self.wanted is None else [node for node, _ in self.wanted]
        return graph.places, wanted or [graph.nodes[k] for k in program.leaves], results

    def _sweep(self, deliver: Deliver | None) -> NodeSweep:
        """Run the pass node by node (`node_sweep.py`)."""
        with recording() if self.create else not_recording():
            rules = RecordedRules() if self.create else NodeRules()
            sweep = NodeSweep(self.roots, self.wanted, rules, deliver)
            with noting(), _running(sweep.counts if sweep.needed is None else sweep.needed):
                sweep.run()
        if not self.retain:
            for node in sweep.ran:
                free(node)
        return sweep

    def _deliver(self, node: AccumulateGrad, bar: object) -> None:
        """Add to the gradient of a leaf, between the hooks of its node; then call its own."""
        leaf = node.variable
        if leaf is None:
            return
        if node.hooks is None and not node.post_hooks:
            accumulate(leaf, bar, create=self.create)
            return
        with recording() if self.create else not_recording():
            rules = RecordedRules() if self.create else NodeRules()
            bar = before_leaf(node, bar, rules)
            accumulate(leaf, bar, create=self.create)
            for hook in list(node.post_hooks.values()):
                refuse_result(call_hook(hook, leaf, form="hook(array)"))
            after_leaf(node, bar, rules)


def _running(nodes: Container[GraphNode]) -> during:
    """A backward pass that reaches these nodes is under way in this context."""
    return during(running=nodes)


def _batched(
    outputs: tuple[object, ...],
    seeds: tuple[object, ...],
    wanted: list[Edge],
    *,
    retain: bool,
    create: bool,
) -> list[object]:
    """The gradients for each entry of the leading axis of the cotangents, which they have too."""
    seeded, count = batches_of_roots(outputs, seeds, "grad")
    if not create and not watching() and all(n.hooks is None for n, _ in wanted):
        at_once = compiled_backward.run_batch(seeded, wanted, retain=retain)
        if at_once is not None:
            return [None if array is None else plain(_first(array, count)) for array in at_once]
    rows = []
    for k, roots in enumerate(seeded, 1):
        keep = retain or k < len(seeded)
        rows.append(_Pass(roots, wanted, retain=keep, create=create).captured())
    columns = zip(*rows, strict=True)
    return [None if column[0] is None else _first(np.stack(column), count) for column in columns]


def _first(array: np.ndarray, count: int) -> np.ndarray:
    return array if len(array) == count else array[:count]
