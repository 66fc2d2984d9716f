"""Trials of reads and writes outside of a function: look-ups, predicates, stores."""

from __future__ import annotations

from collections.abc import Iterator

import fdiff.intact_numpy as np

from ..stub.call_descriptor import (
    ATTRIBUTES,
    OWNED,
    CallSignature,
    KernelInput,
    KernelOutput,
    Lookup,
    ResultStep,
)
from .structured_calls import Fields
from .trial import CHECKS, F8, MISS, ONE, Trial


def outside_trials() -> Iterator[Trial]:
    """Trials of comparisons of the full stub before a call, and of arrays that it writes to."""
    yield from _entries()
    yield from _objects()
    yield from _stores()


def _holds(value: object) -> bool:
    return not callable(value)


def _fails(_: object) -> bool:
    return False


def _raised(_: object) -> bool:
    raise ArithmeticError


def _absent(_: object) -> bool:
    raise LookupError


VALUE, KEY, NAME, TAG, FAILS = object(), "a key", "first", "a tag", "fails"
THING = Fields(TAG, VALUE)
ARRAY = np.arange(3.0)
FIRST = Lookup("PyDict_GetItemWithError", {"first": None, KEY: VALUE}, id(KEY), id(VALUE))
OWN = Lookup("PyObject_GetAttr", THING, id(NAME), id(TAG), OWNED)
FIXED = (KernelInput(-1, (3,), F8, array=ARRAY),)


def _with(*lookups: Lookup, **others: object) -> Trial:
    """A call with these look-ups and other conditions."""
    kept = (VALUE, KEY, NAME, TAG, FAILS, THING)
    checks = CHECKS._replace(lookups=lookups, kept=kept, **others)
    return Trial(ONE, (ARRAY,), (KernelInput(0, (3,), F8),), (ARRAY,), checks=checks)


def _entries() -> Iterator[Trial]:
    """Entries of dicts, whose keys are all names or not, and of dicts in registers."""
    scope = FIRST._replace(holder={KEY: VALUE, 1: VALUE})
    for same in (FIRST, scope):
        yield _with(same)
        yield _with(same, FIRST)
        for wrong in (same._replace(value=id(KEY)), same._replace(value=0)):
            yield _with(wrong)._replace(outcome=MISS)
            yield _with(wrong, same)._replace(outcome=MISS)
    yield _with(FIRST, scope)
    for patch in (("kind", 0), ("into", id(NAME)), ("value", id(KEY)), ("function", id(VALUE))):
        yield _with(FIRST)._replace(patch=patch, outcome=MISS)
    chain, get = {KEY: {KEY: {KEY: VALUE}}}, "PyDict_GetItemWithError"
    steps = [Lookup(get, 0, id(KEY), into=1), Lookup(get, 1, id(KEY), into=2)]
    for last, outcome in ((VALUE, ONE), (TAG, MISS)):
        steps[2:] = [Lookup(get, 2, id(KEY), id(last))]
        yield _with(*steps)._replace(given=(chain,), inputs=FIXED, outcome=outcome)
    for table in ({KEY: {}}, {}):
        yield _with(*steps)._replace(given=(table,), inputs=FIXED, outcome=MISS)


def _objects() -> Iterator[Trial]:
    """Attributes, how many there are, and predicates; values that are lent, and new references."""
    yield _with(OWN, FIRST)
    for wrong in (OWN._replace(value=id(VALUE)), OWN._replace(argument=id(KEY))):
        yield _with(wrong)._replace(outcome=MISS)
    yield _with(OWN._replace(argument=id(FAILS)))._replace(outcome=ArithmeticError)
    yield _with(OWN)._replace(given=(), inputs=FIXED, signature=CallSignature(0))
    length = Lookup("_PyObject_GetDictPtr", _raised, 0, 0, ATTRIBUTES)
    _absent.__dict__["kept"] = VALUE
    for same in (length, length._replace(holder=len), length._replace(holder=_absent, value=1)):
        yield _with(same)
    for wrong in (length._replace(value=1), length._replace(holder=_absent)):
        yield _with(wrong)._replace(outcome=MISS)
    outcomes = {_holds: ONE, _fails: MISS, _raised: ArithmeticError, _absent: LookupError}
    for predicate, outcome in outcomes.items():
        yield _with(predicates=((_holds, VALUE), (predicate, THING)))._replace(outcome=outcome)
    yield _with(occupied={KEY: VALUE})._replace(outcome=MISS)


def _stores() -> Iterator[Trial]:
    """Arrays that the kernel writes to: they are of the caller's, and overlap nothing."""
    array, out = np.arange(3.0), np.zeros(6)
    read, write = KernelInput(0, (3,), F8), KernelInput(1, (3,), F8, written=0)
    outputs = (KernelOutput((3,), F8, made=False),)
    step, pair = (ResultStep("ARGUMENT", 1),), CallSignature(2)
    arguments, inputs = (array, out[:3]), (read, write)
    base = Trial(arguments[1], arguments, inputs, arguments, step, outputs, pair)
    for arguments in ((array, out[:3]), (array, out[3:]), (out[:3], out[3:]), (out[3:], out[:3])):
        yield base._replace(given=arguments, operands=arguments, outcome=arguments[1])
    frozen = out[:3].copy()
    frozen.flags.writeable = False
    both = Trial(out, (out[:2], out[2:4]), result=(ResultStep("ARGUMENT", 1),), signature=pair)
    writes = tuple(KernelInput(k, (2,), F8, written=k) for k in range(2))
    two = tuple(KernelOutput((2,), F8, made=False) for _ in range(2))
    both = both._replace(inputs=writes, outputs=two, operands=both.given, outcome=both.given[1])
    yield both
    yield both._replace(given=(out[:2], out[1:3]), outcome=MISS)
    three, arguments = (read, read._replace(register=2), write), (array, out[:3], array)
    same = base._replace(given=arguments, inputs=three, operands=(array, array, out[:3]))
    yield same._replace(outcome=arguments[1], signature=CallSignature(3))
    for arguments in (
        (array, frozen),
        (out[:3], out[:3]),
        (out[:3], out[1:4]),
        (out[2:5], out[:3]),
    ):
        yield base._replace(given=arguments, outcome=MISS)
