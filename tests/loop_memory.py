"""Programs whose trips make local arrays that become traced by views of them."""

import numpy as np


def accumulated_by_pairs(x):
    p, v = np.outer(np.arange(1.0, 4.0), x), np.zeros((3, 3))
    for _ in range(30):
        a = np.zeros((3, 3))
        for i in range(3):
            for j in range(i):
                d = p[j] - p[i]
                f = d / (d @ d + 0.5)
                a[i] += f
                a[j] -= f
        v = v + 0.01 * a
        p = p + 0.01 * v
    return np.sum(p * p) + np.sum(v)


def view_by_a_moving_index(x):
    u, total = np.sin(x), 0.0
    for k in range(40):
        a = np.full((4, 3), 0.1)
        a[k % 4] += u
        a[(k + 1) % 4, 1:] *= u[:2]
        u = np.tanh(a[k % 4] + 0.1 * a[3] + a[0])
        total = total + np.sum(a * a)
    return total


def views_of_several_kinds(x):
    u = np.sin(x)
    for k in range(40):
        a = np.zeros((4, 3))
        row, part, steps, all_of_it = a[1], a[2:, 1:], a[::2], a[:]
        row += u
        part[:, 0] += 0.3 * u[:2]
        steps[1] *= u
        all_of_it[3, 2] = 0.01 * k
        u = np.cos(0.7 * u + np.sum(a, axis=0) + 0.1 * steps[1] + 0.2 * part[1, 1])
    return np.sum(u * u)


def view_that_lives_on(x):
    u, kept = np.sin(x), []
    for k in range(30):
        a = np.zeros(6)
        v = a[1:4]
        v += u
        kept.append(v)
        a[2] = 0.3 * u[0]
        u = 0.9 * np.sin(a[:3] + v) + 0.01 * k
        if k > 20:
            kept[k - 3][0] += 0.1 * u[1]
    return np.sum(np.stack(kept) ** 2) + kept[5][1] * u[0]


def content_that_differs(x):
    u = np.sin(x)
    for k in range(40):
        a = np.full((2, 3), 0.01 * k)
        a[k % 2] += u
        u = 0.8 * np.cos(a[0] + a[1]) + 0.1 * u
    return np.sum(u)


def content_that_differs_once(x):
    u = np.sin(x)
    for k in range(40):
        a = np.zeros((2, 3))
        if k == 33:
            a[1, 2] = 0.5
        a[0] += u
        u = 0.8 * np.cos(a[0] + a[1]) + 0.1 * a[1, 2]
    return np.sum(u)


def other_view_once(x):
    u = np.sin(x)
    for k in range(40):
        a = np.full((3, 3), 0.2)
        v = a.T[0] if k == 31 else a[0]
        v += u
        u = 0.8 * np.cos(a[0] + a[:, 1]) + 0.1 * a[1]
    return np.sum(u)


def one_more_view_once(x):
    u, w = np.sin(x), None
    for k in range(40):
        a = np.full((3, 3), 0.2)
        if k == 29:
            w = a[1]
        v = a[0]
        v += u
        a[1] *= u
        u = 0.8 * np.cos(a[0] + a[1]) + 0.1 * a[2]
    return np.sum(u) + np.sum(w)


def transposed_and_reversed(x):
    u = np.sin(x)
    for _ in range(30):
        a, b = np.zeros((2, 3)), np.zeros(3)
        a.T[:, 1] += u
        b[::-1] += u
        u = 0.8 * np.cos(a[1] + 0.2 * b) + 0.1 * a[0]
    return np.sum(u)


def reshaped_memory(x):
    u = np.sin(x)
    for k in range(30):
        a = np.zeros(6)
        m = a.reshape(2, 3)
        m[1] += u
        a[k % 6] = 0.1 * u[2]
        u = 0.8 * np.cos(a[3:] + m[0]) + 0.01 * k
    return np.sum(u)


