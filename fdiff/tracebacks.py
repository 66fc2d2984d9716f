"""What a user sees of an error: his frames and one of fdiff's; and a note, where others raised it.

fdiff's own errors name the public call, the user's line and the way out. Those that NumPy, Python
or a library raise while fdiff runs `f` do not: they keep their words, and get a note (PEP 678).
The user's line itself is found in `user_lines.py`.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from opcode import opmap
from types import CodeType, TracebackType
from typing import Any, ParamSpec, TypeVar

from .error_state import restore
from .errors import (
    DENSE_WAYS,
    FdiffError,
    InputError,
    SizeError,
    called,
    failure,
    message,
    name_call,
    unbounded,
)
from .foreign_errors import HiddenError, environment_value, not_foreign, wraps
from .user_lines import Line, is_internal, is_own, line_in, user_line, within_scipy

VARIABLE = "FDIFF_TRACEBACK"

# Errors of these are looked at: some are said in other words.
_OF_DATA = (RecursionError, ValueError, IndexError, OverflowError, MemoryError)
# What to do with data that NumPy makes no array of; and by words of other errors. The first row
# that fits counts.
_DATA = {
    "maximum number of dimension of": "NumPy has no arrays of more axes: x.reshape(-1) has one.",
    "array is too big": "Use products, fdiff.vjp, jvp or hvp, which are no larger than the inputs.",
    "inhomogeneous": "Make an array of each part, and put these into a tuple or dict.",
    "int too large to convert": "Pass a float.",
}
_POSITIONS = "Positions go from -n to n - 1, where n is the length, or the number of axes."
_CONSTRAINT = (
    "NonlinearConstraint calls hess(x, v): write"
    " hess=fdiff.hessian(lambda x, v: numpy.dot(v, {name}(x)))."
)
_INTEGERS = "Differentiated ints are floats: leave sizes, positions and trips out of argnums."
_WAYS = _DATA | {
    "appears to not have been used": "Pass allow_unused=True to have None in its place.",
    "required positional": "Pass what `{name}` takes: arguments stand as they do in its own calls.",
    "required keyword": "Pass what `{name}` takes: arguments stand as they do in its own calls.",
    "positional argument": "Pass what `{name}` takes: arguments stand as they do in its own calls.",
    "keyword argument 'args'": "Write its entries after the point: (x, a, b), without args=.",
    "unexpected keyword": "Leave it out: keywords that are no options of fdiff's go to `{name}`.",
    "Unknown solver": "Name one of SciPy's. For IPOPT, write fdiff.optimize.Problem(f).ipopt(x0).",
    "broadcast": "Shapes are compared from the last axis: lengths must be equal, or one of them 1.",
    "single integer": _INTEGERS,
    "integer scalar arrays": _INTEGERS,
    "interpreted as an integer": _INTEGERS,
    "only integers, slices": _INTEGERS,
    "by non-int": _INTEGERS,
    "core dimension": "The last axis of the first must be as long as the second's last but one.",
    "not aligned": "The last axis of the first must be as long as the second's last but one.",
    "reshape": "The new shape needs as many entries as the old one; -1 stands for what is left.",
    "constant width": _POSITIONS + " NumPy would clip such a slice: read up to n - width, or pad.",
    "out of bounds": _POSITIONS,
    "Singular matrix": "Differentiate at another point, or use numpy.linalg.lstsq or pinv.",
    "only for scalar outputs": "Pass a gradient that is shaped like the output, of ones for a sum.",
    "leaf Variable": "Update it under `with fdiff.autograd.no_grad():`, or store into a copy.",
    "grad_output": "Pass a gradient that is shaped like the output.",
    "incorrect number of gradients": "Return one for each argument of forward; it may be None.",
    "invalid gradient": "Sum it over the axes along which the argument was broadcast.",
    "incorrect number of values": "Return as many as the hook was given, or None to keep them.",
    "has changed the type of": "Return an array of the same dtype, or None to keep it.",
    "has changed the size": "Return a gradient of the same shape, or None to keep it.",
    "a second time": "Write backward(retain_graph=True) the first time.",
    "unpack_hook expected": "Return the array that pack_hook was given, from what it returned.",
    "what was packed had": "Return the array that pack_hook was given, from what it returned.",
    "doesn't require gradient": "Make it by fdiff.autograd.tensor(data, requires_grad=True).",
    "requires_grad=False": "Make it by fdiff.autograd.tensor(data, requires_grad=True).",
    "does not require grad": "Make inputs by tensor(x, requires_grad=True), outside of no_grad().",
    "on non-leaf tensors": "Use register_hook for what is computed.",
    "must implement the forward": "Define the static method forward(ctx, *args) in the class.",
    "must implement either the backward": "Define the static method backward(ctx, *grad_outputs).",
    "can only save variables": "Keep what is no array as an attribute of ctx.",
    "cannot be empty": "Leave it out for all leaves.",
    "requires non-empty inputs": "Name at least one recorded array.",
    "same number of tensors and": "Give one for each output; None means 1.",
    "no level exists": "Call it inside of `with fdiff.autograd.forward_ad.dual_level():`.",
    "none was entered": "Write `with fdiff.autograd.forward_ad.dual_level():`.",
    "not the last one that was created": "Leave level out: there is one at a time.",
    "already has a forward gradient": "Make the dual of array.detach().",
    "itself has a forward gradient": "Give tangent.detach().",
    "to be floating point or complex": "Give floats: array.astype(float).",
    "different size than": "Give a tangent that is shaped like the primal.",
    "positive definite": "Differentiate at another point, or add a multiple of the identity first.",
}
# What NumPy says of an array that it has too many axes for; the last number is how many.
_AXES = re.compile(r"(?:supported dimension|number of dimensions must).*?(\d+)\.?$")
_RAISING = {opmap["RAISE_VARARGS"], opmap["RERAISE"]}
_ALONE = "Call `{name}` itself, with the same arguments, to look into it without fdiff."
_FACT = "this line raised the error"
_WALK = 100  # calls of one function inside each other that are a walk through nested data

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")


def trim(error: BaseException, name: str = "", f: object = None) -> None:
    """Take fdiff's frames out of an error, but for the public function's that is to raise it again.

    ``FDIFF_TRACEBACK=full`` in the environment leaves all of them in. `name` and `f` are the public
    call, for the note of an error in the words of others. Where NumPy or Python refused data that
    no array can be made of, or that has no end, an `InputError` is raised in its place; in place of
    a `HiddenError` its cause.
    """
    restore()
    if isinstance(error, HiddenError) and error.__cause__ is not None:
        trim(error.__cause__, name, f)
        raise error.__cause__ from None
    if name and isinstance(error, _OF_DATA):
        _refuse_data(error, name, called(name, f) if callable(f) else name)
    if name and isinstance(error, FdiffError):
        name_call(error, name, f)
    elif name and isinstance(error, Exception):
        explain(error, name, f)
    if environment_value(VARIABLE) == "full":
        return
    own = error.__traceback__
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = _of_others(link.__traceback__)
        context = link.__context__
        if link.__cause__ is None and context is not None and not _of_others(context.__traceback__):
            link.__suppress_context__ = True  # it began and ended in fdiff, or in NumPy below it
        link = link.__cause__ or (None if link.__suppress_context__ else context)
    if own is not None:
        rest = error.__traceback__
        error.__traceback__ = TracebackType(rest, own.tb_frame, own.tb_lasti, own.tb_lineno or 1)


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A public function whose errors are trimmed; those that are called often do so themselves."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if _refused_arguments(error):
                f = args[0] if args and callable(args[0]) else None
                name = function.__name__
                _show_parameters(error, function, called(name, f) if f else name)
            trim(error, function.__name__, args[0] if args else None)
            raise

    return call


def public_class(cls: type[C]) -> type[C]:
    """A public class; where its arguments are none that it takes, Python's error shows those."""
    name = "__new__" if "__new__" in vars(cls) else "__init__"
    construct = getattr(cls, name)

    @wraps(construct)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return construct(*args, **kwargs)
        except TypeError as error:
            if _refused_arguments(error):
                _show_parameters(error, cls, cls.__name__)
            raise

    setattr(cls, name, staticmethod(call) if name == "__new__" else call)
    return cls


