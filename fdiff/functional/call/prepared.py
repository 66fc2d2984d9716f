"""Prepared functions: the results of operators such as `grad`.

A prepared function is called like the user's function. Its `repr` says how it runs, it can be
compiled before its first call, and it is pickled as the operator, the function and the options.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import deepcopy
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, overload

import fdiff.intact_numpy as np

from ...device_arrays import CPU
from ...dispatch.arguments import Function
from ...dispatch.plans import Arrays, PlanStep, Step
from ...dispatch.program import OwnsPrograms, Program
from ...errors import InputError, UnsupportedError, called, failure, shown
from ...foreign_errors import contextmanager, hiding, not_foreign
from ...named_tuples import NamedTuple
from ...process.progress import Stage
from ...trace.trace_stack import stack
from ...tracebacks import line_of, public
from ...user_lines import file_label, printable
from ..annotations import A, Array, Derivatives, P, Point, R, X
from .device_calls import placed, tracing_for
from .documentation import ComputedAttribute, call_form, document, signature
from .late_functions import late
from .point_conversion import floating

if TYPE_CHECKING:
    from ...dispatch.fast_paths.recorded_plans import Split

sending_pickler = late("call.pickled_code", "sending_pickler")
sent_code = late("call.pickled_code", "SentCode")
_PARTS = frozenset(("data", "pattern", "coordinates"))  # of a sparse derivative
_SPARSE = frozenset(("jacobian", "hessian"))  # operators that may give sparse arrays
CALL_IT = "Call it as it is: it is interpreted, or evaluated."
# Texts that look like types, as Numba and others write it: "f8[:]", "float64(3)".
_NEARLY_TYPE = r"\s*[<>=|]?(f|i|u|c|float|int|uint|complex)\d+\s*[\[(]"
SPELL = "Write a dtype and a shape, as in 'f8[10,3]' or 'float32[]'; other lengths are seen later."
_TYPE = r"([a-z]\w*)\[([\d,]*)\]"  # as the repr shows them


class Origin(NamedTuple):
    """The operator and the options that made a prepared function."""

    operator: Callable[..., object]
    options: dict[str, object]

    def again(self, f: Function) -> AnyPrepared:
        """Prepare another function `f` for the same operator and options."""
        return self.operator(f, **self.options)  # type: ignore[return-value] - operators return nothing else


if TYPE_CHECKING:

    class _Callable(partial[R], Generic[P, R]):
        """The type of a prepared function, for type checkers."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

else:
    _Callable = partial


class FunctionOfPartial:
    """The view of a prepared function for libraries that look into a `functools.partial`.

    Dask names tasks after this object, and treats two calls as one if the object is pickled to the
    same bytes. The object therefore consists of the operator, the options and the user's function,
    and does not tell how calls are executed.
    """

    __slots__ = ("prepared",)

    def __init__(self, prepared: AnyPrepared) -> None:
        self.prepared = prepared

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.prepared(*args, **kwargs)

    @property
    def __name__(self) -> str:
        f = self.prepared.__wrapped__
        return called(self.prepared.__fdiff__, f.func if isinstance(f, Prepared) else f)

    def __reduce__(self) -> tuple[object, ...]:
        return Origin.again, (self.prepared.origin, self.prepared.__wrapped__)


