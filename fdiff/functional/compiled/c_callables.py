"""C functions of prepared functions: the objects that `cfunc` returns.

The C function finds its kernel in the same records as code compiled by Numba. It needs no
interpreter where a record matches; where none does it calls Python, unless ``misses="raise"``
forbids that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NoReturn

import fdiff.intact_numpy as np

from ... import kernels
from ...dispatch.fast_paths.single_kernels import SingleKernel
from ...errors import InputError, called, failure
from ...kernels import CParameter, CStatus
from ...lazy_attributes import cached_property
from ...process.forking import no_fork
from ...tracebacks import public, trim
from ...tree import flatten
from ..call.prepared import AnyPrepared
from .c_calls_from_python import function_type
from .c_declarations import Results, declare, plain_type, scipy_signature
from .call_layouts import Example, call_example, called_function, check_examples
from .numba_calls import CallRecords, no_memory


class CFunction:
    """A prepared function as a C function, which `fdiff.cfunc` makes.

    Attributes
    ----------
    address : int
        The address of the C function, valid as long as this object exists.
    ctypes : ctypes function
        The function for Python. It takes numbers, and arrays of the right dtypes and shapes.
    low_level_callable : scipy.LowLevelCallable
        The same for SciPy.
    header : str
        Its declaration in C.
    """

    def __init__(self, prepared: AnyPrepared, example: Example, misses: str) -> None:
        self._name = called(prepared.__fdiff__, prepared.__wrapped__)
        self._error: BaseException | None = None
        watched = misses == "python"
        self._records = _FixedRecords(called_function(prepared), example, None, watched=watched)
        self._example = example
        if misses == "raise":
            self._records.prepare_libm()
        self._declared = declare(prepared, self._records.layout, example, self._records.results)
        ask = self._next_record if misses == "python" else None
        records, signature = self._records, self._declared.signature
        self._entry = kernels.CEntry(records.table, records.chain, signature, ask)
        self._code = self._entry.load(signature)

    def __reduce__(self) -> str:
        fact = "a C function has an address of this process, and cannot be pickled."
        raise failure(InputError, self._name, fact, "Pickle the prepared function.")

    def __repr__(self) -> str:
        return f"<fdiff.cfunc of {self._name}: {self._declared.spelled('f')}>"

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refused: Python calls `ctypes`, or the prepared function itself."""
        fact = "the object that holds a C function was called."
        way = f"Write c.ctypes(...), or call {self._name} in Python."
        raise failure(InputError, f"cfunc({self._name})", fact, way)

    @property
    def address(self) -> int:
        """The address of the C function, valid as long as this object exists."""
        return self._code.address

    @property
    def header(self) -> str:
        """C code: the type of a pointer to this function, and a comment with the shapes."""
        return self._declared.header()

    @cached_property
    def ctypes(self) -> Any:
        """The C function for Python: takes numbers, and arrays of the right dtypes and shapes.

        It runs without the GIL, and keeps the C function alive. Other arguments are an
        `InputError`.
        """
        function: Any = function_type(self._declared)(self._code.address)
        function.kept = self, self._code
        return function

    @cached_property
    def low_level_callable(self) -> Any:
        """The function for SciPy: ``double f(double)`` or ``double f(int n, double *xx)``.

        If the last of several arguments is an array, ``void *user_data`` follows: the array among
        the examples, which may be changed in place.
        """
        with no_fork:
            from scipy import LowLevelCallable  # noqa: PLC0415 - it is needed for this alone

        signature, data = scipy_signature(self._declared)
        types: list[object] = [ctypes.c_double]
        code = self._code
        if signature.packed:
            code = self._entry.load(signature)
            types = [ctypes.c_int, ctypes.POINTER(ctypes.c_double)]
        if data is None:
            return LowLevelCallable(self._callable(code, types))
        function = self._callable(code, [*types, ctypes.c_void_p])
        array = np.asarray(self._example.leaves[data])
        function.user_data = array
        return LowLevelCallable(function, ctypes.c_void_p(array.ctypes.data))

    @public
    def check(self) -> None:
        """Raise the error of the first call that failed since the last check, if one did.

        Raises
        ------
        Exception
            The error that the function raised in Python.

        Examples
        --------
        >>> import fdiff
        >>> square = fdiff.cfunc(fdiff.jit(lambda t: t * t), 0.5)
        >>> square.check()
        """
        error, self._error = self._error, None
        status = self._entry.take_status()
        if error is None and status:
            error = self._error_of(status)
        if error is not None:
            raise error

    def _callable(self, code: Any, types: Sequence[Any]) -> Any:
        """A function of ctypes that calls `code`, and keeps `code` and this object alive."""
        out = self._declared.signature.returned
        result = None if out is None else plain_type(out)
        function = ctypes.CFUNCTYPE(result, *types)(code.address)
        function.kept = self, code  # type: ignore[attr-defined] - functions of ctypes take attributes
        return function

    # --- what the C function asks -------------------------------------------------------------

    def _next_record(self, table: int, record: int, status: int, sure: int) -> int:
        """The record to be tried, 0 for the next one, or that the call failed."""
        try:
            if status == CStatus.MISS:
                return self._records.asked(self._example_at(table))
            code = self._records.on_failure((record, status, bool(sure)))
        except BaseException as error:  # noqa: BLE001 - C cannot raise it: `check` does
            trim(error)
            self._error = self._error or error
            return CStatus.FAILED
        return record if code else 0

    def _example_at(self, table: int) -> Example:
        """The arguments of a call."""
        signature = self._declared.signature
        arrays = iter(
            [_array_at(table, k, parameter) for k, parameter in enumerate(signature.given)]
        )
        leaves = [
            _leaf(next(arrays), leaf) if hasattr(parameter, "read") else leaf
            for leaf, parameter in zip(
                self._example.leaves, self._records.layout.given, strict=True
            )
        ]
        return self._example.with_leaves(leaves)

    def _error_of(self, status: int) -> Exception:
        """The error that a status stands for."""
        if status == CStatus.NO_MEMORY:
            return no_memory(self._name)
        asked = f"cfunc({self._name})"
        if status == CStatus.MISS:
            fact = "a call took a branch, or had values, for which no kernel was made."
            way = 'Leave misses="raise" out, or write numpy.where in place of the branch.'
            return failure(InputError, asked, fact, way)
        if status == CStatus.OVERLAP:
            fact = "a result was to be written over an argument, or over another result."
            way = 'Leave misses="raise" out, or pass memory of its own for each result.'
            return failure(InputError, asked, fact, way)
        if status == CStatus.WRONG_COUNT:
            count = self._declared.signature.variables
            fact = f"SciPy passed another number of variables than the examples have ({count})."
            way = "Integrate over as many variables, or give other examples."
            return failure(InputError, asked, fact, way)
        return kernels.error_of(status)


