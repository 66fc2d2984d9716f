"""Every public function of SciPy on recorded arrays: the derivative of differences, or an error.

Functions are called with arguments that they may take. Where the results for plain arrays are
smooth numbers that move with these, recorded arrays must give arrays with that slope, or raise.
"""

import importlib
import warnings
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from fdiff import autograd
from fdiff.autograd import RecordedArray, tensor
from fdiff.errors import FdiffError

RNG = np.random.default_rng(0)
V = np.array([0.31, 0.42, 0.58, 0.77])
W = np.array([0.9, 0.35, 0.5, 0.2])
M = RNG.normal(size=(4, 4)) + 4.0 * np.eye(4)
S = M @ M.T
ARGUMENTS = [
    (V,), (V, W), (S,), (M, V), (V, 2), (2, V), (2, V, W), (V, W, V + 1), (0.6,), (0.5, 1.5),
    (2, 0.6), (M, M), (np.sin, V), (V, V, W), (S, 2), (V + 1, W + 1, V + 2, W + 2),
]  # fmt: skip
# With a number of calls that can be compared, at the least.
MODULES = {
    "integrate": 20, "interpolate": 10, "linalg": 150, "optimize": 15, "spatial.distance": 35,
    "sparse": 4, "fft": 100, "special": 1200, "stats": 400, "signal": 240, "ndimage": 200,
    "cluster.vq": 10, "cluster.hierarchy": 8, "sparse.linalg": 20,
}  # fmt: skip
# What breaks the process, reads files, or draws numbers that no seed of NumPy's decides.
LEFT_OUT = ("mathieu", "obl_", "pro_", "ellip_", "distance_transform", "_", "download", "show_")
DISTRIBUTIONS = ("norm", "gamma", "burr", "triang")
METHODS = ("pdf", "logpdf", "cdf", "ppf", "mean", "entropy", "moment", "expect", "fit")
H = 1e-6


def functions(name):
    """The public functions of a module, by name; of a few distributions the methods."""
    module = importlib.import_module(f"scipy.{name}")
    for key in sorted(getattr(module, "__all__", dir(module))):
        value = getattr(module, key)
        if isinstance(value, type | ModuleType) or not callable(value) or key.startswith(LEFT_OUT):
            continue
        if isinstance(value, stats.rv_continuous | stats.rv_discrete):
            for method in METHODS if key in DISTRIBUTIONS else ():
                yield f"{key}.{method}", getattr(value, method)
        elif key not in ("test", "ascent", "face", "electrocardiogram"):
            yield key, value


def numbers(result, depth=0):
    """The arrays and floats in a result."""
    if isinstance(result, np.ndarray | np.generic | float | RecordedArray):
        return [result] if result_dtype(result).kind in "fc" else []
    parts = ()
    if isinstance(result, tuple | list):
        parts = result
    elif isinstance(result, dict):
        parts = result.values()
    elif hasattr(result, "_asdict"):
        parts = result._asdict().values()
    return [x for part in parts for x in numbers(part, depth + 1)] if depth < 3 else []


def result_dtype(x):
    return getattr(x, "dtype", np.dtype(float))


def call(f, args):
    np.random.seed(0)  # noqa: NPY002 - what SciPy draws from
    return numbers(f(*args))


def slopes(f, args, places, directions):
    """The derivatives of the numbers by differences; None where they are not smooth there."""
    found = []
    for h in (H, H / 2):
        up, down = ([*args], [*args])
        for k, d in zip(places, directions, strict=True):
            up[k], down[k] = args[k] + h * d, args[k] - h * d
        high, low = call(f, up), call(f, down)
        if [np.shape(x) for x in high] != [np.shape(x) for x in low]:
            return None
        pairs = zip(high, low, strict=True)
        found.append([(np.asarray(a) - np.asarray(b)) / (2 * h) for a, b in pairs])
    pairs = zip(*found, strict=True)
    smooth = all(np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in pairs)
    moves = any(np.any(np.abs(x) > 1e-4) for x in found[0])
    return found[0] if smooth and moves else None


def fault(f, args):
    """What is wrong with the derivative of a call; None where there is none to compare."""
    places = [k for k, a in enumerate(args) if isinstance(a, np.ndarray | float)]
    directions = [np.random.default_rng(k).normal(size=np.shape(args[k])) for k in places]
    try:
        expected = slopes(f, args, places, directions)
    except Exception:  # noqa: BLE001 - whatever SciPy says to such arguments
        return None
    if expected is None:
        return None
    given = [*args]
    for k in places:
        given[k] = tensor(args[k], requires_grad=True)
    leaves = [given[k] for k in places]
    try:
        found = call(f, given)
    except (FdiffError, RuntimeError, TypeError, ValueError, AttributeError, IndexError):
        return ""
    if len(found) != len(expected):  # an object that is made of recorded arrays
        return ""
    for x, slope in zip(found, expected, strict=True):
        if np.iscomplexobj(slope) or not np.any(np.abs(slope) > 1e-4) or np.any(np.isnan(slope)):
            continue
        if not getattr(x, "requires_grad", False):
            return f"no gradient where the slope is {slope.ravel()[:3]}"
        try:
            bars = autograd.grad(x, leaves, np.ones(x.shape), retain_graph=True, allow_unused=True)
        except FdiffError:
            continue
        pairs = zip(bars, directions, strict=True)
        slope_found = sum(0.0 if g is None else np.sum(g.numpy() * d) for g, d in pairs)
        if abs(slope_found - np.sum(slope)) > 1e-3 * (1.0 + abs(np.sum(slope))):
            return f"{slope_found} where the slope is {np.sum(slope)}"
    return ""


def sweep(module):
    """The faults of a module, and how many calls were compared."""
    faults, count = [], 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, f in functions(module):
            for k, args in enumerate(ARGUMENTS):
                found = fault(f, args)
                count += found is not None
                if found:
                    faults.append(f"scipy.{module}.{name}, arguments {k}: {found}")
    return faults, count


@pytest.mark.parametrize(("module", "least"), MODULES.items())
def test_no_derivative_is_lost(module, least):
    faults, count = sweep(module)
    assert faults == []
    assert count >= least
