"""American option with Greeks
===========================

A put that can be exercised early, on a binomial tree (J. Cox, S. Ross and M. Rubinstein, "Option
pricing: a simplified approach", Journal of Financial Economics 7, 1979). One reverse sweep gives
all of its sensitivities. Early exercise makes a kink, which is harmless. A barrier would make a
jump that moves with the spot: it needs a grid with the barrier on a line (:doc:`/sharp-bits`).
"""

import matplotlib.pyplot as plt
import numpy as np

import fdiff


def put(spot: float, rate: float, sigma: float, years: float, strike: float = 40.0) -> float:
    """The price: backwards through the tree, by the better of waiting and exercising."""
    steps = 400
    dt = years / steps
    up = np.exp(sigma * np.sqrt(dt))
    discount = np.exp(-rate * dt)
    chance = (1.0 / discount - 1.0 / up) / (up - 1.0 / up)
    moves = np.arange(-steps, steps + 1, 2.0)
    value = np.maximum(strike - spot * up**moves, 0.0)
    for _ in range(steps):
        moves = moves[:-1] + 1.0
        wait = discount * (chance * value[1:] + (1.0 - chance) * value[:-1])
        value = np.maximum(wait, strike - spot * up**moves)
    return value[0]


# %%
# The contract of F. Longstaff and E. Schwartz, "Valuing American options by simulation", Review of
# Financial Studies 14, 2001, table 1, whose price is 4.478.

greeks = fdiff.value_and_grad(put, argnums=(0, 1, 2, 3))
price, (delta, rho, vega, theta) = greeks(36.0, 0.06, 0.2, 1.0)
print(f"price {price:.3f}, delta {delta:.3f}, rho {rho:.2f}, vega {vega:.2f}, theta {-theta:.2f}")
assert abs(price - 4.478) < 0.01
slope = (put(36.01, 0.06, 0.2, 1.0) - put(35.99, 0.06, 0.2, 1.0)) / 0.02
assert abs(delta - slope) < 0.01

# %%
# Below about 34 it is best to exercise at once: the price is a line of slope -1, and no other
# parameter matters.

spots = np.linspace(30.0, 50.0, 81)
rows = [greeks(spot, 0.06, 0.2, 1.0) for spot in spots]
assert np.allclose(rows[0][1], [-1.0, 0.0, 0.0, 0.0])
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharex=True)
axes[0].plot(spots, np.maximum(40.0 - spots, 0.0), "--", color="tab:gray", label="exercised now")
axes[0].plot(spots, [row[0] for row in rows], label="price")
axes[0].legend()
axes[1].plot(spots, [row[1][0] for row in rows], color="tab:orange")
axes[1].set_title("delta")
axes[2].plot(spots, [row[1][2] for row in rows], label="vega")
axes[2].plot(spots, [row[1][1] for row in rows], label="rho")
axes[2].legend()
for panel in axes:
    panel.set_xlabel("price of the share")
plt.show()
