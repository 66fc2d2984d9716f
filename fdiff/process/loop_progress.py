"""The progress of loops in the user's code, read from its line and the variables there.

A ``for`` statement over a `range`, or `enumerate` of something with a length, tells by its variable
how many trips are done and how many there are. Nothing of the user's is called: names are looked
up, and integers, lengths and shapes read.
"""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import partial
from itertools import zip_longest
from types import FrameType

import fdiff.intact_numpy as np

from ..bounded_cache import keep
from ..foreign_errors import not_foreign
from ..named_tuples import NamedTuple
from ..source_lines import source_lines
from ..syntax_trees import children

Around = ast.stmt | ast.Lambda  # a loop, or what has variables of its own
_PARTS = 64  # of a loop that are weighed
_MOST = 8  # files whose loops are remembered
_files: dict[str, tuple[int, list[list[Around]]]] = {}
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
Values = Callable[[ast.AST], object]  # what names stand for
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Trips(NamedTuple):
    """The outermost loop: trips done, and how many there are; how much of it all is done."""

    done: int
    total: int
    fraction: float


class CodePlace(NamedTuple):
    """Where a function of the user's is, and what its names stood for: its own, and globals."""

    file: str
    line: int
    local: Mapping[str, object]
    outside: dict[str, object]


def place_of(frame: FrameType) -> CodePlace:
    """Where a frame of this thread is: other threads' frames may end while they are read."""
    return CodePlace(frame.f_code.co_filename, frame.f_lineno, {**frame.f_locals}, frame.f_globals)


def trips_of(places: Sequence[CodePlace]) -> Trips | None:
    """The loops under way in these places, the outermost first; None if they do not tell.

    A loop inside of another counts for one trip of that, and one that does not tell ends the sum.
    Where its length depends on the variable of the loop around it, trips of that weigh as much.
    """
    outermost: Trips | None = None
    fraction, share = 0.0, 1.0
    for place in places:
        loops = [*_loops(place)]
        for loop, inner in zip_longest(loops, loops[1:]):
            values = partial(_value, place)
            counter = _counter(loop, values)
            if counter is None or counter.now is None or counter.now not in counter.steps:
                return outermost and outermost._replace(fraction=fraction)
            weights = _weights(counter, inner, values)
            done, total = counter.steps.index(counter.now), len(counter.steps)
            if weights:
                part, rest = divmod(done * len(weights), total)
                before = sum(weights[:part]) + weights[part] * rest / total
                fraction += share * before / sum(weights)
                share *= weights[part] * len(weights) / sum(weights)
            else:
                fraction += share * done / total
            share /= total
            outermost = outermost or Trips(done, total, 0.0)
    return outermost and outermost._replace(fraction=fraction)


def trips_of_head(loop: ast.For, place: CodePlace) -> int | None:
    """How many trips a loop has in a place where it begins, or is under way."""
    return _trips_over(loop.iter, partial(_value, place))


def trip_of_head(loop: ast.For, place: CodePlace) -> int | None:
    """The number of the trip that is under way, if the variable of the loop tells it."""
    counter = _counter(loop, partial(_value, place))
    if counter is None or counter.now is None or counter.now not in counter.steps:
        return None
    return counter.steps.index(counter.now)


def trips_done_by_head(loop: ast.For, place: CodePlace) -> tuple[int | None, int | None]:
    """How many trips a loop has in a place where it is under way, and how many of them are done."""
    counter = _counter(loop, partial(_value, place))
    if counter is None:
        return trips_of_head(loop, place), None
    now, steps = counter.now, counter.steps
    return len(steps), None if now is None or now not in steps else steps.index(now)


