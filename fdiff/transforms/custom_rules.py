"""User-defined derivatives of a call: the tapes of the user's functions.

`custom_vjp` gives a pullback, which is linear in the cotangents; `custom_jvp` a pushforward, which
is linear in the tangents. Each is the transpose of the other, and so the one that is not given is
made of the one that is by the reverse sweep (R. Frostig et al., Decomposing reverse-mode automatic
differentiation, arXiv:2105.09469, 2021, the whole note).
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..errors import TraceError, message
from ..lazy_attributes import cached_property
from ..primitive import ZERO, Primitive
from ..tape import Tape
from ..trace import Trace, TracedArray, TracedArrays, apply_many, current, splice
from ..user_lines import Line
from .batch import batch
from .custom_calls import CALL, CallRule, Tangents, inlined, note_calls, own_calls_inlined
from .derivative_tapes import bind, choose
from .reverse import vjp
from .simplify import simplify

Bits = tuple[bool, ...]


class Site:
    """Where the rule of a call was written: the public name, and the user's line."""

    __slots__ = ("line", "name")

    def __init__(self, name: str, line: Line | None) -> None:
        self.name = name
        self.line = line


class CustomRule(CallRule):
    """A call with a user-defined derivative rule.

    - `forward` is ``arguments -> (*results, *residuals)`` with results of the `types`;
    - `pull` is ``(*residuals, *arguments, *bars) -> cotangents``;
    - `push` is ``(*residuals, *arguments, *dots) -> tangents``;

    one of the two is `given`. There is a bar, and a tangent, for each floating result, a cotangent
    and a dot for each of the arguments `moving` (positions). Rules are equal if their tapes are,
    but a recursive one, whose tapes hold calls with the same rule, equals itself alone. Such a rule
    exists before its tapes do, and has a `value` tape of its own.
    """

    given: Tape

    def __init__(
        self,
        types: Sequence[ArrayType],
        moving: Sequence[int],
        site: Site,
        *,
        pulls: bool,
        batching: object = None,
        op: Primitive | None = None,
    ) -> None:
        self.types, self.moving, self.site, self.pulls = tuple(types), tuple(moving), site, pulls
        self.batching, self.op = batching, op
        self.floating = [k for k, t in enumerate(types) if t.floating]
        self.recursive = False
        self._hash: int | None = None
        self._plain: Tape | None = None
        self._wide: dict[tuple[Bits, int], CustomRule] = {}

    def fill(self, forward: Tape, derivative: Tape, value: Tape | None = None) -> CustomRule:
        """Set the tapes; a recursive rule has a tape `value` that does not call the rule."""
        self.forward, self.given, self.recursive = forward, derivative, value is not None
        self._plain = value
        for derived in ("value", "run", "pull", "push"):  # of the tapes before
            self.__dict__.pop(derived, None)
        return self

    def _key(self) -> tuple[object, ...]:
        return self.forward, self.given, self.types, self.moving, self.pulls

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, CustomRule) or self.recursive or other.recursive:
            return self is other
        if self.batching is not other.batching:
            return False
        return self._key() == other._key()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = id(self) if self.recursive else hash(self._key())
        return self._hash

    def __repr__(self) -> str:
        return self.site.name

    @property
    def transient(self) -> bool:
        """Whether the rule is kept no longer than its owner: nothing equals a recursive one."""
        return self.recursive or super().transient or self.given.transient

    # -------------------------------------------------------------------------- the tapes

    @cached_property
    def value(self) -> Tape:
        return inlined(self._plain or choose(self.forward, range(len(self.types))))

    @cached_property
    def pull(self) -> Tape:
        return self.given if self.pulls else self._transposed(len(self.moving))

    @cached_property
    def push(self) -> Tape:
        return self._transposed(len(self.floating)) if self.pulls else self.given

    def _transposed(self, linear: int) -> Tape:
        """The transpose of the given rule as a function of its last inputs, `linear` of them."""
        rule = own_calls_inlined(self.given, self, linear) if self.recursive else self.given
        first = len(rule.inputs) - linear
        whole = vjp(rule, range(first, len(rule.inputs)))
        turned = simplify(choose(whole, range(len(rule.outputs), len(whole.outputs))))
        users = turned.users()
        if any(users[turned.inputs[k]] for k in range(first, first + linear)):
            raise self._not_linear()
        unread = {
            k: np.zeros(t.shape, t.dtype) for k, t in enumerate(rule.input_types) if k >= first
        }
        return bind(turned, unread)

    def _not_linear(self) -> TraceError:
        if self.pulls:
            fact = "the backward rule is not linear in the cotangent, so that it has no transpose."
            way = "Give the forward rule, with custom_jvp, or take derivatives in reverse mode."
        else:
            fact = "the rule is not linear in the tangents, so that it has no transpose."
            way = "Compute tangents by sums and products with what depends on the primals alone."
        return TraceError(message(self.site.name, fact, way, self.site.line))

    # -------------------------------------------------------------------------- asked by sweeps

    def pulled(
        self, residuals: TracedArrays, args: TracedArrays, bars: Sequence[object]
    ) -> list[object]:
        seeds = [_filled(bars[k], self.types[k]) for k in self.floating]
        results = splice(self.pull, [*residuals, *args, *seeds], current())
        by_place = dict(zip(self.moving, results, strict=True))
        return [by_place.get(k, ZERO) for k in range(len(args))]

    def pushed(
        self, residuals: TracedArrays, args: TracedArrays, dots: Sequence[object]
    ) -> list[object]:
        seeds = [_filled(dots[k], args[k].type) for k in self.moving]
        results = splice(self.push, [*residuals, *args, *seeds], current())
        by_place = dict(zip(self.floating, results, strict=True))
        return [by_place.get(k, ZERO) for k in range(len(self.types))]

    def tangents(self) -> Tangents | None:
        try:
            return Tangents(self.push, self.moving, self.floating)
        except TraceError:
            return None

    def batched(self, mapped: Bits, size: int) -> CustomRule:
        if (wide := self._wide.get((mapped, size))) is not None:
            return wide
        types = [ArrayType((size, *t.shape), t.dtype) for t in self.types]
        wide = CustomRule(types, self.moving, self.site, pulls=self.pulls)
        wide.recursive = self.recursive
        self._wide[mapped, size] = wide  # before its tapes, which may hold it
        forward = batch(self.forward, mapped, size)
        residuals = [True] * (len(self.forward.outputs) - len(self.types))
        seeds = [True] * len(self.floating) if self.pulls else [mapped[k] for k in self.moving]
        wide_tape = batch(self.given, [*residuals, *mapped, *seeds], size)
        if self.pulls:
            wide_tape = _shared_summed(wide_tape, self.moving, mapped)
        value = batch(self.value, mapped, size) if self.recursive else None
        return wide.fill(forward, wide_tape, value)


