"""`gradcheck`, `gradgradcheck` and `check_grads`: derivatives compared with numerical differences.

`derivative_checks`, which implements them, is imported with the first check.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import fdiff.intact_numpy as np

from ..dispatch.arguments import Function
from ..errors import GradcheckError, InputError, called, failure, flag, shown
from ..process.forking import no_fork
from ..tracebacks import public
from .options import check_callable, check_flags, is_int

MODES = ("fwd", "rev")
DIFFERENCE_STEP = 1e-6  # of central differences along an entry, as in torch
DIRECTION_STEP = 1e-4  # of central differences along a random direction, as in JAX
MOST_ORDERS = 32  # each takes several times as long as the one before it


@public
def gradcheck(
    func: Function,
    inputs: object,
    *,
    eps: float = DIFFERENCE_STEP,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool | None = None,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the derivatives of `func` with measured ones, in both modes.

    It has the 13 options of ``torch.autograd.gradcheck`` in PyTorch 2.13.

    Parameters
    ----------
    func : callable
        Function of arrays that returns an array or a tuple of arrays.
    inputs : array, or tuple or list of arrays
        Where to check. These may be nested structures, or recorded arrays of `fdiff.autograd`, of
        which only those that require a gradient are differentiated. Arrays that are not floating
        point are held constant. In single precision, a warning is given, and derivatives are
        compared with ones that are measured in double precision.
    eps : float
        Step of the central differences. If `func` is analytic, exact complex steps are used.
    atol, rtol : float
        Allowed absolute and relative differences.
    raise_exception : bool
        Raise instead of returning False.
    nondet_tol : float
        The largest difference between two runs with the same inputs, beyond rounding.
    check_undefined_grad : bool
        Check that an output without cotangent, or an input without tangent, counts as zeros.
    check_grad_dtypes : bool
        Check that gradients have the dtype of the input, and tangents the dtype of the output.
    check_batched_grad, check_batched_forward_grad : bool
        Check that several cotangents (tangents) at once, by `vmap`, give the same results as one at
        a time.
    check_forward_ad, check_backward_ad : bool, optional
        The modes that are checked, by default both, because `jacobian` and `hessian` choose a mode
        by themselves (torch leaves out forward mode). For functions of recorded arrays, only
        reverse mode is checked by default, as in torch.
    fast_mode : bool
        Compare products with random vectors. This costs two or three evaluations of `func` for each
        input array instead of each entry. Whole Jacobians are measured only if a product differs,
        and these decide.
    masked : bool, optional
        An option for torch's sparse tensors, which fdiff does not have. It must be false.

    Returns
    -------
    bool
        Whether everything agrees. Costs two or three evaluations of `func` for each entry of the
        inputs.

    Raises
    ------
    GradcheckError
        If a derivative differs; the message shows the measured and the computed Jacobian, output by
        input. Also if `func` returns different values for the same inputs, or a derivative is not
        linear in its seed.
    InputError
        If no input is floating point, or an option cannot be used with another.

    References
    ----------
    Squire and Trapp, "Using complex variables to estimate derivatives of real functions",
    SIAM Review 40(1), pages 110-112, 1998: the whole note.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.gradcheck(lambda x: np.sin(x) * x, np.array([0.5, 2.0]))
    True
    """
    check_callable(func, "gradcheck")
    call = called("gradcheck", func)
    _check_numbers(call, eps, atol=atol, rtol=rtol, nondet_tol=nondet_tol)
    forward = _open("check_forward_ad", check_forward_ad, call)
    backward, batched, batched_forward, *others, raises = check_flags(
        "gradcheck", func, check_backward_ad=check_backward_ad,
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad, fast_mode=fast_mode,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        raise_exception=raise_exception,
    )  # fmt: skip
    fast, undefined, dtypes = others
    _check_options(
        call,
        masked,
        ("check_forward_ad or check_backward_ad", forward is not False or backward, True),
        ("check_backward_ad", backward, batched),
        ("check_forward_ad", forward is not False, batched_forward),
    )
    with no_fork:
        from .derivative_checks.check_settings import CheckSettings  # noqa: PLC0415 - likewise
        from .derivative_checks.gradient_checks import check_gradient  # noqa: PLC0415 - late
    settings = CheckSettings(
        eps, atol, rtol, nondet_tol, undefined, dtypes, batched, batched_forward, forward, backward,
        fast,
    )  # fmt: skip
    return _passes(lambda: check_gradient(func, inputs, settings), raises)


