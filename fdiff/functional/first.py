"""First derivatives: gradients, products with vectors, dense Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import InputError, message, user_line
from ..program import Argnums, Function, Variant
from ..transforms.forward import jvp as push
from ..transforms.rearrange import choose, gradient
from ..transforms.reverse import vjp as pull
from ..transforms.simplify import simplify
from .blocks import JacobianPlan, nested
from .calls import Plan, Run, Step, check_argnums, check_callable, deliver, gradients, invoke, prepared, results, transformed
from .contract import check_inputs, check_outputs, check_strict, check_vector

# --- grad -------------------------------------------------------------------------------------


class GradPlan(Plan):
    """Value, gradient and whatever else the function returns, from one evaluation."""

    def __init__(self, variant: Variant, *, value: bool, has_aux: bool) -> None:
        self.variant = variant
        self.value = value
        self.has_aux = has_aux
        self.count = len(variant.tape.outputs)
        full = gradient(variant.tape, variant.wrt)
        self.first = 0 if value or has_aux else self.count
        self.step = Step(full if self.first == 0 else simplify(choose(full, range(self.count, len(full.outputs)))))
        self.plain = value and not has_aux and variant.in_spec.kind is None and not variant.input_scalars[variant.wrt[0]]

    def call(self, arrays: list[object], vectors: Sequence[object], run: Run) -> object:
        outs = run(self.step, arrays)
        if self.plain:
            return deliver(outs[0], self.variant.scalars[0]), outs[1]
        slope = gradients(self.variant, outs[self.count - self.first :])
        if not self.has_aux:
            return (deliver(outs[0], self.variant.scalars[0]), slope) if self.value else slope
        out, aux = results(self.variant, outs[: self.count])  # type: ignore[misc]
        return ((out, aux), slope) if self.value else (slope, aux)


def _grad_plan(variant: Variant, name: str, *, value: bool, has_aux: bool) -> GradPlan:
    spec, outs = variant.out_spec, variant.outs
    if has_aux:
        if spec.kind is not tuple or len(spec.children) != 2:
            raise InputError(message(variant.call, "with has_aux=True the function must return a pair (output, aux).", "", user_line()))
        spec = spec.children[0]
    if spec.kind is not None or outs[0] is not None:
        kind = spec.kind.__name__ if spec.kind else type(outs[0][0]).__name__  # type: ignore[index]
        raise InputError(message(variant.call, f"the function must return a scalar, not {kind}.", "Use fdiff.jacobian for several outputs.", user_line()))
    type_ = variant.tape.output_types[0]
    if type_.shape != ():
        raise InputError(
            message(variant.call, f"Gradient only defined for scalar-output functions. Output had shape: {type_.shape}.", "Sum it, or use fdiff.jacobian.", user_line())
        )
    if not type_.floating:
        raise InputError(message(variant.call, f"the output must be floating point, not {type_.dtype}.", "", user_line()))
    return GradPlan(variant, value=value, has_aux=has_aux)


def _grad_like(f: Function, name: str, argnums: object, *, value: bool, has_aux: bool) -> Function:
    nums = check_argnums(argnums, name)
    program = prepared(f, name, nums, (has_aux,), lambda v: _grad_plan(v, name, value=value, has_aux=has_aux))

    @transformed(f, name)
    def call(*args: object, **kwargs: object) -> object:
        return invoke(program, f, args, kwargs)

    return call


def grad(f: Function, argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False) -> Function:
    """Gradient of a scalar function.

    Parameters
    ----------
    f : callable
        Pure function of arrays whose output has shape ``()``.
    argnums : int or tuple of int
        Which positional arguments are differentiated; negative numbers count from the end.
    has_aux : bool
        `f` returns ``(output, aux)``; `aux` is passed through.

    Returns
    -------
    callable
        Takes the arguments of `f`; gives the gradient in their structure (arrays, nested tuples,
        lists, dicts, dataclasses), in their dtype; a tuple of gradients for a tuple of `argnums`;
        ``(gradient, aux)`` with `has_aux`. Entry ``i`` is in units of the output per unit of ``x[i]``.
        Costs at most a small multiple of one evaluation, whatever the number of inputs.

    Raises
    ------
    InputError
        If the output is not a scalar, or an argument is of a type that has no derivative.
    DtypeError
        If a differentiated argument is not floating point.
    TraceError
        If `f` takes a traced value out of NumPy.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0, 3.0]))
    array([2., 4., 6.])
    """
    return _grad_like(f, "grad", argnums, value=False, has_aux=has_aux)


def value_and_grad(f: Function, argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False) -> Function:
    """Value and gradient of a scalar function, from one evaluation.

    Parameters and errors are those of `grad`.

    Returns
    -------
    callable
        Takes the arguments of `f`; gives ``(value, gradient)``, or ``((value, aux), gradient)``
        with `has_aux`.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> value, slope = fdiff.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0, 3.0]))
    >>> print(value, slope)
    14.0 [2. 4. 6.]
    """
    return _grad_like(f, "value_and_grad", argnums, value=True, has_aux=has_aux)


# --- products with vectors ----------------------------------------------------------------------


class VjpPlan(Plan):
    """Outputs, and the vector pulled back to the inputs."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.count = len(variant.tape.outputs)
        self.step = Step(simplify(pull(variant.tape, variant.wrt)))

    def call(self, arrays: list[object], vectors: Sequence[object], run: Run) -> object:
        types = self.variant.tape.output_types
        single = self.variant.out_spec.kind is None
        v = check_vector(vectors[0], types, single, self.variant.call, "returns a single array with a single element")
        floating = [x for x, t in zip(v, types, strict=True) if t.floating]
        outs = run(self.step, [*arrays, *floating])
        return results(self.variant, outs[: self.count]), gradients(self.variant, outs[self.count :])


