"""Facets of an op's record: what it computes, which entries depend on which, how it is lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import fdiff.intact_numpy as np

from .kernel_rule import ComplexFormula, KernelRule
from .named_tuples import NamedTuple

if TYPE_CHECKING:
    from .arraytype import ArrayType


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
    """The rule of an op for eager traces, which compute each node when it is entered.

    `operator` computes the same as ``evaluate`` on NumPy scalars and arrays. ``specialise(params,
    given, types)`` gives a faster ``evaluate`` for nodes of these types, or None. `scalar_rule`
    names the derivative rule for single real numbers, `sign` the operator in generated source.
    """

    operator: Callable[..., object] | None = None
    sign: str = ""
    scalar_rule: str = ""
    specialise: Callable[..., Callable[..., object] | None] | None = None


class Kink(NamedTuple):
    """Where an op has no derivative: `point` in words, and ``mask(*args, **params)``.

    The mask is shaped like the output (or broadcasts to it) and is true where the derivative does
    not exist; a tuple of masks has one for each argument, None for one the op is smooth in.
    """

    point: str
    mask: Callable[..., Any]
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
    """A replacement of a node: ``rule(builder, args, params)`` returns its id, or None.

    `sought` are the kinds that the rule looks for among the arguments: it is not asked where there
    is none of them. A kind is the name of an op, or one of `ops/rewrites/rewrite_context.py`. None:
    the rule is asked for every node of its op.
    """

    rule: Callable[..., int | None]
    sought: frozenset[str] | None = None


_C_ORDER, _NOT_EAGER = LayoutRule(), EagerRule()


class Rules(NamedTuple):
    """The values of an op, and its derivatives.

    Rules are written in plain NumPy on traced arrays, so a derivative of a derivative needs
    nothing more. `args` and `outs` are tuples, `params` the node's static parameters.

    - ``infer(*types, **params)`` gives the output types;
    - ``evaluate(*arrays, **params)`` is the reference, in NumPy (a tuple if several outputs);
    - ``jvp(dots, args, outs, **params)`` gives one tangent per output, `dots` holding `ZERO`
      where an argument does not move;
    - ``vjp(bars, args, outs, **params)`` gives one cotangent per argument; with ``told_needs`` it
      is also told for which arguments one is `needed`;
    - ``batch(args, mapped, size, **params)`` gives outputs with a new leading axis, where
      ``mapped[i]`` tells whether argument `i` carries one;
    - ``overwrite(*arrays, **params)`` is the reference of an op that stores entries into a copy of
      its first argument, and stores them into the argument itself;
    - ``kink`` tells where there is no derivative, None where the op is smooth on its domain.
    """

    infer: Callable[..., tuple[ArrayType, ...]]
    evaluate: Callable[..., object]
    jvp: Callable[..., Sequence[object]] | None = None  # traced arrays, and what the class says
    vjp: Callable[..., Sequence[object]] | None = None
    batch: Callable[..., Sequence[object]] | None = None
    overwrite: Callable[..., object] | None = None
    kink: Kink | None = None
    flat: bool = False  # carries no derivative, whatever its argument
    stops: bool = False  # the result counts as independent of the arguments
    refuses: bool = False  # it has a value, and an error in place of a derivative
    unit_slopes: bool = False  # its slopes are 1, -1 or a choice: they spread no NaN
    told_needs: bool = False  # the reverse rule is told which cotangents are needed
    pulls_masks: bool = False  # the reverse rule takes and gives cotangents with masks


class Structure(NamedTuple):
    """Which entries of the arguments an entry of the output depends on, and where they are.

    - ``put(parent, view, **params)``, of an op that gives a view, is the parent once the view holds
      other entries; a view without it cannot be written to;
    - ``sizeless`` tells that what the rules enter differs in shapes alone where the sizes are
      others (but the same are equal to each other, to 1 or to 0), and that no parameters but
      ``shape`` and ``sizes`` depend on sizes;
    - ``axis_map(axis, out_type, *types, **params)`` is the `AxisMap` of an axis of the output, None
      where its entries do not belong to entries of the arguments;
    - ``masks(mask, args, **params)`` tells of each argument which entries enter the output's
      entries where `mask` is true; without it, that follows from the transpose;
    - ``terms(sweep, node)`` gives the terms of a node of a linear tape, as `ops/terms.py` says; ops
      that act entry by entry, and those with an `axis_map`, need none;
    - ``sparsity(out, *types, **params)`` tells, by types, which entries of the output (rows) can
      have a derivative with respect to which entries of each argument (columns): matrices of truth
      values, None for all; without it, that follows from the family;
    - ``provenance(builder, node, positions)`` tells which operand those entries of a node come
      from, and where they are in it; None where they come from several or are computed.
    """

    structural: bool = False  # moves or adds entries only: a mask passes through its transpose
    selects: bool = False  # leaves entries of an argument out, or overwrites them
    moves: bool = False  # each entry of the output is an entry of an argument, or zero
    chooses: bool = False  # each entry of the output is the one of several that a comparison takes
    view: bool = False  # NumPy gives a view of the first argument
    sizeless: bool = False
    put: Callable[..., object] | None = None
    layout: LayoutRule = _C_ORDER
    axis_map: Callable[..., AxisMap | None] | None = None
    masks: Callable[..., Sequence[Any]] | None = None
    terms: Callable[..., list[Any]] | None = None
    sparsity: Callable[..., Sequence[np.ndarray | None]] | None = None
    provenance: Callable[..., tuple[int, list[int]] | None] | None = None


class Lowering(NamedTuple):
    """How an op is computed by something other than its reference, and what may stand in its place.

    - ``kernel`` tells how a kernel computes it, None if no kernel does;
    - ``complex_formulas`` tell how bytecode, and loops in kernels, compute it of complex numbers;
    - ``spelled(*args, **params)`` is the output by ops that kernels compute, of one that none does;
    - ``shorten(builder, args, params)`` looks for an equal node before one is added: its id or
      None, and the arguments to add it with (load forwarding, dead stores, reshapes of reshapes);
    - ``rewrites`` tell in order what may stand in the place of a node of the op.
    """

    kernel: KernelRule | None = None
    complex_formulas: tuple[ComplexFormula, ...] = ()
    eager: EagerRule = _NOT_EAGER
    spelled: Callable[..., object] | None = None
    shorten: Callable[..., tuple[int | None, tuple[int, ...]]] | None = None
    rewrites: tuple[Rewrite, ...] = ()
    folds: bool = True  # a node whose arguments are constants becomes a constant


PLAIN: Final = Structure()
BY_REFERENCE: Final = Lowering()
