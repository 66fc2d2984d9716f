"""Gradient modes: where operations are recorded, and where they are not.

`no_grad`, `enable_grad`, `set_grad_enabled` and `inference_mode` have torch's meaning: each is a
context and a decorator, of generators too, holds for one thread, and may be nested. Recorded arrays
ask `thread_state.py`. Inside a function that an operator traces, gradients are on at first,
whatever the mode outside; where they are off, results have no derivative, as behind
`fdiff.stop_gradient`, and the mode ends with the trace. Source: torch's note "Autograd mechanics",
section "Locally disabling gradient computation".
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import ParamSpec, Self, TypeVar, cast, overload

from ..errors import InputError, failure, flag
from ..foreign_errors import wraps
from ..trace.branching.derivative_free_trace import see, seen_with
from ..trace.trace_stack import stack, tracing
from ..tracebacks import public_class
from .argument_checks import require_function
from .thread_state import StateContext, state

P = ParamSpec("P")
R = TypeVar("R")


def is_grad_enabled() -> bool:
    """Whether operations are recorded here.

    Returns
    -------
    bool
        The mode of this thread; inside a function that an operator traces, the mode there.

    References
    ----------
    ``torch.is_grad_enabled``.

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> with autograd.no_grad():
    ...     autograd.is_grad_enabled()
    False
    """
    return not stack.traces[-1].derivative_free if tracing() else state.gradients


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on in this thread.

    Returns
    -------
    bool

    References
    ----------
    ``torch.is_inference_mode_enabled``.

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> with autograd.inference_mode():
    ...     autograd.is_inference_mode_enabled()
    True
    """
    return state.inference


def _now() -> dict[str, object]:
    """The settings that a mode overrides: the view of the current trace, or the global flags."""
    if tracing():
        return {"view": stack.traces[-1]}
    return {"gradients": state.gradients, "inference": state.inference}


def _switch(*, enabled: bool, inference: bool | None = None) -> None:
    """Turn gradients on or off, and inference mode where it is given."""
    if tracing():
        see(seen_with(stack.traces[-1], derivatives=enabled))
        return
    state.gradients = enabled
    if inference is not None:
        state.inference = inference


class GradientMode(StateContext):
    """A context that sets the modes, and a decorator of functions that run in it."""

    def _before(self) -> dict[str, object]:
        return _now()

    def _again(self) -> Callable[[], GradientMode]:
        """A function that makes another context like this one."""
        return type(self)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, each call of which runs in this mode."""
        name = f"{type(self).__name__}()"
        require_function(function, "what is decorated", name)
        if isinstance(function, type):
            fact = f"a class was decorated, {function.__qualname__!r}, and not a function."
            raise failure(InputError, name, fact, "Decorate the methods that are meant.")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            fact = "an asynchronous function was decorated, which leaves the mode while it waits."
            raise failure(InputError, name, fact, "Write `with` inside the function.")
        if inspect.isgeneratorfunction(function):
            return cast("Callable[P, R]", _generator_in(self._again(), function))
        return _function_in(self._again(), function)


def _function_in(mode: Callable[[], GradientMode], function: Callable[P, R]) -> Callable[P, R]:
    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        with mode():
            return function(*args, **keywords)

    vars(call)["__fdiff_decorator__"] = True  # a trace runs a private copy
    return call


def _generator_in(
    mode: Callable[[], GradientMode], function: Callable[..., Generator[object, object, object]]
) -> Callable[..., Generator[object, object, object]]:
    """A generator function whose own code runs in a mode; its caller's code does not."""

    @wraps(function)
    def generate(*args: object, **keywords: object) -> Generator[object, object, object]:
        generator = function(*args, **keywords)
        try:
            with mode():
                response = generator.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with mode():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - whatever the caller throws
                    with mode():
                        response = generator.throw(error)
                else:
                    with mode():
                        response = generator.send(request)
        except StopIteration as end:
            return end.value

    vars(generate)["__fdiff_decorator__"] = True  # as above
    return generate


class _BareMode(GradientMode):
    """A mode without arguments, which may be written without parentheses as a decorator."""

    @overload
    def __new__(cls, function: Callable[P, R]) -> Callable[P, R]: ...
    @overload
    def __new__(cls, function: None = None) -> Self: ...
    def __new__(cls, function: Callable[..., object] | None = None) -> object:  # pyright: ignore[reportInconsistentConstructor] - a decorated function is no mode
        return super().__new__(cls) if function is None else cls()(function)


