"""Call descriptors: what the entry stub is to do, before it becomes words of its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...process.float_flags import note

# How the value of a `Read` is returned: as a reference that is owned, as the place of a dict.
OWNED, ATTRIBUTES = 1, 2


class KernelInput(NamedTuple):
    """An array or number a kernel reads, or an array it writes to.

    `source` is its register, -1 for an `array` of one's own. `strided`: the kernel takes any
    strides; `copied`: what is not laid out plainly may be copied. `exact`: nothing but this class
    is taken, an array or a class of numbers, as programs may tell them apart. `written` is the
    number of the output that is put there.
    """

    source: int
    shape: tuple[int, ...]
    dtype: np.dtype
    array: np.ndarray | None = None
    strided: bool = False
    copied: bool = False
    written: int | None = None
    exact: type | None = None


class Unpack(NamedTuple):
    """An argument taken apart into registers, or compared with what it was.

    `how` is ``SEQUENCE`` for tuples, named tuples and lists, whose items are unpacked; ``DICT`` or
    ``FIELDS`` for the values behind `names`, in their order; ``SAME`` where it is that one of
    `names`, or equals it.
    """

    how: str
    source: int
    kind: type
    size: int = 0
    names: tuple[object, ...] = ()


class Given(NamedTuple):
    """What a call is given: so many positional arguments, then keywords in their order.

    All of them are registers, and after them what `unpacks` find in these, in turn.
    """

    arguments: int
    keywords: tuple[str, ...] = ()
    unpacks: tuple[Unpack, ...] = ()


class Make(NamedTuple):
    """A step of a result's recipe: it takes `size` objects from the stack and leaves one.

    ``MADE``, output number `what` (with `size` a copy of it), a ``CONSTANT``, register `what` as it
    was ``GIVEN``; ``GROUP`` of class `what`, tuple or list; ``TABLE`` of `names`, a dict; what the
    ``CALLED`` object `what` gives for positional arguments, or for those `names`.
    """

    how: str
    what: Any
    size: int = 0
    names: tuple[str, ...] = ()


class KernelOutput(NamedTuple):
    """An array, or a `scalar`, that is made for the result, unless an input is where it goes."""

    shape: tuple[int, ...]
    dtype: np.dtype
    scalar: bool = False
    made: bool = True


class Machinery(NamedTuple):
    """A kernel as machine code, its tables, constants and workspace of so many bytes."""

    address: int
    ints: np.ndarray
    floats: np.ndarray
    constants: tuple[np.ndarray, ...]
    size: int
    cell: np.ndarray  # holds the address of a spare workspace
    keep: bool
    release: bool
    owner: object


class Read(NamedTuple):
    """A function of Python's API that looks at an object, and what it must return.

    `function` is given the object `thing` and `argument`. That and `value` are addresses of
    objects, or numbers; null is a value too. `how` the value is returned: it may be ``OWNED``, or
    the place of a dict, whose length counts (``ATTRIBUTES``). With `into` it is not compared, but
    kept in that register, and may be the `thing` of later reads; a register is meant by its number,
    and 0 is the first argument.
    """

    function: str
    thing: object
    argument: int = 0
    value: int = 0
    how: int = 0
    into: int = 0


class Preconditions(NamedTuple):
    """What must hold for a call to go to the kernel: what was read from outside is as it was.

    `reads` are checked by machine code, `places` by Python functions; `kept` are the objects whose
    addresses stand in `reads`. The dict `occupied` must be empty (see `fdiff.trace.trace_stack`).
    Any other call goes to `general`; without one the caller returns None. `hinted` is called with
    the arguments where the processor's floating-point flags hint at something.
    """

    reads: tuple[Read, ...] = ()
    places: tuple[tuple[object, object], ...] = ()
    kept: object = None
    occupied: dict[object, None] | None = None
    general: Callable[..., object] | None = None
    hinted: Callable[..., object] = note
