"""Random programs of `scan`, `while_loop`, `cond` and the like, as text, for any library.

The text defines ``f(x)`` for three numbers. It calls the names of `PLAIN`, which here are plain
Python, and nothing but ``np``; all values have the dtype of ``x`` and are of the order of one.
"""

import numpy as np

HEAD = """import numpy as np
def f(x):
    c, s = 0.7 * x, np.cos(x[0] - x[2])
    T = np.stack([x, 0.5 * x, np.sin(x), 0.3 + x * x[1]])
    R = np.stack([0.3 * x, np.cos(x), x - 0.5, x * x[0], np.tanh(x)])
"""
TAIL = """    return np.sum(c * c) + s * c[1] + np.sum(T * np.cos(T)) + s * s
"""


class Writer:
    """Writes one program; names of its functions are numbered."""

    def __init__(self, random):
        self.random, self.lines, self.made = random, [], 0

    def pick(self, options):
        return options[self.random.randrange(len(options))]

    def name(self, letter):
        self.made += 1
        return f"{letter}{self.made}"

    def write(self, depth, *lines):
        self.lines += ["    " * depth + line for line in lines]

    def scalar(self, depth=2, index=None):
        k = self.pick(["0", "2", "-1", *([f"{index} % 3"] * 2 if index else [])])
        plain = ["s", f"c[{k}]", f"x[{k}]", f"T[1, {k}]", "np.sum(c)", f"T[{k}, 0]"]
        if depth == 0:
            return self.pick(plain)
        a, b = (self.scalar(depth - 1, index) for _ in range(2))
        forms = [f"({a} + {b})", f"{a} * {b}", f"np.sin({a})", f"0.5 * {a}", f"({a} - 0.2)"]
        forms += [f"np.where({a} > 0.2, {a}, {b})", f"np.sum({self.vector(depth - 1, index)})"]
        return self.pick([*plain, *forms])

    def vector(self, depth=2, index=None):
        k = self.pick(["0", "3", "-2", *([f"{index} % 4"] * 2 if index else [])])
        plain = ["c", "x", f"T[{k}]", f"R[{k}]"]
        if depth == 0:
            return self.pick(plain)
        a, b, e = self.vector(depth - 1, index), self.vector(0, index), self.scalar(0, index)
        forms = [
            f"({a} + {b})",
            f"({a} * {e})",
            f"np.sin({a})",
            f"(np.cos({a}) * {b})",
            f"{a}[::-1]",
        ]
        forms += [f"np.where({a} > 0.1, {a}, {b})", f"(np.outer({a}, {b}) @ c)", f"({a} @ T.T @ T)"]
        forms += [f"np.roll({a}, 1)", f"np.stack([{e}, s, {self.scalar(1, index)}])"]
        return self.pick([*plain, *forms])

    def small(self, index=None):
        return f"np.tanh({self.scalar(2, index)})"

    def small_vector(self, index=None):
        return f"np.sin({self.vector(2, index)})"

    def step(self, d, loops, index):
        """One statement or control structure, at a depth of the text."""
        structures = ["scan", "fori", "while", "cond", "switch", "vmap", "associative", "map"]
        if loops and self.random.randrange(100) < (45 if d > 1 else 85):
            getattr(self, self.pick(structures))(d, loops - 1, index)
            return
        row = self.pick(["1", "-1", *([f"{index} % 4"] if index else [])])
        self.write(
            d,
            self.pick(
                [
                    f"c = {self.small_vector(index)}",
                    f"c = 0.6 * c + 0.3 * {self.small_vector(index)}",
                    f"s = {self.small(index)}",
                    f"s = 0.7 * s + 0.2 * {self.small(index)}",
                    f"T = put(T, {row}, {self.small_vector(index)})",
                    "c, T = T[2], put(T, 0, c)",
                ]
            ),
        )

    def body(self, d, loops, index, arguments, *first):
        """A function of these arguments that changes c, s, T; its name."""
        name = self.name("body")
        self.write(d, f"def {name}({arguments}):", *(f"    {line}" for line in first))
        for _ in range(self.pick([1, 2, 3])):
            self.step(d + 1, loops, index)
        return name

    def scan(self, d, loops, index):
        z = self.name("z")
        name = self.body(d, loops, index, f"carry, {z}", "c, s, T = carry")
        self.write(d + 1, f"c = 0.8 * c + 0.2 * np.sin({z} * s)")
        y = self.pick(["None", "s", f"c * {z}", "(s, c)", "{'a': s * c[0], 'b': (c,)}"])
        self.write(d + 1, f"return (c, s, T), {y}")
        rows = self.pick(["R", "T", "R[::-1]", "R[:1]", "R[:0]", "R[1:4]", "T * s"])
        reverse = self.pick(["", ", reverse=True"])
        self.write(d, f"(c, s, T), ys = scan({name}, (c, s, T), {rows}{reverse})")
        if y != "None":
            part = {"(s, c)": "ys[1]", "{": "ys['b'][0]"}.get(y if y == "(s, c)" else y[0], "ys")
            self.write(d, f"s = np.tanh(s + 0.3 * np.sum({part}))")

    def fori(self, d, loops, index):
        k = self.name("k")
        name = self.body(d, loops, k, f"{k}, carry", "c, s, T = carry")
        self.write(d + 1, "return c, s, T")
        bounds = ["0, 3", "1, 4", "0, 0", "-1, 2", "0, np.sum(c > 0.3)", "np.argmax(c), 4", "2, 1"]
        self.write(d, f"c, s, T = fori_loop({self.pick(bounds)}, {name}, (c, s, T))")

    def while_(self, d, loops, index):
        n = self.name("n")
        name = self.body(d, loops, n, "carry", f"c, s, T, {n} = carry")
        self.write(d + 1, f"return 0.8 * c, s, T, {n} + 1")
        test = self.pick(
            ["np.sum(v[0] * v[0]) > 0.4", "v[1] > 0.1", "v[0][0] > v[2][0, 1]", "x[0] < 0"]
        )
        self.write(d, f"{n} = np.argmax(c)")  # a whole number of the library
        over = f"lambda v: ({test}) & (v[3] < 5)"
        self.write(d, f"c, s, T, {n} = while_loop({over}, {name}, (c, s, T, {n}))")

    def branches(self, d, loops, index, count):
        names = []
        for _ in range(count):
            names.append(self.body(d, loops, index, "c, s, T"))
            self.write(d + 1, "return c, s, T")
        return names

    def cond(self, d, loops, index):
        one, other = self.branches(d, loops, index, 2)
        test = f"{self.scalar(1, index)} > {self.scalar(0, index)} * 0.83"
        self.write(d, f"c, s, T = cond({test}, {one}, {other}, c, s, T)")

    def switch(self, d, loops, index):
        names = self.branches(d, loops, index, 3)
        pick = self.pick(["np.argmax(c)", "np.sum(T[:, 1] > 0.3) - 1", index or "1"])
        self.write(d, f"c, s, T = switch({pick}, [{', '.join(names)}], c, s, T)")

    def vmap(self, d, loops, index, call="vmap({})(T)"):
        name = self.body(d, loops, index, "c, s=s, T=T")
        self.write(d + 1, "return c * s")
        self.write(d, f"T = 0.5 * T + 0.4 * np.sin({call.format(name)})")

    def map(self, d, loops, index):
        self.vmap(d, loops, index, self.pick(["map({}, T)", "map({}, T, batch_size=2)"]))

    def associative(self, d, loops, index):
        reverse = self.pick(["", ", reverse=True"])
        pair = "lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])"
        self.write(d, f"T = np.tanh(associative_scan({pair}, (T, np.cos(T)){reverse})[1])")


