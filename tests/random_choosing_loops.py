"""Random programs whose loops branch, and choose the branches themselves where fdiff can tell.

``python tests/random_choosing_loops.py FIRST COUNT [WRITER]`` compares the programs of so many
seeds with plain code, and their gradients with exact ones, at several points one after the other,
and counts the ways. One in eight is unrolled as well. With `counts`, loops count, have flags and
are left by ``break``. With `forms`, they are also ``while`` loops, run over arrays, have floats of
Python's and loops in them, and raise errors. With `lists`, they keep values in lists, tuples and
dicts, too. With `returns`, they and statements outside of them return in the middle, and with
`results` they return ints and truth values, too. With `names`, variables hold arrays of others, and
with `else`, loops have one. With `indices`, elements of lists have indices that values tell, and
with `cuts`, numbers are cut to ints. One more argument is the number of paths from which on
statements choose by themselves.
"""

import linecache
import os
import random
import re
import sys
import warnings
from collections import Counter
from unittest.mock import patch

import numpy as np
from second_order_numbers import exact

import fdiff
from fdiff.dispatch.choosing import loop_driver, path_runs
from fdiff.dispatch.program import Program
from fdiff.trace import looping

THRESHOLD = """
def f(x):
    s = x[0]
    for k in range(150):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + 0.1 * k)
    return s * s
"""
HEAD = """
import numpy as np
from functools import partial
TAB = np.sin(1.3 * np.arange(40.0))
G = np.cos(1.7 * np.arange(30.0)).reshape(10, 3)
class Bag:
    def __init__(self, p, q):
        self.p, self.q, self.n = p, q, 0
def softened(z, m):
    if z > m:
        return m + 0.1 * (z - m)
    return z
def softer(z):
    return 0.3 * z
def twice(h, z):
    return h(0.9 * h(z))
def two(z, y):
    r = z * 0.5
    if z < y:
        r = r + y * z
    elif y > 0.4:
        r = np.sin(r)
    return r
"""
STORING = """
def edge(z):
    z[0] = 0.3 * z[-1]
def edges(z, *, by=0.5):
    edge(z)
    z[-1] *= by
def moved(z, y):
    y[:] = 0.5 * y + 0.1 * z
    return y
def raised(z, m):
    if z[0] > m:
        z[1:] = 0.4 * z[1:]
        return m
    return z[1]
def shifted(z):
    z += 0.1
def renamed(z, y):
    z = y
    z[0] = 0.2
"""
SCALARS = (
    *("a", "b", "c", "a", "b", "c", "x[0]", "x[1]", "TAB[k]", "v[0]", "w[2]", "u[k]", "u[k+1]"),
    *("u[k-1]", "0.3", "-0.7", "t", "0.1*k", "dt", "v[k%3]", "g"),
)
ODD = [
    "a, b = b, a", "v, w = w, v", "p = v", "q = w", "a, c = c, a + b", "v, w = w * 1.0, v * 1.0",
    "n = n + 1", "n = 3", "h = 0.5", "h = -0.25", "z = a * 2", "lst.append(a)", "lst[0] = a",
    "u *= 0.99", "z = 0.1", "g = 0.2", "row = u[k:]", "a = float(k)", "c = c if k else a",
]  # fmt: skip


NUMBERS = "0.0", "0.5", "a", "b", "c"


