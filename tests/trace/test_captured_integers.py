"""Integers that `f` takes out of an array: axes, shapes, counts, places, orders, indices.

The cases of the other tests are written anew with ``N[0]``, ``N[1]``, ... in place of their
integers, and with ``N[0:2]`` in place of their tuples and lists of integers. `N` is an array of
integers: a global, a cell, an attribute, an argument. NumPy says what the values are, and fdiff
itself, of the case as it stood, what the gradient is; when `N` changes, the next call follows.
"""

import ast
import re
import types
from pathlib import Path

import numpy as np
import pytest
import test_functions as tables
from test_coverage import EXAMPLES, coverage

import fdiff
from fdiff.errors import TraceError

pytestmark = [
    pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SINGULAR = (np.linalg.LinAlgError, RuntimeError, Warning)  # or what SciPy says of such matrices
HUGE = 1e9  # results beyond it are those of singular matrices
HOW = ("global", "cell", "attribute", "argument")


class Case:
    """Statements, the names of their arguments with values, and what else they read."""

    def __init__(self, code, arguments, scope):
        self.code, self.arguments = code, arguments
        self.scope = {"np": np, "__name__": "user", **scope}

    def function(self, code, how, numbers):
        """The function of `code`, and of the arguments; it finds the array of integers by `how`."""
        names = ", ".join([*self.arguments, *["N"] * (how == "argument")])
        body = ["def f(" + names + "):", *("    " + line for line in code.splitlines())]
        scope = dict(self.scope)
        if how == "global":
            scope["N"] = numbers
        elif how == "attribute":
            scope["MODEL"] = types.SimpleNamespace(N=numbers)
            body = [re.sub(r"\bN\[", "MODEL.N[", line) for line in body]
        if how == "cell":
            body = ["def outer(N):", *("    " + line for line in body), "    return f"]
        exec("\n".join(body), scope)
        return scope["outer"](numbers) if how == "cell" else scope["f"]


def cases():
    """Every expression in the tables of NumPy's functions, every example of docs/coverage.md."""
    for code in tables.CASES:
        moving, fixed = tables.given(code, "f8")
        yield Case(code, moving, {"operator": tables.operator, "after": tables.after, **fixed})
    for example in EXAMPLES:
        names = [n for n in coverage.MOVING if re.search(rf"(?<![\w.]){n}(?![\w=])", example.code)]
        lines = "\n".join(part.strip() for part in example.code.split(";"))
        arguments = {name: coverage.MOVING[name] for name in names}
        if lines:
            yield Case(lines, arguments, {"scipy": coverage.scipy, **coverage.FIXED})


def integer(node):
    """The integer that is written there; None if it is another expression."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return None if (inner := integer(node.operand)) is None else -inner
    return None


class Rewriter(ast.NodeTransformer):
    """Puts entries of `N` in place of integers in arguments and indices.

    In place of all of them, of one by its number, or of tuples and lists that hold no others.
    """

    def __init__(self, which):
        self.which, self.values, self.count, self.depth = which, [], 0, 0

    def within(self, node, name):
        self.depth += 1
        setattr(node, name, self.inner(getattr(node, name)))
        self.depth -= 1

    def inner(self, part):
        return [self.visit(p) for p in part] if isinstance(part, list) else self.visit(part)

    def visit_Call(self, node):
        node.func = self.visit(node.func)
        self.within(node, "args")
        self.within(node, "keywords")
        return node

    def visit_Subscript(self, node):
        node.value = self.visit(node.value)
        which = self.which
        self.which = () if which == "sequences" else which  # ``x[0, 1]`` is no ``x[[0, 1]]``
        self.within(node, "slice")
        self.which = which
        return node

    def read(self, values, text):
        at = len(self.values)
        self.values += values
        return ast.parse(text.format(at, at + len(values)), mode="eval").body

    def visit_Tuple(self, node):
        values = [integer(e) for e in node.elts]
        if self.depth and self.which == "sequences" and values and None not in values:
            return self.read(values, "N[{}:{}]")
        return self.generic_visit(node)

    visit_List = visit_Tuple  # noqa: N815 - `ast` calls it so

    def visit(self, node):
        value = integer(node)
        if value is None or not self.depth:
            return super().visit(node)
        self.count += 1
        wanted = self.which in ("all", self.count)
        return self.read([value], "N[{}]") if wanted else node


def rewritten(code, which):
    """The statements with a ``return``, written anew; which integers left, of how many."""
    tree = ast.parse(code)
    rewriter = Rewriter(which)
    tree = rewriter.visit(tree)
    tree.body[-1] = ast.Return(tree.body[-1].value)
    return ast.unparse(ast.fix_missing_locations(tree)), rewriter.values, rewriter.count


def leaves(value):
    """The arrays and numbers in nested tuples and lists."""
    return (
        [x for part in value for x in leaves(part)] if isinstance(value, tuple | list) else [value]
    )


def total(f):
    """A number made of all floating-point results of `f`."""

    def weighted(*args):
        out = 0.0
        for x in leaves(f(*args)):
            if getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c"):
                w = np.cos(1.0 + np.arange(np.size(x))).reshape(np.shape(x))
                out = out + np.sum(np.real(x) * w) + np.sum(np.imag(x) * w)
        return out

    return weighted


def same(actual, expected):
    actual, expected = leaves(actual), leaves(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(e), np.asarray(e).dtype)
        if np.asarray(e).dtype.kind in "biufc":
            np.testing.assert_allclose(a, e, rtol=1e-9, atol=1e-11)


def plain(f, values, extra):
    """What NumPy gives; None where it refuses."""
    with np.errstate(all="ignore"):
        try:
            return f(*[np.array(v) if isinstance(v, np.ndarray) else v for v in values], *extra)
        except (TypeError, ValueError, IndexError, AssertionError, *SINGULAR):
            return None


def traceable(f, values, extra):
    """Whether fdiff takes a case with other integers, which may make no sense there."""
    try:
        fdiff.jit(f)(*values, *extra)
    except (TypeError, ValueError, IndexError, *SINGULAR):
        return False
    return True


def neighbours(numbers):
    """The array with one entry changed, for each entry."""
    for k in range(numbers.size):
        for step in (1, -1):
            other = numbers.copy()
            other[k] += step
            yield other


def check(case, which, how):
    """Values, gradients and what follows a change; whether NumPy takes the case so."""
    code, integers, _ = rewritten(case.code, which)
    numbers, values = np.array(integers), list(case.arguments.values())
    extra = [numbers] if how == "argument" else []
    f = case.function(code, how, numbers)
    if (expected := plain(f, values, extra)) is None:
        return False
    g = fdiff.jit(f)
    same(g(*values, *extra), expected)
    moving = tuple(k for k, v in enumerate(values) if np.asarray(v).dtype.kind == "f")
    if moving:
        literal = case.function(rewritten(case.code, None)[0], "global", None)
        slopes = fdiff.grad(total(literal), argnums=moving)(*values)
        for a, e in zip(fdiff.grad(total(f), argnums=moving)(*values, *extra), slopes, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-9, atol=1e-11)
    for other in neighbours(numbers) if "empty" not in code else ():
        numbers[...] = other
        expected = plain(f, values, extra)
        if expected is None or not traceable(case.function(code, how, numbers), values, extra):
            continue
        if not any(np.any(np.abs(e) > HUGE) for e in leaves(expected)):
            same(g(*values, *extra), expected)
            break
    return True


def functions_in(code):
    return frozenset(re.findall(r"[\w.]*\.(\w+)\(", code)) or frozenset(("",))


ALL = [case for case in cases() if rewritten(case.code, "all")[1]]


def first_of_each_function():
    """The cases that call a function which no case before calls."""
    before = set()
    for case in ALL:
        names = functions_in(case.code)
        if names - before:
            yield case
        before |= names


FIRST = [*first_of_each_function()]


@pytest.mark.parametrize("k", range(len(FIRST)), ids=lambda k: FIRST[k].code)
def test_integers_may_be_entries_of_arrays(k):
    """One case for each function, with all of its integers."""
    check(FIRST[k], "all", HOW[k % 4])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize("how", HOW)
def test_any_integer_of_any_case_may_be_an_entry_of_an_array(how, part):
    failures, passed = [], 0
    for case in ALL[part::20]:
        count = rewritten(case.code, "all")[2]
        for which in ("all", "sequences", *range(1, 1 + count)):
            if not rewritten(case.code, which)[1]:
                continue
            try:
                passed += check(case, which, how)
            except Exception as error:  # noqa: BLE001 - all are told
                failures.append(
                    f"{rewritten(case.code, which)[0]}: {type(error).__name__}: {error}"
                )
    assert not failures
    assert passed > 100


# -------------------------------------------------- functions that NumPy's protocols do not reach

N = np.array([2, 0, 1, 3])
D = np.array([1.0, -1.0, 2.0, 3.0])
M = np.ma.masked_less(D, 0)
X = np.array([0.5, 1.5, 2.5, 3.5])
TEXT = (Path(__file__).parents[1] / "cases" / "integers.txt").read_text(encoding="utf-8")
EXPRESSIONS = [c.strip() for c in re.split(r"[;\n]", TEXT) if c.strip() and not c.startswith("[")]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_code_that_takes_integers_alone_gets_them(expression):
    numbers = N.copy()
    scope = {"np": np, "N": numbers, "D": D, "M": M, "__name__": "user"}
    exec(f"def f(x):\n    return np.sum({expression})", scope)
    g = fdiff.value_and_grad(scope["f"])
    for order in (N, N[::-1], N + 1):
        numbers[...] = order
        if (expected := plain(scope["f"], [X], ())) is not None:
            value, grad = g(X)
            np.testing.assert_allclose(value, expected)
            steps = [1e-6 * e for e in np.eye(4)]
            slopes = [(scope["f"](X + h) - scope["f"](X - h)) / 2e-6 for h in steps]
            np.testing.assert_allclose(grad, slopes, rtol=1e-6, atol=1e-8)


def test_an_index_has_no_derivative():
    """The words for an index that is made of real numbers, and for real counts."""
    with pytest.raises(TraceError, match="so an index, have no derivative") as error:
        fdiff.grad(lambda x: np.sum(X[np.int64(x)]))(X)
    assert "Write x.astype(numpy.int64) for numpy.int64(x)." in str(error.value)
    for f in (lambda x: np.split(x, x[:2]), lambda x: np.tile(x, x[0]), lambda x: np.delete(x, x)):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            fdiff.grad(lambda x, f=f: np.sum(f(x)[0]))(X)
