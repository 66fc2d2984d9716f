"""`jit`, `make_tape`, `source`, `stop_gradient` and the caches: programs without derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar, cast, overload

from ... import kernels
from ...capture.dependencies import retained_data
from ...device_arrays import CPU
from ...dispatch.arguments import Function
from ...dispatch.fast_paths.fast_path import forget_fast_paths
from ...dispatch.plans import PREPARING, Arrays, OperatorPlan, Run, derived_step
from ...dispatch.program import Program, forget_programs
from ...dispatch.tiers.compiler_defects import Defect, forget_defects
from ...dispatch.tiers.runner_choice import forget_cuda_runners
from ...dispatch.tiers.tiered_execution import forget_runners
from ...dispatch.variant import Traced, Variant
from ...errors import InputError, UnsupportedError, called, failure, flag, shown
from ...foreign_errors import is_foreign
from ...ops.entrywise.composite_functions import stop_gradient as stop_leaf
from ...process.forking import late
from ...tape import Tape
from ...tracebacks import public
from ...transforms.pipeline import RUN, VALUE, derive
from ...tree import map_leaves
from ..annotations import P, R, T
from ..call.device_calls import tracing_for
from ..call.invocation import prepared_operator
from ..call.operator_call import Operator
from ..call.prepared import AnyPrepared, Prepared, example_arguments
from ..call.results import results
from ..options import check_callable, check_device

if TYPE_CHECKING:
    from ...kernels import CacheInfo

F = TypeVar("F", bound="AnyPrepared")
# The tapes of parts that have kernels: a loop may stand beside operations without kernels.
tapes_with_kernels = late("tiers.tape_parts", "fdiff.dispatch", "tapes_with_kernels")
output_values = late("operators.eager_results", "fdiff.functional", "output_values")


class ValuePlan(OperatorPlan):
    """The plan of the function itself, interpreted until a kernel pays off."""

    guards = True
    order = 0

    def __init__(self, traced: Traced) -> None:
        self.traced = traced
        self.step = derived_step(traced, VALUE, output_values)

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        return results(self.traced, run(self.step, arrays))


class JitPlan(ValuePlan):
    """The plan of the function itself, compiled at its first call, perhaps by a named compiler."""

    def __init__(self, traced: Traced, compiler: str = "") -> None:
        super().__init__(traced)
        if (step := self.only_step()) is not None:
            step.compile_when_called(compiler)


@overload
def jit(f: F, *, compiler: str | None = ..., device: str = ...) -> F: ...
@overload
def jit(f: Callable[P, R], *, compiler: str | None = ..., device: str = ...) -> Prepared[P, R]: ...
@public
def jit(f: Callable[P, R], *, compiler: str | None = None, device: str = "cpu") -> Prepared[P, R]:
    """Compile `f`: the results are the same, and no Python runs between the operations.

    Parameters
    ----------
    f : callable
        Pure function of arrays, or the result of another operator: ``jit(grad(f))`` compiles the
        gradient at its first call, instead of when it pays.
    compiler : {"llvm", "numba"}, optional
        The compiler of the kernel: fdiff's own with LLVM, or Numba, which takes about seven times
        as long and gives the same numbers, up to the order of sums. The default is the environment
        variable ``FDIFF_COMPILER``, or LLVM without it. It also applies to derivatives:
        ``jit(grad(f), compiler="numba")``.
    device : {"cpu", "cuda"}
        Where to run, as for `grad`.

    Returns
    -------
    callable
        Takes the arguments of `f`. It is compiled at the first call of each structure of the
        program; a new shape, constant or process needs no new kernel. A kernel of about 6,000
        operations or more, which takes longer than a second, is compiled in the background. Until
        it is ready, the interpreters run the calls. The method ``compile(*types)`` compiles before
        the first call. The `repr` shows what runs.

    Raises
    ------
    TraceError
        If `f` takes a traced value out of NumPy.
    InputError
        If there is no such compiler, or Numba is not installed or too old.
    CompileError
        If fdiff fails to make a kernel, which is a defect of fdiff.
    DeviceError
        With ``device="cuda"``, if there is no GPU, no driver or no package for it.

    References
    ----------
    The time to compile a kernel follows an idea of Karlin, Manasse, Rudolph and Sleator,
    "Competitive snoopy caching", Algorithmica 3, 1988; docs/decisions/tiered-execution.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.jit(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    np.float64(5.0)
    """
    check_callable(f, "jit")
    if compiler is not None:
        kernels.check_compiler(compiler, called("jit", f))
    if check_device(device, called("jit", f)) != CPU and compiler is not None:
        fact = f"compiler={compiler!r} is for the CPU: kernels of a GPU are compiled by numba.cuda."
        raise failure(InputError, called("jit", f), fact, "Leave compiler out.")
    return prepared_operator(_jit(compiler, device), f, None)


@lru_cache(maxsize=8)
def _jit(compiler: str | None, device: str) -> Operator:
    """The operator for a device and a compiler, by default the environment's."""
    settings: dict[str, object] = {"device": device}
    if compiler is None:
        return Operator(jit, settings, JitPlan, effort=PREPARING)
    plan = partial(JitPlan, compiler=compiler)
    return Operator(jit, {"compiler": compiler, **settings}, plan, effort=PREPARING)


@public
def stop_gradient(x: T) -> T:
    """Return `x`, with a derivative of zero at every order.

    Parameters
    ----------
    x : array or nested structure of arrays

    Returns
    -------
    array or nested structure of arrays
        The same values.

    References
    ----------
    ``jax.lax.stop_gradient``; ``torch.Tensor.detach``.

    Examples
    --------
    >>> import fdiff
    >>> fdiff.grad(lambda x: x * fdiff.stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    return map_leaves(stop_leaf, x)


@public
def make_tape(f: Function, *args: object, **kwargs: object) -> Tape:
    """The tape of `f` at these arguments.

    Parameters
    ----------
    f : callable
        Pure function of arrays, or a transform of one: ``make_tape(grad(f), x)``.
    *args, **kwargs
        Its arguments; only types matter for arrays and floats. A text may give the type of an
        array: ``"f8[1000,3]"``.

    Returns
    -------
    Tape
        Prints as a listing, shows as a table in Jupyter. Its inputs are the array arguments,
        then the arrays that `f` reads from outside.

    Raises
    ------
    TraceError
        If `f` takes a traced value out of NumPy.

    References
    ----------
    Wengert, "A simple automatic derivative evaluation program", CACM 7(8), pages 463-464, 1964.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> tape = fdiff.make_tape(lambda x: np.sin(x) + 1.0, np.zeros(3))
    >>> [node.primitive.name for node in tape.nodes]
    ['input', 'sin', 'constant', 'add']
    """
    check_callable(f, "make_tape")
    return _traced("make_tape", f, args, kwargs)[0].traced.tape


def _traced(
    name: str, f: Function, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[Variant, list[object]]:
    """The trace of `f`, and the arrays it takes; `name` is the public call that asks."""
    with example_arguments(called(name, f), args, kwargs) as (examples, named), tracing_for(None):
        return Program(name, None, ValuePlan).trace(f, examples, named)


def traced_call(
    name: str, f: Function, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[Variant, list[object], Tape]:
    """The trace of `f`, the arrays it takes, and the tape that kernels are made of."""
    variant, arrays = _traced(name, f, args, kwargs)
    return variant, arrays, derive((*RUN, *VALUE), variant.traced.tape)


@public
def source(
    f: Function, *args: object, stage: str = "", device: str | None = None, **kwargs: object
) -> str:
    """The kernel generated for `f` at these arguments, as readable Python source.

    Parameters
    ----------
    f : callable
        Pure function of arrays, or a transform of one.
    *args, **kwargs
        Its arguments; only types matter for arrays and floats. A text may give the type of an
        array: ``"f8[1000,3]"``.
    stage : str
        Name of a pass of the kernel compiler, such as ``"materialise"`` or ``"fuse"``: the program
        as it is after that pass. By default the text of the kernel.
    device : {"cpu", "cuda"}, optional
        With "cuda" the texts of the kernels for a GPU in the order of their launches. That needs
        neither a GPU nor a package for it. By default, the device on which `f` runs.

    Returns
    -------
    str
        The text that is compiled; after a pass, operations ``%3: f8[n0] = add %1, %2`` in SSA form
        or loops in pseudo-code.

    Raises
    ------
    InputError
        If no pass is called `stage`.
    UnsupportedError
        If `f` has no kernel, because of an operation or a dtype that is only interpreted.
    CompileError
        If fdiff fails to make the kernel, which is a defect of fdiff.

    References
    ----------
    The language of the text: docs/kernel-language.md. The passes: `fdiff/kernels/README.md`.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> "rt.sin" in fdiff.source(np.sin, np.zeros(3))
    True
    >>> print(fdiff.source(lambda x: np.sin(x) * x, np.zeros(3), stage="lower"), end="")
    # out0 = multiply
    for i0 in 0:n0:
        v0 = x0[i0]
        v1 = rt.sin(v0)
        v2 = v1 * v0
        out0[i0] = v2
    return out0
    """
    check_callable(f, "source")
    asked = cast("object", stage)
    if asked is not None and not (isinstance(asked, str) and asked in ("", *kernels.PASSES)):
        fact = f"no pass of the kernel compiler is called {shown(asked)}."
        way = f"The passes are, in order: {', '.join(kernels.PASSES)}."
        raise failure(InputError, called("source", f), fact, way)
    if device is None:
        device = CPU if stage or not isinstance(f, Prepared) else f.program.device
    if check_device(device, called("source", f)) != CPU and stage:
        fact = (
            f"stage={stage!r} is a pass for the CPU; device={device!r} has kernels alone to show."
        )
        raise failure(InputError, called("source", f), fact, "Leave one of them out.")
    _, _, tape = traced_call("source", f, args, kwargs)
    try:
        return _source(tape, f, stage, device)
    except UnsupportedError:
        raise
    except InputError:  # an environment variable with an invalid value
        raise
    except Exception as error:
        if is_foreign(error):
            raise
        raise Defect("kernel", tape, error).error(called("source", f)) from None


def _source(tape: Tape, f: Function, stage: str, device: str) -> str:
    whole = [tape] if kernels.supported(tape) else []
    parts = whole if whole or device != CPU else tapes_with_kernels(tape)
    if not parts or (device != CPU and kernels.missing_on_cuda(tape)):
        names = sorted({node.primitive.name for node in tape.nodes})
        types = sorted({str(type_) for node in tape.nodes for type_ in node.types})
        fact = "the function has no kernel, because of an operation or a dtype; it is interpreted."
        way = f"Its operations: {', '.join(names)}. Its types: {', '.join(types)}."
        raise failure(UnsupportedError, called("source", f), fact, way)
    if device != CPU:
        return kernels.cuda_text(tape)
    texts: list[str] = []
    for number, part in enumerate(parts, 1):
        layouts = ("C",) * len(part.inputs)
        text = kernels.text_after(part, layouts, stage) if stage else kernels.source(part, layouts)
        texts.append(f"# part {number} of {len(parts)}\n" * (len(parts) > 1) + text)
    return "\n".join(texts)


@public
def cache_info() -> CacheInfo:
    """Counters of the kernel cache in this process.

    Returns
    -------
    CacheInfo
        The numbers of kernels compiled, loaded from disk and found in memory, and the seconds spent
        on compiling. `retained_data` is the number of captured arrays that fdiff keeps alive:
        arrays of the latest calls, even if the user has deleted them, at most 8 generations for a
        function.

    Examples
    --------
    >>> import fdiff
    >>> fdiff.cache_info().compiled >= 0
    True
    """
    return kernels.cache_info()._replace(retained_data=retained_data())


@public
def cache_clear(*, disk: bool = False) -> None:
    """Forget every traced program and compiled kernel of this process.

    Parameters
    ----------
    disk : bool
        Also delete the kernels on disk.

    Examples
    --------
    >>> import fdiff
    >>> fdiff.cache_clear()
    """
    on_disk = flag(disk, "disk", "cache_clear")
    forget_runners()
    forget_cuda_runners()
    forget_defects()
    forget_programs()
    forget_fast_paths()
    kernels.cache_clear(disk=on_disk)  # last: it frees the machine code that nobody holds by then
