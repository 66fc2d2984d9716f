"""`sum_over`: the sum of a function over partitions, as a function that fdiff differentiates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..capture.data import refuse_lazy
from ..device_arrays import CPU
from ..dispatch.program import OwnsPrograms
from ..errors import InputError, UnsupportedError, called, failure
from ..functional.options import check_callable
from ..functional.prepared import Origin, Prepared
from ..primitive import HOOKS
from ..trace import tracing
from ..tracebacks import name_of, public, trim
from ..tree import flatten
from .calls import FAN_IN, ClusterCall
from .evaluation import Failure, Numbered, as_part, evaluate_all, fixed_tier
from .operation import enter
from .ordered_sum import OrderedSum
from .partitionings import Partitions, partitions

NAME = "sum_over"
# Operators that have no such sum, and what to write.
_REFUSED = {
    "vmap": "Map in each partition: `sum_over(fdiff.vmap(f, in_axes=(0, None)), rows)`.",
    "njit": "Call it from Python: code that Numba compiles cannot wait for a cluster.",
    "cfunc": "Call it from Python: C code cannot wait for a cluster.",
}
_VECTORS = {"vjp": 2, "jvp": 2, "hvp": 2, "vhp": 2}  # parameters of these before the others


class SumOver(OwnsPrograms):
    """The sum of `f` over partitions, a function of the parameters: what `sum_over` returns."""

    __fdiff__ = NAME

    def __init__(self, f: Callable[..., Any], many: Sequence[Partitions], least: int = 0) -> None:
        self.f, self.many, self.least = f, many, least
        self.programs = {}
        self.__name__ = f"sum of {name_of(f)}"
        self.task_name = (
            called(f.__fdiff__, f.__wrapped__) if isinstance(f, Prepared) else name_of(f)
        )
        self._fan_in = FAN_IN
        self._local: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<{self.task_name} summed over {self.many[0]!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tracing():
            return enter(self, args, kwargs)
        try:
            self._check(args, kwargs)
            return self.total(args, kwargs)
        except BaseException as error:
            trim(error, NAME, self.f)
            raise

    def total(self, args: Sequence[Any], kwargs: dict[str, Any], *, first: bool = False) -> Any:
        """The sum at these parameters; or the `first` term alone."""
        for rows in self.many:
            rows.check_held(called(NAME, self.f))
        parameters = tuple(args), kwargs
        if self.many[0].client is None:
            return self._here(parameters, 1 if first else len(self.many[0]))
        call = ClusterCall(self.task_name, self.f, parameters, self.many)
        if first:
            return call.first()
        total, self._fan_in = call.sum(self._fan_in)
        return total

    def of(self, f: Callable[..., Any]) -> SumOver:
        """The sum of another function over the same partitions."""
        return SumOver(f, self.many)

    def _here(self, given: tuple[Any, dict[str, Any]], count: int) -> Any:
        """The sum of so many terms in this process, with one partition in memory at a time."""
        if self._local is None:
            self._local = fixed_tier(self.f)
        total = OrderedSum(count)
        parts = parts_of(self.many, count)
        for number, result in evaluate_all(self._local, given, parts, len(self.many[0])):
            if isinstance(result, Failure):
                raise result.error
            total.add(number, result)
        return total.total()

    def _check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        call = called(NAME, self.f)
        check_parameters(call, args, kwargs)
        if len(args) < self.least:
            fact = f"{self.task_name} takes {self.least} parameters at least, not {len(args)}."
            raise failure(InputError, call, fact, "Give all of them, before the data.")

    def under(self, origin: Origin) -> SumOver:
        """The same sum of what an operator makes of `f`, which is one pass over the data, too."""
        name, options = origin.operator.__name__, origin.options
        call = called(name, self)
        if name in _REFUSED:
            fact = f"{name} has no meaning for a sum over partitions."
            raise failure(UnsupportedError, call, fact, _REFUSED[name])
        if options.get("device", CPU) != CPU:
            fact = "workers compute on processors."
            raise failure(UnsupportedError, call, fact, "Leave device out.")
        if options.get("sparse"):
            fact = "sparse results are not added over partitions."
            raise failure(UnsupportedError, call, fact, "Leave sparse out, or use map_over.")
        nums: Any = options.get("argnums", 0)
        chosen: list[int] = [
            n for n in (nums if isinstance(nums, tuple) else (nums,)) if n is not None
        ]
        if any(n < 0 for n in chosen):
            fact = f"argnums={nums} counts from the end, where the data is."
            raise failure(InputError, call, fact, "Count from the first parameter, with 0.")
        least = max(chosen, default=-1) + 1
        if name in _VECTORS:
            least = max(least - len(chosen) + 2, 2)
        return SumOver(origin.again(self.f), self.many, max(least, 0))


def task_name(f: Callable[..., Any]) -> str:
    """What dashboards show: ``value_and_grad(loss)``."""
    return called(f.__fdiff__, f.__wrapped__) if isinstance(f, Prepared) else name_of(f)


def check_parameters(call: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuse `out`, and parameters that are not computed yet or record their history."""
    if "out" in kwargs:
        fact = "there is no `out=`: results of partitions are new arrays."
        raise failure(InputError, call, fact, "Assign the result: `out[...] = total(w)`.")
    for k, arg in enumerate(args):
        for leaf in flatten(arg)[0]:
            refuse_lazy(leaf, call, f"parameter {k}")
            if type(leaf).__module__.startswith("fdiff.autograd"):
                fact = f"parameter {k} is a recorded array, whose history ends at a cluster."
                way = "Pass `x.detach().numpy()`, and differentiate by fdiff.grad(total)."
                raise failure(InputError, call, fact, way)


