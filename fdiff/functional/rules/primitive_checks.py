"""`PrimitiveFunction.check`: tests of a user's operation, like the tests of fdiff's own
(`tests/ops`).

Values are compared with the user's function; derivatives are compared with numerical differences by
`gradcheck` and `gradgradcheck`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...arraytype import broadcast_all, type_of
from ...errors import GradcheckError, InputError, failure
from ...primitive import Primitive
from ..checking import gradcheck, gradgradcheck
from ..operators.gradients import grad
from ..operators.jit_programs import jit
from ..operators.products import vjp
from ..operators.vectorized_map import vmap
from .custom_derivatives import CustomFunction

if TYPE_CHECKING:
    from ..annotations import AnyCustomFunction

_EXACT, _DOUBLE, _SINGLE = 1e-13, 1e-9, 2e-5  # of the same code; of a kernel; in single precision
_NEARER = 1.0 - 2.0**-10  # a factor to points beside the points of a sample

Arrays = Sequence[np.ndarray]


def _strided(x: np.ndarray) -> np.ndarray:
    """A copy of the values with gaps between them in memory."""
    wide = np.zeros([3 * n for n in x.shape], x.dtype)
    places = (slice(1, None, 3),) * x.ndim
    wide[places] = x
    return wide[places]


def _backwards(x: np.ndarray) -> np.ndarray:
    steps = (slice(None, None, -1),) * x.ndim
    return np.array(x[steps], order="C")[steps]


_LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "strided": _strided,
    "backwards": _backwards,
    "Fortran's": lambda x: np.array(x, order="F"),
}


def check_primitive(
    p: CustomFunction[..., object], op: Primitive, samples: Sequence[tuple[object, ...]]
) -> None:
    """Raise unless the function, and its operation `op`, are right at all samples."""
    if not samples:
        fact, way = "there are no samples.", "Pass arguments, or give samples=[(x, ...)]."
        raise failure(InputError, f"{p.call}.check", fact, way)
    for k, sample in enumerate(samples):
        _SampleTests(p, op, k, [np.array(x) for x in sample]).check()


class _SampleTests:
    """The tests of one sample."""

    def __init__(self, p: AnyCustomFunction, op: Primitive, k: int, args: Arrays) -> None:
        self.p, self.op, self.k, self.args = p, op, k, args
        self.moving = tuple(i for i, x in enumerate(args) if x.dtype.kind == "f")
        self.total = lambda *xs: np.sum(p(*xs))

    def check(self) -> None:
        with np.errstate(all="ignore"):
            self._values(self.args)
            self._single_precision()
            for name, layout in _LAYOUTS.items():
                self._equal(
                    f"in a {name} layout", self.p(*map(layout, self.args)), self.p(*self.args)
                )
            self._batch()
            if self.op.family == "elementwise":
                self._shapes()
            if self.op.structure.sparsity is not None:
                self._sparsity()
        if self.moving and all(x.size for x in self.args):
            gradcheck(self.p, tuple(self.args), check_batched_grad=True)
            gradgradcheck(self.p, tuple(self.args))

    # --- values -----------------------------------------------------------------------------------

    def _values(self, args: Arrays) -> np.ndarray:
        """The function's result, checked to be equal at each call and by the kernel."""
        result = np.asarray(self.p(*args))
        self._equal("called again", self.p(*args), result)
        if self.op.lowering.kernel is not None:
            within = _DOUBLE if result.dtype == np.float64 else _SINGLE
            self._equal("by the kernel", jit(self.p)(*args), result, within)
        return result

    def _single_precision(self) -> None:
        narrow = [x.astype(np.float32) if i in self.moving else x for i, x in enumerate(self.args)]
        wide = [x.astype(np.float64) if i in self.moving else x for i, x in enumerate(narrow)]
        if not self.moving:
            return
        result, expected = self._values(narrow), self.p(*wide)
        self._equal("in single precision", result, expected, _SINGLE)
        for slope, true in zip(self._slopes(narrow), self._slopes(wide), strict=True):
            self._equal("in single precision, its gradient", slope, true, _SINGLE)

    def _batch(self) -> None:
        """Each subset of arguments mapped is a loop; so is the gradient."""
        rows = [list(self.args), [x * _NEARER if x.dtype.kind == "f" else x for x in self.args]]
        count = len(self.args)
        for on in [[i == j for j in range(count)] for i in range(count)] + [[True] * count]:
            stacked = [
                np.stack([r[i] for r in rows]) if m else rows[0][i] for i, m in enumerate(on)
            ]
            loop = [self.p(*[r[i] if m else rows[0][i] for i, m in enumerate(on)]) for r in rows]
            axes = tuple(0 if m else None for m in on)
            self._equal("in a batch", vmap(self.p, axes)(*stacked), np.stack(loop))
        if self.moving:
            wide = [np.stack(column) for column in zip(*rows, strict=True)]
            loops = zip(*[self._slopes(row) for row in rows], strict=True)
            mapped = vmap(grad(self.total, self.moving))(*wide)
            for gradient, loop in zip(mapped, loops, strict=True):
                self._equal("in a batch, its gradient", gradient, np.stack(loop))

    def _shapes(self) -> None:
        """Check numbers, empty arrays and broadcasting of elementwise operations."""
        flat = [x.ravel() for x in broadcast_all(*self.args)]
        if not flat[0].size:
            return
        whole = np.ravel(self.p(*self.args))
        slopes = self._slopes(flat)
        for words, at, shape in (("of no axes", 0, ()), ("empty", slice(0, 0), (0,))):
            part = [np.asarray(x[at]) for x in flat]
            self._equal(f"where arguments are {words}", self._values(part), whole[at])
            for slope, all_of_them in zip(self._slopes(part), slopes, strict=True):
                self._equal(f"where arguments are {words}, its gradient", slope, all_of_them[at])
                assert np.shape(slope) == shape, "a gradient has the shape of its argument"
        parts = [x[:2, None] if i % 2 == 0 else x[:3] for i, x in enumerate(flat)]
        full = [np.array(x) for x in broadcast_all(*parts)]
        self._equal("broadcast", self._values(parts), self.p(*full))

    # --- derivatives ------------------------------------------------------------------------------

    def _slopes(self, args: Arrays) -> list[np.ndarray]:
        """The gradient of the sum of the entries."""
        return list(grad(self.total, self.moving)(*args)) if self.moving else []

    def _sparsity(self) -> None:
        """Each derivative that is not zero lies in the pattern."""
        out = np.asarray(self.p(*self.args))
        types = [type_of(x) for x in (out, *self.args)]
        assert self.op.structure.sparsity is not None
        patterns = self.op.structure.sparsity(*types)
        for row in range(out.size):
            bar = (np.arange(out.size) == row).astype(out.dtype).reshape(out.shape)
            pulled = vjp(self.p, tuple(self.args), bar)[1]
            bars = pulled if isinstance(pulled, tuple) else (pulled,)
            for i, there in enumerate(patterns):
                outside = there is not None and np.ravel(bars[i])[~there[row]].any()
                if i in self.moving and outside:
                    fact = f"entry {row} depends on an entry of argument {i} outside of the pattern"
                    raise self._failed("by its sparsity", fact)

    # --- failures ---------------------------------------------------------------------------------

    def _equal(self, words: str, actual: object, expected: object, within: float = _EXACT) -> None:
        """Raise unless two arrays are the same."""
        a, b = np.asarray(actual), np.asarray(expected)
        scale = np.max(np.abs(b), initial=0.0, where=np.isfinite(b)) if b.dtype.kind in "fc" else 0
        if a.shape != b.shape:
            raise self._failed(words, f"has shape {a.shape}, not {b.shape}")
        if not np.allclose(a, b, rtol=within, atol=within * scale, equal_nan=True):
            raise self._failed(words, f"is\n{a}\nand not\n{b}")

    def _failed(self, words: str, fact: str) -> GradcheckError:
        what = f"the result {words}" if "gradient" not in words else words
        way = "Correct the function, its rule, or its kernel, whichever is wrong there."
        call, said = f"{self.p.call}.check", f"sample {self.k}: {what} {fact}."
        return failure(GradcheckError, call, said, way)
