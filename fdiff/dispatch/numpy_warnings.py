"""NumPy's floating-point warnings for compiled programs, as plain code gives them.

The processor's flags (`float_flags`) hint that a kernel divided by zero, overflowed or got an
invalid argument. They do not tell where, or whether only a derivative did so. After a hint,
therefore, the tape of the function is interpreted; if its own values are the cause, the function is
called once as plain Python, so that text, line, filters and `numpy.errstate` are as in plain code.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING, TextIO, cast

import fdiff.intact_numpy as np

from ..errors import Registries, warn
from ..process.float_flags import OFTEN, Doubts, error_state, taken
from ..process.forking import late
from ..tracebacks import trim
from ..tree import map_leaves
from ..user_lines import is_internal
from .arguments import Function, native

if TYPE_CHECKING:
    from ..tape import Tape
    from .inspection.float_warnings import Noted
    from .program import Program
    from .variant import Variant

KINDS = {"divide": "divide by zero", "over": "overflow", "invalid": "invalid value"}
_SHOWN_ONCE = ("default", "module", "once")
_STATES = ("seterr", "errstate")
_STRICT = ("raise", "call", "print", "log")

_MOST_TRIPS = 10_000  # of a loop that NumPy runs to find the warnings

# Imported by the first hint.
inspector_of = late("inspection.inspector", __package__, "Inspector")
warned_of = late("inspection.float_warnings", __package__, "warned_of")
Arguments = tuple[tuple[object, ...], dict[str, object]]
_shown: Registries = {}  # what the filters of `warnings` show once


def warn_after_hint(
    program: Program,
    f: Function,
    arguments: Arguments,
    variant: Variant,
    arrays: Sequence[np.ndarray],
) -> None:
    """After a hint: warn, or raise, as plain code does for these arguments.

    `arrays` are the inputs of the tape of the variant. A hint that comes to nothing is counted, so
    that functions that hint at every call are asked about less and less often.
    """
    doubts = variant.doubts
    if not _would_reach_user(doubts, variant):
        return
    if variant.traced.eager is None:
        variant, arrays = variant.taken(arrays)
        long, inspected = _has_many_trips(variant.traced.tape), variant.doubts
        if not (long and hasattr(f, "program")):  # prepared functions follow their own hints
            inspected.inspector = inspected.inspector or inspector_of(variant.traced.tape)
            warned: list[Noted] = warned_of(inspected.inspector, arrays)
            doubts.false = 0 if warned else doubts.false + 1
            slow = long and not _sets_states(variant)
            # A second call might read state that the first has changed, or change it.
            if not warned or slow or not variant.conditions.cacheable or variant.repeats:
                _warn_all(warned)
                return
    _call_plainly(program, f, arguments)


def _has_many_trips(tape: Tape) -> bool:
    """Whether the loops of a tape take NumPy long, or the numbers of trips are unknown."""
    loops = [dict(tape.nodes[i].params) for i, _, _ in tape.bodies()]
    return any("cond" in loop or loop.get("length", 0) > _MOST_TRIPS for loop in loops)


def warn_of_tape(tape: Tape, arrays: Sequence[np.ndarray]) -> None:
    """After a hint: warn, or raise, at the user's lines of the nodes of a tape of plain code."""
    state = np.geterr()
    if {state[kind] for kind in KINDS} != {"ignore"}:
        _warn_all(warned_of(inspector_of(tape), arrays))


def warning_hook(
    program: Program,
    variant: Variant,
    split: Callable[[tuple[object, ...]], tuple[tuple[object, ...], tuple[object, ...]]],
    f: Function | None,
    *,
    out: bool,
) -> Callable[..., None]:
    """The function that a fast path's entry stub calls after a hint, with the arguments.

    If `f` is None, the hook takes the function before the arguments.
    """

    def hinted(*args: object, **kwargs: object) -> None:
        if variant.doubts.idle():
            return
        function = cast("Function", args[0]) if f is None else f
        own, _ = split(args[1:] if f is None else args)
        if out:
            kwargs.pop("out", None)
        captured = variant.refresh(function)
        if captured is not None:
            arrays = [native(x) for x in variant.traced.leaves(own, kwargs)]
            try:
                warn_after_hint(program, function, (own, kwargs), variant, [*arrays, *captured])
            except BaseException as error:
                trim(error, program.name, function)
                raise

    return hinted


