"""Programs whose trips look alike and are not: each must be right, or unrolled."""

import itertools
from collections import deque

import numpy as np


def view_by_a_moving_index(x):
    u = np.zeros((30, 3))
    u[:] = x
    for k in range(30):
        row = u[k]
        row *= k + 1.0
    return np.sum(u**2)


def entry_read_while_stores_pass(x):
    u, s = np.zeros(40), 0.0
    u[10] = x[0]
    for k in range(40):
        s = s + u[10] * x[1]
        u[k] = s * 0.1 + x[2]
    return s


def float_that_accumulates(x):
    t, s = 0.0, 0.0
    for _ in range(50):
        s = s + np.sin(x[0] * t) * x[1]
        t += 0.1
    return s


def list_that_grows(x):
    out, y = [], x
    for _ in range(40):
        y = np.sin(y) + 0.1
        out.append(y)
    return np.sum(np.stack(out) ** 2) + out[7][0]


def handle_of_trip_20(x):
    y, keep = x, None
    for k in range(40):
        y = y * 1.01 + x
        if k == 20:
            keep = y
    return np.sum(keep * y)


def lag_of_three(x):
    a = b = c = x[0]
    for _ in range(40):
        a, b, c = b, c, 0.3 * a + 0.3 * b + np.sin(c) * x[1]
    return a + b * c


def arrays_swapped_in_place(x):
    a, b = np.zeros(3), np.zeros(3)
    a[:] = x
    for _ in range(40):
        b[:] = np.sin(a)
        a, b = b, a
    return np.sum(a * b)


def sign_of_zero(x):
    s = 0.0
    for k in range(20):
        s = s + x[0] * (0.0 if k % 2 else -0.0) + np.copysign(x[1], -0.0 if k % 4 == 1 else 0.0)
    return s * x[0]


def int_then_float(x):
    s = x[0]
    for k in range(30):
        s = s * (1 if k < 15 else 1.0) + x[1] * 0.1
    return s * s


def list_with_indices_that_turn(x):
    st = [x[0], x[1], x[2]]
    for k in range(30):
        st[k % 3] = st[(k + 1) % 3] * 0.9 + np.sin(st[(k + 2) % 3])
    return st[0] + st[1] * st[2]


def negative_indices(x):
    u = np.zeros(20)
    u[:] = 1.0
    u[0] = x[0]
    for k in range(15):
        u[k] = u[k - 1] * x[1] + u[-k - 1]
    return np.sum(u)


def slices_that_shrink(x):
    u = np.zeros(30)
    u[:] = x[0]
    for k in range(25):
        u[k:] = u[k:] * x[1]
    return np.sum(u)


def views_in_place(x):
    cov, d = np.zeros((3, 3)), np.zeros(3)
    cov[:] = np.outer(x, x)
    for _ in range(30):
        cov += 0.01 * cov.T
        diagonal = cov[1]
        diagonal += x * 0.1
        d += cov[1]
    return np.sum(d * cov[0])


# ---------------------------------------------------------------------------------- twenty more


