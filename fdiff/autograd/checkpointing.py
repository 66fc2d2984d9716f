"""Checkpoints of recorded arrays: what a function saves is computed again in the backward pass.

Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26, 2000, for one level.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ..primitive import HOOKS
from ..tree import flatten, unflatten
from ..user_lines import user_line
from .modes import enable_grad
from .recorded_array import RecordedArray
from .saved_tensors_hooks import saved_tensors_hooks
from .saved_values import modified


def call_recorded(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """``function(*args, **kwargs)``, recorded without keeping what it saves on the way."""
    again = _Recomputation(function, args, kwargs)
    with saved_tensors_hooks(again.pack, again.unpack):
        return function(*args, **kwargs)


class _Recomputation:
    """One call of a function, whose saved values are known by their number alone.

    Recorded arguments must be as they were when it is called again, plain arrays are copied, and
    NumPy's global generator starts where it did.
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.function = function
        leaves, self.spec = flatten((args, kwargs))
        self.leaves = [x.copy() if isinstance(x, np.ndarray) else x for x in leaves]
        arrays = [x for x in leaves if isinstance(x, RecordedArray)]
        self.counts = [(x.version, x.version.stores()) for x in arrays]
        self.line = user_line(2)
        self.random = np.random.get_state()  # noqa: NPY002 - what the function may draw from
        self.types: list[Any] = []
        self.values: list[Any] = []

    def pack(self, array: RecordedArray) -> int:
        """The number of a saved value, in place of the value."""
        self.types.append(array.kind)
        return len(self.types) - 1

    def unpack(self, number: int) -> Any:
        """A saved value, for which the function is called again where it has to be."""
        if number >= len(self.values) or self.values[number] is None:
            self.values = self._run()
        value, self.values[number] = self.values[number], None
        return value

    def _run(self) -> list[Any]:
        """What the function has saved so far, in order: it is left when the last of that is there.

        A gradient that the function takes itself asks for it while the function runs.
        """
        for version, count in self.counts:
            if version.stores() != count:
                raise modified("checkpoint", self.line, version, count)
        found: list[Any] = []

        def pack(array: RecordedArray) -> RecordedArray:
            found.append(array)
            if len(found) == len(self.types):
                raise _Found
            return array

        leaves = [x.copy() if isinstance(x, np.ndarray) else x for x in self.leaves]
        args, kwargs = unflatten(self.spec, leaves)  # type: ignore[misc] - a pair, as it was flattened
        with (
            suppress(_Found),
            _draws_from(self.random),
            enable_grad(),
            saved_tensors_hooks(pack, lambda packed: packed),
        ):
            self.function(*args, **kwargs)
        if [x.kind for x in found] != self.types:
            raise RuntimeError(
                "checkpoint: the function saved other values when it was called again:"
                f" {len(found)} of them, and {len(self.types)} in the forward pass, or of other"
                " types. It must compute the same both times."
            )
        return [x.value for x in found]


class _Found(BaseException):
    """Ends the second call of a function; no handler of `Exception` in it catches this."""


@contextmanager
def _draws_from(state: Any) -> Generator[None]:
    """NumPy's global generator in this state, and afterwards as it was."""
    before = np.random.get_state()  # noqa: NPY002 - the user's generator
    np.random.set_state(state)  # noqa: NPY002 - as above
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002 - as above


HOOKS["recorded_checkpoint"] = call_recorded  # called by `functional/checkpoints.py`