class Writer:
    """Writes one program; one in four may do what loops are refused for."""

    more = ()  # lines before the loop, with their parts of the result and how often they are there

    def __init__(self, choices):
        self.choices = choices
        self.odd, self.branches = self.chance(25), 0

    def pick(self, *options):
        return self.choices.choice(options)

    def chance(self, percent):
        return self.choices.random() * 100 < percent

    def scalar(self, depth=1):
        if not depth or self.chance(25):
            return self.pick(*SCALARS)
        a, b, v = self.scalar(depth - 1), self.scalar(depth - 1), self.vector(depth - 1)
        options = [
            f"({a} + {b})", f"({a} - {b})", f"{a} * {b}", f"np.sin({a})", f"np.tanh({a})",
            f"({a} / (1.5 + {b} ** 2))", f"np.sum({v})", f"np.dot({v}, w)", f"abs({a})", f"-{a}",
            f"({v}).sum()", f"np.where({a} > {b}, {a}, {b})",
        ]  # fmt: skip
        if self.chance(12):
            options = [
                f"max({a}, {b})", f"min({a}, 0.4)", f"softened({a}, 0.5)", f"two({a}, {b})",
                f"({a} if {self.condition(0)} else {b})",
            ]  # fmt: skip
        return self.pick(*options)

    def vector(self, depth=1):
        if not depth or self.chance(30):
            return self.pick("v", "w", "x", "v")
        v, a = self.vector(depth - 1), self.scalar(depth - 1)
        return self.pick(
            f"({v} * {a})", f"({v} + w)", f"np.cos({v})", f"{v}[::-1]", f"np.roll({v}, 1)",
            f"np.array([{a}, {self.scalar(0)}, 0.1])", f"M @ {v}", f"np.where({v} > 0.2, {v}, w)",
            f"{v}.copy()",
        )  # fmt: skip

    def condition(self, depth=1):
        a, b = self.scalar(depth), self.scalar(0)
        return self.pick(
            f"{a} > {b}", f"{a} < 0.2", f"{a} > -0.1", f"{a} <= {b}", f"0 < {a} < 0.6",
            "k % 3 == 0", "k > 4", f"not {a} > {b}", f"{a} >= 0.1 and {b} < 0.5", "k",
            f"{a} > 0.3 or {b} < -0.3", "np.isnan(TAB[k])", "np.any(v > 0.5)", "np.sum(w) > 0.3",
        )  # fmt: skip

    def assigned(self):
        """What a variable of numbers becomes: most often a number that is traced."""
        text = self.scalar()
        return text if self.odd else f"0.9 * {text} + 0.05 * x[{self.pick(0, 1, 2)}]"

    def statement(self, indent, depth):
        pad, kind = "    " * indent, self.choices.randrange(100)
        if depth and kind < 35 and (self.odd or self.branches < 2):
            self.branches += 1
            lines = [f"{pad}if {self.condition()}:", *self.block(indent + 1, depth - 1)]
            if self.chance(15):
                return [*lines, pad + "    continue"]
            if self.chance(30):
                lines += [f"{pad}elif {self.condition()}:", *self.block(indent + 1, depth - 1)]
            if self.chance(60):
                lines += [f"{pad}else:", *self.block(indent + 1, depth - 1)]
            return lines
        if depth and kind < 38:
            return [f"{pad}for j in range(2):", *self.block(indent + 1, depth - 1)]
        name, array = self.pick("a", "b", "c", "t", "g"), self.pick("v", "w")
        for most, text in (
            (62, f"{name} = {self.assigned()}"),
            (67, f"{self.pick('a', 'b', 'c')} {self.pick('+', '-', '*')}= {self.assigned()}"),
            (71, f"{self.pick('a', 'b', 'c')} = {self.pick(*NUMBERS) if self.odd else 'b * 0.9'}"),
            (78, f"{array} = {self.vector()}"),
            (83, f"{array} {self.pick('+', '*')}= {self.pick(self.vector(), self.scalar())}"),
            (90, f"u[k + {self.pick(0, 1, 2)}] = {self.scalar()}"),
            (93, f"{array}[{self.pick('0', 'k % 3', '-1')}] = {self.scalar()}"),
            (100, self.pick(*ODD) if self.odd else f"a, b = b, 0.9 * a + 0.01 * {self.scalar(0)}"),
        ):
            if kind < most:
                return [pad + text]
        raise AssertionError(kind)

    def block(self, indent, depth):
        return [
            line
            for _ in range(self.choices.randint(1, 2))
            for line in self.statement(indent, depth)
        ]

    def start(self, *options):
        """What a variable holds at first; the last options are what loops are refused for."""
        return self.pick(*(options if self.odd else options[:2]))

    def heads(self, indent):
        """The lines with which the loop begins."""
        rows = self.pick("8", "2, 10", "11", "1, 15, 2", "9, 1, -1")
        return ["    " * indent + f"for k in range({rows}):"]

    def tail(self, indent):
        """The lines with which the loop ends."""
        return []

    def orelse(self, indent):
        """The lines of an ``else`` of the loop."""
        return []

    def last(self, result):
        """A line behind the loop, and the result, of the number of the last trip at times."""
        return "    k = 3\n", result

    def program(self):
        start = [
            "a = " + self.start("x[0]", "x[1] * 1.0", "0.0", "0.3"),
            "b = " + self.start("x[1]", "x[0] * x[1]", "0.0", "1.0"),
            "c = " + self.start("x[2]", "x[0]", "0.0", "-0.2"),
            "v = " + self.start("x * 1.0", "np.zeros(3)", "np.array([x[0], 0.1, x[1]])", "x"),
            "w = " + self.start("x * 0.5", "np.ones(3)", "v", "v[::-1]", "x"),
            "u = " + self.pick("np.zeros(20)", "0.1 * np.arange(20.0) * x[0]"),
            "M = np.array([[0.2, 0.1, 0.0], [0.3, -0.4, 0.2], [0.1, 0.0, 0.5]])",
            "dt = 0.05; n = 0; h = 0.1; lst = [x[0]]; g = "
            + self.start("0.2 * x[2]", "x[0]", "0.2"),
        ]
        result = "a * 1.1 + b * 0.7 + c + np.sum(v * v) + np.sum(w) * 0.3 + np.sum(u * TAB[:20])"
        for percent, line, part in (
            (80, "t = x[0] * 0.5", " + 0.1 * t"),
            (70, "z = 0.1; p = v * 1.0; q = w * 1.0", " + z + np.sum(p) * 0.1 + np.sum(q * q)"),
            (20, "al = u[2:6]", " + np.sum(al)"),
            (40, "", " + 0.01 * n * x[0]"),
            (40, "", " + h * x[1]"),
            (40, "", " + g"),
            (30, "", " + lst[-1] * len(lst)"),
            *self.more,
        ):
            if self.chance(percent):
                start.append(line)
                result += part
        outer = self.chance(15)
        lines = ["    " + line for line in start]
        lines += ["    for o in range(2):"] * outer
        lines += self.heads(1 + outer)
        lines += self.block(2 + outer, 1) + self.statement(2 + outer, 2)
        if not self.odd:
            pad = "    " * (2 + outer)
            limit = self.pick("x[1]", "0.2", "0.1 * k", "b")
            lines += [f"{pad}if {self.pick('a', 'b', 'c', 'v[0]', 'np.sum(w)')} > {limit}:"]
            lines += [f"{pad}    {self.pick('a', 'b', 'c')} = {self.assigned()}"]
        lines += [*self.tail(2 + outer), *self.orelse(1 + outer)]
        if self.chance(30):
            behind = self.pick("v[0] = 0.7", "w += 1.0", "u[3] = x[1]", "v *= 2.0", "v[1] = 2.0")
            lines.append("    " + behind)
        total = self.pick("y", "y", "y[0] + 0.7 * y[1] - 0.3 * y[2]")
        if total != "y":
            result = self.pick(f"({result}), a, b", f"({result}) * x")
        k, result = self.last(result)
        end = f"{k}    return {result}\ndef total(x):\n    y = f(x)\n    return {total}\n"
        return HEAD + "\n".join(["def f(x):", *lines, end])


class CountingWriter(Writer):
    """Writes one program whose loop counts, has flags, or is left by ``break``."""

    more = (
        (60, "on = False", " + (0.3 * x[1] if on else 0.0)"),
        (30, "on = True", " + on * x[0]"),
        (60, "m = 3", " + 0.1 * m * x[1]"),
        (20, "", " + x[2] / (n + 1)"),
        (15, "", " + (x[1] if n > 2 else x[0])"),
        (10, "", " + TAB[n % 7]"),
        (100, "on = False; m = 3", ""),
    )

    def condition(self, depth=1):
        if not self.chance(35):
            return super().condition(depth)
        a = self.scalar(0)
        return self.pick(
            "on", "not on", "n > 2", "n % 3 == 1", "n < 4", f"on and {a} > 0.1", "m == 2", "n",
            f"n > 1 or {a} < 0.2", "n >= m", f"{a} > 0.1 * n", "m - n < 2",
        )  # fmt: skip

    def scalar(self, depth=1):
        if not self.chance(8):
            return super().scalar(depth)
        a = super().scalar(0)
        return self.pick(
            "0.1 * n", f"n * {a}", f"({a} / (n * n + 1.5))", "TAB[n % 5]", "u[n % 3]", f"m * {a}"
        )

    def effect(self, *, breaks=True):
        return self.pick(
            "n += 1", "n += 1", "n -= 1", "n = 0", "n += 2", "m += 1", "m = 1", "on = True",
            "on = False", "on = not on", *(("break",) * 4 if breaks else ()),
        )  # fmt: skip

    def statement(self, indent, depth):
        if not depth or not self.chance(45):
            return super().statement(indent, depth)
        pad = "    " * indent
        lines = [f"{pad}if {self.condition()}:"]
        lines += self.block(indent + 1, 0) if self.chance(40) else []
        lines.append(f"{pad}    {self.effect()}")
        if self.chance(30):
            lines += [f"{pad}else:", f"{pad}    {self.effect(breaks=False)}"]
        return lines


