"""The shortest way from a call to its kernel: a builtin made for calls like the one before.

A prepared function that is called again with arguments built as they were, and whose outside has
not changed, needs a few comparisons and one call of machine code. Everything else is handed back to
the general way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import CO_VARKEYWORDS
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..arraytype import ArrayType
from ..kernels import Output, Outside
from ..trace.trace_stack import occupied
from .argument_registers import NoShortcutError, Signature
from .arguments import Function
from .native_revalidation import named, outside
from .numpy_warnings import asker
from .result_template import Mark, Recipe
from .tiers import COPY_BELOW

if TYPE_CHECKING:
    from ..capture.dependencies import Pins
    from ..kernels import Input, Parts
    from .program import Program
    from .variant import Variant

Quick = Callable[..., object]
Split = Callable[[tuple[object, ...]], tuple[tuple[object, ...], tuple[object, ...]]]
SOON = 32  # calls after which a shortcut is sought again that waits for the entry stub
CHAIN = 6  # shortcuts of one function that are tried in turn, the latest first


class StubPendingError(Exception):
    """The entry stub is still being compiled in the background."""


def never(*_: object) -> None:
    """The shortcut of a function that has none."""


class Shortcuts:
    """The short ways of one prepared function; the longer none is found, the rarer one is sought.

    A short way takes the place of `general`, which it calls where it leads nowhere: perhaps by
    another one, made for calls of another kind. `split` tells the arguments of `f` from vectors.
    """

    __slots__ = ("_calls", "_due", "_f", "_program", "general", "gone", "serves", "split", "way")
    general: Quick
    way: Callable[[Quick], None]
    split: Split

    def __init__(self, program: Program, f: Function, *, into: bool = True) -> None:
        # Else what is given as ``out`` is for `f`.
        self.serves = into and not _takes(f, "out")
        self._program = program
        self._f = f
        self._calls, self._due = 0, 2
        self.gone: list[Quick] = []  # another thread may be on its way there still

    def look(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Look for a short way for such arguments, after a call that went the general one."""
        self._calls += 1
        if self._calls < self._due:
            return
        self._due = 2 * self._calls
        after = self.gone[-1] if len(self.gone) % CHAIN else self.general
        call = Call(args, kwargs, self.split, out=self.serves)
        try:
            found = shortcut(self._program, self._f, call, after)
        except StubPendingError:
            self._due = self._calls + SOON
            return
        if found is not None:
            self.gone.append(found)
            self.way(found)


class Immediate:
    """The short way of calls that name the function each time, as ``jacobian(f, x)`` does.

    It serves whatever leads to the same objects as the function it was made for: ``lambda`` in a
    loop makes a new function at each turn.
    """

    __slots__ = ("_calls", "_code", "_due", "_found", "quick")

    def __init__(self, code: object) -> None:
        self._code = code  # kept, as it is known by its address
        self._calls, self._due, self._found = 0, 2, 0
        self.quick: Quick = never  # of the function, the point and perhaps a vector

    def look(
        self, program: Program, f: Function, args: tuple[object, ...], *, spread: bool
    ) -> None:
        """Look for a short way for such calls, after one that went the general way.

        The first of `args` is the point: an argument of `f`, or a tuple of arguments that `f` is
        given `spread`.
        """
        self._calls += 1
        if self._calls < self._due:
            return
        self._due = 2 * self._calls
        after = self.quick if self._found % CHAIN else never
        call = Call(args, {}, _point_spread if spread else _point, out=False)
        try:
            found = shortcut(program, f, call, after, first=True)
        except StubPendingError:
            self._due = self._calls + SOON
            return
        if found is not None:
            self._found += 1
            self.quick = found


def _point(given: tuple[object, ...]) -> tuple[tuple[object, ...], tuple[object, ...]]:
    return given[:1], given[1:]


def _point_spread(given: tuple[Any, ...]) -> tuple[tuple[object, ...], tuple[object, ...]]:
    return tuple(given[0]), given[1:]


def _takes(f: Function, name: str) -> bool:
    """Whether a Python function has a parameter of this name, or takes any."""
    code: CodeType | None = getattr(f, "__code__", None)
    if code is None:
        return False
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return name in named or bool(code.co_flags & CO_VARKEYWORDS)


class Call:
    """A call of a prepared function: what it was given, and which of that is for the function.

    With `out`, a keyword of that name says where results are to be written.
    """

    __slots__ = ("args", "kwargs", "out", "split")

    def __init__(
        self, args: tuple[object, ...], kwargs: dict[str, object], split: Split, *, out: bool
    ) -> None:
        self.args = args
        self.kwargs = kwargs
        self.split = split
        self.out = out


def shortcut(
    program: Program, f: Function, call: Call, general: Quick, *, first: bool = False
) -> Quick | None:
    """A builtin for calls like this one, which calls `general` where it leads nowhere.

    None where there is more to do than the entry stub can: what was read or decided is compared in
    full, the program is interpreted, or arguments are of other kinds. `first`: the function to
    differentiate comes before all arguments, and may be a sibling of `f`. Raises `StubPendingError`
    while the entry stub is being compiled.
    """
    try:
        signature = Signature(call.args, call.kwargs, before=int(first), out=call.out)
        own, vectors = call.split(signature.args)
        variant = program.latest(f, own, signature.kwargs)
        if variant is None:
            return None
        kernel = _Bound(variant, f, (own, signature.kwargs), vectors)
        recipe = kernel.recipe(signature, call.kwargs.get("out") if call.out else None)
        outside = kernel.reads(f if first else None)
        if not first:
            outside = outside._replace(occupied=occupied)
        hinted = asker(program, variant, call.split, None if first else f, out=call.out)
        outside = outside._replace(general=general, hinted=hinted)
        return kernel.builtin(signature, recipe, outside)
    except NoShortcutError:
        return None


