"""Record a tape by running plain NumPy code on traced arrays.

A traced array holds no value: it names a node of the trace that made it. NumPy hands every ufunc
and function called on one to the handlers that `fdiff.ops` registers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from .arraytype import ArrayType, Shape, shadow
from .errors import (
    InputError,
    LeakError,
    Line,
    TraceError,
    UnsupportedError,
    message,
    show_line,
    user_line,
)
from .interpret import evaluate
from .primitive import FUNCTIONS, PRIMITIVES, UFUNC_METHODS, UFUNCS, Primitive
from .tape import CONSTANT, ITEM, Builder, Tape, prune

KEEP_NO_TRACED = "Return it from the function instead of storing it."
FOLD_LIMIT = 4096  # constants up to this many entries are folded while tracing


Number = TypeVar("Number", bool, int, float, complex)


class Stack(threading.local):
    """The traces under way in this thread, innermost last."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []


_stack = Stack()


def current(*values: object) -> Trace:
    """The innermost trace of this thread, where `values` are used."""
    if not _stack.traces:
        for value in values:
            if isinstance(value, TracedArray):
                raise leaked(value)
        fact = "a traced array was used after its trace had ended."
        raise LeakError(message("fdiff", fact, KEEP_NO_TRACED, user_line()))
    return _stack.traces[-1]


def leaked(traced: TracedArray) -> LeakError:
    """The error for a traced array that outlived its trace; says where it was made."""
    made = traced.home.builder.lines.get(traced.id, (None,))[0]
    where = f"It was made here:{show_line(made)}" if made else "It is an argument of the function."
    fact = f"a traced array was used after its trace had ended. {where}\nIt was used here:"
    return LeakError(message(traced.home.call, fact, KEEP_NO_TRACED, user_line()))


def tracing() -> bool:
    """Whether a trace is under way in this thread."""
    return bool(_stack.traces)


def root_trace() -> Trace:
    """The outermost trace of this thread."""
    current()
    return _stack.traces[0]


