"""Programs with loops of 12 and more iterations in loops: inner ones are items of outer ones."""

import numpy as np


def sweeps(x):
    u = x * 1.0
    for _ in range(18):
        u = u + 0.1 * np.sin(u)
        for _ in range(13):
            u = u - 0.01 * u * u * x
        u = u * 0.99
    return np.sum(u)


def counters_of_both(x):
    total = 0.0
    for i in range(18):
        s = x[0] * 0.1
        for j in range(13):
            s = 0.9 * s + np.sin(x[1] * j + 0.1 * i)
        total = total + s * i
    return total


def triangle(x):
    total = 0.0
    for i in range(26):
        s = x[0]
        for _ in range(i):
            s = s + 0.1 * np.sin(s * x[1])
        total = total + s * s
    return total


def shrinking(x):
    total = 0.0
    for i in range(24):
        s = x[0]
        for j in range(i + 1, 24):
            s = 0.9 * s + 0.1 * np.cos(x[2] * j)
        total = 0.5 * total + s
    return total


def another_number_from_trip_twelve_on(x):
    u = x * 1.0
    for i in range(26):
        u = u + 0.1 * np.sin(u)
        for _ in range(15 if i < 12 else 13):
            u = u - 0.01 * u * u * x
        u = 0.99 * u
    return np.sum(u)


def every_other_one_is_longer(x):
    u = x * 1.0
    for i in range(20):
        u = u + 0.1 * np.sin(u)
        for _ in range(14 + i % 2):
            u = u - 0.01 * u * u * x
    return np.sum(u)


def breaks_in_the_middle(x):
    u = x * 1.0
    for i in range(20):
        u = u + 0.1 * np.sin(u)
        for j in range(20):
            u = 0.9 * u
            if j == 12 + i % 3:
                break
            u = u + 0.01 * np.cos(u)
        u = u * x
    return np.sum(u)


def breaks_where_values_are_large(x):
    u = x * 1.0
    for _ in range(16):
        u = u * 0.3
        for _ in range(20):
            u = u + 0.05 * np.cos(u)
            if np.sum(u) > 2.2:
                break
    return np.sum(u * u)


def a_new_array_in_each_trip(x):
    total = 0.0
    for _ in range(26):
        y = np.zeros(13)
        for j in range(13):
            y[j] = 0.1 * x[0] * j + total
        total = 0.1 * total + 0.02 * np.sum(np.sin(y))
    return total


def an_array_from_outside(x):
    u = np.zeros(13)
    u[0] = x[0]
    for i in range(18):
        u[1] += 0.1 * x[1]
        for j in range(1, 13):
            u[j] = 0.5 * u[j] + 0.4 * np.sin(u[j - 1] + 0.01 * i)
    return np.sum(u * x[2])


def rows_of_a_table(x):
    table = np.outer(np.linspace(0.1, 1.0, 18), x)
    total = 0.0
    for i in range(18):
        row = table[i]
        for j in range(13):
            total = 0.9 * total + np.sin(row[j % 3] if j < 0 else row[0]) * np.sum(row)
    return total


def a_table_by_both_counters(x):
    u = np.zeros((16, 14))
    for i in range(16):
        s = np.sin(x[0] * i)
        for j in range(14):
            u[i, j] = s * np.cos(x[1] * j)
        s = s * u[i, 3]
        u[i, 0] = s
    return np.sum(u * u)


def states_in_a_list(x):
    u, log = x[0], []
    for _ in range(18):
        states = []
        for _ in range(13):
            u = np.sin(u) * x[1] + 0.1
            states.append(u)
        u = u + states[3] * states[-2]
        log.append(states[5])
    return u + log[3] * log[-1] + np.sum(np.stack(log))


def all_states_in_one_list(x):
    u, log = x * 1.0, []
    for _ in range(16):
        u = 1.01 * u
        for _ in range(13):
            u = u - 0.05 * np.sin(u)
            log.append(u)
    return np.sum(log[0] * log[100] + log[-1] * log[150]) + np.sum(np.stack(log[::7]))


def lists_from_the_trip_before(x):
    cells = [x[0] * k for k in range(13)]
    for _ in range(16):
        s, new = x[1], []
        for k in range(13):
            s = 0.5 * s + np.sin(cells[k])
            new.append(s)
        cells = new
    return np.sum(np.stack(cells))


def views_of_the_inner_loop(x):
    u = np.outer(x, x)
    total = 0.0
    for _ in range(16):
        u = 0.99 * u
        for j in range(13):
            u = u + 0.01 * np.sin(u)
            row = u[j % 3]
        total = total + np.sum(row * row)
    return total


def a_view_is_stored_into(x):
    u = np.outer(x, x)
    for i in range(16):
        row = u[i % 3]
        for _ in range(13):
            row *= 0.99
            row += 0.001 * x
        u = u + 0.01
    return np.sum(u * u)


def a_handle_of_the_first_trip(x):
    first = None
    u = x * 1.0
    for i in range(18):
        for j in range(13):
            u = u + 0.01 * np.sin(u)
            if i == 2 and j == 4:
                first = u
        u = 0.9 * u
        if i > 15:
            u = u + first
    return np.sum(u)


def two_inner_loops(x):
    a, b = x[0], x[1]
    for _ in range(16):
        for _ in range(13):
            a = a + 0.01 * np.sin(b)
        for _ in range(14):
            b = b - 0.01 * np.cos(a)
        a, b = b, a
    return a * b


def three_deep(x):
    u = x * 1.0
    for _ in range(17):
        u = 0.9 * u
        for _ in range(17):
            u = u + 0.01
            for _ in range(12):
                u = u - 0.001 * np.sin(u)
            u = 1.01 * u
        u = np.cos(u)
    return np.sum(u)


def nothing_but_loops(x):
    u = x[0]
    for i in range(16):
        for j in range(13):
            u = u + 0.01 * np.sin(u * j + i)
    return u


def aliases(x):
    a = x * 1.0
    for _ in range(16):
        b = a
        for _ in range(13):
            a = a + 0.1 * np.sin(b)
        a = a * 0.4 + 0.3 * b
    return np.sum(a)


def two_steps_back(x):
    u = x * 1.0
    for _ in range(16):
        old, new = u, 0.9 * u
        for _ in range(14):
            old, new = new, 1.9 * new - 0.95 * old + 0.001 * np.sin(u)
        u = np.cos(new)
    return np.sum(u)


def a_float_of_the_outer_loop(x):
    u, t = x[0], 0.0
    for _ in range(16):
        t = t + 0.1
        for j in range(13):
            u = u + 0.01 * np.sin(u * t + 0.05 * j)
        u = 0.9 * u
    return u


def a_branch_in_the_outer_loop(x):
    u = x * 1.0
    for _ in range(18):
        for _ in range(13):
            u = u + 0.01 * np.cos(u)
        u = 0.9 * u if np.sum(u) > -100.0 else np.sin(u)
    return np.sum(u)


class Model:
    def __init__(self, x):
        self.q, self.log, self.steps = x * 1.0, [], 0

    def run(self):
        for _ in range(13):
            self.steps += 1
            self.q = self.q - 0.02 * np.sin(self.q)
        self.log.append(np.sum(self.q))


def an_object(x):
    model = Model(x)
    for _ in range(16):
        model.run()
        model.q = model.q * (1.0 + 0.001 * model.steps)
    return np.sum(model.q) + model.log[4] * model.log[-1]
