# ruff: noqa: UP031 - users format so
"""Lists, tuples, ranges and texts beside traced and captured scalars and arrays.

Python and NumPy say what each operator gives: integers of NumPy repeat sequences, and arrays do
arithmetic with them.
"""

import array
import collections
import copy
import logging
import operator
import warnings

import numpy as np
import pytest

import fdiff
from fdiff.errors import TraceError

pytestmark = pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")

SEQUENCES = {
    "list": [1.0, 2.0],
    "integers": [1, 2],
    "nested": [[1.0], [2.0]],
    "empty": [],
    "tuple": (1.0, 2.0),
    "range": range(2),
    "str": "ab",
    "bytes": b"ab",
    "bytearray": bytearray(b"ab"),
    "deque": collections.deque([1.0, 2.0]),
    "array": array.array("f", [1.0, 2.0]),
    "%d": "%d",
    "%.1f": "%.1f",
    "%s": "%s",
}
DATA = {
    "integers": np.array([2, 3]),
    "negative": np.array([-1, 3]),
    "narrow": np.array([0, 3], np.int32),
    "unsigned": np.array([2, 3], np.uint8),
    "truth values": np.array([True, False]),
    "numbers": np.array([2.0, 1.0]),
    "single": np.array([2.0, 1.0], np.float32),
    "complex": np.array([2.0 + 1j, 1.0]),
}
PARTS = {
    "scalar": lambda a: a[0],
    "0-d array": lambda a: a[:1].reshape(()),
    "array": lambda a: a[:2],
}
OPERATORS = {
    name: getattr(operator, name)
    for name in [
        "add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "and_", "or_", "lshift", "eq",
        "ne", "lt", "ge", "getitem", "contains", "iadd", "isub", "imul", "itruediv", "imod", "iand",
    ]
} | {"slice": lambda a, b: a[:b], "divmod": divmod}  # fmt: skip
# Python reads the bytes of NumPy's own numbers here, or prints complex ones; here they raise.
REFUSED = {"bytes": {"add", "iadd", "contains"}, "%d": {"mod", "imod"}, "%.1f": {"mod", "imod"}}
REFUSED["bytearray"] = {*REFUSED["bytes"], "eq", "ne", "lt", "ge"}


def outcomes(a, sequence):
    """What every operator gives, with `a` on either side: errors as None."""
    found = {}
    for name, act in OPERATORS.items():
        for swap in (False, True):
            operands = (copy.copy(sequence), a())
            try:
                found[name, swap] = act(*(operands[::-1] if swap else operands))
            except (TypeError, ValueError, IndexError, TraceError):
                found[name, swap] = None
    return found


def numeric(value):
    return hasattr(value, "dtype") or (isinstance(value, list | tuple) and len(value) > 0)


