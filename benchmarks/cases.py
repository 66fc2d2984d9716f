"""The cases: one record each, the only place that knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from . import inputs
from .inputs import HERE, USER_CODE, Given, one, with_vector
from .variants import jax_lstm, stacked_hand

Pick = Callable[[ModuleType], Callable[..., object]]

NO_ARRAYS = "CasADi has matrices, but no arrays of more dimensions and no fancy indexing"
NO_ROWS = "CasADi adds no vector to the rows of a matrix"
NO_CHOLESKY = "CasADi factors no matrix of expressions but one of scalars"


@dataclass(frozen=True)
class Case:
    """One function, one derivative of it, one set of arguments.

    `problem` and `size` say in which plot the case stands, and where. `call` names the derivative
    (a function that every peer has), `kernel` the function in `limit.KERNELS`. `pick` takes the
    function from the module `file`. `arguments` gives the differentiated arguments (for products
    with a vector, the point and the vector) and the constant ones. `variants` replaces `pick` for
    a peer whose syntax forces it; `skip` says why a peer has no part in the case.
    """

    name: str
    problem: str
    size: int
    call: str
    kernel: str
    file: Path
    pick: Pick
    arguments: Given
    variants: Mapping[str, Pick] = field(default_factory=dict)
    skip: Mapping[str, str] = field(default_factory=dict)


TITLES = {
    "value_and_grad": "value+grad",
    "hessian": "Hessian",
    "hvp": "HVP",
    "jacobian": "Jacobian",
    "vjp": "VJP",
}


def ours(
    what: str,
    call: str,
    function: str,
    size: str,
    n: int,
    arguments: Given,
    skip: str = "",
    file: str = "problems.py",
) -> Case:
    """A case of a file of this folder; `skip`, why CasADi has no part in it."""
    problem = f"{TITLES[call]} {what}"
    without = {"casadi": skip} if skip else {}
    return Case(
        f"{problem} {size}",
        problem,
        n,
        call,
        function,
        HERE / file,
        lambda m: getattr(m, function),
        arguments,
        skip=without,
    )


def users(
    what: str,
    call: str,
    file: str,
    function: str,
    size: str,
    n: int,
    arguments: Given,
    kernel: str,
    variants: Mapping[str, Pick] | None = None,
) -> Case:
    """A case of a user's code, which has arrays that CasADi does not."""
    problem = f"{TITLES[call]} {what}"
    return Case(
        f"{problem} {size}",
        problem,
        n,
        call,
        kernel,
        USER_CODE / file,
        lambda m: getattr(m, function),
        arguments,
        variants or {},
        {"casadi": NO_ARRAYS},
    )


def nist(name: str, call: str = "jacobian") -> Case:
    """The Jacobian of NIST's model with respect to its parameters, at the certified ones."""
    file, fresh = USER_CODE / "nist.py", " fresh lambda" if call == "fresh_jacobian" else ""
    title = f"Jacobian NIST {name}{fresh}"
    arguments = inputs.nist(name)
    return Case(title, title, 1, call, name, file, lambda m: m.MODELS[name], arguments)


def rosenbrock(call: str, *sizes: int) -> list[Case]:
    given = with_vector if call == "hvp" else one
    return [ours("Rosenbrock", call, "rosenbrock", f"n={n:,}", n, given(n)) for n in sizes]


def chain(*sizes: int) -> list[Case]:
    return [ours("chain", "value_and_grad", "chain", f"n={n:,}", n, one(n)) for n in sizes]


def logistic(call: str, n: int, d: int) -> Case:
    size, given = f"{n:,}×{d}", inputs.labelled(n, d)
    return ours("logistic", call, "logistic", size, n, given)


def mixture(n: str, d: int, terms: int, arguments: Given) -> Case:
    size, work = f"{n} d={d} K={terms}", int(n.removesuffix("k")) * 1000 * terms * d
    call, function = "value_and_grad", "objective"
    return users("GMM", call, "gmm.py", function, size, work, arguments, "gmm")


def bundle(p: int, file: str) -> Case:
    given, size = inputs.bundle(file), f"p={p:,}"
    return users("bundle adjustment", "vjp", "ba.py", "residual_flat", size, p, given, "bundle")


