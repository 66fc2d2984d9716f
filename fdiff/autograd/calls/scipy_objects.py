"""SciPy objects made from recorded arrays: splines, distributions, sparse matrices.

In a trace they have counterparts that hold traced arrays (`fdiff/ops/scipy_ops/`), which live as
long as the trace. A `RecordedObject` remembers its construction: a call that uses the object makes
the counterpart in the trace of that call, and is one node with the object's arrays as operands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import fdiff.intact_numpy as np

from ...foreign_errors import hiding
from ..arrays.recorded_array import Recordable, RecordedArray

# ``use(what, name, args, kwargs)`` is a call in which objects take part (`scipy_calls.py`).
USE: list[Callable[..., object]] = []


def map_arguments(tree: Recordable, change: Callable[[object], object]) -> Recordable:
    """Arguments or results with their leaves changed; what is in no list, tuple or dict is one."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([map_arguments(x, change) for x in tree])
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return kind(*[map_arguments(x, change) for x in tree])
    if kind is dict:
        return {k: map_arguments(x, change) for k, x in dict(tree).items()}
    return change(tree)


class RecordedObject:
    """An object that ``what(*args, **kwargs)`` makes, and `real`, the object for plain arrays.

    The arrays that it was made from must be unchanged when it is used: SciPy's objects hold copies
    of some arrays, but not of all. `taken` are the arrays, with their entries.
    """

    __slots__ = ("args", "kwargs", "real", "taken", "title", "what")
    __array_ufunc__ = None  # NumPy's operators leave the answer to this class
    __array_priority__ = 1200.0

    def __init__(
        self,
        what: Callable[..., object],
        title: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        real: object,
    ) -> None:
        self.what, self.title, self.args, self.kwargs = what, title, args, kwargs
        self.real = real
        self.taken: list[tuple[RecordedArray | np.ndarray, np.ndarray]] = []
        map_arguments((args, kwargs), self._take)

    def _take(self, x: object) -> None:
        if type(x) is RecordedArray or type(x) is np.ndarray:
            self.taken.append((x, np.array(x.value if type(x) is RecordedArray else x)))

    def check(self) -> None:
        """Raise if an argument of the object has been stored into."""
        for x, before in self.taken:
            now = x.value if type(x) is RecordedArray else x
            if not np.array_equal(now, before, equal_nan=before.dtype.kind in "fc"):
                raise RuntimeError(
                    f"one of the arrays that {self!r} was made of has been modified by an inplace"
                    " operation. Make the object anew where it is used, or of a copy."
                )

    @property
    @hiding
    def __class__(self) -> type:
        return type(self.real)

    @__class__.setter
    def __class__(self, kind: type) -> None:
        raise TypeError("the class of an object made of recorded arrays cannot be set")

    def __repr__(self) -> str:
        return f"<{self.title} of recorded arrays>"

    def __array__(self, *_: object, **__: object) -> object:
        raise RuntimeError(
            f"Can't call numpy() on {self!r}: NumPy was making a plain array of it, which would"
            " lose its gradient."
        )

    def __call__(self, *args: object, **kwargs: object) -> object:
        return USE[0](operator.call, self.title, (self, *args), kwargs)

    @hiding
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        return USE[0](getattr, f"{self.title}.{name}", (self, name), {})


def _enter(name: str, *, reflected: bool) -> None:
    operate = getattr(operator, name)

    def method(self: RecordedObject, *others: object) -> object:
        operands = (*others, self) if reflected else (self, *others)
        return USE[0](operate, self.title, operands, {})

    setattr(RecordedObject, f"__{'r' * reflected}{name.strip('_')}__", method)


for _name in ("add", "sub", "mul", "matmul", "truediv"):
    _enter(_name, reflected=False)
    _enter(_name, reflected=True)
for _name in ("neg", "getitem"):
    _enter(_name, reflected=False)
