"""The simplifier's loops enter what the plain loops beside them enter, node for node."""

import numpy as np
import pytest
from test_textbook_reverse import PROGRAMS, A, X

import fdiff
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import Simplifier, textbook_replay, textbook_splice


def repeated(x, a):
    """So often that templates of rules take the place of rules, whose steps are spliced."""
    for k in range(9):
        x = np.sin(x) * x + np.where(x > 0.1 * k, x / (1.0 + x * x), a[k % 5])
        x[1] = x[0] * x[2]
        x = np.maximum(x, 0.0 * x) - 1.0 * (a @ x) ** 2
    return x


SIMPLIFIED = {**PROGRAMS, "a long chain": repeated}


def state(builder, ids):
    return builder.nodes, builder.inputs, builder.notable, builder.constants, builder.lines, ids


@pytest.mark.parametrize("name", SIMPLIFIED)
@pytest.mark.parametrize("derived", [None, jvp, vjp])
def test_a_replay_enters_what_the_textbook_enters(name, derived):
    tape = fdiff.make_tape(SIMPLIFIED[name], X, A)
    if derived is not None:
        tape = derived(tape, (0, 1))
    fast, plain = Simplifier(), Simplifier()
    assert state(fast, fast.replay(tape)) == state(plain, textbook_replay(plain, tape))


@pytest.mark.parametrize("name", SIMPLIFIED)
@pytest.mark.parametrize("derived", [jvp, vjp])
def test_a_splice_enters_what_the_textbook_enters(name, derived, monkeypatch):
    tape = fdiff.make_tape(SIMPLIFIED[name], X, A)
    for _ in range(9):
        derived(tape, (0, 1))  # templates are there from now on
    fast, spliced = derived(tape, (0, 1)), []

    def counted(builder, steps, ids, line):
        spliced.append(len(steps))
        textbook_splice(builder, steps, ids, line)

    monkeypatch.setattr(Simplifier, "splice", counted)
    plain = derived(tape, (0, 1))
    assert (fast.nodes, fast.outputs, fast.lines) == (plain.nodes, plain.outputs, plain.lines)
    assert sum(spliced) > 100 or SIMPLIFIED[name] is not repeated
