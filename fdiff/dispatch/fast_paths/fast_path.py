"""Fast paths: a repeated call goes from Python to its kernel in one builtin function.

A prepared function, such as `value_and_grad(f)`, is first called the general way: its arguments are
flattened, a variant is looked up, and the values that `f` read from outside are compared. After a
few calls `fast_path_builder` makes a builtin for calls like the latest one: machine code that
unpacks the arguments, compares what must be unchanged, allocates the results, calls the kernel and
builds the result. A call that does not fit goes the general way.

**How a prepared function calls its fast path.** A prepared function is a `functools.partial`
without arguments, because the call of a partial costs almost nothing. `FastPath.install` replaces
the function behind the partial in place, by `partial.__setstate__`, so that every owner of the
prepared function gets the fast path. Nowhere else does an object of fdiff change the function that
it calls. The general way stays the fallback of every fast path, and is the part that is pickled.
"""

from __future__ import annotations

from functools import partial
from inspect import CO_VARKEYWORDS
from types import CodeType
from typing import TYPE_CHECKING, Any

from ...bounded_cache import WeakValues
from ...capture.dependencies import Held
from ...foreign_errors import not_foreign
from ...process.forking import no_fork
from ...trace.trace_stack import occupied
from ..arguments import Function
from ..program import HELD, MOST_PROGRAMS, Program

if TYPE_CHECKING:
    from .fast_path_builder import Builtin
    from .recorded_plans import Split

SOON = 32  # calls after which a fast path is sought again that waits for the entry stub
AT_LEAST = 64  # calls the general way after which a fast path is sought again: kernels come late
AGAIN = 8  # calls the general way, for each fast path so far, after which one more is sought
CHAIN = 6  # fast paths of one function that are tried in turn, the latest first


def no_fast_path(*_: object) -> None:
    """Stands for the fast path of a function that has none: there is no result."""


class _Search:
    """The general calls after which a fast path is looked for: 2, 4, 8, ..., 64, 128, 192, ...

    After a fast path exists, the search runs later, because each fast path takes memory.
    """

    __slots__ = ("_built", "_calls", "_due")

    def __init__(self) -> None:
        self._calls, self._due, self._built = 0, 2, 0

    def _is_due(self) -> bool:
        """Count a call that went the general way; whether to look for a fast path after it."""
        self._calls += 1
        if self._calls < self._due:
            return False
        self._due = self._calls + min(self._calls, AT_LEAST)
        return True

    def _build(
        self, program: Program, f: Function,
        call: tuple[tuple[object, ...], dict[str, object], Split],
        fallback: Builtin, *, first: bool = False, out: bool = False,
    ) -> Builtin | None:  # fmt: skip
        """The fast path for calls like this one, with its `Split`, if there is one by now."""
        with no_fork:  # no first call needs it
            from .fast_path_builder import SampleCall, StubPendingError, build_fast_path  # noqa: PLC0415 - see above
        try:
            builtin = build_fast_path(program, f, SampleCall(*call, out=out), fallback, first=first)
        except StubPendingError:
            self._due = self._calls + SOON
            return None
        if builtin is not None:  # calls that it does not fit may go another way by now
            self._built += 1
            self._due = self._calls + AGAIN * self._built
        return builtin


