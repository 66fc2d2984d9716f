"""Discrete Fourier transforms: three linear ops along one axis, and the functions of `numpy.fft` made of them.

With plain (unconjugated) pairing the matrix of a DFT is its own transpose, so the transpose of `dft` is `dft`.
The real transforms see half of a spectrum whose other half is its conjugate: in their transposes the
entries that stand for two count twice (NumPy's reference, page ``numpy.fft``, section "Real and Hermitian transforms").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, real_dtype
from ...errors import warn
from ...primitive import FUNCTIONS, Sample
from ...trace import Array, TracedArray, apply, implements
from ..entrywise.families import linear
from ..entrywise.sample_domains import plane, real
from ..shapes.axis_numbers import normal_axis
from ..shapes.shaping import traced
from ..shapes.view_ops import unslice

OPPOSITE = {"backward": "forward", None: "forward", "ortho": "ortho", "forward": "backward"}


def _with(shape: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _samples(make: Callable[..., np.ndarray], **params: object) -> tuple[Sample, ...]:
    """Even and odd lengths, both norms that matter, and an axis that is not the last."""
    return tuple(
        Sample(lambda rng, s=shape: (make(rng, s),), {"axis": axis, "norm": norm, **params})
        for shape, axis, norm in (((2, 4), 1, "backward"), ((3, 2), 0, "ortho"))
    )


# --- the three ops ----------------------------------------------------------------------------
dft = linear(
    "dft",
    lambda x, *, axis, norm, inverse: (x,),
    lambda bar, src, *, axis, norm, inverse: apply(dft, bar, axis=axis, norm=norm, inverse=inverse),
    evaluate=lambda x, *, axis, norm, inverse: (np.fft.ifft if inverse else np.fft.fft)(x, axis=axis, norm=norm),
    samples=(*_samples(plane, inverse=False), *_samples(plane, inverse=True)),
)


def _half(n: int, ends: float, others: float, like: TracedArray, axis: int) -> np.ndarray:
    """A weight for each entry of half a spectrum of length `n`, ready to broadcast."""
    weights = np.full(n // 2 + 1, others, real_dtype(like.dtype))
    weights[0] = ends
    if n % 2 == 0:
        weights[-1] = ends
    return weights.reshape([-1 if k == axis else 1 for k in range(like.ndim)])


def _rdft_transpose(bar: TracedArray, src: ArrayType, *, axis: int, norm: str) -> TracedArray:
    """The real signal of a spectrum Y_k, k <= n/2: ``Re(sum_k Y_k exp(-2 pi i j k / n))``."""
    n = src.shape[axis]
    weighted = np.conjugate(bar) * _half(n, 1.0, 0.5, bar, axis)
    return apply(irdft, weighted, axis=axis, norm=OPPOSITE[norm], n=n)


def _irdft_transpose(bar: TracedArray, src: ArrayType, *, axis: int, norm: str, n: int) -> Array:
    spectrum = apply(rdft, bar, axis=axis, norm=OPPOSITE[norm])
    return np.conjugate(spectrum) * _half(n, 1.0, 2.0, spectrum, axis)


rdft = linear(
    "rdft",
    lambda x, *, axis, norm: (ArrayType(_with(x.shape, axis, x.shape[axis] // 2 + 1), np.result_type(x.dtype, np.complex64)),),
    _rdft_transpose,
    evaluate=lambda x, *, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    samples=_samples(real),
)
irdft = linear(
    "irdft",
    lambda x, *, axis, norm, n: (ArrayType(_with(x.shape, axis, n), real_dtype(x.dtype)),),
    _irdft_transpose,
    evaluate=lambda x, *, axis, norm, n: np.fft.irfft(x, n, axis, norm),
    samples=(
        Sample(lambda rng: (plane(rng, (2, 3)),), {"axis": 1, "norm": "backward", "n": 4}),
        Sample(lambda rng: (plane(rng, (3, 2)),), {"axis": 0, "norm": "ortho", "n": 5}),
        Sample(lambda rng: (plane(rng, (1, 2)),), {"axis": 0, "norm": "forward", "n": 1}),
    ),
)

# --- NumPy's functions -------------------------------------------------------------------------


def _fitted(x: TracedArray, n: int, axis: int) -> TracedArray:
    """The first `n` entries along `axis`, followed by zeros where there are fewer."""
    have = x.shape[axis]
    if have > n:
        return x[(*(slice(None),) * axis, slice(n))]
    if have == n:
        return x
    return apply(unslice, x, starts=(0,) * x.ndim, steps=(1,) * x.ndim, shape=_with(x.shape, axis, n))


def _checked(x: object, n: int | None, axis: int, default: Callable[[int], int], norm: str | None) -> tuple[TracedArray, int, int, str]:
    """The array, a length of at least 1, an axis counted from the front, a norm that exists."""
    a = traced(x)
    length = default(a.shape[axis]) if n is None else n
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
    _opposite(norm)
    return a, index(length), normal_axis(axis, a.ndim), norm or "backward"


def _complex(inverse: bool) -> Callable[..., TracedArray]:
    def transform(a: object, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> TracedArray:
        x, n, axis, norm = _checked(a, n, axis, int, norm)
        x = _fitted(x.astype(np.result_type(x.dtype, 1j)), n, axis)
        return apply(dft, x, axis=axis, norm=norm, inverse=inverse)

    return transform


fft = implements(np.fft.fft)(_complex(inverse=False))
ifft = implements(np.fft.ifft)(_complex(inverse=True))


@implements(np.fft.rfft)
def rfft(a: object, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> TracedArray:
    """Half of the spectrum of a real array."""
    x, n, axis, norm = _checked(a, n, axis, int, norm)
    if x.dtype.kind == "c":
        raise TypeError(f"numpy.fft.rfft takes real arrays, not {x.dtype}")
    single_or_more = real_dtype(np.result_type(x.dtype, 1j))
    return apply(rdft, _fitted(x.astype(single_or_more), n, axis), axis=axis, norm=norm)


@implements(np.fft.irfft)
def irfft(a: object, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> TracedArray:
    """The real array of `n` entries (even unless told) with this half of a spectrum."""
    x, n, axis, norm = _checked(a, n, axis, lambda m: 2 * (m - 1), norm)
    x = _fitted(x.astype(np.result_type(x.dtype, 1j)), n // 2 + 1, axis)
    return apply(irdft, x, axis=axis, norm=norm, n=n)


def _opposite(norm: object) -> str:
    if norm not in OPPOSITE:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return OPPOSITE[norm]


@implements(np.fft.hfft)
def hfft(a: object, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> TracedArray:
    """The real spectrum of a signal with Hermitian symmetry."""
    return irfft(np.conjugate(traced(a)), n, axis, _opposite(norm))


@implements(np.fft.ihfft)
def ihfft(a: object, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> Array:
    return np.conjugate(rfft(a, n, axis, _opposite(norm)))


# --- over several axes ------------------------------------------------------------------------

Axes = Sequence[int] | None


def _cooked(x: TracedArray, s: object, axes: Axes, *, halved: bool = False) -> tuple[list[int], list[int]]:
    """Lengths and axes as NumPy takes them; `halved` for the inverse real transform."""
    lengths = None if s is None else list(s)
    if axes is None:
        if lengths is not None:
            warn("`axes` should not be `None` if `s` is not `None` (Deprecated in NumPy 2.0).", DeprecationWarning)
        axes = range(-(x.ndim if lengths is None else len(lengths)), 0)
    places = list(axes)
    if lengths is None:
        lengths = [x.shape[a] for a in places]
        if halved:
            lengths[-1] = 2 * (lengths[-1] - 1)
    if len(lengths) != len(places):
        raise ValueError("Shape and axes have different lengths.")
    if None in lengths:
        warn("Passing an array containing `None` values to `s` is deprecated in NumPy 2.0.", DeprecationWarning)
    return [x.shape[a] if n == -1 else n for n, a in zip(lengths, places, strict=True)], places


def _each(along_axis: Callable[..., TracedArray]) -> Callable[..., TracedArray]:
    """A complex transform along one axis after the other, the last first."""

    def transform(a: object, s: object = None, axes: Axes = None, norm: str | None = None, out: object = None) -> TracedArray:
        x = traced(a)
        for n, axis in reversed(list(zip(*_cooked(x, s, axes), strict=True))):
            x = along_axis(x, n, axis, norm)
        return x

    return transform


fftn = implements(np.fft.fftn)(_each(fft))
ifftn = implements(np.fft.ifftn)(_each(ifft))


@implements(np.fft.rfftn)
def rfftn(a: object, s: object = None, axes: Axes = None, norm: str | None = None, out: object = None) -> TracedArray:
    """The real transform along the last axis, complex ones along the others."""
    x = traced(a)
    lengths, places = _cooked(x, s, axes)
    x = rfft(x, lengths[-1], places[-1], norm)
    for n, axis in reversed(list(zip(lengths[:-1], places[:-1], strict=True))):
        x = fft(x, n, axis, norm)
    return x


@implements(np.fft.irfftn)
def irfftn(a: object, s: object = None, axes: Axes = None, norm: str | None = None, out: object = None) -> TracedArray:
    x = traced(a)
    lengths, places = _cooked(x, s, axes, halved=True)
    for n, axis in zip(lengths[:-1], places[:-1], strict=True):
        x = ifft(x, n, axis, norm)
    return irfft(x, lengths[-1], places[-1], norm)


def _plane_of(several: Callable[..., TracedArray]) -> Callable[..., TracedArray]:
    def transform(a: object, s: object = None, axes: Axes = (-2, -1), norm: str | None = None, out: object = None) -> TracedArray:
        return several(a, s, axes, norm)

    return transform


for _name, _several in (("fft2", fftn), ("ifft2", ifftn), ("rfft2", rfftn), ("irfft2", irfftn)):
    FUNCTIONS[getattr(np.fft, _name)] = _plane_of(_several)


# --- the zero frequency in the middle ---------------------------------------------------------


def _shifted(x: object, axes: int | Axes, steps: Callable[[int], int]) -> Array:
    a = traced(x)
    places = tuple(range(a.ndim)) if axes is None else (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
    return np.roll(a, tuple(steps(a.shape[k]) for k in places), places)


@implements(np.fft.fftshift)
def fftshift(x: object, axes: int | Axes = None) -> Array:
    return _shifted(x, axes, lambda n: n // 2)


@implements(np.fft.ifftshift)
def ifftshift(x: object, axes: int | Axes = None) -> Array:
    return _shifted(x, axes, lambda n: -(n // 2))
