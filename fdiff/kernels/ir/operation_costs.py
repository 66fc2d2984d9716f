"""The formulas of operations: the words they call, and their cost in additions."""

from __future__ import annotations

import ast
from functools import lru_cache

from ...named_tuples import NamedTuple
from ...syntax_trees import walk
from .word_table import WORDS, Word, word_of

# Up to so many calls of elementary functions in a kernel are inlined, which takes 5 to 9 ms of
# compile time each. More are calls of vector functions, at 2 ms each and 20 ms a function, and as
# fast where loops are long.
INLINED = 16
SLOW = 20  # cost of a transcendental function, in additions
# The function that a word has most of its instructions in common with, of that function too: in one
# loop both cost little more than one of them (`kernels/runtime/maths/slopes.py`).
ALIKE = {name: word.like for word in WORDS.values() if word.like for name in (word.name, word.like)}


class FormulaFacts(NamedTuple):
    """A formula of a number of `operands`: the `words` that it calls, and `flops`, its cost.

    `elementary` are the names of its elementary functions, one for each call; `has_angle` tells
    that one of them is a sine, cosine or tangent. `root` is the word that the whole formula is a
    call of; `simple` tells that the arguments of this call are operands.
    """

    operands: int = 0
    words: tuple[Word, ...] = ()
    root: Word | None = None
    simple: bool = False
    flops: int = 0
    elementary: tuple[str, ...] = ()
    has_angle: bool = False

    @property
    def call(self) -> Word | None:
        """The word that it is a call of, on operands alone."""
        return self.root if self.simple else None


@lru_cache(maxsize=4096)
def formula_facts(text: str) -> FormulaFacts:
    """The formula that a text of operands ``{0}``, ``{1}``, ... spells.

    A literal or a name is one without operands, which costs nothing.
    """
    if "{" not in text:
        return FormulaFacts()
    root = ast.parse(text, mode="eval").body  # an operand is a set to Python's grammar
    nodes = list(walk(root))
    names = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
    called = [word for name in names if (word := word_of(name)) is not None]
    numbers = [_operand(node) for node in nodes if isinstance(node, ast.Set)]
    whole = word_of(ast.unparse(root.func)) if isinstance(root, ast.Call) else None
    simple = isinstance(root, ast.Call) and all(map(_is_operand, root.args))
    count = 1 + max(numbers, default=-1)
    return FormulaFacts(
        count,
        tuple(called),
        whole,
        simple,
        _flops(nodes, called),
        tuple(word.name for word in called if word.elementary),
        any(word.periodic for word in called),
    )


def _operand(node: ast.Set) -> int:
    """The number of an operand ``{0}``; -1 of ``{T}``, which stands for a dtype."""
    (entry,) = node.elts
    return entry.value if isinstance(entry, ast.Constant) and isinstance(entry.value, int) else -1


def _is_operand(node: ast.expr) -> bool:
    """Whether an argument is an operand, or a number."""
    return isinstance(node, ast.Set | ast.Constant)


def _flops(nodes: list[ast.AST], called: list[Word]) -> int:
    if isinstance(nodes[0], ast.Set):  # one operand
        return 0
    if not all(word.cheap for word in called):
        return SLOW
    operators = [type(node) for node in nodes if isinstance(node, ast.operator)]
    if ast.Div in operators or ast.FloorDiv in operators:
        return 4
    return 1 + operators.count(ast.Mult) + 2 * operators.count(ast.Pow)


def instructions_of(text: str) -> str:
    """The function that has most of the instructions of a text that calls one like it; else ""."""
    call = formula_facts(text).call
    return ALIKE.get(call.name, "") if call is not None else ""


def flops_of(text: str) -> int:
    """Rough cost of an expression, in additions."""
    return formula_facts(text).flops
