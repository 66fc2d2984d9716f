"""Checkpoints of recorded arrays: the backward pass computes saved values again.

Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26, 2000, for one level.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress

import fdiff.intact_numpy as np

from ...foreign_errors import contextmanager
from ...hooks import hooks
from ...named_tuples import NamedTuple
from ...tree import flatten, unflatten
from ...user_lines import user_line
from ..arrays.recorded_array import RecordedArray
from ..backward_passes.saved_values import modified
from ..modes import enable_grad
from ..saved_tensors_hooks import saved_tensors_hooks


def call_recorded(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """``function(*args, **kwargs)``, recorded without keeping what it saves on the way."""
    again = _Recomputation(function, args, kwargs)
    with saved_tensors_hooks(again.pack, again.unpack):
        return function(*args, **kwargs)


class _Recomputation:
    """One call of a function, whose saved values are identified by their numbers alone.

    When the function is called again, recorded arguments must be unchanged, plain arrays are
    copies, and NumPy's global generator starts in the same state.
    """

    def __init__(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self.function = function
        leaves, self.spec = flatten((args, kwargs))
        self.leaves = [x.copy() if isinstance(x, np.ndarray) else x for x in leaves]
        arrays = [x for x in leaves if isinstance(x, RecordedArray)]
        self.counts = [(x.version, x.version.stores()) for x in arrays]
        self.line = user_line(2)
        self.random = np.random.get_state()
        self.types: list[object] = []
        self.digests: list[Digest] = []
        self.values: list[object] = []

    def pack(self, array: RecordedArray) -> int:
        """The number of a saved value, in place of the value."""
        self.types.append(array.kind)
        self.digests.append(Digest.of(array.value))
        return len(self.types) - 1

    def unpack(self, number: int) -> object:
        """A saved value, for which the function is called again where it has to be."""
        if number >= len(self.values) or self.values[number] is None:
            self.values = self._recompute()
        value, self.values[number] = self.values[number], None
        return value

    def _recompute(self) -> list[object]:
        """Run the function again for the arrays that it saves, until the last of them is there.

        A gradient that the function takes itself asks for it while the function runs.
        """
        for version, count in self.counts:
            if version.stores() != count:
                raise modified("checkpoint", self.line, version, count)
        saved: list[RecordedArray] = []

        def pack(array: RecordedArray) -> RecordedArray:
            saved.append(array)
            if len(saved) == len(self.types):
                raise _Found
            return array

        leaves = [x.copy() if isinstance(x, np.ndarray) else x for x in self.leaves]
        args, kwargs = unflatten(self.spec, leaves)
        with (
            suppress(_Found),
            _draws_from(self),
            enable_grad(),
            saved_tensors_hooks(pack, lambda packed: packed),
        ):
            self.function(*args, **kwargs)
        if [x.kind for x in saved] != self.types:
            raise RuntimeError(
                "checkpoint: the function saved other values when it was called again:"
                f" {len(saved)} of them, and {len(self.types)} in the forward pass, or of other"
                " types. It must compute the same both times."
            )
        values = [x.value for x in saved]
        if not all(d.agrees(Digest.of(v)) for d, v in zip(self.digests, values, strict=True)):
            raise RuntimeError(
                "checkpoint: the function computed other values when it was called again than in"
                " the forward pass. It must compute the same both times: random numbers may come"
                " from NumPy's global generator, which is set back, and what it reads from outside"
                " must be as it was."
            )
        return values


class Digest(NamedTuple):
    """A weighted sum of the entries of an array, and their norm: equal arrays have equal digests.

    The weights differ from entry to entry, so that the order counts. Both numbers are compared up
    to the rounding errors of sums in another order.
    """

    total: complex
    norm: float
    rounding: float

    @classmethod
    def of(cls, value: np.ndarray) -> Digest:
        """The digest of an array: one pass over its memory."""
        dtype = np.asarray(value).dtype
        flat = np.asarray(value, np.result_type(dtype, np.float64)).reshape(-1)
        whole = flat.size - flat.size % len(WEIGHTS)
        rows = np.einsum("ij,j->i", flat[:whole].reshape(-1, len(WEIGHTS)), WEIGHTS)
        rest = flat[whole:] @ WEIGHTS[: flat.size - whole]
        total = complex(rows @ np.cos(np.arange(1.0, 1.0 + rows.size)) + rest)
        rounding = float(np.finfo(dtype if dtype.kind in "fc" else flat.dtype).eps) ** 0.75
        square = np.einsum("i,i->", flat, flat.conj()).real  # no threads of BLAS for such a sum
        return cls(total, float(np.sqrt(square)), rounding)

    def agrees(self, other: Digest) -> bool:
        """Whether both are of one array; values that are not finite agree with themselves alone."""
        if not (np.isfinite(self.total) and np.isfinite(self.norm)):
            return not (np.isfinite(other.total) and np.isfinite(other.norm))
        return abs(self.total - other.total) <= self.rounding * self.norm


WEIGHTS = np.cos(np.arange(1.0, 1025.0))


class _Found(BaseException):
    """Ends the second call of a function; its handlers of `Exception` do not catch this."""


@contextmanager
def _draws_from(call: _Recomputation) -> Generator[None]:
    """NumPy's global generator as it was at a call, and afterwards as it was."""
    before = np.random.get_state()
    try:
        np.random.set_state(call.random)
        yield
    finally:
        np.random.set_state(before)


hooks.recorded_checkpoint = call_recorded
