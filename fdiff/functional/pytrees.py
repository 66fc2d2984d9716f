"""Trees of parameters: classes of the user as nodes of them, and trees as flat vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..errors import InputError, failure
from ..trace import TracedArray
from ..tracebacks import public
from ..tree import register

C = TypeVar("C")
_LEAVES_AND_NODES = (tuple, list, dict, set, str, bytes, int, float, complex, type(None))
_REGISTER = "register_pytree"


@public
def register_pytree(
    cls: type[C],
    flatten: Callable[[C], tuple[Sequence[object], Any]],
    unflatten: Callable[[Any, tuple[Any, ...]], C],
) -> None:
    """Let instances of a class be arguments and results of every operator, as JAX does.

    Tuples, lists, dicts, named tuples, dataclasses and classes of attrs are known anyway.

    Parameters
    ----------
    cls : type
        The class. Classes derived from it are not registered with it.
    flatten : callable
        ``flatten(instance)`` gives ``(children, data)``: what is traced and differentiated (arrays,
        numbers, further structures), as a tuple or list, and anything with a hash, which is kept
        as it is. A function is traced once for each value of `data`.
    unflatten : callable
        ``unflatten(data, children)`` makes an instance. Children may be traced arrays, gradients
        or blocks of a Jacobian: it should not look at them.

    Raises
    ------
    InputError
        If `cls` is no class, is known already, or a function is none.

    Notes
    -----
    Gradients have the class and structure of the argument: ``fdiff.grad(f)(instance)`` is an
    instance of `cls` whose children have the shapes of those of the argument.

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
    if not isinstance(cls, type):
        fact = f"expects a class first, not {type(cls).__name__}."
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
