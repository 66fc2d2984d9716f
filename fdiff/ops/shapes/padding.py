"""`numpy.pad`: a border of constants, copies, reflections, ramps or statistics of the entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...trace import Array, TracedArray, implements, unsupported
from ..along_axes.sampled_functions import linspace
from .joining_and_splitting import concatenate_call
from .shaping import broadcast_to, fresh, traced
from .take_functions import take

_STATISTICS: dict[str, Callable[..., TracedArray]] = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}
_KEYWORDS = {
    "constant": ("constant_values",), "linear_ramp": ("end_values",), "reflect": ("reflect_type",), "symmetric": ("reflect_type",),
    **dict.fromkeys(("edge", "wrap", "empty"), ()), **dict.fromkeys(_STATISTICS, ("stat_length",)),
}  # fmt: skip


def _pairs(value: object, ndim: int) -> list[list[object]]:
    """A pair for each axis."""
    if value is None:
        return [[None, None]] * ndim
    full = np.broadcast_to(value if isinstance(value, TracedArray) else np.asarray(value), (ndim, 2))
    return [[full[k, 0], full[k, 1]] for k in range(ndim)]


def _widths(pad_width: object, ndim: int) -> list[list[int]]:
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - ndim, (0, 0))) for k in range(ndim)]
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if np.any(widths < 0):
        raise ValueError("index can't contain negative values")
    return np.broadcast_to(widths, (ndim, 2)).tolist()


@implements(np.pad)
def pad(array: object, pad_width: object, mode: object = "constant", **keywords: object) -> TracedArray:
    """The array with a border: a constant, copies, reflections, ramps or statistics of its entries."""
    x = fresh(traced(array))
    widths = _widths(pad_width, x.ndim)
    if mode not in _KEYWORDS:
        raise ValueError(f"mode '{mode}' is not supported")
    if unknown := set(keywords) - set(_KEYWORDS[mode]):
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    if mode == "empty":
        return pad_plainly(x, widths)
    if mode == "linear_ramp":
        return _along_axes(x, widths, _ramp, _pairs(keywords.get("end_values", 0), x.ndim))
    if mode in _STATISTICS:
        lengths = _pairs(keywords.get("stat_length"), x.ndim)
        return _along_axes(x, widths, lambda *args: _statistic(_STATISTICS[mode], *args), lengths)
    if keywords.get("reflect_type", "even") == "odd":
        return _along_axes(x, widths, lambda y, width, extra: _odd(y, *width, rim=mode == "symmetric"), [None] * x.ndim)
    return pad_plainly(x, widths, mode, **{k: v for k, v in keywords.items() if k != "reflect_type"})


def _along_axes(
    x: TracedArray, widths: Sequence[Sequence[int]], extend: Callable[..., TracedArray], extras: Sequence[object]
) -> TracedArray:
    """Extend one axis after the other; each is moved to the front for `extend`."""
    for axis, (width, extra) in enumerate(zip(widths, extras, strict=True)):
        if any(width):
            x = np.moveaxis(extend(np.moveaxis(x, axis, 0), width, extra), 0, axis)
    return x


def _ramp(x: TracedArray, width: Sequence[int], ends: Sequence[object]) -> TracedArray:
    left = linspace(traced(ends[0]), x[0], width[0], endpoint=False, dtype=x.dtype)
    right = linspace(traced(ends[1]), x[-1], width[1], endpoint=False, dtype=x.dtype)[::-1]
    return concatenate_call([left, x, right])


def _statistic(function: Callable[..., TracedArray], x: TracedArray, width: Sequence[int], lengths: Sequence[object]) -> TracedArray:
    n = x.shape[0]
    left, right = (n if k is None else min(int(k), n) for k in lengths)
    if not (left and right) and function in (np.max, np.min):
        raise ValueError("stat_length of 0 yields no value for padding")
    ends = [function(part, axis=0, keepdims=True) for part in (x[:left], x[n - right :])]
    ends = [(np.rint(e) if x.dtype.kind in "iu" and e.type.floating else e).astype(x.dtype) for e in ends]
    return concatenate_call([broadcast_to(ends[0], (width[0], *x.shape[1:])), x, broadcast_to(ends[1], (width[1], *x.shape[1:]))])


def _odd(x: TracedArray, left: int, right: int, *, rim: bool) -> TracedArray:
    """Reflections through the end points (``2 * end - entry``), as often as the border is long.

    With `rim` the end itself is reflected too. The period is a multiple of the original length,
    as in ``numpy.pad``.
    """
    n = x.shape[0]
    if n == 1 and not rim:
        return concatenate_call([np.repeat(x, left, 0), x, np.repeat(x, right, 0)])
    skip = 0 if rim else 1
    while left or right:
        length = x.shape[0] // n * n if rim else (x.shape[0] - 1) // (n - 1) * (n - 1)
        a, b = min(length, left), min(length, right)
        ahead = 2 * x[:1] - x[skip : skip + a][::-1]
        behind = 2 * x[-1:] - x[::-1][skip : skip + b]
        x = concatenate_call([ahead, x, behind])
        left, right = left - a, right - b
    return x


_MODES = ("edge", "reflect", "symmetric", "wrap")  # the border copies entries: one gather for each axis


def pad_plainly(array: object, pad_width: object, mode: str = "constant", **keywords: object) -> TracedArray:
    """The array with a border of a constant, or of copies of its own entries."""
    x = traced(array)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - x.ndim, (0, 0))) for k in range(x.ndim)]
    widths = np.broadcast_to(pad_width, (x.ndim, 2)).tolist()
    if mode in _MODES and keywords.get("reflect_type", "even") == "even":
        for axis, (n, width) in enumerate(zip(x.shape, widths, strict=True)):
            x = take(x, np.pad(np.arange(n), width, mode), axis) if any(width) else x
        return x
    if mode != "constant":
        raise unsupported(f"numpy.pad with mode={mode!r} and {keywords}")
    for axis, (width, fill) in enumerate(zip(widths, _fills(keywords.get("constant_values", 0), x.ndim), strict=True)):
        edges = [
            np.broadcast_to(traced(f).astype(x.dtype), (*x.shape[:axis], n, *x.shape[axis + 1 :])) for f, n in zip(fill, width, strict=True)
        ]
        x = concatenate_call([edges[0], x, edges[1]], axis) if any(width) else x
    return x


def _fills(values: Array, ndim: int) -> list[list[object]]:
    """The two constants of each axis."""
    if isinstance(values, TracedArray):
        full = np.broadcast_to(values, (ndim, 2))
        return [[full[k, 0], full[k, 1]] for k in range(ndim)]
    return np.broadcast_to(values, (ndim, 2)).tolist()
