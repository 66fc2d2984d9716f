"""What an operation is: one frozen record, and the registry of all of them.

Everything fdiff knows of an op stands on its record: type rule, reference value, both derivative
rules, batching, lowering and the samples it is tested with. `fdiff.ops` fills the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from .process.forking import no_fork

if TYPE_CHECKING:
    from .arraytype import ArrayType


class Zero:
    """The structural zero: a tangent or cotangent known to vanish whatever the values are."""

    _only: Self | None = None

    def __new__(cls) -> Self:
        cls._only = cls._only or super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "ZERO"


ZERO: Final = Zero()


class Lower(NamedTuple):
    """How a kernel computes an op: the kind of loop it becomes and the text of its body.

    Kinds: ``scalar`` (entry by entry; `text` is an expression in ``{0}``, ``{1}``, ... and
    ``{T}``, the NumPy name of the output dtype), ``view`` (an index map, by the op's name),
    ``reduce`` and ``scan`` (`text` names the accumulation), ``call`` (`text` names a routine of
    ``kernels/runtime.py``), and ``special`` (the scheduler knows the op by its name).
    """

    kind: str
    text: str = ""
    fast: str = ""  # an alternative for constant second operands, by value: "2:{0} * {0}"


class Sample(NamedTuple):
    """Arguments an op is tested with: a maker of arrays from a random generator, and parameters."""

    make: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    params: dict[str, object] = {}  # noqa: RUF012 - never mutated


class Kink(NamedTuple):
    """Where an op has no derivative: `point` in words, and ``mask(*args, **params)``.

    The mask is shaped like the output (or broadcasts to it) and is true where the derivative does
    not exist; a tuple of masks has one for each argument, None for one the op is smooth in.
    """

    point: str
    mask: Callable[..., object]
    jumps: bool = False  # whether the value itself jumps there, not its slope alone


@dataclass(frozen=True, eq=False)
class Primitive:
    """One operation of the tape.

    Rules are written in plain NumPy on traced arrays, so a derivative of a derivative needs
    nothing more. `args` and `outs` are tuples, `params` the node's static parameters.

    - ``infer(*types, **params)`` gives the output types;
    - ``evaluate(*arrays, **params)`` is the reference, in NumPy (a tuple if several outputs);
    - ``jvp(dots, args, outs, **params)`` gives one tangent per output, `dots` holding `ZERO`
      where an argument does not move;
    - ``vjp(bars, args, outs, **params)`` gives one cotangent per argument;
    - ``put(parent, view, **params)``, of an op that gives a view, is the parent once the view holds
      other entries; a view without it cannot be written to;
    - ``batch(args, mapped, size, **params)`` gives outputs with a new leading axis, where
      ``mapped[i]`` tells whether argument `i` carries one;
    - ``kink`` tells where there is no derivative, None where the op is smooth on its domain;
    - ``sizeless`` tells that what the rules enter differs in shapes alone where the sizes are
      others (but the same are equal to each other, to 1 or to 0), and that of the parameters
      `shape` and `sizes` alone depend on sizes.
    """

    name: str
    infer: Callable[..., tuple[ArrayType, ...]]
    evaluate: Callable[..., object]
    jvp: Callable[..., Sequence[object]] | None = None
    vjp: Callable[..., Sequence[object]] | None = None
    batch: Callable[..., Sequence[object]] | None = None
    lower: Lower | None = None
    family: str = ""
    structural: bool = False  # moves or adds entries only: a mask passes through its transpose
    view: bool = False  # NumPy gives a view of the first argument
    put: Callable[..., object] | None = None
    flat: bool = False  # carries no derivative, whatever its argument
    kink: Kink | None = None
    sizeless: bool = False
    samples: tuple[Sample, ...] = field(default=())

    def __repr__(self) -> str:
        return self.name


PRIMITIVES: Final[dict[str, Primitive]] = {}
UFUNCS: Final[dict[np.ufunc, Callable[..., object]]] = {}
# By name, too: what other modules of ours ask for.
UFUNC_METHODS: Final[dict[tuple[np.ufunc, str] | str, Callable[..., object]]] = {}
FUNCTIONS: Final[dict[Callable[..., object] | str, Callable[..., object]]] = {}
# What private copies of functions find in place of objects that NumPy hands to no protocol, by id.
ANSWERS: Final[dict[int, tuple[object, object]]] = {}
# Objects of libraries that are made of data, by class: the attributes that tell all, and what makes
# a stand-in of the object and these.
COMPOSED: Final[dict[type, tuple[tuple[str, ...], Callable[..., object]]]] = {}
# Tables that are imported when the module they answer for is first met, by that module's name.
LATE: Final[dict[str, Callable[[], object]]] = {}


def met(*names: str) -> bool:
    """Import the tables for modules (all, or those named) that have been imported meanwhile.

    Whether there were any.
    """
    found = [name for name in names or tuple(LATE) if name in LATE and name in sys.modules]
    for name in found:
        if (load := LATE.get(name)) is not None:
            with no_fork:
                load()
            LATE.pop(name, None)
    return bool(found)


def register(primitive: Primitive) -> Primitive:
    """Enter `primitive` in the registry; a name can be taken once."""
    if primitive.name in PRIMITIVES:
        raise ValueError(f"primitive {primitive.name!r} is registered twice")
    PRIMITIVES[primitive.name] = primitive
    return primitive
