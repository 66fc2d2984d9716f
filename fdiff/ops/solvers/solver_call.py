"""One call of a SciPy solver as an op: which arguments are traced, which are constant, what is returned.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType
from ...bounded_cache import keep
from ...errors import UnsupportedError
from ...foreign_errors import comes_once, is_foreign
from ...named_tuples import NamedTuple
from ...primitive import Primitive, Sample
from ...trace import TracedArray, apply_many
from .exit_status import ENDED, RAISED, UNTRACED, solver_op, untraced_branch_error
from .solver_arguments import CallSite, inside_user_try, unfrozen, value_of
from .traced_function import TracedFunction, UntracedBranch
from .user_functions import UserFunctions

ResultField = tuple[str, ArrayType]  # of a result: its name and type


class SolverCall(NamedTuple):
    """The static parameters of one solver call.

    `starts` are the names of the traced arguments, `functions` and `bodies` the names and the tapes of the user's
    functions; `fields` are the fields of SciPy's result that the op returns.
    """

    name: str
    starts: tuple[str, ...]
    functions: tuple[str, ...]
    bodies: tuple[TracedFunction, ...]
    options: tuple[tuple[str, object], ...]
    fields: tuple[ResultField, ...]
    site: CallSite
    model: TracedFunction | None = None  # of the result, for the derivative, where there is one

    def run(self, args: Sequence[np.ndarray]) -> Mapping[str, object]:
        """SciPy's own result."""
        starts, extras = args[: len(self.starts)], args[len(self.starts) :]
        keywords: dict[str, object] = {k: unfrozen(v) for k, v in self.options}
        keywords |= {k: v.item() if np.ndim(v) == 0 else np.array(v) for k, v in zip(self.starts, map(np.asarray, starts), strict=True)}
        keywords |= {k: as_function(body, extras) for k, body in zip(self.functions, self.bodies, strict=True)}
        with np.errstate(all="ignore"):
            return SOLVERS[self.name](**keywords)

    def values(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The fields of SciPy's result that the op returns."""
        result = self.run(args)
        return [np.asarray(result[name], t.dtype).reshape(t.shape) for name, t in self.fields]

    def place(self, field: str) -> int:
        return [name for name, _ in self.fields].index(field)

    def split(self, args: Sequence[TracedArray]) -> tuple[Sequence[TracedArray], Sequence[TracedArray]]:
        """The traced arguments, and the values that the functions capture."""
        return args[: len(self.starts)], args[len(self.starts) :]


# By public name: a function of keywords that returns the fields of the result as a mapping.
SOLVERS: dict[str, Callable[..., Mapping[str, object]]] = {}


def as_function(body: TracedFunction, extras: Sequence[np.ndarray]) -> Callable[..., object]:
    """The function that SciPy calls: numbers are Python floats on both sides. Our own solvers read what it is made of."""
    run, count, numbers = body.bound(extras), body.own, [not t.shape for t in body.types]

    def call(*own: object) -> object:
        values = [float(x) if number else x for x, number in zip(run(*own[:count]), numbers, strict=True)]
        return values[0] if len(values) == 1 else tuple(values)

    vars(call).update(body=body, extras=extras)
    return call


def infer(*types: ArrayType, call: SolverCall, mode: str) -> tuple[ArrayType, ...]:
    return (*(t for _, t in call.fields), ArrayType((), INT))


_LARGEST = 1 << 16  # bytes of the arguments up to which results are kept
_KEPT = 16  # results
_results: dict[object, list[np.ndarray]] = {}


def _values(call: SolverCall, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The result of a call, kept, because a guard and the program after it ask for the same one."""
    arrays = [np.asarray(x) for x in args]
    if sum(x.nbytes for x in arrays) > _LARGEST:
        return call.values(args)
    key = call, *(x.tobytes() for x in arrays)
    values = _results.get(key)
    if values is None:
        values = keep(_results, key, call.values(args), _KEPT)
    return [np.array(x) for x in values]


def evaluate(*args: np.ndarray, call: SolverCall, mode: str) -> tuple[object, ...]:
    nothing = [np.zeros(t.shape, t.dtype) for _, t in call.fields]
    try:
        return (*_values(call, args), np.int64(ENDED))
    except UntracedBranch:
        if mode == "rule":
            raise untraced_branch_error(call.name, call.site) from None
        return (*nothing, np.int64(UNTRACED))
    except Exception as error:
        if mode != "caught" or (is_foreign(error) and comes_once(partial(_values, call, args))):
            raise
        return (*nothing, np.int64(RAISED))


def record_call(
    primitive: Primitive, functions: UserFunctions, starts: Sequence[TracedArray], make: Callable[[tuple[TracedFunction, ...]], SolverCall],
    *, always: bool = False,
) -> tuple[SolverCall, dict[str, TracedArray], list[TracedArray]]:
    """Record the op; returns the call, the traced fields of its result, and the values that the functions capture.

    The exit status becomes a guard where the functions have branches, or `always`.
    """

    def run(bodies: Sequence[TracedFunction], extras: Sequence[np.ndarray]) -> object:
        return make(tuple(bodies)).run([*map(value_of, starts), *extras])

    call = make(tuple(functions.explore(run)))
    extras = functions.extras
    mode = "caught" if inside_user_try() else "value"
    *fields, status = apply_many(primitive, *starts, *extras, call=call, mode=mode)
    if always or mode == "caught" or any(body.has_branches for body in call.bodies):
        seen = int(status)
        if seen == RAISED:
            call.run([value_of(x) for x in [*starts, *extras]])
    return call, {name: f for (name, _), f in zip(call.fields, fields, strict=True)}, extras


# --- fields without derivative rules --------------------------------------------------------------


def _refusal(*_: object, field: str, site: CallSite) -> list[object]:
    raise UnsupportedError(
        site.words(
            f"{field} has no derivative rule in fdiff.", "Compute it from `.x` with functions of your own, or use fdiff.stop_gradient."
        )
    )


def _value(value: object, moving: object, **_: object) -> object:
    return value


# Of whole numbers, which carry no derivative: of others every rule raises.
_WHOLE = Sample(lambda rng: (rng.integers(9, size=3), rng.integers(9, size=2)), {"field": ".nfev", "site": CallSite("sample", "")})
without_rule = solver_op("scipy.field", lambda value, moving, **_: (value,), _value, _refusal, _refusal, _WHOLE, refuses=True)