class _FixedRecords(CallRecords):
    """Records of calls; every result keeps the shape of the first call."""

    any_tree = True
    results: Results

    @property
    def chain(self) -> int:
        """The hash of these calls, by which their records are found."""
        return kernels.hash_of(self._key(self._example))

    def prepare_libm(self) -> None:
        """Make the kernel for angles that are out of range now, as nobody asks for it later."""
        address = self.record(self._example)
        make = self.table.record_at(address).kernel.by_libm
        if make is not None:
            self.table.set_by_libm(address, make())

    def _add(self, example: Example, single: SingleKernel, outputs: tuple[object, ...]) -> int:
        types = single.kernel.made
        shapes = tuple([
            () if isinstance(result, kernels.Number) else types[output][0]  # type: ignore[call-overload] - an int
            for output, result in zip(outputs, self.layout.made, strict=True)
        ])  # fmt: skip
        first = vars(self).setdefault("results", Results(flatten(single.result)[1], shapes)).shapes
        if shapes != first:
            fact = f"results have the shapes {shapes} for these arguments, {first} for others."
            raise failure(InputError, self.name, fact, "A C function has results of one shape.")
        return super()._add(example, single, outputs)


# --- memory -----------------------------------------------------------------------------------


def _array_at(table: int, k: int, parameter: CParameter) -> np.ndarray:
    """A copy of the number or array whose address is entry `k` of a table."""
    array = np.empty(parameter.shape, parameter.dtype)
    address = ctypes.c_int64.from_address(table + 8 * k).value
    ctypes.memmove(array.ctypes.data, address, parameter.size)
    return array


def _leaf(array: np.ndarray, like: object) -> object:
    """An argument of the class that the example has."""
    if isinstance(like, np.ndarray):
        return array
    return float(array) if type(like) is float else array[()]


def c_function(
    prepared: AnyPrepared, args: tuple[object, ...], named: dict[str, object], misses: str
) -> CFunction:
    """The C function for calls like this example."""
    target = called_function(prepared)
    check_examples(prepared, args, named, f"cfunc({target.name})")
    example = call_example(target, args, named)
    leaves = [
        np.ascontiguousarray(a) if isinstance(a, np.ndarray) and not a.flags.c_contiguous else a
        for a in example.leaves
    ]
    return CFunction(prepared, example.with_leaves(leaves), misses)
