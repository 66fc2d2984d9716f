"""Matrices as pictures: where entries are, and how large they are."""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from .picture import Picture
from .svg import bitmap, element, text

_MOST_CELLS = 200  # pixels of a side: more entries share one
_SIDE = 280.0  # of the longer side of a matrix, in units of the picture
_LEAST = 12.0  # of the shorter one
_POSITIVE, _NEGATIVE, _APART = (214, 120, 40), (58, 122, 200), (205, 60, 60)
_PLACES = (70, 130, 200)


def spy_plot(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], what: str) -> Picture:
    """Where entries of a matrix are; a pixel that several share is as dense as they are."""
    cells, width, height = _grid(shape)
    per_cell = np.maximum(np.array(shape) / np.maximum(cells, 1), 1.0)
    place = (rows / per_cell[0]).astype(np.int64) * cells[1] + (columns / per_cell[1]).astype(
        np.int64
    )
    counts = np.bincount(place, minlength=cells[0] * cells[1]).reshape(cells)
    most = max(int(counts.max(initial=0)), 1)
    density = np.where(counts > 0, 0.35 + 0.65 * np.sqrt(counts / most), 0.0)
    picture = _framed(_coloured(density, _PLACES), 1.0, 22.0, width, height)
    share = rows.size / max(shape[0] * shape[1], 1)
    words = f"{shape[0]:,} × {shape[1]:,}, {rows.size:,} entries ({share:.2g} of all)"
    head = text(words, 1.0, 14.0)
    return Picture(
        f"{what}, {words}", [head, *picture], max(width + 2, 7.0 * len(words)), height + 24
    )


def heat_maps(matrices: Sequence[tuple[str, np.ndarray]], apart: int, what: str) -> Picture:
    """Matrices of one shape beside each other; matrix `apart` is of errors, red on its own scale.

    Of entries that share a pixel the largest is drawn. What is not finite is drawn as the largest.
    """
    parts: list[str] = []
    cells, width, height = _grid(matrices[0][1].shape)
    step = max(width, 190.0) + 26.0
    common = max(_largest(m) for k, (_, m) in enumerate(matrices) if k != apart)
    for k, (name, matrix) in enumerate(matrices):
        scale = _largest(matrix) if k == apart else common
        x = 1.0 + k * step
        shown = _strongest(matrix, cells) / scale
        tints = np.where(shown[..., None] < 0, _NEGATIVE, _APART if k == apart else _POSITIVE)
        parts += [
            text(name, x, 14.0),
            *_framed(_coloured(np.abs(shown), tints), x, 22.0, width, height),
        ]
        parts.append(text(f"full colour: {scale:.3g}", x, 38.0 + height, 11.0, fill_opacity=0.75))
    return Picture(what, parts, step * len(matrices), height + 46.0)


def _grid(shape: tuple[int, ...]) -> tuple[tuple[int, int], float, float]:
    """Pixels of both sides, and how wide and high the matrix is drawn."""
    rows, columns = max(shape[0], 1), max(shape[1], 1)
    longer = max(rows, columns)
    side = min(_SIDE, 24.0 * longer)
    width, height = (max(side * n / longer, _LEAST) for n in (columns, rows))
    return (min(rows, _MOST_CELLS), min(columns, _MOST_CELLS)), width, height


def _largest(matrix: np.ndarray) -> float:
    sizes = np.abs(matrix[np.isfinite(matrix)])
    return float(sizes.max(initial=0.0)) or 1.0


def _strongest(matrix: np.ndarray, cells: tuple[int, int]) -> np.ndarray:
    """For each pixel the entry that is largest in size, with its sign."""
    largest = _largest(matrix)
    matrix = np.nan_to_num(matrix, nan=largest, posinf=largest, neginf=-largest)
    for axis, count in enumerate(cells):
        if matrix.shape[axis] > count:
            starts = np.arange(count) * matrix.shape[axis] // count
            high = np.maximum.reduceat(matrix, starts, axis=axis)
            low = np.minimum.reduceat(matrix, starts, axis=axis)
            matrix = np.where(high >= -low, high, low)
    return matrix


def _coloured(opacity: np.ndarray, colour: np.ndarray | tuple[int, int, int]) -> np.ndarray:
    """Pixels of one colour, or of one for each."""
    pixels = np.empty((*opacity.shape, 4), np.uint8)
    pixels[..., :3] = colour
    pixels[..., 3] = np.rint(255.0 * np.clip(opacity, 0.0, 1.0))
    return pixels


def _framed(pixels: np.ndarray, x: float, y: float, width: float, height: float) -> list[str]:
    """Pixels, and a frame in the colour of the text."""
    frame = element(
        "rect", x=x, y=y, width=width, height=height, fill="none", stroke="currentColor",
        stroke_opacity=0.5,
    )  # fmt: skip
    return [*([bitmap(pixels, x, y, width, height)] if pixels.size else []), frame]
