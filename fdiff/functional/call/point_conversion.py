"""Numbers and lists of numbers converted to floats and arrays as SciPy converts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import fdiff.intact_numpy as np

from ...device_arrays import DeviceArray
from ...dispatch.arguments import Argnums, Body, Function
from ...dispatch.capture_session import call_private
from ...dispatch.program import Program
from ...errors import DtypeWarning, InputError, called, failure, message, warn
from ...foreign_errors import not_foreign
from ...ops.shapes.creation import array
from ...trace import TracedArray
from ...trace.handler_arguments import resolve
from ...tree import flatten, unflatten
from ...user_lines import user_line, within_scipy

HAVE_DTYPES = (np.ndarray, np.integer, TracedArray)  # that have a dtype
# The classes of most points, which need no conversion.
_LEAVES = (np.ndarray, float, complex, TracedArray, DeviceArray)


def is_number(value: object) -> bool:
    """Whether a value is a number of Python or NumPy, or a traced number; arrays are not."""
    value = resolve(value)
    if isinstance(value, TracedArray):
        return value.scalar or value.weak
    return isinstance(value, (bool, int, float, complex, np.number))


def holds_numbers(value: object) -> bool:
    """Whether a value is a list or tuple, perhaps nested, of at least one number and no others."""
    if type(value) is not list and type(value) is not tuple:
        return False
    entries = cast("Sequence[object]", value)
    return bool(entries) and all(is_number(e) or holds_numbers(e) for e in entries)


def ragged(what: str, call: str) -> InputError:
    """The error for a list of numbers that NumPy cannot convert to an array."""
    fact = f"{what} a ragged list: its parts have different lengths, and it is not an array."
    way = (
        "Make an array of each part, and put these into a tuple or dict; or pad the parts to one"
        " length."
    )
    return failure(InputError, call, fact, way)


def as_point(value: object, call: str) -> object:
    """A list of numbers as a float array, as SciPy reads ``x0``; everything else as it is.

    `call` is the public call, which refuses a ragged list.
    """
    if type(value) is not list or not holds_numbers(value):
        return value
    if not _shape(value):
        raise ragged("an argument is", call)
    point: Any = array(value)  # a traced array if the numbers are traced
    return point.astype(float) if point.dtype.kind in "iu" else point


def floating(args: tuple[object, ...], program: Program, f: Function) -> tuple[object, ...]:
    """The arguments, with integers among the differentiated ones as floats.

    Lists of numbers among these become arrays. A warning says so once, but not for Python ints, and
    not for arrays that SciPy passes on: ``root(f, [1, 1], jac=...)`` calls the Jacobian with
    ``numpy.array([1, 1])``.
    """
    arguments, argnums = args, program.argnums
    for n in (argnums,) if isinstance(argnums, int) else argnums or ():
        if not -len(args) <= n < len(args):
            continue  # a later check refuses it
        new = _floating(args[n], program, f)
        if new is not args[n]:
            k = n % len(args)
            arguments = (*arguments[:k], new, *arguments[k + 1 :])
    return arguments


def _floating(arg: object, program: Program, f: Function) -> object:
    if isinstance(arg, _LEAVES):
        return _as_float(arg, program, f) if holds_integers(arg) else arg
    arg = as_point(arg, called(program.name, f)) if program.lists else arg
    leaves, spec = flatten(arg)
    if not any(map(holds_integers, leaves)):
        return arg
    return unflatten(spec, [_as_float(x, program, f) if holds_integers(x) else x for x in leaves])


def holds_integers(leaf: object) -> bool:
    """Whether a leaf is an int, Python's or NumPy's, or an array of ints on this machine."""
    if isinstance(leaf, HAVE_DTYPES):
        return leaf.dtype.kind in "iu"
    return type(leaf) is int


def _as_float(leaf: Any, program: Program, f: Function) -> object:
    """An integer leaf in float64; a Python int that is too large stays, and is refused later."""
    if type(leaf) is int:
        try:
            return float(leaf)
        except not_foreign(OverflowError):
            return leaf
    if not program.told_of_integers and not within_scipy():
        program.told_of_integers = True
        call, where = called(program.name, f), user_line()
        fact = f"integers ({leaf.dtype}) are taken as float64 where they are differentiated."
        warn(message(call, fact, "Pass floats: x.astype(float), or float(x).", where), DtypeWarning)
    return leaf.astype(float)


def array_result(f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run a private copy of `f`; a list of numbers becomes NumPy's array of them."""
    result = call_private(f, args, kwargs)
    return array(result) if type(result) is list and _shape(result) else result


def vector_result(f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The result of a private copy of `f`; a list or tuple of numbers becomes an array."""
    result = call_private(f, args, kwargs)
    return array(result) if _shape(result) else result


def _shape(value: object) -> tuple[int, ...] | None:
    """The shape of a number, or of a list or tuple that NumPy converts to an array; else None."""
    if type(value) is not list and type(value) is not tuple:
        return () if is_number(value) else None
    entries = cast("Sequence[object]", value)
    shapes = {_shape(entry) for entry in entries}
    shape = shapes.pop() if len(shapes) == 1 else None
    return None if shape is None else (len(entries), *shape)


# The functions that run in place of `f` under operators that read a list of numbers as an array.
_RESULTS: dict[str, Body] = dict.fromkeys(
    ("jacobian", "hessian", "hessian_diagonal", "linearize", "vjp", "jvp", "hvp", "vhp"),
    array_result,
)


def body_of_operator(name: str, argnums: Argnums) -> Body | None:
    """The body that an operator runs in place of `f`: a list of numbers counts as an array.

    None for operators that take lists as structure. A Jacobian with respect to one argument is an
    array, as SciPy's solvers need; with respect to several it is nested as in torch.
    """
    if name == "jacobian" and isinstance(argnums, int):
        return vector_result
    return _RESULTS.get(name)