def _filled(value: object, type_: ArrayType) -> TracedArray:
    """A cotangent or tangent; zeros where there is none."""
    if isinstance(value, TracedArray):
        return value
    trace = current()
    array = np.zeros(type_.shape, type_.dtype) if value is ZERO else value
    return TracedArray(trace, trace.lift(array, type_.dtype), type_)


def _shared_summed(tape: Tape, moving: Sequence[int], mapped: Bits) -> Tape:
    """A batched pullback where an argument that all elements share gets the sum of cotangents."""
    if all(mapped[k] for k in moving):
        return tape
    with Trace("vmap", lines=False) as trace:
        outs = splice(tape, [trace.input(t) for t in tape.input_types], trace)
        pairs = zip(moving, outs, strict=True)
        outputs = [out if mapped[k] else np.sum(out, axis=0) for k, out in pairs]
        return trace.builder.finish([trace.lift(x) for x in outputs])


class ValueRule(CallRule):
    """The rule of a call that has no derivative where it stands, but has a `batching` rule.

    The results of the `batching` rule may have derivatives with respect to outside values.
    """

    opens = False

    def __init__(self, types: Sequence[ArrayType], forward: Tape, batching: object) -> None:
        self.types, self.forward, self.batching = tuple(types), forward, batching

    def pulled(
        self, residuals: TracedArrays, args: TracedArrays, bars: Sequence[object]
    ) -> list[object]:
        return [ZERO] * len(args)

    def pushed(
        self, residuals: TracedArrays, args: TracedArrays, dots: Sequence[object]
    ) -> list[object]:
        return [ZERO] * len(self.types)

    def batched(self, mapped: Bits, size: int) -> ValueRule:
        types = [ArrayType((size, *t.shape), t.dtype) for t in self.types]
        return ValueRule(types, batch(self.forward, mapped, size), None)


class Refusal(CallRule):
    """The rule of an identity that raises an error when it is differentiated."""

    def __init__(self, type_: ArrayType, words: str) -> None:
        self.types, self.words = (type_,), words
        with Trace("refusal", lines=False) as trace:
            self.forward = trace.builder.finish([trace.input(type_).id])

    def pulled(
        self, residuals: TracedArrays, args: TracedArrays, bars: Sequence[object]
    ) -> list[object]:
        raise RuntimeError(self.words)

    def pushed(
        self, residuals: TracedArrays, args: TracedArrays, dots: Sequence[object]
    ) -> list[object]:
        raise RuntimeError(self.words)

    def batched(self, mapped: Bits, size: int) -> Refusal:
        (type_,) = self.types
        return Refusal(ArrayType((size, *type_.shape), type_.dtype), self.words)


def refusing_derivatives(x: TracedArray, words: str) -> TracedArray:
    """`x` itself, whose derivative is an error with these words."""
    note_calls()
    return apply_many(CALL, x, rule=Refusal(x.type, words))[0]
