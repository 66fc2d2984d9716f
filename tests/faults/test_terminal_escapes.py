"""What users name may hold what moves the cursor of a terminal: it is shown escaped, everywhere."""

import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import fdiff
from fdiff import autograd, profiler
from fdiff.process.progress_display import Report

HOSTILE = "\x1b[31mred\x1b]0;title\x07\r\x9b2J\u202e\x7f\nforged: line\x08"
X = np.linspace(0.1, 0.9, 5)
MOVES = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def hostile(text="np.sum(np.sin(x) * x)"):
    """A function whose name, file and lines hold all of that."""
    space = {"np": np, "fdiff": fdiff, "autograd": autograd, "HOSTILE": HOSTILE}
    code = f"def f(x):\n    return {text}\n"
    exec(compile(code, f"{HOSTILE}.py", "exec"), space)
    f = space["f"]
    f.__name__ = f.__qualname__ = HOSTILE
    return f


class Opaque:
    def __repr__(self):
        return HOSTILE


Opaque.__name__ = Opaque.__qualname__ = HOSTILE


class Hashed(Opaque):
    __hash__ = object.__hash__


def custom():
    f = fdiff.custom_vjp(hostile("x * 2.0"))
    f.defvjp(lambda x: (x * 2.0, None), lambda _, bar: (2.0 * bar,))
    return f


def primitive():
    return fdiff.primitive(hostile("x * 2.0"), partials=lambda x, out: (2.0 + 0.0 * x,))


ERRORS = {
    "no scalar": lambda: fdiff.grad(hostile("x"))(X),
    "an object": lambda: fdiff.grad(hostile("Opaque()").__get__(Opaque()))(),
    "an argument": lambda: fdiff.grad(hostile())(Opaque()),
    "a key": lambda: fdiff.grad(hostile("x"))({HOSTILE: "text"}),
    "a dict": lambda: fdiff.jacobian(hostile("{HOSTILE: object()}"))(X),
    "a cast": lambda: fdiff.grad(hostile("float(x)"))(X),
    "no rule": lambda: fdiff.grad(hostile("np.packbits(x > 0)"))(X),
    "a leak": lambda: fdiff.grad(hostile("np.bitwise_and(x, 1)"))(X),
    "a dtype": lambda: fdiff.grad(hostile())(np.array([HOSTILE])),
    "an option": lambda: fdiff.jacobian(hostile(), mode=HOSTILE),
    "argnums": lambda: fdiff.grad(hostile(), argnums=HOSTILE),
    "a flag": lambda: fdiff.vjp(hostile(), X, strict=HOSTILE),
    "a device": lambda: fdiff.jit(hostile(), device=HOSTILE),
    "a shape": lambda: fdiff.vmap(hostile())(1.0),
    "a vector": lambda: fdiff.jvp(hostile(), X, np.zeros(7)),
    "a stage": lambda: fdiff.source(hostile(), X, stage=HOSTILE),
    "a pytree": lambda: fdiff.register_pytree(Opaque, 1, 2),
    "strict": lambda: autograd.functional.jacobian(hostile("x * 0 + 1"), X, strict=HOSTILE),
    "a cfunc": lambda: fdiff.cfunc(fdiff.grad(hostile()), HOSTILE),
    "pickling": lambda: fdiff.cfunc(fdiff.grad(hostile("x * x")), 0.5)(),
    "no vjp": lambda: fdiff.grad(fdiff.custom_vjp(hostile("x * 2.0")))(1.0),
    "a name": lambda: getattr(fdiff, HOSTILE),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    with pytest.raises(Exception, match=r"\w") as caught:  # the type is no matter
        ERRORS[case]()
    shown = [str(caught.value), *getattr(caught.value, "__notes__", ())]
    if isinstance(caught.value, fdiff.errors.FdiffError) or "fdiff" in shown[0]:
        assert not [text for text in shown if MOVES.search(text)], shown


def texts():
    """Every other kind of text that names come to."""
    f, recorded = hostile(), autograd.tensor(X, requires_grad=True)
    prepared = fdiff.jit(fdiff.grad(f))
    yield repr(prepared)
    prepared(X)
    yield repr(prepared)
    yield repr(fdiff.explain(fdiff.grad(f), X))
    yield str(fdiff.make_tape(fdiff.grad(f), X))
    for make in (custom, primitive):
        made = make()
        yield repr(made)
        yield str(fdiff.make_tape(fdiff.grad(lambda x, made=made: np.sum(made(x))), X))
        yield repr(fdiff.explain(fdiff.grad(lambda x, made=made: np.sum(made(x))), X))
        yield repr(made(recorded))
        yield repr(made(recorded).grad_fn)
    yield fdiff.source(lambda x: np.sum(custom()(x)), X, stage="fuse")
    yield repr(fdiff.cfunc(fdiff.grad(hostile("x * x")), 0.5))
    yield repr(fdiff.linearize(f, X)[1])
    yield repr(fdiff.njit(fdiff.grad(hostile("x * x"))))
    with profiler.profile() as seen, profiler.record_function(HOSTILE):
        prepared(X)
        fdiff.grad(hostile("np.sum(x**3)"))(X)
    yield str(seen.key_averages())
    yield str(seen)
    yield from map(repr, seen.key_averages())
    yield Report("tracing", HOSTILE, "", HOSTILE, 1.0, 2.0, True, None).line("")


def test_texts():
    found = list(texts())
    assert len(found) > 20
    assert not [text for text in found if MOVES.search(text)]
    assert sum("x1b[31mred" in text for text in found) > 12


def test_warnings():
    data = {1: 2.0}
    opaque = Hashed()
    space = {"np": np, "opaque": opaque, "data": data, "next": iter}
    f = hostile("np.sum(x) * len(opaque.values)")
    f.__globals__.update(space)
    opaque.values = iter
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fdiff.errors.warn(f"grad({HOSTILE}): traced again", fdiff.errors.RetraceWarning)
        fdiff.grad(hostile())(np.arange(3))
    assert len(caught) > 1
    for one in caught:
        if issubclass(one.category, fdiff.errors.RetraceWarning | fdiff.errors.DtypeWarning):
            assert not MOVES.search(str(one.message))


DUMPED = f"""
import numpy as np, fdiff
g = lambda x: x * 2.0
g.__name__ = {HOSTILE!r}
h = fdiff.primitive(g, partials=lambda x, out: (2.0 + 0.0 * x,))
fdiff.jit(fdiff.grad(lambda x: np.sum(h(x)))).compile(np.ones(3))
"""


def test_dumps(tmp_path):
    environment = {**os.environ, "FDIFF_DUMP": "tapes,passes", "FDIFF_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", DUMPED]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    shown = done.stderr.decode()
    assert done.returncode == 0, shown
    assert "---" in shown
    assert not MOVES.search(shown), shown
