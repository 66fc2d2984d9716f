"""Functions that branch on their argument and write to the outside: one program for all ways.

In each row the arms of branches write: the same, other values, other places, or nothing at all.
After each call everything must be as plain code leaves it, and the ways must have become one
program. The points are whole numbers, so that every tier computes the same.
"""

import contextlib
import io
import types

import numpy as np
import pytest
from faults_support import LONG
from writing_module import module, rows, state

import fdiff
from fdiff.dispatch import program
from fdiff.trace.trace_stack import occupied

# `|` begins a line. Each function has four ways at least.
MERGED = """
problem.nfev += 1 | if x[0] > 0: v = v * 2.0 | else: v = v - x[1]
if x[0] > 0: v = v * 2.0 | else: v = v - x[1] | problem.nfev += 1; hist.append(v)
calls += 1; v = v * calls | if x[0] > 0: v = v * 2.0 | else: v = v - x[1]
total += v | if x[0] > 0: total += v * 2.0 | else: total -= x[1]
hist.append(v) | if x[0] > 0: hist.append(x[0]) | else: hist.append(x)
if x[0] > 0: hist.append((v, "up", 1)) | else: hist.append((v, "down", 2.0))
if x[0] > 0: hist.append(v); pairs.append(x[0]) | else: pairs.append(x[1]); hist.append(v)
if x[0] > 0: hist.append(v); calls += 1; hist.append(calls) | else: hist.append(calls); calls += 2
if x[0] > 0: hist.append([v]); hist[-1].append(x) | else: hist.append({"v": v})
if x[0] > 0: hist.extend([v * k for k in range(9)]) | else: hist.append(-v)
if v < best: best = v; first = x
if v < best: best, first = v, (x, v, "best")
if v < problem.best: problem.best = v; problem.last = x; problem.nfev += 1
if v < table["f"] or x[0] > 1: table["f"] = v; table["x"] = x
calls += 1 | if v < best: best = v; hist.append((calls, v))
if x[0] > 0: problem.nfev += 1 | else: record.n += 1; record.last = v
if x[0] > 0: problem.nfev += 1 | else: slotted.n += 1
if x[0] > 0: problem.nfev += 1 | elif x[0] < -1: problem.nfev += 10 | else: v = v + 1.0
if x[0] > 0: problem.new = v | else: v = -v
if x[0] > 0: table["up"] = v | else: table["down"] = x
counter["up" if x[0] > 0 else "down"] += 1
groups["a" if x[0] > 0 else "b"].append(v)
(hist if x[0] > 0 else pairs).append(v)
(problem if x[0] > 0 else record).last = v
if x[0] > 0: Problem.instances += 1 | else: Problem.last = v
if x[0] > 0: queue.append(v) | else: queue.appendleft(x)
if x[0] > 0: print(v, file=out) | else: out.write(f"{x[0]} below; ")
if x[0] > 0: first = problem | else: first = None
if x[0] > 0: problem.inner.y += v | else: problem.inner.x += 1
f.calls += 1 | if x[0] > 0: f.last = v | else: f.last = x[1]
kept = inner(x); v = v + kept if x[0] > 0 else v - kept
"""
# Where numbers that are read anew decide, ways hold at some calls alone; or `f` has to run again.
APART = """
f.calls += 1 | if x[0] > 0: f.last = v | else: v = v * f.calls
calls += 1 | if calls % 3 == 0: v = v * 2.0 | if x[0] > 0: hist.append(v) | else: v = -v
if x[0] > 0 and problem.nfev < 7: problem.nfev += 1 | else: v = v + 1.0
if x[0] > 0: entries[0] = v | else: v = v + entries[0]
if x[0] > 0: hist.append(v) | else: v = v + len(hist)
if x[0] > 0: table["k"] = v | else: table.pop("k", None)
if x[0] > 0: hist.append(v) | elif hist: hist.pop()
if x[0] > 0: seen.add(float(x[1])) | else: seen.clear()
if x[0] > 0: calls = calls ** 2 + 1 | else: calls -= 1
if x[0] > 0: first = hist; hist = [v] | else: hist.append(v)
"""
COMMON = "global calls, total, best, first, hist | "
BRANCHES = " | if x[1] > x[2]: v = v + x[1] * x[2] | else: v = v - 3.0 * x[2]"
VALUES = ["value_and_grad", "jit", "vjp"]
NONLOCAL = "kept += 1; number = max(number, np.max(x)) if x[1] > 0 else number"
TIERS = ["interpret", "evaluate", "compile", ""]


