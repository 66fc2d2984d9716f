"""`scipy.signal`: convolution and correlation in any number of axes, as sums of shifted products or by FFT."""

from __future__ import annotations

from itertools import product

import fdiff.intact_numpy as np
from fdiff.intact_scipy import fft as sf
from fdiff.intact_scipy import signal as ss

from ...trace import Array, TracedArray, unsupported
from ..scipy_functions import replaces_if_traced
from ..shapes.axis_numbers import normal_axis
from ..shapes.shaping import traced

MODES = ("full", "valid", "same")


def _operands(in1: object, in2: object, mode: object) -> tuple[TracedArray, TracedArray]:
    x, y = traced(in1), traced(in2)
    if x.ndim != y.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    if mode not in MODES:
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    common = np.result_type(x.dtype, y.dtype)
    return x.astype(common), y.astype(common)


def _cut(full: TracedArray, n: tuple[int, ...], m: tuple[int, ...], mode: str, axes: list[int]) -> TracedArray:
    """The part of a full convolution that `mode` asks for, about its centre along `axes`."""
    if mode == "full":
        return full
    sizes = list(full.shape)
    for k in axes:
        sizes[k] = n[k] if mode == "same" else abs(n[k] - m[k]) + 1
    starts = [(whole - size) // 2 for whole, size in zip(full.shape, sizes, strict=True)]
    return full[tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))]


def _check_others(n: tuple[int, ...], m: tuple[int, ...], axes: list[int]) -> None:
    """Along the axes that are not convolved, the operands must broadcast."""
    if any(n[k] != m[k] and 1 not in (n[k], m[k]) for k in range(len(n)) if k not in axes):
        raise ValueError(f"incompatible shapes for in1 and in2: {n} and {m}")


def _check_valid(n: tuple[int, ...], m: tuple[int, ...], mode: str, axes: list[int]) -> None:
    """In mode ``"valid"`` one operand must be at least as large as the other along every axis."""
    pairs = [(n[k], m[k]) for k in axes]
    if mode == "valid" and not (all(a >= b for a, b in pairs) or all(a <= b for a, b in pairs)):
        raise ValueError(
            "For 'valid' mode, one must be at least as large as the other in every dimension"
        )


def _shifted_products(x: TracedArray, y: TracedArray) -> Array:
    """The full convolution: a copy of the larger operand for each entry of the smaller one, shifted and weighted."""
    if x.ndim == 1:
        return np.convolve(x, y)
    if y.size > x.size:
        x, y = y, x
    wide = np.pad(x, [(k - 1, k - 1) for k in y.shape])
    full = [n + k - 1 for n, k in zip(x.shape, y.shape, strict=True)]
    terms = []
    for place in product(*map(range, y.shape)):
        window = tuple(slice(k - 1 - p, k - 1 - p + n) for p, k, n in zip(place, y.shape, full, strict=True))
        terms.append(wide[window] * y[place])
    return sum(terms[1:], start=terms[0])


def _by_fft(x: TracedArray, y: TracedArray, axes: list[int]) -> Array:
    """The full convolution along `axes`; the other axes broadcast."""
    if not axes:
        return x * y
    full = [x.shape[k] + y.shape[k] - 1 for k in axes]
    real = x.dtype.kind != "c"
    sizes = [sf.next_fast_len(n, real) for n in full]
    forward, backward = (np.fft.rfftn, np.fft.irfftn) if real else (np.fft.fftn, np.fft.ifftn)
    out = backward(forward(x, sizes, axes) * forward(y, sizes, axes), sizes, axes)
    window = [slice(None)] * out.ndim
    for k, n in zip(axes, full, strict=True):
        window[k] = slice(n)
    return out[tuple(window)].astype(x.dtype)


@replaces_if_traced(ss.fftconvolve, ss.oaconvolve)
def fftconvolve(in1: object, in2: object, mode: str = "full", axes: object = None) -> TracedArray:
    x, y = _operands(in1, in2, mode)
    if not x.ndim:
        return x * y
    chosen = range(x.ndim) if axes is None else np.atleast_1d(axes)
    along = sorted(normal_axis(k, x.ndim) for k in chosen)
    _check_others(x.shape, y.shape, along)
    _check_valid(x.shape, y.shape, mode, along)
    return _cut(_by_fft(x, y, along), x.shape, y.shape, mode, along)


@replaces_if_traced(ss.convolve)
def convolve(in1: object, in2: object, mode: str = "full", method: str = "auto") -> TracedArray:
    """By the method that SciPy chooses for operands of these shapes and dtypes."""
    x, y = _operands(in1, in2, mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if not x.ndim:
        return x * y
    if method == "auto":
        method = str(ss.choose_conv_method(np.zeros(x.shape, x.dtype), np.zeros(y.shape, y.dtype), mode))
    if method == "fft":
        return fftconvolve(x, y, mode)
    axes = list(range(x.ndim))
    _check_valid(x.shape, y.shape, mode, axes)
    return _cut(_shifted_products(x, y), x.shape, y.shape, mode, axes)


@replaces_if_traced(ss.correlate)
def correlate(in1: object, in2: object, mode: str = "full", method: str = "auto") -> TracedArray:
    x, y = _operands(in1, in2, mode)
    flipped = y[(slice(None, None, -1),) * y.ndim]
    return convolve(x, np.conj(flipped) if y.dtype.kind == "c" else flipped, mode, method)


@replaces_if_traced(ss.convolve2d)
def convolve2d(in1: Array, in2: Array, mode: str = "full", boundary: str = "fill", fillvalue: object = 0) -> TracedArray:
    if boundary != "fill" or isinstance(fillvalue, TracedArray) or fillvalue != 0:
        raise unsupported("scipy.signal.convolve2d with a boundary other than zeros")
    if np.ndim(in1) != 2 or np.ndim(in2) != 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    return convolve(in1, in2, mode, "direct")
