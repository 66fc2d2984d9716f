"""Kernel texts that users give: a scalar function in the kernel language as a `KernelRule`.

Such a function is assignments to names and a ``return``. Each call of a word becomes a step of its
own, as the passes see it of fdiff's ops: so equal calls are computed once, and angles are checked
before sines are taken of them. That the compilers take each step is found out at once.
Three-address code: A. V. Aho, M. S. Lam, R. Sethi, J. D. Ullman, Compilers, 2nd ed., Addison-Wesley
2007, section 6.2.
"""

from __future__ import annotations

import ast
import re

from llvmlite import ir

from ..kernel_rule import KernelRule, KernelStep, Kind
from ..named_tuples import NamedTuple
from ..syntax_trees import GenericVisit, walk
from .ir.loops import NUMPY
from .ir.type_inference import DtypeInference
from .ir.word_table import COUNTED, WORDS, Word, word_of
from .llvm.arithmetic import UnknownWordError
from .llvm.function_builder import FunctionBuilder, declare
from .llvm.llvm_words import call
from .llvm.statements import write
from .llvm.types import TypedValue, llvm_type

_DTYPES = ("f8", "f4")  # of the result, and of the operands
_NUMBERS = frozenset("fnib*")  # the letters of words that take and give numbers alone
_SLOT = re.compile(r"\b_(\d+)\b")
_ARITHMETIC = (
    ast.Name, ast.Constant, ast.UnaryOp, ast.USub, ast.Not, ast.Invert, ast.BinOp, ast.operator,
    ast.Compare, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.BoolOp, ast.boolop,
    ast.IfExp, ast.Call, ast.Attribute, ast.Load,
)  # fmt: skip
_OTHERWISE = "Write assignments to names and a return; for a choice, `a if c else b`."
_BY_ADDRESS = "Loops go into a C function, which is given by its address."


class UserTextError(Exception):
    """An error in a user's kernel text: the line, the fact, and the way out."""

    def __init__(self, line: int, fact: str, way: str = _OTHERWISE) -> None:
        super().__init__(fact)
        self.line, self.fact, self.way = line, fact, way


def rule_of_text(function: ast.FunctionDef | ast.Lambda) -> KernelRule:
    """The rule of a function in the kernel language; `UserTextError` if it is none."""
    arguments = function.args
    names = [a.arg for a in arguments.args]
    plain = ast.arguments([], arguments.args, kwonlyargs=[], kw_defaults=[], defaults=[])
    if ast.unparse(arguments) != ast.unparse(plain) or not names:
        fact = "the parameters of the kernel text must be names alone, at least one."
        raise UserTextError(function.lineno, fact, "They are the entries of the arguments.")
    steps = _Steps(names)
    alone = isinstance(function, ast.Lambda)
    body = [ast.Return(function.body, lineno=function.lineno)] if alone else function.body
    for statement in body:
        if steps.returned:
            raise UserTextError(statement.lineno, "the return must be the last statement.")
        steps.enter(statement)
    if not steps.returned:
        raise UserTextError(function.lineno, "the kernel text returns nothing.")
    return KernelRule(Kind.ELEMENTWISE, steps=tuple(steps.found))


class _Typed(NamedTuple):
    """The dtype of a value where the op's result is double, and where it is single precision."""

    double: str | None
    single: str | None


