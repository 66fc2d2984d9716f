"""The words of kernel texts as functions of Numba: each an ``@intrinsic`` with its own formula.

The type of a call comes from the row of the word (`fdiff.kernels.ir.word_table`), its code from the
formula that LLVM's words have (`fdiff.kernels.llvm.llvm_words`), so there is one source of each.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Container, Iterable, Iterator
from types import ModuleType

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from ...syntax_trees import walk
from ..ir.word_table import Word, word_of
from ..llvm.arithmetic import UnknownWordError
from ..llvm.llvm_words import Formula, formula_of
from ..llvm.types import TypedValue, integer
from .numba_types import CPU, NumbaTypes

Lowering = Callable[[BaseContext, ir.IRBuilder, Signature, tuple[ir.Value, ...]], object]
Typing = Callable[..., "tuple[object, Lowering] | None"]


def typing_of(word: Word, formula: Formula, count: int, of: NumbaTypes = CPU) -> Typing:
    """The function that an ``@intrinsic`` is made of: signature and code of a call of a word.

    `count` is the number of arguments, `of` the types of the target.
    """

    def typing(context: object, *kinds: object) -> tuple[object, Lowering] | None:
        spellings = [_spelling(x, letter, of) for x, letter in zip(kinds, letters, strict=True)]
        if None in spellings:
            return None
        spelled = [s for s in spellings if s is not None]
        signature = of.of(word.result(spelled))(*map(_accepted, kinds, spelled, [of] * count))
        return signature, _lowering(formula, spelled)

    letters = word.parameters if "*" not in word.parameters else ["i", *"*" * (count - 1)]
    names = ["context", *(f"argument{k}" for k in range(count))]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    typing.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])
    typing.__name__ = typing.__qualname__ = word.name.partition(".")[2]
    typing.__doc__ = word.meaning
    return typing


def _spelling(kind: object, letter: str, of: NumbaTypes) -> str | None:
    """The type of an argument as texts spell it; of a literal that counts, the number itself."""
    if letter == "k":
        return str(kind.literal_value) if isinstance(kind, types.IntegerLiteral) else None
    if isinstance(kind, types.StringLiteral):
        return repr(kind.literal_value)
    return of.spelling(kind)


def _accepted(kind: object, spelling: str, of: NumbaTypes) -> object:
    """The type that the signature has for an argument."""
    return kind if spelling.isdigit() or spelling[0] == "'" else of.of(spelling)


def _lowering(formula: Formula, spellings: list[str]) -> Lowering:
    """The code of a call of a word for arguments of these types."""

    def lowering(
        context: BaseContext, code: ir.IRBuilder, signature: object, args: tuple[ir.Value, ...]
    ) -> object:
        result = formula(code, list(map(_argument, spellings, args)))
        return result.value if result.type else context.get_dummy_value()

    return lowering


def _argument(spelling: str, value: ir.Value) -> TypedValue:
    if spelling.isdigit():
        return integer(int(spelling))
    if spelling[0] == "'":  # one character, an option of a BLAS or LAPACK routine
        return TypedValue("i1", ir.Constant(ir.IntType(8), ord(spelling[1])))
    return TypedValue(spelling, value)


def words_of(functions: Iterable[ast.AST]) -> dict[str, ModuleType]:
    """Modules for ``rt``, ``math`` and ``np`` in functions, in which Numba looks up names.

    Numba has to know a function before it compiles one that calls it, so words are made here.
    """
    for home, name in words_called(functions, _HOMES):
        if not hasattr(_HOMES[home], name):
            setattr(_HOMES[home], name, _intrinsic(f"{home}.{name}"))
    return {**_HOMES, "np": np}


def _intrinsic(name: str) -> object:
    """A word as a function of Numba."""
    word = word_of(name)
    if word is None:
        raise UnknownWordError(name)
    digits = name[len(word.name) :]
    count = 1 + int(digits) if digits else len(word.parameters)
    return intrinsic(prefer_literal=True)(typing_of(word, formula_of(word), count))


def words_called(functions: Iterable[ast.AST], homes: Container[str]) -> Iterator[tuple[str, str]]:
    """The words that functions call: the module of each, one of `homes`, and its name there."""
    nodes = (node for function in functions for node in walk(function))
    functions_called = (node.func for node in nodes if isinstance(node, ast.Call))
    for word in (f for f in functions_called if isinstance(f, ast.Attribute)):
        if isinstance(word.value, ast.Name) and word.value.id in homes:
            yield word.value.id, word.attr


_HOMES = {"rt": ModuleType("rt"), "math": ModuleType("math")}