def _refused_arguments(error: BaseException) -> bool:
    """Whether a call failed before the first line of the function: it was called otherwise."""
    own = error.__traceback__
    return isinstance(error, TypeError) and own is not None and own.tb_next is None


def _show_parameters(error: BaseException, function: Callable[..., object], call: str) -> None:
    """Add the public call, the user's line, and which arguments there are."""
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    plain = [p.replace(annotation=p.empty) for p in parameters if p.name != "self"]
    shown = signature.replace(parameters=plain, return_annotation=signature.empty)
    way = f"It is called as {function.__name__}{shown}."
    if str(signature.return_annotation).startswith("Prepared"):
        way += f" Arguments of `f` go to its result: {function.__name__}(f)(x, data)."
    error.add_note(message(call, f"{_FACT}:", way, user_line(2)))


def ask(function: Callable[..., Any], args: Sequence[Any], call: str, role: str, form: str) -> Any:
    """Call a function that the user gave; if it does not take these arguments, tell which they are.

    `role` says what it was given as, and `form` how it is called: ``pack_hook(array)``.
    """
    try:
        return function(*args)
    except TypeError as error:
        if _takes(function, args):
            raise
        fact = f"{role} is called as {form}, and does not take that: {error}."
        line = line_of(function) or user_line()
        raise InputError(message(call, fact, f"Define it as {form}.", line)) from None