class Trace:
    """One recording under way: its builder, and what it met from outside.

    `call` is the public call, for messages. `extra` holds, for every input beyond the arguments,
    the captured array or the traced array of an enclosing trace that it stands for. `values` are
    the inputs Python may look at; `frozen` are those it has looked at. `refused` is the first value
    that was asked for and not given: plain code would have got it, so the trace is void.
    """

    def __init__(self, call: str, *, lines: bool = True) -> None:
        self.builder = Builder()
        self.call = call
        self.lines = lines
        self.line: Line | None = None  # of the node being differentiated
        self.alive = False
        self.extra: list[np.ndarray | TracedArray] = []
        self.values: dict[int, np.ndarray] = {}
        self.frozen: set[int] = set()
        self.refused: TraceError | None = None
        self.watch: object = None  # of the outermost trace: what watches the functions it runs
        self._known: dict[tuple[int, int], int] = {}
        self._numbers: dict[tuple[object, np.dtype], int] = {}

    def __enter__(self) -> Trace:
        self.alive = True
        _stack.traces.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.alive = False
        _stack.traces.pop()

    def where(self) -> Line | None:
        return user_line() if self.lines else self.line

    def input(self, type_: ArrayType, *, scalar: bool = False, weak: bool = False) -> TracedArray:
        return TracedArray(self, self.builder.input(type_), type_, scalar=scalar, weak=weak)

    def capture(self, array: np.ndarray) -> TracedArray:
        """The input that stands for a captured array."""
        self.extra.append(array)
        type_ = ArrayType(array.shape, array.dtype.newbyteorder("="))
        traced = self.input(type_)
        self.values[traced.id] = array
        return traced

    def own(self, traced: TracedArray) -> int:
        """Id of `traced` in this trace; a value of an enclosing trace becomes an input."""
        if traced.home is self:
            return traced.id
        if not traced.home.alive:
            raise leaked(traced)
        key = (id(traced.home), traced.id)
        if key not in self._known:
            self.extra.append(traced)
            self._known[key] = self.builder.input(traced.type)
        return self._known[key]

    def lift(self, value: object, dtype: np.dtype | None = None) -> int:
        """Id of `value` as a node of dtype `dtype` (its own where left out)."""
        if not isinstance(value, TracedArray):
            if dtype is not None and type(value) in (int, float) and value:  # not -0.0, which equals 0.0
                if (known := self._numbers.get((value, dtype))) is None:
                    known = self._numbers[value, dtype] = self.builder.constant(np.array(value, dtype))
                return known
            array = np.asarray(value)
            if array.dtype == object:
                return self.lift(assemble(array), dtype)
            if array.dtype.kind not in "biufc":
                raise InputError(
                    message(self.call, f"NumPy arrays of dtype {array.dtype} cannot be traced.", "", self.where())
                )
            return self._lift_array(array, array.dtype.newbyteorder("=") if dtype is None else dtype)
        node = self.own(value)
        if dtype is not None and value.type.dtype != dtype:
            return self.add(PRIMITIVES["convert"], (node,), (("dtype", dtype),))
        return node

    def _lift_array(self, array: np.ndarray, dtype: np.dtype) -> int:
        """A constant of the tape; an array of one repeated value is a scalar, broadcast."""
        copied = np.array(array, dtype=dtype, order="C")
        if copied.size > 1 and copied.dtype.kind == "f":
            first = copied.ravel()[:1]
            if copied.tobytes() == first.tobytes() * copied.size:
                scalar = self.builder.constant(first.reshape(()))
                return self.add(PRIMITIVES["broadcast_to"], (scalar,), (("shape", copied.shape),))
        return self.builder.constant(copied)

    def add(self, primitive: Primitive, args: tuple[int, ...], params: tuple[tuple[str, object], ...] = ()) -> int:
        """Enter a node; one whose arguments are all small constants is computed at once."""
        builder = self.builder
        node_id = builder.add(primitive, args, params, self.where())
        nodes = builder.nodes
        if args and nodes[args[0]].primitive is CONSTANT and all(nodes[a].primitive is CONSTANT for a in args):
            types = nodes[node_id].types
            if len(types) == 1 and types[0].size <= FOLD_LIMIT and primitive.name != "broadcast_to":
                with np.errstate(all="ignore"):
                    value = primitive.evaluate(*[dict(nodes[a].params)["value"].array for a in args], **dict(params))
                return builder.constant(np.array(value, dtype=types[0].dtype, order="C"))
        return node_id

    def fail(self, fact: str, way_out: str = "") -> TraceError:
        """The error for something `f` did that cannot go on the tape."""
        return TraceError(message(self.call, fact, way_out, self.where()))


