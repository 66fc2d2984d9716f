"""The tables of operations; importing this package registers them all.

One file covers one group of NumPy functions: what computes them on traced arrays, and the primitives
behind them with their derivative rules. `families.py` says how a row becomes a `Primitive`. Tables that not
every program needs (SciPy's in `scipy_ops/` and `solvers/`, and of NumPy `linalg`, `fft` and others) are imported
later: see `lazy_tables.py`.
"""

from . import array_attributes, lazy_tables, python_builtins, replacements
from .along_axes import (
    cumulative,
    data_dependent_shapes,
    higher_order_functions,
    reductions,
    sorting,
    statistics,
)
from .control import barrier, loop, switch, while_loop
from .entrywise import (
    accurate_partials,
    cmath_functions,
    composite_functions,
    elementwise,
    math_functions,
    operators,
    quotients_of_sums,
    ufunc_methods,
)
from .linear_algebra import contraction
from .shapes import (
    creation,
    diagonals,
    dynamic_slices,
    gather_scatter,
    if_converted_stores,
    in_place_functions,
    index_functions,
    indexing,
    item_assignment,
    joining_and_splitting,
    list_arguments,
    ranges,
    shaping,
    take_functions,
    view_ops,
)

__all__ = [
    "accurate_partials",
    "array_attributes",
    "barrier",
    "cmath_functions",
    "composite_functions",
    "contraction",
    "creation",
    "cumulative",
    "data_dependent_shapes",
    "diagonals",
    "dynamic_slices",
    "elementwise",
    "gather_scatter",
    "higher_order_functions",
    "if_converted_stores",
    "in_place_functions",
    "index_functions",
    "indexing",
    "item_assignment",
    "joining_and_splitting",
    "lazy_tables",
    "list_arguments",
    "loop",
    "math_functions",
    "operators",
    "python_builtins",
    "quotients_of_sums",
    "ranges",
    "reductions",
    "replacements",
    "shaping",
    "sorting",
    "statistics",
    "switch",
    "take_functions",
    "ufunc_methods",
    "view_ops",
    "while_loop",
]
