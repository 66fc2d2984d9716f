"""Trials of structured arguments and results."""

from __future__ import annotations

from collections.abc import Iterator

import fdiff.intact_numpy as np

from ....named_tuples import NamedTuple
from ..stub.call_descriptor import CallSignature, KernelInput, KernelOutput, ResultStep, Unpack
from .trial import F8, MISS, MOVED, ONE, Trial, nested_calls


def structured_trials() -> Iterator[Trial]:
    """Trials of structures that the full stub takes apart and puts together."""
    yield from nested_calls()
    yield from _structures()
    yield from _results()


class Fields(NamedTuple):
    """An argument with attributes."""

    first: object
    second: object

    @property
    def fails(self) -> object:
        raise ArithmeticError


def _none(_: object) -> bool:
    raise LookupError


def _structures() -> Iterator[Trial]:
    """Arguments with names, and items of tuples, lists, dicts and objects with attributes."""
    array, number, tag, other = np.arange(3.0), 2.5, "a tag of its own", np.arange(3.0) + 1.0
    twin = bytes([*b"a tag of its own"]).decode()
    vector, named = KernelInput(1, (3,), F8), CallSignature(1, ("name", "other"))
    base = Trial(ONE, (number,), (vector,), (array,), signature=named)
    yield base._replace(named={"name": array, "other": tag})
    yield base._replace(named={bytes([*b"name"]).decode(): array, "other": tag})
    for wrong in ({"name": array}, {"name": array, "others": tag}, {"Name": array, "other": tag}):
        yield base._replace(named=wrong, outcome=MISS)
    yield base._replace(named={"name": array, "other": tag, "third": tag}, outcome=MISS)
    yield base._replace(outcome=MISS)
    yield base._replace(given=(), named={"name": array, "other": tag}, outcome=MISS)
    for what, wrong in ((tag, "another"), (12345678901, 12345678902), (b"some bytes", b"bytes")):
        alike = {str: twin, int: int("12345678901"), bytes: bytes([*b"some bytes"])}[type(what)]
        equal = Unpack("EQUAL", 0, type(what), 0, (what,))
        fixed = (KernelInput(-1, (3,), F8, array=array),)
        same = Trial(ONE, (what,), fixed, (array,), signature=CallSignature(1, (), (equal,)))
        yield same
        yield same._replace(given=(alike,))
        yield same._replace(given=(wrong,), outcome=MISS)
        yield same._replace(given=(1.5,), outcome=MISS)
    half = Unpack("EQUAL", 0, float, 0, (number,))
    yield same._replace(
        given=(float("2.5"),), signature=CallSignature(1, (), (half,)), outcome=MISS
    )
    yield from _unpacked(array, other)


def _unpacked(array: np.ndarray, other: np.ndarray) -> Iterator[Trial]:
    """Items become inputs, in the order of registers; items that do not fit are released."""
    pair = tuple(KernelInput(k, (3,), F8) for k in (1, 2))
    for how, value, wrong, names in (
        ("SEQUENCE", (array, other), ((array,), (array, 1.0), [array, other], (array,) * 3), ()),
        ("SEQUENCE", [array, other], ([array], [], (array, other), [other, 1]), ()),
        ("DICT", {"a": array, "b": other}, ({"a": array, "c": other}, {"b": 1, "a": 2}, {}), "ab"),
        ("FIELDS", Fields(array, other), (Fields(array, 1.0), array), ("first", "second")),
        ("FIELDS", Fields(array, other), (Fields(array, 1.0),), ("first", "third")),
    ):
        unpack = Unpack(how, 0, type(value), 2, tuple(names))
        signature = CallSignature(1, (), (unpack,))
        base = Trial(ONE, (value,), pair, (array, other), signature=signature)
        if "third" in names:
            base = base._replace(outcome=MISS)
        yield base
        for argument in wrong:
            yield base._replace(given=(argument,), outcome=MISS)
    inner = Unpack("SEQUENCE", 1, list, 2)
    outer = Unpack("SEQUENCE", 0, tuple, 2)
    tagged = Unpack("EQUAL", 2, str, 0, ("tag",))
    nested = CallSignature(1, (), (outer, inner, tagged))
    last = tuple(KernelInput(k, (3,), F8) for k in (3, 4))
    base = Trial(ONE, (([array, other], "tag"),), last, (array, other), signature=nested)
    yield base
    yield base._replace(given=(([array, other], "gat"),), outcome=MISS)
    yield base._replace(given=(([array], "tag"),), outcome=MISS)
    yield base._replace(given=([[array, other], "tag"],), outcome=MISS)


