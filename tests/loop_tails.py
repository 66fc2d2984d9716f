"""Loops that take entries and windows of slices whose length changes: ``u[k:][:3]``.

Each must be right, or unrolled: such slices live on, are stored into, and end where arrays do.
"""

import numpy as np


def windows_of_tails(x):
    t, s = np.zeros((24, 3)), x[0]
    t[0], t[1] = x, 0.3
    for k in range(20):
        s = np.sin(s) + 0.1 * np.sum(t[k // 2 :][:3, 1])
        t[k + 1] = s * x
    return s + np.sum(t * t)


def entries_of_tails(x):
    u, s = np.arange(30.0) * x[0], x[1]
    for k in range(20):
        s = np.sin(s) + 0.1 * u[k:][0] * u[k:][1:6:2].sum()
    return s * x[2]


def stores_by_tails(x):
    u, s = np.zeros(30), x[1]
    u[0] = x[0]
    for k in range(20):
        u[k:][1:3] = s * 0.9
        u[k:][0] += 0.1 * s
        s = np.sin(s + u[k // 3 :][2])
    return s + np.sum(u * u)


def tails_that_live_on(x):
    u, s, kept = np.zeros(30), x[1], []
    u[0] = x[0]
    for k in range(20):
        w = u[k:]
        w[0] = np.sin(s)
        s = s + 0.1 * w[1] * w[0]
        u[k + 2] = s * 0.5
        kept.append(w)
    return s + np.sum(u) + sum(np.sum(w * w) for w in kept)


def tail_of_the_trip_before(x):
    u, s = np.zeros(30), x[1]
    u[0], w = x[0], u[3:]
    for k in range(20):
        s = s + 0.1 * w[0]
        z, w = w, u[k:]
        u[k] = np.sin(s) + 0.1 * z[1]
    return s + np.sum(u * u)


def tail_of_an_array_that_gets_another_name(x):
    u, s = np.zeros(30), x[1]
    u[:] = x[0]
    for k in range(20):
        w = u[k:]
        u = u * 0.95
        w[0] = np.sin(s)
        s = s + 0.1 * w[0] * u[k] + w[1]
    return s + np.sum(u * u)


def tail_of_a_buffer_that_is_swapped(x):
    a, b, s = np.zeros(30), np.zeros(30), x[1]
    a[:], b[:] = x[0], x[2]
    for k in range(20):
        w = a[k:]
        a, b = b, a
        a[k + 1] = 0.9 * s
        b[k + 1] = s * x[2]
        s = np.sin(s) + 0.1 * w[1]
    return s + np.sum(a * b)


def tails_that_end_with_the_array(x):
    u, s = np.zeros(20), x[1]
    u[0] = x[0]
    for k in range(20):
        s = np.sin(s) + 0.1 * np.sum(u[k:][:3])
        u[k] = s
    return s + np.sum(u)


def whole_tail_in_one_trip(x):
    u, s = np.arange(30.0) * x[0], x[1]
    for k in range(25):
        s = np.sin(s) + (0.01 * np.sum(u[k:]) if k == 15 else 0.1 * u[k:][2])
    return s * x[2]


def whole_tails_beside_entries(x):
    u, s = np.arange(30.0) * x[0], x[1]
    for k in range(25):
        w = u[k // 2 :]
        s = np.sin(s) + 0.1 * w[1] + 0.01 * np.sum(w)
    return s * x[2]


def two_tails_in_turn(x):
    u, t, s = np.arange(30.0) * x[0], np.outer(np.arange(30.0), x), x[1]
    for k in range(20):
        w, z = u[k:], t[k + 2 :]
        s = np.sin(s) + 0.1 * z[0, 1] * w[3] + 0.1 * z[1:3][0, 2]
    return s


def tails_of_views(x):
    t, s = np.outer(np.arange(3.0), np.arange(1.0, 25.0)) * x[2], x[1]
    for k in range(20):
        s = np.sin(s) + 0.1 * t.T[k:][2:4].T[1, 0] + 0.1 * t[1][k:][1]
        t.T[k:][0] *= 0.9 * x[0]
    return s + np.sum(t)


def tails_from_the_end(x):
    u, s = np.arange(30.0) * x[0], x[1]
    for k in range(25):
        s = np.sin(s) + 0.1 * u[-k - 1 :][0] + 0.01 * u[k:][-1] + 0.01 * u[25 - k :][1]
    return s * x[2]


def keys_that_leave_the_tail(x):
    u, s, missed = np.arange(30.0) * x[0], x[1], 0
    for k in range(28):
        try:
            s = np.sin(s) + 0.1 * u[k:][8]
        except IndexError:
            missed += 1
    return s * x[2] + missed


def branches_beside_tails(x):
    u, s = np.zeros(40), x[1]
    u[:] = x[0]
    for k in range(35):
        if s > 0.6123:
            s = 0.5 * s + u[k:][1]
        else:
            s = s + 0.3 * u[k // 2 :][2:4].sum()
            u[k:][3] = np.cos(s)
    return s + np.sum(u)


def tails_in_inner_loops(x):
    u, s = np.zeros(40), x[1]
    u[:] = x[0] * np.cos(np.arange(40.0))
    for k in range(14):
        for j in range(15):
            s = 0.9 * s + 0.1 * u[k:][j]
        u[k] = np.tanh(s)
    return s + np.sum(u * u)


def argument_stored_into_by_tails(x):
    s = x[1] * 1.0
    for k in range(18):
        w = x[k % 3 :]
        w[0] = 0.9 * w[0] + 0.05 * np.sin(s)
        s = s + 0.1 * w[0]
    return s + np.sum(x * x)