@pytest.mark.parametrize("how", ["an argument", "captured"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", SEQUENCES)
def test_operators_give_what_python_and_numpy_give(kind, part, how):
    sequence, pick = SEQUENCES[kind], PARTS[part]
    for data in DATA.values():
        plain, traced = {}, {}

        def f(x, a):
            a = a if how == "an argument" else data
            results = outcomes(lambda: pick(a.copy()), sequence)
            traced.update({k: v for k, v in results.items() if not numeric(v)})
            return {str(k): v for k, v in results.items() if numeric(v)}

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            plain.update(outcomes(lambda: pick(data.copy()), sequence))
            numbers = fdiff.jit(f)(1.0, data)
        for key, expected in plain.items():
            actual = numbers.get(str(key), traced.get(key))
            if actual is None and key[0] in REFUSED.get(kind, ()):
                continue
            assert type(actual) is type(expected), (key, actual, expected)
            np.testing.assert_equal(actual, expected, str(key))
            if isinstance(expected, np.ndarray):
                assert actual.dtype == expected.dtype, key


# ------------------------------------------------------------------------------ repeated sequences


class Model:
    counts = np.array([2, 3])


COUNTS = np.array([2, 3])
X = np.array([2.3, 3.1, 0.7])
TIMES = {  # an integer out of an array, and out of that after the array has changed
    "a global": lambda x: COUNTS[0],
    "an attribute": lambda x: Model.counts[0],
    "a sum": lambda x: (COUNTS > 1).sum(),
    "a maximum": lambda x: COUNTS.max() + 1,
    "an extremum's place": lambda x: np.argmax(x) + 1,
    "a count": lambda x: np.count_nonzero(x > 1.0),
    "an integer of a narrow type": lambda x: COUNTS.astype(np.int8)[1],
    "a negative number": lambda x: -COUNTS[0],
}
REPEATED = {
    "list": lambda x, n: [x[0]] * n + [x[1] ** 2],
    "from the left": lambda x, n: n * [x[0], x[2]] + [x[1] ** 2],
    "tuple": lambda x, n: (x[0], x[2]) * n + (x[1] ** 2,),
    "nested": lambda x, n: [[x[0], x[1]]] * n + [[x[2], 1.0]],
    "number for number": lambda x, n: [v * w for v, w in zip([2.0] * n, [x[0]] * n, strict=True)],
}


def repeated_in_place(x, n):
    rows = other = [x[0]]
    rows *= n
    return [*other, x[1] ** 2]


REPEATED["in place"] = repeated_in_place


def differences(f, x, step=1e-6):
    return np.array([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(x.size)])


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("case", REPEATED)
def test_integers_out_of_arrays_repeat_sequences(case, times):
    n, make = TIMES[times], REPEATED[case]

    def f(x):
        row = np.array(make(x, n(x)))
        return np.sum(row * np.arange(1.0, 1 + row.size).reshape(row.shape))

    g = fdiff.value_and_grad(f)
    for first in (2, 1, 4):
        COUNTS[0] = Model.counts[0] = first
        value, grad = g(X)
        np.testing.assert_allclose(value, f(X))
        np.testing.assert_allclose(grad, differences(f, X), rtol=1e-7, atol=1e-8)


# ------------------------------------------------------------------------- operators like ``+=``

BASES = {
    "traced": lambda x: x[:2] * 1.4,
    "traced matrix": lambda x: np.outer(x[:2], x[:2]),
    "local": lambda x: np.ones(2),
    "local matrix": lambda x: np.full((2, 2), 1.5),
    "copy of captured": lambda x: POINTS.copy(),
}
POINTS = np.array([1.3, 2.7])
OPERANDS = {
    "list": lambda x: [x[0], x[1] / 2],
    "tuple": lambda x: (x[0], x[1] / 2),
    "with numbers": lambda x: [x[0], 2],
    "column": lambda x: [[x[0]], [x[1]]],
    "of arrays": lambda x: [x[:2], x[1:]],
    "nested": lambda x: [(x[0], 1.0), [2.0, x[1]]],
}
IN_PLACE = ["iadd", "isub", "imul", "itruediv", "ipow", "ifloordiv", "imod", "imatmul"]


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", IN_PLACE)
def test_operators_in_place_take_lists_that_hold_traced_values(name, base, operand):
    def f(x):
        v = BASES[base](x)
        alias = v
        v = getattr(operator, name)(v, OPERANDS[operand](x))
        return np.sum(v * np.array([1.0, 2.0])) + np.sum(alias)

    try:
        expected = f(X)
    except ValueError:
        with pytest.raises(ValueError):
            fdiff.grad(f)(X)
        return
    value, grad = fdiff.value_and_grad(f)(X)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(grad, differences(f, X), rtol=1e-6, atol=1e-6)


# --------------------------------------------------------------------------- ``text % values``


class Kept(logging.Handler):
    """A handler that formats at once and keeps the lines."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


LOG = logging.getLogger("test_sequences")
LOG.setLevel(logging.INFO)
LOG.propagate = False


def test_texts_format_traced_values():
    """``%`` asks for Python numbers where f-strings do not; `logging` formats so."""
    kept = Kept()
    LOG.addHandler(kept)
    written = []

    def f(x):
        loss = np.sum(x**2)
        LOG.info("loss %.3f after %d of %s", loss, COUNTS[0], x[:1])
        written.append("%.3f" % loss)
        written.append("%s: %5.1e %i%% %d" % ("x", x[0], COUNTS[1], x[1]))
        written.append("%(a)g %(b)x" % {"a": x[0] * 1e-3, "b": COUNTS[1]})
        text = "%g"
        text %= loss
        written.append(text)
        return loss

    for operator_ in (fdiff.grad(f), fdiff.jit(f)):
        for x in (X, X, 2 * X):
            f(x)
            expected = [*written], [*kept.lines]
            written.clear()
            kept.lines.clear()
            operator_(x)
            assert (written, kept.lines) == expected
            written.clear()
            kept.lines.clear()
    LOG.removeHandler(kept)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: float("%.3f" % x[0]),
        lambda x: float("%.2e" % (1000 * x[0])),
        lambda x: float(("x = %-8.1f" % x[0])[4:]),
        lambda x: float(f"{x[0]:.3f} ".strip()),
        lambda x: float("%g" % -x[0]),
        lambda x: float("%g" % np.sum(x)),
    ],
)
def test_no_number_is_read_out_of_text_made_of_a_value(read):
    fact = "a number was read from the text of a traced value"
    with pytest.raises(TraceError, match=fact):
        fdiff.grad(lambda x: read(x) * x[1])(X)


def test_texts_name_values_in_caches():
    """A key that ``%`` made of the argument finds nothing that was kept without derivatives."""
    cache = {}

    def f(x):
        key = "%.6f" % x[0]
        if key not in cache:
            cache[key] = x[0] ** 2
        return cache[key] * x[1]

    f(X)
    np.testing.assert_allclose(fdiff.grad(f)(X), [2 * X[0] * X[1], X[0] ** 2, 0.0])


def test_numbers_that_are_no_texts_of_values_are_read():
    def f(x):
        text = "%.3f" % x[0]
        return x[0] * float("0.125") * len(text)

    np.testing.assert_allclose(fdiff.grad(f)(X), [0.625, 0.0, 0.0])
