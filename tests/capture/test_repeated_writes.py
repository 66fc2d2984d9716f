"""What `f` writes to the outside is written again after each call that does not run it.

Each row of `REPEATED` is the body of a function that writes, to places that a module of its own
holds. It is called as plain code and through operators, at points that change; after each call the
modules must hold the same, types and identities included, and `f` must have run at most twice.
The points are whole numbers, so that every tier computes the same.
"""

import contextlib
import datetime as dt
import io
import logging
import sys
import types

import numpy as np
import pytest
from writing_module import module, rows, state

import fdiff
from fdiff.dispatch import program
from fdiff.trace.trace_stack import occupied

POINTS = [np.array([1.0, 2.0, 3.0]) + k % 5 for k in range(9)]

REPEATED = """
global calls; calls += 1
global calls; calls = calls + 1
global calls; calls -= 2; calls *= 3
global calls; calls += 1; calls += 1
global calls; calls += 1; y = 2.0 * calls * x; v = np.sum(y)
global calls; calls += 1; v = v / calls
global calls; calls += 1; v = v - calls if v > calls else v + calls
global calls; calls += 1; assert calls < 100
global calls; calls += 1; hist.append(calls)
global calls; calls += 1; hist.append((calls, v))
global calls; calls += 1; table["n"] = calls % 4
global calls; calls += isinstance(calls, int) and type(calls) is int
global total; total += v
global total; total = total + 0.5
global total; total += float(3)
global best; best = min(best, v)
global best, first; first = x if v < best else first; best = v if v < best else best
global first; first = v
global first; first = None
global first; first = (v, 1, "a", None, x)
global first; first = [v, [v, x]]; hist.append(first)
global first; first = {"x": x, "v": (v, v + 1)}
global seen_best; seen_best = v if seen_best is None or v < seen_best else seen_best
global first; first = hist
global first; first = problem
global first; first = np.arange(3.0)
global first; first = {1, 2}
global first; first = float(1)
hist.append(v)
hist.append(x)
hist.append(float(2)); hist.append(v)
global hist; hist += [v, v + 1]
hist.extend([v, 2.0, "t"])
hist.extend(v * k for k in range(3))
hist.insert(0, v)
hist.append(v); hist.insert(1, x[0])
hist.clear(); hist.append(v)
hist.append([v]); hist[-1].append(x)
hist.append({"v": v})
hist.append(Point(v, x))
hist.append(1); v = v + hist[-1]
hist.append(problem); hist.append(hist)
for k in range(3): hist.append(x[k])
for k in range(20): hist.append(x[0] * k)
for k in range(20): hist.append((k, x[0] * k, x[1]))
longer.append(v)
pairs.append((v, hist)); hist.append(v)
table["v"] = v
table["n"] += 1
table["n"] += 1; table["f"] += v
table["f"] = table["f"] * 0.5 + v
table.update(v=v, x=x)
table.setdefault("k", 3)
table["last"] = {"v": [v]}
table["v"] = v; table["v"] = 2 * v
nested["a"]["n"] += 1; nested["log"].append(v)
nested["a"]["x"] = x
problem.nfev += 1
problem.nfev += 1; problem.nfev += 1
problem.count += 1
problem.nfev += 1; problem.trace.append((problem.nfev, v))
problem.best = min(problem.best, v)
problem.last = v; problem.point = x
problem.mean += (v - problem.mean) / 2
problem.nfev += 1; problem.mean += (v - problem.mean) / problem.nfev
problem.args["v"] = v
problem.inner.x += 1; problem.inner.y += v
problem.inner.z = Point(v, 1)
problem.inner.y = v; problem.other = problem.inner
problem.nfev = problem.nfev + 1 if v > 20 else problem.nfev
problem.nfev += 1; v = v + (problem.nfev % 3 == 0)
setattr(problem, "value", v)
problem.__dict__["value"] = v
Problem.instances += 1
Problem.last = v
entries[0] = v
entries[:] = v
buffer[:] = x
global buffer; buffer += x
count_array[0] += 1
global first; first = entries
entries[1] = v; v = v + entries[0]
slotted.n += 1
slotted.last = v
slotted.trace.append(v); slotted.n += 2
spaced.n += 1; spaced.best = min(spaced.best, v)
spaced.values.append(v); spaced.new = x
record.n += 1; record.last = v
record.values.append((record.n, v)); record.n += 2
f.calls += 1; f.last = v
queue.append(v); queue.appendleft(x)
queue.extend([v, 1]); queue.extendleft([2, v])
bounded.append(v)
counter["a"] += 1
counter["a"] += 1; counter["b"] += 2
counter["a"] += 1; counter.update(["a", "b"]); counter.subtract({"c": 1})
groups["a"].append(v)
groups["a"].append(v); groups["b"].append((v, x))
seen.add("a"); hist.append(v)
f.values.append(v); f.calls = f.calls + 1
"""
NONLOCAL = """
kept += 1
kept += 1; number += np.sum(x)
values.append(np.sum(x))
kept = np.max(x)
number = max(number, np.max(x))
"""
# What later calls cannot do without running `f`, or does not pay: only the result counts.
AGAIN = """
hist.append(v); hist.sort()
hist.append(v); v = v + len(hist)
hist.append(v); v = v + sum(hist)
hist[:] = [v]
hist.append(v); del hist[0]
hist.append(v); hist.pop()
hist.append(lambda: v)
hist.append(v); v = v + np.max(hist)
hist.append(v); v = v + np.array(hist)[0] + np.sum(np.concatenate([hist, x]))
hist.append(v); v = v + max(hist) + sorted(hist)[0] + hist[-1:][0] + [*hist][0] + hist[0]
hist.append(v); first = hist + [1.0]; v = v + ([1.0] + hist)[0] + first[-1] + len(hist * 2)
hist.append(1); v = v + hist.count(1) + hist.index(1) + (1 in hist) + (hist == [1]) + bool(hist)
hist.append(1); v = v + json.loads(json.dumps(hist))[-1]
hist.append(v); v = v + copy.copy(hist)[0] + isinstance(hist, list) + (type(hist) is list)
hist.append(v); v = v + sum(a for a in reversed(hist)) + hist.copy()[0]
hist.extend(hist); hist.append(v)
hist.append(v); x = x + hist[0]; v = np.sum(x)
heapq.heappush(longer, 7)
longer[0] = v
table[str(len(table))] = v
table[float(x[0])] = v
table.pop("n", None); table["n"] = v
keys = list(table); table["z"] = v
seen.add(float(x[0]))
seen.add("a")
queue.append(v); v = v + queue[0]
queue.append(v); v = v + len(queue)
queue.append(1); queue.rotate(1)
global first; counter["a"] += 1; first = counter.most_common()
global first; counter["a"] += 1; first = counter + counter
v = v + len(groups["a"]); groups["a"].append(1)
ordered["v"] = v
global calls; calls += 1; hist.append("%d" % calls)
global calls; calls += 1; hist.append(f"{calls}")
global calls; calls += 1; v = v + list(range(100))[calls]
global calls; calls += 1; v = v + len(range(calls))
global calls; calls = calls ** 2 + 1
global calls; calls += 1; v = v + np.arange(calls).sum()
global hist; hist = [v]
global total; total = total + len(hist); hist.append(v)
print(v, file=out)
out.write("a")
problem.trace = problem.trace + [v]
problem.nfev += 1; problem.text = "x" * problem.nfev
vars(problem).update(value=v)
vars(problem).pop('args', None)
nth = problem.nfev; problem.nfev += 1; v = v + longer[nth]
"""