def closures_made_in_each_trip(x):
    s, kept = x[0], []
    for k in range(25):
        kept.append(lambda z: z * x[1] + 0.1 * k)
        s = np.tanh(kept[k // 2](s))
    return s + kept[3](x[2])


def dict_by_trip(x):
    seen, s = {}, x[0]
    for k in range(30):
        seen[k] = np.sin(s + x[1])
        s = 0.5 * s + seen[k - 5 if k > 5 else 0]
    return s + seen[11]


def generator_with_state(x):
    def states(y):
        while True:
            y = np.cos(y) * x[1]
            yield y

    s = 0.0
    for k, y in zip(range(35), states(x), strict=False):
        s = s + np.sum(y) / (k + 1)
    return s


def accumulated(x):
    steps = [x * (0.1 + 0.01 * k) for k in range(30)]
    out = list(itertools.accumulate(steps, lambda a, b: np.sin(a) + b))
    return np.sum(out[-1]) + out[4][1]


def early_break(x):
    s = x[0]
    for k in range(60):
        s = s * 1.05 + 0.01 * x[1]
        if k * k > 900:
            break
    return s * k


def break_on_data(x):
    s = x[0]
    for k in range(60):
        s = s * 1.08 + 0.01 * x[1]
        if s > 1.7:
            break
        x[2] = x[2] + 0.01 * k
    return s * s + k * x[2]


def else_clauses(x):
    s = x[0]
    for k in range(24):
        for _ in range(k % 4):
            if s > 5.0:
                break
            s = 0.9 * s + x[2]
        else:
            s = np.sin(s) * x[1]
    return s


def exception_in_a_trip(x):
    s, table = x[0], {3: x[1], 9: x[2], 20: x[0]}
    for k in range(25):
        try:
            s = 0.9 * s + table[k]
        except KeyError:
            s = np.sin(s) + 0.05 * x[1]
    return s


def view_of_a_view_in_place(x):
    u = np.zeros((20, 4, 3))
    u[:] = x
    for k in range(20):
        plane = u[k]
        part = plane[1:3]
        part[:, k % 3] += np.sin(plane[0, 1]) * 0.1 * k
        part *= x[2]
    return np.sum(u**2)


def two_names_of_one_array(x):
    a = np.zeros(3)
    a[:] = x
    b = a
    for k in range(30):
        b[k % 3] = np.sin(a[(k + 1) % 3]) + 0.1
        if k == 17:
            b = a.copy()
    return np.sum(a * b)


def counter_that_is_a_float(x):
    k, u = 0.0, np.zeros(30)
    while k < 30:
        u[int(k)] = np.sin(x[0] * k) + (u[int(k) - 1] * x[1] if k else 0.0)
        k += 1.0
    return np.sum(u**2)


def number_that_doubles(x):
    h, s = 1e-3, x[0]
    for _ in range(20):
        s = s + h * np.sin(s * x[1])
        h *= 1.5
    return s


def numpy_scalars(x):
    t, s = np.float64(0.0), x[0]
    for k in np.arange(25):
        s = s + np.sin(t) * x[1] / (k + np.int64(1))
        t = t + np.float64(0.25)
    return s * t


def flag_that_flips(x):
    flag, s, a = True, x[0], x[1]
    for _ in range(31):
        s, a = (np.sin(s + a), a) if flag else (s, 0.9 * a + s)
        flag = not flag
    return s * a


def window_in_a_deque(x):
    window, s = deque([x[0], x[1], x[2]], maxlen=3), 0.0
    for k in range(30):
        window.append(np.tanh(window[0] + 0.5 * window[-1]) + 0.01 * k)
        s = s + sum(window)
    return s


class Counter:
    def __init__(self, value):
        self.value, self.trips, self.history = value, 0, [value]

    def step(self, by):
        self.value = self.value * by + 0.1 / (1 + self.trips)
        self.trips += 1
        if self.trips % 7 == 0:
            self.history.append(self.value)


def state_in_attributes(x):
    c = Counter(x[0])
    for k in range(30):
        c.step(np.cos(x[1] + 0.1 * k))
    return c.value + sum(c.history) * x[2] + c.trips


def recursion(x):
    def down(n, s):
        return s if n == 0 else down(n - 1, np.sin(s) + x[n % 3] * 0.1)

    s = x[0]
    for k in range(20):
        s = down(k % 3, s) * 0.9
    return s


def equal_until_the_last_trip(x):
    s = x[0]
    for k in range(40):
        y = np.sin(s)
        s = 0.5 * s + (y if k < 39 else x[2] * y)
    return s


def constant_array_that_changes(x):
    c, s = np.array([0.1, 0.2, 0.3]), 0.0
    for k in range(30):
        s = s + c @ x * 0.1
        c[k % 3] += 0.05
    return s * s


def operand_made_anew_or_kept(x):
    a, s = x * 2.0, x[0]
    for k in range(36):
        if k % 12 == 0:
            a = np.cos(a)
        s = 0.8 * s + a[k % 3]
    return s


def result_of_one_trip_for_ever(x):
    s, first = x[0], None
    for k in range(30):
        y = np.sin(s * x[1] + 0.01 * k)
        first = y if first is None else first
        s = 0.9 * s + first * 0.1
    return s + first


def zero_trips(x):
    s, u = x[0], np.zeros(3)
    for n in (0, 5, 0, 12, 0):
        for k in range(n):
            u[k % 3] = s
            s = np.sin(s) + x[1] * u[(k + 1) % 3]
    return s


def permuted_arguments(x):
    a, b = x[0], x[1]
    for k in range(30):
        y = a / b if k % 5 == 4 else b / a
        a, b = 0.5 * a + 0.1 * y, 0.9 * b + 0.05
    return a * b


def boolean_is_not_one(x):
    s = x[0]
    u = np.zeros(2)
    for k in range(24):
        s = 0.9 * s + x[1] * (True if k > 11 else 1)
        u[k > 11] = s
    return s + u[0] * u[1]


def table_grows_by_concatenation(x):
    u = x
    for k in range(15):
        u = np.concatenate((u, [np.sin(u[k]) * x[1]]))
    return np.sum(u**2)


def reversed_view_of_itself(x):
    u = np.linspace(0.1, 1.0, 12)
    u[:3] = x
    for k in range(20):
        u[1:] = 0.9 * u[:-1][::-1] + 0.01 * k
        u[k % 12] *= x[1]
    return np.sum(u * np.arange(12))


def early_return_value(x):
    def search(y, limit):
        for k in range(30):
            y = 1.1 * y + 0.05 * x[2]
            if y > limit:
                return y, k
        return y, -1

    s = 0.0
    for limit in (0.9, 1.2, 50.0, 1.5):
        y, k = search(x[0], limit)
        s = s + y * (k + 1)
    return s


def stored_row_is_the_carry(x):
    u = np.zeros((25, 3))
    state = u[0]
    state[:] = x
    for k in range(1, 25):
        u[k] = np.sin(state) + 0.1
        state = u[k]
        if k == 10:
            u[k - 1] = 0.0
    return np.sum(u**2) + state[0]


def mean_by_count(x):
    mean, m2 = 0.0, 0.0
    for n, z in enumerate((np.arange(40) % 7) * 0.2, start=1):
        y = np.sin(z * x[0]) + x[1]
        d = y - mean
        mean = mean + d / n
        m2 = m2 + d * (y - mean)
    return m2 / mean


def views_taken_before_the_stores(x):
    u, s = np.zeros((40, 3)), 0.0
    u[:] = x
    rows = [u[k] for k in range(40)]
    for k in range(39):
        u[k + 1] = np.sin(u[k]) + 0.1
        s = s + rows[k + 1][1] * u[k, 0]
    return s * u[7, 2]


def entry_that_is_stored_into_later(x):
    a, b, s = np.zeros(3), np.zeros(3), x[2]
    a[:], b[:] = x, np.cos(x)
    rows = [a, b] * 20
    for k in range(40):
        s = 0.9 * s + np.sum(rows[k])
        if k > 30:
            a[k % 3] = 0.1 * k
    return s * s


def row_copied_in_its_array(x):
    u, s = np.zeros((6, 3)), x[0]
    u[:] = x
    for k in range(40):
        u[k % 6] = u[(k + 1) % 6]
        u[(k + 2) % 6] = np.sin(u[k % 6]) + 0.1
        if k % 11 == 10:
            s = s + np.sum(u)
    return s


def carries_that_do_not_depend_on_the_input(x):
    table, a, b, kept = np.zeros((24, 3)), x[0] * x[1], x[2], np.zeros(3)
    table[0], table[1] = x, 0.3
    for _ in range(12):
        first = 0.9 * a
        kept = 0.09 * x
        a = np.tanh(np.mean(table[:, 1][2:5]))
    return np.sum(kept * np.zeros(3)) + first * 0.3 + b