def points(count, seed=1):
    rng = np.random.default_rng(seed)
    return [x.astype(float) for x in rng.integers(-3, 4, (count, 3))]


def text(body):
    lines = (COMMON + body + BRANCHES).split(" | ")
    lines[0] = lines[0] if "hist = " in body else lines[0].replace(", hist", "")
    return "\n    ".join(lines)


OPERATORS = {
    "value_and_grad": (fdiff.value_and_grad, lambda g, x: g(x)[0]),
    "jit": (fdiff.jit, lambda g, x: g(x)),
    "vjp": (fdiff.vjp, lambda g, x: g(x, np.array(1.0))[0]),
    "jvp": (fdiff.jvp, lambda g, x: g(x, np.ones(3))[0]),
    "jacobian": (fdiff.jacobian, None),
    "grad": (fdiff.grad, None),
    "hessian": (fdiff.hessian, None),
}


def same(body, name, given):
    """Whether plain code and an operator leave the same; the operator's function."""
    plain, traced = (module(text(body), NONLOCAL) for _ in range(2))
    prepare, value = OPERATORS[name]
    g = prepare(traced.f)
    for k, x in enumerate(given):
        expected, result = plain.f(x), g(x) if value is None else value(g, x)
        if value is not None:
            assert result == expected, (k, body)
            assert type(result) is type(expected)
        assert state(traced) == state(plain), (k, body)
    return g


def merged():
    """Whether the ways of the function that was called last are one program."""
    kept = [*program._programs.values()][-1].variants.values()
    return any(v.paths for variants in kept for v in variants)


@pytest.fixture(autouse=True)
def forgotten():
    fdiff.cache_clear()


@pytest.mark.parametrize("body", rows(MERGED))
def test_ways_that_write_are_one_program(body, monkeypatch):
    calls = []
    trace = program.trace_checking_memos
    monkeypatch.setattr(
        program, "trace_checking_memos", lambda given: calls.append(1) or trace(given)
    )
    monkeypatch.setenv("FDIFF_TIER", ["interpret", "compile"][len(body) % 2])
    given = points(30)
    same(body, VALUES[len(body) % 3], [*given, *given])
    assert merged()
    assert len(calls) < 40, "ways that are known are traced again"


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("body", rows(APART))
def test_what_numbers_decide_stays_apart(body):
    same(body, "value_and_grad", points(40))


@pytest.mark.slow
@pytest.mark.usefixtures("one_interpreter")
@pytest.mark.parametrize("name", OPERATORS)
def test_in_every_operator_and_tier(name, monkeypatch):
    for k, tier in enumerate(TIERS if LONG else TIERS[len(name) % 2 :: 2]):
        monkeypatch.setenv("FDIFF_TIER", tier)
        body = rows(MERGED)[(5 * len(name) + k) % 16]
        same(body, name, points(30))
        assert merged()


