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


def stacked_hand(module: ModuleType) -> Callable[..., object]:
    """ADBench's hand without stores into arrays: all local motions stacked, then chained."""
    np = module.np

    def motions(theta):
        f = theta[6:].reshape((5, 4))
        zero = 0.0 * f[:, :1]
        x = np.concatenate((f[:, :1], f[:, 2:4], zero), axis=1).reshape((20,))
        z = np.concatenate((f[:, 1:2], zero, zero, zero), axis=1).reshape((20,))
        none = 0.0 * theta[:2]
        x, z = np.concatenate((none, x)), np.concatenate((none, z))
        cx, sx, cz, sz, o = np.cos(x), np.sin(x), np.cos(z), np.sin(z), 0.0 * x
        rows = (cz, -sz * cx, sz * sx, o, sz, cz * cx, -cz * sx, o, o, sx, cx, o, o, o, o, o + 1.0)
        return np.stack(rows, axis=1).reshape((22, 4, 4))

    def rotation(a):
        n = np.sqrt(np.sum(a**2))
        x, y, z = a[0] / n, a[1] / n, a[2] / n
        s, c = np.sin(n), np.cos(n)
        xy, xz, yz = x * y * (1 - c), x * z * (1 - c), y * z * (1 - c)
        first = (x * x + (1 - x * x) * c, xy - z * s, xz + y * s)
        second = (xy + z * s, y * y + (1 - y * y) * c, yz - x * s)
        third = (xz - y * s, yz + x * s, z * z + (1 - z * z) * c)
        return np.stack(first + second + third).reshape((3, 3))

    def objective(theta, parents, base_rel, inv_abs, base_pos, weights, corr, points):
        local, absolute = base_rel @ motions(theta), []
        for b, parent in enumerate(int(p) for p in parents):
            absolute.append(local[b] if parent < 0 else absolute[parent] @ local[b])
        transforms = np.stack(absolute) @ inv_abs
        pos = np.einsum("vb,bij,vj->vi", weights, transforms, base_pos)[:, :3]
        moved = pos @ rotation(theta[0:3]).T + theta[3:6]
        return (points - moved[corr]).reshape((-1,))

    return objective