@pytest.fixture
def traces(monkeypatch):
    """A list with an item for each run of a function on traced arguments."""
    found = []

    def counted(given):
        found.append(given.f)
        return trace(given)

    trace = program.trace_checking_memos
    monkeypatch.setattr(program, "trace_checking_memos", counted)
    return found


OPERATORS = {
    "value_and_grad": (fdiff.value_and_grad, lambda g, x: g(x)[0]),
    "grad": (fdiff.grad, lambda g, x: g(x)[0] * 0 + 1),
    "jit": (fdiff.jit, lambda g, x: g(x)),
    "jacobian": (fdiff.jacobian, lambda g, x: g(x)),
    "hessian": (fdiff.hessian, lambda g, x: g(x)),
    "vjp": (fdiff.vjp, lambda g, x: g(x, np.array(1.0))[0]),
    "jvp": (fdiff.jvp, lambda g, x: g(x, np.ones(3))[0]),
    "hvp": (fdiff.hvp, lambda g, x: g(x, np.ones(3))),
}
VALUES = {"value_and_grad", "jit", "vjp", "jvp"}


def same(body, name, points=POINTS, nonlocal_body="pass"):
    """Whether plain code and an operator leave the same."""
    plain, traced = module(body, nonlocal_body), module(body, nonlocal_body)
    prepare, call = OPERATORS[name]
    g = prepare(traced.f)
    for k, x in enumerate(points):
        expected, result = plain.f(x), call(g, x)
        if name in VALUES:
            assert result == expected, (k, body)
            assert type(result) is type(expected)
        assert state(traced) == state(plain), (k, body)


