"""Random programs with Python's loops as users write them: containers, views, windows, buffers.

To what `random_loops.Writer` writes come tuples, deques, dicts of arrays, data classes, generators,
comprehensions, exceptions, ``out=``, buffers that are swapped, arrays of the caller that are
stored into, helpers that loop, and constants that change.
"""

from random_loops import HEAD, ROWS, TAIL, Writer

ORDER = [3, 1, 4, 0, 5, 2, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14, 17, 16, 19, 18, 21, 20, 23, 22]
LIBRARY = f"""import functools, itertools, math, operator
from collections import deque
from dataclasses import dataclass
ORDER = {ORDER}
@dataclass
class Cell:
    a: object
    v: object
    n: int = 0
    def push(self, z):
        self.v[self.n % 3] = z
        self.n += 1
        return self
def relax(z, w, n):
    for _ in range(n):
        z = 0.8 * z + 0.1 * np.sin(w)
    return z
def smooth(row, n):
    for k in range(n):
        row[1:] = 0.6 * row[1:] + 0.3 * row[:-1]
        row[0] *= 0.95
    return row
def spread(z, n):
    for k in range(n):
        z = 0.9 * np.sin(z) + 0.01 * k
        yield z
def settle(z, n, stop):
    for k in range(n):
        z = 0.9 * np.tanh(z) + 0.02
        if k == stop:
            return z, k
    return z, -1
"""
STATE = f"""
    P = (x[0], 0.3 * x[1])
    Q = deque([x[0], 0.2, x[2]], maxlen=3)
    E = {{'a': x.copy(), 'b': np.zeros(3), 0: 0.1 * x, 1: np.cos(x)}}
    ce = Cell(x[1], 0.5 * x)
    R, B = np.zeros((4, 3)), np.zeros({ROWS}); R[:] = 0.2 * x; B[:] = 0.1
    C, K = np.array([0.1, 0.2, 0.3]), [0.1, 0.2, 0.3]
    H = []
    out = 0.0
"""
ENDING = """
    out = out + P[0] * P[1] + sum(Q) + Q[0] * Q[-1] + np.sum(E['a'] * E['b']) + np.sum(E[0])
    out = out + E[1][2] + ce.a + np.sum(ce.v) + 0.1 * ce.n + np.sum(R * R) + B[2] * B[-1]
    out = out + np.sum(B)
    out = out + np.sum(C) + sum(K) + (np.sum(np.stack(H)) + H[0][1] * H[-1][0] if H else 0.0)
    out = out + np.sum(x * x) + 0.01 * len(H)
"""


