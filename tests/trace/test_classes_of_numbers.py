"""Numbers in a function have the class of plain code: they are floats of Python's, or NumPy's."""

import linecache
import math
from unittest.mock import patch

import numpy as np
import pytest

import fdiff
from fdiff.dispatch.program import Program
from fdiff.trace import looping

NAMES = """
    acos asin asinh atan atanh cbrt cos cosh degrees exp exp2 expm1 fabs log log10 log1p log2
    radians sin sinh sqrt tan tanh ulp erf erfc gamma lgamma acosh
"""
EXPRESSIONS = [
    *(f"math.{name}({'1.5' if name == 'acosh' else '0.4'} + 0.1 * s)" for name in NAMES.split()),
    "math.atan2(s, 0.7)", "math.atan2(0.7, s)", "math.copysign(0.3, s)", "math.copysign(s, -1.0)",
    "math.fmod(s + 3.0, 1.3)", "math.hypot(s, 0.5)", "math.hypot(s)", "math.hypot(s, 0.5, s)",
    "math.pow(abs(s) + 0.1, 1.5)", "math.pow(s, 2)", "math.remainder(s + 3.0, 1.3)",
    "math.ldexp(s, 1)", "math.modf(s + 1.2)[0]", "math.modf(s + 1.2)[1] * 0.1",
    "math.frexp(s + 1.2)[0]", "math.frexp(s + 1.2)[1] * 0.1", "math.nextafter(s, 2.0)",
    "math.fsum([s, 0.2])", "math.fsum([s, s])", "math.fsum([s])", "math.prod([s, 0.2])",
    "math.prod([s, s])", "math.prod([s])", "math.prod([]) * s", "math.dist([s, 0.2], [0.1, 0.3])",
    "math.dist([s], [0.1])", "math.dist([s, t, s], [t, s, 0.2])", "math.log(abs(s) + 1.2, 2.5)",
    "math.floor(s + 5.3) * 0.1", "math.ceil(s + 0.2) * 0.1", "math.trunc(s + 4.2) * 0.1",
    "abs(s)", "abs(math.sin(s))", "abs(complex(s, 0.2))", "round(s, 2)", "round(s, 0)",
    "round(math.sin(s), 3)", "round(s + 3.0) * 0.1", "float(s)", "float(np.sin(s))",
    "float(s) + np.float64(0.1)", "float(s) * float(t)", "float(max(s, t))", "np.float64(s)",
    "float(np.mean(np.array([s, t])))", "max(s, 0.3)", "max(0.3, s)", "max([s, 0.1])",
    "max(s, t)", "max(s, -1)", "max(math.sin(s), math.cos(s))", "max((s, t), key=abs)",
    "min(s, 0.3)", "min(0.9, s)", "min(s, t)", "min(math.sin(s), 0.2, np.float64(0.1))",
    "sum([s, 0.1])", "sum([s, s])", "sum([s], 0.5)", "sum([math.sin(s), math.cos(s)])",
    "pow(abs(s) + 0.1, 2)", "pow(abs(s) + 0.1, 0.5)", "pow(s, 2)", "int(s + 5.3) * 0.1",
    "divmod(s + 3.0, 1.3)[0] * s", "divmod(s + 3.0, 1.3)[1]", "divmod(3.0, s + 1.3)[1]",
    "s + 1", "s * 2.0", "s + np.float64(0.2)", "np.float64(0.2) * s", "-s", "+s", "s ** 2",
    "(abs(s) + 0.1) ** 0.5", "2.0 ** s", "s / 3", "1.0 / (s + 2.0)", "s % 1.3", "s - t", "s * t",
    "(s + 3.0) // 1.3 * 0.2", "math.cos(s) * np.float64(2.0)", "math.cos(s) + k", "k * 0.1 + s",
    "-math.sin(s)", "math.sin(s) ** 2", "math.e * s", "0.3", "0.3 if s > 9.0 else s", "bool(s) * s",
    "np.sin(s)", "np.abs(s)", "np.maximum(s, 0.3)", "np.array([s, 0.2])[0]", "np.dot(s, 0.3)",
    "np.sum(np.array([s, t]))", "np.mean([s, t])", "np.clip(s, 0.0, 0.4)", "np.round(s, 2)",
    "np.where(s > 0.1, s, 0.3)[()]", "np.modf(s + 1.2)[0]", "np.frexp(s)[0]", "np.square(s)",
    "np.divmod(s + 3.0, 1.3)[1]", "s.real", "s.imag + s", "s.conjugate()", "(s + 0j).real",
    "abs(s + 0.2j)", "(s * 1j).imag", "np.real(s)", "np.imag(s) + 0.3 * s",
]  # fmt: skip
SIZE = 12
GROUPS = [EXPRESSIONS[k : k + SIZE] for k in range(0, len(EXPRESSIONS), SIZE)]
STARTS = {
    "python": ("p", "2.0 * p"),
    "numpy": ("x[0]", "x[1]"),
    "float": ("float(x[0])", "float(x[1])"),
    "both": ("p", "x[1]"),
}
WAYS = {
    "unrolled": ("unroll", {}),
    "compared": ("check", {}),
    "chosen": ("check", {"choosing": True, "eager": False}),
    "eager": ("unroll", {"eager": True}),
}
X, P = np.array([0.31, 0.42, 0.53]), 0.37


