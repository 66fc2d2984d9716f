"""`scipy.stats`: densities, distribution functions and quantiles, differentiated in the point and all parameters."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import fdiff.intact_numpy as np
from fdiff.intact_scipy import stats as st

from ....foreign_errors import hiding, wraps
from ....primitive import LIBRARY_OBJECTS
from ....trace import Array, Operand, TracedArray, replaces, root_trace, unsupported
from ....trace.handler_arguments import resolve
from ....trace.local_arrays import localised
from ...along_axes.reductions import as_scalar
from ...scipy_functions import concrete_only, involves_traced, patch_method
from ...shapes.shaping import traced
from .distributions import DISTRIBUTIONS, INF, Formula, Law, of_reals
from .more_distributions import MORE_DISTRIBUTIONS
from .multivariate_distributions import dirichlet, normal

CONTINUOUS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
DISCRETE = ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf")


# --- from the standard form to the call -------------------------------------------------------


def _always(condition: object) -> bool:
    """Whether a condition is known to hold."""
    return not isinstance(condition, TracedArray) and bool(np.all(condition))


def _standard(x: object, loc: object, scale: object) -> TracedArray:
    """``(x - loc) / scale`` in double precision."""
    z = of_reals(x)
    z = z if type(loc) is int and loc == 0 else z - loc
    z = z if type(scale) is int and scale == 1 else z / scale
    return z.astype(np.float64)


def _density(law: Law, name: str, z: TracedArray, shapes: tuple[Operand, ...], scale: Operand) -> Array:
    """Density at a point in standard form; 0 outside of the support, for discrete distributions between integers too."""
    low, high = law.support(*shapes)
    off = [end for end, bounded in ((z < low, _bounded(low)), (z > high, _bounded(high))) if bounded]
    logarithm, discrete = name.startswith("log"), name.endswith("pmf")
    off += [(np.floor(z) != z) & ~np.isnan(z)] if discrete else []
    outside: object = off[0] if off else False
    for more in off[1:]:
        outside = outside | more
    held = np.where(outside, law.inside, z) if off else z
    value = law.formula(name)(np.floor(held) if discrete else held, *shapes)
    if not (type(scale) is int and scale == 1):
        value = value - np.log(scale) if logarithm else value / scale
    value = np.where(outside, -INF if logarithm else 0.0, value) if off else value
    return np.where(np.isnan(z), np.nan, value)


def _bounded(end: Array) -> bool:
    return isinstance(end, TracedArray) or not np.all(np.isinf(end))


def _probability(law: Law, name: str, z: TracedArray, shapes: tuple[Operand, ...]) -> Array:
    """Distribution function at a point in standard form; 0 or 1 beyond the ends of the support."""
    low, high = law.support(*shapes)
    discrete = "logpmf" in law.formulas
    below, above = (0.0, 1.0) if name.endswith("cdf") else (1.0, 0.0)
    if name.startswith("log"):
        below, above = (-INF, 0.0) if name == "logcdf" else (0.0, -INF)
    under, over = z < low, z > high
    if discrete or law.inner_only or name == "logsf":  # whose logarithm has no derivative there
        over = z >= high
    if not discrete and (law.inner_only or name == "logcdf"):
        under = z <= low
    ends = [(c, v) for c, v, end in ((under, below, low), (over, above, high)) if _bounded(end)]
    held = z
    for condition, _ in ends:
        held = np.where(condition, law.inside, held)
    if discrete:
        held = np.floor(held)
        # So that n - k stays positive, where n is the first parameter.
        top = np.where(over, high + 1.0, high) if _bounded(high) and shapes and high is shapes[0] else None
        shapes = shapes if top is None else (top, *shapes[1:])
    value = law.formula(name)(held, *shapes)
    for condition, end in ends:
        value = np.where(condition, end, value)
    return np.where(np.isnan(z), np.nan, value)


def _quantile(law: Law, name: str, q: object, shapes: tuple[Operand, ...], loc: Operand, scale: Operand) -> Array:
    low, high = law.support(*shapes) if name == "ppf" else law.support(*shapes)[::-1]
    p = of_reals(q).astype(np.float64)
    within = (p > 0) & (p < 1) if law.steep else (p >= 0) & (p <= 1)
    value = law.formula(name)(np.where(within, p, 0.5), *shapes)
    end = np.where(p == 0, low, np.where(p == 1, high, np.nan))
    if law.steep:
        end = end + np.sqrt(p if name == "ppf" else 1.0 - p) * (1.0 / shapes[0])
    value = np.where(within & ~np.isnan(value) & ~np.isinf(end), value, end)
    value = value if type(scale) is int and scale == 1 else value * scale
    return value if type(loc) is int and loc == 0 else value + loc


def _function_of(law: Law, name: str, x: object, parameters: tuple[tuple[object, ...], object, object]) -> Array:
    shapes, loc, scale = parameters
    shapes = tuple([s if isinstance(s, TracedArray) else np.asarray(s, np.float64) for s in shapes])
    if name in ("ppf", "isf"):
        value = _quantile(law, name, x, shapes, loc, scale)
    else:
        z = _standard(x, loc, scale)
        dense = name.endswith(("pdf", "pmf"))
        value = _density(law, name, z, shapes, scale) if dense else _probability(law, name, z, shapes)
    good = law.allowed(*shapes) & (scale > 0 if isinstance(scale, TracedArray) else np.greater(scale, 0))
    return as_scalar(traced(value if _always(good) else np.where(good, value, np.nan)))


# --- what stands for the objects of scipy.stats -----------------------------------------------


def _notice_chance(name: str) -> None:
    """Note that random numbers are drawn: the function is then traced anew at each call."""
    session = root_trace().session
    if session is not None:
        session.note(f"random numbers (`{name}`)")


class TracedDistribution:
    """The traced counterpart of a distribution; calls without a traced argument go to SciPy's object.

    ``compute(name, *args, **keywords)`` is one of its functions `names`.
    """

    def __init__(self, real: object, name: str, names: tuple[str, ...], compute: Formula) -> None:
        self._real, self._name, self._names, self._compute = real, name, names, compute

    @property
    @hiding
    def __class__(self) -> type:  # type: ignore[override] - none sets it
        return self._real.__class__

    @hiding
    def __getattr__(self, name: str) -> object:
        attribute = getattr(self._real, name)
        if name.startswith("_") or not callable(attribute):
            return attribute

        def method(*args: object, **keywords: object) -> object:
            if name == "rvs":
                _notice_chance(f"scipy.stats.{self._name}.rvs")
            arguments, named = tuple(map(resolve, args)), {k: resolve(v) for k, v in keywords.items()}
            if not involves_traced((*arguments, *named.values())):
                return localised(attribute(*arguments, **named))
            if name not in self._names:
                raise unsupported(f"scipy.stats.{self._name}.{name}")
            return self._compute(name, *arguments, **named)

        return method

    def __call__(self, *args: object, **keywords: object) -> object:
        arguments, named = tuple(map(resolve, args)), {k: resolve(v) for k, v in keywords.items()}
        moving = involves_traced((*arguments, *named.values()))
        return FrozenDistribution(self, arguments, named) if moving else self._real(*arguments, **named)

    freeze = __call__


class FrozenDistribution:
    """A distribution with its parameters, some of them traced."""

    def __init__(self, dist: TracedDistribution, args: tuple[object, ...], kwds: dict[str, object]) -> None:
        self.dist, self.args, self.kwds = dist, args, kwds

    @hiding
    def __getattr__(self, name: str) -> object:
        method = getattr(self.dist, name)
        return (lambda *points: method(*points, *self.args, **self.kwds)) if callable(method) else method


def _computed(real: object, law: Law) -> Formula:
    def compute(name: str, *args: object, **keywords: object) -> Array:
        point = "q" if name in ("ppf", "isf") else "k" if "logpmf" in law.formulas else "x"
        first, *others = args or (keywords.pop(point, None),)
        if first is None:
            raise TypeError(f"{name}() missing 1 required positional argument: '{point}'")
        return _function_of(law, name, first, real._parse_args(*others, **keywords))

    return compute


TRACED_DISTRIBUTIONS: dict[type, TracedDistribution] = {}
for _real, _entry in (*DISTRIBUTIONS, *MORE_DISTRIBUTIONS):
    _names = DISCRETE if "logpmf" in _entry.formulas else CONTINUOUS
    TRACED_DISTRIBUTIONS[type(_real)] = TracedDistribution(_real, _entry.name, _names, _computed(_real, _entry))
for _real, _names, _formula in (
    (st.multivariate_normal, ("pdf", "logpdf", "entropy"), normal),
    (st.dirichlet, ("pdf", "logpdf", "mean", "var", "entropy"), dirichlet),
):
    TRACED_DISTRIBUTIONS[type(_real)] = TracedDistribution(_real, type(_real).__name__.removesuffix("_gen"), _names, _formula)
for _counterpart in TRACED_DISTRIBUTIONS.values():
    replaces(_counterpart._real)(_counterpart)

# Bound methods taken from a distribution outside of the function: under trace their owner is the counterpart.


def _unbound(function: Formula, name: str) -> Callable[..., object]:
    @wraps(function)
    def call(owner: object, *args: object, **keywords: object) -> object:
        held = owner if type(owner) is TracedDistribution else None
        return (concrete_only(function) if held is None else getattr(held, name))(
            *(() if held is not None else (owner,)), *args, **keywords
        )

    return call


_KINDS = (*st.rv_continuous.__mro__, st.rv_discrete, type(st.multivariate_normal), type(st.dirichlet))
for _class in _KINDS:
    for _name in {*CONTINUOUS, *DISCRETE, "entropy", "mean", "var", "__call__", "freeze"}:
        if isinstance(vars(_class).get(_name), FunctionType):
            replaces(vars(_class)[_name])(_unbound(vars(_class)[_name], _name))

# Distributions that were frozen outside of the function hold their parameters in attributes.


def _of_traced_distribution(name: str) -> Callable[..., object]:
    """The method of the frozen distribution's traced counterpart."""

    def method(self: object, *args: object, **keywords: object) -> object:
        points = (*args, *keywords.values())
        if type(self) in (_DIRICHLET, _NORMAL):
            parameters, counterpart_of = LIBRARY_OBJECTS[type(self)]
            self = counterpart_of(self, *(getattr(self, p) for p in parameters))
        if type(self) is FrozenDistribution:
            return getattr(self, name)(*points)
        dist = getattr(self, "dist", None) or self._dist
        counterpart = TRACED_DISTRIBUTIONS.get(type(dist))
        if counterpart is None:
            raise unsupported(f"scipy.stats.{getattr(dist, 'name', type(dist).__name__)}.{name}")
        return getattr(counterpart, name)(*points, *self.args, **self.kwds)

    return method


