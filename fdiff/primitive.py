"""The record of an operation, which is frozen, and the registry of all operations.

Everything fdiff knows of an op stands on its record: `Rules` (type, reference value, derivatives,
batching), `Structure` (which entries depend on which), `Lowering` (kernel rule, rewriting) and the
samples it is tested with. `fdiff.ops` fills the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Final

import fdiff.intact_numpy as np

from .facets import BY_REFERENCE, PLAIN, Lowering, Rules, Structure
from .hooks import Function
from .kernel_rule import Kind
from .named_tuples import NamedTuple
from .process.forking import no_fork


class Zero(Enum):
    """The structural zero: a tangent or cotangent known to vanish whatever the values are."""

    ZERO = "ZERO"  # the only member, so that ``is ZERO`` narrows types

    def __repr__(self) -> str:
        return "ZERO"


ZERO: Final = Zero.ZERO


class Sample(NamedTuple):
    """Arguments an op is tested with: a maker of arrays from a random generator, and parameters.

    `constant` are outputs that count as constants, although they move with the arguments. Where
    `cotangent_kernels` is false, the VJP has an op without a kernel rule, and is interpreted.
    """

    make: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    params: Mapping[str, object] = {}
    constant: tuple[int, ...] = ()
    cotangent_kernels: bool = True


class LateParams(Mapping[str, object]):
    """Parameters of a sample that are made when they are first read: solvers' hold tapes."""

    def __init__(self, make: Callable[[], dict[str, object]]) -> None:
        self._made = cache(make)

    def __getitem__(self, name: str) -> object:
        return self._made()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made())

    def __len__(self) -> int:
        return len(self._made())


SOUGHT_KINDS: Final[set[str]] = set()  # those that any registered rewrite looks for
# When rewrites are asked: for every node of the op, or where an argument is of a kind they seek.
# `NOTED`: nodes of the op itself may be of such a kind, and ops in `_SEEN_WITH` for what they hold.
ASKED, SEEKS, NOTED = 1, 2, 4
_SEEN_WITH = ("constant", "multiply")


@dataclass(frozen=True, eq=False, repr=False)
class Primitive:
    """One operation of the tape; `samples` are what it is tested with."""

    name: str
    family: str  # which other facts follow: "elementwise", "linear", "reduction", "opaque", ...
    rules: Rules
    structure: Structure = PLAIN
    lowering: Lowering = BY_REFERENCE
    samples: tuple[Sample, ...] = ()
    transient: bool = False  # the user made it and may drop it: no trace keeps anything of it
    # When rewrites of the op are asked, and whether others look for its nodes: flags.
    rewriting: int = field(init=False, default=0)
    # Whether a cotangent of zero stays zero, whatever the arguments are.
    spreads_no_nan: bool = field(init=False, default=False)

    def __repr__(self) -> str:
        return self.name

    @property
    def kind(self) -> Kind | None:
        """The op's kind in kernel graphs; None if it has no kernel rule."""
        kernel = self.lowering.kernel
        return None if kernel is None else kernel.kind

    def note_rewrites(self) -> None:
        """Find out `rewriting` again, since an op was registered whose rewrites look for others."""
        rewrites = self.lowering.rewrites
        asked = any(rewrite.sought is None for rewrite in rewrites)
        noted = self.name in SOUGHT_KINDS or self.name in _SEEN_WITH
        flags = (ASKED if asked else SEEKS if rewrites else 0) | (NOTED if noted else 0)
        object.__setattr__(self, "rewriting", flags)

    def __post_init__(self) -> None:
        self.note_rewrites()
        rules = self.rules
        finite = rules.flat or rules.stops or rules.unit_slopes or self.structure.structural
        object.__setattr__(self, "spreads_no_nan", finite or self.family == "linear")


PRIMITIVES: Final[dict[str, Primitive]] = {}
# What computes on traced arrays: for NumPy's ufuncs, for their methods (`reduce`, `outer`, ...),
# and for its functions.
UFUNCS: Final[dict[np.ufunc, Function]] = {}
UFUNC_METHODS: Final[dict[tuple[np.ufunc, str], Callable[..., object]]] = {}
FUNCTIONS: Final[dict[Callable[..., object], Callable[..., object]]] = {}
# What private copies of functions find in place of objects that NumPy hands to no protocol
# (`np.array`, `math.sin`, `scipy.linalg.solve`): by the object's id, the object, which is thereby
# kept alive, and its replacement.
REPLACEMENTS: Final[dict[int, tuple[object, object]]] = {}
# Objects of libraries that hold arrays (a spline, a factorisation), by class: the names of the
# attributes that determine the object, and the function that makes its traced counterpart of the
# object and these. Where a name ends with "?", the attribute may be missing, and is None then; of
# one with "type:" before its name, the class alone counts, and is what is given.
LIBRARY_OBJECTS: Final[dict[type, tuple[tuple[str, ...], Callable[..., object]]]] = {}
# Tables that are imported once the library module they cover has been, by that module's name.
LAZY_TABLES: Final[dict[str, Callable[[], object]]] = {}


def load_tables(*modules: str) -> bool:
    """Import the lazy tables (all, or those for `modules`) whose library module is loaded by now.

    Returns whether there were any.
    """
    names = [
        name
        for name in modules or tuple(LAZY_TABLES)
        if name in LAZY_TABLES and name in sys.modules
    ]
    for name in names:
        if (load := LAZY_TABLES.get(name)) is not None:
            with no_fork:
                load()
            LAZY_TABLES.pop(name, None)
    return bool(names)


def handler_of(function: Callable[..., object]) -> Callable[..., object] | None:
    """The handler of a function of NumPy on traced arrays; None if there is none."""
    handler = FUNCTIONS.get(function)
    if handler is None and LAZY_TABLES:
        load_tables(".".join(str(function.__module__).split(".")[:2]))
        handler = FUNCTIONS.get(function)
    return handler


def register(primitive: Primitive) -> Primitive:
    """Enter `primitive` in the registry; a name can be taken once."""
    if primitive.name in PRIMITIVES:
        raise ValueError(f"primitive {primitive.name!r} is registered twice")
    PRIMITIVES[primitive.name] = primitive
    sought = {kind for rewrite in primitive.lowering.rewrites for kind in rewrite.sought or ()}
    SOUGHT_KINDS.update(sought)
    for kind in sought & PRIMITIVES.keys():
        PRIMITIVES[kind].note_rewrites()
    return primitive
