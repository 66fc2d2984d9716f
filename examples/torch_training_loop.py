"""A training loop of PyTorch, on NumPy arrays
===========================================

The polynomial of PyTorch's tutorial "Learning PyTorch with Examples", which imitates a sine. Two
lines differ from the original: ``import torch`` and the kind of array that random numbers are.
For new code, `fdiff.value_and_grad` of a function of a dict of arrays is faster for small arrays.
"""

import matplotlib.pyplot as plt
import numpy as np

from fdiff.autograd import no_grad, tensor

x = np.linspace(-np.pi, np.pi, 2000)
y = np.sin(x)

rng = np.random.default_rng(0)
a, b, c, d = (tensor(rng.normal(), requires_grad=True) for _ in range(4))

# %%
# Operations are recorded as they run; `backward` fills the gradients. `no_grad` is torch's, too.

learning_rate, losses = 1e-6, []
for _ in range(2000):
    y_pred = a + b * x + c * x**2 + d * x**3
    loss = ((y_pred - y) ** 2).sum()
    losses.append(loss.item())
    loss.backward()
    with no_grad():
        a -= learning_rate * a.grad
        b -= learning_rate * b.grad
        c -= learning_rate * c.grad
        d -= learning_rate * d.grad
        a.grad = b.grad = c.grad = d.grad = None

print(f"y = {a.item():.4f} + {b.item():.4f} x + {c.item():.4f} x² + {d.item():.4f} x³")

# %%
# Gradient descent is still on its way. Where it leads, linear algebra says at once.

best = np.polynomial.polynomial.polyfit(x, y, 3)
least = np.sum((np.polynomial.polynomial.polyval(x, best) - y) ** 2)
assert least < losses[-1] < 1.1 * least
assert np.allclose([b.item(), d.item()], best[[1, 3]], atol=0.02)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.semilogy(losses, label="loss")
left.axhline(least, linestyle="--", color="tab:gray", label="the least there is")
left.set(xlabel="step")
left.legend()
right.plot(x, y, label="sine")
right.plot(x, np.array(y_pred.detach()), label="polynomial")
right.legend()
plt.show()