class _Steps(GenericVisit, ast.NodeTransformer):
    """The steps of a function; `bound` is what each of its names stands for.

    That is a number, or ``_0``, ``_1``, ...: the operands, and after them the results of steps.
    """

    def __init__(self, names: list[str]) -> None:
        self.bound: dict[str, ast.expr] = {n: _slot(k) for k, n in enumerate(names)}
        self.found: list[KernelStep] = []
        self.types = [_Typed(*_DTYPES) for _ in names]
        self.returned = False
        self.line = 0

    def enter(self, statement: ast.stmt) -> None:
        """One statement."""
        self.line = statement.lineno
        if isinstance(statement, ast.AugAssign):
            read = ast.parse(ast.unparse(statement.target), mode="eval").body
            value = ast.BinOp(read, statement.op, statement.value)
            statement = ast.Assign([statement.target], value, lineno=self.line)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            (target,) = statement.targets
            if isinstance(target, ast.Name):
                self.bound[target.id] = self._named(self.visit(statement.value))
                return
        if isinstance(statement, ast.Return) and statement.value is not None:
            self._give(self.visit(statement.value))
            return
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return  # a docstring
        loops = isinstance(statement, ast.For | ast.While)
        fact = f"`{_first_line(statement)}` cannot stand in the text of an elementwise kernel."
        raise UserTextError(self.line, fact, _BY_ADDRESS if loops else _OTHERWISE)

    def _give(self, node: ast.expr) -> None:
        """The result of the last step."""
        self.returned = True
        last = self.found and not self.found[-1].dtype and ast.unparse(_slot(len(self.types) - 1))
        if ast.unparse(node) != last:
            self._step(node, last=True)

    # --- expressions ------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> ast.expr:
        """The expression of operands and results of steps; its calls have become steps."""
        if not isinstance(node, _ARITHMETIC):
            shown = ast.unparse(node) or type(node).__name__.lower()
            raise UserTextError(self.line, f"`{shown}` is not in the kernel language.")
        return super().visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.bound:
            fact = f"`{node.id}` is neither a parameter nor assigned before."
            way = "Write numbers as they are; what varies is one more argument of the operation."
            raise UserTextError(self.line, fact, way)
        return self.bound[node.id]

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, bool | int | float):
            raise UserTextError(self.line, f"`{ast.unparse(node)}` is not a real number.")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if ast.unparse(node) not in ("np.inf", "np.nan"):
            fact = f"`{ast.unparse(node)}` is not a number of the kernel language."
            raise UserTextError(self.line, fact, "Write the number.")
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        word, name = self._word(node), ast.unparse(node.func)
        counted = "*" in word.parameters
        if node.keywords or not (counted or len(node.args) == len(word.parameters)):
            fact = f"`{name}` takes {len(word.parameters)} arguments: {word.types}."
            raise UserTextError(self.line, fact, "docs/kernel-language.md lists the words.")
        args = [self._named(self.visit(a)) for a in node.args]
        return self._named(ast.Call(node.func, args, []))

    def _word(self, node: ast.Call) -> Word:
        name = ast.unparse(node.func)
        word = word_of(name)
        letters = [] if word is None else [*word.parameters, word.gives]
        numbers = all(x in _NUMBERS or x in NUMPY for x in letters)
        excluded = (*COUNTED, "rt.stack")
        if word is not None and word.parameters and numbers and word.name not in excluded:
            return word
        other = f"rt.{name.partition('.')[2]}"
        way = f"Write {other}. " if other in WORDS and other != name else ""
        fact = f"`{name}` is not a word of the kernel language for numbers."
        raise UserTextError(self.line, fact, f"{way}docs/kernel-language.md lists the words.")

    # --- steps ------------------------------------------------------------------------------------

    def _named(self, node: ast.expr) -> ast.expr:
        """A value as the number of a step; names and what reads no operand stay as they are."""
        slots = _SLOT.search(ast.unparse(node))
        return node if isinstance(node, ast.Name) or slots is None else self._step(node)

    def _step(self, node: ast.expr, *, last: bool = False) -> ast.expr:
        """Enter a step."""
        text = ast.unparse(node)
        args = tuple(dict.fromkeys(int(k) for k in _SLOT.findall(text)))
        if not args:
            raise UserTextError(self.line, f"`{text}` reads no argument.", "Use a plain number.")
        types = _Typed(*(self._lowered(node, text, k) for k in range(len(_DTYPES))))
        real = types.double is None or types.double[0] == "f" or last
        text = _SLOT.sub(lambda m: f"{{{args.index(int(m[1]))}}}", text)
        if real and (types.double, types.single) != _DTYPES:
            text = f"{{T}}({text})"
        self.found.append(KernelStep(text, args, "" if real else str(types.double)))
        self.types.append(_Typed(*_DTYPES) if real else types)
        return _slot(len(self.types) - 1)

    def _lowered(self, node: ast.expr, text: str, k: int) -> str | None:
        """The dtype of an expression, of which LLVM code is made to see whether it is one."""
        types_of = {f"_{i}": str(types[k]) for i, types in enumerate(self.types)}
        types = list(types_of.values())
        function = declare(ir.Module(), "text", llvm_type("f8"), [llvm_type(t) for t in types])
        pairs = zip(types_of.items(), function.args, strict=True)
        arguments = {name: TypedValue(type_, value) for (name, type_), value in pairs}
        try:
            write(FunctionBuilder(function, call, "f8"), [ast.Return(node)], arguments)
        except UnknownWordError as error:
            fact = f"`{text}` is not in the kernel language ({error})."
            raise UserTextError(self.line, _SLOT.sub(self._shown, fact), _pow_way(node)) from None
        return DtypeInference(types_of).of(text, ())

    def _shown(self, slot: re.Match[str]) -> str:
        """The user's name for a value; the results of calls have none."""
        own = slot[0]
        return next((n for n, x in self.bound.items() if ast.unparse(x) == own), "...")


def _slot(k: int) -> ast.Name:
    return ast.Name(f"_{k}", ast.Load())


def _first_line(node: ast.stmt) -> str:
    return ast.unparse(node).partition("\n")[0]


def _pow_way(node: ast.expr) -> str:
    if any(isinstance(part, ast.Pow) for part in walk(node)):
        return "Write rt.power(x, y), or x * x."
    return "docs/kernel-language.md is the language."