_NORMAL, _DIRICHLET = type(st.multivariate_normal()), type(st.dirichlet([1.0, 1.0]))
for _class in {c for kind in (type(st.norm()), type(st.poisson(1)), _NORMAL, _DIRICHLET) for c in kind.__mro__}:
    for _name in {*CONTINUOUS, *DISCRETE}:
        if _name in vars(_class):
            patch_method(_class, _name, _of_traced_distribution(_name))


def _frozen(value: object, kind: type, args: tuple[object, ...], kwds: dict[str, object]) -> object:
    """The counterpart of a captured frozen distribution; one without formulas stays as it is."""
    counterpart = TRACED_DISTRIBUTIONS.get(kind)
    return value if counterpart is None else FrozenDistribution(counterpart, args, dict(kwds))


for _class in (type(st.norm()), type(st.poisson(1))):
    LIBRARY_OBJECTS[_class] = ("type:dist", "args", "kwds"), _frozen


def _frozen_vector(counterpart: TracedDistribution) -> Callable[..., object]:
    """The counterpart of a captured frozen distribution of vectors, from its parameters."""
    return lambda value, *args: FrozenDistribution(counterpart, args, {})


LIBRARY_OBJECTS[_DIRICHLET] = ("alpha",), _frozen_vector(TRACED_DISTRIBUTIONS[type(st.dirichlet)])
LIBRARY_OBJECTS[_NORMAL] = ("mean", "cov", "allow_singular"), _frozen_vector(TRACED_DISTRIBUTIONS[type(st.multivariate_normal)])
