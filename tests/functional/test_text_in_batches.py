"""Text, bytes and keys made of one element of a batch are those of that element."""

import decimal
import logging
import operator
import pprint
import reprlib
import string

import numpy as np
import pytest

import fdiff
from fdiff.errors import RetraceWarning, TraceError

pytestmark = pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
X = np.array([0.25, -0.5, 0.0, 12.0, -0.0, 0.25, 1e-7])
TABLE = {"0.25": 2, "-0.0": 3, 0.25: 5, hash(12.0): 4, -0.5: 7}


def letters(text):
    """A number that depends on each letter."""
    return 1 + sum((k + 1) * ord(letter) for k, letter in enumerate(text)) % 13


TEXTS = {
    "str": str, "repr": repr, "ascii": ascii, "format": format, "f-string": lambda x: f"{x}",
    "f-string of digits": lambda x: f"{x:.1f}", "f-string of repr": lambda x: f"a {x!r:>9}",
    "str.format": lambda x: "{:.2e} {}".format(x, x),  # noqa: UP032 - as users write it
    "%s": lambda x: operator.mod("%s", x), "%r": lambda x: operator.mod("%r", (x,)),
    "in place": lambda x: operator.imod("%s", x),
    "%f": lambda x: "%.3f" % x,  # noqa: UP031 - as users write it
    "join": lambda x: "".join([str(x), "a"]), "list": lambda x: str([x]),
    "tuple": lambda x: str((x, 1)), "dict": lambda x: repr({"a": x}),
    "item": lambda x: str(x.item()), "tolist": lambda x: f"{x.tolist()}",
    "float": lambda x: str(float(x)), "array2string": np.array2string,
    "positional": np.format_float_positional, "pformat": pprint.pformat, "reprlib": reprlib.repr,
    "template": lambda x: string.Template("$a").substitute(a=x),
    "decimal": lambda x: str(decimal.Decimal(str(x))),
    "record": lambda x: logging.LogRecord("a", 20, "p", 1, "%s", (x,), None).getMessage(),
    "encode": lambda x: str(x).encode().decode(), "of another": lambda x: str(np.cos(x) * 2),
}  # fmt: skip
KEYS = {
    "text": lambda x: TABLE.get(str(x), 1), "value": lambda x: {0.25: 5, -0.5: 7}.get(x, 1),
    "hash": lambda x: TABLE.get(hash(x), 1), "set": lambda x: 1 + len({x, 0.25}),
    "in": lambda x: 1 + (str(x) in TABLE), "prefix": lambda x: 1 + str(x).startswith("-"),
}  # fmt: skip
FACTORS = {name: lambda x, text=text: letters(text(x)) for name, text in TEXTS.items()} | KEYS
OPERATORS = {
    "vmap": lambda f, x: (fdiff.vmap(f)(x), 0),
    "jit": lambda f, x: (fdiff.jit(fdiff.vmap(f))(x), 0),
    "map": lambda f, x: (fdiff.jit(lambda x: fdiff.map(f, x))(x), 0),
    "vmap of vmap": lambda f, x: (fdiff.vmap(fdiff.vmap(f))(np.stack([x, x[::-1]]))[0], 0),
    "vmap of grad": lambda f, x: (fdiff.vmap(fdiff.grad(f))(x), 1),
    "grad of vmap": lambda f, x: (fdiff.grad(lambda x: np.sum(fdiff.vmap(f)(x)))(x), 1),
    "jvp of vmap": lambda f, x: (fdiff.jvp(fdiff.vmap(f), x, np.ones_like(x))[1], 1),
    "jacobian": lambda f, x: (np.diag(fdiff.jacobian(fdiff.vmap(f))(x)), 1),
    "hessian": lambda f, x: (fdiff.vmap(fdiff.grad(fdiff.grad(f)))(x), 2),
}
DERIVATIVES = {"vmap of grad", "grad of vmap", "jvp of vmap", "jacobian", "hessian"}


