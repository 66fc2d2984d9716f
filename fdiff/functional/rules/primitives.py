"""`primitive`: a function that is not traced but is one operation, with derivatives of the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...dispatch.arguments import Function
from ...errors import InputError, failure
from ...foreign_errors import update_wrapper
from ...hooks import Args
from ...ops.control.opaque import common_dtype, entrywise_type, opaque
from ...ops.shapes.shaping import traced
from ...primitive import Primitive
from ...process.forking import late
from ...trace import Array, TracedArray, apply, current, tracing
from ...tracebacks import ask, public
from ..options import check_callable, is_int
from .custom_derivatives import CustomFunction
from .ruled_call import UserRule

if TYPE_CHECKING:
    from .primitive_kernels import UserKernel

Residuals = tuple[object, Args]  # the result, and the arguments

# Few programs need them.
check_primitive = late("primitive_checks", __package__, "check_primitive")
kernel_of_address = late("primitive_kernels", __package__, "kernel_of_address")
kernel_of_text = late("primitive_kernels", __package__, "kernel_of_text")


class OpaqueCall:
    """The implementation of a primitive: it calls the user's function on numbers, and adds a node
    in a trace.

    A primitive with a kernel takes `count` arguments, in the dtype of its result.
    """

    __fdiff__ = "primitive"

    def __init__(self, function: Function, op: Primitive, count: int) -> None:
        self.op, self.count = op, count
        update_wrapper(self, function, updated=())

    def __call__(self, *args: object) -> object:
        recording = tracing()
        if self.count:
            if len(args) != self.count:
                fact = f"takes {self.count} arguments, not {len(args)}."
                way = "The kernel is for so many: give a number or array for each."
                raise failure(InputError, self.op.name, fact, way)
            dtype = common_dtype(args)
            args = tuple([_as_dtype(x, dtype, recording) for x in args])
        if not recording:
            return self.op.rules.evaluate(*map(np.asarray, args))
        out = apply(self.op, *map(traced, args))
        return type(out)(out.home, out.id, out.type, scalar=not out.shape)


def _as_dtype(x: object, dtype: np.dtype, recording: bool) -> object:  # noqa: FBT001 - private
    if not recording:
        return np.asarray(x, dtype)
    trace = current()
    node = trace.lift(x, dtype)
    return TracedArray(trace, node, trace.builder.type(node))


class PrimitiveFunction(CustomFunction[..., Any]):
    """The result of `primitive`: a function of arrays with derivative rules.

    Attributes
    ----------
    op : Primitive
        The record of the operation, as fdiff's own have one.
    samples : tuple of tuples
        The arguments that `check` tests it with.
    """

    name = "primitive"
    fun: object
    op: Primitive  # pyright: ignore[reportIncompatibleVariableOverride] - each has one
    samples: tuple[tuple[object, ...], ...] = ()

    def __repr__(self) -> str:
        rule = self.op.lowering.kernel
        how = (
            "not compiled" if rule is None else "called by kernels" if rule.address else "compiled"
        )
        return f"<fdiff.{self.call}, {how}>"

    @public
    def check(self, *args: object) -> None:
        """Test the operation: value, kernel, derivatives, batches, dtypes, layouts, shapes.

        Parameters
        ----------
        *args
            Arguments for the test, by default each of the `samples` of the definition.

        Raises
        ------
        GradcheckError
            If a derivative of first or second order, in either mode, differs from the measured one;
            if the kernel, a batch, single precision, another layout or (for an operation that acts
            entry by entry) another shape gives other values; or if `sparsity` leaves out an entry.
        InputError
            If there are no samples.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff
        >>> square = fdiff.primitive(lambda x: x * x, partials=lambda x, out: (2.0 * x,))
        >>> square.check(np.array([1.0, 2.0]))
        """
        check_primitive(self, self.op, (args,) if args else self.samples)


@public
def primitive(
    function: Function,
    *,
    partials: Function | None = None,
    vjp: Function | None = None,
    jvp: Function | None = None,
    like: Callable[..., object] | int | None = None,
    kernel: Function | str | None = None,
    address: object = None,
    sparsity: Callable[..., object] | None = None,
    samples: Sequence[tuple[object, ...]] = (),
) -> PrimitiveFunction:
    """Turn a function into one operation that is not traced, for code compiled by Numba or in C.

    Parameters
    ----------
    function : callable
        Takes arrays and returns one array. It is called with plain arrays. It may be an ``@njit``
        function, a function of a C library through `ctypes`, or any Python code. It must be pure.
    partials : callable, optional
        For a function that acts entry by entry: ``partials(*args, out)`` returns the partial
        derivative for each argument.
    vjp : callable, optional
        ``vjp(bar, out, *args)`` returns a tuple with a cotangent for each argument.
    jvp : callable, optional
        ``jvp(dots, out, *args)`` returns the tangent of the output. It must be linear in the tuple
        `dots`.
    like : int or callable, optional
        The type of the result: the position of an argument with the same type, or a function whose
        result for arrays of zeros has this type. By default, the arguments broadcast.
    kernel : str or callable, optional
        How kernels compute an entry of the result from entries of the arguments, in the kernel
        language (docs/kernel-language.md). This is a text such as ``"lambda x: rt.exp(-x)"``, or a
        Python function whose source is read and which never runs. It contains assignments to names
        and a ``return``.
    address : object, optional
        Instead of `kernel`, a C function that takes doubles and returns a double. Kernels call it
        for each entry, on one thread. It may be what `numba.cfunc` returns, a ctypes function, a
        capsule of Cython (``scipy.special.cython_special``), a `scipy.LowLevelCallable`, or the
        address as an integer. It must be pure and raise nothing.
    sparsity : callable, optional
        ``sparsity(*args)`` is called with arrays of zeros. For each argument, it returns a boolean
        matrix that says which entries of the result (rows) depend on which entries of the argument
        (columns), or None for all. By default, the pattern follows from the rule.
    samples : sequence of tuples, optional
        Arguments with which the method ``check()`` tests the operation.

    Returns
    -------
    PrimitiveFunction
        A function of arrays, for use in functions that operators of fdiff trace. The rules are
        plain NumPy, may call the function again, and are used at every order. With `kernel` or
        `address`, arguments are converted to the dtype of the result, and programs with the
        operation are compiled (on a GPU only with `kernel`). Otherwise such programs are
        interpreted. The method ``check()`` tests the operation.

    Raises
    ------
    InputError
        If there is no derivative rule or more than one, if the function returns another type than
        `like` says, if `kernel` is not in the kernel language, or if `address` is not such a
        function.

    References
    ----------
    Frostig, Johnson, Leary, "Compiling machine learning programs via high-level tracing",
    SysML 2018 (the whole abstract), for operations that a trace does not look into.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> square = fdiff.primitive(lambda x: x * x, partials=lambda x, out: (2.0 * x,))
    >>> fdiff.grad(lambda x: np.sum(square(x)))(np.array([1.0, 2.0]))
    array([2., 4.])

    With a kernel text, and a test of the operation:

    >>> softplus = fdiff.primitive(
    ...     lambda x: np.logaddexp(0.0, x),
    ...     partials=lambda x, out: (1.0 / (1.0 + np.exp(-x)),),
    ...     kernel="lambda x: rt.log1p(rt.exp(-abs(x))) + rt.maximum(x, 0.0)",
    ...     samples=[(np.array([-1.0, 0.5, 30.0]),)],
    ... )
    >>> softplus.check()
    >>> fdiff.jit(lambda x: np.sum(softplus(x)))(np.zeros(2))
    np.float64(1.3862943611198906)
    """
    check_callable(function, "primitive")
    name = f"primitive({getattr(function, '__name__', type(function).__name__)})"
    rules = [rule for rule in (partials, vjp, jvp) if rule is not None]
    if len(rules) != 1:
        fact = f"one of partials, vjp and jvp is needed, not {len(rules)}."
        raise failure(InputError, name, fact, "The others are derived from it.")
    check_callable(rules[0], "primitive")
    _check_result_type(name, like, samples)
    if sparsity is not None:
        check_callable(sparsity, "primitive")
    rule, count = None, 0
    if kernel is not None or address is not None:
        rule, count = _kernel(name, kernel, address, partials if like is None else None)
    entrywise = partials is not None and like is None
    pattern = None if sparsity is None else partial(_patterns, name, sparsity)
    type_rule = _type_rule(name, like)
    op = opaque(name, function, type_rule, entrywise=entrywise, kernel=rule, sparsity=pattern)
    result = PrimitiveFunction(OpaqueCall(function, op, count))
    if vjp is not None:
        result.define(UserRule(partial(_kept, result), partial(_pulled, result, vjp)))
    else:
        push = partial(_pushed, result, jvp) if jvp else partial(_by_slopes, result, rules[0])
        result.define(UserRule(pushforward=push))
    if isinstance(function, np.ufunc):
        result._signature = None  # rules are given the operands, not `out` and the like
    result.op, result.samples = op, tuple([tuple(s) for s in samples])
    return result


def _check_result_type(name: str, like: object, samples: object) -> None:
    """Refuse a type of the result, or samples, that are of no use."""
    if like is not None and not callable(like) and not is_int(like):
        fact = f"like must be a position or a function, not {type(like).__name__}."
        raise failure(InputError, name, fact, "Leave it out if arguments broadcast.")
    tuples = (tuple, list)
    if not isinstance(samples, tuples) or not all(isinstance(sample, tuples) for sample in samples):
        fact = "samples must be a sequence of tuples of arguments."
        raise failure(InputError, name, fact, "Write samples=[(x,), (y,)].")


def _kernel(name: str, kernel: object, address: object, partials: Function | None) -> UserKernel:
    """The rule of a kernel text or address, and how many arguments it takes."""
    if partials is None:
        fact = "kernel and address are for functions that act entry by entry."
        raise failure(InputError, name, fact, "Give partials, without like.")
    if kernel is not None and address is not None:
        fact = "kernel and address are two ways to compute the same."
        raise failure(InputError, name, fact, "Leave one of them out.")
    if kernel is not None:
        return kernel_of_text(kernel, name)
    return kernel_of_address(address, name, partials)


def _zeros(types: Sequence[ArrayType]) -> list[np.ndarray]:
    return [np.zeros(t.shape, t.dtype) for t in types]


def _type_rule(name: str, like: Any) -> Callable[..., ArrayType]:
    """The type of the result from the types of the arguments."""
    if like is None:
        return entrywise_type
    if is_int(like):
        return lambda *types: _type_at(name, types, like)

    def rule(*types: ArrayType) -> ArrayType:
        example = np.asarray(like(*_zeros(types)))
        return ArrayType(example.shape, example.dtype)

    return rule


def _type_at(name: str, types: tuple[ArrayType, ...], at: int) -> ArrayType:
    """The type of the argument at a position."""
    if not -len(types) <= at < len(types):
        fact = f"like={at} names an argument, and there are {len(types)}."
        raise failure(InputError, name, fact, "Positions are counted from 0.")
    return types[at]


def _patterns(
    name: str, sparsity: Function, out: ArrayType, *types: ArrayType
) -> list[np.ndarray | None]:
    """The patterns that `sparsity` declares for a node with these types."""
    declared = sparsity(*_zeros(types))
    patterns = [
        _truth(g) for g in (declared if isinstance(declared, tuple | list) else (declared,))
    ]
    wanted = [(out.size, t.size) for t in types]
    shapes = [None if f is None else f.shape for f in patterns]
    fits = [s is None or s == w for s, w in zip(shapes, wanted, strict=False)]
    if len(fits) != len(wanted) or not all(fits):
        fact = f"sparsity gave patterns of shapes {shapes}, not {wanted}."
        way = "Give a row for each entry of the result, a column for each of the argument."
        raise failure(InputError, name, fact, way)
    return patterns


def _truth(pattern: Any) -> np.ndarray | None:
    """A pattern as truth values; it may be a sparse matrix."""
    if pattern is None:
        return None
    return np.asarray(pattern.toarray() if hasattr(pattern, "toarray") else pattern) != 0


def _kept(function: PrimitiveFunction, *args: object) -> tuple[object, Residuals]:
    out = function(*args)
    return out, (out, args)


def _pulled(
    function: PrimitiveFunction, vjp: Function, residuals: Residuals, bar: object
) -> object:
    out, args = residuals
    return ask(vjp, [bar, out, *args], function.call, "vjp", "vjp(bar, out, *args)")


def _pushed(
    function: PrimitiveFunction, jvp: Function, primals: Args, dots: Args
) -> tuple[object, object]:
    out = function(*primals)
    return out, ask(jvp, [dots, out, *primals], function.call, "jvp", "jvp(dots, out, *args)")


def _by_slopes(
    function: PrimitiveFunction, partials: Function, primals: Args, dots: tuple[Array, ...]
) -> tuple[object, np.ndarray]:
    out = function(*primals)
    slopes: Any = ask(partials, [*primals, out], function.call, "partials", "partials(*args, out)")
    many = len(slopes) if isinstance(slopes, tuple | list) else type(slopes).__name__
    if many != len(dots):
        fact = f"partials must return a tuple of {len(dots)} partial derivatives, not {many}."
        raise failure(InputError, function.call, fact, "Write (slope,) for one argument.")
    terms = [dot * slope for dot, slope in zip(dots, slopes, strict=True)]
    total = np.broadcast_to(sum(terms[1:], terms[0]), np.shape(out))
    if total.dtype.kind == out.dtype.kind == "f":  # a slope may be of another precision
        total = total.astype(out.dtype)
    return out, total