class no_grad(_BareMode):  # noqa: N801 - as in torch
    """Context and decorator in which nothing is recorded.

    Arrays that are computed in it have ``requires_grad=False``, for any operands. Arrays that are
    made with ``requires_grad=True`` are not affected. It applies to this thread. As in torch,
    forward mode stays on: tangents of `forward_ad` go through it.

    Inside a function that an operator of fdiff traces, values that are computed in it have no
    derivative, as after `fdiff.stop_gradient`. This also applies to `jvp` (``torch.func.jvp``
    ignores `no_grad`). A store into an array that has a derivative raises an error there.

    Parameters
    ----------
    function : callable, optional
        The function that ``@no_grad`` decorates, without parentheses. For a generator function, the
        mode is active while its own code runs, and not while it waits.

    Raises
    ------
    fdiff.errors.InputError
        If a class, or an asynchronous function, is decorated.

    References
    ----------
    ``torch.no_grad``.

    Examples
    --------
    >>> import fdiff
    >>> import fdiff.autograd as autograd
    >>> def f(x):
    ...     with autograd.no_grad():
    ...         scale = x * x
    ...     return scale * x
    >>> fdiff.grad(f)(3.0)
    np.float64(9.0)
    """

    def _enter(self) -> None:
        _switch(enabled=False)


class enable_grad(_BareMode):  # noqa: N801 - as in torch
    """Context and decorator that switches recording on again inside of `no_grad`.

    Parameters
    ----------
    function : callable, optional
        The function that ``@enable_grad`` decorates, without parentheses.

    Raises
    ------
    fdiff.errors.InputError
        If a class, or an asynchronous function, is decorated.

    References
    ----------
    ``torch.enable_grad``.

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> with autograd.no_grad(), autograd.enable_grad():
    ...     autograd.is_grad_enabled()
    True
    """

    def _enter(self) -> None:
        _switch(enabled=True)


class SetMode(GradientMode):
    """A function that changes a setting; also a context that restores it, and a decorator."""

    def __init__(self, *, on: bool) -> None:
        super().__init__()
        self.mode = on
        self._first: dict[str, object] | None = self._current()
        self._enter()

    def _current(self) -> dict[str, object]:
        """The present setting."""
        raise NotImplementedError

    def _before(self) -> dict[str, object]:
        first, self._first = self._first, None
        return self._current() if first is None else first

    def _again(self) -> Callable[[], GradientMode]:
        return functools.partial(cast("Callable[[bool], GradientMode]", type(self)), self.mode)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if self._first is not None:  # a decorator sets nothing where it stands
            for name, value in self._first.items():
                setattr(state, name, value)
            self._first = None
        return super().__call__(function)


@public_class
class set_grad_enabled(SetMode):  # noqa: N801 - as in torch
    """Function, context and decorator that turns recording on or off.

    The call sets the mode. As a context, it restores the mode at the end.

    Parameters
    ----------
    mode : bool
        Whether to record.

    Raises
    ------
    fdiff.errors.InputError
        If a class, or an asynchronous function, is decorated.

    References
    ----------
    ``torch.set_grad_enabled``.

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> _ = autograd.set_grad_enabled(False)
    >>> autograd.is_grad_enabled()
    False
    >>> _ = autograd.set_grad_enabled(True)
    """

    def __init__(self, mode: bool) -> None:  # noqa: FBT001 - as in torch
        way = "Write set_grad_enabled(bool(mode))."
        super().__init__(on=flag(mode, "the mode", "fdiff.autograd.set_grad_enabled", way))

    def _current(self) -> dict[str, object]:
        return _now()

    def _enter(self) -> None:
        _switch(enabled=self.mode)

    def __repr__(self) -> str:
        return f"fdiff.autograd.set_grad_enabled(mode={self.mode})"


class inference_mode(GradientMode):  # noqa: N801 - as in torch
    """Context and decorator like `no_grad`. Operations on its arrays can never be recorded.

    Arrays that are made in it are inference arrays. They neither track views nor count versions,
    and have no tangents of `forward_ad`. An operation that would save one for the backward pass
    raises an error.

    Parameters
    ----------
    mode : bool or callable, optional
        Whether inference mode is on; with False, operations are recorded. Or the function that
        ``@inference_mode`` decorates, without parentheses.

    Raises
    ------
    fdiff.errors.InputError
        If a class, or an asynchronous function, is decorated.

    References
    ----------
    ``torch.inference_mode``.

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> with autograd.inference_mode():
    ...     autograd.is_grad_enabled()
    False
    """

    @overload
    def __new__(cls, mode: Callable[P, R]) -> Callable[P, R]: ...
    @overload
    def __new__(cls, mode: bool = True) -> Self: ...  # noqa: FBT001,FBT002 - as in torch
    def __new__(cls, mode: object = True) -> object:  # noqa: FBT002 - as in torch
        if callable(mode):
            return cls()(mode)
        flag(mode, "the mode", "fdiff.autograd.inference_mode")
        return super().__new__(cls)

    def __init__(  # pyright: ignore[reportInconsistentConstructor] - a decorated function is no mode
        self,
        mode: bool = True,  # noqa: FBT001,FBT002 - as in torch
    ) -> None:
        super().__init__()
        self.mode = bool(mode)

    def _enter(self) -> None:
        _switch(enabled=not self.mode, inference=self.mode)

    def _again(self) -> Callable[[], GradientMode]:
        return functools.partial(inference_mode, self.mode)