def _trips_over(node: ast.expr, values: Values) -> int | None:
    """How many items there are in what a loop runs over."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return _length(node, values)
    name, parts = node.func.id, node.args
    if name == "range":
        counter = _counter(ast.For(ast.Name("_"), node, [], []), values)
        return counter and len(counter.steps)
    lengths = [_trips_over(part, values) for part in (parts if name == "zip" else parts[:1])]
    finite = [length for length in lengths if length is not None]
    tells = name in {"zip", "enumerate", "reversed"} and len(finite) == len(lengths)
    return min(finite, default=None) if tells else None


class _Counter(NamedTuple):
    """The variable of a loop, the values that it takes, and the present one."""

    name: str
    steps: range
    now: int | None


def _weights(counter: _Counter, inner: ast.For | ast.While | None, values: Values) -> list[float]:
    """Weights of parts of a loop: trips of the inner loop at values of the loop's variable.

    Nothing where all weigh the same.
    """
    steps, count = counter.steps, min(len(counter.steps), _PARTS)
    if inner is None:
        return []
    lengths: list[float] = []
    for k in range(count):
        step = steps[k * len(steps) // count]
        at = _counter(inner, lambda node, step=step: _value_at(node, counter.name, step, values))
        lengths.append(0.0 if at is None else len(at.steps))
    return lengths if min(lengths) != max(lengths) else []


def _value_at(node: ast.AST, name: str, step: int, values: Values) -> object:
    """The value of a name while the variable of a loop has this value."""
    return step if isinstance(node, ast.Name) and node.id == name else values(node)


def _loops(place: CodePlace) -> Iterator[ast.For | ast.While]:
    """The loops of a function in whose bodies a place is, the outermost first."""
    around: list[ast.AST] = []
    for node in _enclosing(place.file, place.line):
        if isinstance(node, _SCOPES):
            around.clear()
        around.append(node)
    for node in around:
        if isinstance(node, ast.For | ast.While):
            first, last = node.body[0].lineno, node.body[-1].end_lineno or 0
            if first <= place.line <= last:
                yield node


def _enclosing(name: str, line: int) -> list[Around]:
    """The statements and functions around a line of a file, the outermost first."""
    lines = source_lines(name)
    entry = _files.get(name)
    if entry is None or entry[0] != len(lines):
        try:
            tree = ast.parse("".join(lines))
        except not_foreign(SyntaxError, ValueError):  # the file is another by now, or no Python
            tree = ast.Module([], [])
        entry = keep(_files, name, (len(lines), [*_chains(tree, [])]), _MOST)
    chains = [c for c in entry[1] if c[-1].lineno <= line <= (c[-1].end_lineno or 0)]
    return max(chains, key=len, default=[])


def _chains(node: ast.AST, above: list[Around]) -> Iterator[list[Around]]:
    """Each loop and each function of a tree, below those around it."""
    for child in children(node):
        if isinstance(child, (ast.For, ast.While, *_SCOPES)):
            chain = [*above, child]
            yield chain
            yield from _chains(child, chain)
        else:
            yield from _chains(child, above)


def _counter(loop: ast.For | ast.While, values: Values) -> _Counter | None:
    """The counter of a ``for`` statement over a range or an enumeration that is not empty."""
    if not isinstance(loop, ast.For) or not isinstance(call := loop.iter, ast.Call):
        return None
    name = call.func.id if isinstance(call.func, ast.Name) and not call.keywords else ""
    variable, ends = loop.target, [_integer(a, values) for a in call.args]
    if name == "enumerate" and isinstance(variable, ast.Tuple) and len(ends) == 1:
        variable, ends = variable.elts[0], [_length(call.args[0], values)]
    elif name != "range":
        return None
    bounds = [end for end in ends if end is not None]
    if len(bounds) < len(ends) or ends[2:] == [0] or not isinstance(variable, ast.Name):
        return None
    steps = range(*bounds)
    if not steps or (steps[-1] - steps[0]) // steps.step >= sys.maxsize:  # more than `len` counts
        return None
    return _Counter(variable.id, steps, _integer(variable, values))


def _value(place: CodePlace, node: ast.AST) -> object:
    """The value of a name; globals of private copies are filled as they are read."""
    if not isinstance(node, ast.Name):
        return None
    return place.local[node.id] if node.id in place.local else dict.get(place.outside, node.id)


def _integer(node: ast.AST, values: Values) -> int | None:
    """The value of an expression of integers; None of any other."""
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.Name):
        value = values(node)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        a, b = _integer(node.left, values), _integer(node.right, values)
        if a is None or b is None or (b == 0 and isinstance(node.op, ast.FloorDiv)):
            return None
        return _OPERATIONS[type(node.op)](a, b)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return _length(node.args[0], values) if len(node.args) == 1 else None
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        shape = _shape_of(values(node.value.value)) if node.value.attr == "shape" else None
        k = _integer(node.slice, values)
        return None if shape is None or k is None or not -len(shape) <= k < len(shape) else shape[k]
    else:
        return None
    return value if type(value) is int else None


def _length(node: ast.AST, values: Values) -> int | None:
    """The length of a named list, tuple or array, traced ones included."""
    value = values(node)
    if isinstance(value, Sized) and type(value) in {list, tuple, range, dict, str}:
        return len(value)
    shape = _shape_of(value)
    return shape[0] if shape else None


def _shape_of(value: object) -> tuple[int, ...] | None:
    """The shape of a NumPy array or a traced array; other objects are asked for nothing."""
    if type(value) is np.ndarray:
        return value.shape
    traced = type(value).__module__.startswith("fdiff.trace.")
    return getattr(getattr(value, "type", None), "shape", None) if traced else None