class WideWriter(Writer):
    """Writes one program of all constructs; most are short, and roll a few trips."""

    rare = 12  # of a hundred statements

    def __init__(self, random):
        super().__init__(random)
        if self.chance(90):
            self.outer, self.within, self.budget = (6, 5, 8, 7), (3, 2, 4, 0, 1, 12), 110

    def scalar(self, depth=2):
        if not self.chance(35):
            return super().scalar(depth)
        options = [
            lambda: self.pick(["P[0]", "P[1]", "Q[0]", "Q[-1]", "ce.a", "sum(Q)"]),
            lambda: f"B[{self.row()}]",
            lambda: f"R[{self.counter()} % 4, {self.column()}]",
            lambda: f"C[{self.column()}] * x[{self.column()}]",
            lambda: f"E[{self.array_key()}][{self.column()}]",
            lambda: f"ce.v[{self.column()}]",
            lambda: f"u[ORDER[{self.counter()} % {ROWS}]]",
            lambda: f"K[{self.counter()} % 3] * x[{self.column()}]",
        ]
        if depth:
            vector, scalar = self.vector(depth - 1), self.scalar(depth - 1)
            options += [
                lambda: f"relax({scalar}, {self.scalar(depth - 1)}, {self.pick([2, 3, 13])})",
                lambda: f"settle({scalar}, {self.pick([3, 6, 14])}, {self.counter()} % 5)[0]",
                lambda: f"({vector}).sum()",
                lambda: f"np.dot({vector}, {self.vector(0)})",
                lambda: f"math.sin(0.1 * c) * {scalar}",
                lambda: f"sum(a * 0.3 for a in {vector})",
                lambda: "sum(a * b for a, b in zip(L, L[1:]))",
                lambda: f"max(0.1, 0.05 * {self.counter()}) * {scalar}",
                lambda: f"({scalar} / (1.5 + {self.number()} ** 2))",
                lambda: f"np.abs({scalar})",
                lambda: f"np.mean({vector})",
                lambda: f"(-{scalar}) ** 2",
            ]
        return self.pick(options)()

    def vector(self, depth=2):
        if not self.chance(35):
            return super().vector(depth)
        k = self.counter()
        options = [
            lambda: self.pick(["E['a']", "E['b']", "ce.v", "C", "E[0]", f"E[{k} % 2]"]),
            lambda: f"R[{k} % 4]",
            lambda: f"R[({k} + 1) % 4]",
            lambda: f"B[{k} % 20:{k} % 20 + 3]",
            lambda: f"u[[0, {k} % 7, 3]]",
            lambda: f"T[{k} % 20:][:3].T[1]",
            lambda: "(H[-1] if H else x)",
            lambda: f"T.T[{self.column()}][2:5]",
        ]
        if depth:
            vector, scalar = self.vector(depth - 1), self.scalar(depth - 1)
            options += [
                lambda: f"np.array([{scalar}, *P])",
                lambda: f"np.array([z * 0.5 for z in {vector}])",
                lambda: f"np.stack([{scalar}, {scalar}, P[0]])",
                lambda: f"np.where({vector} > 0.2, {vector}, {self.vector(0)})",
                lambda: f"({vector}).reshape(3, 1)[:, 0]",
                lambda: f"np.array(list(Q)) * {scalar}",
                lambda: f"np.sum(np.outer({vector}, {self.vector(0)}), axis={self.pick([0, 1])})",
                lambda: f"np.dot(M.T, {vector})",
                lambda: f"np.zeros_like({vector}) + {scalar}",
                lambda: f"relax({vector}, {self.vector(0)}, {self.pick([2, 4, 12])})",
                lambda: f"(R @ {vector})[1:]",
                lambda: f"np.maximum({vector}, C)",
            ]
        return self.pick(options)()

    def counter(self):
        return self.pick(self.counters) if self.counters else "c"

    def array_key(self):
        return self.pick(["'a'", "'b'", "0", "1", f"{self.counter()} % 2"])

    def assignment(self, d):
        if not self.chance(55):
            super().assignment(d)
            return
        if self.chance(self.rare):
            self.seldom(d)
            return
        w, z, k, pick = self.name("w"), self.name("z"), self.counter(), self.pick
        small, vector = self.small, self.small_vector
        s, v = f"s{self.random.randrange(3)}", f"v{self.random.randrange(3)}"
        key = self.array_key()
        n = pick([2, 3, 5, 13])
        options = [
            [f"P = ({small()}, P[0])"],
            [f"{w}, {z} = P", f"P = ({z}, 0.9 * {w} + 0.05 * {small()})"],
            [f"{s}, *{w} = L", f"{s} = 0.9 * {s}"],
            [f"Q.append({small()})"],
            ["Q.append(Q.popleft())"],
            [f"Q.appendleft(0.5 * Q[-1] + {small()})"],
            [f"E[{key}] = {vector()}"],
            [f"E[{key}][{self.column()}] = {small()}"],
            [f"E[{key}] += 0.05 * {vector()}"],
            [f"E[{key}] = 0.9 * E[{self.array_key()}]"],
            ["E['a'], E['b'] = E['b'], E['a']"],
            [f"for {w} in E:", f"    E[{w}] = 0.95 * E[{w}]"],
            [f"ce.a = {small()}", f"ce.v += 0.03 * {vector()}"],
            [f"ce.push({small()})"],
            [f"ce = ce.push({small()})", "ce.a += 0.01 * ce.v[0]"],
            [f"ce = Cell(ce.a * 0.9, {vector()}, ce.n)"],
            [f"R[{k} % 4] = {vector()}"],
            [f"R[{k} % 4] += 0.1 * R[({k} + 1) % 4]"],
            [f"R[{k} % 4, {self.column()}] -= 0.1 * {small()}"],
            ["R = np.roll(R, 1, axis=0)"],
            [f"B[{k} % 20:{k} % 20 + 3] = {vector()}"],
            [f"B[{k} % 20:{k} % 20 + 3] += 0.1 * {v}"],
            ["u, B = B, u"],
            ["B[1:-1] = 0.9 * u[1:-1] + 0.05 * (u[2:] + u[:-2])", "u, B = B, u"],
            [f"u[ORDER[{k} % {ROWS}]] = {small()}"],
            [f"u[ORDER[{k} % {ROWS}]] += 0.1 * u[{k}]" if self.counters else "u[2] = 0.1"],
            [f"np.add({v}, 0.1 * {vector()}, out={v})", f"np.multiply({v}, 0.9, out={v})"],
            ["np.multiply(u, 0.95, out=u)", f"np.sin({v}, out={v})"],
            [f"C[{k} % 3] += 0.01"],
            ["C = C * 0.97", f"K[{k} % 3] += 0.05"],
            [f"H.append({vector()})"],
            [f"H.append({v})"],
            [f"H.append(T[{self.row()}])"],
            [f"{w} = np.zeros(3)", f"{w}[{self.column()}] = {small()}", f"{v} = {v} * 0.5 + {w}"],
            [
                f"{w} = np.empty(3)",
                f"for {z} in range(3):",
                f"    {w}[{z}] = 0.9 * {v}[{z} - 1]",
                f"{v} = {w}",
            ],
            [f"{w} = R[{k} % 4]", f"{z} = {w}[1:]", f"{z} *= 0.9", f"{w}[0] += 0.1 * {small()}"],
            [f"x[{self.column()}] = {small()}"],
            ["x *= 0.97", f"x[{k} % 3] += 0.01"],
            [f"{v} = x", f"{v}[{self.column()}] *= 0.9"],
            [f"smooth(T[{self.row()}], {n})"],
            [f"smooth(u, {n})"],
            [f"{v} = smooth({v}.copy(), {n})"],
            [f"for {z} in spread({small()}, {n}):", f"    {s} = 0.8 * {s} + 0.1 * {z}"],
            [
                f"for {w}, {z} in zip(V, reversed(V)):",
                f"    {v} = 0.5 * {v} + 0.1 * np.sin({w} * {z})",
            ],
            [f"for {w} in T[2:{2 + n}]:", f"    {w} *= 0.97"],
            [f"for {w}, {z} in enumerate(T[:{n}]):", f"    {z}[{w} % 3] = {small()}"],
            [f"V = [np.sin({w}) for {w} in V]"],
            [f"V[:] = [0.9 * {w} + 0.01 for {w} in V]"],
            [f"{s}, {w} = settle({small()}, {n}, {k} % 7)", f"c += {w} > 2"],
            [
                "try:",
                f"    {s} = {s} * 0.9 + K[{k} % 5]",
                "except IndexError:",
                f"    {s} = np.sin({s})",
            ],
            [
                "try:",
                f"    if {k} % 4 == 1: raise ValueError",
                f"    {s} = {small()}",
                "except ValueError:",
                "    c += 1",
                "finally:",
                "    t += 0.01",
            ],
            [
                "try:",
                f"    {s} = {s} + 0.1 * B[{k} + 15]",
                "except IndexError:",
                f"    B[0] = {small()}",
            ],
            ["c = (3 * c + 1) % 7", f"{v}[c % 3] = {small()}"],
            [
                f"{w} = [lambda z, h=h: z * 0.5 + h for h in (0.1, {s})]",
                f"{s} = {w}[{k} % 2]({w}[0]({small()}))",
            ],
            [f"{w} = {v}", f"{v} = {v} + 0.01", f"{w}[1] = {small()}"],
            [f"T, {w} = np.sin(T), T", f"T[3] = 0.9 * {w}[{self.row()}]"],
            ["T += 0.01 * x", "T[:, 1] *= 0.9"],
            [f"{w} = T[::2]", f"{w}[{pick([0, 1, 2])}] = {vector()}"],
            [f"u.reshape(4, 6)[{k} % 4] *= 0.9"],
            [f"L = L[-{pick([2, 3])}:] + [{small()}]"],
            [f"L = [{w} * 0.9 for {w} in L]"],
            ["del L[:-4]", f"L.insert(0, {small()})"],
            [f"{s} = {s} * t", "t = 0.5 * t + 0.1"],
            [
                f"for {z} in range({n} - 1, -1, -1):",
                f"    u[{z}] = 0.8 * u[{z}] + 0.1 * u[{z} + 1]",
            ],
            [
                f"for {z} in range(1, 6):",
                f"    if {z} > {k} % 4: break",
                f"    {s} = 0.9 * {s} + u[{z}] * 0.1",
                "else:",
                f"    {s} = np.cos({s})",
            ],
        ]
        for line in pick(options):
            self.write(d, line)

    def seldom(self, d):
        """A statement by functions and methods that are met less often."""
        w, z, k = self.name("w"), self.name("z"), self.counter()
        small, vector = self.small, self.small_vector
        s, v = f"s{self.random.randrange(3)}", f"v{self.random.randrange(3)}"
        options = [
            [f"{w}, {z}, {s} = {vector()}", f"{s} = {s} * 0.9 + 0.1 * {w} * {z}"],
            ["v0, v1 = map(np.sin, (v1, v0))"],
            [f"{s} = functools.reduce(lambda a, b: 0.5 * a + np.sin(b), L, {small()})"],
            ["L = list(itertools.accumulate(L, lambda a, b: np.tanh(a + 0.5 * b)))"],
            [f"{v} = operator.imul({v}, 0.9)", f"{v} = operator.iadd({v}, 0.01)"],
            [f"np.copyto({v}, {vector()})"],
            ["u.fill(0.1)", f"u[{k} % 7] = {small()}"],
            [f"R.T[{self.column()}, {k} % 4] = {small()}"],
            ["R[...] = 0.9 * R", "R[..., 1] += 0.05"],
            [f"np.fill_diagonal(R, {small()})"],
            [f"np.put(u, [{k} % 7], {small()})"],
            [f"np.add.at(B, [{k} % 5, 2, 2], 0.1)"],
            [f"u.flat[{k} % 9] = {small()}"],
            [f"{v} = np.array([*{v}[1:], {small()}])"],
            [f"{v} = np.asarray({v})", f"{v}[0] = {small()}"],
            [f"{v} = np.cumsum({vector()}) * 0.3"],
            [f"{s} = slope({small()})"],
            [f"{s} = slope_by({small()}, {s})"],
            [f"{v} = walk({v}, {self.pick([2, 3, 9])})"],
            [f"{v} = either({s}, {v})"],
            [f"{v} = each({v}, {s})"],
            [f"{s} = once({small()}, {k})"],
            [f"{w} = {v}.view() if {k} % 2 else {v}.ravel()", f"{w}[0] = {small()}"],
            [f"{w} = T.reshape(3, -1)[{k} % 3]", f"{w}[1:4] *= 0.9"],
            [f"{w} = T.swapaxes(0, 1)[{self.column()}]", f"{w}[{k} % 5] += 0.05"],
            [f"{w} = np.atleast_2d({v})", f"{w}[0, {self.column()}] = {small()}"],
            [f"{s} = float(len(L)) * 0.01 + {s}", f"{s} = {s} if {v}.shape == (3,) else 0.0"],
            [f"{v} = {v} * ({k} % 3 - 1.0) + 0.1", f"{v} = np.ascontiguousarray({v})"],
            [f"{w} = {v} is v0 or v1 is {v}", f"{s} = {s} + 0.1 * {w}"],
            [f"{s} += 0.1 * any(z is {v} for z in V)"],
            [f"print(c, t, {k})"],
            [f"{z} = id({v}) == id(v0)", f"t += 0.1 * {z}"],
        ]
        for line in self.pick(options):
            self.write(d, line)


