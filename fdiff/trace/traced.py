"""Traced arrays: what stands for an array while a function is recorded, and the traces under way.

A traced array holds no value: it names a node of the trace that made it. NumPy hands every ufunc
and function called on one to the handlers that `fdiff.ops` registers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from ..arraytype import ArrayType, Shape, shadow
from ..errors import LeakError, TraceError, UnsupportedError, message, show_line, user_line
from ..interpret import evaluate
from ..primitive import FUNCTIONS, UFUNC_METHODS, UFUNCS
from ..tape import CONSTANT, Tape, prune

if TYPE_CHECKING:
    from .recording import Trace

KEEP_NO_TRACED = "Return it from the function instead of storing it."

Number = TypeVar("Number", bool, int, float, complex)


class Stack(threading.local):
    """The traces under way in this thread, innermost last."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []


stack = Stack()


def current(*values: object) -> Trace:
    """The innermost trace of this thread, where `values` are used."""
    if not stack.traces:
        for value in values:
            if isinstance(value, TracedArray):
                raise leaked(value)
        fact = "a traced array was used after its trace had ended."
        raise LeakError(message("fdiff", fact, KEEP_NO_TRACED, user_line()))
    return stack.traces[-1]


def leaked(traced: TracedArray) -> LeakError:
    """The error for a traced array that outlived its trace; says where it was made."""
    made = traced.home.builder.lines.get(traced.id, (None,))[0]
    where = f"It was made here:{show_line(made)}" if made else "It is an argument of the function."
    fact = f"a traced array was used after its trace had ended. {where}\nIt was used here:"
    return LeakError(message(traced.home.call, fact, KEEP_NO_TRACED, user_line()))


def tracing() -> bool:
    """Whether a trace is under way in this thread."""
    return bool(stack.traces)


def root_trace() -> Trace:
    """The outermost trace of this thread."""
    current()
    return stack.traces[0]


class TracedArray:
    """Stands for an array while a function is traced; use it as you would the array."""

    __slots__ = ("home", "id", "scalar", "type", "weak")
    __array_priority__ = 1000.0
    __fdiff_traced__ = True
    __hash__ = None  # type: ignore[assignment]  # like ndarray: equality is entry by entry

    def __init__(
        self,
        trace: Trace,
        node_id: int,
        type_: ArrayType,
        *,
        scalar: bool = False,
        weak: bool = False,
    ) -> None:
        self.home = trace
        self.id = node_id
        self.type = type_
        self.scalar = scalar
        self.weak = weak

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.type.shape)

    @property
    def size(self) -> int:
        return self.type.size

    @property
    def itemsize(self) -> int:
        return self.type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.type.nbytes

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeError("len() of unsized object")
        return self.type.shape[0]

    def __iter__(self) -> Iterator[TracedArray]:
        if not self.type.shape:
            raise TypeError("iteration over a 0-d array")
        getitem: Callable[[TracedArray, int], TracedArray] = getattr(type(self), "__getitem__")  # noqa: B009 - `ops/indexing.py` sets it
        return (getitem(self, i) for i in range(self.type.shape[0]))

    def __repr__(self) -> str:
        return f"Traced<{self.type}>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> object:
        if any(out is not None for out in kwargs.pop("out", ())):  # type: ignore[union-attr]
            raise current().fail(
                f"numpy.{ufunc.__name__} was asked to write a traced value into an existing array"
                " (`out=`, `+=`).",
                "Write `a = a + b` instead of `a += b`.",
            )
        handler = UFUNCS.get(ufunc) if method == "__call__" else UFUNC_METHODS.get((ufunc, method))
        if handler is None:
            name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            raise unsupported(name)
        return handler(*inputs, **kwargs)

    def __array_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        handler = FUNCTIONS.get(func)
        if handler is None:
            raise unsupported(f"{func.__module__}.{func.__name__}")
        if kwargs.pop("out", None) is not None:
            raise current().fail(
                f"numpy.{func.__name__} was asked to write into an existing array (`out=`)."
            )
        return handler(*args, **kwargs)

    def __array__(
        self,
        dtype: np.dtype | None = None,
        copy: bool | None = None,  # noqa: FBT001 - NumPy calls it by position
    ) -> np.ndarray:
        """Object array of traced scalars: what ``np.array([x[0], x[1]])`` is made of."""
        if dtype is not None and np.dtype(dtype) != object:
            raise current(self).fail(
                f"a traced array was turned into a concrete {np.dtype(dtype)} array,"
                " which would drop its derivative.",
                "Leave the dtype out, or use `.astype`.",
            )
        entries = np.empty(self.type.size, object)
        flat = FUNCTIONS[np.ravel](self) if self.type.shape else [self]
        for i, entry in enumerate(cast("Iterable[TracedArray]", flat)):
            entries[i] = entry
        return entries.reshape(self.type.shape)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        raise unsupported(f"ndarray.{name}")

    def __setitem__(self, key: object, value: object) -> None:
        raise current().fail(
            "a traced array was written to in place.",
            "Build it with numpy.where, numpy.concatenate or numpy.stack.",
        )

    def __bool__(self) -> bool:
        return self._as(bool, "decided a Python branch on a traced value")

    def __float__(self) -> float:
        return self._as(
            float, "turned a traced array into a Python float, which would drop its derivative"
        )

    def __int__(self) -> int:
        return self._as(
            int, "turned a traced array into a Python int, which would drop its derivative"
        )

    def __complex__(self) -> complex:
        return self._as(complex, "turned a traced array into a Python complex")

    def __round__(self, ndigits: int | None = None) -> object:
        return FUNCTIONS[np.round](self, ndigits) if ndigits is not None else round(float(self))

    def _as(self, kind: Callable[[np.ndarray], Number], deed: str) -> Number:
        if self.type.size != 1:
            kind(shadow(self.type))  # raises what NumPy raises
        try:
            return kind(look(self, deed))
        except LeakError:
            raise
        except TraceError as error:
            trace = current()
            # Whoever catches the error: plain code would have gone another way.
            trace.refused = trace.refused or error
            raise

    def __index__(self) -> int:
        return look(self, "used a traced value as a Python index").__index__()