def lstm(length: int) -> Case:
    given, size, other = inputs.text(length), f"l=2 c={length}", {"jax": jax_lstm}
    call = "value_and_grad"
    return users("LSTM", call, "lstm.py", "objective", size, length, given, "lstm", other)


def hand(count: int, file: str) -> Case:
    given, size = inputs.hand(file), f"c={count:,}"
    other = dict.fromkeys(("jax", "torch", "autograd"), stacked_hand)
    call, function = "jacobian", "objective_simple"
    return users("HAND", call, "hand.py", function, size, count, given, "hand", other)


def loss(batch: int, *widths: int) -> Case:
    size = f"{batch}×" + "-".join(map(str, widths))
    given = inputs.network(batch, *widths)
    return ours("MLP", "value_and_grad", "mlp_loss", size, batch * widths[1], given, NO_ROWS)


def outputs(*widths: int) -> Case:
    size, given = "-".join(map(str, widths)), inputs.network_input(*widths)
    return ours("MLP", "jacobian", "mlp", size, widths[1], given, NO_ROWS)


def dense(n: int) -> Case:
    return ours("B tanh(A x)", "jacobian", "dense", f"n={n}", n, inputs.products(n))


def cluster(call: str, n: int) -> Case:
    given = inputs.cluster(n)
    return ours("Lennard-Jones", call, "lennard_jones", f"n={n:,}", n, given, NO_ARRAYS)


def process(n: int) -> Case:
    call, function, given = "value_and_grad", "gaussian_process", inputs.regression(n)
    return ours("Gaussian process", call, function, f"n={n}", n, given, NO_CHOLESKY)


def options(n: int) -> Case:
    given, size, file = inputs.options(n), f"n={n:,}", "pricing.py"
    return ours("Black-Scholes", "value_and_grad", "black_scholes", size, n, given, file=file)


def bratu(n: int) -> Case:
    size, given = f"{n:,}×{n:,}", inputs.square(n)
    return ours("Bratu residual", "value_and_grad", "bratu", size, n * n, given)


CASES = {
    case.name: case
    for case in [
        ours("sum(x²)", "value_and_grad", "sum_of_squares", "n=3", 3, one(3)),
        *rosenbrock("value_and_grad", 2, 10, 1000, 100_000, 5_000_000),
        *rosenbrock("hessian", 10, 100, 1000),
        *rosenbrock("hvp", 1000, 1_000_000),
        *chain(1000, 10_000, 1_000_000, 10_000_000),
        options(1000),
        options(1_000_000),
        bratu(32),
        bratu(1000),
        logistic("value_and_grad", 1000, 20),
        logistic("value_and_grad", 100_000, 50),
        logistic("hessian", 1000, 20),
        loss(32, 10, 16, 16, 1),
        loss(512, 256, 256, 256, 10),
        outputs(64, 64, 64, 10),
        dense(30),
        dense(300),
        cluster("value_and_grad", 50),
        cluster("value_and_grad", 1000),
        cluster("hessian", 20),
        process(50),
        process(500),
        *map(nist, ("MGH10", "Hahn1", "Gauss1", "ENSO")),
        nist("MGH10", "fresh_jacobian"),
        nist("Hahn1", "fresh_jacobian"),
        mixture("1k", 2, 5, inputs.mixture("1k/gmm_d2_K5.txt")),
        mixture("1k", 10, 25, inputs.mixture("1k/gmm_d10_K25.txt")),
        mixture("1k", 20, 50, inputs.mixture("1k/gmm_d20_K50.txt")),
        mixture("1k", 32, 100, inputs.drawn_mixture(1000, 32, 100)),
        mixture("10k", 10, 50, inputs.mixture("10k/gmm_d10_K50.txt")),
        bundle(31_843, "ba1_n49_m7776_p31843.txt"),
        bundle(204_472, "ba4_n372_m47423_p204472.txt"),
        lstm(64),
        lstm(1024),
        hand(192, "simple_small/hand2_t26_c192.txt"),
        hand(6400, "simple_small/hand8_t26_c6400.txt"),
    ]
}
