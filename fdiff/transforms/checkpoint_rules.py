"""The rule of a call that keeps nothing for a reverse sweep: what it computes is computed again.

Its pullback reads the arguments of the call behind a barrier (`ops/ordering.py`), which waits for
the cotangents. So the second computation is not merged with the first, and comes when it is needed.
A derivative of such a call is such a call again, so that this holds at every order.

One level of A. Griewank and A. Walther, Algorithm 799: revolve, ACM TOMS 26(1), 2000.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

from ..attributes import cached_property
from ..interpret import Interpreter
from ..ops.ordering import behind
from ..primitive import ZERO
from ..tape import Tape
from ..trace import TracedArray, apply_many, derived_lines
from .batch import batch
from .custom_calls import CALL, Tangents, Traced, inlined
from .derivative_tapes import choose
from .forward import jvp
from .reverse import vjp

Places = tuple[int, ...]


class CheckpointRule:
    """What a call computes, `forward`; there are no residuals. See `checkpoint_rule`."""

    opens = False
    checkpoint = True
    batching = None

    def __init__(self, forward: Tape) -> None:
        self.forward = forward
        self.types = forward.output_types
        self._derived: dict[tuple[bool, Places, Places], CheckpointRule] = {}

    def __repr__(self) -> str:
        return "checkpoint"

    @cached_property
    def value(self) -> Tape:
        return inlined(self.forward)

    @cached_property
    def run(self) -> Interpreter:
        return Interpreter(self.value)

    def pulled(self, residuals: Traced, args: Traced, bars: Sequence[object]) -> list[object]:
        """A cotangent of each floating argument, from a call that computes the values again."""
        there = [k for k, t in enumerate(self.types) if t.floating and bars[k] is not ZERO]
        wrt = [k for k, a in enumerate(args) if a.type.floating]
        if not there or not wrt:
            return [ZERO] * len(args)
        seeds = [bar for k in there if isinstance(bar := bars[k], TracedArray)]
        rule = self._derivative(tuple(wrt), tuple(there), pulls=True)
        found = apply_many(CALL, *behind(args, seeds), *seeds, rule=rule)
        by_place = dict(zip(wrt, found, strict=True))
        return [by_place.get(k, ZERO) for k in range(len(args))]

    def pushed(self, residuals: Traced, args: Traced, dots: Sequence[object]) -> list[object]:
        """A tangent of each floating result, from a call that shares its values with this one."""
        moving = [k for k, dot in enumerate(dots) if dot is not ZERO]
        floating = [k for k, t in enumerate(self.types) if t.floating]
        rule = self._derivative(tuple(moving), tuple(floating), pulls=False)
        found = apply_many(CALL, *args, *[dots[k] for k in moving], rule=rule)
        by_place = dict(zip(floating, found, strict=True))
        return [by_place.get(k, ZERO) for k in range(len(self.types))]

    def _derivative(self, wrt: Places, of: Places, *, pulls: bool) -> CheckpointRule:
        """The call that computes cotangents from ``(*inputs, *bars)``, or tangents from dots."""
        key = pulls, wrt, of
        found = self._derived.get(key)
        if found is None:
            tape, count = self.forward, len(self.types)
            whole = vjp(tape, wrt, of) if pulls else jvp(tape, wrt)
            some = range(len(wrt)) if pulls else of
            found = self._derived[key] = checkpoint_rule(choose(whole, [count + k for k in some]))
        return found

    def tangents(self) -> Tangents | None:
        return None  # who asks for patterns has the nodes in place of the call

    def batched(self, mapped: tuple[bool, ...], size: int) -> CheckpointRule:
        return checkpoint_rule(batch(self.forward, mapped, size))


# One rule for equal tapes, so that what is derived of it is derived once. Where the lines count
# that derivatives come from, each call has a rule of its own.
_rules: WeakValueDictionary[Tape, CheckpointRule] = WeakValueDictionary()


def checkpoint_rule(forward: Tape) -> CheckpointRule:
    """The rule of the call that computes this tape."""
    found = _rules.get(forward)
    if found is None or derived_lines.wanted.on:
        found = _rules[forward] = CheckpointRule(forward)
    return found
