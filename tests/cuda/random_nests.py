"""Random NumPy functions of a few arrays, drawn by a seed: what kernels for GPUs are tested with.

Axes have a few sizes, so that shapes meet; rows are many. Entries stay moderate.
"""

from __future__ import annotations

import random

import numpy as np

ROWS = (9, 24, 37)
SHORT = (1, 2, 3, 4, 6, 9)
MOST = 4000  # entries of an array


class Draws:
    """Choices by numbers drawn before: `random` itself would make a function be traced again."""

    def __init__(self, numbers):
        self._left = iter(numbers)

    def random(self):
        return next(self._left)

    def choice(self, some):
        return some[int(self.random() * len(some))]

    def some(self, all_):
        """One of them or more, in their order."""
        found = [one for one in all_ if self.random() < 0.5]
        return found or [self.choice(all_)]


class Drawn:
    """A function drawn by a seed, and arguments for it: an array of places comes last."""

    def __init__(self, seed):
        draw, rng = random.Random(seed), np.random.default_rng(seed)
        n, a, b = draw.choice(ROWS), draw.choice(SHORT), draw.choice(SHORT)
        shapes = ((n,), (n, a), (n, b), (a, b), (n, a, b), (b, n), (a,), (n, a, 2, b))
        dtype = np.float32 if draw.random() < 0.1 else np.float64
        shapes = draw.sample(shapes, 3)
        self.args = [rng.normal(size=shape).astype(dtype) for shape in shapes]
        self.places = rng.integers(0, shapes[0][0], draw.choice((1, 5, n, 2 * n)))
        self._steps, self._results = draw.randint(2, 9), draw.randint(1, 3)
        self._numbers = tuple(draw.random() for _ in range(400))

    def __call__(self, *arrays):
        """Each step acts on earlier values; the last ones are returned."""
        draw = Draws(self._numbers)
        *made, places = arrays
        given = len(made)
        for _ in range(self._steps):
            x = draw.choice(made[-4:] if draw.random() < 0.7 else made)
            y = draw.choice(STEPS)(draw, x, made, places)
            if y is not None and 0 < y.size <= MOST:
                made.append(np.tanh(y) if draw.random() < 0.3 else y)
        return tuple((made[given:] or [np.sin(made[0])])[-self._results :])

    def loss(self, *arrays):
        """One number: of every result each entry counts."""
        return sum(np.sum(np.sin(y) * 0.3 + y * y * 0.1) for y in self(*arrays))


def _unary(draw, x, made, places):
    f = draw.choice([
        np.tanh, np.sin, np.abs, lambda x: x * x, lambda x: np.exp(-x * x), lambda x: -0.5 * x,
        lambda x: np.sqrt(x * x + 1.0), lambda x: np.where(x > 0.1, x * x, 0.5 * x),
        lambda x: np.maximum(x, 0.2), lambda x: 1.0 / (1.0 + x * x), lambda x: np.log1p(np.abs(x)),
    ])  # fmt: skip
    return f(x)


def _binary(draw, x, made, places):
    y = draw.choice(made)
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        if x.ndim * y.ndim and draw.random() < 0.5 and x.ndim + y.ndim <= 4:
            y = np.reshape(y, y.shape + (1,) * x.ndim)
        else:
            y = np.sum(y) * 0.1
        shape = np.broadcast_shapes(x.shape, y.shape)
    if np.prod(shape) > MOST:
        return None
    f = draw.choice([np.add, np.subtract, np.multiply, np.maximum, lambda x, y: x / (2.0 + y * y)])
    return f(x, y)


def _reduced(draw, x, made, places):
    f = draw.choice(
        [
            np.sum,
            np.sum,
            np.mean,
            np.max,
            np.min,
            lambda x, **k: np.prod(1.0 + 0.1 * np.tanh(x), **k),
        ]
    )
    if not x.ndim:
        return None
    return f(x, axis=tuple(draw.some(range(x.ndim))), keepdims=draw.random() < 0.4)


def _softmax(draw, x, made, places):
    if not x.ndim:
        return None
    axis = draw.choice(range(x.ndim))
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    s = np.sum(e, axis=axis, keepdims=True)
    return draw.choice([e / s, np.log(s)])


def _sliced(draw, x, made, places):
    if not x.ndim:
        return None
    at = [slice(None)] * x.ndim
    for axis in draw.some(range(x.ndim)):
        at[axis] = draw.choice(
            [
                slice(1, None),
                slice(None, -1),
                slice(None, None, -1),
                slice(None, None, 2),
                slice(1, -1),
                slice(-1, 0, -2),
                slice(0, 1),
            ]
        )
    return x[tuple(at)]


