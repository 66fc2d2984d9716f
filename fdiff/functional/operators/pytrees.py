"""Trees of parameters: the user's classes as nodes of trees, and trees as flat vectors.

Source: J. Bradbury et al., JAX, 2018: entries ``jax.tree_util.register_pytree_node`` and
``jax.flatten_util.ravel_pytree``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, cast

import fdiff.intact_numpy as np

from ...dispatch.arguments import WAY_OUT
from ...errors import DtypeError, InputError, VectorError, failure
from ...named_tuples import NamedTuple
from ...trace import TracedArray
from ...trace.handler_arguments import resolve
from ...tracebacks import public
from ...tree import Spec, flatten, paths, register, unflatten

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

C = TypeVar("C")
T = TypeVar("T")
_LEAVES_AND_NODES = (tuple, list, dict, set, str, bytes, int, float, complex, type(None))
_REGISTER = "register_pytree"


@public
def register_pytree(
    cls: type[C],
    flatten: Callable[[C], tuple[Sequence[object], Any]],
    unflatten: Callable[[Any, tuple[Any, ...]], C],
) -> None:
    """Allow instances of a class as arguments and results of every operator, as JAX does.

    Tuples, lists, dicts, named tuples, dataclasses and attrs classes need no registration.

    Parameters
    ----------
    cls : type
        The class. Derived classes are not registered with it.
    flatten : callable
        ``flatten(instance)`` returns ``(children, data)``. `children` is a tuple or list of the
        parts that are traced and differentiated (arrays, numbers, further structures). `data` is
        any hashable object, which is kept unchanged. A function is traced once for each value of
        `data`.
    unflatten : callable
        ``unflatten(data, children)`` makes an instance. It should not inspect the children, which
        may be traced arrays, gradients or blocks of a Jacobian.

    Raises
    ------
    InputError
        If `cls` is not a class or is registered already, or a function is not callable.

    Notes
    -----
    Gradients have the class and structure of the argument: ``fdiff.grad(f)(instance)`` is an
    instance of `cls` whose children have the shapes of the argument's children.

    References
    ----------
    ``jax.tree_util.register_pytree_node``, whose arguments are the same.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> class Layer:
    ...     def __init__(self, weights, bias, name):
    ...         self.weights, self.bias, self.name = weights, bias, name
    >>> fdiff.register_pytree(
    ...     Layer,
    ...     lambda layer: ((layer.weights, layer.bias), layer.name),
    ...     lambda name, children: Layer(*children, name),
    ... )
    >>> loss = lambda layer: np.sum(layer.weights**2) * layer.bias
    >>> slope = fdiff.grad(loss)(Layer(np.array([1.0, 2.0]), 3.0, "first"))
    >>> print(slope.weights, slope.bias, slope.name)
    [ 6. 12.] 5.0 first
    """
    kind = cast("object", cls)
    if not isinstance(kind, type):
        fact = f"expects a class first, not {type(kind).__name__}."
        raise failure(InputError, _REGISTER, fact, "Pass the class itself, not an instance.")
    for role, function in (("flatten", flatten), ("unflatten", unflatten)):
        if not callable(function):
            fact = f"{role} must be a function, not {type(function).__name__}."
            way = "Write register_pytree(cls, flatten, unflatten)."
            raise failure(InputError, _REGISTER, fact, way)
    if issubclass(cls, (np.ndarray, np.generic, TracedArray)) or cls in _LEAVES_AND_NODES:
        fact = f"{cls.__name__} has its meaning in trees already."
        raise failure(InputError, _REGISTER, fact, "Derive a class of your own from it.")
    if not register(cls, flatten, unflatten):
        fact = f"{cls.__name__} is registered already, with other functions."
        raise failure(InputError, _REGISTER, fact, "Register each class once.")


class Part(NamedTuple):
    """A leaf of a tree in its flat vector; a number has no shape."""

    shape: tuple[int, ...] | None
    dtype: np.dtype

    @property
    def size(self) -> int:
        return prod(self.shape or ())


class Unravel:
    """The function that makes a tree from a flat vector; each structure of trees has one.

    A traced function that reads it is therefore not traced again when the same structure is
    raveled.
    """

    __fdiff__ = "ravel"

    def __init__(self, spec: Spec, parts: tuple[Part, ...]) -> None:
        self._spec, self._parts = spec, parts
        self._size = sum(part.size for part in parts)

    def __call__(self, flat: Any) -> Any:
        """The tree with the numbers of `flat`, in the original shapes and dtypes."""
        flat = resolve(flat)
        array = flat if _is_array(flat) else np.asarray(flat)
        if np.shape(array) != (self._size,):
            fact = f"the vector has shape {np.shape(array)}, and the tree {self._size} numbers."
            way = f"Pass an array of shape ({self._size},)."
            raise failure(VectorError, "ravel: unravel", fact, way)
        leaves, begin = [], 0
        for shape, dtype in self._parts:
            end = begin + prod(shape or ())
            part = array[begin:end]
            begin = end
            leaves.append((part[0] if shape is None else np.reshape(part, shape)).astype(dtype))
        return unflatten(self._spec, leaves)

    def __repr__(self) -> str:
        return f"<unravel of {len(self._parts)} leaves, {self._size} numbers>"


_unravel = lru_cache(maxsize=512)(Unravel)


@public
def ravel(params: T) -> tuple[np.ndarray, Callable[[ArrayLike], T]]:
    """Turn a tree of parameters into one vector, and return the function that turns it back.

    Solvers take vectors: ``minimize(lambda z: loss(unravel(z)), flat, ...)``.

    Parameters
    ----------
    params : array or nested structure of arrays
        Arrays and numbers in tuples, lists, dicts, dataclasses and registered classes.

    Returns
    -------
    tuple
        ``(flat, unravel)``. `flat` is an array of shape ``(n,)`` with all numbers from left to
        right, in the widest of their dtypes. ``unravel(vector)`` returns a tree with the structure,
        shapes and dtypes of `params`. Both may be traced and differentiated. Costs one copy.

    Raises
    ------
    InputError
        If a leaf is neither an array nor a number.
    DtypeError
        If a leaf is not floating point, or complex beside real ones. Python ints are floats.
    VectorError
        Raised by `unravel` if the vector has another shape.

    References
    ----------
    ``jax.flatten_util.ravel_pytree``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> flat, unravel = fdiff.ravel({"w": np.array([[1.0, 2.0]]), "b": 3.0})
    >>> flat
    array([1., 2., 3.])
    >>> fdiff.grad(lambda z: np.sum(unravel(z)["w"] ** 2))(flat)
    array([2., 4., 0.])
    """
    leaves, spec = flatten(params)
    leaves = [float(x) if type(x) is int else resolve(x) for x in leaves]
    for k, leaf in enumerate(leaves):
        path = paths(spec)[k] or "params"
        if not (isinstance(leaf, (np.generic, float, complex)) or _is_array(leaf)):
            fact = f"{path} is of type {type(leaf).__name__}, and not an array."
            raise failure(InputError, "ravel", fact, "Keep it outside of the parameters.")
        dtype = _dtype(leaf)
        if dtype.kind not in "fc":
            fact = f"{path} is of {dtype}, and only floating-point parameters vary."
            way = "Convert it with x.astype(float), or keep it outside of the parameters."
            raise failure(DtypeError, "ravel", fact, way)
        if dtype.kind != _dtype(leaves[0]).kind:
            fact = f"{path} is of {dtype} beside {_dtype(leaves[0])}: real and complex numbers."
            raise failure(DtypeError, "ravel", fact, "Ravel the real and imaginary parts.")
    parts = tuple([Part(_shape(leaf), _dtype(leaf)) for leaf in leaves])
    flat = np.concatenate([np.ravel(leaf) for leaf in leaves]) if leaves else np.zeros(0)  # type: ignore[arg-type] - leaves are arrays
    return flat, _unravel(spec, parts)


def _dtype(leaf: Any) -> np.dtype:
    return leaf.dtype if hasattr(leaf, "dtype") else np.dtype(type(leaf))


def _shape(leaf: Any) -> tuple[int, ...] | None:
    """The shape of an array; None for a number."""
    if isinstance(leaf, TracedArray):
        return None if leaf.scalar or leaf.weak else leaf.shape
    return leaf.shape if _is_array(leaf) else None


def _is_array(leaf: object) -> bool:
    """Whether a value is an array: NumPy's, a traced one or a recorded one."""
    return isinstance(leaf, (np.ndarray, TracedArray)) or hasattr(type(leaf), WAY_OUT)
