"""Random NumPy programs with Python's loops, as text: nested, with stores, views, lags, branches.

All state stays of the order of one. `program(random)` takes any source of choices, so that
hypothesis can make a failing program smaller.
"""

import numpy as np

ROWS, WIDTH = 24, 3
MATRIX = "np.array([[0.2, 0.5, -0.3], [-0.4, 0.1, 0.6], [0.3, -0.2, 0.4]])"
SERIES = np.round(np.sin(1.7 * np.arange(ROWS)) * 0.8, 3).tolist()

HEAD = f"""import numpy as np
SERIES = {SERIES}
PERIODIC = [{{'w': w, 'key': k % 2}} for k, w in enumerate(SERIES)]
class State:
    def __init__(self, a, v):
        self.a, self.v, self.count = a, v, 0
    def advance(self, b):
        self.a = 0.7 * self.a + 0.2 * np.sin(b)
        self.count += 1
        return self.a
def halve(z, w):
    return 0.5 * z + 0.5 * np.tanh(w)
def f(x):
    M = {MATRIX}
    s0, s1, s2 = x[0], x[1] * 0.5, 0.3
    v0, v1, v2 = x * 0.7, np.cos(x), np.zeros(3)
    T = np.zeros(({ROWS}, {WIDTH})); T[0] = x; T[1] = 0.3
    u = np.zeros({ROWS}); u[0] = x[0]; u[3] = 0.4
    L = [x[0] * x[1], x[2], 0.25]
    V = [x, np.sin(x)]
    st = State(x[2], 0.4 * x)
    D = {{'p': x[1], 'q': 0.1}}
    t, c, flag = 0.0, 0, False
"""
TAIL = """
    out = s0 + s1 * s2 + np.sum(v0 * v1) + np.sum(v2) + np.sum(T * T) + u[3] * u[-1] + np.sum(u)
    out = out + L[0] * L[-1] + sum(L) + V[0] @ V[-1] + len(V) + st.a + np.sum(st.v ** 2)
    return out + D['p'] * D['q'] + 0.01 * t + 0.1 * c + st.count
"""