def _takes(function: Callable[..., object], args: Sequence[object]) -> bool:
    """Whether the arguments fit, as far as Python knows."""
    try:
        inspect.signature(function).bind(*args)
    except not_foreign(TypeError):
        return False
    except not_foreign(ValueError):  # code in C that does not tell what it takes
        return True
    return True


def line_of(function: object) -> tuple[str, int] | None:
    """The line where a function of the user's begins."""
    code = getattr(_unbound(function), "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno)


def name_of(function: object) -> str:
    """The name of a function of the user; for an object, the name of its class."""
    plain_function = _unbound(function)
    return getattr(plain_function, "__name__", type(plain_function).__name__)


def _unbound(function: object) -> object:
    """The user's function in a `functools.partial`: bound last, if fdiff made that for it."""
    while isinstance(function, partial) and not hasattr(function, "__name__"):
        code = getattr(function.func, "__code__", None)
        own = code is not None and is_own(code.co_filename)
        function = function.args[-1] if own else function.func
    return function


def explain(
    error: Exception, name: str, f: object, line: Line | None = None, place: str = ""
) -> None:
    """Add the public call, the user's line and the way out; not to what `f` raises on purpose.

    `line` is the line, where it is known to others than the traceback, and `place` words for where
    that is.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    if any(_FACT in note for note in notes) or _on_purpose(error.__traceback__):
        return
    words = str(error)
    way = next((way for part, way in _WAYS.items() if part in words), _ALONE if callable(f) else "")
    if name == "hessian" and "positional argument" in words and within_scipy():
        way = _CONSTRAINT
    call = called(name, f) if callable(f) else name
    own = getattr(f, "__name__", "f") if callable(f) else name
    line = line or line_in(error.__traceback__) or user_line(2)
    error.add_note(message(call, f"{_FACT}{place}:", way.format(name=own, call=name), line))


def _on_purpose(traceback: TracebackType | None) -> bool:
    """Whether a ``raise`` of the user's raised the error, which is then in his own words."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return True
    code = traceback.tb_frame.f_code
    if is_internal(code.co_filename):
        return False
    return code.co_code[traceback.tb_lasti] in _RAISING


def _refuse_data(error: BaseException, name: str, call: str) -> None:
    """Raise an `InputError` where fdiff, and not `f`, met what is in `_DATA`, or a `SizeError`."""
    counts, inside, traceback = Counter[CodeType](), False, error.__traceback__
    while traceback is not None:  # which frames of fdiff's are there after the last of the user's
        code = traceback.tb_frame.f_code
        if is_own(code.co_filename):
            counts[code] += 1
        elif counts and not is_internal(code.co_filename):
            counts.clear()
            inside = True
        traceback = traceback.tb_next
    words = str(error)
    way = next((way for part, way in _DATA.items() if part in words), "")
    fact = words.rstrip(".") + "."
    if axes := _AXES.search(words):
        fact = f"a value on the way would have {axes[1]} axes; NumPy's arrays have 64 at most."
        way = "Leave out axes of length 1, or take a function of x.reshape(-1)."
    alone = words.startswith("fdiff: ")  # of `process/room.py`, for a library that is loaded
    large = (isinstance(error, MemoryError) and not alone) or "array is too big" in words
    if large and name in DENSE_WAYS and counts and not inside:
        fact = f"the memory has no room for the dense result. {fact}"
        raise failure(SizeError, call, fact, DENSE_WAYS[name]) from None
    if isinstance(error, MemoryError):
        return
    if not isinstance(error, RecursionError):
        if way and counts and not inside:
            raise failure(InputError, call, fact, way) from None
    elif max(counts.values(), default=0) > _WALK:
        fact = "an argument, a result or what `f` captures contains itself, or is nested too deep."
        raise unbounded(call, fact) from None


def _of_others(traceback: TracebackType | None) -> TracebackType | None:
    """The entries whose frames are not fdiff's."""
    entries: list[TracebackType] = []
    while traceback is not None:
        if not is_own(traceback.tb_frame.f_code.co_filename):
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno or 1)
    return kept
