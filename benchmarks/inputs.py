"""The arguments of the cases: what is differentiated, and what is constant.

ADBench's sizes come from its files where the project holds them; others are drawn here, in the
ranges of those files, from a fixed seed.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np

HERE = Path(__file__).parent
USER_CODE = HERE.parent / "tests" / "user_code"
ADBENCH = HERE.parent / "tests" / "data" / "adbench"

Arguments = tuple[tuple[np.ndarray, ...], tuple[object, ...]]
Given = Callable[[], Arguments]


def functions(
    file: Path, namespace: object, special: Mapping[str, str] | None = None
) -> ModuleType:
    """The module in `file`, with `namespace` for NumPy; `special` says who has SciPy's."""
    spec = importlib.util.spec_from_file_location(f"benchmarked_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.np = namespace
    for name, owner in (special or {}).items():
        if hasattr(module, name):
            setattr(module, name, getattr(importlib.import_module(owner), name))
    return module


def loaders() -> ModuleType:
    return functions(USER_CODE / "loaders.py", np)


def drawn() -> np.random.Generator:
    return np.random.default_rng(2026)


def point(n: int) -> np.ndarray:
    """`n` entries around 1, none of them special."""
    return 1.0 + 0.5 * np.sin(1.0 + np.arange(n))


def one(n: int) -> Given:
    return lambda: ((point(n),), ())


def with_vector(n: int) -> Given:
    return lambda: ((point(n), np.cos(np.arange(n, dtype=float))), ())


def nist(name: str) -> Given:
    """At the certified parameters."""

    def arguments() -> Arguments:
        data = functions(USER_CODE / "nist.py", np).read(name)
        return (data["b"],), (data["x"],)

    return arguments


def mixture(file: str) -> Given:
    def arguments() -> Arguments:
        d = loaders().read_gmm(ADBENCH / "gmm" / file)
        return (d["alphas"], d["means"], d["icf"]), (d["x"], d["gamma"], d["m"])

    return arguments


def drawn_mixture(n: int, d: int, terms: int) -> Given:
    """Means within the unit cube, the rest normal, as ADBench's generator has them."""

    def arguments() -> Arguments:
        rng = drawn()
        xs = (
            rng.normal(size=terms),
            rng.random((terms, d)),
            rng.normal(size=(terms, d * (d + 1) // 2)),
        )
        return xs, (rng.normal(size=(n, d)), 1.0, 0)

    return arguments


def bundle(file: str) -> Given:
    def arguments() -> Arguments:
        d = loaders().read_ba(ADBENCH / "ba" / file)
        n, m, p = len(d["cams"]), len(d["X"]), len(d["w"])
        z = np.concatenate([d["cams"].ravel(), d["X"].ravel(), d["w"]])
        return (z, np.cos(np.arange(3.0 * p))), (n, m, p, d["obs"], d["feats"])

    return arguments


def text(length: int) -> Given:
    """The first `length` characters of ADBench's text."""

    def arguments() -> Arguments:
        d = loaders().read_lstm(ADBENCH / "lstm" / "lstm_l2_c1024.txt")
        return (d["main"], d["extra"]), (d["state"], d["seq"][:length])

    return arguments


def hand(file: str) -> Given:
    def arguments() -> Arguments:
        d = loaders().read_hand(ADBENCH / "hand" / "model", ADBENCH / "hand" / file, False)
        names = ("parents", "base_rel", "inv_abs", "base_pos", "weights", "corr", "points")
        return (d["theta"],), tuple(d[name] for name in names)

    return arguments


def labelled(n: int, d: int) -> Given:
    """Rows of features and labels ±1, for logistic regression."""

    def arguments() -> Arguments:
        rng = drawn()
        x, w = rng.normal(size=(n, d)), rng.normal(size=d) / np.sqrt(d)
        y = np.where(x @ w + rng.logistic(size=n) > 0.0, 1.0, -1.0)
        return (0.5 * w,), (x, y)

    return arguments


def _layers(widths: tuple[int, ...]) -> list[np.ndarray]:
    rng, layers = drawn(), []
    for rows, columns in itertools.pairwise(widths):
        layers += [rng.normal(size=(rows, columns)) / np.sqrt(rows), 0.1 * rng.normal(size=columns)]
    return layers


def network(batch: int, *widths: int) -> Given:
    """Weights and biases are differentiated."""

    def arguments() -> Arguments:
        x = np.sin(np.arange(batch * widths[0])).reshape(batch, widths[0])
        y = np.cos(np.arange(batch * widths[-1])).reshape(batch, widths[-1])
        return tuple(_layers(widths)), (x, y)

    return arguments


def network_input(*widths: int) -> Given:
    """One input is differentiated."""
    return lambda: ((point(widths[0]),), tuple(_layers(widths)))


def products(n: int) -> Given:
    def arguments() -> Arguments:
        rng = drawn()
        return (point(n),), tuple(rng.normal(size=(2, n, n)) / np.sqrt(n))

    return arguments


def cluster(n: int) -> Given:
    """Atoms near the points of a cubic lattice, and all pairs of them."""

    def arguments() -> Arguments:
        side = int(np.ceil(n ** (1 / 3)))
        lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), axis=-1)
        x = 1.2 * lattice.reshape(-1, 3)[:n] + 0.05 * np.sin(np.arange(3.0 * n)).reshape(n, 3)
        return (x,), np.triu_indices(n, 1)

    return arguments


def regression(n: int) -> Given:
    """Amplitude, length and noise (logarithms) of a Gaussian process over points in a plane."""

    def arguments() -> Arguments:
        rng = drawn()
        x = rng.random((n, 2))
        squares = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
        y = np.sin(6.0 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=n)
        return (np.array([0.1, -1.0, -1.5]),), (squares, np.eye(n), y)

    return arguments


def options(n: int) -> Given:
    """A book of calls: spot prices and volatilities are differentiated."""

    def arguments() -> Arguments:
        rng = drawn()
        strike, time = rng.uniform(80.0, 120.0, n), rng.uniform(0.1, 2.0, n)
        return (rng.uniform(80.0, 120.0, n), rng.uniform(0.1, 0.5, n)), (strike, time, 0.03)

    return arguments


def square(n: int) -> Given:
    """A bump on an n by n grid."""

    def arguments() -> Arguments:
        s = np.sin(np.pi * np.linspace(0.0, 1.0, n))
        return (0.8 * s[:, None] * s[None, :],), ()

    return arguments
