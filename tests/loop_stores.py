"""Programs whose trips store into arrays of earlier ones, read windows, and make local arrays."""

import numpy as np


def boundary_first(x):
    u = np.sin(np.outer(x, x))
    for _ in range(40):
        u[0] = 0.5 * x
        u[:, 2] = u[1] * 0.9
        u = 0.99 * u + 0.01 * np.sin(u)
    return np.sum(u * u)


def log_of_what_is_stored_into(x):
    u, H = np.sin(x), []
    for k in range(40):
        u[k % 3] = 0.5 * x[0] * u[1]
        H.append(u)
        u = 0.97 * u + 0.01
    return np.sum(np.stack(H) ** 2) + H[3][1] * H[-1][0] * u[2]


def stored_three_trips_later(x):
    a, b, c, H = np.sin(x), np.cos(x), x * x, []
    for _ in range(40):
        c[1] *= 0.9 * a[0]
        d = 0.3 * a + 0.5 * b * c
        H.append(d)
        a, b, c = d, a, b
    return np.sum(a * b + c) + sum(h[1] for h in H) + np.sum(np.stack(H) * np.stack(H[1:] + H[:1]))


def stored_two_trips_later(x):
    a, b, H = np.sin(x), np.cos(x), []
    for k in range(40):
        b *= 0.95
        b[0] = x[1] * k * 0.01
        H.append(a[1:])
        a, b = 0.4 * a + 0.3 * np.tanh(b), a
    return np.sum(a * b) + sum(np.sum(h) for h in H) + H[7][0] * H[-1][1] * H[-2][0]


def view_carried_beside_its_array(x):
    u, v = np.sin(x), x[1:]
    for _ in range(40):
        s = np.sum(v)
        u[1] = 0.3 * s
        u = np.cos(u) * 0.9
        v = u[1:]
    return np.sum(u) + np.sum(v)


def view_taken_before_the_store(x):
    u, w = np.sin(x), np.sin(x)
    for _ in range(40):
        v = u[1:]
        u[1] = 0.3 * w[0]
        w = np.concatenate((v, [0.1 * x[0]]))
        u = np.cos(u) * 0.9 + w * 0.1
    return np.sum(u) + np.sum(v)


def array_before_the_loop_is_read(x):
    a = np.sin(x)
    u = a
    for _ in range(40):
        u[1] = 0.3 * x[0]
        u = np.cos(u) * 0.9 * a[1]
    return np.sum(u) + np.sum(a)


def array_before_the_loop_is_read_behind_it(x):
    a = np.sin(x)
    b = a[1:]
    u = a
    for _ in range(40):
        u[1] = 0.3 * x[0] * u[2]
        u = np.cos(u) * 0.9
    return np.sum(u) + np.sum(a * a) + b[0] * b[1]


def loop_met_again(x):
    u = np.sin(x)
    t = 0.0
    for _ in range(3):
        w = u.copy()
        for _ in range(30):
            w[1] = 0.3 * x[0] * w[2]
            w = np.cos(w) * 0.9 + 0.01 * u
        t = t + np.sum(w * w)
        for _ in range(3):
            t = np.sin(t)
        u = u + 0.01 * w
    return t


def values_asked_between_stores(x):
    u = np.sin(x)
    for _ in range(40):
        u[1] = 0.3 * x[0] * u[2]
        if u[1] > 5.0:
            break
        u = np.cos(u) * 0.9
        if np.sum(u) < -3.0:
            raise ValueError
    return np.sum(u * u)


def branches_between_stores(x):
    u = np.sin(x)
    for _ in range(60):
        u[1] = 0.3 * x[0] * u[2]
        u = np.cos(u) * 0.9 if u[0] > 0.7345 else np.sin(u) + 0.3
    return np.sum(u * u)


def trip_cut_short_behind_a_store(x):
    u = np.sin(x)
    s = 0.0
    for k in range(40):
        s = s + u[0]
        u[0] = 0.1 * x[1] * s
        if k == 37:
            break
        u[2] *= 0.7
        u = np.cos(u) * 0.9
    return np.sum(u * u) + s


def two_arrays_take_turns(x):
    a, b = np.sin(x), np.cos(x)
    for k in range(40):
        a[k % 3] = 0.5 * b[0]
        a, b = np.tanh(a + b), a
    return np.sum(a * b)


