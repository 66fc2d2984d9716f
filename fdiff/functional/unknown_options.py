"""Errors for options and further arguments that an operator does not take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from inspect import Parameter, signature
from typing import NoReturn, TypeVar, cast

from ..dispatch.arguments import Function
from ..errors import InputError, called, failure
from ..foreign_errors import Suppressed

F = TypeVar("F", bound=Function)

# Options of torch that have another name here: the option, and an example of what to write.
OTHER_NAMES = {"strategy": ("mode", 'mode="forward" for strategy="forward-mode"')}


def without_catch_alls(operator: F) -> F:
    """Leave parameters that are there for `refuse_others` out of an operator's signature."""
    whole = signature(operator)
    catch_alls = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD
    kept = [p for p in whole.parameters.values() if p.kind not in catch_alls]
    vars(operator)["__signature__"] = whole.replace(parameters=kept)
    return operator


def refuse_others(
    operator: Function, f: object, further: Sequence[object], unknown: Iterable[str]
) -> NoReturn:
    """Refuse arguments that an operator does not take: arguments of `f`, and unknown options.

    A call whose point is an argument has no room for them; the prepared function has.
    """
    parameters = signature(operator).parameters.values()
    options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    taken = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    name = operator.__name__
    call = called(name, f) if callable(f) else name
    keyword = next(iter(unknown), "")
    if not further and keyword != "args" and keyword not in _parameters(f):
        fact = f"there is no option {keyword!r}."
        ours, spelling = OTHER_NAMES.get(keyword, ("", ""))
        way = f"Write {spelling}. " if ours in options else ""
        raise failure(InputError, call, fact, f"{way}Its options are {', '.join(options)}.")
    more = f"{keyword}=..." if keyword and keyword != "args" else "data"
    point = ", ".join(["x", *taken[2:], more])
    fact = f"it takes {', '.join(taken)} and options, and no further arguments of `f`."
    way = f"Pass them to the prepared function: {name}(f)({point})."
    several = f"to differentiate with respect to several arguments, write {name}(f, (x, y))."
    raise failure(InputError, call, fact, f"{way} Or, {several}")


def _parameters(f: object) -> Collection[str]:
    """Names of the parameters of a function, as far as Python knows."""
    with Suppressed(TypeError, ValueError):  # no function, or code in C that does not tell
        return signature(cast("Function", f)).parameters
    return ()
