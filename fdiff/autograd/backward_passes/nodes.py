"""The graph of recorded arrays: a node for each call, an edge for each operand.

A node knows its recipe, the operands and outputs that were saved for its reverse rule, and the
origins of its operands. Edges lead from results to operands alone, so a graph is freed with its
last array.

The graph of edges from results to operands follows A. Paszke et al., Automatic differentiation in
PyTorch, NIPS Autodiff Workshop 2017, section "Implementation".
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from ...errors import InputError, failure
from ...foreign_errors import not_foreign, noting, telling, whole_exit
from ...named_tuples import NamedTuple
from ...tracebacks import ask, name_of, public_class
from ...user_lines import Line, printable
from ..argument_checks import require_function, require_recorded
from ..arrays.array_kinds import ArrayKind
from ..arrays.versions import Version
from ..calls.recipes import Recipe

if TYPE_CHECKING:
    from ..arrays.recorded_array import RecordedArray

Edge = tuple["GraphNode", int]  # a node and which of its outputs
Hook = Callable[..., object]  # of an array or a node, with any signature of theirs
next_number: Callable[[], int] = count(1).__next__


@public_class
class GradientEdge(NamedTuple):
    """One output of a node. `grad` and `backward` accept it instead of an array.

    Parameters
    ----------
    node : Node
        The node.
    output_nr : int
        The number of the output.

    References
    ----------
    ``torch.autograd.graph.GradientEdge``.

    Examples
    --------
    >>> import fdiff.autograd
    >>> x = fdiff.autograd.tensor([1.0, 2.0], requires_grad=True)
    >>> edge = fdiff.autograd.graph.get_gradient_edge(x)
    >>> fdiff.autograd.grad((x * x).sum(), edge)
    (tensor([2., 4.]),)
    """

    node: GraphNode
    output_nr: int


class RemovableHandle:
    """The handle that `register_hook` and its like return, which removes the hook."""

    def __init__(self, hooks: dict[int, Hook], number: int) -> None:
        self._hooks = hooks
        self._number = number

    def remove(self) -> None:
        """Remove the hook; a second time does nothing."""
        self._hooks.pop(self._number, None)

    def __enter__(self) -> Self:
        return self

    @whole_exit
    def __exit__(self, *_: object) -> None:
        self.remove()


class Hooks:
    """The hooks of one node.

    `before` are hooks of the node that run before its rule, `after` hooks that run after it.
    `outputs` are hooks of arrays, by output; `retained` the arrays that keep their gradient, by
    output.
    """

    __slots__ = ("after", "before", "outputs", "retained")

    def __init__(self) -> None:
        self.before: dict[int, Hook] = {}
        self.after: dict[int, Hook] = {}
        self.outputs: dict[int, dict[int, Hook]] = {}
        self.retained: dict[int, dict[int, Hook]] = {}


class GraphNode:
    """One recorded call.

    Attributes
    ----------
    next_functions : tuple of (GraphNode or None, int)
        For each operand, the node that made it, and the number of the output of that node.
    metadata : dict
        A dictionary for users.

    References
    ----------
    ``torch.autograd.graph.Node``.

    Examples
    --------
    >>> import fdiff.autograd
    >>> (fdiff.autograd.tensor(1.0, requires_grad=True) * 2.0).grad_fn.name()
    'MultiplyBackward0'
    """

    __slots__ = (
        "__weakref__",
        "_metadata",
        "counts",
        "edges",
        "hooks",
        "line",
        "number",
        "recipe",
        "saved",
    )

    recipe: Recipe
    edges: tuple[Edge | None, ...]  # of each operand; None where no gradient is needed
    saved: tuple[object, ...] | None  # None once they have been freed
    counts: tuple[tuple[Version, int], ...]  # version counters of what was saved, as they were then
    number: int  # later nodes have larger ones
    line: Line | None  # the user's, that made the call
    hooks: Hooks | None

    def name(self) -> str:
        """The name as in torch, with NumPy's name of the operation: ``SqrtBackward0``."""
        return f"{self.recipe.name}Backward0"

    @property
    @noting
    def next_functions(self) -> tuple[tuple[GraphNode | None, int], ...]:
        """For each array operand, the node that made it, and the number of the output."""
        return tuple([(None, 0) if e is None else e for e in self.edges])

    @property
    @noting
    def metadata(self) -> dict[object, object]:
        """A dictionary for users."""
        try:
            return self._metadata
        except not_foreign(AttributeError):
            self._metadata: dict[object, object] = {}
            return self._metadata

    def own_hooks(self) -> Hooks:
        """The hooks of this node, to add to."""
        if self.hooks is None:
            self.hooks = Hooks()
        return self.hooks

    def register_hook(self, fn: Callable[[Any, Any], object]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node's rule.

        `grad_inputs` are the gradients of the operands. The hook may return others instead.
        """
        require_function(fn, "fn", "graph.Node.register_hook")
        return add_hook(self.own_hooks().after, fn)

    def register_prehook(self, fn: Callable[[Any], object]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node's rule; it may return others instead."""
        require_function(fn, "fn", "graph.Node.register_prehook")
        return add_hook(self.own_hooks().before, fn)

    def __repr__(self) -> str:
        return f"<{printable(self.name())} object at {id(self):#x}>"


class AccumulateGrad(GraphNode):
    """The end of an edge to a leaf: adds the incoming gradient to the leaf's ``grad``."""

    __slots__ = ("_leaf", "kind", "post_hooks")
    __call__ = None  # it has no rule

    def __init__(self, leaf: RecordedArray) -> None:
        self._leaf = weakref.ref(leaf)
        self.kind: ArrayKind = leaf.kind
        self.recipe = None  # type: ignore[assignment] - as of every node without one
        self.edges = ()
        self.saved = ()
        self.counts = ()
        self.number = 0
        self.line = None
        self.hooks = None
        self.post_hooks: dict[int, Hook] = {}
        if leaf._extra is not None and "hooks" in leaf._extra:  # of the accumulator before
            self.hooks, self.post_hooks = leaf._extra.pop("hooks")

    def name(self) -> str:
        return "AccumulateGrad"

    @property
    @noting
    def variable(self) -> RecordedArray | None:
        """The leaf; None once it has been freed."""
        return self._leaf()


class Kept:
    """The values that a custom node saved.

    The context of a `Function` holds them too, and may outlive the node. The node holds its
    context, and the context does not refer to the node.
    """

    __slots__ = ("_name", "counts", "line", "saved")

    def __init__(self, name: str, line: Line | None) -> None:
        self._name, self.line = name, line
        self.saved: tuple[object, ...] | None = ()
        self.counts: tuple[tuple[Version, int], ...] = ()

    def name(self) -> str:
        """The name of the node."""
        return self._name


class CustomNode(GraphNode):
    """A node whose rule is a Python function: ``backward(*grad_outputs)`` gives gradients."""

    __slots__ = ("backward", "context", "jvp", "kept", "materialize", "output_kinds")

    def __init__(
        self,
        name: str,
        edges: tuple[Edge | None, ...],
        backward: Callable[..., object],
        line: Line | None,
    ) -> None:
        self.kept = Kept(name, line)
        self.recipe = None  # type: ignore[assignment] - as above
        self.edges = edges
        self.backward = backward
        self.number = next_number()
        self.line = line
        self.hooks = None
        self.output_kinds: tuple[ArrayKind, ...] = ()
        self.materialize = True
        self.jvp: Callable[..., object] | None = None
        self.context: Any = None  # of a `Function`

    def name(self) -> str:
        return self.kept.name()

    @property
    @noting
    def saved(self) -> tuple[object, ...] | None:
        """The saved arrays; None once they have been freed."""
        return self.kept.saved

    @saved.setter
    def saved(self, values: tuple[object, ...] | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] - it is in `kept`
        self.kept.saved = values

    @property
    @noting
    def counts(self) -> tuple[tuple[Version, int], ...]:
        """The version counters of the saved arrays when they were saved."""
        return self.kept.counts

    @counts.setter
    def counts(self, counts: tuple[tuple[Version, int], ...]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        self.kept.counts = counts

    @property
    @noting
    def saved_tensors(self) -> tuple[RecordedArray, ...]:
        """The arrays that a `Function` kept by ``ctx.save_for_backward``.

        Raises
        ------
        RuntimeError
            If it was freed by a backward pass, or stored into meanwhile.
        """
        if self.context is None:
            raise AttributeError(f"{self.name()} is not the node of a Function.")
        return self.context.saved_tensors

    @telling
    def __getattr__(self, name: str) -> Any:
        """An attribute of the `Function`'s context: `needs_input_grad`, or one set by the user."""
        context = None if name in type(self).__slots__ else self.context
        if context is None or name.startswith("_"):
            raise AttributeError(f"{self.name()} has no attribute {name!r}.")
        return getattr(context, name)


_hook_numbers = count()


def call_hook(hook: Callable[..., object], *args: object, form: str = "hook(grad)") -> object:
    """The result of a hook; `form` shows the call in an error about its signature."""
    return ask(hook, args, "fdiff.autograd", f"the hook `{name_of(hook)}`", form)


def refuse_result(result: object) -> None:
    """Refuse the result of a hook whose results are ignored."""
    if result is None:
        return
    if hasattr(result, "edge_now"):
        raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    raise TypeError(f"expected Variable, but hook returned {type(result).__name__!r}")


def add_hook(hooks: dict[int, Hook], fn: Hook) -> RemovableHandle:
    """Enter a hook; the handle removes it."""
    number = next(_hook_numbers)
    hooks[number] = fn
    return RemovableHandle(hooks, number)


def get_gradient_edge(array: RecordedArray) -> GradientEdge:
    """The node that made an array, and the number of the output.

    Parameters
    ----------
    array : RecordedArray
        An array that requires a gradient.

    Returns
    -------
    GradientEdge
        `fdiff.autograd.grad` accepts it as an input, even after the array has been deleted.

    Raises
    ------
    InputError
        If the array is not a recorded array, or does not require a gradient.

    References
    ----------
    ``torch.autograd.graph.get_gradient_edge``.

    Examples
    --------
    >>> import fdiff.autograd
    >>> x = fdiff.autograd.tensor([1.0, 2.0], requires_grad=True)
    >>> edge = fdiff.autograd.graph.get_gradient_edge(x * x)
    >>> edge.node.name(), edge.output_nr
    ('MultiplyBackward0', 0)
    """
    require_recorded(array, "graph.get_gradient_edge")
    edge = array.edge_now()
    if edge is None:
        fact = "the array does not require a gradient, so there is no edge."
        way = "Make it by fdiff.autograd.tensor(data, requires_grad=True)."
        raise failure(InputError, "fdiff.autograd.graph.get_gradient_edge", fact, way)
    return GradientEdge(*edge)
