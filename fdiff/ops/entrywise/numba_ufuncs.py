"""Functions under Numba's ``@vectorize`` and ``@guvectorize``, traced through their Python source."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import broadcast
from ...hooks import hooks
from ...trace import TracedArray, unsupported
from ...trace.handler_arguments import resolve, stored
from ...trace.local_arrays import holds_traced, localised
from ..shapes.shaping import broadcast_to, traced

Shape = tuple[int, ...]
Dims = list[tuple[str, ...]]


def call(real: object, function: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]) -> object:
    """``real(*args)``; for traced arguments by `function`, a private copy of its Python source."""
    if not holds_traced([*args, *kwargs.values()]):
        return localised(real(*args, **kwargs))
    if kwargs:
        raise unsupported(f"{real.__name__} with {', '.join(kwargs)}=")
    general = real.signature is not None
    count = len(_dims(real.signature.partition("->")[0])) if general else real.nin
    outs = tuple(args[count:])
    if len(args) < count or (general and not real.types and not outs):
        raise TypeError(f"Too few arguments for function '{real.__name__}'.")
    arrays = [traced(resolve(a)) for a in args[:count]]
    loop = _loop(real, arrays)
    if loop:
        arrays = [a.astype(dtype) for a, dtype in zip(arrays, loop[:count], strict=True)]
    if general:
        result = _generalised(real, function, arrays, loop[count:])
    else:
        result = _mapped(function, arrays, [a.shape for a in arrays])
        result = result.astype(loop[count]) if loop else result
    return stored(outs, result, True, real.__name__) if outs else result


def _loop(real: object, arrays: Sequence[TracedArray]) -> list[np.dtype]:
    """The dtypes of the first compiled loop that takes the arguments; none if there are no loops."""
    for types in real.types:
        ins, _, outs = types.partition("->")
        dtypes = [np.dtype(t) for t in ins]
        if len(dtypes) < len(arrays):
            continue
        if all(np.can_cast(a.dtype, d, "safe") for a, d in zip(arrays, dtypes, strict=False)):
            return [*dtypes[: len(arrays)], *map(np.dtype, outs)]
    if real.types:
        raise TypeError(f"ufunc '{real.__name__}' not supported for the input types")
    return []


def _mapped(function: Callable[..., object], arrays: Sequence[TracedArray], loops: Sequence[Shape]) -> object:
    """`function` for each place of the leading axes, of shapes `loops`, that arrays are broadcast in."""
    shape = broadcast(*loops)
    if not shape:
        return function(*(a[()] if not a.ndim else a for a in arrays))
    flat, axes = [], []
    for a, loop in zip(arrays, loops, strict=True):
        core = a.shape[len(loop) :]
        axes.append(0 if loop else None)
        full = broadcast_to(a, (*shape, *core)) if loop else a
        flat.append(full.reshape((prod(shape), *core)) if loop else full)
    outs = hooks.vmap(function, tuple(axes))(*flat)
    if isinstance(outs, tuple):
        return tuple(out.reshape((*shape, *out.shape[1:])) for out in outs)
    return outs.reshape((*shape, *outs.shape[1:]))


def _generalised(real: object, function: Callable[..., object], arrays: Sequence[TracedArray], outs: Sequence[np.dtype]) -> object:
    """A function of rows and matrices, which writes its results into arrays that it is given."""
    ins, into = (_dims(side) for side in real.signature.split("->"))
    sizes: dict[str, int] = {}
    for a, names in zip(arrays, ins, strict=True):
        for name, n in zip(names, a.shape[a.ndim - len(names) :], strict=True):
            if sizes.setdefault(name, n) != n:
                raise ValueError(f"{real.__name__}: operands have a mismatch in the core dimension {name!r}")
    unknown = {name for names in into for name in names} - sizes.keys()
    if unknown:
        raise unsupported(f"{real.__name__} with outputs of their own sizes")
    dtypes = outs or [np.result_type(*(a.dtype for a in arrays))] * len(into)
    signatures = real.gufunc_builder._sigs
    boxed = [
        bool(signatures) and hasattr(t, "ndim") and not names
        for t, names in zip(signatures[0].args if signatures else ins, ins, strict=False)
    ]

    def single(*rows: TracedArray) -> object:
        inputs = [row.reshape((1,)) if box else row for row, box in zip(rows, boxed, strict=True)]
        shapes = [tuple(sizes[name] for name in names) or (1,) for names in into]
        outputs = [localised(np.zeros(s, d)) for s, d in zip(shapes, dtypes, strict=True)]
        function(*inputs, *outputs)
        results = [traced(resolve(m)) for m in outputs]
        results = [f if names else f[0] for f, names in zip(results, into, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)

    return _mapped(single, arrays, [a.shape[: a.ndim - len(names)] for a, names in zip(arrays, ins, strict=True)])


def _dims(side: str) -> Dims:
    """``(m,n),()`` as tuples of names."""
    return [tuple(filter(None, (n.strip() for n in part.split(",")))) for part in re.findall(r"\(([^)]*)\)", side)]
