"""A module with places of many kinds that a function may write to, and what they hold."""

import io
import types
from collections import deque

import numpy as np

MODULE = """
import collections, copy, dataclasses, heapq, json, logging, io, types
import numpy as np

hist, pairs, longer = [], [], list(range(500))
table, nested = {"n": 0, "f": 0.0}, {"a": {"n": 0}, "log": []}
calls, total, best, first, seen_best = 0, 0.0, np.inf, None, None
seen, queue, counter = set(), collections.deque(), collections.Counter()
groups, ordered = collections.defaultdict(list), collections.OrderedDict()
bounded = collections.deque(maxlen=3)
entries, buffer, count_array = np.zeros(4), np.zeros(3), np.zeros(2, int)
out = io.StringIO()

class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

class Problem:
    instances = 0

    def __init__(self):
        self.nfev, self.trace, self.best, self.args, self.mean = 0, [], np.inf, {}, 0.0
        self.inner = Point(0, 0.0)

    @property
    def count(self):
        return self.nfev

    @count.setter
    def count(self, value):
        self.nfev = value

class Slotted:
    __slots__ = ("n", "last", "trace")

    def __init__(self):
        self.n, self.trace = 0, []

@dataclasses.dataclass
class Record:
    n: int
    last: object = None
    values: list = dataclasses.field(default_factory=list)

problem, slotted, record = Problem(), Slotted(), Record(0)
spaced = types.SimpleNamespace(n=0, best=np.inf, values=[])

def made():
    kept, number, values = 0, 0.0, []
    def f(x):
        nonlocal kept, number
        {nonlocal_body}
        return np.sum(x**2)
    def state():
        return kept, number, values
    return f, state
"""


def rows(text):
    return [line for line in text.strip().splitlines() if line]


def module(body, nonlocal_body="pass"):
    """A module with places to write to, a function `f` with this body, and its state."""
    made = types.ModuleType("writing")
    text = MODULE.replace("{nonlocal_body}", nonlocal_body)
    text += f"\ndef f(x):\n    v = np.sum(x**2)\n    {body}\n    return v\n"
    made.__dict__["__name__"] = "writing"
    text += "\nf.calls, f.values = 0, []\ninner, inner_state = made()\n"
    exec(compile(text, "<writing>", "exec"), made.__dict__)
    return made


NAMES = [
    "hist", "pairs", "longer", "table", "nested", "calls", "total", "best", "first", "seen_best",
    "seen", "queue", "counter", "groups", "ordered", "entries", "buffer", "count_array", "problem",
    "slotted", "record", "spaced", "bounded",
]  # fmt: skip


def described(value, known):
    """The value in comparable form: types, numbers as bytes, and which objects are the same."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return kind, value.dtype.str, value.shape, value.tolist()
    if isinstance(value, np.generic | int | float | str | None | type):
        return kind, repr(value)
    if callable(value):
        return kind
    if kind != "tuple":  # which cannot change: whether two are one is left open
        if id(value) in known:
            return "again", known[id(value)][0]
        known[id(value)] = len(known), value
    if isinstance(value, dict):
        pairs = [(described(k, known), described(v, known)) for k, v in value.items()]
        return kind, tuple(pairs)
    if isinstance(value, set):
        return kind, tuple(sorted(map(repr, value)))
    if isinstance(value, list | tuple | deque):
        return kind, tuple([described(item, known) for item in value])
    if isinstance(value, io.StringIO):
        return kind, value.getvalue()
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    return kind, tuple([(n, described(getattr(value, n, "-"), known)) for n in names])


def state(made):
    known = {}
    found = {name: described(getattr(made, name), known) for name in NAMES}
    kinds = {n: described(vars(made.Problem).get(n), known) for n in ("instances", "last")}
    outer = [described(value, known) for value in (*made.inner_state(), vars(made.f))]
    return found, kinds, outer, made.out.getvalue()
