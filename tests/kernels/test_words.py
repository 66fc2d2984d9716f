"""The table of words that kernel texts may call: each row gives the types that it says."""

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from fdiff.kernels.llvm.arithmetic import UnknownWordError
from fdiff.kernels.llvm.types import DTYPES, TypedValue, integer, llvm_type
from fdiff.kernels.llvm.words import COUNTED, WORDS
from fdiff.kernels.runtime import maths, scalar

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
    result = word.formula(code, args)
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
    assert all(word.name == name for name, word in EVERY.items())
