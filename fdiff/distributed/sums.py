"""`sum_over` and `map_over`: functions of parameters that are evaluated over partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ..capture.non_numeric_data import refuse_lazy
from ..device_arrays import CPU
from ..dispatch.program import OwnsPrograms
from ..errors import FdiffError, InputError, UnsupportedError, called, failure
from ..functional.call.prepared import Origin, Prepared
from ..functional.options import check_callable
from ..hooks import hooks
from ..trace import tracing
from ..tracebacks import name_of, public, trim
from ..tree import flatten
from .cluster_calls import FAN_IN, ClusterCall
from .ordered_sum import OrderedSum
from .partition_sources import loaded
from .partitionings import Partitions, partitions
from .traced_sums import enter
from .worker_tasks import IN_PART, as_part, fixed_tier, refusing_writes, results

if TYPE_CHECKING:
    from .worker_tasks import Given

# Operators that have no such sum, and what to write.
_REFUSED = {
    "vmap": "Map in each partition: `sum_over(fdiff.vmap(f, in_axes=(0, None)), rows)`.",
    "njit": "Call it from Python: code that Numba compiles cannot wait for a cluster.",
    "cfunc": "Call it from Python: C code cannot wait for a cluster.",
}
_VECTORS = {"vjp": 2, "jvp": 2, "hvp": 2, "vhp": 2}  # parameters of these before the others


class OverPartitions(OwnsPrograms):
    """A function of the parameters of `f`, evaluated over partitions."""

    __fdiff__ = ""
    verb = ""

    def __init__(
        self, f: Callable[..., object], many: Sequence[Partitions], least: int = 0
    ) -> None:
        self.f, self.many, self.least = f, many, least
        self.programs = {}
        is_prepared = isinstance(f, Prepared)
        self.task_name = called(f.__fdiff__, f.__wrapped__) if is_prepared else name_of(f)
        self._local: Callable[..., object] | None = None

    def __repr__(self) -> str:
        return f"<{self.task_name} {self.verb} over {self.many[0]!r}>"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if tracing():
            return self.traced(args, kwargs)
        try:
            self._check(args, kwargs)
            return self.total(args, kwargs)
        except BaseException as error:
            own = any(note.startswith(IN_PART) for note in getattr(error, "__notes__", ()))
            trim(error, "" if own and not isinstance(error, FdiffError) else self.__fdiff__, self.f)
            raise

    def traced(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """A call in a trace."""
        raise NotImplementedError

    def total(self, args: Sequence[object], kwargs: dict[str, object]) -> object:
        """A call with parameters that are checked."""
        raise NotImplementedError

    def _check(self, args: Sequence[object], kwargs: dict[str, object]) -> None:
        """Refuse `out`, and parameters that are not computed yet or record their history."""
        call = called(self.__fdiff__, self.f)
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
        if len(args) < self.least:
            fact = f"{self.task_name} takes {self.least} parameters at least, not {len(args)}."
            raise failure(InputError, call, fact, "Give all of them, before the data.")

    def on_cluster(self, arguments: object, *, adds: bool) -> ClusterCall | None:
        """The call on a cluster; None where this process holds the data."""
        for rows in self.many:
            rows.check_held(called(self.__fdiff__, self.f))
        if self.many[0].client is None:
            return None
        name = f"map {self.task_name}" * (not adds) or self.task_name
        return ClusterCall(name, self.f, arguments, self.many, adds=adds)

    def here(self, arguments: Given, count: int) -> Iterator[object]:
        """Results for the first partitions, in this process: one is in memory at a time."""
        sources = zip(*[rows.sources[:count] for rows in self.many], strict=True)
        parts = (tuple([a for s in each for a in as_part(loaded(s))]) for each in sources)
        local = self._local or fixed_tier(self.f)
        with refusing_writes(self.f) if self._local is None else nullcontext():
            yield from results(local, arguments, enumerate(parts), len(self.many[0]))
        self._local = local


class SumOver(OverPartitions):
    """The sum of `f` over partitions, a function of the parameters: what `sum_over` returns."""

    __fdiff__ = "sum_over"
    verb = "summed"
    _fan_in = FAN_IN

    @property
    def __name__(self) -> str:
        return f"sum of {name_of(self.f)}"

    def traced(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        return enter(self, args, kwargs)

    def total(
        self, args: Sequence[object], kwargs: dict[str, object], *, first: bool = False
    ) -> Any:
        """The sum at these parameters; or the `first` term alone."""
        arguments = tuple(args), kwargs
        if (call := self.on_cluster(arguments, adds=True)) is not None:
            total, fan_in = call.sum(self._fan_in, first=first)
            self._fan_in = self._fan_in if first else fan_in
            return total
        count = 1 if first else len(self.many[0])
        here = OrderedSum(count)
        for number, result in enumerate(self.here(arguments, count)):
            here.add(number, result)
        return here.total()

    def of(self, f: Callable[..., object]) -> SumOver:
        """The sum of another function over the same partitions."""
        return SumOver(f, self.many)

    def under(self, origin: Origin) -> SumOver:
        """The sum of the operator's results for `f`, which is one pass over the data, too."""
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


