"""Scalar functions with NumPy's own meaning, NaN, infinities, signed zeros and integers included.

Each is a text for families of dtypes (``f`` real, ``i`` and ``u`` whole with and without sign,
``b`` truth values), compiled for the dtypes it is called with; what it returns becomes the dtype of
its first argument. Formulas follow numpy/_core/src/npymath (divmod) and the ufunc loops.

`gcd` is Euclid's algorithm (D. E. Knuth, The Art of
Computer Programming 2, 3rd ed., Addison-Wesley 1997, section 4.5.2, algorithm A).
"""

from __future__ import annotations

TEXTS: dict[str, tuple[tuple[str, str], ...]] = {
    "sign": (
        (
            "f",
            "def sign(x): return 1.0 if x > 0.0 else -1.0 if x < 0.0 else 0.0 if x == 0.0 else x",
        ),
        ("i", "def sign(x): return 1 if x > 0 else -1 if x < 0 else 0"),
        ("u", "def sign(x): return 1 if x > 0 else 0"),
    ),
    "heaviside": (
        ("f", "def heaviside(x, h): return h if x == 0 else 0.0 if x < 0 else 1.0 if x > 0 else x"),
    ),
    "isnan": (("f", "def isnan(x): return x != x"), ("iub", "def isnan(x): return False")),
    "isinf": (
        ("f", "def isinf(x): return abs(x) == 1e999"),
        ("iub", "def isinf(x): return False"),
    ),
    "isfinite": (
        ("f", "def isfinite(x): return abs(x) < 1e999"),
        ("iub", "def isfinite(x): return True"),
    ),
    "signbit": (
        ("f", "def signbit(x): return math.copysign(1.0, x) < 0.0"),
        ("iub", "def signbit(x): return x < 0"),
    ),
    "remainder": (
        (
            "f",
            """
def remainder(x, y):
    r = rt.frem(x, y)
    if r != 0.0:
        return r + y if (y < 0.0) != (r < 0.0) else r
    return math.copysign(r, y)""",
        ),
        ("iu", "def remainder(x, y): return x % y"),
    ),
    "floor_divide": (
        (
            "f",
            """
def floor_divide(x, y):
    if y == 0.0:
        return x / y
    r = rt.frem(x, y)
    q = (x - r) / y
    if r != 0.0 and (y < 0.0) != (r < 0.0):
        q = q - 1.0
    if q == 0.0:
        return math.copysign(q, x / y)
    whole = rt.floor(q)
    return whole + 1.0 if q - whole > 0.5 else whole""",
        ),
        ("iu", "def floor_divide(x, y): return x // y"),
    ),
    "fmod": (
        ("f", "def fmod(x, y): return rt.frem(x, y)"),
        (
            "i",
            """
def fmod(x, y):
    r = x % y
    return r - y if r != 0 and (x < 0) != (y < 0) else r""",
        ),
        ("u", "def fmod(x, y): return x % y"),
    ),
    "power": (
        (
            "iu",
            """
def power(x, y):
    out = x
    out = 1
    while y > 0:
        if y & 1:
            out = out * x
        x = x * x
        y = y >> 1
    return out""",
        ),
    ),
    "spacing": (
        (
            "f",
            """
def spacing(x):
    away = math.nextafter(x, math.copysign(x - x + 1e999, x))
    return math.nextafter(x, 1.0) if x == 0.0 else away - x""",
        ),
    ),
    "nextafter": (("f", "def nextafter(x, y): return math.nextafter(x, y)"),),
    "invert": (("iu", "def invert(x): return ~x"), ("b", "def invert(x): return not x")),
    "left_shift": (
        ("iu", "def left_shift(x, n): return x << n if 0 <= n and n < rt.bits(x) else x - x"),
    ),
    "right_shift": (
        (
            "i",
            """
def right_shift(x, n):
    return x >> n if 0 <= n and n < rt.bits(x) else -1 if x < 0 else 0""",
        ),
        ("u", "def right_shift(x, n): return x >> n if n < rt.bits(x) else x - x"),
    ),
    "gcd": (
        (
            "iu",
            """
def gcd(x, y):
    x = abs(x)
    y = abs(y)
    while y != 0:
        z = abs(x % y)
        x = y
        y = z
    return abs(x)""",
        ),
    ),
    "lcm": (
        (
            "iu",
            """
def lcm(x, y):
    g = rt.gcd(x, y)
    return g if g == 0 else abs(abs(x) // g) * abs(y)""",
        ),
    ),
}
