"""Whose history a view has: every way to make one, in each mode, then a store, beside torch.

A program makes a base, views it, detaches it or not, stores into one of them, and reads both. What
is compared: the step that raises, with its message; flags, values and gradients.
"""

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fdiff.autograd as ours


def _library(package, tensor, cat):
    """The names that programs use, and two operations whose results are views of what they take."""

    class First(package.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:2]

        @staticmethod
        def backward(ctx, bar):
            return cat([bar, bar[:1] * 0])

    class Same(package.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, bar):
            return bar * 3

    return SimpleNamespace(tensor=tensor, First=First, Same=Same)


OURS = _library(
    ours, lambda x, requires: ours.tensor(np.array(x), requires_grad=requires), np.concatenate
)
OURS.no_grad, OURS.inference_mode, OURS.grad = ours.no_grad, ours.inference_mode, ours.grad
TORCH = _library(
    torch.autograd,
    lambda x, requires: torch.tensor(x, dtype=torch.float64, requires_grad=requires),
    torch.cat,
)
TORCH.no_grad, TORCH.inference_mode = torch.no_grad, torch.inference_mode
TORCH.grad = torch.autograd.grad

BASES = ("plain", "leaf", "computed")
VIEWS = {
    "slice": lambda lib, b: b[:2],
    "slice of a slice": lambda lib, b: b[:][:2],
    "rule": lambda lib, b: lib.First.apply(b),
    "rule that gives its argument": lambda lib, b: lib.Same.apply(b),
    "slice of what a rule gives": lambda lib, b: lib.Same.apply(b)[:2],
}
MODES = ("grad", "no_grad", "inference_mode")
BETWEEN = ("nothing", "detach_")
TARGETS = ("none", "view", "base", "sibling")
STORED = ("number", "recorded")


def _mode(lib, name):
    return getattr(lib, name)() if name != "grad" else lib.inference_mode(False)


def _played(lib, base, view, made_in, between, target, what, stored_in):
    """The steps of a program: what is seen, or the message at the step that raises."""
    seen = []
    x, w = lib.tensor([1.0, 2.0, 3.0], True), lib.tensor([2.0], True)
    b = x if base == "leaf" else x * 2 if base == "computed" else lib.tensor([1.0, 2.0, 3.0], False)
    try:
        with _mode(lib, made_in):
            v = VIEWS[view](lib, b)
        flagged = made_in == "grad"  # elsewhere views of leaves keep torch's flag, to no effect
        if between != "nothing":
            getattr(b, between)()
        seen.append((b.requires_grad, flagged and v.requires_grad))
        if target != "none":
            into = {"view": v, "base": b}.get(target)
            into = b[1:] if into is None else into
            with _mode(lib, stored_in):
                into *= 5.0 if what == "number" else w
            seen.append((b.requires_grad, b.tolist()))
        loss = (v * v).sum() + (b * b * b).sum()
        if loss.requires_grad:
            found = lib.grad(loss, [x, w], allow_unused=True)
            if any(g is not None for g in found):  # else torch may forget that nothing is required
                seen.append([g if g is None else g.tolist() for g in found])
    except RuntimeError as error:
        text = re.sub(r"Output 0 of \w+", "", str(error))
        if view not in ("slice", "slice of a slice"):  # torch runs rules in no_grad
            text = text.replace("inference mode and", "no_grad mode and")
        return [*seen, text[:60]]
    return seen


PROGRAMS = [
    program
    for program in itertools.product(BASES, VIEWS, MODES, BETWEEN, TARGETS, STORED, MODES[:2])
    if (program[0], program[3]) != ("leaf", "detach_")  # no leaf to differentiate by is left
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("made_in", MODES)
def test_the_history_is_that_of_torch(view, made_in):
    refused = 0
    for program in [p for p in PROGRAMS if p[1:3] == (view, made_in)]:
        expected, found = _played(TORCH, *program), _played(OURS, *program)
        if expected == found:
            continue
        # What a rule gives of its argument, unrecorded, is the argument itself to torch, whose
        # leaves are then overwritten without a word, and a detached base ends inference mode's
        # hold on its views: here each such store is refused.
        assert made_in != "grad", (program, expected, found)
        assert found[-1].startswith("A view was created in "), (program, expected, found)
        refused += 1
    assert refused <= (1 if view in ("slice", "slice of a slice") else 0 if view == "rule" else 30)