def _results() -> Iterator[Trial]:
    """Results of every kind of step, and steps that fail."""
    array, tag = np.arange(3.0), "a tag"
    base = Trial(ONE, (array,), (KernelInput(0, (3,), F8),), (array,))
    output, constant, argument = MOVED, ResultStep("CONSTANT", tag), ResultStep("ARGUMENT", 0)
    scalars = (KernelOutput((), F8, scalar=True), KernelOutput((), np.dtype("f4"), scalar=True))
    both = (MOVED, ResultStep("OUTPUT", 1), ResultStep("GROUP", list, 2))
    base_of_two = base._replace(outputs=scalars, result=both)
    yield base_of_two._replace(outcome=[np.float64(1.0), np.float32(2.0)])
    yield base_of_two._replace(failing=("Scalar", LookupError), outcome=LookupError)
    copy = ResultStep("OUTPUT", 0, 1)
    three = ResultStep("GROUP", tuple, 3)
    again = base._replace(result=(output, copy, output, three), outcome=(ONE, ONE.copy(), ONE))
    yield again._replace(copies=1)
    yield again._replace(failing=("NewCopy", LookupError), outcome=LookupError)
    yield again._replace(failing=("PyTuple_New", LookupError), outcome=LookupError)
    trial = base._replace(given=(array,), result=(argument, constant, ResultStep("GROUP", list, 2)))
    yield trial._replace(outcome=[array, tag], outputs=())
    mapping = ResultStep("MAPPING", None, 2, ("x", "y"))
    nested = (constant, output, argument, mapping, ResultStep("GROUP", tuple, 2))
    into = base._replace(result=nested, outcome=(tag, {"x": ONE, "y": array}))
    yield into
    for name in ("PyDict_New", "PyDict_SetItem", "PyTuple_New"):
        yield into._replace(failing=(name, LookupError), outcome=LookupError)
    call = (ResultStep("CALL", Fields, 2), ResultStep("GROUP", list, 2))
    yield base._replace(
        result=(constant, output, argument, *call), outcome=[tag, Fields(ONE, array)]
    )
    by_name = ResultStep("CALL", Fields, 2, ("second", "first"))
    yield base._replace(result=(output, argument, by_name), outcome=Fields(array, ONE))
    yield base._replace(result=(constant, output, ResultStep("CALL", Fields, 1)), outcome=TypeError)
    guards = (KernelOutput((2, 1), F8), KernelOutput((), np.dtype("?"), scalar=True))
    for outcome in (ONE, MISS):
        yield base._replace(outputs=guards, guard=1, outcome=outcome)
    first = (guards[1], guards[0])
    second = base._replace(outputs=first, guard=0, result=(ResultStep("OUTPUT", 1),))
    for outcome in (np.full((2, 1), 2.0), MISS):
        yield second._replace(outcome=outcome)
    wide = tuple(KernelOutput((), np.dtype("c16"), scalar=True) for _ in range(2))
    turned = np.zeros(4, "f8,u4")["f0"]
    thirds = [np.complex128((k + 1) * (1 + 1j) / 3) for k in range(2)]
    by_numpy = Trial(thirds, (turned,), result=both, outputs=wide)
    entry = KernelInput(0, (4,), F8, copyable=True)
    yield by_numpy._replace(inputs=(entry,), operands=(turned,), copies=1)
    yield base._replace(result=(output, ResultStep("CALL", _none, 1)), outcome=LookupError)