class FormsWriter(CountingWriter):
    """Writes one program with a ``while``, rows, floats of Python's, loops in loops or errors."""

    more = (
        *CountingWriter.more, (60, "", " + 0.2 * h"), (50, "", " + e * x[0]"), (100, "e = 0.0", ""),
        (100, "y = x[0]; r = v", ""), (30, "", " + y"), (100, "i = 0", ""),
    )  # fmt: skip

    def heads(self, indent):
        pad, kind = "    " * indent, self.choices.randrange(100)
        if kind < 40:
            until = self.pick("b", "0.2", "x[1]", "0.05 * k", "h")
            test = self.pick(
                f"abs(a) > {until} and k < 11", "k < 11", f"not a > {until} + 1.0 and k < 9",
                f"k < 3 or (c < {until} and k < 12)", f"np.sum(w) > {until} and k < 10",
                "True", "e < 0.7", f"e < 0.9 and v[0] > {until} - 1.0", "h > 0.2",
            )  # fmt: skip
            lines = [f"{pad}k = 0", f"{pad}while {test}:", f"{pad}    k += 1"]
            if "k <" not in test:
                lines.append(f"{pad}    if k > {self.pick(9, 11)}: break")
            return [*lines, f"{pad}    e += 0.1" if self.chance(70) else f"{pad}    h *= 0.9"]
        if kind < 70:
            head = self.pick(
                "k, y in enumerate(TAB[:11])", "k, y in enumerate(u[:9])",
                "k, (y, z) in enumerate(zip(TAB[3:14], u))", "(k, y) in zip(range(2, 12), TAB)",
                "k, r in enumerate(G)", "k, y in enumerate(TAB[:12] * x[1])",
            )  # fmt: skip
            return [f"{pad}for {head}:"]
        return super().heads(indent)

    def last(self, result):
        if self.chance(50):
            return super().last(result)
        return "", f"({result}) + {self.pick('0.1 * k * x[1]', 'TAB[k]', 'x[2] / (k + 1)', 'k')}"

    def scalar(self, depth=1):
        if not self.chance(12):
            return super().scalar(depth)
        a = super().scalar(0)
        return self.pick("y", f"y * {a}", "h", f"h * {a}", "e", f"(e + {a})", "r[1]", "0.1 * i")

    def inner(self, indent):
        """An inner loop that may ask, and be left."""
        pad = "    " * indent
        head = self.pick(
            f"for i in range({self.pick(2, 3)}):", f"while {self.condition(0)} and i < 4:",
            f"while abs({self.pick('a', 'b', 'c')}) > {self.pick('0.4', 'b', 'h')} and i < 5:",
            "for y in u[2:5]:",
        )  # fmt: skip
        lines = [f"{pad}i = 0"] * ("for i" not in head) + [pad + head]
        lines += [f"{pad}    i += 1"] * ("while" in head)
        name = self.pick("a", "b", "c")
        lines += [f"{pad}    {name} = 0.6 * {self.scalar()} + 0.02 * x[{self.pick(0, 1, 2)}]"]
        lines += self.block(indent + 1, int(self.chance(40)))
        if self.chance(30):
            lines += [
                f"{pad}    if {self.condition(0)}:",
                f"{pad}        {self.pick('break', 'continue')}",
            ]
        return lines

    def statement(self, indent, depth):
        pad, kind = "    " * indent, self.choices.randrange(100)
        if kind < 8:
            text = self.pick(
                "h *= 0.9", "h = 0.5 * h", "h = 0.25", "e += 0.05", "e = e + h", "h = h * h + 0.1",
                "h = 0.3 if h < 0.2 else h", "e = 0.5 * e", "h = min(h, 0.3)", "e = -e", "h = e",
            )  # fmt: skip
            return [pad + text]
        if depth == 2 and kind < 40:
            return self.inner(indent)
        if depth and kind < 44:
            return [f"{pad}if {self.pick('a', 'c')} > 50.0:", f"{pad}    raise ValueError('far')"]
        return super().statement(indent, depth)


class ElseWriter(FormsWriter):
    """Writes one program whose loops have an ``else``."""

    def orelse(self, indent):
        pad = "    " * indent
        block = self.block(indent + 1, int(self.chance(50)))
        if indent == 1:  # it leaves no loop
            block = [re.sub("break|continue", "pass", line) for line in block]
        return [f"{pad}else:", *block]

    def inner(self, indent):
        lines = [*super().inner(indent), *self.orelse(indent)]
        ends = self.pick("break", "continue") if self.chance(30) else "pass"
        return [*lines, "    " * (indent + 1) + ends]

    def effect(self, *, breaks=True):
        return "break" if breaks and self.chance(30) else super().effect(breaks=breaks)


class NamesWriter(FormsWriter):
    """Writes one program whose variables hold arrays of others, some stored into behind."""

    def program(self):
        text = super().program()
        text = text.replace("def f(x):\n", "def f(x):\n    p = q = x * 0.3; vs = [x * 1.0]\n")
        return text.replace("z = 0.1; p = v * 1.0; q = w * 1.0", "z = 0.1; p = v; q = w * 1.0")

    def vector(self, depth=1):
        return f"(1.0 * {super().vector(depth)})" if self.chance(60) else super().vector(depth)

    def names(self):
        name, other = self.pick("v", "w", "p", "q"), self.pick("v", "w", "p", "q")
        return self.pick(f"{name} = {other}", f"{name} = {other}", f"{name}, {other} = v, w")

    def statement(self, indent, depth):
        pad = "    " * indent
        if not self.chance(25):
            return super().statement(indent, depth)
        if depth and self.chance(60):
            test = f"{pad}if {self.condition(0)}:"
            more = self.block(indent + 1, 0) if self.chance(30) else []
            return [test, *more, f"{pad}    {self.names()}"]
        return [pad + self.pick(self.names(), f"p = {self.vector()}", "q = 0.9 * p", "p, q = q, p")]

    def tail(self, indent):
        return ["    " * indent + f"vs.append({self.pick('v', 'p', 'w * 0.5')})"] * self.chance(20)

    def last(self, result):
        k, result = super().last(result)
        name, part = self.pick("p", "q", "v", "w", "vs[-1]", "vs[-2:][0]"), self.pick("", "[1]")
        store = f"    {name}{part} {self.pick('+=', '*=')} {self.pick('0.5', 'x[1]')}\n"
        more = " + np.sum(p) * 0.2 - np.sum(q * x) + np.sum(np.array(vs)) * 0.1"
        many = ", a, b" * result.endswith(", a, b")
        result = f"({result.removesuffix(many)}{more}){many}"
        return k + store * self.chance(70), result


