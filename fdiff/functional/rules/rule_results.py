"""Checks of the results of the user's rules: structure, number, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...dispatch.arguments import Function, traceable
from ...errors import DtypeError, E, InputError, VectorError, message
from ...ops.shapes.shaping import traced
from ...trace import TracedArray
from ...trace.handler_arguments import resolve
from ...tracebacks import ask, line_of, name_of
from ...tree import Spec, flatten, node_parts, paths
from ...user_lines import user_line


class RuleResults:
    """Checks of the result of a rule; `call` is the public call, `rule` the user's function."""

    def __init__(self, call: str, rule: Function, words: str) -> None:
        self.call = call
        self.rule = rule
        self.words = f"the {words} `{name_of(rule)}`"

    def ask(self, args: Sequence[object], form: str) -> object:
        """The result of the rule; `form` shows the call in an error about its signature."""
        return ask(self.rule, args, self.call, self.words, form)

    def error(self, kind: type[E], fact: str, way: str) -> E:
        """The error for a fact about the rule, with the line where that begins."""
        return kind(
            message(self.call, f"{self.words} {fact}", way, line_of(self.rule) or user_line())
        )

    def pair(self, result: object, words: str) -> tuple[object, object]:
        """The two parts of what a rule returns."""
        if isinstance(result, tuple | list) and len(result) == 2:
            return result[0], result[1]
        fact = f"must return a pair ({words}), not {_described(result)}."
        raise self.error(InputError, fact, f"Write: return {words}")

    def tuple_of(self, result: object, count: int) -> Sequence[object]:
        """The result of a rule as a tuple, with a part for each argument."""
        if isinstance(result, tuple | list) and len(result) == count:
            return result
        fact = f"must return a tuple of {count} cotangents, one for each argument, not "
        fact += f"{_described(result)}."
        raise self.error(InputError, fact, "Give None where there is none; write (bar,) for one.")

    def same_outputs(
        self,
        spec: Spec,
        types: Sequence[ArrayType],
        first_spec: Spec,
        expected: Sequence[ArrayType],
    ) -> None:
        """Refuse a rule whose output has another structure than the function's."""
        if spec != first_spec or tuple(types) != tuple(expected):
            shown = ", ".join(map(str, types)) or "no array"
            others = ", ".join(map(str, expected)) or "no array"
            fact = f"gives an output of {shown}; the function returns {others}"
            built = "" if spec == first_spec else ", in another structure"
            raise self.error(InputError, f"{fact}{built}.", "Return what the function returns.")

    def derivatives(
        self, owner: object, result: object, wanted: Callable[[object], bool], words: str, of: str
    ) -> Iterator[TracedArray | None]:
        """For each leaf of `owner` that is `wanted`, its derivative as an array of its type.

        `words` name it (a cotangent), `of` names its owner (argument 0).
        """
        matched = self._matched(owner, result, words, of)
        for (leaf, derivative), path in zip(matched, paths(flatten(owner)[1]), strict=True):
            if wanted(leaf):
                yield self._typed(leaf, derivative, words, f"{of}{path}")

    def _matched(
        self, owner: object, result: object, words: str, of: str
    ) -> Iterator[tuple[object, object]]:
        """The leaves of a structure, each with the leaf at its place in the other, or None."""
        mine = node_parts(owner)
        if result is None:
            yield from ((leaf, None) for leaf in flatten(owner)[0])
            return
        if mine is None:
            yield owner, result
            return
        theirs = node_parts(result)
        same = theirs is not None and set(mine[0]) == set(theirs[0])
        if theirs is None or not same or len(mine[1]) != len(theirs[1]):
            fact = f"gave {words} for {of} in another structure: {_described(result)}."
            raise self.error(InputError, fact, f"Build it as {of} is built.")
        order = [theirs[0].index(key) for key in mine[0]] or range(len(mine[1]))
        for a, k in zip(mine[1], order, strict=False):  # the key of a class without children
            yield from self._matched(a, theirs[1][k], words, of)

    def _typed(self, leaf: object, derivative: object, words: str, of: str) -> TracedArray | None:
        """A derivative as an array of the type of its leaf."""
        derivative = resolve(derivative)
        if derivative is None:
            return None
        if not traceable(derivative):
            fact = f"gave {words} for {of} that is not an array: {_described(derivative)}."
            raise self.error(InputError, fact, "Give an array, or None where there is none.")
        type_ = traced(resolve(leaf)).type
        value = traced(derivative)
        if value.shape != type_.shape:
            fact = f"gave {words} of shape {value.shape} for {of}, whose shape is {type_.shape}."
            raise self.error(VectorError, fact, "Sum over axes that were broadcast.")
        if value.dtype == type_.dtype:
            return value
        weak = not isinstance(derivative, TracedArray | np.ndarray | np.generic) or value.weak
        exact = value.dtype.kind in "biu" or (value.dtype.kind == "f" and type_.dtype.kind == "c")
        if (weak and value.dtype.kind != "c") or exact:
            return value.astype(type_.dtype)
        fact = f"gave {words} of dtype {value.dtype} for {of}, which is {type_.dtype}."
        raise self.error(DtypeError, fact, f"Convert it: .astype(np.{type_.dtype}).")


def _described(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    kind = type(value)
    return "an array" if isinstance(value, TracedArray | np.ndarray) else f"a {kind.__name__}"
