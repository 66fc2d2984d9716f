"""Prepared functions, and calls that pass the function and the point together.

A call goes through the stages of `stages`. After such a call, fdiff looks for a fast path
(`fdiff.dispatch.fast_paths.fast_path`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING

from ...dispatch.arguments import Argnums, Function
from ...dispatch.fast_paths.fast_path import FastPath, immediate_fast_path
from ...dispatch.program import Program
from ...foreign_errors import not_foreign, update_wrapper
from ...trace.trace_stack import occupied
from ...tracebacks import trim
from ..options import check_callable
from .operator_call import Operator, OperatorCall
from .prepared import AnyPrepared, Origin, Prepared
from .stage_functions import of_partitions
from .stages import result_of_call

if TYPE_CHECKING:
    from ...dispatch.fast_paths.recorded_plans import Split

Arguments = tuple[tuple[object, ...], dict[str, object]]  # positional and keyword arguments


def immediate_call(
    operator: Operator,
    f: Function,
    inputs: object,
    argnums: object,
    vectors: tuple[object, ...] = (),
) -> object:
    """The result of one call that passes the function and the point together.

    This call has no fast path; the next call may have one.
    """
    check_callable(f, operator.name)
    again = lambda inputs, *vectors: immediate_call(operator, f, inputs, argnums, vectors)  # noqa: E731 - a call of one line
    call = OperatorCall(operator, f, (inputs,), {}, vectors, again, (inputs, *vectors))
    call.argnums = argnums
    result = result_of_call(call)
    if call.variant is None:
        return result
    if not occupied:
        fast_path = immediate_fast_path(f, inputs, operator)
        if fast_path is not None:
            fast_path.seek(call.program, f, call.original_args, spread=call.program.argnums != 0)
    if type(f) is not FunctionType:  # another callable, which is not kept alive
        call.program.held.clear()
    return result


def prepared_operator(operator: Operator, f: Function, argnums: Argnums) -> AnyPrepared:
    """The prepared function of an operator whose calls take the arguments of `f`."""
    program = operator.program(f, argnums)
    return prepared_function(program, f, no_vectors, operator.origin(argnums))


def no_vectors(args: tuple[object, ...]) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Split for calls without vectors: all arguments belong to the function."""
    return args, ()


def prepared_function(
    program: Program,
    f: Function,
    split: Split,
    origin: Origin,
    *,
    arrange: Callable[..., Arguments] | None = None,
    out: bool = True,
    part_of: Callable[[str], AnyPrepared] | None = None,
) -> AnyPrepared:
    """The function that an operator returns, named after `f`.

    `origin` makes the function again in another process. `split` separates its positional arguments
    into arguments of `f` and vectors, after `arrange` has put keyword arguments into their places.
    If `out` is false, the keyword ``out`` is passed to `f`. `part_of` gives sparse parts by name.
    """
    if (total := of_partitions(f, origin)) is not None:
        return total
    fast_path = FastPath(program, f, out=out)
    writes_out, name = fast_path.writes_out, program.name

    def prepared_call(*args: object, **kwargs: object) -> object:
        try:
            if arrange is not None:
                args, kwargs = arrange(*args, **kwargs)
            own, vectors = (args, ()) if split is no_vectors else split(args)
            call = OperatorCall(
                program, f, own, kwargs, vectors, prepared_call, args, writes_out=writes_out
            )
            result = result_of_call(call)
            if call.variant is not None:
                if program.held:
                    fast_path.hold()
                if not occupied:
                    fast_path.seek(args, kwargs)
        except BaseException as error:
            trim(error, name, f)
            raise
        else:
            return result

    prepared: AnyPrepared = Prepared(prepared_call)
    try:
        update_wrapper(prepared, f, ("__module__", "__name__", "__qualname__"), ())
    except not_foreign(AttributeError, TypeError):
        prepared.__name__ = name
    prepared.__wrapped__, prepared.__fdiff__ = f, name
    prepared.programs, prepared.program = {}, program
    prepared.split, prepared.origin, prepared.writes_out = split, origin, writes_out
    prepared.part_of = part_of
    fast_path.attach(prepared, prepared_call, split)
    return prepared