class ArgumentsWriter(NamesWriter):
    """Writes one program that calls functions which store into their arguments."""

    def program(self):
        return STORING + super().program()

    def condition(self, depth=1):
        return f"({super().condition(depth)})"  # a ``while`` has a limit behind ``and``

    def array(self):
        return self.pick("v", "w", "v", "w", "p", "q", "u", "v[:2]", "u[k:k+3]", "w[1:]")

    def statement(self, indent, depth):
        if self.chance(70):
            return super().statement(indent, depth)
        name, other = self.pick("v", "w", "p"), self.pick("v", "w", "q")
        return ["    " * indent + self.pick(
            f"edge({self.array()})", f"edge(z={name})", f"edges({self.array()}, by=0.4)",
            f"moved({name}, {other})", f"{name} = moved({name}, {other})",
            f"a = raised({name}, {self.scalar()})", f"shifted({name})", f"renamed({name}, {other})",
            f"{name} = {self.vector()}", f"{name} = 0.9 * {other}", f"edge({self.vector()})",
        )]  # fmt: skip


class ListsWriter(FormsWriter):
    """Writes one program that keeps values in lists, tuples and dicts, and appends to lists."""

    more = (
        *FormsWriter.more, (100, "", " + ls[0] + 0.5 * ls[1] - ls[2]"), (60, "", " + m2[1] * 0.3"),
        (70, "", " + rec['p'] + 0.1 * rec['m']"), (70, "", " + tup[0] * tup[1]"),
        (80, "", " + np.sum(np.array(hist)) * 0.1 + hist[-1] + hist[1] + 0.01 * len(hist)"),
        (60, "", " + sum([np.sum(q_) for q_ in vs]) * 0.1 + vs[-1][0] + vs[0][1]"),
        (50, "", " + pw[0][0] + np.sum(pw[1])"), (60, "", " + ob.p + np.sum(ob.q) + 0.1 * ob.n"),
        (30, "", " + np.sum(oc.p) * 0.3 + 0.1 * oc.n"),
    )  # fmt: skip

    def program(self):
        text = super().program()
        first = [
            "ls = " + self.pick("[x[0], x[1], x[2]]", "[x[0], 0.3, x[1]]", "[0.0, x[1], x[0]]"),
            "m2 = " + self.pick("[x[1], x[2], x[0]]", "[x[1], x[2], x[0]]", "ls", "[0.1, x[0], 1]"),
            "rec = {'p': x[1], 'm': 0}; tup = (x[0], x[1])",
            "hist = [x[2], 0.5 * x[0]]; vs = [x * 1.0]",
            "pw = " + self.pick("[[x[0], x[1]], x * 2.0]", "[ls, x * 0.5]", "[m2, vs[0]]"),
            "ob = " + self.pick("Bag(x[0], x[1])", "Bag(x[1], 0.3)", "Bag(x[0], x * 1.0)"),
            "oc = " + self.pick("Bag(x[2], x[1])", "Bag(x[2], ob)", "ob", "Bag(ls, x[0])"),
        ]
        head = "def f(x):\n"
        return text.replace(head, head + "".join(f"    {line}\n" for line in first))

    def heads(self, indent):
        if self.chance(80):
            return Writer.heads(self, indent)
        pad = "    " * indent
        head = self.pick(
            "k, y in enumerate([x[0] * i_ for i_ in range(11)])",
            "k, r in enumerate([x * i_ for i_ in range(9)])",
            "k, (y, e) in enumerate(zip(TAB[:11], [0.1 * i_ for i_ in range(11)]))",
        )
        return [f"{pad}for {head}:"]

    def scalar(self, depth=1):
        if not self.chance(25):
            return super().scalar(depth)
        a = super().scalar(0)
        return self.pick(
            "ls[0]", "ls[1]", f"ls[2] * {a}", "m2[0]", "m2[1]", "rec['p']", "tup[1]", "hist[-1]",
            "hist[-2]", "pw[0][1]", "pw[1][0]", "tup[0]", "sum(ls)", "rec['m'] * 0.1",
            "ob.p", "np.sum(ob.q)", "ob.n * 0.1", "np.sum(oc.p)",
        )  # fmt: skip

    def tail(self, indent):
        pad, lines = "    " * indent, []
        if self.chance(60):
            lines.append(f"{pad}hist.append({self.scalar()})")
        if self.chance(40):
            lines.append(f"{pad}vs.append({self.pick('v * 1.0', 'v', 'w * 0.5', 'w', 'v.copy()')})")
        return lines

    def effect(self, *, breaks=True):
        return super().effect(breaks=breaks and self.chance(20))

    def statement(self, indent, depth):
        pad, kind, a = "    " * indent, self.choices.randrange(100), self.pick("a", "b", "c")
        if kind < 40:
            more = (
                "m2 = ls", "ls, m2 = m2, ls", "hist.append(a)", "ls = [ls[1], a, ls[0]]",
                "pw[0] = [a, b]", "pw[1] = v", "vs.append(v)", "ls[k % 3] = a", "ls.pop()",
                "ob, oc = oc, ob", "ob.q = v", "ob.q += 0.1", "ob.r = a", "oc.q = ob",
                "ob.q[0] = a",
                "m2 = [a, b, c]", "rec = {'p': a, 'm': 1}", "h = hist", "ls += [a]",
            ) if self.odd or self.chance(15) else ()  # fmt: skip
            text = self.pick(
                f"ls[0] = 0.9 * {self.assigned()}", f"ls[{self.pick(1, 2)}] = {self.assigned()}",
                "ls[0], ls[2] = ls[2], ls[0]", f"m2 = [m2[1] * 0.9, {a}, m2[0]]",
                f"rec['p'] = {self.assigned()}", "rec['m'] += 1", f"tup = (tup[1], {a} * 0.9)",
                f"pw[0][{self.pick(0, 1)}] = {self.assigned()}", f"pw[1][1] = {self.assigned()}",
                "pw[1] *= 0.9", f"{a} = ls[1] * 0.5 + m2[0]", f"ls[1] += 0.1 * {a}",
                "m2 = [q_ * 0.9 for q_ in m2]", f"ob.p = {self.assigned()}", "ob.n += 1",
                f"ob.q = ob.q * 0.9 + 0.1 * {a}", "ob.p += 0.1 * a", "ob.n = 0", "oc.n += 1",
                f"oc.p = {self.assigned()}", *more,
            )  # fmt: skip
            return [pad + text]
        return super().statement(indent, depth)