def windows_of_a_vector(x):
    y, s = np.outer(np.arange(1.0, 21.0), x).ravel() * 0.1, 0.0
    for k in range(30):
        s = 0.9 * np.sin(s) + np.sum(y[k : k + 3] * y[k + 1 : k + 4])
        y[k : k + 2] += 0.1 * y[2 * k % 7 : 2 * k % 7 + 2] * s
    return s + np.sum(y * y)


def windows_of_a_table(x):
    y, s = np.outer(np.arange(1.0, 31.0), x) * 0.1, 0.0
    for k in range(27, 1, -1):
        s = 0.9 * np.sin(s) + np.sum(y[k - 1 : k + 2, 1:] ** 2) + y[k : k + 3 : 2, 0] @ x[:2]
    return s


def windows_that_become_wider(x):
    y, s = np.outer(np.arange(1.0, 31.0), x).ravel() * 0.1, 0.0
    for k in range(40):
        s = 0.9 * np.sin(s) + np.sum(y[k : k + (3 if k < 20 else 4)])
    return s


def windows_cut_by_the_end(x):
    y, s = np.outer(np.arange(1.0, 9.0), x).ravel() * 0.1, 0.0
    for k in range(24):
        s = 0.9 * np.sin(s) + np.sum(y[k : k + 3]) + np.sum(y[k - 2 : k + 1])
    return s


def indices_that_stay_for_some_trips(x):
    y, s = np.outer(np.arange(1.0, 9.0), x).ravel() * 0.1, 0.0
    for k in range(48):
        s = 0.9 * np.sin(s) + y[k // 2] * x[k // 16]
    return s


def local_arrays_like_traced_ones(x):
    v, M = x * 1.0, np.outer(x, 2 * x)
    for k in range(30):
        w = np.zeros_like(v)
        w[k % 3] = v[0] * 0.9
        e, o = np.empty_like(M), np.ones_like(v)
        e[...] = M * 0.99
        o[1] = 0.1 * k
        v = 0.7 * np.sin(v) + w * o + 0.2 + np.sum(np.zeros_like(M) + e, axis=0) * 1e-2
        M = e
    return np.sum(v * v) + M[0, 1]


def local_arrays_kept(x):
    v, kept = x * 1.0, []
    for k in range(30):
        w = np.zeros_like(v)
        w[k % 3] = 0.1 * k
        kept.append(w)
        v = 0.7 * np.sin(v) + 0.1 * kept[k // 3]
    kept[4][0] += 1.0
    return np.sum(v * v) + np.sum(np.stack(kept) * x)


def stored_into_on_another_path(x):
    v, s, w = x * 0.7, 0.0, np.sin(1.7 * np.arange(60))
    for k in range(60):
        if w[k] * v[0] > -0.1234:
            v = np.sin(v + 0.3)
        else:
            v[k % 3] = 0.3 * x[0] * v[1]
        s = s + v[k % 3] * x[1]
    return s * np.sum(v)


def stored_into_on_another_path_and_kept(x):
    v, kept, w = x * 0.7, [], np.sin(1.7 * np.arange(40))
    for k in range(40):
        if w[k] * x[0] > 0.0123:
            v = np.tanh(v * 0.9 + 0.1)
            kept.append(v)
        else:
            v *= 0.8 * x[1]
    return np.sum(np.stack(kept) ** 2) + kept[3][1] * v[0]


def buffer_made_on_one_path(x):
    v, w = np.cos(x), np.sin(2.3 * np.arange(50))
    for k in range(50):
        if np.argmax(v) == k % 3:
            v = np.sin(w[k : k + 3] * x) if k < 40 else v * 0.9
        else:
            v[k % 3] = np.tanh(w[k] * x[2])
    return np.sum(v * x)


def local_array_given_back(x):
    v = np.zeros(3)
    for k in range(30):
        w = np.empty(3)
        for j in range(3):
            w[j] = 0.9 * v[j - 1]
        v = np.asarray(w)
        v[0] = np.tanh(x[k % 3])
    return np.sum(v * v)


def traced_array_given_back(x):
    v, kept = np.zeros(3), []
    for k in range(30):
        w = np.zeros(3)
        w[k % 3] = np.sin(x[0]) * v[1]
        v = np.asarray(w)
        v[1] = np.tanh(x[k % 3])
        kept.append(w)
    return np.sum(v * v) + np.sum(np.stack(kept) * x)