def _moved(draw, x, made, places):
    if x.ndim < 2:
        return x[:, None] if x.ndim else None
    order = sorted(range(x.ndim), key=lambda axis: draw.random())
    y = np.transpose(x, order)
    if draw.random() < 0.4:
        k = draw.choice(range(x.ndim - 1))
        y = np.reshape(y, (*y.shape[:k], y.shape[k] * y.shape[k + 1], *y.shape[k + 2 :]))
    return y


def _gathered(draw, x, made, places):
    return x[places % x.shape[0]] if x.ndim else None


def _scattered(draw, x, made, places):
    if not x.ndim or x.shape[0] != places.shape[0]:
        return None
    size = draw.choice((3, 12))
    out = np.zeros((size, *x.shape[1:]), dtype=x.dtype)
    np.add.at(out, places % size, x * 0.5)
    return out


def _stored(draw, x, made, places):
    if not x.ndim:
        return None
    out = x * 1.0
    for _ in range(draw.choice((1, 2))):
        at = [slice(None)] * x.ndim
        axis = draw.choice(range(x.ndim))
        at[axis] = draw.choice([slice(1, -1), slice(None, None, 2), slice(0, 1), slice(1, None)])
        at = tuple(at)
        kind = draw.choice(range(4))
        if kind == 0:
            out[at] = np.cos(x[at])
        elif kind == 1:
            out[at] += 0.5 * x[at] * out[at]
        elif kind == 2:
            out[at] *= 0.5
        else:
            out[at] = np.sum(x) * 0.1
    return out


def _product(draw, x, made, places):
    if x.ndim == 0:
        return None
    for y in sorted(made, key=lambda y: draw.random()):
        if not y.ndim:
            continue
        if x.ndim == 2 and y.ndim <= 2 and x.shape[1] == y.shape[0]:
            return 0.2 * (x @ y)
        if x.ndim == 2 and y.ndim == 2 and x.shape[0] == y.shape[0]:
            return 0.2 * (x.T @ y)
        if x.ndim == 2 and y.ndim == 2 and x.shape[1] == y.shape[1]:
            return 0.2 * (x @ y.T)
        if x.ndim == 3 and y.ndim == 3 and x.shape[0] == y.shape[0] and x.shape[2] == y.shape[1]:
            return 0.2 * (x @ y)
        if x.ndim >= 2 and y.shape == x.shape[1:]:
            letters = "nijklm"[: x.ndim]
            return 0.2 * np.einsum(f"{letters},{letters[1:]}->n", x, y)
        if x.ndim == 3 and y.ndim == 2 and x.shape[2] == y.shape[0]:
            return 0.2 * (x @ y)
    return None


def _running(draw, x, made, places):
    if not x.ndim:
        return None
    axis = draw.choice(range(x.ndim))
    f = draw.choice(
        [
            lambda x: np.cumsum(0.3 * x, axis=axis),
            lambda x: np.cumprod(1.0 + 0.1 * np.tanh(x), axis=axis),
            lambda x: np.maximum.accumulate(x, axis=axis),
        ]
    )
    return f(x)


def _stencil(draw, x, made, places):
    if not x.ndim:
        return None
    axis = draw.choice(range(x.ndim))
    if x.shape[axis] < 4:
        return None
    x = np.swapaxes(x, 0, axis)
    kind = draw.choice(range(4))
    if kind == 0:
        return np.diff(x, axis=0)
    if kind == 1:
        return x[2:] * x[:-2] - np.tanh(x[1:-1])
    if kind == 2:
        return np.concatenate([x[:1], x[2:] - 2.0 * x[1:-1] + x[:-2], x[-1:]], axis=0)
    if x.ndim == 1 or x.shape[1] < 4:
        return x[1:] ** 2 * x[:-1]
    return x[1:-1, 1:-1] * 4.0 - x[2:, 1:-1] - x[:-2, 1:-1] - np.exp(-x[1:-1, 2:] * x[1:-1, :-2])


def _joined(draw, x, made, places):
    if not x.ndim:
        return None
    axis = draw.choice(range(x.ndim))
    return draw.choice(
        [
            lambda: np.concatenate([x, np.sin(x)], axis=axis),
            lambda: np.stack([x, 0.5 * x], axis=axis),
            lambda: np.pad(x, 1),
            lambda: np.broadcast_to(x, (2, *x.shape)),
            lambda: np.repeat(x, 2, axis=axis),
        ]
    )()


def _rounds(draw, x, made, places):
    for _ in range(draw.choice((2, 3, 4))):
        x = np.tanh(x) * 0.9 + (0.1 * x / (1.0 + np.sum(x * x)))
    return x


STEPS = (
    *3 * (_unary,), *3 * (_binary,), *3 * (_reduced,), _softmax, _sliced, _moved, _gathered,
    _scattered, *2 * (_stored,), *2 * (_product,), _running, *2 * (_stencil,), _joined, _rounds,
)  # fmt: skip
