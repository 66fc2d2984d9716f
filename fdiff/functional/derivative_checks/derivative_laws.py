"""Laws of derivatives: the same twice, linear in their seeds, of the right dtype, in batches.

Source: torch's page ``torch.autograd.gradcheck``, section "Parameters": ``nondet_tol``,
``check_undefined_grad`` and others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import fdiff.intact_numpy as np

from ...errors import FdiffError
from ...named_tuples import NamedTuple
from .check_settings import CheckSettings, broken
from .checked_functions import FunctionUnderCheck
from .real_coordinates import from_real, only, to_real, zeros

Arrays = Sequence[np.ndarray]
ROUNDING = 1e-12  # between two tiers of fdiff, relative to the largest entry
TIERS = 4  # how often the tier may change, and values with it, while calls are compared


def check_value_twice(function: FunctionUnderCheck, settings: CheckSettings) -> None:
    """The function itself gives the same twice, else nothing can be measured."""
    before, gap = function.outputs, 0.0
    for _ in range(TIERS if function.by_fdiff else 1):
        again = function.values(function.inputs)
        if len(again) != len(function.outputs):
            raise broken(function, "The number of outputs changes from call to call.")
        gap = _max_gap(before, again)
        rounding = ROUNDING * _largest(again) if function.by_fdiff else 0.0
        if gap <= settings.nondet_tol + rounding:
            return
        before = again  # terms that cancel are rounded otherwise by another tier, but always alike
    fact = (
        "The function is not deterministic: two calls with the same inputs gave values that"
        f" differ by {gap:.3g}. The tolerance for nondeterminism was {settings.nondet_tol}."
    )
    raise broken(function, fact)


def check_laws(function: FunctionUnderCheck, settings: CheckSettings) -> None:
    """Raise `GradcheckError` for the first law that does not hold."""
    rng = np.random.default_rng(5)
    if settings.backward_ad:
        _check_one_mode(function, settings, rng, _reverse(function))
    if settings.forward_ad:
        _check_one_mode(function, settings, rng, _forward(function))
    if settings.undefined_grad:
        _check_undefined(function, settings, rng)
    if settings.batched_grad:
        _check_batches(function, rng, function.pull, function.pull_batch, function.outputs)
    if settings.batched_forward_grad:
        _check_batches(function, rng, function.push, function.push_batch, function.inputs)


class _Mode(NamedTuple):
    """One mode of differentiation: a linear map from seeds to derivatives.

    `seeds` and `results` have the shapes and dtypes of both. `title` and `seed` name the mode and
    one seed in messages, `unused` the law that seeds of zeros break.
    """

    ask: Callable[[Arrays], list[np.ndarray]]
    seeds: Arrays
    results: Arrays
    derivative: str
    title: str
    seed: str
    unused: str


def _reverse(function: FunctionUnderCheck) -> _Mode:
    unused = "backward not multiplied by grad_output: cotangents of zeros give"
    return _Mode(
        function.pull, function.outputs, function.inputs,
        "gradient", "Backward", "grad_output", unused,
    )  # fmt: skip


def _forward(function: FunctionUnderCheck) -> _Mode:
    unused = "forward mode not multiplied by tangents: tangents of zeros give"
    return _Mode(
        function.push, function.inputs, function.outputs,
        "tangent", "Forward mode", "tangent", unused,
    )  # fmt: skip


def _check_one_mode(
    function: FunctionUnderCheck, settings: CheckSettings, rng: np.random.Generator, mode: _Mode
) -> None:
    """Shapes and dtypes, the same twice, linear in the seeds, zeros for zeros."""
    seeds = _random(mode.seeds, rng)
    derivative = mode.ask(seeds)
    _check_attributes(function, settings, derivative, mode)
    _check_derivative_twice(function, settings, mode, seeds, derivative)
    _check_linear(function, settings, mode, seeds, derivative, _random(mode.seeds, rng))
    for result in mode.ask(zeros(mode.seeds)):
        if np.any(result != 0):
            raise broken(function, f"{mode.unused} {result}.")


def _check_derivative_twice(
    function: FunctionUnderCheck,
    settings: CheckSettings,
    mode: _Mode,
    seeds: Arrays,
    derivative: Arrays,
) -> None:
    """A second run for the same `seeds` gives the same `derivative`."""
    gap = _max_gap(derivative, mode.ask(seeds))
    if gap > settings.nondet_tol + ROUNDING * max(_largest(derivative), _largest(seeds)):
        fact = (
            f"{mode.title} is not reentrant, i.e., running {mode.title.lower()} with same input and"
            f" {mode.seed} multiple times gives different values, although analytical gradient"
            f" matches numerical gradient. The tolerance for nondeterminism was"
            f" {settings.nondet_tol}."
        )
        raise broken(function, fact)


def _check_linear(
    function: FunctionUnderCheck,
    settings: CheckSettings,
    mode: _Mode,
    seeds: Arrays,
    derivative: Arrays,
    other: Arrays,
) -> None:
    """The derivative for ``seeds + other`` is the sum of the derivatives for each."""
    together = mode.ask([(a + b).astype(a.dtype) for a, b in zip(seeds, other, strict=True)])
    apart = [a + b for a, b in zip(derivative, mode.ask(other), strict=True)]
    # A sum that cancels keeps the rounding error of its terms.
    scale = max(_largest(apart), _largest(seeds), _largest(other))
    if any(
        _max_gap([a], [b]) > settings.nondet_tol + _rounding((*mode.seeds, result)) * scale
        for a, b, result in zip(together, apart, mode.results, strict=True)
    ):
        fact = (
            f"{mode.title} is not linear: two {mode.seed}s give {apart} one by one,"
            f" their sum {together}."
        )
        raise broken(function, fact)


def _check_attributes(
    function: FunctionUnderCheck, settings: CheckSettings, derivative: Arrays, mode: _Mode
) -> None:
    """Shapes and, if asked for, dtypes."""
    name = mode.derivative
    for part, x in zip(derivative, mode.results, strict=True):
        if part.shape != x.shape:
            fact = f"Analytical {name} has incorrect size: {part.shape}, expected {x.shape}."
            raise broken(function, fact)
        if settings.grad_dtypes and part.dtype != x.dtype and x.dtype.kind in "fc":
            fact = f"{name.capitalize()} has dtype mismatch: {part.dtype}, expected {x.dtype}."
            raise broken(function, fact)


def _check_undefined(
    function: FunctionUnderCheck, settings: CheckSettings, rng: np.random.Generator
) -> None:
    """No derivative at all is the same as one of zeros."""
    outputs, inputs = function.outputs, function.inputs
    if settings.backward_ad:
        _check_no_cotangents(function)
    if settings.backward_ad and len(outputs) > 1:
        pairs = {
            o: (
                _pull_zeros(function, partial(function.pull_one, o, bar)),
                function.pull(only(o, bar, outputs)),
            )
            for o, bar in enumerate(_random(outputs, rng))
            if bar.dtype.kind in "fc"
        }
        for o in _unequal(pairs, settings):
            fact = (
                "Expected all input grads to be undefined or zero when output grads are undefined"
                f" or zero: with that of output {o} alone they are {pairs[o][0]}, with zeros for"
                f" the other outputs {pairs[o][1]}."
            )
            raise broken(function, fact)
    if settings.forward_ad and len(inputs) > 1:
        pairs = {
            i: (function.push_one(i, dot), function.push(only(i, dot, inputs)))
            for i, dot in enumerate(_random(inputs, rng))
        }
        for i in _unequal(pairs, settings):
            fact = (
                f"Mismatch in tangent values when inputs other than {i} have undefined tangent"
                f" values. Got: {pairs[i][0]} but expected: {pairs[i][1]}."
            )
            raise broken(function, fact)


def _check_no_cotangents(function: FunctionUnderCheck) -> None:
    """Where all outputs have no cotangent, or one has none and the others zeros, nothing comes."""
    every = range(len(function.outputs))
    for undefined in [every, *[[o] for o in every if len(every) > 1]]:
        gradients = _pull_zeros(function, partial(function.pull_undefined, undefined))
        if any(np.any(g != 0) for g in gradients):
            fact = (
                "Expected all input grads to be undefined or zero when all output grads are"
                f" undefined or zero, but they are {gradients}."
            )
            raise broken(function, fact)


def _pull_zeros(
    function: FunctionUnderCheck, pull: Callable[[], list[np.ndarray]]
) -> list[np.ndarray]:
    """Pull back with outputs that have no cotangent, which rules must accept."""
    try:
        return pull()
    except Exception as error:
        fact = (
            "Expected backward function to handle undefined output grads, which are None where"
            f" ctx.set_materialize_grads(False) was called, but it raised {type(error).__name__}:"
            f" {error}"
        )
        raise broken(function, fact) from error


def _unequal(pairs: Mapping[int, tuple[Arrays, Arrays]], settings: CheckSettings) -> list[int]:
    """Which pairs differ by more than rounding.

    That is relative to the largest entry of all pairs: what cancels to zero in one direction, as a
    gradient does at a minimum, is rounded as the terms were that it is made of.
    """
    scale = max((_largest(zero) for _, zero in pairs.values()), default=0.0)
    allowed = ROUNDING * scale + settings.nondet_tol
    return [k for k, (alone, zero) in pairs.items() if _max_gap(alone, zero) > allowed]


BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation: derivatives of a"
    " batch, which are computed at once by vmap, are not those of its elements"
)


def _check_batches(
    function: FunctionUnderCheck,
    rng: np.random.Generator,
    single: Callable[[Arrays], list[np.ndarray]],
    batch: Callable[[Arrays], list[np.ndarray]],
    seeds: Arrays,
) -> None:
    """Two seeds in one batch give what they give one by one."""
    both = [_random(seeds, rng), _random(seeds, rng)]
    expected = [np.stack(parts) for parts in zip(*map(single, both), strict=True)]
    try:
        results = batch([np.stack(parts) for parts in zip(*both, strict=True)])
    except FdiffError as error:
        raise broken(function, f"While computing batched gradients, got: {error}") from error
    for k, (res, exp) in enumerate(zip(results, expected, strict=True)):
        if res.shape != exp.shape or not np.allclose(res, exp, rtol=1e-9, atol=1e-12):
            fact = f"{BATCHED}. For result {k}:\n\nGot:\n{res}\n\nExpected:\n{exp}"
            raise broken(function, fact)


def _random(like: Arrays, rng: np.random.Generator) -> list[np.ndarray]:
    """Random arrays of these shapes and dtypes; zeros for integers."""
    return [
        from_real(rng.uniform(-1.0, 1.0, to_real(x).size), x)
        if x.dtype.kind in "fc"
        else np.zeros(x.shape, x.dtype)
        for x in like
    ]


def _rounding(arrays: Arrays) -> float:
    """How far sums in another order may be apart, relative to the largest entry."""
    return max(
        (1e6 * float(np.finfo(x.dtype).eps) for x in arrays if x.dtype.kind in "fc"), default=0.0
    )


def _max_gap(first: Arrays, second: Arrays) -> float:
    """The largest difference of two lists of arrays; infinite where their shapes differ."""
    gap = 0.0
    for a, b in zip(first, second, strict=True):
        if a.shape != b.shape:
            return np.inf
        x, y = to_real(a), to_real(b)
        with np.errstate(invalid="ignore"):
            apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
        apart[np.isnan(apart)] = np.inf
        gap = max(gap, float(np.max(apart, initial=0.0)))
    return gap


def _largest(arrays: Arrays) -> float:
    return max((float(np.max(np.abs(x), initial=0.0)) for x in arrays), default=0.0)
