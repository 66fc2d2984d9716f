"""Sums of functions over data on the workers of a Dask cluster, and their derivatives.

`partitions` holds data on workers, `sum_over` makes the sum of a function over it, and `map_over`
keeps the results for each partition where they are. Dask is optional: it is imported by those who
have a client.
"""

try:
    import cloudpickle as _  # noqa: F401 - said here rather than by the first call
except ImportError as _error:
    raise ImportError('fdiff.distributed needs Dask: pip install "numba-fdiff[dask]"') from _error

from .partitionings import partitions
from .sums import map_over, sum_over

__all__ = ["map_over", "partitions", "sum_over"]


def __dir__() -> list[str]:
    """The public names, without the modules of the package."""
    return list(__all__)
