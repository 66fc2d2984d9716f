"""Numbers with gradient and Hessian, and complex steps, for plain NumPy programs given as text.

A program is run with a stand-in for `numpy` whose arrays hold objects (`exact`) or complex numbers
(`complex_step`): it takes the branches that the plain program takes, and shares no code with fdiff.
"""

import builtins
import math

import numpy as np

LARGEST = [0.0, 0.0, 0.0]  # of all values, slopes and curvatures since `exact` began


def scalar(method):
    """An operator of two numbers; arrays apply it entry by entry."""

    def operator(self, other):
        return NotImplemented if isinstance(other, np.ndarray) else method(self, other)

    return operator


class Number:
    """A value with its first and second derivatives by all entries of a point."""

    __slots__ = ("curvature", "slope", "value")

    def __init__(self, value, slope, curvature):
        self.value, self.slope, self.curvature = value, slope, curvature
        for k, part in enumerate((abs(value), np.max(np.abs(slope)), np.max(np.abs(curvature)))):
            if part > LARGEST[k]:
                LARGEST[k] = float(part)

    def by(self, value, first, second):
        """A function of this number, by its value and its two derivatives."""
        g = self.slope
        bend = first * self.curvature
        return Number(value, first * g, bend + second * np.outer(g, g) if second else bend)

    @scalar
    def __add__(self, other):
        if not isinstance(other, Number):
            return Number(self.value + other, self.slope, self.curvature)
        return Number(
            self.value + other.value, self.slope + other.slope, self.curvature + other.curvature
        )

    @scalar
    def __mul__(self, other):
        if not isinstance(other, Number):
            return Number(self.value * other, self.slope * other, self.curvature * other)
        a, b = self, other
        mixed = np.outer(a.slope, b.slope)
        return Number(
            a.value * b.value,
            a.value * b.slope + b.value * a.slope,
            a.value * b.curvature + b.value * a.curvature + mixed + mixed.T,
        )

    @scalar
    def __pow__(self, power):
        if isinstance(power, Number):
            return (power * self.log()).exp()
        v, n = self.value, power
        second = n * (n - 1) * v ** (n - 2) if n not in (0, 1) else 0.0
        return self.by(v**n, n * v ** (n - 1) if n else 0.0, second)

    @scalar
    def __rpow__(self, base):
        return (self * math.log(base)).exp()

    def reciprocal(self):
        v = self.value
        return self.by(1 / v, -1 / v**2, 2 / v**3)

    @scalar
    def __truediv__(self, other):
        return self * (other.reciprocal() if isinstance(other, Number) else 1 / other)

    @scalar
    def __rtruediv__(self, other):
        return self.reciprocal() * other

    def __neg__(self):
        return Number(-self.value, -self.slope, -self.curvature)

    @scalar
    def __sub__(self, other):
        return self + -other

    @scalar
    def __rsub__(self, other):
        return -self + other

    __radd__, __rmul__ = __add__, __mul__

    def __pos__(self):
        return self

    def __abs__(self):
        return -self if self.value < 0 else self

    @scalar
    def __lt__(self, other):
        return self.value < value_of(other)

    @scalar
    def __le__(self, other):
        return self.value <= value_of(other)

    @scalar
    def __gt__(self, other):
        return self.value > value_of(other)

    @scalar
    def __ge__(self, other):
        return self.value >= value_of(other)

    @scalar
    def __eq__(self, other):
        return self.value == value_of(other)

    @scalar
    def __ne__(self, other):
        return self.value != value_of(other)

    __hash__ = None

    @scalar
    def __mod__(self, other):
        return self.by(self.value % other, 1.0, 0.0)

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return int(self.value)

    __trunc__ = __int__

    def __floor__(self):
        return math.floor(self.value)

    def __ceil__(self):
        return math.ceil(self.value)

    def __round__(self):
        return round(self.value)

    def conjugate(self):
        return self

    @property
    def real(self):
        return self

    def sin(self):
        s, c = math.sin(self.value), math.cos(self.value)
        return self.by(s, c, -s)

    def cos(self):
        s, c = math.sin(self.value), math.cos(self.value)
        return self.by(c, -s, -c)

    def exp(self):
        e = math.exp(self.value)
        return self.by(e, e, e)

    def expm1(self):
        e = math.exp(self.value)
        return self.by(math.expm1(self.value), e, e)

    def log(self):
        v = self.value
        return self.by(math.log(v), 1 / v, -1 / v**2)

    def log1p(self):
        v = 1 + self.value
        return self.by(math.log1p(self.value), 1 / v, -1 / v**2)

    def sqrt(self):
        r = math.sqrt(self.value)
        return self.by(r, 0.5 / r, -0.25 / r**3)

    def tanh(self):
        t = math.tanh(self.value)
        e = math.exp(-2 * abs(self.value))
        slope = 4 * e / (1 + e) ** 2
        return self.by(t, slope, -2 * t * slope)

    def arctan(self):
        v = self.value
        return self.by(math.atan(v), 1 / (1 + v * v), -2 * v / (1 + v * v) ** 2)

    def square(self):
        return self * self


def value_of(x):
    return x.value if isinstance(x, Number) else x


ELEMENTWISE = ("sin", "cos", "exp", "expm1", "log", "log1p", "sqrt", "tanh", "arctan", "square")


def of_objects(name):
    plain = getattr(np, name)
    each = np.frompyfunc(lambda x: getattr(x, name)() if isinstance(x, Number) else plain(x), 1, 1)

    def entrywise(x, out=None):
        y = each(x) if np.asarray(x).dtype == object else plain(x)
        if out is None:
            return y
        out[...] = y
        return out

    return entrywise