def unsupported(name: str) -> UnsupportedError:
    """The error for a NumPy function without a rule."""
    trace = current()
    return UnsupportedError(
        message(
            trace.call,
            f"{name} has no derivative rule in fdiff yet.",
            "Write it with supported NumPy functions,"
            " or compute it outside the differentiated function.",
            trace.where(),
        )
    )


def look(traced: TracedArray, deed: str) -> np.ndarray:
    """Concrete value of `traced`, where it depends on nothing that is differentiated.

    The inputs it depends on are frozen: the tape holds only while they keep their values.
    """
    return _look(current(traced), traced, deed)


def _look(trace: Trace, traced: TracedArray, deed: str) -> np.ndarray:
    node_id = trace.own(traced)
    nodes = trace.builder.nodes
    if nodes[node_id].primitive is CONSTANT:
        return dict(nodes[node_id].params)["value"].array  # type: ignore[union-attr]
    inputs = trace.builder.inputs
    part = prune(Tape(tuple(nodes), tuple(inputs), (node_id,)))
    read = {a for node in part.nodes for a in node.args} | set(part.outputs)
    arrays = [
        _seen(trace, k, deed) if new in read else np.zeros(type_.shape, type_.dtype)
        for k, new, type_ in zip(range(len(inputs)), part.inputs, part.input_types, strict=True)
    ]
    return np.asarray(evaluate(part, *arrays)[0])


def _seen(trace: Trace, k: int, deed: str) -> np.ndarray:
    """Value of input `k`, frozen from now on; what came from an outer trace is asked of that."""
    node_id = trace.builder.inputs[k]
    given = len(trace.builder.inputs) - len(trace.extra)
    outer = trace.extra[k - given] if k >= given else None
    if isinstance(outer, TracedArray):
        return _look(outer.home, outer, deed)
    if node_id not in trace.values:
        raise trace.fail(
            f"`f` {deed}; it depends on an argument of type {trace.builder.type(node_id)}"
            " that is traced.",
            "Use numpy functions (numpy.where for a branch, numpy.sin for math.sin), or pass the"
            " value as a Python int or as an argument that is not differentiated.",
        )
    trace.frozen.add(node_id)
    return trace.values[node_id]