class ElementsWriter(ListsWriter):
    """Writes one program that appends tuples, lists and dicts to lists."""

    more = (
        *ListsWriter.more, (70, "", " + sum([q_ * r_ + i_ for i_, q_, r_ in ps]) + ps[-1][1]"),
        (70, "", " + sum([np.sum(q_) * r_ for q_, r_ in us]) + us[1][0][1]"),
        (70, "", " + sum([q_[0] - q_[1] * 0.5 for q_ in qs]) + qs[-1][0]"),
        (50, "", " + sum([q_['a'] * q_['n'] for q_ in ds])"),
    )  # fmt: skip

    def program(self):
        first = "    ps = [(0, x[0], 0.5)]; us = [(x * 1.0, x[1])]; qs = [[x[1], x[2]]]; ds = []\n"
        head = "def f(x):\n"
        return super().program().replace(head, head + first)

    def scalar(self, depth=1):
        if not self.chance(15):
            return super().scalar(depth)
        return self.pick("ps[-1][1]", "us[-1][1]", "us[-1][0][1]", "qs[-1][0]", "qs[-1][1] * 0.5")

    def tail(self, indent):
        pad, lines = "    " * indent, super().tail(indent)
        number = self.pick("0.5", "k * 0.5", "1.5 * k + 0.5", self.scalar())
        array = self.pick("v * 1.0", "v", "w * 0.5", "w", "v.copy()")
        pair = "[{}, {}]"
        if self.chance(10):
            pair = self.pick("ls", "[{0}, {1}] if a > b else [{1}, {0}]")
        appends = (
            f"ps.append((k, {self.scalar()}, {number}))", f"us.append(({array}, {self.scalar()}))",
            f"qs.append({pair.format(self.scalar(), self.scalar())})",
            f"ds.append({{'a': {self.scalar()}, 'n': {number}}})",
        )  # fmt: skip
        lines += [pad + text for text in appends if self.chance(50)]
        if self.chance(10):
            more = "qs[-1][0] = a", "m2 = qs[-1]", "qs[-1], ls = ls, qs[-1]", "v += us[-1][0]"
            lines.append(pad + self.pick(*more, "v = us[-1][0]", "w = us[-1][0]"))
        return lines


class LengthsWriter(ElementsWriter):
    """Writes one program that appends on some ways, in loops that may be left."""

    more = (
        *ElementsWriter.more, (40, "", " + 0.1 * len(ps) - 0.01 * len(us)"),
        (30, "", " + us[-1][0][0]"),
    )  # fmt: skip

    def statement(self, indent, depth):
        if not self.chance(30):
            return super().statement(indent, depth)
        pad = "    " * indent
        lines = [pad + text.strip() for text in self.tail(0)] or [
            f"{pad}ds.append({{'a': a, 'n': b}})"
        ]
        if self.chance(70):
            lines = [f"{pad}if {self.condition(0)}:", *["    " + line for line in lines]]
            if self.chance(30):
                lines.append(
                    f"{pad}    {self.pick('v = v * 0.9', 'w = v', 'a = b', 'break', 'v = w')}"
                )
        return lines

    def tail(self, indent):
        return super().tail(indent) if self.chance(25) else []

    def effect(self, *, breaks=True):
        return FormsWriter.effect(self, breaks=breaks)


class FunctionsWriter(FormsWriter):
    """Writes one program with functions in the function, and ints of all kinds."""

    def heads(self, indent):
        """The functions, and the lines with which the loop begins."""
        pad, a, b = (
            "    " * indent,
            self.pick("a", "b", "c", "n", "h", "k"),
            self.pick("a", "b", "v[1]"),
        )
        end = f"0.1 * {b} * {self.pick('x[2]', 'dt')}"
        default = self.pick("", ", y=0.3", f", y={self.pick('a', 'b', 'x[1]')}")
        odd = self.pick("nonlocal n; n += 1", "w[0] = z", "lst.append(z)", "u[1] += 0.1", "pass")
        lines = [
            f"def rhs(z{default}):",
            f"    {odd if self.odd else 'pass'}",
            f"    if {self.pick('z', a, 'n')} > {self.pick('0.2', 'x[1]', b)}:",
            f"        return 0.8 * z - 0.05 * {a}",
            f"    return {self.pick('np.sin(z)', '0.9 * z')} + {end}",
            f"act = {self.pick('np.tanh', 'np.sin', f'lambda z: 0.5 * z + 0.1 * {b}', 'softer')}",
            f"soft = partial({self.pick('softened', 'two')}, {self.pick('0.3', 'x[1]')})",
            "def fill(z):",
            f"    d = {self.pick('np.zeros(3)', '0.5 * v', 'np.array([z, 0.1, x[0]])')}",
            f"    d[{self.pick('0', '-1', 'k % 3')}] = 0.7 * z + 0.01 * {a}",
            f"    {self.pick('pass', 'd[1:] *= 0.5', 'd *= 0.9', 'w_ = d; w_ += 0.01')}",
            "    return d",
            "def loops(z):",
            f"    for i_ in range({self.pick(2, 3, 15)}):",
            f"        if z > {self.pick('0.4', b)}:",
            f"            z = 0.7 * z + 0.01 * {self.pick('i_', a)}",
            f"        {self.pick('z = 0.9 * z', f'if z < {b}: break', 'pass')}",
            "    return z",
        ]
        if self.odd and self.chance(30):
            lines += [
                self.pick("rhs = softer", "del act", "old = rhs; rhs = lambda z: old(z) * 0.5")
            ]
        return [*[pad + line for line in lines], *super().heads(indent)]

    def scalar(self, depth=1):
        if not depth or not self.chance(25):
            return super().scalar(depth)
        a, b = super().scalar(0), self.pick("a", "b", "x[1]", "0.3")
        return self.pick(
            f"rhs({a})", f"rhs({a})", f"act({a})", f"soft({a})", f"np.sum(fill({a}))",
            f"loops({a})",
            f"twice(rhs, {a})", f"twice(lambda q_: 0.5 * q_ + {b}, {a})", f"fill({a})[1]",
            f"(lambda q_, p_={b}: q_ * p_)({a})",
        )  # fmt: skip

    def effect(self, *, breaks=True):
        if self.chance(50):
            return super().effect(breaks=breaks)
        return self.pick(
            "n = 2 * n + 1", "n //= 2", "n = max(n, m)", "n = 3 * n % 7", "m = abs(n - m)",
            "n = len(u) - n", "n *= m", "n = -n // 3", "n, m = m, n + m", "m = min(m, 5) + n",
            "n = n * n % 11", "m = m - 2 * n",
        )  # fmt: skip

    def statement(self, indent, depth):
        if not self.chance(12):
            return super().statement(indent, depth)
        pad, name = "    " * indent, self.pick("a", "b", "c")
        other = self.pick("a", "b", "x[0]", "h", "n")
        return [
            f"{pad}loc = lambda z, y={self.pick('0.2', other)}: z * 0.9 + 0.05 * y * {other}",
            f"{pad}{name} = loc({self.assigned()})",
        ]


