"""Functions whose derivatives are products of matrices, each written as several people would.

Plain NumPy: a peer gets this very file with its own namespace in the place of `np`.
"""

import numpy as np
from scipy.special import expit

# --- the loss of logistic regression, labels ±1, with a ridge -------------------------------------


def log1p_of_exp(w, x, y):
    return np.sum(np.log1p(np.exp(-y * (x @ w)))) / x.shape[0] + 0.005 * np.sum(w * w)


def logaddexp(w, x, y):
    return np.logaddexp(0.0, -y * np.dot(x, w)).mean() + 0.005 * w @ w


def cross_entropy(w, x, y):
    """Labels 0 and 1, and the probabilities."""
    t = 0.5 * (y + 1.0)
    p = expit(np.einsum("ij,j->i", x, w))
    loss = -np.mean(t * np.log(p) + (1.0 - t) * np.log(1.0 - p))
    return loss + 0.005 * np.dot(w, w)


def softplus_of_sum(w, x, y):
    z = np.sum(x * w, axis=1) * y
    return np.mean(np.log(1.0 + np.exp(-z))) + 0.005 * np.sum(w**2)


# --- vector functions with two products -----------------------------------------------------------


def tanh_between(x, a, b):
    return b @ np.tanh(a @ x)


def tanh_of_dots(x, a, b):
    return np.dot(b, np.tanh(a.dot(x)))


def tanh_of_einsum(x, a, b):
    return np.einsum("ij,j->i", b, np.tanh(np.einsum("ij,j->i", a, x)))


def tanh_of_rows(x, a, b):
    """Vectors from the left."""
    return np.tanh(x @ a.T) @ b.T


def tanh_of_columns(x, a, b):
    return np.matmul(b, np.tanh(np.matmul(a, x[:, None])))[:, 0]


def tanh_of_sums(x, a, b):
    return np.sum(b * np.tanh(np.sum(a * x, axis=1)), axis=1)


def sine_outside(x, a, b):
    return np.sin(a @ (b @ x))


def sine_of_chain(x, a, b):
    return np.sin(np.linalg.multi_dot([a, b, x]))


def sine_of_einsum(x, a, b):
    return np.sin(np.einsum("ij,jk,k->i", a, b, x))


def sine_of_product(x, a, b):
    """The matrices are multiplied first."""
    return np.sin((a @ b) @ x)


def sine_of_rows(x, a, b):
    """Vectors from the left."""
    return np.sin(x @ b.T @ a.T)


def sine_of_columns(x, a, b):
    return np.sin(np.matmul(a, np.matmul(b, x[:, None])))[:, 0]


# --- a network with two hidden layers -------------------------------------------------------------


def tanh_network(x, w1, b1, w2, b2, w3, b3):
    return np.tanh(np.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3


def tanh_network_of_layers(x, *parameters):
    """A loop over pairs of weights and biases."""
    h = x
    layers = list(zip(parameters[::2], parameters[1::2], strict=True))
    for w, b in layers[:-1]:
        h = np.tanh(np.dot(h, w) + b)
    w, b = layers[-1]
    return np.dot(h, w) + b


def tanh_network_of_einsum(x, w1, b1, w2, b2, w3, b3):
    h = np.tanh(np.einsum("ij,i->j", w1, x) + b1)
    h = np.tanh(np.einsum("ij,i->j", w2, h) + b2)
    return np.einsum("ij,i->j", w3, h) + b3


def tanh_network_of_transposes(x, w1, b1, w2, b2, w3, b3):
    h = np.tanh(w1.T @ x + b1)
    h = np.tanh(w2.T @ h + b2)
    return w3.T @ h + b3


def relu_network(x, w1, b1, w2, b2, w3, b3):
    h = np.maximum(x @ w1 + b1, 0.0)
    h = np.maximum(h @ w2 + b2, 0.0)
    return h @ w3 + b3


def relu_network_by_where(x, w1, b1, w2, b2, w3, b3):
    h = x @ w1 + b1
    h = np.where(h > 0.0, h, 0.0)
    h = h @ w2 + b2
    return np.where(h > 0.0, h, 0.0) @ w3 + b3


def relu_network_by_clip(x, w1, b1, w2, b2, w3, b3):
    h = np.clip(x @ w1 + b1, 0.0, None)
    return np.clip(h @ w2 + b2, 0.0, None) @ w3 + b3


def relu_network_by_product(x, w1, b1, w2, b2, w3, b3):
    h = x @ w1 + b1
    h = (h * (h > 0.0)) @ w2 + b2
    return (h * (h > 0.0)) @ w3 + b3


def sigmoid_network(x, w1, b1, w2, b2, w3, b3):
    h = 1.0 / (1.0 + np.exp(-(x @ w1 + b1)))
    h = 1.0 / (1.0 + np.exp(-(h @ w2 + b2)))
    return h @ w3 + b3


def expit_network(x, w1, b1, w2, b2, w3, b3):
    return expit(expit(x @ w1 + b1) @ w2 + b2) @ w3 + b3