setattr(Writer, "while", Writer.while_)


def program(random):
    """The text of a program that defines ``f(x)`` for three numbers."""
    writer = Writer(random)
    for _ in range(writer.pick([1, 2, 3])):
        writer.step(1, 3, None)
    return HEAD + "\n".join(writer.lines) + "\n" + TAIL


# ----------------------------------------------------------------- what the names mean, plainly


def stacked(rows):
    """Rows of any structure, along a new first axis."""
    first = rows[0] if rows else 0.0
    if first is None:
        return None
    if isinstance(first, dict):
        return {key: stacked([row[key] for row in rows]) for key in first}
    if isinstance(first, tuple):
        return tuple(stacked([row[k] for row in rows]) for k in range(len(first)))
    return np.stack(rows)


class NoRows:
    """What `scan` gives of rows that there are none of."""

    def __getitem__(self, key):
        return self

    def __array__(self, dtype=None, copy=None):
        return np.zeros((0,))


def scan(f, init, xs, reverse=False):
    ys = []
    for row in xs[::-1] if reverse else xs:
        init, y = f(init, row)
        ys.append(y)
    return init, stacked(ys[::-1] if reverse else ys) if ys else NoRows()


def fori_loop(lower, upper, body, init):
    for i in range(int(lower), int(upper)):
        init = body(i, init)
    return init


def while_loop(cond, body, init):
    while cond(init):
        init = body(init)
    return init


def associative_scan(f, xs, reverse=False):
    rows = list(zip(*xs, strict=True))
    rows = rows[::-1] if reverse else rows
    for k in range(1, len(rows)):
        rows[k] = f(rows[k - 1], rows[k])
    return stacked(rows[::-1] if reverse else rows)


def put(a, i, row):
    a = a.copy()
    a[i] = row
    return a


PLAIN = {
    "scan": scan,
    "fori_loop": fori_loop,
    "while_loop": while_loop,
    "associative_scan": associative_scan,
    "put": put,
    "cond": lambda pred, yes, no, *operands: yes(*operands) if pred else no(*operands),
    "switch": lambda k, ways, *operands: ways[min(max(int(k), 0), len(ways) - 1)](*operands),
    "vmap": lambda f: lambda rows: np.stack([f(row) for row in rows]),
    "map": lambda f, rows, batch_size=None: np.stack([f(row) for row in rows]),
}