class MethodsWriter(FormsWriter):
    """Writes one program that calls methods of objects, which change these and each other."""

    more = (
        *FormsWriter.more, (100, "", " + ob.p + 0.5 * np.sum(ob.q) + 0.1 * ob.n"),
        (100, "", " + oc.p - 0.3 * np.sum(oc.q) + 0.1 * oc.n + hold.p"),
        (60, "", " + ob.level + oc.other.p * 0.3 + parts_[1].p"),
    )  # fmt: skip

    def _number(self):
        odd = ("self.shared", "self.n * 0.1", "len(self.q) * 0.1")
        return self.pick(
            "self.p", "z", "self.q[1]", "self.other.p", "np.sum(self.q)", "self.gain", "self.level",
            "0.3", "TAB[3]", "self.soft(z)", *(odd if self.odd else ()),
        )  # fmt: skip

    def _line(self):
        a, b = self._number(), self._number()
        odd = (
            "self.q[0] = z", "self.other.q[1] = z", "self.q = self.other.q", "self.r = z",
            "self.other = self", "w_ = self.q; w_ *= 0.9", "self.shared += 0.1", "self.p = 0.5",
            "self.q += 0.01", "del z", "self.p = self.n", "self.n = 2 * self.n + 1",
        ) if self.odd or self.chance(10) else ()  # fmt: skip
        return self.pick(
            f"self.p = 0.6 * {a} + 0.1 * {b}", f"self.p += 0.05 * {a}", "self.n += 1",
            f"self.q = self.q * 0.8 + 0.05 * {a}", f"z = 0.7 * {a} - 0.1 * {b}",
            f"self.other.p = 0.7 * self.other.p + 0.1 * {a}", "self.other.n += 1",
            "self.p, self.other.p = self.other.p, self.p * 0.9", f"self.level = 0.5 * {a}",
            "self.p = self.p * self.gain", *odd,
        )  # fmt: skip

    def _method(self, name, calls=""):
        lines = [f"    def {name}(self, z):"]
        for _ in range(self.choices.randint(1, 3)):
            if self.chance(50):
                lines += [f"        if {self._number()} > {self._number()}:"]
                lines += [f"            {self._line()}"]
                if self.chance(25):
                    lines += [f"            return 0.9 * {self._number()}"]
            else:
                lines.append(f"        {self._line()}")
        more = f" + 0.3 * {calls}" if calls and self.chance(70) else ""
        return [*lines, f"        return 0.6 * {self._number()} + 0.1 * z{more}"]

    def program(self):
        text = super().program()
        kinds = [
            "class Part:",
            "    gain, shared = 0.4, 0.1",
            "    def __init__(self, p, q, n=0):",
            "        self.p, self.q, self.n, self.other = p, q, n, self",
            "    @property",
            "    def level(self):",
            f"        return {self.pick('0.5 * self.p', 'self.p if self.p > 0.2 else self.gain')}",
            "    @level.setter",
            "    def level(self, value):",
            "        self.p = 0.5 * value + 0.1",
            "    @staticmethod",
            "    def soft(z):",
            f"        return {self.pick('0.5 * z', 'np.tanh(z) if z > 0.1 else z')}",
            *self._method("step"),
            *self._method("kick", "self.step(0.5 * z)"),
            *self._method("__call__", "self.other.step(z)"),
            "class Other(Part):",
            f"    gain = {self.pick('0.7', '-0.3')}",
            *self._method("step", "super().step(z)"),
            *self._method("kick", self.pick("super().kick(z)", "self.other(z)")),
            "FIXED = Part(0.3, np.array([0.1, 0.2, 0.3]))",
        ]
        first = [
            f"ob = {self.pick('Part', 'Other')}(x[0] * 1.0, x * 0.5)",
            f"oc = {self.pick('Part', 'Other', 'Other')}(x[1] * 1.0, x + 0.1)",
            self.pick("ob.other = oc", "oc.other = ob", "ob.other, oc.other = oc, ob", "pass"),
            f"parts_ = {self.pick('[ob, oc]', '(oc, ob)', '[ob, ob]')}; hold = "
            + self.pick("ob", "oc", "parts_[0]"),
            "bound = " + self.pick("ob.step", "oc.kick", "partial(ob.kick)"),
        ]
        head = "def f(x):\n"
        begin = "".join(f"{line}\n" for line in kinds)
        return text.replace(head, begin + head + "".join(f"    {line}\n" for line in first))

    def scalar(self, depth=1):
        if not self.chance(30):
            return super().scalar(depth)
        a = super().scalar(0)
        return self.pick(
            f"ob.step({a})", f"oc.kick({a})", f"bound({a})", f"ob({a})", "ob.p", "oc.level",
            f"parts_[{self.pick(0, 1)}].step({a})", "np.sum(oc.q)", f"ob.soft({a})",
            f"hold.step({a})", "FIXED.p", f"FIXED.soft({a})", "FIXED.q[1]", "oc.n * 0.1",
        )  # fmt: skip

    def statement(self, indent, depth):
        pad, kind, a = "    " * indent, self.choices.randrange(100), self.pick("a", "b", "c")
        if kind < 25:
            text = self.pick(
                f"ob.step({a})", f"oc.kick({a})", f"ob.p = {self.assigned()}", "ob.n += 1",
                f"hold.p = {self.assigned()}", f"oc.q = oc.q * 0.9 + 0.1 * {a}", f"{a} = ob({a})",
                f"o_ = parts_[{self.pick(0, 1, 'k % 2')}]; o_.p = 0.9 * o_.p + 0.1 * {a}",
                f"oc.level = 0.8 * {a}",
            )  # fmt: skip
            return [pad + text]
        return super().statement(indent, depth)


class SingleWriter(FunctionsWriter):
    """Writes one program for points of single precision, with tables of both precisions."""

    TABLES = "np.zeros(20)", "np.zeros(3)", "np.ones(3)"

    def program(self):
        text = super().program()
        for table in self.TABLES:
            text = text.replace(table, table[:-1] + ", np.float32)")
        single = "TAB = TAB.astype(np.float32)\n" if self.chance(80) else ""
        matrix = "[0.1, 0.0, 0.5]]" + (", np.float32" if self.chance(70) else "")
        text = text.replace("[0.1, 0.0, 0.5]]", matrix).replace("0.1 * np.arange(20.0)", "u20")
        return text.replace("G = ", f"{single}u20 = np.float32(0.1) * TAB[:20]\nG = ", 1)


class StatementsWriter(FormsWriter):
    """Writes one program whose statements branch outside of loops."""

    def heads(self, indent):
        return ["    " * indent + "for k in ONCE:"]

    def last(self, result):
        return "", result

    def program(self):
        lines, depth = [], 99
        for line in super().program().splitlines():
            indent = len(line) - len(line.lstrip())
            if line.strip() == "for k in ONCE:":
                depth = indent
                lines.append(" " * indent + "k = 3")
                continue
            depth = depth if indent > depth or not line.strip() else 99
            text = line[4:] if indent > depth else line
            lines.append(text if text.strip() not in ("break", "continue") else text[:-5] + "pass")
        return "\n".join(lines) + "\n"