@public
def gradgradcheck(
    func: Function,
    inputs: object,
    grad_outputs: object = None,
    *,
    eps: float = DIFFERENCE_STEP,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool | None = None,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare second derivatives of `func` with measured ones: `gradcheck` of its vector products.

    The product is differentiated with respect to the inputs and to the vector. After `grad_outputs`
    come the 13 options of ``torch.autograd.gradgradcheck`` in PyTorch 2.13.

    Parameters
    ----------
    func, inputs
        As for `gradcheck`.
    grad_outputs : array or tuple of arrays, optional
        The vectors, with the shapes of the outputs. By default they are drawn between -1 and 1, the
        same at each call.
    gen_non_contig_grad_outputs : bool
        Draw vectors that are not contiguous in memory.
    check_fwd_over_rev, check_rev_over_rev : bool, optional
        The mode that differentiates the reverse sweep, by default both, because `hessian` and `hvp`
        use the first (torch leaves it out). For functions of recorded arrays, only the second by
        default.
    eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes, \
check_batched_grad, fast_mode, masked
        As for `gradcheck`.

    Returns
    -------
    bool
        Whether everything agrees. Costs two gradients of `func` for each entry of the inputs and of
        the vectors.

    Raises
    ------
    GradcheckError, InputError
        As `gradcheck` does.

    References
    ----------
    ``torch.autograd.gradgradcheck``; differences as in `gradcheck`.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.gradgradcheck(lambda x: np.sin(x) * x, np.array([0.5, 2.0]))
    True
    """
    check_callable(func, "gradgradcheck")
    call = called("gradgradcheck", func)
    _check_numbers(call, eps, atol=atol, rtol=rtol, nondet_tol=nondet_tol)
    forward = _open("check_fwd_over_rev", check_fwd_over_rev, call)
    backward, batched, strided, *others, raises = check_flags(
        "gradgradcheck", func, check_rev_over_rev=check_rev_over_rev,
        check_batched_grad=check_batched_grad,
        gen_non_contig_grad_outputs=gen_non_contig_grad_outputs, fast_mode=fast_mode,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        raise_exception=raise_exception,
    )  # fmt: skip
    fast, undefined, dtypes = others
    some = forward is not False or backward
    _check_options(
        call,
        masked,
        ("check_fwd_over_rev or check_rev_over_rev", some, True),
        ("check_rev_over_rev", backward, batched),
    )
    with no_fork:
        from .derivative_checks import gradient_checks  # noqa: PLC0415 - late
        from .derivative_checks.check_settings import CheckSettings  # noqa: PLC0415 - likewise
    settings = CheckSettings(
        eps, atol, rtol, nondet_tol, undefined, dtypes, batched, False, forward, backward, fast,
    )  # fmt: skip
    check = partial(gradient_checks.check_gradient_of_gradient, non_contiguous=strided)
    return _passes(lambda: check(func, inputs, grad_outputs, settings), raises)


@public
def check_grads(
    f: Function,
    args: object,
    order: int,
    modes: object = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare derivatives of `f` up to `order` with measured ones, along random directions.

    Parameters
    ----------
    f : callable
        Function of arrays that returns an array or a tuple of arrays.
    args : tuple of arrays
        Where to check; may be nested structures.
    order : int
        The highest order of derivatives that is checked: 1 for first derivatives alone.
    modes : str or sequence of {"fwd", "rev"}
        The modes that are checked, and composed in every order for higher derivatives.
    atol, rtol : float, optional
        Allowed absolute and relative differences: 1e-5 in double precision, 2e-3 in single.
    eps : float, optional
        Step of the central differences, 1e-4.

    Raises
    ------
    GradcheckError
        If a derivative differs; it names the composition, for instance ``JVP of VJP tangent``. As
        in JAX it is an `AssertionError`.
    InputError
        If `order` or `modes` is invalid, or no input is floating point.

    References
    ----------
    ``jax.test_util.check_grads``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.check_grads(lambda x: np.sin(x) * x, (np.array([0.5, 2.0]),), order=3)
    """
    check_callable(f, "check_grads")
    call = called("check_grads", f)
    if not is_int(order) or not 1 <= order <= MOST_ORDERS:
        fact = f"order must be an int from 1 to {MOST_ORDERS}, not {shown(order)}."
        raise failure(InputError, call, fact, "Write order=1 for first derivatives, 2 for second.")
    several = isinstance(modes, (tuple, list, set, frozenset))
    asked: tuple[object, ...] = tuple(cast("list[object]", modes)) if several else (modes,)
    chosen = tuple([mode for mode in asked if isinstance(mode, str) and mode in MODES])
    if not asked or len(chosen) < len(asked):
        fact = f"modes must be 'fwd', 'rev' or both, not {shown(modes)}."
        raise failure(InputError, call, fact, "Leave modes out to check both.")
    _check_numbers(call, eps, atol=atol, rtol=rtol, optional=True)
    with no_fork:
        from .derivative_checks import random_directions  # noqa: PLC0415 - late
    settings = random_directions.DirectionSettings(call, chosen, atol, rtol, eps or DIRECTION_STEP)
    arguments = tuple(cast("list[object]", args)) if isinstance(args, list) else args
    random_directions.check_directions(f, arguments, int(order), settings)


def _open(role: str, value: object, call: str) -> bool | None:
    """An option that may be left open, by None."""
    return None if value is None else flag(value, role, call)


def _passes(check: Callable[[], None], raise_exception: bool) -> bool:  # noqa: FBT001 - as it was given
    """Whether a check passes. If it fails and `raise_exception` is true, its error is raised."""
    try:
        check()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_numbers(call: str, eps: object, *, optional: bool = False, **tolerances: object) -> None:
    """Refuse a step that is not positive, and tolerances that are negative, or no numbers.

    `optional` says that None stands for a default.
    """
    for name, value in {"eps": eps, **tolerances}.items():
        number: Any = 1.0 if value is None and optional else cast("object", value)
        real = isinstance(number, (float, np.floating)) or (is_int(number) and number < 2**63)
        if real and (number > 0 or (number == 0 and name != "eps")):
            continue
        sign = "a positive number" if name == "eps" else "a number, not negative"
        fact = f"{name} must be {sign}, but it is {shown(value)}."
        raise failure(InputError, call, fact, "Leave it out to have the default.")


def _check_options(call: str, masked: bool | None, *needs: tuple[str, object, object]) -> None:  # noqa: FBT001 - as it was given
    """Refuse sparse arrays, and options without what they need: ``(name, its value, asked)``."""
    if masked is not None and flag(masked, "masked", call):
        fact = "masked=True is about sparse tensors, and arrays are dense."
        raise failure(InputError, call, fact, "Leave it out.")
    for name, there, asked in needs:
        if asked and not there:
            fact = f"Expected {name} to be True with these options."
            raise failure(InputError, call, fact, f"Write {name}=True, or leave the others out.")
