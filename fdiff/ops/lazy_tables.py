"""The imports that wait: tables that not every program needs.

`import fdiff` loads no SciPy, whose import takes longer than fdiff's own, and no part of NumPy that NumPy
itself leaves out until it is asked for. Nobody can have a function of `scipy.linalg` in hand before
`scipy.linalg` is in `sys.modules`, so its table is early enough if it is imported when such a function is
first looked up (`primitive.load_tables`). So it is with functions of NumPy that few programs call: the tables
under a name are imported when a function of that module is called that no table has so far.
"""

from __future__ import annotations

from functools import partial

from ..hooks import hooks
from ..primitive import LAZY_TABLES
from ..process.forking import imported, late, no_fork

_PARTS = ("", "_bessel", "_elliptic", "_functions", "_gamma", "_hypergeometric", "_incomplete")
_SPECIAL = tuple(f"scipy_ops.special_tables.special{part}" for part in _PARTS)
_INTERPOLATE = ("scipy_ops.interp1d", "scipy_ops.grid_interpolation", "scipy_ops.splines")
MODULES = {
    "numpy": (
        "along_axes.histograms", "entrywise.modified_bessel", "shapes.padding",
        "linear_algebra.polynomials", "along_axes.quantiles", "along_axes.sampled_functions",
    ),
    "numpy.linalg": ("linear_algebra.linalg", "linear_algebra.norms", "linear_algebra.decompositions", "linear_algebra.spectral_sums"),
    "numpy.fft": ("linear_algebra.fourier",),
    "numpy.polynomial": ("linear_algebra.polynomial_families",),
    "numpy.testing": ("assertions",),
    "scipy.special": _SPECIAL,
    "scipy.linalg": ("scipy_ops.dense_linalg", "scipy_ops.structured_systems"),
    "scipy.sparse": ("scipy_ops.sparse.sparse_functions", "scipy_ops.sparse.sparse_factorisations", "solvers.linear_iterations"),
    "scipy.integrate": ("scipy_ops.integrate", "solvers.quadrature", "solvers.ode_signatures"),
    "scipy.optimize": (
        "scipy_ops.rosenbrock", "solvers.minimiser_signatures", "solvers.root_finder_signatures", "solvers.implicit_loops",
    ),
    "scipy.stats": (*_SPECIAL, "scipy_ops.probability.stats"),
    "scipy.spatial.distance": ("scipy_ops.distance",),
    "scipy.interpolate": _INTERPOLATE,
    "scipy.ndimage": ("scipy_ops.ndimage",),
    "scipy.signal": ("scipy_ops.signal",),
}


def _import_tables(names: tuple[str, ...]) -> None:
    with no_fork:
        for name in names:
            imported(f".{name}", __package__)


hooks.vectorized = late("entrywise.numba_ufuncs", __package__, "call")  # functions of Numba's decorators
for _module, _names in MODULES.items():
    LAZY_TABLES[_module] = partial(_import_tables, _names)