class ReturnsWriter(FormsWriter):
    """Writes one program that returns in the middle: in loops, loops in them, and statements."""

    LEAVES = re.compile("return @(.*)@")

    def leaving(self, indent):
        """A statement that returns, or raises an error."""
        pad = "    " * indent
        a = self.pick("a", "b", "c", "v[0]", "np.sum(w)", "y")
        test = self.pick(f"{a} > 0.6", f"{a} < -0.5", self.condition(), self.condition(0))
        value = self.assigned() if self.chance(85) else self.pick("0.3", "a", "np.sum(v)", "c")
        value = self.pick("None", "h", "v", "x", "a, b", value) if self.odd else value
        ends = f"return @{value}@" if self.chance(90) else "raise ValueError('far')"
        lines = [f"{pad}if {test}:", *(self.block(indent + 1, 0) if self.chance(30) else [])]
        return [*lines, f"{pad}    {ends}"]

    def inner(self, indent):
        lines = super().inner(indent)
        return [*lines, *self.leaving(indent + 1)] if self.chance(50) else lines

    def statement(self, indent, depth):
        if depth and self.chance(18):
            return self.leaving(indent)
        return super().statement(indent, depth)

    def program(self):
        lines = super().program().splitlines()
        first = next(k for k, line in enumerate(lines) if line.strip().startswith("dt ="))
        last = next(k for k, line in enumerate(lines) if line == "def total(x):") - 1
        behind = self.leaving(1) if self.chance(50) else []
        before = (
            ["    k = i = 2; y = t = x[1]; on = False; m = 3; e = 0.0; r = v", *self.leaving(1)]
            if self.chance(40)
            else []
        )
        new = [*lines[: first + 1], *before, *lines[first + 1 : last], *behind, *lines[last:]]
        end = next(line for line in lines[last:])
        kinds = "({}), b, c" if end.endswith(", a, b") else "({}) * x"
        kind = kinds if "y[0]" in new[-1] else "{}"
        kind = "{}" if self.odd else kind
        value = lambda match: f"return {kind.format(match[1])}"
        return "\n".join([self.LEAVES.sub(value, line) for line in new]) + "\n"


class ResultsWriter(ReturnsWriter):
    """Writes one program whose results have ints and truth values beside traced numbers."""

    INTS = "n", "k", "m", "n + 1", "3", "-1", "0", "k - n", "2 * k + 1", "len(u)", "i", "n % 3"
    FLAGS = "True", "False", "on", "not on", "True", "False"

    def program(self):
        kinds = [self.pick(self.INTS, self.INTS, self.FLAGS) for _ in range(self.pick(1, 2))]
        odd = ("a", "h", "a > b", "1.0", "1", "True")

        def extra():
            each = [odd if self.odd and self.chance(20) else kind for kind in kinds]
            return "".join([f", {self.pick(*kind)}" for kind in each])

        lines = super().program().splitlines()
        begin, last = lines.index("def f(x):"), lines.index("def total(x):")
        for k, line in enumerate(lines[begin:last], begin):
            head, found, value = line.partition("return ")
            if found and not head.strip():
                lines[k] = f"{head}return ({value}){extra()}"
            if line.strip().startswith("dt ="):
                lines[k] += "; k = i = 2; on = False; m = 3"
        more = " + 0.01 * f(x)[1] * x[0]" if kinds[0] is self.INTS and self.chance(30) else ""
        lines[last + 1 :] = ["    y = f(x)[0]", lines[-1] + more]
        return "\n".join(lines) + "\n"


class IndicesWriter(Writer):
    """Writes one program that reads and stores elements of lists by ints that values tell."""

    def program(self):
        self.length = n = self.pick(2, 3, 3, 4, 5)
        starts = [self.pick("x[0]", "x[1]", "0.0", "0.5", "x[2]", "-0.0") for _ in range(n)]
        trips = self.pick(14, 20, 30)
        head = self.pick(
            f"    for k in range({trips}):", f"    for k, z in enumerate(TAB[:{trips}]):",
            f"    k = 0\n    while k < {trips} and a < 8.0:\n        k = k + 1",
        )  # fmt: skip
        lines = [line for _ in range(self.pick(3, 4, 5)) for line in self.statement(2)]
        result = self.pick("a + t", "a + ls[0] * ls[1]", "a * ls[i] + t", "sum(ls) + a")
        return "\n".join(
            [
                f"{HEAD}def f(x):", f"    ls, i, j, a, t = [{', '.join(starts)}], 0, 0, x[0], 0.2",
                f"    more = [0.3, x[1], 0.9][:{self.pick(2, 3)}]", head, *lines,
                "        a = np.sin(a) + 0.1 * TAB[k]", f"    return {result}",
                "def total(x):", "    return f(x) * x[2]\n",
            ]
        )  # fmt: skip

    def index(self):
        n = self.length
        return self.pick("i", "i", "i", "j", f"k % {n}", f"(i + 1) % {n}", "i - 1", f"{n - 1} - i")

    def element(self):
        return self.pick(
            "0.5 * a", "np.sin(a + TAB[k])", "0.3 * t + 0.1", "a * x[1]", f"ls[{self.index()}]",
            f"0.5 * ls[{self.index()}] + 0.1 * a", "more[j] * 0.5", "0.25", "abs(a)",
        )  # fmt: skip

    def statement(self, indent):
        pad, n = "    " * indent, self.length
        if indent < 4 and self.chance(25):
            tests = (
                "a > 0.2",
                "a > x[1]",
                f"ls[{self.index()}] > 0.3",
                "i == 0",
                "t < 0.4",
                "a < 0.0",
            )
            arm, other = self.statement(indent + 1), self.statement(indent + 1)
            return [f"{pad}if {self.pick(*tests)}:", *arm, f"{pad}else:", *other]
        place = self.pick(
            f"(i + 1) % {n}", "0", f"i + 1 if i < {n - 1} else 0", f"{n - 1} if a > 0.3 else 0",
            "i - 1 if i > 0 else 0", "i + 1" if self.odd else "0",
        )  # fmt: skip
        stored = f"ls[{self.index()}] {self.pick('=', '=', '+=')} {self.element()}"
        flag = self.pick("1 - j", "0", "1 if a > 0.1 else 0")
        assigned = f"{self.pick('a', 'a', 't')} = {self.element()}"
        return [pad + self.pick(assigned, assigned, stored, stored, f"i = {place}", f"j = {flag}")]