class FastPath(_Search):
    """The fast paths of one prepared function.

    A fast path replaces `general`, and hands arguments of another kind to it, or to the previous
    fast path, made for arguments of that kind. `split` separates the arguments of `f` from vectors.
    `writes_out` says that ``out=`` belongs to fdiff, and is not an argument of `f`.
    """

    __slots__ = (
        "__weakref__", "_f", "_held", "_latest", "_prepared", "_program", "_split", "general",
        "writes_out",
    )  # fmt: skip
    general: Builtin

    def __init__(self, program: Program, f: Function, *, out: bool = True) -> None:
        super().__init__()
        self.writes_out = out and not has_parameter(f, "out")
        self._program = program
        self._f = f
        self._latest: Builtin | None = None
        self._held = Held(HELD)

    def attach(self, prepared: partial[object], general: Builtin, split: Split) -> None:
        """Note the prepared function whose calls this shortens, and its Python function."""
        self._prepared, self.general, self._split = prepared, general, split
        _every[id(self)] = self  # now: another thread may clear the caches at any moment

    def seek(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Look for a fast path for such arguments, after a call that went the general way."""
        if not self._is_due():
            return
        fallback = self._latest if self._latest and self._built % CHAIN else self.general
        call = args, kwargs, self._split
        builtin = self._build(self._program, self._f, call, fallback, out=self.writes_out)
        if builtin is not None:
            self._latest = builtin
            self.install(builtin)

    def hold(self) -> None:
        """Hold what the latest call found outside `f`, for the next one, as long as this lives.

        A program is shared by all functions of one code, and lives longer than any of them.
        """
        self._held.take(self._program.held)

    def reset(self) -> None:
        """Forget everything that was found, as at the beginning."""
        self._held.clear()
        self._latest, self._calls, self._due, self._built = None, 0, 2, 0
        self.install(self.general)

    def install(self, builtin: Builtin) -> None:
        """Have the prepared function call `builtin` from now on."""
        state = (builtin, (), {}, vars(self._prepared))
        self._prepared.__setstate__(state)  # type: ignore[attr-defined] - stubs leave it out


class ImmediateFastPath(_Search):
    """The fast path of calls that name the function each time, as ``jacobian(f, x)`` does.

    It serves every function that leads to the same objects as the function of the first call: a
    ``lambda`` in a loop makes a new function at each iteration. `builtin` takes the function, the
    point and, for products, a vector.
    """

    __slots__ = ("_code", "builtin")

    def __init__(self, code: object) -> None:
        super().__init__()
        self._code = code  # kept alive, because it is known by its address
        self.builtin: Builtin = no_fast_path

    def seek(
        self, program: Program, f: Function, args: tuple[object, ...], *, spread: bool
    ) -> None:
        """Look for a fast path for such calls, after one that went the general way.

        The first of `args` is the point: an argument of `f`, or with `spread` a tuple of them.
        """
        if not self._is_due():
            return
        fallback = self.builtin if self._built % CHAIN else no_fast_path
        call = args, {}, _point_spread if spread else _point
        self.builtin = self._build(program, f, call, fallback, first=True) or self.builtin


# By the address of the function's code, the class of the point, and the operator.
_immediate: dict[object, ImmediateFastPath] = {}


def known_fast_path(f: object, inputs: object, operator: object) -> Builtin:
    """The fast path of an immediate call of `f`, or a function that returns None.

    No check of the arguments comes first: a fast path takes only calls like its sample.
    """
    if occupied:
        return no_fast_path
    try:  # by its address, because a code object is slow to hash
        return _immediate[id(f.__code__), inputs.__class__, operator].builtin  # type: ignore[attr-defined] - what has none has no fast path
    except not_foreign(AttributeError, KeyError, TypeError, again=partial(getattr, f, "__code__")):
        # A class need not be hashable.
        return no_fast_path


def immediate_fast_path(f: object, inputs: object, operator: object) -> ImmediateFastPath | None:
    """The fast path of such calls, made if there is none; None of a function without code."""
    code = getattr(f, "__code__", None)
    if code is None:
        return None
    key = id(code), inputs.__class__, operator
    fast_path = _immediate.get(key)
    if fast_path is None:
        fast_path = _immediate[key] = ImmediateFastPath(code)
        if len(_immediate) > MOST_PROGRAMS:
            _immediate.pop(next(iter(_immediate)), None)
    return fast_path


_every: WeakValues[int, FastPath] = WeakValues()  # of prepared functions


def forget_fast_paths() -> None:
    """Drop the fast paths of immediate calls and of prepared functions."""
    _immediate.clear()
    for path in _every.values():
        path.reset()


def _point(arguments: tuple[object, ...]) -> tuple[tuple[object, ...], tuple[object, ...]]:
    return arguments[:1], arguments[1:]


def _point_spread(arguments: tuple[Any, ...]) -> tuple[tuple[object, ...], tuple[object, ...]]:
    return tuple(arguments[0]), arguments[1:]


def has_parameter(f: Function, name: str) -> bool:
    """Whether a Python function has a parameter of this name, or takes any."""
    code: CodeType | None = getattr(f, "__code__", None)
    if code is None:
        return False
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return name in named or bool(code.co_flags & CO_VARKEYWORDS)
