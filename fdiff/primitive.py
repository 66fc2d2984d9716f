"""What an operation is: one frozen record, and the registry of all of them.

Everything fdiff knows of an op stands on its record: type rule, reference value, both derivative
rules, batching, kernel rule and the samples it is tested with. `fdiff.ops` fills the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

import fdiff.intact_numpy as np

from .kernel_rule import ComplexFormula, KernelRule, Kind
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


class LayoutRule(NamedTuple):
    """How the memory layout of an op's result in NumPy follows from its operands.

    `strides` is ``C`` (C order), ``operands`` (as a ufunc derives it from all of them), ``first``
    (as the first operand), ``update`` (the same: it is the first operand with entries stored
    over it), ``view`` (NumPy's view of the first operand) or ``join`` (as `numpy.concatenate`).
    """

    strides: Literal["C", "operands", "first", "update", "view", "join"] = "C"
    leaves_c_order: bool = False  # a view of an array in C order has another order
    may_copy: bool = False  # NumPy copies what it cannot view
    part: str = ""  # the attribute of an array that is a view of part of each entry


class EagerRule(NamedTuple):
    """What makes an op fast in eager traces, which compute each node when it is entered.

    `operator` computes the same as ``evaluate`` on NumPy's scalars and arrays. ``specialise(params,
    given, types)`` gives a faster ``evaluate`` for nodes of these types, or None. `scalar_rule`
    names the derivative rule for single real numbers, `sign` the operator in generated source.
    """

    operator: Callable[..., object] | None = None
    sign: str = ""
    scalar_rule: str = ""
    specialise: Callable[..., Callable[..., object] | None] | None = None


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


class Kink(NamedTuple):
    """Where an op has no derivative: `point` in words, and ``mask(*args, **params)``.

    The mask is shaped like the output (or broadcasts to it) and is true where the derivative does
    not exist; a tuple of masks has one for each argument, None for one the op is smooth in.
    """

    point: str
    mask: Callable[..., object]
    jumps: bool = False  # whether the value itself jumps there, not its slope alone


class AxisMap(NamedTuple):
    """How an op computes its output along one axis, entry by entry.

    For each argument `sources` holds the axis whose entries belong to the entries of the output's
    axis; None where every entry takes all of the argument. `sized` names the parameter that holds
    the axis' length ("" if none does), and is None where the op is not one for another length.
    """

    sources: tuple[int | None, ...]
    sized: str | None = ""

    def resized(
        self, params: tuple[tuple[str, Any], ...], along: int, length: int
    ) -> tuple[tuple[str, object], ...]:
        """The parameters of the op where this axis has another length."""
        return tuple(
            [
                (k, (*v[:along], length, *v[along + 1 :]) if k == self.sized else v)
                for k, v in params
            ]
        )


class Rewrite(NamedTuple):
    """What may stand in the place of a node: ``rule(builder, args, params)`` gives its id, or None.

    `sought` are the kinds that the rule looks for among the arguments: it is not asked where there
    is none of them. A kind is the name of an op, or one of `ops/rewrites/rewrite_context.py`. None:
    the rule is asked for every node of its op.
    """

    rule: Callable[..., int | None]
    sought: frozenset[str] | None = None


SOUGHT_KINDS: Final[set[str]] = set()  # those that any registered rewrite looks for
# When rewrites are asked: for every node of the op, or where an argument is of a kind they seek.
# `NOTED`: nodes of the op itself may be of such a kind, and ops in `_SEEN_WITH` for what they hold.
ASKED, SEEKS, NOTED = 1, 2, 4
_SEEN_WITH = ("constant", "multiply")
_C_ORDER, _NOT_EAGER = LayoutRule(), EagerRule()


@dataclass(frozen=True, eq=False, repr=False)
class Primitive:
    """One operation of the tape.

    Rules are written in plain NumPy on traced arrays, so a derivative of a derivative needs
    nothing more. `args` and `outs` are tuples, `params` the node's static parameters.

    - ``infer(*types, **params)`` gives the output types;
    - ``evaluate(*arrays, **params)`` is the reference, in NumPy (a tuple if several outputs);
    - ``overwrite(*arrays, **params)`` is the same, of an op that stores entries into a copy of its
      first argument, and stores them into the argument itself;
    - ``jvp(dots, args, outs, **params)`` gives one tangent per output, `dots` holding `ZERO`
      where an argument does not move;
    - ``vjp(bars, args, outs, **params)`` gives one cotangent per argument; with ``told_needs`` it
      is also told for which arguments one is `needed`;
    - ``put(parent, view, **params)``, of an op that gives a view, is the parent once the view holds
      other entries; a view without it cannot be written to;
    - ``batch(args, mapped, size, **params)`` gives outputs with a new leading axis, where
      ``mapped[i]`` tells whether argument `i` carries one;
    - ``kernel`` tells how a kernel computes it, None if no kernel does;
    - ``complex_formulas`` tell how bytecode computes it of complex numbers;
    - ``kink`` tells where there is no derivative, None where the op is smooth on its domain;
    - ``sizeless`` tells that what the rules enter differs in shapes alone where the sizes are
      others (but the same are equal to each other, to 1 or to 0), and that no parameters but
      `shape` and `sizes` depend on sizes;
    - ``shorten(builder, args, params)`` looks for an equal node before one is added: its id or
      None, and the arguments to add it with (load forwarding, dead stores, reshapes of reshapes);
    - ``rewrites`` tell in order what may stand in the place of a node of the op;
    - ``provenance(builder, node, positions)`` tells which operand those entries of a node come
      from, and where they are in it; None where they come from several or are computed.
    - ``axis_map(axis, out_type, *types, **params)`` is the `AxisMap` of an axis of the output, None
      where its entries do not belong to entries of the arguments;
    - ``terms(sweep, node)`` gives the terms of a node of a linear tape, as `ops/terms.py` says; ops
      that act entry by entry, and those with an `axis_map`, need none;
    - ``sparsity(out, *types, **params)`` tells, by types, which entries of the output (rows) can
      have a derivative with respect to which entries of each argument (columns): matrices of truth
      values, None for all; without it, that follows from the family;
    - ``spelled(*args, **params)`` is the output by ops that kernels compute, of one that none does;
    - ``masks(mask, args, **params)`` tells of each argument which entries enter the output's
      entries where `mask` is true; without it, that follows from the transpose.
    """

    name: str
    infer: Callable[..., tuple[ArrayType, ...]]
    evaluate: Callable[..., object]
    jvp: Callable[..., Sequence[object]] | None = None
    vjp: Callable[..., Sequence[object]] | None = None
    batch: Callable[..., Sequence[object]] | None = None
    kernel: KernelRule | None = None
    family: str = ""
    structural: bool = False  # moves or adds entries only: a mask passes through its transpose
    selects: bool = False  # leaves entries of an argument out, or overwrites them
    pulls_masks: bool = False  # its reverse rule takes and gives cotangents with masks
    view: bool = False  # NumPy gives a view of the first argument
    put: Callable[..., object] | None = None
    flat: bool = False  # carries no derivative, whatever its argument
    kink: Kink | None = None
    sizeless: bool = False
    complex_formulas: tuple[ComplexFormula, ...] = ()
    moves: bool = False  # each entry of the output is an entry of an argument, or zero
    chooses: bool = False  # each entry of the output is the one of several that a comparison takes
    unit_slopes: bool = False  # its slopes are 1, -1 or a choice: they spread no NaN
    axis_map: Callable[..., AxisMap | None] | None = None
    masks: Callable[..., Sequence[object]] | None = None
    terms: Callable[..., list[Any]] | None = None
    spelled: Callable[..., object] | None = None
    sparsity: Callable[..., Sequence[np.ndarray | None]] | None = None
    samples: tuple[Sample, ...] = field(default=())
    layout: LayoutRule = _C_ORDER
    overwrite: Callable[..., object] | None = None
    refuses: bool = False  # it has a value, and an error in place of a derivative
    stops: bool = False  # the result counts as independent of the arguments
    told_needs: bool = False  # the reverse rule is told which cotangents are needed
    transient: bool = (
        False  # the user made it and may drop it: nothing is kept of it between traces
    )
    folds: bool = True  # a node whose arguments are constants becomes a constant
    shorten: Callable[..., tuple[int | None, tuple[int, ...]]] | None = None
    rewrites: tuple[Rewrite, ...] = ()
    provenance: Callable[..., tuple[int, list[int]] | None] | None = None
    eager: EagerRule = _NOT_EAGER
    # When rewrites of the op are asked, and whether others look for its nodes: flags.
    rewriting: int = field(init=False, default=0)
    # Whether a cotangent of zero stays zero, whatever the arguments are.
    spreads_no_nan: bool = field(init=False, default=False)

    def __repr__(self) -> str:
        return self.name

    @property
    def kind(self) -> Kind | None:
        """What kernels know the op as; None if it has no kernel rule."""
        return None if self.kernel is None else self.kernel.kind

    def note_rewrites(self) -> None:
        """Find out `rewriting` again, since an op was registered whose rewrites look for others."""
        asked = any(rewrite.sought is None for rewrite in self.rewrites)
        noted = self.name in SOUGHT_KINDS or self.name in _SEEN_WITH
        found = (ASKED if asked else SEEKS if self.rewrites else 0) | (NOTED if noted else 0)
        object.__setattr__(self, "rewriting", found)

    def __post_init__(self) -> None:
        self.note_rewrites()
        finite = self.flat or self.stops or self.structural or self.unit_slopes
        object.__setattr__(self, "spreads_no_nan", finite or self.family == "linear")


PRIMITIVES: Final[dict[str, Primitive]] = {}
# What computes on traced arrays: for NumPy's ufuncs, for their methods (`reduce`, `outer`, ...),
# and for its functions.
UFUNCS: Final[dict[np.ufunc, Callable[..., object]]] = {}
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
# Functions of higher floors that lower floors call: `out` (store into an ``out=`` array),
# `in_order` (memory layout), `select` (if-conversion), `at` (``ufunc.at``), `vectorized` (Numba's
# ufuncs), `vmap`, `recorded_rules`, `recorded_stop` and `recorded_checkpoint` (functions with
# rules, `stop_gradient` and `checkpoint` on recorded arrays).
HOOKS: Final[dict[str, Callable[..., object]]] = {}
# Tables that are imported once the library module they cover has been, by that module's name.
LAZY_TABLES: Final[dict[str, Callable[[], object]]] = {}


def load_tables(*modules: str) -> bool:
    """Import the lazy tables (all, or those for `modules`) whose library module is loaded by now.

    Returns whether there were any.
    """
    found = [
        name
        for name in modules or tuple(LAZY_TABLES)
        if name in LAZY_TABLES and name in sys.modules
    ]
    for name in found:
        if (load := LAZY_TABLES.get(name)) is not None:
            with no_fork:
                load()
            LAZY_TABLES.pop(name, None)
    return bool(found)


def handler_of(function: Callable[..., object]) -> Callable[..., object] | None:
    """What computes a function of NumPy on traced arrays; None if nothing does."""
    found = FUNCTIONS.get(function)
    if found is None and LAZY_TABLES:
        load_tables(".".join(str(function.__module__).split(".")[:2]))
        found = FUNCTIONS.get(function)
    return found


def register(primitive: Primitive) -> Primitive:
    """Enter `primitive` in the registry; a name can be taken once."""
    if primitive.name in PRIMITIVES:
        raise ValueError(f"primitive {primitive.name!r} is registered twice")
    PRIMITIVES[primitive.name] = primitive
    sought = {kind for rewrite in primitive.rewrites for kind in rewrite.sought or ()}
    SOUGHT_KINDS.update(sought)
    for kind in sought & PRIMITIVES.keys():
        PRIMITIVES[kind].note_rewrites()
    return primitive