class MapOver(OverPartitions):
    """A function of parameters whose results are partitions: what `map_over` returns."""

    __fdiff__ = "map_over"
    verb = "mapped"

    def traced(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        fact, way = "partitions have no derivatives.", "`map_over(fdiff.jacobian(f), rows)`."
        call = called(self.__fdiff__, self.f)
        raise failure(UnsupportedError, call, fact, f"Differentiate within each: {way}")

    def total(self, args: Sequence[object], kwargs: dict[str, object]) -> Partitions:
        arguments = tuple(args), kwargs
        if (call := self.on_cluster(arguments, adds=False)) is not None:
            return call.mapped()
        return Partitions([*self.here(arguments, len(self.many[0]))])


def _sum_beneath(f: object, origin: Origin) -> SumOver | None:
    return f.under(origin) if isinstance(f, SumOver) else None


hooks.over_partitions = _sum_beneath


@public
def sum_over(f: Callable[..., object], rows: object) -> SumOver:
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
    Chu et al., "Map-Reduce for Machine Learning on Multicore", NIPS 2006, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.distributed
    >>> data = [(np.array([1.0, 2.0]),), (np.array([3.0]),)]
    >>> total = fdiff.distributed.sum_over(lambda w, x: np.sum((w - x) ** 2), data)
    >>> fdiff.value_and_grad(total)(2.0)
    (np.float64(2.0), np.float64(0.0))
    """
    check_callable(f, "sum_over")
    return SumOver(f, _equally_long(rows, called("sum_over", f)))


@public
def map_over(f: Callable[..., object], rows: object) -> MapOver:
    """Call a function for each partition of data, and keep the results where the data is.

    Parameters
    ----------
    f : callable
        ``f(*params, *arrays)``, with the arrays of one partition. It returns an array, or a tuple
        of arrays, the arrays of a partition of the result.
    rows : Partitions, or tuple of them
        The data, as for `sum_over`.

    Returns
    -------
    callable
        ``made = map_over(f, rows)(*params)`` are new partitions, held where the old ones are. Their
        method ``gather()`` gives a list of what `f` returned, ``to_dask_array()`` a dask array of
        rows, or a tuple of them. A call costs one task for each group of partitions.

    Raises
    ------
    InputError, WorkerError
        As `sum_over` does.

    References
    ----------
    Chu et al., "Map-Reduce for Machine Learning on Multicore", NIPS 2006, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.distributed
    >>> data = [(np.array([1.0, 2.0]),), (np.array([3.0]),)]
    >>> slopes = fdiff.distributed.map_over(fdiff.jacobian(lambda w, x: np.exp(w * x)), data)(0.0)
    >>> slopes.gather()
    [array([1., 2.]), array([3.])]
    """
    check_callable(f, "map_over")
    return MapOver(f, _equally_long(rows, called("map_over", f)))


def _equally_long(rows: object, call: str) -> tuple[Partitions, ...]:
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
