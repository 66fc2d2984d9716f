"""Calls of prepared functions from code compiled by Numba: their layouts and records.

This module is imported when Numba asks for the type of a prepared function, or `njit` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ... import kernels
from ...dispatch.fast_paths.single_kernels import (
    SingleKernel,
    not_in_order,
    single_kernel,
    variant_of,
)
from ...dispatch.variant import Variant
from ...errors import InputError, UnsupportedError, failure
from ...process import anomaly_watch
from ...tracebacks import trim
from ..annotations import T
from ..call.operator_call import OperatorCall
from ..call.prepared import AnyPrepared
from ..call.stages import result_of_call
from .call_layouts import (
    CalledFunction,
    Example,
    call_example,
    called_function,
    check_examples,
    example_of,
    full_layout,
    given_layout,
)

if TYPE_CHECKING:
    from ...kernels import CallLayout, Calls

MOST_PATHS = 64  # records of one shape that differ in the branches taken
REBOUND = "Keep what it reads, and change arrays in place; or make the prepared function anew."


class CallRecords:
    """The records of one layout of calls of a prepared function."""

    any_tree = False  # whether lists, dictionaries and dataclasses count as tuples of their leaves

    def __init__(
        self,
        target: CalledFunction,
        example: Example,
        variant: Variant | None,
        *,
        watched: bool = True,
    ) -> None:
        self._target = target
        self.name = target.name
        self._example = example
        self._given = self._layout_of(example)
        single = self._kernel(example, variant)
        self.layout, outputs = full_layout(self._given, single, any_tree=self.any_tree)
        self.table = kernels.RecordTable(self.layout, watched=watched)
        self._first = single.variant, self._captured(single.variant)
        self._add(example, single, outputs)

    def fits(self, example: Example) -> bool:
        """Whether a call has this layout, as far as its arguments tell."""
        return self._layout_of(example) == self._given

    def record(self, example: Example) -> int:
        """The address of the record of a call, which is made if there is none."""
        address = self.table.find(self._key(example))
        if address:
            return address
        self._refuse_rebound()
        single = self._kernel(example, None)
        layout, outputs = full_layout(self._given, single, any_tree=self.any_tree)
        if layout != self.layout:
            fact = "for this call the result is built otherwise, or has other axes or dtypes."
            way = "Its kinds must be the same for all arguments in @njit code."
            raise failure(UnsupportedError, self.name, fact, way)
        return self._add(example, single, outputs)

    def asked(self, example: Example) -> int:
        """The record of a call, for machine code that asks for it."""
        self._watch(example)
        return self.record(example)

    def _watch(self, example: Example) -> None:
        """In anomaly detection, make the call from Python, which raises the error.

        Machine code asks at each call then (`fdiff.kernels.RecordTable`).
        """
        if not anomaly_watch.watching():
            return
        self._refuse_rebound()
        args, named = example.given
        own, vectors = self._target.split(args)
        result_of_call(OperatorCall(self._target.program, self._target.f, own, named, vectors))

    def on_miss(self, args: tuple[object, ...]) -> int:
        """Called by Numba's code where it has no record for its arguments."""
        return self.asked(self._boxed(args))

    def on_unknown(self, args: tuple[object, ...]) -> int:
        """Called in place of `on_miss` with ``misses="raise"``."""
        example = self._boxed(args)
        key = self._key(example)
        self._watch(example)
        address = self.table.find(key)
        if (
            not address and anomaly_watch.watching()
        ):  # Numba's code asks although it may have a record
            _, _, program, f, split = self._target
            address = self.table.find(key, variant_of(program, f, example.given, split))
        if address:
            return address
        words = ", ".join(map(_shown_leaf, example.leaves))
        fact = f"no kernel was made for ({words}), or for the branches taken there."
        way = 'Compile it before: g.compile(example), or leave misses="raise" out.'
        raise failure(InputError, self.name, fact, way)

    def on_failure(self, failed_call: tuple[int, int, bool]) -> int:
        """Called after a kernel has failed; see `fdiff.kernels.Calls`."""
        address, status, sure = failed_call
        if status == kernels.NOT_IN_ORDER:
            raise not_in_order(self.name)
        if status == kernels.OTHER_SHAPE:
            fact = "out holds an array of another shape than the result."
            raise failure(InputError, self.name, fact, "Pass arrays shaped like the result.")
        if status == kernels.CStatus.NO_MEMORY:
            raise no_memory(self.name)
        if status == kernels.SHARED_OUT:
            fact = "two arrays in out share memory: one result would be written over the other."
            raise failure(InputError, self.name, fact, "Pass an array of its own for each.")
        record = self.table.record_at(address)
        by_libm = record.kernel.by_libm
        if by_libm is not None and not self.table.by_libm(address):
            code = by_libm()
            self.table.set_by_libm(address, code)
            return code
        if record.conditional and not sure:
            return 0
        raise kernels.error_of(status)

    def _layout_of(self, example: Example) -> CallLayout:
        return given_layout(self._target, example, any_tree=self.any_tree)

    def _kernel(self, example: Example, variant: Variant | None) -> SingleKernel:
        """The kernel of a call."""
        _, call, program, f, split = self._target
        return single_kernel(program, f, call, example.given, split, variant)

    def _captured(self, variant: Variant) -> list[np.ndarray] | None:
        return variant.refresh(self._target.f)

    def _refuse_rebound(self) -> None:
        """Refuse a new record if a value that the first record read has changed."""
        variant, before = self._first
        now = self._captured(variant)
        if (
            now is None
            or before is None
            or any(a is not b for a, b in zip(now, before, strict=True))
        ):
            fact = "what the function reads from outside is not what it was when it was compiled."
            raise failure(InputError, self.name, fact, REBOUND)

    def _add(self, example: Example, single: SingleKernel, outputs: tuple[object, ...]) -> int:
        record = kernels.KernelRecord(
            self._key(example), single.kernel, single.sources, outputs, single.pins, single.guard,
            single.c_order,
        )  # fmt: skip
        if record.conditional and self.table.paths(record.key) >= MOST_PATHS:
            fact = (
                f"calls with these shapes took more than {MOST_PATHS} paths through its branches."
            )
            way = "Write numpy.where in place of branches on values, or call it from Python."
            raise failure(UnsupportedError, self.name, fact, way)
        return self.table.add(record, single.variant)

    def _key(self, example: Example) -> tuple[int, ...]:
        """Sizes and values of the leaves, as records have them."""
        key: list[int] = []
        for leaf in example.leaves:
            if isinstance(leaf, np.ndarray):
                key += leaf.shape
            elif isinstance(leaf, int):
                key.append(kernels.as_word(leaf))
        return tuple(key)

    def _boxed(self, args: tuple[object, ...]) -> Example:
        """A call by the objects that Numba made of its arguments."""
        leaves: list[object] = []

        def walk(tree: object, value: Any) -> None:
            if isinstance(tree, tuple):
                for child, inner in zip(tree, value, strict=True):
                    walk(child, inner)
            elif isinstance(tree, int):
                argument = self.layout.given[tree]
                number = isinstance(argument, kernels.NumberArgument)
                leaves.append(_number(value, argument.dtype) if number else value)

        for tree, value in zip(self.layout.arguments, args, strict=True):
            walk(tree, value)
        return self._example.with_leaves(leaves)