class CutsWriter(IndicesWriter):
    """Writes one program that cuts numbers to ints, which are indices, numbers, and divisors."""

    def index(self):
        return self.pick("i", f"m % {self.length}", f"int(4 * abs(a)) % {self.length}", "j")

    def element(self):
        return self.pick(
            super().element(), "TAB[m % 40] * a", "0.2 * (3 * a - m)", "0.1 * m", "a % 0.7",
            "v[int(5 * abs(a)) % 3] * t", "a / (m + 0.5)", "0.3 * t / (m * m + 1)", "7 // (m + 9)",
            "0.05 * (m & 3) + 0.5 * a", "np.interp(a, TAB[:3] + np.arange(3.0) * 3, TAB[3:6])",
        )  # fmt: skip

    def statement(self, indent):
        pad = "    " * indent
        if self.chance(60):
            return super().statement(indent)
        cut = self.pick(
            "int(3 * a)", "int(a > t)", "int(np.floor(2 * t))", "round(4 * a)", "int(9 * t) + 1",
            "m + int(2 * a)", "(m >> 1) + int(8 * a)", "int(a * m)", "min(int(9 * abs(a)), 8)",
        )  # fmt: skip
        tests = "m % 2 == 0", "m > 2", "a == t", "a != 0.0", "m == 1"
        stored = "u[int(9 * abs(a)) % 7] += 0.1 * a"
        test = f"if {self.pick(*tests)}:\n{pad}    t = 0.3 * t + 0.1 * a"
        inner = f"for n in range(int(6 * abs(a)) % 5):\n{pad}    t = 0.5 * t + 0.01 * a * n"
        return [pad + self.pick(f"m = {cut}", f"m = {cut}", stored, test, inner)]

    def program(self):
        text = (
            super()
            .program()
            .replace("\n    more =", "\n    m, u, v = 0, np.zeros(7), x * 0.5\n    more =")
        )
        ends = self.pick("", " + 0.1 * m", " + np.sum(u)", " * (m + 0.5)")
        return text.replace("\ndef total", ends + "\ndef total")


WRITERS = {
    "": Writer, "counts": CountingWriter, "forms": FormsWriter, "statements": StatementsWriter,
    "lists": ListsWriter, "returns": ReturnsWriter, "functions": FunctionsWriter,
    "methods": MethodsWriter, "single": SingleWriter, "results": ResultsWriter,
    "names": NamesWriter, "else": ElseWriter, "elements": ElementsWriter,
    "lengths": LengthsWriter, "arguments": ArgumentsWriter, "indices": IndicesWriter,
    "cuts": CutsWriter,
}  # fmt: skip


def program(choices, writer=""):
    """The text of a program, by the name of a writer."""
    return WRITERS[writer](choices).program()


def parts(result):
    """The parts of a result, as arrays and numbers."""
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in parts(part)]
    return [result]


def failure(text, seed, tolerance=1e-8, dtype=float):
    """What is wrong with a program, if anything; None where NumPy does not run it.

    Slopes of single precision are compared with those of unrolled loops.
    """
    name, space = f"<choosing loops {seed}>", {"__name__": "programs"}
    exec(compile(text, name, "exec"), space)
    f, total = space["f"], space["total"]
    points = [np.random.default_rng(seed + k).normal(size=3) * 0.6 for k in (0, 1, 2)]
    points, double = [x.astype(dtype) for x in points], dtype is float
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            plain = [parts(f(x.copy())) for x in points]
            slopes = [exact(text, "total", x)[0][1] if double else x for x in points]
            small = all(np.max(np.abs(part)) < 1e4 for y in (*plain, slopes) for part in y)
        except (ArithmeticError, IndexError, NameError, TypeError, ValueError):
            return None
        if not small:
            return None
        source = {name: (len(text), None, text.splitlines(True), name)}
        trace, words = Program.trace, ""

        def choosing(*args, **options):
            return trace(*args, **options | {"choosing": True, "eager": False})

        if not double:
            slopes = [_unrolled_slope(total, x) for x in points]
        for way in ("check", "unroll")[: 2 if seed % 8 == 7 else 1]:
            tier = "compile" if seed % 10 == 9 else "evaluate" if double else "interpret"
            changes = patch.dict(os.environ, {"FDIFF_LOOPS": way, "FDIFF_TIER": tier})
            run = choosing if way == "check" else trace
            with changes, patch.dict(linecache.cache, source), patch.object(Program, "trace", run):
                fdiff.cache_clear()
                value, slope = fdiff.jit(f), fdiff.grad(total)
                for x, y, expected in zip(points, plain, slopes, strict=True):
                    words = words or _wrong(parts(value(x.copy())), y, tolerance)
                    words = words or _wrong((slope(x.copy()),), (expected,), 1e3 * tolerance)
    return words


def _unrolled_slope(total, x):
    with patch.dict(os.environ, {"FDIFF_LOOPS": "unroll", "FDIFF_TIER": "interpret"}):
        return fdiff.grad(lambda x: total(x))(x.copy())


def _wrong(results, others, tolerance):
    """How results differ from others, in words."""
    for a, b in zip(results, others, strict=True):
        if type(a) is not type(b) or np.shape(a) != np.shape(b):
            return f"{type(a)} in place of {type(b)}"
        if np.asarray(a).dtype != np.asarray(b).dtype:
            return f"{a.dtype} in place of {b.dtype}"
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance):
            return f"{np.max(np.abs(a - b)):.1e} off"
    return ""


def main():
    first, count = map(int, sys.argv[1:3])
    writer = sys.argv[3] if sys.argv[3:] else ""
    ways, wrong, entered = Counter(), 0, []
    call = loop_driver.Driver.__call__

    def noted(own, *args):
        result = call(own, *args)
        entered.append("node" if result is not None else [*own.refusals.values(), ""][0][:60])
        return result

    most = int(sys.argv[4]) if sys.argv[4:] else path_runs.MOST_PATHS
    fewer = patch.object(path_runs, "MOST_PATHS", most)
    quick = patch.object(looping, "SLEEP", 0)
    with patch.object(loop_driver.Driver, "__call__", noted), quick, fewer:
        for seed in range(first, first + count):
            entered.clear()
            try:
                kind = (2e-5, np.float32) if writer == "single" else ()
                words = failure(program(random.Random(seed), writer), seed, *kind)
            except Exception as error:  # noqa: BLE001 - plain code raises none
                words = repr(error)
            if words:
                wrong += 1
                print(f"seed {seed}: {words}", flush=True)
            reasons = [reason for reason in entered if reason] or ["not rewritten"]
            way = "node" if "node" in entered else reasons[0]
            ways["not run" if words is None else way] += 1
    print(f"seeds {first} to {first + count - 1}: {wrong} wrong")
    for way, n in ways.most_common(20):
        print(f"  {n:5d} {way}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
