"""ADBench's LSTM: forward through the text with what the way back needs, then back.

The width of the data, 14, is rounded up to whole vectors, a constant that the compiler knows: loops
over it have neither remainder nor branch. What stands beyond is zero and stays zero.
"""

from __future__ import annotations

import numpy as np

from .maths import exp, log, sigmoid, tanh
from .settings import kernel

Array = np.ndarray

LANES = 16


@kernel
def _forward(main: Array, gates: Array, cells: Array, bents: Array, hiddens: Array) -> None:
    """All steps. `hiddens[t + 1, 0]` is the input of step t, above it stand the layers' states.

    Rows are reached by indices, as views of them would be counted, which takes longer than a row.
    A loop writes to one array alone: with several LLVM gives up proving that none is another.
    """
    row = np.empty(7 * LANES)
    for t in range(gates.shape[0]):
        for n in range(gates.shape[1]):
            for k in range(LANES):
                x, h = hiddens[t + 1, n, k], hiddens[t, n + 1, k]
                forget = sigmoid(x * main[n, 0, 0, k] + main[n, 1, 0, k])
                ingate = sigmoid(h * main[n, 0, 1, k] + main[n, 1, 1, k])
                outgate = sigmoid(x * main[n, 0, 2, k] + main[n, 1, 2, k])
                change = tanh(h * main[n, 0, 3, k] + main[n, 1, 3, k])
                cell = cells[t, n, k] * forget + ingate * change
                bent = tanh(cell)
                row[k], row[LANES + k] = forget, ingate
                row[2 * LANES + k], row[3 * LANES + k] = outgate, change
                row[4 * LANES + k], row[5 * LANES + k] = cell, bent
                row[6 * LANES + k] = outgate * bent
            for gate in range(4):
                for k in range(LANES):
                    gates[t, n, gate, k] = row[gate * LANES + k]
            for k in range(LANES):
                cells[t + 1, n, k] = row[4 * LANES + k]
            for k in range(LANES):
                bents[t, n, k] = row[5 * LANES + k]
            for k in range(LANES):
                hiddens[t + 1, n + 1, k] = row[6 * LANES + k]


@kernel
def _losses(hiddens: Array, extra: Array, seq: Array, bars: Array, b: int) -> float:
    """sum(gold (y - log(2 + sum(exp(y))))) of all steps; its slopes in y into `bars`.

    Outside of the recurrence, so that neither exp nor log waits for the step before.
    """
    steps, last, total = bars.shape[0], hiddens.shape[1] - 1, 0.0
    for t in range(steps):
        for k in range(LANES):
            bars[t, k] = hiddens[t + 1, last, k] * extra[1, k] + extra[2, k]
    masses, norms = np.empty(steps), np.empty(steps)
    for t in range(steps):
        mass = 0.0
        for k in range(LANES):
            mass += seq[t + 1, k]
            total += seq[t + 1, k] * bars[t, k]
        masses[t] = mass
    flat = bars.reshape(steps * LANES)
    for k in range(flat.size):
        flat[k] = exp(flat[k])
    for t in range(steps):
        norm = 2.0 - (LANES - b)  # exp(0) in each lane beyond
        for k in range(LANES):
            norm += bars[t, k]
        norms[t] = norm
    for t in range(steps):
        total -= masses[t] * log(norms[t])
    for t in range(steps):
        scale = masses[t] / norms[t]
        for k in range(LANES):
            bars[t, k] = seq[t + 1, k] - scale * bars[t, k]
    return total


