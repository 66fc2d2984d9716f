"""Building blocks of the functions that Numba compiles for calls: memory, addresses, calls.

Importing this imports Numba. Addresses are integers. `HeldObject` lets code hold a Python object.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.cpu import CPUContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import models, overload, register_model

from ....hooks import Function
from .pending_errors import PendingError

# Calls of an intrinsic leave out its first parameter, which no checker of types knows.
intrinsic = cast("Callable[[Function], Function]", numba_intrinsic)
_numbers = count(1)
_WORD = ir.IntType(64)
_CALL = ir.FunctionType(_WORD, [*[_WORD.as_pointer()] * 3, *[_WORD] * 2])
Kind = types.Type
Value = ir.Value
Values = Sequence[Value]
Codegen = Callable[[CPUContext, ir.IRBuilder, Signature, Values], ir.Value]
Typed = tuple[Signature, Codegen]  # of a call, and what generates its code


class HeldObjectType(types.Dummy):
    """The type of an object that code holds, which is the only one of its type.

    Numba never forgets a type, so that this one does not keep the object alive.
    """

    def __init__(self, held: HeldObject) -> None:
        self.held = weakref.ref(held)
        super().__init__(f"fdiff.object({next(_numbers)})")


register_model(HeldObjectType)(models.OpaqueModel)


class HeldObject:
    """A Python object as a constant of code that Numba compiles."""

    def __init__(self, value: object) -> None:
        self.value = value
        self._numba_type_ = HeldObjectType(self)


def _object_of_type(context: CPUContext, kind: HeldObjectType) -> Any:
    """The object of a type, which lives as long as the code that is generated now.

    So do the constants that Numba keeps for this code. Neither may lead to the function that Numba
    compiled: its code would hold it for ever.
    """
    library, held = context.active_code_library, kind.held()
    assert held is not None, "a namespace holds its objects while it is compiled"
    library.__dict__[_OBJECTS] = [*objects_of(library), held, context.environment]
    return held.value


def objects_of(library: object) -> list[object]:
    """The objects that a code library keeps for the code in it."""
    return vars(library).get(_OBJECTS, [])


_OBJECTS = "fdiff_objects"


@intrinsic
def chains_of(_: object, caller: Kind) -> Typed:
    """The address of the chains of a table. Code that contains it is not kept on disk."""

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        records = _object_of_type(context, sig.args[0]).records
        cell = context.add_dynamic_addr(builder, records.cell.ctypes.data, info="fdiff")
        return builder.load(builder.bitcast(cell, _WORD.as_pointer()))

    return types.int64(caller), codegen


def _pointer(builder: ir.IRBuilder, address: Value, index: Value | None = None) -> Value:
    """A pointer to a word."""
    base = builder.inttoptr(address, _WORD.as_pointer())
    return base if index is None else builder.gep(base, [index])


@intrinsic
def load(_: object, address: Kind, index: Kind) -> Typed:
    """The word number `index` from an address on."""

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        return builder.load(_pointer(builder, *args))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def address_of(_: object, array: Kind) -> Typed:
    """The address of an array's entries, which is good until the array is named last (`keep`)."""

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        struct = context.make_array(sig.args[0])(context, builder, args[0])
        return builder.ptrtoint(struct.data, _WORD)

    return types.int64(array), codegen


@intrinsic
def keep(_: object, value: Kind) -> Typed:
    """Do nothing with a value, which lives until then."""

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        return context.get_dummy_value()

    return types.void(value), codegen


@intrinsic
def slot(_: object, value: Kind) -> Typed:
    """The address of a place on the stack with a number in it, as it lies in an array."""

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        kind = sig.args[0]
        place = cgutils.alloca_once(builder, context.get_data_type(kind))
        builder.store(context.data_model_manager[kind].as_data(builder, args[0]), place)
        return builder.ptrtoint(place, _WORD)

    return types.int64(value), codegen


@intrinsic
def number_at(_: object, address: Kind, kind: types.CPointer) -> Typed:
    """The number at an address, of a dtype."""

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        result_type = sig.return_type
        place = builder.inttoptr(args[0], context.get_data_type(result_type).as_pointer())
        return context.data_model_manager[result_type].from_data(builder, builder.load(place))

    return kind.dtype(address, kind), codegen


