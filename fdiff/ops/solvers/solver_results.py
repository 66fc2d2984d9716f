"""Results of solvers under trace: SciPy's kind of result object, with traced fields.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scipy.optimize import OptimizeResult

from ...foreign_errors import hiding
from ...trace import Array, TracedArray, apply, unsupported
from ..shapes.shaping import scalar_if_0d
from .solver_arguments import value_of
from .solver_call import SolverCall, without_rule

FLAGS = frozenset("bi")  # kinds of dtypes that carry no derivative


class TracedResult(OptimizeResult):
    """An `OptimizeResult` with traced fields; texts are computed when they are read."""

    _told: tuple[str, Mapping[str, Callable[[], str]]]

    def __init__(self, name: str, fields: Mapping[str, object], texts: Mapping[str, Callable[[], str]]) -> None:
        super().__init__(fields)
        object.__setattr__(self, "_told", (name, texts))

    def __missing__(self, key: str) -> object:
        name, texts = self._told
        if key in texts:
            return texts[key]()
        if key.startswith("_"):
            raise KeyError(key)
        raise unsupported(f"the field `{key}` of the result of {name}")

    @hiding
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __fdiff_fields__(self) -> tuple[type, dict[str, object]]:
        """The class of SciPy's own result, and all fields and texts."""
        return OptimizeResult, {**self, **{k: text() for k, text in self._told[1].items()}}

    def __repr__(self) -> str:
        return "\n".join(f"{k}: {v}" for k, v in self.items())


def field_text(call: SolverCall, args: list[TracedArray], field: str, seen: list[TracedArray]) -> Callable[[], str]:
    """A text of SciPy's result at the current arguments; the status it depends on is looked at."""

    def text() -> str:
        for flag in seen:
            int(flag)
        result = call.run([value_of(x) for x in args])
        return str(result[field])

    return text


def field(value: TracedArray, moving: Array, name: str, call: SolverCall) -> TracedArray:
    """A field of the result; one of floating-point numbers has a value, and an error in place of a derivative."""
    if value.dtype.kind in FLAGS:
        return scalar_if_0d(value)
    return apply(without_rule, value, moving, scalar=not value.shape, field=f"`{name}` of {call.name}", site=call.site)