def text_of(expressions, start, place):
    """A function that gives the values and the classes of expressions, alone or in a loop."""
    a, b = STARTS[start]
    names = [f"r{k}" for k in range(len(expressions))]
    own = [f"{name} = {text}" for name, text in zip(names, expressions, strict=True)]
    ends = {
        "alone": [],
        "kept": ["s = s * 0.99 + 0.001 * x[2]", "u = np.sin(s)"],
        "carried": [f"s = 0.2 + 0.01 * ({' + '.join(names)})", "u = np.sin(s)"],
        "branching": ["s = s * 0.7 if s > 0.3 else s * 1.3 + 0.001 * x[2]", "u = np.sin(s)"],
    }
    head = "import math\nimport numpy as np\ndef f(x, p):\n"
    loop = [f"s = {a}", f"t = {b}", "k = 3", f"{' = '.join(names)} = None"]
    if place != "alone":
        loop.append("for k in range(45):")
        own = ["    " + line for line in [*own, *ends[place]]]
    told = ", ".join(f"type({name}).__name__" for name in [*names, "s"])
    loop += [*own, f"return [{', '.join(names)}, s], [{told}]"]
    return head + "".join(f"    {line}\n" for line in loop)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_classes_are_those_of_plain_code(group, way, monkeypatch):
    loops, options = WAYS[way]
    monkeypatch.setenv("FDIFF_LOOPS", loops)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    monkeypatch.setattr(looping, "SLEEP", 0)
    trace, expressions = Program.trace, GROUPS[group]
    if not hasattr(math, "exp2"):
        expressions = [text for text in expressions if "exp2" not in text]

    def choosing(*args, **own):
        return trace(*args, **(own | options))

    places = ("alone", "kept", "carried", "branching")
    for start in STARTS:
        for place in places if way != "chosen" else places[2:]:
            text = text_of(expressions, start, place)
            name, space = f"<classes {group} {start} {place} {way}>", {}
            exec(compile(text, name, "exec"), space)
            f, source = space["f"], (len(text), None, text.splitlines(True), name)
            values, classes = f(X.copy(), P)
            with (
                patch.dict(linecache.cache, {name: source}),
                patch.object(Program, "trace", choosing),
            ):
                ours, own = fdiff.jit(f)(X.copy(), P)
            wrong = [
                (text, a, b)
                for text, a, b in zip([*expressions, "s"], own, classes, strict=True)
                if a != b
            ]
            assert not wrong, (start, place)
            np.testing.assert_allclose(ours, values, rtol=1e-12, atol=1e-14)
            assert all(isinstance(number, float) for number in ours)
