"""A loop with a carried state as one op (`scan`), for the steps of an integrator, whose number is known at run time.

``scan(count, *carry, *rows, *shared)`` calls a body ``(*carry, *row, *shared) -> (*carry, *outs)`` for the first
`count` rows of arrays of fixed length. It returns the last carry, and the outs as rows, which are zero from `count`
on. The derivatives of a scan are scans, the reverse one from the last row to the first.

In reverse all carries are kept, as on a tape (A. Griewank and A. Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008,
section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType
from ...primitive import ZERO, LateParams, Primitive, Sample, register
from ...trace import TracedArray, apply_many
from .exit_status import batch_by_unrolling
from .traced_function import TracedFunction, constant_body

Arrays = Sequence[TracedArray]


def _infer(count: ArrayType, *types: ArrayType, body: TracedFunction, carry: int, rows: int, backwards: bool) -> tuple[ArrayType, ...]:
    length = types[carry].shape[0]
    outs = body.types
    return (*outs[:carry], *(ArrayType((length, *t.shape), t.dtype) for t in outs[carry:]))


def _evaluate(count: np.ndarray, *args: np.ndarray, body: TracedFunction, carry: int, rows: int, backwards: bool) -> tuple[np.ndarray, ...]:
    state, table, shared = [*args[:carry]], args[carry : carry + rows], args[carry + rows :]
    n, length = int(count), len(table[0])
    outs = [np.zeros((length, *t.shape), t.dtype) for t in body.types[carry:]]
    run = _steps_of(body, carry + rows).bound(shared)
    for k in range(n - 1, -1, -1) if backwards else range(n):
        found = run(*state, *(x[k] for x in table))
        state = [*found[:carry]]
        for out, value in zip(outs, found[carry:], strict=True):
            out[k] = value
    return (*(np.array(x) for x in state), *outs)


@lru_cache(maxsize=256)
def _steps_of(body: TracedFunction, own: int) -> TracedFunction:
    """The body with the carry and the rows as its own arguments."""
    return TracedFunction(body.tape, own)


class _BodyInputs:
    """The types of the inputs of a body: carry, rows, shared."""

    def __init__(self, body: TracedFunction, carry: int, rows: int) -> None:
        types = body.tape.input_types
        self.carry, self.rows, self.shared = types[:carry], types[carry : carry + rows], types[carry + rows :]

    def floating(self, first: int) -> list[int]:
        """Indices of the floating-point inputs, from `first` on."""
        every = [*self.carry, *self.rows, *self.shared]
        return [k for k in range(first, len(every)) if every[k].floating]


@lru_cache(maxsize=128)
def _pushforward(body: TracedFunction, carry: int, rows: int, moving: tuple[int, ...]) -> TracedFunction:
    """The body of the tangent loop: every carry has a tangent, and so have the inputs `moving`."""
    inputs = _BodyInputs(body, carry, rows)
    pushforward = body.pushforward([*range(carry), *moving])
    table = [k - carry for k in moving if k < carry + rows]
    shared = [k - carry - rows for k in moving if k >= carry + rows]

    def results(own: list[TracedArray], others: list[TracedArray]) -> list[TracedArray]:
        state, dots, row = own[:carry], own[carry : 2 * carry], own[2 * carry :]
        given = [*state, *row[:rows], *others[: len(inputs.shared)]]
        tangents = [*dots, *row[rows:], *others[len(inputs.shared) :]]
        values = body.spliced(given, [])
        moved = pushforward.spliced([*given, *tangents], [])
        return [*values[:carry], *moved[:carry], *values[carry:], *moved[carry:]]

    own = [*inputs.carry, *inputs.carry, *inputs.rows, *(inputs.rows[k] for k in table)]
    return constant_body(results, own, [*inputs.shared, *(inputs.shared[k] for k in shared)])


def _jvp(
    dots: Sequence[object], args: Arrays, outs: Arrays, *, body: TracedFunction, carry: int, rows: int, backwards: bool
) -> list[object]:
    count, *given = args
    state, table, shared = given[:carry], given[carry : carry + rows], given[carry + rows :]
    moving = tuple(k for k in range(carry, len(given)) if dots[1 + k] is not ZERO)
    start = [np.zeros(x.shape, x.dtype) if dot is ZERO else dot for x, dot in zip(state, dots[1:], strict=False)]
    more = [dots[1 + k] for k in moving]
    width = sum(k < carry + rows for k in moving)
    found = apply_many(
        scan, count, *state, *start, *table, *more[:width], *shared, *more[width:],
        body=_pushforward(body, carry, rows, moving), carry=2 * carry, rows=rows + width, backwards=backwards,
    )  # fmt: skip
    kept = (len(found) - 2 * carry) // 2
    return [*found[carry : 2 * carry], *found[2 * carry + kept :]]


@lru_cache(maxsize=128)
def _with_carries(body: TracedFunction, carry: int, rows: int) -> TracedFunction:
    """The body, changed to return also the carry at the start of each step (for the reverse loop)."""
    inputs = _BodyInputs(body, carry, rows)

    def results(own: list[TracedArray], others: list[TracedArray]) -> list[TracedArray]:
        found = body.spliced(own, others)
        return [*found[:carry], *own[:carry]]

    return constant_body(results, [*inputs.carry, *inputs.rows], inputs.shared)


@lru_cache(maxsize=128)
def _pullback(body: TracedFunction, carry: int, rows: int, needed: tuple[int, ...]) -> TracedFunction:
    """The body of the adjoint loop, whose carry are the cotangents of the carry and of the shared inputs."""
    inputs = _BodyInputs(body, carry, rows)
    shared = [k for k in needed if k >= carry + rows]
    table = [k for k in needed if carry <= k < carry + rows]
    types = [*inputs.carry, *inputs.rows, *inputs.shared]
    pull = body.cotangents([*range(carry), *table, *shared])
    outs = body.types[carry:]

    def results(own: list[TracedArray], others: list[TracedArray]) -> list[TracedArray]:
        bars, sums = own[:carry], own[carry : carry + len(shared)]
        row = own[carry + len(shared) :]
        state, values, out_bars = row[:carry], row[carry : carry + rows], row[carry + rows :]
        found = pull.spliced([*state, *values, *others, *bars, *out_bars], [])
        more = [s + f for s, f in zip(sums, found[carry + len(table) :], strict=True)]
        return [*found[:carry], *more, *found[carry : carry + len(table)]]

    own = [*inputs.carry, *(types[k] for k in shared), *inputs.carry, *inputs.rows, *outs]
    return constant_body(results, own, inputs.shared)


def _vjp(
    bars: Sequence[object], args: Arrays, outs: Arrays, *, body: TracedFunction, carry: int, rows: int, backwards: bool
) -> list[object]:
    """The adjoint loop runs from the last row to the first; what it needs of the plain loop is the carry at each step."""
    count, *given = args
    needed = tuple(_BodyInputs(body, carry, rows).floating(carry))
    of_rows, of_shared = [k for k in needed if k < carry + rows], [k for k in needed if k >= carry + rows]
    filled = [np.zeros(x.shape, x.dtype) if bar is ZERO else bar for bar, x in zip(bars, outs, strict=True)]
    saved = apply_many(scan, *args, body=_with_carries(body, carry, rows), carry=carry, rows=rows, backwards=backwards)[carry:]
    start = [*filled[:carry], *(np.zeros(given[k].shape, given[k].dtype) for k in of_shared)]
    table = [*saved, *given[carry : carry + rows], *filled[carry:]]
    loop = {"body": _pullback(body, carry, rows, needed), "carry": len(start), "rows": len(table), "backwards": not backwards}
    found = apply_many(scan, count, *start, *table, *given[carry + rows :], **loop)
    rest = dict(zip([*of_shared, *of_rows], found[carry:], strict=True))
    return [ZERO, *found[:carry], *(rest.get(k, ZERO) for k in range(carry, len(given)))]


def _batch(args: Arrays, mapped: Sequence[bool], size: int, **params: object) -> list[object]:
    return batch_by_unrolling(scan, args, mapped, size, **params)


def _sample(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return np.asarray(3), rng.normal(size=2), rng.normal(size=4), rng.normal(size=2)


def _swinging(backwards: bool) -> LateParams:
    """Three of four steps of a state of two entries, whose force is a row, and shared weights."""
    step = lambda own, given: [own[0] + 0.3 * own[1] * np.sin(given[0] * own[0]), np.sum(own[0] * given[0])]  # noqa: E731 - a line
    types = ArrayType((2,), F8), ArrayType((), F8)
    return LateParams(lambda: {"body": constant_body(step, types, types[:1]), "carry": 1, "rows": 1, "backwards": backwards})


_SAMPLES = tuple(Sample(_sample, _swinging(backwards)) for backwards in (False, True))
scan = register(Primitive("scan", _infer, _evaluate, _jvp, _vjp, _batch, None, "solver", samples=_SAMPLES))
