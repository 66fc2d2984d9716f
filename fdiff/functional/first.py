"""First derivatives: products of Jacobians with vectors, and dense Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from ..arguments import Argnums, Function, called
from ..errors import InputError
from ..program import Variant, program_of
from ..transforms.forward import jvp as push
from ..transforms.reverse import vjp as pull
from ..transforms.simplify import simplify
from .blocks import JacobianPlan, nested
from .calls import (
    Arrays,
    Plan,
    Run,
    Step,
    failure,
    gradients,
    invoke,
    prepared,
    results,
    tangents,
    transformed,
)
from .contract import check_inputs, check_outputs, check_strict, check_vector, refuse_complex
from .settings import (
    check_argnums,
    check_callable,
    check_chunk,
    check_device,
    check_mode,
    refuse_argnums,
    refuse_position,
)

Derive = Callable[[Variant], Plan]

# --- products with vectors ------------------------------------------------------------------------


class VjpPlan(Plan):
    """Outputs, and the vector pulled back to the inputs."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.count = len(variant.tape.outputs)
        self.types = variant.tape.output_types
        self.step = Step(simplify(pull(variant.tape, variant.wrt)))

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        v = check_vector(vectors[0], self.types, self.variant, "vjp", like="outputs")
        floating = [x for x, t in zip(v, self.types, strict=True) if t.floating]
        outs = run(self.step, [*arrays, *floating])
        return results(self.variant, outs[: self.count]), gradients(
            self.variant, outs[self.count :]
        )


class JvpPlan(Plan):
    """Outputs, and the vector pushed forward to them."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.count = len(variant.tape.outputs)
        self.types = [variant.tape.input_types[k] for k in variant.wrt]
        self.step = Step(simplify(push(variant.tape, variant.wrt)))

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        v = check_vector(vectors[0], self.types, self.variant, "jvp", like="inputs")
        outs = run(self.step, [*arrays, *v])
        return results(self.variant, outs[: self.count]), tangents(self.variant, outs[self.count :])


def _checked(plan: Derive, name: str, *, strict: bool) -> Derive:
    def derive(variant: Variant) -> Plan:
        check_outputs(variant, name)
        if strict:
            check_strict(variant, each_pair=name == "jacobian")
        return plan(variant)

    return derive


def product(
    f: Function,
    name: str,
    inputs: object,
    v: object,
    argnums: object,
    options: tuple[object, ...],
    derive: Derive,
) -> object:
    """The result of a product at `inputs`; with `inputs` left out, the prepared function."""
    check_callable(f, name)
    if inputs is not None:
        refuse_position(inputs, f, name)
        refuse_argnums(argnums, f, name)
        args, nums = check_inputs(inputs, f, name)
        return invoke(program_of(f, name, nums, options, derive), f, args, {}, (v,))
    if v is not None:
        fact = "v is given without inputs."
        raise failure(InputError, called(name, f), fact, f"Write {name}(f)(x, v).")
    nums = check_argnums(argnums, f, name)
    program = program_of(f, name, nums, options, derive)

    @transformed(f, name)
    def call(x: object, /, v: object = None, *args: object, **kwargs: object) -> object:
        return invoke(program, f, place(x, args, nums, f, name), kwargs, (v,))

    return call


def place(
    x: object, args: tuple[object, ...], argnums: Argnums, f: object, name: str
) -> tuple[object, ...]:
    """The arguments of `f`: `x` where `argnums` says, the others in their order."""
    if argnums == 0:
        return (x, *args)
    chosen = (argnums,) if isinstance(argnums, int) else argnums or ()
    parts = (x,) if isinstance(argnums, int) else x
    if not isinstance(parts, (tuple, list)) or len(cast("Sequence[object]", parts)) != len(chosen):
        fact = f"x must be a tuple of {len(chosen)} arguments, as argnums={argnums} says."
        raise failure(InputError, called(name, f), fact)
    total = len(args) + len(chosen)
    spots = {
        n % total: part for n, part in zip(chosen, cast("Sequence[object]", parts), strict=True)
    }
    if len(spots) < len(chosen) or not all(-total <= n < total for n in chosen):
        fact = f"argnums={argnums} does not fit {total} arguments: x and {len(args)} after v."
        raise failure(InputError, called(name, f), fact)
    rest = iter(args)
    return tuple(spots[k] if k in spots else next(rest) for k in range(total))


def vjp(
    f: Function,
    inputs: object = None,
    v: object = None,
    *,
    create_graph: bool = False,
    strict: bool = False,
    argnums: int | tuple[int, ...] = 0,
) -> object:
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


def jvp(
    f: Function,
    inputs: object = None,
    v: object = None,
    *,
    create_graph: bool = False,
    strict: bool = False,
    argnums: int | tuple[int, ...] = 0,
) -> object:
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
        units of ``f[i]`` per unit of ``x[j]``. The dtype is that of the input; that of the output
        where `mode` (or `strategy`) asks for forward mode.

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
    call = called("jacobian", f)
    check_device(device, call)
    way, chunk = check_mode(mode, strategy, call), check_chunk(chunk_size, call)
    plan = lambda variant: JacobianPlan(variant, way, chunk, nested(variant))  # noqa: E731
    derive = _checked(plan, "jacobian", strict=strict)
    return dense(f, "jacobian", inputs, argnums, (way, chunk, strict), derive)


def dense(
    f: Function,
    name: str,
    inputs: object,
    argnums: object,
    options: tuple[object, ...],
    derive: Derive,
) -> object:
    """The dense derivative at `inputs`; with `inputs` left out, the prepared function."""
    if inputs is None:
        return prepared(f, name, check_argnums(argnums, f, name), options, derive)
    refuse_position(inputs, f, name)
    refuse_argnums(argnums, f, name)
    args, nums = check_inputs(inputs, f, name)
    return invoke(program_of(f, name, nums, options, derive), f, args, {})


def _numeric(variant: Variant) -> None:
    """Every leaf of the result must be a number or an array."""
    bad = [type(out[0]).__name__ for out in variant.outs if out is not None]
    if bad or not variant.outs:
        fact = f"the function must return arrays, not {bad[0] if bad else 'nothing'}."
        raise failure(InputError, variant.call, fact)
    refuse_complex(variant)


def _jac(f: Function, name: str, mode: str, argnums: object, chunk_size: object) -> Function:
    check_callable(f, name)
    chunk = check_chunk(chunk_size, called(name, f))

    def derive(variant: Variant) -> Plan:
        _numeric(variant)
        return JacobianPlan(variant, mode, chunk, nested(variant))

    return prepared(f, name, check_argnums(argnums, f, name), (chunk,), derive)


def jacrev(
    f: Function, argnums: int | tuple[int, ...] = 0, *, chunk_size: int | str = "auto"
) -> Function:
    """Function that computes the Jacobian of `f` row by row, in reverse mode.

    Parameters are those of `jacobian`; arguments and results may be nested tuples, lists, dicts
    and dataclasses: the result has the structure of the outputs, and each entry that of the
    inputs.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> slopes = fdiff.jacrev(lambda p: {"y": p["a"] * p["b"]})
    >>> slopes({"a": np.array([1.0, 2.0]), "b": 3.0})["y"]["b"]
    array([1., 2.])
    """
    return _jac(f, "jacrev", "reverse", argnums, chunk_size)


def jacfwd(
    f: Function, argnums: int | tuple[int, ...] = 0, *, chunk_size: int | str = "auto"
) -> Function:
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