class Writer:
    """Writes one program, a line at a time."""

    outer, within = (20, 15, 9, 22, 5), (3, 14, 9, 20, 6, 1, 0)  # trips of loops, most often
    branches = 10  # of a hundred statements

    def __init__(self, random):
        self.random, self.lines, self.counters, self.made = random, [], [], 0
        self.inner = []  # functions that this place may call
        self.budget = 700  # of statements run

    def pick(self, options):
        return options[self.random.randrange(len(options))]

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def name(self, letter):
        self.made += 1
        return f"{letter}{self.made}"

    def write(self, depth, line):
        self.lines.append("    " * (depth + 1) + line)

    # -------------------------------------------------------------------------------- expressions

    def row(self):
        """An index of a row of a table."""
        if self.counters:
            k = self.pick(self.counters)
            return self.pick([k, f"{k} - 1", f"({k} + 1) % {ROWS}", f"-{k} - 1", f"{k} // 2"])
        return self.pick(["0", "3", "-1", "10"])

    def column(self):
        if self.counters and self.chance(40):
            return f"{self.pick(self.counters)} % 3"
        return self.pick(["0", "1", "2", "-1"])

    def number(self):
        options = ["0.3", "t", "0.1 * c", "1", "-0.0", "(0.5 if flag else 0.2)"]
        if self.counters:
            k = self.pick(self.counters)
            options += [f"SERIES[{k}]", f"0.05 * {k}", f"1.0 / ({k} + 1)", f"PERIODIC[{k}]['w']"]
        return self.pick(options)

    def scalar(self, depth=2):
        plain = [
            lambda: self.pick(["s0", "s1", "s2"]),
            lambda: f"x[{self.column()}]",
            lambda: f"v{self.random.randrange(3)}[{self.column()}]",
            lambda: f"T[{self.row()}, {self.column()}]",
            lambda: f"u[{self.row()}]",
            lambda: self.pick(["L[-1]", "L[0]", "L[len(L) // 2]", "L[-2]"]),
            lambda: self.pick(["st.a", f"st.v[{self.column()}]", "D['p']", "D['q']"]),
        ]
        if depth == 0:
            return self.pick(plain)()
        deep = lambda: self.scalar(depth - 1)
        options = [
            *plain,
            lambda: f"({deep()} + {deep()})",
            lambda: f"({deep()} * {deep()})",
            lambda: f"({deep()} - {self.number()})",
            lambda: f"{self.number()} * {deep()}",
            lambda: f"np.sin({deep()})",
            lambda: f"np.tanh({deep()})",
            lambda: f"np.sum({self.vector(depth - 1)})",
            lambda: f"{self.vector(0)} @ {self.vector(0)}",
            lambda: f"halve({deep()}, {deep()})",
            lambda: f"({deep()} if {self.number()} > 0.25 else {deep()})",
            lambda: f"np.maximum({deep()}, 0.1)",
        ]
        if self.inner:
            options.append(lambda: f"{self.pick(self.inner)}({deep()})")
        return self.pick(options)()

    def vector(self, depth=2):
        plain = [
            lambda: self.pick(["v0", "v1", "v2"]),
            lambda: "x",
            lambda: f"T[{self.row()}]",
            lambda: "T[:, 1][2:5]",
            lambda: f"u[{self.pick(['3:6', '-3:', '6:0:-2', '1:4'])}]",
            lambda: self.pick(["V[-1]", "V[0]", "V[len(V) // 2]", "st.v"]),
            lambda: f"T[{self.pick(self.counters)} // 2:][:3, 1]" if self.counters else "v1",
        ]
        if depth == 0:
            return self.pick(plain)()
        deep = lambda: self.vector(depth - 1)
        number = lambda: self.scalar(depth - 1)
        return self.pick(
            [
                *plain,
                lambda: f"({deep()} + {deep()})",
                lambda: f"{deep()} * {number()}",
                lambda: f"np.sin({deep()})",
                lambda: f"np.roll({deep()}, {self.pick([1, -1, 2])})",
                lambda: f"M @ {deep()}",
                lambda: f"np.array([{number()}, {number()}, {number()}])",
                lambda: f"np.where({deep()} > {self.pick(['0.1', 'x', '0.03'])}, {deep()}, 0.2)",
                lambda: f"{deep()}[::-1]",
                lambda: f"np.stack([{number()}, 0.5, {number()}])",
                lambda: f"np.concatenate(({deep()}[1:], [{number()}]))",
                lambda: f"np.outer({deep()}, {deep()})[{self.column()}]",
                lambda: f"{deep()}.copy()",
            ]
        )()

    def small(self):
        return f"np.tanh({self.scalar()})"

    def small_vector(self):
        return f"np.sin({self.vector()})"

    # --------------------------------------------------------------------------------- statements

    def assignment(self, d):
        """One statement that changes the state."""
        s, v = f"s{self.random.randrange(3)}", f"v{self.random.randrange(3)}"
        w = self.name("w")
        pick = self.pick
        options = [
            [f"{s} = {self.small()}"],
            [f"{s} = 0.8 * {s} + 0.1 * {self.small()}"],
            [f"{s} += 0.05 * {self.small()}"],
            [f"{v} = {self.small_vector()}"],
            [f"{v} = 0.7 * {v} + 0.2 * {self.small_vector()}"],
            [f"{v} += 0.05 * {self.small_vector()}"],
            [f"{v} *= 0.9"],
            [f"{v} = {pick(['v0', 'v1', 'v2', 'x.copy()', 'T[2]', 'st.v', 'V[-1]'])}"],
            ["v0, v1 = v1, v0"],
            ["s0, s1, s2 = s1, s2, 0.9 * s0"],
            [f"{v}[{self.column()}] = {self.small()}"],
            [f"{v}[1:] = 0.5 * {v}[:-1]"],
            [f"{v}[:] = {self.small_vector()}"],
            [f"T[{self.row()}] = {self.small_vector()}"],
            [f"T[{self.row()}, {self.column()}] = {self.small()}"],
            [f"T[{self.row()}] *= 0.9", f"T[{self.row()}, 1] += 0.1 * {self.small()}"],
            [f"T[:, {self.column()}] = 0.9 * T[:, {self.column()}]"],
            [f"u[{self.row()}] = {self.small()}"],
            [f"u[{self.row()}] += 0.1 * {self.small()}"],
            [f"u[{pick(['1:-1', '2:', '::2'])}] *= 0.95", f"u[5] = {self.small()}"],
            ["u[1:-1] = 0.5 * u[1:-1] + 0.2 * (u[2:] + u[:-2])"],
            [f"{w} = T[{self.row()}]", f"{w}[{self.column()}] = {self.small()}"],
            [f"{w} = T[{self.row()}]", f"{w} *= 0.9", f"{w} += 0.05 * {self.small_vector()}"],
            [f"{w} = T[2:8][{pick(['1', '::2', '-1'])}]", f"{w} *= 0.8"],
            [f"{w} = {v}", f"{w}[{self.column()}] = {self.small()}"],
            [f"L.append({self.small()})"],
            [f"L[{pick(['-1', '0', 'c % 3', 'len(L) // 2'])}] = {self.small()}"],
            [f"L.append(L.pop(0) * 0.9 + 0.1 * {self.small()})"],
            ["L[0], L[1] = L[1], L[0]"],
            [f"V.append({self.small_vector()})"],
            [f"V[{pick(['0', '-1', 'c % 2'])}] = {self.small_vector()}"],
            [f"V[0][{self.column()}] = {self.small()}"],
            [f"st.a = {self.small()}"],
            [f"{s} = st.advance({self.scalar()})"],
            [f"st.v = {self.small_vector()}"],
            [f"st.v[{self.column()}] = {self.small()}"],
            [f"D['{pick('pq')}'] = {self.small()}"],
            ["t += 0.125"],
            ["c += 1"],
            ["flag = not flag"],
        ]
        for line in self.pick(options):
            self.write(d, line)

    def condition(self):
        options = [
            "flag", "c % 2 == 0", "c < 5", f"{self.scalar(1)} > 0.12", "s0 > s1",
            f"np.sum({self.vector(0)}) > 0.35", f"abs({self.scalar(0)}) < 0.6",
        ]  # fmt: skip
        if self.counters:
            k = self.pick(self.counters)
            options += [f"{k} % 2 == 0", f"{k} == 5", f"{k} > 3", f"SERIES[{k}] > 0", f"{k} % 3"]
        return self.pick(options)

    def block(self, d, trips, loops, count):
        """Some statements, run `trips` times in all."""
        for _ in range(count):
            kind = self.random.randrange(100)
            if kind < 12 and loops:
                self.loop(d, trips, loops - 1)
            elif kind < 12 + self.branches:
                self.write(d, f"if {self.condition()}:")
                self.assignment(d + 1)
                if self.chance(50):
                    self.write(d, "else:")
                    self.assignment(d + 1)
            elif kind < 16 + self.branches:
                name = self.name("g")
                self.write(d, f"def {name}(z):")
                self.write(d + 1, f"return 0.6 * z + 0.1 * {self.scalar(1)}")
                self.inner.append(name)
            elif kind < 19 + self.branches and self.counters:
                self.write(d, f"if {self.condition()} and {self.counters[-1]} > 2:")
                self.write(d + 1, self.pick(["break", "continue"]) if loops < 2 else "pass")
            else:
                self.assignment(d)
        self.budget -= trips * count

    def loop(self, d, trips, loops):
        """A loop; its body runs at most so often that the budget holds."""
        most = max(1, min(ROWS - 1, self.budget // (6 * trips)))
        n = min(most, self.pick(self.within if trips > 1 else self.outer))
        k, z = self.name("k"), self.name("z")
        before = len(self.inner)
        form = self.pick(["range", "range", "enumerate", "while", "zip", "down", "from"])
        heads = {
            "range": f"for {k} in range({n}):",
            "enumerate": f"for {k}, {z} in enumerate(SERIES[:{n}]):",
            "zip": f"for {k}, {z} in zip(range({n}), PERIODIC):",
            "down": f"for {k} in range({n - 1}, -1, -1):",
            "from": f"for {k} in range(1, {n + 1}):",
            "while": f"while {k} < {n}:",
        }
        if form == "while":
            self.write(d, f"{k} = -1")
            heads["while"] = f"while {k} < {n - 1}:"
        self.write(d, heads[form])
        self.counters.append(k)
        if form == "while":
            self.write(d + 1, f"{k} += 1")
        if form == "enumerate":
            self.write(d + 1, f"s0 = 0.9 * s0 + 0.1 * {z} * {self.small()}")
        self.block(d + 1, trips * max(n, 1), loops, self.pick([2, 3, 1, 4]))
        self.assignment(d + 1)
        self.counters.pop()
        del self.inner[before:]
        if self.chance(8) and form != "while":
            self.write(d, "else:")
            self.assignment(d + 1)


def program(random):
    """The text of a program that defines ``f(x)`` for three numbers."""
    writer = Writer(random)
    for _ in range(writer.pick([1, 2, 1, 1])):
        if writer.chance(30):
            writer.assignment(0)
        writer.loop(0, 1, 2)
    return HEAD + "\n".join(writer.lines) + "\n" + TAIL


def point(random):
    """Three numbers, which differ, and no constant equals: comparisons have no ties."""
    numbers = [random.randrange(20, 90) / 100 + 0.00317 for _ in range(3)]
    return np.array([n + 0.0007 * k * (n in numbers[:k]) for k, n in enumerate(numbers)])
