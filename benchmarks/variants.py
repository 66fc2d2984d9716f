"""What a peer's syntax forces one to write otherwise: the same mathematics in its words."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType


def jax_lstm(_: ModuleType) -> Callable[..., object]:
    """ADBench's LSTM by `lax.scan`: 33 steps of its 1,023, unrolled, take XLA a minute."""
    import jax.numpy as jnp
    from jax import lax
    from jax.nn import sigmoid

    def objective(main, extra, state, seq):
        layers = main.shape[0] // 2

        def step(carry, pair):
            inp, gold = pair
            hid, cel = carry
            x, hids, cels = inp * extra[0], [], []
            for k in range(layers):
                gates = jnp.concatenate((x, hid[k], x, hid[k])) * main[2 * k] + main[2 * k + 1]
                forget, ingate, outgate, change = jnp.split(gates, 4)
                cell = cel[k] * sigmoid(forget) + sigmoid(ingate) * jnp.tanh(change)
                x = sigmoid(outgate) * jnp.tanh(cell)
                hids.append(x)
                cels.append(cell)
            y = x * extra[1] + extra[2]
            ynorm = y - jnp.log(2.0 + jnp.sum(jnp.exp(y)))
            return (jnp.stack(hids), jnp.stack(cels)), jnp.sum(gold * ynorm)

        start = (state[0::2], state[1::2])
        _, terms = lax.scan(step, start, (seq[:-1], seq[1:]))
        return -jnp.sum(terms) / (seq.shape[1] * terms.shape[0])

    return objective