@pytest.mark.parametrize("way", OPERATORS)
@pytest.mark.parametrize("name", FACTORS)
def test_each_element_has_its_own(name, way):
    """A batch was given the text of its type, ``Traced<f8[]>``, and so one number for all."""
    factor = FACTORS[name]
    f = lambda x: (x * x + 2.0 * x + 1.0) * factor(x)
    for x in (X, X[::-1] * 2):
        if name == "positional" and way in DERIVATIVES:
            with pytest.raises(TraceError, match="into a Python float, which would drop"):
                OPERATORS[way](f, x)
            continue
        found, order = OPERATORS[way](f, x)
        shape = [x * x + 2.0 * x + 1.0, 2.0 * x + 2.0, np.full_like(x, 2.0)][order]
        np.testing.assert_allclose(found, shape * [factor(one) for one in x], rtol=1e-12)


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "?"])
def test_of_all_dtypes_and_of_rows(dtype, tier, monkeypatch):
    if tier != "evaluate" or dtype != "f4":  # which bytecode has not
        monkeypatch.setenv("FDIFF_TIER", tier)
    rows = np.array([[0, 1, 2], [-1, 0, 2], [0, 1, 2], [3, 100, 2]]).astype(dtype)
    f = lambda row, y: row * letters(f"{row} {np.sum(row)} {y:.2f}") + y
    wanted = [f(row, 0.5) for row in rows]
    call = fdiff.vmap(f, in_axes=(0, None))
    for _ in range(3):
        np.testing.assert_array_equal(call(rows, 0.5), wanted)
    np.testing.assert_array_equal(call(rows[::-1], 1.5), [f(row, 1.5) for row in rows[::-1]])


@pytest.mark.parametrize("read", [lambda x: float(f"{x:.3f}"), lambda x: float(str(x))])
def test_no_number_is_read_out_of_it(read):
    for f in (fdiff.vmap(lambda x: x * read(x)), fdiff.vmap(fdiff.grad(lambda x: x * read(x)))):
        with pytest.raises(TraceError, match="a number was read from the text of a traced value"):
            f(X)


def test_what_is_printed_is_what_plain_code_prints(capsys):
    def f(x):
        print("x is", x, f"{2 * x:.2f}")
        return np.sin(x)

    for x in (X[:4], X[::3]):
        wanted = [f(one) for one in x]
        plain = capsys.readouterr().out
        np.testing.assert_allclose(fdiff.vmap(f)(x), wanted)
        assert capsys.readouterr().out == plain


@pytest.mark.parametrize(
    "read",
    [
        lambda x: float(x.tobytes()[-1]), lambda x: len(str(x)), lambda x: len(f"{x:.1f}"),
        lambda x: len(str(float(x))), lambda x: len(str(x.item())), lambda x: len(str(x.tolist())),
        lambda x: len("%.1f" % x),  # noqa: UP031 - as users write it
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_the_sign_of_a_zero_is_a_part_of_what_is_read(read, dtype):
    """What is relied on was compared by ``==``, for which -0.0 is 0.0."""
    zeros = np.array([0.0, -0.0, 0.0, 1.0, -0.0], dtype)
    f = lambda x: x + read(x)
    wanted = [f(x) for x in zeros]
    prepared = fdiff.jit(f)
    np.testing.assert_array_equal([prepared(x) for x in zeros], wanted)
    np.testing.assert_array_equal(fdiff.vmap(f)(zeros), wanted)
    pair = np.array([0.0, 1.0, np.nan])
    whole = fdiff.jit(lambda x: np.sum(x[:2]) + float(x.tobytes()[7]))
    for x in (pair, -pair, pair, pair * [-1, 1, 1]):
        assert whole(x) == np.sum(x[:2]) + float(x.tobytes()[7])


@pytest.mark.parametrize("text", [str, "{}".format, "{:.2f}".format, lambda x: f"{x}"])
@pytest.mark.parametrize("rule", ["vjp", "jvp"])
def test_text_of_a_cotangent_is_refused(text, rule):
    """Its value is not known where the rule is traced; the text named the type, and was counted."""
    point = np.array([1.0, 2.0])
    if rule == "vjp":
        f = fdiff.custom_vjp(lambda x: np.sin(x))
        f.defvjp(lambda x: (f(x), x), lambda x, bar: (bar * np.cos(x) * len(text(bar)),))
        call = fdiff.grad(lambda x: np.sum(f(x)))
    else:
        f = fdiff.custom_jvp(lambda x: np.sin(x))
        f.defjvp(lambda x, dot: (np.sin(*x), dot[0] * np.cos(*x) * len(text(dot[0]))))
        call = fdiff.jacfwd(f)
    with pytest.raises(TraceError, match="made text of a value that is not known") as caught:
        call(point)
    assert "Write repr(x), or {x!r} in an f-string" in str(caught.value)


def test_a_cotangent_is_printed(capsys):
    f = fdiff.custom_vjp(lambda x: np.sin(x))

    def backward(x, bar):
        print("bar", bar)
        return (bar * np.cos(x),)

    f.defvjp(lambda x: (f(x), x), backward)
    with pytest.warns(RetraceWarning):
        np.testing.assert_allclose(
            fdiff.grad(lambda x: np.sum(f(x)))(np.ones(2)), np.cos(np.ones(2))
        )
    assert "bar Traced<f8[2]>" in capsys.readouterr().out
