"""The function that Numba compiles for the calls of one layout, as text.

It converts the arguments, looks for the record of their shapes, makes the results, and calls the
record with all addresses (`kernels.record_calls`). Where there is no record, Python makes one and
says where it is. A record whose pinned inputs or guard do not hold gives way to the next one.
Python's own record is used as it is: near a tie, kernel and guard may round to different sides.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....named_tuples import NamedTuple
from ...c_signature import CStatus
from .call_layout import (
    ArrayArgument,
    CallLayout,
    Number,
    NumberArgument,
    Result,
    Tree,
)
from .records import COPIED, MULTIPLIERS, NEW, OFFSETS, word_map

# What `failed` is told in place of a kernel's status.
NOT_IN_ORDER, OTHER_SHAPE, SHARED_OUT = -101, -102, -103
MISS = int(CStatus.MISS)
_AT = {name: f"load(r, {word})" for name, word in OFFSETS.items()}  # r is the address of a record


class OutArrays(NamedTuple):
    """The arrays to write to: where each is in `out`, and whether its type says C order."""

    where: dict[int, str]
    direct: dict[int, bool]


def call_text(
    layout: CallLayout, out: OutArrays | None, plain: frozenset[int] = frozenset()
) -> str:
    """The text of `make`, which gives the function with those by which it goes to Python.

    These are no globals: Numba holds globals of what it compiled for ever. `plain` are the
    arguments that are contiguous arrays by their types.
    """
    return "\n".join(_Writer(layout, out, plain).lines()) + "\n"


class _Writer:
    """Writes the function of a layout."""

    def __init__(self, layout: CallLayout, out: OutArrays | None, plain: frozenset[int]) -> None:
        self.layout = layout
        self.plain = plain
        self.words = word_map(layout)
        self.out = out or OutArrays({}, {})
        positional = len(layout.arguments) - len(layout.names)
        self.parameters = [f"a{k}" for k in range(positional)] + list(layout.names)
        self.path: dict[int, str] = {}  # how each leaf is reached
        self.array = {k: f"x{k}" for k in layout.arrays}  # the name of each array
        for name, tree in zip(self.parameters, layout.arguments, strict=True):
            self._reach(tree, name)
        if out is not None:
            self.parameters.append("out")

    def _reach(self, tree: Tree, path: str) -> None:
        if isinstance(tree, tuple):
            for k, child in enumerate(tree):
                self._reach(child, f"{path}[{k}]")
        elif isinstance(tree, int):
            self.path[tree] = path

    @property
    def arrays(self) -> list[int]:
        """The results that are arrays."""
        return [k for k, result in enumerate(self.layout.made) if _is_array(result)]

    @property
    def scalars(self) -> list[int]:
        """The results that are numbers from the kernel."""
        results = self.layout.made
        return [
            k for k, result in enumerate(results) if isinstance(result, Result) and result.scalar
        ]

    def lines(self) -> Iterator[str]:
        """The whole text."""
        names = self.parameters[: len(self.layout.arguments)]
        every = "".join(f"{name}, " for name in names)
        yield "def make():"
        for line in (
            "@njit", f"def missing({every}):", "    rarely()",
            f"    return call_python(on_miss, ({every}))",
            "@njit", "def failed(r, status, sure):", "    rarely()",
            "    return call_python(on_failure, (r, status, sure))",
            "@njit(nogil=True)", f"def call({', '.join(self.parameters)}):",
            *("    " + line for line in self._body()), "return call",
        ):  # fmt: skip
            yield "    " + line

    def _body(self) -> Iterator[str]:
        yield from self._arguments()
        yield f"r = load(chains, 1 + (({self._hash()} >> 32) & load(chains, 0)))"
        yield "while True:"
        for line in self._attempt():
            yield "    " + line
        yield f"return {self._spelled(self.layout.result, iter(range(len(self.layout.kinds))))}"

    def _arguments(self) -> Iterator[str]:
        """Arguments as the kernel takes them, and their keys."""
        for k, argument in enumerate(self.layout.given):
            path = self.path[k]
            if isinstance(argument, ArrayArgument):
                if k in self.plain and argument.read == argument.dtype and path.isidentifier():
                    self.array[k] = path  # another name would be counted up and down
                    continue
                cast = (
                    "" if argument.read == argument.dtype else f".astype({_named(argument.read)})"
                )
                yield f"x{k} = contiguous({path}{cast})"
            elif isinstance(argument, NumberArgument):
                yield f"p{k} = slot({_named(argument.read)}({path}))"
            else:
                yield f"k{k} = np.int64({path})"
        yield from (f"z{k} = {path}" for k, path in self.out.where.items())
        yield "chains = chains_of(caller)"

    def _keys(self) -> list[str]:
        key = self.words.key
        return [f"k{k}" if axis < 0 else f"{self.array[k]}.shape[{axis}]" for _, k, axis in key]

    def _hash(self) -> str:
        terms = [f"{m} * {key}" for m, key in zip(MULTIPLIERS, self._keys(), strict=False)]
        return f"({' + '.join(terms)})" if terms else "0"

    def _attempt(self) -> Iterator[str]:
        """One record: the next of this key, or the one that Python gives."""
        pairs = zip(self.words.key, self._keys(), strict=True)
        tests = " and ".join(f"load(r, {word}) == {key}" for (word, _, _), key in pairs)
        if tests:
            yield f"while r != 0 and not ({tests}):"
            yield f"    r = {_AT['NEXT']}"
        yield "sure = r == 0"
        yield "if sure:"
        yield f"    r = missing({', '.join(self.parameters[: len(self.layout.arguments)])})"
        yield "    if r < 0:"
        yield from self._raise("        ")
        odd = [f"in_c_order({self.path[k]})" for k in self.layout.arrays if k not in self.plain]
        if odd:
            yield f"if {_AT['C_ORDER']} != 0 and not ({' and '.join(odd)}):"
            yield from self._fail("order")
        yield from self._checks()
        yield from self._results()
        yield from self._call()
        yield from self._deliver()
        yield "if status == 0:"
        yield "    break"
        yield f"r = {_AT['NEXT']}"

    def _fail(self, status: str) -> Iterator[str]:
        """Have Python raise the error that a status stands for, within an ``if``."""
        yield f"    failed(r, {status}, sure)"
        yield from self._raise("    ")

    def _raise(self, indent: str) -> Iterator[str]:
        """Leave with Python's exception; see `intrinsics.raise_pending`."""
        yield f"{indent}raise_pending()"
        yield f"{indent}raise RuntimeError"

    def _sizes(self, k: int) -> str:
        """The shape of a result, as a tuple."""
        return f"({''.join(f'load(r, {word}), ' for word in self.words.sizes[k])})"

    def _checks(self) -> Iterator[str]:
        """Checks of the arrays to write to, before anything is allocated."""
        for k in self.out.where:
            yield f"if z{k}.shape != {self._sizes(k)}:"
            yield from self._fail("other_shape")
        places = [f"z{k}" for k in self.out.where]
        for k, place in enumerate(places):
            for other in places[:k]:
                yield f"if shared({place}, {other}):"
                yield from self._fail("shared_out")

    def _results(self) -> Iterator[str]:
        """Arrays and places for the results of this record."""
        for k in self.arrays:
            result = self.layout.made[k]
            assert isinstance(result, Result), "a number is no array"
            if not self.out.direct.get(k):
                yield f"y{k} = np.empty({self._sizes(k)}, {_named(result.dtype)})"
        for k in self.scalars:
            result = self.layout.made[k]
            assert isinstance(result, Result), "a number has no slot"
            yield f"q{k} = slot({_named(result.dtype)}(0))"

    def _address(self, k: int) -> str:
        """Where the kernel writes a result."""
        if k not in self.arrays:
            return f"q{k}"
        return f"address_of({'z' if self.out.direct.get(k) else 'y'}{k})"

    def _addresses(self) -> str:
        """The addresses that the kernel reads and writes, as a tuple."""
        read = [
            f"address_of({self.array[leaf]})" if leaf in self.array else f"p{leaf}"
            for leaf in self.words.read
        ]
        return f"({''.join(f'{a}, ' for a in [*read, *map(self._address, self.words.place)])})"

    def _call(self) -> Iterator[str]:
        """The call; where it fails, Python raises, or says to try again or the next record."""
        call = f"status = call_record(caller, r, given, sure, {COPIED if self.out.where else NEW})"
        addresses = self._addresses()
        yield f"given = {0 if addresses == '()' else f'slot({addresses})'}"
        yield call
        yield f"while status != 0 and status != {MISS}:"
        yield "    answer = failed(r, status, sure)"
        yield "    if answer < 0:"
        yield from self._raise("        ")
        yield f"    status = {MISS}"
        yield "    if answer != 0:"
        yield f"        {call}"
        yield from (f"keep({self.array[k]})" for k in self.layout.arrays)

    def _deliver(self) -> Iterator[str]:
        """Copy results to the arrays of the caller's that the kernel could not write to."""
        for k in self.arrays:
            if k not in self.out.where:
                yield f"keep(y{k})"
            elif not self.out.direct[k]:
                yield from ("if status == 0:", f"    z{k}[...] = y{k}")

    def _spelled(self, tree: Tree, kinds: Iterator[int]) -> str:
        """The result as an expression."""
        if tree is None:
            return "None"
        if isinstance(tree, tuple):
            kind = next(kinds)
            inner = "".join(f"{self._spelled(child, kinds)}, " for child in tree)
            return f"({inner})" if self.layout.kinds[kind] is tuple else f"kind{kind}({inner})"
        assert isinstance(tree, int), "a tree is of tuples, numbers and None"
        result = self.layout.made[tree]
        if isinstance(result, Number):
            return _number(result.kind, f"load(r, {self.words.value[tree]})")
        if result.scalar:
            return f"number_at(q{tree}, {_named(result.dtype)})"
        return f"z{tree}" if tree in self.out.where else f"y{tree}"


def _is_array(result: Result | Number) -> bool:
    return isinstance(result, Result) and not result.scalar


def _named(dtype: np.dtype) -> str:
    """A dtype as Numba's code names it."""
    return "np.bool_" if dtype.kind == "b" else f"np.{dtype.name}"


def _number(kind: type, word: str) -> str:
    """A number of the result, from the word that holds it."""
    if kind is float:
        return f"float_of({word})"
    return f"{word} != 0" if kind is bool else word


def names_of(layout: CallLayout) -> dict[str, type]:
    """The classes that the text names."""
    return {f"kind{k}": kind for k, kind in enumerate(layout.kinds) if kind is not tuple}