def parts_of(many: Sequence[Partitions], count: int) -> Iterator[Numbered]:
    """The first partitions in this process, each with its arrays of all partitionings."""
    for k in range(count):
        yield k, tuple([a for rows in many for a in as_part(rows.given(k))])


def _under(f: object, origin: Origin) -> SumOver | None:
    return f.under(origin) if isinstance(f, SumOver) else None


HOOKS["over_partitions"] = _under  # called by `functional/invocation.py`


@public
def sum_over(f: Callable[..., Any], rows: Any) -> SumOver:
    """Sum a function over the partitions of data, as a function of its parameters.

    Parameters
    ----------
    f : callable
        ``f(*params, *arrays)``, with the arrays of one partition. It returns a number, an array, or
        nested tuples, lists and dicts of them, of the same shapes for each partition.
    rows : Partitions, or tuple of them
        The data. The arrays of several, which have the same length, follow each other. Anything
        else goes to `partitions` first.

    Returns
    -------
    callable
        ``total(*params)``, the sum leaf by leaf. Operators such as ``fdiff.value_and_grad(total)``
        and ``fdiff.hessian(total)`` are one pass over the data at each call, and the same as
        ``sum_over(fdiff.hessian(f), rows)``. Inside of a larger function it is one operation with
        derivatives of any order. A call costs one task for each worker.

    Raises
    ------
    InputError
        If partitions give results that cannot be added, their arrays do not fit `f`, `f` cannot be
        pickled, or it writes to what is outside of it.
    WorkerError
        If tasks kill their workers, there are no workers, or data is lost that nobody can make
        again.

    Notes
    -----
    The terms are added along the complete binary tree over the numbers of the partitions: the
    digits depend on these alone, not on workers, threads, deaths of workers, or whether there is a
    cluster. What `f` reads from outside is sent as it is at each call, unless it is unchanged.
    NumPy's error state holds on workers, and their warnings are given here.

    References
    ----------
    Chu et al., "Map-Reduce for Machine Learning on Multicore", NIPS 2006, for the form of sums.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.distributed
    >>> data = [(np.array([1.0, 2.0]),), (np.array([3.0]),)]
    >>> total = fdiff.distributed.sum_over(lambda w, x: np.sum((w - x) ** 2), data)
    >>> fdiff.value_and_grad(total)(2.0)
    (np.float64(2.0), np.float64(0.0))
    """
    check_callable(f, NAME)
    return SumOver(f, together(rows, called(NAME, f)))


def together(rows: Any, call: str) -> tuple[Partitions, ...]:
    """Partitionings of equal lengths."""
    many = rows if isinstance(rows, tuple) and rows else (rows,)
    if not any(isinstance(r, Partitions) for r in many):
        return (partitions(rows),)
    many = tuple([r if isinstance(r, Partitions) else partitions(r) for r in many])
    lengths = [len(r) for r in many]
    if len(set(lengths)) > 1:
        fact = f"the partitionings have {', '.join(map(str, lengths))} partitions."
        raise failure(InputError, call, fact, "Give partitionings of equal lengths.")
    if len({id(r.client) for r in many}) > 1:
        fact = "the partitionings are held by different clients."
        raise failure(InputError, call, fact, "Make all of them with one client.")
    for r in many:
        r.check_held(call)
    return many