@pytest.mark.parametrize("body", rows(MERGED)[2:16:4])
def test_the_fast_path_writes_for_the_way_taken(body, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.delitem(occupied, "kinks", raising=False)  # as if nobody had asked for errors
    given = points(8) * 16
    g = same(body, "value_and_grad", given)
    assert isinstance(g.implementation, types.BuiltinFunctionType)


def test_each_object_has_its_own_writes():
    class Counted:
        def __init__(self):
            self.up, self.best, self.where = 0, np.inf, None

        def f(self, x):
            v = np.sum(x**2)
            if x[0] > 0:
                self.up += 1
            if v < self.best:
                self.best, self.where = v, x
            return v if x[1] > 0 else 2.0 * v

    plain, traced = [Counted() for _ in range(3)], [Counted() for _ in range(3)]
    for k, x in enumerate(points(90)):
        plain[k % 3].f(x)
        fdiff.grad(lambda x, c=traced[k % 3]: c.f(x))(x)
        for one, other in zip(plain, traced, strict=True):
            np.testing.assert_equal(vars(other), vars(one))


def test_objects_that_become_one_are_written_to_as_one():
    class Log:
        def __init__(self):
            self.n, self.values = 0, []

    def f(x, up, down):
        log = up if x[0] > 0 else down
        log.n += 1
        log.values.append(log.n)
        return x[1] if x[1] > 0 else x[0] * x[1]

    logs, others = [[Log(), Log()] for _ in range(2)]
    g, places = fdiff.grad(lambda x: f(x, *logs)), [*logs]
    for k, x in enumerate(points(120)):
        logs[:] = [places[0], places[k // 40 % 2]]  # one object for a while, then two again
        f(x, others[0], others[k // 40 % 2])
        g(x)
        assert [vars(log) for log in places] == [vars(log) for log in others], k


def test_text_is_shown_by_the_way_that_is_taken():
    body = 'print(f"{v:.1f} up") if x[0] > 0 else print("down", x[1]); print(problem.nfev)'
    body += " | problem.nfev += 1 if x[1] > 0 else 2"

    def shown(prepare):
        made, printed = module(text(body)), io.StringIO()
        with contextlib.redirect_stdout(printed):
            g = prepare(made.f)
            for x in points(60):
                g(x)
        return printed.getvalue(), state(made)

    assert shown(fdiff.grad) == shown(lambda f: f)
    assert merged()


def test_arms_that_are_not_taken_cost_no_warning(recwarn):
    problem = module("pass").problem
    problem.f = lambda x: sum(np.log(t) if t > 0 else t * t for t in x)

    def f(x):
        problem.nfev += 1
        return problem.f(x)

    g = fdiff.grad(f)
    given = [x + 0.5 for x in points(90)]
    for x in given:
        np.testing.assert_array_equal(g(x), np.where(x > 0, 1.0 / np.abs(x), 2 * x))
    assert problem.nfev == 90
    assert not recwarn.list


ARMS = """
v = v * 2.0
v = v - x[1]
calls += {k}
total += v
hist.append(v * {k})
hist.append((calls, x))
first = (v, {k})
table['f'] += v
table['n'] = {k}
problem.nfev += {k}
problem.trace.append(problem.nfev)
problem.last = v; problem.mean += v
problem.other = Point(v, x)
slotted.n += {k}; slotted.trace.append(x)
groups['a'].append(v); counter['b'] += {k}
v = v + total
v = v * calls
queue.append(v); bounded.append({k})
record.last = (v, record.n)
nested['a']['n'] += {k}; nested['log'].append(v)
spaced.best = min(spaced.best, v)
f.calls += {k}; f.last = x[0]
out.write(f"{{v}}")
"""
TESTS = ["x[0] > {k}", "x[1] * x[2] > 0", "v < best", "v > problem.best", "x[2] == {k}", "v > 9"]


@pytest.mark.slow
@pytest.mark.usefixtures("one_interpreter")
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("seed", range(400 if LONG else 10))
def test_random_programs(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    line = lambda of: str(rng.choice(of)).format(k=rng.integers(1, 4))
    body = [line(rows(ARMS)) for _ in range(rng.integers(0, 3))]
    for _ in range(rng.integers(1, 3)):
        arm = "; ".join(line(rows(ARMS)) for _ in range(rng.integers(1, 4)))
        body.append(f"if {line(TESTS)}: {arm}")
        body += [f"elif {line(TESTS)}: {line(rows(ARMS))}"] * int(rng.integers(0, 2))
        body += [f"else: {line(rows(ARMS))}"] * int(rng.integers(0, 2))
        body += ["best = v" if rng.integers(3) == 0 else "problem.best = min(problem.best, v)"]
    monkeypatch.setenv("FDIFF_TIER", TIERS[seed % 4])
    same(" | ".join(body), str(rng.choice([*OPERATORS])), points(40, seed))