@kernel
def _backward(main: Array, kept: tuple, bars: Array, main_bar: Array) -> None:
    """`bars[t]`, the slope in the last layer's state of step t, becomes that in its input."""
    gates, cells, bents, hiddens = kept
    layers = main.shape[0]
    h_bars, c_bars = np.zeros((layers, LANES)), np.zeros((layers, LANES))
    x_bars, row = np.empty(LANES), np.empty(7 * LANES)
    for t in range(bars.shape[0] - 1, -1, -1):
        for k in range(LANES):
            x_bars[k] = bars[t, k]
        for n in range(layers - 1, -1, -1):
            for k in range(LANES):
                forget, ingate = gates[t, n, 0, k], gates[t, n, 1, k]
                outgate, change = gates[t, n, 2, k], gates[t, n, 3, k]
                bent, hidden_bar = bents[t, n, k], h_bars[n, k] + x_bars[k]
                c = c_bars[n, k] + hidden_bar * outgate * (1.0 - bent * bent)
                bar0 = c * cells[t, n, k] * forget * (1.0 - forget)
                bar1 = c * change * ingate * (1.0 - ingate)
                bar2 = hidden_bar * bent * outgate * (1.0 - outgate)
                bar3 = c * ingate * (1.0 - change * change)
                row[k], row[LANES + k] = bar0, bar1
                row[2 * LANES + k], row[3 * LANES + k] = bar2, bar3
                row[4 * LANES + k] = c * forget
                row[5 * LANES + k] = bar1 * main[n, 0, 1, k] + bar3 * main[n, 0, 3, k]
                row[6 * LANES + k] = bar0 * main[n, 0, 0, k] + bar2 * main[n, 0, 2, k]
            for gate in range(4):
                for k in range(LANES):
                    bar = row[gate * LANES + k]
                    x, h = hiddens[t + 1, n, k], hiddens[t, n + 1, k]
                    main_bar[n, 0, gate, k] += bar * (h if gate % 2 else x)
                for k in range(LANES):
                    main_bar[n, 1, gate, k] += row[gate * LANES + k]
            for k in range(LANES):
                c_bars[n, k] = row[4 * LANES + k]
            for k in range(LANES):
                h_bars[n, k] = row[5 * LANES + k]
            for k in range(LANES):
                x_bars[k] = row[6 * LANES + k]
        for k in range(LANES):
            bars[t, k] = x_bars[k]


@kernel
def _all(main: Array, extra: Array, state: Array, seq: Array, b: int, slopes: tuple) -> float:
    (steps, layers), (main_bar, extra_bar) = (seq.shape[0] - 1, main.shape[0]), slopes
    gates, bents = np.empty((steps, layers, 4, LANES)), np.empty((steps, layers, LANES))
    cells = np.empty((steps + 1, layers, LANES))
    hiddens = np.empty((steps + 1, layers + 1, LANES))
    for n in range(layers):
        for k in range(LANES):
            hiddens[0, n + 1, k], cells[0, n, k] = state[n, 0, k], state[n, 1, k]
    for t in range(steps):
        for k in range(LANES):
            hiddens[t + 1, 0, k] = seq[t, k] * extra[0, k]
    _forward(main, gates, cells, bents, hiddens)
    bars = np.empty((steps, LANES))
    value = _losses(hiddens, extra, seq, bars, b)
    for t in range(steps):
        for k in range(LANES):
            extra_bar[1, k] += bars[t, k] * hiddens[t + 1, layers, k]
            extra_bar[2, k] += bars[t, k]
            bars[t, k] *= extra[1, k]
    _backward(main, (gates, cells, bents, hiddens), bars, main_bar)
    for t in range(steps):
        for k in range(LANES):
            extra_bar[0, k] += bars[t, k] * seq[t, k]
    return value


def _padded(x: Array, *shape: int) -> Array:
    """`x` in the given shape, its last dimension in lanes of its own."""
    out = np.zeros((*shape[:-1], LANES))
    out[..., : shape[-1]] = x.reshape(shape)
    return out


def lstm_value_and_grad(
    main: Array, extra: Array, state: Array, seq: Array
) -> tuple[float, tuple[Array, Array]]:
    (steps, b), layers = seq.shape, main.shape[0] // 2
    assert b <= LANES
    wide = (
        _padded(main, layers, 2, 4, b),
        _padded(extra, 3, b),
        _padded(state, layers, 2, b),
        _padded(seq, steps, b),
    )
    slopes = np.zeros_like(wide[0]), np.zeros_like(wide[1])
    scale = -1.0 / ((steps - 1) * b)
    value = scale * _all(*wide, b, slopes)
    main_bar, extra_bar = (scale * slope[..., :b] for slope in slopes)
    return value, (main_bar.reshape(main.shape), extra_bar)