class JvpPlan(Plan):
    """Outputs, and the vector pushed forward to them."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.count = len(variant.tape.outputs)
        self.step = Step(simplify(push(variant.tape, variant.wrt)))

    def call(self, arrays: list[object], vectors: Sequence[object], run: Run) -> object:
        types = [self.variant.tape.input_types[k] for k in self.variant.wrt]
        single = self.variant.in_spec.kind is None
        v = check_vector(vectors[0], types, single, self.variant.call, "has a single input with a single element")
        outs = run(self.step, [*arrays, *v])
        return results(self.variant, outs[: self.count]), results(self.variant, outs[self.count :])


def _checked(plan: Callable[[Variant], Plan], name: str, *, strict: bool) -> Callable[[Variant], Plan]:
    def derive(variant: Variant) -> Plan:
        check_outputs(variant, name)
        if strict:
            check_strict(variant, name, each_pair=name == "jacobian")
        return plan(variant)

    return derive


def product(f: Function, name: str, inputs: object, v: object, argnums: object, options: tuple[object, ...], derive: Callable[[Variant], Plan]) -> object:
    """The result of a product at `inputs`; with `inputs` left out, the prepared function."""
    check_callable(f, name)
    if inputs is not None:
        args, nums = check_inputs(inputs, name)
        return invoke(prepared(f, name, nums, options, derive), f, args, {}, (v,))
    nums = check_argnums(argnums, name)
    program = prepared(f, name, nums, options, derive)

    @transformed(f, name)
    def call(x: object, v: object = None, *args: object) -> object:
        return invoke(program, f, place(x, args, nums, program.name), {}, (v,))

    return call


def place(x: object, args: tuple[object, ...], argnums: Argnums, name: str) -> tuple[object, ...]:
    """The arguments of `f`: `x` where `argnums` says, the others in their order."""
    if argnums == 0:
        return (x, *args)
    chosen = (argnums,) if isinstance(argnums, int) else argnums or ()
    parts = (x,) if isinstance(argnums, int) else x
    if not isinstance(parts, (tuple, list)) or len(parts) != len(chosen):
        raise InputError(message(name, f"x must be a tuple of {len(chosen)} arguments, as argnums={argnums} says.", "", user_line()))
    total = len(args) + len(chosen)
    spots = {n % total: part for n, part in zip(chosen, parts, strict=True)}
    rest = iter(args)
    return tuple(spots[k] if k in spots else next(rest) for k in range(total))


def vjp(f: Function, inputs: object = None, v: object = None, *, create_graph: bool = False, strict: bool = False, argnums: int | tuple[int, ...] = 0) -> object:
    """Product of a vector with the Jacobian of `f`: ``(outputs, v^T J)``.

    Parameters
    ----------
    f : callable
        Function of arrays that returns an array or a tuple of arrays.
    inputs : array or tuple of arrays, optional
        Where to evaluate. Left out, the prepared function ``(x, v, *args)`` is returned.
    v : array or tuple of arrays, optional
        Shaped exactly like the outputs; may be left out for a single output with one element.
    create_graph : bool
        Accepted for those who come from torch; results can be differentiated anyway.
    strict : bool
        Raise `StrictError` if an input reaches no output.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.

    Returns
    -------
    tuple
        The outputs of `f`, and an array for each input in the structure and dtype of `inputs`.
        Costs a small multiple of one evaluation.

    Raises
    ------
    VectorError
        If `v` has the wrong size, or is left out where it is needed.
    InputError
        If inputs or outputs are not arrays.
    DtypeError
        If an input is not floating point.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> out, slope = fdiff.vjp(np.square, np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    >>> print(out, slope)
    [1. 4.] [ 2. 40.]
    """
    return product(f, "vjp", inputs, v, argnums, (strict,), _checked(VjpPlan, "vjp", strict=strict))


def jvp(f: Function, inputs: object = None, v: object = None, *, create_graph: bool = False, strict: bool = False, argnums: int | tuple[int, ...] = 0) -> object:
    """Product of the Jacobian of `f` with a vector: ``(outputs, J v)``, in forward mode.

    Parameters are those of `vjp`, but `v` is shaped like the inputs, and may be left out for a
    single input with one element.

    Returns
    -------
    tuple
        The outputs of `f`, and the tangents in the same structure. Costs a small multiple of one
        evaluation.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> out, tangent = fdiff.jvp(np.square, np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    >>> print(out, tangent)
    [1. 4.] [ 2. 40.]
    """
    return product(f, "jvp", inputs, v, argnums, (strict,), _checked(JvpPlan, "jvp", strict=strict))


# --- Jacobians ----------------------------------------------------------------------------------

MODES = ("auto", "forward", "reverse")
STRATEGIES = {"reverse-mode": "reverse", "forward-mode": "forward"}


def check_mode(mode: str, strategy: str | None, name: str) -> str:
    """The mode asked for, in our words or in torch's."""
    if strategy is not None:
        if strategy not in STRATEGIES:
            raise InputError(message(name, f"strategy must be one of {', '.join(map(repr, STRATEGIES))}, not {strategy!r}.", "", user_line()))
        return STRATEGIES[strategy]
    if mode not in MODES:
        raise InputError(message(name, f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}.", "", user_line()))
    return mode


def check_chunk(chunk_size: object, name: str) -> int | str:
    """A positive int, or "auto"."""
    if chunk_size == "auto" or chunk_size is None:
        return "auto"
    if isinstance(chunk_size, (int, np.integer)) and not isinstance(chunk_size, bool) and chunk_size > 0:
        return int(chunk_size)
    raise InputError(message(name, f"chunk_size must be a positive int or 'auto', not {chunk_size!r}.", "", user_line()))


def check_device(device: str, name: str) -> None:
    """Only the CPU so far; never a silent fallback."""
    if device != "cpu":
        raise InputError(message(name, f"device={device!r} is not available in this version.", "Leave device out, or write device='cpu'.", user_line()))


def refuse_position(inputs: object, name: str) -> None:
    """``jacobian(f, 0)`` is JAX's habit; here the second argument is the point."""
    if isinstance(inputs, (int, np.integer)) and not isinstance(inputs, bool):
        raise InputError(
            message(name, f"the second argument is the point to differentiate at, and {inputs!r} is an int: did you mean argnums={inputs!r}?", f"Write {name}(f, argnums={inputs!r}).", user_line())
        )


def jacobian(
    f: Function,
    inputs: object = None,
    *,
    argnums: int | tuple[int, ...] = 0,
    strict: bool = False,
    mode: str = "auto",
    chunk_size: int | str = "auto",
    device: str = "cpu",
    create_graph: bool = False,
    vectorize: bool = False,
    strategy: str | None = None,
) -> object:
    """Jacobian of `f` at `inputs`; with `inputs` left out, the function that computes it.

    Parameters
    ----------
    f : callable
        Pure function of arrays, which returns an array or a tuple of arrays. Its output has shape
        ``out``, the differentiated argument shape ``inn``.
    inputs : array or tuple of arrays, optional
        Where to evaluate.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.
    strict : bool
        Raise `StrictError` if any output does not depend on any input.
    mode : {"auto", "forward", "reverse"}
        Forward costs about ``size(inn)`` tangent passes, reverse ``size(out)`` cotangent passes,
        ``"auto"`` the fewer; both run batched in one kernel.
    chunk_size : int or "auto"
        How many columns or rows are computed at a time; ``"auto"`` keeps intermediate values
        below 256 MiB.
    device : {"cpu"}
        Where to run.
    create_graph, vectorize : bool
        Accepted for those who come from torch: results nest and are batched anyway.
    strategy : {"reverse-mode", "forward-mode"}, optional
        Torch's name of the mode.

    Returns
    -------
    array or callable
        An array of shape ``out + inn`` (nested in tuples: outputs first, then inputs, where either
        is a tuple), or a function of the arguments of `f` that gives it. Entry ``[i, j]`` is in
        units of ``f[i]`` per unit of ``x[j]``. The dtype is that of the output in forward mode,
        of the input in reverse mode.

    Raises
    ------
    InputError
        If inputs or outputs are not arrays, or a setting is unknown.
    DtypeError
        If a differentiated argument is not floating point.
    TraceError
        If `f` takes a traced array out of NumPy, for instance ``float(x[0])``.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, chapter 3.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.jacobian(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    check_callable(f, "jacobian")
    refuse_position(inputs, "jacobian")
    check_device(device, "jacobian")
    way, chunk = check_mode(mode, strategy, "jacobian"), check_chunk(chunk_size, "jacobian")
    derive = _checked(lambda v: JacobianPlan(v, way, chunk, nested(v)), "jacobian", strict=strict)
    return dense(f, "jacobian", inputs, argnums, (way, chunk, strict), derive)


def dense(f: Function, name: str, inputs: object, argnums: object, options: tuple[object, ...], derive: Callable[[Variant], Plan]) -> object:
    if inputs is not None:
        args, nums = check_inputs(inputs, name)
        return invoke(prepared(f, name, nums, options, derive), f, args, {})
    program = prepared(f, name, check_argnums(argnums, name), options, derive)

    @transformed(f, name)
    def call(*args: object, **kwargs: object) -> object:
        return invoke(program, f, args, kwargs)

    return call


def _numeric(variant: Variant) -> None:
    """Every leaf of the result must be a number or an array."""
    bad = [out[0] for out in variant.outs if out is not None]
    if bad or not variant.outs:
        kind = type(bad[0]).__name__ if bad else "nothing"
        raise InputError(message(variant.call, f"the function must return arrays, not {kind}.", "", user_line()))


def _jac(f: Function, name: str, mode: str, argnums: object, chunk_size: int | str) -> Function:
    chunk = check_chunk(chunk_size, name)

    def derive(variant: Variant) -> Plan:
        _numeric(variant)
        return JacobianPlan(variant, mode, chunk, nested(variant))

    return dense(f, name, None, argnums, (chunk,), derive)  # type: ignore[return-value]


def jacrev(f: Function, argnums: int | tuple[int, ...] = 0, *, chunk_size: int | str = "auto") -> Function:
    """Function that computes the Jacobian of `f` row by row, in reverse mode.

    Parameters are those of `jacobian`; arguments and results may be nested tuples, lists, dicts
    and dataclasses: the result has the structure of the outputs, and each entry that of the
    inputs.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.jacrev(lambda p: {"y": p["a"] * p["b"]})({"a": np.array([1.0, 2.0]), "b": 3.0})["y"]["b"]
    array([1., 2.])
    """
    return _jac(f, "jacrev", "reverse", argnums, chunk_size)


def jacfwd(f: Function, argnums: int | tuple[int, ...] = 0, *, chunk_size: int | str = "auto") -> Function:
    """Function that computes the Jacobian of `f` column by column, in forward mode.

    Parameters and structure of results are those of `jacrev`.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.jacfwd(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _jac(f, "jacfwd", "forward", argnums, chunk_size)