class TracedArray:
    """Stands for an array while a function is traced; use it as you would the array."""

    __slots__ = ("home", "id", "scalar", "type", "weak")
    __array_priority__ = 1000.0
    __fdiff_traced__ = True
    __hash__ = None  # type: ignore[assignment]  # like ndarray: equality is entry by entry

    def __init__(
        self, trace: Trace, node_id: int, type_: ArrayType, *, scalar: bool = False, weak: bool = False
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
        return (self[i] for i in range(self.type.shape[0]))

    def __repr__(self) -> str:
        return f"Traced<{self.type}>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        if any(out is not None for out in kwargs.pop("out", ())):  # type: ignore[union-attr]
            raise current().fail(
                f"numpy.{ufunc.__name__} was asked to write a traced value into an existing array (`out=`, `+=`).",
                "Write `a = a + b` instead of `a += b`.",
            )
        handler = UFUNCS.get(ufunc) if method == "__call__" else UFUNC_METHODS.get((ufunc, method))
        if handler is None:
            name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            raise unsupported(name)
        return handler(*inputs, **kwargs)

    def __array_function__(
        self, func: Callable[..., object], types: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        handler = FUNCTIONS.get(func)
        if handler is None:
            raise unsupported(f"{func.__module__}.{func.__name__}")
        if kwargs.pop("out", None) is not None:
            raise current().fail(f"numpy.{func.__name__} was asked to write into an existing array (`out=`).")
        return handler(*args, **kwargs)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """Object array of traced scalars: what ``np.array([x[0], x[1]])`` is made of."""
        if dtype is not None and np.dtype(dtype) != object:
            raise current(self).fail(
                f"a traced array was turned into a concrete {np.dtype(dtype)} array, which would drop its derivative.",
                "Leave the dtype out, or use `.astype`.",
            )
        entries = np.empty(self.type.size, object)
        flat = self.reshape(-1) if self.type.shape else [self]
        for i in range(self.type.size):
            entries[i] = flat[i]
        return entries.reshape(self.type.shape)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        raise unsupported(f"ndarray.{name}")

    def __setitem__(self, key: object, value: object) -> None:
        raise current().fail(
            "a traced array was written to in place.", "Build it with numpy.where, numpy.concatenate or numpy.stack."
        )

    def __bool__(self) -> bool:
        return self._as(bool, "decided a Python branch on a traced value")

    def __float__(self) -> float:
        return self._as(float, "turned a traced array into a Python float, which would drop its derivative")

    def __int__(self) -> int:
        return self._as(int, "turned a traced array into a Python int, which would drop its derivative")

    def __complex__(self) -> complex:
        return self._as(complex, "turned a traced array into a Python complex")

    def __round__(self, ndigits: int | None = None) -> object:
        return FUNCTIONS[np.round](self, ndigits) if ndigits is not None else round(float(self))

    def _as(self, kind: Callable[[object], Number], deed: str) -> Number:
        if self.type.size != 1:
            kind(shadow(self.type))  # raises what NumPy raises
        try:
            return kind(look(self, deed))
        except LeakError:
            raise
        except TraceError as error:
            trace = current()
            trace.refused = trace.refused or error  # whoever catches it, plain code went another way
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
            "Write it with supported NumPy functions, or compute it outside the differentiated function.",
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
    """Value of input `k`, frozen from now on; an input of an inner trace is asked of the outer one."""
    node_id = trace.builder.inputs[k]
    given = len(trace.builder.inputs) - len(trace.extra)
    outer = trace.extra[k - given] if k >= given else None
    if isinstance(outer, TracedArray):
        return _look(outer.home, outer, deed)
    if node_id not in trace.values:
        raise trace.fail(
            f"`f` {deed}; it depends on an argument of type {trace.builder.type(node_id)} that is traced.",
            "Use numpy functions (numpy.where for a branch, numpy.sin for math.sin), or pass the value as a"
            " Python int or as an argument that is not differentiated.",
        )
    trace.frozen.add(node_id)
    return trace.values[node_id]


def assemble(array: np.ndarray) -> object:
    """A traced array out of an object array of traced scalars and numbers."""
    entries = list(array.ravel())
    if not any(isinstance(e, TracedArray) for e in entries):
        raise current().fail("an object array met a traced array.", "Use arrays of numbers.")
    stacked = FUNCTIONS[np.stack]([np.asarray(e) if not isinstance(e, TracedArray) else e for e in entries])
    return stacked.reshape(array.shape)  # type: ignore[attr-defined]


def apply(
    primitive: Primitive, *args: object, scalar: bool = False, weak: bool = False, **params: object
) -> TracedArray:
    """Record a single-output primitive on lifted arguments."""
    trace = current(*args)
    ids = tuple([trace.lift(a) for a in args])
    node = trace.add(primitive, ids, tuple(sorted(params.items())))
    return TracedArray(trace, node, trace.builder.type(node), scalar=scalar, weak=weak)


def apply_many(primitive: Primitive, *args: object, **params: object) -> tuple[TracedArray, ...]:
    """Record a primitive with several outputs; one traced array for each."""
    trace = current(*args)
    ids = tuple([trace.lift(a) for a in args])
    node = trace.builder.add(primitive, ids, tuple(sorted(params.items())), trace.where())
    items = [trace.builder.add(ITEM, (node,), (("k", k),)) for k in range(len(trace.builder.nodes[node].types))]
    return tuple(TracedArray(trace, i, trace.builder.type(i)) for i in items)


def constant_value(value: object) -> np.ndarray | None:
    """The value of a constant node of the current trace, or None for anything else."""
    if not isinstance(value, TracedArray):
        return np.asarray(value)
    node = value.home.builder.nodes[value.id]
    return dict(node.params)["value"].array if node.primitive is CONSTANT else None  # type: ignore[union-attr]


def implements(*functions: Callable[..., object], method: str = "") -> Callable[..., Callable[..., object]]:
    """Decorator: this handler answers for NumPy `functions` and for the ndarray method named."""

    def enter(handler: Callable[..., object]) -> Callable[..., object]:
        for function in functions:
            FUNCTIONS[function] = handler
        if method:
            setattr(TracedArray, method, handler)
        return handler

    return enter
