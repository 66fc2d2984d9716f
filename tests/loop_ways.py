"""Programs with Python loops, as texts: each way to trace them beside numbers that are exact."""

import numpy as np
from second_order_numbers import exact, functions_of

import fdiff
from fdiff.trace import looping

WAYS = ("unroll", "check")
TOLERANCE = 1e-12  # of the largest intermediate number of a kind


def fresh(text, name, way, monkeypatch):
    """A function of a program, which is new to fdiff; calls are compared from the first one on."""
    monkeypatch.setenv("FDIFF_LOOPS", way)
    monkeypatch.setattr(looping, "SLEEP", 0)
    fdiff.cache_clear()
    return functions_of(text, name)[name]


def loops_on_tape(text, name, x, way, monkeypatch):
    """How many loop nodes the trace of a program has."""
    tape = fdiff.make_tape(fresh(text, name, way, monkeypatch), x.copy())
    return len({i for i, _, _ in tape.bodies()})


def error(results, expected, sizes):
    """The largest error, as a multiple of the largest intermediate number of its kind."""
    parts = zip(results, expected, sizes, strict=False)
    return max(float(np.max(np.abs(r - e))) / max(size, 1.0) for r, e, size in parts)


def agrees(text, name, x, way, monkeypatch):
    """Assert that values and derivatives are exact to rounding, also elsewhere and then again.

    Arguments are copies, for a program may store into them.
    """
    f = fresh(text, name, way, monkeypatch)
    expected, sizes = exact(text, name, x)
    both, ahead, second = fdiff.value_and_grad(f), fdiff.jacfwd(f), fdiff.hessian(f)
    found = {"value and gradient": error(both(x.copy()), expected, sizes)}
    found["forward"] = error([ahead(x.copy())], expected[1:], sizes[1:])
    found["Hessian"] = error([second(x.copy())], expected[2:], sizes[2:])
    other = 0.8 * x + 0.0431  # where branches may differ
    found["elsewhere"] = error(both(other.copy()), *exact(text, name, other))
    found["and back"] = error(both(x.copy()), expected, sizes)
    assert max(found.values()) <= TOLERANCE, found
