"""Random programs that read and store by masks of traced arrays, in loops and outside of them.

``python tests/random_masked_programs.py FIRST COUNT`` compares so many programs with exact numbers,
traced in both ways, and prints how many are wrong, and how many hold a loop node.
"""

import random
import sys

import numpy as np
import pytest
from loop_ways import WAYS, agrees, loops_on_tape

POINT = np.array([0.7, -0.4, 0.3, 1.1])
BEGIN = """
def f(x):
    u = 1.0 * x
    w = np.linspace(-1.0, 1.0, 12).reshape(4, 3) * x[0] + 0.2 * x[:, None]
    s = x[1] * x[2]
"""
END = "    return np.sum(np.sin(u)) + np.sum(w * w) * 0.1 + s\n"
MASKS = ("u > 0.2123", "u < s - 0.0123", "w[:, 1] > 0.0123", "x > u + 0.0321", "u > 9.0")


def program(seed):
    """The text of a program: two arrays change in place, by masks that depend on them."""
    choices = random.Random(seed)
    lines = _block(choices, 1, choices.randint(0, 2))
    lines.append(f"    for k in range({choices.choice([4, 9, 17])}):")
    lines += _block(choices, 2, choices.randint(2, 5), ("k % 3",))
    if choices.random() < 0.4:
        lines.append(f"        for j in range({choices.choice([2, 3])}):")
        lines += _block(choices, 3, choices.randint(1, 3), ("k % 3", "j"))
    lines += _block(choices, 1, choices.randint(0, 2))
    return BEGIN + "\n".join(lines) + "\n" + END


def _block(choices, depth, count, columns=()):
    return ["    " * depth + line for _ in range(count) for line in _statement(choices, columns)]


def _statement(choices, columns):
    """One statement, or several."""
    number = choices.choice(["0.9", "0.05", "s", "x[3]", "-0.3", "-0.0"])
    column = choices.choice([0, 2, -1, *columns])
    op = choices.choice("+-*")
    mask = f"m = {choices.choice(MASKS)}"
    store = choices.choice(
        [
            [mask, f"u[m] {op}= {number}"],
            [mask, f"u[m] {op}= {number}", "u[~m] *= 0.9"],
            [mask, f"u[m] = 0.5 * u[m] + {number} * x[m]"],
            [mask, f"u[m] = -u[m] {op} {number}", "u[np.sum(m) - 1] *= 0.9"],
            [mask, f"w[m, {column}] {op}= {number}"],
            [mask, f"w[m, {column}] = {number}"],
            [mask, f"w[m] {op}= np.array([0.1, {number}, 0.9])"],
            [mask, f"w[m, 1:] {op}= w[m, :2]"],
            [mask, f"w[:, {column}][m] = {number}"],
            [mask, f"w.T[:, m] = w.T[:, m] {op} {number}"],
            [mask, "p = u[m]", "u *= 0.95", f"p {op}= {number}", "u[m] = p"],
            [
                mask,
                "v = u[:]",
                f"p = v[m] * {number}",
                "u = 0.9 * u",
                "v[m] = p",
                "u = u + 0.1 * v",
            ],
            [mask, f"p = u[m] {op} {number}", "m = u > 0.1123", "u[m] *= 0.5", "u[0] += np.sum(p)"],
            [mask, "u[m] = np.sin(u[m])"],
            [mask, "s = s * 0.5 + 0.1 * np.sum(u[m] * x[m])"],
            [mask, "p = w[m]", "w[m] = 0.9 * p + 0.1 * p * p"],
            ["m = w > 0.1123", f"w[m] {op}= {number}"],
            ["m = w[:, :2] > 0.1123", f"w[:, 1:][m] {op}= {number}"],
        ]
    )
    other = choices.choice(
        [
            "u = np.tanh(u) + 0.1 * x",
            "s = np.cos(s) * 0.5 + u[0]",
            "w = np.sin(w) + 0.1 * u[:, None]",
        ]
    )
    return store if choices.random() < 0.8 else [other]


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    wrong = nodes = 0
    for seed in range(first, first + count):
        text, patch = program(seed), pytest.MonkeyPatch()
        for way in WAYS:
            try:
                agrees(text, "f", POINT, way, patch)
            except Exception as error:  # noqa: BLE001 - it is reported
                wrong += 1
                print(seed, way, type(error).__name__, error, text, flush=True)
        nodes += loops_on_tape(text, "f", POINT, "check", patch) > 0
        patch.undo()
    print(f"{count} programs, {wrong} wrong, {nodes} with a loop node")
