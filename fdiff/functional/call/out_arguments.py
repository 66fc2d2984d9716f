"""``out=`` of prepared functions: results written into arrays of the caller.

The general way computes results and copies them into those arrays; the kernel of a fast path writes
into them directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...device_arrays import lies_on_device
from ...dispatch.arguments import WAY_OUT
from ...errors import DtypeError, InputError, called, failure
from ...foreign_errors import not_foreign
from ...tree import flatten, joined_trees
from .device_calls import places_on_device, write_on_device

if TYPE_CHECKING:
    from .operator_call import OperatorCall

WAY = "Pass arrays shaped like the result, and None wherever a fresh one is wanted."


def write_to_out(call: OperatorCall) -> object:
    """The result of a call, with its arrays written into the arrays of ``out``."""
    name = called(call.name, call.f)
    call.kwargs = dict(call.kwargs)
    out = call.kwargs.pop("out")
    leaves = flatten(out)[0]
    places = [a for a in leaves if isinstance(a, np.ndarray)]
    places += places_on_device([a for a in leaves if lies_on_device(a)], name)
    if any(np.shares_memory(a, b) for k, a in enumerate(places) for b in places[:k]):
        fact = "two arrays in out share memory: one result would be written over the other."
        raise failure(InputError, name, fact, "Pass an array of its own for each.")
    result = call.go_on()
    try:
        return joined_trees(result, out, lambda value, place: _write_array(value, place, name))
    except not_foreign(ValueError):
        fact = "out is not built like the result."
        raise failure(InputError, name, fact, WAY) from None


def _write_array(value: Any, place: object, name: str) -> object:
    """One array of the result, written to its place."""
    if hasattr(type(value), WAY_OUT):
        fact = "the result is a recorded array, which would lose its gradient in out."
        raise failure(InputError, name, fact, "Leave out=... out.")
    if lies_on_device(place) or lies_on_device(value):
        return write_on_device(value, place, name)
    if not isinstance(place, np.ndarray):
        fact = f"out must hold arrays to write to, not {type(place).__name__}."
        raise failure(InputError, name, fact, WAY)
    if place.shape != np.shape(value) or not place.flags.writeable:
        what = f"of shape {place.shape}" if place.flags.writeable else "that is read-only"
        fact = f"out holds an array {what}; the result has shape {np.shape(value)}."
        raise failure(InputError, name, fact, WAY)
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    if place.dtype != dtype:
        fact = f"out holds an array of {place.dtype}; the result is of {dtype}."
        raise failure(DtypeError, name, fact, WAY)
    place[...] = value
    return place