class Prepared(OwnsPrograms, _Callable[P, R]):
    """A function with the arguments of the user's function. Its `repr` shows how it runs.

    With `writes_out`, the keyword ``out`` names arrays for the results. `part_of` gives the parts
    of a sparse derivative. A call costs as much as a call of a plain function. Methods may be
    decorated.
    """

    __fdiff__ = ""
    __name__: str
    __qualname__: str
    __wrapped__: Function
    program: Program
    origin: Origin
    split: Split
    writes_out: bool
    part_of: Callable[[str], AnyPrepared] | None = None
    func = property(hiding(FunctionOfPartial))  # pyright: ignore[reportIncompatibleMethodOverride] - of type Any in effect
    implementation = partial.func  # the callable that a call runs now

    @overload
    def __get__(self, owner: None, kind: type | None = None) -> Prepared[P, R]: ...
    @overload
    def __get__(self, owner: object, kind: type | None = None) -> Callable[..., R]: ...
    def __get__(self, owner: object, kind: type | None = None) -> Callable[..., R]:
        return self if owner is None else MethodType(self, owner)

    @hiding
    def __getattr__(self, name: str) -> AnyPrepared:
        """The parts of a sparse derivative, which are functions of the same arguments."""
        if name not in _PARTS or self.part_of is None:
            options = self.origin.options if name in _PARTS and "origin" in vars(self) else {}
            fact = f"{type(self).__name__!r} object has no attribute {name!r}"
            if self.__fdiff__ in _SPARSE and options and "part" not in options:
                call = called(self.__fdiff__, self.__wrapped__)
                fact += f": {call} gives dense arrays. Write sparse=True for sparse ones."
            raise AttributeError(fact)
        part = vars(self)[name] = self.part_of(name)
        return part

    def __dir__(self) -> list[str]:
        """The names that users call: `compile`, and the parts of a sparse derivative."""
        parts = _PARTS if self.part_of is not None else ()
        return ["compile", *parts, *(name for name in super().__dir__() if name.startswith("__"))]

    def __copy__(self) -> Prepared[P, R]:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> AnyPrepared:
        return self.origin.again(deepcopy(self.__wrapped__, memo))

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickle the operator, the function and the options; unpickling applies them again."""
        pickler = sending_pickler()
        if _is_global(self, sent_whole=pickler is not None):  # as a decorated function is
            return self.__qualname__
        if pickler is None:
            return Origin.again, (self.origin, self.__wrapped__)
        return _arrived, (self.origin, self.__wrapped__, sent_code(pickler, self.__wrapped__))

    def __repr__(self) -> str:
        lines = list(dict.fromkeys(_tier_lines(self.program)))
        form = call_form(self.__wrapped__, self.__fdiff__, self.origin.options)
        head = f"<fdiff.{self.__fdiff__} of {_name(self.__wrapped__)}: {form}"
        return "\n  ".join([head, *lines]) + ">" if lines else f"{head}; not run yet>"

    @public
    def compile(self, *types: object, **kwargs: object) -> Self:
        """Make the kernel for arguments of these types now, without evaluating anything.

        Parameters
        ----------
        *types, **kwargs
            An example of each argument, or for an array a text with its dtype and shape, such as
            ``"f8[10,3]"``. For a text, zeros are traced, so pass examples if the function branches
            on values.

        Returns
        -------
        Prepared
            The function itself.

        Raises
        ------
        UnsupportedError
            If the function has no kernel, because an operation or a dtype is only interpreted.
        CompileError
            If fdiff fails to make the kernel, which is a defect of fdiff.
        InputError
            If a text does not name a dtype, or an argument is missing.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff
        >>> fdiff.grad(lambda x: np.sum(x * x)).compile("f8[3]")
        <fdiff.grad of <lambda>, ...: (x) -> gradient, like x
          f8[3]: compiled...>
        """
        call = called(f"{self.__fdiff__}.compile", self.__wrapped__)
        with Stage("preparing", called(self.__fdiff__, self.__wrapped__)):
            self._compile(call, types, kwargs)
        return self

    def _compile(self, call: str, types: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Compile for these types; `call` is the public call, for messages."""
        with example_arguments(call, types, kwargs, all_types=True) as (examples, named):
            here = self.program.device == CPU
            args, vectors = self.split(examples if here else placed(examples, call))
            args = floating(args, self.program, self.__wrapped__)
            with tracing_for(self.program.device):
                variant, arrays = self.program.find(self.__wrapped__, args, named, sure=True)
        if variant.traced.eager is not None:
            variant.release()
            fact = "the function is differentiated as it runs, for its branches change every time."
            raise failure(UnsupportedError, call, fact, CALL_IT)
        variant.plan.call(arrays, vectors, partial(_compiled, call))


AnyPrepared: TypeAlias = "Prepared[..., Any]"  # of some function of the user

if TYPE_CHECKING:
    # The results of operators, for type checkers. A derivative has the type of the point in the
    # call, even if the function has no annotations. Numbers become NumPy's.

    class Gradient(AnyPrepared, Generic[P]):
        """``grad(f)``, ``hessian_diagonal(f)``."""

        @overload
        def __call__(self, x: A, /, *args: P.args, **kwargs: P.kwargs) -> A: ...
        @overload
        def __call__(self, x: float, /, *args: P.args, **kwargs: P.kwargs) -> np.float64: ...
        @overload
        def __call__(self, x: X, /, *args: P.args, **kwargs: P.kwargs) -> X: ...
        def __call__(self, x: object, /, *args: object, **kwargs: object) -> Derivatives: ...

    class ValueAndGradient(AnyPrepared, Generic[P, R]):
        """``value_and_grad(f)``."""

        @overload
        def __call__(self, x: A, /, *args: P.args, **kwargs: P.kwargs) -> tuple[R, A]: ...
        @overload
        def __call__(
            self, x: float, /, *args: P.args, **kwargs: P.kwargs
        ) -> tuple[R, np.float64]: ...
        @overload
        def __call__(self, x: X, /, *args: P.args, **kwargs: P.kwargs) -> tuple[R, X]: ...
        def __call__(self, x: object, /, *args: object, **kwargs: object) -> Derivatives: ...

    class Blocks(AnyPrepared, Generic[P]):
        """``jacobian(f)``, ``hessian(f)``, ``vmap(f)``: one array for one array."""

        @overload
        def __call__(self, x: Point, /, *args: P.args, **kwargs: P.kwargs) -> Array: ...
        @overload
        def __call__(self, x: object, /, *args: P.args, **kwargs: P.kwargs) -> Derivatives: ...
        def __call__(self, x: object, /, *args: object, **kwargs: object) -> Derivatives: ...

    class Vjp(AnyPrepared, Generic[P, R]):
        """``vjp(f)``: outputs, and cotangents with the structure of the point."""

        def __call__(
            self, x: X, v: object = ..., /, *args: P.args, **kwargs: P.kwargs
        ) -> tuple[R, X]: ...

    class Jvp(AnyPrepared, Generic[P, R]):
        """``jvp(f)``: outputs, and tangents with their structure."""

        def __call__(
            self, x: object, v: object = ..., /, *args: P.args, **kwargs: P.kwargs
        ) -> tuple[R, R]: ...

    class Hvp(AnyPrepared, Generic[P]):
        """``hvp(f)``, ``vhp(f)``."""

        def __call__(self, x: X, v: object = ..., /, *args: P.args, **kwargs: P.kwargs) -> X: ...