def array_from_the_trip_before(x):
    a, u = np.zeros((2, 3)), np.sin(x)
    for k in range(40):
        a[0] += u
        old, a = a, np.full((2, 3), 0.01 * k)
        u = 0.7 * np.cos(old[0] + old[1])
        old[1, 0] = 2.0
    return np.sum(u) + np.sum(a)


def given_to_a_function(x):
    def fill(rows, u, k):
        for j, row in enumerate(rows):
            row[:] = row + u * (j + 1)
            row[k % 3] -= 0.1
        return rows

    u = np.sin(x)
    for k in range(30):
        u = 0.8 * np.cos(fill(np.zeros((2, 3)), u, k)[1])
    return np.sum(u)


def ghost_cells(x):
    u = np.zeros(5)
    u[1:-1] = x
    inner, flux = u[1:-1], np.empty_like(u[1:-1])
    for _ in range(40):
        u[0], u[-1] = u[-2], u[1]
        np.add(u[:-2], u[2:], out=flux)
        flux -= 2 * inner
        inner += 0.1 * flux - 0.01 * inner * inner
    return np.sum(inner * x) + u[0]


def stored_by_a_view_alone(x):
    u = np.outer(x, x)
    row = u[1]
    for k in range(40):
        row *= 0.9
        row[k % 3] += 0.1 * x[0]
    return np.sum(u * u)


def views_that_overlap(x):
    u = np.concatenate((x, np.cos(x)))
    a, b, c = u[:4], u[2:], u[::2]
    for k in range(40):
        a += 0.1 * np.sin(b)
        b[k % 4] = a[3] * 0.5
        c -= 0.05 * a[1:]
    return np.sum(u * u) + np.sum(b * a)


def another_view_from_one_trip_on(x):
    u = np.concatenate((x, np.cos(x)))
    v = u[:3]
    for k in range(40):
        u[k % 6] += 0.1 * np.sin(v[1])
        v *= 0.98
        if k == 25:
            v = u[3:]
    return np.sum(u * u) + np.sum(v)


def another_array_from_one_trip_on(x):
    u = np.concatenate((x, np.cos(x)))
    v = u[1:4]
    for k in range(40):
        u[k % 6] += 0.1 * np.sin(v[1])
        v *= 0.98
        if k == 25:
            u = u.copy()
    return np.sum(u * u) + np.sum(v * x)


def swept_twice(x):
    def sweep(u, v, trips):
        for k in range(trips):
            u[k % 6] += 0.1 * np.sin(v[1])
            v *= 0.98

    u, w = np.concatenate((x, np.cos(x))), np.concatenate((np.sin(x), x))
    sweep(u, u[1:4], 30)
    sweep(w, w[1:4], 25)
    sweep(u, u[2:5], 20)
    sweep(w, u[1:4], 20)
    sweep(u, w[1:4] * 1.0, 20)
    sweep(u, u[1:4], 20)
    return np.sum(u * w) + w[1]


def view_of_a_view_transposed(x):
    u = np.outer(x, np.cos(x))
    t = u.T[1:][:, ::2]
    for k in range(40):
        t += 0.01 * u[k % 3, 1:]
        u[0] *= 0.95 + 0.1 * t[1, 1]
    return np.sum(u * u) + np.sum(t)


def copied_by_reshape(x):
    u = np.outer(x, np.cos(x))
    r, s = u.T.reshape(9), u.reshape(9)
    for k in range(40):
        u[k % 3] *= 0.95
        s += 0.01 * r * x[0]
    return np.sum(u * u) + np.sum(r)


def view_kept_of_each_trip(x):
    u, kept = np.outer(x, np.cos(x)), []
    v = u[1]
    for k in range(40):
        v += 0.01 * np.sin(u[0])
        u[0] = 0.9 * v
        kept.append(v[1:] if k % 2 else u[0, 1:])
    return np.sum(u * u) + np.sum(np.stack(kept) * x[:2])
