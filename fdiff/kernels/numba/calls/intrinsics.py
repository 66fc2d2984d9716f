"""What the functions that Numba compiles for calls are made of: memory, addresses, calls.

Importing this imports Numba. Addresses are integers. `HeldObject` lets code hold a Python object.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import models, overload, register_model

from .pending_errors import PendingError

# Calls of an intrinsic leave out its first parameter, which no checker of types knows.
intrinsic = cast("Callable[[Any], Any]", numba_intrinsic)
_numbers = count(1)
_WORD = ir.IntType(64)
_CALL = ir.FunctionType(_WORD, [*[_WORD.as_pointer()] * 3, *[_WORD] * 2])
# Parameters of code generators: Numba's contexts, LLVM's builder, a signature, values.
Codegen = Callable[[Any, Any, Any, Any], Any]


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


def _held(context: Any, kind: HeldObjectType) -> Any:
    """The object of a type, which lives as long as the code that is generated now.

    So do the constants that Numba keeps for this code. Neither may lead to the function that Numba
    compiled: its code would hold it for ever.
    """
    library, held = context.active_code_library, kind.held()
    assert held is not None, "a namespace holds its objects while it is compiled"
    library.__dict__[_OBJECTS] = [*objects_of(library), held, context.environment]
    return held.value


def objects_of(library: Any) -> list[object]:
    """The objects that a code library keeps for the code in it."""
    return vars(library).get(_OBJECTS, [])


_OBJECTS = "fdiff_objects"


@intrinsic
def chains_of(_: Any, caller: Any) -> tuple[Any, Codegen]:
    """The address of the chains of a table. Code that contains it is not kept on disk."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        records = _held(context, signature.args[0]).records
        cell = context.add_dynamic_addr(builder, records.cell.ctypes.data, info="fdiff")
        return builder.load(builder.bitcast(cell, _WORD.as_pointer()))

    return types.int64(caller), codegen


def _pointer(builder: Any, address: Any, index: Any = None) -> Any:
    """A pointer to a word."""
    base = builder.inttoptr(address, _WORD.as_pointer())
    return base if index is None else builder.gep(base, [index])


@intrinsic
def load(_: Any, address: Any, index: Any) -> tuple[Any, Codegen]:
    """The word number `index` from an address on."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, *args))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def address_of(_: Any, array: Any) -> tuple[Any, Codegen]:
    """The address of an array's entries, which is good until the array is named last (`keep`)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        struct = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(struct.data, _WORD)

    return types.int64(array), codegen


@intrinsic
def keep(_: Any, value: Any) -> tuple[Any, Codegen]:
    """Do nothing with a value, which lives until then."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_dummy_value()

    return types.void(value), codegen


@intrinsic
def slot(_: Any, value: Any) -> tuple[Any, Codegen]:
    """The address of a place on the stack with a number in it, as it lies in an array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        place = cgutils.alloca_once(builder, context.get_data_type(kind))
        builder.store(context.data_model_manager[kind].as_data(builder, args[0]), place)
        return builder.ptrtoint(place, _WORD)

    return types.int64(value), codegen


@intrinsic
def number_at(_: Any, address: Any, kind: Any) -> tuple[Any, Codegen]:
    """The number at an address, of a dtype."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result_type = signature.return_type
        place = builder.inttoptr(args[0], context.get_data_type(result_type).as_pointer())
        return context.data_model_manager[result_type].from_data(builder, builder.load(place))

    return kind.dtype(address, kind), codegen


@intrinsic
def float_of(_: Any, bits: Any) -> tuple[Any, Codegen]:
    """The float64 with the bits of an integer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def call_record(
    _: Any, caller: Any, record: Any, addresses: Any, sure: Any, memory: Any
) -> tuple[Any, Codegen]:
    """The status of a record's kernel, for the addresses of its arguments and results."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        called = _held(context, signature.args[0])
        data = context.add_dynamic_addr(builder, called.words.ctypes.data, info="fdiff")
        code = context.add_dynamic_addr(builder, called.code, info="fdiff")
        function = builder.bitcast(code, _CALL.as_pointer())
        tables = [builder.ptrtoint(data, _WORD), *args[1:3]]
        pointers = [_pointer(builder, table) for table in tables]
        return builder.call(function, [*pointers, builder.zext(args[3], _WORD), args[4]])

    return types.int64(caller, *[types.int64] * 2, types.boolean, types.int64), codegen


@intrinsic
def call_python(_: Any, function: Any, value: Any) -> tuple[Any, Codegen]:
    """The integer that a Python function returns for a tuple of arguments.

    It does not raise (`pending_errors.putting_aside`); -1 stands for no memory to give it any.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        called = _held(context, signature.args[0])
        api = context.get_python_api(builder)
        context.nrt.incref(builder, signature.args[1], args[1])  # which boxing takes
        state = api.gil_ensure()
        address = context.add_dynamic_addr(builder, id(called), info="fdiff")
        environment = context.get_env_manager(builder)  # which holds dtypes of arrays
        boxed = api.from_native_value(signature.args[1], args[1], environment)
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
def raise_pending(_: Any) -> tuple[Any, Codegen]:
    """Leave with the exception that `call_python` put aside.

    A ``raise`` has to follow, although it is not reached: Numba releases what is not needed after.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        context.call_conv.return_user_exc(builder, PendingError, ())
        builder.position_at_end(builder.append_basic_block("not_reached"))
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def rarely(_: Any) -> tuple[Any, Codegen]:
    """Mark the function that contains this as one that is not to be inlined."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for word in ("noinline", "cold"):
            builder.function.attributes.add(word)
        return context.get_dummy_value()

    return types.void(), codegen


def contiguous(array: Any) -> Any:
    """The array, copied if its type does not say that it is contiguous."""
    return np.ascontiguousarray(array)


@overload(contiguous, strict=False)
def _contiguous(array: Any) -> Any:
    if array.layout == "C" and array.aligned:
        return lambda array: array
    return lambda array: np.ascontiguousarray(array)  # noqa: PLW0108 - Numba takes a function of Python


def in_c_order(array: Any) -> bool:
    """Whether an array is contiguous."""
    return bool(array.flags.c_contiguous)


@overload(in_c_order, strict=False)
def _in_c_order(array: Any) -> Any:
    if array.layout == "C":
        return lambda array: True

    def look(array: Any) -> bool:
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
def shared(first: Any, other: Any) -> bool:
    """Whether arrays may share memory: their first and last bytes tell."""
    a, b = extent(first), extent(other)
    return first.size != 0 and other.size != 0 and a[0] < b[1] and b[0] < a[1]


@numba.njit
def extent(array: Any) -> tuple[int, int]:
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
