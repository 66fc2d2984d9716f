"""Random storing programs in every operator and tier, as `fuzz_stores` checks them."""

import ast

import pytest
from fuzz_stores import FAMILIES, OPERATORS, compiled_quickly, faults, some_operators
from storing_programs import storing_program

from fdiff.kernels import bytecode

PROGRAMS, TOGETHER = 300, 20
SOON = 60  # programs of the quick suite
OPTIMISED = range(5000, 5025)  # other programs, each in one operator


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(begin, marks=[pytest.mark.slow] if begin >= SOON else [])
        for begin in range(0, PROGRAMS, TOGETHER)
    ],
)
def test_storing_programs(begin):
    """Values and derivatives of all tiers, against NumPy, the complex step, and differences."""
    with compiled_quickly():
        found = [w for seed in range(begin, begin + TOGETHER) for w in faults(seed, OPERATORS)]
    assert not found, f"{len(found)} faults, the first:\n{found[0]}"


@pytest.mark.slow
def test_storing_programs_as_users_run_them():
    """With LLVM's optimisations, which the other programs do without."""
    bytecode.provide(FAMILIES)
    found = [w for seed in OPTIMISED for w in faults(seed, some_operators(seed, 1))]
    assert not found, f"{len(found)} faults, the first:\n{found[0]}"


def test_a_fault_is_found(monkeypatch):
    """The fuzzer itself: a derivative that is wrong by a millionth does not pass."""
    import fuzz_stores

    program = storing_program(3)
    at = fuzz_stores.point_of(program)
    want = fuzz_stores.expected(program, "grad", at)
    assert not fuzz_stores.differ(want, want, fuzz_stores.CLOSE)
    assert fuzz_stores.differ((want[0] + 1e-6,), want, fuzz_stores.CLOSE)
    assert fuzz_stores.differ((want[0], want[0]), want, 1.0)
    assert fuzz_stores.differ((want[0][:1],), want, 1.0)
    wrong = {"interpret": want, "compile": (want[0] + 1e-6,)}
    monkeypatch.setattr(fuzz_stores, "in_every_tier", lambda *_: wrong)
    (words,) = faults(3, ("grad",))
    assert "program 3, grad: compile gives another result than the interpreter" in words
    assert "def f(x):" in words


def test_programs_hold_what_is_searched_for():
    """All kinds of stores are among the programs, and most programs say something."""
    texts = [storing_program(seed).text for seed in range(PROGRAMS)]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    stored = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    kinds = {type(n.slice).__name__ for n in stored}
    assert {"Slice", "Tuple", "List", "Constant", "UnaryOp", "Name"} <= kinds
    assert sum(isinstance(n, ast.For) for n in nodes) > 100
    called = {ast.unparse(n.func) for n in nodes if isinstance(n, ast.Call)}
    assert {"np.where", "np.sum", "np.cumsum", "np.mean", "np.multiply", "np.add"} <= called
    words = ("::-1]", ".T", ".reshape(-1)", "+= ", "*= ", ":-1", "[...]", ", None]", "::2]")
    for word in words:
        assert any(word in text for text in texts), word
    assert len(set(texts)) == PROGRAMS