def prepared_signature(prepared: AnyPrepared) -> inspect.Signature:
    """The signature of a prepared function; `inspect` would drop an alarm's AttributeError."""
    return signature(prepared.__wrapped__, prepared.__fdiff__, prepared.origin.options)


Prepared.__signature__ = ComputedAttribute(prepared_signature)  # type: ignore[attr-defined] - `inspect` asks
Prepared.__doc__ = ComputedAttribute(  # type: ignore[assignment] - a descriptor
    lambda prepared: document(prepared.__wrapped__, prepared.__fdiff__, prepared.origin.options),
    Prepared.__doc__,
)


def _compiled(call: str, step: Step, arrays: Arrays) -> Sequence[np.ndarray]:
    """Stand-in for `plans.execute` that compiles the kernel of a step and returns zeros."""
    assert isinstance(step, PlanStep), "no kernel is made of an eager trace"
    missing = step.runner.missing_kernels()
    if missing:
        fact = f"there is no kernel for {missing}."
        raise failure(UnsupportedError, call, fact, CALL_IT)
    step.runner.compile(call)
    return [np.zeros(t.shape, t.dtype) for t in step.tape.output_types]


@contextmanager
def example_arguments(
    call: str, args: tuple[object, ...], kwargs: dict[str, object], *, all_types: bool = False
) -> Generator[tuple[tuple[object, ...], dict[str, object]]]:
    """The arguments, with zeros in place of texts of types such as "f8[10,3]".

    If there is such a text, or if all arguments stand for types, `f` cannot keep values meanwhile.
    """
    texts = all_types or any(isinstance(a, str) for a in (*args, *kwargs.values()))
    examples = tuple([example_argument(a, call) for a in args])
    named = {name: example_argument(value, call) for name, value in kwargs.items()}
    stack.examples, before = texts or stack.examples, stack.examples
    try:
        yield examples, named
    finally:
        stack.examples = before


def example_argument(example: object, call: str) -> object:
    """Zeros of a type that is spelled out, such as "f8[10,3]"; any other argument as it is."""
    match = re.fullmatch(_TYPE, example) if isinstance(example, str) else None
    if match is None:
        if isinstance(example, str) and re.match(_NEARLY_TYPE, example):
            raise failure(InputError, call, f"{shown(example)} spells out no type.", SPELL)
        if type(example).__module__.startswith("numba.core.types"):
            fact = f"an example is needed, or a text, and not the type {example} of Numba."
            raise failure(InputError, call, fact, SPELL)
        return example
    shape = tuple([int(n) for n in match[2].split(",") if n])
    try:
        return np.zeros(shape, np.dtype(match[1]))
    except not_foreign(TypeError):
        raise failure(
            InputError, call, f"{shown(example)} names no dtype of NumPy.", SPELL
        ) from None


def _tier_lines(program: Program) -> Iterator[str]:
    """A line for each signature and each of its steps: which tier runs it, and why."""
    for variants in [*program.variants.values()]:
        for variant in variants:
            types = ", ".join(
                map(str, variant.traced.tape.input_types[: len(variant.traced.positions)])
            )
            for step in variant.plan.steps():
                yield f"{types}: {step.runner.state()}"


def _arrived(origin: Origin, f: Function, _: None) -> AnyPrepared:
    """Unpickle a prepared function; the missing parts of its code arrive last."""
    return origin.again(f)


def _is_global(prepared: AnyPrepared, *, sent_whole: bool) -> bool:
    """Whether another process finds the function by its module and name.

    A function made in ``__main__`` is found there by `multiprocessing`, which runs the script
    again, but not by workers of joblib and dask: for them cloudpickle sends functions whole.
    """
    name = getattr(prepared, "__module__", None)
    if name == "__main__" and sent_whole:
        return False
    value: object = sys.modules.get(str(name))
    for part in getattr(prepared, "__qualname__", "").split("."):
        value = getattr(value, part, None)
    return value is prepared


def _name(f: Function) -> str:
    """The name of the user's function, and where it is defined: ``model, model.py:12``."""
    if isinstance(f, Prepared):
        name, _, place = _name(f.__wrapped__).partition(", ")
        return f"{f.__fdiff__}({name})" + (place and f", {place}")
    line = line_of(f)
    name = printable(str(getattr(f, "__name__", type(f).__name__)))
    return f"{name}, {file_label(line[0])}:{line[1]}" if line else name
