"""What an operator returns: a function that tells how it runs, and can be compiled at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from types import MethodType

import numpy as np

from ..arguments import Function, called
from ..errors import InputError, UnsupportedError, message, user_line
from ..program import Program
from ..trace.traced import stack
from .shortcut import Shortcuts
from .steps import Arrays, Plan, Step

CALL_IT = "Call it as it is: it is interpreted, or evaluated."
_TYPE = re.compile(r"([a-z]\w*)\[([\d,]*)\]")  # as the repr shows them


class Prepared(partial):  # type: ignore[type-arg] - of functions of any type
    """A function with the arguments of the user's, whose `repr` says how it runs.

    Calls cost what those of a function do. Methods may be decorated.
    """

    __fdiff__ = ""
    __name__: str
    __wrapped__: Function
    program: Program
    given: Callable[[tuple[object, ...]], tuple[tuple[object, ...], tuple[object, ...]]]

    def __get__(self, owner: object, kind: type | None = None) -> object:
        return self if owner is None else MethodType(self, owner)

    def __copy__(self) -> Prepared:
        return self

    def __deepcopy__(self, memo: object) -> Prepared:
        return self

    def __repr__(self) -> str:
        lines = list(dict.fromkeys(_states(self.program)))
        head = f"<fdiff.{self.__fdiff__} of {_name(self.__wrapped__)}"
        if not lines:
            return f"{head}, not called yet>"
        return "\n  ".join([f"{head}:", *lines]) + ">"

    def compile(self, *types: object, **kwargs: object) -> Prepared:
        """Make the kernel for arguments of these types now, without evaluating anything.

        Parameters
        ----------
        *types, **kwargs
            What stands for each argument: an example of it, or for an array a text such as
            ``"f8[10,3]"``: its dtype and shape, for which zeros are traced. Where the function
            branches on values, give examples.

        Returns
        -------
        Prepared
            The function itself.

        Raises
        ------
        UnsupportedError
            If it has no kernel, because of an operation or a dtype that is only interpreted.
        CompileError
            If fdiff fails to make the kernel, which is a defect of fdiff.
        InputError
            If a text names no dtype, or an argument is missing.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff
        >>> fdiff.grad(lambda x: np.sum(x * x)).compile("f8[3]")
        <fdiff.grad of <lambda>:
          f8[3]: compiled>
        """
        call = called(f"{self.__fdiff__}.compile", self.__wrapped__)
        args, vectors = self.given(tuple([_example(t, call) for t in types]))
        named = {name: _example(value, call) for name, value in kwargs.items()}
        stack.examples = True
        try:
            variant, arrays = self.program.find(self.__wrapped__, args, named, sure=True)
        finally:
            stack.examples = False
        plan: Plan = variant.plan
        if variant.eager is not None:
            variant.release()
            fact = "the function is differentiated as it runs, for its branches change every time."
            raise UnsupportedError(message(call, fact, CALL_IT, user_line()))
        plan.call(arrays, vectors, partial(_compiled, call))
        return self


def _compiled(call: str, step: Step, arrays: Arrays) -> Sequence[np.ndarray]:
    """In place of a run: the kernel is made, and the results are zeros."""
    lacking = step.runner.lacking()
    if lacking:
        fact = f"there is no kernel for {lacking}."
        raise UnsupportedError(message(call, fact, CALL_IT, user_line()))
    step.runner.compile(call)
    return [np.zeros(t.shape, t.dtype) for t in step.tape.output_types]


def _example(given: object, call: str) -> object:
    """An argument of a type that is spelled out, or what was given."""
    found = _TYPE.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        return given
    shape = tuple([int(n) for n in found[2].split(",") if n])
    try:
        return np.zeros(shape, np.dtype(found[1]))
    except TypeError:
        fact = f"{given!r} names no dtype of NumPy."
        way = "Write a dtype and a shape, as in 'f8[10,3]' or 'float32[]'."
        raise InputError(message(call, fact, way, user_line())) from None


def _states(program: Program) -> Iterator[str]:
    """A line for each signature, and each step that runs for it."""
    for variants in program.variants.values():
        for variant in variants:
            types = ", ".join(map(str, variant.tape.input_types[: len(variant.traced)]))
            for step in variant.plan.steps():
                yield f"{types}: {step.runner.state()}"


def _name(f: Function) -> str:
    return str(getattr(f, "__name__", type(f).__name__))


def made(
    call: Function,
    f: Function,
    program: Program,
    given: Callable[[tuple[object, ...]], tuple[tuple[object, ...], tuple[object, ...]]],
    short: Shortcuts | None = None,
) -> Prepared:
    """The function an operator returns, named after `f`.

    `given` splits its arguments into those of `f` and vectors. Calls go by `short` once it knows
    a way that needs no Python.
    """
    prepared = Prepared(call)
    try:
        wraps(f, updated=())(prepared)
    except (AttributeError, TypeError):
        prepared.__name__ = program.name
    prepared.__wrapped__ = f
    prepared.__fdiff__ = program.name
    prepared.program, prepared.given = program, given
    if short is not None:
        short.way = lambda found: prepared.__setstate__((found, (), {}, vars(prepared)))  # type: ignore[attr-defined] - stubs leave it out
        short.general, short.split = call, given
    return prepared
