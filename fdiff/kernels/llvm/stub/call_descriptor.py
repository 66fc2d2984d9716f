"""Call descriptors: the instructions of the entry stub for the calls of one kernel.

The rest of fdiff builds these records; `descriptor_layout` turns them into machine words. The stub
has *registers* for Python objects: first the arguments of a call, positional arguments before
keywords, and then the objects that are unpacked from arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fdiff.intact_numpy as np

from ....named_tuples import NamedTuple
from ....process.float_flags import note

# How a `Lookup` returns its value: as a new reference, or as the address of a dict's slot, of which
# the length counts.
OWNED, ATTRIBUTES = 1, 2


class KernelInput(NamedTuple):
    """An array or number that a kernel reads, or an array that it writes to.

    The object comes from a `register`, or is always the same `array` (-1). A kernel may take any
    strides (`strided`); otherwise an array of another layout may be copied (`copyable`). With
    `exact` only objects of this class are accepted, arrays or one class of numbers, because
    programs may tell classes apart. `written` is the number of the output that is stored there.
    """

    register: int
    shape: tuple[int, ...]
    dtype: np.dtype
    array: np.ndarray | None = None
    strided: bool = False
    copyable: bool = False
    written: int | None = None
    exact: type | None = None


class Unpack(NamedTuple):
    """An argument whose items become registers, or that is compared with an earlier value.

    `how` is ``SEQUENCE`` for the items of tuples, named tuples and lists; ``DICT`` or ``FIELDS``
    for the values of the keys or attributes `names`, in this order; ``EQUAL`` for an object that
    must be, or equal, the only one of `names`.
    """

    how: str
    register: int
    kind: type
    size: int = 0
    names: tuple[object, ...] = ()


class CallSignature(NamedTuple):
    """The arguments of a call: the number of positional ones, the keywords, and unpacking."""

    arguments: int
    keywords: tuple[str, ...] = ()
    unpacks: tuple[Unpack, ...] = ()


class ResultStep(NamedTuple):
    """An instruction of the stack machine that builds a result: it pops `size` objects, pushes one.

    ``OUTPUT`` pushes output number `what`, with `size` a copy of it; ``CONSTANT`` an object;
    ``ARGUMENT`` a register; ``GROUP`` makes a tuple or list, as the class `what` says; ``MAPPING``
    a dict with the keys `names`; ``CALL`` pushes what `what` returns for positional arguments, or
    for keyword arguments `names`.
    """

    how: str
    what: Any
    size: int = 0
    names: tuple[object, ...] = ()


class KernelOutput(NamedTuple):
    """An output of a kernel: a new array, a `scalar`, or an input that it is stored into."""

    shape: tuple[int, ...]
    dtype: np.dtype
    scalar: bool = False
    made: bool = True


class BoundKernel(NamedTuple):
    """Machine code with its tables of numbers, its constants, and the size of its workspace in
    bytes.

    `spare` holds the address of a workspace for the next call, or 0; if `keep` is set, a call
    returns its workspace there. If `release` is set, the GIL is released while the kernel runs.
    """

    address: int
    ints: np.ndarray
    floats: np.ndarray
    constants: tuple[np.ndarray, ...]
    size: int
    spare: np.ndarray
    keep: bool
    release: bool
    owner: object


class Lookup(NamedTuple):
    """A call of a function of Python's C API that looks at an object, and its expected value.

    `function` is called with `holder` (a mapping, an instance, a cell) and `argument`. The argument
    and `value` are addresses of objects, or numbers; null is a value too. `how` is 0, ``OWNED`` or
    ``ATTRIBUTES``. With `into` the value is not compared but kept in one of three registers of
    look-ups; later look-ups name it by number as their `holder`. Number 0 is the first argument of
    the call.
    """

    function: str
    holder: object
    argument: int = 0
    value: int = 0
    how: int = 0
    into: int = 0


class Preconditions(NamedTuple):
    """The conditions under which a call goes to the kernel: all values read from outside are
    unchanged.

    The stub itself compares `lookups`; `predicates` are functions and an argument, which must
    return True. `kept` are objects whose addresses stand in `lookups`. The dict `occupied` must be
    empty (see `fdiff.trace.trace_stack`). Any other call goes to `fallback`; without a fallback it
    returns None. `on_flags` is called with the arguments if the processor's floating-point flags
    were set.
    """

    lookups: tuple[Lookup, ...] = ()
    predicates: tuple[tuple[object, object], ...] = ()
    kept: object = None
    occupied: dict[object, None] | None = None
    fallback: Callable[..., object] | None = None
    on_flags: Callable[..., object] = note