def no_memory(name: str) -> MemoryError:
    """The error of a call whose kernel found no memory."""
    return MemoryError(f"{name}: there is no memory for the workspace of a call.")


def _shown_leaf(leaf: object) -> str:
    """A leaf as messages show it: the type of an array, or the value."""
    if not isinstance(leaf, np.ndarray):
        return repr(leaf)
    return f"{leaf.dtype.str[1:]}[{','.join(map(str, leaf.shape))}]"


def _number(value: Any, dtype: np.dtype) -> object:
    """A number of a dtype: a Python number where a Python class has this dtype."""
    if dtype.char == "d":
        return float(value)
    return complex(value) if dtype.char == "D" else dtype.type(value)


class NumbaCallee:
    """A prepared function as its Numba type sees it.

    All callees of the function share its records.
    """

    def __init__(self, prepared: AnyPrepared, misses: str) -> None:
        self._prepared = prepared
        self._target = called_function(prepared)
        self.name = self._target.name
        self.misses = misses
        self.writes_out = prepared.writes_out
        self.compiled: dict[object, object] = {}
        self.chosen: dict[object, object] = {}

    def calls(self, fits: Callable[[CallLayout], bool], shown: str) -> Calls:
        """The calls of a layout that `fits`; an error if no such call is known."""
        fitting = (records for records in self.all_records() if fits(records.layout))
        records = next(fitting, None) or next(self._traced(fits), None)
        if records is None:
            layouts = ", ".join(str(each.layout) for each in self.all_records())
            fact = f"no call with arguments {shown} is known"
            fact += f"; known are {layouts}." if layouts else "."
            way = "Call it once from Python, or compile it for such examples: g.compile('f8[3]')."
            raise failure(InputError, self.name, fact, way)
        on_miss = records.on_miss if self.misses == "python" else records.on_unknown
        asked, failed = self._with_notes(on_miss), self._with_notes(records.on_failure)
        caller = kernels.record_caller(records.table)
        return kernels.Calls(records.layout, caller, asked, failed)

    def _with_notes(self, function: Callable[[T], int]) -> Callable[[T], int]:
        """The function, whose errors get a note with the public call and the user's line.

        The traceback does not show these, because it is lost in compiled code.
        """
        operator, f = self._target.operator, self._target.f

        def call(value: T) -> int:
            try:
                return function(value)
            except BaseException as error:
                trim(error, operator, f)
                raise

        return call

    def compile(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Make the record of a call with such arguments."""
        check_examples(self._prepared, args, kwargs, f"{self.name}.compile")
        example = call_example(self._target, args, kwargs)
        for records in self.all_records():
            if records.fits(example):
                records.record(example)
                return
        self.all_records().append(CallRecords(self._target, example, None))

    def all_records(self) -> list[CallRecords]:
        """The records of each layout."""
        return vars(self._prepared).setdefault("_call_records", [])

    def _traced(self, fits: Callable[[CallLayout], bool]) -> Iterator[CallRecords]:
        """New records of calls that were made from Python."""
        target = self._target
        for key, variants in target.program.variants.copy().items():
            for variant in list(variants):
                if variant.refresh(target.f) is None:
                    continue
                example = example_of(target, key, variant)
                if example is not None and fits(given_layout(target, example)):
                    records = CallRecords(target, example, variant)
                    self.all_records().append(records)
                    yield records
