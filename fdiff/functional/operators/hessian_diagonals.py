"""`hessian_diagonal`: the diagonal of a Hessian, without the Hessian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, Unpack, cast, overload

import fdiff.intact_numpy as np

from ...dispatch.arguments import Function
from ...dispatch.plans import Arrays, OperatorPlan, PlanStep, Run, deriving, replay
from ...dispatch.variant import Traced
from ...errors import called
from ...process.progress import Stage
from ...tape import Tape
from ...tracebacks import trim
from ...transforms.derivative_tapes import assembled
from ...transforms.pipeline import KEEP, TANGENT_SWEEPS, TANGENTS, VALUE, derive
from ...transforms.sparsity.diagonal_colouring import diagonal_colours, diagonal_swept
from ..annotations import Array, AtPoint, Derivatives, DiagonalKeywords, P, Point
from ..call.input_checks import check_one_element
from ..call.operator_call import Operator
from ..call.prepared import Prepared
from ..call.results import gradients
from ..options import LEFT_OUT, check_chunk, check_device
from ..unknown_options import refuse_others, without_catch_alls
from .block_results import zeros_beside
from .dense_modes import BUDGET
from .dense_sweeps import gradient_tape
from .jacobians import dense
from .seeded_blocks import seed_bytes

if TYPE_CHECKING:
    from ..call.prepared import Gradient


FEW = 32  # entries up to which a call for one point sweeps each: to find colours takes longer


class DiagonalPlan(OperatorPlan):
    """The plan of the diagonal: for each input, one sweep for each colour, or several colours at a
    time.
    """

    order = 2

    def __init__(self, traced: Traced, chunk_size: int | None) -> None:
        self.traced = traced
        self.slopes = gradient_tape(traced)
        self.types = traced.wrt_types
        self.colours: list[np.ndarray] = []
        self.counts: list[int] = []
        self.sizes: list[int] = []  # how many colours are swept at a time
        for i, k in enumerate(traced.wrt):
            few = traced.eager is not None and self.types[i].size <= FEW
            colours = np.arange(self.types[i].size)
            if not few:
                colours = diagonal_colours(derive((KEEP,), self.slopes, keep=(i,)), k)
            count = int(colours.max(initial=-1)) + 1
            at_once = seed_bytes(derive(TANGENTS, self.slopes, wrt=(k,), of=(i,)))
            self.colours.append(colours)
            self.counts.append(count)
            self.sizes.append(max(1, min(count, chunk_size or BUDGET // at_once)))
        self.chunks: dict[tuple[int, int], PlanStep] = {}
        self.of_all_colours: PlanStep | None = None  # made by `whole`
        self.guards = self.sizes == [max(1, count) for count in self.counts]

    def only_step(self) -> PlanStep | None:
        return self.of_all_colours

    def steps(self) -> list[PlanStep]:
        return [*super().steps(), *self.chunks.values()]

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        at_once = run is replay or self.guards
        outs = run(self.whole, arrays) if at_once else self.in_chunks(arrays, run)
        return gradients(self.traced, outs)

    @property
    def whole(self) -> PlanStep:
        """All colours at once."""
        if self.of_all_colours is None:
            with deriving(self.traced.call):
                places = [i for i, count in enumerate(self.counts) if count]  # inputs may be empty
                parts = [self.swept(i, self.counts[i], chunked=False) for i in places]
                tape = assembled(self.slopes, parts, places, self.types)
                self.of_all_colours = self.traced.step(derive(VALUE, tape))
        return self.of_all_colours

    def swept(self, i: int, size: int, *, chunked: bool) -> Tape:
        """The diagonal for one input, of `size` colours."""
        k = self.traced.wrt[i]
        mapped = derive(TANGENT_SWEEPS, self.slopes, wrt=(k,), of=(i,), size=size)
        tape = diagonal_swept(mapped, self.slopes, k, self.colours[i], size, chunked=chunked)
        return derive(VALUE, tape)

    def in_chunks(self, arrays: Arrays, run: Run) -> list[object]:
        """The diagonal, some colours at a time."""
        diagonals = cast("list[object]", zeros_beside(arrays, self.types))
        running = Stage("running", self.traced.call, total=sum(self.counts), category="")
        with running:
            for i, (count, size) in enumerate(zip(self.counts, self.sizes, strict=True)):
                for first in range(0, count, size):
                    width = min(size, count - first)
                    if (step := self.chunks.get((i, width))) is None:
                        with deriving(self.traced.call):
                            tape = self.swept(i, width, chunked=True)
                            step = PlanStep(tape, device=self.traced.device)
                        self.chunks[i, width] = step
                    (diagonals[i],) = run(step, [*arrays, diagonals[i], np.int64(first)])
                    running.advance(width)
        return diagonals


@overload
def hessian_diagonal(
    f: AtPoint[P, object], *, argnums: Literal[0] = ..., **keywords: Unpack[DiagonalKeywords]
) -> Gradient[P]: ...
@overload
def hessian_diagonal(
    f: Callable[P, object], *, argnums: int = ..., **keywords: Unpack[DiagonalKeywords]
) -> Prepared[P, Derivatives]: ...
@overload
def hessian_diagonal(
    f: Callable[P, object], *, argnums: tuple[int, ...], **keywords: Unpack[DiagonalKeywords]
) -> Prepared[P, tuple[Derivatives, ...]]: ...
@overload
def hessian_diagonal(f: Function, inputs: Point, **keywords: Unpack[DiagonalKeywords]) -> Array: ...
@overload
def hessian_diagonal(
    f: Function, inputs: object, **keywords: Unpack[DiagonalKeywords]
) -> Derivatives: ...
@without_catch_alls
def hessian_diagonal(
    f: Function,
    inputs: object = LEFT_OUT,
    *further: object,
    argnums: int | tuple[int, ...] = 0,
    chunk_size: int | str = "auto",
    device: str = "cpu",
    **unknown: object,
) -> object:
    """Diagonal of the Hessian of a scalar function: ``d2f/dx[i]2`` for each entry of ``x``.

    Parameters
    ----------
    f : callable
        Pure function of arrays that returns a single array with one element.
    inputs : array, list of numbers, dict, dataclass, or tuple of these, optional
        Where to evaluate. Without it, the prepared function of the arguments of `f` is returned.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.
    chunk_size : int or "auto"
        How many sweeps are computed at a time; ``"auto"`` keeps intermediate values below 256 MiB.
    device : {"cpu", "cuda"}
        Where to run, as for `grad`.

    Returns
    -------
    array or callable
        Exact second derivatives in the structure, shapes and dtypes of the inputs, in units of
        ``f`` per squared unit of the input; or a function that returns them. The Hessian is never
        formed. Costs a Hessian-vector product for each colour of its pattern: one if ``f`` is a sum
        of functions of single entries, two if neighbouring entries interact, one for each entry if
        the pattern is dense, has more than four million entries, or is not known.

    Raises
    ------
    VectorError
        If the output does not have exactly one element.
    InputError, DtypeError, TraceError, DeviceError
        As `hessian` does.

    References
    ----------
    Gebremedhin, Manne and Pothen, "What color is your Jacobian?", SIAM Review 47, 2005, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.hessian_diagonal(lambda x: np.sum(x[1:] ** 3 * x[:-1]))(np.array([1.0, 2.0, 3.0]))
    array([ 0., 12., 36.])
    """
    try:
        if further or unknown:
            refuse_others(hessian_diagonal, f, further, unknown)
        settings = (hessian_diagonal, chunk_size.__class__, device, chunk_size)
        return dense(settings, f, inputs, argnums, _operator)
    except BaseException as error:
        trim(error, "hessian_diagonal", f)
        raise


def _operator(f: Function, device: object, chunk_size: object) -> Operator:
    """The operator with these settings, which are checked."""
    call = called("hessian_diagonal", f)
    check_device(device, call)
    plan = partial(DiagonalPlan, chunk_size=check_chunk(chunk_size, call))
    settings = {"device": device, "chunk_size": chunk_size}
    return Operator(hessian_diagonal, settings, plan, check_one_element)