def _would_reach_user(doubts: Doubts, variant: Variant) -> bool:
    """Whether a warning or an error would reach the user, under the filters and `errstate`."""
    rare = doubts.rare()
    modes = {mode for kind, mode in np.geterr().items() if kind in KINDS}
    if modes - {"ignore", "warn"} or _sets_states(variant, _STRICT):
        doubts.state = None
        return True
    doubts.state = error_state()
    if modes == {"ignore"}:
        return False
    action = _action()
    if action == "ignore":
        return False
    return rare or (action not in _SHOWN_ONCE and doubts.false <= OFTEN)


def _action() -> str:
    """The action of the warning filters for a RuntimeWarning from anywhere."""
    for action, words, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if words is None and module is None and not line:
                return action
            if action in ("always", "error", "all"):
                return action
    return str(warnings.defaultaction)  # type: ignore[attr-defined] - stubs leave it out


def _sets_states(variant: Variant, modes: Sequence[str] | None = None) -> bool:
    """Whether the function itself sets `numpy.errstate`, to one of some modes."""
    codes = [getattr(g, "__code__", g) for g, _ in variant.conditions.inner]
    while codes:
        code = codes.pop()
        if isinstance(code, CodeType):
            names = any(name in code.co_names for name in _STATES)
            if names and (modes is None or any(mode in code.co_consts for mode in modes)):
                return True
            codes += [c for c in code.co_consts if hasattr(c, "co_names")]
    return False


# ---------------------------------------------------------------------------------- plain code


def _call_plainly(program: Program, f: Function, arguments: Arguments) -> None:
    """Call the function as plain code, so that NumPy warns or raises."""
    args, kwargs = map_leaves(_private_copy, arguments)
    try:
        if program.plain is not None:
            program.plain(f, args, kwargs)
        elif isinstance(f, FunctionType | MethodType):
            f(*args, **kwargs)
        else:
            _call_at_user_line(f, args, kwargs)
    except (FloatingPointError, Warning):
        raise
    except Exception:
        if "call" in np.geterr().values():  # the user's callback may have raised it
            raise
    finally:
        taken()


def _private_copy(leaf: object) -> object:
    """A copy of an argument, which plain code may write to; Python floats as NumPy scalars."""
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    return np.array(leaf)[()] if type(leaf) in (float, complex) else leaf


def _call_at_user_line(f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Call a function without Python code, such as `numpy.log`, as if from the user's line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        f(*args, **kwargs)
        return
    text = "\n" * (frame.f_lineno - 1) + "f(*args, **kwargs)"
    code = compile(text, frame.f_code.co_filename, "eval")
    eval(code, frame.f_globals, {"f": f, "args": args, "kwargs": kwargs})  # noqa: S307 - our text


def _warn_all(warned: Sequence[Noted]) -> None:
    state = np.geterr()
    flags = {"divide by zero": 1, "overflow": 2, "underflow": 4, "invalid value": 8}
    modes = {words: state[kind] for kind, words in KINDS.items()}
    for words, name, line in dict.fromkeys(warned):
        text = f"{words} encountered in {name}"
        mode = modes.get(words, "ignore")
        if mode == "warn":
            warn(text, RuntimeWarning, line, _shown)
        elif mode == "raise":
            raise FloatingPointError(text)
        elif mode == "call":
            cast("Callable[..., object]", np.geterrcall())(words, flags[words])
        elif mode == "log":
            cast("TextIO", np.geterrcall()).write(f"Warning: {text}\n")
        elif mode == "print":
            sys.stderr.write(f"Warning: {text}\n")
