"""The rule of a checkpoint: it keeps no residuals, and the reverse sweep computes it again.

Its pullback reads the arguments of the call behind a barrier (`ops/control/barrier.py`), which
waits for the cotangents. So the second computation is not merged with the first, and comes when it
is needed. A derivative of such a call is such a call again, so that this holds at every order.

One level of A. Griewank and A. Walther, Algorithm 799: revolve, ACM TOMS 26(1), 2000.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..bounded_cache import WeakValues
from ..ops.control.barrier import behind
from ..primitive import ZERO
from ..tape import Tape, prune
from ..trace import TracedArrays, apply_many, derived_lines
from .batch import batch
from .cotangent_masks import Bar
from .custom_calls import CALL, CallRule, closed, opened
from .derivative_tapes import choose
from .forward import jvp
from .reverse import pull_back
from .rule_templates import Seeds, Targets

Places = tuple[int, ...]


class CheckpointRule(CallRule):
    """The rule of a call that computes `forward` without residuals. See `checkpoint_rule`."""

    opens = False
    checkpoint = True

    def __init__(self, forward: Tape) -> None:
        self.forward = forward
        self.types = forward.output_types
        self._pulls: dict[tuple[Places, Seeds], tuple[CheckpointRule, Targets]] = {}
        self._pushes: dict[tuple[Places, Places], CheckpointRule] = {}

    def __repr__(self) -> str:
        return "checkpoint"

    def pulled(
        self, residuals: TracedArrays, args: TracedArrays, bars: Sequence[object]
    ) -> list[object]:
        """A cotangent of each floating argument, from a call that computes the values again."""
        pairs = zip(self.types, bars, strict=True)
        bars_of_outputs = [bar if t.floating and isinstance(bar, Bar) else None for t, bar in pairs]
        wrt = tuple([k for k, a in enumerate(args) if a.type.floating])
        seeds = [bar.value for bar in bars_of_outputs if bar is not None]
        if not seeds or not wrt:
            return [ZERO] * len(args)
        masks = [bar.mask for bar in bars_of_outputs if bar is not None and bar.mask is not None]
        flags = tuple([None if bar is None else bar.mask is not None for bar in bars_of_outputs])
        rule, targets = self._pull(wrt, flags)
        results = apply_many(CALL, *behind(args, seeds), *seeds, *masks, rule=rule)
        out: list[object] = [ZERO] * len(args)
        for k, place, mask in targets:
            out[k] = Bar(results[place], None if mask is None else results[mask])
        return out

    def pushed(
        self, residuals: TracedArrays, args: TracedArrays, dots: Sequence[object]
    ) -> list[object]:
        """A tangent of each floating result, from a call that shares its values with this one."""
        moving = [k for k, dot in enumerate(dots) if dot is not ZERO]
        floating = [k for k, t in enumerate(self.types) if t.floating]
        rule = self._push(tuple(moving), tuple(floating))
        results = apply_many(CALL, *args, *[dots[k] for k in moving], rule=rule)
        by_place = dict(zip(floating, results, strict=True))
        return [by_place.get(k, ZERO) for k in range(len(self.types))]

    def _pull(self, wrt: Places, seeds: Seeds) -> tuple[CheckpointRule, Targets]:
        """The call ``(*inputs, *bars, *masks) -> results``, and the meaning of each result."""
        key = wrt, seeds
        if key not in self._pulls:
            tape = opened(self.forward, wrt)
            swept, _, targets = pull_back(tape, wrt, seeds, starts=True)
            self._pulls[key] = checkpoint_rule(closed(prune(swept, swept.outputs))), targets
        return self._pulls[key]

    def _push(self, wrt: Places, of: Places) -> CheckpointRule:
        """The call that computes tangents from ``(*inputs, *dots)``."""
        key = wrt, of
        if key not in self._pushes:
            whole = jvp(self.forward, wrt)
            self._pushes[key] = checkpoint_rule(choose(whole, [len(self.types) + k for k in of]))
        return self._pushes[key]

    def batched(self, mapped: tuple[bool, ...], size: int) -> CheckpointRule:
        return checkpoint_rule(batch(self.forward, mapped, size))


# One rule for equal tapes, so that what is derived of it is derived once. Where the lines count
# that derivatives come from, each call has a rule of its own. By the hash of the tape.
_rules: WeakValues[int, CheckpointRule] = WeakValues()


def checkpoint_rule(forward: Tape) -> CheckpointRule:
    """The rule of the call that computes this tape."""
    rule = _rules.get(hash(forward))
    if rule is None or rule.forward != forward or derived_lines.wanted.on:
        rule = _rules[hash(forward)] = CheckpointRule(forward)
    return rule