@pytest.mark.parametrize("body", rows(REPEATED))
def test_writes_are_repeated(body, traces):
    same(body, "value_and_grad")
    assert len(traces) <= 4, body
    traces.clear()
    same(body, "value_and_grad")  # what is to be an input is known by now
    assert len(traces) <= 3, body


@pytest.mark.parametrize("body", rows(NONLOCAL))
def test_variables_of_enclosing_functions(body, traces):
    same("v = inner(x)", "value_and_grad", nonlocal_body=body)
    assert len(traces) <= 3


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("body", rows(AGAIN))
def test_what_cannot_be_repeated_runs_again(body):
    same(body, "value_and_grad")


MIXED = [
    "problem.nfev += 1; problem.mean += (v - problem.mean) / problem.nfev; hist.append(x)",
    "global best; best = min(best, v); table['n'] += 1; problem.trace.append((v, x[0]))",
    "entries[1] = v; problem.best = v if v < problem.best else problem.best",
]


@pytest.mark.parametrize("body", MIXED)
@pytest.mark.parametrize("name", OPERATORS)
def test_in_every_operator(name, body, traces):
    same(body, name)
    assert len(traces) <= 5


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("body", MIXED)
def test_in_every_tier(body, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    same(body, "value_and_grad", POINTS * 3)


def test_the_fast_path_writes(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.delitem(occupied, "kinks", raising=False)  # as if nobody had asked for errors
    plain, traced = module(MIXED[0]), module(MIXED[0])
    g = fdiff.value_and_grad(traced.f)
    for k in range(16):  # a fast path is sought after calls 2, 4, 8 and 16
        assert g(POINTS[k % 9])[0] == plain.f(POINTS[k % 9])
    assert isinstance(g.implementation, types.BuiltinFunctionType)
    for x in POINTS:
        assert g(x)[0] == plain.f(x)
    assert state(traced) == state(plain)


def test_a_call_at_once_writes(traces):
    plain, traced = module(MIXED[0]), module(MIXED[0])
    for x in POINTS * 4:
        plain.f(x)
        fdiff.jacobian(lambda x, f=traced.f: f(x), x)
        fdiff.vjp(traced.f, x)
        plain.f(x)
    assert state(traced) == state(plain)
    assert len(traces) <= 6


def test_each_object_has_its_own_writes(traces):
    class Counted:
        def __init__(self):
            self.calls, self.values = 0, []

        def f(self, x):
            self.calls += 1
            self.values.append(np.sum(x))
            return np.sum(x**2)

    one, other = Counted(), Counted()
    for k in range(6):
        for counted in (one, other):
            slope = fdiff.grad(lambda x, c=counted: c.f(x))(POINTS[0] + k)
            np.testing.assert_array_equal(slope, 2 * (POINTS[0] + k))
    assert (one.calls, other.calls) == (6, 6)
    assert one.values == other.values == [6.0 + 3 * k for k in range(6)]
    one.values = other.values  # one list now: both write to it
    for counted in (one, other):
        fdiff.grad(lambda x, c=counted: c.f(x))(POINTS[0])
    assert len(other.values) == 8


def test_each_closure_has_its_own_variables():
    def make():
        calls, best = 0, 100.0

        def f(x):
            nonlocal calls, best
            calls += 1
            best = min(best, np.sum(x))
            return np.sum(x**2)

        return f, lambda: (calls, best)

    made = [make() for _ in range(3)]
    for k in range(12):
        for f, _ in made:
            fdiff.jacobian(f, POINTS[0] + k)
    assert [found() for _, found in made] == [(12, 6.0)] * 3


def test_two_places_become_one_object():
    left, right = [0], [0]
    places = {"left": left, "right": right}

    def f(x):
        places["left"].append(np.sum(x))
        places["right"].append(np.max(x))
        return np.sum(x**2)

    g = fdiff.grad(f)
    for _ in range(3):
        g(POINTS[0])
    assert (left, right) == ([0, 6.0, 6.0, 6.0], [0, 3.0, 3.0, 3.0])
    places["right"] = left
    for _ in range(3):
        g(POINTS[0])
    assert left == [0, 6.0, 6.0, 6.0] + [6.0, 3.0] * 3
    assert len(right) == 4


@pytest.mark.parametrize("at", range(4))
def test_what_was_written_before_an_error_stays_written(at):
    calls, values = [0], []

    class Problem:
        calls = 0

        def f(self, x):
            self.calls += 1
            values.append(x[0])
            y = np.linalg.inv(np.array([[x[0], 1.0], [1.0, 1.0]]))
            values.append(x[1])
            if self.calls == 100:
                raise StopIteration
            return np.sum(y)

    problem = Problem()
    g = fdiff.value_and_grad(problem.f)
    for k in range(6):
        if k == at:
            with pytest.raises(np.linalg.LinAlgError):
                g(np.array([1.0, 5.0]))
        g(np.array([2.0 + k, 3.0]))
    assert problem.calls == 7
    assert len(values) == 14  # the trace goes on after the operation that fails
    problem.calls = 99
    with pytest.raises(StopIteration):
        g(np.array([2.0, 3.0]))
    assert problem.calls == 100
    assert calls == [0]


def test_an_argument_that_shares_memory_with_what_is_written():
    log = np.zeros(4)

    def f(x):
        log[0] = np.sum(x)
        return np.sum(x**2)

    g = fdiff.grad(f)
    for _ in range(3):
        g(np.ones(3))
    with pytest.raises(fdiff.errors.TraceError, match="shares memory"):
        g(log[:3])


def test_a_failure_without_numbers_runs_again(traces):
    class Dated:
        def __init__(self):
            self.day = 0

        def f(self, x):
            self.day += 1
            self.text = dt.timedelta(days=self.day).days
            return np.sum(x**2)

    dated = Dated()
    g = fdiff.grad(dated.f)
    with pytest.warns(fdiff.errors.RetraceWarning):
        g(POINTS[0])
    for x in POINTS[1:]:
        np.testing.assert_array_equal(g(x), 2 * x)
    assert vars(dated) == {"day": 9, "text": 9}


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_nested_operators_write_at_each_call():
    hist = []

    def f(x):
        hist.append(np.sum(x))
        return np.sum(x**3)

    for prepare in (lambda f: fdiff.jit(fdiff.grad(f)), lambda f: fdiff.jacobian(fdiff.grad(f))):
        g = prepare(f)
        for x in POINTS[:3]:
            g(x)
    assert hist == [np.sum(x) for x in POINTS[:3]] * 2


# ---------------------------------------------------------------------------------- shown text


SHOWN = """
print(v)
print("value", v, x, sep="; ", end="!")
print(f"{v:.3f}")
print(f"at {x} the value is {v:>12.3e} ({v})")
print(f"{problem.nfev}: {v}"); problem.nfev += 1
problem.nfev += 1; print(problem.nfev, f"{problem.nfev:03d} {v + problem.nfev}")
print((v, x), [v], {"v": v})
print("nothing"); print()
print(v, file=out)
out.write(f"{v}"); out.write("line")
sys.stdout.write(f"{v:.1f} of {x[0]}")
logging.info("value %.3f at %s", v, x)
logging.warning(f"value {v:.3f}")
logger.info("%d %s", problem.nfev, v); problem.nfev += 1
logger.debug(f"not shown {v}")
logger.log(30, f"{v}")
print(v, file=sys.stderr)
if v > 30: print(f"{v} is large")
for k in range(3): print(k, f"{x[k]:.2f}")
"""
SHOWN_AGAIN = """
text = f"{v:.3f}"; print(text)
print("value: " + f"{v:.3f}")
print(f"{v!r}")
print(f"{v:.3f}".rjust(20))
print(hist); hist.append(v)
print(str(v))
print("{:.3f}".format(v))
n = out.write(f"{v}"); print(n)
hist.append(f"{v}")
print(problem.nfev + 1, problem.inner)
"""


def shown(body, call, points=POINTS):
    """What is printed, logged and left by calls of a function."""
    made = module(body)
    made.__dict__.update(sys=sys, logger=logging.getLogger("writing"))
    records, printed, log = [], io.StringIO(), logging.getLogger()
    handler = logging.Handler()
    handler.emit = lambda r: records.append(
        (r.name, r.levelno, r.getMessage(), r.funcName, r.lineno)
    )
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            g = call(made.f)
            for x in points:
                g(x)
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    return printed.getvalue(), records, state(made)


def same_shown(body):
    plain, traced = shown(body, lambda f: f), shown(body, fdiff.value_and_grad)
    if "inner" in body:  # an object that shows its address
        plain, traced = ((len(a[0].splitlines()), a[2]) for a in (plain, traced))
    assert traced == plain


@pytest.mark.parametrize("body", rows(SHOWN))
def test_text_is_shown_again(body, traces):
    same_shown(body)
    assert len(traces) <= 2


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("body", rows(SHOWN_AGAIN))
def test_text_that_may_go_elsewhere(body):
    same_shown(body)


# ------------------------------------------------------------------------------ random programs

STATEMENTS = """
calls += {k}
calls = calls * 2 % 7 + {k}
total += v
total = total * 0.5 + {k}
best = min(best, v)
first = v
first = (v, {k})
first = [x, {k}]
hist.append(v * {k})
hist.append((calls, v))
hist.extend([v, {k}])
hist.insert(0, {k})
hist.append(first)
table['n'] += {k}
table['f'] += v
table['new'] = x
table['n'] = calls
nested['a']['n'] += {k}
nested['log'].append(v)
problem.nfev += {k}
problem.mean += v
problem.last = v
problem.trace.append(problem.nfev)
problem.inner.y += v
problem.other = Point(v, x)
slotted.n += {k}
slotted.trace.append(x)
entries[{k}] = v
v = v + calls
v = v * 2 if calls % 2 else v + 1
v = v + problem.nfev
v = v + total
v = v + 1 if v > total else v
Problem.instances += {k}
hist.append(table['n'])
queue.append(v * {k})
counter['a'] += {k}
groups['a'].append(calls)
spaced.n += {k}
record.last = (v, record.n)
f.calls += {k}
first = hist[-1] if hist else v
v = v + spaced.best if spaced.n > 2 else v
spaced.best = min(spaced.best, v)
problem.args['v'] = [v, {k}]
seen.add({k})
"""


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    lines = rng.choice(rows(STATEMENTS), size=int(rng.integers(2, 7)))
    body = "global calls, total, best, first; "
    body += "; ".join(line.format(k=rng.integers(1, 4)) for line in lines)
    same(body, str(rng.choice([*VALUES])), POINTS[:6])
