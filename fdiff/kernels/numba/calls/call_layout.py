"""The layout of a call from Numba's code: its arguments and its results.

A layout leaves sizes out, so that one function of Numba serves all shapes. Trees are tuples,
perhaps nested, of leaves' numbers; None stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....named_tuples import NamedTuple

Tree = object  # an int, None, or a tuple of trees


class ArrayArgument(NamedTuple):
    """An array of `rank` axes, which the kernel reads with the dtype `read`."""

    dtype: np.dtype
    rank: int
    read: np.dtype

    def __str__(self) -> str:
        return f"{self.dtype.str[1:]}[{','.join(':' * self.rank)}]"


class NumberArgument(NamedTuple):
    """A number that is traced, which the kernel reads as `read`; `ints` serve as well."""

    dtype: np.dtype
    read: np.dtype
    ints: bool

    def __str__(self) -> str:
        return self.dtype.name


class ValueArgument(NamedTuple):
    """A Python `int` or `bool`, which has a record for each of its values."""

    kind: type

    def __str__(self) -> str:
        return self.kind.__name__


Argument = ArrayArgument | NumberArgument | ValueArgument


class Result(NamedTuple):
    """An array of the result, or a `scalar`."""

    dtype: np.dtype
    rank: int
    scalar: bool


class Number(NamedTuple):
    """A leaf of the result that is no output of the kernel: a number that each record holds."""

    kind: type


@dataclass(frozen=True)
class CallLayout:
    """Types of a call's arguments and results: the key of a function that Numba compiles.

    `arguments` and `result` are trees of numbers, of the leaves `given` and `made`. `names` are
    the keywords, of the last arguments. A tuple of the result is of the class in `kinds` at the
    same place of the walk.
    """

    name: str
    arguments: tuple[Tree, ...]
    names: tuple[str, ...]
    given: tuple[Argument, ...]
    result: Tree
    made: tuple[Result | Number, ...]
    kinds: tuple[type, ...]

    @property
    def arrays(self) -> list[int]:
        """The arguments' leaves that are arrays."""
        return [k for k, argument in enumerate(self.given) if isinstance(argument, ArrayArgument)]

    def __str__(self) -> str:
        """The arguments, as messages show them."""

        def shown(tree: Tree) -> str:
            if isinstance(tree, tuple):
                return f"({', '.join(map(shown, tree))})"
            return str(self.given[tree]) if isinstance(tree, int) else "None"

        positional = len(self.arguments) - len(self.names)
        words = [shown(tree) for tree in self.arguments]
        named = [f"{n}={w}" for n, w in zip(self.names, words[positional:], strict=True)]
        return f"({', '.join([*words[:positional], *named])})"


def leaves(tree: Tree) -> Iterator[int]:
    """The numbers in a tree, from left to right."""
    if isinstance(tree, tuple):
        for child in tree:
            yield from leaves(child)
    elif isinstance(tree, int):
        yield tree
