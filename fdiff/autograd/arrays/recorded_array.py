"""Recorded arrays: NumPy arrays that compute at once and remember the operations they come from.

A recorded array holds a NumPy array. NumPy passes every ufunc and function called on a recorded
array to `recording.py` (``__array_ufunc__`` and ``__array_function__``, NEP 13 and NEP 18), which
computes the values by NumPy and enters a node in the graph. `array_methods.py` gives the class its
operators and methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import fdiff.intact_numpy as np

from ...errors import DtypeError, InputError, failure, flag, unbounded, warn
from ...foreign_errors import not_foreign, not_signalled, noting
from ...generated_text import Namespace
from ...trace import TracedArray
from ..backward_passes.nodes import AccumulateGrad, Edge, GraphNode
from ..thread_state import state
from .array_kinds import ArrayKind, array_kind_of
from .conversions import Conversions
from .versions import InferenceVersion, Version, new_version

if TYPE_CHECKING:
    from collections.abc import Callable

# What a call takes or gives: an array, recorded or not, or whatever else the user passes. Its class
# is asked for in ways that narrow nothing for checkers (`x.__class__ is RecordedArray`).
Recordable: TypeAlias = Any


class View(Protocol):
    """The data of an array that shares another array's memory, its root's (`recorded_views.py`)."""

    root: RecordedArray

    def refresh(self, array: RecordedArray, /) -> None:
        """Bring the edge of the array up to date, if its memory was stored into."""
        ...


class RecordedArray(Conversions):
    """An array that records the operations on it, so that gradients can be computed backwards.

    `fdiff.autograd.tensor` makes it, and so does every operation of NumPy on recorded arrays. It
    has the methods and attributes of `numpy.ndarray`, and the ones of torch's tensors for automatic
    differentiation.

    Attributes
    ----------
    value : ndarray or NumPy scalar
        The numbers; views share memory as in NumPy.
    requires_grad : bool
        Whether operations on the array are recorded.
    grad : RecordedArray or None
        The gradient that `backward` has accumulated here.
    grad_fn : Node or None
        The operation that made the array.

    References
    ----------
    ``torch.Tensor``. Paszke et al., "PyTorch: an imperative style, high-performance deep learning
    library", NeurIPS 2019, section 4.3.

    Examples
    --------
    >>> import fdiff.autograd
    >>> x = fdiff.autograd.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ("__weakref__", "_extra", "_grad", "edge", "kind", "value", "version", "viewing")
    __array_priority__ = 1100.0
    __hash__ = object.__hash__
    # What is told where plain arrays alone are taken, as by the `compile` of a prepared function.
    __fdiff_way_out__ = "Pass `array.detach().numpy()`."

    value: Any
    kind: ArrayKind
    edge: Edge | None  # where it comes from; of a leaf its accumulator, once there is one
    version: Version
    viewing: View | None
    _grad: RecordedArray | None
    _extra: Namespace | None  # hooks of a leaf, and what few arrays have

    def __new__(cls, *_: object, **__: object) -> Self:
        fact = "a RecordedArray was made by its class."
        raise failure(InputError, "fdiff.autograd", fact, "Use fdiff.autograd.tensor(data).")

    # ------------------------------------------------------------------------------ gradients

    @property
    @noting
    def requires_grad(self) -> bool:
        """Whether operations on the array are recorded. It can be set for leaves."""
        if self.viewing is not None:
            self.viewing.refresh(self)
        return self.kind.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if flag is True and not self.is_leaf:
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> RecordedArray:  # noqa: FBT001,FBT002 - torch's signature
        """Switch recording on or off for this leaf, and return the array."""
        requires_grad = flag(requires_grad, "requires_grad", "fdiff.autograd.RecordedArray")
        if self.viewing is not None:
            self.viewing.refresh(self)
        if not requires_grad and not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a"
                " computed variable in a subgraph that doesn't require differentiation use"
                " var_no_grad = var.detach()."
            )
        if requires_grad != self.kind.requires_grad:
            if requires_grad:
                _require_floating(self.value, "requires_grad_")
                if self.version.__class__ is InferenceVersion and not state.inference:
                    raise RuntimeError(
                        "Setting requires_grad=True on inference tensor outside InferenceMode is"
                        " not allowed."
                    )
            self.kind = self.kind.other
            self._drop_accumulator()
        return self

    def _drop_accumulator(self) -> None:
        """Take another end of edges from now on, which has the hooks of the one before."""
        node = self.edge[0] if self.edge is not None else None
        if isinstance(node, AccumulateGrad) and (node.hooks is not None or node.post_hooks):
            self.extra()["hooks"] = node.hooks, node.post_hooks
        self.edge = None

    @property
    @noting
    def is_leaf(self) -> bool:
        """Whether the user made the array, or it requires no gradient."""
        edge = self.edge_now() if self.viewing is not None else self.edge
        return edge is None or edge[0].__class__ is AccumulateGrad

    @property
    @noting
    def grad_fn(self) -> GraphNode | None:
        """The operation that made the array; None for a leaf."""
        if self.viewing is not None:
            self.viewing.refresh(self)
        edge = self.edge
        return None if edge is None or edge[0].__class__ is AccumulateGrad else edge[0]

    @property
    @noting
    def output_nr(self) -> int:
        """Which output of `grad_fn` the array is."""
        return 0 if self.edge is None else self.edge[1]

    def edge_now(self) -> Edge | None:
        """Where gradients of this array go; None if none is required."""
        if self.viewing is not None:
            self.viewing.refresh(self)
        if self.edge is None and self.kind.requires_grad:
            self.edge = AccumulateGrad(self), 0
        return self.edge

    @property
    @noting
    def grad(self) -> RecordedArray | None:
        """The gradient accumulated so far. It can be set, and is None at first."""
        if self._grad is None and not self.is_leaf and not self.retains_grad:
            warn(
                "The .grad attribute of an array that is not a leaf is being accessed. It won't be"
                " populated by backward(); call .retain_grad() on the array if it should be.",
                UserWarning,
            )
        return self._grad

    @grad.setter
    def grad(self, grad: object) -> None:
        if grad is None or type(grad) is RecordedArray:
            gradient: object = grad
        elif isinstance(grad, np.ndarray):
            gradient = plain(grad)
        else:
            raise TypeError(
                f"assigned grad expected to be a RecordedArray, an ndarray or None but got grad of"
                f" type {type(grad).__name__!r}"
            )
        if gradient is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if gradient is not None:
            if gradient.value.dtype != self.value.dtype:
                raise RuntimeError(
                    f"assigned grad has data of a different type: {gradient.value.dtype} instead of"
                    f" {self.value.dtype}"
                )
            if gradient.value.shape != self.value.shape:
                raise RuntimeError(
                    "assigned grad has data of a different size: "
                    f"{list(gradient.value.shape)} instead of {list(self.value.shape)}"
                )
        self._grad = gradient

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    @noting
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called on this array, which is no leaf."""
        return bool(self._extra and self._extra.get("retains"))

    def extra(self) -> Namespace:
        """The dict of attributes that few arrays have; it is made at first use."""
        if self._extra is None:
            self._extra = {}
        return self._extra

    def detach(self) -> RecordedArray:
        """An array with the same memory that requires no gradient.

        A store into it also counts as a store into this array: both share a version counter.
        """
        kind = self.kind.other if self.kind.requires_grad else self.kind
        return new_array(self.value, kind, None, self.version)

    def detach_(self) -> RecordedArray:
        """Turn this array into a leaf that requires no gradient, and return it."""
        if self.viewing is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        if self.kind.requires_grad:
            self.kind, self.edge = self.kind.other, None
        return self

    @property
    @noting
    def data(self) -> RecordedArray:
        """An array with the same memory. `backward` does not notice stores into it."""
        kind = self.kind.other if self.kind.requires_grad else self.kind
        return new_array(self.value, kind, None, Version())

    @data.setter
    def data(self, data: object) -> None:
        if not isinstance(data, RecordedArray | np.ndarray):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        value = data.value if isinstance(data, RecordedArray) else data
        if value.dtype != self.value.dtype:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have"
                " incompatible tensor type."
            )
        self.value = value
        self.kind = array_kind_of(value, self.kind.requires_grad)
        if self.edge is not None and self.is_leaf:
            self._drop_accumulator()

    def is_inference(self) -> bool:
        """Whether the array was made in inference mode, so that no backward pass may save it."""
        return self.version.__class__ is InferenceVersion

    @property
    @noting
    def _version(self) -> int:
        """How often the memory has been stored into."""
        if self.version.__class__ is InferenceVersion:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self.version.count

    def __reduce__(self) -> tuple[Callable[..., RecordedArray], tuple[np.ndarray, bool]]:
        if not self.is_leaf:
            fact = "an array that was computed from others was pickled, which would drop its graph."
            raise failure(InputError, "fdiff.autograd", fact, "Pickle `array.detach()`.")
        return _unpickled, (np.asarray(self.value), self.kind.requires_grad)

    def __deepcopy__(self, memo: dict[int, object]) -> RecordedArray:
        if not self.is_leaf:
            raise RuntimeError(
                "Only arrays created explicitly by the user (graph leaves) support the deepcopy"
                " protocol at the moment."
            )
        copy = tensor(self.value, requires_grad=self.kind.requires_grad)
        copy._grad = None if self._grad is None else plain(np.array(self._grad.value))
        return copy


def new_array(value: object, kind: ArrayKind, edge: Edge | None, version: Version) -> RecordedArray:
    """A recorded array that is no view."""
    array = object.__new__(RecordedArray)
    array.value = value
    array.kind = kind
    array.edge = edge
    array.version = version
    array.viewing = array._grad = array._extra = None
    return array


def plain(value: np.ndarray | np.generic) -> RecordedArray:
    """A recorded array of these numbers that requires no gradient."""
    return new_array(value, array_kind_of(value), None, new_version())


def _unpickled(value: np.ndarray, requires_grad: bool) -> RecordedArray:  # noqa: FBT001 - called by position
    return tensor(value, requires_grad=requires_grad)


def _require_floating(value: np.ndarray, call: str) -> None:
    if value.dtype.kind not in "fc":
        fact = (
            "only arrays of floating point and complex dtype can require gradients, not"
            f" {value.dtype}."
        )
        way = "Give floats, or requires_grad=False."
        raise failure(DtypeError, f"fdiff.autograd.{call}", fact, way)


def tensor(data: object, requires_grad: bool = False, dtype: Any = None) -> RecordedArray:  # noqa: FBT001,FBT002 - the public signature
    """Make a recorded array: a leaf of the graph, with a copy of `data`.

    Parameters
    ----------
    data : array_like
        Numbers of any shape. A recorded array among them is copied without its graph.
    requires_grad : bool
        Whether operations on the array are recorded, so that gradients with respect to it can be
        taken. Only arrays of floating point or complex dtype can require a gradient.
    dtype : dtype, optional
        The dtype of the array. The default is the dtype of ``np.array(data)``, and float64 for
        Python integers and for integer arrays that require a gradient.

    Returns
    -------
    RecordedArray
        An array that every operation of NumPy works on.

    Raises
    ------
    DtypeError
        If `requires_grad` is true for a dtype that has no gradients.
    InputError
        If NumPy cannot make an array from `data`, or `requires_grad` is not a boolean.

    References
    ----------
    torch.tensor, https://pytorch.org/docs/stable/generated/torch.tensor.html

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.autograd
    >>> x = fdiff.autograd.tensor(np.ones((2, 2)), requires_grad=True)
    >>> y = x + 2
    >>> z = y * y * 3
    >>> z.mean().backward()
    >>> x.grad
    tensor([[4.5, 4.5],
            [4.5, 4.5]])
    """
    if isinstance(data, RecordedArray):
        data = data.value
    elif isinstance(data, (list, tuple)):
        try:
            data = _nested_values(data)
        except not_signalled(RecursionError):
            fact = "the data contains itself, or is nested too deep."
            raise unbounded("fdiff.autograd.tensor", fact) from None
    elif isinstance(data, TracedArray):
        fact = "it was called in a function that is traced, with one of its arrays."
        way = (
            "Use the array itself. A function that is given to SciPy, and makes recorded arrays,"
            " returns numbers: `array.item()`."
        )
        raise failure(InputError, "fdiff.autograd.tensor", fact, way)
    requires_grad = flag(requires_grad, "requires_grad", "fdiff.autograd.tensor")
    try:
        value = np.array(data, dtype=dtype, order="K", subok=False)
    except not_foreign(TypeError, ValueError, RecursionError) as error:
        way = "Give numbers, in lists of equal lengths, and a dtype of NumPy."
        fact = str(error).rstrip(".") + "."
        raise failure(InputError, "fdiff.autograd.tensor", fact, way) from None
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    if requires_grad:
        if dtype is None and value.dtype.kind in "iu" and not isinstance(data, np.ndarray):
            value = value.astype(np.float64)
        _require_floating(value, "tensor")
    elif value.dtype.kind not in "biufc":
        fact = f"arrays of dtype {value.dtype} cannot be recorded."
        raise failure(DtypeError, "fdiff.autograd.tensor", fact, "Give numbers.")
    return new_array(value, array_kind_of(value, requires_grad), None, new_version())


def _nested_values(data: object) -> object:
    """Nested lists with the numbers of recorded arrays in their place."""
    if isinstance(data, (list, tuple)):
        return [_nested_values(x) for x in data]
    return data.value if isinstance(data, RecordedArray) else data
