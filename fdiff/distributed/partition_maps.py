"""`map_over`: what a function returns for each partition, as partitions that stay there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UnsupportedError, called, failure
from ..functional.options import check_callable
from ..trace import tracing
from ..tracebacks import public, trim
from .calls import ClusterCall
from .evaluation import Failure, evaluate_all, fixed_tier
from .partitionings import Partitions, SourcePartitions
from .sums import check_parameters, parts_of, task_name, together
from .tasks import mapped

NAME = "map_over"


class MapOver:
    """A function of parameters whose results are partitions: what `map_over` returns."""

    __fdiff__ = NAME

    def __init__(self, f: Callable[..., Any], many: Sequence[Partitions]) -> None:
        self.f, self.many = f, many
        self._local = fixed_tier(f)

    def __repr__(self) -> str:
        return f"<{task_name(self.f)} mapped over {self.many[0]!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Partitions:
        call = called(NAME, self.f)
        try:
            if tracing():
                fact = "partitions have no derivatives."
                way = "Differentiate within each: `map_over(fdiff.jacobian(f), rows)`."
                raise failure(UnsupportedError, call, fact, way)  # noqa: TRY301 - trimmed below
            check_parameters(call, args, kwargs)
            for rows in self.many:
                rows.check_held(call)
            if self.many[0].client is None:
                return self._here((args, kwargs))
            name = f"map {task_name(self.f)}"
            return MappedPartitions(ClusterCall(name, self.f, (args, kwargs), self.many))
        except BaseException as error:
            trim(error, NAME, self.f)
            raise

    def _here(self, given: tuple[Any, dict[str, Any]]) -> Partitions:
        count, results = len(self.many[0]), list[Any]()
        for _, result in evaluate_all(self._local, given, parts_of(self.many, count), count):
            if isinstance(result, Failure):
                raise result.error
            results.append(result)
        return SourcePartitions(results)


class MappedPartitions(Partitions):
    """The results of a call, on the workers that hold the data it was called with."""

    def __init__(self, call: ClusterCall) -> None:
        super().__init__(len(call.rows))
        self.call = call
        self.on(call.client, call.rows.spans)

    def submitted(self, numbers: Sequence[int]) -> list[Any]:
        return self.call.submitted(mapped, [self.spans[b] for b in numbers])

    def restorable(self) -> bool:
        self.call.restore()
        return True


@public
def map_over(f: Callable[..., Any], rows: Any) -> MapOver:
    """Call a function for each partition of data, and keep the results where the data is.

    Parameters
    ----------
    f : callable
        ``f(*params, *arrays)``, with the arrays of one partition. It returns an array, or a tuple
        of arrays: those of a partition of the result.
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
    Chu et al., "Map-Reduce for Machine Learning on Multicore", NIPS 2006.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.distributed
    >>> data = [(np.array([1.0, 2.0]),), (np.array([3.0]),)]
    >>> slopes = fdiff.distributed.map_over(fdiff.jacobian(lambda w, x: np.exp(w * x)), data)(0.0)
    >>> slopes.gather()
    [array([1., 2.]), array([3.])]
    """
    check_callable(f, NAME)
    return MapOver(f, together(rows, called(NAME, f)))