class _Bound:
    """The kernel that a call comes to: its inputs, and its result in marks."""

    parts: Parts
    result: object

    def __init__(
        self,
        variant: Variant,
        f: Function,
        given: tuple[tuple[object, ...], dict[str, object]],
        vectors: tuple[object, ...],
    ) -> None:
        plan = variant.plan
        step = plan.only_step()
        parts = None if step is None else step.runner.parts()
        pins = [reads.pins(f if k == 0 else g) for k, (g, reads) in enumerate(variant.inner)]
        if step is None or None in pins:
            raise NoShortcutError
        if parts is None:
            raise StubPendingError if step.runner.compiled() else NoShortcutError
        slots = list(step.runner.slots())
        guard = slots.pop() if step.guarded else None
        if guard in slots or (variant.check is not None and guard is None):
            raise NoShortcutError
        self._slots, self._guard = slots, guard
        self.variant, self.parts, self._step = variant, parts, step
        self.pins: list[Pins] = pins  # type: ignore[assignment] - none is None
        self.captured = [self.pins[p][-1][k] for p, k in variant.order]
        self._inputs: list[object] = []
        marks = [Mark(k) for k in slots]
        arrays = [*variant.leaves(*given), *self.captured]
        self._plain = {id(arrays[k]) for k, _ in variant.layouts}
        try:
            self.result = plan.call(arrays, vectors, self._noting(marks))
        except Exception:  # noqa: BLE001 - the plan, or a class of the user's, computes with marks
            self.result = None
        self._computed: Callable[..., object] = lambda *outs: plan.call(
            (), vectors, lambda _step, _arrays: list(outs)
        )

    def _noting(self, marks: list[Mark]) -> Callable[[object, Iterable[object]], list[Mark]]:
        def run(_: object, arrays: Iterable[object]) -> list[Mark]:
            self._inputs = list(arrays)
            return marks

        return run

    def recipe(self, signature: Signature, out: object) -> Recipe:
        """How the result is built; what a plan computes from marks, it computes from arrays."""
        constants = [fixed[0] for fixed in self.variant.outs if fixed]
        if self.result is not None:
            recipe = Recipe(self.result, constants, signature, self.parts)
            if recipe.into(out):
                return recipe
        if signature.out is not None:
            raise NoShortcutError
        recipe = Recipe(None, (), signature, self.parts)
        recipe.finish(self._computed, self._slots)
        return recipe

    def inputs(self, signature: Signature) -> list[Input]:
        """The kernel's inputs, each with its register or as the captured array it is."""
        types = self._step.tape.input_types
        captured = {id(array): array for array in self.captured}
        given = set(map(id, self._inputs))
        if len(self._inputs) != len(types) or not given >= captured.keys():
            raise NoShortcutError
        found: list[Input] = []
        for one, value, type_ in zip(self.parts.inputs, self._inputs, types, strict=True):
            register = signature.register.get(id(value), -1)
            if not _fits(value, type_) or (register < 0 and id(value) not in captured):
                raise NoShortcutError
            array = isinstance(value, np.ndarray)
            found.append(one._replace(
                source=register,
                exact=type(value) if register >= 0 else None,
                array=captured[id(value)] if register < 0 else None,
                copied=array and value.nbytes <= COPY_BELOW and id(value) not in self._plain,
            ))  # fmt: skip
        return found

    def reads(self, f: Function | None) -> Outside:
        """What must be as it was; with `f`, that or a sibling comes before the arguments."""
        before = () if f is None else named(f)
        if before is None:
            raise NoShortcutError
        looks = [outside(pins) for pins in self.pins]
        return Outside(
            reads=(*before, *[read for look in looks for read in look.reads]),
            places=tuple([place for look in looks for place in look.places]),
            kept=[look.kept for look in looks],
        )

    def builtin(self, signature: Signature, recipe: Recipe, outside: Outside) -> Quick | None:
        """The call's descriptor as a builtin; None where the entry stub may not run."""
        if kernels.fault(self.parts.call):
            return None
        call = kernels.entry_stub(full=True)
        if not call:
            raise StubPendingError
        if kernels.fault(call, full=True):
            return None

        elsewhere = [i.written for i in recipe.inputs]
        scalars = recipe.scalars | {self._guard}
        outputs = [
            Output(*made, scalar=k in scalars, made=k not in elsewhere)
            for k, made in enumerate(self.parts.made)
        ]
        inputs = [*self.inputs(signature), *recipe.inputs]
        return kernels.caller(
            call, self.parts.machinery, signature.given, inputs, outputs, recipe.steps,
            outside, self._guard,
        )  # fmt: skip


def _fits(given: object, type_: ArrayType) -> bool:
    """Whether a kernel takes what was given as it is."""
    if isinstance(given, np.ndarray):
        return given.dtype == type_.dtype and given.shape == type_.shape
    return type_.shape == () and np.dtype(type(given)) == type_.dtype