class BranchingWriter(WideWriter):
    """Writes a program that looks at values: in branches, loops, indices and arguments."""

    branches, rare = 35, 30

    def condition(self):
        if not self.chance(70):
            return super().condition()
        scalar, vector, k = self.scalar(1), self.vector(1), self.counter()
        limit = self.pick(["0.1234", "0.4567", "-0.2345", "0.7891", "1.234"])
        options = [
            f"{scalar} > {limit}",
            f"{scalar} < {limit}",
            f"np.any({vector} > {limit})",
            f"np.all({vector} < {limit})",
            f"np.isnan({scalar})",
            f"np.max({vector}) > {limit}",
            f"{scalar} > {limit} and {k} % 2",
            f"not {scalar} < {limit}",
            "s0 > s1 or flag",
            f"{limit} < {scalar} < 1.9",
            f"np.argmax({vector}) == {k} % 3",
            f"np.sum({vector}) >= {limit} or s2 < 0.1",
            f"({vector})[0] > ({vector})[1]",
        ]
        return self.pick(options)

    def seldom(self, d):
        if not self.chance(60):
            super().seldom(d)
            return
        w, k = self.name("w"), self.counter()
        s, v = f"s{self.random.randrange(3)}", f"v{self.random.randrange(3)}"
        small, vector = self.small, self.small_vector
        options = [
            [f"{w} = int(np.argmax({vector()}))", f"u[{w}] = {small()}"],
            [f"{s} = {vector()}[np.argmin({v})]"],
            [f"{s} = max({small()}, {s}, 0.0123)"],
            [f"{s} = min({small()}, {s})"],
            ["L.sort()"],
            [
                f"{w} = 0",
                f"while {s} > 0.2345 and {w} < 5:",
                f"    {s} = 0.7 * {s}",
                f"    {w} += 1",
            ],
            [
                f"{w} = 0",
                "while True:",
                f"    {s} = 0.6 * {s} + 0.05",
                f"    {w} += 1",
                f"    if {s} < 0.3123 or {w} > 4: break",
            ],
            [
                "try:",
                f"    if {small()} > 0.3123: raise ValueError",
                f"    {s} = 0.1",
                "except ValueError:",
                f"    {s} = 0.9 * {s}",
            ],
            [f"c += bool({small()} > 0.2123)"],
            [f"flag = {small()} > 0.1123 or flag"],
            [f"{v} = {v} if np.sum({v}) > 0.4123 else {vector()}"],
            [f"{s} = {s} * (0.5 if {small()} > 0.0123 else -0.5)"],
            [f"u[{k} % 7 if {small()} > 0.2123 else 0] = {small()}"],
            ["x[0] = x[0] if x[1] > 0.3123 else 0.9 * x[0]"],
            [f"{w} = sorted([{small()}, {small()}, 0.2123])", f"{s} = {w}[1]"],
        ]
        for line in self.pick(options):
            self.write(d, line)


def program(random, branching=False):
    """The text of a program that defines ``f(x)`` for three numbers."""
    writer = (BranchingWriter if branching else WideWriter)(random)
    for _ in range(writer.pick([1, 2, 1, 1])):
        if writer.chance(30):
            writer.assignment(0)
        writer.loop(0, 1, 2)
    head, _, rest = HEAD.partition("import numpy as np\n")
    tail = TAIL.replace("    out = s0", "    out = out + s0", 1)
    body = "\n".join(writer.lines)
    return f"import numpy as np\n{LIBRARY}{head}{rest}{STATE[1:]}{body}\n{ENDING[1:]}{tail[1:]}"