def solve(a, b):
    """Gaussian elimination with partial pivoting, for any numbers."""
    a, b = np.array(a), np.array(b) + 0 * a[0, 0]
    n = len(a)
    for k in range(n):
        pivot = k + int(np.argmax([float(value_of(np.real(abs(v)))) for v in a[k:, k]]))
        a[[k, pivot]], b[[k, pivot]] = a[[pivot, k]], b[[pivot, k]]
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            a[i], b[i] = a[i] - factor * a[k], b[i] - factor * b[k]
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            b[k] = b[k] - a[k, j] * b[j]
        b[k] = b[k] / a[k, k]
    return b


def solve_banded(bands, ab, b):
    """`scipy.linalg.solve_banded`, by a full matrix."""
    n = len(b)
    a = np.zeros((n, n), ab.dtype)
    for i in range(n):
        for j in range(max(0, i - bands[0]), min(n, i + bands[1] + 1)):
            a[i, j] = ab[bands[1] + i - j, j]
    return solve(a, b)


class StandIn:
    """`numpy`, whose new arrays take numbers of a kind."""

    pi, inf, nan, newaxis, float64, ndarray = np.pi, np.inf, np.nan, None, np.float64, np.ndarray

    def __init__(self, dtype):
        self.dtype, self.linalg = dtype, Algebra(self)

    def __getattr__(self, name):
        if self.dtype is object and name in ELEMENTWISE:
            return of_objects(name)
        return getattr(np, name)

    def _new(self, made, dtype):
        return made.astype(self.dtype) if dtype in (None, float) else made

    def zeros(self, shape, dtype=None):
        return self._new(np.zeros(shape, dtype or float), dtype)

    def ones(self, shape, dtype=None):
        return self._new(np.ones(shape, dtype or float), dtype)

    def empty(self, shape, dtype=None):
        return self.zeros(shape, dtype)

    def eye(self, n):
        return np.eye(n).astype(self.dtype)

    def full(self, shape, value):
        return np.full(shape, value, self.dtype)

    def zeros_like(self, x):
        return np.zeros(np.shape(x), self.dtype)

    empty_like = zeros_like

    def ones_like(self, x):
        return np.ones(np.shape(x), self.dtype)

    def array(self, x, dtype=None):
        made = np.array(x)
        return self._new(made, dtype) if made.dtype == float else made

    def asarray(self, x):
        return x if isinstance(x, np.ndarray) and x.dtype != float else self.array(x)

    def copy(self, x):
        return np.copy(x)

    def abs(self, x):
        return abs(x) if self.dtype is object else np.where(np.real(x) < 0, -x, x)[()]

    def copysign(self, x, sign):
        return self.abs(x) * np.copysign(1.0, sign)

    def linspace(self, *bounds):
        return self.array(np.linspace(*bounds))

    def diag(self, x):
        return self.array(np.diag(x))

    def isnan(self, x):
        return np.frompyfunc(lambda v: math.isnan(np.real(value_of(v))), 1, 1)(x)

    def clip(self, x, low, high):
        return np.minimum(np.maximum(x, low), high)


class Algebra:
    """`numpy.linalg` of any numbers."""

    def __init__(self, library):
        self.library = library

    def solve(self, a, b):
        return solve(np.asarray(a).astype(self.library.dtype), b)

    def inv(self, a):
        return self.solve(a, self.library.eye(len(a)))

    def norm(self, x):
        return self.library.sqrt(np.sum(x * x))

    def cholesky(self, a):
        n = len(a)
        low = self.library.zeros((n, n))
        for j in range(n):
            low[j, j] = self.library.sqrt(a[j, j] - low[j, :j] @ low[j, :j])
            for i in range(j + 1, n):
                low[i, j] = (a[i, j] - low[i, :j] @ low[j, :j]) / low[j, j]
        return low


def floating(x=0.0):
    """`float`, which keeps derivatives: what it makes is a part of the function."""
    x = np.asarray(x)[()]
    return x if isinstance(x, Number) or np.iscomplexobj(x) else builtins.float(x)


def functions_of(text, name, dtype=None, library=()):
    """What a text defines, run with NumPy or with its stand-in, and more names."""
    space = {"__name__": name, "np": np, **dict(library)}
    if dtype is not None:
        space |= {"np": StandIn(dtype), "float": floating, "solve_banded": solve_banded}
        text = text.replace("import numpy as np\n", "\n")
        text = text.replace("from scipy.linalg import solve_banded\n", "\n")
    exec(compile(text, f"<{name}>", "exec"), space)
    return space


def exact(text, name, x, library=()):
    """Value, gradient, Hessian, and the largest of each among all intermediate numbers."""
    LARGEST[:] = [0.0, 0.0, 0.0]
    return run(functions_of(text, name, object, library)[name], x), tuple(LARGEST)


def run(f, x):
    """Value, gradient and Hessian of a function that computes with numbers."""
    n = len(x)
    steps, flat = np.eye(n), np.zeros((n, n))
    point = np.array([*(Number(float(v), steps[k], flat) for k, v in enumerate(x)), None])[:-1]
    y = f(point)
    y = y if isinstance(y, Number) else np.asarray(y).item()
    return (y.value, y.slope, y.curvature) if isinstance(y, Number) else (y, np.zeros(n), flat)


def complex_step(text, name, x, direction, library=()):
    """The derivative in a direction, by a complex step."""
    f = functions_of(text, name, complex, library)[name]
    return np.imag(f(np.asarray(x) + 1e-60j * np.asarray(direction))) / 1e-60
