"""Transforms of functions that are no derivatives: `vmap`, `jit`, and what shows a program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import kernels
from ..arraytype import ArrayType
from ..errors import InputError, UnsupportedError, message, user_line
from ..ops.selection import stop_gradient as stop_leaf
from ..ops.shaping import traced as traced_of
from ..program import Function, Program, Variant, private, program_of, traceable
from ..program import forget as forget_programs
from ..tape import Tape
from ..tiers import forget as forget_runners
from ..trace import Input, Trace, TracedArray, current, record, splice
from ..transforms.batch import batch
from ..transforms.simplify import simplify
from ..tree import Spec, flatten, map_leaves, unflatten
from .calls import Plan, Run, Step, check_callable, invoke, results, transformed

# --- jit ----------------------------------------------------------------------------------------


class JitPlan(Plan):
    """The function itself, compiled."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.step = Step(simplify(variant.tape))
        self.step.runner.asked = True

    def call(self, arrays: list[object], vectors: Sequence[object], run: Run) -> object:
        return results(self.variant, run(self.step, arrays))


def jit(f: Function) -> Function:
    """`f` compiled: the same results, without Python between the operations.

    Parameters
    ----------
    f : callable
        Pure function of arrays. Another transform of fdiff may be given: ``jit(grad(f))``
        compiles the gradient at its first call instead of when it has proved worth it.

    Returns
    -------
    callable
        Takes the arguments of `f`. Compiled at the first call of each structure of the program,
        however long that takes; a new shape, constant or process compiles nothing again.

    Raises
    ------
    TraceError
        If `f` takes a traced value out of NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.jit(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    np.float64(5.0)
    """
    check_callable(f, "jit")
    program = program_of(f, "jit", None, (), JitPlan)

    @transformed(f, "jit")
    def call(*args: object, **kwargs: object) -> object:
        return invoke(program, f, args, kwargs)

    return call


# --- vmap ---------------------------------------------------------------------------------------


