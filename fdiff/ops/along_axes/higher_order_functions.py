"""NumPy functions that call a function of the user: `apply_along_axis`, `piecewise`, `vectorize`, ...

The function is traced for each line, each condition or each entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import INT, broadcast
from ...tape import CONSTANT, INPUT
from ...trace import Array, TracedArray, current, implements, replaces, unsupported
from ...trace.local_arrays import holds_traced
from ..scipy_functions import replaces_if_traced
from ..shapes.axis_numbers import normal_axis
from ..shapes.creation import array as array_call
from ..shapes.shaping import broadcast_to, traced
from .data_dependent_shapes import look_if_traced

# --- along axes, and entry by entry -------------------------------------------------------------


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., object], axis: int, arr: object, *args: object, **kwargs: object) -> Array:
    """`func1d` of each line along an axis; its results take the place of the line."""
    array = traced(arr)
    at = normal_axis(axis, array.ndim)
    lines = np.moveaxis(array, at, -1)
    lead = lines.shape[:-1]
    if not prod(lead):
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    flat = lines.reshape((prod(lead), lines.shape[-1]))
    outs = [array_call(func1d(line, *args, **kwargs)) for line in flat]
    stacked = np.stack([traced(out) for out in outs])
    shape = stacked.shape[1:]
    whole = stacked.reshape((*lead, *shape))
    order = (*range(at), *range(len(lead), len(lead) + len(shape)), *range(at, len(lead)))
    return np.transpose(whole, order)


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., object], a: Array, axes: object) -> object:
    """`func` over one axis after the other, which stay with length one."""
    value = traced(a)
    for axis in np.ravel(axes).tolist():
        out = traced(func(value, normal_axis(axis, np.ndim(a))))
        if out.ndim != value.ndim:
            out = np.expand_dims(out, normal_axis(axis, np.ndim(a)))
            if out.ndim != value.ndim:
                raise ValueError("function is not returning an array of the correct shape")
        value = out
    return value


def _entrywise(nodes: Sequence[object]) -> bool:
    """Whether all nodes are elementwise."""
    return all(n.primitive in (CONSTANT, INPUT) or n.primitive.family == "elementwise" or n.primitive.name == "broadcast_to" for n in nodes)


@implements(np.piecewise)
def piecewise(x: object, condlist: object, funclist: Sequence[object], *args: object, **kw: object) -> TracedArray:
    """One function for each condition.

    An elementwise function is applied to all entries, and its results are selected; any other function is applied
    to the entries where its condition holds, which is then looked at.
    """
    array = traced(x)
    conditions, functions = _conditions(condlist, array), list(funclist)
    if len(functions) == len(conditions) + 1:
        rest = ~np.any(np.stack([traced(c) for c in conditions]), axis=0)
        conditions = [rest, *conditions]
        functions = [functions[-1], *functions[:-1]]
    elif len(functions) != len(conditions):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    out: object = np.zeros(array.shape, array.dtype)
    for condition, function in zip(conditions, functions, strict=True):
        out = _chosen(array, condition, function, out, args, kw)
    return traced(out).astype(array.dtype)


def _conditions(condlist: Array, array: TracedArray) -> Sequence[object]:
    single = np.isscalar(condlist) or not np.ndim(condlist) or (array.ndim and not np.ndim(condlist[0]))
    return [condlist if not isinstance(condlist, (list, tuple)) else np.asarray(condlist)] if single else list(condlist)


def _chosen(x: TracedArray, condition: object, function: object, out: object, args: tuple[object, ...], kw: dict[str, object]) -> object:
    held = traced(condition).astype(bool)
    if not callable(function):
        return np.where(held, traced(function).astype(x.dtype), out)
    nodes = current().builder.nodes
    before = len(nodes)
    value = function(x, *args, **kw)
    if _entrywise(nodes[before:]):
        return np.where(held, traced(value).astype(x.dtype), out)
    places = np.flatnonzero(
        np.broadcast_to(look_if_traced(held, "gave numpy.piecewise a function that does not work entry by entry"), x.shape)
    )
    picked = traced(function(x.reshape(-1)[places], *args, **kw)).astype(x.dtype)
    full = broadcast_to(picked, places.shape)
    ranks = np.zeros(x.size, INT)
    ranks[places] = np.arange(places.size)
    spread = full[ranks].reshape(x.shape) if places.size else out
    return np.where(held, spread, out)


@replaces(np.vectorize)
class TracedVectorize:
    """``np.vectorize``; with traced values the function is traced once for each entry."""

    def __init__(
        self, pyfunc: object = np._NoValue, otypes: object = None, doc: str | None = None, excluded: object = None, cache: bool = False,
        signature: str | None = None,
    ) -> None:
        keywords = {"otypes": otypes, "doc": doc, "excluded": excluded, "cache": cache, "signature": signature}
        self._plain = np.vectorize(pyfunc, **keywords)
        self.pyfunc, self.signature = pyfunc, signature
        self.excluded = set(excluded or ())
        self.__doc__ = self._plain.__doc__

    def __call__(self, *args: object, **kwargs: object) -> object:
        if self.pyfunc is np._NoValue:  # used as a decorator with arguments
            self.__init__(*args, self._plain.otypes, self.__doc__, self.excluded, self._plain.cache, self.signature)
            return self
        if not (holds_traced(args) or any(map(holds_traced, kwargs.values()))):
            return self._plain(*args, **kwargs)
        return self._each(args, kwargs)

    def _each(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if self.signature is not None:
            raise unsupported("numpy.vectorize with signature=")
        spots = [k for k in (*range(len(args)), *kwargs) if k not in self.excluded]
        arrays = [traced(array_call(args[k] if isinstance(k, int) else kwargs[k])) for k in spots]
        shape = broadcast(*(a.shape for a in arrays))
        flat = [broadcast_to(a, shape).reshape(-1) for a in arrays]
        if not prod(shape):
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        outs = []
        for k in range(prod(shape)):
            entry = dict(zip(spots, (f[k] for f in flat), strict=True))
            outs.append(self.pyfunc(*(entry.get(j, a) for j, a in enumerate(args)), **{n: entry.get(n, v) for n, v in kwargs.items()}))
        if isinstance(outs[0], tuple):
            return tuple(self._stacked(column, shape, j) for j, column in enumerate(zip(*outs, strict=True)))
        return self._stacked(outs, shape, 0)

    def _stacked(self, entries: Sequence[object], shape: tuple[int, ...], j: int) -> Array:
        """The results in the dtype of the first one, or of `otypes`, as in NumPy."""
        given_types = self._plain.otypes
        kind = np.dtype(given_types[j]) if given_types else traced(entries[0]).dtype
        return np.stack([traced(e).astype(kind) for e in entries]).reshape(shape)


@replaces_if_traced(np.frompyfunc)
def frompyfunc(func: object, /, nin: int, nout: int, **keywords: object) -> object:
    raise unsupported("numpy.frompyfunc")
