"""The table of words that kernel texts may call: each row gives the types that it says.

A word takes a row, a formula and an op, and nothing else.
"""

import ast
import re
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from tapes import tape_of, values

import fdiff
from fdiff import kernels
from fdiff.kernels.ir.operation_costs import SLOW, flops_of, formula_facts, instructions_of
from fdiff.kernels.ir.type_inference import DtypeInference
from fdiff.kernels.ir.word_table import COUNTED, DTYPES, WORDS, Word
from fdiff.kernels.llvm.arithmetic import UnknownWordError
from fdiff.kernels.llvm.llvm_words import _INSTRUCTIONS, formula_of
from fdiff.kernels.llvm.loop_hints import calls_in
from fdiff.kernels.llvm.types import TypedValue, integer, llvm_type
from fdiff.kernels.runtime import maths, scalar
from fdiff.kernels.runtime.maths.exponential import exp
from fdiff.ops.entrywise.accurate_partials import slope_op
from fdiff.ops.entrywise.sample_domains import real
from fdiff.primitive import PRIMITIVES
from fdiff.trace import apply
from fdiff.transforms.reverse import vjp

EVERY = WORDS | COUNTED
TYPES = {
    "f": ["f8", "f4"], "n": sorted(DTYPES.values()), "i": ["i8"], "v": ["f8x4", "f4x8"],
    "p": ["i8*", "f8*"], "*": [""], "k": ["4"],
}  # fmt: skip


def built(word, letters, type_):
    """The result, where `type_` is that of the first argument, in a module that LLVM accepts."""
    of = {letters[0]: type_} if letters else {}
    types = [of.get(letter, TYPES[letter][0]) for letter in letters]
    types = [t for t in types if t]
    module = ir.Module()
    signature = ir.FunctionType(ir.VoidType(), [llvm_type(t) for t in types if t != "4"])
    function = ir.Function(module, signature, "f")
    code = ir.IRBuilder(function.append_basic_block("entry"))
    given = iter(function.args)
    args = [integer(4) if t == "4" else TypedValue(t, next(given)) for t in types]
    result = formula_of(word)(code, args)
    code.ret_void()
    llvm.parse_assembly(str(module)).verify()
    return types, result.type


@pytest.mark.parametrize("word", EVERY.values(), ids=EVERY)
def test_words_give_the_types_they_say(word):
    letters = word.parameters
    if letters[:1] == ["*"]:
        letters = ["n", "n"]
    done = 0
    for type_ in TYPES[letters[0]] if letters else [""]:
        try:
            types, found = built(word, letters, type_)
        except UnknownWordError:  # of no meaning for this dtype, as the sign of a truth value
            assert letters[0] == "n"
            continue
        done += 1
        assert found == word.result(types)
    assert done > 0


def test_every_formula_is_a_word():
    assert {f"rt.{name}" for name in (*maths.FORMULAS, *scalar.TEXTS)} <= WORDS.keys()
    assert EVERY.keys() >= _INSTRUCTIONS.keys()
    assert all(word.name == name for name, word in EVERY.items())
    assert all(WORDS[word.like].elementary for word in EVERY.values() if word.like)


@pytest.fixture
def op(monkeypatch):
    """An op of a word that fdiff does not have, for one test."""
    row = Word("rt.half_exp", "f -> f", "exp(x) / 2", like="rt.exp")
    monkeypatch.setitem(WORDS, row.name, row)
    monkeypatch.setitem(maths.FORMULAS, "half_exp", half_exp)
    yield slope_op("half_exp", lambda x, out: (out,), reference, real)
    del PRIMITIVES["half_exp"]


def half_exp(x):
    return exp(x) * 0.5


def reference(x):
    return np.exp(x) / 2


def test_a_row_a_formula_and_an_op_make_a_word(op, rng):
    x = rng.normal(size=7)
    tape = vjp(tape_of(lambda x: apply(op, x * x), x), [0])
    layouts = ("C",) * len(tape.inputs)
    assert "rt.half_exp(" in kernels.source(tape, layouts)
    for got, want in zip(kernels.compile(tape, layouts)(x, x), values(tape, x, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    assert flops_of(op.lowering.kernel.text) == SLOW
    assert DtypeInference({"x": "f4"}).of(op.lowering.kernel.text, ["x"]) == "f4"


def test_slopes_are_named_in_their_row_their_formula_and_their_op_alone():
    """Names of functions stand elsewhere, too, with another meaning."""
    slopes = [name for name in maths.FORMULAS if not WORDS[f"rt.{name}"].elementary]
    slopes.remove("out_of_range")  # which kernels call for themselves
    assert len(slopes) > 10
    root, places = Path(fdiff.__file__).parent, ("ops/", "kernels/ir/word_table", "kernels/runtime")
    named = re.compile(rf"\b({'|'.join(slopes)})\b")
    elsewhere = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if named.search(path.read_text(encoding="utf-8"))
    }
    assert [path for path in sorted(elsewhere) if not path.startswith(places)] == []


def test_costs_are_those_of_the_rows():
    assert flops_of("rt.maximum({0}, {1})") == flops_of("{0} + {1}")
    assert flops_of("rt.rint({0})") == flops_of("rt.remainder({0}, {1})") == SLOW
    assert instructions_of("rt.sech_squared({0})") == instructions_of("rt.tanh({0})") == "rt.tanh"
    assert instructions_of("rt.erf({0})") == ""
    text = "rt.exp2(rt.log({0})) + rt.sech_squared({1})"
    assert formula_facts(text).elementary == ("rt.exp2", "rt.log")
    assert calls_in(ast.parse(text).body) == 2
