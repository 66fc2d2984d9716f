"""Variables that hold None or floats of Python's on some paths, or are not read behind a loop."""

import numpy as np
import pytest
from test_choosing_loops import counted, unrolled

import fdiff

N = 40
W = np.sin(1.7 * np.arange(N) ** 1.3)
POINTS = [np.array([0.7, 0.3, 0.6]) * (1 + 0.6 * np.sin(np.arange(3) + 2 * k)) for k in range(4)]


def events(x):
    height, speed = 1.0 + x[0], 0.0
    for _ in range(N):
        speed -= 0.2
        height = height + 0.1 * speed
        if height < 0:
            height, speed = -height, -x[1] * speed
    return height + x[2] * height**2


def accepted_steps(x):
    t, y, h = 0.0, x[2], 0.01
    for k in range(N):
        slope = x[0] * np.cos(3.0 * t) - y
        if abs(h * slope) < 0.02 * x[1] or h < 0.001:
            t, y = t + h, y + h * slope
            h = h * 1.25
        else:
            h = h * max(0.3, 0.02 * x[1] / abs(h * slope))
        y = y + 0.001 * W[k]
    return y


def several_zeros(x):
    level, rest, peak = 0.0, 0.0, 0.0
    closed = False
    for _ in range(N):
        if level > 0.5:
            closed = True
        elif level < 0.2:
            closed = False
        level, rest = level + 0.1 * x[0] - 0.2 * level * closed, rest + 0.1 * level
        peak = level if level > 0.9 * peak else peak
    return peak + x[1] * rest


def sums_of_excess(x):
    up, down, mean, stat = 0.0, 0.0, 0.0, 0.0
    for k in range(N):
        z = 3 * W[k] - x[0]
        up, down = max(0.0, up + z - x[1]), max(0.0, down - z - x[1])
        if up > 2.0 + x[2] or down > 2.0 + x[2]:
            stat = up + down
            up = down = 0.0
        mean += (z - mean) / (k + 1)
    return stat + mean


def reads_the_last_trip(x):
    s = 3.0 + x[0]
    for k in range(N):
        s = s * 0.97 + 0.01 * W[k]
        if s < 1.5 + x[1]:
            break
    for k in range(k, N):  # noqa: B020 - from the trip that the loop was left in
        s = s + 0.01 * k * x[2]
    return s


def first_error(x):
    y, cost, before = 0.0, 0.0, None
    for k in range(N):
        error = (1.0 if k < N // 2 else -0.5) - y
        rise = 0.0 if before is None else error - before
        u = 3.0 * x[0] * error + x[2] * rise
        u = min(u, 0.5 + x[1])
        y = y + 0.3 * u
        cost += error**2
        before = error
    return cost


def may_be_none_again(x):
    s, kept, n = x[0], None, 0
    for k in range(N):
        s = s * 0.95 + 0.1 * W[k] * x[2]
        if s > 0.5 * x[1]:
            kept = s
        elif s < 0.02:
            kept = None
        if kept is not None:
            n += 1
            s = s + 0.01 * kept
    return s * n


def best_of_the_first(x):
    total, best, s = 0.0, None, x[0]
    for k in range(15):
        first = None
        for j in range(13):
            s = np.sin(s + 0.1 * j * x[1]) + 0.05 * k * x[2]
            if first is None and s > 0.8:
                first = s
        if first is not None:
            total = total + first
            if best is None or first > best:
                best = first
    return total if best is None else total * best


class Meter:
    def __init__(self):
        self.before = None

    def rise(self, level):
        rise = 0.0 if self.before is None else level - self.before
        self.before = level
        return max(rise, 0.01 * level)


def attribute(x):
    meter, s = Meter(), x[0]
    for k in range(N):
        s = s * 0.9 + 0.2 * W[k] * x[1] + 0.1 * meter.rise(s)
    return s * x[2] * meter.before


def spikes(x):
    v, rest, out = x[0], 0, 0.0
    for k in range(N):
        if rest > 0:
            v, rest = 0.0, rest - 1
        else:
            v = v + 0.1 * (x[1] * 4 + W[k] - v)
        if v > x[2]:
            out, rest = out + v, 3
    return out + v


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")  # of as many trips as are left
@pytest.mark.parametrize(
    ("f", "most"),
    [(events, 1), (accepted_steps, 1), (several_zeros, 1), (sums_of_excess, 1),
     (first_error, 1), (may_be_none_again, 1), (best_of_the_first, 2), (attribute, 1),
     (spikes, 2), (reads_the_last_trip, len(POINTS))],
)  # fmt: skip
def test_values_and_gradients(f, most, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert len(traces) <= most
    assert [own.refusals for own in drivers] == [{}] * len(drivers)
    for x, (value, _) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
    for x, (_, slope) in [*zip(POINTS, results, strict=True)][1::2]:
        expected = unrolled(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-13)


def divides(x):
    w, s = 3.0, x[0]
    for _ in range(N):
        if s > 0.5 + x[1]:
            w, s = w - 1.0, 0.2 * s + 0.1 / w
        else:
            s = s + 0.1
        if s > 100.0:
            w = s
    return s


def test_numbers_of_python_that_become_zero_raise_its_error(monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(divides)
    for x in [*POINTS[:2], np.array([0.1, 50.0, 0.0])]:
        try:
            expected = divides(x)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                run(x)
        else:
            np.testing.assert_allclose(run(x), expected, rtol=1e-12)
