"""Traced arrays: stand-ins for arrays while a function is recorded.

A traced array holds no value: it names a node of the trace that made it. NumPy hands every ufunc
and function called on one to the handlers that `fdiff.ops` registers (``__array_ufunc__`` and
``__array_function__``, NEP 13 and NEP 18). Where Python asks for a value, it is computed and
guarded, or refused where a derivative would be dropped.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

import fdiff.intact_numpy as np

from ..arraytype import BOOL, ArrayType, Shape, shadow
from ..capture.printing_functions import refusing, showing
from ..errors import TraceError
from ..foreign_errors import hiding, not_foreign
from ..hooks import hooks
from ..primitive import FUNCTIONS, UFUNC_METHODS, UFUNCS, handler_of, load_tables
from ..user_lines import is_within, scipy_call
from .branching.memo_branches import is_denied, other_text
from .concrete_values import Number, asked, whole
from .handler_arguments import call_with_out, positioned, resolve, resolved, stored
from .recorder import Handle, Recorder
from .trace_stack import asks, current, stack, unsupported
from .traced_keys import Text, is_formatting


class TracedArray(Handle):
    """Stands for an array while a function is traced; use it as you would the array."""

    __slots__ = ()
    __array_priority__ = 1000.0
    __pandas_priority__ = 10000  # above a DataFrame's: ours is asked
    __fdiff_traced__ = True

    if TYPE_CHECKING:  # `fdiff.ops` enters operators and methods

        def __getitem__(self, key: object) -> TracedArray: ...
        def __setitem__(self, key: object, value: object) -> None: ...
        def _operate(self, other: object, /) -> TracedArray: ...
        def _apply(self, *args: object, **options: object) -> TracedArray: ...

        astype = copy = reshape = round = __neg__ = __abs__ = __invert__ = _apply
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = _operate
        __truediv__ = __floordiv__ = __pow__ = __and__ = __or__ = _operate
        __rtruediv__ = __rfloordiv__ = __lt__ = __le__ = __gt__ = __ge__ = _operate
        __rand__ = __ror__ = __xor__ = __mod__ = __rmod__ = __rpow__ = __rmatmul__ = _operate

        def __eq__(self, other: object, /) -> TracedArray: ...  # pyright: ignore[reportIncompatibleMethodOverride] - as ndarray
        def __ne__(self, other: object, /) -> TracedArray: ...  # pyright: ignore[reportIncompatibleMethodOverride] - as ndarray

    def __init__(
        self,
        trace: Recorder,
        node_id: int,
        type_: ArrayType,
        *,
        scalar: bool = False,
        weak: bool = False,
    ) -> None:
        self.home = trace
        self.born = running = stack.traces[-1] if stack.traces else trace  # the trace that runs
        self.node = self.made = node_id
        self.type = type_
        self.scalar = scalar
        self.weak = weak
        self.link = None
        if running is not trace:
            running.adopt(self)

    def _fixed(self, name: str, way_out: str) -> NoReturn:
        raise current(self).fail(f"the {name} of a traced array was set in place.", way_out)

    # No exception arrives in getters that are no Python code.
    shape = property(
        cast("Callable[[object], Shape]", operator.attrgetter("type.shape")),
        lambda self, _: self._fixed("shape", "Write `x = x.reshape(shape)`."),
    )
    dtype = property(
        cast("Callable[[object], np.dtype]", operator.attrgetter("type.dtype")),
        lambda self, _: self._fixed("dtype", "Use `.astype`."),
    )
    itemsize = property(cast("Callable[[object], int]", operator.attrgetter("dtype.itemsize")))

    @property
    @hiding
    def ndim(self) -> int:
        return len(self.type.shape)

    @property
    @hiding
    def size(self) -> int:
        return self.type.size

    @property
    @hiding
    def nbytes(self) -> int:
        return self.type.nbytes

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeError("len() of unsized object")
        return self.type.shape[0]

    def __contains__(self, value: object) -> bool:
        if self.scalar or self.weak:
            return value in shadow(self.type)[()]  # raises what NumPy raises
        return bool(np.any(self == resolve(value)))

    def __iter__(self) -> Iterator[TracedArray]:
        if not self.type.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.type.shape[0]))

    def _shown(self) -> Any:
        """The value at the arguments at hand, to be printed; None where it is not known.

        Of one element of a batch it is a guard, so that each has its own text.
        """
        if not self.home.alive:
            return None
        for trace in stack.traces:
            trace.shown = True
        guards, action = self.home.guards, "printed a traced array"
        batched = guards.is_batched(self.id)
        value_of = guarded_value if batched else lambda x, action: guards.value(x.id, action)
        try:
            value = value_of(self, action)
        except not_foreign(
            TraceError, ArithmeticError, ValueError, again=lambda: value_of(self, action)
        ):
            return None
        array = np.asarray(value)
        return array.item() if self.weak else array[()] if self.scalar else array

    def printed(self, function: Callable[[object], str]) -> str:
        """Text that a function makes of the value, or of the type where there is none."""
        value = self._shown()
        if value is None and self.home.alive and (refuse := refusing.get()) is not None:
            refuse("makes text of a value that differs from trip to trip")
        if value is None and self.home.alive and function is str and not showing.get():
            raise current(self).fail(
                "`f` made text of a value that is not known where its derivative is traced.",
                "Write repr(x), or {x!r} in an f-string, which show its type; or print(x).",
            )
        return f"Traced<{self.type}>" if value is None else self._text(function(value))

    def __str__(self) -> str:
        return self.printed(str)

    def __repr__(self) -> str:
        return self.printed(repr)

    def _text(self, text: str) -> Text:
        """Text made of the value; a key that holds it names the value."""
        if stack.traces and text and self.home.guards.depends(self.id):
            stack.traces[0].texts.add(text)
        return Text(text)

    def __format__(self, spec: str) -> str:
        shown = [trace.shown for trace in stack.traces]
        value = self._shown()
        if value is None:
            return str(self)
        text = format(value, spec)
        batched = self.home.guards.is_batched(self.id)
        session = stack.traces[0].session if stack.traces and not batched else None
        mark = session.formatted(self, spec, text, sys._getframe(1)) if session else None
        if mark is None:
            return self._text(text)
        for trace, before in zip(stack.traces, shown, strict=True):
            trace.shown = before
        return mark

    @asks
    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> object:
        trace = stack.traces[-1] if stack.traces else None
        log = trace.listener if trace is not None else None
        if log is not None and not log.depth and not log.is_idle():
            return hooks.log_ufunc(log, ufunc, method, inputs, kwargs)
        if len(inputs) != 1 or inputs[0] is not self:
            inputs = resolved(inputs)
        if method == "__call__" and not kwargs:
            if trace is not None and trace.eager:
                return trace.ufunc(ufunc, inputs)
            if self.__class__ is not TracedArray:
                part = hooks.computed_part(ufunc, inputs)
                if part is not None:
                    return part
            return (UFUNCS.get(ufunc) or ufunc_handler(ufunc))(*inputs)
        outs = cast("tuple[object, ...]", kwargs.pop("out", None) or ())
        where = kwargs.pop("where", True) if outs and method == "__call__" else True
        if method == "at":
            return hooks.ufunc_at(ufunc)(*inputs, **kwargs)
        result = ufunc_handler(ufunc, method)(*inputs, **kwargs)
        return stored(outs, result, where, ufunc.__name__) if outs else result

    @asks
    def __array_function__(
        self: object,  # or a local array, which asks for the same
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        log = stack.traces[-1].listener if stack.traces else None
        if log is not None and not log.depth and not log.is_idle():
            return log.call(func, args, dict(kwargs))
        handler = handler_of(func)
        if handler is None:
            raise unsupported(f"{func.__module__}.{func.__name__}")
        if len(args) == 1 and not kwargs:  # none is given as ``out``
            return handler(*resolved(args))
        if kwargs:
            args, kwargs = positioned(func, handler, args, kwargs)
        return call_with_out(handler, func.__name__, resolved(args), kwargs)

    @property
    @hiding
    def _numba_type_(self) -> object:
        if sys._getframe(2).f_globals.get("__name__") != "numba.core.typing.typeof":
            # Numba's C code only asks whether there is one; Python 3.13 reports other errors there.
            raise AttributeError("_numba_type_")
        if is_within("numba.experimental.jitclass"):
            fact = "an object of a class under numba's @jitclass was given a traced array."
            way = "Leave the decorator out: fdiff compiles what methods of plain classes compute."
            raise current(self).fail(fact, way)
        fact = "compiled code was given a traced array."
        raise current(self).fail(fact, "Reach it by a name, or call its `py_func`.")

    def __array__(
        self,
        dtype: np.dtype | None = None,
        copy: bool | None = None,  # noqa: FBT001 - NumPy calls it by position
    ) -> np.ndarray:
        """Object array of traced scalars, as in ``np.array([x[0], x[1]])``."""
        if (name := scipy_call()) is not None:  # SciPy's own code has no use for such an array
            raise unsupported(name)
        if dtype is not None and np.dtype(dtype) != np.dtype(object):
            if not self.type.floating:  # it has no derivative
                return np.asarray(guarded_value(self, "turned it into a concrete array"), dtype)
            if (target := np.dtype(dtype)).kind in "iu":
                raise current(self).fail(
                    f"real numbers were turned into a concrete {target} array; integers, and so"
                    " an index, have no derivative.",
                    f"Write x.astype(numpy.{target}) for numpy.{target}(x).",
                )
            raise current(self).fail(
                f"a traced array was turned into a concrete {target} array,"
                " which would drop its derivative.",
                "Leave the dtype out, or use `.astype`; where it was stored into an array,"
                " store into a copy made in the function: `a = np.array(a)`; for np.float64(x),"
                " write float(x) or x.astype(np.float64); where it was meant for random numbers,"
                " transform standard ones: `a + b * rng.standard_normal(n)`.",
            )
        entries = np.empty(self.type.size, object)
        flat = FUNCTIONS[np.ravel](self) if self.type.shape else [self]
        for i, entry in enumerate(cast("Iterable[TracedArray]", flat)):
            entries[i] = entry
        return entries.reshape(self.type.shape)

    def __reduce__(self) -> str | tuple[object, ...]:
        fact = "a traced array was pickled, which would drop its derivative."
        raise current(self).fail(fact, "Pickle what the differentiated function returns.")

    @hiding
    def __getattr__(self, name: str) -> object:
        single = self.scalar or self.weak
        kind = self.type.dtype.type if single else np.ndarray
        if name.startswith("__") or not hasattr(kind, name):
            method = hooks.torch_method(name) if hooks.torch_method else None
            if method is not None:
                return partial(method, self)
            raise AttributeError(f"'numpy.{kind.__name__}' object has no attribute {name!r}")
        raise unsupported(f"{kind.__name__}.{name}")

    def as_python_float(self) -> TracedArray:
        """The value as a Python number that stays traced."""
        return TracedArray(self.home, self.id, self.type, scalar=True, weak=True)

    def __bool__(self) -> bool:
        log = stack.traces[-1].calls if stack.traces else None
        checked = log is not None and log.is_checked(self)
        if self.type.size == 1 and stack.traces and not checked:
            trace = stack.traces[-1]
            if is_denied(trace, node := trace.own(self)):
                return not trace.guards.value(node, "compared a value")
        boolean = self.scalar and self.type.dtype == BOOL
        if boolean and (log is None or not (checked and log.is_asked())):
            passed = hooks.select(self, sys._getframe(1))
            if passed is not None:
                return bool(passed)
        return self._one(bool)

    def __int__(self) -> int:
        return self._one(int)

    def __index__(self) -> int:
        return operator.index(shadow(self.type)) if self.dtype.kind not in "iu" else int(self)

    def __float__(self) -> float:
        return self._one(float)

    def __complex__(self) -> complex:
        return self._one(complex)

    def __hash__(self) -> int:
        if not self.scalar and not self.weak:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(guarded_value(self, "used a traced value as a key").item())

    def __round__(self, ndigits: int | None = None) -> object:
        if ndigits is not None:
            rounded = self.round(ndigits)
            return rounded.as_python_float() if self.weak else rounded
        return whole(UFUNCS[np.rint](self))

    def __floor__(self) -> object:
        return whole(UFUNCS[np.floor](self))

    def __ceil__(self) -> object:
        return whole(UFUNCS[np.ceil](self))

    def __trunc__(self) -> object:
        return whole(self)

    def _one(self, kind: type[Number]) -> Number:
        """The Python number of an array of one entry."""
        if self.type.size != 1 or (kind is not bool and self.ndim):
            kind(shadow(self.type))  # raises what NumPy raises, or warns
        if (
            kind is not bool
            and is_formatting(sys._getframe(2))
            and (value := self._shown()) is not None
        ):
            if stack.traces and self.home.guards.depends(self.id):
                stack.traces[0].printed.append(float(kind(value).real))
                value = other_text(value)
            return kind(value)
        log = stack.traces[-1].calls if stack.traces else None
        if log is not None and not log.depth and log.listens():
            return log.question(kind, self)
        return asked(self, kind)


Array = TracedArray | np.ndarray  # a traced array, which NumPy's stubs call an ndarray
Operand = Array | float
TracedArrays = Sequence[TracedArray]


def handle(
    trace: Recorder,
    node_id: int,
    type_: ArrayType,
    scalar: bool = False,  # noqa: FBT001,FBT002 - half the time of a call by name
    weak: bool = False,  # noqa: FBT001,FBT002 - as above
) -> TracedArray:
    """A traced array of the trace that runs; half the time of `TracedArray`."""
    if node_id >= trace.milestone:
        trace.look()
    array = object.__new__(TracedArray)
    array.home = array.born = trace
    array.node = array.made = node_id
    array.type, array.scalar, array.weak, array.link = type_, scalar, weak, None
    return array


def _handler(ufunc: np.ufunc, method: str) -> Callable[..., object] | None:
    return UFUNCS.get(ufunc) if method == "__call__" else UFUNC_METHODS.get((ufunc, method))


def ufunc_handler(ufunc: np.ufunc, method: str = "__call__") -> Callable[..., object]:
    """The handler of a ufunc; UnsupportedError if there is none."""
    handler = _handler(ufunc, method)
    if handler is None and load_tables():
        handler = _handler(ufunc, method)
    if handler is None:
        special = getattr(sys.modules.get("scipy.special"), ufunc.__name__, None) is ufunc
        name = f"scipy.special.{ufunc.__name__}" if special else ufunc.__name__
        raise unsupported(name if method == "__call__" else f"{name}.{method}")
    return handler


def guarded_value(traced: TracedArray, action: str) -> np.ndarray:
    """Concrete value of `traced`, which the tape relies on from now on."""
    trace = current(traced)
    return trace.guards.guard(trace.own(traced), action)
