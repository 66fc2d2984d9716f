"""A loop that is met again with arguments of other kinds, none of which is taken for another."""

import random

import numpy as np
import pytest
from faults_support import LONG

import fdiff
from fdiff.interpret import evaluate
from fdiff.trace import looping
from fdiff.transforms.pipeline import HVP, derive

POINT = np.array([0.7131, 0.3217, 0.5079])


def arguments(x):
    """One of each kind, by name; some are views or other names of others."""
    kept, table = np.zeros(3), np.zeros((3, 3))
    kept[:] = 0.5 * x
    table[:] = np.outer(x, np.cos(x))
    product = x * 0.8
    return {
        "argument": x, "product": product, "again": product, "sine": np.sin(x), "kept": kept,
        "kept again": kept, "row": table[1], "column": table[:, 2], "part": kept[:],
        "scalar": x[1], "number": 0.7, "another number": 0.3, "integer": 1,
        "constant": np.array([0.4, 0.2, 0.6]), "local": np.full(3, 0.35), "none": None,
        "reversed": product[::-1],
    }  # fmt: skip


NAMES = [*arguments(POINT)]
OPERANDS = [name for name in NAMES if name != "none"]
STORED = ["kept", "kept again", "row", "column", "part", "local"]


def loop(kind, a, b, c, d):
    """Some trips of a loop, of some kinds."""
    s, matrix = np.cos(b) * np.ones(3), 0.1 * np.arange(9.0).reshape(3, 3)
    if kind == "bounds":
        for _ in range(22):
            s = np.clip(np.sin(s), a, 5.0)
            s = s * b + np.where(s > 0.2, s, c) * 0.1
    elif kind == "operands":
        for k in range(22):
            s = np.multiply(np.sin(s), b)
            s = np.add(0.1 * k, s) * c + b * 0.1
    elif kind == "products":
        for _ in range(22):
            s = np.dot(matrix, s) + np.sum(s * b)
            s = np.stack([s * c, np.sin(s) + b]).mean(axis=0)
    else:
        for k in range(22):
            d[k % 3] = np.sin(s[(k + 1) % 3])
            s = 0.5 * s + b * 0.1 + c * d
            if kind == "stores":
                d *= 0.9
    return np.sum(s)


def program(choices):
    """A function that runs one loop of the same lines with several sets of arguments."""
    kind = choices.choice(["bounds", "operands", "products", "stores", "entries"])
    entries = []
    for _ in range(4):
        few = choices.sample(OPERANDS, 2)  # often one array stands for several arguments
        first = choices.choice([*few, "none"])
        entries.append((first, *choices.choices(few, k=2), choices.choice(STORED)))
    fresh = choices.random() < 0.5

    def f(x):
        total, given = 0.0, arguments(x)
        for names in entries:
            given = arguments(x + 0.1 * total) if fresh else given
            total = total + 0.3 * np.tanh(loop(kind, *[given[name] for name in names]))
        return total + np.sum(given["kept"] * given["product"])

    return f, (kind, entries)


def derivatives(f, way, monkeypatch):
    """The value, the gradient and a product of the Hessian, by one tape that NumPy runs."""
    monkeypatch.setenv("FDIFF_LOOPS", way)
    fdiff.cache_clear()
    tape = derive(HVP, fdiff.make_tape(f, POINT), wrt=[0], keep=[0, 1, 3])
    return evaluate(tape, POINT, np.cos(POINT))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(60 if LONG else 2))
def test_arguments_of_other_kinds(block, monkeypatch):
    monkeypatch.setattr(looping, "SLEEP", 0)
    for seed in range(10 * block, 10 * block + 10):
        f, told = program(random.Random(seed))
        plain = f(POINT)
        checked, unrolled = (derivatives(f, way, monkeypatch) for way in ("check", "unroll"))
        np.testing.assert_allclose(checked[0], plain, rtol=1e-12, err_msg=str(told))
        for a, b in zip(checked, unrolled, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12, err_msg=str(told))


def test_no_argument_stands_for_one_that_is_not_there_yet(monkeypatch):
    """What the first trip fills in later is not taken for a bound that is None, or a number."""

    def f(x):
        total, w, v = 0.0, x * 2.0, np.zeros(3)
        v[:] = x
        for low, factor, u in [(w, v, v), (None, 0.7, x), (w, x, w)]:
            s = np.cos(x)
            for _ in range(20):
                s = np.clip(np.multiply(np.sin(s), factor), low, 5.0) * u + 0.1
                s = np.multiply(low if low is not None else 1.0, s) * 0.9
            total = total + np.sum(s)
        return total

    monkeypatch.setattr(looping, "SLEEP", 0)
    for way in ("check", "unroll"):
        np.testing.assert_allclose(derivatives(f, way, monkeypatch)[0], f(POINT), rtol=1e-13)
