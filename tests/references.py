"""Derivatives of programs as users wrote them, which share no code with the package.

First derivatives by the complex step (Squire and Trapp, SIAM Review 40(1), 1998): no difference is
taken, so they are right to rounding. The program runs unmodified, but its module sees a NumPy whose
arrays are complex where they would have been float64, whose functions of modulus and angle are
continued analytically, and which orders numbers by their real parts. Second derivatives, and a
check of all this on the untouched program, by Richardson's extrapolation of central differences.
"""

import importlib.util
import math
import operator
import types

import numpy as np

TINY = 1e-40  # below every rounding error, and its square underflows relative to anything


def _real_dtype(dtype):
    return dtype in (None, float) or (isinstance(dtype, type) and issubclass(dtype, np.floating))


def _filled(make):
    """`np.zeros` and its like: complex where NumPy would give float64."""

    def made(*args, dtype=None, **options):
        return make(*args, dtype=complex if _real_dtype(dtype) else dtype, **options)

    return made


def _sign(x):
    return np.where(np.real(x) < 0, -1.0, np.where(np.real(x) > 0, 1.0, 0.0))


def _absolute(x):
    """|x| continued analytically; 0 has slope 0, as everywhere in this project."""
    return x * _sign(x) if np.ndim(x) else np.complex128(x * _sign(x))


def _arctan2(y, x):
    real = np.arctan2(np.real(y), np.real(x))
    slope = (np.real(x) * np.imag(y) - np.real(y) * np.imag(x)) / (
        np.real(x) ** 2 + np.real(y) ** 2
    )
    return real + 1j * slope


def _extreme(better):
    def chosen(a, b):
        a, b = np.broadcast_arrays(a, b)
        found = np.where(better(np.real(a), np.real(b)), a, b)
        return found if found.ndim else found[()]

    return chosen


def _norm(x, axis=None):
    return np.sqrt(np.sum(np.asarray(x) ** 2, axis=axis))


def _real_part_of(function):
    return lambda x, *rest: function(np.real(x), *rest)


class _ComplexLinalg:
    norm = staticmethod(_norm)

    def __getattr__(self, name):
        return getattr(np.linalg, name)


class ComplexNumPy:
    """`numpy` for the complex step: what a program finds under the name `np`."""

    linalg = _ComplexLinalg()
    zeros, ones, empty, eye, identity = map(
        staticmethod, map(_filled, (np.zeros, np.ones, np.empty, np.eye, np.identity))
    )
    abs = absolute = fabs = staticmethod(_absolute)
    sign = staticmethod(_sign)
    arctan2 = staticmethod(_arctan2)
    hypot = staticmethod(lambda x, y: np.sqrt(x * x + y * y))
    maximum = staticmethod(_extreme(operator.gt))
    minimum = staticmethod(_extreme(operator.lt))
    floor, ceil, rint, round, isnan, isinf, isfinite = map(
        staticmethod,
        map(
            _real_part_of,
            (np.floor, np.ceil, np.rint, np.round, np.isnan, np.isinf, np.isfinite),
        ),
    )

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def full(shape, value, dtype=None):
        whole = dtype is None and isinstance(value, int)
        return np.full(shape, value, complex if _real_dtype(dtype) and not whole else dtype)

    @staticmethod
    def array(data, dtype=None):
        return np.array(data, complex if dtype is float else dtype)


def _as_complex(x):
    """Floating arguments made complex, all of them: results are stored into copies of some."""
    if isinstance(x, float):
        return np.complex128(x)
    if isinstance(x, np.ndarray | np.floating) and x.dtype.kind == "f":
        return x.astype(complex)
    if isinstance(x, list | tuple):
        return type(x)(map(_as_complex, x))
    return x


def complex_module(module):
    """A copy of a user's module that computes with `ComplexNumPy`."""
    spec = importlib.util.spec_from_file_location(module.__name__ + "_complex", module.__file__)
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    copy.np = ComplexNumPy()
    copy.abs = lambda x: _absolute(x) if isinstance(x, np.complexfloating) else abs(x)
    return copy


def flat(outputs):
    """One vector of all outputs, in order."""
    parts = outputs if isinstance(outputs, tuple | list) else (outputs,)
    return np.concatenate([np.ravel(np.asarray(p)) for p in parts])


def _moved(args, argnum, change):
    args = list(args)
    moved = args[argnum] + change.reshape(np.shape(args[argnum]))
    args[argnum] = moved if np.ndim(moved) else moved[()]
    return args


def _units(x, step):
    return step * np.eye(np.size(x))


def jacobian(function, args, argnum):
    """Complex-step Jacobian, of shape (entries of all outputs, entries of the argument)."""
    module = complex_module(_module_of(function))
    continued = getattr(module, function.__name__)
    columns = []
    for unit in _units(args[argnum], 1j * TINY):
        moved = _moved(copies(map(_as_complex, args)), argnum, unit)
        columns.append(flat(continued(*moved)).imag / TINY)
    return np.stack(columns, axis=1)


def _module_of(function: types.FunctionType):
    return types.SimpleNamespace(
        __name__=function.__module__.rpartition(".")[2], __file__=function.__code__.co_filename
    )


def copies(args):
    """Programs may overwrite their arguments."""
    return [x.copy() if isinstance(x, np.ndarray) else x for x in args]


def extrapolated(function, step, levels=5):
    """Derivative at 0 of `function(t)`, by Richardson's extrapolation of central differences."""
    table = []
    for level in range(levels):
        h = step / 2**level
        row = [(function(h) - function(-h)) / (2 * h)]
        for k, before in enumerate(table[-1] if table else []):
            row.append(row[k] + (row[k] - before) / (4 ** (k + 1) - 1))
        table.append(row)
    return table[-1][-1]


def directional(function, args, argnum, direction, step=2e-5):
    """Directional derivative of the untouched program, by differences."""

    def along(t):
        return flat(function(*_moved(copies(args), argnum, t * direction)))

    return extrapolated(along, step, levels=3)


def hessian(function, args, argnum, step=1e-2):
    """Differences of complex-step gradients; steps are relative to entries larger than one."""
    x = args[argnum]
    rows = []
    for unit, size in zip(_units(x, 1.0), np.ravel(np.maximum(1.0, np.abs(x))), strict=True):

        def slope(t, unit=unit, size=size):
            return jacobian(function, _moved(args, argnum, t * size * unit), argnum)[0]

        rows.append(extrapolated(slope, step) / size)
    return np.stack(rows)


assert math.isclose(extrapolated(np.exp, 0.1), 1.0, rel_tol=1e-13)