class MapPlan(Plan):
    """A mapped function: the tape is batched already, and interpreted until a kernel pays."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.step = Step(simplify(variant.tape))

    def call(self, arrays: list[object], vectors: Sequence[object], run: Run) -> object:
        return results(self.variant, run(self.step, arrays))


def vmap(f: Function, in_axes: int | tuple[int | None, ...] = 0, out_axes: int | tuple[int, ...] = 0) -> Function:
    """`f` mapped over an axis of its arguments, without a loop in Python.

    Parameters
    ----------
    f : callable
        Function of arrays, or of nested tuples, lists, dicts and dataclasses of them.
    in_axes : int, None, or tuple of these
        Which axis of each argument is mapped (in all its arrays alike); None passes it whole.
    out_axes : int or tuple of int
        Where the mapped axis stands in the result, or in each entry of a tuple of results.

    Returns
    -------
    callable
        Takes the arguments of `f` with one more axis where `in_axes` says, gives its results with
        one more axis. Costs the length of the axis times one evaluation, in one kernel.

    Raises
    ------
    InputError
        If the lengths of the mapped axes differ, or nothing is mapped.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.vmap(np.dot, in_axes=(0, None))(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    array([3., 7.])
    """
    check_callable(f, "vmap")
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes

    def body(g: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        return _mapped(g, args, axes, out_axes, kwargs)

    program = program_of(f, "vmap", None, (axes, out_axes), MapPlan, body)

    @transformed(f, "vmap")
    def call(*args: object, **kwargs: object) -> object:
        return invoke(program, f, args, kwargs)

    return call


def _mapped(f: Function, args: tuple[object, ...], in_axes: object, out_axes: object, kwargs: dict[str, object]) -> object:
    """Trace `f` for one element, batch the tape, and replay it in the trace under way."""
    trace = current()
    axes = _axes(in_axes, args, trace.call)
    leaves, spec = flatten(args)
    wide = [axis for arg, axis in zip(args, axes, strict=True) for _ in flatten(arg)[0]]
    traced = [k for k, leaf in enumerate(leaves) if isinstance(leaf, TracedArray)]
    fronts = [_front(leaves[k], wide[k], trace.call) for k in traced]
    sizes = sorted({x.shape[0] for x, k in zip(fronts, traced, strict=True) if wide[k] is not None})
    if len(sizes) != 1:
        found = f"inconsistent sizes for the mapped axes: {', '.join(map(str, sizes))}" if sizes else "no array to map over"
        raise InputError(message(trace.call, f"vmap got {found}.", "", user_line()))
    outs: list[object] = []
    out_spec: list[Spec] = []

    def run(_: Trace, arguments: list[TracedArray]) -> list[object]:
        given = list(leaves)
        for k, argument in zip(traced, arguments, strict=True):
            given[k] = argument
        found, result_spec = flatten(private(f)(*unflatten(spec, given), **kwargs))  # type: ignore[misc]
        outs.extend(found)
        out_spec.append(result_spec)
        return [out for out in found if traceable(out)]

    inputs = [Input(_element(x.type) if wide[k] is not None else x.type) for x, k in zip(fronts, traced, strict=True)]
    recording = record(run, inputs, trace.call)
    carries = [*(wide[k] is not None for k in traced), *(False for _ in recording.extra)]
    extra = [traced_of(x) for x in recording.extra]
    numeric = iter(splice(batch(recording.tape, carries, sizes[0]), [*fronts, *extra], trace))
    moved = [next(numeric) if traceable(out) else out for out in outs]
    return _placed(unflatten(out_spec[0], moved), out_axes)


def _element(type_: ArrayType) -> ArrayType:
    return ArrayType(type_.shape[1:], type_.dtype)


def _front(leaf: object, axis: int | None, call: str) -> TracedArray:
    """The mapped axis moved to the front."""
    x: TracedArray = leaf  # type: ignore[assignment]
    if axis is None:
        return x
    if not -x.ndim <= axis < x.ndim:
        raise InputError(message(call, f"vmap was asked to map axis {axis} of an array of shape {x.shape}.", "", user_line()))
    return np.moveaxis(x, axis, 0)  # type: ignore[call-overload,return-value]


def _axes(in_axes: object, args: tuple[object, ...], call: str) -> tuple[int | None, ...]:
    """One axis (or None) for each argument."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    if len(axes) != len(args):
        raise InputError(message(call, f"in_axes has {len(axes)} entries for {len(args)} arguments.", "", user_line()))
    if all(a is None for a in axes):
        raise InputError(message(call, "vmap must have at least one mapped argument: in_axes is None for all.", "", user_line()))
    return axes


def _placed(result: object, out_axes: object) -> object:
    """The mapped axis, which is in front, moved to where `out_axes` says."""
    if isinstance(out_axes, tuple) and isinstance(result, tuple):
        return tuple(_placed(r, a) for r, a in zip(result, out_axes, strict=True))
    return map_leaves(lambda x: np.moveaxis(x, 0, out_axes) if isinstance(x, TracedArray) else x, result)  # type: ignore[call-overload,arg-type]


# --- a look inside --------------------------------------------------------------------------------


def stop_gradient(x: object) -> object:
    """`x` itself, whose derivative is taken to be zero at every order.

    Parameters
    ----------
    x : array or nested structure of arrays

    Returns
    -------
    array or nested structure of arrays
        The same values.

    Examples
    --------
    >>> import fdiff
    >>> fdiff.grad(lambda x: x * fdiff.stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    return map_leaves(stop_leaf, x)


def make_tape(f: Function, *args: object, **kwargs: object) -> Tape:
    """The tape of `f` at these arguments.

    Parameters
    ----------
    f : callable
        Pure function of arrays, or a transform of one: ``make_tape(grad(f), x)``.
    *args, **kwargs
        Its arguments; only types matter for arrays and floats.

    Returns
    -------
    Tape
        Prints as a listing, shows as a table in Jupyter. Its inputs are the array arguments,
        then the arrays that `f` reads from outside.

    Raises
    ------
    TraceError
        If `f` takes a traced value out of NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> tape = fdiff.make_tape(lambda x: np.sin(x) + 1.0, np.zeros(3))
    >>> [node.primitive.name for node in tape.nodes]
    ['input', 'sin', 'constant', 'add']
    """
    check_callable(f, "make_tape")
    return Program("make_tape", None, MapPlan).trace(f, args, kwargs)[0].tape


def source(f: Function, *args: object, **kwargs: object) -> str:
    """The kernel generated for `f` at these arguments, as readable Python source.

    Parameters are those of `make_tape`.

    Returns
    -------
    str
        The text Numba compiles.

    Raises
    ------
    UnsupportedError
        If `f` has no kernel, because of an operation or a dtype that is only interpreted.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> "math.sin" in fdiff.source(np.sin, np.zeros(3))
    True
    """
    check_callable(f, "source")
    tape = simplify(make_tape(f, *args, **kwargs))
    if not kernels.supported(tape):
        names = sorted({node.primitive.name for node in tape.nodes if not kernels.supported(tape)})
        raise UnsupportedError(message("source", "the function has no kernel; it is interpreted.", f"It uses: {', '.join(names)}.", user_line()))
    return kernels.source(tape, ("C",) * len(tape.inputs))


def cache_info() -> object:
    """Counters of the kernel cache in this process.

    Returns
    -------
    CacheInfo
        Kernels compiled, loaded from disk and found in memory, and the seconds spent compiling.

    Examples
    --------
    >>> import fdiff
    >>> fdiff.cache_info().compiled >= 0
    True
    """
    return kernels.cache_info()


def cache_clear(*, disk: bool = False) -> None:
    """Forget every traced program and compiled kernel of this process.

    Parameters
    ----------
    disk : bool
        Delete the kernels kept on disk too.

    Examples
    --------
    >>> import fdiff
    >>> fdiff.cache_clear()
    """
    kernels.cache_clear(disk=disk)
    forget_runners()
    forget_programs()
