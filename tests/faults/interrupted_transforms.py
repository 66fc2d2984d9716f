"""More programs for `interrupted_programs`: operators, what functions read, and code of users."""

import numpy as np
from faults_support import loops_of_any_length

import fdiff
from fdiff import autograd, optimize

X = np.linspace(0.1, 0.9, 5)
ROWS = np.arange(25.0).reshape(5, 5)
VECTOR = np.full(5, 0.5)


def fresh(text, **names):
    """A function that no call has met before."""
    return eval(f"lambda x: {text}", {"np": np, **names})


def curve(k):
    """The second derivatives of ``sum(sin(x) * x) * k``, which is what most programs here have."""
    return k * (2 * np.cos(X) - X * np.sin(X))


def waves(k):
    return fresh(f"np.sum(np.sin(x) * x) * {k}.0")


def hessian(k):
    return fdiff.hessian(waves(k))(X), np.diag(curve(k))


def products(k):
    f = waves(k)
    slopes = k * (np.cos(X) * X + np.sin(X))
    forward, reverse = fdiff.jvp(f, X, VECTOR)[1], fdiff.vjp(f, X, 1.0)[1]
    wanted = [[slopes @ VECTOR], slopes, VECTOR * curve(k)]
    return np.hstack([forward, np.ravel(reverse), fdiff.hvp(f, X, VECTOR)[1]]), np.hstack(wanted)


def batch(k):
    slopes = k * (np.cos(X) * X + np.sin(X))
    return fdiff.vmap(fdiff.grad(waves(k)))(np.stack([X, X])), np.stack([slopes, slopes])


def sparse(k):
    found = fdiff.jacobian(fresh(f"x[1:] * x[:-1] * {k}.0"), sparse=True)(X)
    rows, wanted = np.arange(4), np.zeros((4, 5))
    wanted[rows, rows], wanted[rows, rows + 1] = k * X[1:], k * X[:-1]
    return found.toarray(), wanted


def c_function(k):
    compiled = fdiff.cfunc(fdiff.grad(fresh(f"np.sin(x) * {k}.0")), 0.5)
    return compiled.ctypes(0.3), k * np.cos(0.3)


def own_rule(k):
    @fdiff.custom_vjp
    def wave(x):
        return np.sin(x) * k

    wave.defvjp(lambda x: (np.sin(x) * k, x), lambda x, ct: (ct * np.cos(x) * k,))
    return fdiff.grad(lambda x: np.sum(wave(x)))(X), k * np.cos(X)


def fit(k):
    wanted = np.array([1.0, 2.0]) * k
    found = optimize.least_squares(lambda p: p - wanted, np.zeros(2)).x
    return np.asarray(found), wanted


class Model:
    """An object that a method reads, with an array and a table."""

    def __init__(self, k):
        self.scale, self.table = float(k), {"a": X * 1.0}

    def loss(self, x):
        return np.sum(np.sin(x) * self.table["a"]) * self.scale


def objects(k):
    model = Model(k)
    slope = fdiff.grad(model.loss)
    slope(X)
    model.scale, model.table["a"] = 2.0 * k, X + 1
    return slope(X), 2 * k * np.cos(X) * (X + 1)


def branches(k):
    slope = fdiff.grad(fresh(f"np.sum(np.sin(x)) * {k}.0 if x[0] > 0.5 else np.sum(x * {k}.0)"))
    return np.stack([slope(X), slope(X + 0.5)]), k * np.stack([X * 0 + 1, np.cos(X + 0.5)])


def stores(k):
    table, kept = np.zeros(5), np.zeros(5)

    def f(x):
        entries = np.zeros(5)
        for i in range(5):
            entries[i] = np.sin(x[i]) * k
        table[:] = np.arange(5.0) * k
        kept[:] = entries
        return entries.sum() + np.sum(x * table)

    found = fdiff.grad(f)(X)
    np.testing.assert_allclose(kept, k * np.sin(X))
    return found, k * (np.cos(X) + np.arange(5.0))


def routines(k):
    rows = ROWS * k
    f = lambda x: np.einsum("i,ij,j->", x, rows, x) + np.sum(np.linalg.solve(np.eye(5), x))
    return fdiff.grad(f)(X), (rows + rows.T) @ X + 1


def scans(k):
    trip = fresh(f"(x[0] + np.sin(x[1]) * {k}.0, None)")
    f = lambda x: fdiff.scan(lambda carry, row: trip((carry, row)), 0.0, x)[0]
    return fdiff.value_and_grad(f)(X)[1], k * np.cos(X)


def searches(k):
    """Newton's iteration for square roots, each with trips of its own; in a kernel, too."""
    far = lambda a: lambda x: np.abs(x * x - a) > 1e-13 * a
    root = lambda a: fdiff.while_loop(far(a), lambda x: 0.5 * (x + a / x), 1.0)
    f = fresh(f"np.sum(fdiff.vmap(root)(x)) * {k}.0", fdiff=fdiff, root=root)
    return fdiff.jit(fdiff.grad(f))(X), 0.5 * k / np.sqrt(X)


def choices(k):
    sine, product = fresh(f"np.sin(x) * {k}.0"), fresh(f"x * {k}.0")
    f = lambda x: np.sum(fdiff.vmap(lambda a: fdiff.cond(a > 0.5, sine, product, a))(x))
    return fdiff.grad(f)(X), np.where(X > 0.5, k * np.cos(X), k)


def python_loops(k):
    """A plain loop that stores into an array, and is traced once."""
    text = f"""
def f(x):
    rows, s = np.zeros(16), x[1]
    for i in range(16):
        s = np.sin(s) * 0.5 + x[0] * {k}.0
        rows[i] = s
    return np.sum(rows)
"""
    exec(text, names := {"np": np})
    with loops_of_any_length():
        found = fdiff.grad(names["f"])(X)
    wanted, s, moved = np.zeros(5), X[1], np.eye(5)[1]
    for _ in range(16):
        s, moved = np.sin(s) * 0.5 + X[0] * k, 0.5 * np.cos(s) * moved + k * np.eye(5)[0]
        wanted += moved
    return found, wanted


def graph(k):
    x = autograd.tensor(X, requires_grad=True)
    (slope,) = autograd.grad((np.sin(x) * x).sum() * float(k), [x], create_graph=True)
    (found,) = autograd.grad(slope.sum(), [x])
    return np.asarray(found), curve(k)


TRANSFORMS = {
    program.__name__: program
    for program in (
        hessian, products, batch, sparse, c_function, own_rule, fit, objects, branches, stores,
        routines, scans, searches, choices, python_loops, graph,
    )
}  # fmt: skip