@intrinsic
def float_of(_: object, bits: Kind) -> Typed:
    """The float64 with the bits of an integer."""

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def call_record(
    _: object, caller: Kind, record: Kind, addresses: Kind, sure: Kind, memory: Kind
) -> Typed:
    """The status of a record's kernel, for the addresses of its arguments and results."""

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        called = _object_of_type(context, sig.args[0])
        data = context.add_dynamic_addr(builder, called.words.ctypes.data, info="fdiff")
        code = context.add_dynamic_addr(builder, called.code, info="fdiff")
        function = builder.bitcast(code, _CALL.as_pointer())
        tables = [builder.ptrtoint(data, _WORD), *args[1:3]]
        pointers = [_pointer(builder, table) for table in tables]
        return builder.call(function, [*pointers, builder.zext(args[3], _WORD), args[4]])

    return types.int64(caller, *[types.int64] * 2, types.boolean, types.int64), codegen


@intrinsic
def call_python(_: object, function: Kind, value: Kind) -> Typed:
    """The integer that a Python function returns for a tuple of arguments.

    It does not raise (`pending_errors.putting_aside`); -1 stands for no memory to give it any.
    """

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        called = _object_of_type(context, sig.args[0])
        api = context.get_python_api(builder)
        context.nrt.incref(builder, sig.args[1], args[1])  # which boxing takes
        state = api.gil_ensure()
        address = context.add_dynamic_addr(builder, id(called), info="fdiff")
        environment = context.get_env_manager(builder)  # which holds dtypes of arrays
        boxed = api.from_native_value(sig.args[1], args[1], environment)
        answer = api.call_function_objargs(address, [boxed])
        api.decref(boxed)
        native = cgutils.alloca_once_value(builder, _WORD(-1))
        with builder.if_else(cgutils.is_not_null(builder, answer)) as (done, failed):
            with done:
                builder.store(api.long_as_longlong(answer), native)
                api.decref(answer)
            with failed:
                api.err_clear()
        api.gil_release(state)
        return builder.load(native)

    return types.int64(function, value), codegen


@intrinsic
def raise_pending(_: object) -> Typed:
    """Leave with the exception that `call_python` put aside.

    A ``raise`` has to follow, although it is not reached: Numba releases what is not needed after.
    """

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        context.call_conv.return_user_exc(builder, PendingError, ())
        builder.position_at_end(builder.append_basic_block("not_reached"))
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def rarely(_: object) -> Typed:
    """Mark the function that contains this as one that is not to be inlined."""

    def codegen(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> Value:
        for word in ("noinline", "cold"):
            builder.function.attributes.add(word)
        return context.get_dummy_value()

    return types.void(), codegen


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array, copied if its type does not say that it is contiguous."""
    return np.ascontiguousarray(array)


@overload(contiguous, strict=False)
def _contiguous(array: types.Array) -> Callable[[np.ndarray], np.ndarray]:
    if array.layout == "C" and array.aligned:
        return lambda array: array
    return lambda array: np.ascontiguousarray(array)  # noqa: PLW0108 - Numba takes a function of Python


def in_c_order(array: np.ndarray) -> bool:
    """Whether an array is contiguous."""
    return bool(array.flags.c_contiguous)


@overload(in_c_order, strict=False)
def _in_c_order(array: types.Array) -> Callable[[np.ndarray], bool]:
    if array.layout == "C":
        return lambda array: True

    def look(array: np.ndarray) -> bool:
        step = array.itemsize
        if array.size == 0:
            return True
        for axis in range(array.ndim - 1, -1, -1):
            if array.shape[axis] != 1 and array.strides[axis] != step:
                return False
            step *= array.shape[axis]
        return True

    return look


@numba.njit
def shared(first: np.ndarray, other: np.ndarray) -> bool:
    """Whether arrays may share memory: their first and last bytes tell."""
    a, b = extent(first), extent(other)
    return first.size != 0 and other.size != 0 and a[0] < b[1] and b[0] < a[1]


@numba.njit
def extent(array: np.ndarray) -> tuple[int, int]:
    """The addresses of an array's first byte, and of the one after its last."""
    begin = address_of(array)
    end = begin + array.itemsize
    for axis in range(array.ndim):
        reach = (array.shape[axis] - 1) * array.strides[axis]
        if reach < 0:
            begin += reach
        else:
            end += reach
    return begin, end


# Everything that texts of calls name.
NAMES = (
    "address_of", "call_python", "call_record", "chains_of", "contiguous", "float_of",
    "in_c_order", "keep", "load", "number_at", "raise_pending", "rarely", "shared", "slot",
)  # fmt: skip
